/*
 * simulation.h - a struct device_ops without a GPU: streams, events and copy engines in virtual time.
 *
 * The host has a clock, moved on by what its calls cost; streams execute in order beside it; each direction
 * of the link has one engine, which serves the copy that was ready first. Where both are busy each runs at
 * its rate of both at once. Kernels of different streams run side by side, undiminished. There is no data:
 * what would be read through a host address of the cache's is not there.
 *
 * The same calls give the same times, to the last bit: no clock is read and nothing is random. One thread.
 * Times are nanoseconds, rates bytes a second.
 */
#ifndef HBMSPILL_CACHE_TOOLS_SIMULATION_H
#define HBMSPILL_CACHE_TOOLS_SIMULATION_H

#include "cache/device_ops.h"
#include <stdbool.h>

enum { SIMULATION_STREAMS = 64 };

struct simulation_link {
    double in, out, in_both, out_both;
};

/* Something that took time, told when it ends. */
struct simulation_span {
    enum {
        SPAN_KERNEL,
        SPAN_COPY_IN,
        SPAN_COPY_OUT,
        SPAN_STALL
    } kind; /* stall: of the job's, for the cache */
    uint64_t stream;
    bool own;     /* a copy of the cache's */
    uint32_t tag; /* of a kernel or copy of the job's */
    double begin, end, bytes;
};

struct simulation_config {
    struct simulation_link link;
    void (*span)(void *ctx, const struct simulation_span *span); /* NULL: nobody is told */
    void *span_ctx;
    double driver_scale; /* of what the cache's driver calls cost the host */
    uint64_t hbm, host;  /* what can be had at all */
};

struct simulation;

int simulation_create(const struct simulation_config *config, struct simulation **out);
void simulation_destroy(struct simulation *simulation);
const struct device_ops *simulation_ops(struct simulation *simulation);

/* A stream of the job's; -ENOMEM where there are too many. */
int simulation_stream(struct simulation *simulation, uint64_t *stream);
/* The job's operations; a copy takes the engine of its direction. */
int simulation_kernel(struct simulation *simulation, uint64_t stream, double duration);
int simulation_transfer(struct simulation *simulation, uint64_t stream, bool in, uint64_t size);
/* What is queued from here on goes by that tag, for who is told of it. */
void simulation_tag(struct simulation *simulation, uint32_t tag);
/* An event of the job's is recorded, and a stream of its waits for that; what these cost the host is the
 * caller's to say. Such a wait is the job's own: no stall. */
int simulation_record(struct simulation *simulation, uint64_t stream, uint32_t *recording);
int simulation_after(struct simulation *simulation, uint64_t stream, uint32_t recording);

/* The host works for so long. */
void simulation_host(struct simulation *simulation, double duration);
double simulation_now(const struct simulation *simulation);
/* The host waits until a stream has done all it has; false where it never will. */
bool simulation_drain(struct simulation *simulation, uint64_t stream);
bool simulation_drain_all(struct simulation *simulation);

struct simulation_counts {
    double stream_stalled;    /* the job's streams waited for the cache, with work behind */
    double host_waited;       /* the host waited for the device */
    double in_busy, out_busy; /* the engines worked */
    double in_bytes, out_bytes;
    double driver_time; /* the host spent in the cache's driver calls */
};
/* So far. */
void simulation_counts(const struct simulation *simulation, struct simulation_counts *counts);

/* A copy of the cache's to the device. */
struct simulation_copy {
    uint64_t address, size;
    double end; /* negative: it has not ended */
};
/* How many were queued, and one of them, by number in the order they were queued; until the next is. */
uint32_t simulation_copies_in(const struct simulation *simulation);
const struct simulation_copy *simulation_copy_in(const struct simulation *simulation, uint32_t number);

/*
 * From when on what is queued next in that stream could have run: all ahead of it was done, and waited for,
 * but copies of the cache's to the device. Numbers count up from 0.
 */
int simulation_watch(struct simulation *simulation, uint64_t stream, uint32_t number);
/* That time, negative where it has not come yet. */
double simulation_watched(const struct simulation *simulation, uint32_t number);

/* Notes the time at which what was queued before it in that stream has ended. For the times of rounds. */
int simulation_mark(struct simulation *simulation, uint64_t stream, uint32_t number);
/* The time at which mark number was passed, negative where it was not yet. */
double simulation_mark_time(const struct simulation *simulation, uint32_t number);

#endif
