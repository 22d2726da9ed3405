#include "cache/tools/replay.h"
#include "cache/cache.h"
#include "cache/tools/arrivals.h"
#include "model/machine.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)TAPE_READ == (int)CACHE_READ && (int)TAPE_WRITE == (int)CACHE_WRITE, "as cache.h's");

struct replay {
    const struct tape *tape;
    const struct replay_tape *about;
    const struct replay_config *config;
    struct replay_result *result;
    struct simulation *simulation;
    struct cache *cache;
    struct arrivals arrivals;
    uint32_t operations_before, operations_after; /* arrivals.operations, as the counts below */
    uint64_t *addresses;                          /* by birth */
    uint64_t *streams;                            /* the tape's to the simulation's */
    uint32_t *recordings; /* by number: the simulation's, UINT32_MAX while it is held */
    uint32_t recorded;    /* of them, those that have been played */
    uint32_t *given;      /* by birth: the simulation's recording behind the job's last copy into it */
    uint32_t launches;    /* submitted */
    uint32_t prologue;    /* launches before the first round */
    uint32_t marks;
    struct statistics before; /* when the first round that counts began */
    struct simulation_counts counts_before, counts_after;
    struct statistics after;
    struct {
        uint32_t event;
        uint32_t recording; /* that it makes or waits for */
    } * held;
    uint32_t held_count;
    bool tail; /* of what is held, as hooks/window.h says */
    struct cache_planned_op *ops;
    struct cache_touch *touches;
    uint32_t touch_count, touch_capacity;
};

static int fail(struct replay *replay, int error, const struct cache_failure *failure, const char *what)
{
    struct replay_result *result = replay->result;

    if (error != -ENOMEM)
        return error;
    if (failure->tier == CACHE_TIER_HBM)
        snprintf(result->why, sizeof result->why, "%.120s needs %llu MiB of HBM at once, there are %llu",
                 what, (unsigned long long)(failure->asked >> 20),
                 (unsigned long long)(failure->hbm_limit >> 20));
    else
        snprintf(result->why, sizeof result->why,
                 "%.120s: no room for %llu MiB more on the host, %llu of %llu MiB are used", what,
                 (unsigned long long)(failure->asked >> 20), (unsigned long long)(failure->host_used >> 20),
                 (unsigned long long)(failure->host_limit >> 20));
    return -ENOSPC; /* ends the replay, not the program */
}

static int touches_add(struct replay *replay, const struct tape_event *event)
{
    if (replay->touch_count + event->count > replay->touch_capacity) {
        uint32_t capacity = 2 * (replay->touch_capacity + event->count);
        struct cache_touch *grown = realloc(replay->touches, capacity * sizeof *grown);

        if (!grown)
            return -EIO;
        replay->touches = grown;
        replay->touch_capacity = capacity;
    }
    for (uint32_t i = event->first; i < event->first + event->count; i++) {
        const struct tape_touch *touch = &replay->tape->touches[i];

        replay->touches[replay->touch_count++] =
            (struct cache_touch){replay->addresses[touch->id], touch->access};
    }
    return 0;
}

static struct stream_key key_of(const struct replay *replay, uint32_t stream)
{
    return (struct stream_key){replay->streams[stream], 0};
}

/* A launch was submitted: at the end of a round its time is wanted. */
static int note_launch(struct replay *replay, const struct tape_event *event)
{
    uint32_t in_rounds;

    if (!tape_is_launch(event->kind))
        return 0;
    replay->launches++;
    if (!replay->about->rounds || replay->launches < replay->prologue)
        return 0;
    in_rounds = replay->launches - replay->prologue;
    if (in_rounds % replay->about->period)
        return 0;
    if (in_rounds / replay->about->period == replay->config->steady) {
        replay->before = *cache_statistics(replay->cache);
        simulation_counts(replay->simulation, &replay->counts_before);
        replay->operations_before = replay->arrivals.operations;
    }
    replay->after = *cache_statistics(replay->cache);
    simulation_counts(replay->simulation, &replay->counts_after);
    replay->operations_after = replay->arrivals.operations;
    replay->marks = in_rounds / replay->about->period;
    return simulation_mark(replay->simulation, replay->streams[event->stream], replay->marks);
}

