#include "hooks/host_account.h"
#include "hooks/counters.h"
#include "hooks/gpu.h"
#include "hooks/host_memory.h"
#include "hooks/host_pool.h"
#include "hooks/host_table.h"
#include "hooks/outside.h"
#include "shim/log.h"

#define MIB(bytes) ((unsigned long long)((bytes) >> 20))

/* All that is allowed is the job's own. */
static void tell_full(void)
{
    const struct budget *budget = host_memory_budget();

    if (host_memory_limit() && host_memory_limit() == atomic_load(&budget->limit) &&
        atomic_load(&budget->pinned) > host_memory_limit())
        log_once(LOG_WARN, LOG_IN_HOST,
                 "the job itself pins %llu MiB and more, past the limit of %llu MiB: nothing can be spilled "
                 "meanwhile "
                 "(HBMSPILL_HOST_LIMIT)",
                 MIB(atomic_load(&budget->pinned)), MIB(atomic_load(&budget->limit)));
}

/*
 * The system pins no more for the job, which is the driver's own answer. What a job makes of it is its
 * affair: JAX asks again every ten seconds, for ever.
 */
void host_account_tell(CUresult status, uint64_t size)
{
    uint64_t pinned = atomic_load(&host_memory_budget()->pinned), job = count_now(job_pinned_bytes);

    if (!host_account_refused(status))
        return;
    log_once(
        LOG_WARN, LOG_IN_HOST,
        "the driver refuses the job %llu MiB of pinned memory with %llu MiB pinned, %llu of them by the job "
        "itself: it may wait for it in vain (a limit on locked memory, ulimit -l, or HBMSPILL_HOST_LIMIT too "
        "high for this system)",
        MIB(size), MIB(pinned), MIB(job));
}

bool host_account_refused(CUresult status)
{
    return status == CUDA_ERROR_OUT_OF_MEMORY || status == CUDA_ERROR_OPERATING_SYSTEM;
}

bool host_account_make_room(void)
{
    uint64_t before = atomic_load(&host_memory_budget()->pinned);
    struct gpu *gpu;

    host_pools_ask();
    for (unsigned i = 0; (gpu = gpu_at(i)); i++) {
        cache_trim_host(gpu->cache);
        if (gpu->pinned.pool)
            pool_trim(gpu->pinned.pool, 0, UINT64_MAX);
    }
    return atomic_load(&host_memory_budget()->pinned) < before;
}

void host_account_take(uint64_t bytes)
{
    struct budget *budget = host_memory_budget();

    if (budget_take(budget, bytes) && !(host_account_make_room() && !budget_take(budget, bytes))) {
        budget_take_anyway(budget, bytes);
        tell_full();
    }
}

void host_account_check(void)
{
    if (budget_left(host_memory_budget()))
        return;
    (void)host_account_make_room();
    tell_full();
}

bool host_account_on_host(const CUmemLocation *location)
{
    return location->type == CU_MEM_LOCATION_TYPE_HOST || location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
           location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

CUresult host_account_create(CUmemGenericAllocationHandle *handle, size_t size,
                             const CUmemAllocationProp *prop, unsigned long long flags)
{
    CUresult status;

    if (!host_account_on_host(&prop->location))
        return hbmspill_real.cuMemCreate(handle, size, prop, flags);
    host_account_take(size);
    status = hbmspill_real.cuMemCreate(handle, size, prop, flags);
    if (host_account_refused(status) && host_account_make_room())
        status = hbmspill_real.cuMemCreate(handle, size, prop, flags);
    if (status == CUDA_SUCCESS && outside_add_host(*handle, size))
        host_note((int64_t)size);
    else
        budget_give(host_memory_budget(), size);
    host_account_tell(status, size);
    return status;
}

void host_account_release(uint64_t bytes)
{
    budget_give(host_memory_budget(), bytes);
    host_note(-(int64_t)bytes);
}
