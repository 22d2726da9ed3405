#include "hooks/capture.h"
#include "hooks/graph.h"
#include "hooks/window.h"
#include <pthread.h>

atomic_int captures_active;

CUgraph capture_graph(CUstream stream, bool per_thread)
{
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    CUgraph graph = NULL;
    CUresult status;

    if (atomic_load_explicit(&captures_active, memory_order_relaxed) == 0)
        return NULL;
    if (per_thread && !stream)
        stream = CU_STREAM_PER_THREAD;
    if (hbmspill_real.cuStreamGetCaptureInfo_v2)
        status = hbmspill_real.cuStreamGetCaptureInfo_v2(stream, &state, NULL, &graph, NULL, NULL);
    else if (hbmspill_real.cuStreamGetCaptureInfo_v3)
        status = hbmspill_real.cuStreamGetCaptureInfo_v3(stream, &state, NULL, &graph, NULL, NULL, NULL);
    else
        return NULL;
    return status == CUDA_SUCCESS && state == CU_STREAM_CAPTURE_STATUS_ACTIVE ? graph : NULL;
}

int capture_relax(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    if (atomic_load_explicit(&captures_active, memory_order_relaxed) == 0 ||
        !hbmspill_real.cuThreadExchangeStreamCaptureMode ||
        hbmspill_real.cuThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS)
        return -1;
    return (int)mode;
}

void capture_restore(int mode)
{
    CUstreamCaptureMode saved = (CUstreamCaptureMode)mode;

    if (mode >= 0)
        (void)hbmspill_real.cuThreadExchangeStreamCaptureMode(&saved);
}

/* Guards the first and the last capture's consequences. Rank: before a cache's lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void capture_gpu_made(struct gpu *gpu)
{
    pthread_mutex_lock(&lock);
    if (captures_active)
        (void)cache_record_always(gpu->cache, true); /* it is new: there is nothing to record yet */
    pthread_mutex_unlock(&lock);
}

static void capture_count_down(void)
{
    struct gpu *gpu;

    pthread_mutex_lock(&lock);
    if (atomic_fetch_sub(&captures_active, 1) == 1)
        for (unsigned i = 0; (gpu = gpu_at(i)); i++)
            (void)cache_record_always(gpu->cache, false);
    pthread_mutex_unlock(&lock);
}

/*
 * Before the capture begins: while none is in progress, all streams still take events. What is held is
 * submitted, or it would become part of the capture; from now on nothing is held.
 */
static CUresult capture_begin(void)
{
    CUresult status = CUDA_SUCCESS;
    struct gpu *gpu;

    pthread_mutex_lock(&lock);
    if (atomic_fetch_add(&captures_active, 1) == 0) {
        status = window_submit();
        exec_record_all(true, NULL);
        for (unsigned i = 0; status == CUDA_SUCCESS && (gpu = gpu_at(i)); i++) {
            bool entered = gpu_enter(gpu);

            status = gpu_result(gpu, cache_record_always(gpu->cache, true));
            gpu_leave(entered);
        }
    }
    pthread_mutex_unlock(&lock);
    if (status != CUDA_SUCCESS)
        capture_count_down();
    return status;
}

#define BEGIN(call)                                                                                          \
    ({                                                                                                       \
        CUresult begin_status;                                                                               \
        if (!shim_active()) {                                                                                \
            begin_status = (call);                                                                           \
        } else {                                                                                             \
            begin_status = capture_begin();                                                                  \
            if (begin_status == CUDA_SUCCESS) {                                                              \
                begin_status = (call);                                                                       \
                if (begin_status != CUDA_SUCCESS)                                                            \
                    capture_count_down();                                                                    \
            }                                                                                                \
        }                                                                                                    \
        begin_status;                                                                                        \
    })

CUresult hook_cuStreamBeginCapture(CUstream stream)
{
    return BEGIN(hbmspill_real.cuStreamBeginCapture(stream));
}

CUresult hook_cuStreamBeginCapture_ptsz(CUstream stream)
{
    return BEGIN(hbmspill_real.cuStreamBeginCapture_ptsz(stream));
}

CUresult hook_cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    return BEGIN(hbmspill_real.cuStreamBeginCapture_v2(stream, mode));
}

CUresult hook_cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode)
{
    return BEGIN(hbmspill_real.cuStreamBeginCapture_v2_ptsz(stream, mode));
}

CUresult hook_cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
                                          const CUgraphEdgeData *data, size_t count, CUstreamCaptureMode mode)
{
    return BEGIN(hbmspill_real.cuStreamBeginCaptureToGraph(stream, graph, dependencies, data, count, mode));
}

CUresult hook_cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph,
                                               const CUgraphNode *dependencies, const CUgraphEdgeData *data,
                                               size_t count, CUstreamCaptureMode mode)
{
    return BEGIN(
        hbmspill_real.cuStreamBeginCaptureToGraph_ptsz(stream, graph, dependencies, data, count, mode));
}

/* A capture that was invalidated ends too, with an error that says so; one that was never begun does not. */
static CUresult ended(CUresult status)
{
    if (shim_active() && status != CUDA_ERROR_ILLEGAL_STATE && status != CUDA_ERROR_INVALID_VALUE &&
        status != CUDA_ERROR_INVALID_CONTEXT && status != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD &&
        status != CUDA_ERROR_STREAM_CAPTURE_UNMATCHED && status != CUDA_ERROR_INVALID_HANDLE)
        capture_count_down();
    return status;
}

CUresult hook_cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    return ended(hbmspill_real.cuStreamEndCapture(stream, graph));
}

CUresult hook_cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
    return ended(hbmspill_real.cuStreamEndCapture_ptsz(stream, graph));
}
