#include "hooks/window.h"
#include "hooks/capture.h"
#include "hooks/counters.h"
#include "hooks/operation.h"
#include "hooks/outside.h"
#include "hooks/trace.h"
#include "shim/options.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

enum { QUIET_NANOSECONDS = 200000 };

enum held_kind { HELD_LAUNCH, HELD_LAUNCH_EX, HELD_COPY, HELD_MEMSET, HELD_FREE };

struct held {
    enum held_kind kind;
    uint64_t hash; /* by which rounds tell operations apart */
    CUcontext context;
    CUstream stream;
    uint32_t touch_first, touch_count; /* in the window's touches */
    union {
        struct {
            CUfunction function;
            CUlaunchConfig config;
            const char *name;
            size_t attributes, params; /* offsets in the window's bytes */
            uint32_t param_count;
        } launch;
        struct {
            CUdeviceptr dst, src;
            size_t size;
        } copy;
        struct {
            CUdeviceptr dst;
            unsigned value, width;
            size_t count;
        } memset;
        CUdeviceptr free;
    };
};

/* What is held. Offsets instead of pointers: the arrays grow. */
struct window {
    struct held *held;
    uint32_t count, capacity;
    struct cache_touch *touches;
    uint32_t touch_count, touch_capacity;
    unsigned char *bytes;
    size_t byte_count, byte_capacity;
};

/* `turn' is held while a window is submitted and makes submissions follow each other in order; `lock'
 * protects the window being filled and the error. Rank: turn, then lock; a cache's lock is taken inside turn,
 * never inside lock. */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static struct window filling, submitting;
static CUresult failure; /* of a submission: what was held behind it was left undone */
static uint64_t pushes;  /* the helper tells by it whether the job was quiet */
static bool helper_runs, stopping;
static uint64_t filling_streams, submitting_streams; /* under lock; window_streams is their union */

_Atomic uint64_t window_streams;

/* With the lock. */
static void streams_publish(void)
{
    atomic_store_explicit(&window_streams,
                          failure != CUDA_SUCCESS ? UINT64_MAX : filling_streams | submitting_streams,
                          memory_order_release);
}

static bool reserve(void **array, uint32_t *capacity, uint32_t wanted, size_t size)
{
    uint32_t more = *capacity ? *capacity : 256;
    void *grown;

    if (wanted <= *capacity)
        return true;
    while (more < wanted)
        more *= 2;
    grown = realloc(*array, more * size);
    if (!grown)
        return false;
    *array = grown;
    *capacity = more;
    return true;
}

/* Room for size bytes, aligned for any type; false where there is no memory. */
static bool bytes_take(struct window *window, size_t size, size_t *offset)
{
    size_t start = (window->byte_count + 15) / 16 * 16;

    if (start + size > window->byte_capacity) {
        size_t capacity = window->byte_capacity ? 2 * window->byte_capacity : 65536;
        unsigned char *grown;

        while (capacity < start + size)
            capacity *= 2;
        grown = realloc(window->bytes, capacity);
        if (!grown)
            return false;
        window->bytes = grown;
        window->byte_capacity = capacity;
    }
    *offset = start;
    window->byte_count = start + size;
    return true;
}

static void *helper(void *unused)
{
    const struct timespec quiet = {.tv_nsec = QUIET_NANOSECONDS};
    uint64_t seen = 0;

    (void)unused;
    for (;;) {
        bool due;

        pthread_mutex_lock(&lock);
        while (!filling.count && !stopping)
            pthread_cond_wait(&filled, &lock);
        due = pushes == seen;
        seen = pushes;
        if (stopping) {
            pthread_mutex_unlock(&lock);
            return NULL;
        }
        pthread_mutex_unlock(&lock);
        if (due)
            window_submit_quietly(CU_STREAM_LEGACY);
        else
            nanosleep(&quiet, NULL);
    }
}

