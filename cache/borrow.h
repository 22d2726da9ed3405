/*
 * borrow.h - frames and slots lent out, for measurements on memory of the cache's own.
 *
 * A loan is two frames and two slots of a frame's size. It takes only what nobody would miss: frames that are
 * free or whose contents are dead, and that nothing queued uses any more; slots while the host tier is far
 * from full. Nothing is evicted for it. What is lent out counts as an operation in flight, so one that finds
 * no room meanwhile waits for the return instead of failing.
 *
 * Threads: any; takes the cache's lock, and pins memory without it. Never waits for the GPU.
 */
#ifndef HBMSPILL_CACHE_BORROW_H
#define HBMSPILL_CACHE_BORROW_H

#include "cache/cache.h"

enum { LOAN_PIECES = 2 };

struct cache_loan {
    uint64_t size; /* bytes of each frame and of each slot */
    uint64_t device[LOAN_PIECES];
    void *host[LOAN_PIECES];
    struct frame *frame[LOAN_PIECES]; /* private to the cache */
    struct slot *slot[LOAN_PIECES];
};

/*
 * -EBUSY: nothing is idle now, later it may be. -ENOMEM: the host tier is too small for it, or the system
 * pins no more. -EIO: the driver.
 */
int cache_borrow(struct cache *cache, struct cache_loan *loan);
/*
 * idle: everything queued on it has completed; the slots stay pinned, in the pool. Where that is not known,
 * after errors of the driver, nobody gets the memory any more.
 */
void cache_return(struct cache *cache, struct cache_loan *loan, bool idle);

#endif
