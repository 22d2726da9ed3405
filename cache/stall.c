#include "cache/stall.h"
#include "cache/cache.h"
#include <errno.h>

enum {
    TIME_ALL = 256, /* waits that are timed one and all */
    POLLS = 4,      /* samples looked at by one wait */
};

/* Two events one behind the other are a microsecond or two apart already; less than this is no stall. */
static const double noticed = 5000;

void stall_init(struct stall *stall, const struct device_ops *ops, const struct cache_observer *observer,
                struct statistics *statistics)
{
    *stall =
        (struct stall){.ops = ops, .observer = observer, .statistics = statistics, .next = 1, .random = 1};
}

void stall_fini(struct stall *stall)
{
    for (unsigned i = 0; i < STALL_SAMPLES; i++) {
        struct stall_sample *sample = &stall->ring[i];

        if (sample->before)
            stall->ops->event_destroy(stall->ops->ctx, sample->before);
        if (sample->after)
            stall->ops->event_destroy(stall->ops->ctx, sample->after);
        sample->before = sample->after = 0;
    }
    stall->count = 0;
}

/* What went on between two waits in one stream, with no other wait in between. */
static void between(struct stall *stall, const struct stall_sample *last, const struct stall_sample *next)
{
    double time;

    if (last->stream != next->stream || last->wait + 1 != next->wait ||
        stall->ops->elapsed(stall->ops->ctx, last->after, next->before, &time) || !(time >= 0 && time < 1e18))
        return;
    stall->statistics->between_nanoseconds += (uint64_t)time;
    stall->statistics->between_operations += next->tick - last->tick;
}

/* Takes in what has happened. A sample that cannot be read is dropped. */
static void poll(struct stall *stall)
{
    for (unsigned i = 0; stall->count && i < POLLS; i++) {
        const struct stall_sample *oldest = &stall->ring[stall->first];
        double time;
        int error = stall->ops->elapsed(stall->ops->ctx, oldest->before, oldest->after, &time);

        if (error == -EBUSY)
            return;
        if (stall->last && !error)
            between(stall, &stall->ring[(stall->first + STALL_SAMPLES - 1) % STALL_SAMPLES], oldest);
        stall->last = !error;
        stall->first = (stall->first + 1) % STALL_SAMPLES;
        stall->count--;
        if (error)
            continue;
        stall->statistics->waits_timed++;
        stall->statistics->timed_bytes += oldest->bytes;
        if (time >= noticed && time < 1e18) {
            stall->statistics->stalled_nanoseconds += (uint64_t)time;
            stall->statistics->late_bytes += oldest->bytes;
            if (stall->observer && stall->observer->stalled)
                stall->observer->stalled(stall->observer->ctx, oldest->stream, oldest->before, time,
                                         oldest->bytes);
        }
    }
}

/* All at first; then two, and none of the next five to eight, so that no rhythm of the job is in step with
 * it.
 */
static bool due(struct stall *stall, uint64_t wait)
{
    if (wait < stall->next)
        return false;
    stall->next = wait + 1;
    if (wait >= TIME_ALL && (stall->second = !stall->second)) {
        stall->random = stall->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        stall->next += 5 + (stall->random >> 62);
    }
    return true;
}

static bool make(struct stall *stall, uint64_t *timer)
{
    uint64_t made;

    if (*timer)
        return true;
    if (stall->ops->timer_create(stall->ops->ctx, &made))
        return false;
    *timer = made;
    return true;
}

static struct stall_sample *newest(struct stall *stall)
{
    return &stall->ring[(stall->first + stall->count) % STALL_SAMPLES];
}

bool stall_begin(struct stall *stall, uint64_t stream, uint64_t bytes, uint64_t tick)
{
    struct stall_sample *sample;

    stall->statistics->copies_waited_for++;
    stall->statistics->waited_bytes += bytes;
    if (!due(stall, stall->statistics->copies_waited_for))
        return false;
    poll(stall);
    if (stall->count == STALL_SAMPLES - 1) /* the one before the first is still needed (between) */
        return false;
    sample = newest(stall);
    if (!make(stall, &sample->before) || !make(stall, &sample->after) ||
        stall->ops->event_record(stall->ops->ctx, sample->before, stream))
        return false;
    sample->stream = stream;
    sample->wait = stall->statistics->copies_waited_for;
    sample->bytes = bytes;
    sample->tick = tick;
    return true;
}

void stall_end(struct stall *stall, uint64_t stream)
{
    if (!stall->ops->event_record(stall->ops->ctx, newest(stall)->after, stream))
        stall->count++;
}

double stall_nanoseconds(const struct statistics *statistics)
{
    if (!statistics->waits_timed)
        return 0;
    return (double)statistics->stalled_nanoseconds * (double)statistics->copies_waited_for /
           (double)statistics->waits_timed;
}

double stall_bytes(const struct statistics *statistics)
{
    if (!statistics->timed_bytes)
        return 0;
    return (double)statistics->late_bytes * (double)statistics->waited_bytes /
           (double)statistics->timed_bytes;
}

double stall_operation(const struct statistics *statistics)
{
    if (!statistics->between_operations)
        return 0;
    return (double)statistics->between_nanoseconds / (double)statistics->between_operations;
}