/* With the lock. Without a helper nothing may be held: the job could wait for it for ever. */
static bool helper_start(void)
{
    sigset_t all, before;
    pthread_t thread;

    if (helper_runs)
        return true;
    sigfillset(&all); /* signals are the job's threads' to handle */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, helper, NULL) == 0) {
        pthread_detach(thread);
        helper_runs = true;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return helper_runs;
}

/*
 * A window is one device's: one cache plans it, one context submits it. With more devices than one nothing is
 * held: kernels of one may wait for those of another by words of memory, without a call that would submit them.
 */
static bool windows_are_off(void)
{
    return options_get()->window == WINDOW_OFF || gpu_at(1);
}

/* Whether operations of a stream may be held now. */
static bool may_hold(CUstream stream)
{
    struct gpu *gpu = gpu_at(0);

    return !windows_are_off() && gpu && cache_under_pressure(gpu->cache) && stream != CU_STREAM_PER_THREAD &&
           atomic_load_explicit(&captures_active, memory_order_relaxed) == 0;
}

/*
 * With the lock, taken here and given back by hold_end: a new entry at the end, NULL where it cannot be held.
 * What it takes beside (touches, bytes) is taken back by hold_end(NULL).
 */
static struct held *hold_begin(enum held_kind kind, CUstream stream, const struct cache_touch *touches,
                               uint32_t count)
{
    struct held *held;

    pthread_mutex_lock(&lock);
    /* While another submits, only what must stay behind it is held. */
    if (stopping || failure != CUDA_SUCCESS ||
        (submitting_streams && !(window_bit(stream) & (submitting_streams | filling_streams))) ||
        !helper_start() ||
        !reserve((void **)&filling.held, &filling.capacity, filling.count + 1, sizeof *filling.held) ||
        !reserve((void **)&filling.touches, &filling.touch_capacity, filling.touch_count + count,
                 sizeof *filling.touches))
        return NULL;
    held = &filling.held[filling.count];
    *held = (struct held){
        .kind = kind, .stream = stream, .touch_first = filling.touch_count, .touch_count = count};
    /* The cache's own calls are made in the context of the held operation. */
    if (hbmspill_real.cuCtxGetCurrent(&held->context) != CUDA_SUCCESS || held->context != gpu_at(0)->context)
        return NULL;
    if (count)
        memcpy(filling.touches + filling.touch_count, touches, count * sizeof *touches);
    return held;
}

/* True where it is held now. *status: that of a full window's submission. */
static bool hold_end(const struct held *held, CUresult *status)
{
    bool full;

    if (!held) {
        pthread_mutex_unlock(&lock);
        return false;
    }
    filling.touch_count += held->touch_count;
    full = ++filling.count >= options_get()->window;
    pushes++;
    filling_streams |= window_bit(held->stream);
    streams_publish();
    if (filling.count == 1)
        pthread_cond_signal(&filled);
    pthread_mutex_unlock(&lock);
    *status = full ? window_submit_held() : CUDA_SUCCESS;
    return true;
}

