/*
 * window_submit.c - how a window is carried out: the cache is told what is in it, then each operation goes
 * through the cache and to the driver as if it had just been called, in the order of the calls.
 */
#include "hooks/counters.h"
#include "hooks/events.h"
#include "hooks/operation.h"
#include "hooks/outside.h"
#include "hooks/ranges.h"
#include "hooks/window_internal.h"
#include <errno.h>
#include <stdio.h>

static CUresult launch_held(const struct window *window, const struct held *held, bool in_order)
{
    const unsigned char *block = window->bytes + held->launch.params;
    CUlaunchConfig config = held->launch.config;
    void *inline_params[64], **params = inline_params;
    CUresult status;

    if (held->launch.param_count > 64 && !(params = malloc(held->launch.param_count * sizeof *params)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < held->launch.param_count; i++) {
        size_t at;

        memcpy(&at, block + i * sizeof at, sizeof at);
        params[i] = (void *)(uintptr_t)(block + at);
    }
    if (held->kind == HELD_LAUNCH) {
        status = hbmspill_real.cuLaunchKernel(
            held->launch.function, config.gridDimX, config.gridDimY, config.gridDimZ, config.blockDimX,
            config.blockDimY, config.blockDimZ, config.sharedMemBytes, config.hStream, params, NULL);
    } else {
        CUlaunchAttribute *attributes =
            (CUlaunchAttribute *)(void *)(window->bytes + held->launch.attributes);

        config.attrs = attributes;
        config.numAttrs = 0;
        for (unsigned i = 0; i < held->launch.config.numAttrs; i++)
            if (!in_order || attributes[i].id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
                attributes[config.numAttrs++] = attributes[i];
        status = hbmspill_real.cuLaunchKernelEx(&config, held->launch.function, params, NULL);
    }
    if (params != inline_params)
        free(params);
    return status;
}

static CUresult memset_held(const struct held *held)
{
    switch (held->memset.width) {
    case 1:
        return hbmspill_real.cuMemsetD8Async(held->memset.dst, (unsigned char)held->memset.value,
                                             held->memset.count, held->stream);
    case 2:
        return hbmspill_real.cuMemsetD16Async(held->memset.dst, (unsigned short)held->memset.value,
                                              held->memset.count, held->stream);
    default:
        return hbmspill_real.cuMemsetD32Async(held->memset.dst, held->memset.value, held->memset.count,
                                              held->stream);
    }
}

static CUresult free_held(struct gpu *gpu, const struct held *held)
{
    struct stream_key key = stream_key_of(held->stream, false);
    CUresult status;

    if (gpu_of_address(held->free) == gpu) {
        status = gpu_legacy_action(gpu, held->stream, false);
        return status == CUDA_SUCCESS ? gpu_result(gpu, cache_free(gpu->cache, held->free, &key)) : status;
    }
    outside_remove(OUTSIDE_ADDRESS, held->free);
    return hbmspill_real.cuMemFreeAsync(held->free, held->stream);
}

static CUresult submit_one(struct gpu *gpu, const struct window *window, const struct held *held)
{
    struct events_work work = {.gpu = NULL};
    struct cache_op op;
    CUresult status;
    int error;

    if (held->kind == HELD_FREE)
        return free_held(gpu, held);
    if (held->kind >= HELD_RECORD)
        return window_tail_submit(held);
    error = cache_op_begin(gpu->cache, &op, stream_key_of(held->stream, false),
                           window->touches + held->touch_first, held->touch_count);
    if (error == -ENOMEM) {
        char what[160];

        snprintf(what, sizeof what, held->kind < HELD_COPY ? "kernel %s" : "a copy or memset%s",
                 held->kind < HELD_COPY ? held->launch.name : "");
        operation_explain(gpu, &op.failure, what);
    }
    if (error)
        return gpu_result(gpu, error);
    EVENTS(events_operation_begin(&work, gpu,
                                  held->kind == HELD_COPY     ? "the job's copy"
                                  : held->kind == HELD_MEMSET ? "the job's memset"
                                                              : held->launch.name,
                                  held->stream, false, held->kind == HELD_COPY ? held->copy.size : 0));
    if (held->kind == HELD_COPY)
        status =
            hbmspill_real.cuMemcpyDtoDAsync_v2(held->copy.dst, held->copy.src, held->copy.size, held->stream);
    else if (held->kind == HELD_MEMSET)
        status = memset_held(held);
    else
        status = launch_held(window, held, op.handed_over);
    EVENTS(events_operation_end(&work, status == CUDA_SUCCESS));
    cache_op_end(gpu->cache, &op, status == CUDA_SUCCESS);
    if (status == CUDA_SUCCESS && held->kind == HELD_COPY)
        count_add(d2d_bytes, held->copy.size);
    return status;
}

/* The window as the cache is to see it; NULL: it goes unplanned. */
static struct cache_planned_op *describe(const struct window *window, uint32_t *count)
{
    struct cache_planned_op *ops = malloc(window->count * sizeof *ops);

    *count = 0;
    for (uint32_t i = 0; ops && i < window->count; i++) {
        const struct held *held = &window->held[i];

        if (held->kind >= HELD_RECORD)
            continue;
        ops[(*count)++] = (struct cache_planned_op){.touches = window->touches + held->touch_first,
                                                    .count = held->touch_count,
                                                    .kind = held->hash,
                                                    .free_address = held->kind == HELD_FREE ? held->free : 0};
    }
    return ops;
}

CUresult window_carry_out(struct gpu *gpu, const struct window *window)
{
    uint32_t planned, step = 0;
    struct cache_planned_op *ops = describe(window, &planned);
    CUcontext current = NULL, before = NULL, popped;
    CUresult first_error = CUDA_SUCCESS;
    uint64_t begun = 0;

    (void)hbmspill_real.cuCtxGetCurrent(&before);
    current = before;
    EVENTS(begun = events_now());
    RANGES(ranges_push(RANGE_WINDOW, window->count));
    count_add(windows, 1);
    count_add(held, window->count);
    if (ops)
        cache_window_begin(gpu->cache, ops, planned);
    for (uint32_t i = 0; i < window->count; i++) {
        const struct held *held = &window->held[i];
        CUresult status;

        if (held->context != current) {
            if (current != before)
                (void)hbmspill_real.cuCtxPopCurrent_v2(&popped);
            current = before;
            if (held->context != before && hbmspill_real.cuCtxPushCurrent_v2(held->context) == CUDA_SUCCESS)
                current = held->context;
        }
        if (ops && held->kind < HELD_RECORD)
            cache_window_step(gpu->cache, step++);
        if (first_error != CUDA_SUCCESS && held->kind < HELD_FREE)
            continue; /* what depends on it would compute with garbage */
        status = submit_one(gpu, window, held);
        if (first_error == CUDA_SUCCESS)
            first_error = status;
    }
    if (ops)
        cache_window_end(gpu->cache);
    if (current != before)
        (void)hbmspill_real.cuCtxPopCurrent_v2(&popped);
    free(ops);
    RANGES(ranges_pop());
    EVENTS(events_window(gpu, begun, window->count));
    return first_error;
}
