/*
 * plan_run.c - a plan carried out: what is due before an operation, and the window that brackets it.
 */
#include "cache/plan.h"
#include <errno.h>

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
        /* Its address will be given out at the same place of the next round. */
        segment->next_use = cache->plan_base + plan->length + plan->position[entry->first_use];
    }
}

/* In the order of use: a later one must not take the frames that an earlier one waits for. */
static void pend(struct plan *plan, uint32_t action)
{
    uint32_t at = plan->pending_count++;

    for (; at > 0 && plan->actions[plan->pending[at - 1]].use > plan->actions[action].use; at--)
        plan->pending[at] = plan->pending[at - 1];
    plan->pending[at] = action;
}

static void evict_now(struct cache *cache, struct segment *segment)
{
    struct cache_failure failure;
    struct need need;

    while (segment->state == SEGMENT_RESIDENT && segment->filled && policy_movable(segment) &&
           !residency_behind(cache, segment)) {
        int error = residency_evict(cache, segment, 0, segment->pieces, &need, &failure);

        if (error == -EAGAIN)
            error = cache_satisfy(cache, &need);
        if (error)
            return; /* it stays; the need will find a way or say why not */
    }
}

/* True if the fetch need not be tried again. */
static bool fetch_now(struct cache *cache, struct segment *segment)
{
    struct need need;

    while (segment->state != SEGMENT_EMPTY && !segment->filled && !segment->fixed) {
        int error = residency_fill_free(cache, segment, 0, segment->pieces, &need);

        if (error == -EBUSY)
            return false;
        if (error == -EAGAIN)
            error = cache_satisfy(cache, &need);
        if (error)
            return true;
    }
    return true;
}

static void fetches_go_on(struct cache *cache, struct plan *plan, unsigned position)
{
    uint32_t kept = 0;
    bool blocked = false;

    for (uint32_t i = 0; i < plan->pending_count; i++) {
        const struct plan_action *action = &plan->actions[plan->pending[i]];

        if (action->use <= position)
            continue; /* the operation does it itself */
        plan->segments[action->segment].segment->leaves = plan_absolute(cache, action->leaves);
        if (!blocked && fetch_now(cache, plan->segments[action->segment].segment))
            continue;
        blocked = true;
        plan->pending[kept++] = plan->pending[i];
    }
    plan->pending_count = kept;
}

void plan_step(struct cache *cache, struct plan *plan, unsigned position)
{
    cache->plan_position = cache->plan_base + position;
    for (uint32_t i = plan->head[position]; i != PLAN_NEVER; i = plan->actions[i].next) {
        const struct plan_action *action = &plan->actions[i];
        struct segment *segment = plan->segments[action->segment].segment;

        switch (action->kind) {
        case PLAN_DROP:
            drop_now(cache, plan, &plan->segments[action->segment]);
            break;
        case PLAN_EVICT:
            evict_now(cache, segment);
            break;
        case PLAN_FETCH:
            pend(plan, i);
            break;
        }
    }
    fetches_go_on(cache, plan, position);
    if (position == plan->length)
        return;
    if (plan->frees[position] != PLAN_NEVER)
        plan->segments[plan->frees[position]].freed++; /* it is carried out next */
    for (uint32_t k = plan->touch_first[position]; k < plan->touch_first[position + 1]; k++) {
        struct plan_segment *entry = &plan->segments[plan->touch[k]];

        entry->cursor++;
        entry->segment->next_use = cache->plan_base + plan_next_use(plan, entry);
    }
}

void cache_window_begin(struct cache *cache, const struct cache_planned_op *ops, unsigned count)
{
    pthread_mutex_lock(&cache->lock);
    while (cache->in_window)
        pthread_cond_wait(&cache->changed, &cache->lock);
    cache->in_window = true;
    if (plan_make(cache, ops, count, &cache->plan))
        cache->plan = NULL;
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
        plan_step(cache, cache->plan, cache->plan->length);
        cache->plan_base += cache->plan->length;
        plan_free(cache->plan);
        cache->plan = NULL;
        cache->last_births = cache->births;
        cache->births = 0;
        cache->window++;
    }
    cache->in_window = false;
    pthread_cond_broadcast(&cache->changed);
    pthread_mutex_unlock(&cache->lock);
}

bool cache_under_pressure(const struct cache *cache)
{
    return __atomic_load_n(&cache->pressure, __ATOMIC_RELAXED);
}