/* What came in for the event is told from what comes in for others, ahead of the event in its stream. */
static int watch(struct replay *replay, const struct tape_event *event)
{
    uint32_t number;
    int error = arrivals_note(&replay->arrivals, replay->simulation);

    if (error)
        return error;
    if (event->kind == TAPE_OPEN)
        arrivals_claim(&replay->arrivals, replay->simulation, 0, UINT64_MAX);
    for (uint32_t i = event->first; i < event->first + event->count; i++) {
        uint32_t id = replay->tape->touches[i].id;

        arrivals_claim(&replay->arrivals, replay->simulation, replay->addresses[id],
                       replay_scaled(replay->config, replay->tape->sizes[id]));
    }
    if (!arrivals_operation(&replay->arrivals, &number))
        return 0;
    return simulation_watch(replay->simulation, replay->streams[event->stream], number);
}

/*
 * What uses an array that the job copies in comes behind the copy. Where no event says so the host knew that
 * it was over, which is not in the tape.
 */
static int follow_copies(struct replay *replay, const struct tape_event *event)
{
    int error = 0;

    for (uint32_t i = event->first; i < event->first + event->count && !error; i++) {
        uint32_t *given = &replay->given[replay->tape->touches[i].id];

        if (*given != UINT32_MAX)
            error = simulation_after(replay->simulation, replay->streams[event->stream], *given);
        *given = UINT32_MAX;
    }
    return error;
}

static int copied_in(struct replay *replay, const struct tape_event *event)
{
    if (event->kind != TAPE_COPY || event->form != TAPE_TO_DEVICE || !event->count)
        return 0;
    return simulation_record(replay->simulation, replay->streams[event->stream],
                             &replay->given[replay->tape->touches[event->first].id]);
}

/* What the driver is given for an event, once its memory is in place. in_slot: one end, ours, is on the host.
 */
static int forward(struct replay *replay, const struct tape_event *event, bool dst_in_slot, bool src_in_slot)
{
    uint64_t stream = replay->streams[event->stream], size = replay_scaled(replay->config, event->size);
    bool from_host = src_in_slot || event->form == TAPE_TO_DEVICE;
    bool to_host = dst_in_slot || event->form == TAPE_TO_HOST;

    int error;

    simulation_host(replay->simulation, MACHINE_HOST_LAUNCH);
    error = watch(replay, event);
    if (!error)
        error = follow_copies(replay, event);
    if (error)
        return error;
    if (event->kind == TAPE_COPY && from_host && to_host)
        error = simulation_kernel(replay->simulation, stream, (double)size * 1e9 / MACHINE_HOST_RATE);
    else if (event->kind == TAPE_COPY && from_host != to_host)
        error = simulation_transfer(replay->simulation, stream, from_host, size);
    else
        error = simulation_kernel(replay->simulation, stream,
                                  replay_duration(replay->tape, event, replay->config));
    return error ? error : copied_in(replay, event);
}

static const char *name_of(const struct replay *replay, const struct tape_event *event)
{
    return tape_is_launch(event->kind) ? replay->tape->names[event->name] : "a copy";
}

