/*
 * Memory pools of host memory: the CPU's to use, never spilled, and what they have reserved is in the account
 * of pinned memory, which every run compares with what the driver has pinned.
 */
#include "tests/integration/job.h"
#include "tests/integration/scenario.h"

#include <check.h>
#include <pthread.h>

enum { BYTES = 4 << 20, WORDS = BYTES / 4 };

static const CUmemLocation on_host = {.type = CU_MEM_LOCATION_TYPE_HOST};
static const CUmemLocation on_node = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0};
static CUstream stream;

static void let_device(CUmemoryPool pool)
{
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    CU(cuMemPoolSetAccess(pool, &access, 1));
}

static CUmemoryPool new_pool(CUmemLocation location, cuuint64_t threshold)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = location};
    CUmemoryPool pool;

    CU(cuMemPoolCreate(&pool, &props));
    CU(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    let_device(pool);
    return pool;
}

static uint32_t *allocate(CUmemoryPool pool, size_t bytes)
{
    CUdeviceptr at;

    CU(cuMemAllocFromPoolAsync(&at, bytes, pool, stream));
    CU(cuStreamSynchronize(stream));
    memset((void *)(uintptr_t)at, 1, bytes);
    return (uint32_t *)(uintptr_t)at;
}

static CUdeviceptr device_of(const uint32_t *memory)
{
    return (CUdeviceptr)(uintptr_t)memory;
}

static void start(void)
{
    cuda_start();
    stream = job_stream();
}

/* ---- whose memory it is ---- */

/* Whoever's the pool is, the job's or the driver's: the CPU writes, kernels read and write, copies go both
 * ways.
 */
static void used(CUmemoryPool pool)
{
    uint32_t *words = allocate(pool, BYTES), *more = allocate(pool, BYTES);
    CUdeviceptr at;
    unsigned type;

    CU(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device_of(words)));
    REQUIRE(type == CU_MEMORYTYPE_HOST);
    CU(cuMemAlloc(&at, BYTES));
    for (uint32_t i = 0; i < WORDS; i++)
        words[i] = job_word(1, i);
    job_fill(at, WORDS, 2, stream);
    job_add(at, device_of(words), WORDS, stream);
    CU(cuMemcpyDtoDAsync(device_of(more), at, BYTES, stream));
    job_add(device_of(words), at, WORDS, stream);
    CU(cuStreamSynchronize(stream));
    for (uint32_t i = 0; i < WORDS; i++) {
        REQUIRE(more[i] == job_word(1, i) + job_word(2, i), "word %u", i);
        REQUIRE(words[i] == 2 * job_word(1, i) + job_word(2, i), "word %u", i);
    }
    CU(cuMemFreeAsync(device_of(words), stream));
    CU(cuMemFree(device_of(more)));
    CU(cuMemFree(at));
}

static void the_jobs(void)
{
    CUmemoryPool pool;

    start();
    for (unsigned i = 0; i < 2; i++) {
        pool = new_pool(i ? on_node : on_host, 0);
        used(pool);
        CU(cuMemPoolDestroy(pool));
    }
}

static void the_drivers(void)
{
    CUmemoryPool pool;
    CUmemLocation location;

    start();
    for (unsigned i = 0; i < 4; i++) {
        location = i % 2 ? on_node : on_host;
        if (i < 2)
            CU(cuMemGetDefaultMemPool(&pool, &location, CU_MEM_ALLOCATION_TYPE_PINNED));
        else
            CU(cuMemGetMemPool(&pool, &location, CU_MEM_ALLOCATION_TYPE_PINNED));
        let_device(pool);
        used(pool);
    }
}

static void none_is_left(const struct outcome *of)
{
    ck_assert_uint_eq(outcome_number(of->statistics, "job_pinned_bytes"), 0);
    ck_assert_uint_ge(outcome_number(of->statistics, "peak_job_pinned_bytes"), 2 * BYTES);
}

/* ---- what goes back when ---- */

