#include "cache/borrow.h"
#include "cache/internal.h"
#include <errno.h>
#include <utlist.h>

/* Of the host tier a loan takes at most this share, and only where as much again stays free. */
#define HOST_SHARE 4

static bool completed(struct cache *cache, const struct edges *edges)
{
    int error;

    return streams_completed(&cache->streams, edges, NULL, &error);
}

static struct frame *take_free(struct cache *cache)
{
    struct frame *frame;

    DL_FOREACH(cache->frames.free, frame)
    {
        if (completed(cache, &frame->edges) && frames_take_this(&cache->frames, frame))
            return frame;
    }
    return NULL;
}

/* Frames with dead contents become free ones; false where all of them are still in use. */
static bool strip_one(struct cache *cache)
{
    struct segment *segment;
    struct need need;

    DL_FOREACH(cache->idle, segment)
    {
        struct edges edges = segment->last_use;

        edges_merge(&edges, &segment->ready);
        if (policy_movable(segment) && completed(cache, &edges))
            return residency_strip(cache, segment, &need) == 0;
    }
    return false;
}

static struct frame *take_frame(struct cache *cache)
{
    struct frame *frame = take_free(cache);

    while (!frame && strip_one(cache))
        frame = take_free(cache);
    return frame;
}

/* May release and take the lock. */
static int take_slot(struct cache *cache, uint64_t size, struct slot **out)
{
    struct slots *slots = &cache->slots;
    struct slot *slot, *evicted;
    uint64_t wait;
    int error;

    if (2 * LOAN_PIECES * size > slots->limit / HOST_SHARE)
        return -ENOMEM;
    if (slots->used + 2 * LOAN_PIECES * size > slots->limit)
        return -EBUSY;
    slot = slots_take(slots, size);
    if (slot) {
        if (!completed(cache, &slot->written) || !completed(cache, &slot->read)) {
            slots_give(slots, slot);
            return -EBUSY;
        }
        *out = slot;
        return 0;
    }
    error = slots_reserve(slots, &cache->streams, size, &evicted, &wait);
    if (error)
        return error == -ENOSPC ? -EBUSY : error;
    pthread_mutex_unlock(&cache->lock);
    error = slots_make(slots, size, evicted, out);
    pthread_mutex_lock(&cache->lock);
    if (error)
        slots_unreserve(slots, size);
    return error;
}

/* Frames have no address of their own: the loan's is made for it. */
static int map_loan(struct cache *cache, struct cache_loan *loan)
{
    const struct device_ops *ops = cache->ops;
    uint64_t base;
    unsigned mapped = 0;
    int error = ops->reserve(ops->ctx, LOAN_PIECES * loan->size, &base);

    if (error)
        return error;
    while (mapped < LOAN_PIECES && !error) {
        error = ops->map(ops->ctx, base + mapped * loan->size, loan->size, loan->frame[mapped]->handle);
        mapped += !error;
    }
    if (!error)
        error = ops->set_access(ops->ctx, base, LOAN_PIECES * loan->size);
    for (unsigned i = 0; error && i < mapped; i++)
        (void)ops->unmap(ops->ctx, base + i * loan->size, loan->size);
    if (error) {
        (void)ops->unreserve(ops->ctx, base, LOAN_PIECES * loan->size);
        return error;
    }
    for (unsigned i = 0; i < LOAN_PIECES; i++)
        loan->device[i] = base + i * loan->size;
    cache->statistics.map_calls += LOAN_PIECES;
    cache->statistics.access_calls++;
    return 0;
}

static void unmap_loan(struct cache *cache, const struct cache_loan *loan)
{
    const struct device_ops *ops = cache->ops;

    for (unsigned i = 0; i < LOAN_PIECES; i++) {
        (void)ops->unmap(ops->ctx, loan->device[i], loan->size);
        cache->statistics.unmap_calls++;
    }
    (void)ops->unreserve(ops->ctx, loan->device[0], LOAN_PIECES * loan->size);
}

static void give_back(struct cache *cache, struct cache_loan *loan, bool idle)
{
    frames_group(&cache->frames);
    for (unsigned i = 0; i < LOAN_PIECES && idle; i++) {
        if (loan->frame[i])
            frames_give(&cache->frames, loan->frame[i]);
        if (loan->slot[i])
            slots_give(&cache->slots, loan->slot[i]);
    }
    cache->in_flight--;
    pthread_cond_broadcast(&cache->changed);
}

int cache_borrow(struct cache *cache, struct cache_loan *loan)
{
    struct cache_loan taken = {.size = cache->frames.size};
    int error = 0;

    pthread_mutex_lock(&cache->lock);
    cache->in_flight++;
    for (unsigned i = 0; i < LOAN_PIECES && !error; i++) {
        error = take_slot(cache, taken.size, &taken.slot[i]);
        if (!error)
            taken.host[i] = taken.slot[i]->memory;
    }
    for (unsigned i = 0; i < LOAN_PIECES && !error; i++) {
        taken.frame[i] = take_frame(cache);
        if (!taken.frame[i])
            error = -EBUSY;
    }
    if (!error)
        error = map_loan(cache, &taken);
    if (error)
        give_back(cache, &taken, true);
    else
        *loan = taken;
    pthread_mutex_unlock(&cache->lock);
    return error;
}

void cache_return(struct cache *cache, struct cache_loan *loan, bool idle)
{
    pthread_mutex_lock(&cache->lock);
    if (idle)
        unmap_loan(cache, loan);
    give_back(cache, loan, idle);
    pthread_mutex_unlock(&cache->lock);
}
