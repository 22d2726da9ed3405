/*
 * memory.c - cuMemAlloc and its family, and questions about device memory and pointers.
 */
#include "memory_pool.h"

#include <string.h>

/* ---- device memory that is no stream's ---- */

/* A heap goes with its context, and its allocations with it. */
void heap_destroy_locked(struct CUmemPoolHandle_st *pool)
{
    struct block *used = pool->blocks;
    while (used) {
        struct block *next = used->next;
        if (used->state == BLOCK_USED) {
            pool_free_range_locked(range_find_locked(used->base), 0, NULL);
            next = pool->blocks; /* blocks were joined */
        }
        used = next;
    }
    pool_remove_locked(pool);
}

uint64_t heap_allocate_locked(CUcontext ctx, size_t size, bool global)
{
    uint64_t address = pool_allocate_locked(ctx->heap, size, NULL, ctx, NULL);
    struct frames *frames = ctx->heap->device->frames;
    if (address)
        range_find_locked(address)->global = global;
    if (address && global) {
        frames->driver_bytes += round_up(size, POOL_ALIGNMENT);
        if (frames->driver_bytes > frames->peak_driver_bytes)
            frames->peak_driver_bytes = frames->driver_bytes;
    }
    return address;
}

CUresult heap_free_locked(struct range *range)
{
    struct block *block = range->owner;
    struct CUmemPoolHandle_st *pool = block->pool;
    pool_free_range_locked(range, 0, NULL);
    if (pool->reserved > round_up(pool->used, PAGE))
        pool_trim_locked(pool, 0);
    return CUDA_SUCCESS;
}

static CUresult allocate(CUdeviceptr *out, size_t size)
{
    driver_acquire();
    uint64_t address = heap_allocate_locked(context_current(), size, false);
    driver_release();
    if (!address)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = address;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t size)
{
    API_ENTER(API_CONTEXT | API_NOT_CAPTURING);
    if (!out || !size)
        return CUDA_ERROR_INVALID_VALUE;
    return allocate(out, size);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                            unsigned int element)
{
    API_ENTER(API_CONTEXT | API_NOT_CAPTURING);
    if (!out || !pitch || !width || !height || (element != 4 && element != 8 && element != 16))
        return CUDA_ERROR_INVALID_VALUE;
    size_t row = round_up(width, 512);
    CUresult result = allocate(out, row * height);
    if (result == CUDA_SUCCESS)
        *pitch = row;
    return result;
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
    API_ENTER(API_CONTEXT | API_NOT_CAPTURING);
    if (!address)
        return CUDA_SUCCESS;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    struct range *range = range_find_locked(address);
    if (!range || range->base != address || range->global)
        goto out;
    if (range->kind == RANGE_ALLOC) {
        /* "this API may perform implicit synchronization"; memory of cuMemAlloc is freed after all work
         * before it. */
        context_drain_locked(range->context);
        range = range_find_locked(address);
        result = range && range->base == address ? heap_free_locked(range) : CUDA_ERROR_INVALID_VALUE;
    } else if (range->kind == RANGE_POOL) {
        /* "will not perform any implicit synchronization when the pointer was allocated with cuMemAllocAsync"
         */
        struct CUmemPoolHandle_st *pool = ((struct block *)range->owner)->pool;
        memory_leaves_locked("cuMemFree", range->base, range->size, false);
        range = range_find_locked(address);
        if (!range)
            goto out;
        pool_free_range_locked(range, 0, NULL);
        if (object_valid(pool, OBJECT_POOL) && pool->reserved > pool->threshold)
            pool_trim_locked(pool, pool->threshold);
        result = CUDA_SUCCESS;
    } else if (range->kind == RANGE_MANAGED) {
        driver_release();
        return host_memory_free((void *)(uintptr_t)address);
    }
out:
    driver_release();
    return result;
}

