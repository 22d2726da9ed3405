#include "tests/unit/fake_device.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FAKE_BASE (UINT64_C(1) << 52) /* above every host address */

uint64_t fake_random(struct fake_device *fake)
{
    fake->random ^= fake->random << 13;
    fake->random ^= fake->random >> 7;
    fake->random ^= fake->random << 17;
    return fake->random;
}

/* Held to the end of the scope: cleanup lets go of it. */
static pthread_mutex_t *guard(struct fake_device *fake)
{
    pthread_mutex_lock(&fake->lock);
    return &fake->lock;
}

static void unguard(pthread_mutex_t **lock)
{
    pthread_mutex_unlock(*lock);
}

#define GUARD(fake)                                                                                          \
    __attribute__((cleanup(unguard))) pthread_mutex_t *guarded = guard(fake);                                \
    (void)guarded

/* 0, or what the call is to return; `usual' is the error of fail_at. */
static int fails(struct fake_device *fake, enum fake_call call, int usual)
{
    if (++fake->called[call] == fake->fault.occurrence && call == fake->fault.call) {
        fake->fault.happened = true;
        return fake->fault.error;
    }
    return ++fake->calls == fake->fail_at ? usual : 0;
}

#define FAIL(call, usual)                                                                                    \
    do {                                                                                                     \
        int failed = fails(fake, FAKE_##call, usual);                                                        \
        if (failed)                                                                                          \
            return failed;                                                                                   \
    } while (0)

static struct fake_mapping *mapping_of(struct fake_device *fake, uint64_t address)
{
    for (size_t i = 0; i < fake->mapping_count; i++)
        if (address - fake->mappings[i].address < fake->mappings[i].size)
            return &fake->mappings[i];
    return NULL;
}

/* One byte range within one mapping, or host memory. NULL: a fault. */
static unsigned char *resolve(struct fake_device *fake, uint64_t address, uint64_t size)
{
    struct fake_mapping *mapping;

    if (address < FAKE_BASE)
        return (unsigned char *)(uintptr_t)address;
    mapping = mapping_of(fake, address);
    if (!mapping || !mapping->access || address + size > mapping->address + mapping->size) {
        fake->faults++;
        return NULL;
    }
    return mapping->frame->memory + (address - mapping->address);
}

static int fake_reserve(void *ctx, uint64_t size, uint64_t *address)
{
    struct fake_device *fake = ctx;
    GUARD(fake);

    FAIL(reserve, -ENOMEM);
    *address = fake->next_address;
    fake->next_address += size + FAKE_GRANULE;
    fake->reserved++;
    return 0;
}

static int fake_unreserve(void *ctx, uint64_t address, uint64_t size)
{
    struct fake_device *fake = ctx;
    GUARD(fake);

    FAIL(unreserve, -EIO);
    for (size_t i = 0; i < fake->mapping_count; i++)
        if (fake->mappings[i].address - address < size) { /* "not mapped" (cuMemAddressFree) */
            fake->faults++;
            return -EIO;
        }
    fake->reserved--;
    return 0;
}

static int fake_frame_create(void *ctx, uint64_t size, uint64_t *handle)
{
    struct fake_device *fake = ctx;
    GUARD(fake);
    struct fake_frame *frame;

    FAIL(frame_create, -ENOMEM);
    if (fake->hbm_used + size > fake->hbm)
        return -ENOMEM;
    frame = calloc(1, sizeof *frame);
    frame->memory = malloc(size);
    memset(frame->memory, 0xa5, size);
    frame->size = size;
    fake->hbm_used += size;
    if (fake->hbm_used > fake->hbm_peak)
        fake->hbm_peak = fake->hbm_used;
    fake->frames_live++;
    *handle = (uint64_t)(uintptr_t)frame;
    return 0;
}

static void frame_check(struct fake_device *fake, struct fake_frame *frame)
{
    if (!frame->released || frame->mappings)
        return;
    if (frame->host) {
        free(frame);
        return;
    }
    fake->hbm_used -= frame->size;
    fake->frames_live--;
    free(frame->memory);
    free(frame);
}

static int fake_frame_release(void *ctx, uint64_t handle)
{
    struct fake_device *fake = ctx;
    GUARD(fake);
    struct fake_frame *frame = (struct fake_frame *)(uintptr_t)handle;

    FAIL(frame_release, -EIO);
    frame->released = true;
    frame_check(fake, frame);
    return 0;
}

static int fake_map(void *ctx, uint64_t address, uint64_t size, uint64_t handle)
{
    struct fake_device *fake = ctx;
    GUARD(fake);
    struct fake_frame *frame = (struct fake_frame *)(uintptr_t)handle;

    FAIL(map, -EIO);
    if (frame->size != size || mapping_of(fake, address) || mapping_of(fake, address + size - 1)) {
        fake->faults++;
        return -EIO;
    }
    if (fake->mapping_count == fake->mapping_capacity) {
        fake->mapping_capacity = fake->mapping_capacity ? 2 * fake->mapping_capacity : 64;
        fake->mappings = realloc(fake->mappings, fake->mapping_capacity * sizeof *fake->mappings);
    }
    fake->mappings[fake->mapping_count++] =
        (struct fake_mapping){.address = address, .size = size, .frame = frame};
    frame->mappings++;
    return 0;
}

static int fake_unmap(void *ctx, uint64_t address, uint64_t size)
{
    struct fake_device *fake = ctx;
    GUARD(fake);
    uint64_t end = address + size, at;
    struct fake_mapping *mapping;

    FAIL(unmap, -EIO);
    for (at = address; at < end; at += mapping->size) {
        mapping = mapping_of(fake, at);
        if (!mapping || mapping->address != at || mapping->size > end - at) {
            fake->faults++;
            return -EIO;
        }
    }
    for (at = address; at < end;) {
        struct fake_frame *frame;

        mapping = mapping_of(fake, at);
        frame = mapping->frame;
        at += mapping->size;
        *mapping = fake->mappings[--fake->mapping_count];
        frame->mappings--;
        frame_check(fake, frame);
    }
    return 0;
}

static int fake_set_access(void *ctx, uint64_t address, uint64_t size)
{
    struct fake_device *fake = ctx;
    GUARD(fake);
    uint64_t end = address + size;

    FAIL(set_access, -EIO);
    while (address < end) {
        struct fake_mapping *mapping = mapping_of(fake, address);

        if (!mapping || mapping->address != address || mapping->access) { /* never a live one */
            fake->faults++;
            return -EIO;
        }
        mapping->access = true;
        address += mapping->size;
    }
    return 0;
}

static int fake_host_alloc(void *ctx, uint64_t size, void **out)
{
    struct fake_device *fake = ctx;
    GUARD(fake);
    uint64_t *memory;

    FAIL(host_alloc, -ENOMEM);
    if (fake->host_used + size > fake->host)
        return -ENOMEM;
    memory = malloc(size + 64);
    memory[0] = size;
    fake->host_used += size;
    fake->slots_live++;
    *out = (unsigned char *)memory + 64;
    return 0;
}

static int fake_host_free(void *ctx, void *memory)
{
    struct fake_device *fake = ctx;
    GUARD(fake);
    uint64_t *block = (uint64_t *)((unsigned char *)memory - 64);

    FAIL(host_free, -EIO);
    fake->slots_live--;
    fake->host_used -= block[0];
    free(block);
    return 0;
}

/* A slot as handles: the CPU's view of it is one block, each handle a part of that. */
static int fake_host_create(void *ctx, uint64_t size, uint64_t unit, void **memory, uint64_t *handles)
{
    struct fake_device *fake = ctx;
    GUARD(fake);

    FAIL(host_create, -ENOMEM);
    if (fake->no_handles)
        return -ENOTSUP;
    if (size % unit) {
        fake->faults++;
        return -EIO;
    }
    if (fake->host_used + size > fake->host)
        return -ENOMEM;
    *memory = malloc(size);
    memset(*memory, 0x5a, size);
    for (uint64_t i = 0; i < size / unit; i++) {
        struct fake_frame *frame = calloc(1, sizeof *frame);

        *frame =
            (struct fake_frame){.memory = (unsigned char *)*memory + i * unit, .size = unit, .host = true};
        handles[i] = (uint64_t)(uintptr_t)frame;
    }
    fake->host_used += size;
    fake->handles_live += (unsigned)(size / unit);
    fake->blocks_live++;
    return 0;
}

static int fake_host_destroy(void *ctx, void *memory, uint64_t size, uint64_t unit, const uint64_t *handles)
{
    struct fake_device *fake = ctx;
    GUARD(fake);

    FAIL(host_destroy, -EIO);
    for (uint64_t i = 0; i < size / unit; i++) {
        struct fake_frame *frame = (struct fake_frame *)(uintptr_t)handles[i];

        if (frame->mappings) { /* the memory would live on, against the limit */
            fake->faults++;
            return -EIO;
        }
        frame->released = true;
        frame_check(fake, frame);
    }
    fake->handles_live -= (unsigned)(size / unit);
    fake->blocks_live--;
    fake->host_used -= size;
    free(memory);
    return 0;
}

static int fake_stream_create(void *ctx, uint64_t *stream)
{
    struct fake_device *fake = ctx;
    GUARD(fake);

    FAIL(stream_create, -EIO);
    fake->streams_live++;
    *stream = fake->streams++;
    return 0;
}

static int fake_stream_destroy(void *ctx, uint64_t stream)
{
    struct fake_device *fake = ctx;
    GUARD(fake);

    (void)stream;
    FAIL(stream_destroy, -EIO);
    fake->streams_live--;
    return 0;
}

uint64_t fake_stream(struct fake_device *fake)
{
    GUARD(fake);

    return fake->streams++;
}

static struct fake_op *enqueue(struct fake_device *fake, uint64_t stream, const struct fake_op *op)
{
    struct fake_op *queued = malloc(sizeof *queued);

    *queued = *op;
    queued->next = NULL;
    if (fake->tail[stream])
        fake->tail[stream]->next = queued;
    else
        fake->head[stream] = queued;
    fake->tail[stream] = queued;
    return queued;
}

void fake_kernel(struct fake_device *fake, uint64_t stream, const struct fake_op *op)
{
    GUARD(fake);

    enqueue(fake, stream, op)->kind = FAKE_KERNEL;
}

static int fake_copy(void *ctx, uint64_t stream, uint64_t dst, uint64_t src, uint64_t size)
{
    struct fake_device *fake = ctx;
    GUARD(fake);

    FAIL(copy, -EIO);
    enqueue(fake, stream, &(struct fake_op){.kind = FAKE_COPY, .dst = dst, .src = src, .size = size});
    return 0;
}

static int fake_host_function(void *ctx, uint64_t stream, void (*function)(void *), void *data)
{
    struct fake_device *fake = ctx;
    GUARD(fake);

    FAIL(host_function, -EIO);
    enqueue(fake, stream, &(struct fake_op){.kind = FAKE_HOST, .function = function, .data = data});
    return 0;
}

static void event_make(struct fake_device *fake, uint64_t *event)
{
    if (fake->events == fake->event_capacity) {
        fake->event_capacity = fake->event_capacity ? 2 * fake->event_capacity : 64;
        fake->recorded = realloc(fake->recorded, fake->event_capacity * sizeof(uint64_t));
        fake->done = realloc(fake->done, fake->event_capacity * sizeof(uint64_t));
        fake->time = realloc(fake->time, fake->event_capacity * sizeof(uint64_t));
    }
    fake->recorded[fake->events] = fake->done[fake->events] = 0;
    *event = fake->events++;
    fake->events_live++;
}

static int fake_event_create(void *ctx, uint64_t *event)
{
    struct fake_device *fake = ctx;
    GUARD(fake);

    FAIL(event_create, -EIO);
    event_make(fake, event);
    return 0;
}

static int fake_timer_create(void *ctx, uint64_t *event)
{
    struct fake_device *fake = ctx;
    GUARD(fake);

    FAIL(timer_create, -EIO);
    event_make(fake, event);
    return 0;
}

static int fake_event_destroy(void *ctx, uint64_t event)
{
    struct fake_device *fake = ctx;
    GUARD(fake);

    (void)event;
    FAIL(event_destroy, -EIO);
    fake->events_live--;
    return 0;
}

static int fake_event_record(void *ctx, uint64_t event, uint64_t stream)
{
    struct fake_device *fake = ctx;
    GUARD(fake);

    FAIL(event_record, -EIO);
    fake->recorded[event]++;
    enqueue(fake, stream,
            &(struct fake_op){.kind = FAKE_RECORD, .event = event, .version = fake->recorded[event]});
    return 0;
}

static int fake_stream_wait(void *ctx, uint64_t stream, uint64_t event)
{
    struct fake_device *fake = ctx;
    GUARD(fake);

    FAIL(stream_wait, -EIO);
    enqueue(fake, stream,
            &(struct fake_op){.kind = FAKE_WAIT, .event = event, .version = fake->recorded[event]});
    return 0;
}

static int fake_event_query(void *ctx, uint64_t event)
{
    struct fake_device *fake = ctx;
    GUARD(fake);

    FAIL(event_query, -EIO);
    return fake->done[event] >= fake->recorded[event] ? 0 : -EBUSY;
}

static int fake_event_synchronize(void *ctx, uint64_t event)
{
    struct fake_device *fake = ctx;
    GUARD(fake);
    uint64_t version = fake->recorded[event];

    FAIL(event_synchronize, -EIO);
    while (fake->done[event] < version) {
        size_t queued = 0;

        for (unsigned i = 0; i < fake->streams; i++)
            queued += fake->head[i] != NULL;
        if (!queued)
            return -EIO;
        fake_run(fake, 1);
    }
    return 0;
}

/* An operation takes a microsecond. */
static int fake_elapsed(void *ctx, uint64_t start, uint64_t end, double *nanoseconds)
{
    struct fake_device *fake = ctx;
    GUARD(fake);

    FAIL(elapsed, -EIO);
    if (fake->done[start] < fake->recorded[start] || fake->done[end] < fake->recorded[end])
        return -EBUSY;
    *nanoseconds = 1000.0 * ((double)fake->time[end] - (double)fake->time[start]);
    return 0;
}

static bool runnable(struct fake_device *fake, const struct fake_op *op)
{
    return op->kind != FAKE_WAIT || fake->done[op->event] >= op->version;
}

/* Where a kernel looks: the first bytes of every granule's worth, and the last ones. */
static uint64_t next_place(uint64_t bytes, uint64_t at)
{
    if (at == bytes - 8)
        return bytes;
    return at + FAKE_GRANULE < bytes - 8 ? at + FAKE_GRANULE : bytes - 8;
}

static void run_kernel(struct fake_device *fake, const struct fake_op *op)
{
    for (unsigned i = 0; i < op->count; i++) {
        for (uint64_t at = 0; at < op->bytes[i]; at = next_place(op->bytes[i], at)) {
            unsigned char *memory = resolve(fake, op->buffers[i] + at, 8);
            uint64_t found;

            if (!memory)
                continue;
            memcpy(&found, memory, 8);
            if (op->expect[i] && found != fake_value(op->expect[i], at))
                fake->mismatches++;
        }
    }
    for (unsigned i = 0; i < op->count; i++) {
        for (uint64_t at = 0; op->value[i] && at < op->bytes[i]; at = next_place(op->bytes[i], at)) {
            unsigned char *memory = resolve(fake, op->buffers[i] + at, 8);
            uint64_t value = fake_value(op->value[i], at);

            if (memory)
                memcpy(memory, &value, 8);
        }
    }
}

static void run_one(struct fake_device *fake, unsigned stream)
{
    struct fake_op *op = fake->head[stream];
    unsigned char *dst, *src;

    switch (op->kind) {
    case FAKE_COPY: /* a granule at a time: a range may span mappings */
        for (uint64_t at = 0, part; at < op->size; at += part) {
            part = FAKE_GRANULE - (op->dst + at) % FAKE_GRANULE;
            if (part > FAKE_GRANULE - (op->src + at) % FAKE_GRANULE)
                part = FAKE_GRANULE - (op->src + at) % FAKE_GRANULE;
            if (part > op->size - at)
                part = op->size - at;
            dst = resolve(fake, op->dst + at, part);
            src = resolve(fake, op->src + at, part);
            if (dst && src)
                memmove(dst, src, part);
        }
        break;
    case FAKE_KERNEL:
        run_kernel(fake, op);
        break;
    case FAKE_RECORD:
        fake->time[op->event] = fake->operations_run;
        if (fake->done[op->event] < op->version)
            fake->done[op->event] = op->version;
        break;
    case FAKE_HOST:
        op->function(op->data);
        break;
    case FAKE_WAIT:
        break;
    }
    fake->operations_run++;
    fake->head[stream] = op->next;
    if (!op->next)
        fake->tail[stream] = NULL;
    free(op);
}

void fake_run(struct fake_device *fake, unsigned steps)
{
    GUARD(fake);

    while (steps--) {
        unsigned start = (unsigned)(fake_random(fake) % fake->streams), stream = start;

        do {
            if (fake->head[stream] && runnable(fake, fake->head[stream]))
                break;
            stream = (stream + 1) % fake->streams;
        } while (stream != start);
        if (!fake->head[stream] || !runnable(fake, fake->head[stream]))
            return;
        run_one(fake, stream);
    }
}

bool fake_drain(struct fake_device *fake)
{
    GUARD(fake);

    for (;;) {
        bool ran = false, left = false;

        for (unsigned i = 0; i < fake->streams; i++) {
            while (fake->head[i] && runnable(fake, fake->head[i])) {
                run_one(fake, i);
                ran = true;
            }
            left |= fake->head[i] != NULL;
        }
        if (!left || !ran)
            return !left;
    }
}

void fake_init(struct fake_device *fake, uint64_t hbm, uint64_t host, uint64_t seed)
{
    pthread_mutexattr_t recursive;

    *fake = (struct fake_device){
        .ops = {.reserve = fake_reserve,
                .unreserve = fake_unreserve,
                .frame_create = fake_frame_create,
                .frame_release = fake_frame_release,
                .map = fake_map,
                .unmap = fake_unmap,
                .set_access = fake_set_access,
                .host_alloc = fake_host_alloc,
                .host_free = fake_host_free,
                .host_create = fake_host_create,
                .host_destroy = fake_host_destroy,
                .stream_create = fake_stream_create,
                .stream_destroy = fake_stream_destroy,
                .copy = fake_copy,
                .host_function = fake_host_function,
                .event_create = fake_event_create,
                .event_destroy = fake_event_destroy,
                .event_record = fake_event_record,
                .stream_wait = fake_stream_wait,
                .event_query = fake_event_query,
                .event_synchronize = fake_event_synchronize,
                .timer_create = fake_timer_create,
                .elapsed = fake_elapsed},
        .random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1,
        .hbm = hbm,
        .host = host,
        .next_address = FAKE_BASE,
    };
    fake->ops.ctx = fake;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&fake->lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
}

void fake_fini(struct fake_device *fake)
{
    pthread_mutex_destroy(&fake->lock);
    free(fake->mappings);
    free(fake->recorded);
    free(fake->done);
    free(fake->time);
}
