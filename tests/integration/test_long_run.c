/*
 * A long run of what a training job does: once it has warmed up, neither the memory of the process nor its
 * descriptors or mappings grow, nor what the library's own records take; and what it computes stays right.
 * That is so for 200000 launches, and for an hour of virtual time, in which fewer fit into a test.
 * LONG_RUN_LAUNCHES makes it more, or less.
 *
 * A step uploads a batch, makes a gradient for each parameter in many small launches and adds it to parameter
 * and momentum, records and waits for an event, and does one thing that jobs do seldom: another shape, a
 * second stream, a graph, a module, a thread. All of it does not fit into HBM, so each step spills. Measured
 * is the whole process, the synthetic GPU with it: the same job without the library, which is run too, tells
 * whose growth it is. What is touched bit by bit of memory that was asked for once (the history of
 * operations) is no growth.
 */
#include "tests/integration/job.h"
#include "tests/integration/scenario.h"

#include <check.h>
#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

enum {
    PARAMETERS = 8,
    SMALL = 19, /* launches that add the batch to a gradient */
    PER_STEP = (SMALL + 3) * PARAMETERS,
    FEW = 256,
    WORDS = 2 * 1024 * 1024 / 4,
    LAUNCHES = 200000,
    LAUNCHES_BY_CLOCK = 9000,
    LEAST_STEPS = 40,
    MORE_BYTES = 64 << 10, /* of heap */
    MORE_OWN = 8 << 10,    /* of the library's own */
    MORE_MAPPINGS = 16,
    MORE_KIB = 1024, /* of private memory */
    MORE_RESIDENT_KIB = 16384
};

static CUdeviceptr parameter[PARAMETERS], momentum[PARAMETERS];
static uint32_t expected_parameter[PARAMETERS][FEW], expected_momentum[PARAMETERS][FEW];
static uint32_t batch[FEW];
static CUstream stream;
static unsigned step;

/* ---- what is measured ---- */

struct size {
    unsigned long heap, descriptors, mappings, private_kib, resident_kib, own;
};

static unsigned long lines_of(const char *path, const char *begin, unsigned long *value)
{
    FILE *file = fopen(path, "re");
    unsigned long count = 0;
    char line[4096];

    REQUIRE(file, "%s", path);
    while (fgets(line, sizeof line, file)) {
        count++;
        if (begin && !strncmp(line, begin, strlen(begin)))
            *value = strtoul(line + strlen(begin), NULL, 10);
    }
    fclose(file);
    return count;
}

/* What the library's records take, by its statistics: written anew when it is time (HBMSPILL_STATS_EVERY=1)
 * and the job allocates. 0 without the library. */
static unsigned long own_bytes(void)
{
    const char *path = getenv("HBMSPILL_STATS");
    unsigned long own = 0;
    CUdeviceptr at;

    if (!path || !getenv("LD_PRELOAD"))
        return 0;
    usleep(1100000);
    unlink(path);
    CU(cuMemAlloc(&at, WORDS * 4ul));
    CU(cuMemFree(at));
    lines_of(path, "  \"own_bytes\": ", &own);
    REQUIRE(own, "%s does not say", path);
    return own;
}

static struct size measure(void)
{
    struct size size = {.heap = mallinfo2().uordblks + mallinfo2().hblkhd};
    DIR *fds = opendir("/proc/self/fd");

    REQUIRE(fds);
    while (readdir(fds))
        size.descriptors++;
    closedir(fds);
    size.mappings = lines_of("/proc/self/maps", NULL, NULL);
    lines_of("/proc/self/status", "VmData:", &size.private_kib);
    lines_of("/proc/self/status", "RssAnon:", &size.resident_kib);
    size.own = own_bytes();
    return size;
}

static void say(const char *when, const struct size *size)
{
    fprintf(stderr,
            "%s: step %u, heap %lu bytes, the library's own %lu bytes, %lu descriptors, %lu mappings, %lu "
            "KiB private, "
            "%lu KiB of it resident\n",
            when, step, size->heap, size->own, size->descriptors, size->mappings, size->private_kib,
            size->resident_kib);
}

/* ---- the job ---- */

static void add_words(uint32_t *to, uint32_t seed)
{
    for (uint32_t k = 0; k < FEW; k++)
        to[k] += job_word(seed, k);
}

static void check_few(CUdeviceptr at, const uint32_t *expected)
{
    uint32_t words[FEW];

    CU(cuMemcpyDtoH(words, at, sizeof words));
    for (uint32_t k = 0; k < FEW; k++)
        REQUIRE(words[k] == expected[k], "step %u, word %u is 0x%x, not 0x%x", step, k, words[k],
                expected[k]);
}

