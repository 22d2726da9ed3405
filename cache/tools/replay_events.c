/*
 * replay_events.c - what happens in a replay, as events for viewers (cache/events.h): lanes of kernels,
 * copies and stalls, rounds, and what is where when an operation begins. All times are modelled.
 */
#include "cache/tools/replay_internal.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { LANE_ROUNDS = 1, LANE_IN, LANE_OUT, LANE_STREAM };

static const char *name_of(const struct replay *replay, const struct tape_event *event)
{
    if (tape_is_launch(event->kind))
        return replay->tape->names[event->name];
    return event->kind == TAPE_MEMSET ? "a memset" : "a copy";
}

static void write_state(const struct replay *replay, uint32_t tag, uint64_t time)
{
    const struct replay_state *state = &replay->states[tag - 1];
    uint64_t hbm = replay->config->hbm;

    events_counter(replay->config->events, "memory", time,
                   (struct events_arg[]){{"in use", NULL, state->used},
                                         {"free", NULL, hbm > state->used ? hbm - state->used : 0},
                                         {"spilled", NULL, state->spilled}},
                   3);
}

void replay_events_span(void *ctx, const struct simulation_span *span)
{
    const struct replay *replay = ctx;
    const struct events_arg bytes = {"bytes", NULL, (uint64_t)span->bytes};
    uint64_t begin = (uint64_t)span->begin, end = (uint64_t)span->end;
    uint32_t lane = LANE_STREAM + (uint32_t)span->stream;
    const char *name = "a host function";

    if (span->kind == SPAN_STALL) {
        events_span(replay->config->events, lane, "stalled", begin, end, NULL, 0);
        return;
    }
    if (span->kind != SPAN_KERNEL) {
        lane = span->kind == SPAN_COPY_IN ? LANE_IN : LANE_OUT;
        name = !span->own ? "the job's copy" : span->kind == SPAN_COPY_IN ? "bring back" : "evict";
    } else if (span->tag) {
        name = name_of(replay, &replay->tape->events[span->tag - 1]);
    }
    events_span(replay->config->events, lane, name, begin, end, &bytes, span->bytes > 0);
    if (span->tag && !span->own)
        write_state(replay, span->tag, begin);
}

int replay_events_begin(struct replay *replay)
{
    struct events_writer *events = replay->config->events;
    char name[64];

    if (!events)
        return 0;
    replay->states = malloc((replay->tape->event_count + 1) * sizeof *replay->states);
    if (!replay->states)
        return -ENOMEM;
    events_process(events, "hbmspill-replay (modelled)",
                   (struct events_arg[]){{"modelled", NULL, 1}, {"hbm_bytes", NULL, replay->config->hbm}}, 2);
    events_lane(events, LANE_ROUNDS, "rounds");
    events_lane(events, LANE_IN, "copies in");
    events_lane(events, LANE_OUT, "copies out");
    for (uint32_t i = 0; i < replay->tape->streams; i++) {
        snprintf(name, sizeof name, "kernels, stream %u", i);
        events_lane(events, LANE_STREAM + (uint32_t)replay->streams[i], name);
    }
    return 0;
}

void replay_events_operation(struct replay *replay, const struct tape_event *event)
{
    uint32_t index = (uint32_t)(event - replay->tape->events);
    struct cache_usage usage;

    if (!replay->states)
        return;
    cache_usage(replay->cache, &usage);
    replay->states[index] = (struct replay_state){cache_used(replay->cache), usage.spilled};
    simulation_tag(replay->simulation, index + 1);
}

void replay_events_end(const struct replay *replay)
{
    double begin = replay->prologue ? simulation_mark_time(replay->simulation, 0) : 0, end;
    char name[32];

    for (uint32_t i = 0; replay->states && i < replay->marks; i++, begin = end) {
        end = simulation_mark_time(replay->simulation, i + 1);
        snprintf(name, sizeof name, "round %u", i + 1);
        events_span(replay->config->events, LANE_ROUNDS, name, (uint64_t)begin, (uint64_t)end, NULL, 0);
    }
}
