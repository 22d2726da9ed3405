/*
 * copy.c - one-dimensional copies and memsets.
 *
 * Directions are told by what the pointers are, not by the function's name: JAX copies to pinned host memory
 * through cuMemcpyDtoDAsync. A copy whose data is spilled is served in its host slot: it is then issued by
 * unified addresses in the same stream, so stream order holds; forms that return only when the copy is done
 * wait for it.
 *
 * A copy that returns early (pageable to device, device to device, memset) counts as queued like any other.
 */
#include "hooks/capture.h"
#include "hooks/counters.h"
#include "hooks/live.h"
#include "hooks/operation.h"
#include "hooks/report.h"
#include "hooks/sync_memops.h"
#include "hooks/trace.h"
#include "hooks/window.h"
#include <errno.h>

enum side { SIDE_HOST, SIDE_DEVICE, SIDE_ANY /* unified: ask */ };

struct copy {
    uint64_t dst, src;
    size_t size;
    enum side dst_side, src_side;
    CUstream stream;
    bool per_thread, blocking;
    bool in_slot;
    bool queued; /* a part of it, in a slot: what is submitted is in the stream whatever comes of the rest */
    bool waits;  /* for its end, whatever the driver would: sync_memops.h */
    bool held;   /* for later: nothing is left to do now */
    struct operation operation;
};

static bool on_device(uint64_t address, enum side side)
{
    unsigned type = 0;

    if (gpu_of_address(address))
        return true;
    if (side == SIDE_HOST)
        return false;
    if (hbmspill_real.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != CUDA_SUCCESS)
        return side == SIDE_DEVICE; /* unregistered host memory has no attributes */
    return type == CU_MEMORYTYPE_DEVICE;
}

static enum tape_copy copy_form(const struct copy *copy)
{
    if (!on_device(copy->dst, copy->dst_side))
        return TAPE_TO_HOST;
    return on_device(copy->src, copy->src_side) ? TAPE_INSIDE : TAPE_TO_DEVICE;
}

static void copy_count(const struct copy *copy)
{
    bool to_device = on_device(copy->dst, copy->dst_side), from_device = on_device(copy->src, copy->src_side);

    if (to_device && from_device)
        count_add(d2d_bytes, copy->size);
    else if (to_device)
        count_add(h2d_bytes, copy->size);
    else if (from_device)
        count_add(d2h_bytes, copy->size);
    else
        count_add(h2h_bytes, copy->size);
}

static CUresult copy_begin(struct copy *copy)
{
    struct touches touches;
    CUresult status;
    CUgraph graph;
    bool entered;
    int error;

    count_add(copies, 1);
    report_tick();
    live_tick();
    copy->in_slot = copy->queued = copy->held = false;
    operation_none(&copy->operation);
    copy->waits = copy->blocking && (sync_memops_of(copy->dst) || sync_memops_of(copy->src));
    if (!gpu_at(0))
        return CUDA_SUCCESS;
    if (!touches_within(copy->dst, copy->size) || !touches_within(copy->src, copy->size))
        return CUDA_ERROR_INVALID_VALUE;
    if (!copy->blocking && !copy->per_thread &&
        window_hold_copy(copy->dst, copy->src, copy->size, copy->stream, &status)) {
        copy->held = true;
        return status;
    }
    status = window_submit_for(copy->per_thread && !copy->stream ? CU_STREAM_PER_THREAD : copy->stream);
    if (status != CUDA_SUCCESS)
        return status;
    touches_init(&touches);
    touches_add(&touches, copy->dst, CACHE_WRITE);
    touches_add(&touches, copy->src, CACHE_READ);
    if (!touches.gpu)
        return CUDA_SUCCESS;
    TRACE(trace_copy(copy->dst, copy->src, copy->size, copy->stream, copy->per_thread, copy->blocking,
                     copy_form(copy)));
    graph = capture_graph(copy->stream, copy->per_thread);
    if (graph || touches.mixed)
        return operation_begin(&copy->operation, &touches, copy->stream, copy->per_thread, false, "copy");
    entered = gpu_enter(touches.gpu);
    if (!gpu_of_address(copy->src) && cache_copy_is_birth(touches.gpu->cache, copy->dst, copy->size))
        window_alone_always(touches.gpu, &touches);
    else if (!copy->blocking && gpu_of_address(copy->dst) && gpu_of_address(copy->src))
        window_alone(touches.gpu, &touches);
    error = cache_copy_begin(touches.gpu->cache, &copy->operation.op,
                             stream_key_of(copy->stream, copy->per_thread), copy->dst, copy->src, copy->size,
                             &copy->in_slot);
    gpu_leave(entered);
    if (error == -ENOMEM)
        operation_explain(touches.gpu, &copy->operation.op.failure, "copy");
    status = gpu_result(touches.gpu, error);
    if (!error) {
        copy->operation.gpu = touches.gpu;
        EVENTS(events_operation_begin(&copy->operation.work, touches.gpu, "the job's copy", copy->stream,
                                      copy->per_thread, copy->size));
    }
    touches_fini(&touches);
    return status;
}

