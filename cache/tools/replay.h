/*
 * replay.h - a tape run through the cache on a simulated machine.
 *
 * Allocations, operations and frees go to the cache as the hooks would have given them to it; with a window,
 * operations are held and submitted together as hooks/window.h describes, but for the timer: a tape has no
 * time in it. All times are modelled, nanoseconds; sizes bytes.
 */
#ifndef HBMSPILL_CACHE_TOOLS_REPLAY_H
#define HBMSPILL_CACHE_TOOLS_REPLAY_H

#include "cache/cache.h"
#include "cache/events.h"
#include "cache/tape.h"
#include "cache/tools/simulation.h"

enum {
    REPLAY_FIRST_STEADY = 2, /* rounds that count begin with the third */
    REPLAY_ROUNDS_TOLD = 64,
};

struct replay_config {
    struct simulation_link link;
    uint64_t hbm, host;
    uint64_t frame_size; /* 0: as the hooks choose it */
    enum cache_policy policy;
    bool prefetch; /* as in struct cache_config */
    unsigned ahead;
    bool follow;                         /* rounds that repeat are followed by schedules */
    const struct cache_planner *planner; /* who makes better ones, or NULL */
    unsigned window;                     /* most operations held, 0: none */
    uint32_t steady;                     /* rounds before those that count */
    double rate;                         /* bytes a second, for kernels whose duration is not in the tape */
    double size_scale;                   /* a byte of the tape stands for so many */
    double driver_scale;                 /* of what the cache's driver calls cost */
    struct events_writer *events;        /* what happens is written there, or NULL */
};

/* What a tape is, whatever machine it runs on. */
struct replay_tape {
    uint32_t period, rounds; /* launches a round, rounds; 0: no rounds were found */
    uint64_t live;           /* most bytes between their first touch and their last, in the rounds counted */
    uint64_t largest;        /* most bytes one operation touches */
    double compute;          /* of a round where there are any, else of the tape */
};

struct replay_result {
    bool complete; /* else `why' says where it ended */
    char why[256];
    double makespan; /* from the first call to the end of all work */
    double round;    /* of a round, from the third on; the makespan where there are no rounds */
    double each[REPLAY_ROUNDS_TOLD]; /* the time of each of the first rounds */
    uint32_t told;                   /* of how many */
    double in, out;                  /* bytes moved by the cache, of such a round */
    double late;                 /* of `in': not there when their operation could have started; arrivals.h */
    double link_in, link_out;    /* all bytes that crossed the link */
    double driver;               /* host time of the cache's driver calls, of such a round */
    double binding_calls;        /* map, unmap, set access: of such a round */
    double left_out;             /* bytes of allocations that nothing touches and no tier can have */
    double stalled, host_waited; /* of such a round: by the job's streams, by the host */
    struct statistics statistics;
};

/* False where there is no memory for it. */
bool replay_examine(const struct tape *tape, const struct replay_config *config, struct replay_tape *out);

/* 0, or -ENOMEM, -EIO. That the job does not fit is no error but a result that is not complete. */
int replay_run(const struct tape *tape, const struct replay_tape *about, const struct replay_config *config,
               struct replay_result *result);

/* What a size of the tape stands for. */
static inline uint64_t replay_scaled(const struct replay_config *config, uint64_t size)
{
    return (uint64_t)((double)size * config->size_scale);
}

/* How long an event occupies its stream. */
double replay_duration(const struct tape *tape, const struct tape_event *event,
                       const struct replay_config *config);

/* The cache's choice (cache_frame_size). */
uint64_t replay_frame_size(uint64_t hbm);

#endif
