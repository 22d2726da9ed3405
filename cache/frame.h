/*
 * frame.h - HBM as frames: handles of a few fixed sizes, pooled, each with an address of its own for copies.
 *
 * Frame classes. A handle is mapped whole, so an allocation is made of frames of power-of-two classes, from
 * the device's granularity (2 MiB on stock drivers) to 16 times that, largest first. An allocation rounded up
 * to the granularity is thus covered exactly; what rounding itself would lose is kept under a tenth by
 * segment.c, which packs allocations of one size together.
 *
 * Regrouping. Free frames of one class cannot serve another. When a class runs dry while HBM is full, its own
 * class is searched for a victim first (policy.h); where frames of other classes are free and idle, they are
 * released and new ones are created. A steady job stops regrouping once its classes have the sizes it needs.
 *
 * Called with the cache's lock held.
 */
#ifndef HBMSPILL_CACHE_FRAME_H
#define HBMSPILL_CACHE_FRAME_H

#include "cache/stream.h"

enum { FRAME_CLASSES = 5 };

struct segment;
struct binding; /* segment.h: one piece of a segment's address range */

struct frame {
    uint64_t handle, size;
    uint64_t alias;           /* always mapped; copies go through it */
    struct edges edges;       /* the next owner comes after these */
    struct binding *bindings; /* addresses of segments that are mapped to this frame, owner or not */
    bool owned;
    unsigned char class;
    struct frame *prev, *next; /* in the class's free list */
};

struct frames {
    const struct device_ops *ops;
    struct streams *streams;
    struct statistics *statistics;
    uint64_t granularity;
    uint64_t limit;                    /* bytes of HBM for frames and for what is outside */
    uint64_t held;                     /* bytes in frames, free ones included */
    uint64_t outside;                  /* bytes of HBM held by the job that are not ours to move */
    struct frame *free[FRAME_CLASSES]; /* lists, oldest first */
    uint64_t free_bytes;
};

void frames_init(struct frames *frames, const struct device_ops *ops, struct streams *streams,
                 struct statistics *statistics, uint64_t granularity, uint64_t limit);

uint64_t frames_class_size(const struct frames *frames, unsigned class);
/* Splits a multiple of the granularity: the class of the largest frame that fits into size. */
unsigned frames_class_for(const struct frames *frames, uint64_t size);

/* A free frame of the class, preferred where it is one. NULL where there is none. Its edges stay with it. */
struct frame *frames_take(struct frames *frames, unsigned class, struct frame *preferred);
/* -ENOSPC: the limit does not allow it. -ENOMEM: the device does not. The new frame is owned, without edges.
 */
int frames_create(struct frames *frames, unsigned class, struct frame **out);
/* Back to the free list; the caller has set edges to what its next owner must come after. */
void frames_give(struct frames *frames, struct frame *frame);
/*
 * Releases idle free frames until `bytes' were given back to the driver. 0 when they were; -EBUSY: *wait must
 * complete first; -ENOSPC: no free frame is left. Never touches frames of class `keep' (FRAME_CLASSES: none
 * is kept).
 */
int frames_release(struct frames *frames, uint64_t bytes, unsigned keep, uint64_t *wait);
/* At teardown, when nothing is queued any more. */
void frames_destroy_free(struct frames *frames);

#endif
