/*
 * plan_lp_model.c - the linear program.
 *
 * Frames are all alike, so it need not say when each buffer leaves, only how much of it is away in each of
 * its intervals (x), and for all together how much leaves and arrives in each slot (o, n). What is to leave
 * and has not is a backlog (p), what is back before it is due is early (q). With w frames away:
 *
 *     p[g] = p[g-1] + what may leave from slot g on - o[g]
 *     q[g] = q[g-1] + n[g] - what must be there at the end of slot g
 *     w[g] = w[g-1] + o[g] - n[g] - what died outside;   w = x's under way - p - q, which fixes its level
 *     w[g] >= live - HBM, for the slot before and the slot behind; none is negative
 *
 * and a slot takes as long as its operations, or as long as a pause must be, for o and n to cross the link.
 * The sum of the pauses is the least, with a thousandth of the time bytes take on top, or traffic were
 * arbitrary where nothing waits. That a buffer has left before it can come back is not in it: instead an
 * interval has an upper limit by its length, in a second solution whose pauses are known about.
 */
#include "cache/tools/plan_lp_internal.h"
#include <Clp_C_Interface.h>
#include <assert.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of what a link can carry in a run, what costs nothing. */
#define EASE 0.8

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

static uint32_t run_at(const struct model *model, uint64_t position)
{
    uint32_t length = model->work->cycle->length;

    return model->flow->run_of[position % length] + (uint32_t)(position / length) * model->flow->runs;
}

/* The first slot in which an interval's buffer may leave, and the last one. */
static uint32_t interval_begin(const struct model *model, const struct plan_interval *interval)
{
    return 2 * run_at(model, interval->from) + 1;
}

static uint32_t interval_end(const struct model *model, const struct plan_interval *interval)
{
    return 2 * run_at(model, interval->to) - 1;
}

/* Rows. */
static uint32_t row_away(uint32_t slot)
{
    return 3 * slot;
}

static uint32_t row_backlog(uint32_t slot)
{
    return 3 * slot + 1;
}

static uint32_t row_early(uint32_t slot)
{
    return 3 * slot + 2;
}

static uint32_t row_rate(const struct model *model, uint32_t slot, bool in)
{
    return 3 * model->slots + 2 * slot + in;
}

static uint32_t row_apart(const struct model *model, uint32_t slot)
{
    return 5 * model->slots + slot;
}

static void column_begin(struct model *model, double lower, double upper, double cost)
{
    model->starts[model->columns] = model->used;
    model->lower[model->columns] = lower;
    model->upper[model->columns] = upper;
    model->cost[model->columns] = cost;
    model->columns++;
    model->starts[model->columns] = model->used;
}

static void entry(struct model *model, uint32_t row, double value)
{
    model->index[model->used] = (int)row;
    model->value[model->used++] = value;
    model->starts[model->columns] = model->used;
}

/* --- Columns ----------------------------------------------------------------------------------------------
 */

static void interval_column(struct model *model, uint32_t which)
{
    const struct plan_interval *interval = &model->work->intervals[which];
    uint32_t begin = interval_begin(model, interval), end = interval_end(model, interval);
    uint32_t slots = model->slots, times;
    double share = fmin(1, (double)(interval->to - interval->from) / model->work->cycle->length);

    if (begin >= end || end == UINT32_MAX)
        return;
    model->column_of[which] = model->columns;
    /* Of two that serve alike, the one that is away for longer leaves more room for chance. */
    column_begin(model, 0, interval->pieces,
                 1e-3 * (2 - share) * (model->out + (interval->tail ? 0 : model->in)));
    entry(model, row_backlog(begin % slots), -1);
    if (!interval->tail)
        entry(model, row_early(end % slots), 1);
    else if (end % slots)
        entry(model, row_away(end % slots), 1);
    times = (end - 1) / slots - (begin - 1) / slots;
    if (times)
        entry(model, row_away(0), -(double)times);
}

/*
 * The link's time a frame takes, on its own engine, and on the other one's: what both cost where both are
 * busy. The last of what a run could carry has a price, so that where there is a choice the link is loaded
 * evenly.
 */
