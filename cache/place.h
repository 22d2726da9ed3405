/*
 * place.h - addresses kept for the births of a round.
 *
 * In a round that is followed (known.h) a birth is known by when it comes: the operation that is expected
 * next, its size, and its number among those of its size since the last window was planned. It gets the
 * address that it had a round ago, which nobody else's birth gets meanwhile; so every buffer has an address
 * of its own, which leads to the frames that are its homes from round to round (home.h). Addresses given out
 * lowest first serve several buffers of a round one after the other, and each of them has it bound anew: a
 * step of three programs made four driver calls for every frame that moved (hbmspill-replay).
 *
 * A place is a wish, as a home is. If the address is still in use, as that of what a job gives up when it has
 * made the next one, the birth gets its other place, and if that is, too, any address. What lies side by side
 * with others has no place.
 *
 * Called with the cache's lock held.
 */
#ifndef HBMSPILL_CACHE_PLACE_H
#define HBMSPILL_CACHE_PLACE_H

#include <stdbool.h>
#include <stdint.h>

struct segment;
struct segments;
struct size_class;

/* When a birth comes. round 0: no round is followed, and no address is kept for it. */
struct moment {
    uint64_t round, window; /* which round; windows planned so far, over the whole run */
    uint32_t phase;         /* of the operation expected next, in as many rounds as take turns (unroll.h) */
    bool alone;             /* memory is short: it shares a segment only if it is small (segment.h) */
};

/* The birth of an item of a class at a moment is counted; its name, 0 where it has none. */
uint64_t place_birth(struct size_class *class, const struct moment *moment);
/* The name of the same birth's other place. */
uint64_t place_other(uint64_t name);
/* The segment kept for the birth of that name, or NULL. */
struct segment *place_find(const struct segments *segments, uint64_t name);
/* The segment is kept for it from now on, and no other is. Without memory for that none is. */
void place_keep(struct segments *segments, struct segment *segment, uint64_t name);
/* It is kept for nobody. */
void place_forget(struct segments *segments, struct segment *segment);
/* Whether somebody is going to come back to it, as far as is known. */
bool place_kept(const struct segment *segment);
void places_free(struct segments *segments);

#endif
