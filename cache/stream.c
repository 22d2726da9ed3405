#include "cache/stream.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct stream_event *event_at(struct stream *stream, size_t position)
{
    return &stream->events[(stream->first + position) % stream->capacity];
}

static int events_grow(struct stream *stream)
{
    size_t capacity = stream->capacity ? 2 * stream->capacity : 16;
    struct stream_event *events = malloc(capacity * sizeof *events);

    if (!events)
        return -ENOMEM;
    for (size_t i = 0; i < stream->count; i++)
        events[i] = *event_at(stream, i);
    free(stream->events);
    stream->events = events;
    stream->first = 0;
    stream->capacity = capacity;
    return 0;
}

/* Takes completed events off the front, so that `completed' is up to date. */
static int stream_poll(struct streams *streams, struct stream *stream)
{
    while (stream->count) {
        struct stream_event *oldest = event_at(stream, 0);
        int error = streams->ops->event_query(streams->ops->ctx, oldest->event);

        if (error == -EBUSY)
            return 0;
        if (error)
            return error;
        stream->completed = oldest->seq;
        event_pool_give(&streams->pool, oldest->event);
        stream->first = (stream->first + 1) % stream->capacity;
        stream->count--;
    }
    return 0;
}

static void hold_end(struct streams *streams, struct stream *stream)
{
    if (stream->hold_first)
        streams->holds--;
    stream->hold_first = 0;
}

