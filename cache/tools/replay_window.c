/*
 * replay_window.c - what is held and when it is submitted, as the hooks do it (hooks/window*.c).
 */
#include "cache/tools/replay_internal.h"
#include "model/machine.h"
#include <errno.h>

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
void replay_go_alone(struct replay *replay, const struct tape_event *event, const struct cache_touch *touches)
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
    int error = cache_stream_hold(replay->cache, replay_key_of(replay, event->stream));

    if (error)
        return error;
    simulation_host(replay->simulation, MACHINE_HOST_LAUNCH);
    error = simulation_kernel(replay->simulation, replay->streams[event->stream], MACHINE_HOST_FUNCTION);
    cache_stream_held(replay->cache, replay_key_of(replay, event->stream));
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

int replay_submit_held(struct replay *replay)
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
            error = replay_submit_one(replay, event, replay->ops[step++].touches);
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

int replay_play(struct replay *replay, uint32_t index)
{
    const struct tape_event *event = &replay->tape->events[index];
    uint32_t held, recording = 0;
    int error;

    if (event->kind == TAPE_ALLOC)
        return replay_alloc_now(replay, event);
    if (event->kind == TAPE_RECORD)
        recording = replay->recorded++;
    if (event->kind == TAPE_AFTER)
        recording = replay->recorded - event->back;
    if (event->kind == TAPE_FREE)
        simulation_host(replay->simulation, MACHINE_HOST_ALLOC);
    else if (event->kind != TAPE_SUBMIT && event->kind != TAPE_WAIT)
        simulation_host(replay->simulation, MACHINE_HOST_CALL);
    if (event->kind == TAPE_FREE && !replay->addresses[event->id])
        return 0;
    if (replay->tail && holdable(event) && stream_held(replay, event->stream)) {
        error = replay_submit_held(replay);
        if (error)
            return error;
    }
    if (may_hold(replay, event, recording)) {
        replay->tail |= of_tail(event);
        error = replay_touches_add(replay, event);
        replay->held[replay->held_count].event = index;
        replay->held[replay->held_count++].recording = recording;
        return error || replay->held_count < replay->config->window ? error : replay_submit_held(replay);
    }
    if (stream_held(replay, event->stream) || (event->kind == TAPE_AFTER && is_held(replay, recording)))
        error = replay_submit_held(replay);
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
        return replay_copy_now(replay, event);
    held = replay->touch_count; /* of what stays held, in other streams */
    error = replay_touches_add(replay, event);
    if (!error)
        replay_go_alone(replay, event, replay->touches + held);
    if (!error) /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): replay_run frees the touches */
        error = replay_submit_one(replay, event, replay->touches + held);
    replay->touch_count = held;
    return error;
}
