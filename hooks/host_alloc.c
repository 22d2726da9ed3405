/*
 * host_alloc.c - pinned host memory the job asks for by itself: from the pool (hooks/pinned.h), or the
 * driver's, passed through; counted either way.
 *
 * Memory from the pool is part of a larger range that is registered with the driver, so what the driver is
 * asked about it is answered here where its answer would be another for memory of cuMemHostAlloc. Memory is
 * reused, so giving it back waits for the GPU as the driver does: what is queued may read or write it. What
 * was held back may, too, so that is submitted first.
 *
 * The job is refused nothing: it gets what it would get without the library, which then has less for what is
 * spilled. (XLA, refused a pinned buffer, asks again for ever.)
 */
#include "hooks/host_alloc.h"
#include "hooks/capture.h"
#include "hooks/counters.h"
#include "hooks/gpu.h"
#include "hooks/host_memory.h"
#include "hooks/window.h"
#include "shim/log.h"
#include "shim/options.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MIB(bytes) ((unsigned long long)((bytes) >> 20))

struct pinned {
    char *memory;
    size_t size;
    uint64_t counted; /* in the account, for what is not from the pool */
    struct gpu *gpu;  /* whose pool it is from, or NULL */
    CUcontext context;
    CUdevice device;
    unsigned flags;
    unsigned long long id;
};

/* Protects the table, ids and the two counters. Leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pinned **table; /* by address */
static size_t count, capacity;
static unsigned long long last_id;
/* From the pool: how many, and between which addresses they have ever been; read without the lock. */
static _Atomic size_t pooled;
static _Atomic uintptr_t lowest = UINTPTR_MAX, highest;

/* The index of the first that ends behind an address. */
static size_t lower(uint64_t address)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if ((uintptr_t)table[mid]->memory + table[mid]->size <= address)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool grow(void)
{
    size_t more = capacity ? capacity * 2 : 64;
    struct pinned **grown;

    if (count < capacity)
        return true;
    grown = realloc(table, more * sizeof(struct pinned *));
    if (!grown)
        return false;
    table = grown;
    capacity = more;
    return true;
}

static void note_bounds(const struct pinned *pinned)
{
    uintptr_t first = (uintptr_t)pinned->memory, last = first + pinned->size;

    if (first < atomic_load(&lowest))
        atomic_store(&lowest, first);
    if (last > atomic_load(&highest))
        atomic_store(&highest, last);
    atomic_fetch_add(&pooled, 1);
}

static bool add(const struct pinned *of)
{
    struct pinned *pinned = malloc(sizeof *pinned);
    bool added;
    size_t at;

    if (!pinned)
        return false;
    *pinned = *of;
    pthread_mutex_lock(&lock);
    added = grow();
    if (added) {
        at = lower((uintptr_t)pinned->memory);
        memmove(&table[at + 1], &table[at], (count - at) * sizeof(struct pinned *));
        table[at] = pinned;
        count++;
        pinned->id = ++last_id;
        if (pinned->gpu)
            note_bounds(pinned);
        hook_counters.job_pinned_bytes += pinned->size;
        statistics_peak(&hook_counters.peak_job_pinned_bytes, hook_counters.job_pinned_bytes);
    }
    pthread_mutex_unlock(&lock);
    if (!added)
        free(pinned);
    return added;
}

/* Locked. */
static void take_out(size_t at)
{
    hook_counters.job_pinned_bytes -= table[at]->size;
    if (table[at]->gpu)
        atomic_fetch_sub(&pooled, 1);
    memmove(&table[at], &table[at + 1], (count - at - 1) * sizeof(struct pinned *));
    count--;
}

/* The one that begins there, out of the table; the caller's to free. */
static struct pinned *take(const void *memory)
{
    struct pinned *pinned = NULL;
    size_t at;

    pthread_mutex_lock(&lock);
    at = lower((uintptr_t)memory);
    if (at < count && table[at]->memory == memory) {
        pinned = table[at];
        take_out(at);
    }
    pthread_mutex_unlock(&lock);
    return pinned;
}

/* The one from the pool that an address lies in, copied. */
static bool find_pooled(uint64_t address, struct pinned *out)
{
    bool found;
    size_t at;

    if (!atomic_load_explicit(&pooled, memory_order_acquire) || address < atomic_load(&lowest) ||
        address >= atomic_load(&highest))
        return false;
    pthread_mutex_lock(&lock);
    at = lower(address);
    found = at < count && (uintptr_t)table[at]->memory <= address && table[at]->gpu;
    if (found)
        *out = *table[at];
    pthread_mutex_unlock(&lock);
    return found;
}

