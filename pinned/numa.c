#include "pinned/numa.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

/* As numaif.h and numa.h declare them; the node mask is of unsigned long. */
struct bitmask;
struct libnuma {
    int (*available)(void);
    struct bitmask *(*mems_allowed)(void);
    int (*is_set)(const struct bitmask *, unsigned);
    void (*free_mask)(struct bitmask *);
    long (*mbind)(void *, unsigned long, int, const unsigned long *, unsigned long, unsigned);
    long (*get_mempolicy)(int *, unsigned long *, unsigned long, void *, unsigned);
    long (*move_pages)(int, unsigned long, void **, const int *, int *, int);
};
enum { PREFERRED = 1 /* MPOL_PREFERRED */, WORD_BITS = 8 * sizeof(unsigned long) };

/* Opened by every thread that finds it unopened: the dynamic linker gives all of them the same. */
static bool open_library(struct libnuma *numa)
{
    void *handle = dlopen("libnuma.so.1", RTLD_NOW | RTLD_LOCAL);

    if (!handle)
        return false;
    *(void **)&numa->available = dlsym(handle, "numa_available");
    *(void **)&numa->mems_allowed = dlsym(handle, "numa_get_mems_allowed");
    *(void **)&numa->is_set = dlsym(handle, "numa_bitmask_isbitset");
    *(void **)&numa->free_mask = dlsym(handle, "numa_bitmask_free");
    *(void **)&numa->mbind = dlsym(handle, "mbind");
    *(void **)&numa->get_mempolicy = dlsym(handle, "get_mempolicy");
    *(void **)&numa->move_pages = dlsym(handle, "move_pages");
    return numa->available && numa->mems_allowed && numa->is_set && numa->free_mask && numa->mbind &&
           numa->get_mempolicy && numa->move_pages && numa->available() >= 0;
}

static const struct libnuma *library(void)
{
    enum { UNKNOWN, NONE, WRITING, THERE };
    static struct libnuma numa;
    static atomic_int state;
    struct libnuma mine;
    int known = atomic_load_explicit(&state, memory_order_acquire), expected = UNKNOWN;

    if (known == THERE)
        return &numa;
    if (known == NONE)
        return NULL;
    if (!open_library(&mine)) {
        atomic_compare_exchange_strong(&state, &expected, NONE);
        return NULL;
    }
    if (atomic_compare_exchange_strong(&state, &expected, WRITING)) {
        numa = mine;
        atomic_store_explicit(&state, THERE, memory_order_release);
    }
    return atomic_load_explicit(&state, memory_order_acquire) == THERE ? &numa
                                                                       : NULL; /* else the other's turn */
}

bool numa_usable(void)
{
    return library() != NULL;
}

bool numa_has(int node)
{
    const struct libnuma *numa = library();
    struct bitmask *allowed;
    bool has;

    if (!numa || node < 0 || node >= NUMA_NODES)
        return false;
    allowed = numa->mems_allowed();
    if (!allowed)
        return false;
    has = numa->is_set(allowed, (unsigned)node);
    numa->free_mask(allowed);
    return has;
}

bool numa_policy_is_default(void)
{
    const struct libnuma *numa = library();
    int policy;

    return numa && !numa->get_mempolicy(&policy, NULL, 0, NULL, 0) && policy == 0 /* MPOL_DEFAULT */;
}

int numa_place(void *memory, size_t size, int node)
{
    const struct libnuma *numa = library();
    unsigned long mask[NUMA_NODES / WORD_BITS] = {0};

    if (!numa)
        return -ENOSYS;
    if (node < 0 || node >= NUMA_NODES)
        return -EINVAL;
    mask[(unsigned)node / WORD_BITS] = 1UL << (unsigned)node % WORD_BITS;
    return numa->mbind(memory, size, PREFERRED, mask, NUMA_NODES + 1, 0) ? -errno : 0;
}

void numa_where(const void *memory, size_t size, unsigned samples, unsigned pages_on[], unsigned count)
{
    enum { SAMPLES_MAX = 64 };
    const struct libnuma *numa = library();
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = size / page;
    void *at[SAMPLES_MAX];
    int status[SAMPLES_MAX];

    if (samples > SAMPLES_MAX)
        samples = SAMPLES_MAX;
    if (samples > pages)
        samples = (unsigned)pages;
    if (!numa || !samples)
        return;
    for (unsigned i = 0; i < samples; i++)
        at[i] = (char *)(uintptr_t)memory + pages * i / samples * page;
    if (numa->move_pages(0, samples, at, NULL, status, 0))
        return;
    for (unsigned i = 0; i < samples; i++)
        if (status[i] >= 0 && (unsigned)status[i] < count) /* else an error, or not there */
            pages_on[status[i]]++;
}
