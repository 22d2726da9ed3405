/*
 * Operations that are held and submitted together (HBMSPILL_WINDOW): nobody may notice, but that temporaries
 * freed in time are not written back. job_flush() before, so that memory was short once and holding begins.
 */
#include "tests/integration/job.h"
#include "tests/integration/scenario.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

enum { BYTES = 3 << 20, WORDS = BYTES / 4 };

static CUstream begin(void)
{
    cuda_start();
    job_flush();
    return job_stream();
}

/* A job that spins on memory makes no call by which held work could be submitted. */
static void polling(void)
{
    CUstream stream = begin();
    volatile uint32_t *word = job_pinned_word();

    for (uint32_t round = 1; round < 6; round++) {
        job_fill((CUdeviceptr)(uintptr_t)word, 1, round, stream);
        while (*word != job_word(round, 0))
            sched_yield();
    }
}

static atomic_uint called;
static volatile uint32_t *host_word;

static void CUDA_CB host_function(void *seed)
{
    /* What was launched before has written. */
    if (*host_word == job_word((uint32_t)(uintptr_t)seed, 0))
        atomic_fetch_add(&called, 1);
}

static void host_functions(void)
{
    CUstream stream = begin();

    host_word = job_pinned_word();
    for (uint32_t round = 1; round < 6; round++) {
        job_fill((CUdeviceptr)(uintptr_t)host_word, 1, round, stream);
        CU(cuLaunchHostFunc(stream, host_function, (void *)(uintptr_t)round));
        while (atomic_load(&called) != round) /* without a call */
            sched_yield();
    }
}

