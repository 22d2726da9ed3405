/*
 * Where contents are. Three moves: fill (slot to frames, or new frames for new contents), evict (frames to
 * slot), strip (frames whose contents are dead). All of them queue work and never wait; what must be waited
 * for is handed to the caller as a `need'.
 *
 * The edges of a move, for a victim X whose frames go to Y:
 *   copy-out of X   after X's last uses and X's ready edges, after the slot's earlier copies
 *   frame           after the copy-out (or, clean or dead, after X's last uses and ready edges)
 *   copy-in of Y    after the frame's edges and the last write to Y's slot
 *   Y's operations  after the copy-in (or, for new contents, after the frame's edges): Y's ready edges
 * so the next owner of a frame starts after the last operation of the one before it has completed, in stream
 * order, which is what makes mapping one handle at two addresses sound.
 */
#include "cache/room.h"
#include <errno.h>
#include <utlist.h>

void residency_idle_add(struct cache *cache, struct segment *segment)
{
    if (segment->listed_idle)
        return;
    DL_APPEND(cache->idle, segment);
    segment->listed_idle = true;
}

void residency_idle_remove(struct cache *cache, struct segment *segment)
{
    if (!segment->listed_idle)
        return;
    DL_DELETE(cache->idle, segment);
    segment->listed_idle = false;
}

void residency_contents(struct cache *cache, struct segment *segment)
{
    if (segment->state == SEGMENT_RESIDENT)
        return;
    residency_idle_remove(cache, segment);
    segment->state = SEGMENT_RESIDENT;
    cache->policy.type->insert(&cache->policy, segment);
}

void residency_forget(struct cache *cache, struct segment *segment)
{
    bool frames = false;

    if (segment->state == SEGMENT_RESIDENT)
        cache->policy.type->remove(&cache->policy, segment);
    if (segment->state == SEGMENT_SPILLED)
        cache->spilled_bytes -= segment->size;
    segment->state = SEGMENT_EMPTY;
    segment->slot_clean = false;
    if (segment->slot) {
        slots_give(&cache->slots, segment->slot);
        segment->slot = NULL;
    }
    for (unsigned i = 0; i < segment->pieces; i++)
        frames |= segment->piece[i].frame != NULL;
    if (frames)
        residency_idle_add(cache, segment);
}

/* All that was ever queued on the segment's present frames. */
static struct edges segment_edges(const struct segment *segment)
{
    struct edges edges = segment->last_use;

    edges_merge(&edges, &segment->ready);
    return edges;
}

bool residency_behind(struct cache *cache, const struct segment *segment)
{
    struct edges edges;

    if (!cache->streams.holds)
        return false;
    edges = segment_edges(segment);
    return streams_behind(&cache->streams, &edges);
}

struct segment *residency_victim(struct cache *cache)
{
    struct segment *segment, *victim;

    if (!cache->streams.holds)
        return cache->policy.type->victim(&cache->policy);
    DL_FOREACH(cache->policy.list, segment)
    segment->behind = residency_behind(cache, segment);
    victim = cache->policy.type->victim(&cache->policy);
    DL_FOREACH(cache->policy.list, segment)
    segment->behind = false;
    return victim ? victim : cache->policy.type->victim(&cache->policy);
}

/* The frames go; edges is what their next owner comes after, NULL to leave those that the frames have. */
static void give_frames(struct cache *cache, struct segment *segment, const struct edges *edges)
{
    frames_group(&cache->frames);
    for (unsigned i = 0; i < segment->pieces; i++) {
        struct binding *binding = &segment->piece[i];

        if (!binding->frame)
            continue;
        if (edges)
            binding->frame->edges = *edges;
        frames_give(&cache->frames, binding->frame);
        binding->frame = NULL;
    }
    segment->filled = segment->mapped = false;
}

static int unmap(struct cache *cache, struct segment *segment)
{
    segment->mapped = false;
    return segment_unmap(&cache->segments, segment);
}

/*
 * Strict: the address of what leaves is unmapped before its frames go, so a touch that was missed faults
 * instead of reading another tensor. That needs its uses to have completed.
 */
static int strict_ready(struct cache *cache, const struct edges *edges, struct need *need)
{
    int error;

    if (!cache->config.strict || streams_completed(&cache->streams, edges, &need->event, &error))
        return 0;
    need->kind = NEED_EVENT;
    return error ? error : -EAGAIN;
}

int residency_strip(struct cache *cache, struct segment *segment, struct need *need)
{
    struct edges edges = segment_edges(segment);
    bool used = segment->filled;

    if (used && cache->config.strict) {
        int error = strict_ready(cache, &edges, need);

        if (!error)
            error = unmap(cache, segment);
        if (error)
            return error;
    }
    /* Frames that were only gathered, never filled, keep the edges of their last owner. */
    give_frames(cache, segment, used ? &edges : NULL);
    residency_idle_remove(cache, segment);
    if (used)
        cache->statistics.dropped++;
    return 0;
}

static int copy_pieces(struct cache *cache, struct segment *segment, bool out)
{
    const struct device_ops *ops = cache->ops;
    unsigned index = out ? STREAM_OUT : STREAM_IN;
    int error = 0;

    for (unsigned i = 0; i < segment->pieces && !error; i++) {
        struct binding *binding = &segment->piece[i];
        uint64_t slot = (uint64_t)(uintptr_t)segment->slot->memory + binding->offset;

        error =
            ops->copy(ops->ctx, cache->streams.stream[index].key.handle, out ? slot : binding->frame->alias,
                      out ? binding->frame->alias : slot, cache->frames.size);
    }
    /* Numbered even where it failed half-way: whatever was queued is then part of the order. */
    stream_submitted(&cache->streams, index);
    return error;
}

