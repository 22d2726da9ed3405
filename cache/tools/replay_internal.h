/*
 * replay_internal.h - a replay under way, as its files see it: replay.c (from beginning to end),
 * replay_window.c (what is held), replay_operation.c (an operation).
 *
 * Functions return 0 or -errno; -ENOSPC ends the replay, not the program.
 */
#ifndef HBMSPILL_CACHE_TOOLS_REPLAY_INTERNAL_H
#define HBMSPILL_CACHE_TOOLS_REPLAY_INTERNAL_H

#include "cache/tools/arrivals.h"
#include "cache/tools/replay.h"

/* What is where when an operation of the tape is submitted: bytes. */
struct replay_state {
    uint64_t used, spilled;
};

struct replay {
    const struct tape *tape;
    const struct replay_tape *about;
    const struct replay_config *config;
    struct replay_result *result;
    struct simulation *simulation;
    struct cache *cache;
    struct arrivals arrivals;
    uint32_t operations_before, operations_after; /* arrivals.operations, as the counts below */
    uint64_t *addresses;                          /* by birth; 0: left out */
    bool *touched;                                /* by birth: an operation of the tape does */
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
    struct replay_state *states; /* by event of the tape, where events are written */
};

/* Plays an event of the tape, or holds it. */
int replay_play(struct replay *replay, uint32_t index);
/* What is held goes, in order. */
int replay_submit_held(struct replay *replay);
/* Where nothing is held, an operation is a window by itself. */
void replay_go_alone(struct replay *replay, const struct tape_event *event,
                     const struct cache_touch *touches);

/* The event's touches behind those there are. */
int replay_touches_add(struct replay *replay, const struct tape_event *event);
struct stream_key replay_key_of(const struct replay *replay, uint32_t stream);
/* An operation, or a free, that is not held; touches are those of the event. */
int replay_submit_one(struct replay *replay, const struct tape_event *event,
                      const struct cache_touch *touches);
int replay_copy_now(struct replay *replay, const struct tape_event *event);
int replay_alloc_now(struct replay *replay, const struct tape_event *event);

/*
 * What happens as events (replay_events.c), where the configuration asks for it: what the lanes are, an
 * operation is submitted next, what the simulation tells, and at the end the rounds.
 */
int replay_events_begin(struct replay *replay);
void replay_events_operation(struct replay *replay, const struct tape_event *event);
void replay_events_span(void *ctx, const struct simulation_span *span);
void replay_events_end(const struct replay *replay);

#endif
