/*
 * device_cuda.c - struct device_ops over the real driver.
 *
 * Calls go through the table of real functions, never through a hook. All of them are made with the gpu's
 * context current (gpu_enter). While any thread captures, calls that CUDA calls "potentially unsafe" are
 * refused in other threads too under the global capture mode (cuThreadExchangeStreamCaptureMode); the cache's
 * own calls are no part of anybody's capture, so they are made under the relaxed mode.
 */
#include "hooks/capture.h"
#include "hooks/gpu.h"
#include "hooks/held.h"
#include <errno.h>

static int result(struct gpu *gpu, CUresult status)
{
    switch (status) {
    case CUDA_SUCCESS:
        return 0;
    case CUDA_ERROR_NOT_READY:
        return -EBUSY;
    case CUDA_ERROR_OUT_OF_MEMORY:
        return -ENOMEM;
    default:
        atomic_store_explicit(&gpu->last_error, (int)status, memory_order_relaxed);
        return -EIO;
    }
}

/* A call that gave something, or took it back. */
#define COUNTED(kind, n, call)                                                                               \
    ({                                                                                                       \
        int counted_error = (call);                                                                          \
        if (!counted_error)                                                                                  \
            held_add(kind, n);                                                                               \
        counted_error;                                                                                       \
    })

/* Calls the real function under the relaxed capture mode. */
#define RELAXED(gpu, call)                                                                                   \
    ({                                                                                                       \
        int relaxed_mode = capture_relax();                                                                  \
        CUresult relaxed_status = hbmspill_real.call;                                                        \
        capture_restore(relaxed_mode);                                                                       \
        result(gpu, relaxed_status);                                                                         \
    })

static int cuda_reserve(void *ctx, uint64_t size, uint64_t *address)
{
    struct gpu *gpu = ctx;
    CUdeviceptr pointer;
    int error = COUNTED(reservations, 1, RELAXED(gpu, cuMemAddressReserve(&pointer, size, 0, 0, 0)));

    if (!error)
        *address = pointer;
    return error;
}

static int cuda_unreserve(void *ctx, uint64_t address, uint64_t size)
{
    return COUNTED(reservations, -1, RELAXED(ctx, cuMemAddressFree(address, size)));
}

static int cuda_frame_create(void *ctx, uint64_t size, uint64_t *handle)
{
    struct gpu *gpu = ctx;
    CUmemGenericAllocationHandle made;
    int error = COUNTED(frames, 1, RELAXED(gpu, cuMemCreate(&made, size, &gpu->prop, 0)));

    if (!error)
        *handle = made;
    return error;
}

static int cuda_frame_release(void *ctx, uint64_t handle)
{
    return COUNTED(frames, -1, RELAXED(ctx, cuMemRelease(handle)));
}

static int cuda_map(void *ctx, uint64_t address, uint64_t size, uint64_t handle)
{
    return COUNTED(mappings, 1, RELAXED(ctx, cuMemMap(address, size, 0, handle, 0)));
}

static int cuda_unmap(void *ctx, uint64_t address, uint64_t size)
{
    return COUNTED(mappings, -1, RELAXED(ctx, cuMemUnmap(address, size)));
}

static int cuda_set_access(void *ctx, uint64_t address, uint64_t size)
{
    struct gpu *gpu = ctx;

    return RELAXED(gpu, cuMemSetAccess(address, size, &gpu->access, 1));
}

static int cuda_host_alloc(void *ctx, uint64_t size, void **out)
{
    return COUNTED(slots, 1, pinned_slot_alloc(ctx, size, out));
}

static int cuda_host_free(void *ctx, void *memory)
{
    return COUNTED(slots, -1, pinned_slot_free(ctx, memory));
}

static uint64_t cuda_host_room(void *ctx)
{
    (void)ctx;
    return pinned_room();
}

static int cuda_stream_create(void *ctx, uint64_t *stream)
{
    struct gpu *gpu = ctx;
    CUstream made;
    int error = COUNTED(streams, 1, RELAXED(gpu, cuStreamCreate(&made, CU_STREAM_NON_BLOCKING)));

    if (!error)
        *stream = (uint64_t)(uintptr_t)made;
    return error;
}

