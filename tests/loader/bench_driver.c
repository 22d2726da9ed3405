/*
 * bench_driver.c - a libcuda.so.1 that does as little as a driver can, so that what a launch costs under the
 * preload is the preload's: one device, one context, addresses that are numbers, work that is done at once.
 *
 * Only what libhbmspill.so wants of a device it manages, and what bench_launch.c calls. A kernel has as many
 * parameters of 8 bytes as its name says; a launch reads none of them.
 */
#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
#include <stdint.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

enum { GRANULARITY = 2 << 20 };

static const uint64_t total = UINT64_C(8) << 40;
static uint64_t next_address = UINT64_C(1) << 45, next_handle = 1;
static volatile unsigned launches; /* what a launch does */

#define NOTHING(name, ...)                                                                                   \
    EXPORT CUresult name(__VA_ARGS__)                                                                        \
    {                                                                                                        \
        return CUDA_SUCCESS;                                                                                 \
    }

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
NOTHING(cuInit, unsigned int flags)
NOTHING(cuCtxSetCurrent, CUcontext context)
NOTHING(cuCtxPushCurrent_v2, CUcontext context)
NOTHING(cuMemAddressFree, CUdeviceptr address, size_t size)
NOTHING(cuMemRelease, CUmemGenericAllocationHandle handle)
NOTHING(cuMemMap, CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
        unsigned long long flags)
NOTHING(cuMemUnmap, CUdeviceptr address, size_t size)
NOTHING(cuMemSetAccess, CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count)
NOTHING(cuMemFree_v2, CUdeviceptr address)
NOTHING(cuMemcpyAsync, CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream)
NOTHING(cuStreamDestroy_v2, CUstream stream)
NOTHING(cuStreamSynchronize, CUstream stream)
NOTHING(cuStreamWaitEvent, CUstream stream, CUevent event, unsigned int flags)
NOTHING(cuEventDestroy_v2, CUevent event)
NOTHING(cuEventRecord, CUevent event, CUstream stream)
NOTHING(cuEventQuery, CUevent event)
NOTHING(cuEventSynchronize, CUevent event)

EXPORT CUresult cuDriverGetVersion(int *version)
{
    *version = 13000;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    *device = 0;
    return ordinal ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    *value = attribute == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    *bytes = total;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *all)
{
    *free_bytes = *all = total;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    *context = (CUcontext)(uintptr_t)1;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *context)
{
    *context = (CUcontext)(uintptr_t)1;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    *context = (CUcontext)(uintptr_t)1;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
    *device = 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                              CUmemAllocationGranularity_flags option)
{
    *granularity = GRANULARITY;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAddressReserve(CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr hint,
                                    unsigned long long flags)
{
    *address = next_address;
    next_address += (size + GRANULARITY - 1) / GRANULARITY * GRANULARITY;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size)
{
    return cuMemAddressReserve(address, size, 0, 0, 0);
}

EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                            const CUmemAllocationProp *prop, unsigned long long flags)
{
    *handle = next_handle++;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostAlloc(void **memory, size_t size, unsigned int flags)
{
    *memory = malloc(size);
    return *memory ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemFreeHost(void *memory)
{
    free(memory);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
    *stream = (CUstream)(uintptr_t)(4096 + 64 * next_handle++);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
    *event = (CUevent)(uintptr_t)(4096 + 64 * next_handle++);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    *milliseconds = 1;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    *module = (CUmodule)(uintptr_t)image;
    return CUDA_SUCCESS;
}

/* A handle that says how many parameters the function has. */
EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    *function = (CUfunction)(uintptr_t)(4096 + strtoul(name, NULL, 10));
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncGetModule(CUmodule *module, CUfunction function)
{
    *module = (CUmodule)(uintptr_t)4096;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncGetName(const char **name, CUfunction function)
{
    *name = "loop_multiply_subtract_fusion_12";
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    *value = 1024;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size)
{
    if (index >= (uintptr_t)function - 4096)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = 8 * index;
    *size = 8;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *size)
{
    return CUDA_ERROR_INVALID_VALUE; /* it is a CUfunction */
}

EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz,
                               unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
                               CUstream stream, void **params, void **extra)
{
    launches++;
    return CUDA_SUCCESS;
}
#pragma GCC diagnostic pop
