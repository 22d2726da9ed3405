/*
 * Pinned host memory that the job asks for: to the job as the driver's, and one account of it and of what is
 * spilled.
 */
#include "tests/integration/job.h"
#include "tests/integration/scenario.h"

#include <check.h>
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

enum { BYTES = 4 << 20, WORDS = BYTES / 4 };

static CUdeviceptr device_of(const void *memory)
{
    return (CUdeviceptr)(uintptr_t)memory;
}

#define ATTRIBUTE(type, name, address)                                                                       \
    ({                                                                                                       \
        type attribute_value;                                                                                \
        CU(cuPointerGetAttribute(&attribute_value, CU_POINTER_ATTRIBUTE_##name, address));                   \
        attribute_value;                                                                                     \
    })

static void check_answers(char *memory, size_t size, unsigned flags)
{
    CUpointer_attribute list[] = {CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
    size_t ranged = 0;
    unsigned type = 0, told;
    void *values[] = {&ranged, &type};
    CUdeviceptr pointer;

    for (unsigned i = 0; i < 2; i++) {
        CUdeviceptr at = device_of(memory + (i ? size - 1 : 0));

        REQUIRE(ATTRIBUTE(unsigned, MEMORY_TYPE, at) == CU_MEMORYTYPE_HOST);
        REQUIRE(ATTRIBUTE(CUdeviceptr, RANGE_START_ADDR, at) == device_of(memory));
        REQUIRE(ATTRIBUTE(size_t, RANGE_SIZE, at) == size, "%zu", ATTRIBUTE(size_t, RANGE_SIZE, at));
        REQUIRE(ATTRIBUTE(CUcontext, CONTEXT, at) == job_context());
        REQUIRE(ATTRIBUTE(int, DEVICE_ORDINAL, at) == 0);
        REQUIRE(ATTRIBUTE(void *, HOST_POINTER, at) == (void *)(uintptr_t)at);
        REQUIRE(ATTRIBUTE(CUdeviceptr, DEVICE_POINTER, at) == at);
        REQUIRE(ATTRIBUTE(int, IS_MANAGED, at) == 0);
        CU(cuPointerGetAttributes(2, list, values, at));
        REQUIRE(ranged == size && type == CU_MEMORYTYPE_HOST);
        CU(cuMemHostGetDevicePointer(&pointer, memory, 0));
        REQUIRE(pointer == device_of(memory));
        CU(cuMemHostGetFlags(&told, memory));
        REQUIRE(told == (flags | CU_MEMHOSTALLOC_DEVICEMAP), "%u of %u", told, flags);
    }
    EXPECT(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(memory, size, 0));
    EXPECT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(memory));
    if (size > 4096)
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(memory + 512));
}

/* The attribute is of one of two neighbours. */
static void sync_memops(char *one, char *other)
{
    for (unsigned on = 2; on-- > 0;) {
        CU(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, device_of(one + 50)));
        REQUIRE(ATTRIBUTE(unsigned, SYNC_MEMOPS, device_of(one)) == on);
        REQUIRE(ATTRIBUTE(unsigned, SYNC_MEMOPS, device_of(other)) == 0);
    }
    EXPECT(CUDA_ERROR_INVALID_VALUE,
           cuPointerSetAttribute(NULL, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, device_of(one)));
}

