/*
 * events.h - HBMSPILL_TRACE_EVENTS: what happens when, as a file for viewers (cache/events.h).
 *
 * Operations of the job and copies of ours are enclosed in two timing events each, in their stream, which are
 * read once both have happened: nothing waits for them, and nothing is ordered by them but what is ordered
 * anyway. Their times are the device's, laid on the clock of the host (microseconds since 1970, which
 * jax.profiler uses) at one moment, in which an event was recorded in a stream that was idle: a few
 * microseconds may be between the two. What is not read, because too many are under way, the stream is of
 * another context or the process ends, is written with the time at which it was issued, and says so. With
 * each operation goes what is where when it begins.
 *
 * Off: a load and a branch. A file that cannot be opened or written is one warning, and the end of it.
 *
 * Threads: any; one lock, taken within a cache's and never around one. It is held over driver calls that do
 * not wait.
 */
#ifndef HBMSPILL_HOOKS_EVENTS_H
#define HBMSPILL_HOOKS_EVENTS_H

#include "hooks/gpu.h"
#include <stdatomic.h>

extern atomic_bool events_on;

#define EVENTS(call)                                                                                         \
    do {                                                                                                     \
        if (atomic_load_explicit(&events_on, memory_order_relaxed))                                          \
            call;                                                                                            \
    } while (0)

/* The process has become active: opens the file. No driver call. */
void events_open(void);
/* At exit; no driver call. */
void events_close(void);

/* Work in a stream, between begin and end; the caller's memory. */
struct events_work {
    struct gpu *gpu;  /* NULL: it is not written */
    const char *name; /* stays until the end */
    CUstream stream;
    bool per_thread, counted;
    CUevent start;   /* NULL: it is not timed */
    uint64_t issued; /* nanoseconds since 1970 */
    uint64_t bytes;
    uint64_t used, free, spilled; /* bytes, where counted */
};

/* An operation of the job's, behind what its stream was made to wait for. No lock of a cache is held. gpu
 * NULL: the current one. bytes: 0 where that says nothing. */
void events_operation_begin(struct events_work *work, struct gpu *gpu, const char *name, CUstream stream,
                            bool per_thread, uint64_t bytes);
/* submitted: the driver took it. */
void events_operation_end(struct events_work *work, bool submitted);
/* Copies of ours, and a wait of a stream of the job's that was timed from `before' on; the cache's lock is
 * held. */
void events_copy_begin(struct gpu *gpu, CUstream stream, bool in, uint64_t size);
void events_copy_end(struct gpu *gpu, bool submitted);
void events_stalled(struct gpu *gpu, CUstream stream, CUevent before, double nanoseconds, uint64_t bytes);
/* A window was carried out, by the host: since when, of how many operations. */
void events_window(struct gpu *gpu, uint64_t begun, uint32_t operations);

/* The gpu's context is gone, and with it all timing events: what was not read is written, nothing is timed
 * from here on. */
void events_context_gone(struct gpu *gpu);

/* Nanoseconds since 1970. */
uint64_t events_now(void);

#endif
