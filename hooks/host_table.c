#include "hooks/host_table.h"
#include "hooks/counters.h"
#include "hooks/host_alloc.h"
#include "hooks/host_memory.h"
#include <pthread.h>
#include <stdlib.h>

/* Protects the table, ids and the two counters. Leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ranges table; /* of struct pinned */
static unsigned long long last_id;
static struct pinned *given_back;
static atomic_bool any_given_back;
/* From the pool: how many, and between which addresses they have ever been; read without the lock. */
static _Atomic size_t pooled;
static _Atomic uintptr_t lowest = UINTPTR_MAX, highest;

static struct pinned *find(uint64_t address)
{
    return (struct pinned *)ranges_find(&table, address);
}

static void note_bounds(const struct pinned *pinned)
{
    uintptr_t first = (uintptr_t)pinned->range.base, last = first + pinned->range.size;

    if (first < atomic_load(&lowest))
        atomic_store(&lowest, first);
    if (last > atomic_load(&highest))
        atomic_store(&highest, last);
    atomic_fetch_add(&pooled, 1);
}

/* Locked. */
static void count(int64_t bytes)
{
    count_add(job_pinned_bytes, (uint64_t)bytes);
    statistics_peak(&hook_counters.peak_job_pinned_bytes, count_now(job_pinned_bytes));
}

void host_note(int64_t bytes)
{
    pthread_mutex_lock(&lock);
    count(bytes);
    pthread_mutex_unlock(&lock);
}

bool host_add(const struct pinned *of)
{
    struct pinned *pinned = malloc(sizeof *pinned);
    bool added;

    if (!pinned)
        return false;
    *pinned = *of;
    pthread_mutex_lock(&lock);
    added = ranges_reserve(&table);
    if (added) {
        ranges_insert(&table, &pinned->range);
        pinned->id = ++last_id;
        if (pinned->gpu)
            note_bounds(pinned);
        count((int64_t)pinned->range.size);
    }
    pthread_mutex_unlock(&lock);
    if (!added)
        free(pinned);
    return added;
}

/* Locked. */
static void take_out(const struct pinned *pinned)
{
    count(-(int64_t)pinned->range.size);
    if (pinned->gpu)
        atomic_fetch_sub(&pooled, 1);
    ranges_remove(&table, &pinned->range);
}

struct pinned *host_take(const void *memory)
{
    struct pinned *pinned;

    pthread_mutex_lock(&lock);
    pinned = find((uintptr_t)memory);
    if (pinned && pinned->range.base != memory)
        pinned = NULL;
    if (pinned)
        take_out(pinned);
    pthread_mutex_unlock(&lock);
    return pinned;
}

/* The one from a pool that an address lies in, with the lock taken; NULL, and it is not. */
static struct pinned *lock_pooled(uint64_t address)
{
    struct pinned *pinned;

    if (!atomic_load_explicit(&pooled, memory_order_acquire) || address < atomic_load(&lowest) ||
        address >= atomic_load(&highest))
        return NULL;
    pthread_mutex_lock(&lock);
    pinned = find(address);
    if (pinned && pinned->gpu)
        return pinned;
    pthread_mutex_unlock(&lock);
    return NULL;
}

bool host_find(uint64_t address, struct pinned *out)
{
    const struct pinned *pinned = lock_pooled(address);

    if (!pinned)
        return false;
    *out = *pinned;
    pthread_mutex_unlock(&lock);
    return true;
}

bool host_set_sync(uint64_t address, bool sync)
{
    struct pinned *pinned = lock_pooled(address);

    if (!pinned)
        return false;
    pinned->sync_memops = sync;
    pthread_mutex_unlock(&lock);
    return true;
}

void host_keep(struct pinned *pinned)
{
    pthread_mutex_lock(&lock);
    pinned->next = given_back;
    given_back = pinned;
    atomic_store(&any_given_back, true);
    pthread_mutex_unlock(&lock);
}

struct pinned *host_kept(void)
{
    struct pinned *kept;

    if (!atomic_load(&any_given_back))
        return NULL;
    pthread_mutex_lock(&lock);
    kept = given_back;
    given_back = NULL;
    atomic_store(&any_given_back, false);
    pthread_mutex_unlock(&lock);
    return kept;
}

void host_forget(CUcontext context)
{
    pthread_mutex_lock(&lock);
    for (size_t at = table.count; at-- > 0;) {
        struct pinned *pinned = (struct pinned *)table.at[at];

        if (pinned->context != context)
            continue;
        take_out(pinned);
        if (!pinned->gpu) /* the pool's leaves with the pool */
            budget_give(host_memory_budget(), pinned->counted);
        free(pinned);
    }
    for (struct pinned **link = &given_back, *pinned; (pinned = *link) != NULL;) {
        if (pinned->context != context) {
            link = &pinned->next;
            continue;
        }
        *link = pinned->next;
        free(pinned);
    }
    pthread_mutex_unlock(&lock);
}
