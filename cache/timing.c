#include "cache/timing.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void timing_init(struct timing *timing, const struct device_ops *ops)
{
    memset(timing, 0, sizeof *timing);
    timing->ops = ops;
    timing->pool = (struct event_pool){.ops = ops, .timers = true};
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
    event_pool_fini(&timing->pool);
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
    if (!timing->timed || event_pool_take(&timing->pool, &timed.start))
        return false;
    if (event_pool_take(&timing->pool, &timed.end)) {
        event_pool_give(&timing->pool, timed.start);
        return false;
    }
    if (timing->ops->event_record(timing->ops->ctx, timed.start, stream)) {
        event_pool_give(&timing->pool, timed.start);
        event_pool_give(&timing->pool, timed.end);
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
    event_pool_give(&timing->pool, timed->start);
    event_pool_give(&timing->pool, timed->end);
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
        event_pool_give(&timing->pool, timed->start);
        event_pool_give(&timing->pool, timed->end);
        timing->first = (timing->first + 1) % TIMING_MOST;
        timing->count--;
    }
}
