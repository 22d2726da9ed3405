/*
 * numa.h - where memory is put: the node next to the GPU.
 *
 * libnuma is opened when it is first needed (its constructor would read /proc in every process the library is
 * preloaded into). Where it is not installed, or the kernel has no NUMA or does not let this process ask for
 * a node (a container's filter), memory goes where the system puts it.
 *
 * Threads: any. No lock is held while libnuma is opened.
 */
#ifndef HBMSPILL_PINNED_NUMA_H
#define HBMSPILL_PINNED_NUMA_H

#include <stdbool.h>
#include <stddef.h>

/* Nodes are numbered up to this. */
enum { NUMA_NODES = 1024 };

/* libnuma and the kernel work together. */
bool numa_usable(void);
/* Whether memory can be put on a node: it is there, has memory, and this process may use it. */
bool numa_has(int node);

/* The process was not given a placement of its own (numactl, set_mempolicy). */
bool numa_policy_is_default(void);

/*
 * Asks for a node for pages not touched yet. A wish: where the node is full the system takes another. 0 or
 * -errno.
 */
int numa_place(void *memory, size_t size, int node);

/*
 * Where touched memory is: looks at `samples' pages, spread evenly, and counts those on each of the first
 * `count' nodes. Without NUMA nothing is counted.
 */
void numa_where(const void *memory, size_t size, unsigned samples, unsigned pages_on[], unsigned count);

#endif
