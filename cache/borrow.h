/*
 * borrow.h - a frame and a slot lent out, for measurements on memory of the cache's own.
 *
 * It takes what nobody would miss: a frame that is free or whose contents are dead and that nothing queued
 * uses any more; a slot while the host tier is far from full. What is lent out counts as an operation in
 * flight, so one that finds no room meanwhile waits for the return instead of failing.
 *
 * Threads: any; takes the cache's lock, and pins memory without it. Never waits for the GPU.
 */
#ifndef HBMSPILL_CACHE_BORROW_H
#define HBMSPILL_CACHE_BORROW_H

#include "cache/cache.h"

struct cache_loan {
    uint64_t size;   /* bytes of the frame and of the slot */
    uint64_t device; /* where the frame is mapped for the time of the loan */
    void *host;
    struct frame *frame; /* private to the cache */
    struct slot *slot;
};

enum {
    LOAN_EVICT = 1, /* where nothing is idle a frame is made free, by moving out as much as leaves one */
    LOAN_BUSY = 2,  /* even while copies of the cache's own are under way, which take part of the link */
};

/*
 * -EAGAIN: nothing is idle yet, but after the event *wait there is more. -EBUSY: nothing is idle now.
 * -ENOMEM: the host tier is too small for it, or the system pins no more. -EIO: the driver.
 */
int cache_borrow(struct cache *cache, struct cache_loan *loan, unsigned flags, uint64_t *wait);
/*
 * idle: everything queued on it has completed; the slot stays pinned, in the pool. Where that is not known,
 * after errors of the driver, nobody gets the memory any more, but it is not forgotten (audit.h).
 */
void cache_return(struct cache *cache, struct cache_loan *loan, bool idle);

/*
 * What the driver would not take back, or nobody may have: kept here and given back later if that can be.
 * With the lock. (cache_destroy, cache_release, audit.c)
 */
enum { LOANS_STUCK = 8 };
struct loan_stuck {
    uint64_t address, size;
    struct frame *frame; /* NULL: it went back, as it is mapped here no longer */
    struct slot *slot;   /* not NULL: copies may be under way for ever */
};
struct cache_audit;
void loans_settle(struct cache *cache);
void loans_audit(const struct cache *cache, struct cache_audit *audit, uint64_t *slot_bytes);

#endif
