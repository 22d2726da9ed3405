#include "cache/event_pool.h"
#include <stdlib.h>

int event_pool_take(struct event_pool *pool, uint64_t *event)
{
    if (pool->count) {
        *event = pool->events[--pool->count];
        return 0;
    }
    return (pool->timers ? pool->ops->timer_create : pool->ops->event_create)(pool->ops->ctx, event);
}

void event_pool_give(struct event_pool *pool, uint64_t event)
{
    if (pool->count == pool->capacity) {
        size_t capacity = pool->capacity ? 2 * pool->capacity : 64;
        uint64_t *events = realloc(pool->events, capacity * sizeof *events);

        if (!events) {
            (void)pool->ops->event_destroy(pool->ops->ctx, event);
            return;
        }
        pool->events = events;
        pool->capacity = capacity;
    }
    pool->events[pool->count++] = event;
}

void event_pool_fini(struct event_pool *pool)
{
    while (pool->count)
        (void)pool->ops->event_destroy(pool->ops->ctx, pool->events[--pool->count]);
    free(pool->events);
    pool->events = NULL;
    pool->capacity = 0;
}