/* Every answer is the driver's; the same checks pass without the library. */
static void like_the_driver(void)
{
    static const size_t sizes[] = {1, 100, 4096, 100000, MIB - 1, MIB, 5 * MIB + 77};
    static const unsigned flags[] = {0, CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP,
                                     CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP,
                                     CU_MEMHOSTALLOC_WRITECOMBINED};
    enum { SIZES = sizeof sizes / sizeof *sizes, KINDS = sizeof flags / sizeof *flags };
    char *memory[SIZES][KINDS + 1];
    unsigned long long id[SIZES * (KINDS + 1)], ids = 0;
    char none[1];

    cuda_start();
    for (unsigned s = 0; s < SIZES; s++) {
        for (unsigned k = 0; k <= KINDS; k++) {
            if (k < KINDS)
                CU(cuMemHostAlloc((void **)&memory[s][k], sizes[s], flags[k]));
            else
                CU(cuMemAllocHost((void **)&memory[s][k], sizes[s]));
            memset(memory[s][k], (int)(s * 8 + k + 1), sizes[s]);
            check_answers(memory[s][k], sizes[s], k < KINDS ? flags[k] : 0);
            id[ids++] = ATTRIBUTE(unsigned long long, BUFFER_ID, device_of(memory[s][k]));
            for (unsigned i = 0; i + 1 < ids; i++)
                REQUIRE(id[i] != id[ids - 1]);
        }
    }
    sync_memops(memory[1][0], memory[1][1]);
    for (unsigned s = 0; s < SIZES; s++) {
        for (unsigned k = 0; k <= KINDS; k++) {
            for (size_t at = 0; at < sizes[s]; at += 1 + sizes[s] / 50)
                REQUIRE(memory[s][k][at] == (char)(s * 8 + k + 1));
            CU(cuMemFreeHost(memory[s][k]));
            EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(memory[s][k]));
        }
    }
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemHostAlloc(NULL, 4096, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemHostAlloc((void **)&memory[0][0], 0, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemHostAlloc((void **)&memory[0][0], 4096, 64));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(none));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(NULL));
    EXPECT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(none));
}

static void all_came_back(const struct outcome *of)
{
    ck_assert_uint_eq(outcome_number(of->statistics, "job_pinned_bytes"), 0);
    ck_assert_uint_gt(outcome_number(of->statistics, "pool_made"), 0);
    ck_assert_uint_eq(outcome_number(of->statistics, "pool_asked_bytes"), 0);
}

/* Memory that is given back while it is still used is nobody's until it is not. */
static void a_free_waits(void)
{
    uint32_t *first, *second;
    CUdeviceptr at;
    CUstream stream;

    cuda_start();
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuMemAlloc(&at, BYTES));
    job_fill(at, WORDS, 1, 0);
    CU(cuCtxSynchronize());
    CU(cuMemHostAlloc((void **)&first, BYTES, 0));
    memset(first, 0, BYTES);
    job_fill_slowly(at, 256, 2, stream);
    CU(cuMemcpyDtoHAsync(first, at, BYTES, stream));
    CU(cuMemFreeHost(first));
    CU(cuMemHostAlloc((void **)&second, BYTES, 0));
    memset(second, 7, BYTES);
    CU(cuStreamSynchronize(stream));
    for (unsigned i = 0; i < WORDS; i++)
        REQUIRE(second[i] == 0x07070707, "word %u", i);
    CU(cuMemFreeHost(second));
}

/* While a stream captures, a relaxed thread may give memory back, and others may not. */
static void in_a_capture(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUstream stream;
    CUgraph graph;
    void *memory[2];

    cuda_start();
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < 2; i++)
        CU(cuMemHostAlloc(&memory[i], BYTES, 0));
    CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CU(cuThreadExchangeStreamCaptureMode(&mode));
    CU(cuMemFreeHost(memory[0]));
    CU(cuThreadExchangeStreamCaptureMode(&mode));
    CU(cuStreamEndCapture(stream, &graph));
    CU(cuGraphDestroy(graph));
    CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemFreeHost(memory[1]));
    (void)cuda.cuStreamEndCapture(stream, &graph);
    CU(cuMemFreeHost(memory[1]));
}

