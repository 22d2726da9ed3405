/*
 * frame.h - HBM as frames: handles of one size, pooled, each mapped at as many addresses as led to it.
 *
 * One size, or two (below). A handle is mapped whole and cannot be split, so frames of several sizes would
 * have to be released and made anew whenever the mix in use changes, with a wait for the GPU each time; with
 * one size every free frame serves every need, and a copy in can be queued behind the copy out that frees its
 * frame. The size is the device's granularity on small devices and grows with HBM (hooks/gpu.c), so that
 * their number stays bounded. What rounding an allocation up to it would lose is kept under a tenth by
 * segment.c, which lays allocations of one size side by side.
 *
 * Two sizes, once a round was found that gains by it (reframe.h): larger ones for what is at least as large,
 * those of the first size, the *odd* ones, for the rest. A free one of the wrong size makes room when it is
 * given back to the driver.
 *
 * Called with the cache's lock held.
 */
#ifndef HBMSPILL_CACHE_FRAME_H
#define HBMSPILL_CACHE_FRAME_H

#include "cache/stream.h"

struct segment;
struct binding; /* segment.h: one piece of a segment's address range */

enum { FRAME_UNNUMBERED = UINT32_MAX };
/*
 * So many of the free frames, the oldest, are looked at for a piece that may have any: to look at all of them
 * for each piece of large allocations took minutes a round (4,000 launches, 2,800 births, 8,000 frames).
 */
enum { FRAME_CANDIDATES = 64 };

struct frame {
    uint64_t handle;
    uint64_t size;            /* bytes */
    struct edges edges;       /* the next owner comes after these */
    struct binding *bindings; /* addresses of segments that are mapped to this frame, owner or not */
    bool owned;
    uint32_t number;           /* among the frames that are homes (home.h), or FRAME_UNNUMBERED */
    struct frame *prev, *next; /* in the free list */
};

struct frames {
    const struct device_ops *ops;
    struct streams *streams;
    struct statistics *statistics;
    uint64_t size;       /* of a frame that is not odd, bytes */
    uint64_t limit;      /* bytes of HBM for frames and for what is outside */
    uint64_t held;       /* bytes in frames, free ones included */
    uint64_t outside;    /* bytes of HBM held by the job that are not ours to move */
    struct frame *free;  /* oldest first */
    struct frame *odd;   /* the same of another size */
    uint64_t free_bytes; /* of both */
    uint32_t count;      /* frames that are held */
};

void frames_init(struct frames *frames, const struct device_ops *ops, struct streams *streams,
                 struct statistics *statistics, uint64_t size, uint64_t limit);

/* The frame if it is free: taken, true. Its edges stay with it, as in the function below. */
bool frames_take_this(struct frames *frames, struct frame *frame);
/*
 * A free frame for a segment that needs it from position `now' to `until'. A free frame is claimed by the
 * segments whose addresses still lead to it, from their next use on; one whose claims begin after `until'
 * lets all of them keep their bindings, and of those the one whose claim begins first fits tightest. Else the
 * one claimed latest. NULL: none.
 */
struct frame *frames_take(struct frames *frames, uint64_t now, uint64_t until);
/* The same of those of another size; NULL: none is free. */
struct frame *frames_take_odd(struct frames *frames);
/* -ENOSPC: the limit does not allow it. -ENOMEM: the device does not. The new frame is owned, without edges.
 */
int frames_create(struct frames *frames, uint64_t size, struct frame **out);
/* Back to the free list; the caller has set edges to what its next owner must come after. */
void frames_give(struct frames *frames, struct frame *frame);
/*
 * Releases idle free frames, the odd ones first, until `bytes' were given back to the driver. 0 when they
 * were; -EBUSY: *wait must complete first; -ENOSPC: no free frame is left.
 */
int frames_release(struct frames *frames, uint64_t bytes, uint64_t *wait);
/* The same of those in one of the lists. */
int frames_release_of(struct frames *frames, struct frame *list, uint64_t bytes, uint64_t *wait);
/* At teardown, when nothing is queued any more. */
void frames_destroy_free(struct frames *frames);

#endif
