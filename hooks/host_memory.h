/*
 * host_memory.h - how much pinned host memory the process may have, and the account of what it has.
 */
#ifndef HBMSPILL_HOOKS_HOST_MEMORY_H
#define HBMSPILL_HOOKS_HOST_MEMORY_H

#include "pinned/budget.h"
#include <stdint.h>

/*
 * Bytes. HBMSPILL_HOST_LIMIT where it is set, no more than is available; else half of what is available: the
 * smaller of MemAvailable (/proc/meminfo) and what the control groups leave (pinned/system.h). Worked out
 * once, the same for the life of the process.
 */
uint64_t host_memory_limit(void);
/* With that limit, which comes down where the system pins less. */
struct budget *host_memory_budget(void);

#endif