/* Pinned once, used again and again. */
static void again_and_again(void)
{
    uint32_t *host;
    CUdeviceptr at;

    cuda_start();
    CU(cuMemAlloc(&at, BYTES));
    for (unsigned round = 0; round < 40; round++) {
        CU(cuMemHostAlloc((void **)&host, BYTES - round % 3 * 4096, CU_MEMHOSTALLOC_PORTABLE));
        for (unsigned i = 0; i < WORDS / 8; i++)
            host[i] = job_word(round, i);
        CU(cuMemcpyHtoD(at, host, BYTES / 8));
        CHECK_WORDS(at, WORDS / 8, round);
        CU(cuMemFreeHost(host));
    }
}

static void pinned_once(const struct outcome *of)
{
    all_came_back(of);
    ck_assert_uint_ge(outcome_number(of->statistics, "pool_reused"), 39);
    ck_assert_uint_le(outcome_calls(of, "cuMemHostRegister_v2"), 1);
    ck_assert_uint_eq(outcome_calls(of, "cuMemHostAlloc"), 0);
}

static void driver_only(const struct outcome *of)
{
    ck_assert_uint_eq(outcome_calls(of, "cuMemHostAlloc"), 40);
    ck_assert_uint_eq(outcome_number(of->statistics, "pool_made"), 0);
    ck_assert_uint_eq(outcome_number(of->statistics, "job_pinned_bytes"), 0);
    ck_assert_uint_eq(outcome_number(of->statistics, "pinned_bytes"), 0);
    ck_assert_uint_ge(outcome_number(of->statistics, "peak_pinned_bytes"), BYTES);
}

/* What the job has pinned and what is spilled share one limit. HBM 40M, host 48M. */
static void one_account(void)
{
    CUdeviceptr at[16];
    void *host[4], *more;
    char *own = NULL;
    unsigned count = 0;

    cuda_start();
    for (unsigned i = 0; i < 4; i++)
        CU(cuMemHostAlloc(&host[i], 6 * MIB, 0));
    for (; count < 10; count++) { /* 24 MiB remain for what is spilled */
        CU(cuMemAlloc(&at[count], BYTES));
        job_fill(at[count], WORDS, count, 0);
    }
    for (unsigned i = 0; i < count; i++)
        CHECK_WORDS(at[i], WORDS, i);
    REQUIRE(!posix_memalign((void **)&own, 4096, 25 * MIB));
    for (unsigned i = 0; i < 4; i++)
        CU(cuMemFreeHost(host[i]));
    for (; count < 16; count++) {
        CU(cuMemAlloc(&at[count], BYTES));
        job_fill(at[count], WORDS, count, 0);
    }
    for (unsigned i = 0; i < count; i++)
        CHECK_WORDS(at[i], WORDS, i);
    for (unsigned i = 0; i < count; i++)
        CU(cuMemFree(at[i]));
    CU(cuMemHostRegister(own, 25 * MIB, 0)); /* idle slots make way for it */
    CU(cuMemHostUnregister(own));
    CU(cuMemHostAlloc(&more, 25 * MIB, 0));
    CU(cuMemFreeHost(more));
    free(own);
}

static void limit_kept(const struct outcome *of)
{
    ck_assert_uint_le(outcome_number(of->statistics, "peak_pinned_bytes"), 48 << 20);
    ck_assert_uint_gt(outcome_number(of->statistics, "evictions"), 0);
    ck_assert_msg(strstr(of->err, "HBMSPILL_HOST_LIMIT") == NULL, "%s", of->err);
}

/* The job has what it would have without the library, which has what is left. */
static void more_than_the_limit(void)
{
    CUdeviceptr at[10];
    void *host[3];
    char *own = NULL;

    cuda_start();
    CU(cuMemHostAlloc(&host[0], 30 * MIB, 0));
    CU(cuMemHostAlloc(&host[1], 30 * MIB, 0));
    CU(cuMemHostAlloc(&host[2], 30 * MIB, CU_MEMHOSTALLOC_WRITECOMBINED));
    REQUIRE(!posix_memalign((void **)&own, 4096, 25 * MIB));
    CU(cuMemHostRegister(own + 100, 25 * MIB - 200, 0));
    memset(host[1], 1, 30 * MIB);
    CU(cuMemHostUnregister(own + 100));
    for (unsigned i = 0; i < 3; i++)
        CU(cuMemFreeHost(host[i]));
    for (unsigned i = 0; i < 10; i++) {
        CU(cuMemAlloc(&at[i], BYTES));
        job_fill(at[i], WORDS, i, 0);
    }
    for (unsigned i = 0; i < 10; i++)
        CHECK_WORDS(at[i], WORDS, i);
}

