/*
 * stays.h - when pieces of a round's buffers are in HBM: from a schedule, and when its copies run.
 *
 * A stay is some pieces of a buffer from when they arrive, or are born, to when they leave, or die. It is an
 * arc around the round twice over: in the order in which things are issued (phases), and in time (nanoseconds
 * from the start of the round's first operation). In time it begins where its copy in does, or its first
 * operation, and takes until its copy out or last operation has ended: then another may have its frames
 * without a wait.
 *
 * Plain data, no locks.
 */
#ifndef HBMSPILL_CACHE_STAYS_H
#define HBMSPILL_CACHE_STAYS_H

#include "cache/cycle_run.h"

struct stay {
    uint32_t buffer, first, count; /* pieces */
    uint32_t action;       /* that brings them in, CYCLE_NEVER: they are born, or there all the time */
    uint32_t from, length; /* phases, as issued; length at most the round's */
    uint32_t patience;     /* phases from `from' on for which nobody needs them yet */
    double begins, takes;  /* 0 <= begins < round, takes <= round */
    bool whole;            /* they never leave */
};

struct stays {
    struct stay *stays;
    uint32_t count, capacity;
};

/*
 * All stays that are no longer than a round. -ENOMEM: nothing is left to free.
 */
int stays_make(const struct cycle *cycle, const struct schedule *schedule, const struct cycle_times *times,
               struct stays *out);
void stays_free(struct stays *stays);

#endif
