/*
 * What the job is told: how much memory there is, what an address is; and that without spilling, by
 * HBMSPILL=observe or off, the driver is asked for exactly what the job asked for. Reports: null_out,
 * foreign_ptr, exit.
 */
#include "tests/integration/job.h"
#include "tests/integration/scenario.h"

#include <check.h>
#include <locale.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 3 << 20, WORDS = BYTES / 4, COUNT = 14 };

static CUdeviceptr at[COUNT];

static void start(void)
{
    cuda_start();
    for (unsigned i = 0; i < COUNT; i++) {
        CU(cuMemAlloc(&at[i], BYTES));
        job_fill(at[i], WORDS, i, NULL);
    }
    CU(cuCtxSynchronize());
}

#define ATTRIBUTE(type, attribute, address)                                                                  \
    ({                                                                                                       \
        type attribute_value;                                                                                \
        memset(&attribute_value, 0xff, sizeof attribute_value);                                              \
        CU(cuPointerGetAttribute(&attribute_value, CU_POINTER_ATTRIBUTE_##attribute, address));              \
        attribute_value;                                                                                     \
    })

/* The same answers for what is in device memory and for what is not just now. */
static void attributes(void)
{
    start();
    for (unsigned i = 0; i < COUNT; i++) {
        CUdeviceptr inside = at[i] + 12345;
        CUpointer_attribute list[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_HOST_POINTER,
                                      CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
        void *host = (void *)1;
        unsigned type = 99;
        size_t size = 0;
        int device = 99;
        void *values[] = {&type, &host, &size, &device};
        CUresult status;

        REQUIRE(ATTRIBUTE(CUcontext, CONTEXT, inside) == job_context());
        REQUIRE(ATTRIBUTE(unsigned, MEMORY_TYPE, inside) == CU_MEMORYTYPE_DEVICE);
        REQUIRE(ATTRIBUTE(CUdeviceptr, DEVICE_POINTER, inside) == inside);
        REQUIRE(ATTRIBUTE(int, DEVICE_ORDINAL, inside) == 0);
        REQUIRE(!ATTRIBUTE(unsigned, IS_MANAGED, inside));
        REQUIRE(ATTRIBUTE(CUdeviceptr, RANGE_START_ADDR, inside) == at[i]);
        REQUIRE(ATTRIBUTE(size_t, RANGE_SIZE, inside) == BYTES);
        REQUIRE(ATTRIBUTE(unsigned, MAPPED, inside) == 1);
        REQUIRE(i == 0 || ATTRIBUTE(unsigned long long, BUFFER_ID, at[i]) !=
                              ATTRIBUTE(unsigned long long, BUFFER_ID, at[i - 1]));
        status = cuda.cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, inside);
        REQUIRE(status == CUDA_ERROR_INVALID_VALUE, "%s", job_error_name(status));
        CU(cuPointerGetAttributes(4, list, values, inside));
        REQUIRE(type == CU_MEMORYTYPE_DEVICE && size == BYTES && device == 0, "%u %zu %d", type, size,
                device);
        REQUIRE(!host, "%p", host);
    }
    for (unsigned i = 0; i < COUNT; i++)
        CHECK_WORDS(at[i], WORDS, i);
}

static void ranges(void)
{
    CUdeviceptr base;
    size_t size;

    start();
    for (unsigned i = 0; i < COUNT; i++) {
        CU(cuMemGetAddressRange(&base, &size, at[i] + BYTES - 1));
        REQUIRE(base == at[i] && size == BYTES, "0x%llx, %zu", (unsigned long long)base, size);
        size = 0;
        CU(cuMemGetAddressRange(NULL, &size, at[i]));
        CU(cuMemGetAddressRange(&base, NULL, at[i]));
        REQUIRE(size == BYTES, "%zu", size);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        int ordinal;

        CU(cuMemFree(at[i]));
        EXPECT(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &size, at[i]));
        EXPECT(CUDA_ERROR_INVALID_VALUE,
               cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at[i]));
    }
}

