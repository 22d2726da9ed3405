/*
 * stream.c - streams and what is put in them without being a copy or a launch.
 *
 * Handles 0 and CU_STREAM_LEGACY are the context's legacy stream; CU_STREAM_PER_THREAD is a blocking stream
 * of the calling thread's own ("Stream synchronization behavior").
 */
#include "clock.h"

static uint64_t next_stream_id = 1;

struct CUstream_st *stream_new_locked(CUcontext ctx, unsigned flags, int priority)
{
    struct CUstream_st *stream = object_new_locked(OBJECT_STREAM, sizeof(*stream));
    if (!stream)
        return NULL;
    stream->ctx = ctx;
    stream->flags = flags;
    stream->priority = priority;
    stream->id = next_stream_id++;
    stream->sync_policy = CU_SYNC_POLICY_AUTO;
    if (clock_runs && !(stream->lane = timeline_lane_new_locked(stream))) {
        object_free_locked(stream);
        return NULL;
    }
    order_stream_new_locked(stream);
    stream->next = ctx->streams;
    ctx->streams = stream;
    return stream;
}

void stream_free_locked(struct CUstream_st *stream)
{
    for (struct CUstream_st **link = &stream->ctx->streams; *link; link = &(*link)->next) {
        if (*link == stream) {
            *link = stream->next;
            break;
        }
    }
    if (stream->lane)
        timeline_lane_drop_locked(stream->lane);
    order_stream_free_locked(stream);
    object_free_locked(stream);
}

static struct CUstream_st *per_thread_locked(CUcontext ctx)
{
    pthread_t self = pthread_self();
    for (struct CUstream_st *s = ctx->streams; s; s = s->next)
        if (s->per_thread && pthread_equal(s->thread, self))
            return s;
    struct CUstream_st *stream = stream_new_locked(ctx, CU_STREAM_DEFAULT, 0);
    if (stream) {
        stream->per_thread = true;
        stream->thread = self;
    }
    return stream;
}

CUresult stream_resolve_locked(CUstream handle, struct CUstream_st **out)
{
    CUcontext ctx = context_current();
    if (!handle || handle == CU_STREAM_LEGACY) {
        *out = ctx->legacy;
        return CUDA_SUCCESS;
    }
    if (handle == CU_STREAM_PER_THREAD) {
        *out = per_thread_locked(ctx);
        return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!object_valid(handle, OBJECT_STREAM) || handle->destroyed)
        return CUDA_ERROR_INVALID_HANDLE;
    /* A stream of another context is used with its own context's resources, as the driver allows. */
    if (handle->ctx->error != CUDA_SUCCESS)
        return handle->ctx->error;
    *out = handle;
    return CUDA_SUCCESS;
}

/* Runs the rest with `stream' resolved and driver_lock held; ends the function. */
#define WITH_STREAM(handle, ...)                                                                             \
    struct CUstream_st *stream;                                                                              \
    driver_acquire();                                                                                        \
    CUresult result = stream_resolve_locked((handle), &stream);                                              \
    if (result == CUDA_SUCCESS) {                                                                            \
        __VA_ARGS__                                                                                          \
    }                                                                                                        \
    driver_release();                                                                                        \
    return result