/* An operation goes through the cache; touches are those of the event. */
static int submit_one(struct replay *replay, const struct tape_event *event,
                      const struct cache_touch *touches)
{
    struct cache_op op;
    int error;

    if (event->kind == TAPE_FREE) {
        struct stream_key key = {0, 0};

        if (event->stream != TAPE_NO_STREAM)
            key = key_of(replay, event->stream);
        error = arrivals_note(&replay->arrivals, replay->simulation);
        if (error)
            return error;
        arrivals_drop(&replay->arrivals, replay->simulation, replay->addresses[event->id],
                      replay_scaled(replay->config, replay->tape->sizes[event->id]));
        return cache_free(replay->cache, replay->addresses[event->id],
                          event->stream == TAPE_NO_STREAM ? NULL : &key);
    }
    if (event->kind == TAPE_OPEN)
        error = cache_op_begin_all(replay->cache, &op, key_of(replay, event->stream));
    else
        error = cache_op_begin(replay->cache, &op, key_of(replay, event->stream), touches, event->count);
    if (error)
        return fail(replay, error, &op.failure, name_of(replay, event));
    error = forward(replay, event, false, false);
    cache_op_end(replay->cache, &op, true);
    return error ? error : note_launch(replay, event);
}

/* As hooks/window.c: launches, copies within the device and memsets. */
static bool holdable(const struct tape_event *event)
{
    return event->kind == TAPE_LAUNCH || event->kind == TAPE_MEMSET ||
           (event->kind == TAPE_COPY && event->form == TAPE_INSIDE && !event->blocking);
}

/* By which rounds tell operations apart. */
static uint64_t kind_of(const struct tape_event *event)
{
    return (uint64_t)event->kind << 32 | (tape_is_launch(event->kind) ? event->name : 0);
}

static bool births(const struct replay *replay, const struct tape_event *event)
{
    return event->kind == TAPE_COPY && event->form == TAPE_TO_DEVICE &&
           cache_copy_is_birth(replay->cache, replay->addresses[replay->tape->touches[event->first].id],
                               replay_scaled(replay->config, event->size));
}

/* Where nothing is held, an operation is a window by itself. */
static void go_alone(struct replay *replay, const struct tape_event *event, const struct cache_touch *touches)
{
    struct cache_planned_op op = {.touches = touches, .count = event->count, .kind = kind_of(event)};

    if (!births(replay, event) &&
        (replay->config->window || !holdable(event) || !cache_under_pressure(replay->cache)))
        return;
    simulation_host(replay->simulation, MACHINE_HOST_PLAN);
    cache_window_alone(replay->cache, &op);
}

/* What stands behind a host function may wait for a thread that waits for room: the cache is told, as by the
 * hooks. */
static int host_function(struct replay *replay, const struct tape_event *event)
{
    int error = cache_stream_hold(replay->cache, key_of(replay, event->stream));

    if (error)
        return error;
    simulation_host(replay->simulation, MACHINE_HOST_LAUNCH);
    error = simulation_kernel(replay->simulation, replay->streams[event->stream], MACHINE_HOST_FUNCTION);
    cache_stream_held(replay->cache, key_of(replay, event->stream));
    return error;
}

/* What a window may have in its tail besides frees. */
static bool of_tail(const struct tape_event *event)
{
    return event->kind == TAPE_RECORD || event->kind == TAPE_AFTER || event->kind == TAPE_MARK ||
           event->kind == TAPE_HOST_FUNCTION;
}

/* An event, with the recording that it makes or waits for. */
static int tail_event(struct replay *replay, const struct tape_event *event, uint32_t recording)
{
    uint64_t stream = replay->streams[event->stream];

    if (event->kind == TAPE_HOST_FUNCTION)
        return host_function(replay, event);
    if (event->kind == TAPE_RECORD)
        return simulation_record(replay->simulation, stream, &replay->recordings[recording]);
    if (event->kind == TAPE_AFTER)
        return simulation_after(replay->simulation, stream, replay->recordings[recording]);
    return 0;
}

