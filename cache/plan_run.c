/*
 * plan_run.c - a plan carried out: what is due before an operation, and the window that brackets it.
 */
#include "cache/home.h"
#include "cache/linked.h"
#include "cache/plan.h"
#include "cache/reframe.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

/*
 * Every item that was live when the plan was made is freed later in the window. One allocated since, by
 * another thread, may have contents already: then nothing is dropped.
 */
static void drop_now(struct cache *cache, const struct plan *plan, const struct plan_segment *entry)
{
    struct segment *segment = entry->segment;

    if (segment->live_items == entry->frees - entry->freed && segment->pins == 0 && segment->slot_pins == 0 &&
        !segment->fixed) {
        residency_forget(cache, segment);
        if (plan->known) { /* whose home its frames are should find them free; not at once where that means a
                              wait */
            struct need need;

            (void)residency_strip(cache, segment, &need);
        }
        /* Its address will be given out at the same place of the next round. */
        segment->claim =
            plan->known ? entry->reborn : cache->plan_base + plan->length + plan->position[entry->first_use];
    }
}

static bool any_in_hbm(const struct segment *segment, unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++)
        if (segment->piece[i].filled)
            return true;
    return false;
}

static void evict_now(struct cache *cache, struct segment *segment, const struct plan_action *action)
{
    struct cache_failure failure;
    struct need need;

    while (segment->state == SEGMENT_RESIDENT && policy_movable(segment) && !linked_open_any(cache) &&
           !residency_behind(cache, segment) && any_in_hbm(segment, action->first, action->count)) {
        int error = residency_evict(cache, segment, action->first, action->count, &need, &failure);

        if (error == -EAGAIN)
            error = cache_satisfy(cache, &need);
        if (error)
            return; /* it stays; the need will find a way or say why not */
    }
}

static bool in_hbm(const struct segment *segment, unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count && !segment->filled; i++)
        if (!segment->piece[i].filled)
            return false;
    return true;
}

/* True if the fetch need not be tried again. */
static bool fetch_now(struct cache *cache, const struct pending *fetch, unsigned first, unsigned count)
{
    struct segment *segment = fetch->segment;
    struct need need;

    while (segment->state != SEGMENT_EMPTY && segment->life == fetch->life && !segment->fixed &&
           !in_hbm(segment, first, count)) {
        int error =
            linked_open_any(cache) ? -EBUSY : residency_fill_free(cache, segment, first, count, &need);

        if (error == -EBUSY)
            return false;
        if (error == -EAGAIN)
            error = cache_satisfy(cache, &need);
        if (error)
            return true;
    }
    return true;
}

/* What came in ahead of an operation that is still to come. */
static unsigned frames_ahead(const struct cache *cache)
{
    unsigned ahead = 0;

    for (uint32_t i = 0; i < cache->pending_count; i++)
        if (cache->pending[i].use > cache->plan_position)
            ahead += cache->pending[i].issued;
    return ahead;
}

/* In order: a later one must not take the frames that an earlier one waits for. */
static void fetches_go_on(struct cache *cache)
{
    uint32_t kept = 0;
    unsigned most = cache->config.ahead, room = most ? most - frames_ahead(cache) : UINT_MAX;
    bool blocked = false;

    for (uint32_t i = 0; i < cache->pending_count; i++) {
        struct pending fetch = cache->pending[i];

        if (fetch.use < cache->plan_position)
            continue; /* the operation did it itself */
        if (!blocked && fetch.issued < fetch.count) {
            unsigned left = fetch.count - fetch.issued, count = left < room ? left : room;

            fetch.segment->leaves = fetch.leaves;
            if (count && fetch_now(cache, &fetch, fetch.first + fetch.issued, count)) {
                fetch.issued += count;
                room -= count;
            }
            blocked = fetch.issued < fetch.count;
        }
        if (fetch.issued < fetch.count || most) /* counted until its use */
            cache->pending[kept++] = fetch;
    }
    cache->pending_count = kept;
}

