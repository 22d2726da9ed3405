/*
 * residents.h - what is alive, by size: the groups of allocations that have most of HBM.
 *
 * Looks at every segment there is, under the cache's lock: for when somebody watches, and as seldom as its
 * cost wants. Takes the cache's lock.
 */
#ifndef HBMSPILL_CACHE_RESIDENTS_H
#define HBMSPILL_CACHE_RESIDENTS_H

#include <stdint.h>

struct cache;

/* Live allocations of one size, in bytes. What was never written is neither in HBM nor on the host. */
struct resident_row {
    uint64_t size; /* of each; 0: of all sizes that had no row any more */
    uint64_t count;
    uint64_t hbm, host; /* bytes of theirs with contents in HBM, and on the host only */
};

/* Those with most bytes in HBM, then with most in all, first; returns how many. */
unsigned cache_residents(struct cache *cache, struct resident_row *rows, unsigned max);

#endif