static void flow_column(struct model *model, uint32_t slot, bool in, bool hurried)
{
    double own = in ? model->in : model->out, beside = in ? model->in_beside : model->out_beside;
    double most = slot % 2 ? DBL_MAX : model->durations[slot / 2] / own;

    column_begin(model, 0,
                 hurried    ? most * (1 - EASE)
                 : slot % 2 ? DBL_MAX
                            : most * EASE,
                 hurried ? 1e-4 * own : 0);
    if (slot)
        entry(model, row_away(slot), in ? 1 : -1);
    entry(model, in ? row_early(slot) : row_backlog(slot), in ? -1 : 1);
    if (slot % 2 || model->in_beside > 0 || model->out_beside > 0) {
        entry(model, row_rate(model, slot, in), own);
        if (beside > 0)
            entry(model, row_rate(model, slot, !in), beside);
    }
    if (in && model->program.apart && slot % 2 == 0)
        entry(model, row_apart(model, slot), -1);
}

static double slot_live(const struct model *model, uint32_t slot)
{
    const struct plan_work *work = model->work;
    uint32_t length = work->cycle->length, most = 0, last = 0;

    for (uint32_t i = 0; i < length; i++) {
        if (model->flow->run_of[i] != slot / 2)
            continue;
        last = i;
        most = work->live[i] > most ? work->live[i] : most;
    }
    return slot % 2 ? work->between[last] : most;
}

static void slot_columns(struct model *model, const double *least, uint32_t slot)
{
    uint32_t next = (slot + 1) % model->slots;

    column_begin(model, fmax(0, fmax(least[slot], least[next])), DBL_MAX, 0);
    entry(model, row_away(slot), 1);
    if (next)
        entry(model, row_away(next), -1);
    if (model->program.apart && next % 2 == 0)
        entry(model, row_apart(model, next), 1);
    column_begin(model, 0, DBL_MAX, 0);
    entry(model, row_backlog(slot), 1);
    entry(model, row_backlog(next), -1);
    if (!slot)
        entry(model, row_away(0), 1);
    column_begin(model, 0, DBL_MAX, 0);
    entry(model, row_early(slot), 1);
    entry(model, row_early(next), -1);
    if (!slot)
        entry(model, row_away(0), 1);
    flow_column(model, slot, false, false);
    flow_column(model, slot, true, false);
    if (slot % 2) {
        column_begin(model, 0, DBL_MAX, 1);
        entry(model, row_rate(model, slot, false), -1);
        entry(model, row_rate(model, slot, true), -1);
    } else {
        flow_column(model, slot, false, true);
        flow_column(model, slot, true, true);
    }
}

/* Columns of a slot, behind those of the intervals: away, backlog, early, out, in; then a pause, or what
 * hurries out and in. */
static uint32_t slot_column(const struct model *model, uint32_t slot)
{
    return model->moving + 13 * (slot / 2) + 7 * (slot % 2);
}

static int fill(struct model *model)
{
    double *least = calloc(model->slots + 1, sizeof *least);
    double frames = (double)model->work->frames - model->program.slack;

    if (!least)
        return -ENOMEM;
    for (uint32_t slot = 0; slot < model->slots; slot++)
        least[slot] = slot_live(model, slot) - frames;
    for (uint32_t i = 0; i < model->work->interval_count; i++)
        interval_column(model, i);
    model->moving = model->columns;
    for (uint32_t slot = 0; slot < model->slots; slot++)
        slot_columns(model, least, slot);
    for (uint32_t slot = 0; slot < model->slots; slot++)
        for (unsigned in = 0; in < 2; in++) {
            model->row_lower[row_rate(model, slot, in)] = -DBL_MAX;
            model->row_upper[row_rate(model, slot, in)] = slot % 2 ? 0 : model->durations[slot / 2];
        }
    for (uint32_t slot = 0; slot < model->slots; slot++) {
        model->row_lower[row_apart(model, slot)] = slot % 2 || !model->program.apart ? -DBL_MAX : least[slot];
        model->row_upper[row_apart(model, slot)] = DBL_MAX;
    }
    free(least);
    return 0;
}

/* --- Around it --------------------------------------------------------------------------------------------
 */