/* What is side by side at the job's addresses may not be in slots. */
static CUresult copy_in_slot(struct copy *copy)
{
    CUstream stream = copy->per_thread && !copy->stream ? CU_STREAM_PER_THREAD : copy->stream;
    struct gpu *gpu = copy->operation.gpu;
    uint64_t done = 0, dst, src, part, first_dst = copy->dst, first_src = copy->src;
    CUresult status;

    do {
        dst = copy->dst + done;
        src = copy->src + done;
        part = copy->size - done;
        status = gpu_result(gpu, cache_copy_part(gpu->cache, &copy->operation.op, &dst, &src, &part));
        if (status == CUDA_SUCCESS)
            status = hbmspill_real.cuMemcpyAsync(dst, src, part, stream);
        copy->queued |= status == CUDA_SUCCESS;
        if (!done) {
            first_dst = dst;
            first_src = src;
        }
        done += part;
    } while (status == CUDA_SUCCESS && done < copy->size);
    copy->dst = first_dst; /* what is counted is where it went */
    copy->src = first_src;
    if (status == CUDA_SUCCESS && copy->blocking)
        status = hbmspill_real.cuStreamSynchronize(stream);
    return status;
}

static CUresult copy_end(struct copy *copy, CUresult status)
{
    operation_end(&copy->operation, copy->queued ? CUDA_SUCCESS : status);
    if (status == CUDA_SUCCESS)
        copy_count(copy);
    return sync_memops_finish(copy->waits, copy->per_thread, status);
}

#define ADDRESS(pointer) ((uint64_t)(uintptr_t)(pointer))

#define COPY_HOOK(symbol, parameters, arguments, ...)                                                        \
    CUresult hook_##symbol parameters                                                                        \
    {                                                                                                        \
        struct copy copy = {__VA_ARGS__};                                                                    \
        CUresult status;                                                                                     \
                                                                                                             \
        if (!shim_active())                                                                                  \
            return hbmspill_real.symbol arguments;                                                           \
        status = copy_begin(&copy);                                                                          \
        if (status != CUDA_SUCCESS || copy.held)                                                             \
            return status;                                                                                   \
        status = copy.in_slot ? copy_in_slot(&copy) : hbmspill_real.symbol arguments;                        \
        return copy_end(&copy, status);                                                                      \
    }

#define ANY_TO_ANY .dst = dst, .src = src, .size = size, .dst_side = SIDE_ANY, .src_side = SIDE_ANY
#define HOST_TO_DEVICE                                                                                       \
    .dst = dst, .src = ADDRESS(src), .size = size, .dst_side = SIDE_ANY, .src_side = SIDE_HOST
#define DEVICE_TO_HOST                                                                                       \
    .dst = ADDRESS(dst), .src = src, .size = size, .dst_side = SIDE_HOST, .src_side = SIDE_ANY

COPY_HOOK(cuMemcpy, (CUdeviceptr dst, CUdeviceptr src, size_t size), (dst, src, size), ANY_TO_ANY,
          .blocking = true)
COPY_HOOK(cuMemcpy_ptds, (CUdeviceptr dst, CUdeviceptr src, size_t size), (dst, src, size), ANY_TO_ANY,
          .blocking = true, .per_thread = true)
COPY_HOOK(cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream),
          (dst, src, size, stream), ANY_TO_ANY, .stream = stream)
COPY_HOOK(cuMemcpyAsync_ptsz, (CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream),
          (dst, src, size, stream), ANY_TO_ANY, .stream = stream, .per_thread = true)
COPY_HOOK(cuMemcpyHtoD_v2, (CUdeviceptr dst, const void *src, size_t size), (dst, src, size), HOST_TO_DEVICE,
          .blocking = true)
COPY_HOOK(cuMemcpyHtoD_v2_ptds, (CUdeviceptr dst, const void *src, size_t size), (dst, src, size),
          HOST_TO_DEVICE, .blocking = true, .per_thread = true)
COPY_HOOK(cuMemcpyHtoDAsync_v2, (CUdeviceptr dst, const void *src, size_t size, CUstream stream),
          (dst, src, size, stream), HOST_TO_DEVICE, .stream = stream)
COPY_HOOK(cuMemcpyHtoDAsync_v2_ptsz, (CUdeviceptr dst, const void *src, size_t size, CUstream stream),
          (dst, src, size, stream), HOST_TO_DEVICE, .stream = stream, .per_thread = true)
COPY_HOOK(cuMemcpyDtoH_v2, (void *dst, CUdeviceptr src, size_t size), (dst, src, size), DEVICE_TO_HOST,
          .blocking = true)
COPY_HOOK(cuMemcpyDtoH_v2_ptds, (void *dst, CUdeviceptr src, size_t size), (dst, src, size), DEVICE_TO_HOST,
          .blocking = true, .per_thread = true)
COPY_HOOK(cuMemcpyDtoHAsync_v2, (void *dst, CUdeviceptr src, size_t size, CUstream stream),
          (dst, src, size, stream), DEVICE_TO_HOST, .stream = stream)
COPY_HOOK(cuMemcpyDtoHAsync_v2_ptsz, (void *dst, CUdeviceptr src, size_t size, CUstream stream),
          (dst, src, size, stream), DEVICE_TO_HOST, .stream = stream, .per_thread = true)
COPY_HOOK(cuMemcpyDtoD_v2, (CUdeviceptr dst, CUdeviceptr src, size_t size), (dst, src, size), ANY_TO_ANY,
          .blocking = true)
COPY_HOOK(cuMemcpyDtoD_v2_ptds, (CUdeviceptr dst, CUdeviceptr src, size_t size), (dst, src, size), ANY_TO_ANY,
          .blocking = true, .per_thread = true)
COPY_HOOK(cuMemcpyDtoDAsync_v2, (CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream),
          (dst, src, size, stream), ANY_TO_ANY, .stream = stream)
COPY_HOOK(cuMemcpyDtoDAsync_v2_ptsz, (CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream),
          (dst, src, size, stream), ANY_TO_ANY, .stream = stream, .per_thread = true)
