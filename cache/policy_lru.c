/*
 * Least recently used: the list is in order of last use, oldest first.
 *
 * The oldest segment need not have a frame of the size that is wanted. Regrouping frames (frame.h) costs a
 * wait for the GPU and some driver calls, so the oldest that has one is taken instead, unless it was used so
 * recently that it has been idle for less than half as long as the oldest of all.
 */
#include "cache/policy.h"
#include <utlist.h>

bool segment_has_class(const struct segment *segment, unsigned class)
{
    for (unsigned i = 0; i < segment->pieces; i++)
        if (segment->piece[i].class == class && segment->piece[i].frame)
            return true;
    return false;
}

static void lru_insert(struct policy *policy, struct segment *segment)
{
    DL_APPEND(policy->list, segment);
}

static void lru_remove(struct policy *policy, struct segment *segment)
{
    DL_DELETE(policy->list, segment);
}

static void lru_use(struct policy *policy, struct segment *segment)
{
    if (segment->next) {
        DL_DELETE(policy->list, segment);
        DL_APPEND(policy->list, segment);
    }
}

static struct segment *lru_victim(struct policy *policy, unsigned class, uint64_t tick)
{
    struct segment *oldest = NULL, *segment;

    DL_FOREACH(policy->list, segment)
    {
        if (!policy_movable(segment))
            continue;
        if (!oldest)
            oldest = segment;
        if (2 * (tick - segment->last_tick) < tick - oldest->last_tick)
            break;
        if (segment_has_class(segment, class))
            return segment;
    }
    return oldest;
}

const struct policy_type policy_lru = {
    .name = "lru",
    .insert = lru_insert,
    .remove = lru_remove,
    .use = lru_use,
    .victim = lru_victim,
};
