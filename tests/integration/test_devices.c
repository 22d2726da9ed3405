/*
 * Several devices and several processes: eight threads that allocate, launch and free on two devices, one
 * thread that goes back and forth between them, and two processes on one device, each with a limit of its
 * own.
 */
#include "tests/integration/job.h"
#include "tests/integration/scenario.h"

#include <check.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEVICES = 2, THREADS = 8, ROUNDS = 10, KEPT = 4, WORDS = 2 * 1024 * 1024 / 4, PROCESSES = 2 };

static CUcontext contexts[DEVICES];
static CUmodule modules[DEVICES];

static void start_devices(void)
{
    cuda_start();
    for (int i = 0; i < DEVICES; i++) {
        CUdevice device;

        CU(cuDeviceGet(&device, i));
        CU(cuDevicePrimaryCtxRetain(&contexts[i], device));
        CU(cuCtxSetCurrent(contexts[i]));
        CU(cuModuleLoadData(&modules[i], job_ptx));
    }
}

/* A module belongs to a context, and so do its functions. */
static CUfunction kernel_of(unsigned device, const char *name)
{
    CUfunction function;

    CU(cuModuleGetFunction(&function, modules[device], name));
    return function;
}

static void fill(unsigned device, CUdeviceptr at, uint32_t seed, CUstream stream)
{
    uint32_t words = WORDS;
    void *params[] = {&at, &words, &seed};
    CUresult status = job_launch(kernel_of(device, "fill"), WORDS, stream, params);

    REQUIRE(status == CUDA_SUCCESS, "fill on device %u: %s", device, job_error_name(status));
}

static void add(unsigned device, CUdeviceptr to, CUdeviceptr from, CUstream stream)
{
    uint32_t words = WORDS;
    void *params[] = {&to, &from, &words};
    CUresult status = job_launch(kernel_of(device, "add"), WORDS, stream, params);

    REQUIRE(status == CUDA_SUCCESS, "add on device %u: %s", device, job_error_name(status));
}

static void on_device(CUdeviceptr at, unsigned device)
{
    int ordinal = -1;

    CU(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at));
    REQUIRE(ordinal == (int)device, "an address of device %d, not %u", ordinal, device);
}

/* Every other thread begins on the other device; each round is on the one the last was not on. */
static void *wander(void *argument)
{
    uint32_t self = (uint32_t)(uintptr_t)argument;
    CUdeviceptr kept[DEVICES][KEPT] = {{0}};
    CUstream streams[DEVICES];

    for (unsigned d = 0; d < DEVICES; d++) {
        CU(cuCtxSetCurrent(contexts[d]));
        CU(cuStreamCreate(&streams[d], CU_STREAM_NON_BLOCKING));
        for (uint32_t i = 0; i < KEPT; i++) {
            CU(cuMemAllocAsync(&kept[d][i], WORDS * 4ul, streams[d]));
            fill(d, kept[d][i], self * 1000 + d * 100 + i, streams[d]);
        }
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        unsigned d = (self + round) % DEVICES;
        uint32_t seed = self * 1000 + 500 + round;
        CUdeviceptr sum;

        CU(cuCtxSetCurrent(contexts[d]));
        if (round % 4 == 3)
            CU(cuMemAlloc(&sum, WORDS * 4ul));
        else
            CU(cuMemAllocAsync(&sum, WORDS * 4ul, streams[d]));
        on_device(sum, d);
        fill(d, sum, seed, streams[d]);
        add(d, sum, kept[d][round % KEPT], streams[d]);
        CU(cuStreamSynchronize(streams[d]));
        CHECK_SUM(sum, WORDS, seed, self * 1000 + d * 100 + round % KEPT);
        if (round % 2)
            CU(cuMemFree(sum));
        else
            CU(cuMemFreeAsync(sum, streams[d]));
    }
    for (unsigned d = 0; d < DEVICES; d++) {
        CU(cuCtxSetCurrent(contexts[d]));
        CU(cuStreamSynchronize(streams[d]));
        for (uint32_t i = 0; i < KEPT; i++) {
            CHECK_WORDS(kept[d][i], WORDS, self * 1000 + d * 100 + i);
            CU(cuMemFree(kept[d][i]));
        }
        CU(cuStreamDestroy(streams[d]));
    }
    return NULL;
}

static void both_synchronized(void)
{
    for (unsigned d = DEVICES; d-- > 0;) {
        CU(cuCtxSetCurrent(contexts[d]));
        CU(cuCtxSynchronize());
    }
}

static void eight_threads(void)
{
    pthread_t thread[THREADS];

    start_devices();
    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(!pthread_create(&thread[i], NULL, wander, (void *)i));
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    both_synchronized();
}

/*
 * More than one device holds, on each of them at once. Some of it is copied from one to the other, and has to
 * stay in the first one's memory from then on.
 */
static void one_thread(void)
{
    enum { COUNT = 10, COPIED = 3 };
    CUdeviceptr at[DEVICES][COUNT];

    start_devices();
    for (uint32_t i = 0; i < COUNT; i++)
        for (unsigned d = 0; d < DEVICES; d++) {
            CU(cuCtxSetCurrent(contexts[d]));
            CU(cuMemAlloc(&at[d][i], WORDS * 4ul));
            on_device(at[d][i], d);
            fill(d, at[d][i], d * 100 + i, NULL);
        }
    for (uint32_t i = 0; i < COUNT; i++) {
        CU(cuCtxSetCurrent(contexts[1]));
        if (i < COPIED)
            CU(cuMemcpyPeer(at[1][i], contexts[1], at[0][i], contexts[0], WORDS * 4ul));
        add(1, at[1][i], at[1][(i + 1) % COUNT], NULL);
        CU(cuCtxSynchronize());
        if (i + 1 < COUNT)
            CHECK_SUM(at[1][i], WORDS, i < COPIED ? i : 100 + i, 100 + i + 1);
        CU(cuCtxSetCurrent(contexts[0]));
        CHECK_WORDS(at[0][i], WORDS, i);
    }
    for (uint32_t i = 0; i < COUNT; i++)
        for (unsigned d = 0; d < DEVICES; d++) {
            CU(cuCtxSetCurrent(contexts[(d + i) % DEVICES])); /* the other one's memory can be freed, too */
            CU(cuMemFree(at[d][i]));
        }
    both_synchronized();
}

