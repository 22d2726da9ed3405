/*
 * plan_lp_work.c - a cycle as the linear program sees it: what is alive when, and the intervals in which it
 * may be away.
 */
#include "cache/tools/plan_lp_internal.h"
#include <errno.h>
#include <stdlib.h>

/* `pieces' at the phases of the positions from `begin' to `end', once for each time round. */
static void add_range(int64_t *steps, uint32_t length, uint64_t begin, uint64_t end, uint32_t pieces)
{
    uint64_t whole, first;

    if (end <= begin)
        return;
    whole = (end - begin) / length;
    first = begin % length;
    end = first + (end - begin) % length;
    steps[0] += (int64_t)(whole * pieces);
    steps[first] += pieces;
    if (end <= length) {
        steps[end] -= pieces;
    } else {
        steps[0] += pieces;
        steps[end - length] -= pieces;
        steps[length] -= pieces;
    }
}

static void add_interval(struct plan_work *work, uint32_t buffer, uint64_t from, uint64_t to, bool tail)
{
    if (to - from < 2 || to > UINT32_MAX)
        return;
    work->intervals[work->interval_count++] = (struct plan_interval){
        .buffer = buffer,
        .from = (uint32_t)from,
        .to = (uint32_t)to,
        .tail = tail,
        .pieces = cycle_pieces(work->cycle, buffer),
    };
}

static void examine_buffer(struct plan_work *work, uint32_t index, int64_t *live, int64_t *between)
{
    const struct cycle *cycle = work->cycle;
    const struct cycle_buffer *buffer = &cycle->buffers[index];
    const uint32_t *uses = cycle->uses + buffer->first_use;
    uint32_t pieces = cycle_pieces(cycle, index);
    uint64_t end, last;

    if (!buffer->uses)
        return;
    last = uses[buffer->uses - 1];
    for (uint32_t i = 0; i + 1 < buffer->uses; i++)
        add_interval(work, index, uses[i], uses[i + 1], false);
    if (cycle_static(buffer)) {
        add_interval(work, index, last, (uint64_t)uses[0] + cycle->length, false);
        add_range(live, cycle->length, 0, cycle->length, pieces);
        add_range(between, cycle->length, 0, cycle->length, pieces);
        return;
    }
    end = buffer->death;
    if (end == CYCLE_NEVER) /* it makes room when the instance that takes its place is born */
        end = uses[0] + (last / cycle->length + 1) * (uint64_t)cycle->length;
    add_interval(work, index, last, end, true);
    add_range(live, cycle->length, uses[0], end, pieces);
    add_range(between, cycle->length, uses[0], end - 1, pieces);
}

int plan_work_make(const struct cycle *cycle, struct plan_work *work)
{
    int64_t *live = calloc(cycle->length + 1, sizeof *live);
    int64_t *between = calloc(cycle->length + 1, sizeof *between);
    int64_t now = 0, now_between = 0;

    *work = (struct plan_work){.cycle = cycle, .frames = (uint32_t)(cycle->capacity / cycle->frame_size)};
    work->intervals = calloc((size_t)cycle->touch_count + cycle->buffer_count + 1, sizeof *work->intervals);
    work->live = calloc(cycle->length, sizeof *work->live);
    work->between = calloc(cycle->length, sizeof *work->between);
    if (!live || !between || !work->intervals || !work->live || !work->between) {
        free(live);
        free(between);
        plan_work_free(work);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < cycle->buffer_count; i++)
        examine_buffer(work, i, live, between);
    for (uint32_t i = 0; i < cycle->length; i++) {
        now += live[i];
        now_between += between[i];
        work->live[i] = (uint32_t)now;
        work->between[i] = (uint32_t)now_between;
    }
    free(live);
    free(between);
    return 0;
}

void plan_work_free(struct plan_work *work)
{
    free(work->intervals);
    free(work->live);
    free(work->between);
}

void plan_flow_free(struct plan_flow *flow)
{
    free(flow->run_of);
    free(flow->spare);
    free(flow->backlog);
    free(flow->early);
    free(flow->due);
    free(flow->pause);
    *flow = (struct plan_flow){0};
}
