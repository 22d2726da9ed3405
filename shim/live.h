/*
 * live.h - the page that says how a job is doing, for hbmspill top: written by the job, read by others, who
 * may write one word of it: until when they look. What takes a search of all records is there only then.
 *
 * It is a file without a name (memfd) that the process keeps open: found in /proc/PID/fd by its name there,
 * for its owner only, and gone with the process. A reader takes what was read between two equal, even
 * sequence numbers. Bytes, and nanoseconds of CLOCK_MONOTONIC.
 */
#ifndef HBMSPILL_SHIM_LIVE_H
#define HBMSPILL_SHIM_LIVE_H

#include <stdatomic.h>
#include <stdint.h>

/* The version changes with the layout. */
enum { LIVE_VERSION = 2, LIVE_DEVICES = 16, LIVE_RESIDENTS = 6, LIVE_EVERY_MS = 250, LIVE_WATCH_MS = 2000 };
#define LIVE_NAME "hbmspill-live"
#define LIVE_LINK "/memfd:" LIVE_NAME " (deleted)"

/* Live allocations of one size, or of several that had no row (size 0); count 0: no more rows. */
struct live_resident {
    uint64_t size, count;
    uint64_t hbm, host; /* bytes of theirs in HBM, and on the host only */
};

/* What has most of HBM, as it was at some moment (0: never). */
struct live_residents {
    uint64_t at;
    struct live_resident row[LIVE_RESIDENTS];
};

struct live_device {
    int64_t device;
    uint64_t hbm_limit, frames, outside;
    uint64_t host_limit, host, spilled;
    uint64_t live;
    uint64_t bytes_in, bytes_out; /* moved so far */
    uint64_t evictions, fills;
    uint64_t operations, waited; /* begun so far; those of them that had to wait for a copy of ours */
    double stalled;              /* ns so far, of its streams together */
};

struct live_page {
    uint32_t version, size;    /* the latter of this struct */
    _Atomic uint32_t sequence; /* odd while it is written */
    uint32_t devices;
    int64_t pid;
    _Atomic uint64_t watched; /* somebody looks, until then: LIVE_WATCH_MS from when he last did */
    uint64_t started, written;
    uint64_t operations; /* so far: launches, graphs, copies */
    uint64_t planned;    /* operations that followed a round's schedule */
    uint64_t pinned, job_pinned, pinned_limit;
    struct live_device device[LIVE_DEVICES];
    struct live_residents residents[LIVE_DEVICES];
};

#endif
