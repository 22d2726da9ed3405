#include "hooks/host_table.h"
#include "hooks/counters.h"
#include "hooks/host_alloc.h"
#include "hooks/host_memory.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Protects the table, ids and the two counters. Leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pinned **table; /* by address */
static size_t count, capacity;
static unsigned long long last_id;
static struct pinned *given_back;
static atomic_bool any_given_back;
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

bool host_add(const struct pinned *of)
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

struct pinned *host_take(const void *memory)
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

bool host_find(uint64_t address, struct pinned *out)
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
    for (size_t at = count; at-- > 0;) {
        struct pinned *pinned = table[at];

        if (pinned->context != context)
            continue;
        take_out(at);
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
