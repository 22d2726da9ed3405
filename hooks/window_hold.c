/*
 * window_hold.c - what may be held, and what is kept of it.
 */
#include "hooks/capture.h"
#include "hooks/trace.h"
#include "hooks/window_internal.h"
#include "shim/options.h"

/*
 * A window is one device's: one cache plans it, one context submits it. With more devices than one nothing is
 * held: kernels of one may wait for those of another by words of memory, without a call that would submit
 * them.
 */
static bool windows_are_off(void)
{
    return options_get()->window == WINDOW_OFF || gpu_at(1);
}

bool window_may_hold(CUstream stream)
{
    struct gpu *gpu = gpu_at(0);

    return !windows_are_off() && gpu && cache_under_pressure(gpu->cache) && stream != CU_STREAM_PER_THREAD &&
           atomic_load_explicit(&captures_active, memory_order_relaxed) == 0;
}

/* Parameters as one block, beside the attributes. */
static bool copy_params(struct held *held, const struct kernel *kernel, const CUlaunchConfig *config,
                        void **params)
{
    size_t bytes = 0;

    for (unsigned i = 0; i < kernel->count; i++)
        bytes = kernel->params[i].offset + kernel->params[i].size > bytes
                    ? kernel->params[i].offset + kernel->params[i].size
                    : bytes;
    if (!window_take(bytes + kernel->count * sizeof(size_t), &held->launch.params) ||
        !window_take(config->numAttrs * sizeof *config->attrs, &held->launch.attributes))
        return false;
    /* First the offsets of the values, so that the submitter needs nothing else, then the values. */
    for (unsigned i = 0; i < kernel->count; i++) {
        unsigned char *block = window_bytes(held->launch.params);
        size_t at = kernel->count * sizeof(size_t) + kernel->params[i].offset;

        memcpy(block + i * sizeof(size_t), &at, sizeof at);
        memcpy(block + at, params[i], kernel->params[i].size);
    }
    if (config->numAttrs)
        memcpy(window_bytes(held->launch.attributes), config->attrs,
               config->numAttrs * sizeof *config->attrs);
    held->launch.param_count = kernel->count;
    return true;
}

/* The function is the same handle in every round; its grid tells uses of different sizes apart. */
static uint64_t launch_hash(const struct kernel *kernel, const CUlaunchConfig *config)
{
    uint64_t hash = (uint64_t)(uintptr_t)kernel->function;
    const unsigned shape[] = {config->gridDimX,  config->gridDimY,  config->gridDimZ,
                              config->blockDimX, config->blockDimY, config->blockDimZ};

    for (unsigned i = 0; i < sizeof shape / sizeof *shape; i++)
        hash = (hash ^ shape[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return hash;
}

/* Launches that the driver refuses, and those that record an event of the job's, which others may wait for.
 */
static bool refused(const struct kernel *kernel, const CUlaunchConfig *config)
{
    uint64_t threads = (uint64_t)config->blockDimX * config->blockDimY * config->blockDimZ;

    for (unsigned i = 0; i < config->numAttrs; i++)
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ||
            config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
            return true;
    return !threads || threads > kernel->most_threads || !config->gridDimX || !config->gridDimY ||
           !config->gridDimZ;
}

bool window_hold_launch(const struct kernel *kernel, const CUlaunchConfig *config, bool plain, void **params,
                        struct touches *touches, CUresult *status)
{
    struct held *held;

    if (touches->gpu && cache_under_pressure(touches->gpu->cache))
        touches->kind = launch_hash(kernel, config);
    /* What the driver would refuse at once, or cannot be in HBM at once, is refused at once. */
    if (!window_may_hold(config->hStream) || (kernel->count && !params) || touches->mixed ||
        touches->failed || refused(kernel, config) ||
        !cache_op_fits(gpu_at(0)->cache, touches->touch, touches->count))
        return false;
    window_end_tail(config->hStream);
    held =
        window_begin(plain ? HELD_LAUNCH : HELD_LAUNCH_EX, config->hStream, touches->touch, touches->count);
    if (held && !copy_params(held, kernel, config, params))
        held = NULL;
    if (held) {
        held->launch.function = kernel->function;
        held->launch.config = *config;
        held->launch.name = kernel->name;
        held->hash = touches->kind;
    }
    return window_end(held, status);
}

bool window_hold_copy(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream, CUresult *status)
{
    const struct cache_touch touches[] = {{dst, CACHE_WRITE | CACHE_READ}, {src, CACHE_READ}};
    struct held *held;

    /* What does not fit is served in the slots instead. */
    if (!window_may_hold(stream) || !gpu_of_address(dst) || !gpu_of_address(src) ||
        !cache_op_fits(gpu_at(0)->cache, touches, 2))
        return false;
    window_end_tail(stream);
    held = window_begin(HELD_COPY, stream, touches, 2);
    if (held) {
        held->hash = HELD_COPY;
        held->copy.dst = dst;
        held->copy.src = src;
        held->copy.size = size;
        TRACE(trace_copy(dst, src, size, stream, false, false, TAPE_INSIDE));
    }
    return window_end(held, status);
}

bool window_hold_memset(CUdeviceptr dst, unsigned value, unsigned width, size_t count, CUstream stream,
                        CUresult *status)
{
    const struct cache_touch touch = {dst, CACHE_WRITE | CACHE_READ};
    struct held *held;

    if (!window_may_hold(stream) || !gpu_of_address(dst) || !cache_op_fits(gpu_at(0)->cache, &touch, 1))
        return false;
    window_end_tail(stream);
    held = window_begin(HELD_MEMSET, stream, &touch, 1);
    if (held) {
        held->memset.dst = dst;
        held->memset.value = value;
        held->memset.width = width;
        held->memset.count = count;
        held->hash = HELD_MEMSET;
        TRACE(trace_memset(dst, stream));
    }
    return window_end(held, status);
}

bool window_hold_free(CUdeviceptr address, CUstream stream, CUresult *status)
{
    struct gpu *gpu = gpu_of_address(address);
    struct stream_key key = stream_key_of(stream, false);
    uint64_t base, size;
    struct held *held;

    /* A free that is wrong is told at once, and with nothing held there is nothing to stay behind of. */
    if (!(atomic_load_explicit(&window_streams, memory_order_acquire) & window_bit(stream)) ||
        !window_may_hold(stream) ||
        (gpu && (!cache_find(gpu->cache, address, &base, &size) || base != address)))
        return false;
    held = window_begin(HELD_FREE, stream, NULL, 0);
    if (held) {
        held->free = address;
        TRACE(trace_free(address, &key));
    }
    return window_end(held, status);
}

void window_alone_always(struct gpu *gpu, const struct touches *touches)
{
    cache_window_alone(gpu->cache, &(struct cache_planned_op){.touches = touches->touch,
                                                              .count = touches->count,
                                                              .kind = touches->kind});
}

void window_alone(struct gpu *gpu, const struct touches *touches)
{
    if (windows_are_off() && cache_under_pressure(gpu->cache))
        window_alone_always(gpu, touches);
}
