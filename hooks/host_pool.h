/*
 * host_pool.h - what the job's memory pools of host memory have pinned, in the account of pinned memory.
 *
 * A pool pins what it reserves, not what is allocated of it, and gives that back by rules of its own: above
 * its release threshold at synchronizations, when it is trimmed, some time after it was destroyed. So the
 * driver is asked (CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) after each call of the job's that may have changed
 * it, and where somebody looks for room; what an allocation asks for is in the account while it is made. The
 * account is above what is pinned where the driver gave something back at a synchronization of ours, until
 * the next look; and below it only where a pool reserves more than a granule beyond what is asked for, until
 * that call is back.
 *
 * A pool that was destroyed cannot be asked. What it had stays in the account until all of it was given back
 * and the streams that this was done in, or their context, have been synchronized with.
 *
 * Threads: any; one lock, a leaf, held across no call of the driver's. Bytes.
 */
#ifndef HBMSPILL_HOOKS_HOST_POOL_H
#define HBMSPILL_HOOKS_HOST_POOL_H

#include "hooks/gpu.h"

/* How many are not done with: where it is 0 nothing below costs more than a look at it. */
extern atomic_uint host_pools;

/* A pool of host memory is known from now on, if it was not. */
void host_pool_made(CUmemoryPool pool);
/* Before the driver destroys it: nobody asks it any more. */
void host_pool_leaves(CUmemoryPool pool);
/* It did, or did not. */
void host_pool_left(CUmemoryPool pool, bool destroyed);

/* Around a call that allocates from such a pool. */
#define HOST_POOL_ALLOC(pool, size, out, call)                                                               \
    ({                                                                                                       \
        uint64_t expected = host_pool_expect(pool, size);                                                    \
        CUresult pool_status = (call);                                                                       \
        if (host_account_refused(pool_status) && host_account_make_room())                                   \
            pool_status = (call);                                                                            \
        host_pool_allocated(pool, expected, pool_status == CUDA_SUCCESS ? *(out) : 0);                       \
        host_account_tell(pool_status, size);                                                                \
        pool_status;                                                                                         \
    })
/* Takes what may be pinned for it, and says how much. */
uint64_t host_pool_expect(CUmemoryPool pool, size_t size);
/* The call is back; address 0: there was nothing to be had. */
void host_pool_allocated(CUmemoryPool pool, uint64_t expected, CUdeviceptr address);

/* An address is to be freed: whose it is. NULL: of no such pool. */
struct host_piece *host_pool_take(CUdeviceptr address);
/* The driver did that, at once or in a stream; or did not, and it is the pool's again. */
void host_pool_freed(struct host_piece *piece);
void host_pool_freed_in(struct host_piece *piece, CUstream stream, bool per_thread);
void host_pool_put_back(struct host_piece *piece);

/* Asks all, where there are any. */
void host_pools_ask(void);
/* The same after a synchronization of the job's that succeeded: with all of a context (NULL: the current
 * one), with a stream. */
void host_pools_waited(CUcontext context);
void host_pools_waited_for(CUstream stream, bool per_thread);

#endif
