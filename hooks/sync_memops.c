#include "hooks/sync_memops.h"
#include <pthread.h>
#include <uthash.h>

struct entry {
    uint64_t base;
    UT_hash_handle hh;
};

/* Guards the table; a leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *table;
static atomic_uint entries;

static bool base_of(uint64_t address, uint64_t *base)
{
    struct gpu *gpu = gpu_of_address(address);
    uint64_t size;

    return gpu && cache_find(gpu->cache, address, base, &size);
}

static void remove_locked(uint64_t base)
{
    struct entry *entry;

    HASH_FIND(hh, table, &base, sizeof base, entry);
    if (!entry)
        return;
    HASH_DEL(table, entry);
    free(entry);
    atomic_fetch_sub(&entries, 1);
}

bool sync_memops_set(uint64_t address, bool on)
{
    struct entry *entry = NULL;
    uint64_t base;

    if (!base_of(address, &base))
        return false;
    if (on) {
        entry = calloc(1, sizeof *entry);
        if (!entry)
            return false;
        entry->base = base;
    }
    pthread_mutex_lock(&lock);
    remove_locked(base);
    if (entry) {
        HASH_ADD(hh, table, base, sizeof base, entry);
        atomic_fetch_add(&entries, 1);
    }
    pthread_mutex_unlock(&lock);
    return true;
}

bool sync_memops_of(uint64_t address)
{
    struct entry *entry = NULL;
    uint64_t base;

    if (!atomic_load(&entries) || !base_of(address, &base))
        return false;
    pthread_mutex_lock(&lock);
    HASH_FIND(hh, table, &base, sizeof base, entry);
    pthread_mutex_unlock(&lock);
    return entry != NULL;
}

void sync_memops_born(uint64_t base)
{
    if (!atomic_load(&entries))
        return;
    pthread_mutex_lock(&lock);
    remove_locked(base);
    pthread_mutex_unlock(&lock);
}

bool sync_memops_touched(const struct touches *touches)
{
    for (unsigned i = 0; atomic_load(&entries) && i < touches->count; i++)
        if (sync_memops_of(touches->touch[i].address))
            return true;
    return false;
}

CUresult sync_memops_finish(bool touched, bool per_thread, CUresult status)
{
    if (!touched || status != CUDA_SUCCESS)
        return status;
    return hbmspill_real.cuStreamSynchronize(per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY);
}
