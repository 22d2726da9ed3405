/*
 * The device is brought up to the host's clock whenever it is asked something or given work, so it never runs
 * ahead of what the host has said; within that it goes from one end of a kernel or copy to the next.
 */
#include "cache/tools/simulation.h"
#include "cache/tools/machine.h"
#include <errno.h>
#include <stdlib.h>

#define DEVICE_BASE (UINT64_C(1) << 52) /* every device address is above, every host address below */
#define HOST_BASE (UINT64_C(1) << 40)
#define NEVER 1e300

enum op_kind { OP_KERNEL, OP_COPY, OP_RECORD, OP_WAIT, OP_MARK };

struct op {
    enum op_kind kind;
    bool in;         /* copy */
    uint32_t number; /* event, or mark */
    uint32_t version;
    double amount; /* nanoseconds, bytes */
};

struct stream {
    struct op *ring;
    uint32_t first, count, capacity;
    uint32_t heavy; /* kernels and copies among them */
    bool own;       /* the cache's */
    bool running;   /* its head is a kernel that runs until `end', or a copy in its engine */
    bool queued;    /* its head is a copy that waits for the engine since `since' */
    bool stalled;   /* its head is a wait for an event that has not happened, since `since' */
    double end, since;
};

struct engine {
    int stream;   /* whose copy is in it, -1: none */
    double left;  /* nanoseconds of work at the full rate */
    double speed; /* of that work, now */
    double busy, bytes;
};

struct event {
    uint32_t recorded, done; /* versions */
};

struct simulation {
    struct device_ops ops;
    struct simulation_config config;
    double host, device; /* clocks; the device's is never ahead of the host's but while the host waits */
    struct stream stream[SIMULATION_STREAMS];
    unsigned streams;
    struct engine engine[2]; /* 0: out, 1: in */
    struct event *events;
    uint64_t *free_events;
    uint32_t event_count, event_capacity, free_event_count;
    double *marks;
    uint32_t mark_capacity;
    uint64_t next_device, next_host, next_handle;
    uint64_t hbm_used, host_used;
    double stream_stalled, host_waited, kernel_end;
};

static void pop(struct stream *stream)
{
    if (stream->ring[stream->first].kind <= OP_COPY)
        stream->heavy--;
    stream->first = (stream->first + 1) & (stream->capacity - 1);
    stream->count--;
}

static void set_speeds(struct simulation *simulation)
{
    const struct simulation_link *link = &simulation->config.link;
    bool both = simulation->engine[0].stream >= 0 && simulation->engine[1].stream >= 0;

    simulation->engine[0].speed = both ? link->out_both / link->out : 1;
    simulation->engine[1].speed = both ? link->in_both / link->in : 1;
}

/* The copy that has waited longest; in the order of streams where it is the same time. */
static void engine_feed(struct simulation *simulation, unsigned which)
{
    struct engine *engine = &simulation->engine[which];
    const struct simulation_link *link = &simulation->config.link;
    int best = -1;

    for (unsigned i = 0; i < simulation->streams; i++) {
        const struct stream *stream = &simulation->stream[i];

        if (stream->queued && stream->ring[stream->first].in == (which == 1) &&
            (best < 0 || stream->since < simulation->stream[best].since))
            best = (int)i;
    }
    if (best < 0)
        return;
    engine->stream = best;
    engine->bytes += simulation->stream[best].ring[simulation->stream[best].first].amount;
    engine->left =
        MACHINE_COPY_LATENCY + simulation->stream[best].ring[simulation->stream[best].first].amount * 1e9 /
                                   (which ? link->in : link->out);
    simulation->stream[best].queued = false;
    simulation->stream[best].running = true;
    simulation->stream[best].end = NEVER;
    set_speeds(simulation);
}

/* Starts and passes what can be, at the device's time. True if an event happened or an engine is wanted. */
static bool stream_pump(struct simulation *simulation, struct stream *stream)
{
    bool news = false;

    while (stream->count && !stream->running && !stream->queued) {
        const struct op *op = &stream->ring[stream->first];
        struct event *event;

        switch (op->kind) {
        case OP_KERNEL:
            stream->running = true;
            stream->end = simulation->device + op->amount;
            break;
        case OP_COPY:
            stream->queued = true;
            stream->since = simulation->device;
            news = true;
            break;
        case OP_RECORD:
            event = &simulation->events[op->number];
            if (event->done < op->version)
                event->done = op->version;
            pop(stream);
            news = true;
            break;
        case OP_MARK:
            simulation->marks[op->number] = simulation->device;
            pop(stream);
            break;
        case OP_WAIT:
            if (simulation->events[op->number].done < op->version) {
                if (!stream->stalled)
                    stream->since = simulation->device;
                stream->stalled = true;
                return news;
            }
            if (stream->stalled && !stream->own)
                simulation->stream_stalled += simulation->device - stream->since;
            stream->stalled = false;
            pop(stream);
            break;
        }
    }
    return news;
}