/* Runs of about the same time; a little of each operation's weight is its number. */
static void cut(const struct cycle *cycle, struct plan_flow *flow, uint32_t runs)
{
    double total = 0, now = 0, each;
    uint32_t count = 0, last = UINT32_MAX;

    for (uint32_t i = 0; i < cycle->length; i++)
        total += cycle->ops[i].duration;
    each = 0.1 * total / cycle->length + 1e-9;
    total += each * cycle->length;
    for (uint32_t i = 0; i < cycle->length; i++) {
        double weight = cycle->ops[i].duration + each;
        uint32_t run = runs >= cycle->length ? i : (uint32_t)((now + weight / 2) / total * runs);

        if (run != last)
            count++;
        last = run;
        flow->run_of[i] = count - 1;
        now += weight;
    }
    flow->runs = count;
}

static int model_make(struct model *model, struct plan_work *work, struct plan_flow *flow)
{
    const struct cycle *cycle = work->cycle;
    double bytes = (double)cycle->frame_size, latency = model->program.latency;
    uint32_t columns, rows, entries;
    double compute = 0;

    model->work = work;
    model->flow = flow;
    model->slots = 2 * flow->runs;
    model->durations = calloc(flow->runs, sizeof *model->durations);
    model->column_of = malloc((work->interval_count + 1) * sizeof *model->column_of);
    columns = work->interval_count + 13 * flow->runs;
    rows = 6 * model->slots;
    entries = 4 * work->interval_count + 56 * flow->runs;
    model->rows = rows;
    model->starts = calloc(columns + 1, sizeof *model->starts);
    model->lower = calloc(columns, sizeof *model->lower);
    model->upper = calloc(columns, sizeof *model->upper);
    model->cost = calloc(columns, sizeof *model->cost);
    model->index = calloc(entries, sizeof *model->index);
    model->value = calloc(entries, sizeof *model->value);
    model->row_lower = calloc(rows, sizeof *model->row_lower);
    model->row_upper = calloc(rows, sizeof *model->row_upper);
    if (!model->durations || !model->column_of || !model->starts || !model->lower || !model->upper ||
        !model->cost || !model->index || !model->value || !model->row_lower || !model->row_upper)
        return -ENOMEM;
    memset(model->column_of, 0xff, work->interval_count * sizeof *model->column_of);
    for (uint32_t i = 0; i < cycle->length; i++)
        compute += cycle->ops[i].duration;
    model->unit = fmax(1, compute / flow->runs);
    for (uint32_t i = 0; i < cycle->length; i++)
        model->durations[flow->run_of[i]] += cycle->ops[i].duration / model->unit;
    model->in = (bytes * 1e9 / cycle->in + latency) / model->unit;
    model->out = (bytes * 1e9 / cycle->out + latency) / model->unit;
    /* While a frame leaves at out_both, in_both / in of the other engine's time is of use. */
    model->out_beside =
        fmax(0, (1 - cycle->in_both / cycle->in) * (bytes * 1e9 / cycle->out_both) / model->unit);
    model->in_beside =
        fmax(0, (1 - cycle->out_both / cycle->out) * (bytes * 1e9 / cycle->in_both) / model->unit);
    return 0;
}

static void model_free(struct model *model)
{
    free(model->durations);
    free(model->column_of);
    free(model->starts);
    free(model->lower);
    free(model->upper);
    free(model->cost);
    free(model->index);
    free(model->value);
    free(model->row_lower);
    free(model->row_upper);
}

