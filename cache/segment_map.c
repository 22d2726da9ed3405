/*
 * segment_map.c - where the addresses of segments lead: to frames, or to the memory of their slots.
 */
#include "cache/segment.h"
#include <errno.h>
#include <utlist.h>

static int binding_unmap(struct frames *frames, struct binding *binding)
{
    const struct device_ops *ops = frames->ops;
    uint64_t size = binding->linked ? binding_bytes(binding) : binding->segment->unit;
    int error = ops->unmap(ops->ctx, binding->segment->address + binding->offset, size);

    if (error)
        return error;
    frames->statistics->unmap_calls++;
    if (binding->linked) {
        binding->linked = binding->segment->mapped = false;
        binding->segment->linked_pieces--;
        return 0;
    }
    LL_DELETE(binding->bound->bindings, binding);
    binding->bound = NULL;
    return 0;
}

int frame_unbind(struct frames *frames, struct frame *frame)
{
    while (frame->bindings) {
        int error = binding_unmap(frames, frame->bindings);

        if (error)
            return error;
    }
    return 0;
}

int segment_unmap(struct segments *segments, struct segment *segment, unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++) {
        int error = segment->piece[i].bound ? binding_unmap(segments->frames, &segment->piece[i]) : 0;

        if (error)
            return error;
    }
    return 0;
}

int segment_unlink(struct segments *segments, struct segment *segment)
{
    for (unsigned i = 0; i < segment->pieces && segment->linked_pieces; i++) {
        int error = segment->piece[i].linked ? binding_unmap(segments->frames, &segment->piece[i]) : 0;

        if (error)
            return error;
    }
    return 0;
}

/* Access for the run of pieces [first, end), newly mapped and adjacent: one call spans them (cuMemSetAccess).
 */
static int grant_access(struct segments *segments, struct segment *segment, unsigned first, unsigned end)
{
    const struct device_ops *ops = segments->ops;
    uint64_t start = segment->piece[first].offset;
    const struct binding *last = &segment->piece[end - 1];
    uint64_t stop = last->offset + (last->linked ? binding_bytes(last) : segment->unit);
    int error = ops->set_access(ops->ctx, segment->address + start, stop - start);

    if (error)
        return error;
    segments->frames->statistics->access_calls++;
    for (unsigned i = first; i < end; i++)
        segment->piece[i].accessible = true;
    return 0;
}

int segment_map(struct segments *segments, struct segment *segment, unsigned first, unsigned count,
                uint64_t *wait)
{
    const struct device_ops *ops = segments->ops;
    struct edges uses = segment_edges(segment);
    unsigned i, run = first; /* pieces [run, i) are mapped and have no access yet */
    bool gone;
    int error;

    for (i = first; i < first + count; i++) {
        struct binding *binding = &segment->piece[i];

        if (!binding->frame || (!binding->bound && !binding->linked) ||
            (binding->bound == binding->frame && binding->accessible))
            continue;
        /*
         * cuMemUnmap does not reliably wait for running work: what used this address must have completed. A
         * piece without its frame is used by nobody, whatever is queued on the others.
         */
        gone = !binding->linked && binding->bound != binding->frame;
        if (!streams_completed(segments->frames->streams, gone ? &segment->left : &uses, wait, &error))
            return error ? error : -EBUSY;
        error = binding_unmap(segments->frames, binding);
        if (error)
            return error;
    }
    for (i = first; i < first + count; i++) {
        struct binding *binding = &segment->piece[i];

        if (binding->bound || !binding->frame) {
            error = i > run ? grant_access(segments, segment, run, i) : 0;
            if (error)
                return error;
            run = i + 1;
            continue;
        }
        error = ops->map(ops->ctx, segment->address + binding->offset, segment->unit, binding->frame->handle);
        if (error)
            return error;
        segments->frames->statistics->map_calls++;
        binding->bound = binding->frame;
        binding->accessible = false;
        LL_PREPEND(binding->frame->bindings, binding);
    }
    return i > run ? grant_access(segments, segment, run, i) : 0;
}

/* A piece to the handles of its slot, of which each is as long as segments.unit. */
static int map_linked(struct segments *segments, struct segment *segment, unsigned piece)
{
    const struct device_ops *ops = segments->ops;
    uint64_t offset = segment->piece[piece].offset,
             first = segment->piece[piece - piece % segment->run].offset;
    const uint64_t *handles = segment_slot(segment, piece)->handles + (offset - first) / segments->unit;
    uint64_t bytes = segment_bytes(segment, piece, 1), at;
    int error = 0;

    for (at = 0; at < bytes; at += segments->unit) {
        error =
            ops->map(ops->ctx, segment->address + offset + at, segments->unit, handles[at / segments->unit]);
        if (error)
            break;
        segments->frames->statistics->map_calls++;
    }
    if (error && at) /* if not even that can be done, the rest is lost, which the audit tells */
        (void)ops->unmap(ops->ctx, segment->address + offset, at);
    return error;
}

int segment_link(struct segments *segments, struct segment *segment, uint64_t *wait)
{
    struct edges uses = segment_edges(segment);
    unsigned i, run = 0; /* pieces [run, i) are mapped and have no access yet */
    int error;

    for (i = 0; i < segment->pieces; i++) {
        struct binding *binding = &segment->piece[i];

        if (binding->frame || (!binding->bound && !binding->linked) ||
            (binding->linked && binding->accessible))
            continue;
        if (!streams_completed(segments->frames->streams, &uses, wait, &error)) /* as in segment_map */
            return error ? error : -EBUSY;
        error = binding_unmap(segments->frames, binding);
        if (error)
            return error;
    }
    for (i = 0; i < segment->pieces; i++) {
        struct binding *binding = &segment->piece[i];

        if (binding->linked || binding->frame) {
            error = i > run ? grant_access(segments, segment, run, i) : 0;
            if (error)
                return error;
            run = i + 1;
            continue;
        }
        error = map_linked(segments, segment, i);
        if (error)
            return error;
        segments->frames->statistics->link_mappings++;
        binding->linked = true;
        binding->accessible = false;
        segment->linked_pieces++;
    }
    return i > run ? grant_access(segments, segment, run, i) : 0;
}
