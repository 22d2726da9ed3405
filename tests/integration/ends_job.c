/*
 * ends_job.c - jobs that end in the middle of their swaps, one way or another.
 *
 * Threads swap without end; once memory is short and all is moving one byte is written to standard output,
 * which the test waits for.
 */
#include "tests/integration/ends_job.h"
#include "tests/integration/job.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

enum { THREADS = 2, BUFFERS = 10, WORDS = 4 * 1024 * 1024 / 4, FEW = 64 };

static atomic_uint interrupts, rounds_done;
static atomic_bool enough;

/* Says once that memory is short and all is moving: the test waits for it. */
static void say_swapping(void)
{
    static atomic_bool said;

    if (!atomic_exchange(&said, true))
        REQUIRE(write(STDOUT_FILENO, "s", 1) == 1);
}

static void swap(uint32_t base)
{
    CUdeviceptr at[BUFFERS];
    CUstream stream;

    CU(cuCtxSetCurrent(job_context()));
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (uint32_t i = 0; i < BUFFERS; i++) {
        CU(cuMemAllocAsync(&at[i], WORDS * 4ul, stream));
        job_fill(at[i], WORDS, base + i, stream);
    }
    for (uint32_t k = 0; !atomic_load(&enough); k++) {
        CUdeviceptr sum;

        for (uint32_t i = 0; i < BUFFERS; i++) {
            CU(cuMemAllocAsync(&sum, WORDS * 4ul, stream));
            job_copy(sum, at[i], FEW, stream);
            job_add(sum, at[(i + 1) % BUFFERS], FEW, stream);
            if (i == k % BUFFERS)
                CHECK_SUM(sum, FEW, base + i, base + (i + 1) % BUFFERS);
            CU(cuMemFreeAsync(sum, stream));
        }
        CU(cuStreamSynchronize(stream));
        if (atomic_fetch_add(&rounds_done, 1) > 2)
            say_swapping();
    }
    for (uint32_t i = 0; i < BUFFERS; i++)
        CHECK_WORDS(at[i], WORDS, base + i);
}

static void *swap_thread(void *base)
{
    swap((uint32_t)(uintptr_t)base);
    return NULL;
}

static void start_threads(pthread_t thread[THREADS])
{
    cuda_start();
    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&thread[i], NULL, swap_thread, (void *)(i * 100)) == 0);
}

static void until_swapping(unsigned more)
{
    while (atomic_load(&rounds_done) < 4 + more)
        usleep(200);
}

static void swap_on(void)
{
    cuda_start();
    swap(0);
}

static void swap_beside(void)
{
    pthread_t thread[THREADS];

    start_threads(thread);
    swap(1000);
}

static __attribute__((noreturn)) void exit_with_threads(int status)
{
    atomic_store(&job_ends, true);
    exit(status);
}

static void *exit_here(void *status)
{
    until_swapping(1);
    exit_with_threads((int)(intptr_t)status);
}

static void thread_exits(void)
{
    pthread_t thread[THREADS], other;

    start_threads(thread);
    REQUIRE(pthread_create(&other, NULL, exit_here, (void *)9) == 0);
    pthread_join(other, NULL);
}

static void main_exits(void)
{
    pthread_t thread[THREADS];

    start_threads(thread);
    until_swapping(2);
    exit_with_threads(8);
}

/* The process ends with its last thread. */
static void main_thread_ends(void)
{
    pthread_t thread[THREADS], other;

    start_threads(thread);
    REQUIRE(pthread_create(&other, NULL, exit_here, (void *)7) == 0);
    pthread_exit(NULL);
}

static void at_quick_exit_says(void)
{
    (void)!write(STDERR_FILENO, "quick\n", 6);
}

static void quick_exits(void)
{
    pthread_t thread[THREADS];

    at_quick_exit(at_quick_exit_says);
    start_threads(thread);
    until_swapping(2);
    quick_exit(6);
}

static void aborts(void)
{
    pthread_t thread[THREADS];

    start_threads(thread);
    until_swapping(2);
    abort();
}

/* Uses the driver while the process ends: after our own work at exit, or before, nobody knows. */
static CUdeviceptr last;

static void free_late(void)
{
    (void)cuda.cuMemFree(last);
    (void)cuda.cuCtxSynchronize();
}

static void frees_at_exit(void)
{
    pthread_t thread[THREADS];

    atexit(free_late);
    start_threads(thread);
    CU(cuMemAlloc(&last, 8 * MIB));
    until_swapping(2);
    exit_with_threads(5);
}

static void count(int signal)
{
    (void)signal;
    atomic_fetch_add(&interrupts, 1);
}

/* Ctrl-C with a handler that returns, as Python's does: without SA_RESTART, in the middle of everything. */
static void interrupted(void)
{
    struct sigaction action = {.sa_handler = count};
    pthread_t thread[THREADS];

    REQUIRE(!sigaction(SIGINT, &action, NULL) && !sigaction(SIGTERM, &action, NULL));
    start_threads(thread);
    while (atomic_load(&interrupts) < 100)
        usleep(1000);
    atomic_store(&enough, true);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    job_end();
    exit(4);
}

static void exit_in_handler(int signal)
{
    exit_with_threads(signal);
}

/* What C does not allow and programs do all the same. */
static void handler_exits(void)
{
    struct sigaction action = {.sa_handler = exit_in_handler};

    REQUIRE(!sigaction(SIGTERM, &action, NULL));
    cuda_start();
    swap(0);
}

/* HBMSPILL_TRACE is a pipe that nobody empties: whoever writes it stands still with a lock. */
static void stuck(void)
{
    pthread_t thread[THREADS];
    unsigned done = 0, still = 0;

    start_threads(thread);
    while (still < 1000 || done < 4) {
        usleep(1000);
        still = atomic_load(&rounds_done) == done ? still + 1 : 0;
        done = atomic_load(&rounds_done);
    }
    say_swapping();
    exit_with_threads(3);
}

const struct scenario ends_jobs[] = {
    {.name = "stuck", .job = stuck},
    {.name = "handler_exits", .job = handler_exits},
    {.name = "swap_on", .job = swap_on},
    {.name = "swap_beside", .job = swap_beside},
    {.name = "thread_exits", .job = thread_exits},
    {.name = "main_exits", .job = main_exits},
    {.name = "main_thread_ends", .job = main_thread_ends},
    {.name = "quick_exits", .job = quick_exits},
    {.name = "aborts", .job = aborts},
    {.name = "frees_at_exit", .job = frees_at_exit},
    {.name = "interrupted", .job = interrupted},
};

const unsigned ends_job_count = sizeof ends_jobs / sizeof *ends_jobs;