static void pump(struct simulation *simulation)
{
    bool news = true;

    while (news) {
        news = false;
        for (unsigned i = 0; i < simulation->streams; i++)
            if (simulation->stream[i].count)
                news |= stream_pump(simulation, &simulation->stream[i]);
    }
    for (unsigned which = 0; which < 2; which++)
        if (simulation->engine[which].stream < 0)
            engine_feed(simulation, which);
}

static double next_end(const struct simulation *simulation)
{
    double next = NEVER;

    for (unsigned i = 0; i < simulation->streams; i++)
        if (simulation->stream[i].running && simulation->stream[i].end < next)
            next = simulation->stream[i].end;
    for (unsigned which = 0; which < 2; which++) {
        const struct engine *engine = &simulation->engine[which];

        if (engine->stream >= 0 && simulation->device + engine->left / engine->speed < next)
            next = simulation->device + engine->left / engine->speed;
    }
    return next;
}

/* Engines work until `time'; one that is done by then, within rounding, gives its stream on. */
static void move_to(struct simulation *simulation, double time)
{
    bool changed = false;

    for (unsigned which = 0; which < 2; which++) {
        struct engine *engine = &simulation->engine[which];
        struct stream *stream;

        if (engine->stream < 0)
            continue;
        engine->busy += time - simulation->device;
        engine->left -= (time - simulation->device) * engine->speed;
        if (engine->left > 1e-3)
            continue;
        stream = &simulation->stream[engine->stream];
        stream->running = false;
        pop(stream);
        engine->stream = -1;
        changed = true;
    }
    simulation->device = time;
    if (changed)
        set_speeds(simulation);
    for (unsigned i = 0; i < simulation->streams; i++) {
        struct stream *stream = &simulation->stream[i];

        if (!stream->running || stream->end > time)
            continue;
        stream->running = false;
        simulation->kernel_end = time;
        pop(stream);
    }
}

/* One step of the device, not beyond `limit'; false where there is nothing before it. */
static bool step(struct simulation *simulation, double limit)
{
    double next = next_end(simulation);

    if (next > limit)
        return false;
    move_to(simulation, next);
    pump(simulation);
    return true;
}

static void catch_up(struct simulation *simulation)
{
    while (step(simulation, simulation->host))
        ;
    if (simulation->host > simulation->device)
        move_to(simulation, simulation->host);
}

/* The host's clock follows the device's after a wait. */
static void waited(struct simulation *simulation)
{
    if (simulation->device > simulation->host) {
        simulation->host_waited += simulation->device - simulation->host;
        simulation->host = simulation->device;
    }
}

static int enqueue(struct simulation *simulation, uint64_t index, const struct op *op)
{
    struct stream *stream = &simulation->stream[index];
    bool was_empty;

    catch_up(simulation);
    if (op->kind <= OP_COPY && stream->heavy >= MACHINE_QUEUE_DEPTH) {
        while (stream->heavy >= MACHINE_QUEUE_DEPTH && step(simulation, NEVER / 2))
            ;
        waited(simulation);
    }
    if (stream->count == stream->capacity) {
        uint32_t capacity = stream->capacity ? 2 * stream->capacity : 1024;
        struct op *ring = malloc(capacity * sizeof *ring);

        if (!ring)
            return -ENOMEM;
        for (uint32_t i = 0; i < stream->count; i++)
            ring[i] = stream->ring[(stream->first + i) & (stream->capacity - 1)];
        free(stream->ring);
        stream->ring = ring;
        stream->first = 0;
        stream->capacity = capacity;
    }
    was_empty = stream->count == 0;
    stream->ring[(stream->first + stream->count) & (stream->capacity - 1)] = *op;
    stream->count++;
    stream->heavy += op->kind <= OP_COPY;
    if (was_empty)
        pump(simulation);
    return 0;
}

static void cost(struct simulation *simulation, double nanoseconds)
{
    simulation->host += nanoseconds * simulation->config.driver_scale;
}

static int sim_reserve(void *ctx, uint64_t size, uint64_t *address)
{
    struct simulation *simulation = ctx;

    cost(simulation, MACHINE_HOST_RESERVE);
    *address = simulation->next_device;
    simulation->next_device += size;
    return 0;
}

static int sim_unreserve(void *ctx, uint64_t address, uint64_t size)
{
    (void)address;
    (void)size;
    cost(ctx, MACHINE_HOST_RESERVE);
    return 0;
}

