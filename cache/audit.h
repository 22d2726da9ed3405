/*
 * audit.h - what a cache holds, found by looking for it, and whether its records agree with each other.
 *
 * The implementation of device_ops counts what it was given and gave back (hooks/device_cuda.c); what is not
 * found here has been lost: nobody can use it or give it back any more. Exact while no operation is under
 * way; `unended' tells whether one is.
 */
#ifndef HBMSPILL_CACHE_AUDIT_H
#define HBMSPILL_CACHE_AUDIT_H

#include "cache/cache.h"

/* Things of the driver's that are held, by kind; the last two by the pools behind the slots (hooks/pinned.h).
 */
#define CACHE_HELD(X)                                                                                        \
    X(frames)                                                                                                \
    X(host_handles)                                                                                          \
    X(mappings)                                                                                              \
    X(reservations)                                                                                          \
    X(slots)                                                                                                 \
    X(registrations)                                                                                         \
    X(host_allocations)                                                                                      \
    X(streams)                                                                                               \
    X(events)

struct cache_held {
#define CACHE_HELD_FIELD(kind) uint64_t kind;
    CACHE_HELD(CACHE_HELD_FIELD)
#undef CACHE_HELD_FIELD
};

struct cache_audit {
    struct cache_held held;
    uint64_t allocations;   /* that the job has not given back */
    uint64_t frames_in_use; /* with contents */
    uint64_t frame_bytes;   /* of held.frames */
    uint64_t slots_in_use;  /* of a segment */
    uint64_t unended;       /* operations, pins and loans begun and not ended */
    uint64_t wrong;         /* records that do not agree; the first of them: */
    const char *first_wrong;
};

void cache_audit(struct cache *cache, struct cache_audit *audit);

/* For the cache's own files: what a slot is made of, in pieces of `unit' bytes. */
struct slot;
void audit_slot(struct cache_audit *audit, const struct slot *slot, uint64_t unit);

#endif
