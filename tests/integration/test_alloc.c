/*
 * Device memory by every function that gives it, more of it than there is.
 */
#include "tests/integration/job.h"
#include "tests/integration/scenario.h"

#include <check.h>

enum { BUFFERS = 20 };

/* Sizes that stand alone in a segment, that are packed, and that take more than one frame. */
static size_t size_of(unsigned i)
{
    static const size_t sizes[] = {4 << 20,          1153434, 3 << 20, 2 << 20,
                                   (1 << 20) + 4096, 5 << 20, 6 << 20, 1 << 20};

    return sizes[i % 8];
}

static size_t words_of(unsigned i)
{
    return size_of(i) / 4;
}

static void fill_and_check(CUdeviceptr *at, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        job_fill(at[i], words_of(i), i, NULL);
    for (unsigned round = 0; round < 2; round++)
        for (unsigned i = 0; i < count; i++)
            CHECK_WORDS(at[i], words_of(i), i);
    for (unsigned i = 0; i + 8 < count; i++)
        job_add(at[i], at[i + 8], words_of(i), NULL);
    for (unsigned i = 0; i < count; i++) {
        if (i + 8 >= count)
            CHECK_WORDS(at[i], words_of(i), i);
        else if (i + 16 >= count)
            CHECK_SUM(at[i], words_of(i), i, i + 8);
    }
}

static void plain(void)
{
    CUdeviceptr at[BUFFERS];

    cuda_start();
    for (unsigned i = 0; i < BUFFERS; i++)
        CU(cuMemAlloc(&at[i], size_of(i)));
    fill_and_check(at, BUFFERS);
    for (unsigned i = 0; i < BUFFERS; i++)
        CU(cuMemFree(at[i]));
}

static void plain_by_proc_address(void)
{
    job_lookup = JOB_PROC_ADDRESS;
    plain();
}

static CUmemoryPool make_pool(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemoryPool pool;

    CU(cuMemPoolCreate(&pool, &props));
    return pool;
}

/* Stream-ordered: from the current pool, from the default pool by its handle, and from one of the job's own.
 */
static void stream_ordered(void)
{
    CUmemoryPool own, standard;
    CUdeviceptr at[BUFFERS];
    CUstream stream;

    cuda_start();
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    own = make_pool();
    CU(cuDeviceGetDefaultMemPool(&standard, 0));
    for (unsigned i = 0; i < BUFFERS; i++) {
        if (i % 3 == 0)
            CU(cuMemAllocAsync(&at[i], size_of(i), stream));
        else
            CU(cuMemAllocFromPoolAsync(&at[i], size_of(i), i % 3 == 1 ? own : standard, stream));
    }
    CU(cuStreamSynchronize(stream));
    fill_and_check(at, BUFFERS);
    for (unsigned i = 0; i < BUFFERS; i++)
        CU(cuMemFreeAsync(at[i], stream));
    CU(cuStreamSynchronize(stream));
    CU(cuMemPoolDestroy(own));
}

/* Managed memory is the driver's to move; it takes nothing from what frames may use. */
static void managed(void)
{
    CUdeviceptr own, at[BUFFERS];

    cuda_start();
    CU(cuMemAllocManaged(&own, size_of(0), CU_MEM_ATTACH_GLOBAL));
    job_fill(own, words_of(0), 91, NULL);
    for (unsigned i = 0; i < BUFFERS; i++)
        CU(cuMemAlloc(&at[i], size_of(i)));
    fill_and_check(at, BUFFERS);
    CHECK_WORDS(own, words_of(0), 91);
    CU(cuMemFree(own));
}

