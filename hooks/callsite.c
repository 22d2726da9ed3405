#include "hooks/callsite.h"
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

enum {
    SITES_MAX = 1024,
    KNOWN = 4096,       /* entries of the table by size and depth, a power of two */
    VERIFY = 256,       /* one look-up in so many walks the stack all the same */
    BUDGET_SHARE = 256, /* of the time since the first allocation */
};
static const uint64_t budget_at_once = 20000000; /* nanoseconds, besides that share */

struct site {
    uint64_t hash;
    unsigned count;
    void *addresses[CALLSITE_FRAMES];
};

/* Protects the sites. Leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct site sites[SITES_MAX]; /* site n is sites[n - 1] */
static uint32_t site_count;

/* Size and depth, hashed: the upper half of the hash, and the site. Entries overwrite each other. */
static atomic_ullong known[KNOWN];
static atomic_ullong lookups, spent, begun;

/* In nanoseconds. */
static uint64_t now(clockid_t clock)
{
    struct timespec time;

    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static uint32_t enter(void *const *addresses, unsigned count)
{
    uint64_t hash = count;
    uint32_t site;

    for (unsigned i = 0; i < count; i++)
        hash = mix(hash, (uint64_t)(uintptr_t)addresses[i]);
    pthread_mutex_lock(&lock);
    for (site = 0; site < site_count && sites[site].hash != hash; site++)
        ;
    if (site == site_count && site_count < SITES_MAX) {
        sites[site].hash = hash;
        sites[site].count = count;
        memcpy(sites[site].addresses, addresses, count * sizeof *addresses);
        site_count++;
    }
    site = site < site_count ? site + 1 : 0;
    pthread_mutex_unlock(&lock);
    return site;
}

/*
 * backtrace(3) is in libc and loads libgcc_s.so.1 at its first call, which every C++ program has loaded: this
 * library goes on needing libc alone. Where there are no unwind tables the walk ends. What counts is the
 * thread's own time: on a busy machine it may be stopped in the middle.
 */
static uint32_t walk(void)
{
    uint64_t start = now(CLOCK_MONOTONIC), first = 0, begin, so_far;
    void *addresses[CALLSITE_FRAMES];
    uint32_t site = 0;
    int count;

    if (atomic_compare_exchange_strong(&begun, &first, start))
        first = start;
    so_far = atomic_load_explicit(&spent, memory_order_relaxed);
    if (so_far > budget_at_once + (start - first) / BUDGET_SHARE)
        return 0;
    begin = now(CLOCK_THREAD_CPUTIME_ID);
    count = backtrace(addresses, CALLSITE_FRAMES);
    if (count > 0)
        site = enter(addresses, (unsigned)count);
    atomic_fetch_add_explicit(&spent, now(CLOCK_THREAD_CPUTIME_ID) - begin, memory_order_relaxed);
    return site;
}

uint32_t callsite_take(uint64_t size)
{
    /* Two ways to an allocation of one size that go equally deep are rare; now and then it is looked again.
     */
    uint64_t key = mix(size, (uint64_t)(uintptr_t)__builtin_frame_address(0));
    atomic_ullong *entry = &known[key % KNOWN];
    uint64_t found = atomic_load_explicit(entry, memory_order_relaxed);
    uint32_t site;

    if (found >> 32 == key >> 32 && (uint32_t)found &&
        atomic_fetch_add_explicit(&lookups, 1, memory_order_relaxed) % VERIFY != VERIFY - 1)
        return (uint32_t)found;
    site = walk();
    if (site)
        atomic_store_explicit(entry, key >> 32 << 32 | site, memory_order_relaxed);
    return site;
}

/* Of this library, whose mapping begins at base. */
static bool is_own(const void *address, const void *base)
{
    Dl_info info;

    return dladdr(address, &info) && info.dli_fbase == base;
}

/* The innermost frames are ours; before them may be those of who stands before backtrace (AddressSanitizer).
 */
unsigned callsite_addresses(uint32_t site, void *addresses[CALLSITE_FRAMES])
{
    const struct site *found = site && site <= SITES_MAX ? &sites[site - 1] : NULL;
    unsigned first = 0, count;
    Dl_info own;

    if (!found || !dladdr((void *)(uintptr_t)callsite_take, &own))
        return 0;
    while (first < found->count && !is_own(found->addresses[first], own.dli_fbase))
        first++;
    if (first == found->count)
        first = 0;
    while (first < found->count && is_own(found->addresses[first], own.dli_fbase))
        first++;
    count = found->count - first;
    memcpy(addresses, &found->addresses[first], count * sizeof *addresses);
    return count;
}
