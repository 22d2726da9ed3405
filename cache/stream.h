/*
 * stream.h - the streams of one device: sequence numbers, recorded events, and what is known to be ordered.
 *
 * The rule everything rests on: an event recorded when a stream's counter stood at n completes only after its
 * operations 1..n (CUDA: an event captures the work in the stream at the time of cuEventRecord). An operation
 * gets its number *after* it was submitted, so an event never claims an operation that another thread is
 * still submitting. Waits are only ever put on events already recorded, so they cannot form a cycle.
 *
 * All functions are called with the cache's lock held.
 */
#ifndef HBMSPILL_CACHE_STREAM_H
#define HBMSPILL_CACHE_STREAM_H

#include "cache/device_ops.h"
#include "cache/edges.h"
#include "cache/event_pool.h"
#include "cache/statistics.h"
#include <stddef.h>

enum { STREAM_IN = 0, STREAM_OUT = 1 };
/* The two as a mask of edges; the others are the job's. */
#define STREAMS_OWN (UINT32_C(1) << STREAM_IN | UINT32_C(1) << STREAM_OUT)

/* How the job names a stream: the handle, and the thread where the handle means something else in each. */
struct stream_key {
    uint64_t handle;
    uint64_t thread; /* 0, or a number of the thread's own for the per-thread default stream */
};

struct stream_event {
    uint64_t seq, event;
};

struct stream {
    bool used;
    unsigned users; /* operations being submitted, which get their numbers here: not to be recycled */
    struct stream_key key;
    uint64_t seq;                  /* operations submitted */
    uint64_t completed;            /* operations known to have completed */
    uint64_t recorded;             /* the highest number an event covers */
    uint64_t last_tick;            /* for recycling the least recently used entry */
    uint64_t hold_first;           /* the first operation behind a host function, 0: there is none */
    uint64_t hold_last;            /* the last host function's own number */
    uint64_t in_order;             /* what is submitted from now on starts after this operation has ended */
    uint64_t known[EDGES_STREAMS]; /* this stream already comes after operation known[s] of stream s */
    struct stream_event *events;   /* ring, ascending seq, oldest at first */
    size_t first, count, capacity;
};

struct streams {
    const struct device_ops *ops;
    struct statistics *statistics;
    struct stream stream[EDGES_STREAMS];
    uint64_t tick;
    unsigned holds; /* streams with hold_first */
    struct event_pool pool;
};

int streams_init(struct streams *streams, const struct device_ops *ops, struct statistics *statistics);
void streams_destroy(struct streams *streams);

/*
 * The index of a stream of the job, entered at first sight. -EBUSY where all entries are taken by streams
 * with work outstanding: *wait is then an event to wait for before trying again; -EAGAIN where operations are
 * being submitted in all of them, to be tried again after one ended. Sequence numbers go on where the entry's
 * last owner stopped, so edges to it stay true.
 */
int streams_find(struct streams *streams, struct stream_key key, unsigned *index, uint64_t *wait);

/* The job is about to destroy a stream: its last position is recorded while it can be. 0 or an error of
 * record. */
int streams_retire(struct streams *streams, struct stream_key key);

/* Notes one more submitted operation; returns its number. */
uint64_t stream_submitted(struct streams *streams, unsigned index);

/*
 * Records an event at the stream's present end, unless one is there. A thread's default stream can be named
 * only in that thread, so an event is recorded there after every operation (stream_record_own), by the caller
 * of stream_submitted; -EIO where that has failed.
 */
int stream_record(struct streams *streams, unsigned index);
int stream_record_own(struct streams *streams, unsigned index);

/* Makes the stream wait for all of edges, less what it is known to come after. */
int stream_wait_edges(struct streams *streams, unsigned index, const struct edges *edges);

/*
 * A host function is about to be queued, and was queued. It may wait for another thread, so what the stream
 * does behind it may have to wait for that thread too. Both by the thread that queues it.
 */
int streams_hold(struct streams *streams, unsigned index);
void streams_held(struct streams *streams, unsigned index);
/* Whether any of edges stands behind a host function that has not ended. */
bool streams_behind(struct streams *streams, const struct edges *edges);
/* Whether any stream has one that has not ended. */
bool streams_any_held(struct streams *streams);

/* True if every edge has completed. Else false and, where wait is not NULL, an event that must complete
 * first. */
bool streams_completed(struct streams *streams, const struct edges *edges, uint64_t *wait, int *error);

#endif
