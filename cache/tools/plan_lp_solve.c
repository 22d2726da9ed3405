/*
 * plan_lp_solve.c - the program's solution, and from it whole frames.
 */
#include "cache/tools/plan_lp_model.h"
#include <Clp_C_Interface.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double span_time(const struct model *model, uint32_t begin, uint32_t end)
{
    double time = 0;

    for (uint32_t slot = begin; slot <= end; slot++)
        time += slot % 2 ? 0 : model->durations[slot / 2 % model->flow->runs];
    return time;
}

/*
 * A buffer has left before it comes back: what moves in an interval takes no longer than the interval, pauses
 * included. A row for each interval for which that says something.
 */
static int limit_intervals(const struct model *model, Clp_Simplex *clp)
{
    const struct plan_work *work = model->work;
    int *columns = malloc((model->flow->runs + 1) * sizeof *columns), starts[2] = {0};
    double *values = malloc((model->flow->runs + 1) * sizeof *values);

    for (uint32_t i = 0; columns && values && i < work->interval_count; i++) {
        const struct plan_interval *interval = &work->intervals[i];
        double each = model->out + (interval->tail ? 0 : model->in), time;
        uint32_t begin, end, used = 1;

        if (model->column_of[i] == UINT32_MAX)
            continue;
        begin = model_interval_begin(model, interval);
        end = model_interval_end(model, interval);
        if (end - begin >= model->slots)
            continue;
        time = span_time(model, begin, end);
        if (time >= each * interval->pieces)
            continue;
        columns[0] = (int)model->column_of[i];
        values[0] = each;
        for (uint32_t slot = begin; slot <= end; slot++)
            if (slot % 2) {
                columns[used] = (int)model_slot_column(model, slot % model->slots) + 5;
                values[used++] = -1;
            }
        starts[1] = (int)used;
        Clp_addRows(clp, 1, &(double){-DBL_MAX}, &time, starts, columns, values);
    }
    free(values);
    free(columns);
    return columns && values ? 0 : -ENOMEM;
}

/* To whole frames. What is cut off of one is added to the next, in the order in which they leave, so that as
 * much is away at any time as before, but for a frame. */
static void round_intervals(struct model *model, const double *solution, bool up, double *lower,
                            double *upper)
{
    double carry = 0;

    for (uint32_t i = 0; i < model->work->interval_count; i++) {
        struct plan_interval *interval = &model->work->intervals[i];
        uint32_t column = model->column_of[i];
        double value;

        interval->moved = 0;
        if (column == UINT32_MAX)
            continue;
        interval->away = solution[column];
        value = floor(interval->away + 1e-6);
        if (interval->away - value > 1e-6) {
            carry += interval->away - value;
            if (up || carry >= 0.5) {
                value++;
                carry -= 1;
            }
        }
        value = fmin(value, interval->pieces);
        interval->moved = (uint32_t)value;
        lower[column] = upper[column] = value;
    }
}

static void read_flow(const struct model *model, const double *solution)
{
    struct plan_flow *flow = model->flow;
    double slack = model->program.slack;

    flow->time = 0;
    for (uint32_t slot = 0; slot < model->slots; slot++) {
        uint32_t column = model_slot_column(model, slot);

        /* The bound was a frame lower in the last solution, and keeps the slack free. */
        flow->spare[slot] = solution[column] - model->lower[column] + (slack > 0 ? slack - 1 : 0);
        flow->backlog[slot] = solution[column + 1];
        flow->early[slot] = solution[column + 2];
        flow->due[slot] = 0;
        if (slot % 2) {
            flow->pause[slot / 2] = solution[column + 5] * model->unit;
            flow->time += flow->pause[slot / 2];
        } else {
            flow->time += model->durations[slot / 2] * model->unit;
        }
    }
    for (uint32_t i = 0; i < model->work->interval_count; i++) {
        const struct plan_interval *interval = &model->work->intervals[i];

        if (model->column_of[i] != UINT32_MAX && !interval->tail)
            flow->due[model_interval_end(model, interval) % model->slots] += interval->moved;
    }
}

/* 0; -ENOSPC: there is no solution; -ETIME. */
static int clp_error(Clp_Simplex *clp, int status)
{
    if (status == 1 || Clp_status(clp) == 1)
        return -ENOSPC;
    return status || Clp_status(clp) ? -ETIME : 0;
}

