#include "pinned/ranges.h"
#include <stdlib.h>
#include <string.h>

/* The index of the first that ends behind an address. */
static size_t lower(const struct ranges *ranges, uintptr_t address)
{
    size_t low = 0, high = ranges->count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if ((uintptr_t)ranges->at[mid]->base + ranges->at[mid]->size <= address)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

bool ranges_reserve(struct ranges *ranges)
{
    size_t more = ranges->capacity ? ranges->capacity * 2 : 16;
    struct range **grown;

    if (ranges->count < ranges->capacity)
        return true;
    grown = realloc(ranges->at, more * sizeof(struct range *));
    if (!grown)
        return false;
    ranges->at = grown;
    ranges->capacity = more;
    return true;
}

void ranges_insert(struct ranges *ranges, struct range *range)
{
    size_t at = lower(ranges, (uintptr_t)range->base);

    memmove(&ranges->at[at + 1], &ranges->at[at], (ranges->count - at) * sizeof(struct range *));
    ranges->at[at] = range;
    ranges->count++;
}

void ranges_remove(struct ranges *ranges, const struct range *range)
{
    size_t at = lower(ranges, (uintptr_t)range->base);

    ranges->count--;
    memmove(&ranges->at[at], &ranges->at[at + 1], (ranges->count - at) * sizeof(struct range *));
}

struct range *ranges_find(const struct ranges *ranges, uintptr_t address)
{
    size_t at = lower(ranges, address);

    return at < ranges->count && (uintptr_t)ranges->at[at]->base <= address ? ranges->at[at] : NULL;
}
