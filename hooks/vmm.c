/*
 * vmm.c - the job's own use of virtual memory management. What region.h does not take is left as it is,
 * resident, and counted.
 */
#include "hooks/counters.h"
#include "hooks/host_account.h"
#include "hooks/operation.h"
#include "hooks/outside.h"
#include "hooks/region.h"
#include "hooks/retry.h"
#include "hooks/window.h"

CUresult hook_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                          unsigned long long flags)
{
    struct gpu *gpu; /* of the device that is asked for: a thread without a context may ask */
    CUresult status;

    if (!shim_active() || !prop || !handle)
        return hbmspill_real.cuMemCreate(handle, size, prop, flags);
    if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return host_account_create(handle, size, prop, flags);
    if (region_create(handle, size, prop, flags, &status))
        return status;
    count_add(allocations, 1);
    count_add(passed_allocations, 1);
    gpu = gpu_of_device(prop->location.id);
    outside_make_room(gpu, size);
    status = RETRY_AFTER_ROOM_OF(gpu, size, hbmspill_real.cuMemCreate(handle, size, prop, flags));
    if (status == CUDA_SUCCESS)
        outside_add(gpu, OUTSIDE_HANDLE, *handle, size);
    return status;
}

CUresult hook_cuMemRelease(CUmemGenericAllocationHandle handle)
{
    CUresult status;

    if (shim_active() && region_release(handle, &status))
        return status;
    status = hbmspill_real.cuMemRelease(handle);
    if (status == CUDA_SUCCESS && shim_active())
        outside_remove(OUTSIDE_HANDLE, handle);
    return status;
}

CUresult hook_cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                       unsigned long long flags)
{
    CUmemGenericAllocationHandle real = handle;
    CUresult status;

    if (shim_active()) {
        if (region_map(address, size, offset, handle, flags, &status))
            return status;
        status = region_real_handle(handle, &real);
        if (status != CUDA_SUCCESS)
            return status;
    }
    status = hbmspill_real.cuMemMap(address, size, offset, real, flags);
    if (status == CUDA_SUCCESS && shim_active())
        outside_map(address, real);
    return status;
}

CUresult hook_cuMemUnmap(CUdeviceptr address, size_t size)
{
    CUresult held = window_submit(); /* it may use what is unmapped */
    CUresult status;

    if (shim_active() && region_unmap(address, size, &status))
        return held != CUDA_SUCCESS ? held : status;
    status = hbmspill_real.cuMemUnmap(address, size);
    if (status == CUDA_SUCCESS && shim_active())
        outside_unmap(address, size);
    return held != CUDA_SUCCESS ? held : status;
}

CUresult hook_cuMemAddressReserve(CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr wish,
                                  unsigned long long flags)
{
    CUresult status;

    if (shim_active() && region_reserve(address, size, alignment, wish, flags, &status))
        return status;
    return hbmspill_real.cuMemAddressReserve(address, size, alignment, wish, flags);
}

CUresult hook_cuMemAddressFree(CUdeviceptr address, size_t size)
{
    CUresult status;

    if (shim_active() && region_unreserve(address, size, &status))
        return status;
    return hbmspill_real.cuMemAddressFree(address, size);
}

CUresult hook_cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count)
{
    CUresult status;

    if (shim_active() && region_set_access(address, size, access, count, &status))
        return status;
    return hbmspill_real.cuMemSetAccess(address, size, access, count);
}

CUresult hook_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address)
{
    CUresult status;

    if (shim_active() && region_get_access(flags, location, address, &status))
        return status;
    return hbmspill_real.cuMemGetAccess(flags, location, address);
}

CUresult hook_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                     CUmemGenericAllocationHandle handle)
{
    CUresult status;

    if (shim_active() && region_properties(prop, handle, &status))
        return status;
    return hbmspill_real.cuMemGetAllocationPropertiesFromHandle(prop, handle);
}

/* Of an address of ours that is no region's it is the frame's handle, and the frame stays there. */
CUresult hook_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    CUresult status = CUDA_SUCCESS;

    if (shim_active() && region_retain(handle, (uintptr_t)address, &status))
        return status;
    if (shim_active())
        status = operation_fix((uintptr_t)address, "cuMemRetainAllocationHandle");
    return status == CUDA_SUCCESS ? hbmspill_real.cuMemRetainAllocationHandle(handle, address) : status;
}

CUresult hook_cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                           CUmemAllocationHandleType type, unsigned long long flags)
{
    CUresult status = shim_active() ? region_real_handle(handle, &handle) : CUDA_SUCCESS;

    return status == CUDA_SUCCESS ? hbmspill_real.cuMemExportToShareableHandle(out, handle, type, flags)
                                  : status;
}

CUresult hook_cuMulticastBindMem(CUmemGenericAllocationHandle multicast, size_t offset,
                                 CUmemGenericAllocationHandle handle, size_t at, size_t size,
                                 unsigned long long flags)
{
    CUresult status = shim_active() ? region_real_handle(handle, &handle) : CUDA_SUCCESS;

    return status == CUDA_SUCCESS
               ? hbmspill_real.cuMulticastBindMem(multicast, offset, handle, at, size, flags)
               : status;
}
