/*
 * Pinned host memory by way of the CUDA runtime, linked into the job and as a library: served from the pool
 * and answered as the driver does. The same checks pass without the library.
 */
#include "tests/integration/job.h"
#include "tests/integration/scenario.h"

#include <check.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

enum { BYTES = 4 << 20, WORDS = BYTES / 4, PAGE = 4096 };

#define RUNTIME_FUNCTIONS(X)                                                                                 \
    X(cudaHostAlloc)                                                                                         \
    X(cudaMallocHost)                                                                                        \
    X(cudaFreeHost)                                                                                          \
    X(cudaHostRegister)                                                                                      \
    X(cudaHostUnregister)                                                                                    \
    X(cudaHostGetDevicePointer)                                                                              \
    X(cudaHostGetFlags)                                                                                      \
    X(cudaPointerGetAttributes)

static struct runtime {
#define MEMBER(name) __typeof__(&name) name;
    RUNTIME_FUNCTIONS(MEMBER)
#undef MEMBER
} runtime = {
#define LINKED(name) .name = name,
    RUNTIME_FUNCTIONS(LINKED)
#undef LINKED
};

static void open_runtime(void)
{
    void *library = dlopen(RUNTIME_LIBRARY, RTLD_NOW | RTLD_LOCAL);

    REQUIRE(library != NULL, "%s", dlerror());
#define LOOK_UP(name) REQUIRE((*(void **)&runtime.name = dlsym(library, #name)) != NULL);
    RUNTIME_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
    REQUIRE(runtime.cudaHostAlloc != cudaHostAlloc);
}

#define RT_EXPECT(wanted, call)                                                                              \
    do {                                                                                                     \
        cudaError_t rt_status = runtime.call;                                                                \
        REQUIRE(rt_status == (wanted), "%s: %d instead of %d", #call, (int)rt_status, (int)(wanted));        \
    } while (0)
#define RT(call) RT_EXPECT(cudaSuccess, call)

static void check_host(char *memory, size_t size)
{
    struct cudaPointerAttributes of;
    void *device;

    RT(cudaHostGetDevicePointer(&device, memory, 0));
    REQUIRE(device == memory);
    for (unsigned i = 0; i < 2; i++) {
        RT(cudaPointerGetAttributes(&of, memory + (i ? size - 1 : 0)));
        REQUIRE(of.type == cudaMemoryTypeHost && of.device == 0);
        REQUIRE(of.devicePointer == memory + (i ? size - 1 : 0) && of.hostPointer == of.devicePointer);
    }
}

/* Copies of it are what they would be. */
static void check_copies(char *memory, size_t size, CUdeviceptr at)
{
    memset(memory, 9, size);
    CU(cuMemcpyHtoD(at, memory, size));
    CU(cuMemsetD8(at, 4, 1));
    memset(memory, 1, size);
    CU(cuMemcpyDtoH(memory, at, size));
    REQUIRE(memory[0] == 4 && (size == 1 || memory[size - 1] == 9));
}

static void host_memory(void)
{
    static const unsigned kinds[] = {cudaHostAllocDefault, cudaHostAllocPortable, cudaHostAllocMapped,
                                     cudaHostAllocPortable | cudaHostAllocMapped, cudaHostAllocWriteCombined};
    static const size_t sizes[] = {1, 5000, MIB, 3 * MIB + 1};
    static char own[4 * PAGE];
    struct cudaPointerAttributes of;
    unsigned told;
    CUdeviceptr at;
    char *memory;

    CU(cuMemAlloc(&at, BYTES));
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (unsigned k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            RT(cudaHostAlloc((void **)&memory, sizes[s], kinds[k]));
            RT(cudaHostGetFlags(&told, memory));
            REQUIRE(told == (kinds[k] | cudaHostAllocMapped), "%u of %u", told, kinds[k]);
            check_host(memory, sizes[s]);
            check_copies(memory, sizes[s], at);
            RT(cudaFreeHost(memory));
            RT_EXPECT(cudaErrorInvalidValue, cudaFreeHost(memory));
        }
        RT(cudaMallocHost((void **)&memory, sizes[s]));
        check_host(memory, sizes[s]);
        check_copies(memory, sizes[s], at);
        RT_EXPECT(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(memory, sizes[s], 0));
        RT(cudaFreeHost(memory));
    }
    RT_EXPECT(cudaErrorInvalidValue, cudaHostAlloc((void **)&memory, PAGE, 64));
    for (unsigned flags = 0; flags < 4; flags++) { /* portable, mapped */
        RT(cudaHostRegister(own + 100, 2 * PAGE, flags));
        check_host(own + 100, 2 * PAGE);
        RT_EXPECT(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(own + 200, 8, flags));
        RT_EXPECT(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(own + 101));
        RT(cudaHostUnregister(own + 100));
        RT_EXPECT(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(own + 100));
    }
    RT(cudaPointerGetAttributes(&of, own));
    REQUIRE(of.type == cudaMemoryTypeUnregistered);
    RT(cudaPointerGetAttributes(&of, (void *)(uintptr_t)at));
    REQUIRE(of.type == cudaMemoryTypeDevice && of.hostPointer == NULL);
    CU(cuMemFree(at));
}

static void linked(void)
{
    cuda_start();
    host_memory();
}

static void opened(void)
{
    cuda_start();
    open_runtime();
    host_memory();
}

static void all_counted(const struct outcome *of)
{
    ck_assert_uint_eq(outcome_number(of->statistics, "job_pinned_bytes"), 0);
    ck_assert_uint_eq(outcome_number(of->statistics, "peak_job_pinned_bytes"), 3 * MIB + 1);
}

/* Of the 20 of a kind that the pool has, 4 pieces are pinned; write-combined ones are the driver's. */
static void from_the_pool(const struct outcome *of)
{
    all_counted(of);
    ck_assert_uint_gt(outcome_number(of->statistics, "pool_made"), 0);
    ck_assert_uint_ge(outcome_number(of->statistics, "pool_reused"), 12);
    ck_assert_uint_eq(outcome_number(of->statistics, "pool_asked_bytes"), 0);
}

static void of_the_driver(const struct outcome *of)
{
    all_counted(of);
    ck_assert_uint_eq(outcome_number(of->statistics, "pool_made"), 0);
    ck_assert_uint_eq(outcome_calls(of, "cuMemHostAlloc"), 25);
    ck_assert_uint_eq(outcome_number(of->statistics, "pinned_bytes"), 0);
}

static const struct scenario scenarios[] = {
    {.name = "linked", .job = linked, .flags = SCENARIO_ONCE, .inspect = from_the_pool},
    {.name = "opened", .job = opened, .flags = SCENARIO_ONCE, .inspect = from_the_pool},
    {.name = "off",
     .job = opened,
     .flags = SCENARIO_ONCE | SCENARIO_NOT_NATIVE,
     .variables = "HBMSPILL_PINNED=off",
     .inspect = of_the_driver},
};

int main(int argc, char **argv)
{
    return scenarios_main(argc, argv, "runtime_host", scenarios, sizeof scenarios / sizeof *scenarios, 60);
}