static void one_step(void)
{
    CUdeviceptr input;
    CUevent done;

    for (uint32_t k = 0; k < FEW; k++)
        batch[k] = step + k;
    CU(cuMemAllocAsync(&input, WORDS * 4ul, stream));
    CU(cuMemcpyHtoDAsync(input, batch, sizeof batch, stream));
    for (uint32_t i = 0; i < PARAMETERS; i++) {
        CUdeviceptr gradient;
        uint32_t seed = step * PARAMETERS + i;

        CU(cuMemAllocAsync(&gradient, WORDS * 4ul, stream));
        job_fill(gradient, FEW, seed, stream);
        for (unsigned k = 0; k < SMALL; k++)
            job_add(gradient, input, FEW, stream);
        job_add(momentum[i], gradient, FEW, stream);
        job_add(parameter[i], gradient, FEW, stream);
        CU(cuMemFreeAsync(gradient, stream));
        add_words(expected_parameter[i], seed);
        add_words(expected_momentum[i], seed);
        for (uint32_t k = 0; k < FEW; k++) {
            expected_parameter[i][k] += SMALL * batch[k];
            expected_momentum[i][k] += SMALL * batch[k];
        }
    }
    CU(cuMemFreeAsync(input, stream));
    CU(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
    CU(cuEventRecord(done, stream));
    CU(cuEventSynchronize(done));
    CU(cuEventDestroy(done));
}

/* Another shape, in memory of another size. */
static void evaluation(void)
{
    size_t words = WORDS / 2 * (1 + step % 5);
    CUdeviceptr activation;

    CU(cuMemAlloc(&activation, words * 4));
    job_fill(activation, FEW, step, stream);
    job_add(activation, parameter[step % PARAMETERS], FEW, stream);
    CU(cuStreamSynchronize(stream));
    CU(cuMemFree(activation));
}

static void second_stream(void)
{
    CUdeviceptr own;
    CUstream other;
    CUevent event;

    CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CU(cuMemAllocAsync(&own, WORDS * 4ul, other));
    job_fill(own, FEW, step, other);
    CU(cuEventRecord(event, other));
    CU(cuStreamWaitEvent(stream, event, 0));
    job_copy(own, parameter[0], FEW, stream);
    CU(cuMemFreeAsync(own, stream));
    CU(cuStreamDestroy(other));
    CU(cuEventDestroy(event));
}

static void graph(void)
{
    CUdeviceptr own;
    CUgraph captured;
    CUgraphExec exec;

    CU(cuMemAlloc(&own, WORDS * 4ul));
    CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    job_fill(own, FEW, step, stream);
    job_add(own, parameter[1], FEW, stream);
    CU(cuStreamEndCapture(stream, &captured));
    CU(cuGraphInstantiateWithFlags(&exec, captured, 0));
    CU(cuGraphLaunch(exec, stream));
    CU(cuGraphLaunch(exec, stream));
    CU(cuStreamSynchronize(stream));
    CU(cuGraphExecDestroy(exec));
    CU(cuGraphDestroy(captured));
    CU(cuMemFree(own));
}

static void module(void)
{
    CUmodule own;
    CUfunction function;
    CUdeviceptr at = parameter[2];
    uint32_t words = 0, seed = 0;
    void *params[] = {&at, &words, &seed};
    CUresult status;

    CU(cuModuleLoadData(&own, job_ptx));
    CU(cuModuleGetFunction(&function, own, "fill"));
    status = job_launch(function, FEW, stream, params);
    REQUIRE(status == CUDA_SUCCESS, "%s", job_error_name(status));
    CU(cuStreamSynchronize(stream));
    CU(cuModuleUnload(own));
}

static void *thread_body(void *unused)
{
    CUdeviceptr own;

    CU(cuCtxSetCurrent(job_context()));
    CU(cuMemAllocAsync(&own, WORDS * 4ul, CU_STREAM_PER_THREAD));
    job_fill(own, FEW, step, CU_STREAM_PER_THREAD);
    CU(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    CU(cuMemFreeAsync(own, CU_STREAM_PER_THREAD));
    return unused;
}

static void thread(void)
{
    pthread_t other;

    REQUIRE(!pthread_create(&other, NULL, thread_body, NULL));
    pthread_join(other, NULL);
}

static void pinned(void)
{
    void *host;

    CU(cuMemHostAlloc(&host, 1 << 16, 0));
    CU(cuMemcpyDtoHAsync(host, parameter[3], sizeof batch, stream));
    CU(cuStreamSynchronize(stream));
    CU(cuMemFreeHost(host));
}

static void seldom(void)
{
    static void (*const things[])(void) = {evaluation, second_stream, graph, module, thread, pinned};

    things[step % (sizeof things / sizeof *things)]();
}

static void run(unsigned launches)
{
    const char *wanted = getenv("LONG_RUN_LAUNCHES");
    unsigned steps = (unsigned)(wanted ? strtoul(wanted, NULL, 10) : launches) / PER_STEP + 1;
    struct size warm = {0}, now;

    mallopt(M_ARENA_MAX, 1); /* mallinfo2 tells of the first only */
    cuda_start();
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (uint32_t i = 0; i < PARAMETERS; i++) {
        CU(cuMemAlloc(&parameter[i], WORDS * 4ul));
        CU(cuMemAlloc(&momentum[i], WORDS * 4ul));
        job_fill(parameter[i], WORDS, 1000 + i, stream);
        job_fill(momentum[i], WORDS, 2000 + i, stream);
        add_words(expected_parameter[i], 1000 + i);
        add_words(expected_momentum[i], 2000 + i);
    }
    for (step = 0; step < steps; step++) {
        one_step();
        seldom();
        if (step % 50 == 0) {
            check_few(parameter[step / 50 % PARAMETERS], expected_parameter[step / 50 % PARAMETERS]);
            check_few(momentum[step / 50 % PARAMETERS], expected_momentum[step / 50 % PARAMETERS]);
        }
        if (step == steps / 2) {
            CU(cuCtxSynchronize());
            warm = measure();
            say("warm", &warm);
        }
        if (step % 1000 == 999) {
            now = measure();
            say("at", &now);
        }
    }
    CU(cuCtxSynchronize());
    now = measure();
    say("end", &now);
    for (uint32_t i = 0; i < PARAMETERS; i++) {
        check_few(parameter[i], expected_parameter[i]);
        check_few(momentum[i], expected_momentum[i]);
    }
    REQUIRE(steps >= LEAST_STEPS, "too short to mean anything");
    REQUIRE(now.descriptors <= warm.descriptors, "%lu descriptors, then %lu", warm.descriptors,
            now.descriptors);
    REQUIRE(now.mappings <= warm.mappings + MORE_MAPPINGS, "%lu mappings, then %lu", warm.mappings,
            now.mappings);
    REQUIRE(now.heap <= warm.heap + MORE_BYTES || getenv("SYNTHETIC_GPU_CLOCK"),
            "%lu bytes of heap, then %lu", warm.heap, now.heap);
    REQUIRE(now.private_kib <= warm.private_kib + MORE_KIB, "%lu KiB private, then %lu", warm.private_kib,
            now.private_kib);
    REQUIRE(now.resident_kib <= warm.resident_kib + MORE_RESIDENT_KIB, "%lu KiB resident, then %lu",
            warm.resident_kib, now.resident_kib);
    REQUIRE(now.own <= warm.own + MORE_OWN, "%lu bytes of the library's own, then %lu", warm.own, now.own);
}

static void long_run(void)
{
    run(LAUNCHES);
}

static void hour(void)
{
    run(LAUNCHES_BY_CLOCK);
}

static void spilled(const struct outcome *of, unsigned launches)
{
    ck_assert_uint_ge(outcome_number(of->statistics, "launches"), launches);
    ck_assert_uint_ge(outcome_number(of->statistics, "evictions"), 2 * launches / PER_STEP);
}

static void all_launched(const struct outcome *of)
{
    spilled(of, LAUNCHES);
}

static void took_an_hour(const struct outcome *of)
{
    spilled(of, LAUNCHES_BY_CLOCK);
    ck_assert_uint_ge(outcome_number(of->report, "makespan_ns"), UINT64_C(3600000000000));
}

static const struct scenario scenarios[] = {
    {.name = "long_run",
     .job = long_run,
     .flags = SCENARIO_SPILLS | SCENARIO_UNCOUNTED | SCENARIO_ONCE,
     .hbm = "40M",
     .variables = "HBMSPILL_RESERVE=4M HBMSPILL_STATS_EVERY=1",
     .inspect = all_launched},
    {.name = "hour",
     .job = hour,
     .flags = SCENARIO_SPILLS | SCENARIO_UNCOUNTED | SCENARIO_ONCE | SCENARIO_NOT_NATIVE,
     .hbm = "40M",
     .variables = "HBMSPILL_RESERVE=4M HBMSPILL_STATS_EVERY=1 SYNTHETIC_GPU_CLOCK=1 "
                  "SYNTHETIC_GPU_COMPUTE_SCALE=400000000",
     .inspect = took_an_hour},
};

int main(int argc, char **argv)
{
    return scenarios_main(argc, argv, "long run", scenarios, sizeof scenarios / sizeof *scenarios, 600);
}
