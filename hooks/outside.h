/*
 * outside.h - device memory of the job that the cache does not manage: how much of it there is.
 *
 * Small allocations, managed memory, the job's own VMM handles. Its size is taken off what frames may use.
 * Threads: any; one lock, a leaf.
 */
#ifndef HBMSPILL_HOOKS_OUTSIDE_H
#define HBMSPILL_HOOKS_OUTSIDE_H

#include "hooks/gpu.h"

enum outside_kind { OUTSIDE_ADDRESS, OUTSIDE_HANDLE, OUTSIDE_POOL };

/* Nothing is noted for a device that has no gpu (NULL) yet. */
void outside_add(struct gpu *gpu, enum outside_kind kind, uint64_t key, uint64_t bytes);
/* A handle of pinned host memory of the job's, counted by host_account.h, which is told when it went. False:
 * there is no memory to note it in. */
bool outside_add_host(uint64_t handle, uint64_t bytes);
void outside_remove(enum outside_kind kind, uint64_t key);
/* A handle's memory lives on while it is mapped. */
void outside_map(uint64_t address, uint64_t handle);
void outside_unmap(uint64_t address, uint64_t size);

/* What a pool of the job's holds from the device (CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), as of now. */
void outside_pool(CUmemoryPool pool);

/*
 * Before `bytes' are asked of the driver in one piece: frames make way where the limit would be passed. Small
 * pieces mostly come out of what a pool holds already, so for them it is done afterwards, with 0, if at all.
 */
void outside_make_room(struct gpu *gpu, uint64_t bytes);

#endif
