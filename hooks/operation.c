#include "hooks/operation.h"
#include "hooks/capture.h"
#include "hooks/counters.h"
#include "hooks/held.h"
#include "hooks/window.h"
#include "shim/log.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#define MIB(bytes) ((unsigned long long)((bytes) >> 20))

void operation_explain(const struct gpu *gpu, const struct cache_failure *failure, const char *what)
{
    uint64_t job = count_now(job_pinned_bytes); /* a moment's, for a text */
    char of_job[80] = "";

    if (failure->tier == CACHE_TIER_HBM) {
        log_gpu(LOG_ERROR, LOG_IN_FULL, gpu->device,
                "%s needs %llu MiB of device memory at once; the limit is %llu MiB, %llu MiB of it held by "
                "memory that "
                "cannot be moved: raise HBMSPILL_HBM_LIMIT, or make the job's largest step smaller",
                what, MIB(failure->asked), MIB(failure->hbm_limit), MIB(failure->hbm_outside));
        return;
    }
    if (failure->asked > failure->hbm_limit && failure->asked - failure->hbm_limit > failure->host_limit) {
        log_gpu(
            LOG_ERROR, LOG_IN_FULL, gpu->device,
            "%s of %llu MiB is more than device memory (%llu MiB) and host memory (%llu MiB) have together: "
            "raise HBMSPILL_HOST_LIMIT",
            what, MIB(failure->asked), MIB(failure->hbm_limit), MIB(failure->host_limit));
        return;
    }
    if (!failure->host_limit) {
        log_gpu(LOG_ERROR, LOG_IN_FULL, gpu->device,
                "%s: device memory (%llu MiB) is full, and no host memory may be pinned for %llu MiB more: "
                "HBMSPILL_HOST_LIMIT is 0",
                what, MIB(failure->hbm_limit), MIB(failure->asked));
        return;
    }
    if (MIB(job)) /* less is nothing beside the figures of the line */
        snprintf(of_job, sizeof of_job, " (%llu of them pinned by the job itself)", MIB(job));
    log_gpu(LOG_ERROR, LOG_IN_FULL, gpu->device,
            "%s: no room for %llu MiB more in host memory, %llu of %llu MiB are used%s and device memory "
            "(%llu MiB) is "
            "full: raise HBMSPILL_HOST_LIMIT",
            what, MIB(failure->asked), MIB(failure->host_used + job), MIB(failure->host_limit), of_job,
            MIB(failure->hbm_limit));
}

/* What names an operation in a message, put together only when there is one: most launches fit. */
struct name {
    const char *kind, *what; /* one after the other; what NULL: no message */
};

static void explain(const struct gpu *gpu, const struct cache_failure *failure, struct name name)
{
    char text[160];

    if (!name.what)
        return;
    snprintf(text, sizeof text, "%s%s", name.kind, name.what);
    operation_explain(gpu, failure, text);
}

static CUresult fix(uint64_t address, struct name name)
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
        explain(gpu, &failure, name);
    return gpu_result(gpu, error);
}

CUresult operation_fix(uint64_t address, const char *what)
{
    return fix(address, (struct name){"", what});
}

/* Memory of a device that is not the stream's cannot be ordered by events of ours: it is made to stay. */
static CUresult fix_others(struct touches *touches, struct name name)
{
    for (unsigned i = 0; i < touches->count; i++) {
        CUresult status;

        if (cache_maybe_ours(touches->gpu->cache, touches->touch[i].address))
            continue;
        status = fix(touches->touch[i].address, name);
        if (status != CUDA_SUCCESS)
            return status;
    }
    return CUDA_SUCCESS;
}