static void said_that_full(const struct outcome *of)
{
    ck_assert_uint_eq(outcome_number(of->statistics, "peak_pinned_bytes"), 115 << 20);
    ck_assert_uint_le(outcome_number(of->statistics, "pinned_bytes"), 48 << 20);
    ck_assert_uint_eq(outcome_number(of->statistics, "job_pinned_bytes"), 0);
    ck_assert_msg(strstr(of->err, "HBMSPILL_HOST_LIMIT") != NULL, "%s", of->err);
}

/* What fills the host tier: the job's own memory as well, of so many bytes. */
static void filled_beside(uint64_t own)
{
    uint32_t words = WORDS, seed = 0;
    CUdeviceptr at;
    void *params[] = {&at, &words, &seed};
    void *host;
    CUresult status = CUDA_SUCCESS;

    cuda_start();
    CU(cuMemHostAlloc(&host, own, 0));
    for (unsigned i = 0; i < 20 && status == CUDA_SUCCESS; i++) {
        CU(cuMemAlloc(&at, BYTES));
        status = job_launch(job_kernel("fill"), WORDS, 0, params);
    }
    REQUIRE(status == CUDA_ERROR_OUT_OF_MEMORY);
    exit(0); /* what was written last has no room */
}

static void filled_by_the_job(void)
{
    filled_beside(40 * MIB);
}

static void filled_not_by_the_job(void)
{
    filled_beside(4096);
}

static void not_said_by_whom(const struct outcome *of)
{
    ck_assert_msg(strstr(of->err, "MiB are used and device memory") != NULL, "%s", of->err);
    ck_assert_msg(strstr(of->err, "pinned by the job") == NULL, "%s", of->err);
}

static void said_by_whom(const struct outcome *of)
{
    ck_assert_msg(strstr(of->err, "(40 of them pinned by the job itself)") != NULL, "%s", of->err);
}

static void none_to_spill_to(const struct outcome *of)
{
    ck_assert_msg(strstr(of->err, "no host memory may be pinned for") != NULL, "%s", of->err);
    ck_assert_msg(strstr(of->err, "MiB are used") == NULL, "%s", of->err);
    ck_assert_uint_eq(outcome_number(of->statistics, "bytes_out"), 0);
}

/* Spills a little, and looks at every word. */
static void spilling(void)
{
    CUdeviceptr at[14];

    cuda_start();
    for (unsigned i = 0; i < 14; i++) {
        CU(cuMemAlloc(&at[i], BYTES));
        job_fill(at[i], WORDS, i, 0);
    }
    for (unsigned i = 0; i < 14; i++)
        CHECK_WORDS(at[i], WORDS, i);
    for (unsigned i = 0; i < 14; i++)
        CU(cuMemFree(at[i]));
}

static void slots_of_the_driver(const struct outcome *of)
{
    ck_assert_uint_gt(outcome_calls(of, "cuMemHostAlloc"), 0);
    ck_assert_uint_gt(outcome_number(of->statistics, "pinned_bytes"), 0);
    ck_assert_uint_eq(outcome_number(of->statistics, "pool_made"), 0);
    ck_assert_uint_eq(outcome_number(of->statistics, "held_host_allocations"),
                      outcome_number(of->report, "held_host_allocations"));
}