/* All that is allowed is the job's own. */
static void tell_full(void)
{
    const struct budget *budget = host_memory_budget();

    if (host_memory_limit() && host_memory_limit() == atomic_load(&budget->limit) &&
        atomic_load(&budget->pinned) > host_memory_limit())
        log_once(LOG_WARN, "host",
                 "the job itself pins %llu MiB and more, past the limit of %llu MiB: nothing can be spilled "
                 "meanwhile "
                 "(HBMSPILL_HOST_LIMIT)",
                 MIB(atomic_load(&budget->pinned)), MIB(atomic_load(&budget->limit)));
}

/* What is idle anywhere is given back. */
static bool make_room(void)
{
    uint64_t before = budget_left(host_memory_budget());
    struct gpu *gpu;

    for (unsigned i = 0; (gpu = gpu_at(i)); i++) {
        cache_trim_host(gpu->cache);
        if (gpu->pinned.pool)
            pool_trim(gpu->pinned.pool, 0, UINT64_MAX);
    }
    return budget_left(host_memory_budget()) > before;
}

/* In the account for what the driver pins itself. */
static void count_native(uint64_t bytes)
{
    struct budget *budget = host_memory_budget();

    if (budget_take(budget, bytes) && !(make_room() && !budget_take(budget, bytes))) {
        budget_take_anyway(budget, bytes);
        tell_full();
    }
}

/* From the pool. False: it is the driver's to give. */
static bool from_pool(void **memory, size_t size, unsigned flags)
{
    struct pinned pinned = {.size = size, .flags = flags};
    struct gpu *gpu;
    void *made;
    int error;

    /* A capture makes the driver refuse the call; write-combined memory is of another kind. */
    if (options_get()->pinned != OPTION_PINNED_ON || !memory || !size ||
        flags & ~(unsigned)(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP) ||
        atomic_load(&captures_active))
        return false;
    gpu = gpu_make_current();
    if (!gpu || !pinned_serves(gpu))
        return false;
    error = pinned_alloc(gpu, size, &made);
    if (error == -ENOSPC && make_room())
        error = pinned_alloc(gpu, size, &made);
    if (error)
        return false;
    pinned.memory = made;
    pinned.gpu = gpu;
    pinned.context = gpu->context;
    pinned.device = gpu->device;
    if (!add(&pinned)) {
        pool_free(gpu->pinned.pool, made);
        return false;
    }
    *memory = made;
    return true;
}

/* Around a call of the driver's that pins size bytes at *memory. */
#define COUNTED(at, bytes, call)                                                                             \
    ({                                                                                                       \
        struct pinned counted = {.size = (bytes), .counted = extent_round(bytes)};                           \
        CUresult counted_status;                                                                             \
        count_native(counted.counted);                                                                       \
        counted_status = (call);                                                                             \
        counted.memory = counted_status == CUDA_SUCCESS ? (at) : NULL;                                       \
        if (counted_status != CUDA_SUCCESS || !add(&counted))                                                \
            budget_give(host_memory_budget(), counted.counted);                                              \
        counted_status;                                                                                      \
    })

CUresult hook_cuMemHostAlloc(void **memory, size_t size, unsigned flags)
{
    if (!shim_active() || !memory || !size)
        return hbmspill_real.cuMemHostAlloc(memory, size, flags);
    pinned_tick();
    if (from_pool(memory, size, flags))
        return CUDA_SUCCESS;
    return COUNTED(*memory, size, hbmspill_real.cuMemHostAlloc(memory, size, flags));
}

CUresult hook_cuMemAllocHost_v2(void **memory, size_t size)
{
    if (!shim_active() || !memory || !size)
        return hbmspill_real.cuMemAllocHost_v2(memory, size);
    pinned_tick();
    if (from_pool(memory, size, 0))
        return CUDA_SUCCESS;
    return COUNTED(*memory, size, hbmspill_real.cuMemAllocHost_v2(memory, size));
}

CUresult hook_cuMemHostRegister_v2(void *memory, size_t size, unsigned flags)
{
    size_t before = (uintptr_t)memory % extent_page(); /* whole pages are pinned */

    if (!shim_active() || !memory || !size || size > SIZE_MAX / 2)
        return hbmspill_real.cuMemHostRegister_v2(memory, size, flags);
    pinned_tick();
    return COUNTED(memory, size + before, hbmspill_real.cuMemHostRegister_v2(memory, size, flags));
}

