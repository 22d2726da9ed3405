#include "cache/cache.h"
#include "cache/home.h"
#include "cache/lock_in_time.h"
#include "cache/plan.h"
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

uint64_t cache_frame_size(uint64_t granularity, uint64_t hbm)
{
    uint64_t size = granularity;

    while (hbm / size > 65536 && size < UINT64_C(32) << 20)
        size *= 2;
    return size;
}

static const struct policy_type *const policies[] = {[CACHE_POLICY_LRU] = &policy_lru,
                                                     [CACHE_POLICY_BIP] = &policy_bip,
                                                     [CACHE_POLICY_NEXTUSE] = &policy_nextuse};

int cache_create(const struct device_ops *ops, const struct cache_config *config, struct cache **out)
{
    struct cache *cache = calloc(1, sizeof *cache);
    uint64_t window = config->window_size;
    int error;

    if (!cache)
        return -ENOMEM;
    cache->ops = ops;
    cache->config = *config;
    cache->link = (struct cache_link){25e9, 25e9, 25e9, 25e9};
    pthread_mutex_init(&cache->lock, NULL);
    pthread_cond_init(&cache->changed, NULL);
    error = streams_init(&cache->streams, ops, &cache->statistics);
    if (!error && config->verify) {
        error = verify_init(&cache->verify, ops, &cache->statistics, SEGMENT_LARGER * config->frame_size,
                            config->verify_ctx, config->mismatch);
        if (error)
            streams_destroy(&cache->streams);
    }
    if (error) {
        free(cache);
        return error;
    }
    if (!window)
        window = 16 * (config->hbm_limit + config->host_limit);
    frames_init(&cache->frames, ops, &cache->streams, &cache->statistics, config->frame_size,
                config->hbm_limit);
    timing_init(&cache->timing, ops);
    stall_init(&cache->stall, ops, config->observer, &cache->statistics);
    slots_init(&cache->slots, ops, &cache->statistics, config->frame_size, config->host_limit);
    segments_init(&cache->segments, ops, &cache->frames, window,
                  config->slot_most ? config->slot_most : SLOT_MOST,
                  config->reframe ? config->reframe : SEGMENT_LARGER);
    cache->segments.apart = config->apart;
    cache->policy.type = policies[config->policy];
    *out = cache;
    return 0;
}

