/*
 * ranges.h - what hbmspill does, as ranges of NVTX (v3, header only) in a domain of our own, for a profiler
 * that is attached: NVTX_INJECTION64_PATH names its library, which profilers set. Else nothing of NVTX is
 * called.
 *
 * Ranges are of the host: evictions and bring-backs while they are queued, with their bytes; windows while
 * they are submitted, with their operations.
 *
 * Threads: any; a range begins and ends in one.
 */
#ifndef HBMSPILL_HOOKS_RANGES_H
#define HBMSPILL_HOOKS_RANGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum range { RANGE_EVICT, RANGE_BRING_BACK, RANGE_WINDOW, RANGE_KINDS };

extern atomic_bool ranges_on;

#define RANGES(call)                                                                                         \
    do {                                                                                                     \
        if (atomic_load_explicit(&ranges_on, memory_order_relaxed))                                          \
            call;                                                                                            \
    } while (0)

/* Looks for a profiler, the first time. Calls the dynamic linker: no lock may be held. */
void ranges_attach(void);
void ranges_push(enum range range, uint64_t amount);
void ranges_pop(void);

#endif