static void pitched(void)
{
    enum { COUNT = 12, WIDTH = 1000, HEIGHT = 4000 };
    CUdeviceptr at[COUNT];
    size_t pitch[COUNT];

    cuda_start();
    for (unsigned i = 0; i < COUNT; i++) {
        CU(cuMemAllocPitch(&at[i], &pitch[i], WIDTH, HEIGHT, 4));
        REQUIRE(pitch[i] >= WIDTH && pitch[i] % 16 == 0, "pitch %zu", pitch[i]);
        job_fill(at[i], pitch[i] * HEIGHT / 4, i, NULL);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        CHECK_WORDS(at[i], pitch[i] * HEIGHT / 4, i);
        CU(cuMemFree(at[i]));
    }
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocPitch(&at[0], &pitch[0], WIDTH, HEIGHT, 5));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocPitch(&at[0], &pitch[0], 0, HEIGHT, 4));
}

/* The job's own virtual memory: resident, whatever else there is, and given back in full. */
static void own_handles(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    enum { OWN = 3, OWN_BYTES = 4 << 20 };

    cuda_start();
    for (unsigned round = 0; round < 3; round++) {
        CUmemGenericAllocationHandle handle[OWN];
        CUdeviceptr own, at[BUFFERS];

        CU(cuMemAddressReserve(&own, OWN * OWN_BYTES, 0, 0, 0));
        for (unsigned i = 0; i < BUFFERS; i++)
            CU(cuMemAlloc(&at[i], size_of(i)));
        for (unsigned i = 0; i < OWN; i++) {
            CU(cuMemCreate(&handle[i], OWN_BYTES, &prop, 0));
            CU(cuMemMap(own + i * OWN_BYTES, OWN_BYTES, 0, handle[i], 0));
            CU(cuMemRelease(handle[i])); /* it lives while it is mapped */
        }
        CU(cuMemSetAccess(own, OWN * OWN_BYTES, &access, 1));
        for (unsigned i = 0; i < OWN; i++)
            job_fill(own + i * OWN_BYTES, OWN_BYTES / 4, 70 + i, NULL);
        fill_and_check(at, BUFFERS);
        for (unsigned i = 0; i < OWN; i++)
            CHECK_WORDS(own + i * OWN_BYTES, OWN_BYTES / 4, 70 + i);
        CU(cuMemUnmap(own, OWN * OWN_BYTES));
        CU(cuMemAddressFree(own, OWN * OWN_BYTES));
        for (unsigned i = 0; i < BUFFERS; i++)
            CU(cuMemFree(at[i]));
    }
}

/* Frees that are wrong (report: foreign_ptr): refused as the driver refuses them, and nothing is lost by it.
 */
static void wrong_frees(void)
{
    CUdeviceptr at[BUFFERS];
    CUresult status;
    CUstream stream;
    int local;

    cuda_start();
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < BUFFERS; i++) {
        CU(cuMemAlloc(&at[i], size_of(i)));
        job_fill(at[i], words_of(i), i, NULL);
    }
    for (unsigned i = 0; i < BUFFERS; i++)
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree(at[i] + 4096));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree((CUdeviceptr)(uintptr_t)&local));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree(0x123456789000));
    EXPECT(CUDA_SUCCESS, cuMemFree(0)); /* nothing happens */
    for (unsigned i = 0; i < BUFFERS; i++)
        CHECK_WORDS(at[i], words_of(i), i);
    for (unsigned i = 0; i < BUFFERS; i++) {
        CU(cuMemFree(at[i]));
        status = cuda.cuMemFree(at[i]);
        REQUIRE(status == CUDA_ERROR_INVALID_VALUE, "%s", job_error_name(status));
        status = cuda.cuMemFreeAsync(at[i], stream);
        REQUIRE(status == CUDA_ERROR_INVALID_VALUE, "%s", job_error_name(status));
    }
}