/* 10 of 12 MiB are given back; what was asked for last says how the rest goes. */
static void kept(void)
{
    CUmemoryPool pool;
    uint32_t *memory, *more;

    start();
    pool = new_pool(on_host, 8 * MIB);
    memory = allocate(pool, 10 * MIB);
    more = allocate(pool, 2 * MIB);
    CU(cuMemFreeAsync(device_of(memory), stream));
    CU(cuStreamSynchronize(stream));
    if (getenv("TRIM"))
        CU(cuMemPoolTrimTo(pool, 3 * MIB));
    if (getenv("ALL"))
        CU(cuMemFree(device_of(more)));
    if (getenv("GONE"))
        CU(cuMemPoolDestroy(pool));
    exit(0); /* nothing is waited for any more */
}

#define LEFT(name, mebibytes)                                                                                \
    static void name(const struct outcome *of)                                                               \
    {                                                                                                        \
        ck_assert_uint_eq(outcome_number(of->statistics, "job_pinned_bytes"), (mebibytes) << 20);            \
        ck_assert_uint_eq(outcome_number(of->report, "pinned_bytes"), (mebibytes) << 20);                    \
        ck_assert_uint_eq(outcome_number(of->statistics, "peak_pinned_bytes"), 12 << 20);                    \
    }
LEFT(left_0, 0)
LEFT(left_4, 4)
LEFT(left_8, 8)

/* What was given back in a stream that stands still is pinned, and so is what was not given back at all. */
static void destroyed_early(void)
{
    volatile uint32_t *flag;
    CUmemoryPool pool;
    uint32_t *memory, *more;

    start();
    flag = job_pinned_word();
    pool = new_pool(on_host, 0);
    memory = allocate(pool, 6 * MIB);
    more = allocate(pool, 2 * MIB);
    CU(cuStreamWaitValue32(stream, device_of((const uint32_t *)flag), 1, CU_STREAM_WAIT_VALUE_EQ));
    CU(cuMemFreeAsync(device_of(memory), stream));
    CU(cuMemPoolDestroy(pool));
    if (getenv("ALL"))
        CU(cuMemFreeAsync(device_of(more), stream));
    *flag = 1;
    if (getenv("STREAM"))
        CU(cuStreamSynchronize(stream));
    if (getenv("CONTEXT"))
        CU(cuCtxSynchronize());
    exit(0);
}

static void eight_are_left(const struct outcome *of)
{
    ck_assert_uint_eq(outcome_number(of->statistics, "job_pinned_bytes"), (8 << 20) + 4096);
}

static void the_flag_is_left(const struct outcome *of)
{
    ck_assert_uint_eq(outcome_number(of->statistics, "job_pinned_bytes"), 4096);
}

/* ---- one account, one limit ---- */

/* HBM 40M, host 48M: with 30 MiB in a pool 18 are left for what is spilled, and all of it without. */
static void one_account(void)
{
    CUdeviceptr at[17];
    CUmemoryPool pool;
    uint32_t *memory;
    unsigned count = 0;

    start();
    pool = new_pool(on_host, 0);
    memory = allocate(pool, 30 * MIB);
    for (; count < 11; count++) {
        CU(cuMemAlloc(&at[count], BYTES));
        job_fill(at[count], WORDS, count, stream);
    }
    CU(cuStreamSynchronize(stream));
    for (unsigned i = 0; i < count; i++)
        CHECK_WORDS(at[i], WORDS, i);
    CU(cuMemFreeAsync(device_of(memory), stream));
    if (getenv("EVENT")) {
        CUevent event;

        CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        CU(cuEventRecord(event, stream));
        CU(cuEventSynchronize(event));
        CU(cuEventDestroy(event));
    } else {
        CU(cuStreamSynchronize(stream));
    }
    for (; count < 17; count++) {
        CU(cuMemAlloc(&at[count], BYTES));
        job_fill(at[count], WORDS, count, stream);
    }
    CU(cuStreamSynchronize(stream));
    for (unsigned i = 0; i < count; i++)
        CHECK_WORDS(at[i], WORDS, i);
}

static void limit_kept(const struct outcome *of)
{
    ck_assert_uint_le(outcome_number(of->statistics, "peak_pinned_bytes"), 48 << 20);
    ck_assert_uint_gt(outcome_number(of->statistics, "evictions"), 0);
    ck_assert_msg(strstr(of->err, "HBMSPILL_HOST_LIMIT") == NULL, "%s", of->err);
}

