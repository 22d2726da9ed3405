/*
 * stream.c - streams that go: the cache's last word about them is recorded while it still can be.
 */
#include "hooks/gpu.h"
#include "hooks/graph.h"
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
