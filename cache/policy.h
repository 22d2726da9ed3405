/*
 * policy.h - who leaves HBM. One file a policy; live, in tests and in replay the same code.
 *
 * A policy keeps the segments whose contents are in HBM, in a list of its own making (segment.prev and .next
 * are its to use while a segment is inserted). Called with the cache's lock held; must not call back.
 */
#ifndef HBMSPILL_CACHE_POLICY_H
#define HBMSPILL_CACHE_POLICY_H

#include "cache/segment.h"

struct policy {
    const struct policy_type *type;
    struct segment *list;
    bool ordered;       /* policy_order was called: `use' is called from then on */
    uint64_t now;       /* position of the operation being carried out */
    uint64_t newcomers; /* segments inserted so far */
};

struct policy_type {
    const char *name;
    void (*insert)(struct policy *policy, struct segment *segment);
    void (*remove)(struct policy *policy, struct segment *segment);
    void (*use)(struct policy *policy, struct segment *segment); /* an operation named it */
    /* The segment to evict, one for which policy_movable() holds. NULL: there is none. */
    struct segment *(*victim)(struct policy *policy);
};

/*
 * Before the first victim is looked for. Until then nobody asks for the list's order, and keeping it would
 * mean to change, for each allocation an operation names, two others that are in no cache of the CPU; so it
 * is made here, once, from the marks that operations leave behind.
 */
void policy_order(struct policy *policy);

extern const struct policy_type policy_lru, policy_bip, policy_nextuse;

static inline bool policy_movable(const struct segment *segment)
{
    return segment->pins == 0 && segment->slot_pins == 0 && !segment->fixed && !segment->behind;
}

#endif