static int sim_frame_create(void *ctx, uint64_t size, uint64_t *handle)
{
    struct simulation *simulation = ctx;

    cost(simulation, MACHINE_HOST_CREATE);
    if (simulation->hbm_used + size > simulation->config.hbm)
        return -ENOMEM;
    simulation->hbm_used += size;
    *handle = ++simulation->next_handle;
    return 0;
}

static int sim_frame_release(void *ctx, uint64_t handle)
{
    (void)handle; /* its bytes stay counted: replay gives frames back at the end only */
    cost(ctx, MACHINE_HOST_RELEASE);
    return 0;
}

static int sim_map(void *ctx, uint64_t address, uint64_t size, uint64_t handle)
{
    (void)address;
    (void)size;
    (void)handle;
    cost(ctx, MACHINE_HOST_MAP);
    return 0;
}

static int sim_unmap(void *ctx, uint64_t address, uint64_t size)
{
    (void)address;
    (void)size;
    cost(ctx, MACHINE_HOST_UNMAP);
    return 0;
}

static int sim_set_access(void *ctx, uint64_t address, uint64_t size)
{
    (void)address;
    (void)size;
    cost(ctx, MACHINE_HOST_ACCESS);
    return 0;
}

static int sim_host_alloc(void *ctx, uint64_t size, void **out)
{
    struct simulation *simulation = ctx;

    if (simulation->host_used + size > simulation->config.host)
        return -ENOMEM;
    simulation->host_used += size;
    cost(simulation, MACHINE_HOST_PIN_BYTE * (double)size);
    *out = (void *)(uintptr_t)simulation->next_host; /* an address, nothing behind it */
    simulation->next_host += size;
    return 0;
}

static int sim_host_free(void *ctx, void *memory)
{
    (void)ctx;
    (void)memory;
    return 0;
}

int simulation_stream(struct simulation *simulation, uint64_t *stream)
{
    if (simulation->streams == SIMULATION_STREAMS)
        return -ENOMEM;
    *stream = simulation->streams++;
    return 0;
}

static int sim_stream_create(void *ctx, uint64_t *stream)
{
    struct simulation *simulation = ctx;
    int error = simulation_stream(simulation, stream);

    if (!error)
        simulation->stream[*stream].own = true;
    return error;
}

static int sim_stream_destroy(void *ctx, uint64_t stream)
{
    (void)ctx;
    (void)stream;
    return 0;
}

static int sim_copy(void *ctx, uint64_t stream, uint64_t dst, uint64_t src, uint64_t size)
{
    struct simulation *simulation = ctx;

    (void)src;
    cost(simulation, MACHINE_HOST_COPY);
    return simulation_transfer(simulation, stream, dst >= DEVICE_BASE, size);
}

static int sim_event_create(void *ctx, uint64_t *event)
{
    struct simulation *simulation = ctx;

    if (simulation->free_event_count) {
        *event = simulation->free_events[--simulation->free_event_count];
        return 0;
    }
    if (simulation->event_count == simulation->event_capacity) {
        uint32_t capacity = simulation->event_capacity ? 2 * simulation->event_capacity : 256;
        struct event *events = realloc(simulation->events, capacity * sizeof *events);
        uint64_t *free_events = realloc(simulation->free_events, capacity * sizeof *free_events);

        simulation->events = events ? events : simulation->events;
        simulation->free_events = free_events ? free_events : simulation->free_events;
        if (!events || !free_events)
            return -ENOMEM;
        simulation->event_capacity = capacity;
    }
    simulation->events[simulation->event_count] = (struct event){0, 0};
    *event = simulation->event_count++;
    return 0;
}

/* CUDA keeps a destroyed event until its record has happened; versions do the same here. */
static int sim_event_destroy(void *ctx, uint64_t event)
{
    struct simulation *simulation = ctx;

    simulation->free_events[simulation->free_event_count++] = event;
    return 0;
}

static int sim_event_record(void *ctx, uint64_t event, uint64_t stream)
{
    struct simulation *simulation = ctx;
    uint32_t version = ++simulation->events[event].recorded;

    cost(simulation, MACHINE_HOST_EVENT);
    return enqueue(simulation, stream,
                   &(struct op){.kind = OP_RECORD, .number = (uint32_t)event, .version = version});
}

static int sim_stream_wait(void *ctx, uint64_t stream, uint64_t event)
{
    struct simulation *simulation = ctx;

    cost(simulation, MACHINE_HOST_WAIT);
    return enqueue(simulation, stream,
                   &(struct op){.kind = OP_WAIT,
                                .number = (uint32_t)event,
                                .version = simulation->events[event].recorded});
}

