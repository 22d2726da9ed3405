#include "cache/transfer.h"
#include <errno.h>

/* Copies pieces [first, end) of one slot, which are mapped: through the segment's own address, which keeps
 * its mapping until the copy has completed (it is one of the segment's edges). */
static int copy_run(struct cache *cache, const struct segment *segment, unsigned first, unsigned end,
                    bool out)
{
    const struct cache_observer *observer = cache->config.observer;
    uint64_t slot = (uint64_t)(uintptr_t)segment_host(segment, first);
    uint64_t address = segment->address + segment->piece[first].offset;
    uint64_t size = segment_bytes(segment, first, end - first);
    uint64_t stream = cache->streams.stream[out ? STREAM_OUT : STREAM_IN].key.handle;
    int error = 0;

    if (observer && observer->copy_begin)
        observer->copy_begin(observer->ctx, stream, !out, address, size);
    if (out || cache->config.mutation != CACHE_MUTATION_SKIP_COPY_IN)
        error = cache->ops->copy(cache->ops->ctx, stream, out ? slot : address, out ? address : slot, size);
    if (observer && observer->copy_end)
        observer->copy_end(observer->ctx, stream, !error);
    for (unsigned i = first; i < end && !error; i++)
        error = verify_piece(&cache->verify, stream, segment, i, out);
    return error;
}

/* Whether a piece is to be copied, out or in. */
static bool copied(const struct segment *segment, const struct binding *binding, bool out)
{
    if (out)
        return binding->filled && binding->clean_version != segment->version;
    return binding->frame && !binding->filled;
}

/* The pieces of the range that are to be copied; adjacent ones together, as far as a slot goes. */
static int copy_pieces(struct cache *cache, struct segment *segment, unsigned first, unsigned count, bool out)
{
    int error = 0;

    for (unsigned i = first, end; i < first + count && !error; i = end) {
        end = i + 1;
        if (!copied(segment, &segment->piece[i], out))
            continue;
        while (end < first + count && end < segment_run_end(segment, i) &&
               copied(segment, &segment->piece[end], out))
            end++;
        error = copy_run(cache, segment, i, end, out);
        *(out ? &cache->statistics.bytes_out : &cache->statistics.bytes_in) +=
            error ? 0 : segment_bytes(segment, i, end - i);
        if (!error)
            dearest_moved(cache, segment, out, segment_bytes(segment, i, end - i));
    }
    /* Numbered even where it failed half-way: whatever was queued is then part of the order. */
    stream_submitted(&cache->streams, out ? STREAM_OUT : STREAM_IN);
    return error;
}

static void edges_set(struct edges *edges, unsigned stream, uint64_t seq)
{
    edges_clear(edges);
    edges_add(edges, stream, seq);
}

int transfer_out(struct cache *cache, struct segment *segment, unsigned first, unsigned count,
                 struct need *need)
{
    struct stream *out = &cache->streams.stream[STREAM_OUT];
    struct slot *slot = segment_slot(segment, first);
    struct edges edges = segment_edges(segment);
    int error = segment_map(&cache->segments, segment, first, count, &need->event);

    if (error == -EBUSY) { /* only after an unmapping that failed half-way */
        need->kind = NEED_EVENT;
        return -EAGAIN;
    }
    if (error)
        return error;
    edges_merge(&edges, &slot->written);
    edges_merge(&edges, &slot->read);
    error = stream_wait_edges(&cache->streams, STREAM_OUT, &edges);
    if (error)
        return error;
    error = copy_pieces(cache, segment, first, count, true);
    edges_set(&slot->written, STREAM_OUT, out->seq);
    edges_clear(&slot->read);
    edges_add(&segment->ready, STREAM_OUT, out->seq); /* its address and frames are in use until then */
    if (error)
        return error;
    (void)stream_record(&cache->streams, STREAM_OUT); /* if not now, then when somebody waits */
    for (unsigned i = first; i < first + count; i++)
        if (segment->piece[i].filled)
            segment->piece[i].clean_version = segment->version;
    return 0;
}

bool transfer_dirty(const struct segment *segment, unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++)
        if (copied(segment, &segment->piece[i], true))
            return true;
    return false;
}

/* The first piece from `first' on that is to be copied in; `end': there is none before it. */
static unsigned next_in(const struct segment *segment, unsigned first, unsigned end)
{
    while (first < end && !copied(segment, &segment->piece[first], false))
        first++;
    return first;
}

/* Of a piece that is to be copied in. */
static void flip_slot_bit(struct cache *cache, struct segment *segment, unsigned first)
{
    struct edges edges = segment_slot(segment, first)->written;
    uint64_t begin = segment->piece[first].offset, used = segment->items * segment->item_size - begin;
    uint64_t event;
    int error;

    if (!streams_completed(&cache->streams, &edges, &event, &error) && !error)
        cache->ops->event_synchronize(cache->ops->ctx, event);
    /* Another place each time, so that a second flip does not undo the first. */
    if (used > segment->unit)
        used = segment->unit;
    segment_host(segment, first)[64 * cache->statistics.fills % used] ^= 1;
}

int transfer_in(struct cache *cache, struct segment *segment, unsigned first, unsigned count,
                const struct edges *frames)
{
    struct edges edges = *frames;
    uint64_t seq;
    int error;

    for (unsigned i = first; (i = next_in(segment, i, first + count)) < first + count;
         i = segment_run_end(segment, i))
        edges_merge(&edges, &segment_slot(segment, i)->written);
    error = stream_wait_edges(&cache->streams, STREAM_IN, &edges);
    if (error)
        return error;
    if (cache->config.mutation == CACHE_MUTATION_FLIP_SLOT_BIT)
        flip_slot_bit(cache, segment, next_in(segment, first, first + count));
    error = copy_pieces(cache, segment, first, count, false);
    seq = cache->streams.stream[STREAM_IN].seq;
    for (unsigned i = first; (i = next_in(segment, i, first + count)) < first + count;
         i = segment_run_end(segment, i))
        edges_add(&segment_slot(segment, i)->read, STREAM_IN, seq);
    /* Half queued as well: its address is not to be bound anew before. */
    edges_add(&segment->ready, STREAM_IN, seq);
    for (unsigned i = first; error && i < first + count; i++) /* a copy half queued still writes the frames */
        if (segment->piece[i].frame && !segment->piece[i].filled)
            edges_add(&segment->piece[i].frame->edges, STREAM_IN, seq);
    if (error)
        return error;
    (void)stream_record(&cache->streams, STREAM_IN);
    cache->statistics.fills++;
    return 0;
}