static int submit_held(struct replay *replay)
{
    uint32_t count = replay->held_count, touch = 0, planned = 0, step = 0;
    int error = 0;

    if (!count)
        return 0;
    replay->held_count = 0;
    replay->tail = false;
    for (uint32_t i = 0; i < count; i++) {
        const struct tape_event *event = &replay->tape->events[replay->held[i].event];
        bool is_free = event->kind == TAPE_FREE;

        if (of_tail(event))
            continue;
        replay->ops[planned++] = (struct cache_planned_op){
            .touches = is_free ? NULL : replay->touches + touch,
            .count = event->count,
            .free_address = is_free ? replay->addresses[event->id] : 0,
            .kind = kind_of(event),
        };
        touch += event->count;
    }
    simulation_host(replay->simulation, MACHINE_HOST_PLAN * (double)planned);
    cache_window_begin(replay->cache, replay->ops, planned);
    for (uint32_t i = 0; i < count && !error; i++) {
        const struct tape_event *event = &replay->tape->events[replay->held[i].event];

        if (of_tail(event)) {
            error = tail_event(replay, event, replay->held[i].recording);
        } else {
            cache_window_step(replay->cache, step);
            error = submit_one(replay, event, replay->ops[step++].touches);
        }
    }
    cache_window_end(replay->cache);
    replay->touch_count = 0;
    return error;
}

/* Whether something of that stream is held, or of any: it has to go first. */
static bool stream_held(const struct replay *replay, uint32_t stream)
{
    for (uint32_t i = 0; i < replay->held_count; i++)
        if (stream == TAPE_NO_STREAM || replay->tape->events[replay->held[i].event].stream == stream)
            return true;
    return false;
}

static bool is_held(const struct replay *replay, uint32_t recording)
{
    return replay->recordings[recording] == UINT32_MAX;
}

/* What can be held, and frees behind it. */
static bool may_hold(const struct replay *replay, const struct tape_event *event, uint32_t recording)
{
    if (!replay->config->window || !cache_under_pressure(replay->cache))
        return false;
    if (of_tail(event))
        return stream_held(replay, event->stream) ||
               (event->kind == TAPE_AFTER && is_held(replay, recording));
    if (event->kind == TAPE_FREE) /* with nothing held there is nothing to stay behind of */
        return event->stream != TAPE_NO_STREAM && stream_held(replay, event->stream);
    return holdable(event) && !replay->tail;
}

static int copy_now(struct replay *replay, const struct tape_event *event)
{
    const struct tape_touch *touches = &replay->tape->touches[event->first];
    uint64_t dst = 0, src = 0, dst_before, src_before;
    struct cache_op op;
    uint32_t held;
    bool in_slot = false;
    int error;

    for (uint32_t i = 0; i < event->count; i++) {
        if (touches[i].access & TAPE_WRITE)
            dst = replay->addresses[touches[i].id];
        else
            src = replay->addresses[touches[i].id];
    }
    if (event->form == TAPE_INSIDE && !src) /* within one allocation */
        src = dst;
    held = replay->touch_count;
    error = touches_add(replay, event);
    if (error)
        return error;
    go_alone(replay, event, replay->touches + held);
    replay->touch_count = held;
    dst_before = dst;
    src_before = src;
    error = cache_copy_begin(replay->cache, &op, key_of(replay, event->stream), &dst, &src,
                             replay_scaled(replay->config, event->size), &in_slot);
    if (error)
        return fail(replay, error, &op.failure, "a copy");
    error = forward(replay, event, dst != dst_before, src != src_before);
    cache_op_end(replay->cache, &op, true);
    if (!error && event->blocking && !simulation_drain(replay->simulation, replay->streams[event->stream]))
        error = -EIO;
    return error;
}

static int alloc_now(struct replay *replay, const struct tape_event *event)
{
    struct cache_failure failure;
    int error;

    simulation_host(replay->simulation, MACHINE_HOST_ALLOC);
    error = cache_alloc(replay->cache, replay_scaled(replay->config, event->size),
                        &replay->addresses[event->id], &failure);
    return error ? fail(replay, error, &failure, "an allocation") : 0;
}

