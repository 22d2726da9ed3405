/*
 * context.c - devices' contexts: primary and created ones, the stack of current contexts of a thread, sticky
 * errors.
 *
 * "Primary Context Management" and "Context Management" of the driver API reference. A context's error is
 * sticky: after a fault of an operation every function that needs the context returns it, until the context
 * is gone.
 */
#include "timeline.h"

#include <stdlib.h>
#include <string.h>

struct device devices[MAX_DEVICES];
int device_count;

static uint64_t next_context_id = 1;

#define STACK_MAX 64
static _Thread_local CUcontext stack[STACK_MAX];
static _Thread_local int depth;

CUcontext context_current(void)
{
    return depth ? stack[depth - 1] : NULL;
}

CUresult context_check(CUcontext ctx)
{
    return object_valid(ctx, OBJECT_CONTEXT) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult device_check(CUdevice dev)
{
    return dev >= 0 && dev < device_count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

void context_fail_locked(CUcontext ctx, CUresult error)
{
    if (ctx->error == CUDA_SUCCESS)
        __atomic_store_n(&ctx->error, error, __ATOMIC_RELEASE);
}

static CUcontext context_new_locked(struct device *device, unsigned flags)
{
    CUcontext ctx = object_new_locked(OBJECT_CONTEXT, sizeof(*ctx));
    if (!ctx)
        return NULL;
    ctx->device = device;
    ctx->flags = flags;
    ctx->id = next_context_id++;
    ctx->limits[CU_LIMIT_STACK_SIZE] = 1024;
    ctx->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
    ctx->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
    ctx->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
    ctx->heap = pool_new_locked(device, NULL, ctx);
    ctx->legacy = stream_new_locked(ctx, CU_STREAM_DEFAULT, 0);
    if (!ctx->heap || !ctx->legacy || engine_start_locked(device) != 0)
        return NULL;
    ctx->legacy->legacy = true;
    if (ctx->legacy->lane)
        ctx->legacy->lane->legacy = true;
    ctx->next = device->contexts;
    device->contexts = ctx;
    return ctx;
}

static void context_free_locked(CUcontext ctx)
{
    context_drain_locked(ctx);
    while (ctx->streams) {
        struct CUstream_st *stream = ctx->streams;
        stream->destroyed = true;
        stream_free_locked(stream);
    }
    heap_destroy_locked(ctx->heap);
    host_memory_destroy_locked(ctx);
    for (CUcontext *link = &ctx->device->contexts; *link; link = &(*link)->next) {
        if (*link == ctx) {
            *link = ctx->next;
            break;
        }
    }
    object_free_locked(ctx);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice dev)
{
    API_ENTER(0);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_check(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    CUresult result = CUDA_SUCCESS;
    driver_acquire();
    struct device *device = &devices[dev];
    if (!device->primary) {
        device->primary = context_new_locked(device, device->primary_flags);
        if (device->primary)
            device->primary->primary = true;
    }
    if (device->primary) {
        device->primary->refs++;
        *out = device->primary;
    } else {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    driver_release();
    return result;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    API_ENTER(0);
    if (device_check(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    CUresult result = CUDA_SUCCESS;
    driver_acquire();
    CUcontext ctx = devices[dev].primary;
    if (!ctx) {
        result = CUDA_ERROR_INVALID_CONTEXT;
    } else if (--ctx->refs == 0) {
        devices[dev].primary = NULL;
        context_free_locked(ctx);
    }
    driver_release();
    return result;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
    return cuDevicePrimaryCtxRelease_v2(dev);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    API_ENTER(0);
    if (device_check(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    driver_acquire();
    CUcontext ctx = devices[dev].primary;
    devices[dev].primary = NULL;
    if (ctx)
        context_free_locked(ctx);
    driver_release();
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
    return cuDevicePrimaryCtxReset_v2(dev);
}

static bool flags_valid(unsigned flags)
{
    unsigned schedule = flags & CU_CTX_SCHED_MASK;
    return !(flags & ~(unsigned)CU_CTX_FLAGS_MASK) &&
           (schedule == CU_CTX_SCHED_AUTO || schedule == CU_CTX_SCHED_SPIN ||
            schedule == CU_CTX_SCHED_YIELD || schedule == CU_CTX_SCHED_BLOCKING_SYNC);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
    API_ENTER(0);
    if (device_check(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!flags_valid(flags))
        return CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    devices[dev].primary_flags = flags;
    if (devices[dev].primary)
        devices[dev].primary->flags = flags;
    driver_release();
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
    return cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
    API_ENTER(0);
    if (device_check(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    *flags = devices[dev].primary ? devices[dev].primary->flags : devices[dev].primary_flags;
    *active = devices[dev].primary != NULL;
    driver_release();
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext *out, unsigned int flags, CUdevice dev)
{
    API_ENTER(0);
    if (!out || !flags_valid(flags))
        return CUDA_ERROR_INVALID_VALUE;
    if (device_check(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    if (depth == STACK_MAX)
        return CUDA_ERROR_OUT_OF_MEMORY;
    driver_acquire();
    CUcontext ctx = context_new_locked(&devices[dev], flags);
    driver_release();
    if (!ctx)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stack[depth++] = ctx;
    *out = ctx;
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate(CUcontext *out, unsigned int flags, CUdevice dev)
{
    return cuCtxCreate_v2(out, flags, dev);
}

CUresult cuCtxCreate_v3(CUcontext *out, CUexecAffinityParam *params, int count, unsigned int flags,
                        CUdevice dev)
{
    if (params || count)
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return cuCtxCreate_v2(out, flags, dev);
}

CUresult cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *params, unsigned int flags, CUdevice dev)
{
    if (params && (params->execAffinityParams || params->cigParams))
        return CUDA_ERROR_NOT_SUPPORTED;
    return cuCtxCreate_v2(out, flags, dev);
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
    API_ENTER(0);
    if (context_check(ctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (ctx->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    driver_acquire();
    context_free_locked(ctx);
    driver_release();
    if (context_current() == ctx)
        depth--;
    return CUDA_SUCCESS;
}

CUresult cuCtxDestroy(CUcontext ctx)
{
    return cuCtxDestroy_v2(ctx);
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
    API_ENTER(0);
    if (context_check(ctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (depth == STACK_MAX)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stack[depth++] = ctx;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext ctx)
{
    return cuCtxPushCurrent_v2(ctx);
}

CUresult cuCtxPopCurrent_v2(CUcontext *out)
{
    API_ENTER(0);
    if (!depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (out)
        *out = stack[depth];
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *out)
{
    return cuCtxPopCurrent_v2(out);
}

CUresult cuCtxSetCurrent(CUcontext ctx)
{
    API_ENTER(0);
    if (ctx && context_check(ctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!ctx) {
        if (depth)
            depth--;
        return CUDA_SUCCESS;
    }
    if (!depth)
        depth = 1;
    stack[depth - 1] = ctx;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *out)
{
    API_ENTER(0);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = context_current();
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    API_ENTER(0);
    CUcontext ctx = context_current();
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    if (context_check(ctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    *device = ctx->device->ordinal;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
    API_ENTER(0);
    if (!ctx)
        ctx = context_current();
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    if (context_check(ctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    *device = ctx->device->ordinal;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
    API_ENTER(API_CONTEXT);
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = context_current()->flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags)
{
    API_ENTER(API_CONTEXT);
    if (!flags_valid(flags))
        return CUDA_ERROR_INVALID_VALUE;
    context_current()->flags = flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long *id)
{
    API_ENTER(0);
    if (!ctx)
        ctx = context_current();
    if (context_check(ctx))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (!id)
        return CUDA_ERROR_INVALID_VALUE;
    *id = ctx->id;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
    API_ENTER(0);
    if (!ctx)
        ctx = context_current();
    if (context_check(ctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = 3020;
    return CUDA_SUCCESS;
}

static CUresult synchronize(CUcontext ctx)
{
    CUresult result;
    driver_acquire();
    for (struct CUstream_st *s = ctx->streams; s; s = s->next) {
        if (s->capture) {
            driver_release();
            return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    context_drain_locked(ctx);
    pool_trim_all_locked();
    result = ctx->error;
    driver_release();
    return result;
}

CUresult cuCtxSynchronize(void)
{
    API_ENTER(API_CONTEXT | API_NOT_CAPTURING);
    return synchronize(context_current());
}

CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
    API_ENTER(API_NOT_CAPTURING);
    if (!ctx)
        ctx = context_current();
    if (context_check(ctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    return synchronize(ctx);
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    API_ENTER(API_CONTEXT);
    if ((unsigned)limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    context_current()->limits[limit] = value;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
    API_ENTER(API_CONTEXT);
    if (!value || (unsigned)limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    *value = context_current()->limits[limit];
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *config)
{
    API_ENTER(API_CONTEXT);
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    *config = CU_FUNC_CACHE_PREFER_NONE;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
    API_ENTER(API_CONTEXT);
    return config <= CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *config)
{
    API_ENTER(API_CONTEXT);
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    *config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
    API_ENTER(API_CONTEXT);
    return config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* "Stream priorities follow a convention where lower numbers imply greater priorities." */
CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    API_ENTER(API_CONTEXT);
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return CUDA_SUCCESS;
}

CUresult cuCtxResetPersistingL2Cache(void)
{
    API_ENTER(API_CONTEXT);
    return CUDA_SUCCESS;
}

/* There is no profiler; cudaProfiler.h declares these. */
__attribute__((visibility("default"))) CUresult cuProfilerStart(void);
__attribute__((visibility("default"))) CUresult cuProfilerStop(void);

CUresult cuProfilerStart(void)
{
    API_ENTER(API_CONTEXT);
    return CUDA_SUCCESS;
}

CUresult cuProfilerStop(void)
{
    API_ENTER(API_CONTEXT);
    return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    API_ENTER(API_CONTEXT);
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (context_check(peer) || peer->device == context_current()->device)
        return CUDA_ERROR_INVALID_CONTEXT;
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    API_ENTER(API_CONTEXT);
    if (context_check(peer))
        return CUDA_ERROR_INVALID_CONTEXT;
    return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}
