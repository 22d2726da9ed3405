#include "cache/reframe.h"
#include "cache/colour.h"
#include "cache/home.h"
#include "cache/linked.h"
#include "cache/plan.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* Bindings that take the host less than this part of a round are not what it waits for. [assumed] */
#define BINDS 0.2
/* What larger frames have to gain: all of HBM is moved once for it, and plans are made anew. [assumed] */
#define GAINS 0.85

/* What is smaller than such a frame is at most a part in so many of HBM. [assumed] */
enum { SMALLER = 32 };

/* Steps for each segment and each slot, until others are found to be in the way all the time. */
enum { PATIENCE = 8, TRIES = 4 };

bool reframe_asked(const struct cache *cache)
{
    const struct known *known = cache->following;

    if (!known || cache->frames.size == cache->segments.larger || cache->reframe_tries >= TRIES)
        return false;
    if (cache->config.reframe)
        return true;
    return known->larger != REFRAME_NOT && known->at_home && known->worth.time > 0 &&
           known->bound * (double)COLOUR_REBIND > BINDS * known->worth.time;
}

/*
 * The round with frames of that size. What is smaller will not be in it, and is counted as one frame here.
 * False where that is too much to be left out: it would come and go unplanned.
 */
static bool coarsen(const struct cycle *cycle, uint64_t frame, struct cycle *out)
{
    uint64_t smaller = 0;

    for (uint32_t i = 0; i < cycle->buffer_count; i++)
        smaller += cycle->buffers[i].size < frame ? cycle->buffers[i].size : 0;
    if (smaller > cycle->capacity / SMALLER)
        return false;
    *out = *cycle;
    out->frame_size = frame;
    out->capacity = cycle->capacity / frame * frame;
    out->buffers = malloc((cycle->buffer_count + 1) * sizeof *out->buffers);
    if (!out->buffers)
        return false;
    memcpy(out->buffers, cycle->buffers, cycle->buffer_count * sizeof *out->buffers);
    for (uint32_t i = 0; i < cycle->buffer_count; i++)
        out->buffers[i].size = (cycle->buffers[i].size + frame - 1) / frame * frame;
    return true;
}

bool reframe_pays(const struct known *known, uint64_t larger)
{
    struct schedule_worth worth = {0};
    struct schedule *schedule = NULL;
    struct cycle coarse;
    bool pays;

    if (!coarsen(known->cycle, larger, &coarse))
        return false;
    pays = schedule_try(&coarse, 0, &worth, &schedule) == 0 && worth.time > 0 &&
           worth.time < GAINS * known->worth.time;
    schedule_free(schedule);
    free(coarse.buffers);
    return pays;
}

static bool is_bound(const struct segment *segment)
{
    for (unsigned i = 0; i < segment->pieces; i++)
        if (segment->piece[i].bound)
            return true;
    return false;
}

/* Bytes of slots that it lacks for all of its contents. */
static uint64_t slots_lacking(const struct segment *segment)
{
    uint64_t bytes = 0;

    if (segment->state == SEGMENT_EMPTY)
        return 0;
    for (unsigned i = 0; i < segment->pieces; i = segment_run_end(segment, i))
        if (!segment_slot(segment, i))
            bytes += segment_bytes(segment, i, segment_run_end(segment, i) - i);
    return bytes;
}

/* Nothing stands in the way. Looked at after each step, as it may be another's turn meanwhile. */
static bool may(struct cache *cache, uint64_t frame)
{
    const struct segment *segment;
    uint64_t lacking = 0;

    /* An open operation that is under way may wait for another, so it must not be waited for (linked.h). */
    if (cache->in_flight || cache->stuck_count || linked_open_any(cache))
        return false;
    DL_FOREACH2(cache->segments.all, segment, all_next)
    {
        if (!segment_large(&cache->segments, segment, frame))
            continue;
        /* What stands behind a host function can be waited for only if that waits for nobody here. */
        if (!policy_movable(segment) || segment->linked_pieces || residency_behind(cache, segment))
            return false;
        lacking += slots_lacking(segment);
    }
    return cache->slots.used + lacking <= cache->slots.limit;
}

/* The next step: 0: look again; -EAGAIN: *need first; -ENOENT: there is none, nothing large is in HBM, or
 * mapped, and no frame is free. */
static int step(struct cache *cache, uint64_t frame, struct need *need)
{
    struct cache_failure failure;
    struct segment *segment;
    struct edges edges;
    int error;

    DL_FOREACH2(cache->segments.all, segment, all_next)
    {
        if (!segment_large(&cache->segments, segment, frame))
            continue;
        if (segment_framed(segment, 0, segment->pieces))
            return segment->state == SEGMENT_RESIDENT
                       ? residency_evict(cache, segment, 0, segment->pieces, need, &failure)
                       : residency_strip(cache, segment, need);
        if (!is_bound(segment))
            continue;
        edges = segment_edges(segment);
        edges_merge(&edges, &segment->left);
        need->kind = NEED_EVENT;
        if (!streams_completed(&cache->streams, &edges, &need->event, &error))
            return error ? error : -EAGAIN;
        segment->mapped = false;
        return segment_unmap(&cache->segments, segment, 0, segment->pieces);
    }
    if (!cache->frames.free)
        return -ENOENT;
    need->kind = NEED_EVENT;
    error = frames_release_of(&cache->frames, cache->frames.free, cache->frames.free_bytes, &need->event);
    return error == -EBUSY ? -EAGAIN : error;
}

/* The lock has not been released since the last step. */
static void divide(struct cache *cache, uint64_t frame)
{
    struct segment *segment;

    cache->frames.size = frame;
    cache->segments.small_frames = 0;
    cache->spilled_bytes = 0;
    DL_FOREACH2(cache->segments.all, segment, all_next)
    {
        if (segment_large(&cache->segments, segment, frame)) {
            segment_divide(&cache->segments, segment, frame);
            for (unsigned run = 0; run < segment->runs; run++)
                if (segment->slot[run])
                    verify_forget(segment->slot[run]); /* it was of pieces of another size */
        } else {
            segment->small = true;
            for (unsigned i = 0; i < segment->pieces; i++)
                cache->segments.small_frames += segment->piece[i].frame != NULL;
        }
        cache->spilled_bytes += residency_spilled(segment);
    }
    statistics_peak(&cache->statistics.peak_spilled_bytes, cache->spilled_bytes);
}

void reframe(struct cache *cache)
{
    uint64_t frame = cache->segments.larger, patience = PATIENCE;
    struct segment *segment;
    struct need need;
    int error = 0;

    DL_FOREACH2(cache->segments.all, segment, all_next)
    patience += PATIENCE * (1 + (uint64_t)segment->runs);
    if (!may(cache, frame))
        return;
    cache->reframe_tries++;
    homes_forget(cache);
    cache->pending_count = 0; /* they name pieces */
    while (!error && may(cache, frame) && patience--) {
        error = step(cache, frame, &need);
        if (error == -EAGAIN)
            error = cache_satisfy(cache, &need);
    }
    if (error != -ENOENT)
        return;
    divide(cache, frame);
    plan_forget(cache);
    cache->statistics.reframed++;
}
