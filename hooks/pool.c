/*
 * pool.c - memory pools and what they say of themselves.
 *
 * The attributes that count bytes include what the cache holds for the job, as if it came from the pool: XLA
 * reads its own use there.
 */
#include "hooks/pool.h"
#include "hooks/host_account.h"
#include "hooks/host_pool.h"
#include "hooks/outside.h"
#include <pthread.h>
#include <stdlib.h>
#include <uthash.h>

struct pool {
    CUmemoryPool handle;
    CUdevice device;
    enum pool_kind kind; /* POOL_MOVABLE: on its own device */
    UT_hash_handle hh;
};

/* Protects the table. Leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pool *pools;

/* A handle stands for this pool from now on. Without memory it is looked for again each time. */
static void know(CUmemoryPool handle, enum pool_kind kind, CUdevice device)
{
    struct pool *pool = calloc(1, sizeof *pool), *before;

    if (!pool)
        return;
    *pool = (struct pool){.handle = handle, .kind = kind, .device = device};
    pthread_mutex_lock(&lock);
    HASH_REPLACE_PTR(pools, handle, pool, before);
    pthread_mutex_unlock(&lock);
    free(before);
    if (kind == POOL_HOST)
        host_pool_made(handle);
}

CUresult hook_cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props)
{
    CUresult status = hbmspill_real.cuMemPoolCreate(out, props);
    enum pool_kind kind = POOL_OTHER;

    if (status != CUDA_SUCCESS || !shim_active())
        return status;
    if (props->allocType == CU_MEM_ALLOCATION_TYPE_PINNED && host_account_on_host(&props->location))
        kind = POOL_HOST;
    else if (props->allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
             props->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        kind = props->handleTypes == CU_MEM_HANDLE_TYPE_NONE ? POOL_MOVABLE : POOL_DEVICE;
    know(*out, kind, props->location.id);
    return status;
}

/* A pool of the driver's own, or the one that the job has set there. */
static void told(CUmemoryPool pool, const CUmemLocation *location, CUmemAllocationType type)
{
    if (type == CU_MEM_ALLOCATION_TYPE_PINNED && host_account_on_host(location))
        know(pool, POOL_HOST, CU_DEVICE_INVALID);
}

CUresult hook_cuMemGetDefaultMemPool(CUmemoryPool *out, CUmemLocation *location, CUmemAllocationType type)
{
    CUresult status = hbmspill_real.cuMemGetDefaultMemPool(out, location, type);

    if (status == CUDA_SUCCESS && shim_active())
        told(*out, location, type);
    return status;
}

CUresult hook_cuMemGetMemPool(CUmemoryPool *out, CUmemLocation *location, CUmemAllocationType type)
{
    CUresult status = hbmspill_real.cuMemGetMemPool(out, location, type);

    if (status == CUDA_SUCCESS && shim_active())
        told(*out, location, type);
    return status;
}

static bool take_out(CUmemoryPool handle, struct pool *out)
{
    struct pool *pool;

    pthread_mutex_lock(&lock);
    HASH_FIND_PTR(pools, &handle, pool);
    if (pool) {
        HASH_DEL(pools, pool);
        *out = *pool;
    }
    pthread_mutex_unlock(&lock);
    free(pool);
    return pool != NULL;
}

/* Forgotten before the driver says that it is gone: the handle may be another's at once. */
CUresult hook_cuMemPoolDestroy(CUmemoryPool handle)
{
    struct pool pool;
    bool known;
    CUresult status;

    if (!shim_active())
        return hbmspill_real.cuMemPoolDestroy(handle);
    known = take_out(handle, &pool);
    host_pool_leaves(handle);
    status = hbmspill_real.cuMemPoolDestroy(handle);
    host_pool_left(handle, status == CUDA_SUCCESS);
    if (status == CUDA_SUCCESS)
        outside_remove(OUTSIDE_POOL, (uint64_t)(uintptr_t)handle);
    else if (known)
        know(handle, pool.kind, pool.device);
    return status;
}

CUresult hook_cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    CUresult status = hbmspill_real.cuMemPoolTrimTo(pool, keep);

    if (status == CUDA_SUCCESS && shim_active())
        host_pools_ask();
    return status;
}

/* One that the job did not make: a device's default pool, or one that was imported. */
static enum pool_kind look_up(CUmemoryPool handle, CUdevice *device)
{
    CUmemoryPool of_device;
    int count = 0;

    if (hbmspill_real.cuDeviceGetDefaultMemPool)
        (void)hbmspill_real.cuDeviceGetCount(&count);
    for (int i = 0; i < count; i++) {
        if (hbmspill_real.cuDeviceGetDefaultMemPool(&of_device, i) == CUDA_SUCCESS && of_device == handle) {
            *device = i;
            know(handle, POOL_MOVABLE, i);
            return POOL_MOVABLE;
        }
    }
    return POOL_OTHER;
}

enum pool_kind pool_kind(CUmemoryPool handle)
{
    struct pool *pool;
    CUdevice current, device = 0;
    enum pool_kind kind = POOL_OTHER;

    pthread_mutex_lock(&lock);
    HASH_FIND_PTR(pools, &handle, pool);
    if (pool) {
        kind = pool->kind;
        device = pool->device;
    }
    pthread_mutex_unlock(&lock);
    if (!pool)
        kind = look_up(handle, &device);
    if (kind == POOL_MOVABLE &&
        !(hbmspill_real.cuCtxGetDevice(&current) == CUDA_SUCCESS && current == device))
        return POOL_DEVICE;
    return kind;
}

CUmemoryPool pool_current(void)
{
    CUmemoryPool pool;
    CUdevice device;

    if (hbmspill_real.cuCtxGetDevice(&device) != CUDA_SUCCESS || !hbmspill_real.cuDeviceGetMemPool ||
        hbmspill_real.cuDeviceGetMemPool(&pool, device) != CUDA_SUCCESS)
        return NULL;
    return pool;
}

CUresult hook_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    CUresult status = hbmspill_real.cuMemPoolGetAttribute(pool, attribute, value);
    struct cache_usage usage;
    struct gpu *gpu;

    if (status != CUDA_SUCCESS || !shim_active() || pool_kind(pool) != POOL_MOVABLE || !(gpu = gpu_current()))
        return status;
    cache_usage(gpu->cache, &usage);
    switch (attribute) {
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        *(cuuint64_t *)value += usage.live;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        *(cuuint64_t *)value += cache_statistics(gpu->cache)->peak_live_bytes;
        break;
    default:
        break;
    }
    return status;
}
