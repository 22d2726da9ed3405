/*
 * stall.h - how long the job's streams stood still for copies of ours.
 *
 * An operation that was made to wait for a copy is enclosed by two timing events, one before the wait and one
 * after it: between them nothing runs, so what passes is what the copy came too late by, next to nothing if
 * it was there. The first waits are all timed, later ones in part, and none while too many are outstanding;
 * the rest are taken to be alike (stall_nanoseconds). From the end of one timed wait to the start of the next
 * in the same stream the device does what the operations in between are for, which tells how long one takes.
 *
 * Called with the cache's lock held. Nothing here waits, and no error of a timer concerns the operation: a
 * wait is then not timed.
 */
#ifndef HBMSPILL_CACHE_STALL_H
#define HBMSPILL_CACHE_STALL_H

#include "cache/device_ops.h"
#include "cache/statistics.h"
#include <stdbool.h>

struct cache_observer;

enum { STALL_SAMPLES = 256 };

struct stall_sample {
    uint64_t before, after; /* timers, 0 until they are made */
    uint64_t wait;          /* its number, as copies_waited_for counts them */
    uint64_t tick;          /* of the operation */
    uint64_t stream, bytes;
};

struct stall {
    const struct device_ops *ops;
    const struct cache_observer *observer; /* NULL: nobody is told */
    struct statistics *statistics;
    struct stall_sample ring[STALL_SAMPLES]; /* outstanding ones from `first' on, oldest first */
    unsigned first, count;
    bool last;     /* the sample before the first was read, and no wait after it was dropped */
    uint64_t next; /* the wait to be timed next */
    bool second;   /* of two that are timed one after the other */
    uint64_t random;
};

void stall_init(struct stall *stall, const struct device_ops *ops, const struct cache_observer *observer,
                struct statistics *statistics);
void stall_fini(struct stall *stall);

/*
 * A stream is about to be made to wait for copies of so many bytes, by the operation `tick': true where the
 * wait is timed, and stall_end follows. It counts the wait either way.
 */
bool stall_begin(struct stall *stall, uint64_t stream, uint64_t bytes, uint64_t tick);
/* The waits are queued. */
void stall_end(struct stall *stall, uint64_t stream);

/* Of all waits counted, from those that were timed: nanoseconds, and bytes that were not there in time. */
double stall_nanoseconds(const struct statistics *statistics);
double stall_bytes(const struct statistics *statistics);
/* Nanoseconds of the device an operation takes in the mean (as ticks count them); 0 where that is not known.
 */
double stall_operation(const struct statistics *statistics);

#endif