/* Behind those that are used earlier, or, of a schedule, behind all. */
static void pend(struct cache *cache, const struct plan *plan, const struct plan_action *action)
{
    struct segment *segment = plan->segments[action->segment].segment;
    uint32_t at = cache->pending_count;

    if (at == cache->pending_capacity) {
        uint32_t capacity = at ? 2 * at : 64;
        struct pending *grown = realloc(cache->pending, capacity * sizeof *grown);

        if (!grown)
            return; /* the operation does it itself */
        cache->pending = grown;
        cache->pending_capacity = capacity;
    }
    cache->pending_count++;
    for (; at > 0 && cache->pending[at - 1].use > plan_absolute(cache, action->use); at--)
        cache->pending[at] = cache->pending[at - 1];
    cache->pending[at] = (struct pending){.segment = segment,
                                          .life = segment->life,
                                          .first = action->first,
                                          .count = action->count,
                                          .use = plan_absolute(cache, action->use),
                                          .leaves = plan_absolute(cache, action->leaves)};
}

/*
 * What comes in from now on begins behind the newest operation. It is no order that anything rests on: where
 * it cannot be had, or that operation may stand behind what another thread is still going to do, the copies
 * begin as they can.
 */
static void pace(struct cache *cache)
{
    struct edges newest = {.mask = 0};

    edges_add(&newest, cache->newest.stream, cache->newest.seq);
    if (!streams_behind(&cache->streams, &newest))
        (void)stream_wait_edges(&cache->streams, STREAM_IN, &newest);
}

void plan_step(struct cache *cache, struct plan *plan, unsigned entry)
{
    uint32_t position = entry < plan->entries ? plan->position_of[entry] : plan->length;

    cache->plan_position = cache->policy.now = cache->plan_base + position;
    if (plan->known) {
        uint64_t length = plan->known->cycle->length;

        cache->plan_phase =
            (uint32_t)((plan->round * length + plan->phase + position) % (plan->known->turns * length));
    }
    for (uint32_t i = plan->head[position]; i != PLAN_NEVER; i = plan->actions[i].next) {
        const struct plan_action *action = &plan->actions[i];
        struct plan_segment *moved = &plan->segments[action->segment];

        switch (action->kind) {
        case PLAN_DROP:
            drop_now(cache, plan, moved);
            break;
        case PLAN_EVICT:
            moved->segment->claim = plan_absolute(cache, action->use);
            evict_now(cache, moved->segment, action);
            break;
        case PLAN_FETCH:
            if (plan->known && i >= plan->replaced)
                home_move(plan->known, moved->segment, action->scheduled);
            if (!cache->config.prefetch)
                break;
            if (plan->known && plan->known->schedule->paced)
                pace(cache);
            pend(cache, plan, action);
            break;
        }
    }
    plan->head[position] = PLAN_NEVER; /* frees and the operation behind them have the same position */
    fetches_go_on(cache);
    if (entry >= plan->entries)
        return;
    if (plan->is_free[entry]) {
        if (plan->frees[entry] != PLAN_NEVER)
            plan->segments[plan->frees[entry]].freed++; /* it is carried out next */
        return;
    }
    cache->timing.on = !plan->known && cache->history.ops && cache->plan_base < TIMING_PATIENCE;
    cache->timing.position = cache->plan_base + position;
    for (uint32_t k = plan->touch_first[position]; k < plan->touch_first[position + 1]; k++) {
        struct plan_segment *touched = &plan->segments[plan->touch[k]];

        touched->cursor++;
        if (plan->known)
            plan_touch(cache, plan, position, k);
        else
            touched->segment->next_use = touched->segment->claim =
                cache->plan_base + plan_next_use(plan, touched);
    }
}

/* Without the lock, but nobody else plans meanwhile. */
static void ask_planner(struct cache *cache, struct known *known)
{
    const struct cache_planner *planner = cache->config.planner;
    struct schedule *schedule;
    int error;

    if (known->asked == ASKED_NOTHING && known_waits(known))
        return;
    /* One that is kept, at once; for a new one when it is known what the first schedule comes to: the round
     * may get other frames first (reframe.h). */
    if (known->asked == ASKED_KEPT && !known->at_home)
        return;
    if (known->asked < ASKED_ALL) {
        known->asked++;
        planner->ask(planner->ctx, known->cycle, known->hash,
                     known->schedule ? known->schedule->predicted : 0, known->asked == ASKED_KEPT);
    }
    error = planner->answer(planner->ctx, known->hash, &schedule);
    if (error == -EAGAIN || (error == -ENOENT && known->asked == ASKED_KEPT))
        return;
    known->answered = true;
    if (!error)
        known->next = schedule;
}

