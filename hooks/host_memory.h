/*
 * host_memory.h - how much pinned host memory the shim may use.
 */
#ifndef HBMSPILL_HOOKS_HOST_MEMORY_H
#define HBMSPILL_HOOKS_HOST_MEMORY_H

#include <stdint.h>

/*
 * Bytes. HBMSPILL_HOST_LIMIT where it is set, no more than is available; else half of what is available: the
 * smaller of MemAvailable (/proc/meminfo) and what the cgroup leaves (v2 memory.max, v1
 * memory.limit_in_bytes). Worked out once, the same for the life of the process.
 */
uint64_t host_memory_limit(void);

#endif
