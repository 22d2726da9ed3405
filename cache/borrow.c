#include "cache/borrow.h"
#include "cache/audit.h"
#include "cache/linked.h"
#include <errno.h>
#include <utlist.h>

/* Of the host tier a loan takes at most this share, and only where as much again stays free. */
#define HOST_SHARE 8

/* An event after which the first thing that was found in use is free. */
struct wait {
    bool known;
    uint64_t event;
};

static bool completed(struct cache *cache, const struct edges *edges, struct wait *wait)
{
    int error;

    if (streams_completed(&cache->streams, edges, wait->known ? NULL : &wait->event, &error))
        return true;
    wait->known |= error == 0;
    return false;
}

static struct frame *take_free(struct cache *cache, struct wait *wait)
{
    struct frame *frame;

    DL_FOREACH(cache->frames.free, frame)
    {
        if (completed(cache, &frame->edges, wait) && frames_take_this(&cache->frames, frame))
            return frame;
    }
    return NULL;
}

/* Frames with dead contents become free ones; false where all of them are still in use. */
static bool strip_one(struct cache *cache, struct wait *wait)
{
    struct segment *segment;
    struct need need;

    DL_FOREACH(cache->idle, segment)
    {
        struct edges edges = segment_edges(segment);

        if (policy_movable(segment) && completed(cache, &edges, wait))
            return residency_strip(cache, segment, &need) == 0;
    }
    return false;
}

static struct frame *take_frame(struct cache *cache, struct wait *wait)
{
    struct frame *frame = take_free(cache, wait);

    while (!frame && strip_one(cache, wait))
        frame = take_free(cache, wait);
    return frame;
}

/* May release and take the lock. */
static int take_slot(struct cache *cache, uint64_t size, struct slot **out, struct wait *wait)
{
    struct slots *slots = &cache->slots;
    struct slot *slot, *evicted;
    uint64_t idle;
    int error;

    if (2 * size > slots->limit / HOST_SHARE)
        return -ENOMEM;
    if (slots->used + 2 * size > slots->limit)
        return -EBUSY;
    slot = slots_take(slots, size);
    if (slot) {
        if (!completed(cache, &slot->written, wait) || !completed(cache, &slot->read, wait)) {
            slots_give(slots, slot);
            return -EBUSY;
        }
        *out = slot;
        return 0;
    }
    error = slots_reserve(slots, &cache->streams, size, &evicted, &idle);
    if (error)
        return error == -ENOSPC ? -EBUSY : error;
    pthread_mutex_unlock(&cache->lock);
    error = slots_make(slots, size, &evicted, out);
    pthread_mutex_lock(&cache->lock);
    if (error)
        slots_unreserve(slots, size, evicted);
    return error == -ENOSPC ? -EBUSY : error;
}

/* Without room for it in the list it is lost, which the audit tells. */
static void keep_stuck(struct cache *cache, const struct loan_stuck *stuck)
{
    if (cache->stuck_count < LOANS_STUCK)
        cache->stuck[cache->stuck_count++] = *stuck;
}

/* False: the driver does not take all of it back; what is left of it stays in *stuck. */
static bool release_address(struct cache *cache, struct loan_stuck *stuck)
{
    const struct device_ops *ops = cache->ops;

    if (stuck->frame) {
        if (ops->unmap(ops->ctx, stuck->address, stuck->size))
            return false;
        cache->statistics.unmap_calls++;
        frames_give(&cache->frames, stuck->frame);
        stuck->frame = NULL;
    }
    return ops->unreserve(ops->ctx, stuck->address, stuck->size) == 0;
}

/* The loan's address and frame go back; a frame that is still mapped there is nobody's until it is not. */
static void unmap_loan(struct cache *cache, struct cache_loan *loan)
{
    struct loan_stuck stuck = {.address = loan->device, .size = loan->size, .frame = loan->frame};

    loan->frame = NULL;
    if (!release_address(cache, &stuck))
        keep_stuck(cache, &stuck);
}

void loans_settle(struct cache *cache)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < cache->stuck_count; i++)
        if (cache->stuck[i].slot || !release_address(cache, &cache->stuck[i]))
            cache->stuck[kept++] = cache->stuck[i];
    cache->stuck_count = kept;
}

