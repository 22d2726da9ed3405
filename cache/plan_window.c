/*
 * plan_window.c - a plan for a window alone, where no round is known that it belongs to.
 */
#include "cache/plan.h"
#include <errno.h>
#include <stdlib.h>

/*
 * Operations a victim should have been idle for. In replay of demo_train.py 2 took a tenth off a round at 1.5
 * and 2 times HBM and added one or two in a hundred at 1.25; 4 and 8 moved more and gained less.
 */
#define PLAN_IDLE 2

static uint64_t first_position(const struct plan *plan, const struct plan_segment *entry)
{
    return entry->uses ? plan->position[entry->first_use] : PLAN_NEVER;
}

/* Where each survivor is used next; places of birth in this round are kept for the next one. */
static int predict(struct cache *cache, struct plan *plan)
{
    uint32_t *by_birth;

    if (cache->last_births > cache->birth_capacity) {
        by_birth = realloc(cache->by_birth, cache->last_births * sizeof *by_birth);
        if (!by_birth)
            return -ENOMEM;
        cache->by_birth = by_birth;
        cache->birth_capacity = cache->last_births;
    }
    for (uint32_t i = 0; i < cache->last_births; i++)
        cache->by_birth[i] = PLAN_NEVER;
    for (uint32_t i = 0; i < plan->segment_count; i++) {
        const struct plan_segment *entry = &plan->segments[i];
        const struct segment *segment = entry->segment;

        if (segment->birth_window + 1 == cache->window && segment->birth < cache->last_births)
            cache->by_birth[segment->birth] = (uint32_t)first_position(plan, entry);
    }
    for (uint32_t i = 0; i < plan->segment_count; i++) {
        struct plan_segment *entry = &plan->segments[i];
        const struct segment *segment = entry->segment;
        uint64_t first = first_position(plan, entry);

        if (segment->birth_window == cache->window)
            first = segment->birth < cache->last_births ? cache->by_birth[segment->birth] : PLAN_NEVER;
        entry->beyond = plan->length + first;
    }
    return 0;
}

/*
 * What is used furthest ahead of all that is in HBM and not touched by the operation. One that was used just
 * now would have to be copied out between now and the need, with everybody waiting for it, so those that have
 * been idle for some operations go first.
 */
static struct plan_segment *furthest(struct plan *plan, uint32_t position)
{
    struct plan_segment *found = NULL;
    uint64_t found_next = 0;
    bool found_idle = false;

    for (uint32_t i = 0; i < plan->segment_count; i++) {
        struct plan_segment *entry = &plan->segments[i];
        uint64_t next;
        bool idle;

        if (!entry->in || entry->stamp == position || entry->segment->fixed)
            continue;
        next = plan_next_use(plan, entry);
        idle = entry->last == PLAN_NEVER || position - entry->last >= PLAN_IDLE;
        if (found && (idle == found_idle ? next <= found_next : found_idle))
            continue;
        found = entry;
        found_next = next;
        found_idle = idle;
    }
    return found;
}

/* Notes with what brought it in when it goes again. */
static void left(struct plan *plan, struct plan_segment *entry, uint32_t at)
{
    if (entry->entered != PLAN_NEVER)
        plan->actions[entry->entered].leaves = at;
    else if (entry->leaves == PLAN_NEVER)
        entry->leaves = at;
}

