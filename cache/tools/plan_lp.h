/*
 * plan_lp.h - the best schedule for a cycle, by way of a linear program.
 *
 * The program (plan_lp_model.c) says how much of each buffer leaves between which two of its uses, and how
 * much is moved when, if memory and links were fluids. From that schedules are made (plan_lp_build.c), in
 * several ways, and run (cycle_run.h); the fastest is the answer.
 *
 * Not for a process that must not fail: it needs Clp, hundreds of megabytes and seconds. Deterministic as
 * long as `seconds' is enough for all it wants to try, or all that `pieces' and `iterations' allow.
 */
#ifndef HBMSPILL_CACHE_TOOLS_PLAN_LP_H
#define HBMSPILL_CACHE_TOOLS_PLAN_LP_H

#include "cache/cycle.h"

struct plan_options {
    double seconds; /* of this thread's processor time, about; 0: as many as it takes */
    double
        pieces; /* the same without a clock: of all buffers, times the schedules that are tried; 0: no end */
    double iterations; /* of the simplex method, in all; 0: no end */
    FILE *report;      /* where to say what was tried, or NULL */
};

/*
 * A new schedule, with its predicted time. With no action at all where nothing was found that is better, or
 * not in time. -ENOSPC: an operation does not fit into HBM; -ENOMEM. `why' (of why_size bytes) says more,
 * outputs are set only on success.
 */
int plan_optimal(const struct cycle *cycle, const struct plan_options *options, struct schedule **out,
                 char *why, size_t why_size);

#endif
