/*
 * host_alloc.c - pinned host memory the job asks for by itself: from the pool (hooks/pinned.h), or the
 * driver's, passed through; counted either way.
 *
 * Memory from the pool is part of a larger range that is registered with the driver, so what the driver is
 * asked about it is answered here where its answer would be another for memory of cuMemHostAlloc. Memory is
 * reused, so giving it back waits for the GPU as the driver does: what is queued may read or write it. What
 * was held back may, too, so that is submitted first. A context with a stream that captures cannot be waited
 * for; what is given back meanwhile is kept until none does.
 *
 * The job is refused nothing: it gets what it would get without the library, which then has less for what is
 * spilled. (XLA, refused a pinned buffer, asks again for ever.)
 */
#include "hooks/host_alloc.h"
#include "hooks/capture.h"
#include "hooks/counters.h"
#include "hooks/gpu.h"
#include "hooks/host_account.h"
#include "hooks/host_memory.h"
#include "hooks/host_table.h"
#include "hooks/window.h"
#include "shim/log.h"
#include "shim/options.h"
#include <errno.h>
#include <stdlib.h>

#define MIB(bytes) ((unsigned long long)((bytes) >> 20))

static CUresult wait_for(struct gpu *gpu)
{
    bool entered = gpu_enter(gpu);
    CUresult status = hbmspill_real.cuCtxSynchronize();

    gpu_leave(entered);
    return status;
}

/* What was kept while streams captured. */
static void free_kept(void)
{
    struct pinned *pinned, *next;

    if (atomic_load(&captures_active))
        return;
    for (pinned = host_kept(); pinned; pinned = next) {
        next = pinned->next;
        if (wait_for(pinned->gpu) != CUDA_SUCCESS) { /* somebody captures again */
            host_keep(pinned);
            continue;
        }
        pool_free(pinned->gpu->pinned.pool, pinned->range.base);
        free(pinned);
    }
}

/* From the pool. False: it is the driver's to give. */
static bool from_pool(void **memory, size_t size, unsigned flags)
{
    struct pinned pinned = {.range.size = size, .flags = flags};
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
    if (error == -ENOSPC && host_account_make_room())
        error = pinned_alloc(gpu, size, &made);
    if (error)
        return false;
    pinned.range.base = made;
    pinned.gpu = gpu;
    pinned.context = gpu->context;
    pinned.device = gpu->device;
    if (!host_add(&pinned)) {
        pool_free(gpu->pinned.pool, made);
        return false;
    }
    *memory = made;
    return true;
}

static CUcontext current_context(void)
{
    CUcontext context = NULL;

    return hbmspill_real.cuCtxGetCurrent && hbmspill_real.cuCtxGetCurrent(&context) == CUDA_SUCCESS ? context
                                                                                                    : NULL;
}

/*
 * Around a call of the driver's that pins size bytes at *memory, which are in so many whole pages. What is
 * idle in the pools the job could have had without us, so it is asked for once more when that is given back.
 */
#define COUNTED(at, bytes, pages, call)                                                                      \
    ({                                                                                                       \
        struct pinned counted = {.range.size = (bytes), .counted = (pages), .context = current_context()};   \
        CUresult counted_status;                                                                             \
        host_account_take(counted.counted);                                                                  \
        counted_status = (call);                                                                             \
        if (host_account_refused(counted_status) && host_account_make_room())                                \
            counted_status = (call);                                                                         \
        counted.range.base = counted_status == CUDA_SUCCESS ? (at) : NULL;                                   \
        if (counted_status != CUDA_SUCCESS || !host_add(&counted))                                           \
            budget_give(host_memory_budget(), counted.counted);                                              \
        host_account_tell(counted_status, counted.counted);                                                  \
        counted_status;                                                                                      \
    })

CUresult hook_cuMemHostAlloc(void **memory, size_t size, unsigned flags)
{
    if (!shim_active() || !memory || !size)
        return hbmspill_real.cuMemHostAlloc(memory, size, flags);
    free_kept();
    pinned_tick();
    if (from_pool(memory, size, flags))
        return CUDA_SUCCESS;
    return COUNTED(*memory, size, extent_round(size), hbmspill_real.cuMemHostAlloc(memory, size, flags));
}

/* The first version, which is the driver's to have or not. */
CUresult hook_cuMemAllocHost(void **memory, unsigned size)
{
    if (!shim_active() || !memory || !size)
        return hbmspill_real.cuMemAllocHost(memory, size);
    free_kept();
    pinned_tick();
    return COUNTED(*memory, size, extent_round(size), hbmspill_real.cuMemAllocHost(memory, size));
}

CUresult hook_cuMemAllocHost_v2(void **memory, size_t size)
{
    if (!shim_active() || !memory || !size)
        return hbmspill_real.cuMemAllocHost_v2(memory, size);
    free_kept();
    pinned_tick();
    if (from_pool(memory, size, 0))
        return CUDA_SUCCESS;
    return COUNTED(*memory, size, extent_round(size), hbmspill_real.cuMemAllocHost_v2(memory, size));
}

