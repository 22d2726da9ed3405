/*
 * Processes that come out of a job in the middle of its work: forked, vforked, spawned. A forked child is
 * inert - every driver function forwards, and the driver refuses -, says nothing and writes nothing; the
 * parent goes on unharmed; a program that is started is a process like any other. (Reports: fork, shell,
 * silent.)
 *
 * The work is done by threads that never stop swapping, so a fork happens with whatever lock held.
 */
#include "tests/integration/job.h"
#include "tests/integration/scenario.h"

#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 2, BUFFERS = 6, FORKS = 16, CHILD_SECONDS = 20, WORDS = 4 * 1024 * 1024 / 4 };

static atomic_bool enough;
static atomic_uint sums;       /* of both threads, whose buffers are all in use by the time of a few */
static const char *statistics; /* the file, which no child may write */
static CUmodule module_of_parent;

/* Each thread's buffers are more than half of the memory. */
static void *swapping(void *self)
{
    uint32_t base = (uint32_t)(uintptr_t)self * 100, round = 0;
    CUdeviceptr at[BUFFERS];
    CUstream stream;

    CU(cuCtxSetCurrent(job_context()));
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < BUFFERS; i++) {
        CU(cuMemAllocAsync(&at[i], WORDS * 4ul, stream));
        job_fill(at[i], WORDS, base + i, stream);
    }
    for (; !atomic_load(&enough); round++) {
        CUdeviceptr sum;
        uint32_t i = round % BUFFERS;

        CU(cuMemAllocAsync(&sum, WORDS * 4ul, stream));
        job_copy(sum, at[i], WORDS, stream);
        job_add(sum, at[(i + 1) % BUFFERS], WORDS, stream);
        CU(cuStreamSynchronize(stream));
        CHECK_SUM(sum, WORDS, base + i, base + (i + 1) % BUFFERS);
        CU(cuMemFreeAsync(sum, stream));
        atomic_fetch_add(&sums, 1);
    }
    for (unsigned i = 0; i < BUFFERS; i++) {
        CHECK_WORDS(at[i], WORDS, base + i);
        CU(cuMemFree(at[i]));
    }
    CU(cuStreamDestroy(stream));
    return NULL;
}

static void with_swapping(void (*between)(unsigned round), unsigned rounds)
{
    pthread_t thread[THREADS];

    statistics = getenv("HBMSPILL_STATS");
    cuda_start();
    module_of_parent = job_module;
    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&thread[i], NULL, swapping, (void *)i) == 0);
    while (atomic_load(&sums) < 4 * THREADS)
        usleep(1000);
    for (unsigned round = 0; round < rounds; round++) {
        between(round);
        usleep(1000 * (round % 7));
    }
    atomic_store(&enough, true);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

static void ended_well(pid_t child, int expected)
{
    int status;

    REQUIRE(child > 0, "%d", errno);
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == expected, "a child ended with 0x%x",
            (unsigned)status);
    REQUIRE(!statistics || access(statistics, F_OK), "a child wrote statistics");
}

static bool in_driver(void *function)
{
    Dl_info info;

    return function && dladdr(function, &info) && strstr(info.dli_fname, "libcuda.so");
}

/* One of every kind. CUDA cannot be used in a child: what it must not do is hang, crash or succeed. */
static bool refused(void)
{
    static uint32_t words[16];
    CUdeviceptr at = 0, address = 0x700000000000;
    void *params[] = {&at, &at, &at}, *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    CUfunction function;
    CUgraph graph;
    CUstream stream;
    CUevent event;
    size_t bytes;

#define REFUSED(call)                                                                                        \
    if (cuda.call == CUDA_SUCCESS) {                                                                         \
        (void)!write(2, #call "\n", sizeof #call);                                                           \
        return false;                                                                                        \
    }
    REFUSED(cuInit(0))
    REFUSED(cuMemAlloc(&at, MIB))
    REFUSED(cuMemAllocAsync(&at, MIB, NULL))
    REFUSED(cuMemAllocManaged(&at, MIB, CU_MEM_ATTACH_GLOBAL))
    REFUSED(cuMemGetInfo(&bytes, &bytes))
    REFUSED(cuMemcpyHtoD(address, words, sizeof words))
    REFUSED(cuMemcpyDtoHAsync(words, address, sizeof words, NULL))
    REFUSED(cuMemsetD8Async(address, 1, 64, NULL))
    REFUSED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))
    REFUSED(cuEventCreate(&event, CU_EVENT_DEFAULT))
    REFUSED(cuModuleGetFunction(&function, module_of_parent, "fill"))
    REFUSED(cuLaunchKernel((CUfunction)params, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL))
    REFUSED(cuGraphCreate(&graph, 0))
    REFUSED(cuMemFreeAsync(address, NULL))
    REFUSED(cuMemFree(address))
    REFUSED(cuStreamSynchronize(NULL))
    REFUSED(cuCtxSynchronize())
