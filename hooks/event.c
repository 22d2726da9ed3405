/*
 * event.c - what a job asks of an event, which may be recorded in the window's tail and not yet in the
 * driver: then it goes there first.
 */
#include "hooks/host_pool.h"
#include "hooks/trace.h"
#include "hooks/window.h"

/* While it is on its way the answer is known, and who asks is not to wait for room with somebody else. */
CUresult hook_cuEventQuery(CUevent event)
{
    CUresult held = CUDA_SUCCESS, status;

    if (shim_active()) {
        if (window_event(event) == EVENT_SUBMITTING)
            return CUDA_ERROR_NOT_READY;
        held = window_submit_record(event);
    }
    status = hbmspill_real.cuEventQuery(event);
    return held != CUDA_SUCCESS ? held : status;
}

CUresult hook_cuEventSynchronize(CUevent event)
{
    CUresult held = shim_active() ? window_submit_record(event) : CUDA_SUCCESS;
    CUresult status = hbmspill_real.cuEventSynchronize(event);

    if (status == CUDA_SUCCESS && shim_active())
        host_pools_ask();
    return held != CUDA_SUCCESS ? held : status;
}

#define EVENT_HOOK(symbol, parameters, arguments, submit)                                                    \
    CUresult hook_##symbol parameters                                                                        \
    {                                                                                                        \
        CUresult held = shim_active() ? submit : CUDA_SUCCESS;                                               \
        CUresult status = hbmspill_real.symbol arguments;                                                    \
                                                                                                             \
        return held != CUDA_SUCCESS ? held : status;                                                         \
    }

/* Both are submitted with the first of them that is held, unless another thread had it in hand. */
static CUresult submit_two(CUevent one, CUevent other)
{
    CUresult status = window_submit_record(one), second = window_submit_record(other);

    return status != CUDA_SUCCESS ? status : second;
}

EVENT_HOOK(cuEventElapsedTime, (float *milliseconds, CUevent start, CUevent end), (milliseconds, start, end),
           submit_two(start, end))
EVENT_HOOK(cuEventElapsedTime_v2, (float *milliseconds, CUevent start, CUevent end),
           (milliseconds, start, end), submit_two(start, end))
/* Forgotten before the driver says that it is gone: its handle may be another's at once. */
static CUresult submit_and_forget(CUevent event)
{
    TRACE(trace_event_gone(event));
    window_event_gone(event);
    return window_submit_event(event);
}

EVENT_HOOK(cuEventDestroy, (CUevent event), (event), submit_and_forget(event))
EVENT_HOOK(cuEventDestroy_v2, (CUevent event), (event), submit_and_forget(event))
