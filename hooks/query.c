/*
 * query.c - what the job is told: how much memory there is, and what an address is.
 *
 * Memory sizes are one coherent figure, HBM plus host tier unless HBMSPILL_REPORT says otherwise, so that XLA
 * plans as it would for a GPU that is big enough. Where the job's allocator takes one slab, or regions that
 * are not spilled, it is told the truth, else it would ask for a slab that cannot be had. NVML is not
 * touched: it says what the hardware has.
 */
#include "hooks/gpu.h"
#include "hooks/host_alloc.h"
#include "hooks/region.h"
#include "hooks/sync_memops.h"
#include "shim/options.h"

/*
 * What the machine can spare is a little more or less at every start. A job that is told so compiles anew
 * each time: the memory there is is part of the key of JAX's cache of compiled programs. So it is told an
 * eighth of a power of two, unless the size was given.
 */
static uint64_t steady(uint64_t bytes)
{
    uint64_t step = 1;

    while (step <= bytes / 16)
        step *= 2;
    return options_get()->host_limit.kind == AMOUNT_BYTES ? bytes : bytes / step * step;
}

/* The total the job is told; false: the truth. */
static bool reported_total(CUdevice device, uint64_t *total)
{
    const struct option_report *report = &options_get()->report;
    uint64_t hbm, host;

    if (!shim_active() || shim_mode() != SHIM_ON || report->kind == REPORT_PHYSICAL)
        return false;
    if (report->kind == REPORT_BYTES) {
        *total = report->bytes;
        return true;
    }
    if (shim_allocator() == SHIM_ALLOCATOR_SLAB ||
        (shim_allocator() == SHIM_ALLOCATOR_REGIONS && !region_spilled()) || !gpu_limits(device, &hbm, &host))
        return false;
    *total = hbm + steady(host);
    return true;
}

CUresult hook_cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    CUresult status = hbmspill_real.cuDeviceTotalMem_v2(bytes, device);
    uint64_t total;

    if (status == CUDA_SUCCESS && reported_total(device, &total))
        *bytes = total;
    return status;
}

/* Either output may be NULL: some callers want only one, and the driver accepts it. */
CUresult hook_cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    CUresult status = hbmspill_real.cuMemGetInfo_v2(free_bytes, total_bytes);
    struct cache_usage usage = {0};
    CUdevice device;
    struct gpu *gpu;
    uint64_t total;

    if (status != CUDA_SUCCESS || !shim_active() || hbmspill_real.cuCtxGetDevice(&device) != CUDA_SUCCESS ||
        !reported_total(device, &total))
        return status;
    gpu = gpu_of_device(device);
    if (gpu)
        cache_usage(gpu->cache, &usage);
    if (total_bytes)
        *total_bytes = total;
    if (free_bytes)
        *free_bytes = total > usage.live + usage.outside ? total - usage.live - usage.outside : 0;
    return status;
}

CUresult hook_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
    struct gpu *gpu = shim_active() ? gpu_of_address(address) : NULL;
    uint64_t found_base, found_size;

    if (!gpu) {
        CUresult status = hbmspill_real.cuMemGetAddressRange_v2(base, size, address);

        if (status != CUDA_SUCCESS || !shim_active() || !host_range(address, &found_base, &found_size))
            return status;
    } else if (!cache_find(gpu->cache, address, &found_base, &found_size)) {
        return CUDA_ERROR_NOT_FOUND;
    }
    if (base)
        *base = found_base;
    if (size)
        *size = found_size;
    return CUDA_SUCCESS;
}

/*
 * What the driver says of stream-ordered memory (CUDA driver API, cuPointerGetAttribute), said of ours
 * whether or not it is in HBM just now. NOT_SUPPORTED: an attribute this has no answer for; ask the driver.
 */
static CUresult attribute_of(struct gpu *gpu, void *value, CUpointer_attribute attribute, uint64_t address)
{
    uint64_t base, size;

    if (!cache_find(gpu->cache, address, &base, &size))
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)value = gpu->context;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)value = CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)value = address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: /* unique to the range; the address is, for its life */
        *(unsigned long long *)value = base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)value = gpu->device;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *(unsigned *)value = sync_memops_of(address);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        *(unsigned *)value = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned *)value = 1;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)value = base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)value = size;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(unsigned long long *)value = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(CUmemAccess_flags *)value = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)value = NULL;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        return CUDA_ERROR_INVALID_VALUE;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult hook_cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
    struct gpu *gpu = shim_active() ? gpu_of_address(address) : NULL;
    CUresult status = !shim_active() || !value ? CUDA_ERROR_NOT_SUPPORTED
                      : gpu                    ? attribute_of(gpu, value, attribute, address)
                                               : host_attribute(value, attribute, address);

    return status == CUDA_ERROR_NOT_SUPPORTED ? hbmspill_real.cuPointerGetAttribute(value, attribute, address)
                                              : status;
}

/* The plural form does not fail for one attribute that has no answer: its value is then a default. */
CUresult hook_cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **values,
                                     CUdeviceptr address)
{
    struct gpu *gpu = shim_active() ? gpu_of_address(address) : NULL;
    CUresult status;
    bool known = true;

    status = hbmspill_real.cuPointerGetAttributes(count, attributes, values, address);
    if (!shim_active() || !attributes || !values)
        return status;
    if (!gpu) {
        for (unsigned i = 0; status == CUDA_SUCCESS && i < count; i++)
            (void)host_attribute(values[i], attributes[i], address);
        return status;
    }
    for (unsigned i = 0; i < count; i++)
        known &= attribute_of(gpu, values[i], attributes[i], address) != CUDA_ERROR_NOT_SUPPORTED;
    return known ? CUDA_SUCCESS : status;
}
