/*
 * plan_lp_build.c - from flows to actions.
 *
 * Goes through a few rounds as the cache will, in the order in which things are issued, and issues a copy out
 * while the backlog is larger than the program has it by then, a copy in while less is early, the one that is
 * needed first ahead of the others. The last round is the schedule. What did not leave in time to come back
 * stays.
 */
#include "cache/tools/plan_lp_internal.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>

enum { ROUNDS = 4 }; /* until the last one is as the one before */

/* An interval in one round. */
struct stay {
    uint64_t from, to; /* operations, counted over all rounds */
    uint32_t interval, round;
    uint32_t left; /* pieces that have left */
    uint32_t back;
};

struct heap {
    uint32_t *items;
    uint32_t count;
    bool by_from;
};

struct build {
    const struct plan_work *work;
    const struct plan_flow *flow;
    const struct plan_build *how;
    struct schedule *schedule;
    struct stay *stays;
    uint32_t stay_count;
    struct heap leaving, coming;
    double *due_before; /* by slot, over two rounds: the sum of what is due in the slots before it */
    uint64_t first_recorded;
    int64_t away; /* pieces, in the order of issue */
    double backlog, early;
    int error;
};

static bool before(const struct build *build, const struct heap *heap, uint32_t a, uint32_t b)
{
    const struct stay *x = &build->stays[a], *y = &build->stays[b];
    uint64_t p = heap->by_from ? x->from : x->to, q = heap->by_from ? y->from : y->to;

    return p != q ? p < q : a < b;
}

