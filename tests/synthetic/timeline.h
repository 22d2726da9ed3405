/*
 * timeline.h - the device in virtual time: when each operation starts and ends on the modelled machine
 * (model/machine.h), beside the real execution and whatever order the schedule gives that.
 *
 * Every stream has a lane: its operations in order of submission, each with the host's time of the call that
 * submitted it. An operation starts when its lane, the events it waits for and the legacy stream's rule let
 * it and the host's time is reached; kernels of different lanes run side by side, undiminished; each device
 * has one engine for copies into it and one for copies out of it, which serve the copy that was ready first,
 * the older stream's where that is the same time. While both work each moves bytes at its rate of both at
 * once.
 *
 * How long a kernel takes is known when it has run. The timeline therefore never passes the end of something
 * unknown: it waits until that has run, with driver_lock dropped. It is never ahead of the host's clock
 * (clock.h). Times are nanoseconds since cuInit, doubles; the same operations with the same times give the
 * same times, to the last bit. All functions want driver_lock.
 */
#ifndef SYNTHETIC_TIMELINE_H
#define SYNTHETIC_TIMELINE_H

#include "engine.h"

#define TIME_NEVER 1e300

enum { ENGINE_OUT, ENGINE_IN, COPY_ENGINES };

/* Kept until the end where there is something to report of it. */
struct lane {
    uint64_t stream_id;
    CUcontext ctx;
    int device;
    bool blocking, legacy;
    bool gone; /* its stream is */
    struct op *head, *tail;
    unsigned heavy;       /* kernels, graphs, copies, memsets and host functions in it */
    bool stalled;         /* the head waits for an event, since: */
    double stalled_since; /* ns */
    double waited;        /* ns that it waited for events with work behind */
    double busy;          /* ns of kernels, graphs and memsets */
    struct lane *next;    /* by age */
};

struct copy_engine {
    struct op *op;       /* in it, or NULL */
    double latency_left; /* ns before the first byte moves */
    double bytes_left;
    double busy, bytes; /* ns, so far */
};

extern struct lane *timeline_lanes;
extern struct copy_engine timeline_engines[MAX_DEVICES][COPY_ENGINES];

/* NULL when out of memory. legacy: set by the caller, before the first operation. */
struct lane *timeline_lane_new_locked(struct CUstream_st *stream);
/* The stream is gone; the lane goes when it is empty. */
void timeline_lane_drop_locked(struct lane *lane);
void timeline_submit_locked(struct op *op, struct lane *lane, double now);

/* A kernel or graph has run, and takes that long. */
void timeline_ran_locked(struct op *op, double ns);

/* Goes on until that time, which the host has reached. Drops the lock where it waits. */
void timeline_advance_locked(double time);
/*
 * The next time at which something ends or starts, TIME_NEVER where that needs something else first. For what
 * comes after the host's clock.
 */
double timeline_next_locked(void);
/* An operation somebody waits for has ended, or a host function was let go, since this was last asked. */
bool timeline_news_locked(void);
/* Host functions not yet let go; and one that was, and has not returned or been given up waiting for. */
extern unsigned timeline_functions;
struct op *timeline_due_locked(void);
/* When the last operation ended that has. */
extern double timeline_last_end;

/* ---- timeline_cost.c: how long things take, ns ---- */
bool work_is_heavy(const struct work *work);
/* Which engine of the device, or -1: none. */
int work_engine(const struct work *work);
double work_bytes(const struct work *work); /* of a copy or memset, scaled */
double kernel_ns(const struct work_count *count);
/* Of anything but kernels and graphs, alone on the machine. */
double work_ns(const struct work *work);

#endif
