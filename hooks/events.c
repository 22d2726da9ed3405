#include "hooks/events.h"
#include "cache/events.h"
#include "cache/lock_in_time.h"
#include "hooks/events_lanes.h"
#include "hooks/events_timers.h"
#include "hooks/gzip.h"
#include "shim/log.h"
#include "shim/options.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

enum {
    PENDING = 1 << 13, /* work that has been issued and not read */
    POLLS = 8,         /* of it looked at by one call */
    NAME_BYTES = 120,
};

/* What viewers still open; a job that runs for long is not to fill the disk. */
static const uint64_t most_mib = 256;
struct pending {
    struct events_work work;
    CUevent end;
    uint32_t lane;
    char name[NAME_BYTES];
};

atomic_bool events_on;

/* Protects everything below. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct events_writer writer;
static struct pending *pending; /* ring, oldest at `first' */
static unsigned first, count;
static bool compressed; /* constant once events are on */
static atomic_uint_fast64_t counted_at;
/* By device: the cache's lock is held from begin to end. */
static struct {
    struct events_work work;
    uint32_t lane;
} copying[GPUS_MAX];

uint64_t events_now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_REALTIME, &time);
    return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

/* With the lock where it is true. */
static bool enter(void)
{
    pthread_mutex_lock(&lock);
    if (atomic_load_explicit(&events_on, memory_order_relaxed))
        return true;
    pthread_mutex_unlock(&lock);
    return false;
}

/* With the lock: writing ends, once. */
static void stop(int error)
{
    if (atomic_exchange(&events_on, false))
        log_warn(LOG_IN_EVENTS, "%s cannot be written: %s; it ends here (HBMSPILL_TRACE_EVENTS)",
                 options_get()->trace_events.text, strerror(-error));
}

static void leave(void)
{
    if (writer.error)
        stop(writer.error);
    else if (writer.cut && atomic_exchange(&events_on, false))
        log_warn(LOG_IN_EVENTS, "%s is full; it ends here (HBMSPILL_TRACE_EVENTS)",
                 options_get()->trace_events.text);
    pthread_mutex_unlock(&lock);
}

static int not_loaded(const char *bytes, size_t size)
{
    (void)bytes;
    (void)size;
    return -ENOSYS;
}

void events_open(void)
{
    const char *pattern = options_get()->trace_events.text;
    char path[1100], name[96];
    uint64_t limit;
    int fd;

    if (!pattern[0] || shim_mode() != SHIM_ON)
        return;
    if (options_expand_path(pattern, path, sizeof path)) {
        log_warn(LOG_IN_EVENTS, "HBMSPILL_TRACE_EVENTS is too long a path");
        return;
    }
    pending = malloc(PENDING * sizeof *pending);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 || !pending) {
        log_warn(LOG_IN_EVENTS, "%s cannot be written: %s (HBMSPILL_TRACE_EVENTS)", path,
                 strerror(pending ? errno : ENOMEM));
        if (fd >= 0)
            close(fd);
        return;
    }
    limit = options_get()->test_events_bytes;
    events_begin(&writer, fd, (uint32_t)getpid(), limit ? limit : most_mib << 20);
    compressed = gzip_is_wanted(path);
    if (compressed)
        writer.sink = not_loaded; /* the dynamic linker cannot be called from here */
    snprintf(name, sizeof name, "hbmspill: %s", program_invocation_short_name);
    events_process(&writer, name, NULL, 0);
    atomic_store(&events_on, true);
}

/* Of the first work of a device lanes are told of. */
static bool anchored(struct gpu *gpu)
{
    char device[128] = "";
    bool made, able = timers_anchor(gpu, &made);

    if (!made)
        return able;
    if (hbmspill_real.cuDeviceGetName &&
        hbmspill_real.cuDeviceGetName(device, sizeof device, gpu->device) == CUDA_SUCCESS)
        events_process(&writer, NULL, (struct events_arg[]){{"device", device, 0}}, 1);
    lanes_name_own(&writer, gpu);
    return able;
}

