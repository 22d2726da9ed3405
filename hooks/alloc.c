/*
 * alloc.c - device memory asked for and given back.
 *
 * What is at least HBMSPILL_MIN_SIZE long and movable comes from the cache; the rest is the driver's,
 * counted. Not movable: pools that can be exported or are not of the device, memory allocated by a capture
 * (it belongs to the graph).
 */
#include "hooks/alloc.h"
#include "hooks/capture.h"
#include "hooks/costs.h"
#include "hooks/counters.h"
#include "hooks/host_account.h"
#include "hooks/host_pool.h"
#include "hooks/link.h"
#include "hooks/live.h"
#include "hooks/operation.h"
#include "hooks/outside.h"
#include "hooks/pool.h"
#include "hooks/report.h"
#include "hooks/retry.h"
#include "hooks/sync_memops.h"
#include "hooks/trace.h"
#include "hooks/window.h"
#include "shim/log.h"
#include "shim/options.h"
#include <errno.h>

/* From the cache; false where the driver is to do it. */
bool alloc_take(CUdeviceptr *out, size_t size, CUresult *status)
{
    struct cache_failure failure;
    struct gpu *gpu;
    uint64_t address;
    bool entered;
    int error;

    count_add(allocations, 1);
    if (size < options_get()->min_size || size == 0 || !out || !(gpu = gpu_make_current())) {
        count_add(passed_allocations, 1);
        return false;
    }
    link_when_short(gpu);
    pinned_tick();
    report_tick();
    live_tick();
    entered = gpu_enter(gpu);
    error = cache_alloc(gpu->cache, size, &address, &failure);
    gpu_leave(entered);
    if (error == -ENOSPC) {
        log_once(LOG_WARN, LOG_IN_ALLOC,
                 "no address space could be reserved: allocations are left to the driver and not spilled");
        count_add(passed_allocations, 1);
        return false;
    }
    if (error == -ENOMEM)
        operation_explain(gpu, &failure, "an allocation");
    if (!error) {
        *out = address;
        sync_memops_born(address);
        TRACE(trace_alloc(address, size));
        costs_note_allocation(gpu, address, size);
        count_add(managed_allocations, 1);
    }
    *status = gpu_result(gpu, error);
    return true;
}

/* The driver's, tried again after making room; `note' counts what it took. */
#define PASSED_ALLOC(size, call, note)                                                                       \
    ({                                                                                                       \
        CUresult passed_status = RETRY_AFTER_ROOM(size, call);                                               \
        if (passed_status == CUDA_SUCCESS) {                                                                 \
            note;                                                                                            \
            outside_make_room(gpu_current(), 0);                                                             \
        }                                                                                                    \
        passed_status;                                                                                       \
    })

CUresult hook_cuMemAlloc_v2(CUdeviceptr *out, size_t size)
{
    CUresult status;

    if (!shim_active())
        return hbmspill_real.cuMemAlloc_v2(out, size);
    if (alloc_take(out, size, &status))
        return status;
    return PASSED_ALLOC(size, hbmspill_real.cuMemAlloc_v2(out, size),
                        outside_add(gpu_current(), OUTSIDE_ADDRESS, *out, size));
}

/* Rows start at multiples of the driver's own pitch alignment. */
enum { PITCH_ALIGN = 512 };

CUresult hook_cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                                 unsigned element)
{
    size_t row = (width + PITCH_ALIGN - 1) / PITCH_ALIGN * PITCH_ALIGN;
    CUresult status;

    if (!shim_active() || !pitch || row < width || (row && height > SIZE_MAX / row) ||
        (element != 4 && element != 8 && element != 16))
        return hbmspill_real.cuMemAllocPitch_v2(out, pitch, width, height, element);
    if (alloc_take(out, row * height, &status)) {
        if (status == CUDA_SUCCESS)
            *pitch = row;
        return status;
    }
    return PASSED_ALLOC(row * height, hbmspill_real.cuMemAllocPitch_v2(out, pitch, width, height, element),
                        outside_add(gpu_current(), OUTSIDE_ADDRESS, *out, *pitch * height));
}

CUresult hook_cuMemAllocManaged(CUdeviceptr *out, size_t size, unsigned flags)
{
    if (shim_active()) {
        count_add(allocations, 1);
        count_add(passed_allocations, 1);
    }
    return hbmspill_real.cuMemAllocManaged(out, size, flags);
}

/* The allocation is the cache's and made; what it means in its stream. */
static CUresult acted(CUdeviceptr address, CUstream stream, bool per_thread)
{
    struct gpu *gpu = gpu_of_address(address);
    CUresult status;

    if ((stream && stream != CU_STREAM_LEGACY) || (!stream && per_thread))
        return CUDA_SUCCESS;
    status = window_submit_for(stream);
    if (status == CUDA_SUCCESS)
        status = gpu_legacy_action(gpu, stream, per_thread);
    if (status != CUDA_SUCCESS)
        (void)cache_free(gpu->cache, address, NULL);
    return status;
}

