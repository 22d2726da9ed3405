/*
 * An operation of the job: pin what it touches, bring it in, order it, let it go, note it.
 *
 * Looking for room goes on with the lock held, so two operations cannot each hold half of what both need.
 * Whenever something has to be waited for, the lock is released and the pins are given up first; what was
 * gathered so far stays where it is and may be taken by another.
 */
#include "cache/operation.h"
#include "cache/linked.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/*
 * Under pressure an event every so many operations, so that a victim's last use can be waited for on its own;
 * in a round that is followed, where copies are given a moment for each, behind every one. There 16 made
 * copies wait for milliseconds of kernels that had nothing to do with them, and rounds up to 4 % longer
 * (replay).
 */
static uint64_t event_interval(const struct cache *cache)
{
    return cache->following ? 1 : 16;
}

int op_add(struct cache_op *op, struct segment *segment, unsigned access)
{
    if (segment->mark == op->id) {
        for (unsigned i = 0; i < op->count; i++)
            if (op->touched[i].segment == segment)
                op->touched[i].access |= access;
        return 0;
    }
    if (op->count == op->capacity) {
        unsigned capacity = op->capacity ? 4 * op->capacity : CACHE_OP_INLINE;
        struct cache_touch_segment *touched = malloc(capacity * sizeof *touched);

        if (!touched)
            return -ENOMEM;
        memcpy(touched, op->touched, op->count * sizeof *touched);
        if (op->touched != op->inline_touched)
            free(op->touched);
        op->touched = touched;
        op->capacity = capacity;
    }
    segment->mark = op->id;
    op->touched[op->count++] = (struct cache_touch_segment){.segment = segment, .access = access};
    return 0;
}

void op_clear(struct cache *cache, struct cache_op *op)
{
    if (op->stream != STREAM_IN) {
        cache->streams.stream[op->stream].users--;
        pthread_cond_broadcast(&cache->changed);
    }
    if (op->touched != op->inline_touched)
        free(op->touched);
    op->touched = op->inline_touched;
    op->count = 0;
}

/* With the lock. An operation starts with its stream known and nothing touched. */
int op_start(struct cache *cache, struct cache_op *op, struct stream_key stream)
{
    int error;

    op->touched = op->inline_touched;
    op->count = 0;
    op->capacity = CACHE_OP_INLINE;
    op->handed_over = op->timed = op->open = op->stays = false;
    op->stream = STREAM_IN;                                     /* until it is known */
    cache_failure_fill(cache, &op->failure, CACHE_TIER_HBM, 0); /* should a call run out of memory */
    error = cache_stream_index(cache, stream, &op->stream);
    if (!error)
        cache->streams.stream[op->stream].users++;
    op->id = ++cache->tick;
    return error;
}

static void op_use(struct cache *cache, struct cache_op *op)
{
    for (unsigned i = 0; i < op->count && cache->policy.ordered; i++) {
        struct segment *segment = op->touched[i].segment;

        if (segment->state == SEGMENT_RESIDENT)
            cache->policy.type->use(&cache->policy, segment);
        if (segment->small) /* believed to come round with the others */
            segment->next_use = segment->claim =
                cache->following ? cache->plan_position + 2 * (uint64_t)cache->following->cycle->length : 0;
    }
}

/* linked: what can be reached over the link is as good. */
static bool op_filled(const struct cache_op *op, bool linked)
{
    for (unsigned i = 0; i < op->count; i++) {
        const struct segment *segment = op->touched[i].segment;

        if (!op->touched[i].in_slot && !(linked ? segment_reached(segment) : segment_usable(segment)))
            return false;
    }
    return true;
}

static void op_pin(struct cache_op *op)
{
    for (unsigned i = 0; i < op->count; i++)
        if (!op->touched[i].in_slot)
            op->touched[i].segment->pins++;
}

void op_unpin(struct cache *cache, struct cache_op *op)
{
    for (unsigned i = 0; i < op->count; i++)
        if (!op->touched[i].in_slot)
            op->touched[i].segment->pins--;
    pthread_cond_broadcast(&cache->changed);
}

