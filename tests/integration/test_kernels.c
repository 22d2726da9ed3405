/*
 * Kernel launches in all their forms, closed and open.
 */
#include "tests/integration/job.h"
#include "tests/integration/scenario.h"

#include <check.h>

enum { BYTES = 3 << 20, WORDS = BYTES / 4, COUNT = 14 };

static CUdeviceptr at[COUNT];

static void start(void)
{
    cuda_start();
    for (unsigned i = 0; i < COUNT; i++) {
        CU(cuMemAlloc(&at[i], BYTES));
        job_fill(at[i], WORDS, i, NULL);
    }
}

static void check_pairs(void)
{
    for (unsigned i = 0; i < COUNT; i++) {
        if (i % 2)
            CHECK_WORDS(at[i], WORDS, i);
        else
            CHECK_SUM(at[i], WORDS, i, i + 1);
        CU(cuMemFree(at[i]));
    }
}

struct by_value {
    CUdeviceptr to;
    uint32_t count, pad;
    CUdeviceptr from;
};

static void in_structures(void)
{
    start();
    for (unsigned i = 0; i < COUNT; i += 2) {
        struct by_value value = {.to = at[i], .count = WORDS, .from = at[i + 1]};
        void *params[] = {&value};

        REQUIRE(job_launch(job_kernel("add_struct"), WORDS, NULL, params) == CUDA_SUCCESS);
    }
    check_pairs();
}

static void in_extra(void)
{
    start();
    for (unsigned i = 0; i < COUNT; i += 2) {
        struct by_value value = {.to = at[i], .count = WORDS, .from = at[i + 1]};
        size_t size = sizeof value;
        void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &value, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                         CU_LAUNCH_PARAM_END};

        CU(cuLaunchKernel(job_kernel("add_struct"), WORDS / 256, 1, 1, 256, 1, 1, 0, NULL, NULL, extra));
    }
    check_pairs();
}

/* Into the middle and to the last word of an allocation: all of it comes. */
static void interior(void)
{
    enum { HALF = WORDS / 2 };

    start();
    for (unsigned i = 0; i < COUNT; i += 2) {
        job_add(at[i] + HALF * 4, at[i + 1] + HALF * 4, HALF, NULL);
        job_add(at[i], at[i + 1], HALF, NULL);
        job_copy(at[i + 1] + BYTES - 4, at[i + 1] + BYTES - 4, 1, NULL);
    }
    check_pairs();
}

/* A kernel is given an address that is freed, and does not use it. */
static void freed_pointer(void)
{
    CUdeviceptr gone;

    start();
    CU(cuMemAlloc(&gone, BYTES));
    CU(cuMemFree(gone));
    for (unsigned i = 0; i < COUNT; i += 2) {
        struct by_value value = {.to = at[i], .count = WORDS, .from = at[i + 1]};
        uint32_t none = 0;
        void *params[] = {&gone, &at[i], &none};
        void *right[] = {&value};

        REQUIRE(job_launch(job_kernel("add"), 256, NULL, params) == CUDA_SUCCESS);
        REQUIRE(job_launch(job_kernel("add_struct"), WORDS, NULL, right) == CUDA_SUCCESS);
    }
    check_pairs();
}

/* As launch_add, by cuLaunchKernelEx with an early start asked for. */
static void launch_early(CUfunction kernel, CUdeviceptr to, CUdeviceptr from, CUstream stream)
{
    uint32_t count = WORDS;
    void *params[] = {&to, &from, &count};
    CUlaunchAttribute attributes[] = {
        {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY, .value.priority = 0},
        {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
         .value.programmaticStreamSerializationAllowed = 1},
    };
    CUlaunchConfig config = {.gridDimX = WORDS / 256,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 256,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = stream,
                             .attrs = attributes,
                             .numAttrs = 2};

    CU(cuLaunchKernelEx(&config, kernel, params, NULL));
}

static void with_attributes(void)
{
    CUstream stream;

    start();
    CU(cuCtxSynchronize());
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < COUNT; i += 2)
        launch_early(job_kernel("add"), at[i], at[i + 1], stream);
    check_pairs();
}