/* Memory that is nobody's and the host's: the driver's own answers. */
static void foreign(void)
{
    CUpointer_attribute list[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
    unsigned type = 99;
    void *values[] = {&type}, *pinned;

    start();
    CU(cuMemHostAlloc(&pinned, 4096, 0));
    REQUIRE(ATTRIBUTE(unsigned, MEMORY_TYPE, (CUdeviceptr)(uintptr_t)pinned) == CU_MEMORYTYPE_HOST);
    EXPECT(CUDA_ERROR_INVALID_VALUE,
           cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)&type));
    CU(cuPointerGetAttributes(1, list, values, (CUdeviceptr)(uintptr_t)&type));
    EXPECT(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(NULL, NULL, 0x123456789000));
}

/* Any output may be NULL; free memory goes down by what is allocated and comes back. */
static void memory_info(void)
{
    size_t free_before, free_after, total;

    cuda_start();
    CU(cuMemGetInfo(&free_before, NULL));
    CU(cuMemGetInfo(NULL, &total));
    CU(cuMemAlloc(&at[0], 8 * MIB));
    CU(cuMemGetInfo(&free_after, &total));
    REQUIRE(free_before - free_after >= 8 * MIB, "%zu, then %zu", free_before, free_after);
    REQUIRE(total >= free_before, "%zu of %zu", free_before, total);
    CU(cuMemFree(at[0]));
    CU(cuMemGetInfo(&free_after, NULL));
    REQUIRE(free_before == free_after, "%zu, then %zu", free_before, free_after);
}

static void total_is(size_t wanted)
{
    size_t total, free_bytes, from_device;
    CUdeviceptr one;

    cuda_start();
    CU(cuDeviceTotalMem(&from_device, 0));
    CU(cuMemGetInfo(&free_bytes, &total));
    REQUIRE(total == wanted && from_device == wanted, "%zu and %zu, not %zu", total, from_device, wanted);
    CU(cuMemAlloc(&one, BYTES));
    CU(cuMemGetInfo(&free_bytes, &total));
    CU(cuDeviceTotalMem(&from_device, 0));
    REQUIRE(total == wanted && from_device == wanted, "afterwards %zu and %zu", total, from_device);
}

/* 40 MiB, less a reserve and the page that the module's variables are in. */
static void report_virtual(void)
{
    total_is((30 + 192) * MIB);
}

static void share_of_half(const struct outcome *of)
{
    ck_assert_uint_eq(outcome_number(of->statistics, "hbm_limit"), 20 * MIB);
}

static void share_of_most(const struct outcome *of)
{
    ck_assert_uint_eq(outcome_number(of->statistics, "hbm_limit"), 30 * MIB);
}

static void report_physical(void)
{
    total_is(40 * MIB);
}

static void report_size(void)
{
    total_is(3072 * MIB);
}

/* Memory that may move cannot be exported: a true error, and the job goes on. */
static void not_exported(void)
{
    CUipcMemHandle handle;

    start();
    for (unsigned i = 0; i < COUNT; i++) {
        CUresult status = cuda.cuIpcGetMemHandle(&handle, at[i]);

        REQUIRE(status == CUDA_ERROR_INVALID_VALUE || status == CUDA_ERROR_NOT_SUPPORTED, "%s",
                job_error_name(status));
    }
    for (unsigned i = 0; i < COUNT; i++)
        CHECK_WORDS(at[i], WORDS, i);
}

/* A child of the job may run and end as it likes; the parent's work is not touched. */
static void forked(void)
{
    start();
    for (unsigned i = 0; i < 4; i++) {
        pid_t child = fork();
        int status;

        if (child == 0) {
            CUdeviceptr none = 0;
            CUresult result = cuda.cuMemAlloc(&none, BYTES); /* CUDA cannot be used in a child */

            if (i % 2)
                _exit(result == CUDA_SUCCESS);
            exit(result == CUDA_SUCCESS);
        }
        REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status), "%d",
                status);
    }
    for (unsigned i = 0; i < COUNT; i++)
        CHECK_WORDS(at[i], WORDS, i);
}

