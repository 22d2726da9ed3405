/*
 * cycle_run.h - how long a round of a cycle takes with a schedule, as the cache would carry it out.
 *
 * Everything is issued in order, by a host that is never late but where a queue is full, or for a binding:
 * the frees and the actions of a phase, then its operation. There is one stream for the operations, one for
 * copies out and one for copies in, each first in, first out; the two directions run at once, at the link's
 * rates for that. An action is one copy; one in of a paced schedule begins no sooner than its operation
 * could.
 *
 * A copy out follows the buffer's last use and frees its frames at its end. A copy in takes the free frames
 * that are ready first; where there are too few it waits, in order, for frames that are given up by what is
 * issued later. An operation that lacks pieces by then brings them in itself; where no frame is free it
 * evicts what is used furthest ahead. A newborn buffer gets the youngest frames at its first use. What is
 * asked of pieces that are there already, or gone, is nothing.
 *
 * Rounds are run until one takes as long as the one before, or two take turns. The same input gives the same
 * result to the last bit. Times are nanoseconds. Objects belong to one thread at a time.
 */
#ifndef HBMSPILL_CACHE_CYCLE_RUN_H
#define HBMSPILL_CACHE_CYCLE_RUN_H

#include "cache/cycle.h"

struct cycle_result { /* of the last round run, or the mean of the last two */
    double time, compute;
    double stall;       /* time - compute */
    double in, out;     /* bytes */
    uint32_t misses;    /* operations that had to bring something in, or to evict, themselves */
    uint32_t rounds;    /* that were run */
    uint32_t displaced; /* with colours: pieces that came to another than theirs */
    uint32_t bound;     /* and those whose address was bound anew */
    uint64_t most_used; /* bytes of HBM */
};

struct cycle_run;

/* Room to run a cycle in, many times. It refers to the cycle. NULL: no memory. */
struct cycle_run *cycle_run_new(const struct cycle *cycle);
void cycle_run_free(struct cycle_run *run);

/*
 * `schedule' may be NULL: nothing is moved but on demand. `stalls': NULL, or for each phase how long its
 * operation waited with the stream empty. -ENOSPC: there is an operation that does not fit; -EINVAL: the
 * schedule does not fit the cycle; -ENOMEM.
 */
int cycle_run_schedule(struct cycle_run *run, const struct schedule *schedule, struct cycle_result *result,
                       double *stalls);

/*
 * When things happen in a round, from the start of its first operation on; what crosses its end is later than
 * `round', what was begun before it negative. An action that moves nothing begins and ends where its
 * operation could have started.
 */
struct cycle_times {
    double round;
    double *start;       /* by phase: of the operation */
    double *begin, *end; /* by action: of its copy */
};

/* Room for the times of a cycle with a schedule. -ENOMEM. */
int cycle_times_make(const struct cycle *cycle, const struct schedule *schedule, struct cycle_times *out);
void cycle_times_free(struct cycle_times *times);

struct colouring; /* colour.h */

/*
 * The same with frames that are not alike: each piece wants that of its colour. A copy in waits for it while
 * who has it is where he wants to be, for so long as its operation does not need it; else any other will do.
 * An address that is bound to another frame than before must not be in use: the host waits for that, and
 * issues nothing meanwhile.
 * `times' is filled in. Either may be NULL: then all frames are alike, or nobody asks when.
 */
int cycle_run_coloured(struct cycle_run *run, const struct schedule *schedule,
                       const struct colouring *colouring, struct cycle_result *result,
                       struct cycle_times *times);

/*
 * The same as cycle_run_schedule, with schedule->paced set to what makes a round shorter; false where the
 * directions of the link do not slow each other down.
 */
int cycle_run_pace(struct cycle_run *run, struct schedule *schedule, struct cycle_result *result);

/* The same as cycle_run_schedule, for one run. */
int cycle_run_once(const struct cycle *cycle, const struct schedule *schedule, struct cycle_result *result);

#endif
