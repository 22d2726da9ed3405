/*
 * stream.c - what happens to streams beside operations.
 *
 * Streams that go: the cache's last word about them is recorded while it still can be. Host functions: what
 * stands behind one may wait for any thread of the job, so the cache is told.
 */
#include "hooks/capture.h"
#include "hooks/gpu.h"
#include "hooks/graph.h"
#include "hooks/trace.h"
#include "hooks/window.h"

static void retire(CUstream stream)
{
    struct gpu *gpu;

    window_submit_quietly(stream);
    if (shim_active())
        exec_record_all(false, stream);
    for (unsigned i = 0; shim_active() && (gpu = gpu_at(i)); i++) {
        bool entered = gpu_enter(gpu);
        int error = cache_stream_retire(gpu->cache, stream_key_of(stream, false));

        gpu_leave(entered);
        if (error) /* it cannot be waited for afterwards: it is waited for now */
            (void)hbmspill_real.cuStreamSynchronize(stream);
    }
}

CUresult hook_cuStreamDestroy_v2(CUstream stream)
{
    retire(stream);
    return hbmspill_real.cuStreamDestroy_v2(stream);
}

/* The plain name: the first version, which differs only in the symbol. */
CUresult hook_cuStreamDestroy(CUstream stream)
{
    retire(stream);
    return hbmspill_real.cuStreamDestroy(stream);
}

static struct gpu *hold(CUstream stream, bool per_thread)
{
    struct gpu *gpu = shim_active() && !capture_graph(stream, per_thread) ? gpu_current() : NULL;
    bool entered;
    int error;

    if (!gpu)
        return NULL;
    entered = gpu_enter(gpu);
    error = cache_stream_hold(gpu->cache, stream_key_of(stream, per_thread));
    gpu_leave(entered);
    return error ? NULL : gpu;
}

static void held(struct gpu *gpu, CUstream stream, bool per_thread)
{
    bool entered;

    if (!gpu)
        return;
    entered = gpu_enter(gpu);
    cache_stream_held(gpu->cache, stream_key_of(stream, per_thread));
    gpu_leave(entered);
}

#define HOST_FUNCTION_HOOK(symbol, per_thread, parameters, arguments)                                        \
    CUresult hook_##symbol parameters                                                                        \
    {                                                                                                        \
        TRACE(trace_host_function(stream, per_thread));                                                      \
        CUresult before = window_submit_for((per_thread) && !stream ? CU_STREAM_PER_THREAD : stream);        \
        struct gpu *gpu = hold(stream, per_thread);                                                          \
        CUresult status = hbmspill_real.symbol arguments;                                                    \
                                                                                                             \
        held(gpu, stream, per_thread);                                                                       \
        return before != CUDA_SUCCESS ? before : status;                                                     \
    }

#define HOST_FUNCTION_HOOKS(symbol, parameters, arguments)                                                   \
    HOST_FUNCTION_HOOK(symbol, false, parameters, arguments)                                                 \
    HOST_FUNCTION_HOOK(symbol##_ptsz, true, parameters, arguments)

HOST_FUNCTION_HOOKS(cuLaunchHostFunc, (CUstream stream, CUhostFn function, void *data),
                    (stream, function, data))
HOST_FUNCTION_HOOKS(cuStreamAddCallback,
                    (CUstream stream, CUstreamCallback callback, void *data, unsigned flags),
                    (stream, callback, data, flags))
