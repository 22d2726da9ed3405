/*
 * The job's own virtual memory management as JAX's vmm, platform and bfc allocators use it: a handle, an
 * address of its size, a mapping, access. Then it is spilled; otherwise it is the driver's.
 */
#include "tests/integration/job.h"
#include "tests/integration/scenario.h"

#include <check.h>
#include <unistd.h>

enum { REGIONS = 16 };

#define BYTES (4 * MIB)
#define WORDS (BYTES / 4)

static const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                         .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                         .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
static const CUmemAccessDesc access_all = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                           .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

struct region {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    size_t bytes;
};

static void take(struct region *region, size_t bytes)
{
    region->bytes = bytes;
    CU(cuMemCreate(&region->handle, bytes, &prop, 0));
    CU(cuMemAddressReserve(&region->at, bytes, 2 * MIB, 0, 0));
    CU(cuMemMap(region->at, bytes, 0, region->handle, 0));
    CU(cuMemSetAccess(region->at, bytes, &access_all, 1));
}

/* In one of the orders that the driver takes. */
static void give(struct region *region, unsigned order)
{
    if (order == 0)
        CU(cuMemRelease(region->handle)); /* it lives while it is mapped */
    CU(cuMemUnmap(region->at, region->bytes));
    if (order == 1)
        CU(cuMemRelease(region->handle));
    CU(cuMemAddressFree(region->at, region->bytes));
    if (order == 2)
        CU(cuMemRelease(region->handle));
}

static void check_questions(const struct region *region)
{
    CUmemAllocationProp found = {0};
    CUmemGenericAllocationHandle again = 0;
    unsigned long long flags = 0;
    CUdeviceptr base;
    size_t size;
    int device = -1;

    CU(cuMemGetAccess(&flags, &prop.location, region->at + 4096));
    REQUIRE(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE, "%llu", flags);
    CU(cuMemGetAllocationPropertiesFromHandle(&found, region->handle));
    REQUIRE(found.location.type == CU_MEM_LOCATION_TYPE_DEVICE && found.location.id == 0);
    CU(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(region->at + 4096)));
    REQUIRE(again == region->handle);
    CU(cuMemRelease(again));
    CU(cuMemGetAddressRange(&base, &size, region->at + 4096));
    REQUIRE(base == region->at && size == region->bytes, "%zu", size);
    CU(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, region->at));
    REQUIRE(device == 0);
}

static void spilled(void)
{
    struct region region[REGIONS];

    cuda_start();
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < REGIONS; i++) {
            take(&region[i], BYTES);
            job_fill(region[i].at, WORDS, i + round, NULL);
        }
        for (unsigned i = 0; i < REGIONS; i++)
            CHECK_WORDS(region[i].at, WORDS, i + round);
        for (unsigned i = 0; i + 1 < REGIONS; i += 2)
            job_add(region[i].at, region[i + 1].at, WORDS, NULL);
        check_questions(&region[3]);
        /* A handle that is still held keeps the contents while it is mapped nowhere. */
        CU(cuCtxSynchronize());
        CU(cuMemUnmap(region[2].at, BYTES));
        for (unsigned i = 4; i < REGIONS; i += 2)
            CHECK_SUM(region[i].at, WORDS, i + round, i + 1 + round);
        CU(cuMemMap(region[2].at, BYTES, 0, region[2].handle, 0));
        CU(cuMemSetAccess(region[2].at, BYTES, &access_all, 1));
        CHECK_SUM(region[2].at, WORDS, 2 + round, 3 + round);
        CU(cuCtxSynchronize());
        for (unsigned i = 0; i < REGIONS; i++)
            give(&region[i], (i + round) % 3);
    }
}

static void all_of_it(const struct outcome *of)
{
    ck_assert_uint_eq(outcome_number(of->statistics, "managed_allocations"), 3 * REGIONS);
    ck_assert_uint_eq(outcome_number(of->statistics, "passed_allocations"), 0);
    outcome_check_held(of, true);
}

/* What is mapped in another place than an address of its own, or exported, is the driver's; the others make
 * way. */
