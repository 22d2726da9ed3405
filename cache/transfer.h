/*
 * transfer.h - copies between frames and slots, queued on the cache's own streams.
 *
 * Nothing is waited for here: streams are made to (residency.c has the list of what comes after what), and
 * afterwards slots, frames and the segment know the number of the copy. Whatever was queued is among their
 * edges, also where it failed half-way.
 *
 * Called with the cache's lock held; 0 or -errno.
 */
#ifndef HBMSPILL_CACHE_TRANSFER_H
#define HBMSPILL_CACHE_TRANSFER_H

#include "cache/internal.h"

/* Whether any of `count' pieces from `first' on has contents in its frame that its slot has not. */
bool transfer_dirty(const struct segment *segment, unsigned first, unsigned count);
/* Those go to the slot, which is there; of pieces of one run. -EAGAIN with *need. */
int transfer_out(struct cache *cache, struct segment *segment, unsigned first, unsigned count,
                 struct need *need);
/*
 * Those that have frames and are not filled, and whose address is mapped to these, come from their slots.
 * frames: what they come after because of the frames.
 */
int transfer_in(struct cache *cache, struct segment *segment, unsigned first, unsigned count,
                const struct edges *frames);

#endif
