/*
 * host_alloc.h - pinned host memory that the job asks for.
 *
 * Threads: any; one lock, a leaf.
 */
#ifndef HBMSPILL_HOOKS_HOST_ALLOC_H
#define HBMSPILL_HOOKS_HOST_ALLOC_H

#include "shim/functions.h"
#include <stdint.h>

/*
 * What cuPointerGetAttribute says of an address in memory from the pool: as of memory of cuMemHostAlloc.
 * NOT_SUPPORTED: not in such memory, or an attribute that the driver itself answers rightly.
 */
CUresult host_attribute(void *value, CUpointer_attribute attribute, uint64_t address);
/* cuPointerSetAttribute, also of memory from the pool. */
CUresult host_set_attribute(const void *value, CUpointer_attribute attribute, CUdeviceptr address);
/* The allocation from the pool that an address lies in. */
bool host_range(uint64_t address, uint64_t *base, uint64_t *size);
/* A context went: what was pinned in it is neither pinned nor the job's any longer. */
void host_forget(CUcontext context);

#endif
