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

static void frame_own(struct frames *frames, struct frame *frame)
{
    DL_DELETE(frames->free, frame); /* NOLINT(clang-analyzer-core.NullDereference): in a list */
    frames->free_bytes -= frames->size;
    frame->owned = true;
}

/*
 * With nothing preferred: one that is mapped nowhere, so that no binding is disturbed, else the one that was
 * freed first, whose last operations are the likeliest to have completed.
 */
struct frame *frames_take(struct frames *frames, struct frame *preferred)
{
    struct frame *frame = preferred, *unbound = NULL;
    unsigned looked = 0;

    if (!frame || frame->owned) {
        frame = frames->free;
        for (struct frame *f = frame; f && looked < 16; f = f->next, looked++) {
            if (!f->bindings) {
                unbound = f;
                break;
            }
        }
        if (unbound)
            frame = unbound;
    }
    if (frame)
        frame_own(frames, frame);
    return frame;
}

static void note_held(struct frames *frames)
{
    statistics_peak(&frames->statistics->peak_frame_bytes, frames->held);
    statistics_peak(&frames->statistics->peak_hbm_bytes, frames->held + frames->outside);
}

int frames_create(struct frames *frames, struct frame **out)
{
    const struct device_ops *ops = frames->ops;
    uint64_t size = frames->size;
    struct frame *frame;
    int error;

    if (frames->held + frames->outside + size > frames->limit)
        return -ENOSPC;
    frame = calloc(1, sizeof *frame);
    if (!frame)
        return -ENOMEM;
    error = ops->reserve(ops->ctx, size, &frame->alias);
    if (error)
        goto free_record;
    error = ops->frame_create(ops->ctx, size, &frame->handle);
    if (error)
        goto free_address;
    error = ops->map(ops->ctx, frame->alias, size, frame->handle);
    if (error)
        goto release_handle;
    error = ops->set_access(ops->ctx, frame->alias, size);
    if (error)
        goto unmap;
    frame->owned = true;
    frames->held += size;
    frames->statistics->frames_created++;
    frames->statistics->map_calls++;
    frames->statistics->access_calls++;
    note_held(frames);
    *out = frame;
    return 0;

unmap:
    ops->unmap(ops->ctx, frame->alias, size);
release_handle:
    ops->frame_release(ops->ctx, frame->handle);
free_address:
    ops->unreserve(ops->ctx, frame->alias, size);
free_record:
    free(frame);
    return error;
}

void frames_give(struct frames *frames, struct frame *frame)
{
    frame->owned = false;
    frames->free_bytes += frames->size;
    DL_APPEND(frames->free, frame);
}

/* The frame is free and idle: nothing queued uses it through any address. */
static int frame_release(struct frames *frames, struct frame *frame)
{
    const struct device_ops *ops = frames->ops;
    int error = frame_unbind(frames, frame);

    if (error)
        return error;
    error = ops->unmap(ops->ctx, frame->alias, frames->size);
    if (error)
        return error;
    frames->statistics->unmap_calls++;
    DL_DELETE(frames->free, frame);
    frames->free_bytes -= frames->size;
    frames->held -= frames->size;
    frames->statistics->frames_released++;
    error = ops->frame_release(ops->ctx, frame->handle);
    ops->unreserve(ops->ctx, frame->alias, frames->size);
    free(frame);
    return error;
}

int frames_release(struct frames *frames, uint64_t bytes, uint64_t *wait)
{
    uint64_t released = 0;
    struct frame *frame, *next;
    bool busy = false;
    int error;

    for (frame = frames->free; frame && released < bytes; frame = next) {
        next = frame->next;
        if (!streams_completed(frames->streams, &frame->edges, busy ? NULL : wait, &error)) {
            if (error)
                return error;
            busy = true;
            continue;
        }
        error = frame_release(frames, frame);
        if (error)
            return error;
        released += frames->size;
    }
    if (released >= bytes)
        return 0;
    return busy ? -EBUSY : -ENOSPC;
}

void frames_destroy_free(struct frames *frames)
{
    while (frames->free)
        if (frame_release(frames, frames->free))
            return;
}
