#include "hooks/gpu.h"
#include "hooks/capture.h"
#include "hooks/costs.h"
#include "hooks/device_host.h"
#include "hooks/held.h"
#include "hooks/host_memory.h"
#include "hooks/observe.h"
#include "hooks/planner.h"
#include "hooks/ranges.h"
#include "shim/log.h"
#include "shim/options.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

/* Serialises the making of gpus. Rank: before a cache's lock. */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
static struct gpu *gpus[GPUS_MAX]; /* in the order they were made; written under `making' */
static atomic_uint gpu_count;
static atomic_uint unmanageable[GPUS_MAX]; /* by device ordinal: said already */

struct gpu *gpu_at(unsigned i)
{
    return i < atomic_load_explicit(&gpu_count, memory_order_acquire) ? gpus[i] : NULL;
}

struct gpu *gpu_of_device(CUdevice device)
{
    struct gpu *gpu;

    for (unsigned i = 0; (gpu = gpu_at(i)); i++)
        if (gpu->device == device)
            return gpu;
    return NULL;
}

struct gpu *gpu_of_address(uint64_t address)
{
    struct gpu *gpu;

    for (unsigned i = 0; (gpu = gpu_at(i)); i++)
        if (cache_maybe_ours(gpu->cache, address))
            return gpu;
    return NULL;
}

struct gpu *gpu_current(void)
{
    CUdevice device;

    if (gpu_at(0) == NULL || hbmspill_real.cuCtxGetDevice(&device) != CUDA_SUCCESS)
        return NULL;
    return gpu_of_device(device);
}

bool gpu_enter(struct gpu *gpu)
{
    CUcontext context;

    if (hbmspill_real.cuCtxGetCurrent(&context) == CUDA_SUCCESS && context == gpu->context)
        return false;
    return hbmspill_real.cuCtxPushCurrent_v2(gpu->context) == CUDA_SUCCESS;
}

void gpu_leave(bool entered)
{
    CUcontext context;

    if (entered)
        hbmspill_real.cuCtxPopCurrent_v2(&context);
}

CUresult gpu_result(struct gpu *gpu, int error)
{
    int last;

    switch (error) {
    case 0:
        return CUDA_SUCCESS;
    case -ENOMEM:
        return CUDA_ERROR_OUT_OF_MEMORY;
    case -EINVAL:
    case -ENOENT:
        return CUDA_ERROR_INVALID_VALUE;
    default:
        last = gpu ? atomic_load_explicit(&gpu->last_error, memory_order_relaxed) : 0;
        return last ? (CUresult)last : CUDA_ERROR_UNKNOWN;
    }
}

/* A number for each thread that uses its default stream. The system's thread ids are given out again. */
static pthread_key_t thread_number_key;
static bool thread_numbers;

/* With the thread goes its stream, which is no longer to be taken for anybody's. */
static void thread_ends(void *number)
{
    struct stream_key key = {(uint64_t)(uintptr_t)CU_STREAM_PER_THREAD, (uint64_t)(uintptr_t)number};
    struct gpu *gpu;

    for (unsigned i = 0; shim_active() && (gpu = gpu_at(i)); i++)
        (void)cache_stream_retire(gpu->cache, key); /* calls no driver function: all is recorded already */
}

static void make_thread_numbers(void)
{
    thread_numbers = pthread_key_create(&thread_number_key, thread_ends) == 0;
}

static uint64_t thread_number(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static atomic_ulong last;
    uintptr_t number;

    pthread_once(&once, make_thread_numbers);
    number =
        thread_numbers ? (uintptr_t)pthread_getspecific(thread_number_key) : (uintptr_t)syscall(SYS_gettid);
    if (!number) {
        number = atomic_fetch_add(&last, 1) + 1;
        (void)pthread_setspecific(thread_number_key, (void *)number);
    }
    return number;
}

struct stream_key stream_key_of(CUstream stream, bool per_thread)
{
    if (stream == CU_STREAM_PER_THREAD || (per_thread && !stream))
        return (struct stream_key){(uint64_t)(uintptr_t)CU_STREAM_PER_THREAD, thread_number()};
    if (stream == CU_STREAM_LEGACY)
        stream = NULL;
    return (struct stream_key){(uint64_t)(uintptr_t)stream, 0};
}

/*
 * "When an action is taken in the legacy stream such as a kernel launch or cudaStreamWaitEvent(), the legacy
 * stream first waits on all blocking streams, the action is queued in the legacy stream, and then all
 * blocking streams wait on the legacy stream" ("Stream synchronization behavior"). A record is such an
 * action.
 */
CUresult gpu_legacy_action(struct gpu *gpu, CUstream stream, bool per_thread)
{
    CUresult status;
    CUevent event;
    bool entered;

    if ((stream && stream != CU_STREAM_LEGACY) || (!stream && per_thread))
        return CUDA_SUCCESS;
    entered = gpu_enter(gpu);
    status = hbmspill_real.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    if (status == CUDA_SUCCESS) {
        held_add(events, 1);
        status = hbmspill_real.cuEventRecord(event, CU_STREAM_LEGACY);
        held_destroy_event(event); /* the record stays in the stream */
    }
    gpu_leave(entered);
    return status;
}