/* What is not to be had from the pool is the driver's. */
static void pinning(void)
{
    void *host[9];

    cuda_start();
    for (unsigned i = 0; i < 9; i++) {
        CU(cuMemHostAlloc(&host[i], BYTES, 0));
        memset(host[i], (int)i, BYTES);
    }
    for (unsigned i = 0; i < 9; i++)
        CU(cuMemFreeHost(host[i]));
}

static unsigned lines_with(const char *text, const char *what)
{
    unsigned lines = 0;

    for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
        lines++;
    return lines;
}

static void said_once(const struct outcome *of)
{
    ck_assert_msg(lines_with(of->err, "less host memory is used") == 1, "%s", of->err);
    ck_assert_uint_eq(outcome_number(of->statistics, "held_registrations"),
                      outcome_number(of->report, "held_registrations"));
    ck_assert_uint_eq(outcome_number(of->statistics, "pinned_bytes"),
                      outcome_number(of->statistics, "pool_bytes"));
}

/* The system has no more, once and then ever again: first what is idle makes way. */
static void refused_by_the_system(void)
{
    void *host;

    cuda_start();
    CU(cuMemHostAlloc(&host, BYTES, 0));
    CU(cuMemFreeHost(host));
    CU(cuMemHostAlloc(&host, BYTES, CU_MEMHOSTALLOC_WRITECOMBINED));
    CU(cuMemFreeHost(host));
    for (unsigned i = 0; i < 3; i++)
        EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemHostAlloc(&host, BYTES, CU_MEMHOSTALLOC_WRITECOMBINED));
}

static void idle_made_way(const struct outcome *of)
{
    ck_assert_uint_gt(outcome_number(of->statistics, "pool_made"), 0);
    ck_assert_uint_eq(outcome_number(of->statistics, "pinned_bytes"), 0);
    ck_assert_uint_eq(outcome_calls(of, "cuMemHostAlloc"), 5);
    ck_assert_msg(lines_with(of->err, "refuses the job 4 MiB of pinned memory with 0 MiB pinned") == 1, "%s",
                  of->err);
}

/* What pins and is not from the pool: the first version's call, and handles, which live on while they are
 * mapped. */
static void counted_otherwise(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0}};
    CUresult (*first_version)(void **, unsigned);
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    void *host;

    cuda_start();
    *(void **)&first_version = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemAllocHost");
    REQUIRE(first_version && first_version(&host, 3 * MIB) == CUDA_SUCCESS);
    memset(host, 1, 3 * MIB);
    CU(cuMemCreate(&handle, BYTES, &prop, 0));
    CU(cuMemAddressReserve(&at, BYTES, 0, 0, 0));
    CU(cuMemMap(at, BYTES, 0, handle, 0));
    CU(cuMemRelease(handle));
    CU(cuMemCreate(&handle, 2 * BYTES, &prop, 0));
    CU(cuMemRelease(handle));
    CU(cuMemUnmap(at, BYTES));
    CU(cuMemAddressFree(at, BYTES));
    CU(cuMemFreeHost(host));
    prop.location.id = -1;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, BYTES, &prop, 0));
}

static void all_of_it(const struct outcome *of)
{
    ck_assert_uint_eq(outcome_number(of->statistics, "peak_job_pinned_bytes"), 3 * MIB + 3 * BYTES);
    ck_assert_uint_eq(outcome_number(of->statistics, "peak_pinned_bytes"), 3 * MIB + 3 * BYTES);
    ck_assert_uint_eq(outcome_number(of->report, "peak_pinned_bytes"), 3 * MIB + 3 * BYTES);
    ck_assert_uint_eq(outcome_number(of->statistics, "job_pinned_bytes"), 0);
    ck_assert_uint_eq(outcome_number(of->statistics, "pinned_bytes"), 0);
}