static void cooperative(void)
{
    start();
    for (unsigned i = 0; i < COUNT; i += 2) {
        enum { PART = 16384 };

        for (unsigned done = 0; done < WORDS; done += PART) {
            CUdeviceptr to = at[i] + 4 * (size_t)done, from = at[i + 1] + 4 * (size_t)done;
            uint32_t count = PART;
            void *params[] = {&to, &from, &count};

            CU(cuLaunchCooperativeKernel(job_kernel("add"), PART / 256, 1, 1, 256, 1, 1, 0, NULL, params));
        }
    }
    check_pairs();
}

static void atomics(void)
{
    uint32_t wanted = 0, got;
    CUdeviceptr sum;

    start();
    CU(cuMemAlloc(&sum, 256));
    CU(cuMemsetD32(sum, 0, 64));
    for (unsigned i = 0; i < COUNT; i++) {
        uint32_t count = 1 << 16;
        void *params[] = {&sum, &at[i], &count};

        REQUIRE(job_launch(job_kernel("checksum"), count, NULL, params) == CUDA_SUCCESS);
        for (uint32_t k = 0; k < count; k++)
            wanted += job_word(i, k);
    }
    CU(cuMemcpyDtoH(&got, sum, sizeof got));
    REQUIRE(got == wanted, "0x%x, not 0x%x", got, wanted);
}

/* Modules come and go; a function's handle may be that of another kernel with other parameters. */
static void modules(void)
{
    start();
    for (unsigned i = 0; i < COUNT; i += 2) {
        struct by_value value = {.to = at[i], .count = WORDS, .from = at[i + 1]};
        uint32_t count = WORDS;
        void *by_value[] = {&value}, *by_pointer[] = {&at[i], &at[i + 1], &count};
        CUfunction function;
        CUmodule module;

        CU(cuModuleLoadData(&module, job_ptx));
        CU(cuModuleGetFunction(&function, module, i % 4 ? "add" : "add_struct"));
        REQUIRE(job_launch(function, WORDS, NULL, i % 4 ? by_pointer : by_value) == CUDA_SUCCESS);
        CU(cuCtxSynchronize());
        CU(cuModuleUnload(module));
    }
    check_pairs();
}

static void libraries(void)
{
    start();
    for (unsigned i = 0; i < COUNT; i += 2) {
        uint32_t count = WORDS;
        void *params[] = {&at[i], &at[i + 1], &count};
        CUlibrary library;
        CUkernel kernel;

        CU(cuLibraryLoadData(&library, job_ptx, NULL, NULL, 0, NULL, NULL, 0));
        CU(cuLibraryGetKernel(&kernel, library, "add"));
        REQUIRE(job_launch((CUfunction)kernel, WORDS, NULL, params) == CUDA_SUCCESS);
        CU(cuCtxSynchronize());
        CU(cuLibraryUnload(library));
    }
    check_pairs();
}

/* to[i] += all the buffers in the table, which lies in device memory. */
static CUresult chase(CUdeviceptr to, CUdeviceptr table, uint32_t tables)
{
    uint32_t count = WORDS;
    void *params[] = {&to, &table, &tables, &count};

    return job_launch(job_kernel("chase"), WORDS, NULL, params);
}

/* Everything fits: what an open kernel reaches through a table is there. */
static void open_fits(void)
{
    enum { FEW = 5 };
    uint32_t words[1024];
    CUdeviceptr table, few[FEW], sum;

    cuda_start();
    for (unsigned i = 0; i < FEW; i++) {
        CU(cuMemAlloc(&few[i], BYTES));
        job_fill(few[i], WORDS, i, NULL);
    }
    job_flush();
    CU(cuMemAlloc(&sum, BYTES));
    CU(cuMemsetD8(sum, 0, BYTES));
    CU(cuMemAlloc(&table, 4096));
    CU(cuMemcpyHtoD(table, few, sizeof few));
    REQUIRE(chase(sum, table, FEW) == CUDA_SUCCESS);
    CU(cuCtxSynchronize());
    CU(cuMemcpyDtoH(words, sum + 4096, sizeof words));
    for (uint32_t k = 0; k < 1024; k++) {
        uint32_t wanted = 0;

        for (unsigned i = 0; i < FEW; i++)
            wanted += job_word(i, 1024 + k);
        REQUIRE(words[k] == wanted, "word %u", 1024 + k);
    }
    for (unsigned i = 0; i < FEW; i++)
        CHECK_WORDS(few[i], WORDS, i);
}