/* A sixty-fourth of the device for what is not ours to move: modules, local memory, libraries' workspaces. */
static uint64_t default_reserve(uint64_t total)
{
    uint64_t reserve = total / 64;

    if (reserve < 8 * MIB)
        reserve = 8 * MIB;
    return reserve > 512 * MIB ? 512 * MIB : reserve;
}

/*
 * hbm: to use; told: the same but for the share that the user lets JAX have, which JAX takes of what it is
 * told.
 */
static void limits(int device, uint64_t free_bytes, uint64_t total, uint64_t *hbm, uint64_t *told,
                   uint64_t *host)
{
    const struct option_device options = options_of_device(options_get(), device);
    uint64_t reserve = options_amount(&options.reserve, total, default_reserve(total));
    uint64_t most = free_bytes > reserve ? free_bytes - reserve : 0;
    double share = shim_memory_fraction() * (double)total;

    *hbm = options_amount(&options.hbm_limit, total, share < (double)most ? (uint64_t)share : most);
    *told = options_amount(&options.hbm_limit, total, most);
    if (*hbm > free_bytes) {
        log_gpu_once(LOG_WARN, LOG_IN_GPU, device,
                     "HBMSPILL_HBM_LIMIT asks for %llu MiB, %llu MiB are free: using that",
                     (unsigned long long)(*hbm / MIB), (unsigned long long)(free_bytes / MIB));
        *hbm = *told = free_bytes;
    }
    *host = host_memory_limit();
}

bool gpu_limits(CUdevice device, uint64_t *hbm, uint64_t *host)
{
    struct gpu *gpu = gpu_of_device(device);
    size_t free_bytes, total;
    CUdevice current;
    uint64_t limit;

    if (gpu) {
        *hbm = gpu->hbm_told;
        *host = gpu->host_limit;
        return true;
    }
    if (hbmspill_real.cuCtxGetDevice(&current) == CUDA_SUCCESS && current == device) {
        if (hbmspill_real.cuMemGetInfo_v2(&free_bytes, &total) != CUDA_SUCCESS)
            return false;
    } else { /* no context to ask in: nothing is known to be used */
        if (hbmspill_real.cuDeviceTotalMem_v2(&total, device) != CUDA_SUCCESS)
            return false;
        free_bytes = total;
    }
    limits(device, free_bytes, total, &limit, hbm, host);
    return true;
}

/* Says once for each device why nothing is moved on it. */
static struct gpu *unmanaged(CUdevice device, const char *why)
{
    unsigned index = (unsigned)device % GPUS_MAX;

    if (!atomic_exchange(&unmanageable[index], 1))
        log_gpu(LOG_WARN, LOG_IN_GPU, device, "%s; its memory is left as it is, nothing is spilled", why);
    return NULL;
}

static enum cache_mutation mutation(const char *text)
{
    if (!strcmp(text, "flip-slot-bit"))
        return CACHE_MUTATION_FLIP_SLOT_BIT;
    if (!strcmp(text, "skip-copy-in"))
        return CACHE_MUTATION_SKIP_COPY_IN;
    if (*text)
        log_warn(LOG_IN_GPU, "HBMSPILL_TEST_MUTATION=%s is none of flip-slot-bit, skip-copy-in: ignored",
                 text);
    return CACHE_MUTATION_NONE;
}

static unsigned reframe(unsigned times)
{
    if (times == 0 || times == 2 || times == 4 || times == 8)
        return times;
    log_warn(LOG_IN_GPU, "HBMSPILL_TEST_REFRAME=%u is none of 2, 4, 8: ignored", times);
    return 0;
}

static bool has_functions(void)
{
    const struct hbmspill_real *real = &hbmspill_real;

    return real->cuMemAddressReserve && real->cuMemAddressFree && real->cuMemCreate && real->cuMemRelease &&
           real->cuMemMap && real->cuMemUnmap && real->cuMemSetAccess &&
           real->cuMemGetAllocationGranularity && real->cuMemHostAlloc && real->cuMemFreeHost &&
           real->cuMemcpyAsync && real->cuStreamCreate && real->cuStreamDestroy_v2 &&
           real->cuStreamWaitEvent && real->cuEventCreate && real->cuEventDestroy_v2 && real->cuEventRecord &&
           real->cuEventQuery && real->cuEventSynchronize && real->cuEventElapsedTime &&
           real->cuMemGetInfo_v2 && real->cuCtxGetCurrent && real->cuCtxPushCurrent_v2 &&
           real->cuCtxPopCurrent_v2;
}

