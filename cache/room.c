/*
 * room.c - where frames come from when there are no free ones.
 */
#include "cache/room.h"
#include "cache/home.h"
#include <errno.h>
#include <utlist.h>

void cache_failure_fill(struct cache *cache, struct cache_failure *failure, enum cache_tier tier,
                        uint64_t asked)
{
    *failure = (struct cache_failure){.tier = tier,
                                      .asked = asked,
                                      .hbm_limit = cache->frames.limit,
                                      .hbm_outside = cache->frames.outside,
                                      .host_limit = cache->slots.limit,
                                      .host_used = cache->slots.used};
}

/* Whose eviction was begun and waits; it is ended before another is begun. NULL: there is none. */
static struct segment *leaving(struct cache *cache)
{
    struct segment *segment;

    if (!cache->config.strict)
        return NULL;
    DL_FOREACH(cache->policy.list, segment)
    if (segment->leaving && policy_movable(segment) && !residency_behind(cache, segment))
        return segment;
    return NULL;
}

/* Where there is no room for another slot, those that have one can give more. */
static int evict(struct cache *cache, struct segment *victim, uint64_t bytes, struct need *need,
                 struct cache_failure *failure)
{
    unsigned first, count = (unsigned)((bytes + victim->unit - 1) / victim->unit);
    int error = residency_evict_some(cache, victim, count, need, failure);
    struct segment *other = error == -ENOMEM ? room_in_slot(cache, &first, &count) : NULL;

    return other ? residency_evict(cache, other, first, count, need, failure) : error;
}

/*
 * One step towards a free frame: 0 when something was freed (look again), -EAGAIN, -ENOMEM; -EBUSY where only
 * what is free or dead may be taken and there is none. Dead contents go first, then a victim; both leave
 * frames that can be had at once, with edges. A victim gives as many as are lacking, if it has them.
 */
static int make_room(struct cache *cache, struct segment *for_segment, uint64_t bytes, bool only_free,
                     struct need *need, struct cache_failure *failure)
{
    struct segment *victim, *segment;

    __atomic_store_n(&cache->pressure, true, __ATOMIC_RELAXED);
    policy_order(&cache->policy);
    DL_FOREACH(cache->idle, segment)
    if (policy_movable(segment) && segment != for_segment && !residency_behind(cache, segment))
        return residency_strip(cache, segment, need);
    if (only_free)
        return -EBUSY;
    victim = leaving(cache);
    if (!victim)
        victim = residency_victim(cache);
    if (victim && !residency_behind(cache, victim))
        return evict(cache, victim, bytes, need, failure);
    DL_FOREACH(cache->idle, segment) /* what is left stands behind host functions */
    if (policy_movable(segment) && segment != for_segment)
        return residency_strip(cache, segment, need);
    if (victim)
        return evict(cache, victim, bytes, need, failure);
    if (cache->in_flight > 0) {
        need->kind = NEED_CHANGE;
        return -EAGAIN;
    }
    cache_failure_fill(cache, failure, CACHE_TIER_HBM, for_segment->size);
    return -ENOMEM;
}

static unsigned lacking(const struct segment *segment, unsigned first, unsigned end)
{
    unsigned count = 0;

    for (unsigned i = first; i < end; i++)
        count += segment->piece[i].frame == NULL;
    return count;
}

/* The piece that has the frame, NULL: it is free. */
static const struct binding *frame_owner(const struct frame *frame)
{
    const struct binding *binding = frame->bindings;

    while (binding && binding->frame != frame)
        binding = binding->next;
    return binding;
}

static unsigned piece_of(const struct binding *binding)
{
    return (unsigned)(binding - binding->segment->piece);
}

static bool at_home(const struct binding *binding)
{
    return binding->segment->home && binding->segment->home[piece_of(binding)] == binding->frame;
}

/*
 * A home is not free: 0 to look again; -EBUSY to wait for who has it, where that can wait (only_free) and the
 * schedule has him leave in time; -ENOENT to go elsewhere. When homes are new, one who is in another's has to
 * leave, or the two would go on displacing others round after round.
 */
static int home_taken(struct cache *cache, const struct frame *home, bool only_free, struct need *need,
                      struct cache_failure *failure)
{
    const struct binding *owner = frame_owner(home);
    struct segment *segment;
    int error;

