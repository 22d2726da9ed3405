/*
 * ranges.h - what lies at an address: a sorted array of ranges that do not overlap.
 *
 * A range is the first member of what the owner keeps of it; the array has pointers to them and nothing else
 * is its own. Threads: the caller's lock. Sizes are bytes.
 */
#ifndef HBMSPILL_PINNED_RANGES_H
#define HBMSPILL_PINNED_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct range {
    char *base;
    size_t size;
};

/* All zero: empty. */
struct ranges {
    struct range **at; /* by address */
    size_t count, capacity;
};

/* Room for one more than there are; false: no memory. */
bool ranges_reserve(struct ranges *ranges);
/* After ranges_reserve. */
void ranges_insert(struct ranges *ranges, struct range *range);
void ranges_remove(struct ranges *ranges, const struct range *range);
/* The one that an address lies in, or NULL. */
struct range *ranges_find(const struct ranges *ranges, uintptr_t address);

#endif
