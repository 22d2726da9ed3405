#include "cache/timing.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void timing_init(struct timing *timing, const struct device_ops *ops)
{
    memset(timing, 0, sizeof *timing);
    timing->ops = ops;
}

static bool event_take(struct timing *timing, uint64_t *event)
{
    if (timing->pool_count) {
        *event = timing->pool[--timing->pool_count];
        return true;
    }
    return timing->ops->timer_create(timing->ops->ctx, event) == 0;
}

static void event_give(struct timing *timing, uint64_t event)
{
    if (timing->pool_count == timing->pool_capacity) {
        uint32_t capacity = timing->pool_capacity ? 2 * timing->pool_capacity : 256;
        uint64_t *pool = realloc(timing->pool, capacity * sizeof *pool);

        if (!pool) {
            (void)timing->ops->event_destroy(timing->ops->ctx, event);
            return;
        }
        timing->pool = pool;
        timing->pool_capacity = capacity;
    }
    timing->pool[timing->pool_count++] = event;
}

static struct timed *timed_at(const struct timing *timing, uint32_t index)
{
    return &timing->timed[(timing->first + index) % TIMING_MOST];
}

void timing_end(struct timing *timing)
{
    for (uint32_t i = 0; i < timing->count; i++) {
        (void)timing->ops->event_destroy(timing->ops->ctx, timed_at(timing, i)->start);
        (void)timing->ops->event_destroy(timing->ops->ctx, timed_at(timing, i)->end);
    }
    while (timing->pool_count)
        (void)timing->ops->event_destroy(timing->ops->ctx, timing->pool[--timing->pool_count]);
    free(timing->pool);
    free(timing->timed);
    timing_init(timing, timing->ops);
}

bool timing_before(struct timing *timing, uint64_t stream)
{
    struct timed timed = {.position = timing->position};
    bool on = timing->on;

    timing->on = false;
    if (!on || timing->open || timing->count == TIMING_MOST)
        return false;
    if (!timing->timed)
        timing->timed = malloc(TIMING_MOST * sizeof *timing->timed);
    if (!timing->timed || !event_take(timing, &timed.start))
        return false;
    if (!event_take(timing, &timed.end)) {
        event_give(timing, timed.start);
        return false;
    }
    if (timing->ops->event_record(timing->ops->ctx, timed.start, stream)) {
        event_give(timing, timed.start);
        event_give(timing, timed.end);
        return false;
    }
    timing->open = true;
    *timed_at(timing, timing->count++) = timed;
    return true;
}

void timing_after(struct timing *timing, uint64_t stream, bool submitted)
{
    struct timed *timed;

    timing->open = false;
    timed = timed_at(timing, timing->count - 1);
    if (submitted && timing->ops->event_record(timing->ops->ctx, timed->end, stream) == 0) {
        timed->ended = true;
        return;
    }
    timing->count--;
    event_give(timing, timed->start);
    event_give(timing, timed->end);
}

void timing_collect(struct timing *timing, struct history *history)
{
    while (timing->count) {
        struct timed *timed = timed_at(timing, 0);
        struct history_op *op = history_at(history, timed->position);
        double duration;
        int error;

        if (!timed->ended)
            return;
        error = timing->ops->elapsed(timing->ops->ctx, timed->start, timed->end, &duration);
        if (error == -EBUSY)
            return;
        if (!error && op && duration >= 0)
            op->duration = (float)duration;
        event_give(timing, timed->start);
        event_give(timing, timed->end);
        timing->first = (timing->first + 1) % TIMING_MOST;
        timing->count--;
    }
}