static void edges_set(struct edges *edges, unsigned stream, uint64_t seq)
{
    edges_clear(edges);
    edges_add(edges, stream, seq);
}

static int copy_out(struct cache *cache, struct segment *segment)
{
    struct stream *out = &cache->streams.stream[STREAM_OUT];
    struct edges edges = segment_edges(segment);
    int error;

    edges_merge(&edges, &segment->slot->written);
    edges_merge(&edges, &segment->slot->read);
    error = stream_wait_edges(&cache->streams, STREAM_OUT, &edges);
    if (error)
        return error;
    error = copy_pieces(cache, segment, true);
    edges_set(&segment->slot->written, STREAM_OUT, out->seq);
    edges_clear(&segment->slot->read);
    edges_add(&segment->ready, STREAM_OUT, out->seq); /* should the eviction not come to its end */
    if (error)
        return error;
    (void)stream_record(&cache->streams, STREAM_OUT); /* if not now, then when somebody waits */
    segment->slot_clean = true;
    cache->statistics.bytes_out += segment->size;
    return 0;
}

int residency_evict(struct cache *cache, struct segment *segment, struct need *need,
                    struct cache_failure *failure)
{
    struct edges edges = segment_edges(segment);
    bool clean = segment->slot_clean;
    int error;

    if (!clean) {
        error = residency_slot(cache, segment, need, failure);
        if (error)
            return error;
    }
    error = strict_ready(cache, &edges, need);
    if (error)
        return error;
    if (!clean) {
        error = copy_out(cache, segment);
        if (error)
            return error;
        edges_set(&edges, STREAM_OUT, cache->streams.stream[STREAM_OUT].seq);
    }
    if (cache->config.strict) {
        error = unmap(cache, segment);
        if (error)
            return error;
    }
    give_frames(cache, segment, &edges);
    cache->policy.type->remove(&cache->policy, segment);
    segment->state = SEGMENT_SPILLED;
    cache->spilled_bytes += segment->size;
    statistics_peak(&cache->statistics.peak_spilled_bytes, cache->spilled_bytes);
    cache->statistics.evictions++;
    if (clean)
        cache->statistics.clean_evictions++;
    return 0;
}

static void flip_slot_bit(struct cache *cache, struct segment *segment)
{
    struct edges edges = segment->slot->written;
    uint64_t event;
    int error;

    if (!streams_completed(&cache->streams, &edges, &event, &error) && !error)
        cache->ops->event_synchronize(cache->ops->ctx, event);
    /* Another place each time, so that a second flip does not undo the first. */
    ((unsigned char *)segment->slot->memory)[64 * cache->statistics.fills % segment->size_class->item_size] ^=
        1;
}

static int copy_in(struct cache *cache, struct segment *segment, const struct edges *frames)
{
    struct edges edges = *frames;
    int error;

    edges_merge(&edges, &segment->slot->written);
    error = stream_wait_edges(&cache->streams, STREAM_IN, &edges);
    if (error)
        return error;
    if (cache->config.mutation == CACHE_MUTATION_FLIP_SLOT_BIT)
        flip_slot_bit(cache, segment);
    if (cache->config.mutation == CACHE_MUTATION_SKIP_COPY_IN)
        stream_submitted(&cache->streams, STREAM_IN);
    else
        error = copy_pieces(cache, segment, false);
    edges_add(&segment->slot->read, STREAM_IN, cache->streams.stream[STREAM_IN].seq);
    for (unsigned i = 0; error && i < segment->pieces; i++) /* a copy half queued still writes the frames */
        edges_add(&segment->piece[i].frame->edges, STREAM_IN, cache->streams.stream[STREAM_IN].seq);
    if (error)
        return error;
    (void)stream_record(&cache->streams, STREAM_IN);
    edges_add(&segment->ready, STREAM_IN, cache->streams.stream[STREAM_IN].seq);
    cache->statistics.fills++;
    cache->statistics.bytes_in += segment->size;
    return 0;
}

static int fill(struct cache *cache, struct segment *segment, bool only_free, struct need *need,
                struct cache_failure *failure)
{
    struct edges frames = {0};
    int error;

    if (segment_usable(segment))
        return 0;
    if (segment->slot_pins) { /* an operation on the slot is being submitted: its number is not known yet */
        need->kind = NEED_CHANGE;
        return -EAGAIN;
    }
    error = room_frames(cache, segment, only_free, need, failure);
    if (error)
        return error;
    error = segment_map(&cache->segments, segment, &need->event);
    if (error == -EBUSY) {
        need->kind = NEED_EVENT;
        return -EAGAIN;
    }
    if (error)
        return error;
    segment->mapped = true;
    if (segment->filled)
        return 0;
    for (unsigned i = 0; i < segment->pieces; i++)
        edges_merge(&frames, &segment->piece[i].frame->edges);
    if (segment->state == SEGMENT_SPILLED) {
        error = copy_in(cache, segment, &frames);
        if (error)
            return error;
        segment->slot_clean = true;
        cache->spilled_bytes -= segment->size;
        residency_contents(cache, segment);
    } else {
        edges_merge(&segment->ready, &frames);
    }
    segment->filled = segment->fresh = true;
    return 0;
}

int residency_fill(struct cache *cache, struct segment *segment, struct need *need,
                   struct cache_failure *failure)
{
    return fill(cache, segment, false, need, failure);
}

int residency_fill_free(struct cache *cache, struct segment *segment, struct need *need,
                        struct cache_failure *failure)
{
    int error;

    segment->pins++; /* its own frames are no others' to strip meanwhile */
    error = fill(cache, segment, true, need, failure);
    segment->pins--;
    return error;
}
