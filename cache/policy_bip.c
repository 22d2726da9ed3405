/*
 * Bimodal insertion (Qureshi, Jaleel, Patt, Steely and Emer, "Adaptive Insertion Policies for High
 * Performance Caching", ISCA 2007): like LRU, but what comes in goes to the cold end of the list, where it is
 * the next to leave, and only one newcomer in BIP_SHARE to the warm one. In a loop over more than fits LRU
 * keeps nothing until it is used again; this keeps most of what it has. A use after the one it came in for
 * makes it warm.
 */
#include "cache/policy.h"
#include <utlist.h>

enum { BIP_SHARE = 32 };

static void bip_insert(struct policy *policy, struct segment *segment)
{
    if (++policy->newcomers % BIP_SHARE)
        DL_PREPEND(policy->list, segment);
    else
        DL_APPEND(policy->list, segment);
}

static void bip_remove(struct policy *policy, struct segment *segment)
{
    policy_lru.remove(policy, segment);
}

/* An operation names what is in HBM before what it lacks comes in: not the use that it is inserted for. */
static void bip_use(struct policy *policy, struct segment *segment)
{
    policy_lru.use(policy, segment);
}

static struct segment *bip_victim(struct policy *policy)
{
    return policy_lru.victim(policy);
}

const struct policy_type policy_bip = {
    .name = "bip",
    .insert = bip_insert,
    .remove = bip_remove,
    .use = bip_use,
    .victim = bip_victim,
};
