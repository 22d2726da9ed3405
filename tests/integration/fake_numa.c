/*
 * fake_numa.c - a libnuma.so.1 of a machine with several nodes, as far as it is asked about. FAKE_NUMA_MEMORY
 * is a mask of the nodes that have memory for the process, FAKE_NUMA_POLICY the policy that it was started
 * with. Where pages are asked for is remembered, and told of them.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))
#define PREFERRED 1

struct bitmask {
    unsigned long mask;
};
static struct placed {
    uintptr_t at, end;
    int node;
} placed[1024];
static unsigned count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

EXPORT int numa_available(void);
EXPORT struct bitmask *numa_get_mems_allowed(void);
EXPORT int numa_bitmask_isbitset(const struct bitmask *mask, unsigned node);
EXPORT void numa_bitmask_free(struct bitmask *mask);
EXPORT long mbind(void *memory, unsigned long size, int mode, const unsigned long *mask, unsigned long nodes,
                  unsigned flags);
EXPORT long get_mempolicy(int *policy, unsigned long *mask, unsigned long nodes, void *at, unsigned flags);
EXPORT long move_pages(int process, unsigned long pages, void **at, const int *nodes, int *status, int flags);

static unsigned long number(const char *name, unsigned long otherwise)
{
    const char *text = getenv(name);

    return text ? strtoul(text, NULL, 10) : otherwise;
}

int numa_available(void)
{
    return 0;
}

struct bitmask *numa_get_mems_allowed(void)
{
    struct bitmask *mask = malloc(sizeof *mask);

    if (mask)
        mask->mask = number("FAKE_NUMA_MEMORY", 3);
    return mask;
}

int numa_bitmask_isbitset(const struct bitmask *mask, unsigned node)
{
    return node < 8 * sizeof mask->mask && (mask->mask >> node & 1);
}

void numa_bitmask_free(struct bitmask *mask)
{
    free(mask);
}

/* "EINVAL: .. nodemask specifies one or more node IDs that are not allowed" (mbind(2)) */
long mbind(void *memory, unsigned long size, int mode, const unsigned long *mask, unsigned long nodes,
           unsigned flags)
{
    (void)nodes;
    if (mode != PREFERRED || flags || !(*mask & number("FAKE_NUMA_MEMORY", 3))) {
        errno = EINVAL;
        return -1;
    }
    pthread_mutex_lock(&lock);
    if (count < sizeof placed / sizeof *placed)
        placed[count++] = (struct placed){(uintptr_t)memory, (uintptr_t)memory + size, __builtin_ctzl(*mask)};
    pthread_mutex_unlock(&lock);
    return 0;
}

long get_mempolicy(int *policy, unsigned long *mask, unsigned long nodes, void *at, unsigned flags)
{
    (void)mask, (void)nodes, (void)at, (void)flags;
    *policy = (int)number("FAKE_NUMA_POLICY", 0);
    return 0;
}

/* What was placed last counts; the rest is on node 0. */
long move_pages(int process, unsigned long pages, void **at, const int *nodes, int *status, int flags)
{
    (void)process, (void)nodes, (void)flags;
    pthread_mutex_lock(&lock);
    for (unsigned long i = 0; i < pages; i++) {
        status[i] = 0;
        for (unsigned p = 0; p < count; p++)
            if ((uintptr_t)at[i] >= placed[p].at && (uintptr_t)at[i] < placed[p].end)
                status[i] = placed[p].node;
    }
    pthread_mutex_unlock(&lock);
    return 0;
}