static void queries(void)
{
    CUstream stream = begin();
    CUdeviceptr at;
    CUevent event;

    CU(cuMemAllocAsync(&at, BYTES, stream));
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (uint32_t round = 0; round < 4; round++) {
        CUresult status;

        job_fill(at, WORDS, round, stream);
        while ((status = cuda.cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY)
            sched_yield();
        REQUIRE(status == CUDA_SUCCESS);
        job_fill(at, WORDS, round + 50, stream);
        CU(cuEventRecord(event, stream));
        while ((status = cuda.cuEventQuery(event)) == CUDA_ERROR_NOT_READY)
            sched_yield();
        REQUIRE(status == CUDA_SUCCESS);
        CHECK_WORDS(at, WORDS, round + 50);
    }
    CU(cuMemFreeAsync(at, stream));
    CU(cuStreamSynchronize(stream));
}

/* What a launch was given may change as soon as it returns. */
static void arguments_are_copied(void)
{
    enum { COUNT = 6 };
    CUstream stream = begin();
    CUdeviceptr at[COUNT], address;
    uint32_t words = WORDS, seed;
    void *params[] = {&address, &words, &seed};

    for (uint32_t i = 0; i < COUNT; i++) {
        CU(cuMemAllocAsync(&at[i], BYTES, stream));
        address = at[i];
        seed = i;
        REQUIRE(job_launch(job_kernel("fill"), WORDS, stream, params) == CUDA_SUCCESS);
    }
    address = 0;
    seed = 99;
    for (uint32_t i = 0; i < COUNT; i++)
        CHECK_WORDS(at[i], WORDS, i);
}

/* Kernels, copies and memsets of several streams, ordered by events. */
static void mixed(void)
{
    enum { COUNT = 10 };
    CUstream one = begin(), two;
    CUdeviceptr a[COUNT], b[COUNT];
    CUevent event;

    CU(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (uint32_t i = 0; i < COUNT; i++) {
        CU(cuMemAllocAsync(&a[i], BYTES, one));
        CU(cuMemAllocAsync(&b[i], BYTES, one));
        CU(cuMemsetD32Async(b[i], 7, WORDS, one));
        job_fill(a[i], WORDS, i, one);
        CU(cuMemcpyDtoDAsync(b[i], a[i], BYTES, one));
        CU(cuEventRecord(event, one));
        CU(cuStreamWaitEvent(two, event, 0));
        job_fill(a[i], WORDS, i + 100, two);
        job_add(a[i], b[i], WORDS, two);
    }
    CU(cuStreamSynchronize(two));
    for (uint32_t i = 0; i < COUNT; i++) {
        CHECK_SUM(a[i], WORDS, i + 100, i);
        CHECK_WORDS(b[i], WORDS, i);
    }
}

/* What cannot be is told at the call, as without a window, and the job goes on. */
static void errors(void)
{
    CUstream stream = begin();
    CUdeviceptr big[2], small;
    uint32_t words = 256;
    void *params[] = {&big[0], &big[1], &words};

    CU(cuMemAllocAsync(&big[0], 24 * MIB, stream));
    CU(cuMemAllocAsync(&big[1], 24 * MIB, stream));
    CU(cuMemAllocAsync(&small, BYTES, stream));
    job_fill(small, WORDS, 1, stream);
    REQUIRE(job_launch(job_kernel("add"), 256, stream, params) ==
            CUDA_ERROR_OUT_OF_MEMORY); /* 48 MiB at once */
    CU(cuStreamSynchronize(stream));
    CHECK_WORDS(small, WORDS, 1);
    job_fill(small, WORDS, 2, stream);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(job_kernel("fill"), 0, 1, 1, 256, 1, 1, 0, stream,
                                                    (void *[]){&small, &words, &words}, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(job_kernel("fill"), 1, 1, 1, 4096, 1, 1, 0, stream,
                                                    (void *[]){&small, &words, &words}, NULL));
    CHECK_WORDS(small, WORDS, 2);
}

/* A copy whose ends are not in HBM together is made all the same. */
static void copies_that_do_not_fit(void)
{
    CUstream stream = begin();
    CUdeviceptr from, to;

    CU(cuMemAllocAsync(&from, 24 * MIB, stream));
    CU(cuMemAllocAsync(&to, 24 * MIB, stream));
    job_fill(from, 6 * MIB, 1, stream);
    CU(cuMemcpyDtoDAsync(to, from, 24 * MIB, stream));
    job_fill(from, 6 * MIB, 2, stream);
    CU(cuStreamSynchronize(stream));
    CHECK_WORDS(to, 6 * MIB, 1);
    CHECK_WORDS(from, 6 * MIB, 2);
}

/*
 * A submission that fails: HBM and the host tier are full. Whatever the job does next it is told, in every
 * stream, however often it asks; only what gives something back succeeds.
 */
static void errors_stay(void)
{
    enum { COUNT = 24 };
    CUstream stream = begin(), other;
    CUdeviceptr at[COUNT];
    uint32_t word;
    void *memory;

    CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CU(cuMemHostAlloc(&memory, 4096, 0));
    for (unsigned i = 0; i < COUNT; i++)
        CU(cuMemAllocAsync(&at[i], BYTES, stream));
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t words = WORDS;
        void *params[] = {&at[i], &words, &i};

        REQUIRE(job_launch(job_kernel("fill"), WORDS, stream, params) == CUDA_SUCCESS, "not held");
    }
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuStreamSynchronize(stream));
    for (unsigned i = 0; i < 2; i++) {
        EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuStreamSynchronize(stream));
        EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuStreamSynchronize(other));
        EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemcpyDtoHAsync(&word, at[0], 4, other));
        EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemcpyDtoH(&word, at[0], 4));
        EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemsetD32Async(at[0], 0, 1, stream));
    }
    CU(cuMemFreeAsync(at[0], stream));
    CU(cuMemFree(at[1]));
    CU(cuMemFreeHost(memory));
    exit(0); /* the job's end would look for errors */
}

static void *thread_body(void *argument)
{
    uint32_t seed = (uint32_t)(uintptr_t)argument;
    CUdeviceptr at[3];
    CUstream stream;

    CU(cuCtxSetCurrent(job_context()));
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned round = 0; round < 6; round++) {
        for (uint32_t i = 0; i < 3; i++) {
            CU(cuMemAllocAsync(&at[i], BYTES, stream));
            job_fill(at[i], WORDS, seed + i, stream);
        }
        job_add(at[0], at[1], WORDS, stream);
        if (round % 2)
            usleep(300); /* the helper submits */
        CU(cuStreamSynchronize(stream));
        CHECK_SUM(at[0], WORDS, seed, seed + 1);
        CHECK_WORDS(at[2], WORDS, seed + 2);
        for (unsigned i = 0; i < 3; i++)
            CU(cuMemFreeAsync(at[i], stream));
    }
    CU(cuStreamSynchronize(stream));
    return NULL;
}

