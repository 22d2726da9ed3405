/*
 * verify.h - HBMSPILL_VERIFY: what comes back into HBM is what was moved out.
 *
 * Behind every copy of the cache's, in its stream, the piece is read from HBM once more, into pinned memory
 * of ours, and a host function takes its checksum (XXH3). Out: it is kept with the slot, and what the slot
 * received has to have it too. In: the piece in HBM has to have the one that was kept; where the job has
 * written into the slot meanwhile there is none, and the piece has to be what the slot has. So a fault of the
 * link, of either memory and of the cache itself is seen before the job can use what came of it.
 *
 * Nothing waits for it but the streams of the cache: a host function makes no call of CUDA's. CUDA may run
 * host functions one after the other, though: one of the job's that waits for a thread which waits for room
 * would now wait for ever, so this is for looking for faults, not for every day.
 *
 * With the cache's lock held, but for the function that is told of a mismatch: any thread.
 */
#ifndef HBMSPILL_CACHE_VERIFY_H
#define HBMSPILL_CACHE_VERIFY_H

#include "cache/device_ops.h"
#include "cache/statistics.h"
#include <stdbool.h>

struct segment;
struct slot;

/* A piece that is not what it should be, and the first allocation in it that is alive. */
struct cache_mismatch {
    uint64_t address, size; /* of the allocation; size as it was asked for, 0 where it is freed by now */
    uint32_t site;          /* cache_set_site */
    uint64_t piece, piece_size;
    bool out; /* on its way to the host already */
};

/* Of a slot, for each piece: the checksum of what was moved there. */
struct slot_sum {
    uint64_t sum; /* written and read by host functions, in the order of the slot's edges */
    bool known;   /* by the time that all that is queued has run */
};

struct verify {
    const struct device_ops *ops;
    struct statistics *statistics;
    void *scratch[2]; /* of STREAM_IN and STREAM_OUT, a frame long; NULL: nothing is verified */
    void *ctx;
    void (*mismatch)(void *ctx, const struct cache_mismatch *mismatch); /* does not return */
};

/* Without the lock. 0 or an error of host_alloc. */
int verify_init(struct verify *verify, const struct device_ops *ops, struct statistics *statistics,
                uint64_t piece_size, void *ctx, void (*mismatch)(void *, const struct cache_mismatch *));
void verify_fini(struct verify *verify);
/* Behind the copy of a piece, out to its slot or in from it, in that stream. 0 or -errno. */
int verify_piece(struct verify *verify, uint64_t stream, const struct segment *segment, unsigned piece,
                 bool out);
/* The job is going to write into the slot, or it is somebody else's. */
void verify_forget(struct slot *slot);

#endif