/* Drivers accept NULL for the output that is not wanted, and programs rely on it. */
CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    API_ENTER(API_CONTEXT);
    driver_acquire();
    const struct frames *frames = context_current()->device->frames;
    if (free_bytes)
        *free_bytes = (frames->count - frames->used) * PAGE;
    if (total)
        *total = frames->count * PAGE;
    driver_release();
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    API_ENTER(0);
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_check(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    *bytes = devices[dev].hbm_bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
    API_ENTER(API_CONTEXT);
    CUresult result = CUDA_ERROR_NOT_FOUND;
    driver_acquire();
    struct range *range = range_find_locked(address);
    if (range) {
        if (base)
            *base = range->base;
        if (size)
            *size = range->size;
        result = CUDA_SUCCESS;
    }
    driver_release();
    return result;
}

/* One attribute of a range; NULL: a pointer of nobody's. CUDA_ERROR_INVALID_VALUE where it has none. */
static CUresult attribute_locked(void *data, CUpointer_attribute attribute, CUdeviceptr address,
                                 struct range *range)
{
    bool host = range && (range_is_host(range) || range_is_host_pages(range));
    if (!range)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = range->context;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)data = address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!host || (range_is_host_pages(range) && !window_page(address)->host_access))
            return CUDA_ERROR_INVALID_VALUE;
        *(void **)data = (void *)(uintptr_t)address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *(int *)data = range->sync_memops;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)data = range->id;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(int *)data = range->kind == RANGE_MANAGED;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = range->device;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        *(int *)data = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)data = range->base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        *(size_t *)data = range->size;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        *(CUdeviceptr *)data = range->base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(int *)data = 1;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        *(unsigned long long *)data = attribute == CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID ? range->id : 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(CUDA_POINTER_ATTRIBUTE_ACCESS_FLAGS *)data = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
        if (range->kind == RANGE_MAPPING || range_is_host_pages(range))
            *(int *)data = window_page(address)->device_access;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)data = range->kind == RANGE_POOL ? ((struct block *)range->owner)->pool : NULL;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/*
 * What is asked of the pointer alone needs no context: "If there is no current CUcontext then
 * CUDA_ERROR_INVALID_CONTEXT is returned" is said of the address that kernels "running in the current
 * CUcontext" use, and access is that of "the device associated with the current context". The thread in
 * which XLA runs what it computes on the host has none and asks for the type.
 */
static unsigned about_pointer(CUpointer_attribute attribute)
{
    bool of_context =
        attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER || attribute == CU_POINTER_ATTRIBUTE_ACCESS_FLAGS;
    return of_context || context_current() ? API_CONTEXT : 0;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
    API_ENTER(about_pointer(attribute));
    if (!data)
        return CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    CUresult result = attribute_locked(data, attribute, address, range_find_locked(address));
    driver_release();
    return result;
}

/* "if the pointer is not a valid pointer, attributes are set to default NULL values and CUDA_SUCCESS is
 * returned" */
CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **data,
                                CUdeviceptr address)
{
    API_ENTER(API_CONTEXT);
    if (!attributes || !data)
        return CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    struct range *range = range_find_locked(address);
    for (unsigned i = 0; i < count; i++) {
        if (attribute_locked(data[i], attributes[i], address, range) == CUDA_SUCCESS)
            continue;
        switch (attributes[i]) {
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            *(int *)data[i] = CU_DEVICE_INVALID;
            break;
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        case CU_POINTER_ATTRIBUTE_MAPPED:
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
            *(int *)data[i] = 0;
            break;
        default:
            *(uint64_t *)data[i] = 0;
        }
    }
    driver_release();
    return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
    API_ENTER(API_CONTEXT);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        return result;
    driver_acquire();
    struct range *range = range_find_locked(address);
    if (range && range->kind != RANGE_MAPPING) {
        range->sync_memops = *(const unsigned *)value != 0;
        result = CUDA_SUCCESS;
    }
    driver_release();
    return result;
}

/* Legacy IPC: refused, as it is for memory that cannot be shared; attribute 98 of the device says so. */
CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
    API_ENTER(API_CONTEXT);
    (void)address;
    return handle ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)
{
    API_ENTER(API_CONTEXT);
    (void)handle;
    (void)flags;
    return address ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)
{
    return cuIpcOpenMemHandle_v2(address, handle, flags);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
    API_ENTER(API_CONTEXT);
    (void)address;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
    API_ENTER(API_CONTEXT);
    (void)event;
    return handle ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
    API_ENTER(API_CONTEXT);
    (void)handle;
    return event ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
}
