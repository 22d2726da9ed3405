/*
 * system.h - what the machine says of its memory: /proc and /sys, as text.
 *
 * `root' stands before every path: "" for the machine's own files; tests give a directory with others. Sizes
 * are bytes. Threads: any. No state.
 */
#ifndef HBMSPILL_PINNED_SYSTEM_H
#define HBMSPILL_PINNED_SYSTEM_H

#include <stdbool.h>
#include <stdint.h>

struct system_memory {
    uint64_t available; /* MemAvailable of /proc/meminfo; 0 where it cannot be read */
    /*
     * What the control groups leave: the least, over the process's own group and those above it, of the limit
     * less what is used and cannot simply be dropped (inactive file pages can). UINT64_MAX: no limit.
     */
    uint64_t cgroup;
    uint64_t memlock;  /* RLIMIT_MEMLOCK; UINT64_MAX: none */
    char trouble[256]; /* a limit that is there and cannot be read: its file; else "" */
};

void system_memory_read(const char *root, struct system_memory *out);

/*
 * Per cent of the last ten seconds in which some task stood still for lack of memory, the worse of the
 * machine and of the process's own control group ("some avg10" of PSI); negative where the kernel does not
 * say.
 */
double system_pressure(const char *root);

/* The NUMA node of a PCI device ("0000:01:00.0", letters in either case); -1: unknown, or no NUMA. */
int system_device_node(const char *root, const char *pci);
/* Whether a node is in /sys/devices/system/node/NAME, a list as "0-3,8"; "online", "has_memory". */
bool system_node_listed(const char *root, const char *name, int node);

#endif
