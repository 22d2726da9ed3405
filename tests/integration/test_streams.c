/*
 * Work in many streams, ordered as CUDA orders it and in no other way, over memory that does not fit.
 */
#include "tests/integration/job.h"
#include "tests/integration/scenario.h"

#include <check.h>
#include <pthread.h>

enum { BYTES = 3 << 20, WORDS = BYTES / 4 };

static CUstream stream_make(unsigned flags)
{
    CUstream stream;

    CU(cuStreamCreate(&stream, flags));
    return stream;
}

/* The stream waits for all that is in the other now. */
static void wait_for(CUstream stream, CUstream other)
{
    CUevent event;

    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CU(cuEventRecord(event, other));
    CU(cuStreamWaitEvent(stream, event, 0));
    CU(cuEventDestroy(event));
}

/* Each stream fills its buffers, then adds what its neighbour has. */
static void ring(unsigned flags, unsigned streams, unsigned each)
{
    CUstream stream[8];
    CUdeviceptr at[8][4];

    for (unsigned s = 0; s < streams; s++) {
        stream[s] = stream_make(flags);
        for (unsigned i = 0; i < each; i++)
            CU(cuMemAllocAsync(&at[s][i], BYTES, stream[s]));
    }
    for (unsigned i = 0; i < each; i++)
        for (unsigned s = 0; s < streams; s++)
            job_fill(at[s][i], WORDS, 10 * s + i, stream[s]);
    for (unsigned s = 0; s + 1 < streams; s++) {
        wait_for(stream[s], stream[s + 1]);
        for (unsigned i = 0; i < each; i++)
            job_add(at[s][i], at[s + 1][each - 1 - i], WORDS, stream[s]);
        wait_for(stream[s + 1], stream[s]);
    }
    for (unsigned s = 0; s < streams; s++) {
        for (unsigned i = 0; i < each; i++) {
            if (s + 1 < streams)
                CHECK_SUM(at[s][i], WORDS, 10 * s + i, 10 * (s + 1) + each - 1 - i);
            else
                CHECK_WORDS(at[s][i], WORDS, 10 * s + i);
            CU(cuMemFreeAsync(at[s][i], stream[s]));
        }
    }
    for (unsigned s = 0; s < streams; s++)
        CU(cuStreamDestroy(stream[s]));
}

static void non_blocking(void)
{
    cuda_start();
    ring(CU_STREAM_NON_BLOCKING, 6, 3);
}

static void blocking(void)
{
    cuda_start();
    ring(CU_STREAM_DEFAULT, 6, 3);
}

/* The legacy stream by both its names, ordered against a blocking stream without any event. */
static void legacy(void)
{
    enum { COUNT = 14 };
    CUdeviceptr at[COUNT];
    CUstream stream;

    cuda_start();
    stream = stream_make(CU_STREAM_DEFAULT);
    for (unsigned i = 0; i < COUNT; i++) {
        CU(cuMemAlloc(&at[i], BYTES));
        job_fill(at[i], WORDS, i, i % 3 == 0 ? stream : i % 3 == 1 ? CU_STREAM_LEGACY : NULL);
    }
    for (unsigned i = 0; i + 1 < COUNT; i += 2)
        job_add(at[i], at[i + 1], WORDS, i % 4 ? stream : NULL);
    for (unsigned i = 0; i < COUNT; i++) {
        if (i % 2)
            CHECK_WORDS(at[i], WORDS, i);
        else
            CHECK_SUM(at[i], WORDS, i, i + 1);
        CU(cuMemFree(at[i]));
    }
    CU(cuStreamDestroy(stream));
}

/*
 * A free, or an allocation, in the legacy stream and nothing else orders two blocking streams: "an action is
 * taken in the legacy stream" (Stream synchronization behavior).
 */
static void legacy_actions(bool free)
{
    enum { COUNT = 12 };
    CUdeviceptr at[COUNT], other, some[COUNT];
    CUstream one, two;

    cuda_start();
    one = stream_make(CU_STREAM_DEFAULT);
    two = stream_make(CU_STREAM_DEFAULT);
    CU(cuMemAlloc(&other, BYTES));
    job_fill(other, WORDS, 99, two);
    CU(cuStreamSynchronize(two));
    for (unsigned i = 0; i < COUNT; i++) {
        CU(cuMemAlloc(&at[i], BYTES));
        if (free)
            CU(cuMemAllocAsync(&some[i], BYTES, one));
    }
    for (unsigned i = 0; i < COUNT; i++) {
        job_fill_slowly(at[i], 256, i, one);
        job_fill(at[i], WORDS, i, one);
        if (free)
            CU(cuMemFreeAsync(some[i], i % 2 ? NULL : CU_STREAM_LEGACY));
        else
            CU(cuMemAllocAsync(&some[i], BYTES, i % 2 ? NULL : CU_STREAM_LEGACY));
        job_add(at[i], other, WORDS, i % 3 ? two : CU_STREAM_PER_THREAD);
    }
    for (unsigned i = 0; i < COUNT; i++)
        CHECK_SUM(at[i], WORDS, i, 99);
}

