/*
 * slot.h - the host tier: pinned memory, one slot for a run of a segment's pieces (segment.h), pooled by
 * size, within an exact limit.
 *
 * Where the driver has it, a slot is made of handles, one for each of the pieces, so that a piece's own
 * address can be mapped to where its contents are (linked.h).
 *
 * Called with the cache's lock held, except slots_make, which pins memory and is called without it.
 */
#ifndef HBMSPILL_CACHE_SLOT_H
#define HBMSPILL_CACHE_SLOT_H

#include "cache/stream.h"
#include "cache/verify.h"

/*
 * No slot is longer, and so no copy between HBM and the host: what is side by side in two slots is not in
 * memory. The job's own copies share the engines, which go on to another stream only between copies: this is
 * a millisecond or two on the links there are, of which what starting a copy costs is a thousandth. Longer
 * ones would pin more for who moves a few pieces only.
 */
enum { SLOT_MOST = 64 << 20 };

struct slot {
    void *memory;
    uint64_t size;
    uint64_t *handles;     /* one for each piece; NULL: it can be mapped nowhere else */
    struct edges written;  /* a reader comes after these */
    struct edges read;     /* a writer comes after these and `written' */
    struct slot *next;     /* in the pool of free ones */
    struct slot_sum *sums; /* verify.h, or NULL */
    unsigned sum_count;
};

/* All that is queued on its memory: a new owner comes after it. */
static inline struct edges slot_edges(const struct slot *slot)
{
    struct edges edges = slot->written;

    edges_merge(&edges, &slot->read);
    return edges;
}

struct slots {
    const struct device_ops *ops;
    struct statistics *statistics;
    uint64_t unit; /* of a handle: a piece's size */
    uint64_t limit;
    bool unlinkable; /* the driver has refused to make handles; any thread, atomic */
    uint64_t held;   /* pinned bytes, pooled ones and those being pinned included */
    uint64_t used;   /* bytes of slots that are somebody's */
    struct slot *free;
};

void slots_init(struct slots *slots, const struct device_ops *ops, struct statistics *statistics,
                uint64_t unit, uint64_t limit);
/* Whether slots that are made from now on have handles, as far as is known. Any thread, no lock. */
bool slots_linkable(const struct slots *slots);
/* A pooled slot of exactly that size, NULL where there is none. */
struct slot *slots_take(struct slots *slots, uint64_t size);
void slots_give(struct slots *slots, struct slot *slot);

/*
 * Sets `size' bytes aside for a new slot. -ENOSPC: the limit does not allow it even after idle pooled slots
 * are given back; *evicted lists what slots_make frees. -EBUSY: *wait first.
 */
int slots_reserve(struct slots *slots, struct streams *streams, uint64_t size, struct slot **evicted,
                  uint64_t *wait);
/*
 * Without the lock: pins the memory, frees what reserve evicted. -ENOMEM where the system pins no more,
 * -ENOSPC where others have it just now. What could not be freed is left in *evicted.
 */
int slots_make(struct slots *slots, uint64_t size, struct slot **evicted, struct slot **out);
/* With the lock: the reservation is returned after a failed slots_make, and what it could not free pooled. */
void slots_unreserve(struct slots *slots, uint64_t size, struct slot *refused);
void slots_destroy(struct slots *slots);
/* Takes those out of the pool that nothing queued uses any more; freed without the lock, with slots_discard.
 */
struct slot *slots_idle(struct slots *slots, struct streams *streams);
/* Without the lock. Those that could not be freed are left, for slots_unreserve with a size of 0. */
struct slot *slots_discard(struct slots *slots, struct slot *list);

#endif