/* What is idle makes way for a pool; the job has what it would have without the library. */
static void more_than_the_limit(void)
{
    CUmemoryPool pool;
    void *host;

    start();
    pool = new_pool(on_host, 0);
    CU(cuMemHostAlloc(&host, 20 * MIB, 0));
    CU(cuMemFreeHost(host));
    (void)allocate(pool, 30 * MIB);
    if (getenv("MORE"))
        (void)allocate(pool, 30 * MIB);
}

static void idle_made_way(const struct outcome *of)
{
    ck_assert_uint_eq(outcome_number(of->statistics, "pinned_bytes"), 30 << 20);
    ck_assert_msg(strstr(of->err, "HBMSPILL_HOST_LIMIT") == NULL, "%s", of->err);
}

static void said_that_full(const struct outcome *of)
{
    ck_assert_uint_eq(outcome_number(of->statistics, "pinned_bytes"), 60 << 20);
    ck_assert_msg(strstr(of->err, "the job itself pins 60 MiB and more") != NULL, "%s", of->err);
}

/* A pool at the limit gives out what it has, and nothing has to make way for that. */
static void at_the_limit(void)
{
    CUmemoryPool pool;
    uint32_t *memory;
    void *host;

    start();
    pool = new_pool(on_host, 64 * MIB);
    CU(cuMemHostAlloc(&host, 20 * MIB, 0));
    memory = allocate(pool, 24 * MIB);
    CU(cuMemFreeHost(host));
    for (unsigned i = 0; i < 4; i++) {
        CU(cuMemFreeAsync(device_of(memory), stream));
        memory = allocate(pool, 24 * MIB);
    }
}

static void idle_is_kept(const struct outcome *of)
{
    ck_assert_uint_eq(outcome_number(of->statistics, "pinned_bytes"), 44 << 20);
    ck_assert_uint_eq(outcome_number(of->statistics, "job_pinned_bytes"), 24 << 20);
    ck_assert_msg(strstr(of->err, "HBMSPILL_HOST_LIMIT") == NULL, "%s", of->err);
}

/* The system has no more, and then ever again: what is idle makes way first. */
static void refused_by_the_system(void)
{
    CUmemoryPool pool;
    CUdeviceptr at;
    void *host;

    start();
    pool = new_pool(on_host, 0);
    CU(cuMemHostAlloc(&host, BYTES, 0));
    CU(cuMemFreeHost(host));
    (void)allocate(pool, BYTES);
    for (unsigned i = 0; i < 3; i++)
        EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&at, BYTES, pool, stream));
}

static void asked_once_more(const struct outcome *of)
{
    ck_assert_uint_eq(outcome_number(of->statistics, "pinned_bytes"), BYTES);
    ck_assert_uint_eq(outcome_calls(of, "cuMemAllocFromPoolAsync"), 5);
    ck_assert_msg(strstr(of->err, "refuses the job 4 MiB of pinned memory") != NULL, "%s", of->err);
}

/* ---- threads ---- */

enum { THREADS = 4, TIMES = 60 };
static CUmemoryPool shared[2];

static void *thread_body(void *argument)
{
    unsigned number = *(const unsigned *)argument;
    CUstream own;

    CU(cuCtxSetCurrent(job_context()));
    own = job_stream();
    for (unsigned i = 0; i < TIMES; i++) {
        CUmemoryPool pool = i % 5 == 4 ? new_pool(on_host, 0) : shared[(i + number) % 2];
        CUdeviceptr at;

        CU(cuMemAllocFromPoolAsync(&at, (i % 3 + 1) * MIB, pool, own));
        CU(cuMemsetD32Async(at, number, 64, own));
        if (i % 2)
            CU(cuStreamSynchronize(own));
        CU(cuMemFreeAsync(at, own));
        if (i % 5 == 4)
            CU(cuMemPoolDestroy(pool));
        else if (i % 7 == 0)
            CU(cuMemPoolTrimTo(pool, 0));
    }
    CU(cuStreamDestroy(own));
    return argument;
}

