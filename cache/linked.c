#include "cache/linked.h"
#include "cache/room.h"
#include <errno.h>
#include <utlist.h>

void linked_open_begun(struct cache *cache)
{
    cache->opens_begun++;
}

void linked_open_ended(struct cache *cache, unsigned stream, uint64_t seq, bool submitted)
{
    cache->opens_begun--;
    if (submitted)
        edges_add(&cache->open, stream, seq);
}

/* What has completed is forgotten. */
static bool under_way(struct cache *cache, unsigned stream)
{
    struct edges one = {.mask = 0};
    int error;

    edges_add(&one, stream, cache->open.seq[stream]);
    /* An error is met again by whoever waits; until then it is not known to have completed. */
    if (!streams_completed(&cache->streams, &one, NULL, &error))
        return true;
    cache->open.mask &= ~(UINT32_C(1) << stream);
    return false;
}

bool linked_open_elsewhere(struct cache *cache, unsigned stream)
{
    const uint64_t *known = cache->streams.stream[stream].known;

    if (!slots_linkable(&cache->slots)) /* then it is waited for as any other */
        return false;
    if (cache->opens_begun)
        return true;
    for (uint32_t rest = cache->open.mask; rest; rest &= rest - 1) {
        unsigned index = (unsigned)__builtin_ctz(rest);

        if (index != stream && cache->open.seq[index] > known[index] && under_way(cache, index))
            return true;
    }
    return false;
}

bool linked_open_any(struct cache *cache)
{
    if (!slots_linkable(&cache->slots))
        return false;
    if (cache->opens_begun)
        return true;
    for (uint32_t rest = cache->open.mask; rest; rest &= rest - 1)
        if (under_way(cache, (unsigned)__builtin_ctz(rest)))
            return true;
    return false;
}

/* Frames for all of it without anything else losing one. */
static bool frames_at_hand(const struct cache *cache, const struct segment *segment)
{
    const struct frames *frames = &cache->frames;
    uint64_t taken = frames->held - frames->free_bytes + frames->outside, missing = 0;

    for (unsigned i = 0; i < segment->pieces; i++)
        missing += segment->piece[i].frame ? 0 : segment->unit;
    return taken + missing <= frames->limit;
}

/* Frames that were gathered and have no contents go back. */
static void give_gathered(struct cache *cache, struct segment *segment)
{
    bool left = false;

    segment->left = segment_edges(segment);
    for (unsigned i = 0; i < segment->pieces; i++) {
        struct binding *binding = &segment->piece[i];

        if (binding->frame && !binding->filled) {
            frames_give(&cache->frames, binding->frame);
            binding->frame = NULL;
            cache->segments.small_frames -= segment->small;
            segment->mapped = false;
        }
        left |= binding->frame != NULL;
    }
    if (!left)
        residency_idle_remove(cache, segment);
}

/* Frames for what there are some for. 0: for all of it. */
static int fill(struct cache *cache, struct segment *segment, bool more, struct need *need)
{
    int error = -EBUSY;

    if (more || (segment->state == SEGMENT_EMPTY && frames_at_hand(cache, segment)))
        error = residency_fill_free(cache, segment, 0, segment->pieces, need);
    if (error == -EBUSY)
        give_gathered(cache, segment);
    else if (!error)
        segment->mapped = true;
    return error;
}

int linked_place(struct cache *cache, struct segment *segment, bool more, struct need *need,
                 struct cache_failure *failure)
{
    int error;

    if (segment_reached(segment))
        return 0;
    error = fill(cache, segment, more, need);
    if (error != -EBUSY)
        return error;
    error = room_slots(cache, segment, need, failure);
    if (error)
        return error;
    for (unsigned i = 0; i < segment->pieces; i++)
        if (!segment->piece[i].filled && !segment_slot(segment, i)->handles) {
            cache_failure_fill(cache, failure, CACHE_TIER_HBM, segment->size);
            return -ENOMEM;
        }
    error = segment_map(&cache->segments, segment, 0, segment->pieces, &need->event);
    if (!error)
        error = segment_link(&cache->segments, segment, &need->event);
    if (error == -EBUSY) {
        need->kind = NEED_EVENT;
        return -EAGAIN;
    }
    if (error)
        return error;
    /* After the copies into them and, by their last owners', from them. What the job did in them is in the
     * job's order, or among the edges already (room_slot). */
    for (unsigned i = 0; i < segment->pieces; i = segment_run_end(segment, i)) {
        if (!segment_slot(segment, i))
            continue;
        edges_merge_of(&segment->ready, &segment_slot(segment, i)->written, STREAMS_OWN);
        edges_merge_of(&segment->ready, &segment_slot(segment, i)->read, STREAMS_OWN);
    }
    segment->mapped = segment->fresh = true;
    return 0;
}

void linked_contents(struct cache *cache, struct segment *segment)
{
    if (segment->state != SEGMENT_EMPTY)
        return;
    if (!segment->filled_pieces) {
        residency_into_slot(cache, segment);
        return;
    }
    residency_contents(cache, segment);
    cache->spilled_bytes += segment->linked_pieces * segment->unit;
    statistics_peak(&cache->statistics.peak_spilled_bytes, cache->spilled_bytes);
}

static bool has_slots(const struct segment *segment)
{
    for (unsigned run = 0; run < segment->runs; run++)
        if (segment->slot[run])
            return true;
    return false;
}

int linked_reclaim(struct cache *cache, const struct segment *for_segment, struct need *need)
{
    struct segment *segment;
    bool busy = false;

    if (!cache->statistics.link_mappings)
        return -ENOENT;
    DL_FOREACH2(cache->segments.all, segment, all_next)
    {
        struct edges edges;
        int error;

        if (segment->state != SEGMENT_EMPTY || segment == for_segment || !policy_movable(segment) ||
            !has_slots(segment))
            continue;
        edges = segment_edges(segment);
        if (!streams_completed(&cache->streams, &edges, busy ? NULL : &need->event, &error)) {
            if (error)
                return error;
            busy = true;
            continue;
        }
        error = segment_unlink(&cache->segments, segment);
        if (error)
            return error;
        room_slots_give(cache, segment);
        return 0;
    }
    if (!busy)
        return -ENOENT;
    need->kind = NEED_EVENT;
    return -EAGAIN;
}

/* Its uses end, then it is unmapped; what it has stays where it is. */
static int isolate_one(struct cache *cache, struct segment *segment)
{
    int error;

    for (;;) {
        struct edges edges = segment_edges(segment);
        struct need need = {.kind = NEED_EVENT};

        if (streams_completed(&cache->streams, &edges, &need.event, &error))
            break;
        if (!error)
            error = cache_satisfy(cache, &need);
        if (error)
            return error;
    }
    segment->mapped = false;
    error = segment_unmap(&cache->segments, segment, 0, segment->pieces);
    return error ? error : segment_unlink(&cache->segments, segment);
}

int cache_isolate(struct cache *cache, const struct cache_touch *touches, unsigned count)
{
    struct segment *segment;
    uint64_t id;
    int error = 0;

    pthread_mutex_lock(&cache->lock);
    id = ++cache->tick;
    for (unsigned i = 0; i < count; i++) {
        uint64_t base;
        unsigned item;

        if (segments_item(&cache->segments, touches[i].address, &segment, &base, &item))
            segment->mark = id;
    }
    DL_FOREACH2(cache->segments.all, segment, all_next)
    {
        if (segment->mark != id && !error)
            error = isolate_one(cache, segment);
    }
    pthread_mutex_unlock(&cache->lock);
    return error;
}
