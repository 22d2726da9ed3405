/*
 * reframe.h - larger frames, once a round was found that gains by them.
 *
 * What it costs to bind an address to another frame goes by frames, not by bytes. Rounds that are planned
 * bind nothing anew, as a rule (home.h), and small frames round little up. But where HBM is full for the
 * whole round, and what comes back finds others where it was, nearly all that moves is bound anew in every
 * round, and the host is what everybody waits for. Then frames that are SEGMENT_LARGER times as large are
 * better, if what they round up does not cost more; the evaluator says (cycle_run.h).
 *
 * It is done once, between two windows: all that is large enough for such a frame leaves HBM, its frames go
 * back to the driver, and its pieces are counted anew. What is smaller keeps frames of the first size, and is
 * in no plan from then on (segment.h). Contents do not notice: they are in slots meanwhile. Rounds are looked
 * for anew afterwards.
 *
 * Called with the cache's lock held, and only by who plans.
 */
#ifndef HBMSPILL_CACHE_REFRAME_H
#define HBMSPILL_CACHE_REFRAME_H

#include "cache/internal.h"

/* Whether it may be worth looking: the round that is followed binds much anew. */
bool reframe_asked(const struct cache *cache);
/* Whether a round gains enough by frames of that size. Takes as long as it takes to choose homes; without the
 * lock. */
bool reframe_pays(const struct known *known, uint64_t larger);
/*
 * Releases and takes the lock where something has to be waited for. Where it cannot be done (something must
 * not move, the host tier is too small, the driver refuses) all is as it was, but for what left HBM.
 */
void reframe(struct cache *cache);

#endif