static int op_fits(struct cache *cache, struct cache_op *op)
{
    const struct frames *frames = &cache->frames;
    uint64_t bytes = 0;

    for (unsigned i = 0; i < op->count; i++)
        if (!op->touched[i].in_slot)
            bytes += op->touched[i].segment->size;
    if (bytes + frames->outside <= frames->limit)
        return 0;
    cache_failure_fill(cache, &op->failure, CACHE_TIER_HBM, bytes);
    return -ENOMEM;
}

/*
 * What one segment of an operation needs. here: nothing is moved for it (an open operation is under way that
 * must not be waited for); else it is brought in, and linked where there is no room. What is in the way of
 * linking it is then no news: the failure is that there was no room.
 */
static int place_one(struct cache *cache, const struct cache_op *op, struct segment *segment, bool here,
                     struct need *need, struct cache_failure *failure)
{
    struct cache_failure unlinked;
    int error;

    if (here)
        return linked_place(cache, segment, false, need, failure);
    error = residency_fill(cache, segment, need, failure);
    if (error != -ENOMEM || op->stays || !slots_linkable(&cache->slots))
        return error;
    return linked_place(cache, segment, true, need, &unlinked);
}

/* Brings everything in, or links it; the pins are held when it returns 0. */
int op_place(struct cache *cache, struct cache_op *op)
{
    bool links = !op->stays && slots_linkable(&cache->slots);

    op_use(cache, op);
    for (;;) {
        bool here = false;
        struct need need;
        int error;

        if (op_filled(op, false)) {
            op_pin(op);
            return 0;
        }
        error = op_fits(cache, op);
        if (links) {
            here = linked_open_elsewhere(cache, op->stream);
            if ((here || error) && op_filled(op, true)) {
                op_pin(op);
                return 0;
            }
            error = 0;
        }
        if (error)
            return error;
        op_pin(op);
        for (unsigned i = 0; i < op->count && !error; i++)
            if (!op->touched[i].in_slot)
                error = place_one(cache, op, op->touched[i].segment, here, &need, &op->failure);
        if (!error)
            return 0;
        op_unpin(cache, op);
        if (error == -EAGAIN)
            error = cache_satisfy(cache, &need);
        if (error)
            return error;
    }
}

/* Whether a copy of ours among the edges, in or out, is still ahead of the stream. */
static bool waits_for_copy(const struct cache *cache, unsigned index, const struct edges *edges)
{
    for (unsigned own = STREAM_IN; own <= STREAM_OUT; own++)
        if (edges->mask & (UINT32_C(1) << own) && edges->seq[own] > cache->streams.stream[index].known[own] &&
            edges->seq[own] > cache->streams.stream[own].completed)
            return true;
    return false;
}

/* Bytes of what the operation touches and has to wait for until a copy is done. */
static uint64_t bytes_ahead(const struct cache *cache, const struct cache_op *op)
{
    uint64_t bytes = 0;

    if (!cache->pressure)
        return 0;
    for (unsigned i = 0; i < op->count; i++)
        if (waits_for_copy(cache, op->stream, &op->touched[i].segment->ready))
            bytes += op->touched[i].segment->size;
    return bytes;
}

/*
 * The stream itself is no wait for an operation that may start early: it is told not to where it comes after
 * one of its own stream, unless another such has seen to that before. (What it touches had another owner.)
 */
static bool after_own_stream(const struct cache *cache, const struct cache_op *op)
{
    const struct stream *stream = &cache->streams.stream[op->stream];
    uint64_t ended = stream->in_order > stream->completed ? stream->in_order : stream->completed;

    for (unsigned i = 0; i < op->count; i++) {
        const struct edges *ready = &op->touched[i].segment->ready;

        if (ready->mask & (UINT32_C(1) << op->stream) && ready->seq[op->stream] > ended)
            return true;
    }
    return false;
}