static void elsewhere(void)
{
    struct region region[REGIONS];
    CUmemGenericAllocationHandle handle[2], exported;
    CUdeviceptr two;
    int file = -1;

    cuda_start();
    for (unsigned i = 0; i < REGIONS; i++) {
        take(&region[i], BYTES);
        job_fill(region[i].at, WORDS, i, NULL);
    }
    CU(cuMemCreate(&exported, BYTES, &prop, 0));
    CU(cuMemExportToShareableHandle(&file, exported, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    close(file);
    CU(cuMemAddressReserve(&two, 2 * BYTES, 0, 0, 0));
    for (unsigned i = 0; i < 2; i++) {
        CU(cuMemCreate(&handle[i], BYTES, &prop, 0));
        CU(cuMemMap(two + i * BYTES, BYTES, 0, handle[i], 0));
    }
    CU(cuMemSetAccess(two, 2 * BYTES, &access_all, 1));
    job_fill(two, 2 * WORDS, 70, NULL);
    for (unsigned i = 0; i < REGIONS; i++)
        CHECK_WORDS(region[i].at, WORDS, i);
    CHECK_WORDS(two, 2 * WORDS, 70);
    CU(cuMemUnmap(two, 2 * BYTES));
    CU(cuMemAddressFree(two, 2 * BYTES));
    for (unsigned i = 0; i < 2; i++)
        CU(cuMemRelease(handle[i]));
    CU(cuMemRelease(exported));
    for (unsigned i = 0; i < REGIONS; i++)
        give(&region[i], 1);
}

/* What cannot be done for memory that may be spilled, and what is wrong, is refused and changes nothing. */
static void refused(void)
{
    CUmemAccessDesc reading = access_all;
    struct region region[REGIONS];
    CUmemGenericAllocationHandle other;
    CUdeviceptr at;
    int file;

    cuda_start();
    for (unsigned i = 0; i < REGIONS; i++) {
        take(&region[i], BYTES);
        job_fill(region[i].at, WORDS, i, NULL);
    }
    CU(cuMemAddressReserve(&at, 2 * BYTES, 0, 0, 0));
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(at, BYTES, 0, region[0].handle, 0));
    EXPECT(
        CUDA_ERROR_NOT_SUPPORTED,
        cuMemExportToShareableHandle(&file, region[0].handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    reading.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMemSetAccess(region[0].at, BYTES, &reading, 1));
    CU(cuMemCreate(&other, BYTES, &prop, 0));
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(region[0].at, BYTES, 0, other, 0));
    CU(cuMemRelease(other));

    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(region[0].at, BYTES, 0, region[0].handle, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(region[0].at, BYTES / 2));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(region[0].at, BYTES, &access_all, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(region[0].at, BYTES));
    for (unsigned i = 0; i < REGIONS; i++)
        CHECK_WORDS(region[i].at, WORDS, i);
    CU(cuMemUnmap(region[0].at, BYTES));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(region[0].at, BYTES));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(region[0].at, BYTES, &access_all, 1));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(region[0].at, 2 * BYTES));
    CU(cuMemRelease(region[0].handle));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemRelease(region[0].handle));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(region[0].at, BYTES, 0, region[0].handle, 0));
    CU(cuMemAddressFree(region[0].at, BYTES));
    for (unsigned i = 1; i < REGIONS; i++)
        give(&region[i], 0);
    CU(cuMemAddressFree(at, 2 * BYTES));
}

static void says_what(const struct outcome *of)
{
    ck_assert_msg(strstr(of->err, "is not to be had for memory of XLA_PYTHON_CLIENT_ALLOCATOR") != NULL, "%s",
                  of->err);
    outcome_check_held(of, true);
}

/* Three that fit, of more than half of HBM together. */
static void fits(void)
{
    struct region region[3];

    cuda_start();
    for (unsigned i = 0; i < 3; i++) {
        take(&region[i], BYTES);
        job_fill(region[i].at, WORDS, i, NULL);
    }
    check_questions(&region[0]);
    for (unsigned i = 0; i < 3; i++)
        CHECK_WORDS(region[i].at, WORDS, i);
    for (unsigned i = 0; i < 3; i++)
        give(&region[i], i);
}

static void large(void)
{
    struct region region;

    cuda_start();
    take(&region, 20 * MIB);
    job_fill(region.at, 20 * MIB / 4, 5, NULL);
    CHECK_WORDS(region.at, 20 * MIB / 4, 5);
    give(&region, 1);
}

static void none_of_it(const struct outcome *of)
{
    ck_assert_uint_eq(outcome_number(of->statistics, "managed_allocations"), 0);
    ck_assert_uint_ge(outcome_number(of->statistics, "passed_allocations"), 1);
    outcome_check_held(of, true);
}

#define VMM "XLA_PYTHON_CLIENT_ALLOCATOR=vmm"

static const struct scenario scenarios[] = {
    {.name = "spilled", .job = spilled, .flags = SCENARIO_SPILLS, .variables = VMM, .inspect = all_of_it},
    {.name = "spilled_of_bfc",
     .job = spilled,
     .flags = SCENARIO_SPILLS | SCENARIO_ONCE,
     .variables = "XLA_PYTHON_CLIENT_ALLOCATOR=bfc XLA_PYTHON_CLIENT_PREALLOCATE=false",
     .inspect = all_of_it},
    {.name = "elsewhere", .job = elsewhere, .flags = SCENARIO_SPILLS, .variables = VMM},
    {.name = "refused",
     .job = refused,
     .flags = SCENARIO_SPILLS | SCENARIO_ONCE | SCENARIO_NOT_NATIVE,
     .variables = VMM,
     .inspect = says_what},
    {.name = "no_allocator", .job = fits, .flags = SCENARIO_ONCE, .inspect = none_of_it},
    {.name = "slab",
     .job = fits,
     .flags = SCENARIO_ONCE,
     .variables = "XLA_PYTHON_CLIENT_ALLOCATOR=bfc",
     .inspect = none_of_it},
    {.name = "two_devices",
     .job = fits,
     .flags = SCENARIO_ONCE,
     .variables = VMM " SYNTHETIC_GPU_DEVICES=2",
     .inspect = none_of_it},
    {.name = "large", .job = large, .flags = SCENARIO_ONCE, .variables = VMM, .inspect = none_of_it},
};

int main(int argc, char **argv)
{
    return scenarios_main(argc, argv, "regions", scenarios, sizeof scenarios / sizeof *scenarios, 60);
}