static CUresult registered(PFN_cuMemHostRegister_v6050 real, void *memory, size_t size, unsigned flags)
{
    size_t before = (uintptr_t)memory % extent_page(); /* whole pages are pinned */

    if (!shim_active() || !memory || !size || size > SIZE_MAX / 2)
        return real(memory, size, flags);
    free_kept();
    pinned_tick();
    return COUNTED(memory, size, extent_round(size + before), real(memory, size, flags));
}

CUresult hook_cuMemHostRegister(void *memory, size_t size, unsigned flags)
{
    return registered(hbmspill_real.cuMemHostRegister, memory, size, flags);
}

CUresult hook_cuMemHostRegister_v2(void *memory, size_t size, unsigned flags)
{
    return registered(hbmspill_real.cuMemHostRegister_v2, memory, size, flags);
}

/* Whether a thread may give host memory back now is for the driver to say, of a page that it makes for that.
 */
static CUresult may_give_back(void)
{
    struct budget *budget = host_memory_budget();
    void *page;
    CUresult status;

    budget_take_anyway(budget, extent_page());
    status = hbmspill_real.cuMemHostAlloc(&page, 1, 0);
    if (status == CUDA_SUCCESS) {
        status = hbmspill_real.cuMemFreeHost(page);
        if (status != CUDA_SUCCESS)
            return status; /* it is pinned still */
    }
    budget_give(budget, extent_page());
    return status == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_SUCCESS : status; /* it is not against it */
}

/*
 * What is queued in its context may use it. An error of that is the free's, as the driver has it. The caller
 * has it no more.
 */
static CUresult free_pooled(struct pinned *pinned)
{
    bool captured = atomic_load(&captures_active);
    CUresult status = captured ? may_give_back() : wait_for(pinned->gpu);

    if (status == CUDA_SUCCESS && captured) {
        host_keep(pinned);
        return status;
    }
    if (status == CUDA_SUCCESS) {
        pool_free(pinned->gpu->pinned.pool, pinned->range.base);
    } else if (!host_add(pinned)) {
        log_once(LOG_WARN, LOG_IN_HOST, "memory of the job's was lost after an error of the device");
    }
    free(pinned);
    return status;
}

CUresult hook_cuMemFreeHost(void *memory)
{
    struct pinned *pinned;
    CUresult status;

    window_submit_quietly(CU_STREAM_LEGACY);
    if (!shim_active())
        return hbmspill_real.cuMemFreeHost(memory);
    free_kept();
    pinned_tick();
    pinned = host_take(memory);
    if (pinned && pinned->gpu)
        return free_pooled(pinned);
    status = hbmspill_real.cuMemFreeHost(memory);
    if (pinned && status != CUDA_SUCCESS)
        host_add(pinned);
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
    free_kept();
    pinned_tick();
    /* The range that the pool registered may begin there; the job registered nothing. */
    if (host_find((uintptr_t)memory, &inside))
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    pinned = host_take(memory);
    status = hbmspill_real.cuMemHostUnregister(memory);
    if (pinned && status != CUDA_SUCCESS)
        host_add(pinned);
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

    if (!shim_active() || !flags || !host_find((uintptr_t)memory, &pinned))
        return hbmspill_real.cuMemHostGetFlags(flags, memory);
    *flags = flags_of(&pinned);
    return CUDA_SUCCESS;
}

CUresult host_attribute(void *value, CUpointer_attribute attribute, uint64_t address)
{
    struct pinned pinned;

    if (!host_find(address, &pinned))
        return CUDA_ERROR_NOT_SUPPORTED;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)value = pinned.context;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *(unsigned *)value = pinned.sync_memops;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)value = pinned.device;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: /* apart from the driver's, which count from below */
        *(unsigned long long *)value = UINT64_C(1) << 63 | pinned.id;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)value = (uintptr_t)pinned.range.base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)value = pinned.range.size;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

/*
 * What the driver is told counts for all of the range that it lies in, and those beside it in there would
 * have it too, and keep it. To them it is answered that they do not; that their synchronous copies wait as
 * well changes nothing but their time. So it is not taken back either.
 */
CUresult host_set_attribute(const void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
    bool sync = value && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && *(const unsigned *)value;
    CUresult status;

    if (value && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && !sync && host_set_sync(address, false))
        return CUDA_SUCCESS;
    status = hbmspill_real.cuPointerSetAttribute(value, attribute, address);
    if (status == CUDA_SUCCESS && sync)
        (void)host_set_sync(address, true);
    return status;
}

bool host_range(uint64_t address, uint64_t *base, uint64_t *size)
{
    struct pinned pinned;

    if (!host_find(address, &pinned))
        return false;
    *base = (uintptr_t)pinned.range.base;
    *size = pinned.range.size;
    return true;
}