/* Parameters as one block: their values, then nothing; where each is follows from the kernel's list. */
static bool copy_params(struct held *held, const struct kernel *kernel, const CUlaunchConfig *config,
                        void **params)
{
    size_t bytes = 0;

    for (unsigned i = 0; i < kernel->count; i++)
        bytes = kernel->params[i].offset + kernel->params[i].size > bytes
                    ? kernel->params[i].offset + kernel->params[i].size
                    : bytes;
    if (!bytes_take(&filling, bytes + kernel->count * sizeof(size_t), &held->launch.params) ||
        !bytes_take(&filling, config->numAttrs * sizeof *config->attrs, &held->launch.attributes))
        return false;
    /* First the offsets of the values, so that the submitter needs nothing else, then the values. */
    for (unsigned i = 0; i < kernel->count; i++) {
        unsigned char *block = filling.bytes + held->launch.params;
        size_t at = kernel->count * sizeof(size_t) + kernel->params[i].offset;

        memcpy(block + i * sizeof(size_t), &at, sizeof at);
        memcpy(block + at, params[i], kernel->params[i].size);
    }
    if (config->numAttrs)
        memcpy(filling.bytes + held->launch.attributes, config->attrs,
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
    if (!may_hold(config->hStream) || (kernel->count && !params) || touches->mixed || touches->failed ||
        refused(kernel, config) || !cache_op_fits(gpu_at(0)->cache, touches->touch, touches->count))
        return false;
    held = hold_begin(plain ? HELD_LAUNCH : HELD_LAUNCH_EX, config->hStream, touches->touch, touches->count);
    if (held && !copy_params(held, kernel, config, params))
        held = NULL;
    if (held) {
        held->launch.function = kernel->function;
        held->launch.config = *config;
        held->launch.name = kernel->name;
        held->hash = touches->kind;
    }
    return hold_end(held, status);
}

bool window_hold_copy(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream, CUresult *status)
{
    const struct cache_touch touches[] = {{dst, CACHE_WRITE | CACHE_READ}, {src, CACHE_READ}};
    struct held *held;

    /* What does not fit is served in the slots instead. */
    if (!may_hold(stream) || !gpu_of_address(dst) || !gpu_of_address(src) ||
        !cache_op_fits(gpu_at(0)->cache, touches, 2))
        return false;
    held = hold_begin(HELD_COPY, stream, touches, 2);
    if (held) {
        held->hash = HELD_COPY;
        held->copy.dst = dst;
        held->copy.src = src;
        held->copy.size = size;
        TRACE(trace_copy(dst, src, size, stream, false, false, TAPE_INSIDE));
    }
    return hold_end(held, status);
}

bool window_hold_memset(CUdeviceptr dst, unsigned value, unsigned width, size_t count, CUstream stream,
                        CUresult *status)
{
    const struct cache_touch touch = {dst, CACHE_WRITE | CACHE_READ};
    struct held *held;

    if (!may_hold(stream) || !gpu_of_address(dst) || !cache_op_fits(gpu_at(0)->cache, &touch, 1))
        return false;
    held = hold_begin(HELD_MEMSET, stream, &touch, 1);
    if (held) {
        held->memset.dst = dst;
        held->memset.value = value;
        held->memset.width = width;
        held->memset.count = count;
        held->hash = HELD_MEMSET;
        TRACE(trace_memset(dst, stream));
    }
    return hold_end(held, status);
}

bool window_hold_free(CUdeviceptr address, CUstream stream, CUresult *status)
{
    struct gpu *gpu = gpu_of_address(address);
    struct stream_key key = stream_key_of(stream, false);
    uint64_t base, size;
    struct held *held;

    /* A free that is wrong is told at once, and with nothing held there is nothing to stay behind of. */
    if (!(atomic_load_explicit(&window_streams, memory_order_acquire) & window_bit(stream)) ||
        !may_hold(stream) || (gpu && (!cache_find(gpu->cache, address, &base, &size) || base != address)))
        return false;
    held = hold_begin(HELD_FREE, stream, NULL, 0);
    if (held) {
        held->free = address;
        TRACE(trace_free(address, &key));
    }
    return hold_end(held, status);
}

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

    if (gpu_of_address(held->free) == gpu)
        return gpu_result(gpu, cache_free(gpu->cache, held->free, &key));
    outside_remove(OUTSIDE_ADDRESS, held->free);
    return hbmspill_real.cuMemFreeAsync(held->free, held->stream);
}