/* ---- two processes ---- */

static void alone(void)
{
    enum { COUNT = 24 };
    CUdeviceptr at[COUNT];

    cuda_start();
    for (uint32_t i = 0; i < COUNT; i++) {
        CU(cuMemAlloc(&at[i], WORDS * 4ul));
        job_fill(at[i], WORDS, i, NULL);
    }
    for (unsigned round = 0; round < 5; round++)
        for (uint32_t i = 0; i < COUNT; i++)
            CHECK_WORDS(at[i], WORDS, i);
}

extern char **environ;

/* The file's text, which is gone then; valid until the next call. */
static const char *take(const char *path)
{
    static char text[1 << 18];
    FILE *file = fopen(path, "re");

    REQUIRE(file, "%s", path);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    unlink(path);
    return text;
}

static uint64_t number(const char *text, const char *name)
{
    char quoted[64];
    const char *found;

    snprintf(quoted, sizeof quoted, "\"%s\": ", name);
    found = strstr(text, quoted);
    REQUIRE(found, "no %s in %s", name, text);
    return strtoull(found + strlen(quoted), NULL, 10);
}

/* At the same time, one with twice the other's device memory and two thirds of its host memory. */
static void two_processes(void)
{
    static const struct {
        const char *hbm, *host;
        uint64_t hbm_bytes, host_bytes;
    } limits[PROCESSES] = {{"8M", "96M", 8 << 20, 96 << 20}, {"16M", "64M", 16 << 20, 64 << 20}};
    char directory[] = "/tmp/hbmspill-test-XXXXXX", statistics[PROCESSES][64], report[PROCESSES][64];
    char *arguments[] = {(char *)"test_devices", (char *)"alone", NULL};
    const char *own = getenv("SYNTHETIC_GPU_REPORT");
    pid_t pids[PROCESSES];

    cuda_start();
    REQUIRE(own && mkdtemp(directory));
    for (unsigned i = 0; i < PROCESSES; i++) {
        snprintf(statistics[i], sizeof statistics[i], "%s/statistics.%u", directory, i);
        snprintf(report[i], sizeof report[i], "%s/report.%u", directory, i);
        REQUIRE(!setenv("HBMSPILL_STATS", statistics[i], 1) && !setenv("SYNTHETIC_GPU_REPORT", report[i], 1));
        REQUIRE(!setenv("HBMSPILL_HBM_LIMIT", limits[i].hbm, 1));
        REQUIRE(!setenv("HBMSPILL_HOST_LIMIT", limits[i].host, 1));
        REQUIRE(!posix_spawn(&pids[i], "/proc/self/exe", NULL, NULL, arguments, environ));
    }
    for (unsigned i = 0; i < PROCESSES; i++) {
        int status;

        REQUIRE(waitpid(pids[i], &status, 0) == pids[i] && !status, "0x%x", (unsigned)status);
    }
    for (unsigned i = 0; i < PROCESSES; i++) {
        const char *text = take(statistics[i]);
        uint64_t host = number(text, "host_bytes");

        REQUIRE(number(text, "evictions") > 0);
        REQUIRE(number(text, "hbm_limit") == limits[i].hbm_bytes);
        REQUIRE(number(text, "host_limit") == limits[i].host_bytes && host <= limits[i].host_bytes);
        REQUIRE(number(text, "peak_hbm_bytes") <= limits[i].hbm_bytes);
        REQUIRE(number(text, "peak_hbm_bytes") > limits[i].hbm_bytes / 2);
        text = take(report[i]);
        REQUIRE(number(text, "peak_device_bytes") <= limits[i].hbm_bytes + (2 << 20),
                "%llu bytes of the device", (unsigned long long)number(text, "peak_device_bytes"));
        REQUIRE(strstr(text, "\"hazards\": []"), "%s", text);
    }
    REQUIRE(!rmdir(directory));
}

static void each_device_evicted(const struct outcome *of)
{
    ck_assert_uint_gt(outcome_number(of->statistics, "evictions"), 8);
}

#define TWO "SYNTHETIC_GPU_DEVICES=2 HBMSPILL_HBM_LIMIT=16M" /* 40M for both of them */

static const struct scenario scenarios[] = {
    {.name = "eight_threads",
     .job = eight_threads,
     .flags = SCENARIO_SPILLS | SCENARIO_UNCOUNTED,
     .hbm = "80M",
     .variables = TWO,
     .inspect = each_device_evicted},
    {.name = "one_thread",
     .job = one_thread,
     .flags = SCENARIO_SPILLS | SCENARIO_UNCOUNTED,
     .variables = TWO,
     .inspect = each_device_evicted},
    {.name = "two_processes", .job = two_processes, .flags = SCENARIO_NOT_NATIVE | SCENARIO_UNCOUNTED},
    {.name = "alone", .job = alone, .flags = SCENARIO_SPILLS},
};

int main(int argc, char **argv)
{
    return scenarios_main(argc, argv, "devices", scenarios, sizeof scenarios / sizeof *scenarios, 60);
}
