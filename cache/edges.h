/*
 * edges.h - what an operation must come after: for each stream, the last sequence number that matters.
 *
 * A stream's operations are numbered from 1 in the order they were submitted; "after (stream, n)" means after
 * operation n of that stream and, streams being in order, all before it. Plain data, no locks, no allocation.
 */
#ifndef HBMSPILL_CACHE_EDGES_H
#define HBMSPILL_CACHE_EDGES_H

#include <stdbool.h>
#include <stdint.h>

#define EDGES_STREAMS 32 /* streams that are known at once; two are the shim's own */

struct edges {
    uint32_t mask; /* bit s: seq[s] counts */
    uint64_t seq[EDGES_STREAMS];
};

static inline void edges_clear(struct edges *edges)
{
    edges->mask = 0;
}

static inline bool edges_empty(const struct edges *edges)
{
    return edges->mask == 0;
}

static inline void edges_add(struct edges *edges, unsigned stream, uint64_t seq)
{
    uint32_t bit = UINT32_C(1) << stream;

    if (seq == 0)
        return;
    if (!(edges->mask & bit) || edges->seq[stream] < seq)
        edges->seq[stream] = seq;
    edges->mask |= bit;
}

/* Those of the streams in the mask. */
static inline void edges_merge_of(struct edges *into, const struct edges *from, uint32_t streams)
{
    for (uint32_t rest = from->mask & streams; rest; rest &= rest - 1) {
        unsigned stream = (unsigned)__builtin_ctz(rest);
        edges_add(into, stream, from->seq[stream]);
    }
}

static inline void edges_merge(struct edges *into, const struct edges *from)
{
    edges_merge_of(into, from, UINT32_MAX);
}

#endif
