#include "hooks/outside.h"
#include "hooks/counters.h"
#include "hooks/host_account.h"
#include "hooks/host_memory.h"
#include "hooks/retry.h"
#include "shim/log.h"
#include "shim/options.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define MIB(bytes) ((unsigned long long)((bytes) >> 20))

struct key {
    uint64_t kind, value;
};

struct held {
    struct key key;
    struct gpu *gpu; /* NULL: host memory */
    uint64_t bytes;
    unsigned mappings; /* handles only */
    bool released;
    UT_hash_handle hh;
};

struct mapping {
    uint64_t address;
    struct held *held;
    UT_hash_handle hh;
};

/* Protects both tables. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct held *table;
static struct mapping *mappings;

static struct held *find(enum outside_kind kind, uint64_t value)
{
    struct key key = {kind, value};
    struct held *held;

    /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): both words of the key are set */
    HASH_FIND(hh, table, &key, sizeof key, held);
    return held;
}

/* Takes the record out and returns what it held; the caller tells the cache without the lock. */
static struct held *drop(struct held *held)
{
    HASH_DEL(table, held);
    return held;
}

static void tell(struct held *dropped)
{
    if (!dropped)
        return;
    if (dropped->gpu)
        cache_outside(dropped->gpu->cache, -(int64_t)dropped->bytes);
    else
        host_account_release(dropped->bytes);
    free(dropped);
}

static bool add(struct gpu *gpu, enum outside_kind kind, uint64_t value, uint64_t bytes)
{
    struct held *held = calloc(1, sizeof *held);

    if (!held)
        return false;
    held->key = (struct key){kind, value};
    held->gpu = gpu;
    held->bytes = bytes;
    pthread_mutex_lock(&lock);
    HASH_ADD(hh, table, key, sizeof held->key, held);
    pthread_mutex_unlock(&lock);
    return true;
}

void outside_add(struct gpu *gpu, enum outside_kind kind, uint64_t value, uint64_t bytes)
{
    if (gpu && add(gpu, kind, value, bytes)) /* else the driver's own out-of-memory tells */
        cache_outside(gpu->cache, (int64_t)bytes);
}

bool outside_add_host(uint64_t handle, uint64_t bytes)
{
    return add(NULL, OUTSIDE_HANDLE, handle, bytes);
}

void outside_remove(enum outside_kind kind, uint64_t value)
{
    struct held *held;

    pthread_mutex_lock(&lock);
    held = find(kind, value);
    if (held && held->mappings) {
        held->released = true;
        held = NULL;
    }
    if (held)
        held = drop(held);
    pthread_mutex_unlock(&lock);
    tell(held);
}

void outside_pool(CUmemoryPool pool)
{
    struct gpu *gpu = gpu_current();
    cuuint64_t reserved;
    struct held *held;
    int64_t change = 0;

    if (!gpu || hbmspill_real.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved) !=
                    CUDA_SUCCESS)
        return;
    pthread_mutex_lock(&lock);
    held = find(OUTSIDE_POOL, (uint64_t)(uintptr_t)pool);
    if (!held && (held = calloc(1, sizeof *held))) {
        held->key = (struct key){OUTSIDE_POOL, (uint64_t)(uintptr_t)pool};
        held->gpu = gpu;
        HASH_ADD(hh, table, key, sizeof held->key, held);
    }
    if (held) {
        change = (int64_t)reserved - (int64_t)held->bytes;
        held->bytes = reserved;
        gpu = held->gpu;
    }
    pthread_mutex_unlock(&lock);
    if (change)
        cache_outside(gpu->cache, change);
}

void outside_map(uint64_t address, uint64_t handle)
{
    struct mapping *mapping = calloc(1, sizeof *mapping);
    struct held *held;

    pthread_mutex_lock(&lock);
    held = mapping ? find(OUTSIDE_HANDLE, handle) : NULL;
    if (held) {
        mapping->address = address;
        mapping->held = held;
        held->mappings++;
        HASH_ADD(hh, mappings, address, sizeof mapping->address, mapping);
        mapping = NULL;
    }
    pthread_mutex_unlock(&lock);
    free(mapping);
}

void outside_unmap(uint64_t address, uint64_t size)
{
    struct mapping *mapping;
    struct held *held;

    for (uint64_t end = address + size; address < end;) {
        uint64_t step = 2 << 20; /* an address that was not noted: the next granule */

        pthread_mutex_lock(&lock);
        held = NULL;
        HASH_FIND(hh, mappings, &address, sizeof address, mapping);
        if (mapping) {
            held = mapping->held;
            HASH_DEL(mappings, mapping);
            free(mapping);
            step = held->bytes;
            held = --held->mappings == 0 && held->released ? drop(held) : NULL;
        }
        pthread_mutex_unlock(&lock);
        tell(held);
        address += step;
    }
}

void outside_make_room(struct gpu *gpu, uint64_t bytes)
{
    struct cache_usage usage;
    bool entered;

    if (!gpu)
        return;
    cache_usage(gpu->cache, &usage);
    if (usage.frames + usage.outside + bytes <= usage.hbm_limit)
        return;
    entered = gpu_enter(gpu);
    cache_release(gpu->cache, usage.frames + usage.outside + bytes - usage.hbm_limit);
    gpu_leave(entered);
}

bool retry_make_room(struct gpu *gpu, uint64_t bytes)
{
    struct cache_usage usage;
    uint64_t released;
    bool entered;

    if (!gpu)
        return false;
    count_add(retries, 1);
    entered = gpu_enter(gpu);
    released = cache_release(gpu->cache, bytes > gpu->granularity ? bytes : 16 * gpu->granularity);
    gpu_leave(entered);
    cache_usage(gpu->cache, &usage);
    if (!released && !usage.frames && usage.outside >= usage.hbm_limit / 2)
        log_gpu_once(
            LOG_WARN, LOG_IN_FULL, gpu->device,
            "device memory is full of what is never spilled, %llu of %llu MiB: allocations of less than "
            "%llu KiB (HBMSPILL_MIN_SIZE: lower it), and regions that the job maps itself",
            MIB(usage.outside), MIB(usage.hbm_limit), (unsigned long long)(options_get()->min_size >> 10));
    else if (!released && usage.frames) { /* else all of it is the driver's, and so is the answer */
        const struct budget *budget = host_memory_budget();

        log_gpu_once(
            LOG_WARN, LOG_IN_FULL, gpu->device,
            "the driver has no device memory left for the job (modules, graphs, libraries), and nothing can "
            "make way: %llu of %llu MiB of host memory are used: raise HBMSPILL_HOST_LIMIT, or "
            "HBMSPILL_RESERVE",
            MIB(atomic_load(&budget->pinned)), MIB(atomic_load(&budget->limit)));
    }
    return released > 0;
}
