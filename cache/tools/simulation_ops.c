/*
 * The calls of the simulated driver: each costs the host its time (machine.h), and no more happens than that
 * and what it queues. Addresses and handles are numbers given out once.
 */
#include "cache/tools/simulation_internal.h"
#include <errno.h>
#include <stdlib.h>

static void cost(struct simulation *simulation, double nanoseconds)
{
    simulation->host += nanoseconds * simulation->config.driver_scale;
    simulation->driver_time += nanoseconds * simulation->config.driver_scale;
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
    /* The size, a power of two, goes with it. */
    *handle = ++simulation->next_handle << 6 | (unsigned)__builtin_ctzll(size);
    return 0;
}

static int sim_frame_release(void *ctx, uint64_t handle)
{
    struct simulation *simulation = ctx;

    cost(simulation, MACHINE_HOST_RELEASE);
    simulation->hbm_used -= UINT64_C(1) << (handle & 63);
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
    uint32_t count = simulation->block_count;

    if (simulation->host_used + size > simulation->config.host)
        return -ENOMEM;
    if (count == simulation->block_capacity) {
        uint32_t capacity = count ? 2 * count : 256;
        struct host_block *grown = realloc(simulation->blocks, capacity * sizeof *grown);

        if (!grown)
            return -ENOMEM;
        simulation->blocks = grown;
        simulation->block_capacity = capacity;
    }
    simulation->host_used += size;
    cost(simulation, MACHINE_HOST_PIN_BYTE * (double)size);
    simulation->blocks[simulation->block_count++] = (struct host_block){simulation->next_host, size};
    *out = (void *)(uintptr_t)simulation->next_host; /* an address, nothing behind it */
    simulation->next_host += size;
    return 0;
}

static int by_address(const void *key, const void *block)
{
    uint64_t address = *(const uint64_t *)key, at = ((const struct host_block *)block)->address;

    return address < at ? -1 : address > at;
}

static int sim_host_free(void *ctx, void *memory)
{
    struct simulation *simulation = ctx;
    uint64_t address = (uint64_t)(uintptr_t)memory;
    struct host_block *block =
        bsearch(&address, simulation->blocks, simulation->block_count, sizeof *block, by_address);

    if (!block || !block->size)
        return -EINVAL;
    simulation->host_used -= block->size;
    block->size = 0;
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
    struct op op = {.kind = OP_COPY, .in = dst >= SIMULATION_DEVICE_BASE, .amount = (double)size};
    int error = op.in ? simulation_copy_add(simulation, dst, size, &op.number) : 0;

    (void)src;
    cost(simulation, MACHINE_HOST_COPY);
    return error ? error : simulation_enqueue(simulation, stream, &op);
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
    simulation->events[simulation->event_count] = (struct event){0};
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

static int record(struct simulation *simulation, uint64_t event, uint64_t stream)
{
    uint32_t version = ++simulation->events[event].recorded;

    simulation->events[event].in = simulation->stream[stream].in;
    return simulation_enqueue(simulation, stream,
                              &(struct op){.kind = OP_RECORD, .number = (uint32_t)event, .version = version});
}

static int wait_for(struct simulation *simulation, uint64_t stream, uint64_t event, bool job)
{
    return simulation_enqueue(simulation, stream,
                              &(struct op){.kind = OP_WAIT,
                                           .in = simulation->events[event].in,
                                           .job = job,
                                           .number = (uint32_t)event,
                                           .version = simulation->events[event].recorded});
}

static int sim_event_record(void *ctx, uint64_t event, uint64_t stream)
{
    cost(ctx, MACHINE_HOST_EVENT);
    return record(ctx, event, stream);
}

static int sim_stream_wait(void *ctx, uint64_t stream, uint64_t event)
{
    cost(ctx, MACHINE_HOST_WAIT);
    return wait_for(ctx, stream, event, false);
}

int simulation_record(struct simulation *simulation, uint64_t stream, uint32_t *recording)
{
    uint64_t event = 0;
    int error = sim_event_create(simulation, &event);

    *recording = (uint32_t)event;
    return error ? error : record(simulation, event, stream);
}

int simulation_after(struct simulation *simulation, uint64_t stream, uint32_t recording)
{
    return wait_for(simulation, stream, recording, true);
}

static int sim_event_query(void *ctx, uint64_t event)
{
    struct simulation *simulation = ctx;

    cost(simulation, MACHINE_HOST_QUERY);
    simulation_catch_up(simulation);
    return simulation->events[event].done >= simulation->events[event].recorded ? 0 : -EBUSY;
}

static int sim_event_synchronize(void *ctx, uint64_t event)
{
    struct simulation *simulation = ctx;
    uint32_t version = simulation->events[event].recorded;

    cost(simulation, MACHINE_HOST_QUERY);
    simulation_catch_up(simulation);
    while (simulation->events[event].done < version)
        if (!simulation_step(simulation, SIMULATION_NEVER / 2))
            return -EIO; /* nothing is left that could make it happen */
    simulation_waited(simulation);
    return 0;
}

static int sim_elapsed(void *ctx, uint64_t start, uint64_t end, double *nanoseconds)
{
    struct simulation *simulation = ctx;
    const struct event *from = &simulation->events[start], *to = &simulation->events[end];

    cost(simulation, MACHINE_HOST_QUERY);
    simulation_catch_up(simulation);
    if (from->done < from->recorded || to->done < to->recorded)
        return -EBUSY;
    *nanoseconds = to->time - from->time;
    return 0;
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
    simulation->next_device = SIMULATION_DEVICE_BASE;
    simulation->next_host = SIMULATION_HOST_BASE;
    simulation->engine[0].stream = simulation->engine[1].stream = -1;
    simulation_set_speeds(simulation);
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
                                          .event_synchronize = sim_event_synchronize,
                                          .timer_create = sim_event_create,
                                          .elapsed = sim_elapsed};
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
    free(simulation->marks.time);
    free(simulation->watched.time);
    free(simulation->copies);
    free(simulation->blocks);
    free(simulation);
}