void cache_destroy(struct cache *cache)
{
    struct segment *segment;

    loans_settle(cache);
    DL_FOREACH2(cache->segments.all, segment, all_next)
    {
        (void)segment_unlink(&cache->segments, segment);
        residency_forget(cache, segment);
        segment_unmap(&cache->segments, segment, 0, segment->pieces);
        for (unsigned i = 0; i < segment->pieces; i++) {
            if (segment->piece[i].frame)
                frames_give(&cache->frames, segment->piece[i].frame);
            segment->piece[i].frame = NULL;
        }
    }
    frames_destroy_free(&cache->frames);
    slots_destroy(&cache->slots);
    verify_fini(&cache->verify);
    stall_fini(&cache->stall);
    segments_destroy(&cache->segments);
    streams_destroy(&cache->streams);
    free(cache->by_birth);
    plan_forget(cache);
    history_end(&cache->history);
    timing_end(&cache->timing);
    free(cache->pending);
    pthread_cond_destroy(&cache->changed);
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

int cache_satisfy(struct cache *cache, struct need *need)
{
    const struct device_ops *ops = cache->ops;
    struct slot *slot;
    int error;

    switch (need->kind) {
    case NEED_CHANGE:
        pthread_cond_wait(&cache->changed, &cache->lock);
        return 0;
    case NEED_EVENT:
        cache->statistics.host_waits++;
        pthread_mutex_unlock(&cache->lock);
        error = ops->event_synchronize(ops->ctx, need->event);
        pthread_mutex_lock(&cache->lock);
        return error;
    case NEED_SLOT:
        pthread_mutex_unlock(&cache->lock);
        error = slots_make(&cache->slots, need->size, &need->evicted, &slot);
        pthread_mutex_lock(&cache->lock);
        if (error) {
            slots_unreserve(&cache->slots, need->size, need->evicted);
            /* The system does not pin that much more. */
            if (error == -ENOMEM && cache->slots.limit >= cache->slots.held + need->size)
                cache->slots.limit = cache->slots.held + need->size - 1;
            if (error == -ENOMEM || error == -ENOSPC) /* there is less of it than there was */
                error = 0;
        } else {
            slots_give(&cache->slots, slot);
        }
        pthread_cond_broadcast(&cache->changed);
        return error;
    }
    return -EINVAL;
}

int cache_stream_index(struct cache *cache, struct stream_key stream, unsigned *index)
{
    for (;;) {
        struct need need = {.kind = NEED_EVENT};
        int error = streams_find(&cache->streams, stream, index, &need.event);

        if (error == -EAGAIN)
            need.kind = NEED_CHANGE;
        else if (error != -EBUSY)
            return error;
        error = cache_satisfy(cache, &need);
        if (error)
            return error;
    }
}

int cache_alloc(struct cache *cache, uint64_t size, uint64_t *address, struct cache_failure *failure)
{
    struct segment *segment;
    struct moment moment;
    struct edges uses;
    unsigned item;
    int error;

    pthread_mutex_lock(&cache->lock);
    if (size > cache->frames.limit && size - cache->frames.limit > cache->slots.limit) {
        cache_failure_fill(cache, failure, CACHE_TIER_HOST, size);
        cache->statistics.refused++;
        error = -ENOMEM;
        goto unlock;
    }
    moment = (struct moment){.window = cache->window, .phase = cache->phase, .alone = cache->pressure};
    if (cache->following && cache->pressure) {
        const struct known *known = cache->following;

        moment.round = known->hash | 1;
        moment.phase += known_turn(known, known->round) * known->cycle->length;
    }
    error = segments_take_item(&cache->segments, size, &moment, &segment, &item);
    if (error) {
        error = -ENOSPC;
        goto unlock;
    }
    /* Whoever had the address before has finished with it before its new owner starts, whatever their
     * streams. */
    uses = segment_uses(segment);
    edges_merge(&segment->ready, &uses);
    segment->fresh = true;
    if (segment->live_items == 1) {
        segment_forget_uses(segment);
        segment->birth_window = cache->window;
        segment->birth = cache->births++;
        segment->next_use = segment->claim = 0;
        home_reborn(cache, segment);
        segment->life = ++cache->lives;
        segment->cost = (struct dearest_mark){0};
    }
    cache->live_bytes += size;
    statistics_peak(&cache->statistics.peak_live_bytes, cache->live_bytes);
    *address = segment->address + item * segment->size_class->item_size;
unlock:
    pthread_mutex_unlock(&cache->lock);
    return error;
}

int cache_free(struct cache *cache, uint64_t address, const struct stream_key *stream)
{
    struct segment *segment;
    uint64_t base;
    unsigned item, index;
    int error = 0;

    pthread_mutex_lock(&cache->lock);
    if (!segments_item(&cache->segments, address, &segment, &base, &item)) {
        error = segments_find(&cache->segments, address) ? -EINVAL : -ENOENT;
        goto unlock;
    }
    if (base != address) {
        error = -EINVAL;
        goto unlock;
    }
    if (stream) {
        error = cache_stream_index(cache, *stream, &index);
        if (error)
            goto unlock;
        edges_add(&segment->ready, index, cache->streams.stream[index].seq);
    }
    cache->live_bytes -= segment->asked[item];
    if (segments_give_item(segment, item)) {
        if (cache->history.ops)
            history_freed(&cache->history, segment, cache->plan_position, (uint32_t)cache->window);
        segment->fixed = false; /* what it was fixed for is over: its frames are anybody's */
        residency_forget(cache, segment);
    }
unlock:
    pthread_mutex_unlock(&cache->lock);
    return error;
}

bool cache_maybe_ours(const struct cache *cache, uint64_t address)
{
    unsigned windows = __atomic_load_n(&cache->segments.windows, __ATOMIC_ACQUIRE);

    for (unsigned i = 0; i < windows; i++)
        if (address - cache->segments.window[i].address < cache->segments.window[i].size)
            return true;
    return false;
}

bool cache_find(struct cache *cache, uint64_t address, uint64_t *base, uint64_t *size)
{
    struct segment *segment;
    unsigned item;
    bool found;

    pthread_mutex_lock(&cache->lock);
    found = segments_item(&cache->segments, address, &segment, base, &item);
    if (found)
        *size = segment->asked[item];
    pthread_mutex_unlock(&cache->lock);
    return found;
}

int cache_stream_retire(struct cache *cache, struct stream_key stream)
{
    int error;

    pthread_mutex_lock(&cache->lock);
    error = streams_retire(&cache->streams, stream);
    pthread_mutex_unlock(&cache->lock);
    return error;
}

int cache_stream_hold(struct cache *cache, struct stream_key stream)
{
    unsigned index;
    int error;

    pthread_mutex_lock(&cache->lock);
    error = cache_stream_index(cache, stream, &index);
    if (!error)
        error = streams_hold(&cache->streams, index);
    pthread_mutex_unlock(&cache->lock);
    return error;
}

void cache_stream_held(struct cache *cache, struct stream_key stream)
{
    unsigned index;

    pthread_mutex_lock(&cache->lock);
    if (!cache_stream_index(cache, stream, &index))
        streams_held(&cache->streams, index);
    pthread_mutex_unlock(&cache->lock);
}

bool cache_stream_behind(struct cache *cache, struct stream_key stream, bool *any)
{
    struct edges end = {0};
    unsigned index;
    bool behind;

    pthread_mutex_lock(&cache->lock);
    *any = streams_any_held(&cache->streams);
    behind = *any && cache_stream_index(cache, stream, &index) == 0;
    if (behind) {
        edges_add(&end, index, cache->streams.stream[index].seq);
        behind = streams_behind(&cache->streams, &end);
    }
    pthread_mutex_unlock(&cache->lock);
    return behind;
}

int cache_record_always(struct cache *cache, bool on)
{
    int error = 0;

    pthread_mutex_lock(&cache->lock);
    cache->record_always = on;
    for (unsigned i = STREAM_OUT + 1; on && i < EDGES_STREAMS && !error; i++)
        if (cache->streams.stream[i].used)
            error = stream_record(&cache->streams, i);
    pthread_mutex_unlock(&cache->lock);
    return error;
}

void cache_outside(struct cache *cache, int64_t bytes)
{
    pthread_mutex_lock(&cache->lock);
    cache->frames.outside += (uint64_t)bytes;
    statistics_peak(&cache->statistics.peak_hbm_bytes, cache->frames.held + cache->frames.outside);
    pthread_mutex_unlock(&cache->lock);
}

/* One step towards giving `bytes' back: 0 to look again, -EAGAIN with a need, -ENOSPC when nothing is left to
 * give. */
static int release_step(struct cache *cache, uint64_t bytes, struct need *need)
{
    struct cache_failure failure;
    struct segment *segment;
    int error;

    homes_forget(cache); /* at each step: while a need is met, a window may make them anew */
    error = frames_release(&cache->frames, bytes, &need->event);
    if (error == -EBUSY) {
        need->kind = NEED_EVENT;
        return -EAGAIN;
    }
    if (error != -ENOSPC)
        return error;
    DL_FOREACH(cache->idle, segment)
    if (policy_movable(segment))
        return residency_strip(cache, segment, need);
    segment = residency_victim(cache);
    if (!segment)
        return -ENOSPC;
    error = residency_evict_some(cache, segment, (unsigned)((bytes + segment->unit - 1) / segment->unit),
                                 need, &failure);
    return error == -ENOMEM ? -ENOSPC : error;
}

uint64_t cache_release(struct cache *cache, uint64_t bytes)
{
    uint64_t held, released = 0;
    int error = 0;

    pthread_mutex_lock(&cache->lock);
    loans_settle(cache);
    while (released < bytes && !error) {
        struct need need;

        held = cache->frames.held;
        error = release_step(cache, bytes - released, &need);
        if (cache->frames.held < held)
            released += held - cache->frames.held;
        if (error == -EAGAIN)
            error = cache_satisfy(cache, &need);
    }
    pthread_mutex_unlock(&cache->lock);
    return released;
}

void cache_trim_host(struct cache *cache)
{
    struct slot *idle;

    pthread_mutex_lock(&cache->lock);
    idle = slots_idle(&cache->slots, &cache->streams);
    pthread_mutex_unlock(&cache->lock);
    idle = slots_discard(&cache->slots, idle);
    pthread_mutex_lock(&cache->lock);
    slots_unreserve(&cache->slots, 0, idle);
    pthread_cond_broadcast(&cache->changed);
    pthread_mutex_unlock(&cache->lock);
}

void cache_set_link(struct cache *cache, const struct cache_link *link)
{
    pthread_mutex_lock(&cache->lock);
    cache->link = *link;
    pthread_mutex_unlock(&cache->lock);
}

struct statistics *cache_statistics(struct cache *cache)
{
    return &cache->statistics;
}

void cache_counters(struct cache *cache, struct statistics *out)
{
    pthread_mutex_lock(&cache->lock);
    *out = cache->statistics;
    pthread_mutex_unlock(&cache->lock);
}

void cache_usage(struct cache *cache, struct cache_usage *usage)
{
    pthread_mutex_lock(&cache->lock);
    *usage = (struct cache_usage){.live = cache->live_bytes,
                                  .frames = cache->frames.held,
                                  .outside = cache->frames.outside,
                                  .hbm_limit = cache->frames.limit,
                                  .host = cache->slots.held,
                                  .host_limit = cache->slots.limit,
                                  .spilled = cache->spilled_bytes,
                                  .operations = cache->tick - cache->asked_about};
    pthread_mutex_unlock(&cache->lock);
}

uint64_t cache_used(struct cache *cache)
{
    const struct segment *segment;
    uint64_t used;

    pthread_mutex_lock(&cache->lock);
    used = cache->frames.held + cache->frames.outside - cache->frames.free_bytes;
    DL_FOREACH(cache->idle, segment)
    for (unsigned i = 0; i < segment->pieces; i++)
        used -= segment->piece[i].frame ? segment->unit : 0;
    pthread_mutex_unlock(&cache->lock);
    return used;
}

bool cache_answers(struct cache *cache, unsigned milliseconds)
{
    if (!lock_in_time(&cache->lock, milliseconds))
        return false;
    pthread_mutex_unlock(&cache->lock);
    return true;
}