static int play(struct replay *replay, uint32_t index)
{
    const struct tape_event *event = &replay->tape->events[index];
    uint32_t held, recording = 0;
    int error;

    if (event->kind == TAPE_ALLOC)
        return alloc_now(replay, event);
    if (event->kind == TAPE_RECORD)
        recording = replay->recorded++;
    if (event->kind == TAPE_AFTER)
        recording = replay->recorded - event->back;
    if (event->kind == TAPE_FREE)
        simulation_host(replay->simulation, MACHINE_HOST_ALLOC);
    else if (event->kind != TAPE_SUBMIT && event->kind != TAPE_WAIT)
        simulation_host(replay->simulation, MACHINE_HOST_CALL);
    if (replay->tail && holdable(event) && stream_held(replay, event->stream)) {
        error = submit_held(replay);
        if (error)
            return error;
    }
    if (may_hold(replay, event, recording)) {
        replay->tail |= of_tail(event);
        error = touches_add(replay, event);
        replay->held[replay->held_count].event = index;
        replay->held[replay->held_count++].recording = recording;
        return error || replay->held_count < replay->config->window ? error : submit_held(replay);
    }
    if (stream_held(replay, event->stream) || (event->kind == TAPE_AFTER && is_held(replay, recording)))
        error = submit_held(replay);
    else
        error = 0;
    if (error || event->kind == TAPE_SUBMIT)
        return error;
    if (of_tail(event))
        return tail_event(replay, event, recording);
    if (event->kind == TAPE_WAIT) {
        if (event->stream == TAPE_NO_STREAM)
            return simulation_drain_all(replay->simulation) ? 0 : -EIO;
        return simulation_drain(replay->simulation, replay->streams[event->stream]) ? 0 : -EIO;
    }
    if (event->kind == TAPE_COPY)
        return copy_now(replay, event);
    held = replay->touch_count; /* of what stays held, in other streams */
    error = touches_add(replay, event);
    if (!error)
        go_alone(replay, event, replay->touches + held);
    if (!error) /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): replay_run frees the touches */
        error = submit_one(replay, event, replay->touches + held);
    replay->touch_count = held;
    return error;
}

/* Address space for all that is alive at once, twice over: sizes that change do not share addresses. */
static uint64_t address_space(const struct tape *tape, const struct replay_config *config, uint64_t frame)
{
    uint64_t live = 0, most = 0;

    for (uint32_t i = 0; i < tape->event_count; i++) {
        uint64_t size = tape->events[i].kind == TAPE_ALLOC || tape->events[i].kind == TAPE_FREE
                            ? replay_scaled(config, tape->sizes[tape->events[i].id]) + frame
                            : 0;

        live += tape->events[i].kind == TAPE_ALLOC ? size : -size;
        if (live > most)
            most = live;
    }
    return 2 * most + frame;
}

static void conclude(struct replay *replay)
{
    struct replay_result *result = replay->result;
    const struct statistics *now = cache_statistics(replay->cache);
    double rounds = replay->marks > replay->config->steady ? replay->marks - replay->config->steady : 0;
    struct simulation_counts counts;

    simulation_counts(replay->simulation, &counts);
    result->complete = true;
    result->statistics = *now;
    result->makespan = simulation_now(replay->simulation);
    result->link_in = counts.in_bytes;
    result->link_out = counts.out_bytes;
    for (uint32_t i = 0; i < replay->marks && i < REPLAY_ROUNDS_TOLD; i++) {
        double begin = i || replay->prologue ? simulation_mark_time(replay->simulation, i) : 0;

        result->each[result->told++] = simulation_mark_time(replay->simulation, i + 1) - begin;
    }
    if (rounds > 0) {
        result->round = (simulation_mark_time(replay->simulation, replay->marks) -
                         simulation_mark_time(replay->simulation, replay->config->steady)) /
                        rounds;
        result->in = (double)(replay->after.bytes_in - replay->before.bytes_in) / rounds;
        result->late = arrivals_late(&replay->arrivals, replay->simulation, replay->operations_before,
                                     replay->operations_after) /
                       rounds;
        result->out = (double)(replay->after.bytes_out - replay->before.bytes_out) / rounds;
        result->binding_calls =
            (double)(replay->after.map_calls + replay->after.unmap_calls + replay->after.access_calls -
                     replay->before.map_calls - replay->before.unmap_calls - replay->before.access_calls) /
            rounds;
        result->stalled =
            (replay->counts_after.stream_stalled - replay->counts_before.stream_stalled) / rounds;
        result->driver = (replay->counts_after.driver_time - replay->counts_before.driver_time) / rounds;
        result->host_waited = (replay->counts_after.host_waited - replay->counts_before.host_waited) / rounds;
    } else {
        result->round = result->makespan;
        result->in = (double)now->bytes_in;
        result->late = arrivals_late(&replay->arrivals, replay->simulation, 0, replay->arrivals.operations);
        result->out = (double)now->bytes_out;
        result->stalled = counts.stream_stalled;
        result->host_waited = counts.host_waited;
        result->driver = counts.driver_time;
        result->binding_calls = (double)(now->map_calls + now->unmap_calls + now->access_calls);
    }
}

