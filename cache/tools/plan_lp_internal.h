/*
 * plan_lp_internal.h - the linear program as the files around it see it.
 *
 * Bytes are counted in frames here, positions as in cycle.h. A run is some consecutive operations, a slot
 * either a run (slot 2 r) or the pause behind it (2 r + 1), in which nothing computes.
 */
#ifndef HBMSPILL_CACHE_TOOLS_PLAN_LP_INTERNAL_H
#define HBMSPILL_CACHE_TOOLS_PLAN_LP_INTERNAL_H

#include "cache/cycle.h"
#include "cache/tools/plan_lp.h"

/* Between two consecutive uses of a buffer, where it may leave and come back; or between its last use and its
 * death, where it may only leave. */
struct plan_interval {
    uint32_t buffer;
    uint32_t from, to; /* positions of the uses (to: of the death) */
    bool tail;
    uint32_t pieces; /* of the buffer */
    double away;     /* pieces that leave, as the program says */
    uint32_t moved;  /* as rounded */
};

struct plan_work {
    const struct cycle *cycle;
    uint32_t frames; /* of HBM */
    struct plan_interval *intervals;
    uint32_t interval_count;
    uint32_t *live;    /* by phase: frames of what is alive while the operation runs, wherever it is */
    uint32_t *between; /* by phase: of what is alive both at it and at the next one */
};

/* What the program says of a number of runs. */
struct plan_flow {
    uint32_t runs;
    uint32_t *run_of; /* by phase */
    double *spare;    /* by slot: frames of HBM nobody needs, at its end */
    double *backlog;  /* by slot: frames that are to leave and have not, at its end */
    double *early;    /* by slot: frames that have come in and are not due yet */
    double *due;      /* by slot: frames that have to be there at its end, for the run behind it */
    double *pause;    /* by run: nanoseconds of the pause behind it */
    double time;      /* of a round */
};

struct plan_build {
    double out_lead, in_lead; /* how far ahead of the program, in runs */
    uint32_t chunk;           /* most pieces of an action */
    bool out_by_need;         /* else in the order of last uses */
};

int plan_work_make(const struct cycle *cycle, struct plan_work *work);
void plan_work_free(struct plan_work *work);

struct plan_program {
    uint32_t runs;      /* about */
    uint32_t slack;     /* frames of HBM to leave alone */
    bool apart;         /* what arrives in a run goes to frames that were free when it began */
    double latency;     /* nanoseconds a frame costs beside its transfer */
    double seconds;     /* to solve it in, 0: as many as it takes */
    double *iterations; /* that are left, or NULL: as many as it takes */
};

/* The time of a round below which no schedule gets, in so many runs; the program's other members are of no
 * account. */
int plan_model_bound(struct plan_work *work, const struct plan_program *program, double *time);

/* Solves it and rounds. -ETIME: it took too long; -ENOSPC: it cannot be done with this slack. */
int plan_model_solve(struct plan_work *work, const struct plan_program *program, struct plan_flow *flow);
void plan_flow_free(struct plan_flow *flow);

int plan_build(const struct plan_work *work, const struct plan_flow *flow, const struct plan_build *how,
               struct schedule **out);

#endif
