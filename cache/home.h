/*
 * home.h - a frame for each piece of a round's buffers, so that bindings repeat.
 *
 * One frame may be mapped at many addresses, and buffers that are never in HBM at the same moments may share
 * it. Given a schedule, every piece gets a frame for each of its stays, its home, if possible the same one
 * for all of them; while the schedule is followed each piece finds its home free when it comes, mapped where
 * it was a round ago, and no driver call is needed. This is colouring of arcs around a circle: what is there
 * when the round begins keeps the frame it has; then stays in the order of their beginnings get, of the
 * frames without an owner for so long, the one whose next owner comes soonest behind it. A piece without a
 * home, or whose home is taken, has any free frame.
 *
 * What lives for longer than a round is there twice for a while: then homes are chosen for two rounds
 * together (unroll.h), and buffers have those of one round or the other by turns.
 *
 * Frames are chosen by an estimate of when copies begin and end, so that nobody waits for a copy on a frame
 * while another one would do: fixed homes chosen by order alone made rounds up to a tenth longer (replay).
 *
 * Where HBM is full all the time and what moves comes back to where others are, a round may do better without
 * any: then pieces go to what is free, and are bound anew (colour.h says how that is decided).
 *
 * A home is a wish. What orders the owners of a frame are its edges.
 *
 * Called with the cache's lock held.
 */
#ifndef HBMSPILL_CACHE_HOME_H
#define HBMSPILL_CACHE_HOME_H

#include "cache/internal.h"

/* Homes for the buffers of a round that is followed from now on. Without memory for it there are none. */
void homes_make(struct cache *cache, struct known *known);
/* A segment stands for a buffer that was born in that round (known->round) from now on; born: it is a new
 * one. */
void home_set(const struct known *known, struct segment *segment, uint32_t buffer, uint64_t round, bool born);
/*
 * New contents at an address that is kept for them (place.h): the homes of a new one of the buffer it stood
 * for, which may be needed, by the job's own copies, before an operation tells who it is. Else none are known
 * yet.
 */
void home_reborn(const struct cache *cache, struct segment *segment);
/* It is about to be brought in by an action of the schedule, by turns: the homes of that stay. */
void home_move(const struct known *known, const struct segment *segment, uint32_t action);
/*
 * The home of a piece that never leaves is taken: it is exchanged for that of another such piece, which is
 * away and whose home is free. NULL: the piece comes and goes, or there is no such home.
 */
struct frame *home_exchange(struct cache *cache, const struct segment *segment, unsigned piece);
/*
 * A free frame for a piece that has no home, or whose home is taken, while homes are made (cache->at_home):
 * one that nobody comes home to while it stays, and of these the one that is wanted again soonest; else the
 * one wanted latest. `bound', where the piece is mapped to, if it is as good. NULL: none is free.
 */
struct frame *home_elsewhere(struct cache *cache, const struct segment *segment, struct frame *bound);
/* The round is not followed any more, but may be again: then it has the homes it had (homes_make). */
void homes_leave(struct cache *cache);
/* Frames are about to go, or the round is: no segment has a home any more, until homes are made again. */
void homes_forget(struct cache *cache);

#endif
