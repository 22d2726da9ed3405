/*
 * pool.h - the job's memory pools: whose allocations may come from the cache instead.
 */
#ifndef HBMSPILL_HOOKS_POOL_H
#define HBMSPILL_HOOKS_POOL_H

#include "hooks/gpu.h"

enum pool_kind {
    POOL_MOVABLE, /* of the current device, not to be exported: what the cache gives does as well */
    POOL_DEVICE,  /* of another device, or made to be exported */
    POOL_HOST,    /* pinned host memory (hooks/host_pool.h) */
    POOL_OTHER,   /* managed memory, or another process's */
};

/* Any thread. */
enum pool_kind pool_kind(CUmemoryPool pool);
/* The pool that cuMemAllocAsync uses now; NULL where there is none. */
CUmemoryPool pool_current(void);

#endif
