/*
 * region.h - memory that the job asks for by virtual memory management of its own, as JAX's bfc, platform and
 * vmm allocators do: a handle for each region, an address of its size, one mapping, access for its device.
 *
 * Where it goes that way, the region is the cache's, and is spilled as a whole like any allocation: what
 * cuMemCreate gives is a number of ours, cuMemAddressReserve the address of the handle of that size made
 * last, and the other calls change nothing but what is noted here. Where it goes another way - the handle is
 * mapped somewhere else, exported, bound to a multicast object - a handle of the driver's is made in its
 * place, as long as it was not mapped yet; afterwards the call is refused with CUDA_ERROR_NOT_SUPPORTED.
 *
 * Done only where the job's variables name such an allocator of JAX's and there is one device: of several,
 * others may be given access. A region of more than half of HBM is left to the driver: no other could make
 * way for it.
 *
 * The handle and the reservation each keep the region; it ends with both. Threads: any; one lock, a leaf.
 */
#ifndef HBMSPILL_HOOKS_REGION_H
#define HBMSPILL_HOOKS_REGION_H

#include "hooks/gpu.h"

/* Whether regions of this job are spilled, if they are not too large. */
bool region_spilled(void);

/* Each of these returns whether the call was about a region and is answered with *status. */
bool region_create(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                   unsigned long long flags, CUresult *status);
bool region_release(CUmemGenericAllocationHandle handle, CUresult *status);
bool region_reserve(CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr wish,
                    unsigned long long flags, CUresult *status);
bool region_unreserve(CUdeviceptr address, size_t size, CUresult *status);
bool region_map(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                unsigned long long flags, CUresult *status);
bool region_unmap(CUdeviceptr address, size_t size, CUresult *status);
bool region_set_access(CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count,
                       CUresult *status);
bool region_get_access(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address,
                       CUresult *status);
bool region_retain(CUmemGenericAllocationHandle *handle, CUdeviceptr address, CUresult *status);
bool region_properties(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle, CUresult *status);

/*
 * The driver's handle for one of the job's: itself, or one that is made now. An error: the region is in use,
 * or there is no memory.
 */
CUresult region_real_handle(CUmemGenericAllocationHandle handle, CUmemGenericAllocationHandle *real);

#endif
