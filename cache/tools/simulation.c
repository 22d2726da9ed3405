/*
 * The device is brought up to the host's clock whenever it is asked something or given work, so it never runs
 * ahead of what the host has said; within that it goes from one end of a kernel or copy to the next.
 */
#include "cache/tools/simulation_internal.h"
#include <errno.h>
#include <stdlib.h>

/* What is at the head of a stream is over, at the device's time. */
static void tell(const struct simulation *simulation, const struct stream *stream, bool stall)
{
    const struct op *op = &stream->ring[stream->first];
    struct simulation_span span = {.kind = stall                   ? SPAN_STALL
                                           : op->kind == OP_KERNEL ? SPAN_KERNEL
                                           : op->in                ? SPAN_COPY_IN
                                                                   : SPAN_COPY_OUT,
                                   .stream = (uint64_t)(stream - simulation->stream),
                                   .own = stream->own,
                                   .tag = op->tag,
                                   .begin = stream->since,
                                   .end = simulation->device,
                                   .bytes = op->kind == OP_COPY ? op->amount : 0};

    if (simulation->config.span)
        simulation->config.span(simulation->config.span_ctx, &span);
}

static void pop(struct stream *stream)
{
    if (stream->ring[stream->first].kind <= OP_COPY)
        stream->heavy--;
    stream->first = (stream->first + 1) & (stream->capacity - 1);
    stream->count--;
}

void simulation_set_speeds(struct simulation *simulation)
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
    simulation->stream[best].since = simulation->device;
    simulation->stream[best].running = true;
    simulation->stream[best].end = SIMULATION_NEVER;
    simulation_set_speeds(simulation);
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
            stream->since = simulation->device;
            stream->end = simulation->device + op->amount;
            break;
        case OP_COPY:
            stream->queued = true;
            stream->since = simulation->device;
            news = true;
            break;
        case OP_RECORD:
            event = &simulation->events[op->number];
            if (event->done < op->version) {
                event->done = op->version;
                event->time = simulation->device;
            }
            pop(stream);
            news = true;
            break;
        case OP_MARK:
            simulation->marks.time[op->number] = simulation->device;
            pop(stream);
            break;
        case OP_WATCH:
            simulation->watched.time[op->number] = stream->ready > op->amount ? stream->ready : op->amount;
            pop(stream);
            break;
        case OP_WAIT:
            if (simulation->events[op->number].done < op->version) {
                if (!stream->stalled)
                    stream->since = simulation->device;
                stream->stalled = true;
                return news;
            }
            if (stream->stalled && !stream->own && !op->job) {
                simulation->stream_stalled += simulation->device - stream->since;
                tell(simulation, stream, true);
            }
            stream->stalled = false;
            if (!op->in && simulation->events[op->number].time > stream->ready)
                stream->ready = simulation->events[op->number].time;
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
    double next = SIMULATION_NEVER;

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
    struct stream *ended[2] = {NULL, NULL};
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
        if (stream->ring[stream->first].number)
            simulation->copies[stream->ring[stream->first].number - 1].end = time;
        stream->running = false;
        stream->ready = time;
        ended[which] = stream;
        engine->stream = -1;
        changed = true;
    }
    simulation->device = time;
    for (unsigned which = 0; which < 2; which++)
        if (ended[which]) {
            tell(simulation, ended[which], false);
            pop(ended[which]);
        }
    if (changed)
        simulation_set_speeds(simulation);
    for (unsigned i = 0; i < simulation->streams; i++) {
        struct stream *stream = &simulation->stream[i];

        if (!stream->running || stream->end > time)
            continue;
        stream->running = false;
        stream->ready = time;
        tell(simulation, stream, false);
        pop(stream);
    }
}

bool simulation_step(struct simulation *simulation, double limit)
{
    double next = next_end(simulation);

    if (next > limit)
        return false;
    move_to(simulation, next);
    pump(simulation);
    return true;
}

void simulation_catch_up(struct simulation *simulation)
{
    while (simulation_step(simulation, simulation->host))
        ;
    if (simulation->host > simulation->device) {
        move_to(simulation, simulation->host);
        pump(simulation); /* what ends a rounding error later has ended now */
    }
}

