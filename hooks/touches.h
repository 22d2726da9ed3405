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
    unsigned count, capacity;
    struct cache_touch *touch, inline_touch[TOUCHES_INLINE];
};

static inline void touches_init(struct touches *touches)
{
    touches->gpu = NULL;
    touches->mixed = touches->failed = false;
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

#endif