int replay_run(const struct tape *tape, const struct replay_tape *about, const struct replay_config *config,
               struct replay_result *result)
{
    struct replay replay = {.tape = tape, .about = about, .config = config, .result = result};
    uint64_t frame = config->frame_size ? config->frame_size : replay_frame_size(config->hbm);
    struct simulation_config machine = {
        .link = config->link, .driver_scale = config->driver_scale, .hbm = config->hbm, .host = config->host};
    struct cache_config cache = {.frame_size = frame,
                                 .hbm_limit = config->hbm,
                                 .host_limit = config->host,
                                 .window_size = address_space(tape, config, frame),
                                 .policy = config->policy,
                                 .prefetch = config->prefetch,
                                 .ahead = config->ahead,
                                 .follow = config->follow,
                                 .planner = config->planner};
    int error;

    *result = (struct replay_result){.complete = false};
    replay.prologue = tape->launches - about->rounds * about->period;
    replay.addresses = calloc(tape->births + 1, sizeof *replay.addresses);
    replay.streams = calloc(tape->streams + 1, sizeof *replay.streams);
    replay.recordings = malloc((tape->recordings + 1) * sizeof *replay.recordings);
    replay.given = malloc((tape->births + 1) * sizeof *replay.given);
    replay.held = malloc((config->window + 1) * sizeof *replay.held);
    replay.ops = malloc((config->window + 1) * sizeof *replay.ops);
    error =
        replay.addresses && replay.streams && replay.recordings && replay.given && replay.held && replay.ops
            ? 0
            : -ENOMEM;
    if (!error) {
        memset(replay.recordings, 0xff, (tape->recordings + 1) * sizeof *replay.recordings);
        memset(replay.given, 0xff, (tape->births + 1) * sizeof *replay.given);
        error = simulation_create(&machine, &replay.simulation);
    }
    if (!error)
        error = cache_create(simulation_ops(replay.simulation), &cache, &replay.cache);
    if (!error)
        cache_set_link(replay.cache, &(struct cache_link){config->link.in, config->link.out,
                                                          config->link.in_both, config->link.out_both});
    for (uint32_t i = 0; i < tape->streams && !error; i++)
        error = simulation_stream(replay.simulation, &replay.streams[i]);
    if (!error) {
        for (uint32_t i = 0; i < tape->event_count && !error; i++)
            error = play(&replay, i);
        if (!error)
            error = submit_held(&replay);
        if (!simulation_drain_all(replay.simulation) && !error)
            error = -EIO;
        if (!error)
            conclude(&replay);
        if (error == -ENOSPC) /* it does not fit: that is the answer */
            error = 0;
    }
    if (replay.cache)
        cache_destroy(replay.cache);
    simulation_destroy(replay.simulation);
    arrivals_free(&replay.arrivals);
    free(replay.addresses);
    free(replay.streams);
    free(replay.recordings);
    free(replay.given);
    free(replay.held);
    free(replay.ops);
    free(replay.touches);
    return error;
}