static void heap_add(const struct build *build, struct heap *heap, uint32_t item)
{
    uint32_t at = heap->count++;

    while (at && before(build, heap, item, heap->items[(at - 1) / 2])) {
        heap->items[at] = heap->items[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap->items[at] = item;
}

static void heap_pop(const struct build *build, struct heap *heap)
{
    uint32_t item = heap->items[--heap->count], at = 0, child;

    while ((child = 2 * at + 1) < heap->count) {
        if (child + 1 < heap->count && before(build, heap, heap->items[child + 1], heap->items[child]))
            child++;
        if (!before(build, heap, heap->items[child], item))
            break;
        heap->items[at] = heap->items[child];
        at = child;
    }
    heap->items[at] = item;
}

static void act(struct build *build, enum schedule_kind kind, const struct stay *stay, uint64_t now,
                uint32_t first, uint32_t count)
{
    const struct plan_interval *interval = &build->work->intervals[stay->interval];
    const struct cycle *cycle = build->work->cycle;

    if (now < build->first_recorded || build->error)
        return;
    build->error = schedule_add(
        build->schedule, &(struct schedule_action){.kind = kind,
                                                   .buffer = interval->buffer,
                                                   .age = cycle_static(&cycle->buffers[interval->buffer])
                                                              ? 0
                                                              : (uint32_t)(now / cycle->length) - stay->round,
                                                   .first = first,
                                                   .count = count,
                                                   .at = (uint32_t)(now % cycle->length)});
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* The next copy out. */
static void leave(struct build *build, uint64_t now)
{
    uint32_t item = build->leaving.items[0];
    struct stay *stay = &build->stays[item];
    uint32_t moved = build->work->intervals[stay->interval].moved;
    uint32_t count = least(moved - stay->left, build->how->chunk);

    act(build, SCHEDULE_OUT, stay, now, stay->left, count);
    stay->left += count;
    build->away += count;
    build->backlog -= count;
    if (stay->left < moved)
        return;
    heap_pop(build, &build->leaving);
    if (!build->work->intervals[stay->interval].tail)
        heap_add(build, &build->coming, item);
}

static void come(struct build *build, uint64_t now, uint32_t most)
{
    struct stay *stay = &build->stays[build->coming.items[0]];
    uint32_t count = least(least(stay->left - stay->back, build->how->chunk), most);

    act(build, SCHEDULE_IN, stay, now, stay->back, count);
    stay->back += count;
    build->away -= count;
    build->early += count;
    if (stay->back == stay->left)
        heap_pop(build, &build->coming);
}

/* A value by slot, between two runs. */
static double at_slot(const struct build *build, const double *values, double run)
{
    uint32_t runs = build->flow->runs;
    double whole = floor(run), part = run - whole;
    uint32_t a = (uint32_t)whole % runs, b = (a + 1) % runs;

    return values[2 * a] * (1 - part) + values[2 * b] * part;
}

static double due_before(const struct build *build, double run)
{
    double whole = floor(run), part = run - whole;
    uint32_t a = (uint32_t)whole;

    return build->due_before[2 * a] * (1 - part) + build->due_before[2 * a + 2] * part;
}

/* What the next operation needs. */
static void arrive(struct build *build, uint64_t now)
{
    while (build->coming.count && build->stays[build->coming.items[0]].to <= now)
        come(build, now, UINT32_MAX);
}

/* Frames that are free for what need not come yet: now, and when the next operation starts, for which all may
 * leave that can. */
static int64_t room(const struct build *build, uint64_t now)
{
    const struct plan_work *work = build->work;
    uint32_t phase = (uint32_t)(now % work->cycle->length), next = (phase + 1) % work->cycle->length;
    int64_t frames = (int64_t)work->frames + build->away, here = frames - work->live[phase];
    int64_t there = frames - work->live[next] + (int64_t)build->backlog;

    return here < there ? here : there;
}

/* Frames that may come sooner than the program has them: until then, nobody needs them. */
static double spare(const struct build *build, uint64_t now)
{
    const struct plan_flow *flow = build->flow;
    const struct stay *stay = &build->stays[build->coming.items[0]];
    uint32_t length = build->work->cycle->length, slots = 2 * flow->runs,
             slot = 2 * flow->run_of[now % length];
    uint64_t end = 2 * (flow->run_of[stay->to % length] + (stay->to / length - now / length) * flow->runs);
    double most = flow->spare[slot];

    for (uint64_t i = slot; i < end && i < slot + slots; i++)
        most = fmin(most, flow->spare[i % slots]);
    return flow->early[slot] - build->early + most;
}

static void operation(struct build *build, uint64_t now)
{
    const struct plan_work *work = build->work;
    const struct plan_flow *flow = build->flow;
    uint32_t phase = (uint32_t)(now % work->cycle->length), run = flow->run_of[phase];
    double out_at = run + build->how->out_lead, in_at = run + fmin(build->how->in_lead, flow->runs);
    double backlog = build->how->out_lead >= flow->runs ? 0 : at_slot(build, flow->backlog, out_at), early;

    while (build->leaving.count && build->backlog > backlog + 0.5)
        leave(build, now);
    arrive(build, now);
    /* Early, from here on, is what comes for a later run. */
    early = at_slot(build, flow->early, in_at) + due_before(build, in_at) - due_before(build, run);
    while (build->coming.count && build->early < early - 0.5) {
        double most = fmin((double)room(build, now), spare(build, now));

        if (most < 0.5)
            break;
        come(build, now, (uint32_t)(most + 0.5));
    }
    /* Rounded flows may be a frame short. */
    while (build->leaving.count && (int64_t)work->live[phase] - build->away > (int64_t)work->frames)
        leave(build, now);
}

static int compare_from(const void *a, const void *b)
{
    const struct stay *x = a, *y = b;

    return x->from != y->from ? (x->from < y->from ? -1 : 1)
                              : (x->interval < y->interval ? -1 : x->interval > y->interval);
}

static int compare_to(const void *a, const void *b, void *stays)
{
    const struct stay *x = (const struct stay *)stays + *(const uint32_t *)a;
    const struct stay *y = (const struct stay *)stays + *(const uint32_t *)b;

    return x->to != y->to ? (x->to < y->to ? -1 : 1) : (x < y ? -1 : x > y);
}

static int make_stays(struct build *build, uint32_t rounds)
{
    const struct plan_work *work = build->work;

    build->stays = malloc(((size_t)work->interval_count * rounds + 1) * sizeof *build->stays);
    if (!build->stays)
        return -ENOMEM;
    for (uint32_t round = 0; round < rounds; round++)
        for (uint32_t i = 0; i < work->interval_count; i++) {
            const struct plan_interval *interval = &work->intervals[i];
            uint64_t base = (uint64_t)round * work->cycle->length;

            if (interval->moved)
                build->stays[build->stay_count++] = (struct stay){
                    .from = base + interval->from, .to = base + interval->to, .interval = i, .round = round};
        }
    qsort(build->stays, build->stay_count, sizeof *build->stays, compare_from);
    return 0;
}

/* A stay is over: it came back, or its buffer is dead, or there was no time for it to leave. */
static void finish(struct build *build, const struct stay *stay)
{
    const struct plan_interval *interval = &build->work->intervals[stay->interval];

    if (interval->tail)
        build->away -= stay->left;
    else
        build->early -= stay->back;
    build->backlog -= interval->moved - stay->left;
}

static void drop_late(struct build *build, struct heap *heap, uint64_t now)
{
    uint32_t kept = 0, count = heap->count;

    for (uint32_t i = 0; i < count; i++)
        kept += build->stays[heap->items[i]].to > now;
    if (kept == count)
        return;
    heap->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t item = heap->items[i];
        struct stay *stay = &build->stays[item];

        if (stay->to > now)
            heap_add(build, heap, item);
        else if (stay->left && !build->work->intervals[stay->interval].tail)
            heap_add(build, &build->coming, item); /* a part of it left */
    }
}

static int build_rounds(struct build *build, uint32_t rounds)
{
    const struct plan_work *work = build->work;
    uint32_t *ends = malloc((build->stay_count + 1) * sizeof *ends);
    uint32_t next_from = 0, next_to = 0;

    if (!ends)
        return -ENOMEM;
    for (uint32_t i = 0; i < build->stay_count; i++)
        ends[i] = i;
    qsort_r(ends, build->stay_count, sizeof *ends, compare_to, build->stays);
    for (uint64_t now = 0; now < (uint64_t)rounds * work->cycle->length; now++) {
        for (; next_from < build->stay_count && build->stays[next_from].from < now; next_from++) {
            heap_add(build, &build->leaving, next_from);
            build->backlog += work->intervals[build->stays[next_from].interval].moved;
        }
        drop_late(build, &build->leaving, now);
        arrive(build, now);
        for (; next_to < build->stay_count && build->stays[ends[next_to]].to <= now; next_to++)
            finish(build, &build->stays[ends[next_to]]);
        operation(build, now);
    }
    free(ends);
    return build->error;
}

int plan_build(const struct plan_work *work, const struct plan_flow *flow, const struct plan_build *how,
               struct schedule **out)
{
    struct build build = {.work = work, .flow = flow, .how = how, .leaving.by_from = !how->out_by_need};
    uint32_t slots = 2 * flow->runs, most_age = 0, rounds;
    int error = -ENOMEM;

    for (uint32_t i = 0; i < work->interval_count; i++)
        if (work->intervals[i].to / work->cycle->length > most_age)
            most_age = work->intervals[i].to / work->cycle->length;
    rounds = most_age + ROUNDS;
    build.first_recorded = (uint64_t)(rounds - 1) * work->cycle->length;
    build.schedule = calloc(1, sizeof *build.schedule);
    build.due_before = calloc(2 * (size_t)slots + 4, sizeof *build.due_before);
    if (!build.schedule || !build.due_before)
        goto out;
    for (uint32_t slot = 0; slot < 2 * slots + 3; slot++)
        build.due_before[slot + 1] = build.due_before[slot] + flow->due[slot % slots];
    error = make_stays(&build, rounds);
    if (error)
        goto out;
    error = -ENOMEM;
    build.leaving.items = calloc(build.stay_count + 1, sizeof *build.leaving.items);
    build.coming.items = calloc(build.stay_count + 1, sizeof *build.coming.items);
    if (!build.leaving.items || !build.coming.items)
        goto out;
    error = build_rounds(&build, rounds);
    if (error)
        goto out;
    build.schedule->cycle_hash = cycle_hash(work->cycle);
    *out = build.schedule;
    build.schedule = NULL;
out:
    schedule_free(build.schedule);
    free(build.due_before);
    free(build.stays);
    free(build.leaving.items);
    free(build.coming.items);
    return error;
}