#define ASYNC_ALLOC(out, size, stream, per_thread, pool, call)                                               \
    do {                                                                                                     \
        CUmemoryPool async_pool;                                                                             \
        CUresult async_status;                                                                               \
        if (!shim_active() || capture_graph(stream, per_thread) || !(async_pool = (pool)))                   \
            return call;                                                                                     \
        switch (pool_kind(async_pool)) {                                                                     \
        case POOL_HOST:                                                                                      \
            return HOST_POOL_ALLOC(async_pool, size, out, call);                                             \
        case POOL_OTHER:                                                                                     \
            return call;                                                                                     \
        case POOL_MOVABLE:                                                                                   \
            if (alloc_take(out, size, &async_status))                                                        \
                return async_status != CUDA_SUCCESS ? async_status : acted(*(out), stream, per_thread);      \
            break;                                                                                           \
        case POOL_DEVICE:                                                                                    \
            break;                                                                                           \
        }                                                                                                    \
        return PASSED_ALLOC(size, call, outside_pool(async_pool));                                           \
    } while (0)

CUresult hook_cuMemAllocAsync(CUdeviceptr *out, size_t size, CUstream stream)
{
    ASYNC_ALLOC(out, size, stream, false, pool_current(), hbmspill_real.cuMemAllocAsync(out, size, stream));
}

CUresult hook_cuMemAllocAsync_ptsz(CUdeviceptr *out, size_t size, CUstream stream)
{
    ASYNC_ALLOC(out, size, stream, true, pool_current(),
                hbmspill_real.cuMemAllocAsync_ptsz(out, size, stream));
}

CUresult hook_cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t size, CUmemoryPool pool, CUstream stream)
{
    ASYNC_ALLOC(out, size, stream, false, pool,
                hbmspill_real.cuMemAllocFromPoolAsync(out, size, pool, stream));
}

CUresult hook_cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *out, size_t size, CUmemoryPool pool, CUstream stream)
{
    ASYNC_ALLOC(out, size, stream, true, pool,
                hbmspill_real.cuMemAllocFromPoolAsync_ptsz(out, size, pool, stream));
}

/* Of ours: freed here. Anything else: false, the driver's to judge. */
static bool managed_free(CUdeviceptr address, const struct stream_key *stream, CUresult *status)
{
    struct gpu *gpu = gpu_of_address(address);
    bool entered;

    count_add(frees, 1);
    if (!gpu) {
        outside_remove(OUTSIDE_ADDRESS, address);
        return false;
    }
    TRACE(trace_free(address, stream));
    entered = gpu_enter(gpu);
    *status = gpu_result(gpu, cache_free(gpu->cache, address, stream));
    gpu_leave(entered);
    return true;
}

CUresult alloc_give(CUdeviceptr address)
{
    CUresult status = CUDA_SUCCESS;

    window_submit_quietly(CU_STREAM_LEGACY);
    (void)managed_free(address, NULL, &status);
    return status;
}

/* The driver's. It is no longer a host pool's before the call: the address may be another's right after. */
#define PASSED_FREE(address, call, freed)                                                                    \
    ({                                                                                                       \
        struct host_piece *piece = host_pool_take(address);                                                  \
        CUresult passed_status = (call);                                                                     \
        if (piece && passed_status == CUDA_SUCCESS)                                                          \
            freed;                                                                                           \
        else if (piece)                                                                                      \
            host_pool_put_back(piece);                                                                       \
        passed_status;                                                                                       \
    })

CUresult hook_cuMemFree_v2(CUdeviceptr address)
{
    CUresult status;

    if (!shim_active())
        return hbmspill_real.cuMemFree_v2(address);
    window_submit_quietly(CU_STREAM_LEGACY);
    if (!managed_free(address, NULL, &status))
        status = PASSED_FREE(address, hbmspill_real.cuMemFree_v2(address), host_pool_freed(piece));
    return status;
}

static bool async_free(CUdeviceptr address, CUstream stream, bool per_thread, CUresult *status)
{
    struct stream_key key = stream_key_of(stream, per_thread);
    struct gpu *gpu;

    if (!shim_active())
        return false;
    if (gpu_of_address(address) && capture_graph(stream, per_thread)) {
        /* Only memory that the graph itself allocates can be freed by it. */
        *status = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        return true;
    }
    if (!per_thread && window_hold_free(address, stream, status)) {
        count_add(frees, 1);
        return true;
    }
    window_submit_quietly(per_thread && !stream ? CU_STREAM_PER_THREAD : stream);
    gpu = gpu_of_address(address);
    if (gpu && (*status = gpu_legacy_action(gpu, stream, per_thread)) != CUDA_SUCCESS)
        return true;
    return managed_free(address, &key, status);
}

CUresult hook_cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
    CUresult status;

    if (async_free(address, stream, false, &status))
        return status;
    return PASSED_FREE(address, hbmspill_real.cuMemFreeAsync(address, stream),
                       host_pool_freed_in(piece, stream, false));
}

CUresult hook_cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream)
{
    CUresult status;

    if (async_free(address, stream, true, &status))
        return status;
    return PASSED_FREE(address, hbmspill_real.cuMemFreeAsync_ptsz(address, stream),
                       host_pool_freed_in(piece, stream, true));
}