/* Ends in the middle of everything. */
static void sudden_end(void)
{
    start();
    for (unsigned i = 0; i + 1 < COUNT; i++)
        job_add(at[i], at[i + 1], WORDS, NULL);
    exit(0);
}

static void wrote_statistics(const struct outcome *of)
{
    ck_assert_uint_ge(outcome_number(of->statistics, "launches"), COUNT);
}

/* HBMSPILL_STATS names what is no file: it is written to, and not replaced by a file (a /dev/null say). */
static void statistics_link(void)
{
    struct stat status;
    char directory[] = "/tmp/hbmspill-test-XXXXXX", link[64], target[64], text[64] = "";
    pid_t child;
    FILE *file;
    int ended;

    REQUIRE(mkdtemp(directory));
    snprintf(link, sizeof link, "%s/link", directory);
    snprintf(target, sizeof target, "%s/target", directory);
    file = fopen(target, "we");
    REQUIRE(file && fputs("kept\n", file) >= 0 && !fclose(file));
    REQUIRE(!symlink("target", link));
    child = fork();
    if (!child) {
        setenv("HBMSPILL_STATS", link, 1);
        setenv("SYNTHETIC_GPU_REPORT", "/dev/null", 1);
        execl("/proc/self/exe", "test_queries", "memory_info", (char *)NULL);
        _exit(127);
    }
    REQUIRE(waitpid(child, &ended, 0) == child && !ended);
    REQUIRE(!lstat(link, &status) && S_ISLNK(status.st_mode));
    file = fopen(target, "re");
    REQUIRE(file && fread(text, 1, sizeof text - 1, file) > 20 && !strncmp(text, "kept\n{", 6), "%s", text);
    fclose(file);
    REQUIRE(!unlink(link) && !unlink(target) && !rmdir(directory));
    cuda_start();
}

static void few(void)
{
    cuda_start();
    for (unsigned i = 0; i < 6; i++) {
        CU(cuMemAlloc(&at[i], BYTES));
        job_fill(at[i], WORDS, i, NULL);
    }
    for (unsigned i = 0; i < 6; i++) {
        CHECK_WORDS(at[i], WORDS, i);
        CU(cuMemFree(at[i]));
    }
}

/* Seen, counted, and left as it is. */
static void observed(const struct outcome *of)
{
    ck_assert_msg(strstr(of->statistics, "\"mode\": \"observe\"") != NULL, "%s", of->statistics);
    ck_assert_uint_eq(outcome_number(of->statistics, "launches"), 6);
    ck_assert_uint_eq(outcome_number(of->statistics, "allocations"), 6);
    ck_assert_uint_eq(outcome_number(of->statistics, "managed_allocations"), 0);
    ck_assert_uint_eq(outcome_calls(of, "cuMemCreate"), 0);
    ck_assert_uint_eq(outcome_calls(of, "cuMemAlloc_v2"), 6);
    ck_assert_uint_eq(outcome_calls(of, "cuEventRecord"), 0);
}

static void untouched(const struct outcome *of)
{
    ck_assert_str_eq(of->statistics, "");
    ck_assert_uint_eq(outcome_calls(of, "cuMemCreate"), 0);
    ck_assert_uint_eq(outcome_calls(of, "cuMemAlloc_v2"), 6);
}

/* No room, and nothing that makes any: the driver's error. */
static void observed_full(void)
{
    CUdeviceptr big;

    cuda_start();
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&big, 100 * MIB));
}

#define ONCE (SCENARIO_ONCE | SCENARIO_NOT_NATIVE)