/* The stream waits for all that the operation comes after. */
static int op_order(struct cache *cache, struct cache_op *op)
{
    uint64_t waits = cache->statistics.stream_waits, ahead = bytes_ahead(cache, op);
    uint64_t handle = cache->streams.stream[op->stream].key.handle;
    bool timed = ahead && stall_begin(&cache->stall, handle, ahead, op->id);
    int error = 0;

    for (unsigned i = 0; i < op->count && !error; i++) {
        struct segment *segment = op->touched[i].segment;

        error = stream_wait_edges(&cache->streams, op->stream, &segment->ready);
        if (error || !op->touched[i].in_slot)
            continue;
        for (unsigned run = 0; run < segment->runs && !error; run++) {
            error = stream_wait_edges(&cache->streams, op->stream, &segment->slot[run]->written);
            if (!error && op->touched[i].access & CACHE_WRITE)
                error = stream_wait_edges(&cache->streams, op->stream, &segment->slot[run]->read);
        }
    }
    op->handed_over = cache->statistics.stream_waits != waits || after_own_stream(cache, op);
    op->ahead = cache->streams.stream[op->stream].seq;
    if (timed)
        stall_end(&cache->stall, handle);
    return error;
}

/* It is going to be submitted, and uses the segment's slots. */
static void slots_pin(struct segment *segment, unsigned access)
{
    segment->slot_pins++;
    for (unsigned run = 0; run < segment->runs && access & CACHE_WRITE; run++)
        if (segment->slot[run])
            verify_forget(segment->slot[run]);
}

/* It was. */
static void slots_used(struct segment *segment, unsigned access, unsigned stream, uint64_t seq)
{
    for (unsigned run = 0; run < segment->runs; run++)
        if (segment->slot[run])
            edges_add(access & CACHE_WRITE ? &segment->slot[run]->written : &segment->slot[run]->read, stream,
                      seq);
}

static void op_note_contents(struct cache *cache, struct cache_op *op)
{
    for (unsigned i = 0; i < op->count; i++) {
        struct segment *segment = op->touched[i].segment;

        if (op->touched[i].in_slot)
            continue;
        if (op->touched[i].linked)
            linked_contents(cache, segment);
        else
            residency_contents(cache, segment);
        if (segment->fresh)
            dearest_used(segment, &cache->dearest, op->id);
        segment->fresh = segment->leaving = false;
        if (op->touched[i].access & CACHE_WRITE)
            segment->version++;
    }
}

/* With the lock: from a filled-in op to one that may be submitted. */
int op_begin_placed(struct cache *cache, struct cache_op *op)
{
    bool linked = false;
    int error;

    for (unsigned i = 0; i < op->count; i++) {
        op->touched[i].linked = !op->touched[i].in_slot && op->touched[i].segment->linked_pieces;
        linked |= op->touched[i].linked;
    }
    error = op_order(cache, op);
    if (error) {
        op_unpin(cache, op);
        return error;
    }
    op_note_contents(cache, op);
    for (unsigned i = 0; i < op->count; i++)
        if (op->touched[i].in_slot || op->touched[i].linked)
            slots_pin(op->touched[i].segment, op->touched[i].access);
    cache->statistics.linked_operations += linked;
    cache->in_flight++;
    if (op->open)
        linked_open_begun(cache);
    if (cache->timing.on && !cache->streams.stream[op->stream].key.thread)
        op->timed = timing_before(&cache->timing, cache->streams.stream[op->stream].key.handle);
    return 0;
}

void cache_expect(const struct cache *cache, const struct cache_touch *touches, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        segments_expect(&cache->segments, touches[i].address);
}

int cache_op_begin(struct cache *cache, struct cache_op *op, struct stream_key stream,
                   const struct cache_touch *touches, unsigned count)
{
    int error;

    cache_expect(cache, touches, count);
    pthread_mutex_lock(&cache->lock);
    error = op_start(cache, op, stream);
    for (unsigned i = 0; i < count && !error; i++) {
        struct segment *segment;
        uint64_t base;
        unsigned item;

        if (segments_item(&cache->segments, touches[i].address, &segment, &base, &item))
            error = op_add(op, segment, touches[i].access);
    }
    if (!error)
        error = op_place(cache, op);
    if (!error)
        error = op_begin_placed(cache, op);
    if (error)
        op_clear(cache, op);
    pthread_mutex_unlock(&cache->lock);
    return error;
}

