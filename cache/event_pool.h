/*
 * event_pool.h - events that are not in use, kept for the next need.
 *
 * Called with the cache's lock held.
 */
#ifndef HBMSPILL_CACHE_EVENT_POOL_H
#define HBMSPILL_CACHE_EVENT_POOL_H

#include "cache/device_ops.h"
#include <stdbool.h>
#include <stddef.h>

struct event_pool {
    const struct device_ops *ops;
    bool timers; /* events that take the time */
    uint64_t *events;
    size_t count, capacity;
};

/* 0, or an error of the device. */
int event_pool_take(struct event_pool *pool, uint64_t *event);
/* Destroyed where there is no memory to keep it. */
void event_pool_give(struct event_pool *pool, uint64_t event);
/* Destroys those that were given back. */
void event_pool_fini(struct event_pool *pool);

#endif