    if (!owner)
        return -ENOENT;
    if (at_home(owner))
        return only_free ? -EBUSY : -ENOENT;
    segment = owner->segment;
    if (cache->plan_position >= cache->settled_at || !policy_movable(segment) ||
        residency_behind(cache, segment))
        return -ENOENT;
    if (segment->state != SEGMENT_RESIDENT)
        return residency_strip(cache, segment, need);
    error = residency_evict(cache, segment, piece_of(owner), 1, need, failure);
    return error == -ENOMEM ? -ENOENT : error; /* a full host tier is no reason to fail here */
}

/* Some free frame for a piece that has no home, or cannot have it; NULL: there is none. */
static struct frame *any_frame(struct cache *cache, const struct segment *segment, struct frame *bound)
{
    struct frame *frame = bound;

    if (segment->unit != cache->frames.size) {
        if (!frames_take_this(&cache->frames, frame))
            frame = frames_take_odd(&cache->frames);
    } else if (cache->at_home) {
        frame = home_elsewhere(cache, segment, bound);
        (void)frames_take_this(&cache->frames, frame);
    } else if (!frames_take_this(&cache->frames, frame)) {
        frame = frames_take(&cache->frames, cache->plan_position, segment->leaves);
    }
    return frame;
}

/*
 * A new frame for a piece of the segment. -ENOSPC: there is no room for it, and nothing free of the other
 * size whose room it could be; while that is in use -EAGAIN, or -EBUSY where nothing is to be waited for.
 */
static int new_frame(struct cache *cache, const struct segment *segment, bool only_free, struct frame **frame,
                     struct need *need)
{
    struct frames *frames = &cache->frames;
    bool odd = segment->unit != frames->size;
    int error = frames_create(frames, segment->unit, frame);

    if (error == -ENOMEM) {
        /* The device has less than was believed: what is held now is what there is. */
        frames->limit = frames->held + frames->outside;
        error = -ENOSPC;
    }
    if (error != -ENOSPC || !(odd ? frames->free : frames->odd))
        return error;
    if (odd) /* those that are released may be homes */
        homes_forget(cache);
    error = frames_release_of(frames, odd ? frames->free : frames->odd,
                              frames->held + frames->outside + segment->unit - frames->limit, &need->event);
    if (!error)
        return frames_create(frames, segment->unit, frame);
    if (error != -EBUSY || only_free)
        return error;
    need->kind = NEED_EVENT;
    return -EAGAIN;
}

int room_frames(struct cache *cache, struct segment *segment, unsigned first, unsigned count, bool only_free,
                struct need *need, struct cache_failure *failure)
{
    for (unsigned i = first; i < first + count; i++) {
        struct binding *binding = &segment->piece[i];

        while (!binding->frame) {
            struct frame *frame = segment->home ? segment->home[i] : NULL;
            int error = 0;

            if (!frames_take_this(&cache->frames, frame) &&
                (!frame || !frames_take_this(&cache->frames, frame = home_exchange(cache, segment, i)))) {
                frame = segment->home ? segment->home[i] : NULL;
                error = frame ? home_taken(cache, frame, only_free, need, failure) : -ENOENT;
                if (error != -ENOENT) {
                    if (error)
                        return error;
                    continue;
                }
                error = 0;
                frame = any_frame(cache, segment, binding->bound);
            }
            if (!frame) {
                error = new_frame(cache, segment, only_free, &frame, need);
                if (error == -ENOSPC)
                    error = make_room(cache, segment, lacking(segment, i, first + count) * segment->unit,
                                      only_free, need, failure);
            }
            if (error)
                return error;
            binding->frame = frame; /* NULL after make_room: look again */
            cache->segments.small_frames += frame && segment->small;
            if (frame && segment->state != SEGMENT_RESIDENT)
                residency_idle_add(cache, segment);
        }
    }
    return 0;
}

bool residency_room(struct cache *cache, struct segment *segment)
{
    const struct frames *frames = &cache->frames;
    uint64_t missing = 0, there = frames->free_bytes;
    struct segment *idle;

    for (unsigned i = 0; i < segment->pieces; i++)
        if (!segment->piece[i].frame)
            missing += segment->unit;
    if (frames->limit > frames->held + frames->outside)
        there += frames->limit - frames->held - frames->outside;
    DL_FOREACH(cache->idle, idle)
    {
        if (there >= missing)
            break;
        if (idle != segment && policy_movable(idle))
            for (unsigned i = 0; i < idle->pieces; i++)
                there += idle->piece[i].frame ? idle->unit : 0;
    }
    return there >= missing;
}