/* The same: the lock is only held where something is done about it. */
static void look_at_frames(struct cache *cache)
{
    struct known *known = cache->following;
    uint64_t larger = cache->segments.larger;

    if (!known || !reframe_asked(cache))
        return;
    if (known->larger == REFRAME_UNKNOWN && !cache->config.reframe) {
        pthread_mutex_unlock(&cache->lock);
        known->larger = reframe_pays(known, larger) ? REFRAME_GAINS : REFRAME_NOT;
        pthread_mutex_lock(&cache->lock);
    }
    if (known->larger == REFRAME_GAINS || cache->config.reframe)
        reframe(cache);
}

/* With the lock, which it may release. */
static int window_begin(struct cache *cache, const struct cache_planned_op *ops, unsigned count, bool alone)
{
    int error;

    cache->in_window = true;
    if (cache->config.planner && cache->following && !cache->following->answered) {
        struct known *known = cache->following;

        pthread_mutex_unlock(&cache->lock);
        ask_planner(cache, known);
        pthread_mutex_lock(&cache->lock);
    }
    look_at_frames(cache);
    error = plan_make(cache, ops, count, alone, &cache->plan);
    if (error)
        cache->plan = NULL;
    return error;
}

/* With the lock: the operations of the window have become part of the history. */
static void window_end(struct cache *cache, uint32_t length)
{
    cache->plan_base += length;
    cache->plan_position = cache->plan_base;
    if (cache->plan)
        plan_free(cache->plan);
    cache->plan = NULL;
    cache->last_births = cache->births;
    cache->births = 0;
    cache->window++;
    plan_learn(cache);
    if (cache->timing.count >= TIMING_MANY) /* each keeps two events of the driver's */
        timing_collect(&cache->timing, &cache->history);
}

void cache_window_begin(struct cache *cache, const struct cache_planned_op *ops, unsigned count)
{
    pthread_mutex_lock(&cache->lock);
    while (cache->in_window)
        pthread_cond_wait(&cache->changed, &cache->lock);
    (void)window_begin(cache, ops, count, false);
    pthread_mutex_unlock(&cache->lock);
}

void cache_window_step(struct cache *cache, unsigned position)
{
    pthread_mutex_lock(&cache->lock);
    if (cache->plan)
        plan_step(cache, cache->plan, position);
    pthread_mutex_unlock(&cache->lock);
}

void cache_window_end(struct cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    if (cache->plan) {
        plan_step(cache, cache->plan, cache->plan->entries);
        cache->timing.on = false;
        window_end(cache, cache->plan->length);
    }
    cache->in_window = false;
    pthread_cond_broadcast(&cache->changed);
    pthread_mutex_unlock(&cache->lock);
}

/* No round is followed: nothing is believed of what the operation touches. */
static void step_unplanned(struct cache *cache, const struct cache_planned_op *op)
{
    struct segment *segment;
    uint64_t base;
    unsigned item;

    cache->plan_position = cache->policy.now = cache->plan_base;
    for (unsigned k = 0; k < op->count; k++)
        if (segments_item(&cache->segments, op->touches[k].address, &segment, &base, &item))
            segment->next_use = segment->claim = 0;
    cache->timing.on = cache->history.ops && cache->plan_base < TIMING_PATIENCE;
    cache->timing.position = cache->plan_base;
}

/*
 * All of it comes before the operation begins: what is between an operation's begin and end must not keep
 * others from theirs, since a thread may wait there for what another one is going to do. So nobody is waited
 * for here, either: where two submit at once, one goes unplanned.
 */
void cache_window_alone(struct cache *cache, const struct cache_planned_op *op)
{
    int error;

    pthread_mutex_lock(&cache->lock);
    if (!cache->in_window) {
        error = window_begin(cache, op, 1, true);
        if (!error)
            plan_step(cache, cache->plan, 0);
        else if (error == -ENOENT)
            step_unplanned(cache, op);
        if (!error || error == -ENOENT)
            window_end(cache, 1);
        cache->in_window = false;
        pthread_cond_broadcast(&cache->changed);
    }
    pthread_mutex_unlock(&cache->lock);
}

bool cache_under_pressure(const struct cache *cache)
{
    return __atomic_load_n(&cache->pressure, __ATOMIC_RELAXED);
}
