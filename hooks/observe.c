#include "hooks/observe.h"
#include "hooks/events.h"
#include "hooks/ranges.h"
#include "shim/log.h"

static void copy_begin(void *ctx, uint64_t stream, bool in, uint64_t address, uint64_t size)
{
    const struct gpu *gpu = ctx;

    if (in)
        log_gpu(LOG_DEBUG, LOG_IN_FILL, gpu->device, "%llu bytes at 0x%llx come into HBM",
                (unsigned long long)size, (unsigned long long)address);
    else
        log_gpu(LOG_DEBUG, LOG_IN_EVICT, gpu->device, "%llu bytes at 0x%llx go out of HBM",
                (unsigned long long)size, (unsigned long long)address);
    RANGES(ranges_push(in ? RANGE_BRING_BACK : RANGE_EVICT, size));
    EVENTS(events_copy_begin(ctx, (CUstream)(uintptr_t)stream, in, size));
}

static void copy_end(void *ctx, uint64_t stream, bool submitted)
{
    (void)stream;
    EVENTS(events_copy_end(ctx, submitted));
    RANGES(ranges_pop());
}

static void stalled(void *ctx, uint64_t stream, uint64_t before, double nanoseconds, uint64_t bytes)
{
    EVENTS(events_stalled(ctx, (CUstream)(uintptr_t)stream, (CUevent)(uintptr_t)before, nanoseconds, bytes));
}

const struct cache_observer *observe_cache(struct gpu *gpu)
{
    if (!atomic_load(&events_on) && !atomic_load(&ranges_on) && !log_wants(LOG_DEBUG, LOG_IN_FILL) &&
        !log_wants(LOG_DEBUG, LOG_IN_EVICT))
        return NULL;
    gpu->observer = (struct cache_observer){gpu, copy_begin, copy_end, stalled};
    return &gpu->observer;
}
