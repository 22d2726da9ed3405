/*
 * Events and host functions held behind operations (hooks/window.h, the window's tail): nobody may notice,
 * but that what a job gives back right behind them is not written back. An event is held once it was recorded
 * before, so each is.
 */
#include "tests/integration/job.h"
#include "tests/integration/scenario.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { BYTES = 3 << 20, WORDS = BYTES / 4, ROUNDS = 6 };

static CUstream begin(void)
{
    cuda_start();
    job_flush();
    return job_stream();
}

static CUevent event_in(CUstream stream, unsigned flags)
{
    CUevent event;

    CU(cuEventCreate(&event, flags));
    CU(cuEventRecord(event, stream));
    CU(cuEventSynchronize(event));
    return event;
}

static atomic_uint ended;

static void CUDA_CB host_function(void *unused)
{
    (void)unused;
    atomic_fetch_add(&ended, 1);
}

/*
 * As XLA does it: arguments that are not donated are given back when the program has been launched and a host
 * function in another stream will say when it has ended; late: only when it has said so.
 */
static void run_rounds(bool late)
{
    enum { STATE = 6 };
    CUstream stream = begin(), callbacks;
    CUdeviceptr state[STATE], next[STATE];
    CUevent event;

    CU(cuStreamCreate(&callbacks, CU_STREAM_NON_BLOCKING));
    event = event_in(stream, CU_EVENT_DISABLE_TIMING);
    for (uint32_t i = 0; i < STATE; i++) {
        CU(cuMemAllocAsync(&state[i], BYTES, stream));
        job_fill(state[i], WORDS, i, stream);
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < STATE; i++) {
            CU(cuMemAllocAsync(&next[i], BYTES, stream));
            job_copy(next[i], state[i], WORDS, stream);
        }
        CU(cuEventRecord(event, stream));
        CU(cuStreamWaitEvent(callbacks, event, 0));
        CU(cuLaunchHostFunc(callbacks, host_function, NULL));
        while (late && atomic_load(&ended) <= round)
            sched_yield();
        for (uint32_t i = 0; i < STATE; i++) {
            CU(cuMemFreeAsync(state[i], stream));
            state[i] = next[i];
        }
        while (atomic_load(&ended) <= round)
            sched_yield();
    }
    for (uint32_t i = 0; i < STATE; i++)
        CHECK_WORDS(state[i], WORDS, i);
}

static void arguments(void)
{
    run_rounds(false);
}

static void arguments_late(void)
{
    run_rounds(true);
}

static void inspect_held(const struct outcome *outcome)
{
    ck_assert_uint_gt(outcome_number(outcome->statistics, "windows"), 0);
    ck_assert_uint_gt(outcome_number(outcome->statistics, "held"), 0);
}

static const struct scenario late_scenario = {
    .name = "arguments_late", .job = arguments_late, .hbm = "32M", .inspect = inspect_held};

static void inspect_arguments(const struct outcome *outcome)
{
    uint64_t in_time = outcome_number(outcome->statistics, "bytes_out"), late;

    inspect_held(outcome);
    outcome = scenario_run(&late_scenario, "eager", "");
    ck_assert_int_eq(outcome->status, 0);
    late = outcome_number(outcome->statistics, "bytes_out");
    /* Six rounds, each with 18 MiB that are given back, of which about 7 have to make room. */
    ck_assert_msg(in_time + 24 * MIB < late,
                  "%llu MiB went out where arguments are given back in time, %llu else",
                  (unsigned long long)(in_time >> 20), (unsigned long long)(late >> 20));
}

/* By each call that asks something of an event. */
static void questions(void)
{
    CUstream stream = begin();
    CUevent start = event_in(stream, CU_EVENT_DEFAULT), end = event_in(stream, CU_EVENT_DEFAULT);
    volatile uint32_t *word = job_pinned_word();
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)word;
    CUresult status;
    float passed;

    for (uint32_t round = 1; round <= ROUNDS; round++) {
        job_fill(at, 1, round, stream);
        CU(cuEventRecord(end, stream));
        while ((status = cuda.cuEventQuery(end)) == CUDA_ERROR_NOT_READY)
            sched_yield();
        REQUIRE(status == CUDA_SUCCESS && *word == job_word(round, 0), "by a query");
        job_fill(at, 1, round + 100, stream);
        CU(cuEventRecord(end, stream));
        CU(cuEventSynchronize(end));
        REQUIRE(*word == job_word(round + 100, 0), "by a wait");
        CU(cuEventRecord(start, stream));
        job_fill(at, 1, round + 200, stream);
        CU(cuEventRecord(end, stream));
        while ((status = cuda.cuEventElapsedTime(&passed, start, end)) == CUDA_ERROR_NOT_READY)
            sched_yield();
        REQUIRE(status == CUDA_SUCCESS && passed >= 0 && *word == job_word(round + 200, 0), "by its time");
    }
}