static int cuda_stream_destroy(void *ctx, uint64_t stream)
{
    int mode = capture_relax();

    (void)ctx;
    held_destroy_stream((CUstream)(uintptr_t)stream);
    capture_restore(mode);
    return 0;
}

static int cuda_copy(void *ctx, uint64_t stream, uint64_t dst, uint64_t src, uint64_t size)
{
    return RELAXED(ctx, cuMemcpyAsync(dst, src, size, (CUstream)(uintptr_t)stream));
}

static int cuda_host_function(void *ctx, uint64_t stream, void (*function)(void *), void *data)
{
    return RELAXED(ctx, cuLaunchHostFunc((CUstream)(uintptr_t)stream, function, data));
}

static int cuda_event_create(void *ctx, uint64_t *event)
{
    struct gpu *gpu = ctx;
    CUevent made;
    int error = COUNTED(events, 1, RELAXED(gpu, cuEventCreate(&made, CU_EVENT_DISABLE_TIMING)));

    if (!error)
        *event = (uint64_t)(uintptr_t)made;
    return error;
}

static int cuda_event_destroy(void *ctx, uint64_t event)
{
    int mode = capture_relax();

    (void)ctx;
    held_destroy_event((CUevent)(uintptr_t)event);
    capture_restore(mode);
    return 0;
}

static int cuda_event_record(void *ctx, uint64_t event, uint64_t stream)
{
    return RELAXED(ctx, cuEventRecord((CUevent)(uintptr_t)event, (CUstream)(uintptr_t)stream));
}

static int cuda_stream_wait(void *ctx, uint64_t stream, uint64_t event)
{
    return RELAXED(ctx, cuStreamWaitEvent((CUstream)(uintptr_t)stream, (CUevent)(uintptr_t)event, 0));
}

static int cuda_event_query(void *ctx, uint64_t event)
{
    return RELAXED(ctx, cuEventQuery((CUevent)(uintptr_t)event));
}

static int cuda_event_synchronize(void *ctx, uint64_t event)
{
    return RELAXED(ctx, cuEventSynchronize((CUevent)(uintptr_t)event));
}

static int cuda_timer_create(void *ctx, uint64_t *event)
{
    struct gpu *gpu = ctx;
    CUevent made;
    int error = COUNTED(events, 1, RELAXED(gpu, cuEventCreate(&made, CU_EVENT_DEFAULT)));

    if (!error)
        *event = (uint64_t)(uintptr_t)made;
    return error;
}

static int cuda_elapsed(void *ctx, uint64_t start, uint64_t end, double *nanoseconds)
{
    struct gpu *gpu = ctx;
    float milliseconds;
    int error =
        RELAXED(gpu, cuEventElapsedTime(&milliseconds, (CUevent)(uintptr_t)start, (CUevent)(uintptr_t)end));

    if (!error)
        *nanoseconds = (double)milliseconds * 1e6;
    return error;
}

void device_cuda_init(struct gpu *gpu)
{
    gpu->ops = (struct device_ops){.ctx = gpu,
                                   .reserve = cuda_reserve,
                                   .unreserve = cuda_unreserve,
                                   .frame_create = cuda_frame_create,
                                   .frame_release = cuda_frame_release,
                                   .map = cuda_map,
                                   .unmap = cuda_unmap,
                                   .set_access = cuda_set_access,
                                   .host_alloc = cuda_host_alloc,
                                   .host_free = cuda_host_free,
                                   .host_room = cuda_host_room,
                                   .stream_create = cuda_stream_create,
                                   .stream_destroy = cuda_stream_destroy,
                                   .copy = cuda_copy,
                                   .host_function = cuda_host_function,
                                   .event_create = cuda_event_create,
                                   .event_destroy = cuda_event_destroy,
                                   .event_record = cuda_event_record,
                                   .stream_wait = cuda_stream_wait,
                                   .event_query = cuda_event_query,
                                   .event_synchronize = cuda_event_synchronize,
                                   .timer_create = cuda_timer_create,
                                   .elapsed = cuda_elapsed};
}
