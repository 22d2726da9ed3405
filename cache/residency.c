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
#include "cache/transfer.h"
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

uint64_t residency_spilled(const struct segment *segment)
{
    return segment->state == SEGMENT_EMPTY ? 0 : (segment->pieces - segment->filled_pieces) * segment->unit;
}

void residency_forget(struct cache *cache, struct segment *segment)
{
    if (segment->state == SEGMENT_RESIDENT)
        cache->policy.type->remove(&cache->policy, segment);
    cache->spilled_bytes -= residency_spilled(segment);
    segment->state = SEGMENT_EMPTY;
    segment->leaving = false;
    segment->version++;
    if (!segment->linked_pieces) /* else they are kept until the address leads elsewhere */
        room_slots_give(cache, segment);
    if (segment_framed(segment, 0, segment->pieces))
        residency_idle_add(cache, segment);
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

    policy_order(&cache->policy);
    if (!cache->streams.holds)
        return cache->policy.type->victim(&cache->policy);
    DL_FOREACH(cache->policy.list, segment)
    segment->behind = residency_behind(cache, segment);
    victim = cache->policy.type->victim(&cache->policy);
    DL_FOREACH(cache->policy.list, segment)
    segment->behind = false;
    return victim ? victim : cache->policy.type->victim(&cache->policy);
}

/* The frames of `count' pieces go; edges is what the next owner of those that were filled comes after. */
static void give_frames(struct cache *cache, struct segment *segment, unsigned first, unsigned count,
                        const struct edges *edges)
{
    segment->left = *edges;
    for (unsigned i = first; i < first + count; i++) {
        struct binding *binding = &segment->piece[i];

        if (!binding->frame)
            continue;
        if (binding->filled) {
            binding->frame->edges = *edges;
            binding->filled = false;
            segment->filled_pieces--;
        } /* else it was only gathered, and has the edges of its last owner */
        frames_give(&cache->frames, binding->frame);
        binding->frame = NULL;
        cache->segments.small_frames -= segment->small;
        segment->filled = segment->mapped = false;
    }
}

static int unmap(struct cache *cache, struct segment *segment, unsigned first, unsigned count)
{
    segment->mapped = false;
    return segment_unmap(&cache->segments, segment, first, count);
}

/*
 * Strict: the address of what leaves is unmapped before its frames go, so a touch that was missed faults
 * instead of reading another tensor. That needs its uses to have completed, copies out of it included.
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
    bool used = segment->filled_pieces > 0;

    if (used && cache->config.strict) {
        int error = strict_ready(cache, &edges, need);

        if (!error)
            error = unmap(cache, segment, 0, segment->pieces);
        if (error)
            return error;
    }
    give_frames(cache, segment, 0, segment->pieces, &edges);
    residency_idle_remove(cache, segment);
    if (used)
        cache->statistics.dropped++;
    return 0;
}

/* Pieces of one run; what has no frame is left out. */
static int evict_run(struct cache *cache, struct segment *segment, unsigned first, unsigned count,
                     struct need *need, struct cache_failure *failure)
{
    struct edges edges;
    int error;

    if (transfer_dirty(segment, first, count)) {
        error = room_slot(cache, segment, first, need, failure);
        if (error)
            return error;
        error = transfer_out(cache, segment, first, count, need);
        if (error)
            return error;
    }
    edges = segment_edges(segment); /* with the copy out, be it this one or an earlier one */
    error = strict_ready(cache, &edges, need);
    segment->leaving = error == -EAGAIN;
    if (!error && cache->config.strict)
        error = unmap(cache, segment, first, count);
    if (error)
        return error;
    dearest_left(cache, segment);
    cache->spilled_bytes -= residency_spilled(segment);
    give_frames(cache, segment, first, count, &edges);
    if (!segment->filled_pieces) {
        give_frames(cache, segment, 0, segment->pieces, &edges); /* what was gathered for the others */
        cache->policy.type->remove(&cache->policy, segment);
        segment->state = SEGMENT_SPILLED;
    }
    cache->spilled_bytes += residency_spilled(segment);
    statistics_peak(&cache->statistics.peak_spilled_bytes, cache->spilled_bytes);
    return 0;
}