static void threads(void)
{
    pthread_t thread[4];

    begin();
    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&thread[i], NULL, thread_body, (void *)(10 * (i + 1)));
    for (unsigned i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
}

/* Rounds over kept buffers and temporaries, freed where XLA frees them: at the end of the round, before it
 * waits. */
static void rounds(void)
{
    enum { KEPT = 4, TEMPORARIES = 12, ROUNDS = 5 };
    CUstream stream = begin();
    CUdeviceptr kept[KEPT], temporary[TEMPORARIES];

    for (uint32_t i = 0; i < KEPT; i++) {
        CU(cuMemAllocAsync(&kept[i], 4 * MIB, stream));
        job_fill(kept[i], MIB, i, stream);
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < TEMPORARIES; i++)
            CU(cuMemAllocAsync(&temporary[i], BYTES, stream));
        for (uint32_t i = 0; i < TEMPORARIES; i++) {
            job_fill(temporary[i], WORDS, round, stream);
            job_copy(temporary[i], kept[i % KEPT], WORDS, stream);
        }
        for (uint32_t i = 0; i < TEMPORARIES; i++)
            CU(cuMemFreeAsync(temporary[i], stream));
        CU(cuStreamSynchronize(stream));
    }
    for (uint32_t i = 0; i < KEPT; i++)
        CHECK_WORDS(kept[i], MIB, i);
}

static void inspect_held(const struct outcome *outcome)
{
    ck_assert_uint_gt(outcome_number(outcome->statistics, "windows"), 0);
    ck_assert_uint_gt(outcome_number(outcome->statistics, "held"), 0);
}

static const struct scenario rounds_scenario;

/* Known dead is not written back: less than half of what goes out without a window. */
static void inspect_rounds(const struct outcome *outcome)
{
    uint64_t with = outcome_number(outcome->statistics, "bytes_out"), without;

    inspect_held(outcome);
    outcome = scenario_run(&rounds_scenario, "eager", "HBMSPILL_WINDOW=off");
    ck_assert_int_eq(outcome->status, 0);
    ck_assert_uint_eq(outcome_number(outcome->statistics, "windows"), 0);
    without = outcome_number(outcome->statistics, "bytes_out");
    ck_assert_msg(2 * with < without, "%llu MiB went out with a window, %llu without",
                  (unsigned long long)(with >> 20), (unsigned long long)(without >> 20));
}

static const struct scenario rounds_scenario = {
    .name = "rounds", .job = rounds, .flags = SCENARIO_SPILLS, .hbm = "32M", .inspect = inspect_rounds};

int main(int argc, char **argv)
{
    const struct scenario scenarios[] = {
        {.name = "polling", .job = polling, .inspect = inspect_held},
        {.name = "host_functions", .job = host_functions, .inspect = inspect_held},
        {.name = "queries", .job = queries, .inspect = inspect_held},
        {.name = "arguments_are_copied", .job = arguments_are_copied, .inspect = inspect_held},
        {.name = "mixed", .job = mixed, .flags = SCENARIO_SPILLS, .inspect = inspect_held},
        {.name = "errors",
         .job = errors,
         .variables = "SYNTHETIC_GPU_HOST_VMM=off",
         .flags = SCENARIO_NOT_NATIVE,
         .inspect = inspect_held},
        {.name = "copies_that_do_not_fit", .job = copies_that_do_not_fit, .inspect = inspect_held},
        {.name = "errors_stay",
         .job = errors_stay,
         .flags = SCENARIO_NOT_NATIVE | SCENARIO_UNCOUNTED,
         .variables = "HBMSPILL_HOST_LIMIT=24M"},
        {.name = "threads", .job = threads, .flags = SCENARIO_SPILLS, .inspect = inspect_held},
        {.name = "small_window",
         .job = mixed,
         .flags = SCENARIO_SPILLS,
         .variables = "HBMSPILL_WINDOW=3",
         .inspect = inspect_held},
        rounds_scenario,
    };

    return scenarios_main(argc, argv, "window", scenarios, sizeof scenarios / sizeof *scenarios, 30);
}
