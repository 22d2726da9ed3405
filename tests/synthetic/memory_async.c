/*
 * memory_async.c - stream-ordered allocation and what a pool tells of itself ("Stream Ordered Memory
 * Allocator" of the driver API reference). Which pools there are is in pool_places.c.
 */
#include "memory_pool.h"

#include <string.h>

/*
 * "CUDA_ERROR_INVALID_CONTEXT (default stream specified with no current context)": with a stream of its own
 * these functions need no current context, the stream has one.
 */
static CUresult resolve_locked(CUstream handle, struct CUstream_st **out)
{
    bool by_default = !handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
    CUcontext ctx = context_current();
    if (by_default && context_check(ctx) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_CONTEXT;
    CUresult result = stream_resolve_locked(handle, out);
    return result == CUDA_SUCCESS ? (*out)->ctx->error : result;
}

static CUresult allocate_locked(CUdeviceptr *out, size_t size, struct CUmemPoolHandle_st *pool,
                                CUstream handle)
{
    struct CUstream_st *stream;
    CUresult result = resolve_locked(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!pool)
        pool = pool_current_locked(stream->ctx->device);
    if (stream->capture) /* allocation nodes are not implemented */
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    struct op *after = NULL;
    uint64_t address = pool_allocate_locked(pool, size, stream, stream->ctx, &after);
    if (!address)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (after) {
        /* CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: this stream waits for the free in the other one.
         */
        struct work work = {.kind = WORK_EMPTY};
        result = stream_submit_locked(stream, &work, &after, 1, NULL);
        op_unref_locked(after);
        if (result != CUDA_SUCCESS) {
            pool_free_range_locked(range_find_locked(address), 0, NULL);
            return result;
        }
    }
    *out = address;
    return CUDA_SUCCESS;
}

CUresult cuMemAllocAsync(CUdeviceptr *out, size_t size, CUstream stream)
{
    API_ENTER(0);
    if (!out || !size)
        return CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    CUresult result = allocate_locked(out, size, NULL, stream);
    driver_release();
    return result;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t size, CUmemoryPool pool, CUstream stream)
{
    API_ENTER(0);
    if (!out || !size || !pool_valid(pool))
        return CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    CUresult result = allocate_locked(out, size, pool, stream);
    driver_release();
    return result;
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle)
{
    API_ENTER(0);
    struct CUstream_st *stream;
    struct op *op = NULL;
    driver_acquire();
    CUresult result = resolve_locked(handle, &stream);
    struct range *range = range_find_locked(address);
    if (result != CUDA_SUCCESS)
        goto out;
    result = CUDA_ERROR_INVALID_VALUE;
    if (!range || range->base != address || (range->kind != RANGE_POOL && range->kind != RANGE_ALLOC) ||
        range->global)
        goto out;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture)
        goto out;
    struct work work = {.kind = WORK_FREE, .free = {.address = range->base, .size = range->size}};
    result = stream_submit_locked(stream, &work, NULL, 0, &op);
    if (result == CUDA_SUCCESS)
        pool_free_range_locked(range_find_locked(address), stream->id, op);
    if (op)
        op_unref_locked(op);
out:
    driver_release();
    return result;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    API_ENTER(0);
    driver_acquire();
    bool valid = pool_valid(pool);
    if (valid)
        pool_trim_locked(pool, keep);
    driver_release();
    return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    API_ENTER(0);
    if (!pool_valid(pool) || !value)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_SUCCESS;
    driver_acquire();
    switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
        pool->reuse_follow = *(int *)value;
        break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
        pool->reuse_opportunistic = *(int *)value;
        break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        pool->reuse_internal = *(int *)value;
        break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        pool->threshold = *(cuuint64_t *)value;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: /* "may only be set to zero" */
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        if (*(cuuint64_t *)value != 0)
            result = CUDA_ERROR_INVALID_VALUE;
        else if (attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
            pool->used_high = pool->used;
        else
            pool->reserved_high = pool->reserved;
        break;
    default:
        result = CUDA_ERROR_INVALID_VALUE;
    }
    driver_release();
    return result;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    API_ENTER(0);
    if (!pool_valid(pool) || !value)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_SUCCESS;
    driver_acquire();
    switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
        *(int *)value = pool->reuse_follow;
        break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
        *(int *)value = pool->reuse_opportunistic;
        break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        *(int *)value = pool->reuse_internal;
        break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        *(cuuint64_t *)value = pool->threshold;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        *(cuuint64_t *)value = pool->reserved;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        *(cuuint64_t *)value = pool->reserved_high;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        *(cuuint64_t *)value = pool->used;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        *(cuuint64_t *)value = pool->used_high;
        break;
    default:
        result = CUDA_ERROR_INVALID_VALUE;
    }
    driver_release();
    return result;
}