/* A stream in which nothing is held waits for an event that is. */
static void waits_elsewhere(void)
{
    CUstream one = begin(), other, third;
    CUevent event = event_in(one, CU_EVENT_DISABLE_TIMING);
    CUdeviceptr from, to, more;

    CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&third, CU_STREAM_NON_BLOCKING));
    CU(cuMemAllocAsync(&from, BYTES, one));
    CU(cuMemAllocAsync(&to, BYTES, one));
    CU(cuMemAllocAsync(&more, BYTES, one));
    CU(cuStreamSynchronize(one));
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        job_fill(from, WORDS, round, one);
        CU(cuEventRecord(event, one));
        CU(cuStreamWaitEvent(other, event, 0));
        job_copy(to, from, WORDS, other);
        CU(cuEventRecord(event, other)); /* another meaning from here on */
        CU(cuStreamWaitEvent(third, event, round % 2 ? CU_EVENT_WAIT_DEFAULT : CU_EVENT_WAIT_EXTERNAL));
        job_copy(more, to, WORDS, third);
        CU(cuStreamSynchronize(third));
        CHECK_WORDS(more, WORDS, round);
    }
}

/* Their record or a wait for them is held when they go. */
static void events_that_go(void)
{
    CUstream stream = begin();
    CUdeviceptr at;

    CU(cuMemAllocAsync(&at, BYTES, stream));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        CUevent recorded = event_in(stream, CU_EVENT_DISABLE_TIMING);
        CUevent waited_for = event_in(stream, CU_EVENT_DISABLE_TIMING);

        job_fill(at, WORDS, round, stream);
        CU(cuEventRecord(recorded, stream));
        CU(cuEventDestroy(recorded));
        job_fill(at, WORDS, round + 50, stream);
        CU(cuStreamWaitEvent(stream, waited_for, 0));
        CU(cuEventDestroy(waited_for));
        CU(cuStreamSynchronize(stream));
        CHECK_WORDS(at, WORDS, round + 50);
    }
}

/* More than a window keeps account of. */
static void many_events(void)
{
    enum { COUNT = 40 };
    CUstream stream = begin();
    volatile uint32_t *word = job_pinned_word();
    CUevent event[COUNT];

    for (unsigned i = 0; i < COUNT; i++)
        event[i] = event_in(stream, CU_EVENT_DISABLE_TIMING);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        job_fill((CUdeviceptr)(uintptr_t)word, 1, round, stream);
        for (unsigned i = 0; i < COUNT; i++)
            CU(cuEventRecord(event[i], stream));
        CU(cuEventSynchronize(event[round % 2 ? 0 : COUNT - 1]));
        REQUIRE(*word == job_word(round, 0));
    }
}

static atomic_uint turn;

static void CUDA_CB give_turn(void *round)
{
    atomic_store(&turn, (unsigned)(uintptr_t)round);
}

static volatile uint32_t *answer;

static void *answer_each(void *unused)
{
    CUstream stream;

    CU(cuCtxSetCurrent(job_context()));
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        while (atomic_load(&turn) != round)
            sched_yield();
        job_fill((CUdeviceptr)(uintptr_t)answer, 1, round, stream);
        CU(cuLaunchHostFunc(stream, host_function, NULL));
    }
    return unused;
}

/* A host function lets another thread go on, whose kernel the first thread waits for, all without a question.
 */
static void threads_that_answer(void)
{
    CUstream stream = begin();
    CUdeviceptr at;
    pthread_t thread;

    answer = job_pinned_word();
    CU(cuMemAllocAsync(&at, BYTES, stream));
    pthread_create(&thread, NULL, answer_each, NULL);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        job_fill(at, WORDS, round, stream);
        CU(cuLaunchHostFunc(stream, give_turn, (void *)(uintptr_t)round));
        while (*answer != job_word(round, 0) || atomic_load(&ended) < round)
            sched_yield();
        CHECK_WORDS(at, WORDS, round);
    }
    pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    const struct scenario scenarios[] = {
        {.name = "arguments", .job = arguments, .hbm = "32M", .inspect = inspect_arguments},
        late_scenario,
        {.name = "questions", .job = questions, .inspect = inspect_held},
        {.name = "waits_elsewhere", .job = waits_elsewhere, .inspect = inspect_held},
        {.name = "events_that_go", .job = events_that_go, .inspect = inspect_held},
        {.name = "many_events", .job = many_events, .inspect = inspect_held},
        {.name = "threads_that_answer", .job = threads_that_answer, .inspect = inspect_held},
    };

    return scenarios_main(argc, argv, "tail", scenarios, sizeof scenarios / sizeof *scenarios, 30);
}