/* The most that can be allocated at once: in pieces, until it is refused. */
static unsigned fill_up(CUdeviceptr *at, unsigned most)
{
    unsigned count = 0;

    while (count < most) {
        CUresult status = cuda.cuMemAlloc(&at[count], 4 * MIB);

        if (status == CUDA_SUCCESS)
            status = cuda.cuMemsetD32(at[count], count, MIB);
        if (status == CUDA_SUCCESS)
            status = cuda.cuCtxSynchronize();
        if (status != CUDA_SUCCESS) {
            REQUIRE(status == CUDA_ERROR_OUT_OF_MEMORY, "%s", job_error_name(status));
            if (at[count])
                CU(cuMemFree(at[count]));
            break;
        }
        count++;
        at[count] = 0;
    }
    return count;
}

/*
 * Both tiers are filled up: 32 MiB of device memory and 64 MiB behind it. The error is clean, what was there
 * before stays right, and what is given back can be had again, as often as one likes.
 */
static void both_tiers(void)
{
    enum { MOST = 64 };
    CUdeviceptr at[MOST + 1] = {0}, huge = 0;
    unsigned first = 0;

    cuda_start();
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&huge, 200 * MIB));
    REQUIRE(!huge, "an output was set");
    for (unsigned round = 0; round < 4; round++) {
        unsigned count = fill_up(at, MOST);
        uint32_t words[2];

        if (!round)
            first = count;
        REQUIRE(count >= 20 && count <= 24, "%u pieces", count);
        REQUIRE(count == first, "%u pieces in round %u, %u before", count, round, first);
        for (unsigned i = 0; i < count; i++) {
            CU(cuMemcpyDtoH(&words[0], at[i], 4));
            CU(cuMemcpyDtoH(&words[1], at[i] + 4 * MIB - 4, 4));
            REQUIRE(words[0] == i && words[1] == i, "piece %u has %u and %u", i, words[0], words[1]);
        }
        /* One goes, one comes. */
        CU(cuMemFree(at[count / 2]));
        CU(cuMemAlloc(&at[count / 2], 4 * MIB));
        CU(cuMemsetD32(at[count / 2], 7, MIB));
        for (unsigned i = 0; i < count; i++)
            CU(cuMemFree(at[i]));
        memset(at, 0, sizeof at);
    }
}

static void says_what_is_full(const struct outcome *of)
{
    ck_assert_msg(strstr(of->err, "HBMSPILL_HOST_LIMIT") != NULL, "%s", of->err);
    ck_assert_msg(strstr(of->err, "200 MiB") != NULL, "%s", of->err);
}

/* Small ones are the driver's; they are counted, and frames make way for them. */
static void small(void)
{
    enum { SMALL = 300 };
    CUdeviceptr at[BUFFERS], little[SMALL];

    cuda_start();
    for (unsigned i = 0; i < BUFFERS; i++) {
        CU(cuMemAlloc(&at[i], size_of(i)));
        job_fill(at[i], words_of(i), i, NULL);
    }
    for (unsigned i = 0; i < SMALL; i++) {
        CU(cuMemAlloc(&little[i], 50000));
        job_fill(little[i], 12500, i, NULL);
    }
    fill_and_check(at, BUFFERS);
    for (unsigned i = 0; i < SMALL; i++) {
        CHECK_WORDS(little[i], 12500, i);
        CU(cuMemFree(little[i]));
    }
}

/* Sizes change all the time; address space and memory are used again. */
static void churn(void)
{
    enum { LIVE = 12, ROUNDS = 150 };
    CUdeviceptr at[LIVE] = {0};
    size_t words[LIVE] = {0};
    uint32_t seeds[LIVE] = {0};

    cuda_start();
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned i = round * 7 % LIVE;

        if (at[i]) {
            CHECK_WORDS(at[i], words[i], seeds[i]);
            CU(cuMemFree(at[i]));
        }
        words[i] = (MIB + (size_t)job_word(5, round) % (4 * MIB)) / 4;
        seeds[i] = round;
        CU(cuMemAlloc(&at[i], words[i] * 4));
        job_fill(at[i], words[i], seeds[i], NULL);
    }
}