static void legacy_frees(void)
{
    legacy_actions(true);
}

static void legacy_allocations(void)
{
    legacy_actions(false);
}

/* Freed in one stream and given out in another: the new owner comes after the old one. */
static void free_and_reuse(void)
{
    enum { ROUNDS = 12 };
    CUdeviceptr kept[ROUNDS], sum;
    CUstream one, two;

    cuda_start();
    one = stream_make(CU_STREAM_NON_BLOCKING);
    two = stream_make(CU_STREAM_NON_BLOCKING);
    CU(cuMemAllocAsync(&sum, BYTES, one));
    for (unsigned i = 0; i < ROUNDS; i++) {
        CUdeviceptr a;

        CU(cuMemAllocAsync(&a, BYTES, one));
        job_fill(a, WORDS, 100 + i, one);
        job_copy(sum, a, WORDS, one);
        CU(cuMemFreeAsync(a, one));
        CU(cuMemAllocAsync(&kept[i], BYTES, two));
        job_fill(kept[i], WORDS, i, two);
    }
    CHECK_WORDS(sum, WORDS, 100 + ROUNDS - 1);
    for (unsigned i = 0; i < ROUNDS; i++)
        CHECK_WORDS(kept[i], WORDS, i);
}

/* A stream goes with its work queued; then its memory has to make way. */
static void destroyed_with_work(void)
{
    enum { COUNT = 10 };
    CUdeviceptr at[COUNT];

    cuda_start();
    for (unsigned i = 0; i < COUNT; i++) {
        CUstream stream = stream_make(CU_STREAM_NON_BLOCKING);

        CU(cuMemAlloc(&at[i], BYTES));
        job_fill(at[i], WORDS, i, stream);
        CU(cuStreamDestroy(stream));
    }
    job_flush();
    for (unsigned i = 0; i < COUNT; i++)
        CHECK_WORDS(at[i], WORDS, i);
}

/* The same by the function's first version, which has the plain name. */
static void destroyed_by_old_name(void)
{
    __typeof__(&cuStreamDestroy) destroy;
    enum { COUNT = 10 };
    CUdeviceptr at[COUNT];

    cuda_start();
    *(void **)&destroy = job_symbol("cuStreamDestroy");
    for (unsigned round = 0; round < 4; round++) {
        for (unsigned i = 0; i < COUNT; i++) {
            CUstream stream = stream_make(CU_STREAM_NON_BLOCKING);

            if (!round)
                CU(cuMemAlloc(&at[i], BYTES));
            job_fill(at[i], WORDS, i + round, stream);
            destroy(stream);
        }
        job_flush();
        for (unsigned i = 0; i < COUNT; i++)
            CHECK_WORDS(at[i], WORDS, i + round);
    }
}

/* More streams than are known at once, all with work outstanding. */
static void many(void)
{
    enum { STREAMS = 80, BUFFERS = 20, SMALL = 1 << 16 };
    CUstream stream[STREAMS];
    CUdeviceptr at[BUFFERS];

    cuda_start();
    for (unsigned i = 0; i < BUFFERS; i++)
        CU(cuMemAlloc(&at[i], BYTES));
    for (unsigned s = 0; s < STREAMS; s++) {
        stream[s] = stream_make(CU_STREAM_NON_BLOCKING);
        job_fill(at[s % BUFFERS] + s / BUFFERS * SMALL, SMALL / 4, s, stream[s]);
    }
    for (unsigned s = 0; s < STREAMS; s++)
        CHECK_WORDS(at[s % BUFFERS] + s / BUFFERS * SMALL, SMALL / 4, s);
    for (unsigned s = 0; s < STREAMS; s++)
        CU(cuStreamDestroy(stream[s]));
}