/* -ETIME as well where no iterations are left. */
static int run_simplex(const struct model *model, Clp_Simplex *clp, int (*method)(Clp_Simplex *clp))
{
    double *left = model->program.iterations;
    int error;

    if (left && *left < 1)
        return -ETIME;
    if (left)
        Clp_setMaximumIterations(clp, (int)fmin(*left, 1e9));
    error = clp_error(clp, method(clp));
    if (left)
        *left -= Clp_numberIterations(clp);
    return error;
}

static int dual(Clp_Simplex *clp)
{
    return Clp_dual(clp, 0);
}

/* Rounded, a frame less may be away at times. */
static int relax(struct model *model, Clp_Simplex *clp)
{
    size_t size = (size_t)Clp_numberRows(clp) * sizeof(double);
    double *lower = malloc(size);

    if (!lower)
        return -ENOMEM;
    memcpy(lower, Clp_rowLower(clp), size);
    for (uint32_t slot = 0; slot < model->slots; slot++) {
        uint32_t away = model_slot_column(model, slot);

        model->lower[away] = fmax(0, model->lower[away] - 1);
        lower[model_row_apart(model, slot)] -= 1;
    }
    Clp_chgRowLower(clp, lower);
    free(lower);
    return 0;
}

static int solve(struct model *model)
{
    Clp_Simplex *clp = Clp_newModel();
    int error;

    if (!clp)
        return -ENOMEM;
    Clp_setLogLevel(clp, 0);
    Clp_loadProblem(clp, (int)model->columns, (int)model->rows, model->starts, model->index, model->value,
                    model->lower, model->upper, model->cost, model->row_lower, model->row_upper);
    if (model->program.seconds > 0)
        Clp_setMaximumSeconds(clp, model->program.seconds);
    error = limit_intervals(model, clp);
    if (!error)
        error = run_simplex(model, clp, Clp_initialDualSolve);
    if (error)
        goto out;
    round_intervals(model, Clp_getColSolution(clp), model->program.slack == 0, model->lower, model->upper);
    if (model->program.slack)
        error = relax(model, clp);
    if (error)
        goto out;
    Clp_chgColumnLower(clp, model->lower);
    Clp_chgColumnUpper(clp, model->upper);
    error = run_simplex(model, clp, dual);
    if (!error)
        read_flow(model, Clp_getColSolution(clp));
out:
    Clp_deleteModel(clp);
    return error;
}

/* Without what only a plan must mind: whole frames, latency, that a buffer leaves before it comes back. */
static int solve_fluid(struct model *model, double *time)
{
    Clp_Simplex *clp = Clp_newModel();
    int error;

    if (!clp)
        return -ENOMEM;
    Clp_setLogLevel(clp, 0);
    for (uint32_t i = 0; i < model->columns; i++)
        model->cost[i] = 0;
    for (uint32_t slot = 1; slot < model->slots; slot += 2)
        model->cost[model_slot_column(model, slot) + 5] = 1;
    Clp_loadProblem(clp, (int)model->columns, (int)model->rows, model->starts, model->index, model->value,
                    model->lower, model->upper, model->cost, model->row_lower, model->row_upper);
    if (model->program.seconds > 0)
        Clp_setMaximumSeconds(clp, model->program.seconds);
    error = run_simplex(model, clp, Clp_initialDualSolve);
    if (!error)
        *time = (Clp_objectiveValue(clp) + model->flow->runs) * model->unit;
    Clp_deleteModel(clp);
    return error;
}

int plan_model_bound(struct plan_work *work, const struct plan_program *program, double *time)
{
    struct plan_flow flow;
    struct model model;
    struct plan_program fluid = {
        .runs = program->runs, .seconds = program->seconds, .iterations = program->iterations};
    int error = model_new(&model, work, &fluid, &flow);

    if (error)
        return error;
    error = solve_fluid(&model, time);
    model_free(&model);
    plan_flow_free(&flow);
    return error;
}

int plan_model_solve(struct plan_work *work, const struct plan_program *program, struct plan_flow *flow)
{
    struct model model;
    int error = model_new(&model, work, program, flow);

    if (error)
        return error;
    error = solve(&model);
    model_free(&model);
    if (error)
        plan_flow_free(flow);
    return error;
}
