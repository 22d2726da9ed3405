/*
 * timing.h - how long operations take on the device: two events around each, read when both have happened.
 *
 * Operations of windows are timed while no round is followed: a round is found after it was seen twice, and
 * has been measured twice by then. What a timed operation waits for is queued before its first event.
 *
 * Called with the cache's lock held. Failures cost the measurement, nothing else.
 */
#ifndef HBMSPILL_CACHE_TIMING_H
#define HBMSPILL_CACHE_TIMING_H

#include "cache/event_pool.h"
#include "cache/history.h"

enum {
    TIMING_MOST = 1 << 14, /* measurements under way */
    TIMING_MANY = 1 << 9,  /* from so many on they are looked at without a round having been found */
    TIMING_PATIENCE =
        1 << 19 /* a job that has not repeated within so many operations is not measured further */
};

struct timing {
    const struct device_ops *ops;
    struct timed {
        uint64_t position; /* in the history */
        uint64_t start, end;
        bool ended;
    } * timed; /* ring, oldest at first */
    uint32_t first, count;
    struct event_pool pool;
    bool on;           /* the operation that begins next is to be timed */
    bool open;         /* one has begun */
    uint64_t position; /* of the one that begins next */
};

void timing_init(struct timing *timing, const struct device_ops *ops);
void timing_end(struct timing *timing);
/* Around the operation that `on' is for. True: it is being timed, after is to be called. submitted: it was.
 */
bool timing_before(struct timing *timing, uint64_t stream);
void timing_after(struct timing *timing, uint64_t stream, bool submitted);
/* What has happened by now goes into the history. */
void timing_collect(struct timing *timing, struct history *history);

#endif