static void threads(void)
{
    pthread_t thread[THREADS];
    unsigned number[THREADS];

    start();
    for (unsigned i = 0; i < 2; i++)
        shared[i] = new_pool(on_host, i ? 4 * MIB : 0);
    for (unsigned i = 0; i < THREADS; i++) {
        number[i] = i;
        REQUIRE(!pthread_create(&thread[i], NULL, thread_body, &number[i]));
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

#define WHAT_IS_KEPT(tag, variables_, inspect_)                                                              \
    {                                                                                                        \
        .name = "kept" tag, .job = kept, .variables = variables_, .inspect = inspect_                        \
    }
#define DESTROYED(tag, variables_, inspect_)                                                                 \
    {                                                                                                        \
        .name = "destroyed_early" tag, .job = destroyed_early, .variables = variables_, .inspect = inspect_, \
        .flags = SCENARIO_NOT_NATIVE                                                                         \
    }

static const struct scenario scenarios[] = {
    {.name = "the_jobs", .job = the_jobs, .flags = SCENARIO_UNCOUNTED, .inspect = none_is_left},
    {.name = "the_drivers", .job = the_drivers, .flags = SCENARIO_UNCOUNTED, .inspect = none_is_left},
    WHAT_IS_KEPT("", "", left_8),
    WHAT_IS_KEPT("_trimmed", "TRIM=1", left_4),
    WHAT_IS_KEPT("_freed", "ALL=1", left_8),
    WHAT_IS_KEPT("_destroyed", "GONE=1", left_8),
    WHAT_IS_KEPT("_none", "ALL=1 GONE=1", left_0),
    DESTROYED("", "ALL=1", eight_are_left),
    DESTROYED("_and_stream", "ALL=1 STREAM=1", the_flag_is_left),
    DESTROYED("_and_context", "ALL=1 CONTEXT=1", the_flag_is_left),
    DESTROYED("_not_all", "STREAM=1 CONTEXT=1", eight_are_left),
    {.name = "one_account",
     .job = one_account,
     .flags = SCENARIO_NOT_NATIVE,
     .variables = "HBMSPILL_HOST_LIMIT=48M",
     .inspect = limit_kept},
    {.name = "one_account_by_event",
     .job = one_account,
     .flags = SCENARIO_NOT_NATIVE,
     .variables = "HBMSPILL_HOST_LIMIT=48M EVENT=1",
     .inspect = limit_kept},
    {.name = "up_to_the_limit",
     .job = more_than_the_limit,
     .flags = SCENARIO_NOT_NATIVE,
     .variables = "HBMSPILL_HOST_LIMIT=48M",
     .inspect = idle_made_way},
    {.name = "more_than_the_limit",
     .job = more_than_the_limit,
     .flags = SCENARIO_NOT_NATIVE,
     .variables = "HBMSPILL_HOST_LIMIT=48M MORE=1",
     .inspect = said_that_full},
    {.name = "at_the_limit",
     .job = at_the_limit,
     .flags = SCENARIO_NOT_NATIVE,
     .variables = "HBMSPILL_HOST_LIMIT=48M",
     .inspect = idle_is_kept},
    {.name = "refused_by_the_system",
     .job = refused_by_the_system,
     .flags = SCENARIO_NOT_NATIVE | SCENARIO_ONCE,
     /* The first call, and from the third on. */
     .variables = "SYNTHETIC_GPU_FAULT=cuMemAllocFromPoolAsync:1:OUT_OF_MEMORY,"
                  "cuMemAllocFromPoolAsync:2:OUT_OF_MEMORY,cuMemAllocFromPoolAsync:2:OUT_OF_MEMORY,"
                  "cuMemAllocFromPoolAsync:2:OUT_OF_MEMORY",
     .inspect = asked_once_more},
    {.name = "threads", .job = threads, .flags = SCENARIO_UNCOUNTED},
};

int main(int argc, char **argv)
{
    return scenarios_main(argc, argv, "host pools", scenarios, sizeof scenarios / sizeof *scenarios, 60);
}
