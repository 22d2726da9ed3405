/*
 * context.c - contexts that go: what is held is submitted before, and what was pinned in them is nobody's
 * after.
 */
#include "hooks/events.h"
#include "hooks/gpu.h"
#include "hooks/host_alloc.h"
#include "hooks/trace.h"
#include "hooks/window.h"

static void destroyed(CUcontext context)
{
    struct gpu *gpu;

    for (unsigned i = 0; (gpu = gpu_at(i)); i++)
        if (gpu->context == context) {
            pinned_context_gone(gpu);
            EVENTS(events_context_gone(gpu));
        }
    host_forget(context);
}

/* Of a device: reset, or given back by the last who had it. */
static void primary_gone(CUdevice device, bool reset)
{
    struct gpu *gpu = gpu_of_device(device);
    unsigned flags;
    int active = 1;

    if (!gpu || !gpu->pinned.primary)
        return;
    if (reset ||
        (hbmspill_real.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && !active))
        destroyed(gpu->context);
}

#define CONTEXT_HOOK(symbol, parameter, argument, after)                                                     \
    CUresult hook_##symbol(parameter)                                                                        \
    {                                                                                                        \
        TRACE(trace_submit(NULL, false));                                                                    \
        CUresult held = window_submit();                                                                     \
        CUresult status = hbmspill_real.symbol(argument);                                                    \
                                                                                                             \
        if (status == CUDA_SUCCESS && shim_active())                                                         \
            after;                                                                                           \
        return held != CUDA_SUCCESS ? held : status;                                                         \
    }

CONTEXT_HOOK(cuCtxDestroy, CUcontext context, context, destroyed(context))
CONTEXT_HOOK(cuCtxDestroy_v2, CUcontext context, context, destroyed(context))
CONTEXT_HOOK(cuDevicePrimaryCtxRelease, CUdevice device, device, primary_gone(device, false))
CONTEXT_HOOK(cuDevicePrimaryCtxRelease_v2, CUdevice device, device, primary_gone(device, false))
CONTEXT_HOOK(cuDevicePrimaryCtxReset, CUdevice device, device, primary_gone(device, true))
CONTEXT_HOOK(cuDevicePrimaryCtxReset_v2, CUdevice device, device, primary_gone(device, true))
