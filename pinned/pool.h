/*
 * pool.h - the pinned memory of one GPU: made when it is first needed, reused when it is asked for again.
 *
 * Small pieces come from a jemalloc arena over pinned slabs (small.h). Larger ones are ranges of their own,
 * of whole pages: jemalloc's size classes would pin up to a fifth more than was asked for. One that is given
 * back stays pinned and idle, and is given out again to who asks for that size or a little less; idle ones go
 * back to the system where the budget is needed for others, and when the pool is trimmed.
 *
 * Contents are not cleared. Whoever gives memory back says by that that nothing uses it any more.
 *
 * Threads: any. No lock is held while memory is touched or pinned, but for slabs. Sizes are bytes. Errors: 0
 * or -errno.
 */
#ifndef HBMSPILL_PINNED_POOL_H
#define HBMSPILL_PINNED_POOL_H

#include "pinned/extent.h"

/* From this size on an allocation is a range of its own. */
#define POOL_LARGE ((size_t)1 << 20)

struct pool;

/* The clock is in nanoseconds and never goes back. */
struct pool_config {
    const struct pin_ops *ops;
    struct budget *budget;
    uint64_t (*clock)(void);
    int node;         /* NUMA node, -1: none asked for */
    unsigned threads; /* for the first touch; 0: by the size */
};

int pool_create(const struct pool_config *config, struct pool **out);
/*
 * -ENOSPC: the budget does not allow it, even without what is idle here. -ENOMEM: the system pins no more;
 * the budget's limit has come down. Other errors are pin_ops'.
 */
int pool_alloc(struct pool *pool, size_t size, void **out);
/* -ENOENT: not what pool_alloc returned, or given back already. */
int pool_free(struct pool *pool, void *memory);

/* Gives back what has been idle for so long, up to so many bytes; returns the bytes. */
uint64_t pool_trim(struct pool *pool, uint64_t idle_for, uint64_t bytes);

/* Who pinned has unpinned all of it: nothing of the pool is in the budget any more, and it gives nothing out
 * but what is idle. Returns how many ranges that were (extent.h). */
uint64_t pool_forget(struct pool *pool);

struct pool_usage {
    uint64_t pinned;        /* bytes in the budget on this pool's behalf */
    uint64_t idle;          /* of these, what a trim gives back at least */
    uint64_t asked;         /* bytes asked for by who has them now */
    uint64_t made, reused;  /* allocations that pinned memory, that did not */
    uint64_t registrations; /* ranges pinned */
};
void pool_usage(struct pool *pool, struct pool_usage *usage);

/* How many of the pages looked at are on each of the first `count' nodes (numa.h). */
void pool_where(struct pool *pool, unsigned pages_on[], unsigned count);

#endif
