/*
 * host_memory.c - page-locked, registered and managed host memory. Unified addressing: one address for CPU
 * and device.
 *
 * Managed memory is host memory that the device reaches in place; it takes no device memory.
 */
#include "clock.h"
#include "model/machine.h"

#include <sys/mman.h>

enum { HOST_PAGE = 4096 };

static uint64_t pinned_now, pinned_peak;

static void pinned_bytes_locked(int64_t bytes)
{
    pinned_now += (uint64_t)bytes;
    if (pinned_now > pinned_peak)
        pinned_peak = pinned_now;
}

/* Two ranges that were registered may have a page in common; it is counted for each. */
void pinned_range_locked(const struct range *range, bool ends)
{
    uint64_t first = range->base / HOST_PAGE * HOST_PAGE;
    int64_t bytes = (int64_t)(round_up(range->base + range->size, HOST_PAGE) - first);
    if (range->kind == RANGE_HOST || range->kind == RANGE_REGISTERED)
        pinned_bytes_locked(ends ? -bytes : bytes);
}

void pinned_read_locked(uint64_t *now, uint64_t *peak)
{
    *now = pinned_now;
    *peak = pinned_peak;
}

static void pinning_locked(size_t size)
{
    clock_charge_locked((double)size * options.size_scale * MACHINE_HOST_PIN_BYTE);
}

void host_pages_locked(int64_t bytes)
{
    pinned_bytes_locked(bytes);
    if (bytes > 0)
        pinning_locked((size_t)bytes);
}

static CUresult allocate(void **out, size_t size, unsigned flags, enum range_kind kind)
{
    size_t bytes = round_up(size, HOST_PAGE);
    if (bytes < size)
        return CUDA_ERROR_OUT_OF_MEMORY;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUcontext ctx = context_current();
    struct range range = {
        .base = (uint64_t)(uintptr_t)p,
        .size = size,
        .kind = kind,
        .context = ctx,
        .device = ctx->device->ordinal,
        .flags = flags,
    };
    driver_acquire();
    struct range *added = range_add_locked(&range);
    if (added && kind == RANGE_HOST)
        pinning_locked(size);
    driver_release();
    if (!added) {
        munmap(p, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = p;
    return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **out, size_t size, unsigned int flags)
{
    API_ENTER(API_CONTEXT | API_NOT_CAPTURING);
    if (!out || !size ||
        flags &
            ~(unsigned)(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED))
        return CUDA_ERROR_INVALID_VALUE;
    return allocate(out, size, flags | CU_MEMHOSTALLOC_DEVICEMAP, RANGE_HOST);
}

CUresult cuMemAllocHost_v2(void **out, size_t size)
{
    API_ENTER(API_CONTEXT | API_NOT_CAPTURING);
    if (!out || !size)
        return CUDA_ERROR_INVALID_VALUE;
    return allocate(out, size, CU_MEMHOSTALLOC_DEVICEMAP, RANGE_HOST);
}

/* The first version: sizes of 32 bits. cuda.h's macro is undone where it is declared. */
CUresult cuMemAllocHost(void **out, unsigned size)
{
    return cuMemAllocHost_v2(out, size);
}

CUresult cuMemAllocManaged(CUdeviceptr *out, size_t size, unsigned int flags)
{
    API_ENTER(API_CONTEXT | API_NOT_CAPTURING);
    void *p;
    if (!out || !size || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = allocate(&p, size, flags, RANGE_MANAGED);
    if (result == CUDA_SUCCESS)
        *out = (CUdeviceptr)(uintptr_t)p;
    return result;
}

/* Freeing waits for the work that may use it ("cuMemFreeHost" is implicitly synchronizing in practice). */
CUresult host_memory_free(void *p)
{
    uint64_t address = (uint64_t)(uintptr_t)p;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    struct range *range = range_find_locked(address);
    if (range && range->base == address && (range->kind == RANGE_HOST || range->kind == RANGE_MANAGED)) {
        context_drain_locked(context_current());
        range = range_find_locked(address);
    }
    if (range && range->base == address && (range->kind == RANGE_HOST || range->kind == RANGE_MANAGED)) {
        size_t bytes = round_up(range->size, HOST_PAGE);
        range_remove_locked(range);
        munmap(p, bytes);
        result = CUDA_SUCCESS;
    }
    driver_release();
    return result;
}

/* "Destroys and cleans up all resources associated with the context" (cuCtxDestroy). */
void host_memory_destroy_locked(CUcontext ctx)
{
    struct range *range;
    while ((range = range_host_of_locked(ctx))) {
        void *p = (void *)(uintptr_t)range->base;
        size_t bytes = range->kind == RANGE_REGISTERED ? 0 : round_up(range->size, HOST_PAGE);
        range_remove_locked(range);
        if (bytes)
            munmap(p, bytes);
    }
}

CUresult cuMemFreeHost(void *p)
{
    API_ENTER(API_CONTEXT | API_NOT_CAPTURING);
    return host_memory_free(p);
}

CUresult cuMemHostRegister_v2(void *p, size_t size, unsigned int flags)
{
    API_ENTER(API_CONTEXT | API_NOT_CAPTURING);
    uint64_t address = (uint64_t)(uintptr_t)p;
    if (!p || !size || address + size < address || window_has(address) ||
        flags & ~(unsigned)(CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                            CU_MEMHOSTREGISTER_READ_ONLY))
        return CUDA_ERROR_INVALID_VALUE;
    CUcontext ctx = context_current();
    struct range range = {
        .base = address,
        .size = size,
        .kind = RANGE_REGISTERED,
        .context = ctx,
        .device = ctx->device->ordinal,
        .flags = flags | CU_MEMHOSTREGISTER_DEVICEMAP,
    };
    driver_acquire();
    struct range *added = range_add_locked(&range);
    if (added)
        pinning_locked(size);
    driver_release();
    return added ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

CUresult cuMemHostRegister(void *p, size_t size, unsigned int flags)
{
    return cuMemHostRegister_v2(p, size, flags);
}

CUresult cuMemHostUnregister(void *p)
{
    API_ENTER(API_CONTEXT | API_NOT_CAPTURING);
    uint64_t address = (uint64_t)(uintptr_t)p;
    CUresult result = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    driver_acquire();
    struct range *range = range_find_locked(address);
    if (range && range->base == address && range->kind == RANGE_REGISTERED) {
        context_drain_locked(context_current());
        range = range_find_locked(address);
        if (range && range->base == address && range->kind == RANGE_REGISTERED) {
            range_remove_locked(range);
            result = CUDA_SUCCESS;
        }
    } else if (!p) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    driver_release();
    return result;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *p, unsigned int flags)
{
    API_ENTER(API_CONTEXT);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (!out || flags)
        return result;
    driver_acquire();
    struct range *range = range_find_locked((uint64_t)(uintptr_t)p);
    if (range && range_is_host(range)) {
        *out = (CUdeviceptr)(uintptr_t)p;
        result = CUDA_SUCCESS;
    }
    driver_release();
    return result;
}

CUresult cuMemHostGetFlags(unsigned int *flags, void *p)
{
    API_ENTER(API_CONTEXT);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (!flags)
        return result;
    driver_acquire();
    struct range *range = range_find_locked((uint64_t)(uintptr_t)p);
    if (range && range->kind == RANGE_HOST) {
        *flags = range->flags;
        result = CUDA_SUCCESS;
    }
    driver_release();
    return result;
}
