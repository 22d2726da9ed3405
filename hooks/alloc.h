/*
 * alloc.h - memory that may be spilled, for the job: what cuMemAlloc and cuMemFree do. Threads: any.
 */
#ifndef HBMSPILL_HOOKS_ALLOC_H
#define HBMSPILL_HOOKS_ALLOC_H

#include "hooks/gpu.h"

/* Bytes on the current device; *address is set where *status is CUDA_SUCCESS. False: the driver is to do it.
 */
bool alloc_take(CUdeviceptr *address, size_t size, CUresult *status);
/* Given back once all that is queued on it has completed. */
CUresult alloc_give(CUdeviceptr address);

#endif