static CUresult begin(struct operation *operation, struct touches *touches, CUstream stream, bool per_thread,
                      bool open, bool call, struct name name)
{
    struct gpu *current = touches->mixed || open ? gpu_current() : NULL;
    CUresult status = window_submit_for(per_thread && !stream ? CU_STREAM_PER_THREAD : stream);
    bool entered;
    int error;

    operation_none(operation);
    operation->call = call;
    if (current)
        touches->gpu = current;
    if (status != CUDA_SUCCESS || !touches->gpu)
        goto done;
    if (touches->failed || touches->beyond) {
        status = touches->beyond ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
        goto done;
    }
    if (touches->mixed) {
        status = fix_others(touches, name);
        if (status != CUDA_SUCCESS)
            goto done;
    }
    entered = gpu_enter(touches->gpu);
    if (!open && !touches->mixed && !call)
        window_alone(touches->gpu, touches);
    error = open ? cache_op_begin_all(touches->gpu->cache, &operation->op, stream_key_of(stream, per_thread))
                 : cache_op_begin(touches->gpu->cache, &operation->op, stream_key_of(stream, per_thread),
                                  touches->touch, touches->count);
    gpu_leave(entered);
    if (error == -ENOMEM)
        explain(touches->gpu, &operation->op.failure, name);
    status = gpu_result(touches->gpu, error);
    if (!error)
        operation->gpu = touches->gpu;
done:
    if (status == CUDA_SUCCESS && !call)
        EVENTS(events_operation_begin(&operation->work, operation->gpu, name.what ? name.what : "a graph",
                                      stream, per_thread, 0));
    touches_fini(touches);
    return status;
}

/* Streams of calls that queue nothing, one for each gpu, in the order of gpu_at. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUstream call_streams[GPUS_MAX];

static CUresult call_stream(struct gpu *gpu, CUstream *stream)
{
    CUresult status = CUDA_SUCCESS;
    unsigned i = 0;
    CUstream made;

    while (gpu_at(i) != gpu)
        i++;
    pthread_mutex_lock(&lock);
    if (!call_streams[i]) {
        bool entered = gpu_enter(gpu);

        status = hbmspill_real.cuStreamCreate(&made, CU_STREAM_NON_BLOCKING);
        if (status == CUDA_SUCCESS) {
            held_add(streams, 1);
            call_streams[i] = made;
        }
        gpu_leave(entered);
    }
    *stream = call_streams[i];
    pthread_mutex_unlock(&lock);
    return status;
}

unsigned operation_streams(void)
{
    unsigned count = 0;

    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < GPUS_MAX; i++)
        count += call_streams[i] != NULL;
    pthread_mutex_unlock(&lock);
    return count;
}

CUresult operation_begin_call(struct operation *operation, struct touches *touches, const char *what)
{
    CUresult status = CUDA_SUCCESS;
    CUstream stream = NULL;

    operation_none(operation);
    if (touches->gpu)
        status = call_stream(touches->gpu, &stream);
    if (status == CUDA_SUCCESS && touches->gpu)
        return begin(operation, touches, stream, false, false, true, (struct name){"", what});
    touches_fini(touches);
    return status;
}

CUresult operation_begin(struct operation *operation, struct touches *touches, CUstream stream,
                         bool per_thread, bool open, const char *what)
{
    if (capture_graph(stream, per_thread))
        return operation_begin_call(operation, touches, what);
    return begin(operation, touches, stream, per_thread, open, false, (struct name){"", what});
}

CUresult operation_begin_launch(struct operation *operation, struct touches *touches, CUstream stream,
                                bool per_thread, bool open, const char *kernel)
{
    return begin(operation, touches, stream, per_thread, open, false,
                 (struct name){open ? "open kernel " : "kernel ", kernel});
}

void operation_end(struct operation *operation, CUresult status)
{
    bool entered;

    EVENTS(events_operation_end(&operation->work, status == CUDA_SUCCESS));
    if (!operation->gpu)
        return;
    entered = gpu_enter(operation->gpu);
    cache_op_end(operation->gpu->cache, &operation->op, status == CUDA_SUCCESS && !operation->call);
    gpu_leave(entered);
}
