/*
 * device_host.c - pinned host memory as handles of the driver's (struct device_ops: host_create).
 *
 * A block is a range of addresses of its own, with handles of host memory mapped side by side, which both the
 * CPU and the device may use (cuMemCreate with CU_MEM_LOCATION_TYPE_HOST_NUMA, from CUDA 12.2). What the
 * driver does not take back of one is kept, and tried again whenever another is made or destroyed.
 */
#include "hooks/device_host.h"
#include "hooks/capture.h"
#include "hooks/held.h"
#include "shim/log.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct block {
    CUdeviceptr address; /* 0: not reserved */
    uint64_t size, unit;
    uint64_t mapped, created; /* handles, from the first on, that are mapped; that exist */
    struct block *next;
    uint64_t handles[];
};

/* Of those that were refused. A leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *refused;

/* False where something is left of it. */
static bool undo(struct block *block)
{
    const struct hbmspill_real *real = &hbmspill_real;

    for (; block->mapped; block->mapped--) {
        if (real->cuMemUnmap(block->address + (block->mapped - 1) * block->unit, block->unit) != CUDA_SUCCESS)
            return false;
        held_add(mappings, -1);
    }
    for (; block->created; block->created--) {
        if (real->cuMemRelease(block->handles[block->created - 1]) != CUDA_SUCCESS)
            return false;
        held_add(host_handles, -1);
        budget_give(pinned_budget(), block->unit);
    }
    if (block->address) {
        if (real->cuMemAddressFree(block->address, block->size) != CUDA_SUCCESS)
            return false;
        held_add(reservations, -1);
    }
    free(block);
    return true;
}

static void undo_or_keep(struct block *block)
{
    struct block *list, *next;

    pthread_mutex_lock(&lock);
    list = refused;
    refused = NULL;
    if (block) {
        block->next = list;
        list = block;
    }
    for (; list; list = next) {
        next = list->next;
        if (undo(list))
            continue;
        list->next = refused;
        refused = list;
    }
    pthread_mutex_unlock(&lock);
}

void device_host_refused(struct cache_held *held)
{
    pthread_mutex_lock(&lock);
    for (const struct block *block = refused; block; block = block->next) {
        held->mappings += block->mapped;
        held->host_handles += block->created;
        held->reservations += block->address != 0;
    }
    pthread_mutex_unlock(&lock);
}

static struct block *block_new(uint64_t size, uint64_t unit)
{
    struct block *block = calloc(1, sizeof *block + size / unit * sizeof block->handles[0]);

    if (block) {
        block->size = size;
        block->unit = unit;
    }
    return block;
}

static CUresult fill(const struct gpu *gpu, struct block *block)
{
    const struct hbmspill_real *real = &hbmspill_real;
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = gpu->host_location};
    const CUmemAccessDesc access[] = {
        gpu->access, {.location = gpu->host_location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
    CUresult status = real->cuMemAddressReserve(&block->address, block->size, 0, 0, 0);

    if (status == CUDA_SUCCESS)
        held_add(reservations, 1);
    else
        block->address = 0;
    for (uint64_t i = 0; i < block->size / block->unit && status == CUDA_SUCCESS; i++) {
        CUmemGenericAllocationHandle handle;

        status = real->cuMemCreate(&handle, block->unit, &prop, 0);
        if (status != CUDA_SUCCESS)
            break;
        held_add(host_handles, 1);
        block->handles[block->created++] = handle;
        status = real->cuMemMap(block->address + i * block->unit, block->unit, 0, handle, 0);
        if (status != CUDA_SUCCESS)
            break;
        held_add(mappings, 1);
        block->mapped++;
    }
    return status == CUDA_SUCCESS ? real->cuMemSetAccess(block->address, block->size, access, 2) : status;
}

static int result(struct gpu *gpu, CUresult status)
{
    switch (status) {
    case CUDA_SUCCESS:
        return 0;
    case CUDA_ERROR_OUT_OF_MEMORY:
        return -ENOMEM;
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_NOT_PERMITTED:
    case CUDA_ERROR_NOT_SUPPORTED:
        log_gpu_once(LOG_INFO, LOG_IN_GPU, gpu->device,
                     "the driver makes no handles of host memory (error %d): spilled "
                     "memory cannot be reached over the link",
                     (int)status);
        return -ENOTSUP;
    default:
        atomic_store_explicit(&gpu->last_error, (int)status, memory_order_relaxed);
        return -EIO;
    }
}

int device_host_create(void *ctx, uint64_t size, uint64_t unit, void **memory, uint64_t *handles)
{
    struct gpu *gpu = ctx;
    struct block *block = block_new(size, unit);
    CUresult status;
    int mode;

    if (!block)
        return -ENOMEM;
    if (pinned_take(size)) {
        free(block);
        return -ENOSPC;
    }
    mode = capture_relax();
    status = fill(gpu, block);
    if (status != CUDA_SUCCESS) /* what was made is in the account until it is released */
        budget_give(pinned_budget(), size - block->created * unit);
    undo_or_keep(status == CUDA_SUCCESS ? NULL : block);
    capture_restore(mode);
    if (status == CUDA_SUCCESS) {
        *memory = (void *)(uintptr_t)block->address;
        memcpy(handles, block->handles, size / unit * sizeof handles[0]);
        free(block);
    }
    return result(gpu, status);
}

int device_host_destroy(void *ctx, void *memory, uint64_t size, uint64_t unit, const uint64_t *handles)
{
    struct block *block = block_new(size, unit);
    int mode;

    (void)ctx;
    if (!block)
        return -ENOMEM;
    block->address = (CUdeviceptr)(uintptr_t)memory;
    block->mapped = block->created = size / unit;
    memcpy(block->handles, handles, size / unit * sizeof handles[0]);
    mode = capture_relax();
    undo_or_keep(block);
    capture_restore(mode);
    return 0;
}

/* Whether the driver makes handles of that size on a node; sets gpu->host_location. */
static bool makes_on(struct gpu *gpu, int node, uint64_t unit)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = node}};
    size_t granularity;

    gpu->host_location = prop.location;
    return hbmspill_real.cuMemGetAllocationGranularity(&granularity, &prop,
                                                       CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS &&
           granularity && unit % granularity == 0;
}

bool device_host_supported(struct gpu *gpu, uint64_t unit)
{
    const struct hbmspill_real *real = &hbmspill_real;
    int value, nearest = 0; /* where there is no NUMA, node 0 */

    /* Drivers that do not know the attribute (before 12.9) may have it all the same: then it is tried. */
    if (real->cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                                   gpu->device) == CUDA_SUCCESS &&
        !value)
        return false;
    if (gpu->pinned.node >= 0 && makes_on(gpu, gpu->pinned.node, unit))
        return true;
    if (real->cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, gpu->device) == CUDA_SUCCESS &&
        value > 0)
        nearest = value;
    return makes_on(gpu, nearest, unit);
}
