/*
 * dearest.h - which allocations cost the transfers: counted by where they were made and how large they are.
 *
 * The place of an allocation (a call site) is a number that the caller gives with it; 0 where it is unknown.
 * Allocations of one size from one place are one row, so what a loop allocates anew each time adds up. There
 * is a bounded number of rows; what finds none is counted in one for the rest.
 *
 * Called with the cache's lock held, but for cache_set_site and cache_dearest, which take it.
 */
#ifndef HBMSPILL_CACHE_DEAREST_H
#define HBMSPILL_CACHE_DEAREST_H

#include <stdbool.h>
#include <stdint.h>

struct cache;
struct segment;

enum { DEAREST_ROWS = 1024 };

struct dearest_row {
    uint32_t site;
    uint64_t size; /* of one allocation, bytes */
    uint64_t moves_in, moves_out, bytes_in, bytes_out;
    /* Uses after having been away; operations begun from the use before to such a use, and of these from
     * leaving on: what there was to hide the transfers behind. */
    uint64_t returns, reuse_distance, away;
};

struct dearest {
    struct dearest_row row[DEAREST_ROWS]; /* by hash; [0] for the rest */
    unsigned used;
};

/* In every segment. */
struct dearest_mark {
    uint32_t site;
    uint32_t row;      /* 0: not looked up */
    uint64_t left;     /* the tick at which it began to leave, 0: it is not away */
    uint64_t last_use; /* the tick of the use before that */
};

/* Contents are copied out or in. */
void dearest_moved(struct cache *cache, struct segment *segment, bool out, uint64_t bytes);
/* All or some of it leaves HBM, with a copy or without. */
void dearest_left(struct cache *cache, struct segment *segment);
/* An operation (tick) uses it for the first time since it got frames. */
void dearest_used(struct segment *segment, struct dearest *dearest, uint64_t tick);

/* Where the allocation at an address was made. Nothing happens where it is not one of ours. */
void cache_set_site(struct cache *cache, uint64_t address, uint32_t site);
/* The rows that moved most bytes, most first; returns how many. */
unsigned cache_dearest(struct cache *cache, struct dearest_row *rows, unsigned max);

#endif
