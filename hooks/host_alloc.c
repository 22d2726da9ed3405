/*
 * host_alloc.c - pinned host memory the job asks for by itself: the driver's, passed through and known.
 *
 * What was held back may read or write it, so giving it back submits first.
 */
#include "hooks/counters.h"
#include "hooks/window.h"
#include <pthread.h>
#include <stdlib.h>
#include <uthash.h>

struct pinned {
    void *memory;
    size_t size;
    UT_hash_handle hh;
};

/* Protects the table and the two counters. Leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pinned *table;

static CUresult pinned_add(CUresult status, void *memory, size_t size)
{
    struct pinned *pinned;

    if (status != CUDA_SUCCESS || !shim_active())
        return status;
    pinned = calloc(1, sizeof *pinned);
    if (!pinned)
        return status; /* it is counted by nobody, that is all */
    pinned->memory = memory;
    pinned->size = size;
    pthread_mutex_lock(&lock);
    HASH_ADD_PTR(table, memory, pinned);
    hook_counters.job_pinned_bytes += size;
    statistics_peak(&hook_counters.peak_job_pinned_bytes, hook_counters.job_pinned_bytes);
    pthread_mutex_unlock(&lock);
    return status;
}

static void pinned_remove(const void *memory)
{
    struct pinned *pinned;

    pthread_mutex_lock(&lock);
    HASH_FIND_PTR(table, &memory, pinned);
    if (pinned) {
        hook_counters.job_pinned_bytes -= pinned->size;
        HASH_DEL(table, pinned);
        free(pinned);
    }
    pthread_mutex_unlock(&lock);
}

CUresult hook_cuMemHostAlloc(void **memory, size_t size, unsigned flags)
{
    CUresult status = hbmspill_real.cuMemHostAlloc(memory, size, flags);

    return status == CUDA_SUCCESS && shim_active() ? pinned_add(status, *memory, size) : status;
}

CUresult hook_cuMemAllocHost_v2(void **memory, size_t size)
{
    CUresult status = hbmspill_real.cuMemAllocHost_v2(memory, size);

    return status == CUDA_SUCCESS && shim_active() ? pinned_add(status, *memory, size) : status;
}

CUresult hook_cuMemHostRegister_v2(void *memory, size_t size, unsigned flags)
{
    return pinned_add(hbmspill_real.cuMemHostRegister_v2(memory, size, flags), memory, size);
}

CUresult hook_cuMemFreeHost(void *memory)
{
    CUresult status;

    window_submit_quietly(CU_STREAM_LEGACY);
    if (shim_active())
        pinned_remove(memory);
    status = hbmspill_real.cuMemFreeHost(memory);
    return status;
}

CUresult hook_cuMemHostUnregister(void *memory)
{
    CUresult status;

    window_submit_quietly(CU_STREAM_LEGACY);
    if (shim_active())
        pinned_remove(memory);
    status = hbmspill_real.cuMemHostUnregister(memory);
    return status;
}