/* What is queued in its context may use it. An error of that is the free's, as the driver has it. */
static CUresult free_pooled(struct pinned *pinned)
{
    struct gpu *gpu = pinned->gpu;
    bool entered = gpu_enter(gpu);
    CUresult status = hbmspill_real.cuCtxSynchronize();

    gpu_leave(entered);
    if (status == CUDA_SUCCESS)
        pool_free(gpu->pinned.pool, pinned->memory);
    else if (!add(pinned))
        log_once(LOG_WARN, "host", "memory of the job's was lost after an error of the device");
    return status;
}

CUresult hook_cuMemFreeHost(void *memory)
{
    struct pinned *pinned;
    CUresult status;

    window_submit_quietly(CU_STREAM_LEGACY);
    if (!shim_active())
        return hbmspill_real.cuMemFreeHost(memory);
    pinned_tick();
    pinned = take(memory);
    if (pinned && pinned->gpu) {
        status = free_pooled(pinned);
        free(pinned);
        return status;
    }
    status = hbmspill_real.cuMemFreeHost(memory);
    if (pinned && status != CUDA_SUCCESS)
        add(pinned);
    else if (pinned)
        budget_give(host_memory_budget(), pinned->counted);
    free(pinned);
    return status;
}

CUresult hook_cuMemHostUnregister(void *memory)
{
    struct pinned *pinned, inside;
    CUresult status;

    window_submit_quietly(CU_STREAM_LEGACY);
    if (!shim_active())
        return hbmspill_real.cuMemHostUnregister(memory);
    pinned_tick();
    /* The range that the pool registered may begin there; the job registered nothing. */
    if (find_pooled((uintptr_t)memory, &inside))
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    pinned = take(memory);
    status = hbmspill_real.cuMemHostUnregister(memory);
    if (pinned && status != CUDA_SUCCESS)
        add(pinned);
    else if (pinned)
        budget_give(host_memory_budget(), pinned->counted);
    free(pinned);
    return status;
}

/*
 * The flags as the driver would give them back, which may be more than were asked for: with unified
 * addressing all such memory is mapped. It is asked once for each combination, of a page that it allocates
 * for that.
 */
static unsigned flags_of(const struct pinned *pinned)
{
    enum { KINDS = 4, KNOWN = 1 << 30 };
    static atomic_uint told[KINDS];
    unsigned kind = pinned->flags & (KINDS - 1), answer = atomic_load(&told[kind]);
    void *page;

    if (answer)
        return answer & ~(unsigned)KNOWN;
    answer = pinned->flags | CU_MEMHOSTALLOC_DEVICEMAP;
    if (pinned_native_alloc(pinned->gpu, 1, pinned->flags, &page))
        return answer; /* no memory to ask with */
    if (hbmspill_real.cuMemHostGetFlags && hbmspill_real.cuMemHostGetFlags(&answer, page) == CUDA_SUCCESS)
        atomic_store(&told[kind], answer | KNOWN);
    (void)pinned_native_free(pinned->gpu, page); /* else it stays in the account */
    return answer;
}

CUresult hook_cuMemHostGetFlags(unsigned *flags, void *memory)
{
    struct pinned pinned;

    if (!shim_active() || !flags || !find_pooled((uintptr_t)memory, &pinned))
        return hbmspill_real.cuMemHostGetFlags(flags, memory);
    *flags = flags_of(&pinned);
    return CUDA_SUCCESS;
}

CUresult host_attribute(void *value, CUpointer_attribute attribute, uint64_t address)
{
    struct pinned pinned;

    if (!find_pooled(address, &pinned))
        return CUDA_ERROR_NOT_SUPPORTED;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)value = pinned.context;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)value = pinned.device;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: /* apart from the driver's, which count from below */
        *(unsigned long long *)value = UINT64_C(1) << 63 | pinned.id;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)value = (uintptr_t)pinned.memory;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)value = pinned.size;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

bool host_range(uint64_t address, uint64_t *base, uint64_t *size)
{
    struct pinned pinned;

    if (!find_pooled(address, &pinned))
        return false;
    *base = (uintptr_t)pinned.memory;
    *size = pinned.size;
    return true;
}

void host_forget(struct gpu *gpu)
{
    pthread_mutex_lock(&lock);
    for (size_t at = count; at-- > 0;) {
        struct pinned *pinned = table[at];

        if (pinned->gpu == gpu) {
            take_out(at);
            free(pinned);
        }
    }
    pthread_mutex_unlock(&lock);
}