/* Work as it is written: measured on the device, or by when it was issued. */
static void write_work(const struct pending *work, uint64_t begun, uint64_t ended, bool measured)
{
    uint32_t lane = lane_id(work->work.gpu, work->lane);
    uint64_t *last = lane_end(work->work.gpu, work->lane);
    struct events_arg args[3];
    unsigned args_count = 0;
    char name[32];

    args[args_count++] = (struct events_arg){
        "time", measured ? "of the device" : "when it was issued; its end was not read", 0};
    args[args_count++] = (struct events_arg){"issued_us", NULL, work->work.issued / 1000};
    if (work->work.bytes)
        args[args_count++] = (struct events_arg){"bytes", NULL, work->work.bytes};
    /* A stream does one thing after the other: another thread's was recorded in between. */
    if (begun < *last)
        begun = *last < ended ? *last : ended;
    *last = ended > *last ? ended : *last;
    events_span(&writer, lane, work->name, begun, ended, args, args_count);
    if (!work->work.counted)
        return;
    snprintf(name, sizeof name, "gpu%d memory", work->work.gpu->device);
    events_counter(&writer, name, begun,
                   (struct events_arg[]){{"in use", NULL, work->work.used},
                                         {"free", NULL, work->work.free},
                                         {"spilled", NULL, work->work.spilled}},
                   3);
}

/* Of the oldest work what has happened: `polls' pieces of it at most. */
static void collect(unsigned polls)
{
    for (; count && polls--; first = (first + 1) % PENDING, count--) {
        struct pending *oldest = &pending[first];
        uint64_t begun, ended;
        int error = timers_read(oldest->work.gpu, &oldest->work.start, oldest->end, &begun, &ended);

        if (error == -EBUSY)
            return;
        if (error)
            begun = ended = oldest->work.issued;
        write_work(oldest, begun, ended, !error);
        timers_give(oldest->work.gpu, oldest->work.start);
        timers_give(oldest->work.gpu, oldest->end);
    }
}

static void work_begin(struct events_work *work)
{
    if (anchored(work->gpu))
        work->start = timers_record(work->gpu, work->stream);
}

static void work_end(struct events_work *work, uint32_t lane, bool submitted)
{
    struct pending *entry = &pending[(first + count) % PENDING], unread;
    bool made,
        timed = work->start && timers_anchor(work->gpu, &made); /* its context may have gone meanwhile */

    if (!timed || !submitted || count == PENDING)
        entry = &unread;
    *entry = (struct pending){.work = *work, .lane = lane};
    snprintf(entry->name, sizeof entry->name, "%s", work->name);
    if (entry != &unread)
        entry->end = timers_record(work->gpu, work->stream);
    if (entry->end) {
        count++;
    } else {
        if (submitted)
            write_work(entry, work->issued, work->issued, false);
        if (timed)
            timers_give(work->gpu, work->start);
    }
    collect(POLLS);
}

/* Before anything is written, and with no lock held. */
static void load_gzip(void)
{
    int error = gzip_load() ? gzip_begin(writer.fd) : -ENOSYS;

    pthread_mutex_lock(&lock);
    if (error)
        stop(error);
    else
        writer.sink = gzip_write;
    pthread_mutex_unlock(&lock);
}

/* Not more often than twenty thousand times a second: it looks at what was freed and is still there. */
static void count_usage(struct events_work *work)
{
    uint64_t before = atomic_load_explicit(&counted_at, memory_order_relaxed);
    struct cache_usage usage;

    if (work->issued < before + 50000 || !atomic_compare_exchange_strong(&counted_at, &before, work->issued))
        return;
    cache_usage(work->gpu->cache, &usage);
    work->counted = true;
    work->used = cache_used(work->gpu->cache);
    work->free = usage.hbm_limit > work->used ? usage.hbm_limit - work->used : 0;
    work->spilled = usage.spilled;
}