/* A second context on the device: its memory is not spilled, and everything stays right. */
static void second_context(void)
{
    CUresult (*create)(CUcontext *, unsigned, CUdevice);
    CUdeviceptr at[BUFFERS], own[3];
    CUmodule first_module;
    CUcontext second;
    CUstream stream;

    cuda_start();
    first_module = job_module;
    *(void **)&create = job_symbol("cuCtxCreate_v2");
    for (unsigned i = 0; i < BUFFERS; i++)
        CU(cuMemAlloc(&at[i], size_of(i)));
    fill_and_check(at, BUFFERS);
    REQUIRE(create(&second, 0, 0) == CUDA_SUCCESS);
    CU(cuModuleLoadData(&job_module, job_ptx));
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < 3; i++) {
        CU(cuMemAlloc(&own[i], size_of(0)));
        job_fill(own[i], words_of(0), 80 + i, stream);
    }
    CU(cuStreamSynchronize(stream));
    for (unsigned i = 0; i < 3; i++)
        CHECK_WORDS(own[i], words_of(0), 80 + i);
    CU(cuCtxSetCurrent(job_context()));
    job_module = first_module;
    fill_and_check(at, BUFFERS);
    CU(cuCtxSetCurrent(second));
    for (unsigned i = 0; i < 3; i++) {
        CHECK_WORDS(own[i], words_of(0), 80 + i);
        CU(cuMemFree(own[i]));
    }
    CU(cuCtxSetCurrent(job_context()));
}

/* (Report: no_context.) Without a context nothing can be allocated, and nothing breaks; with a null pointer
 * neither. */
static void no_context(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle handle[3];
    CUdeviceptr at[BUFFERS], none = 0;

    cuda_start();
    CU(cuCtxSetCurrent(NULL));
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&none, 4 * MIB));
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuMemAllocAsync(&none, 4 * MIB, NULL));
    CU(cuCtxSetCurrent(job_context()));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(NULL, 4 * MIB));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(&none, 0));
    REQUIRE(!none, "an output was set");
    for (unsigned i = 0; i < BUFFERS; i++)
        CU(cuMemAlloc(&at[i], size_of(i)));
    fill_and_check(at, BUFFERS);
    /* Memory of a device can be made without a context: frames make way for it, which hold all of it now. */
    CU(cuCtxSetCurrent(NULL));
    for (unsigned i = 0; i < 3; i++)
        CU(cuMemCreate(&handle[i], 4 * MIB, &prop, 0));
    CU(cuCtxSetCurrent(job_context()));
    fill_and_check(at, BUFFERS);
    CU(cuCtxSetCurrent(NULL));
    for (unsigned i = 0; i < 3; i++)
        CU(cuMemRelease(handle[i]));
    CU(cuCtxSetCurrent(job_context()));
    fill_and_check(at, BUFFERS);
}

/* What is too small to be spilled fills the device; with a lower limit it is spilled. */
enum { SMALL = 100 };

static void small_ones(void)
{
    static CUdeviceptr at[SMALL];
    CUresult status = CUDA_SUCCESS;
    CUdeviceptr large;
    unsigned count = 0;

    cuda_start();
    CU(cuMemAlloc(&large, 4 * MIB));
    job_fill(large, MIB, 70, NULL);
    while (count < SMALL && status == CUDA_SUCCESS) {
        status = cuda.cuMemAlloc(&at[count], MIB / 2);
        if (status == CUDA_SUCCESS) {
            job_fill(at[count], MIB / 8, count, NULL);
            count++;
        }
    }
    for (unsigned i = 0; i < count; i++)
        CHECK_WORDS(at[i], MIB / 8, i);
    REQUIRE(status == (getenv("HBMSPILL_MIN_SIZE") ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY), "%u, %s",
            count, job_error_name(status));
    for (unsigned i = 0; i < count; i++)
        CU(cuMemFree(at[i]));
    CHECK_WORDS(large, MIB, 70); /* made way, and is back */
}