void loans_audit(const struct cache *cache, struct cache_audit *audit, uint64_t *slot_bytes)
{
    for (unsigned i = 0; i < cache->stuck_count; i++) {
        const struct loan_stuck *stuck = &cache->stuck[i];

        audit->held.reservations++;
        audit->held.frames += stuck->frame != NULL;
        audit->frame_bytes += stuck->frame ? stuck->frame->size : 0;
        audit->held.mappings += stuck->frame != NULL;
        if (stuck->slot)
            audit_slot(audit, stuck->slot, cache->slots.unit);
        *slot_bytes += stuck->slot ? stuck->slot->size : 0;
    }
}

/* Frames have no address of their own: the loan's is made for it. */
static int map_loan(struct cache *cache, struct cache_loan *loan)
{
    const struct device_ops *ops = cache->ops;
    struct loan_stuck reserved = {.size = loan->size};
    int error = ops->reserve(ops->ctx, loan->size, &loan->device);

    if (error)
        return error;
    reserved.address = loan->device;
    error = ops->map(ops->ctx, loan->device, loan->size, loan->frame->handle);
    if (error) {
        if (!release_address(cache, &reserved))
            keep_stuck(cache, &reserved);
        return error;
    }
    cache->statistics.map_calls++;
    error = ops->set_access(ops->ctx, loan->device, loan->size);
    if (error)
        unmap_loan(cache, loan);
    else
        cache->statistics.access_calls++;
    return error;
}

static void give_back(struct cache *cache, struct cache_loan *loan)
{
    if (loan->frame)
        frames_give(&cache->frames, loan->frame);
    if (loan->slot)
        slots_give(&cache->slots, loan->slot);
}

static void end_loan(struct cache *cache)
{
    cache->in_flight--;
    pthread_cond_broadcast(&cache->changed);
}

/*
 * Moves one frame's worth of contents out. Its frame is free then, once the copy is done. May release and
 * take the lock, to pin memory for it; what would have to be waited for is left for another time.
 */
static void make_one(struct cache *cache)
{
    struct need need = {.kind = NEED_SLOT};
    int error = -EAGAIN;

    while (error == -EAGAIN && need.kind == NEED_SLOT) {
        struct segment *victim = residency_victim(cache);
        struct cache_failure failure;

        if (!victim || residency_behind(cache, victim) || linked_open_any(cache))
            return;
        error = residency_evict_some(cache, victim, 1, &need, &failure);
        if (error == -EAGAIN && need.kind == NEED_SLOT && cache_satisfy(cache, &need))
            return;
    }
}

/* No copy of the cache's own is queued or running. */
static bool quiet(struct cache *cache, struct wait *wait)
{
    struct edges copies = {.mask = 0};

    edges_add(&copies, STREAM_IN, cache->streams.stream[STREAM_IN].seq);
    edges_add(&copies, STREAM_OUT, cache->streams.stream[STREAM_OUT].seq);
    return completed(cache, &copies, wait);
}

int cache_borrow(struct cache *cache, struct cache_loan *loan, unsigned flags, uint64_t *wait)
{
    struct cache_loan taken = {.size = 0};
    struct wait in_use = {.known = false};
    int error = 0;

    pthread_mutex_lock(&cache->lock);
    cache->in_flight++;
    taken.size = cache->frames.size;
    loans_settle(cache);
    if (!(flags & LOAN_BUSY) && !quiet(cache, &in_use))
        error = -EBUSY;
    if (!error)
        taken.frame = take_frame(cache, &in_use);
    if (!error && !taken.frame && flags & LOAN_EVICT && !in_use.known) {
        make_one(cache);
        taken.frame = take_frame(cache, &in_use);
    }
    if (!taken.frame)
        error = -EBUSY;
    if (!error)
        error = take_slot(cache, taken.size, &taken.slot, &in_use);
    if (!error)
        error = map_loan(cache, &taken);
    if (error == -EBUSY && in_use.known) {
        *wait = in_use.event;
        error = -EAGAIN;
    }
    if (error) {
        give_back(cache, &taken);
        end_loan(cache);
    } else {
        taken.host = taken.slot->memory;
        *loan = taken;
    }
    pthread_mutex_unlock(&cache->lock);
    return error;
}

void cache_return(struct cache *cache, struct cache_loan *loan, bool idle)
{
    pthread_mutex_lock(&cache->lock);
    if (idle) {
        unmap_loan(cache, loan);
        give_back(cache, loan);
    } else {
        keep_stuck(cache, &(struct loan_stuck){loan->device, loan->size, loan->frame, loan->slot});
    }
    end_loan(cache);
    pthread_mutex_unlock(&cache->lock);
}
