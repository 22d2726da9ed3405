/*
 * event.c - events ("Event Management"): recorded, queried, waited for by the host and by streams.
 */
#include "event.h"
#include "capture.h"
#include "clock.h"
#include "record.h"

CUresult cuEventCreate(CUevent *out, unsigned int flags)
{
    API_ENTER(API_CONTEXT);
    const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    if (!out || flags & ~known)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_EVENT_INTERPROCESS) /* needs DISABLE_TIMING, and IPC, which there is none of */
        return flags & CU_EVENT_DISABLE_TIMING ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    CUevent event = object_new_locked(OBJECT_EVENT, sizeof(*event));
    if (event) {
        event->ctx = context_current();
        event->flags = flags;
    }
    driver_release();
    if (!event)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = event;
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    API_ENTER(API_CONTEXT);
    CUresult result = CUDA_ERROR_INVALID_HANDLE;
    driver_acquire();
    if (object_valid(event, OBJECT_EVENT)) {
        /* "An event may be destroyed before it is complete": who waits holds the operation, not the event. */
        if (event->op)
            op_unref_locked(event->op);
        capture_event_forget_locked(event);
        object_free_locked(event);
        result = CUDA_SUCCESS;
    }
    driver_release();
    return result;
}

CUresult cuEventDestroy(CUevent event)
{
    return cuEventDestroy_v2(event);
}

static CUresult record(CUevent event, CUstream handle, unsigned int flags)
{
    struct CUstream_st *stream;
    struct op *op = NULL;
    if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!object_valid(event, OBJECT_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    driver_acquire();
    CUresult result = stream_resolve_locked(handle, &stream);
    if (result == CUDA_SUCCESS && event->ctx != stream->ctx) /* "must be from the same CUcontext" */
        result = CUDA_ERROR_INVALID_HANDLE;
    if (result != CUDA_SUCCESS)
        goto out;
    if (stream->capture) {
        result = flags ? CUDA_ERROR_NOT_SUPPORTED : capture_record_event_locked(stream, event);
        goto out;
    }
    struct work work = {.kind = WORK_EMPTY};
    result = stream_submit_locked(stream, &work, NULL, 0, &op);
    if (result == CUDA_SUCCESS) {
        if (event->op)
            op_unref_locked(event->op);
        capture_event_forget_locked(event);
        event->op = op;
        op->time.recording = record_recorded_locked(stream->id);
    }
out:
    driver_release();
    return result;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    API_ENTER(API_CONTEXT);
    return record(event, stream, CU_EVENT_RECORD_DEFAULT);
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
    API_ENTER(API_CONTEXT);
    return record(event, stream, flags);
}

static bool op_done_locked(struct op *op)
{
    return op->time.lane ? clock_done_locked(op) : op->state == OP_DONE;
}

/* The end of a query: what it costs. */
static bool answer_locked(const struct op *op, bool ready)
{
    if (op->time.lane)
        clock_answer_locked(ready, true);
    return ready;
}

CUresult cuEventQuery(CUevent event)
{
    API_ENTER(API_CONTEXT);
    CUresult result = CUDA_SUCCESS;
    if (!object_valid(event, OBJECT_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    driver_acquire();
    if (event->capture) {
        result = CUDA_ERROR_CAPTURED_EVENT;
    } else if (event->op && !answer_locked(event->op, op_done_locked(event->op))) {
        engine_poke_locked(event->ctx->device->engine);
        result = CUDA_ERROR_NOT_READY;
    } else {
        if (event->op)
            order_host_saw_locked(event->op);
        result = event->ctx->error;
    }
    driver_release();
    return result;
}

CUresult cuEventSynchronize(CUevent event)
{
    API_ENTER(API_CONTEXT);
    CUresult result = CUDA_SUCCESS;
    if (!object_valid(event, OBJECT_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    driver_acquire();
    if (event->capture) {
        result = CUDA_ERROR_CAPTURED_EVENT;
    } else {
        CUcontext ctx = event->ctx;
        if (event->op)
            op_wait_locked(event->op);
        pool_trim_all_locked();
        result = ctx->error;
    }
    driver_release();
    return result;
}

CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
    API_ENTER(API_CONTEXT);
    CUresult result = CUDA_SUCCESS;
    if (!ms)
        return CUDA_ERROR_INVALID_VALUE;
    if (!object_valid(start, OBJECT_EVENT) || !object_valid(end, OBJECT_EVENT) || start->ctx != end->ctx)
        return CUDA_ERROR_INVALID_HANDLE;
    driver_acquire();
    if (!start->op || !end->op || (start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
        result = CUDA_ERROR_INVALID_HANDLE;
    else if (!op_done_locked(start->op) || !op_done_locked(end->op))
        result = CUDA_ERROR_NOT_READY;
    else if (start->op->time.lane)
        *ms = (float)((end->op->time.end - start->op->time.end) / 1e6);
    else
        *ms = (float)((double)(int64_t)(end->op->finished_ns - start->op->finished_ns) / 1e6);
    driver_release();
    return result;
}

CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    return cuEventElapsedTime_v2(ms, start, end);
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags)
{
    API_ENTER(API_CONTEXT);
    struct CUstream_st *stream;
    if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!object_valid(event, OBJECT_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    driver_acquire();
    CUresult result = stream_resolve_locked(handle, &stream);
    if (result != CUDA_SUCCESS)
        goto out;
    if (event->capture) {
        result = capture_wait_event_locked(stream, event);
    } else if (stream->capture) {
        /* "CUDA_ERROR_STREAM_CAPTURE_ISOLATION: a dependency would cross the capture sequence" */
        result = event->op ? CUDA_ERROR_STREAM_CAPTURE_ISOLATION : CUDA_SUCCESS;
    } else if (event->op) { /* "If cuEventRecord() has not been called on hEvent, this call acts as if
                               completed" */
        struct work work = {.kind = WORK_EMPTY};
        result = stream_submit_locked(stream, &work, &event->op, 1, NULL);
        if (result == CUDA_SUCCESS)
            record_after_locked(stream->id, event->op->time.recording);
    }
out:
    driver_release();
    return result;
}

/* Context-wide: the event stands for all work of the context, and all streams wait for it. */
CUresult cuCtxRecordEvent(CUcontext ctx, CUevent event)
{
    API_ENTER(0);
    (void)ctx;
    (void)event;
    return driver_unsupported(__func__);
}

CUresult cuCtxWaitEvent(CUcontext ctx, CUevent event)
{
    API_ENTER(0);
    (void)ctx;
    (void)event;
    return driver_unsupported(__func__);
}