static CUresult create(CUstream *out, unsigned int flags, int priority)
{
    if (!out || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    if (priority < -5) /* "will be automatically clamped" */
        priority = -5;
    if (priority > 0)
        priority = 0;
    driver_acquire();
    CUstream stream = stream_new_locked(context_current(), flags, priority);
    driver_release();
    if (!stream)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = stream;
    return CUDA_SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream *out, unsigned int flags, int priority)
{
    API_ENTER(API_CONTEXT);
    return create(out, flags, priority);
}

CUresult cuStreamCreate(CUstream *out, unsigned int flags)
{
    API_ENTER(API_CONTEXT);
    return create(out, flags, 0);
}

/* "In case the device is still doing work in the stream, the function will return immediately" */
CUresult cuStreamDestroy_v2(CUstream stream)
{
    API_ENTER(API_CONTEXT);
    CUresult result = CUDA_ERROR_INVALID_HANDLE;
    driver_acquire();
    if (object_valid(stream, OBJECT_STREAM) && !stream->destroyed && !stream->legacy && !stream->per_thread) {
        stream->destroyed = true;
        if (stream->capture)
            capture_abandon_locked(stream);
        if (!stream->head)
            stream_free_locked(stream);
        result = CUDA_SUCCESS;
    }
    driver_release();
    return result;
}

CUresult cuStreamDestroy(CUstream stream)
{
    return cuStreamDestroy_v2(stream);
}

CUresult cuStreamSynchronize(CUstream handle)
{
    API_ENTER(API_CONTEXT);
    WITH_STREAM(handle, {
        if (stream->capture) {
            capture_invalidate_locked(stream->capture);
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        } else {
            /* Of the legacy stream: what it would have to wait for, "all blocking streams", too. */
            CUcontext ctx = stream->ctx;
            if (stream->legacy) {
                struct work work = {.kind = WORK_EMPTY};
                result = stream_submit_locked(stream, &work, NULL, 0, NULL);
            }
            if (result == CUDA_SUCCESS) {
                stream_drain_locked(stream);
                pool_trim_all_locked();
                result = ctx->error;
            }
        }
    });
}

static bool stream_busy_locked(struct CUstream_st *stream)
{
    struct op *last = stream->lane ? stream->lane->tail : stream->tail;
    if (!last)
        last = stream->tail;
    bool busy = last && (!stream->lane || !clock_done_locked(last));
    if (clock_runs)
        clock_answer_locked(!busy, false);
    return busy;
}

CUresult cuStreamQuery(CUstream handle)
{
    API_ENTER(API_CONTEXT);
    WITH_STREAM(handle, {
        if (stream->capture) {
            capture_invalidate_locked(stream->capture);
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        } else if (stream_busy_locked(stream)) {
            engine_poke_locked(stream->ctx->device->engine);
            result = CUDA_ERROR_NOT_READY;
        } else {
            order_host_saw_stream_locked(stream);
            result = stream->ctx->error;
        }
    });
}

CUresult cuStreamGetPriority(CUstream handle, int *priority)
{
    API_ENTER(API_CONTEXT);
    if (!priority)
        return CUDA_ERROR_INVALID_VALUE;
    WITH_STREAM(handle, *priority = stream->priority;);
}

CUresult cuStreamGetFlags(CUstream handle, unsigned int *flags)
{
    API_ENTER(API_CONTEXT);
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    WITH_STREAM(handle, *flags = stream->flags;);
}

CUresult cuStreamGetId(CUstream handle, unsigned long long *id)
{
    API_ENTER(API_CONTEXT);
    if (!id)
        return CUDA_ERROR_INVALID_VALUE;
    WITH_STREAM(handle, *id = stream->id;);
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *ctx)
{
    API_ENTER(API_CONTEXT);
    if (!ctx)
        return CUDA_ERROR_INVALID_VALUE;
    WITH_STREAM(handle, *ctx = stream->ctx;);
}

CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext *ctx, CUgreenCtx *green)
{
    API_ENTER(API_CONTEXT);
    if (!ctx || !green)
        return CUDA_ERROR_INVALID_VALUE;
    WITH_STREAM(handle, *ctx = stream->ctx; *green = NULL;);
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice *device)
{
    API_ENTER(API_CONTEXT);
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    WITH_STREAM(handle, *device = stream->ctx->device->ordinal;);
}

CUresult cuStreamCopyAttributes(CUstream to, CUstream from)
{
    API_ENTER(API_CONTEXT);
    struct CUstream_st *source;
    WITH_STREAM(to, {
        result = stream_resolve_locked(from, &source);
        if (result == CUDA_SUCCESS)
            stream->sync_policy = source->sync_policy;
    });
}

