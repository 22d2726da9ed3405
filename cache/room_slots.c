/*
 * room_slots.c - where slots come from: the pool; who has one that is worth nothing; pinned memory, within
 * the limit; what is kept for mappings alone; and at last clean copies of what is in HBM.
 *
 * A slot is of one run of pieces. What is in it alone, or is going to be, keeps it: one that can be spared is
 * of a run that is in HBM as a whole. So who needs several may look for them one after the other.
 */
#include "cache/linked.h"
#include "cache/room.h"
#include <errno.h>
#include <utlist.h>

enum { STALE_CANDIDATES = 1024 }; /* segments that are looked at for a slot that nobody needs */

static unsigned run_begin(const struct segment *segment, unsigned run)
{
    return run * segment->run;
}

static unsigned run_end(const struct segment *segment, unsigned run)
{
    return segment_run_end(segment, run * segment->run);
}

/* Bytes of the run's slot. */
static uint64_t run_size(const struct segment *segment, unsigned run)
{
    unsigned begin = run_begin(segment, run);

    return segment_bytes(segment, begin, run_end(segment, run) - begin);
}

static bool run_filled(const struct segment *segment, unsigned run)
{
    for (unsigned i = run_begin(segment, run); i < run_end(segment, run) && !segment->filled; i++)
        if (!segment->piece[i].filled)
            return false;
    return true;
}

static void give(struct cache *cache, struct segment *segment, unsigned run)
{
    slots_give(&cache->slots, segment->slot[run]);
    segment->slot[run] = NULL;
}

void room_slots_give(struct cache *cache, struct segment *segment)
{
    for (unsigned run = 0; run < segment->runs; run++)
        if (segment->slot[run])
            give(cache, segment, run);
}

/* None of its slots is in use, and it is not on its way out, which whoever waits for that would have to begin
 * again, and take the slot back: for ever. */
static bool may_spare(const struct segment *segment)
{
    return !segment->slot_pins && !(segment->leaving && policy_movable(segment));
}

/* It has a slot there that it does not need just now: its frames have the contents. */
static bool slot_to_spare(const struct segment *segment, unsigned run)
{
    return segment->slot[run] && run_filled(segment, run);
}

/* Whether there would be room for so much if all that can be spared were given up. Else none should be: what
 * was clean would have to be copied out once more. */
static bool slots_suffice(const struct cache *cache, uint64_t size)
{
    uint64_t used = cache->slots.used;
    struct segment *segment;

    DL_FOREACH(cache->policy.list, segment)
    for (unsigned run = 0; run < segment->runs && may_spare(segment); run++)
        if (slot_to_spare(segment, run))
            used -= segment->slot[run]->size;
    return used + size <= cache->slots.limit;
}

/* The first that can be spared. What was clean there is not any more. */
static bool steal_slot(struct cache *cache)
{
    struct segment *segment;

    DL_FOREACH(cache->policy.list, segment)
    for (unsigned run = 0; run < segment->runs && may_spare(segment); run++) {
        if (!slot_to_spare(segment, run))
            continue;
        give(cache, segment, run);
        for (unsigned i = run_begin(segment, run); i < run_end(segment, run); i++)
            segment->piece[i].clean_version = 0;
        return true;
    }
    return false;
}

/* Nothing in the slot is what it was when it came from there. */
static bool slot_stale(const struct segment *segment, unsigned run)
{
    for (unsigned i = run_begin(segment, run); i < run_end(segment, run); i++)
        if (segment->piece[i].clean_version == segment->version)
            return false;
    return true;
}

/*
 * A slot of the size whose contents are worth nothing, and that nothing queued uses, from somebody whose
 * frames have the contents: pinning another would take long, and memory that the machine may want. The least
 * recently used come first. NULL: none was found.
 */
static struct slot *slot_of_another(struct cache *cache, uint64_t size)
{
    unsigned left = STALE_CANDIDATES;
    struct segment *segment;

