#include "cache/slot.h"
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

void slots_init(struct slots *slots, const struct device_ops *ops, struct statistics *statistics,
                uint64_t unit, uint64_t limit)
{
    *slots = (struct slots){.ops = ops, .statistics = statistics, .unit = unit, .limit = limit};
}

bool slots_linkable(const struct slots *slots)
{
    return slots->ops->host_create && !__atomic_load_n(&slots->unlinkable, __ATOMIC_RELAXED);
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

/* The limit, or less where others have a part of it. */
static uint64_t limit_now(const struct slots *slots)
{
    uint64_t limit = slots->limit, room;

    if (!slots->ops->host_room)
        return limit;
    room = slots->ops->host_room(slots->ops->ctx);
    return limit > slots->held && limit - slots->held > room ? slots->held + room : limit;
}

int slots_reserve(struct slots *slots, struct streams *streams, uint64_t size, struct slot **evicted,
                  uint64_t *wait)
{
    uint64_t limit = limit_now(slots), idle_bytes = 0;
    struct slot *slot, *next;

    *evicted = NULL;
    if (slots->used + size > limit)
        return -ENOSPC;
    if (slots->held + size > limit) {
        /* Pooled slots of other sizes stand in the way; all that must go must be idle before any goes. */
        LL_FOREACH(slots->free, slot)
        {
            struct edges all = slot_edges(slot);
            int error;

            if (!streams_completed(streams, &all, wait, &error))
                return error ? error : -EBUSY;
            idle_bytes += slot->size;
            if (slots->held - idle_bytes + size <= limit)
                break;
        }
        if (slots->held - idle_bytes + size > limit)
            return -ENOSPC;
        for (slot = slots->free; slot && slots->held + size > limit; slot = next) {
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
    free(slot->handles);
    free(slot->sums);
    free(slot);
}

static int memory_give(const struct slots *slots, const struct slot *slot)
{
    const struct device_ops *ops = slots->ops;

    return slot->handles ? ops->host_destroy(ops->ctx, slot->memory, slot->size, slots->unit, slot->handles)
                         : ops->host_free(ops->ctx, slot->memory);
}

static int memory_take(struct slots *slots, struct slot *slot)
{
    const struct device_ops *ops = slots->ops;
    int error;

    if (slots_linkable(slots)) {
        slot->handles = malloc(slot->size / slots->unit * sizeof *slot->handles);
        if (!slot->handles)
            return -ENOMEM;
        error = ops->host_create(ops->ctx, slot->size, slots->unit, &slot->memory, slot->handles);
        if (error != -ENOTSUP)
            return error;
        __atomic_store_n(&slots->unlinkable, true, __ATOMIC_RELAXED);
        free(slot->handles);
        slot->handles = NULL;
    }
    return ops->host_alloc(ops->ctx, slot->size, &slot->memory);
}

struct slot *slots_discard(struct slots *slots, struct slot *list)
{
    struct slot *slot, *next, *refused = NULL;

    for (slot = list; slot; slot = next) {
        next = slot->next;
        if (memory_give(slots, slot))
            LL_PREPEND(refused, slot);
        else
            slot_free(slot);
    }
    return refused;
}

struct slot *slots_idle(struct slots *slots, struct streams *streams)
{
    struct slot *slot, *next, *idle = NULL;

    LL_FOREACH_SAFE(slots->free, slot, next)
    {
        struct edges all = slot_edges(slot);
        uint64_t wait;
        int error;

        if (!streams_completed(streams, &all, &wait, &error))
            continue;
        LL_DELETE(slots->free, slot);
        slots->held -= slot->size;
        LL_PREPEND(idle, slot);
    }
    return idle;
}

int slots_make(struct slots *slots, uint64_t size, struct slot **evicted, struct slot **out)
{
    struct slot *slot;
    int error;

    *evicted = slots_discard(slots, *evicted);
    if (*evicted) /* with a new one the limit would be exceeded */
        return -EIO;
    slot = calloc(1, sizeof *slot);
    if (!slot)
        return -ENOMEM;
    slot->size = size;
    error = memory_take(slots, slot);
    if (error) {
        slot_free(slot);
        return error;
    }
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
        memory_give(slots, slot);
        slots->held -= slot->size;
        slot_free(slot);
    }
    slots->free = NULL;
}
