/*
 * cache.h - the spill cache of one device: what the hooks call.
 *
 * The job's allocations keep their addresses for life; what is behind an address - HBM frames, or a slot in
 * the pinned host tier - is the cache's business. An operation of the job goes
 *
 *     cache_op_begin    its allocations are pinned, brought into HBM, and its stream is made to wait for them
 *     (the hook forwards it to the driver)
 *     cache_op_end      it gets its number in the stream, last uses are noted, pins go
 *
 * Threads: any; one lock per cache, held for bookkeeping and for driver calls that do not wait, never while
 * something waits for the GPU, for memory to be pinned, or between begin and end. Errors: 0 or -errno.
 * -ENOMEM comes with a struct cache_failure that says why; -EIO is an error of the driver.
 */
#ifndef HBMSPILL_CACHE_CACHE_H
#define HBMSPILL_CACHE_CACHE_H

#include "cache/device_ops.h"
#include "cache/statistics.h"
#include "cache/stream.h"
#include "cache/verify.h"

struct cache;
struct segment;

enum cache_mutation { /* deliberate faults that the tests must notice */
                      CACHE_MUTATION_NONE,
                      CACHE_MUTATION_FLIP_SLOT_BIT,
                      CACHE_MUTATION_SKIP_COPY_IN,
};

/* Rates of the link to the host, bytes a second: each way, and while both are busy. */
struct cache_link {
    double in, out, in_both, out_both;
};

struct cycle;
struct schedule;

/*
 * Who makes better schedules for rounds than the cache itself does. Called without the cache's lock, by the
 * thread that submits a window. ask: twice for each round, first for a schedule that is `kept' from before,
 * then, unless it came, for one that has to be made; the cycle is the cache's, predicted the time of a round
 * under the schedule it has, in nanoseconds. answer: -EAGAIN: not yet; 0: a schedule, the cache's from then
 * on; -ENOENT: there is none, or will be none; another error: the same, and making one would be in vain. Both
 * return at once.
 */
struct cache_planner {
    void *ctx;
    void (*ask)(void *ctx, const struct cycle *cycle, uint64_t hash, double predicted, bool kept);
    int (*answer)(void *ctx, uint64_t hash, struct schedule **out);
};

/*
 * Who is told what the cache does: called with its lock held, must neither wait nor call it. Any may be NULL.
 */
struct cache_observer {
    void *ctx;
    /* Around the queueing of copies of adjacent pieces from or to an address, in a stream of the cache's. */
    void (*copy_begin)(void *ctx, uint64_t stream, bool in, uint64_t address, uint64_t size);
    void (*copy_end)(void *ctx, uint64_t stream, bool submitted);
    /* A stream of the job's stood still from an event on, which has happened, as its wait has (stall.h: not
     * every wait is timed). */
    void (*stalled)(void *ctx, uint64_t stream, uint64_t before, double nanoseconds, uint64_t bytes);
};

enum cache_policy { CACHE_POLICY_LRU, CACHE_POLICY_BIP, CACHE_POLICY_NEXTUSE };

struct cache_config {
    uint64_t
        frame_size; /* bytes, a power of two, a multiple of the granularity; segments are multiples of it */
    uint64_t hbm_limit;   /* bytes of HBM for frames and for the job's unmovable memory */
    uint64_t host_limit;  /* bytes of pinned host memory */
    uint64_t window_size; /* bytes of address space to reserve first; 0: 16 times both tiers */
    unsigned reframe;     /* for tests: at the first round that is followed frames become so many times as
                             large (2, 4 or 8), whatever that gains; 0: as reframe.h has it */
    uint64_t slot_most;   /* bytes of pinned memory that are got in one piece, at most; 0: as slot.h has it */
    enum cache_policy policy;
    bool apart;  /* no two allocations in one piece of memory (cache_isolate) */
    bool strict; /* unbind what is evicted at once, so that a missed touch faults */
    enum cache_mutation mutation;
    bool follow;                         /* look for rounds that repeat, and follow schedules made for them */
    const struct cache_planner *planner; /* NULL: there is none */
    const struct cache_observer *observer; /* NULL: nobody is told */
    bool prefetch; /* plans bring in what operations are going to need, ahead of them */
    bool verify;   /* verify.h; mismatch must not return */
    void *verify_ctx;
    void (*mismatch)(void *ctx, const struct cache_mismatch *mismatch);
    unsigned ahead; /* frames that may come in ahead of their use, 0: as many as there is room for */
};