/* The statistics as of now, "" where there are none yet. */
static const char *statistics_now(void)
{
    static char text[65536];
    FILE *file = fopen(getenv("HBMSPILL_STATS"), "r");

    text[file ? fread(text, 1, sizeof text - 1, file) : 0] = '\0';
    if (file)
        fclose(file);
    return text;
}

static double seconds(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Written while it runs, and not before it is time: by an allocation or a copy, whole. */
static void statistics_meanwhile(void)
{
    double last = seconds();
    const char *text;
    uint32_t word = 1;

    start();
    REQUIRE(!statistics_now()[0] || seconds() > last + 0.9); /* it was time, on a slow machine */
    usleep(1100000);
    last = seconds();
    CU(cuMemcpyHtoD(at[0], &word, sizeof word));
    text = statistics_now();
    REQUIRE(strstr(text, "\"allocations\": 14,") && strstr(text, "\"evictions\": ") && strstr(text, "\n}\n"),
            "%s", text);
    REQUIRE(!strstr(text, "records_wrong") && !strstr(text, "dearest"), "%s", text); /* these take a search */
    CU(cuMemFree(at[0]));
    CU(cuMemAlloc(&at[0], BYTES));
    REQUIRE(strstr(statistics_now(), "\"allocations\": 14,") || seconds() > last + 0.9);
    usleep(1100000);
    CU(cuMemFree(at[1]));
    CU(cuMemAlloc(&at[1], BYTES));
    REQUIRE(strstr(statistics_now(), "\"allocations\": 16,"), "%s", statistics_now());
}

/* At exit it is all of it again. */
static void whole_at_exit(const struct outcome *of)
{
    ck_assert_uint_eq(outcome_number(of->statistics, "allocations"), 16);
    ck_assert_uint_eq(outcome_number(of->statistics, "records_wrong"), 0);
    ck_assert_ptr_nonnull(strstr(of->statistics, "\"dearest\": ["));
}

/*
 * A locale's numbers as localedef(1) writes them: magic, six offsets, "," "." {3, 3}, the same as wide
 * characters, the character set.
 */
static const unsigned char numbers[] = {
    0x14, 0x11, 0x03, 0x20, 6,    0,   0,   0,   0x20, 0,   0,   0,   0x22, 0,   0, 0,
    0x24, 0,    0,    0,    0x28, 0,   0,   0,   0x2c, 0,   0,   0,   0x30, 0,   0, 0,
    ',',  0,    '.',  0,    3,    3,   0,   0,   ',',  0,   0,   0,   '.',  0,   0, 0,
    'A',  'N',  'S',  'I',  '_',  'X', '3', '.', '4',  '-', '1', '9', '6',  '8', 0};

/* The job writes its numbers with a comma; files have a point. */
static void decimal_comma(void)
{
    char directory[] = "/tmp/hbmspill-test-XXXXXX", path[64], text[16];
    FILE *file;

    REQUIRE(mkdtemp(directory) && !setenv("LOCPATH", directory, 1));
    snprintf(path, sizeof path, "%s/comma", directory);
    REQUIRE(!mkdir(path, 0700));
    snprintf(path, sizeof path, "%s/comma/LC_NUMERIC", directory);
    file = fopen(path, "we");
    REQUIRE(file && fwrite(numbers, sizeof numbers, 1, file) == 1 && !fclose(file));
    REQUIRE(setlocale(LC_NUMERIC, "comma"));
    REQUIRE(!unlink(path));
    path[strlen(path) - sizeof "LC_NUMERIC"] = '\0';
    REQUIRE(!rmdir(path) && !rmdir(directory));
    start();
    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 0; i + 1 < COUNT; i++)
            job_add(at[i], at[i + 1], WORDS, NULL);
    snprintf(text, sizeof text, "%.1f", 0.5);
    REQUIRE(!strcmp(text, "0,5"), "%s", text); /* it still does */
}