/* The earliest recorded event that covers operation seq, NULL if there is none. */
static struct stream_event *event_covering(struct stream *stream, uint64_t seq)
{
    size_t low = 0, high = stream->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (event_at(stream, middle)->seq < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low < stream->count ? event_at(stream, low) : NULL;
}

int streams_init(struct streams *streams, const struct device_ops *ops, struct statistics *statistics)
{
    int error;

    memset(streams, 0, sizeof *streams);
    streams->ops = ops;
    streams->pool.ops = ops;
    streams->statistics = statistics;
    for (unsigned i = STREAM_IN; i <= STREAM_OUT; i++) {
        error = ops->stream_create(ops->ctx, &streams->stream[i].key.handle);
        if (error) {
            if (i == STREAM_OUT)
                ops->stream_destroy(ops->ctx, streams->stream[STREAM_IN].key.handle);
            return error;
        }
        streams->stream[i].used = true;
    }
    return 0;
}

void streams_destroy(struct streams *streams)
{
    const struct device_ops *ops = streams->ops;

    for (unsigned i = 0; i < EDGES_STREAMS; i++) {
        struct stream *stream = &streams->stream[i];

        while (stream->count) {
            ops->event_destroy(ops->ctx, event_at(stream, 0)->event);
            stream->first = (stream->first + 1) % stream->capacity;
            stream->count--;
        }
        free(stream->events);
    }
    event_pool_fini(&streams->pool);
    ops->stream_destroy(ops->ctx, streams->stream[STREAM_IN].key.handle);
    ops->stream_destroy(ops->ctx, streams->stream[STREAM_OUT].key.handle);
}

int streams_find(struct streams *streams, struct stream_key key, unsigned *index, uint64_t *wait)
{
    unsigned idle = EDGES_STREAMS, oldest = EDGES_STREAMS;
    struct stream *stream;
    int error;

    streams->tick++;
    for (unsigned i = STREAM_OUT + 1; i < EDGES_STREAMS; i++) {
        stream = &streams->stream[i];
        if (stream->used && stream->key.handle == key.handle && stream->key.thread == key.thread) {
            stream->last_tick = streams->tick;
            *index = i;
            return 0;
        }
    }
    for (unsigned i = STREAM_OUT + 1; i < EDGES_STREAMS && idle == EDGES_STREAMS; i++) {
        stream = &streams->stream[i];
        error = stream->used ? 0 : stream_poll(streams, stream);
        if (error)
            return error;
        if (!stream->used && stream->count == 0)
            idle = i;
        else if (!stream->users &&
                 (oldest == EDGES_STREAMS || stream->last_tick < streams->stream[oldest].last_tick))
            oldest = i;
    }
    if (idle == EDGES_STREAMS && oldest == EDGES_STREAMS)
        return -EAGAIN;
    if (idle == EDGES_STREAMS) {
        /* All taken: the one unused for longest gives its entry up, once its work is done. */
        stream = &streams->stream[oldest];
        error = stream->used ? stream_record(streams, oldest) : 0;
        if (!error)
            error = stream_poll(streams, stream);
        if (error)
            return error;
        if (stream->count) {
            *wait = event_at(stream, stream->count - 1)->event;
            return -EBUSY;
        }
        idle = oldest;
    }
    stream = &streams->stream[idle];
    stream->used = true;
    stream->key = key;
    stream->completed = stream->recorded = stream->seq;
    hold_end(streams, stream);
    stream->last_tick = streams->tick;
    memset(stream->known, 0, sizeof stream->known);
    *index = idle;
    return 0;
}

int streams_retire(struct streams *streams, struct stream_key key)
{
    for (unsigned i = STREAM_OUT + 1; i < EDGES_STREAMS; i++) {
        struct stream *stream = &streams->stream[i];
        int error;

        if (!stream->used || stream->key.handle != key.handle || stream->key.thread != key.thread)
            continue;
        error = stream_record(streams, i);
        stream->used = false;
        stream->key = (struct stream_key){0, 0};
        stream->last_tick = 0;
        return error;
    }
    return 0;
}

uint64_t stream_submitted(struct streams *streams, unsigned index)
{
    return ++streams->stream[index].seq;
}

int stream_record(struct streams *streams, unsigned index)
{
    const struct stream *stream = &streams->stream[index];

    if (stream->recorded == stream->seq)
        return 0;
    return stream->key.thread ? -EIO : stream_record_own(streams, index);
}

int stream_record_own(struct streams *streams, unsigned index)
{
    struct stream *stream = &streams->stream[index];
    uint64_t event;
    int error;

    if (stream->recorded == stream->seq)
        return 0;
    if (stream->count == stream->capacity) {
        error = stream_poll(streams, stream); /* nobody else may ask for a long time */
        if (!error && stream->count == stream->capacity)
            error = events_grow(stream);
        if (error)
            return error;
    }
    error = event_pool_take(&streams->pool, &event);
    if (error)
        return error;
    error = streams->ops->event_record(streams->ops->ctx, event, stream->key.handle);
    if (error) {
        event_pool_give(&streams->pool, event);
        return error;
    }
    stream->count++;
    *event_at(stream, stream->count - 1) = (struct stream_event){.seq = stream->seq, .event = event};
    stream->recorded = stream->seq;
    streams->statistics->events_recorded++;
    return 0;
}

int stream_wait_edges(struct streams *streams, unsigned index, const struct edges *edges)
{
    struct stream *stream = &streams->stream[index];

    for (uint32_t rest = edges->mask; rest; rest &= rest - 1) {
        unsigned other_index = (unsigned)__builtin_ctz(rest);
        struct stream *other = &streams->stream[other_index];
        uint64_t seq = edges->seq[other_index];
        struct stream_event *covering;
        int error;

        if (other_index == index || seq <= other->completed || seq <= stream->known[other_index])
            continue;
        if (seq > other->recorded) {
            error = stream_record(streams, other_index);
            if (error)
                return error;
        }
        covering = event_covering(other, seq);
        if (!covering) /* taken off by stream_poll: completed meanwhile */
            continue;
        error = streams->ops->stream_wait(streams->ops->ctx, stream->key.handle, covering->event);
        if (error)
            return error;
        stream->known[other_index] = covering->seq;
        streams->statistics->stream_waits++;
    }
    return 0;
}

bool streams_completed(struct streams *streams, const struct edges *edges, uint64_t *wait, int *error)
{
    *error = 0;
    for (uint32_t rest = edges->mask; rest; rest &= rest - 1) {
        unsigned index = (unsigned)__builtin_ctz(rest);
        struct stream *stream = &streams->stream[index];
        uint64_t seq = edges->seq[index];

        if (seq <= stream->completed)
            continue;
        if (seq > stream->recorded && (*error = stream_record(streams, index)))
            return false;
        if ((*error = stream_poll(streams, stream)))
            return false;
        if (seq <= stream->completed)
            continue;
        if (wait)
            *wait = event_covering(stream, seq)->event;
        return false;
    }
    return true;
}

int streams_hold(struct streams *streams, unsigned index)
{
    struct stream *stream = &streams->stream[index];
    int error = stream_record_own(streams, index); /* what is before it can then be waited for on its own */

    if (error) /* streams_held does not follow */
        return error;
    if (!stream->hold_first) {
        stream->hold_first = stream->seq + 1;
        streams->holds++;
    }
    stream->hold_last = UINT64_MAX;
    return 0;
}

void streams_held(struct streams *streams, unsigned index)
{
    struct stream *stream = &streams->stream[index];

    stream->hold_last = stream_submitted(streams, index);
    (void)stream_record_own(streams, index); /* else the hold lasts until a later event */
}

static bool still_held(struct streams *streams, struct stream *stream)
{
    (void)stream_poll(streams, stream); /* an error is met again by who waits */
    if (stream->completed < stream->hold_last)
        return true;
    hold_end(streams, stream);
    return false;
}

bool streams_behind(struct streams *streams, const struct edges *edges)
{
    for (uint32_t rest = streams->holds ? edges->mask : 0; rest; rest &= rest - 1) {
        unsigned index = (unsigned)__builtin_ctz(rest);
        struct stream *stream = &streams->stream[index];

        if (stream->hold_first && edges->seq[index] >= stream->hold_first && still_held(streams, stream))
            return true;
    }
    return false;
}

bool streams_any_held(struct streams *streams)
{
    for (unsigned i = 0; streams->holds && i < EDGES_STREAMS; i++)
        if (streams->stream[i].hold_first && still_held(streams, &streams->stream[i]))
            return true;
    return false;
}