void events_operation_begin(struct events_work *work, struct gpu *gpu, const char *name, CUstream stream,
                            bool per_thread, uint64_t bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    bool entered;

    if (compressed)
        pthread_once(&once, load_gzip);
    *work = (struct events_work){.gpu = gpu ? gpu : gpu_current(),
                                 .name = name,
                                 .stream = per_thread && !stream ? CU_STREAM_PER_THREAD : stream,
                                 .per_thread = per_thread,
                                 .issued = events_now(),
                                 .bytes = bytes};
    if (!work->gpu)
        return;
    count_usage(work);
    if (!enter()) {
        work->gpu = NULL;
        return;
    }
    entered = gpu_enter(work->gpu);
    work_begin(work);
    gpu_leave(entered);
    leave();
}

void events_operation_end(struct events_work *work, bool submitted)
{
    bool entered;

    if (!work->gpu || !enter())
        return;
    entered = gpu_enter(work->gpu);
    work_end(work, lane_of_stream(&writer, work->gpu, work->stream, work->per_thread), submitted);
    gpu_leave(entered);
    leave();
}

void events_copy_begin(struct gpu *gpu, CUstream stream, bool in, uint64_t size)
{
    struct events_work *work = &copying[gpu->device].work;

    work->gpu = NULL;
    if (!enter())
        return;
    copying[gpu->device].lane = in ? LANE_IN : LANE_OUT;
    *work = (struct events_work){.gpu = gpu,
                                 .name = in ? "bring back" : "evict",
                                 .stream = stream,
                                 .issued = events_now(),
                                 .bytes = size};
    work_begin(work);
    leave();
}

void events_copy_end(struct gpu *gpu, bool submitted)
{
    struct events_work *work = &copying[gpu->device].work;

    if (!work->gpu || !enter())
        return;
    work_end(work, copying[gpu->device].lane, submitted);
    leave();
}

void events_window(struct gpu *gpu, uint64_t begun, uint32_t operations)
{
    bool entered;

    if (!enter())
        return;
    events_span(&writer, lane_id(gpu, LANE_WINDOWS), "window", begun, events_now(),
                (struct events_arg[]){{"time", "of the host", 0}, {"operations", NULL, operations}}, 2);
    entered = gpu_enter(gpu); /* whoever submits may have no context */
    collect(PENDING);
    gpu_leave(entered);
    leave();
}

void events_stalled(struct gpu *gpu, CUstream stream, CUevent before, double nanoseconds, uint64_t bytes)
{
    uint64_t begin;

    if (!enter())
        return;
    if (anchored(gpu) && !timers_read_one(gpu, before, &begin))
        events_span(&writer, lane_id(gpu, lane_of_handle(gpu, stream)), "stalled", begin,
                    begin + (uint64_t)nanoseconds,
                    (struct events_arg[]){{"time", "of the device; not every wait is timed", 0},
                                          {"bytes", NULL, bytes}},
                    2);
    leave();
}

void events_context_gone(struct gpu *gpu)
{
    unsigned kept = 0;

    if (!enter())
        return;
    for (unsigned i = 0; i < count; i++) {
        const struct pending *entry = &pending[(first + i) % PENDING];

        if (entry->work.gpu != gpu)
            pending[(first + kept++) % PENDING] = *entry;
        else
            write_work(entry, entry->work.issued, entry->work.issued, false);
    }
    count = kept;
    timers_gone(gpu);
    leave();
}

void events_close(void)
{
    int error;

    if (!atomic_load(&events_on))
        return;
    if (!lock_in_time(&lock, EXIT_PATIENCE_MS)) {
        log_warn(LOG_IN_EVENTS, "%s lacks its end: whoever writes it has stopped (HBMSPILL_TRACE_EVENTS)",
                 options_get()->trace_events.text);
        return;
    }
    if (atomic_exchange(&events_on, false)) {
        for (; count; count--, first = (first + 1) % PENDING)
            write_work(&pending[first], pending[first].work.issued, pending[first].work.issued, false);
        error = events_end(&writer);
        if (writer.sink == gzip_write && !error)
            error = gzip_end();
        if (close(writer.fd) && !error)
            error = -errno;
        if (error)
            log_warn(LOG_IN_EVENTS, "%s cannot be written: %s (HBMSPILL_TRACE_EVENTS)",
                     options_get()->trace_events.text, strerror(-error));
    }
    pthread_mutex_unlock(&lock);
}
