/*
 * Least recently used: the list is in order of last use, oldest first.
 */
#include "cache/policy.h"
#include <utlist.h>

static int by_mark(const struct segment *a, const struct segment *b)
{
    return (a->mark > b->mark) - (a->mark < b->mark);
}

void policy_order(struct policy *policy)
{
    if (policy->ordered)
        return;
    DL_SORT(policy->list, by_mark);
    policy->ordered = true;
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

static struct segment *lru_victim(struct policy *policy)
{
    struct segment *segment;

    DL_FOREACH(policy->list, segment)
    if (policy_movable(segment))
        return segment;
    return NULL;
}

const struct policy_type policy_lru = {
    .name = "lru",
    .insert = lru_insert,
    .remove = lru_remove,
    .use = lru_use,
    .victim = lru_victim,
};