static int sim_event_query(void *ctx, uint64_t event)
{
    struct simulation *simulation = ctx;

    cost(simulation, MACHINE_HOST_QUERY);
    catch_up(simulation);
    return simulation->events[event].done >= simulation->events[event].recorded ? 0 : -EBUSY;
}

static int sim_event_synchronize(void *ctx, uint64_t event)
{
    struct simulation *simulation = ctx;
    uint32_t version = simulation->events[event].recorded;

    cost(simulation, MACHINE_HOST_QUERY);
    catch_up(simulation);
    while (simulation->events[event].done < version)
        if (!step(simulation, NEVER / 2))
            return -EIO; /* nothing is left that could make it happen */
    waited(simulation);
    return 0;
}

int simulation_kernel(struct simulation *simulation, uint64_t stream, double duration)
{
    return enqueue(simulation, stream, &(struct op){.kind = OP_KERNEL, .amount = duration});
}

int simulation_transfer(struct simulation *simulation, uint64_t stream, bool in, uint64_t size)
{
    return enqueue(simulation, stream, &(struct op){.kind = OP_COPY, .in = in, .amount = (double)size});
}

int simulation_mark(struct simulation *simulation, uint64_t stream, uint32_t number)
{
    if (number >= simulation->mark_capacity) {
        uint32_t capacity = 2 * number + 64;
        double *marks = realloc(simulation->marks, capacity * sizeof *marks);

        if (!marks)
            return -ENOMEM;
        for (uint32_t i = simulation->mark_capacity; i < capacity; i++)
            marks[i] = -1;
        simulation->marks = marks;
        simulation->mark_capacity = capacity;
    }
    return enqueue(simulation, stream, &(struct op){.kind = OP_MARK, .number = number});
}

double simulation_mark_time(const struct simulation *simulation, uint32_t number)
{
    return number < simulation->mark_capacity ? simulation->marks[number] : -1;
}

void simulation_host(struct simulation *simulation, double duration)
{
    simulation->host += duration;
}

double simulation_now(const struct simulation *simulation)
{
    return simulation->host;
}

bool simulation_drain(struct simulation *simulation, uint64_t stream)
{
    catch_up(simulation);
    while (simulation->stream[stream].count)
        if (!step(simulation, NEVER / 2))
            return false;
    waited(simulation);
    return true;
}

bool simulation_drain_all(struct simulation *simulation)
{
    bool done = true;

    for (unsigned i = 0; i < simulation->streams; i++)
        done &= simulation_drain(simulation, i);
    return done;
}

void simulation_counts(const struct simulation *simulation, struct simulation_counts *counts)
{
    *counts = (struct simulation_counts){.stream_stalled = simulation->stream_stalled,
                                         .host_waited = simulation->host_waited,
                                         .out_busy = simulation->engine[0].busy,
                                         .in_busy = simulation->engine[1].busy,
                                         .out_bytes = simulation->engine[0].bytes,
                                         .in_bytes = simulation->engine[1].bytes,
                                         .kernel_end = simulation->kernel_end};
}

const struct device_ops *simulation_ops(struct simulation *simulation)
{
    return &simulation->ops;
}

int simulation_create(const struct simulation_config *config, struct simulation **out)
{
    struct simulation *simulation = calloc(1, sizeof *simulation);

    if (!simulation)
        return -ENOMEM;
    simulation->config = *config;
    simulation->next_device = DEVICE_BASE;
    simulation->next_host = HOST_BASE;
    simulation->engine[0].stream = simulation->engine[1].stream = -1;
    set_speeds(simulation);
    simulation->ops = (struct device_ops){.ctx = simulation,
                                          .reserve = sim_reserve,
                                          .unreserve = sim_unreserve,
                                          .frame_create = sim_frame_create,
                                          .frame_release = sim_frame_release,
                                          .map = sim_map,
                                          .unmap = sim_unmap,
                                          .set_access = sim_set_access,
                                          .host_alloc = sim_host_alloc,
                                          .host_free = sim_host_free,
                                          .stream_create = sim_stream_create,
                                          .stream_destroy = sim_stream_destroy,
                                          .copy = sim_copy,
                                          .event_create = sim_event_create,
                                          .event_destroy = sim_event_destroy,
                                          .event_record = sim_event_record,
                                          .stream_wait = sim_stream_wait,
                                          .event_query = sim_event_query,
                                          .event_synchronize = sim_event_synchronize};
    *out = simulation;
    return 0;
}

void simulation_destroy(struct simulation *simulation)
{
    if (!simulation)
        return;
    for (unsigned i = 0; i < simulation->streams; i++)
        free(simulation->stream[i].ring);
    free(simulation->events);
    free(simulation->free_events);
    free(simulation->marks);
    free(simulation);
}
