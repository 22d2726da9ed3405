/*
 * internal.h - the cache as its own files see it: cache.c (the interface), operation.c (begin, end),
 * residency.c (evict, fill, make room).
 */
#ifndef HBMSPILL_CACHE_INTERNAL_H
#define HBMSPILL_CACHE_INTERNAL_H

#include "cache/borrow.h"
#include "cache/cache.h"
#include "cache/history.h"
#include "cache/known.h"
#include "cache/policy.h"
#include "cache/stall.h"
#include "cache/timing.h"
#include <pthread.h>

enum { CACHE_KNOWN = 8 }; /* rounds that are remembered */

struct cache {
    /* Guards everything below. Rank: taken after no other lock of ours; nothing is taken inside it. */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* pins went, a slot came back */

    const struct device_ops *ops;
    struct cache_config config;
    struct statistics statistics;
    struct stall stall;
    struct verify verify;
    struct dearest dearest;
    struct streams streams;
    struct frames frames;
    struct slots slots;
    struct segments segments;
    struct policy policy;
    struct segment *idle; /* segments with frames but without contents, least recently used first */
    struct {
        unsigned stream;
        uint64_t seq;
    } newest;             /* operation that was submitted */
    uint64_t tick;        /* operations begun, and those that were only asked about */
    uint64_t asked_about; /* the latter */
    unsigned in_flight;   /* operations between begin and end */
    bool pressure;        /* HBM was full once: events are worth recording. Read without the lock, too */
    bool record_always;   /* cache_record_always */
    uint64_t live_bytes;  /* asked for by the job */
    struct edges open;    /* the last open operation of each stream, until it is known to have completed */
    unsigned opens_begun; /* open operations between begin and end */
    bool in_window;
    struct plan *plan;            /* of the window being carried out, NULL outside */
    uint64_t window;              /* number of windows planned */
    uint64_t plan_base;           /* position of the window's first operation among all of windows */
    uint64_t plan_position;       /* of the operation being carried out now */
    uint32_t plan_phase;          /* its phase in the turns of the round followed */
    uint32_t births, last_births; /* allocations since the last window was planned, and in the time before */
    uint32_t *by_birth;           /* place of birth in the round before: first use in this one */
    uint32_t birth_capacity;
    uint64_t spilled_bytes;
    uint64_t lives; /* segments that came to life so far */
    struct history history;
    struct timing timing;
    struct known *known[CACHE_KNOWN];
    struct known *following; /* the round that the windows are part of, NULL: none */
    struct known *at_home;   /* the one whose homes segments have */
    struct known *left_home; /* the one whose homes they had until it was left; no frame is gone since */
    uint64_t settled_at;     /* position until which who is in another's home has to leave it */
    uint32_t phase;          /* of the next operation in it */
    uint64_t looked_at;      /* operations there were when a round was looked for last */
    struct cache_link link;
    struct pending { /* fetches that were due and lacked frames, or are counted until their use, in order */
        struct segment *segment;
        uint64_t life;
        unsigned first, count, issued; /* pieces; those of them that were fetched */
        uint64_t use;    /* position that needs it; from then on it is the operation's business */
        uint64_t leaves; /* as segment->leaves */
    } * pending;
    uint32_t pending_count, pending_capacity;
    unsigned reframe_tries; /* times that frames were to become larger (reframe.h) */
    struct loan_stuck stuck[LOANS_STUCK];
    unsigned stuck_count;
};

/*
 * Bytes of HBM for what is planned. What small allocations take changes a little with what a job keeps, and
 * from one run of it to the next: in steps of a 256th of HBM, that plans stay good.
 */
static inline uint64_t cache_plannable(const struct cache *cache)
{
    uint64_t step = cache->frames.limit / 256 + 1;
    uint64_t small = (segments_small(&cache->segments) + step - 1) / step * step;
    uint64_t taken = cache->frames.outside + small;

    return cache->frames.limit > taken ? cache->frames.limit - taken : 0;
}

/* What has to happen, without the lock, before something can go on (returned with -EAGAIN). */
struct need {
    enum need_kind { NEED_EVENT, NEED_SLOT, NEED_CHANGE } kind;
    uint64_t event;
    uint64_t size;        /* of the slot to make; already set aside */
    struct slot *evicted; /* pooled slots to give back for it */
};

/* Releases the lock, does what is needed, takes the lock. 0 to try again. */
int cache_satisfy(struct cache *cache, struct need *need);
/* The index of a stream of the job. May release and take the lock. */
int cache_stream_index(struct cache *cache, struct stream_key stream, unsigned *index);

/* Frames, contents on their way, mapped: afterwards segment_usable(). -EAGAIN with *need; -ENOMEM with
 * failure. */
int residency_fill(struct cache *cache, struct segment *segment, struct need *need,
                   struct cache_failure *failure);
/*
 * `count' pieces from `first' on, without moving anything out: -EBUSY where free frames and dead contents do
 * not suffice for all of them; those that they suffice for are filled.
 */
int residency_fill_free(struct cache *cache, struct segment *segment, unsigned first, unsigned count,
                        struct need *need);
/*
 * The segment to evict, NULL if there is none. What stands behind a host function comes last: it can be
 * waited for only if that function waits for nobody who may be waiting here.
 */
struct segment *residency_victim(struct cache *cache);
bool residency_behind(struct cache *cache, const struct segment *segment);
/*
 * Contents of `count' pieces from `first' on to their slots, frames to the free list, run by run; the segment
 * must be movable and resident. -ENOMEM: nothing was moved. 0 where some of it was, though the host tier is
 * full then.
 */
int residency_evict(struct cache *cache, struct segment *segment, unsigned first, unsigned count,
                    struct need *need, struct cache_failure *failure);
/* The last pieces that are filled, so many of them, or all there are. */
int residency_evict_some(struct cache *cache, struct segment *segment, unsigned wanted, struct need *need,
                         struct cache_failure *failure);
/* A segment with all its slots, without frames and contents, has its contents there from now on. */
void residency_into_slot(struct cache *cache, struct segment *segment);
/* Frames without contents to the free list. */
int residency_strip(struct cache *cache, struct segment *segment, struct need *need);
/* True if the segment's missing frames are there without moving anything. */
bool residency_room(struct cache *cache, struct segment *segment);
/* Bytes of its contents that are in slots alone. */
uint64_t residency_spilled(const struct segment *segment);
/* All contents are dead: slots go back to the pool, frames stay. */
void residency_forget(struct cache *cache, struct segment *segment);
/* The segment has contents in frames from now on. */
void residency_contents(struct cache *cache, struct segment *segment);

void residency_idle_add(struct cache *cache, struct segment *segment);
void residency_idle_remove(struct cache *cache, struct segment *segment);

void cache_failure_fill(struct cache *cache, struct cache_failure *failure, enum cache_tier tier,
                        uint64_t asked);

#endif