/*
 * The size of frames for so much HBM: the granularity, doubled until HBM is at most 65536 frames, at most 32
 * MiB. A frame costs driver calls when it is bound elsewhere, which rounds that repeat do not do; a large one
 * rounds more up: a decoding loop whose caches have 6 MiB each reaches 0.98 of the bound at 1.1 times HBM
 * with frames of 2 MiB, 0.63 with 8, and other jobs the same with either (hbmspill-replay --frame, modelled).
 * Only where nearly all is bound anew all the time are large ones better, as in scanned layers at twice HBM:
 * then they become larger (reframe.h).
 */
uint64_t cache_frame_size(uint64_t granularity, uint64_t hbm);

enum cache_tier { CACHE_TIER_HBM, CACHE_TIER_HOST };

struct cache_failure {
    enum cache_tier tier;            /* the one that is full */
    uint64_t asked;                  /* bytes the operation or allocation needs in HBM at once */
    uint64_t hbm_limit, hbm_outside; /* bytes */
    uint64_t host_limit, host_used;
};

enum { CACHE_READ = 1, CACHE_WRITE = 2 };

struct cache_touch {
    uint64_t address; /* anywhere in an allocation; foreign addresses are ignored */
    unsigned access;  /* CACHE_READ | CACHE_WRITE */
};

enum { CACHE_OP_INLINE = 24 };

/* One operation between begin and end; the caller's memory, contents private to the cache. */
struct cache_op {
    unsigned stream;
    unsigned count, capacity;
    struct cache_touch_segment {
        struct segment *segment;
        unsigned access;
        bool in_slot; /* done in its slots, at their addresses */
        bool linked;  /* some of it is reached over the link, at its own */
    } * touched, inline_touched[CACHE_OP_INLINE];
    uint64_t id;
    bool open;        /* it may touch anything */
    bool stays;       /* what it touches has to be in HBM, all of it */
    bool timed;       /* how long it takes is being measured */
    uint64_t ahead;   /* operations in its stream when it began */
    bool handed_over; /* it comes after waits of ours, or all that is ahead of it: no early start */
    struct cache_failure failure;
};

int cache_create(const struct device_ops *ops, const struct cache_config *config, struct cache **out);
/* Everything queued must have completed. Returns everything to the device and the host. */
void cache_destroy(struct cache *cache);

/*
 * Address space for size bytes; frames come with the first touch. The memory may be used on any stream at
 * once: what the address was used for before is waited for by whoever touches it first. -ENOSPC: no address
 * space or memory for records of ours; the allocation may be left to the driver.
 */
int cache_alloc(struct cache *cache, uint64_t size, uint64_t *address, struct cache_failure *failure);
/*
 * Stream NULL: a free without a stream (cuMemFree). The contents are dead at once; reuse comes after all that
 * was queued. -ENOENT: not an address of ours. -EINVAL: inside an allocation, or freed already.
 */
int cache_free(struct cache *cache, uint64_t address, const struct stream_key *stream);
/* The live allocation an address lies in; false where it is not in one of ours. Size as it was asked for. */
bool cache_find(struct cache *cache, uint64_t address, uint64_t *base, uint64_t *size);
/* Without a lock: false means the address is certainly not ours. */
bool cache_maybe_ours(const struct cache *cache, uint64_t address);

/*
 * Without a lock, and only to save time: what begin looks at is on its way into the CPU's cache afterwards.
 * To be called as soon as the addresses are known.
 */
void cache_expect(const struct cache *cache, const struct cache_touch *touches, unsigned count);
int cache_op_begin(struct cache *cache, struct cache_op *op, struct stream_key stream,
                   const struct cache_touch *touches, unsigned count);
/*
 * Whether what an operation touches can be in HBM at once, whatever else has to leave. If not, begin has it
 * reach the rest over the link, where the driver can do that (device_ops.h: host_create), or says -ENOMEM.
 */
bool cache_op_fits(struct cache *cache, const struct cache_touch *touches, unsigned count);
/*
 * The same as begin for an operation that may touch every live allocation. What is not in HBM is reached over
 * the link.
 */
int cache_op_begin_all(struct cache *cache, struct cache_op *op, struct stream_key stream);
/* submitted: the driver took it. After a failed begin there is no end. */
void cache_op_end(struct cache *cache, struct cache_op *op, bool submitted);

/*
 * For a copy: like begin, but data that is spilled (or was never in HBM while HBM is full) stays in its
 * slots. *in_slot says that one end is host memory: the copy is then to be issued by unified addresses, in
 * the parts that cache_copy_part gives. Stream order is kept as for any operation.
 */
int cache_copy_begin(struct cache *cache, struct cache_op *op, struct stream_key stream, uint64_t dst,
                     uint64_t src, uint64_t size, bool *in_slot);
