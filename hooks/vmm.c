/*
 * vmm.c - the job's own use of virtual memory management (XLA's BFC pool, its vmm allocator): left as it is,
 * resident, and counted.
 */
#include "hooks/counters.h"
#include "hooks/host_account.h"
#include "hooks/outside.h"
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
    CUresult status = hbmspill_real.cuMemRelease(handle);

    if (status == CUDA_SUCCESS && shim_active())
        outside_remove(OUTSIDE_HANDLE, handle);
    return status;
}

CUresult hook_cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                       unsigned long long flags)
{
    CUresult status = hbmspill_real.cuMemMap(address, size, offset, handle, flags);

    if (status == CUDA_SUCCESS && shim_active())
        outside_map(address, handle);
    return status;
}

CUresult hook_cuMemUnmap(CUdeviceptr address, size_t size)
{
    CUresult held = window_submit(); /* it may use what is unmapped */
    CUresult status = hbmspill_real.cuMemUnmap(address, size);

    if (status == CUDA_SUCCESS && shim_active())
        outside_unmap(address, size);
    return held != CUDA_SUCCESS ? held : status;
}
