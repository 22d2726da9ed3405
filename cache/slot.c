#include "cache/slot.h"
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

void slots_init(struct slots *slots, const struct device_ops *ops, struct statistics *statistics,
                uint64_t limit)
{
    *slots = (struct slots){.ops = ops, .statistics = statistics, .limit = limit};
}

struct slot *slots_take(struct slots *slots, uint64_t size)
{
    for (struct slot *slot = slots->free; slot; slot = slot->next) {
        if (slot->size == size) {
            LL_DELETE(slots->free, slot);
            slots->used += size;
            return slot;
        }
    }
    return NULL;
}

void slots_give(struct slots *slots, struct slot *slot)
{
    slots->used -= slot->size;
    verify_forget(slot);
    LL_PREPEND(slots->free, slot);
}

int slots_reserve(struct slots *slots, struct streams *streams, uint64_t size, struct slot **evicted,
                  uint64_t *wait)
{
    uint64_t idle_bytes = 0;
    struct slot *slot, *next;

    *evicted = NULL;
    if (slots->used + size > slots->limit)
        return -ENOSPC;
    if (slots->held + size > slots->limit) {
        /* Pooled slots of other sizes stand in the way; all that must go must be idle before any goes. */
        LL_FOREACH(slots->free, slot)
        {
            struct edges all = slot->written;
            int error;

            edges_merge(&all, &slot->read);
            if (!streams_completed(streams, &all, wait, &error))
                return error ? error : -EBUSY;
            idle_bytes += slot->size;
            if (slots->held - idle_bytes + size <= slots->limit)
                break;
        }
        if (slots->held - idle_bytes + size > slots->limit)
            return -ENOSPC;
        for (slot = slots->free; slot && slots->held + size > slots->limit; slot = next) {
            next = slot->next;
            LL_DELETE(slots->free, slot);
            slots->held -= slot->size;
            LL_PREPEND(*evicted, slot);
        }
    }
    slots->held += size;
    slots->used += size;
    statistics_peak(&slots->statistics->peak_host_bytes, slots->held);
    return 0;
}

static void slot_free(struct slot *slot)
{
    free(slot->sums);
    free(slot);
}

int slots_make(struct slots *slots, uint64_t size, struct slot **evicted, struct slot **out)
{
    struct slot *slot, *next, *refused = NULL;
    int error = 0, failed;

    for (slot = *evicted; slot; slot = next) {
        next = slot->next;
        failed = slots->ops->host_free(slots->ops->ctx, slot->memory);
        if (failed) {
            error = failed;
            LL_PREPEND(refused, slot);
        } else {
            slot_free(slot);
        }
    }
    *evicted = refused;
    if (error) /* with a new one the limit would be exceeded */
        return error;
    slot = calloc(1, sizeof *slot);
    if (!slot)
        return -ENOMEM;
    error = slots->ops->host_alloc(slots->ops->ctx, size, &slot->memory);
    if (error) {
        free(slot);
        return error;
    }
    slot->size = size;
    *out = slot;
    return 0;
}

void slots_unreserve(struct slots *slots, uint64_t size, struct slot *refused)
{
    struct slot *slot, *next;

    slots->held -= size;
    slots->used -= size;
    for (slot = refused; slot; slot = next) {
        next = slot->next;
        slots->held += slot->size;
        LL_PREPEND(slots->free, slot);
    }
}

void slots_destroy(struct slots *slots)
{
    struct slot *slot, *next;

    for (slot = slots->free; slot; slot = next) {
        next = slot->next;
        slots->ops->host_free(slots->ops->ctx, slot->memory);
        slots->held -= slot->size;
        slot_free(slot);
    }
    slots->free = NULL;
}