/*
 * Between begin and end: replaces both addresses, where they are spilled, by where the data is, and *size,
 * what is left of the copy from there on, by the bytes that are side by side there. -EINVAL: another thread
 * has freed it meanwhile.
 */
int cache_copy_part(struct cache *cache, const struct cache_op *op, uint64_t *dst, uint64_t *src,
                    uint64_t *size);

/*
 * A window: operations that the job has issued and that are now submitted together, in order. Between begin
 * and end each of them goes through cache_window_step, with its position, and then its own begin and end (a
 * free: cache_free). One window at a time; begin waits for the one before. A window that could not be planned
 * is carried out all the same.
 */
struct cache_planned_op {
    const struct cache_touch *touches;
    unsigned count;
    uint64_t free_address; /* what is freed at this position, 0 if nothing */
    uint64_t kind; /* a hash of what it does, by which it is told from others; 0 where there is none */
};

void cache_window_begin(struct cache *cache, const struct cache_planned_op *ops, unsigned count);
void cache_window_step(struct cache *cache, unsigned position);
void cache_window_end(struct cache *cache);
/*
 * Where operations are not held: the one that begins next is a window by itself, not a free. Rounds are found
 * and followed as with windows; nothing is known of frees to come. Does nothing while another is in a window.
 */
void cache_window_alone(struct cache *cache, const struct cache_planned_op *op);
/*
 * Whether a copy from the host into an allocation gives frames to what had no contents: then it is a part of
 * the round as an operation is, and goes alone even where others are held. False while memory is not short.
 */
bool cache_copy_is_birth(struct cache *cache, uint64_t dst, uint64_t size);
/* HBM was full once: a window is worth its while. Any thread, no lock. */
bool cache_under_pressure(const struct cache *cache);

/* Brings an allocation in, waits until it is there, and keeps it there for good. */
int cache_fix(struct cache *cache, uint64_t address, struct cache_failure *failure);

/* The job is about to destroy a stream. */
int cache_stream_retire(struct cache *cache, struct stream_key stream);

/*
 * Around the queueing of a host function, or of anything else that another thread of the job may have to end:
 * what its stream does behind it leaves HBM last, since that thread may wait for room. Whether or not it was
 * queued in the end; held is called where hold returned 0.
 */
int cache_stream_hold(struct cache *cache, struct stream_key stream);
void cache_stream_held(struct cache *cache, struct stream_key stream);
/* Whether what is now at the stream's end stands behind one that has not ended; *any: whether anything does.
 */
bool cache_stream_behind(struct cache *cache, struct stream_key stream, bool *any);

/*
 * While it is on, an event is recorded after every operation, and for all that was queued before it is turned
 * on. For captures: a stream that captures takes no event that could be waited for, nor does the legacy
 * stream beside it, so by then nothing may be left to record there.
 */
int cache_record_always(struct cache *cache, bool on);

/*
 * Makes all memory of ours inaccessible but what these addresses are in: nothing is moved, and what is made
 * inaccessible is mapped again when an operation touches it. Waits for the GPU; nobody else may begin an
 * operation meanwhile.
 */
int cache_isolate(struct cache *cache, const struct cache_touch *touches, unsigned count);

/* HBM the job holds outside the frames changed by so many bytes (either sign). */
void cache_outside(struct cache *cache, int64_t bytes);
/* Gives HBM back to the driver, moving data out if need be; returns the bytes released. Waits for the GPU. */
uint64_t cache_release(struct cache *cache, uint64_t bytes);

/* Gives pooled slots back that nothing uses any more. */
void cache_trim_host(struct cache *cache);

/* What was measured of the link; until then that of a PCIe 4 card is believed. */
void cache_set_link(struct cache *cache, const struct cache_link *link);

struct statistics *cache_statistics(struct cache *cache);
/* A copy, while others count. */
void cache_counters(struct cache *cache, struct statistics *out);

/* The state of the tiers, in bytes where nothing else is said. */
struct cache_usage {
    uint64_t live; /* asked for and not freed (virtual) */
    uint64_t frames, outside, hbm_limit;
    uint64_t host, host_limit; /* pinned, pooled slots included */
    uint64_t spilled;          /* only in the host tier */
    uint64_t operations;       /* begun so far: a count */
};
void cache_usage(struct cache *cache, struct cache_usage *usage);
/* HBM with contents, or that is not ours: without frames that are free, or whose contents are dead. Looks at
 * all that was freed and still has frames. */
uint64_t cache_used(struct cache *cache);

/*
 * Whether the cache's lock comes free within so many milliseconds. At exit it may not: a handler of a signal
 * that calls exit has its own thread stand still with whatever it holds.
 */
bool cache_answers(struct cache *cache, unsigned milliseconds);

#endif