bool cache_op_fits(struct cache *cache, const struct cache_touch *touches, unsigned count)
{
    uint64_t bytes = 0, id;

    pthread_mutex_lock(&cache->lock);
    id = ++cache->tick;
    cache->asked_about++;
    bytes = cache->frames.outside;
    for (unsigned i = 0; i < count; i++) {
        struct segment *segment;
        uint64_t base;
        unsigned item;

        if (!segments_item(&cache->segments, touches[i].address, &segment, &base, &item) ||
            segment->mark == id)
            continue;
        segment->mark = id;
        bytes += segment->size;
    }
    id = cache->frames.limit;
    pthread_mutex_unlock(&cache->lock);
    return bytes <= id;
}

int cache_op_begin_all(struct cache *cache, struct cache_op *op, struct stream_key stream)
{
    struct segment *segment;
    int error;

    pthread_mutex_lock(&cache->lock);
    error = op_start(cache, op, stream);
    op->open = true;
    DL_FOREACH2(cache->segments.all, segment, all_next)
    {
        if (!error && segment->live_items)
            error = op_add(op, segment, CACHE_READ | CACHE_WRITE);
    }
    if (!error)
        error = op_place(cache, op);
    if (!error)
        error = op_begin_placed(cache, op);
    if (error)
        op_clear(cache, op);
    pthread_mutex_unlock(&cache->lock);
    return error;
}

void cache_op_end(struct cache *cache, struct cache_op *op, bool submitted)
{
    struct stream *stream;

    pthread_mutex_lock(&cache->lock);
    stream = &cache->streams.stream[op->stream];
    if (op->timed)
        timing_after(&cache->timing, stream->key.handle, submitted);
    if (submitted) {
        uint64_t seq = stream_submitted(&cache->streams, op->stream);

        cache->newest.stream = op->stream;
        cache->newest.seq = seq;
        if (op->handed_over && op->ahead > stream->in_order)
            stream->in_order = op->ahead;
        for (unsigned i = 0; i < op->count; i++) {
            struct segment *segment = op->touched[i].segment;

            if (!op->touched[i].in_slot)
                segment_used(segment, op->stream, seq);
            if (op->touched[i].in_slot || op->touched[i].linked)
                slots_used(segment, op->touched[i].access, op->stream, seq);
        }
        /* An event is a convenience here: without it, a later wait covers more than it must. */
        if (cache->record_always || stream->key.thread ||
            (cache->pressure && (op->open || seq - stream->recorded >= event_interval(cache))))
            (void)stream_record_own(&cache->streams, op->stream);
    }
    if (op->open)
        linked_open_ended(cache, op->stream, stream->seq, submitted);
    for (unsigned i = 0; i < op->count; i++)
        if (op->touched[i].in_slot || op->touched[i].linked)
            op->touched[i].segment->slot_pins--;
    cache->in_flight--;
    op_unpin(cache, op);
    op_clear(cache, op);
    pthread_mutex_unlock(&cache->lock);
}

/* Waits, without the lock, until everything the segment's operations come after has completed. */
static int wait_ready(struct cache *cache, const struct segment *segment)
{
    struct need need = {.kind = NEED_EVENT};
    int error = 0;

    while (!error && !streams_completed(&cache->streams, &segment->ready, &need.event, &error))
        if (!error)
            error = cache_satisfy(cache, &need);
    return error;
}

int cache_fix(struct cache *cache, uint64_t address, struct cache_failure *failure)
{
    struct cache_op op = {.stream = STREAM_IN};
    struct segment *segment;
    uint64_t base;
    unsigned item;
    int error = 0;

    pthread_mutex_lock(&cache->lock);
    op.touched = op.inline_touched;
    op.capacity = CACHE_OP_INLINE;
    cache_failure_fill(cache, &op.failure, CACHE_TIER_HBM, 0);
    op.id = ++cache->tick;
    op.stays = true;
    if (segments_item(&cache->segments, address, &segment, &base, &item) && !segment->fixed) {
        error = op_add(&op, segment, CACHE_READ | CACHE_WRITE);
        if (!error)
            error = op_place(cache, &op);
        if (!error) {
            op_note_contents(cache, &op);
            segment->fixed = true;
            op_unpin(cache, &op);
            error = wait_ready(cache, segment);
        }
    }
    if (error)
        *failure = op.failure;
    op_clear(cache, &op);
    pthread_mutex_unlock(&cache->lock);
    return error;
}