/* How much can leave and come back between two uses, given the pauses of a solution. */
static void limit_intervals(const struct model *model, const double *solution, double *upper)
{
    const struct plan_work *work = model->work;
    uint32_t slots = model->slots;
    double *time = malloc((2 * (size_t)slots + 1) * sizeof *time);

    if (!time)
        return; /* less good */
    time[0] = 0;
    for (uint32_t slot = 0; slot < 2 * slots; slot++)
        time[slot + 1] = time[slot] + (slot % 2 ? solution[slot_column(model, slot % slots) + 5]
                                                : model->durations[slot % slots / 2]);
    for (uint32_t i = 0; i < work->interval_count; i++) {
        const struct plan_interval *interval = &work->intervals[i];
        uint32_t begin, end;
        double span;

        if (model->column_of[i] == UINT32_MAX)
            continue;
        begin = interval_begin(model, interval);
        end = interval_end(model, interval) + 1;
        if (end - begin >= slots)
            continue;
        span = time[begin % slots + (end - begin)] - time[begin % slots];
        upper[model->column_of[i]] =
            fmin(interval->pieces, span / (model->out + (interval->tail ? 0 : model->in)));
    }
    free(time);
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

static int by_start(const void *a, const void *b)
{
    const struct plan_interval *x = a, *y = b;

    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

static void read_flow(const struct model *model, const double *solution)
{
    struct plan_flow *flow = model->flow;

    flow->time = 0;
    for (uint32_t slot = 0; slot < model->slots; slot++) {
        uint32_t column = slot_column(model, slot);

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
            flow->due[interval_end(model, interval) % model->slots] += interval->moved;
    }
}

/* 0; -ENOSPC: there is no solution; -ETIME. */
static int clp_error(Clp_Simplex *clp, int status)
{
    if (status == 1 || Clp_status(clp) == 1)
        return -ENOSPC;
    return status || Clp_status(clp) ? -ETIME : 0;
}

static void relax(struct model *model)
{
    for (uint32_t slot = 0; slot < model->slots; slot++) {
        uint32_t away = slot_column(model, slot);

        model->lower[away] = fmax(0, model->lower[away] - 1);
        model->row_lower[row_apart(model, slot)] -= 1;
    }
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
    error = clp_error(clp, Clp_initialDualSolve(clp));
    if (error)
        goto out;
    limit_intervals(model, Clp_getColSolution(clp), model->upper);
    Clp_chgColumnUpper(clp, model->upper);
    error = clp_error(clp, Clp_dual(clp, 0));
    if (error)
        goto out;
    /* Rounded, a frame less may be away at times; with no slack there is none to spare. */
    round_intervals(model, Clp_getColSolution(clp), model->program.slack == 0, model->lower, model->upper);
    if (model->program.slack)
        relax(model);
    Clp_chgColumnLower(clp, model->lower);
    Clp_chgColumnUpper(clp, model->upper);
    Clp_chgRowLower(clp, model->row_lower);
    error = clp_error(clp, Clp_dual(clp, 0));
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
        model->cost[slot_column(model, slot) + 5] = 1;
    Clp_loadProblem(clp, (int)model->columns, (int)model->rows, model->starts, model->index, model->value,
                    model->lower, model->upper, model->cost, model->row_lower, model->row_upper);
    if (model->program.seconds > 0)
        Clp_setMaximumSeconds(clp, model->program.seconds);
    error = clp_error(clp, Clp_initialDualSolve(clp));
    if (!error)
        *time = (Clp_objectiveValue(clp) + model->flow->runs) * model->unit;
    Clp_deleteModel(clp);
    return error;
}

static int model_new(struct model *model, struct plan_work *work, const struct plan_program *program,
                     struct plan_flow *flow)
{
    int error = -ENOMEM;

    *model = (struct model){.program = *program};
    qsort(work->intervals, work->interval_count, sizeof *work->intervals, by_start);
    *flow = (struct plan_flow){.run_of = calloc(work->cycle->length, sizeof *flow->run_of)};
    if (!flow->run_of)
        return -ENOMEM;
    cut(work->cycle, flow, program->runs);
    assert(flow->runs);
    flow->backlog = calloc(2 * (size_t)flow->runs, sizeof *flow->backlog);
    flow->early = calloc(2 * (size_t)flow->runs, sizeof *flow->early);
    flow->due = calloc(2 * (size_t)flow->runs, sizeof *flow->due);
    flow->pause = calloc(flow->runs, sizeof *flow->pause);
    if (flow->backlog && flow->early && flow->due && flow->pause)
        error = model_make(model, work, flow);
    if (!error)
        error = fill(model);
    if (error) {
        model_free(model);
        plan_flow_free(flow);
    }
    return error;
}

int plan_model_bound(struct plan_work *work, uint32_t runs, double seconds, double *time)
{
    struct plan_flow flow;
    struct model model;
    int error = model_new(&model, work, &(struct plan_program){.runs = runs, .seconds = seconds}, &flow);

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
