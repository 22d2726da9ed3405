/*
 * ranges.c - what is at an address: a sorted array, found by bisection.
 */
#include "record.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

pthread_rwlock_t range_lock = PTHREAD_RWLOCK_INITIALIZER;

static struct range **sorted;
static size_t count, capacity;
static uint64_t next_id = 1;

/* Index of the first range that ends behind address. */
static size_t lower(uint64_t address)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (sorted[mid]->base + sorted[mid]->size <= address)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static void forget(struct range *range)
{
    uint64_t pieces = pieces_of(range->base, range->size);
    if (range->touches)
        munmap(range->touches, pieces * sizeof(*range->touches));
    if (range->undefined)
        munmap(range->undefined, pieces * sizeof(*range->undefined));
    free(range);
}

/* What host memory remembers of its use. */
static bool remember(struct range *range)
{
    uint64_t pieces = pieces_of(range->base, range->size);
    range->touches = sparse_new(pieces * sizeof(*range->touches));
    range->undefined = sparse_new(pieces * sizeof(*range->undefined));
    return range->touches && range->undefined;
}

struct range *range_add_locked(const struct range *range)
{
    size_t at = lower(range->base);
    if (at < count && sorted[at]->base < range->base + range->size)
        return NULL;
    struct range *copy = malloc(sizeof(*copy));
    if (!copy)
        return NULL;
    *copy = *range;
    if (range_is_host(copy) && !remember(copy)) {
        forget(copy);
        return NULL;
    }
    copy->id = next_id++;
    pthread_rwlock_wrlock(&range_lock);
    if (count == capacity) {
        size_t more = capacity ? capacity * 2 : 256;
        struct range **grown = realloc(sorted, more * sizeof(struct range *));
        if (!grown) {
            pthread_rwlock_unlock(&range_lock);
            forget(copy);
            return NULL;
        }
        sorted = grown;
        capacity = more;
    }
    memmove(sorted + at + 1, sorted + at, (count - at) * sizeof(struct range *));
    sorted[at] = copy;
    count++;
    pthread_rwlock_unlock(&range_lock);
    record_range_new_locked(copy);
    pinned_range_locked(copy, false);
    return copy;
}

void range_remove_locked(struct range *range)
{
    size_t at = lower(range->base);
    pthread_rwlock_wrlock(&range_lock);
    memmove(sorted + at, sorted + at + 1, (count - at - 1) * sizeof(struct range *));
    count--;
    pthread_rwlock_unlock(&range_lock);
    record_range_gone_locked(range);
    pinned_range_locked(range, true);
    forget(range);
}

void ranges_forget_touches_locked(void)
{
    for (size_t i = 0; i < count; i++)
        if (sorted[i]->touches)
            madvise(sorted[i]->touches, pieces_of(sorted[i]->base, sorted[i]->size) * sizeof(uint32_t),
                    MADV_DONTNEED);
}

struct range *range_find_locked(uint64_t address)
{
    size_t at = lower(address);
    return at < count && sorted[at]->base <= address ? sorted[at] : NULL;
}

size_t ranges_live_locked(enum range_kind kind)
{
    size_t live = 0;
    for (size_t i = 0; i < count; i++)
        live += sorted[i]->kind == kind && !sorted[i]->global;
    return live;
}

struct range *range_host_of_locked(CUcontext ctx)
{
    for (size_t i = 0; i < count; i++)
        if (range_is_host(sorted[i]) && sorted[i]->context == ctx)
            return sorted[i];
    return NULL;
}

bool range_covers_locked(uint64_t address, uint64_t size)
{
    uint64_t end = address + size;
    if (end < address)
        return false;
    for (size_t at = lower(address); address < end; at++) {
        if (at >= count || sorted[at]->base > address)
            return false;
        address = sorted[at]->base + sorted[at]->size;
        if (sorted[at]->kind != RANGE_MAPPING) /* neighbours by chance are no one memory */
            return address >= end;
    }
    return true;
}

enum place place_of_locked(uint64_t address, uint64_t size)
{
    struct range *range = range_find_locked(address);
    if (!range)
        return window_has(address) ? PLACE_NOWHERE : PLACE_PAGEABLE;
    if (size && !range_covers_locked(address, size)) {
        /* Partly registered host memory counts as pageable; the end of a device allocation is its end. */
        return range_is_host(range) ? PLACE_PAGEABLE : PLACE_NOWHERE;
    }
    return range_is_host(range) || range_is_host_pages(range) ? PLACE_PINNED : PLACE_DEVICE;
}
