/*
 * pool.c - memory pools and what they say of themselves.
 *
 * The attributes that count bytes include what the cache holds for the job, as if it came from the pool: XLA
 * reads its own use there.
 */
#include "hooks/pool.h"
#include "hooks/outside.h"
#include <pthread.h>
#include <stdlib.h>
#include <uthash.h>

struct pool {
    CUmemoryPool handle;
    CUdevice device;
    bool movable;
    UT_hash_handle hh;
};

/* Protects the table. Leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pool *pools;

CUresult hook_cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props)
{
    CUresult status = hbmspill_real.cuMemPoolCreate(out, props);
    struct pool *pool;

    if (status != CUDA_SUCCESS || !shim_active())
        return status;
    pool = calloc(1, sizeof *pool);
    if (!pool)
        return status; /* then taken for an ordinary pool of the current device */
    pool->handle = *out;
    pool->device = props->location.id;
    pool->movable =
        props->location.type == CU_MEM_LOCATION_TYPE_DEVICE && props->handleTypes == CU_MEM_HANDLE_TYPE_NONE;
    pthread_mutex_lock(&lock);
    HASH_ADD_PTR(pools, handle, pool);
    pthread_mutex_unlock(&lock);
    return status;
}

CUresult hook_cuMemPoolDestroy(CUmemoryPool handle)
{
    struct pool *pool;

    pthread_mutex_lock(&lock);
    HASH_FIND_PTR(pools, &handle, pool);
    if (pool) {
        HASH_DEL(pools, pool);
        free(pool);
    }
    pthread_mutex_unlock(&lock);
    outside_remove(OUTSIDE_POOL, (uint64_t)(uintptr_t)handle);
    return hbmspill_real.cuMemPoolDestroy(handle);
}

bool pool_movable(CUmemoryPool handle)
{
    struct pool *pool;
    CUdevice current, device = 0;
    bool movable = true, known;

    pthread_mutex_lock(&lock);
    HASH_FIND_PTR(pools, &handle, pool);
    known = pool != NULL;
    if (pool) {
        movable = pool->movable;
        device = pool->device;
    }
    pthread_mutex_unlock(&lock);
    if (!known || !movable)
        return movable; /* an unknown one is a device's default pool */
    return hbmspill_real.cuCtxGetDevice(&current) == CUDA_SUCCESS && current == device;
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

    if (status != CUDA_SUCCESS || !shim_active() || !pool_movable(pool) || !(gpu = gpu_current()))
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
