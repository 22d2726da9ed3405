/*
 * slot.h - the host tier: pinned memory, one slot for one segment, pooled by size, within an exact limit.
 *
 * Called with the cache's lock held, except slots_make, which pins memory and is called without it.
 */
#ifndef HBMSPILL_CACHE_SLOT_H
#define HBMSPILL_CACHE_SLOT_H

#include "cache/stream.h"
#include "cache/verify.h"

struct slot {
    void *memory;
    uint64_t size;
    struct edges written;  /* a reader comes after these */
    struct edges read;     /* a writer comes after these and `written' */
    struct slot *next;     /* in the pool of free ones */
    struct slot_sum *sums; /* verify.h, or NULL */
    unsigned sum_count;
};

struct slots {
    const struct device_ops *ops;
    struct statistics *statistics;
    uint64_t limit;
    uint64_t held; /* pinned bytes, pooled ones and those being pinned included */
    uint64_t used; /* bytes of slots that are somebody's */
    struct slot *free;
};

void slots_init(struct slots *slots, const struct device_ops *ops, struct statistics *statistics,
                uint64_t limit);
/* A pooled slot of exactly that size, NULL where there is none. */
struct slot *slots_take(struct slots *slots, uint64_t size);
void slots_give(struct slots *slots, struct slot *slot);

/*
 * Sets `size' bytes aside for a new slot. -ENOSPC: the limit does not allow it even after idle pooled slots
 * are given back; *evicted lists what to free with slots_discard (without the lock). -EBUSY: *wait first.
 */
int slots_reserve(struct slots *slots, struct streams *streams, uint64_t size, struct slot **evicted,
                  uint64_t *wait);
/*
 * Without the lock: pins the memory, frees what reserve evicted. -ENOMEM where the system pins no more. What
 * could not be freed is left in *evicted.
 */
int slots_make(struct slots *slots, uint64_t size, struct slot **evicted, struct slot **out);
/* With the lock: the reservation is returned after a failed slots_make, and what it could not free pooled. */
void slots_unreserve(struct slots *slots, uint64_t size, struct slot *refused);
void slots_destroy(struct slots *slots);

#endif
