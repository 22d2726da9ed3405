/*
 * room.h - frames and slots for a segment, made free where there are none: room.c, room_slots.c.
 *
 * Called with the cache's lock held. 0, or -EAGAIN with *need, or -ENOMEM with *failure.
 */
#ifndef HBMSPILL_CACHE_ROOM_H
#define HBMSPILL_CACHE_ROOM_H

#include "cache/internal.h"

/*
 * All the frames that `count' pieces from `first' on lack; what was gathered stays with it whatever the
 * result. only_free: nothing is moved out for it, -EBUSY instead; but who is in another's home (home.h) may
 * be.
 */
int room_frames(struct cache *cache, struct segment *segment, unsigned first, unsigned count, bool only_free,
                struct need *need, struct cache_failure *failure);

/* A slot for a piece, and for the others of its run with it. */
int room_slot(struct cache *cache, struct segment *segment, unsigned piece, struct need *need,
              struct cache_failure *failure);
/* Slots for all pieces that are not filled. */
int room_slots(struct cache *cache, struct segment *segment, struct need *need,
               struct cache_failure *failure);
/* Its slots go to the pool; nothing may be linked to them. */
void room_slots_give(struct cache *cache, struct segment *segment);
/*
 * Pieces that have a slot already and are in HBM, *count of them at most, *first and what is behind it: of
 * the least recently used segment. NULL: there are none.
 */
struct segment *room_in_slot(struct cache *cache, unsigned *first, unsigned *count);

#endif