#undef REFUSED
    return library && in_driver(dlsym(library, "cuMemAlloc_v2")) &&
           in_driver(dlsym(library, "cuLaunchKernel"));
}

static void fork_one(unsigned round)
{
    pid_t child = fork();

    if (!child) {
        alarm(CHILD_SECONDS); /* a hang ends by a signal */
        if (getenv("LD_PRELOAD") && !refused())
            _exit(1);
        if (round % 4 == 0) { /* a child's child */
            child = fork();
            if (!child)
                exit(5);
            ended_well(child, 5);
        }
        if (round % 2)
            exit(7); /* with all handlers */
        _exit(7);
    }
    ended_well(child, 7);
}

static void forking(void)
{
    with_swapping(fork_one, FORKS);
}

/* Several threads fork at once. */
static void *fork_some(void *unused)
{
    for (unsigned round = 0; round < FORKS / 4; round++)
        fork_one(round);
    return unused;
}

static void fork_together(unsigned round)
{
    pthread_t thread[4];

    (void)round;
    for (unsigned i = 0; i < 4; i++)
        REQUIRE(pthread_create(&thread[i], NULL, fork_some, NULL) == 0);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
}

static void forking_together(void)
{
    with_swapping(fork_together, 1);
}

extern char **environ;

static pid_t spawn(const char *program, const char *one, const char *two)
{
    char *arguments[] = {(char *)program, (char *)one, (char *)two, NULL};
    pid_t child;
    int error = posix_spawnp(&child, program, NULL, NULL, arguments, environ);

    REQUIRE(!error, "%s: %s", program, strerror(error));
    return child;
}

/* What XLA does to compile, and what Python and shells do; all of them have the preload. */
static void start_programs(unsigned round)
{
    static const char ptxas[] = SYNTHETIC_DIR "/cuda/bin/ptxas";
    pid_t child;

    ended_well(spawn(ptxas, "--version", NULL), 0);
    ended_well(spawn("sh", "-c", "exit 3"), 3);
    REQUIRE(system("exit 4") == 4 << 8);
    /* NOLINTNEXTLINE(clang-analyzer-security.insecureAPI.vfork): it is what is tested */
    child = vfork();
    if (!child) {
        execlp("sh", "sh", "-c", "exit 6", (char *)NULL);
        _exit(127);
    }
    ended_well(child, 6);
    /* NOLINTNEXTLINE(clang-analyzer-security.insecureAPI.vfork): a command that is not there */
    child = vfork();
    if (!child)
        _exit(127);
    ended_well(child, 127);
    if (round == 0) { /* a job of its own */
        unsetenv("HBMSPILL_STATS");
        unsetenv("SYNTHETIC_GPU_REPORT");
        ended_well(spawn("/proc/self/exe", "nested", NULL), 0);
        child = fork();
        if (!child) {
            execl("/proc/self/exe", "test_fork", "nested", (char *)NULL);
            _exit(127);
        }
        ended_well(child, 0);
    }
}

static void starting_programs(void)
{
    with_swapping(start_programs, FORKS / 4);
}

static void wait_a_little(unsigned round)
{
    (void)round;
    usleep(20000);
}

/* A job started by a job. */
static void nested(void)
{
    with_swapping(wait_a_little, 3);
}

/* No line of a child's: every one names the parent. */
static void one_process_speaks(const struct outcome *of)
{
    static const char start[] = "hbmspill: ";
    long pid = 0;

    for (const char *at = of->err; (at = strstr(at, start)); at++) {
        const char *bracket = strchr(at, '[');
        long of_line = bracket ? strtol(bracket + 1, NULL, 10) : 0;

        ck_assert_msg(of_line > 0 && (!pid || of_line == pid), "%s", of->err);
        pid = of_line;
    }
    ck_assert_int_gt(pid, 0);
    ck_assert_ptr_null(strstr(of->err, "cannot be written"));
}

static const struct scenario scenarios[] = {
    {.name = "forking",
     .job = forking,
     .flags = SCENARIO_SPILLS,
     .variables = "HBMSPILL_LOG=info",
     .inspect = one_process_speaks},
    {.name = "forking_together",
     .job = forking_together,
     .flags = SCENARIO_SPILLS,
     .variables = "HBMSPILL_LOG=info",
     .inspect = one_process_speaks},
    {.name = "starting_programs", .job = starting_programs, .flags = SCENARIO_SPILLS},
    {.name = "nested", .job = nested, .flags = SCENARIO_SPILLS},
};

int main(int argc, char **argv)
{
    return scenarios_main(argc, argv, "fork", scenarios, sizeof scenarios / sizeof *scenarios, 60);
}
