/*
 * plan_lp_model.h - the program's matrix, made in plan_lp_model.c and solved in plan_lp_solve.c.
 */
#ifndef HBMSPILL_CACHE_TOOLS_PLAN_LP_MODEL_H
#define HBMSPILL_CACHE_TOOLS_PLAN_LP_MODEL_H

#include "cache/tools/plan_lp_internal.h"

struct model {
    struct plan_work *work;
    struct plan_flow *flow;
    struct plan_program program;
    uint32_t slots;
    double unit;                  /* nanoseconds */
    double in, out;               /* a frame's time, in units */
    double in_beside, out_beside; /* what a frame that goes the one way adds to the other one's time */
    uint32_t *column_of;          /* by interval, UINT32_MAX: stays */
    uint32_t columns, rows, moving;
    double *durations; /* by run, in units */
    /* The matrix, by columns. */
    int *starts, *index;
    double *value, *lower, *upper, *cost, *row_lower, *row_upper;
    int used, room;
};

int model_new(struct model *model, struct plan_work *work, const struct plan_program *program,
              struct plan_flow *flow);
void model_free(struct model *model);

/* The first slot in which an interval's buffer may leave, and the last one. */
uint32_t model_interval_begin(const struct model *model, const struct plan_interval *interval);
uint32_t model_interval_end(const struct model *model, const struct plan_interval *interval);

/* Columns of a slot, behind those of the intervals: away, backlog, early, out, in; then a pause, or what
 * hurries out and in. */
static inline uint32_t model_slot_column(const struct model *model, uint32_t slot)
{
    return model->moving + 13 * (slot / 2) + 7 * (slot % 2);
}

static inline uint32_t model_row_apart(const struct model *model, uint32_t slot)
{
    return 5 * model->slots + slot;
}

#endif