/* No comma follows a digit and is followed by one. */
static void points(const struct outcome *of)
{
    ck_assert_ptr_nonnull(strstr(of->statistics, "\"link_measuring_seconds\": 0."));
    ck_assert_ptr_nonnull(strstr(of->statistics, "\"transfer_seconds\": 0."));
    for (const char *c = of->statistics; *c; c++)
        ck_assert_msg(!(c[0] >= '0' && c[0] <= '9' && c[1] == ',' && c[2] >= '0' && c[2] <= '9'), "%.60s", c);
}

static const struct scenario scenarios[] = {
    {.name = "decimal_comma", .job = decimal_comma, .flags = ONCE | SCENARIO_SPILLS, .inspect = points},
    {.name = "statistics_meanwhile",
     .job = statistics_meanwhile,
     .flags = SCENARIO_SPILLS | SCENARIO_NOT_NATIVE | SCENARIO_ONCE,
     .variables = "HBMSPILL_STATS_EVERY=1",
     .inspect = whole_at_exit},
    {.name = "attributes", .job = attributes, .flags = SCENARIO_SPILLS | SCENARIO_ONCE},
    {.name = "ranges", .job = ranges, .flags = SCENARIO_SPILLS | SCENARIO_ONCE},
    {.name = "foreign", .job = foreign, .flags = SCENARIO_SPILLS | SCENARIO_ONCE},
    {.name = "memory_info", .job = memory_info, .flags = SCENARIO_ONCE},
    {.name = "report_virtual",
     .job = report_virtual,
     .flags = ONCE,
     .variables = "XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async"},
    {.name = "share",
     .job = report_virtual,
     .flags = ONCE,
     .variables = "XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async XLA_CLIENT_MEM_FRACTION=0.5",
     .inspect = share_of_half},
    {.name = "share_by_old_name",
     .job = report_virtual,
     .flags = ONCE,
     .variables = "XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async XLA_PYTHON_CLIENT_MEM_FRACTION=.5",
     .inspect = share_of_half},
    {.name = "share_of_most",
     .job = report_virtual,
     .flags = ONCE,
     .variables = "XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async XLA_CLIENT_MEM_FRACTION=0.95",
     .inspect = share_of_most},
    {.name = "share_of_more",
     .job = report_virtual,
     .flags = ONCE,
     .variables = "XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async XLA_CLIENT_MEM_FRACTION=4",
     .inspect = share_of_most},
    {.name = "share_and_limit",
     .job = report_virtual,
     .flags = ONCE,
     .variables = "XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async XLA_CLIENT_MEM_FRACTION=0.5 HBMSPILL_HBM_LIMIT=30M",
     .inspect = share_of_most},
    {.name = "report_physical",
     .job = report_physical,
     .flags = ONCE,
     .variables = "HBMSPILL_REPORT=physical"},
    {.name = "report_size", .job = report_size, .flags = ONCE, .variables = "HBMSPILL_REPORT=3G"},
    {.name = "not_exported", .job = not_exported, .flags = ONCE | SCENARIO_SPILLS},
    {.name = "forked", .job = forked, .flags = SCENARIO_SPILLS | SCENARIO_ONCE},
    {.name = "sudden_end", .job = sudden_end, .flags = SCENARIO_UNCOUNTED, .inspect = wrote_statistics},
    {.name = "statistics_link", .job = statistics_link, .flags = ONCE | SCENARIO_UNCOUNTED},
    {.name = "observe", .job = few, .flags = ONCE, .variables = "HBMSPILL=observe", .inspect = observed},
    {.name = "observe_full", .job = observed_full, .flags = ONCE, .variables = "HBMSPILL=observe"},
    {.name = "off",
     .job = few,
     .flags = ONCE | SCENARIO_UNCOUNTED,
     .variables = "HBMSPILL=off",
     .inspect = untouched},
};

int main(int argc, char **argv)
{
    return scenarios_main(argc, argv, "queries", scenarios, sizeof scenarios / sizeof *scenarios, 20);
}
