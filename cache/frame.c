#include "cache/frame.h"
#include "cache/segment.h"
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

void frames_init(struct frames *frames, const struct device_ops *ops, struct streams *streams,
                 struct statistics *statistics, uint64_t size, uint64_t limit)
{
    *frames = (struct frames){
        .ops = ops, .streams = streams, .statistics = statistics, .size = size, .limit = limit};
}

/* The list that it is in while it is free. */
static struct frame **list_of(struct frames *frames, const struct frame *frame)
{
    return frame->size == frames->size ? &frames->free : &frames->odd;
}

static void list_leave(struct frames *frames, struct frame *frame)
{
    struct frame **list = list_of(frames, frame);

    DL_DELETE(*list, frame); /* NOLINT(clang-analyzer-core.NullDereference): it is in it */
    frames->free_bytes -= frame->size;
}

static void frame_own(struct frames *frames, struct frame *frame)
{
    list_leave(frames, frame);
    frame->owned = true;
}

bool frames_take_this(struct frames *frames, struct frame *frame)
{
    if (!frame || frame->owned)
        return false;
    frame_own(frames, frame);
    return true;
}

/* When the first of those whose addresses lead to the frame will want it; a use that is past or unknown is
 * none. */
static uint64_t frame_claim(const struct frame *frame, uint64_t now)
{
    uint64_t claim = UINT64_MAX;

    for (const struct binding *binding = frame->bindings; binding; binding = binding->next)
        if (binding->segment->claim >= now && binding->segment->claim < claim)
            claim = binding->segment->claim;
    return claim;
}

struct frame *frames_take(struct frames *frames, uint64_t now, uint64_t until)
{
    struct frame *best = NULL;
    uint64_t best_claim = 0;
    unsigned left = FRAME_CANDIDATES;

    for (struct frame *frame = frames->free; frame && left > 0; frame = frame->next, left--) {
        uint64_t claim = frame_claim(frame, now);

        if (best && (best_claim >= until ? claim < until || claim >= best_claim : claim <= best_claim))
            continue;
        best = frame;
        best_claim = claim;
    }
    if (best)
        frame_own(frames, best);
    return best;
}

struct frame *frames_take_odd(struct frames *frames)
{
    struct frame *frame = frames->odd;

    if (frame)
        frame_own(frames, frame);
    return frame;
}

static void note_held(struct frames *frames)
{
    statistics_peak(&frames->statistics->peak_frame_bytes, frames->held);
    statistics_peak(&frames->statistics->peak_hbm_bytes, frames->held + frames->outside);
}

int frames_create(struct frames *frames, uint64_t size, struct frame **out)
{
    const struct device_ops *ops = frames->ops;
    struct frame *frame;
    int error;

    if (frames->held + frames->outside + size > frames->limit)
        return -ENOSPC;
    frame = calloc(1, sizeof *frame);
    if (!frame)
        return -ENOMEM;
    error = ops->frame_create(ops->ctx, size, &frame->handle);
    if (error) {
        free(frame);
        return error;
    }
    frame->size = size;
    frame->owned = true;
    frame->number = FRAME_UNNUMBERED;
    frames->held += size;
    frames->count++;
    frames->statistics->frames_created++;
    note_held(frames);
    *out = frame;
    return 0;
}

void frames_give(struct frames *frames, struct frame *frame)
{
    struct frame **list = list_of(frames, frame);

    frame->owned = false;
    frames->free_bytes += frame->size;
    DL_APPEND(*list, frame);
}

/* The frame is free and idle: nothing queued uses it through any address. */
static int frame_release(struct frames *frames, struct frame *frame)
{
    const struct device_ops *ops = frames->ops;
    int error = frame_unbind(frames, frame);

    if (!error)
        error = ops->frame_release(ops->ctx, frame->handle);
    if (error) /* it is still ours, and still good */
        return error;
    list_leave(frames, frame);
    frames->held -= frame->size;
    frames->count--;
    frames->statistics->frames_released++;
    free(frame);
    return 0;
}

/* Adds to *released; *busy: some are in use. */
static int release_list(struct frames *frames, struct frame *list, uint64_t bytes, uint64_t *released,
                        bool *busy, uint64_t *wait)
{
    struct frame *next;

    for (struct frame *frame = list; frame && *released < bytes; frame = next) {
        uint64_t size = frame->size;
        int error;

        next = frame->next;
        if (!streams_completed(frames->streams, &frame->edges, *busy ? NULL : wait, &error)) {
            if (error)
                return error;
            *busy = true;
            continue;
        }
        error = frame_release(frames, frame);
        if (error)
            return error;
        *released += size;
    }
    return 0;
}

int frames_release_of(struct frames *frames, struct frame *list, uint64_t bytes, uint64_t *wait)
{
    uint64_t released = 0;
    bool busy = false;
    int error = release_list(frames, list, bytes, &released, &busy, wait);

    if (error || released >= bytes)
        return error;
    return busy ? -EBUSY : -ENOSPC;
}

int frames_release(struct frames *frames, uint64_t bytes, uint64_t *wait)
{
    uint64_t released = 0;
    bool busy = false;
    int error = release_list(frames, frames->odd, bytes, &released, &busy, wait);

    if (!error)
        error = release_list(frames, frames->free, bytes, &released, &busy, wait);
    if (error || released >= bytes)
        return error;
    return busy ? -EBUSY : -ENOSPC;
}

void frames_destroy_free(struct frames *frames)
{
    while (frames->odd || frames->free)
        if (frame_release(frames, frames->odd ? frames->odd : frames->free))
            return;
}