int residency_evict(struct cache *cache, struct segment *segment, unsigned first, unsigned count,
                    struct need *need, struct cache_failure *failure)
{
    unsigned last = first + count, moved = 0;
    bool dirty = false;
    int error = 0;

    for (unsigned i = first, end; i < last && !error; i = end) {
        end = segment_run_end(segment, i) < last ? segment_run_end(segment, i) : last;
        if (!segment_framed(segment, i, end))
            continue;
        dirty |= transfer_dirty(segment, i, end - i);
        error = evict_run(cache, segment, i, end - i, need, failure);
        moved += !error;
    }
    if (moved) {
        cache->statistics.evictions++;
        cache->statistics.clean_evictions += !dirty;
    }
    return error == -ENOMEM && moved ? 0 : error;
}

int residency_evict_some(struct cache *cache, struct segment *segment, unsigned wanted, struct need *need,
                         struct cache_failure *failure)
{
    unsigned first = segment->pieces, found = 0;

    while (first > 0 && found < wanted)
        found += segment->piece[--first].filled;
    return residency_evict(cache, segment, first, segment->pieces - first, need, failure);
}

/* The pieces of the range that have frames and are not filled get their contents. */
static int fill_gathered(struct cache *cache, struct segment *segment, unsigned first, unsigned count,
                         struct need *need)
{
    bool contents = segment->state != SEGMENT_EMPTY;
    struct edges frames = {0};
    bool missing = false;
    int error = segment_map(&cache->segments, segment, first, count, &need->event);

    if (error == -EBUSY) {
        need->kind = NEED_EVENT;
        return -EAGAIN;
    }
    if (error)
        return error;
    for (unsigned i = first; i < first + count; i++)
        if (segment->piece[i].frame && !segment->piece[i].filled) {
            edges_merge(&frames, &segment->piece[i].frame->edges);
            missing = true;
        }
    if (!missing)
        return 0;
    if (contents)
        error = transfer_in(cache, segment, first, count, &frames);
    else
        edges_merge(&segment->ready, &frames);
    if (error)
        return error;
    cache->spilled_bytes -= residency_spilled(segment);
    for (unsigned i = first; i < first + count; i++) {
        struct binding *binding = &segment->piece[i];

        if (!binding->frame || binding->filled)
            continue;
        binding->filled = true;
        binding->clean_version = contents ? segment->version : 0;
        segment->filled_pieces++;
    }
    cache->spilled_bytes += residency_spilled(segment);
    segment->filled = segment->filled_pieces == segment->pieces;
    segment->fresh = true;
    if (contents)
        residency_contents(cache, segment);
    return 0;
}

/* -EAGAIN while an operation on the slot is being submitted: its number is not known yet. */
static int slot_in_use(const struct segment *segment, struct need *need)
{
    if (!segment->slot_pins)
        return 0;
    need->kind = NEED_CHANGE;
    return -EAGAIN;
}

int residency_fill(struct cache *cache, struct segment *segment, struct need *need,
                   struct cache_failure *failure)
{
    int error;

    if (segment_usable(segment))
        return 0;
    error = slot_in_use(segment, need);
    if (!error)
        error = room_frames(cache, segment, 0, segment->pieces, false, need, failure);
    if (!error)
        error = fill_gathered(cache, segment, 0, segment->pieces, need);
    if (!error)
        segment->mapped = true;
    return error;
}

int residency_fill_free(struct cache *cache, struct segment *segment, unsigned first, unsigned count,
                        struct need *need)
{
    struct cache_failure failure;
    int error = slot_in_use(segment, need), room;

    if (error)
        return error;
    segment->pins++; /* its own frames are no others' to strip meanwhile */
    room = room_frames(cache, segment, first, count, true, need, &failure);
    if (room == 0 || room == -EBUSY)
        error = fill_gathered(cache, segment, first, count, need);
    segment->pins--;
    return error ? error : room;
}

void residency_into_slot(struct cache *cache, struct segment *segment)
{
    segment->state = SEGMENT_SPILLED;
    cache->spilled_bytes += residency_spilled(segment);
    statistics_peak(&cache->statistics.peak_spilled_bytes, cache->spilled_bytes);
}
