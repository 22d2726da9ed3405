#include "cache/audit.h"
#include "cache/internal.h"
#include <utlist.h>

static void wrong(struct cache_audit *audit, const char *what)
{
    if (!audit->wrong++)
        audit->first_wrong = what;
}

#define AGREE(audit, what, condition)                                                                        \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            wrong(audit, what);                                                                              \
    } while (0)

/* What the segments add up to. */
struct sums {
    uint64_t live_bytes, spilled_bytes, slot_bytes;
    uint64_t resident, idle; /* segments that should be in the policy's list, in that of the idle ones */
    uint64_t small_frames;
};

/* A mapping is known twice, by the piece and by the frame that it leads to. */
static bool listed(const struct binding *binding)
{
    const struct binding *one = binding->bound->bindings;

    while (one && one != binding)
        one = one->next;
    return one != NULL;
}

static void look_at_piece(struct cache_audit *audit, const struct segment *segment,
                          const struct binding *binding, const struct slot *slot, uint64_t granule)
{
    if (binding->frame) {
        audit->held.frames++;
        audit->frame_bytes += binding->frame->size;
        AGREE(audit, "a piece has a frame of another size", binding->frame->size == segment->unit);
        audit->frames_in_use += segment->state == SEGMENT_RESIDENT;
        AGREE(audit, "a frame of a segment is free", binding->frame->owned);
    }
    if (binding->bound) {
        audit->held.mappings++;
        AGREE(audit, "a frame does not know of a mapping", listed(binding));
    }
    if (binding->linked) /* each handle is mapped by itself */
        audit->held.mappings += binding_bytes(binding) / granule;
    AGREE(audit, "a piece is filled without a frame", !binding->filled || binding->frame);
    AGREE(audit, "a piece is linked to nothing, or to a frame as well",
          !binding->linked || (slot && slot->handles && !binding->bound && !binding->filled));
    AGREE(audit, "contents that are nowhere", segment->state == SEGMENT_EMPTY || binding->filled || slot);
}

void audit_slot(struct cache_audit *audit, const struct slot *slot, uint64_t unit)
{
    if (!slot->handles) {
        audit->held.slots++;
        return;
    }
    audit->held.host_handles += slot->size / unit;
    audit->held.mappings += slot->size / unit;
    audit->held.reservations++;
}

static void look_at_segment(struct cache *cache, struct cache_audit *audit, const struct segment *segment,
                            struct sums *sums)
{
    unsigned filled = 0, frames = 0, linked = 0;

    for (unsigned i = 0; i < segment->pieces; i++) {
        look_at_piece(audit, segment, &segment->piece[i], segment_slot(segment, i), cache->segments.unit);
        filled += segment->piece[i].filled;
        linked += segment->piece[i].linked;
        frames += segment->piece[i].frame != NULL;
    }
    AGREE(audit, "filled pieces are miscounted", filled == segment->filled_pieces);
    AGREE(audit, "linked pieces are miscounted", linked == segment->linked_pieces);
    AGREE(audit, "a segment is not as filled as its pieces",
          segment->filled == (filled == segment->pieces && filled > 0));
    AGREE(audit, "live items are miscounted", segment->live_items == __builtin_popcount(segment->live_mask));
    AGREE(audit, "contents that are nobody's", segment->live_items || segment->state == SEGMENT_EMPTY);
    AGREE(audit, "a segment is not in the list of the idle ones, or should not be",
          segment->listed_idle == (frames > 0 && segment->state != SEGMENT_RESIDENT));
    sums->resident += segment->state == SEGMENT_RESIDENT;
    sums->idle += segment->listed_idle;
    sums->small_frames += segment->small ? frames : 0;
    if (segment->state != SEGMENT_EMPTY)
        sums->spilled_bytes += (segment->pieces - filled) * segment->unit;
    for (unsigned run = 0; run < segment->runs; run++) {
        if (!segment->slot[run])
            continue;
        audit->slots_in_use += segment->state != SEGMENT_EMPTY;
        audit_slot(audit, segment->slot[run], cache->slots.unit);
        sums->slot_bytes += segment->slot[run]->size;
    }
    for (unsigned i = 0; i < segment->items; i++)
        if (segment->live_mask & UINT32_C(1) << i)
            sums->live_bytes += segment->asked[i];
    audit->allocations += segment->live_items;
    audit->unended += segment->pins + segment->slot_pins;
}

static void look_at_free(struct cache *cache, struct cache_audit *audit, struct sums *sums)
{
    const struct frame *frame;
    const struct slot *slot;
    uint64_t bytes = 0, pooled = 0;

    for (unsigned odd = 0; odd < 2; odd++)
        DL_FOREACH(odd ? cache->frames.odd : cache->frames.free, frame)
        {
            audit->held.frames++;
            bytes += frame->size;
            AGREE(audit, "a free frame is owned", !frame->owned);
            AGREE(audit, "a free frame is in the wrong list", (frame->size != cache->frames.size) == odd);
        }
    LL_FOREACH(cache->slots.free, slot)
    {
        audit_slot(audit, slot, cache->slots.unit);
        pooled += slot->size;
    }
    AGREE(audit, "free frames are miscounted", cache->frames.free_bytes == bytes);
    AGREE(audit, "frames are miscounted",
          cache->frames.held == audit->frame_bytes + bytes && cache->frames.count == audit->held.frames);
    AGREE(audit, "slots in use are miscounted", cache->slots.used == sums->slot_bytes);
    AGREE(audit, "slots are miscounted", cache->slots.held == sums->slot_bytes + pooled);
}

static void look_at_events(const struct cache *cache, struct cache_audit *audit)
{
    uint64_t events = cache->streams.pool.count + cache->timing.pool.count + 2 * cache->timing.count;

    for (unsigned i = 0; i < EDGES_STREAMS; i++) {
        events += cache->streams.stream[i].count;
        audit->unended += cache->streams.stream[i].users;
    }
    for (unsigned i = 0; i < STALL_SAMPLES; i++)
        events += (cache->stall.ring[i].before != 0) + (cache->stall.ring[i].after != 0);
    audit->held.events = events;
}

void cache_audit(struct cache *cache, struct cache_audit *audit)
{
    struct sums sums = {0};
    const struct segment *segment;
    uint64_t listed_resident = 0, listed_idle = 0;

    *audit = (struct cache_audit){.held.streams = 2};
    pthread_mutex_lock(&cache->lock);
    DL_FOREACH2(cache->segments.all, segment, all_next)
    look_at_segment(cache, audit, segment, &sums);
    DL_FOREACH(cache->policy.list, segment)
    listed_resident++;
    DL_FOREACH(cache->idle, segment)
    listed_idle++;
    audit->held.slots += cache->verify.scratch[0] ? 2 : 0;
    audit->unended += cache->in_flight;
    audit->held.reservations += cache->segments.windows;
    loans_audit(cache, audit, &sums.slot_bytes);
    look_at_events(cache, audit);
    if (!audit->unended) /* a loan has frame and slot, an operation that waits what it has gathered */
        look_at_free(cache, audit, &sums);
    AGREE(audit, "the policy's list is not of the resident segments", listed_resident == sums.resident);
    AGREE(audit, "the list of idle segments is not of the idle ones", listed_idle == sums.idle);
    AGREE(audit, "frames of small allocations are miscounted",
          cache->segments.small_frames == sums.small_frames);
    AGREE(audit, "live bytes are miscounted", cache->live_bytes == sums.live_bytes);
    AGREE(audit, "spilled bytes are miscounted", cache->spilled_bytes == sums.spilled_bytes);
    pthread_mutex_unlock(&cache->lock);
}