void simulation_waited(struct simulation *simulation)
{
    if (simulation->device > simulation->host) {
        simulation->host_waited += simulation->device - simulation->host;
        simulation->host = simulation->device;
    }
}

int simulation_enqueue(struct simulation *simulation, uint64_t index, const struct op *op)
{
    struct stream *stream = &simulation->stream[index];
    bool was_empty;

    simulation_catch_up(simulation);
    if (op->kind <= OP_COPY && stream->heavy >= MACHINE_QUEUE_DEPTH) {
        while (stream->heavy >= MACHINE_QUEUE_DEPTH && simulation_step(simulation, SIMULATION_NEVER / 2))
            ;
        simulation_waited(simulation);
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
    stream->ring[(stream->first + stream->count) & (stream->capacity - 1)].tag = simulation->tag;
    stream->count++;
    stream->heavy += op->kind <= OP_COPY;
    if (op->kind == OP_COPY)
        stream->in = op->number != 0;
    if (was_empty)
        pump(simulation);
    return 0;
}

void simulation_tag(struct simulation *simulation, uint32_t tag)
{
    simulation->tag = tag;
}

int simulation_kernel(struct simulation *simulation, uint64_t stream, double duration)
{
    return simulation_enqueue(simulation, stream, &(struct op){.kind = OP_KERNEL, .amount = duration});
}

int simulation_transfer(struct simulation *simulation, uint64_t stream, bool in, uint64_t size)
{
    return simulation_enqueue(simulation, stream,
                              &(struct op){.kind = OP_COPY, .in = in, .amount = (double)size});
}

static int times_reach(struct simulation_times *times, uint32_t number)
{
    uint32_t capacity = 2 * number + 64;
    double *time;

    if (number < times->capacity)
        return 0;
    time = realloc(times->time, capacity * sizeof *time);
    if (!time)
        return -ENOMEM;
    for (uint32_t i = times->capacity; i < capacity; i++)
        time[i] = -1;
    *times = (struct simulation_times){time, capacity};
    return 0;
}

static double times_get(const struct simulation_times *times, uint32_t number)
{
    return number < times->capacity ? times->time[number] : -1;
}

int simulation_mark(struct simulation *simulation, uint64_t stream, uint32_t number)
{
    int error = times_reach(&simulation->marks, number);

    return error ? error
                 : simulation_enqueue(simulation, stream, &(struct op){.kind = OP_MARK, .number = number});
}

double simulation_mark_time(const struct simulation *simulation, uint32_t number)
{
    return times_get(&simulation->marks, number);
}

int simulation_watch(struct simulation *simulation, uint64_t stream, uint32_t number)
{
    struct op op = {.kind = OP_WATCH, .number = number, .amount = simulation->host};
    int error = times_reach(&simulation->watched, number);

    return error ? error : simulation_enqueue(simulation, stream, &op);
}

double simulation_watched(const struct simulation *simulation, uint32_t number)
{
    return times_get(&simulation->watched, number);
}

int simulation_copy_add(struct simulation *simulation, uint64_t address, uint64_t size, uint32_t *number)
{
    if (simulation->copy_count == simulation->copy_capacity) {
        uint32_t capacity = simulation->copy_capacity ? 2 * simulation->copy_capacity : 1024;
        struct simulation_copy *copies = realloc(simulation->copies, capacity * sizeof *copies);

        if (!copies)
            return -ENOMEM;
        simulation->copies = copies;
        simulation->copy_capacity = capacity;
    }
    simulation->copies[simulation->copy_count++] = (struct simulation_copy){address, size, -1};
    *number = simulation->copy_count;
    return 0;
}

uint32_t simulation_copies_in(const struct simulation *simulation)
{
    return simulation->copy_count;
}

const struct simulation_copy *simulation_copy_in(const struct simulation *simulation, uint32_t number)
{
    return &simulation->copies[number];
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
    simulation_catch_up(simulation);
    while (simulation->stream[stream].count)
        if (!simulation_step(simulation, SIMULATION_NEVER / 2))
            return false;
    simulation_waited(simulation);
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
                                         .driver_time = simulation->driver_time};
}
