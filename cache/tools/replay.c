/*
 * replay.c - a tape from its beginning to its end, and what came of it.
 */
#include "cache/segment.h"
#include "cache/tools/replay_internal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Address space for all that is alive at once, twice over: sizes that change do not share addresses. */
static uint64_t address_space(const struct tape *tape, const struct replay_config *config, uint64_t frame)
{
    uint64_t live = 0, most = 0;

    for (uint32_t i = 0; i < tape->event_count; i++) {
        uint64_t size = tape->events[i].kind == TAPE_ALLOC || tape->events[i].kind == TAPE_FREE
                            ? replay_scaled(config, tape->sizes[tape->events[i].id]) + SEGMENT_LARGER * frame
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
    struct simulation_config machine = {.link = config->link,
                                        .span = config->events ? replay_events_span : NULL,
                                        .span_ctx = &replay,
                                        .driver_scale = config->driver_scale,
                                        .hbm = config->hbm,
                                        .host = config->host};
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
    replay.touched = calloc(tape->births + 1, sizeof *replay.touched);
    replay.streams = calloc(tape->streams + 1, sizeof *replay.streams);
    replay.recordings = malloc((tape->recordings + 1) * sizeof *replay.recordings);
    replay.given = malloc((tape->births + 1) * sizeof *replay.given);
    replay.held = malloc((config->window + 1) * sizeof *replay.held);
    replay.ops = malloc((config->window + 1) * sizeof *replay.ops);
    error = replay.addresses && replay.touched && replay.streams && replay.recordings && replay.given &&
                    replay.held && replay.ops
                ? 0
                : -ENOMEM;
    if (!error) {
        for (uint32_t i = 0; i < tape->touch_count; i++)
            replay.touched[tape->touches[i].id] = true;
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
    if (!error)
        error = replay_events_begin(&replay);
    if (!error) {
        for (uint32_t i = 0; i < tape->event_count && !error; i++)
            error = replay_play(&replay, i);
        if (!error)
            error = replay_submit_held(&replay);
        if (!simulation_drain_all(replay.simulation) && !error)
            error = -EIO;
        if (!error)
            conclude(&replay);
        if (!error)
            replay_events_end(&replay);
        if (error == -ENOSPC) /* it does not fit: that is the answer */
            error = 0;
    }
    if (replay.cache)
        cache_destroy(replay.cache);
    simulation_destroy(replay.simulation);
    arrivals_free(&replay.arrivals);
    free(replay.addresses);
    free(replay.touched);
    free(replay.streams);
    free(replay.recordings);
    free(replay.given);
    free(replay.held);
    free(replay.ops);
    free(replay.touches);
    free(replay.states);
    return error;
}