CUresult cuStreamGetAttribute(CUstream handle, CUstreamAttrID attribute, CUstreamAttrValue *value)
{
    API_ENTER(API_CONTEXT);
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    WITH_STREAM(handle, {
        if (attribute == CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY)
            value->syncPolicy = stream->sync_policy;
        else if (attribute == CU_STREAM_ATTRIBUTE_PRIORITY)
            value->priority = stream->priority;
        else
            result = CUDA_ERROR_INVALID_VALUE;
    });
}

CUresult cuStreamSetAttribute(CUstream handle, CUstreamAttrID attribute, const CUstreamAttrValue *value)
{
    API_ENTER(API_CONTEXT);
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    WITH_STREAM(handle, {
        if (attribute == CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY)
            stream->sync_policy = value->syncPolicy;
        else if (attribute == CU_STREAM_ATTRIBUTE_PRIORITY)
            stream->priority = value->priority;
        else
            result = CUDA_ERROR_INVALID_VALUE;
    });
}

CUresult cuStreamAttachMemAsync(CUstream handle, CUdeviceptr address, size_t length, unsigned int flags)
{
    API_ENTER(API_CONTEXT);
    (void)length;
    (void)flags;
    WITH_STREAM(handle, {
        struct range *range = range_find_locked(address);
        if (!range || range->kind != RANGE_MANAGED)
            result = CUDA_ERROR_INVALID_VALUE;
    });
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void *data)
{
    API_ENTER(API_CONTEXT);
    if (!function)
        return CUDA_ERROR_INVALID_VALUE;
    WITH_STREAM(handle, {
        struct work work = {.kind = WORK_HOST, .host = {.function = function, .data = data}};
        result = stream_submit_locked(stream, &work, NULL, 0, NULL);
    });
}

CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void *data, unsigned int flags)
{
    API_ENTER(API_CONTEXT);
    if (!callback || flags)
        return CUDA_ERROR_INVALID_VALUE;
    WITH_STREAM(handle, {
        struct work work = {.kind = WORK_CALLBACK,
                            .host = {.callback = callback, .data = data, .stream = handle}};
        if (stream->capture) /* "cuStreamAddCallback: cannot be used during stream capture" */
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        else
            result = stream_submit_locked(stream, &work, NULL, 0, NULL);
    });
}

CUresult stream_value_operation(CUstream handle, enum work_kind kind, CUdeviceptr address, uint64_t value,
                                unsigned flags, bool wide)
{
    if (address & (wide ? 7 : 3) || flags & ~(kind == WORK_WAIT_VALUE ? 3u : 1u))
        return CUDA_ERROR_INVALID_VALUE;
    WITH_STREAM(handle, {
        enum place place = place_of_locked(address, wide ? 8 : 4);
        struct work work = {.kind = kind,
                            .value = {.address = address, .value = value, .flags = flags, .wide = wide}};
        if (place == PLACE_PAGEABLE || place == PLACE_NOWHERE)
            result = CUDA_ERROR_INVALID_VALUE;
        else
            result = stream_submit_locked(stream, &work, NULL, 0, NULL);
    });
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    API_ENTER(API_CONTEXT);
    return stream_value_operation(stream, WORK_WRITE_VALUE, address, value, flags, false);
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
    API_ENTER(API_CONTEXT);
    return stream_value_operation(stream, WORK_WRITE_VALUE, address, value, flags, true);
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    API_ENTER(API_CONTEXT);
    return stream_value_operation(stream, WORK_WAIT_VALUE, address, value, flags, false);
}

CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
    API_ENTER(API_CONTEXT);
    return stream_value_operation(stream, WORK_WAIT_VALUE, address, value, flags, true);
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    return cuStreamWriteValue32_v2(stream, address, value, flags);
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
    return cuStreamWriteValue64_v2(stream, address, value, flags);
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    return cuStreamWaitValue32_v2(stream, address, value, flags);
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
    return cuStreamWaitValue64_v2(stream, address, value, flags);
}