    DL_FOREACH(cache->policy.list, segment)
    {
        if (!left--)
            break;
        for (unsigned run = 0; run < segment->runs && may_spare(segment); run++) {
            struct edges all;
            uint64_t wait;
            int error;

            if (!segment->slot[run] || segment->slot[run]->size != size || !slot_to_spare(segment, run) ||
                !slot_stale(segment, run))
                continue;
            all = slot_edges(segment->slot[run]);
            if (!streams_completed(&cache->streams, &all, &wait, &error))
                continue;
            give(cache, segment, run);
            return slots_take(&cache->slots, size);
        }
    }
    return NULL;
}

/* together: bytes of all the slots that are needed, this one and those that are still to come. */
static int find_slot(struct cache *cache, struct segment *segment, unsigned run, uint64_t together,
                     struct need *need, struct cache_failure *failure)
{
    uint64_t size = run_size(segment, run);
    struct slot *slot = slots_take(&cache->slots, size);
    int error;

    if (!slot)
        slot = slot_of_another(cache, size);
    while (!slot) {
        error = slots_reserve(&cache->slots, &cache->streams, size, &need->evicted, &need->event);
        if (error == 0) {
            need->kind = NEED_SLOT;
            need->size = size;
            return -EAGAIN;
        }
        if (error == -EBUSY) {
            need->kind = NEED_EVENT;
            return -EAGAIN;
        }
        if (error != -ENOSPC)
            return error;
        error = linked_reclaim(cache, segment, need);
        if (error && slots_suffice(cache, together) && steal_slot(cache))
            error = 0;
        if (error == -ENOENT) {
            cache_failure_fill(cache, failure, CACHE_TIER_HOST, together);
            error = -ENOMEM;
        }
        if (error)
            return error;
        slot = slots_take(&cache->slots, size);
    }
    segment->slot[run] = slot;
    /* Operations of the job's that were done in it for its last owner; copies of ours are among its edges. */
    edges_merge_of(&segment->ready, &slot->written, ~STREAMS_OWN);
    edges_merge_of(&segment->ready, &slot->read, ~STREAMS_OWN);
    return 0;
}

int room_slot(struct cache *cache, struct segment *segment, unsigned piece, struct need *need,
              struct cache_failure *failure)
{
    unsigned run = piece / segment->run;

    if (segment->slot[run])
        return 0;
    return find_slot(cache, segment, run, run_size(segment, run), need, failure);
}

static bool slot_lacks(const struct segment *segment, unsigned run)
{
    return !segment->slot[run] && !run_filled(segment, run);
}

int room_slots(struct cache *cache, struct segment *segment, struct need *need, struct cache_failure *failure)
{
    uint64_t together = 0;
    int error = 0;

    for (unsigned run = 0; run < segment->runs; run++)
        together += slot_lacks(segment, run) ? run_size(segment, run) : 0;
    for (unsigned run = 0; run < segment->runs && !error; run++) {
        if (!slot_lacks(segment, run))
            continue;
        error = find_slot(cache, segment, run, together, need, failure);
        together -= run_size(segment, run);
    }
    /* What some of them are there for in vain is others' again. */
    if (error == -ENOMEM && segment->state == SEGMENT_EMPTY && !segment->linked_pieces)
        room_slots_give(cache, segment);
    return error;
}

struct segment *room_in_slot(struct cache *cache, unsigned *first, unsigned *count)
{
    struct segment *segment;

    DL_FOREACH(cache->policy.list, segment)
    {
        if (!policy_movable(segment) || residency_behind(cache, segment))
            continue;
        for (unsigned run = segment->runs; run-- > 0;) {
            unsigned end = run_end(segment, run), at = end, found = 0;

            if (!segment->slot[run])
                continue;
            while (at > run_begin(segment, run) && found < *count)
                found += segment->piece[--at].filled;
            if (!found)
                continue;
            *first = at;
            *count = end - at;
            return segment;
        }
    }
    return NULL;
}
