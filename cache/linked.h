/*
 * linked.h - spilled memory that is reached where it is: over the link, at its own address.
 *
 * A linked piece's address is mapped to the handle of its slot. The slot's contents are then the contents: an
 * operation that may write there raises the segment's version, which leaves what its frames have dirty, and
 * the slot's edges get its number, so that a later copy in comes after it. Two kinds of operations need it:
 *
 *   open      it may touch every live allocation, by addresses that it finds in memory. What does not fit is
 *             linked, and what was never touched gets frames if there are any, else a slot.
 *   too large what it touches does not fit into HBM at once: it gets what there is, the rest is linked.
 *
 * An open operation may also wait for another: a collective waits for its peers, say. While one is under way,
 * what other streams do must not come to wait for it. So where their memory is not in HBM it is linked as
 * well, and nothing is moved for them. In its own stream everything comes after it as it is, and comes back
 * into HBM as usual; the host waits for it where an address has to be bound anew.
 *
 * Order. What was mapped there before is unmapped when the segment's uses and ready edges have completed, as
 * for any binding. What wrote the slot is among the edges that the operation waits for: a write through one
 * address is seen through another by what starts after it has completed (CUDA, "Virtual Aliasing Support").
 *
 * Called with the cache's lock held. cache_isolate (cache.h), which takes mappings away instead, is here too.
 */
#ifndef HBMSPILL_CACHE_LINKED_H
#define HBMSPILL_CACHE_LINKED_H

#include "cache/internal.h"

/* An open operation was begun (its number is not known yet) and has ended; submitted: as seq of its stream.
 */
void linked_open_begun(struct cache *cache);
void linked_open_ended(struct cache *cache, unsigned stream, uint64_t seq, bool submitted);
/* Whether one is under way that a stream does not come after anyway. */
bool linked_open_elsewhere(struct cache *cache, unsigned stream);
/* Whether any is under way: then nothing is moved ahead of its need. */
bool linked_open_any(struct cache *cache);

/*
 * Afterwards segment_reached(). fill: what frames there are may be taken for it; else only for what has no
 * contents, and only without a wait. -EAGAIN with *need; -ENOMEM with *failure, also where nothing can be
 * linked.
 */
int linked_place(struct cache *cache, struct segment *segment, bool fill, struct need *need,
                 struct cache_failure *failure);
/* An operation on a linked segment is about to be submitted: the slot has contents from now on. */
void linked_contents(struct cache *cache, struct segment *segment);
/*
 * Another segment's slots that were kept for their mappings alone go to the pool: 0; -EAGAIN with *need,
 * -ENOENT: there are none.
 */
int linked_reclaim(struct cache *cache, const struct segment *for_segment, struct need *need);

#endif
