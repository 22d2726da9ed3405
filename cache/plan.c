#include "cache/plan.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* Kept free of planned contents, so that a plan in bytes can be carried out in frames: a 32nd of HBM. */
#define PLAN_SLACK(bytes) ((bytes) / 32)

struct plan_segment *plan_enter(struct plan *plan, struct segment *segment)
{
    struct plan_segment *entry;

    if (segment->plan_index != PLAN_NEVER)
        return &plan->segments[segment->plan_index];
    if (plan->segment_count == plan->segment_capacity) {
        uint32_t capacity = plan->segment_capacity ? 2 * plan->segment_capacity : 256;
        struct plan_segment *segments = realloc(plan->segments, capacity * sizeof *segments);

        if (!segments)
            return NULL;
        plan->segments = segments;
        plan->segment_capacity = capacity;
    }
    segment->plan_index = plan->segment_count++;
    entry = &plan->segments[segment->plan_index];
    *entry = (struct plan_segment){.segment = segment,
                                   .last = PLAN_NEVER,
                                   .dies = PLAN_NEVER,
                                   .stamp = PLAN_NEVER,
                                   .entered = PLAN_NEVER,
                                   .leaves = PLAN_NEVER};
    entry->in = segment->state == SEGMENT_RESIDENT && segment->filled;
    entry->out = segment->state != SEGMENT_EMPTY && !segment->filled;
    return entry;
}

/* Who touches what, operation by operation, and then segment by segment. */
static int collect(struct cache *cache, struct plan *plan, const struct cache_planned_op *ops)
{
    uint32_t touches = 0, total = 0, position = 0;
    struct segment *segment;

    for (uint32_t i = 0; i < plan->entries; i++)
        total += ops[i].count;
    plan->touch = malloc((total + 1) * sizeof *plan->touch);
    plan->position = malloc((total + 1) * sizeof *plan->position);
    if (!plan->touch || !plan->position)
        return -ENOMEM;
    for (uint32_t i = 0; i < plan->entries; i++) {
        bool frees = ops[i].free_address != 0;
        unsigned count = frees ? 1 : ops[i].count;

        plan->position_of[i] = position;
        plan->is_free[i] = frees;
        plan->frees[i] = PLAN_NEVER;
        if (!frees)
            plan->touch_first[position] = touches;
        for (unsigned k = 0; k < count; k++) {
            uint64_t address = frees ? ops[i].free_address : ops[i].touches[k].address, base;
            struct plan_segment *entry;
            unsigned item;

            if (!segments_item(&cache->segments, address, &segment, &base, &item) || segment->small)
                continue;
            entry = plan_enter(plan, segment);
            if (!entry)
                return -ENOMEM;
            if (frees) {
                plan->frees[i] = segment->plan_index;
                if (++entry->frees == segment->live_items)
                    entry->dies = position;
            } else if (entry->stamp != position) {
                entry->stamp = position;
                entry->uses++;
                plan->touch[touches++] = segment->plan_index;
            }
        }
        position += !frees;
    }
    plan->length = position;
    plan->touch_first[plan->length] = touches;
    /* What is in HBM and not used in the window can give way, too. One operation alone is not worth it. */
    for (segment = plan->alone ? NULL : cache->policy.list; segment; segment = segment->next)
        if (!segment->small && !plan_enter(plan, segment))
            return -ENOMEM;
    for (uint32_t i = 0, first = 0; i < plan->segment_count; i++) {
        plan->segments[i].first_use = first;
        first += plan->segments[i].uses;
        plan->segments[i].uses = 0;
        plan->segments[i].stamp = PLAN_NEVER;
    }
    for (uint32_t i = 0; i < plan->length; i++)
        for (uint32_t k = plan->touch_first[i]; k < plan->touch_first[i + 1]; k++) {
            struct plan_segment *entry = &plan->segments[plan->touch[k]];

            plan->position[entry->first_use + entry->uses++] = i;
        }
    return 0;
}

int plan_add(struct plan *plan, enum plan_kind kind, uint32_t segment, uint32_t at, uint32_t use)
{
    if (plan->action_count == plan->action_capacity) {
        uint32_t capacity = plan->action_capacity ? 2 * plan->action_capacity : 256;
        struct plan_action *actions = realloc(plan->actions, capacity * sizeof *actions);

        if (!actions)
            return -ENOMEM;
        plan->actions = actions;
        plan->action_capacity = capacity;
    }
    plan->actions[plan->action_count++] =
        (struct plan_action){.kind = kind,
                             .segment = segment,
                             .count = plan->segments[segment].segment->pieces,
                             .at = at,
                             .use = use,
                             .leaves = PLAN_NEVER,
                             .next = PLAN_NEVER};
    return 0;
}

static void order_actions(struct plan *plan)
{
    for (uint32_t i = 0; i <= plan->length; i++)
        plan->head[i] = PLAN_NEVER;
    for (uint32_t i = plan->action_count; i-- > 0;) {
        plan->actions[i].next = plan->head[plan->actions[i].at];
        plan->head[plan->actions[i].at] = i;
    }
}

void plan_free(struct plan *plan)
{
    for (uint32_t i = 0; i < plan->segment_count; i++)
        plan->segments[i].segment->plan_index = PLAN_NEVER;
    free(plan->segments);
    free(plan->touch);
    free(plan->touch_first);
    free(plan->frees);
    free(plan->position_of);
    free(plan->is_free);
    free(plan->position);
    free(plan->actions);
    free(plan->head);
    free(plan->occupied);
    free(plan);
}

/* The window becomes part of the history. */
static void record(struct cache *cache, const struct plan *plan, const struct cache_planned_op *ops)
{
    if (!cache->config.follow || !history_start(&cache->history, cache->lives))
        return;
    if (cache->history.count) /* nothing was planned where memory was short for it */
        cache->plan_base = cache->history.count;
    for (uint32_t entry = 0; entry < plan->entries; entry++) {
        uint32_t position = plan->position_of[entry];

        if (plan->is_free[entry])
            continue;
        history_op(&cache->history, (uint32_t)cache->window, ops[entry].kind);
        for (uint32_t k = plan->touch_first[position]; k < plan->touch_first[position + 1]; k++)
            history_touch(&cache->history, plan->segments[plan->touch[k]].segment);
        history_op_end(&cache->history);
    }
}

int plan_make(struct cache *cache, const struct cache_planned_op *ops, unsigned count, bool alone,
              struct plan **out)
{
    struct plan *plan = calloc(1, sizeof *plan);
    uint64_t room = cache_plannable(cache);
    int error = -ENOMEM;

    if (!plan)
        return -ENOMEM;
    plan->entries = count;
    plan->alone = alone;
    plan->capacity = room - PLAN_SLACK(room);
    plan->touch_first = malloc((count + 1) * sizeof *plan->touch_first);
    plan->head = malloc((count + 1) * sizeof *plan->head);
    plan->occupied = calloc(count + 1, sizeof *plan->occupied);
    plan->frees = malloc((count + 1) * sizeof *plan->frees);
    plan->position_of = malloc((count + 1) * sizeof *plan->position_of);
    plan->is_free = malloc((count + 1) * sizeof *plan->is_free);
    if (plan->frees && plan->is_free && plan->position_of && plan->touch_first && plan->head &&
        plan->occupied)
        error = collect(cache, plan, ops);
    if (!error) {
        record(cache, plan, ops);
        error = plan_known(cache, plan);
        if (error == -ENOENT && !alone)
            error = plan_window(cache, plan);
    }
    if (error) {
        plan_free(plan);
        return error;
    }
    order_actions(plan);
    *out = plan;
    return 0;
}