/* The context goes, and with it what was pinned in it: the driver's answers. */
static void with_the_context(void)
{
    CUpointer_attribute type = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    unsigned value;
    CUcontext context;
    void *host, *combined;
    static char own[3 * 4096];

    cuda_start();
    CU(cuMemHostAlloc(&host, BYTES, 0));
    CU(cuMemHostAlloc(&combined, BYTES, CU_MEMHOSTALLOC_WRITECOMBINED));
    CU(cuMemHostRegister(own + 4000, 200, 0)); /* in two pages */
    REQUIRE(ATTRIBUTE(CUcontext, CONTEXT, device_of(host)) == job_context());
    CU(cuDevicePrimaryCtxReset(0));
    CU(cuDevicePrimaryCtxRetain(&context, 0));
    CU(cuCtxSetCurrent(context));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&value, type, device_of(host)));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(host));
    CU(cuMemHostAlloc(&host, BYTES, 0));
    REQUIRE(ATTRIBUTE(CUcontext, CONTEXT, device_of(host)) == context);
    CU(cuMemFreeHost(host));
    exit(0);
}

/* A machine made of files, without control groups. */
static const char *machine_alone(void)
{
    const char *root = getenv("HBMSPILL_TEST_ROOT");

    REQUIRE(root != NULL);
    job_put_file(root, "/proc/meminfo", "MemTotal: 9000000 kB\nMemAvailable:  400000 kB\n");
    job_put_file(root, "/proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
    job_put_file(root, "/sys/bus/pci/devices/0000:01:00.0/numa_node", "0\n");
    job_put_file(root, "/sys/devices/system/node/online", "0-1\n");
    return root;
}

static const char *machine(void)
{
    const char *root = machine_alone();

    job_put_file(root, "/proc/self/cgroup", "3:cpu:/\n0::/a/b\n");
    job_put_file(root, "/sys/fs/cgroup/a/memory.max", "157286400\n");    /* 150 MiB, in the group above */
    job_put_file(root, "/sys/fs/cgroup/a/memory.current", "73400320\n"); /* 70, of which 20 can be dropped */
    job_put_file(root, "/sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 20971520\n");
    job_put_file(root, "/sys/fs/cgroup/a/b/memory.max", "max\n");
    return root;
}

static void spill_in_a_group(void)
{
    size_t told;

    spilling();
    CU(cuDeviceTotalMem(&told, 0));
    REQUIRE(told == (24 + 48) * MIB, "%zu", told); /* of 50 MiB, the next steady size */
}

static void in_a_group(void)
{
    (void)machine();
    spill_in_a_group();
}

/* The same of version 1, beside a hierarchy of version 2 that has no memory in it. */
static void in_a_group_of_version_1(void)
{
    const char *root = machine_alone();

    job_put_file(root, "/proc/self/cgroup", "7:cpu,cpuacct:/c\n4:memory:/a/b\n0::/user.slice\n");
    job_put_file(root, "/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "157286400\n");
    job_put_file(root, "/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "73400320\n");
    job_put_file(root, "/sys/fs/cgroup/memory/a/memory.stat",
                 "inactive_file 1\ntotal_inactive_file 20971520\n");
    job_put_file(root, "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n"); /* none */
    spill_in_a_group();
}

/* Half of the 100 MiB that the group leaves, and memory next to the device. */
static void half_of_it(const struct outcome *of)
{
    ck_assert_uint_eq(outcome_number(of->statistics, "pinned_limit"), 50 << 20);
    ck_assert_msg(access("/sys/devices/system/node/node0", F_OK) ||
                      strstr(of->statistics, "\"numa_node\": 0, \"numa_pages\": {\"0\": ") != NULL,
                  "%s", of->statistics);
}

static void take_and_give(void)
{
    void *host;

    CU(cuMemHostAlloc(&host, 8 * MIB, 0));
    CU(cuMemFreeHost(host));
}

static void idle_for_long(void)
{
    cuda_start();
    take_and_give();
    usleep(300000);
    take_and_give(); /* the hook looks at the clock, and the idle ones are gone */
    usleep(300000);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(NULL));
}

static void memory_is_short(void)
{
    const char *root = machine();

    cuda_start();
    take_and_give();
    job_put_file(root, "/proc/pressure/memory", "some avg10=55.07 avg60=0.00 avg300=0.00 total=0\n");
    usleep(1300000);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(NULL));
}

static void by_a_signal(void)
{
    cuda_start();
    take_and_give();
    raise(SIGUSR1);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(NULL));
}

