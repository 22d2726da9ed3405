/*
 * touches.h - the addresses an operation names, gathered without allocation in the usual case.
 */
#ifndef HBMSPILL_HOOKS_TOUCHES_H
#define HBMSPILL_HOOKS_TOUCHES_H

#include "hooks/gpu.h"
#include <stdlib.h>
#include <string.h>

enum { TOUCHES_INLINE = 48 };

struct touches {
    struct gpu *gpu; /* whose memory; one operation is taken to touch one device's managed memory */
    bool mixed;      /* it touches another's as well */
    bool failed;     /* out of memory while gathering */
    bool beyond;     /* a range leaves the allocation it starts in */
    uint64_t kind;   /* of the operation, as struct cache_planned_op's */
    unsigned count, capacity;
    struct cache_touch *touch, inline_touch[TOUCHES_INLINE];
};

static inline void touches_init(struct touches *touches)
{
    touches->gpu = NULL;
    touches->kind = 0;
    touches->mixed = touches->failed = touches->beyond = false;
    touches->count = 0;
    touches->capacity = TOUCHES_INLINE;
    touches->touch = touches->inline_touch;
}

static inline void touches_fini(struct touches *touches)
{
    if (touches->touch != touches->inline_touch)
        free(touches->touch);
}

/* Notes the address if it may be ours; a foreign one costs a comparison or two. */
static inline void touches_add(struct touches *touches, uint64_t address, unsigned access)
{
    struct gpu *gpu = touches->gpu;

    if (!gpu || !cache_maybe_ours(gpu->cache, address)) {
        gpu = gpu_of_address(address);
        if (!gpu)
            return;
        if (touches->gpu)
            touches->mixed = true;
        else
            touches->gpu = gpu;
    }
    if (touches->count == touches->capacity) {
        unsigned capacity = 4 * touches->capacity;
        struct cache_touch *touch = (struct cache_touch *)malloc(capacity * sizeof *touch);

        if (!touch) {
            touches->failed = true;
            return;
        }
        memcpy(touch, touches->touch, touches->count * sizeof *touch);
        touches_fini(touches);
        touches->touch = touch;
        touches->capacity = capacity;
    }
    touches->touch[touches->count++] = (struct cache_touch){.address = address, .access = access};
}

/*
 * Whether a range that starts in memory of ours stays in one allocation; true for any other memory. The
 * driver refuses what leaves an allocation; ours it cannot see the ends of, and what is behind them may be
 * anybody's.
 */
static inline bool touches_within(uint64_t address, uint64_t size)
{
    struct gpu *gpu = gpu_of_address(address);
    uint64_t base, found;

    return !gpu || !size ||
           (cache_find(gpu->cache, address, &base, &found) && size <= found &&
            address - base <= found - size);
}

/* As touches_add for so many bytes. */
static inline void touches_add_range(struct touches *touches, uint64_t address, uint64_t size,
                                     unsigned access)
{
    touches_add(touches, address, access);
    if (!touches_within(address, size))
        touches->beyond = true;
}

#endif
