/*
 * copy.c - copies of the job whose data is spilled are served in its slots, instead of bringing it in and
 * pushing other data out.
 */
#include "cache/linked.h"
#include "cache/operation.h"
#include "cache/room.h"
#include <errno.h>

/*
 * Whether a copy leaves a segment where it is: its data is in the slot, or it has none yet and would only
 * push other data out of HBM. A slot that cannot be had is no error: the segment is brought in like any
 * other.
 */
static int copy_side_in_slot(struct cache *cache, const struct cache_op *op, struct segment *segment,
                             unsigned access, bool *in_slot)
{
    struct cache_failure failure;
    struct need need;
    int error;

    *in_slot = false;
    for (;;) {
        if (segment->filled_pieces || segment->fixed) /* what is in frames is not in the slot */
            return 0;
        /* What an open operation may be looking at now is written where it looks: another address may not
         * show it. */
        if (segment->linked_pieces && linked_open_elsewhere(cache, op->stream))
            return 0;
        if (segment->state == SEGMENT_SPILLED) {
            *in_slot = true;
            return 0;
        }
        if (!(access & CACHE_WRITE) || residency_room(cache, segment))
            return 0;
        error = room_slots(cache, segment, &need, &failure);
        if (error == -ENOMEM)
            return 0;
        if (!error)
            residency_into_slot(cache, segment);
        else if (error == -EAGAIN)
            error = cache_satisfy(cache, &need);
        if (error)
            return error;
    }
}

static int copy_add_side(struct cache *cache, struct cache_op *op, uint64_t address, unsigned access)
{
    struct segment *segment;
    uint64_t base;
    unsigned item;

    if (!segments_item(&cache->segments, address, &segment, &base, &item))
        return 0;
    return op_add(op, segment, access);
}

int cache_copy_begin(struct cache *cache, struct cache_op *op, struct stream_key stream, uint64_t dst,
                     uint64_t src, uint64_t size, bool *in_slot)
{
    bool moved = false, linked = false;
    int error;

    pthread_mutex_lock(&cache->lock);
    error = op_start(cache, op, stream);
    if (!error)
        error = copy_add_side(cache, op, dst, CACHE_WRITE);
    if (!error)
        error = copy_add_side(cache, op, src, CACHE_READ);
    while (!error) {
        bool again = false;

        for (unsigned i = 0; i < op->count && !error; i++)
            error = copy_side_in_slot(cache, op, op->touched[i].segment, op->touched[i].access,
                                      &op->touched[i].in_slot);
        if (!error)
            error = op_place(cache, op);
        if (error)
            break;
        /* While room was made for one side the other may have been brought in, or moved out. */
        for (unsigned i = 0; i < op->count; i++)
            if (op->touched[i].in_slot && op->touched[i].segment->state != SEGMENT_SPILLED)
                again = true;
        if (!again)
            break;
        op_unpin(cache, op);
    }
    if (!error)
        error = op_begin_placed(cache, op);
    if (error) {
        op_clear(cache, op);
    } else {
        for (unsigned i = 0; i < op->count; i++) {
            moved |= op->touched[i].in_slot;
            linked |= op->touched[i].linked;
        }
        *in_slot = moved || linked;
        if (moved)
            cache->statistics.slot_bytes += size;
    }
    pthread_mutex_unlock(&cache->lock);
    return error;
}

/* Where the copy is to find an address, in a slot or as it is; of *size bytes those that are side by side
 * there. */
static int copy_redirect(const struct cache_op *op, uint64_t *address, uint64_t *size)
{
    for (unsigned i = 0; i < op->count; i++) {
        const struct segment *segment = op->touched[i].segment;
        uint64_t unit = segment->unit, offset = *address - segment->address, left;
        unsigned piece;

        if (offset >= segment->size || !op->touched[i].in_slot)
            continue;
        piece = (unsigned)(offset / unit);
        if (!segment_slot(segment, piece)) /* freed meanwhile */
            return -EINVAL;
        left = segment_run_end(segment, piece) * unit - offset;
        *address = (uint64_t)(uintptr_t)segment_host(segment, piece) + offset % unit;
        *size = *size < left ? *size : left;
    }
    return 0;
}

int cache_copy_part(struct cache *cache, const struct cache_op *op, uint64_t *dst, uint64_t *src,
                    uint64_t *size)
{
    int error;

    pthread_mutex_lock(&cache->lock);
    error = copy_redirect(op, dst, size);
    if (!error)
        error = copy_redirect(op, src, size);
    pthread_mutex_unlock(&cache->lock);
    return error;
}

bool cache_copy_is_birth(struct cache *cache, uint64_t dst, uint64_t size)
{
    struct segment *segment;
    uint64_t base;
    unsigned item;
    bool birth;

    if (!cache_under_pressure(cache) || size < cache->segments.unit)
        return false;
    pthread_mutex_lock(&cache->lock);
    birth = segments_item(&cache->segments, dst, &segment, &base, &item) && segment->state == SEGMENT_EMPTY;
    pthread_mutex_unlock(&cache->lock);
    return birth;
}
