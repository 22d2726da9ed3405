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
 * arbitrary where nothing waits; and with a little for the last fifth of what a link can carry in a run, so
 * that it is loaded evenly. That a buffer has left before it comes back is in it only so far as what moves in
 * an interval must take no longer than the interval.
 *
 * In a run, frames are there for what starts in it when it starts, and in a program `apart' what arrives does
 * not wait for what leaves in the same run: a copy in that is issued takes the frames that are ready first,
 * and what is left for a newborn buffer may still be leaving.
 */
#include "cache/tools/plan_lp_model.h"
#include <assert.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of what a link can carry in a run, what costs nothing. */
#define EASE 0.8

static uint32_t run_at(const struct model *model, uint64_t position)
{
    uint32_t length = model->work->cycle->length;

    return model->flow->run_of[position % length] + (uint32_t)(position / length) * model->flow->runs;
}

uint32_t model_interval_begin(const struct model *model, const struct plan_interval *interval)
{
    return 2 * run_at(model, interval->from) + 1;
}

uint32_t model_interval_end(const struct model *model, const struct plan_interval *interval)
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
    const struct cycle_buffer *buffer = &model->work->cycle->buffers[interval->buffer];
    uint32_t begin = model_interval_begin(model, interval), end = model_interval_end(model, interval);
    uint32_t slots = model->slots, times;
    double share = fmin(1, (double)(interval->to - interval->from) / model->work->cycle->length);

    if (begin >= end || end == UINT32_MAX)
        return;
    model->column_of[which] = model->columns;
    /* Of two that serve alike, the one that is away for longer leaves more room for chance. */
    /* What never dies does not stay in HBM for ever: it leaves before the round's next one of its kind. */
    column_begin(model, interval->tail && buffer->death == CYCLE_NEVER ? interval->pieces : 0,
                 interval->pieces, 1e-3 * (2 - share) * (model->out + (interval->tail ? 0 : model->in)));
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
        entry(model, model_row_apart(model, slot), -1);
}

/* Frames that must be away at the end of each slot, for its own sake. A run needs what is alive at its worst
 * operation. */
static void fill_least(const struct model *model, double *least)
{
    const struct plan_work *work = model->work;
    double frames = (double)work->frames - model->program.slack;

    for (uint32_t slot = 0; slot < model->slots; slot++)
        least[slot] = -frames;
    for (uint32_t i = 0; i < work->cycle->length; i++) {
        uint32_t slot = 2 * model->flow->run_of[i];

        least[slot] = fmax(least[slot], work->live[i] - frames);
        least[slot + 1] = work->between[i] - frames;
    }
}

static void slot_columns(struct model *model, const double *least, uint32_t slot)
{
    uint32_t next = (slot + 1) % model->slots;

    column_begin(model, fmax(0, fmax(least[slot], least[next])), DBL_MAX, 0);
    entry(model, row_away(slot), 1);
    if (next)
        entry(model, row_away(next), -1);
    if (model->program.apart && next % 2 == 0)
        entry(model, model_row_apart(model, next), 1);
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

static int fill(struct model *model)
{
    double *least = calloc(model->slots + 1, sizeof *least);

    if (!least)
        return -ENOMEM;
    fill_least(model, least);
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
        model->row_lower[model_row_apart(model, slot)] =
            slot % 2 || !model->program.apart ? -DBL_MAX : least[slot];
        model->row_upper[model_row_apart(model, slot)] = DBL_MAX;
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
    /* About a run's time, be it the operations' or the link's. */
    model->unit = fmax(compute, work->frames * bytes * 1e7 / cycle->in) / flow->runs;
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

void model_free(struct model *model)
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

static int by_start(const void *a, const void *b)
{
    const struct plan_interval *x = a, *y = b;

    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

int model_new(struct model *model, struct plan_work *work, const struct plan_program *program,
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
    flow->spare = calloc(2 * (size_t)flow->runs, sizeof *flow->spare);
    flow->backlog = calloc(2 * (size_t)flow->runs, sizeof *flow->backlog);
    flow->early = calloc(2 * (size_t)flow->runs, sizeof *flow->early);
    flow->due = calloc(2 * (size_t)flow->runs, sizeof *flow->due);
    flow->pause = calloc(flow->runs, sizeof *flow->pause);
    if (flow->spare && flow->backlog && flow->early && flow->due && flow->pause)
        error = model_make(model, work, flow);
    if (!error)
        error = fill(model);
    if (error) {
        model_free(model);
        plan_flow_free(flow);
    }
    return error;
}
