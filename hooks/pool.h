/*
 * pool.h - the job's memory pools: whose allocations may come from the cache instead.
 */
#ifndef HBMSPILL_HOOKS_POOL_H
#define HBMSPILL_HOOKS_POOL_H

#include "hooks/gpu.h"

/* Not movable: on the host, on another device than the current one, or made to be exported. Any thread. */
bool pool_movable(CUmemoryPool pool);
/* The pool that cuMemAllocAsync uses now; NULL where there is none. */
CUmemoryPool pool_current(void);

#endif
