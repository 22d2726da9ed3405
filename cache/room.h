/*
 * room.h - frames and slots for a segment, made free where there are none. Private to residency.c and room.c.
 */
#ifndef HBMSPILL_CACHE_ROOM_H
#define HBMSPILL_CACHE_ROOM_H

#include "cache/internal.h"

/*
 * All the frames that `count' pieces from `first' on lack; what was gathered stays with it whatever the
 * result. only_free: nothing is moved out for it, -EBUSY instead; but who is in another's home (home.h) may
 * be. Else -EAGAIN with *need, or -ENOMEM with *failure.
 */
int room_frames(struct cache *cache, struct segment *segment, unsigned first, unsigned count, bool only_free,
                struct need *need, struct cache_failure *failure);

#endif
