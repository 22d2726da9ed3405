/*
 * extent.h - a range of pinned host memory, made and given back as a whole: reserved, placed on the GPU's
 * NUMA node before its first touch, on huge pages where the system gives them, touched by several threads,
 * then pinned.
 *
 * Sizes are bytes, whole pages. Threads: any. Errors: 0 or -errno; a failure leaves nothing behind.
 */
#ifndef HBMSPILL_PINNED_EXTENT_H
#define HBMSPILL_PINNED_EXTENT_H

#include "pinned/budget.h"
#include <pthread.h>
#include <stddef.h>

/*
 * Who pins. pin: 0, -ENOMEM where the system pins no more, -ENOTSUP where memory cannot be pinned this way at
 * all, another error otherwise. refused (may be NULL): with so many bytes pinned the system did not pin
 * `size' more, although the limit would have allowed it.
 */
struct pin_ops {
    void *ctx;
    int (*pin)(void *ctx, void *memory, uint64_t size);
    int (*unpin)(void *ctx, void *memory);
    void (*refused)(void *ctx, uint64_t pinned, uint64_t size);
};

struct extent_source {
    const struct pin_ops *ops;
    struct budget *budget;
    int node;                       /* NUMA node, -1: wherever the system likes */
    unsigned threads;               /* for the first touch; 0: as many as the size is worth */
    pthread_mutex_t lock;           /* guards what is below; a leaf */
    uint64_t registrations, pinned; /* ranges now pinned, and their bytes in the budget */
    bool lost;                      /* whoever pinned has unpinned all of it, and pins no more */
};

size_t extent_page(void);
size_t extent_round(size_t size);

/* Address space, placed but not touched; NULL where there is none. Aligned to huge pages from their size on.
 */
void *extent_reserve(const struct extent_source *source, size_t size);
void extent_unreserve(void *memory, size_t size);
/*
 * Memory for a reserved range, pinned. -ENOSPC: the budget does not allow it. -ENOMEM: the system does not,
 * and the budget's limit has come down below what that would have made it.
 */
int extent_pin(struct extent_source *source, void *memory, size_t size);
/* Unpinned, and the memory given back; the address space stays. An error: it is pinned as before. */
int extent_unpin(struct extent_source *source, void *memory, size_t size);
/*
 * All that was pinned is so no more, without being asked to: it leaves the budget, and pin_ops are not called
 * again. Returns how many ranges that were.
 */
uint64_t extent_forget(struct extent_source *source);
/* Ranges now pinned, and their bytes. */
void extent_usage(struct extent_source *source, uint64_t *registrations, uint64_t *pinned);

#endif