/* The job's own events, recorded and waited for across streams and from the host. */
static void events(void)
{
    enum { COUNT = 14 };
    CUdeviceptr at[COUNT];
    CUevent event[COUNT];
    CUstream one, two;

    cuda_start();
    one = stream_make(CU_STREAM_NON_BLOCKING);
    two = stream_make(CU_STREAM_NON_BLOCKING);
    for (unsigned i = 0; i < COUNT; i++) {
        CU(cuMemAlloc(&at[i], BYTES));
        CU(cuEventCreate(&event[i], CU_EVENT_DISABLE_TIMING));
        job_fill(at[i], WORDS, i, one);
        CU(cuEventRecord(event[i], one));
    }
    for (unsigned i = 0; i + 1 < COUNT; i++) {
        CU(cuStreamWaitEvent(two, event[i + 1], 0));
        job_add(at[i], at[i + 1], WORDS, two);
    }
    CU(cuEventRecord(event[0], two));
    CU(cuEventSynchronize(event[0]));
    CU(cuEventQuery(event[0]));
    for (unsigned i = 0; i + 1 < COUNT; i++)
        CHECK_SUM(at[i], WORDS, i, i + 1);
}

static pthread_barrier_t go, gone;
static CUdeviceptr thread_at[8];

/* Fills buffers in its own default stream, says so, and ends without waiting. */
static void *fill_in_own_stream(void *unused)
{
    (void)unused;
    CU(cuCtxSetCurrent(job_context()));
    job_fill_slowly(thread_at[0], 256, 0, CU_STREAM_PER_THREAD);
    for (unsigned i = 0; i < 8; i++)
        job_fill(thread_at[i], WORDS, i, CU_STREAM_PER_THREAD);
    pthread_barrier_wait(&go);
    pthread_barrier_wait(&gone);
    return NULL;
}

/* What another thread's default stream still works on has to make way: no event of this thread's tells of it.
 */
static void per_thread(void)
{
    pthread_t thread;

    cuda_start();
    pthread_barrier_init(&go, NULL, 2);
    pthread_barrier_init(&gone, NULL, 2);
    for (unsigned i = 0; i < 8; i++)
        CU(cuMemAlloc(&thread_at[i], BYTES));
    pthread_create(&thread, NULL, fill_in_own_stream, NULL);
    pthread_barrier_wait(&go);
    job_flush();
    pthread_barrier_wait(&gone);
    pthread_join(thread, NULL);
    for (unsigned i = 0; i < 8; i++)
        CHECK_WORDS(thread_at[i], WORDS, i);
}

/* Work of a thread that has ended; the next thread has its id, and a default stream of its own. */
static void *fill_again(void *seed)
{
    CU(cuCtxSetCurrent(job_context()));
    if (!seed)
        job_fill_slowly(thread_at[0], 256, 0, CU_STREAM_PER_THREAD);
    for (unsigned i = 0; i < 8; i++)
        job_fill(thread_at[i], WORDS, i, CU_STREAM_PER_THREAD);
    if (seed)
        job_flush();
    return NULL;
}

static void threads_come_and_go(void)
{
    cuda_start();
    for (unsigned i = 0; i < 8; i++)
        CU(cuMemAlloc(&thread_at[i], BYTES));
    for (uintptr_t round = 0; round < 12; round++) {
        pthread_t thread;

        pthread_create(&thread, NULL, fill_again, round % 2 ? &go : NULL);
        pthread_join(thread, NULL);
        CU(cuCtxSynchronize());
    }
    for (unsigned i = 0; i < 8; i++)
        CHECK_WORDS(thread_at[i], WORDS, i);
}