static CUresult submit_one(struct gpu *gpu, const struct window *window, const struct held *held)
{
    struct cache_op op;
    CUresult status;
    int error;

    if (held->kind == HELD_FREE)
        return free_held(gpu, held);
    error = cache_op_begin(gpu->cache, &op, stream_key_of(held->stream, false),
                           window->touches + held->touch_first, held->touch_count);
    if (error == -ENOMEM) {
        char what[160];

        snprintf(what, sizeof what, held->kind < HELD_COPY ? "kernel %s" : "a copy or memset%s",
                 held->kind < HELD_COPY ? held->launch.name : "");
        operation_explain(&op.failure, what);
    }
    if (error)
        return gpu_result(gpu, error);
    if (held->kind == HELD_COPY)
        status =
            hbmspill_real.cuMemcpyDtoDAsync_v2(held->copy.dst, held->copy.src, held->copy.size, held->stream);
    else if (held->kind == HELD_MEMSET)
        status = memset_held(held);
    else
        status = launch_held(window, held, op.handed_over);
    cache_op_end(gpu->cache, &op, status == CUDA_SUCCESS);
    if (status == CUDA_SUCCESS && held->kind == HELD_COPY)
        count_add(d2d_bytes, held->copy.size);
    return status;
}

/* The window as the cache is to see it; NULL: it goes unplanned. */
static struct cache_planned_op *describe(const struct window *window)
{
    struct cache_planned_op *ops = malloc(window->count * sizeof *ops);

    for (uint32_t i = 0; ops && i < window->count; i++) {
        const struct held *held = &window->held[i];

        ops[i] = (struct cache_planned_op){.touches = window->touches + held->touch_first,
                                           .count = held->touch_count,
                                           .kind = held->hash,
                                           .free_address = held->kind == HELD_FREE ? held->free : 0};
    }
    return ops;
}

/* With the turn. */
static CUresult submit_window(struct gpu *gpu, const struct window *window)
{
    struct cache_planned_op *ops = describe(window);
    CUcontext current = NULL, before = NULL, popped;
    CUresult first_error = CUDA_SUCCESS;

    (void)hbmspill_real.cuCtxGetCurrent(&before);
    current = before;
    count_add(windows, 1);
    count_add(held, window->count);
    if (ops)
        cache_window_begin(gpu->cache, ops, window->count);
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
        if (ops)
            cache_window_step(gpu->cache, i);
        if (first_error != CUDA_SUCCESS && held->kind != HELD_FREE)
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
    return first_error;
}

void window_alone(struct gpu *gpu, const struct touches *touches)
{
    if (windows_are_off() && cache_under_pressure(gpu->cache))
        cache_window_alone(gpu->cache, &(struct cache_planned_op){.touches = touches->touch,
                                                                  .count = touches->count,
                                                                  .kind = touches->kind});
}

CUresult window_submit_held(void)
{
    CUresult status;
    struct window empty;

    pthread_mutex_lock(&turn);
    pthread_mutex_lock(&lock);
    empty = submitting;
    submitting = filling;
    filling = empty;
    filling.count = filling.touch_count = 0;
    filling.byte_count = 0;
    submitting_streams = filling_streams;
    filling_streams = 0;
    streams_publish();
    pthread_mutex_unlock(&lock);
    status = submitting.count ? submit_window(gpu_at(0), &submitting) : CUDA_SUCCESS;
    submitting.count = 0;
    pthread_mutex_lock(&lock);
    submitting_streams = 0;
    if (failure == CUDA_SUCCESS)
        failure = status;
    status = failure;
    streams_publish();
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&turn);
    return status;
}

void window_fail(CUresult status)
{
    pthread_mutex_lock(&lock);
    if (failure == CUDA_SUCCESS)
        failure = status;
    streams_publish();
    pthread_mutex_unlock(&lock);
}

void window_submit_quietly(CUstream stream)
{
    (void)window_submit_for(stream);
}

void window_stop(void)
{
    struct timespec until;

    pthread_mutex_lock(&lock);
    stopping = true;
    pthread_cond_signal(&filled);
    pthread_mutex_unlock(&lock);
    /* A submission under way by the helper is let end, but not waited for without end. */
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    if (pthread_mutex_timedlock(&turn, &until) == 0)
        pthread_mutex_unlock(&turn);
}
