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

static struct segment *nextuse_victim(struct policy *policy)
{
    struct segment *found = NULL, *segment;

    DL_FOREACH(policy->list, segment)
    if (policy_movable(segment) && (!found || segment->next_use > found->next_use))
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