/* Decides what is out when; occupied[] holds differences until sweep_end. */
static int sweep(struct plan *plan)
{
    int64_t bytes = 0, capacity = (int64_t)plan->capacity;
    int error = 0;

    for (uint32_t i = 0; i < plan->segment_count; i++)
        if (plan->segments[i].in)
            bytes += (int64_t)plan->segments[i].segment->size;
    plan->occupied[0] += bytes;
    for (uint32_t i = 0; i < plan->length && !error; i++) {
        for (uint32_t k = plan->touch_first[i]; k < plan->touch_first[i + 1] && !error; k++) {
            struct plan_segment *entry = &plan->segments[plan->touch[k]];

            entry->stamp = i;
            if (entry->in)
                continue;
            entry->entered = PLAN_NEVER;
            if (entry->out) {
                entry->entered = plan->action_count;
                error = plan_add(plan, PLAN_FETCH, plan->touch[k], i, i);
            }
            entry->in = true;
            entry->out = false;
            bytes += (int64_t)entry->segment->size;
            plan->occupied[i] += (int64_t)entry->segment->size;
        }
        while (bytes > capacity && !error) {
            struct plan_segment *victim = furthest(plan, i);
            uint32_t at;

            if (!victim)
                break; /* it does not fit: the operation itself will say so */
            at = victim->last == PLAN_NEVER ? 0 : victim->last + 1;
            error = plan_add(plan, PLAN_EVICT, (uint32_t)(victim - plan->segments), at, PLAN_NEVER);
            victim->in = false;
            victim->out = true;
            victim->out_since = at;
            left(plan, victim, at);
            bytes -= (int64_t)victim->segment->size;
            plan->occupied[at] -= (int64_t)victim->segment->size;
        }
        for (uint32_t k = plan->touch_first[i]; k < plan->touch_first[i + 1] && !error; k++) {
            struct plan_segment *entry = &plan->segments[plan->touch[k]];

            entry->last = i;
            entry->cursor++;
            if (entry->cursor < entry->uses || entry->dies == PLAN_NEVER)
                continue;
            error = plan_add(plan, PLAN_DROP, plan->touch[k], i + 1, PLAN_NEVER);
            left(plan, entry, i + 1);
            entry->in = false;
            bytes -= (int64_t)entry->segment->size;
            plan->occupied[i + 1] -= (int64_t)entry->segment->size;
        }
    }
    for (uint32_t i = 1; i <= plan->length; i++)
        plan->occupied[i] += plan->occupied[i - 1];
    return error;
}

/* The earliest position from which the bytes have room up to `use', not before what `since' allows. */
static uint32_t earliest(struct plan *plan, uint64_t size, uint32_t since, uint32_t use)
{
    uint32_t at = use;

    while (at > since && plan->occupied[at - 1] + (int64_t)size <= (int64_t)plan->capacity)
        at--;
    for (uint32_t i = at; i < use; i++)
        plan->occupied[i] += (int64_t)size;
    return at;
}

/*
 * A fetch is as early as there is room. Those inside the window were noted in the order of their uses; the
 * eviction before it is the last one of that segment noted earlier.
 */
static void pull_forward(struct plan *plan)
{
    for (uint32_t i = 0; i < plan->segment_count; i++)
        plan->segments[i].out_since = 0;
    for (uint32_t i = 0; i < plan->action_count; i++) {
        struct plan_action *action = &plan->actions[i];
        struct plan_segment *entry = &plan->segments[action->segment];

        if (action->kind == PLAN_EVICT)
            entry->out_since = action->at + 1;
        else if (action->kind == PLAN_FETCH)
            action->at = earliest(plan, entry->segment->size, entry->out_since, action->use);
    }
}

struct survivor {
    uint64_t beyond;
    uint32_t segment;
};

static int by_next_use(const void *a, const void *b)
{
    const struct survivor *x = a, *y = b;

    return x->beyond < y->beyond ? -1 : x->beyond > y->beyond;
}

/* What is out at the end and will be needed in the next round comes back where this window has room at its
 * end. */
static int fetch_beyond(struct plan *plan)
{
    struct survivor *survivors = malloc((plan->segment_count + 1) * sizeof *survivors);
    uint32_t count = 0;
    int error = 0;

    if (!survivors)
        return -ENOMEM;
    for (uint32_t i = 0; i < plan->segment_count; i++)
        if (plan->segments[i].out && plan->segments[i].beyond < plan->length + (uint64_t)PLAN_NEVER)
            survivors[count++] = (struct survivor){plan->segments[i].beyond, i};
    qsort(survivors, count, sizeof *survivors, by_next_use);
    for (uint32_t i = 0; i < count && !error; i++) {
        struct plan_segment *entry = &plan->segments[survivors[i].segment];
        uint32_t at = earliest(plan, entry->segment->size, entry->out_since, plan->length);

        if (at == plan->length)
            break; /* what is used later has no better claim */
        error = plan_add(plan, PLAN_FETCH, survivors[i].segment, at, plan->length);
    }
    free(survivors);
    return error;
}

int plan_window(struct cache *cache, struct plan *plan)
{
    int error = predict(cache, plan);

    if (!error)
        error = sweep(plan);
    if (!error) {
        pull_forward(plan);
        error = fetch_beyond(plan);
    }
    for (uint32_t i = 0; i < plan->segment_count && !error; i++) {
        struct segment *segment = plan->segments[i].segment;

        plan->segments[i].cursor = 0;
        segment->leaves = plan_absolute(cache, plan->segments[i].leaves);
        segment->next_use = segment->claim = cache->plan_base + plan_next_use(plan, &plan->segments[i]);
    }
    return error;
}
