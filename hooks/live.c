#include "hooks/live.h"
#include "cache/residents.h"
#include "cache/stall.h"
#include "hooks/counters.h"
#include "hooks/gpu.h"
#include "hooks/host_memory.h"
#include "shim/live.h"
#include "shim/log.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MILLISECOND UINT64_C(1000000)

static struct live_page *page; /* NULL: it could not be made */
static _Atomic uint64_t next_write;
static atomic_bool writing;

static uint64_t now(clockid_t clock)
{
    struct timespec time;

    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000 * MILLISECOND + (uint64_t)time.tv_nsec;
}

/* The descriptor stays open: others find the page by it. Its size is fixed, so that no reader is cut off. */
static void make_page(void)
{
    int fd = memfd_create(LIVE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *memory = MAP_FAILED;

    if (fd >= 0 && !fchmod(fd, S_IRUSR | S_IWUSR) && !ftruncate(fd, sizeof *page) &&
        !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
        memory = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        log_info(LOG_IN_LIVE, "hbmspill top will not see this job: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return;
    }
    page = memory;
    page->pid = getpid();
    page->size = sizeof *page;
    page->started = now(CLOCK_MONOTONIC);
    page->version = LIVE_VERSION;
}

/* It takes a search of all allocations: a hundredth of the time at most. */
static void write_residents(struct live_residents *to, struct gpu *gpu)
{
    static uint64_t cost[LIVE_DEVICES]; /* of the last one, ns; by whoever writes */
    const uint64_t begun = now(CLOCK_MONOTONIC);
    uint64_t *last = &cost[to - page->residents];
    struct resident_row row[LIVE_RESIDENTS];
    unsigned count;

    if (begun < to->at + 100 * *last)
        return;
    count = cache_residents(gpu->cache, row, LIVE_RESIDENTS);
    memset(to->row, 0, sizeof to->row);
    for (unsigned i = 0; i < count; i++)
        to->row[i] = (struct live_resident){row[i].size, row[i].count, row[i].hbm, row[i].host};
    to->at = now(CLOCK_MONOTONIC);
    *last = to->at - begun;
}

static void write_device(struct live_device *to, struct gpu *gpu, const struct statistics *counted)
{
    struct cache_usage usage;

    cache_usage(gpu->cache, &usage);
    *to = (struct live_device){.device = gpu->device,
                               .hbm_limit = usage.hbm_limit,
                               .frames = usage.frames,
                               .outside = usage.outside,
                               .host_limit = usage.host_limit,
                               .host = usage.host,
                               .spilled = usage.spilled,
                               .live = usage.live,
                               .bytes_in = counted->bytes_in,
                               .bytes_out = counted->bytes_out,
                               .evictions = counted->evictions,
                               .fills = counted->fills,
                               .operations = usage.operations,
                               .waited = counted->copies_waited_for,
                               .stalled = stall_nanoseconds(counted)};
}

static void write_page(uint64_t time)
{
    const struct budget *budget = host_memory_budget();
    uint64_t planned = count_now(planned_operations);
    struct statistics counted;
    struct gpu *gpu;
    unsigned i;

    atomic_fetch_add(&page->sequence, 1);
    atomic_thread_fence(memory_order_release);
    for (i = 0; i < LIVE_DEVICES && (gpu = gpu_at(i)); i++) {
        cache_counters(gpu->cache, &counted);
        write_device(&page->device[i], gpu, &counted);
        if (atomic_load(&page->watched) > time)
            write_residents(&page->residents[i], gpu);
        planned += counted.planned_operations;
    }
    page->devices = i;
    page->written = time;
    page->operations = count_now(launches) + count_now(graph_launches) + count_now(copies);
    page->planned = planned;
    page->pinned = atomic_load(&budget->pinned);
    page->pinned_limit = atomic_load(&budget->limit);
    page->job_pinned = count_now(job_pinned_bytes);
    atomic_fetch_add(&page->sequence, 1);
}

void live_tick(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    uint64_t time;

    if (!gpu_at(0))
        return;
    time = now(CLOCK_MONOTONIC_COARSE);
    if (time < atomic_load_explicit(&next_write, memory_order_relaxed) || atomic_exchange(&writing, true))
        return;
    pthread_once(&once, make_page);
    if (page)
        write_page(time);
    atomic_store(&next_write, time + LIVE_EVERY_MS * MILLISECOND);
    atomic_store(&writing, false);
}
