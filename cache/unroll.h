/*
 * unroll.h - two rounds of a cycle as one, so that what lives for longer than a round has frames of its own.
 *
 * What is born in a round and dies in the next is there twice for a while, and the two cannot share frames;
 * but what is born in one round and what is born in the next but one can. So over two rounds, or turns, each
 * is a buffer by itself. Those born in the first turn have the indices that they have in the cycle, those
 * born in the second one follow in the same order; static ones are one buffer as before. Each
 * has an address of its own (place.h). Of actions those of
 * the second turn follow those of the first.
 *
 * Plain data, no locks.
 */
#ifndef HBMSPILL_CACHE_UNROLL_H
#define HBMSPILL_CACHE_UNROLL_H

#include "cache/cycle.h"

/*
 * Turns it takes: 2 where something that lives for longer than a round dies before it has lived for two, else
 * 1; and 1 for a round too long to be worth it.
 */
uint32_t unroll_turns(const struct cycle *cycle);

/* How many buffers are born in a round. */
uint32_t unroll_born(const struct cycle *cycle);

/* Both are the caller's. -ENOMEM: neither is made. */
int unroll(const struct cycle *cycle, const struct schedule *schedule, uint32_t turns, struct cycle **out,
           struct schedule **schedule_out);

#endif