_Static_assert((int)CACHE_POLICY_LRU == (int)OPTION_POLICY_LRU &&
                   (int)CACHE_POLICY_BIP == (int)OPTION_POLICY_BIP &&
                   (int)CACHE_POLICY_NEXTUSE == (int)OPTION_POLICY_NEXTUSE,
               "HBMSPILL_POLICY's values are in the order of enum cache_policy");

static struct gpu *make(CUdevice device)
{
    const struct options *options = options_get();
    struct cache_config config = {.policy = (enum cache_policy)options->policy,
                                  .prefetch = options->prefetch == 1,
                                  .ahead = options->ahead,
                                  .strict = options->strict == 1,
                                  .apart = *options->admit.text != '\0',
                                  .verify = options->verify == 1,
                                  .mismatch = costs_mismatch,
                                  .mutation = mutation(options->test_mutation.text),
                                  .slot_most = options->test_slot,
                                  .reframe = reframe(options->test_reframe),
                                  .follow = options->plan.kind != PLAN_OFF,
                                  .planner = planner_get()};
    size_t granularity, free_bytes, total;
    struct gpu *gpu;
    int vmm = 0;

    if (!has_functions() || (config.verify && !hbmspill_real.cuLaunchHostFunc))
        return unmanaged(device, "the driver lacks virtual memory management or streams");
    if (hbmspill_real.cuDeviceGetAttribute(&vmm, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                                           device) != CUDA_SUCCESS ||
        !vmm)
        return unmanaged(device, "the driver does not support virtual memory management");
    gpu = calloc(1, sizeof *gpu);
    if (!gpu)
        return NULL;
    gpu->device = device;
    gpu->prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    gpu->prop.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    gpu->access =
        (CUmemAccessDesc){.location = gpu->prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    if (hbmspill_real.cuCtxGetCurrent(&gpu->context) != CUDA_SUCCESS || !gpu->context ||
        hbmspill_real.cuMemGetInfo_v2(&free_bytes, &total) != CUDA_SUCCESS ||
        hbmspill_real.cuMemGetAllocationGranularity(&granularity, &gpu->prop,
                                                    CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS) {
        free(gpu);
        return unmanaged(device, "it could not be asked for its memory");
    }
    limits(device, free_bytes, total, &gpu->hbm_limit, &gpu->hbm_told, &gpu->host_limit);
    gpu->granularity = granularity;
    gpu->physical_total = total;
    device_cuda_init(gpu);
    pinned_init(gpu);
    link_init(&gpu->link);
    config.observer = observe_cache(gpu);
    config.frame_size = cache_frame_size(granularity, gpu->hbm_limit);
    if (device_host_supported(gpu, config.frame_size)) {
        gpu->ops.host_create = device_host_create;
        gpu->ops.host_destroy = device_host_destroy;
    }
    config.hbm_limit = gpu->hbm_limit;
    config.host_limit = gpu->host_limit;
    if (cache_create(&gpu->ops, &config, &gpu->cache)) {
        free(gpu);
        return unmanaged(device, "streams of our own could not be made");
    }
    gpus[gpu_count] = gpu;
    atomic_fetch_add_explicit(&gpu_count, 1, memory_order_release);
    capture_gpu_made(gpu);
    log_gpu(LOG_INFO, LOG_IN_GPU, device,
            "%llu MiB of HBM to use (%llu free of %llu), %llu MiB of host memory behind it",
            (unsigned long long)(gpu->hbm_limit / MIB), (unsigned long long)(free_bytes / MIB),
            (unsigned long long)(total / MIB), (unsigned long long)(gpu->host_limit / MIB));
    return gpu;
}

/*
 * Streams and events of a gpu belong to the context it was made with, and CUDA takes no event of another
 * context's (cuEventRecord: event and stream must be of the same context). Memory asked for in another
 * context is therefore left to the driver.
 */
static struct gpu *if_its_context(struct gpu *gpu)
{
    CUcontext context;

    if (!gpu || hbmspill_real.cuCtxGetCurrent(&context) != CUDA_SUCCESS) /* deinitialised, say */
        return NULL;
    if (context == gpu->context)
        return gpu;
    log_gpu_once(LOG_WARN, LOG_IN_GPU, gpu->device,
                 "what is allocated in another context than the first is not spilled");
    return NULL;
}

struct gpu *gpu_make_current(void)
{
    struct gpu *gpu;
    CUdevice device;

    if (shim_mode() != SHIM_ON || hbmspill_real.cuCtxGetDevice(&device) != CUDA_SUCCESS)
        return NULL;
    gpu = gpu_of_device(device);
    if (gpu || device < 0 || device >= GPUS_MAX || atomic_load(&unmanageable[device]))
        return if_its_context(gpu);
    ranges_attach();
    pthread_mutex_lock(&making);
    gpu = gpu_of_device(device);
    if (!gpu && gpu_count < GPUS_MAX)
        gpu = make(device);
    pthread_mutex_unlock(&making);
    return if_its_context(gpu);
}