static void says_they_are_small(const struct outcome *of)
{
    ck_assert_msg(strstr(of->err, "MiB: allocations of less than 1024 KiB (HBMSPILL_MIN_SIZE: lower it)") !=
                      NULL,
                  "%s", of->err);
}

/* What both tiers together do not have is refused when it is asked for, each time, and said once. */
static void too_large(void)
{
    CUdeviceptr at = 0;

    cuda_start();
    for (unsigned i = 0; i < 3; i++)
        EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&at, 200 * MIB));
    REQUIRE(!at, "an output was set");
    CU(cuMemAlloc(&at, 8 * MIB));
    CU(cuMemFree(at));
}

static void says_it_once(const struct outcome *of)
{
    const char *line = strstr(of->err, " gpu0 full] an allocation");
    const char *end = line ? strchr(line, '\n') : NULL;

    ck_assert_uint_eq(outcome_number(of->statistics, "refused"), 3);
    ck_assert_uint_eq(outcome_number(of->statistics, "peak_host_bytes"), 0); /* before any of it was needed */
    ck_assert_msg(strstr(of->err,
                         " gpu0 full] an allocation of 200 MiB is more than device memory (30 MiB) and "
                         "host memory (64 MiB) have together: raise HBMSPILL_HOST_LIMIT\n") != NULL,
                  "%s", of->err);
    ck_assert_msg(end != NULL, "%s", of->err);
    ck_assert_msg(!strstr(end, "an allocation"), "%s", of->err);
    ck_assert_msg(strstr(end, " gpu0 full] last line 2 times more\n") != NULL, "%s", of->err);
}

static const struct scenario scenarios[] = {
    {.name = "plain", .job = plain, .flags = SCENARIO_SPILLS},
    {.name = "plain_by_proc_address", .job = plain_by_proc_address, .flags = SCENARIO_SPILLS | SCENARIO_ONCE},
    {.name = "stream_ordered", .job = stream_ordered, .flags = SCENARIO_SPILLS},
    {.name = "managed", .job = managed, .flags = SCENARIO_SPILLS | SCENARIO_ONCE},
    {.name = "pitched", .job = pitched, .flags = SCENARIO_SPILLS | SCENARIO_ONCE},
    {.name = "own_handles", .job = own_handles, .flags = SCENARIO_SPILLS},
    {.name = "wrong_frees", .job = wrong_frees, .flags = SCENARIO_SPILLS | SCENARIO_ONCE},
    {.name = "both_tiers",
     .job = both_tiers,
     .flags = SCENARIO_SPILLS | SCENARIO_NOT_NATIVE,
     .variables = "HBMSPILL_HOST_LIMIT=64M",
     .inspect = says_what_is_full},
    {.name = "small_ones",
     .job = small_ones,
     .flags = SCENARIO_ONCE | SCENARIO_NOT_NATIVE,
     .inspect = says_they_are_small},
    {.name = "small_ones_spilled",
     .job = small_ones,
     .flags = SCENARIO_SPILLS | SCENARIO_ONCE | SCENARIO_NOT_NATIVE,
     .variables = "HBMSPILL_MIN_SIZE=256K"},
    {.name = "too_large",
     .job = too_large,
     .flags = SCENARIO_ONCE | SCENARIO_NOT_NATIVE,
     .variables = "HBMSPILL_HOST_LIMIT=64M",
     .inspect = says_it_once},
    {.name = "small", .job = small, .flags = SCENARIO_SPILLS},
    {.name = "churn", .job = churn, .flags = SCENARIO_SPILLS},
    {.name = "second_context", .job = second_context, .flags = SCENARIO_SPILLS},
    {.name = "no_context", .job = no_context, .flags = SCENARIO_SPILLS | SCENARIO_ONCE},
};

int main(int argc, char **argv)
{
    return scenarios_main(argc, argv, "alloc", scenarios, sizeof scenarios / sizeof *scenarios, 20);
}