static void not_for_long(void)
{
    cuda_start();
    take_and_give();
    usleep(1300000);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(NULL));
}

static void nothing_idle(const struct outcome *of)
{
    ck_assert_uint_gt(outcome_number(of->statistics, "pool_made"), 0);
    ck_assert_uint_eq(outcome_number(of->statistics, "pinned_bytes"), 0);
    ck_assert_uint_eq(outcome_number(of->report, "held_registrations"), 0);
}

static void kept(const struct outcome *of)
{
    ck_assert_uint_eq(outcome_number(of->statistics, "pool_idle_bytes"), 8 << 20);
}

static void no_such_node(const struct outcome *of)
{
    ck_assert_msg(lines_with(of->err, "HBMSPILL_NUMA=900: there is no such node") == 1, "%s", of->err);
    ck_assert_msg(strstr(of->statistics, "\"numa_node\": -1") != NULL, "%s", of->statistics);
}

#define ROOT "HBMSPILL_TEST_ROOT=pinned-machine-"

static const struct scenario scenarios[] = {
    {.name = "like_the_driver",
     .job = like_the_driver,
     .flags = SCENARIO_UNCOUNTED,
     .inspect = all_came_back},
    {.name = "a_free_waits", .job = a_free_waits, .flags = SCENARIO_UNCOUNTED, .inspect = all_came_back},
    {.name = "in_a_capture", .job = in_a_capture, .flags = SCENARIO_UNCOUNTED, .inspect = all_came_back},
    {.name = "again_and_again", .job = again_and_again, .inspect = pinned_once},
    {.name = "pinned_off",
     .job = again_and_again,
     .flags = SCENARIO_ONCE,
     .variables = "HBMSPILL_PINNED=off",
     .inspect = driver_only},
    {.name = "one_account",
     .job = one_account,
     .flags = SCENARIO_NOT_NATIVE,
     .variables = "HBMSPILL_HOST_LIMIT=48M",
     .inspect = limit_kept},
    {.name = "one_account_registered",
     .job = one_account,
     .flags = SCENARIO_NOT_NATIVE,
     .variables = "HBMSPILL_HOST_LIMIT=48M SYNTHETIC_GPU_HOST_VMM=off",
     .inspect = limit_kept},
    {.name = "more_than_the_limit",
     .job = more_than_the_limit,
     .flags = SCENARIO_NOT_NATIVE | SCENARIO_SPILLS,
     .variables = "HBMSPILL_HOST_LIMIT=48M",
     .inspect = said_that_full},
    {.name = "filled_by_the_job",
     .job = filled_by_the_job,
     .flags = SCENARIO_NOT_NATIVE | SCENARIO_ONCE | SCENARIO_UNCOUNTED,
     .variables = "HBMSPILL_HOST_LIMIT=48M HBMSPILL_WINDOW=off SYNTHETIC_GPU_HOST_VMM=off",
     .inspect = said_by_whom},
    {.name = "filled_not_by_the_job",
     .job = filled_not_by_the_job,
     .flags = SCENARIO_NOT_NATIVE | SCENARIO_ONCE | SCENARIO_UNCOUNTED,
     .variables = "HBMSPILL_HOST_LIMIT=48M HBMSPILL_WINDOW=off SYNTHETIC_GPU_HOST_VMM=off",
     .inspect = not_said_by_whom},
    {.name = "filled_without_a_host_tier",
     .job = filled_not_by_the_job,
     .flags = SCENARIO_NOT_NATIVE | SCENARIO_ONCE | SCENARIO_UNCOUNTED,
     .variables = "HBMSPILL_HOST_LIMIT=0 HBMSPILL_WINDOW=off",
     .inspect = none_to_spill_to},
    {.name = "no_registration",
     .job = spilling,
     .flags = SCENARIO_NOT_NATIVE | SCENARIO_SPILLS,
     .variables = "SYNTHETIC_GPU_HOST_VMM=off SYNTHETIC_GPU_FAULT=cuMemHostRegister:0:NOT_SUPPORTED",
     .inspect = slots_of_the_driver},
    {.name = "the_system_pins_less",
     .job = pinning,
     .flags = SCENARIO_NOT_NATIVE | SCENARIO_ONCE,
     .variables = "SYNTHETIC_GPU_FAULT=cuMemHostRegister:7:OUT_OF_MEMORY",
     .inspect = said_once},
    {.name = "counted_otherwise", .job = counted_otherwise, .flags = SCENARIO_ONCE, .inspect = all_of_it},
    {.name = "refused_by_the_system",
     .job = refused_by_the_system,
     .flags = SCENARIO_NOT_NATIVE | SCENARIO_ONCE,
     /* The first call, and from the third on: each fault counts from the call on that the one before did not
        take. */
     .variables = "SYNTHETIC_GPU_FAULT=cuMemHostAlloc:1:OUT_OF_MEMORY,cuMemHostAlloc:2:OUT_OF_MEMORY,"
                  "cuMemHostAlloc:2:OUT_OF_MEMORY,cuMemHostAlloc:2:OUT_OF_MEMORY",
     .inspect = idle_made_way},
    {.name = "with_the_context", .job = with_the_context, .flags = SCENARIO_ONCE},
    {.name = "in_a_group",
     .job = in_a_group,
     .flags = SCENARIO_NOT_NATIVE | SCENARIO_SPILLS | SCENARIO_ONCE,
     .variables = ROOT "group HBMSPILL_HOST_LIMIT= HBMSPILL_HBM_LIMIT=24M SYNTHETIC_GPU_HOST_VMM=off",
     .inspect = half_of_it},
    {.name = "in_a_group_of_version_1",
     .job = in_a_group_of_version_1,
     .flags = SCENARIO_NOT_NATIVE | SCENARIO_SPILLS | SCENARIO_ONCE,
     .variables = ROOT "group-1 HBMSPILL_HOST_LIMIT= HBMSPILL_HBM_LIMIT=24M SYNTHETIC_GPU_HOST_VMM=off",
     .inspect = half_of_it},
    {.name = "idle_for_long",
     .job = idle_for_long,
     .flags = SCENARIO_NOT_NATIVE | SCENARIO_ONCE,
     .variables = "HBMSPILL_HOST_DECAY_MS=100",
     .inspect = nothing_idle},
    {.name = "memory_is_short",
     .job = memory_is_short,
     .flags = SCENARIO_NOT_NATIVE | SCENARIO_ONCE,
     .variables = ROOT "short",
     .inspect = nothing_idle},
    {.name = "by_a_signal",
     .job = by_a_signal,
     .flags = SCENARIO_NOT_NATIVE | SCENARIO_ONCE,
     .variables = "HBMSPILL_TRIM_SIGNAL=usr1",
     .inspect = nothing_idle},
    {.name = "kept_otherwise",
     .job = not_for_long,
     .flags = SCENARIO_NOT_NATIVE | SCENARIO_ONCE,
     .inspect = kept},
    {.name = "no_such_node",
     .job = again_and_again,
     .flags = SCENARIO_NOT_NATIVE | SCENARIO_ONCE,
     .variables = "HBMSPILL_NUMA=900",
     .inspect = no_such_node},
};

int main(int argc, char **argv)
{
    return scenarios_main(argc, argv, "pinned", scenarios, sizeof scenarios / sizeof *scenarios, 120);
}
