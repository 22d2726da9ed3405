#include "hooks/operation.h"
#include "hooks/capture.h"
#include "hooks/window.h"
#include "shim/log.h"
#include <errno.h>

#define MIB(bytes) ((unsigned long long)((bytes) >> 20))

void operation_explain(const struct cache_failure *failure, const char *what)
{
    if (failure->tier == CACHE_TIER_HBM)
        log_error("full",
                  "%s needs %llu MiB of device memory at once; the limit is %llu MiB, %llu MiB of it held by "
                  "memory that "
                  "cannot be moved: raise HBMSPILL_HBM_LIMIT, or make the job's largest step smaller",
                  what, MIB(failure->asked), MIB(failure->hbm_limit), MIB(failure->hbm_outside));
    else
        log_error("full",
                  "%s: no room for %llu MiB more in host memory, %llu of %llu MiB are used and device memory "
                  "(%llu MiB) is "
                  "full: raise HBMSPILL_HOST_LIMIT",
                  what, MIB(failure->asked), MIB(failure->host_used), MIB(failure->host_limit),
                  MIB(failure->hbm_limit));
}

/* Memory of a device that is not the stream's cannot be ordered by events of ours: it is made to stay. */
static CUresult fix_others(struct touches *touches, const char *what)
{
    for (unsigned i = 0; i < touches->count; i++) {
        CUresult status;

        if (cache_maybe_ours(touches->gpu->cache, touches->touch[i].address))
            continue;
        status = operation_fix(touches->touch[i].address, what);
        if (status != CUDA_SUCCESS)
            return status;
    }
    return CUDA_SUCCESS;
}

CUresult operation_begin(struct operation *operation, struct touches *touches, CUstream stream,
                         bool per_thread, bool open, const char *what)
{
    struct gpu *current = touches->mixed || open ? gpu_current() : NULL;
    CUresult status = window_submit_for(per_thread && !stream ? CU_STREAM_PER_THREAD : stream);
    bool entered;
    int error;

    operation->gpu = NULL;
    if (current)
        touches->gpu = current;
    if (status != CUDA_SUCCESS || !touches->gpu)
        goto done;
    if (touches->failed || touches->beyond) {
        status = touches->beyond ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
        goto done;
    }
    if (capture_graph(stream, per_thread))
        goto done;
    if (touches->mixed) {
        status = fix_others(touches, what);
        if (status != CUDA_SUCCESS)
            goto done;
    }
    entered = gpu_enter(touches->gpu);
    error = open ? cache_op_begin_all(touches->gpu->cache, &operation->op, stream_key_of(stream, per_thread))
                 : cache_op_begin(touches->gpu->cache, &operation->op, stream_key_of(stream, per_thread),
                                  touches->touch, touches->count);
    gpu_leave(entered);
    if (error == -ENOMEM && what)
        operation_explain(&operation->op.failure, what);
    status = gpu_result(touches->gpu, error);
    if (!error)
        operation->gpu = touches->gpu;
done:
    touches_fini(touches);
    return status;
}

void operation_end(struct operation *operation, CUresult status)
{
    bool entered;

    if (!operation->gpu)
        return;
    entered = gpu_enter(operation->gpu);
    cache_op_end(operation->gpu->cache, &operation->op, status == CUDA_SUCCESS);
    gpu_leave(entered);
}

CUresult operation_fix(uint64_t address, const char *what)
{
    struct gpu *gpu = gpu_of_address(address);
    CUresult status = window_submit();
    struct cache_failure failure;
    bool entered;
    int error;

    if (status != CUDA_SUCCESS || !gpu)
        return status;
    entered = gpu_enter(gpu);
    error = cache_fix(gpu->cache, address, &failure);
    gpu_leave(entered);
    if (error == -ENOMEM)
        operation_explain(&failure, what);
    return gpu_result(gpu, error);
}
