/*
 * Used furthest ahead: while windows are planned, uses are known or predicted (plan.h) and what is needed
 * last goes first; of those that are needed equally late, and of all while nothing is known, the least
 * recently used. The list is kept as LRU keeps it.
 */
#include "cache/policy.h"
#include <utlist.h>

static void nextuse_insert(struct policy *policy, struct segment *segment)
{
    policy_lru.insert(policy, segment);
}

static void nextuse_remove(struct policy *policy, struct segment *segment)
{
    policy_lru.remove(policy, segment);
}

static void nextuse_use(struct policy *policy, struct segment *segment)
{
    policy_lru.use(policy, segment);
}

/* What should have been used by now and was not is not part of what repeats. */
static uint64_t next_use(const struct policy *policy, const struct segment *segment)
{
    return segment->next_use && segment->next_use < policy->now ? UINT64_MAX : segment->next_use;
}

static struct segment *nextuse_victim(struct policy *policy)
{
    struct segment *found = NULL, *segment;

    DL_FOREACH(policy->list, segment)
    if (policy_movable(segment) && (!found || next_use(policy, segment) > next_use(policy, found)))
        found = segment;
    return found;
}

const struct policy_type policy_nextuse = {
    .name = "nextuse",
    .insert = nextuse_insert,
    .remove = nextuse_remove,
    .use = nextuse_use,
    .victim = nextuse_victim,
};
