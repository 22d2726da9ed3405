/*
 * replay_operation.c - an operation of the tape through the cache, and what the driver would be given for it.
 */
#include "cache/tools/replay_internal.h"
#include "model/machine.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

_Static_assert((int)TAPE_READ == (int)CACHE_READ && (int)TAPE_WRITE == (int)CACHE_WRITE, "as cache.h's");

static int fail(struct replay *replay, int error, const struct cache_failure *failure, const char *what)
{
    struct replay_result *result = replay->result;

    if (error != -ENOMEM)
        return error;
    if (failure->tier == CACHE_TIER_HBM)
        snprintf(result->why, sizeof result->why, "%.120s needs %llu MiB of HBM at once, there are %llu",
                 what, (unsigned long long)(failure->asked >> 20),
                 (unsigned long long)(failure->hbm_limit >> 20));
    else if (!failure->host_limit)
        snprintf(result->why, sizeof result->why, "%.120s: no room for %llu MiB more, and no host memory",
                 what, (unsigned long long)(failure->asked >> 20));
    else
        snprintf(result->why, sizeof result->why,
                 "%.120s: no room for %llu MiB more on the host, %llu of %llu MiB are used", what,
                 (unsigned long long)(failure->asked >> 20), (unsigned long long)(failure->host_used >> 20),
                 (unsigned long long)(failure->host_limit >> 20));
    return -ENOSPC; /* ends the replay, not the program */
}

int replay_touches_add(struct replay *replay, const struct tape_event *event)
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

struct stream_key replay_key_of(const struct replay *replay, uint32_t stream)
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
    replay_events_operation(replay, event);
    if (event->kind == TAPE_COPY && from_host && to_host)
        error = simulation_kernel(replay->simulation, stream, (double)size * 1e9 / MACHINE_HOST_RATE);
    else if (event->kind == TAPE_COPY && from_host != to_host)
        error = simulation_transfer(replay->simulation, stream, from_host, size);
    else
        error = simulation_kernel(replay->simulation, stream,
                                  replay_duration(replay->tape, event, replay->config));
    simulation_tag(replay->simulation, 0);
    return error ? error : copied_in(replay, event);
}

static const char *name_of(const struct replay *replay, const struct tape_event *event)
{
    return tape_is_launch(event->kind) ? replay->tape->names[event->name] : "a copy";
}

/* An operation goes through the cache; touches are those of the event. */
int replay_submit_one(struct replay *replay, const struct tape_event *event,
                      const struct cache_touch *touches)
{
    struct cache_op op;
    int error;

    if (event->kind == TAPE_FREE) {
        struct stream_key key = {0, 0};

        if (event->stream != TAPE_NO_STREAM)
            key = replay_key_of(replay, event->stream);
        error = arrivals_note(&replay->arrivals, replay->simulation);
        if (error)
            return error;
        arrivals_drop(&replay->arrivals, replay->simulation, replay->addresses[event->id],
                      replay_scaled(replay->config, replay->tape->sizes[event->id]));
        return cache_free(replay->cache, replay->addresses[event->id],
                          event->stream == TAPE_NO_STREAM ? NULL : &key);
    }
    if (event->kind == TAPE_OPEN)
        error = cache_op_begin_all(replay->cache, &op, replay_key_of(replay, event->stream));
    else
        error =
            cache_op_begin(replay->cache, &op, replay_key_of(replay, event->stream), touches, event->count);
    if (error)
        return fail(replay, error, &op.failure, name_of(replay, event));
    error = forward(replay, event, false, false);
    cache_op_end(replay->cache, &op, true);
    return error ? error : note_launch(replay, event);
}

int replay_copy_now(struct replay *replay, const struct tape_event *event)
{
    const struct tape_touch *touches = &replay->tape->touches[event->first];
    uint64_t dst = 0, src = 0, dst_before, src_before, size = replay_scaled(replay->config, event->size);
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
    error = replay_touches_add(replay, event);
    if (error)
        return error;
    replay_go_alone(replay, event, replay->touches + held);
    replay->touch_count = held;
    dst_before = dst;
    src_before = src;
    error =
        cache_copy_begin(replay->cache, &op, replay_key_of(replay, event->stream), dst, src, size, &in_slot);
    if (error)
        return fail(replay, error, &op.failure, "a copy");
    error = cache_copy_part(replay->cache, &op, &dst, &src, &size); /* where the first is, all are */
    if (!error)
        error = forward(replay, event, dst != dst_before, src != src_before);
    cache_op_end(replay->cache, &op, true);
    if (!error && event->blocking && !simulation_drain(replay->simulation, replay->streams[event->stream]))
        error = -EIO;
    return error;
}

/*
 * A job may ask for all memory there is, and give it back without a touch, to find out how much that is or to
 * make a pool larger. Where it is recorded there was more, so here it would ask for less.
 */
static bool left_out(const struct replay *replay, uint32_t id, uint64_t size)
{
    return !replay->touched[id] && size > replay->config->hbm &&
           size - replay->config->hbm > replay->config->host;
}

int replay_alloc_now(struct replay *replay, const struct tape_event *event)
{
    uint64_t size = replay_scaled(replay->config, event->size);
    struct cache_failure failure;
    int error;

    simulation_host(replay->simulation, MACHINE_HOST_ALLOC);
    if (left_out(replay, event->id, size)) {
        replay->addresses[event->id] = 0;
        replay->result->left_out += (double)size;
        return 0;
    }
    error = cache_alloc(replay->cache, size, &replay->addresses[event->id], &failure);
    return error ? fail(replay, error, &failure, "an allocation") : 0;
}