/* Waits for the stream in one of the ways there are; the last ones ask until it is so. */
static void wait_somehow(unsigned way, CUstream stream, CUevent event)
{
    CUresult (*synchronize)(CUcontext);

    switch (way) {
    case 0:
        CU(cuStreamSynchronize(stream));
        break;
    case 1:
        CU(cuCtxSynchronize());
        break;
    case 2: /* CUDA 13 */
        *(void **)&synchronize = job_symbol("cuCtxSynchronize_v2");
        REQUIRE(synchronize(job_context()) == CUDA_SUCCESS);
        break;
    case 3:
        CU(cuEventRecord(event, stream));
        CU(cuEventSynchronize(event));
        break;
    case 4:
        CU(cuEventRecord(event, stream));
        while (cuda.cuEventQuery(event) == CUDA_ERROR_NOT_READY)
            ;
        break;
    case 5:
        while (cuda.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
            ;
        break;
    default: /* an event in another stream, behind this one */
        wait_for(NULL, stream);
        CU(cuEventRecord(event, NULL));
        CU(cuEventSynchronize(event));
    }
}

/* What kernels write into the host's memory is there as soon as the job can know that they have ended. */
static void seen_by_host(void)
{
    enum { COUNT = 10, WAYS = 7, SOME = 1024 };
    uint32_t *pinned;
    CUdeviceptr at[COUNT];
    CUstream stream;
    CUevent event;

    cuda_start();
    stream = stream_make(CU_STREAM_NON_BLOCKING);
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CU(cuMemHostAlloc((void **)&pinned, SOME * 4, CU_MEMHOSTALLOC_PORTABLE));
    for (unsigned i = 0; i < COUNT; i++)
        CU(cuMemAlloc(&at[i], BYTES));
    for (unsigned way = 0; way < WAYS; way++) {
        for (unsigned i = 0; i < COUNT; i++)
            job_fill(at[i], WORDS, way + i, stream);
        memset(pinned, 0, SOME * 4);
        job_copy((CUdeviceptr)(uintptr_t)pinned, at[way], SOME, stream);
        wait_somehow(way, stream, event);
        for (uint32_t k = 0; k < SOME; k++)
            REQUIRE(pinned[k] == job_word(2 * way, k), "way %u, word %u", way, k);
    }
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool released;

static void CUDA_CB wait_until_released(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    while (!released)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void *work_then_release(void *unused)
{
    enum { COUNT = 14 };
    CUdeviceptr at[COUNT];
    CUstream stream;

    (void)unused;
    CU(cuCtxSetCurrent(job_context()));
    stream = stream_make(CU_STREAM_NON_BLOCKING);
    for (unsigned i = 0; i < COUNT; i++) {
        CU(cuMemAllocAsync(&at[i], BYTES, stream));
        job_fill(at[i], WORDS, 50 + i, stream);
    }
    for (unsigned i = 0; i + 1 < COUNT; i++)
        job_add(at[i], at[i + 1], WORDS, stream);
    CU(cuStreamSynchronize(stream));
    pthread_mutex_lock(&lock);
    released = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (unsigned i = 0; i + 1 < COUNT; i++)
        CHECK_SUM(at[i], WORDS, 50 + i, 51 + i);
    return NULL;
}

/*
 * A stream stands behind a host function that waits for another thread, which needs more memory than is free:
 * nothing that the stream is about to touch may be waited for.
 */
static void host_function(void)
{
    CUdeviceptr before, behind;
    pthread_t thread;
    CUstream stream;

    cuda_start();
    stream = stream_make(CU_STREAM_NON_BLOCKING);
    CU(cuMemAlloc(&before, BYTES));
    CU(cuMemAlloc(&behind, BYTES));
    job_fill(before, WORDS, 1, stream);
    job_fill(behind, WORDS, 2, stream);
    CU(cuLaunchHostFunc(stream, wait_until_released, NULL));
    job_add(behind, before, WORDS, stream);
    pthread_create(&thread, NULL, work_then_release, NULL);
    pthread_join(thread, NULL);
    CHECK_WORDS(before, WORDS, 1);
    CHECK_SUM(behind, WORDS, 2, 1);
}

static const struct scenario scenarios[] = {
    {.name = "non_blocking", .job = non_blocking, .flags = SCENARIO_SPILLS},
    {.name = "blocking", .job = blocking, .flags = SCENARIO_SPILLS},
    {.name = "legacy", .job = legacy, .flags = SCENARIO_SPILLS},
    {.name = "legacy_frees", .job = legacy_frees, .flags = SCENARIO_SPILLS},
    {.name = "legacy_frees_roomy", .job = legacy_frees, .hbm = "256M"},
    /* Whether the driver does it too is open; where it does a job may rely on it. */
    {.name = "legacy_allocations", .job = legacy_allocations, .flags = SCENARIO_SPILLS | SCENARIO_NOT_NATIVE},
    {.name = "legacy_allocations_roomy",
     .job = legacy_allocations,
     .flags = SCENARIO_NOT_NATIVE,
     .hbm = "256M"},
    {.name = "free_and_reuse", .job = free_and_reuse, .flags = SCENARIO_SPILLS},
    {.name = "destroyed_with_work", .job = destroyed_with_work, .flags = SCENARIO_SPILLS},
    {.name = "destroyed_by_old_name", .job = destroyed_by_old_name, .flags = SCENARIO_SPILLS},
    {.name = "many", .job = many, .flags = SCENARIO_SPILLS},
    {.name = "events", .job = events, .flags = SCENARIO_SPILLS},
    {.name = "per_thread", .job = per_thread, .flags = SCENARIO_SPILLS},
    {.name = "host_function", .job = host_function, .flags = SCENARIO_SPILLS},
    {.name = "seen_by_host", .job = seen_by_host, .flags = SCENARIO_SPILLS},
    {.name = "threads_come_and_go", .job = threads_come_and_go, .flags = SCENARIO_SPILLS},
};

int main(int argc, char **argv)
{
    return scenarios_main(argc, argv, "streams", scenarios, sizeof scenarios / sizeof *scenarios, 20);
}