/* Not everything fits: a clean error that says so, and the job goes on; it may free and try again. */
static void open_does_not_fit(void)
{
    uint32_t *words = malloc(BYTES);
    CUdeviceptr table;
    CUresult status;

    cuda_start();
    REQUIRE(words);
    for (unsigned i = 0; i < COUNT; i++) {
        CU(cuMemAlloc(&at[i], BYTES));
        for (uint32_t k = 0; k < WORDS; k++)
            words[k] = job_word(i, k);
        CU(cuMemcpyHtoD(at[i], words, BYTES));
    }
    free(words);
    CU(cuMemAlloc(&table, 4096));
    CU(cuMemcpyHtoD(table, at, sizeof at));
    CU(cuCtxSynchronize());
    status = chase(at[0], table + 8, 3);
    REQUIRE(status == CUDA_ERROR_OUT_OF_MEMORY, "%s", job_error_name(status));
    CU(cuCtxSynchronize());
    for (unsigned i = 4; i < COUNT; i++) {
        CHECK_WORDS(at[i], WORDS, i);
        CU(cuMemFree(at[i]));
    }
    status = chase(at[0], table + 8, 1);
    REQUIRE(status == CUDA_SUCCESS, "%s", job_error_name(status));
    CHECK_SUM(at[0], WORDS, 0, 1);
}

static void names_kernel(const struct outcome *of)
{
    const char *line = strstr(of->err, "open kernel chase");

    ck_assert_msg(line != NULL, "%s", of->err);
    ck_assert_msg(strstr(line, "MiB") != NULL && strstr(line, "HBMSPILL_HBM_LIMIT") != NULL, "%s", of->err);
    ck_assert_uint_eq(outcome_number(of->statistics, "open_launches"),
                      outcome_number(of->statistics, "launches"));
}

static const char open_variables[] = "HBMSPILL_CLOSED=auto";
static const char unlinked_variables[] = "HBMSPILL_CLOSED=auto SYNTHETIC_GPU_HOST_VMM=off";

static const struct scenario scenarios[] = {
    {.name = "in_structures", .job = in_structures, .flags = SCENARIO_SPILLS},
    {.name = "in_extra", .job = in_extra, .flags = SCENARIO_SPILLS},
    {.name = "interior", .job = interior, .flags = SCENARIO_SPILLS},
    {.name = "freed_pointer", .job = freed_pointer, .flags = SCENARIO_SPILLS},
    {.name = "with_attributes", .job = with_attributes, .flags = SCENARIO_SPILLS},
    {.name = "cooperative", .job = cooperative, .flags = SCENARIO_SPILLS},
    {.name = "atomics", .job = atomics, .flags = SCENARIO_SPILLS},
    {.name = "modules", .job = modules, .flags = SCENARIO_SPILLS},
    {.name = "libraries", .job = libraries, .flags = SCENARIO_SPILLS},
    {.name = "open_fits",
     .job = open_fits,
     .hbm = "72M",
     .variables = open_variables,
     .flags = SCENARIO_ONCE},
    {.name = "open_does_not_fit",
     .job = open_does_not_fit,
     .hbm = "40M",
     .variables = unlinked_variables,
     .flags = SCENARIO_NOT_NATIVE,
     .inspect = names_kernel},
};

int main(int argc, char **argv)
{
    return scenarios_main(argc, argv, "kernels", scenarios, sizeof scenarios / sizeof *scenarios, 20);
}
