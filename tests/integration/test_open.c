/*
 * Kernels that reach memory by addresses they find in memory, and operations larger than HBM: what is spilled
 * is reached where it is, over the link, and what was written there is what everybody reads afterwards.
 */
#include "tests/integration/job.h"
#include "tests/integration/scenario.h"

#include <check.h>

enum { BYTES = 3 << 20, WORDS = BYTES / 4, COUNT = 14 }; /* 42 of 40 MiB, less what is kept in reserve */

static CUdeviceptr at[COUNT], table;
static CUstream stream, other;

/* Buffer i holds the words of seed i; the table has the addresses of all, in the driver's memory. */
static void start(void)
{
    cuda_start();
    stream = job_stream();
    other = job_stream();
    CU(cuMemAlloc(&table, 4096));
    for (unsigned i = 0; i < COUNT; i++) {
        CU(cuMemAlloc(&at[i], BYTES));
        job_fill(at[i], WORDS, i, stream);
    }
    CU(cuMemcpyHtoD(table, at, sizeof at));
    CU(cuCtxSynchronize());
}

static CUfunction open_kernel(const char *name)
{
    static CUmodule unknown; /* a module that nobody vouches for, as a library's */
    CUfunction function;

    if (!unknown)
        CU(cuModuleLoadData(&unknown, job_ptx));
    CU(cuModuleGetFunction(&function, unknown, name));
    return function;
}

/* to[i] += the words i behind `tables' addresses from the first-th on */
static void chase(CUdeviceptr to, unsigned first, uint32_t tables, CUstream in)
{
    CUdeviceptr addresses = table + 8 * (CUdeviceptr)first;
    uint32_t count = WORDS;
    void *params[] = {&to, &addresses, &tables, &count};
    CUresult status = job_launch(open_kernel("chase"), WORDS, in, params);

    REQUIRE(status == CUDA_SUCCESS, "%s", job_error_name(status));
}

/* The words i behind each of them += from[i] */
static void spread(CUdeviceptr from, unsigned first, uint32_t tables, CUstream in)
{
    CUdeviceptr addresses = table + 8 * (CUdeviceptr)first;
    uint32_t count = WORDS;
    void *params[] = {&from, &addresses, &tables, &count};
    CUresult status = job_launch(open_kernel("spread"), WORDS, in, params);

    REQUIRE(status == CUDA_SUCCESS, "%s", job_error_name(status));
}

/* ---- tables of addresses ---- */

/* One by one, so that each time another buffer is the one that is spilled. */
static void table_read(void)
{
    start();
    for (unsigned i = 1; i < COUNT; i += 2)
        chase(at[i - 1], i, 1, stream);
    CU(cuStreamSynchronize(stream));
    for (unsigned i = 0; i < COUNT; i += 2) {
        CHECK_SUM(at[i], WORDS, i, i + 1);
        CHECK_WORDS(at[i + 1], WORDS, i + 1);
    }
}

/* What an open kernel has written is what closed kernels, copies and other open kernels find. */
static void table_written(void)
{
    start();
    spread(at[0], 1, COUNT - 1, stream);
    for (unsigned i = 1; i < COUNT; i++) /* each comes back into HBM and pushes another out */
        if (i % 3 == 1)
            job_copy(at[i], at[i], WORDS, stream);
    CU(cuStreamSynchronize(stream));
    for (unsigned i = 1; i < COUNT; i++)
        CHECK_SUM(at[i], WORDS, 0, i);
    CHECK_WORDS(at[0], WORDS, 0);
}

/* Closed kernels in between get theirs into HBM, and nothing of theirs goes over the link. */
static void comes_back(void)
{
    start();
    for (unsigned round = 0; round < 2; round++) {
        spread(at[0], 1, COUNT - 1, stream);
        CU(cuStreamSynchronize(stream));
        for (unsigned i = 1; i < COUNT; i++)
            job_copy(at[i], at[i], WORDS, stream);
        if (!round)
            for (unsigned i = 1; i < COUNT; i++)
                job_fill(at[i], WORDS, i, stream);
    }
    CU(cuStreamSynchronize(stream));
    for (unsigned i = 1; i < COUNT; i++)
        CHECK_SUM(at[i], WORDS, 0, i);
}

static void linked_twice(const struct outcome *of)
{
    ck_assert_uint_eq(outcome_number(of->statistics, "linked_operations"), 2);
    ck_assert_uint_gt(outcome_number(of->statistics, "fills"), 0);
}

/* The batched forms of BLAS: arrays of addresses for each operand, all in device memory. */
static void batched_arrays(void)
{
    enum { BATCHES = 4 };
    CUdeviceptr a, b, c;
    uint32_t batches = BATCHES, count = WORDS;
    void *params[] = {&a, &b, &c, &batches, &count};

    start();
    a = table;
    b = table + 8 * BATCHES;
    c = table + (CUdeviceptr)(2 * 8 * BATCHES);
    for (unsigned i = 0; i < 2; i++)
        REQUIRE(job_launch(open_kernel("batched"), WORDS, stream, params) == CUDA_SUCCESS);
    job_add(at[0], at[2 * BATCHES], WORDS, stream);
    CU(cuStreamSynchronize(stream));
    for (unsigned i = 1; i < BATCHES; i++)
        CHECK_SUM(at[2 * BATCHES + i], WORDS, i, BATCHES + i);
}

/* Copies and memsets of memory that is linked, before and while an open kernel may look at it. */
static void copies(void)
{
    uint32_t *words = malloc(BYTES);

    REQUIRE(words);
    start();
    spread(at[0], 1, COUNT - 1, stream);
    for (unsigned i = 1; i < COUNT; i++) {
        if (i % 3 == 0) {
            for (uint32_t k = 0; k < WORDS; k++)
                words[k] = job_word(i, k);
            CU(cuMemcpyHtoDAsync(at[i], words, BYTES, stream));
            CU(cuStreamSynchronize(stream));
        } else if (i % 3 == 1 && i + 1 < COUNT) {
            CU(cuMemcpyDtoDAsync(at[i], at[i + 1], BYTES, stream));
        }
    }
    spread(at[0], 1, COUNT - 1, stream);
    CU(cuMemsetD32Async(at[COUNT - 1], 7, WORDS, stream));
    chase(at[COUNT - 1], 0, 1, stream);
    CU(cuStreamSynchronize(stream));
    for (unsigned i = 1; i + 1 < COUNT; i++) {
        CU(cuMemcpyDtoH(words, at[i], BYTES));
        for (uint32_t k = 0; k < WORDS; k += 101) {
            uint32_t seed = i % 3 == 1 && i + 1 < COUNT ? i + 1 : i, times = i % 3 ? 2 : 1;

            REQUIRE(words[k] == job_word(seed, k) + times * job_word(0, k), "buffer %u, word %u", i, k);
        }
    }
    CU(cuMemcpyDtoH(words, at[COUNT - 1], BYTES));
    for (uint32_t k = 0; k < WORDS; k += 101)
        REQUIRE(words[k] == 7 + job_word(0, k), "word %u", k);
    free(words);
}

/* Freed and allocated between open kernels, with nothing in HBM to spare. */
static void births_and_deaths(void)
{
    start();
    for (unsigned round = 0; round < 6; round++) {
        unsigned gone = 1 + round % (COUNT - 1);

        spread(at[0], 1, COUNT - 1, stream);
        CU(cuMemFreeAsync(at[gone], stream));
        CU(cuMemAllocAsync(&at[gone], BYTES, stream));
        CU(cuMemcpyHtoDAsync(table, at, sizeof at, stream));
        CU(cuMemsetD32Async(at[gone], 0, WORDS, stream));
        chase(at[gone], 0, 1, stream);
        CU(cuStreamSynchronize(stream));
        CHECK_WORDS(at[gone], WORDS, 0);
        job_fill(at[gone], WORDS, gone, stream);
    }
}

/* ---- an open kernel that waits for somebody else, as a collective for its peers ---- */

/*
 * It stands in a stream behind a flag; who sets the flag comes after kernels in another stream, which touch
 * what is spilled, what is in HBM, and what was never touched. None of them may come to wait for the first.
 */
static void waits_for_a_flag(void)
{
    CUdeviceptr flag, fresh[3];

    start();
    CU(cuMemAlloc(&flag, 256));
    CU(cuMemsetD32(flag, 0, 64));
    for (unsigned i = 0; i < 3; i++)
        CU(cuMemAlloc(&fresh[i], BYTES));
    CU(cuCtxSynchronize());
    CU(cuStreamWaitValue32(stream, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    spread(at[0], 1, 4, stream);
    for (unsigned i = 5; i < COUNT; i++) {
        job_fill(at[i], WORDS, i + 100, other);
        if (i < 8)
            job_copy(fresh[i - 5], at[i], WORDS, other);
    }
    CU(cuMemcpyDtoDAsync(at[COUNT - 1], at[5], BYTES, other));
    CU(cuStreamWriteValue32(other, flag, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    CU(cuStreamSynchronize(stream));
    CU(cuStreamSynchronize(other));
    for (unsigned i = 1; i < 5; i++)
        CHECK_SUM(at[i], WORDS, 0, i);
    for (unsigned i = 5; i + 1 < COUNT; i++)
        CHECK_WORDS(at[i], WORDS, i + 100);
    for (unsigned i = 0; i < 3; i++)
        CHECK_WORDS(fresh[i], WORDS, i + 105);
    CHECK_WORDS(at[COUNT - 1], WORDS, 105);
}

/* ---- variables of modules ---- */

static void globals(void)
{
    uint32_t count = WORDS, *words = malloc(BYTES), launches;
    CUdeviceptr where, counter;
    CUmodule module;
    size_t size;

    REQUIRE(words);
    start();
    CU(cuModuleLoadData(&module, job_ptx));
    CU(cuModuleGetGlobal(&where, &size, module, "where"));
    REQUIRE(size == 8);
    CU(cuModuleGetGlobal(&counter, &size, module, "launches"));
    for (unsigned i = 1; i < COUNT; i++) {
        CUfunction function;
        void *params[] = {&at[i - 1], &count};

        CU(cuModuleGetFunction(&function, module, "by_global"));
        CU(cuMemcpyHtoDAsync(where, &at[i], 8, stream));
        CU(cuStreamSynchronize(stream));
        REQUIRE(job_launch(function, WORDS, stream, params) == CUDA_SUCCESS);
        CU(cuStreamSynchronize(stream));
        CU(cuMemcpyDtoH(words, at[i], BYTES));
        for (uint32_t k = 0; k < WORDS; k += 101)
            REQUIRE(words[k] == job_word(i, k) + 3 * job_word(i - 1, k), "buffer %u, word %u", i, k);
        job_fill(at[i], WORDS, i, stream);
        CU(cuMemcpyDtoH(&launches, counter, sizeof launches));
        REQUIRE(launches == 40 + i * (uint32_t)WORDS);
    }
    free(words);
}

/* ---- operations that are larger than HBM ---- */

static void larger_than_hbm(void)
{
    enum { MANY = 24 << 20 };
    CUdeviceptr big[2];

    start();
    for (unsigned i = 0; i < 2; i++) {
        CU(cuMemAlloc(&big[i], MANY));
        job_fill(big[i], MANY / 4, i + 50, stream);
    }
    job_add(big[0], big[1], MANY / 4, stream);
    for (unsigned i = 0; i < COUNT; i++)
        job_copy(at[i], at[i], WORDS, stream);
    job_copy(big[1], big[0], MANY / 4, stream);
    CU(cuStreamSynchronize(stream));
    CHECK_SUM(big[0], MANY / 4, 50, 51);
    CHECK_SUM(big[1], MANY / 4, 50, 51);
    for (unsigned i = 0; i < COUNT; i++)
        CHECK_WORDS(at[i], WORDS, i);
}

/* ---- modules that nobody has vouched for yet ---- */

/* What tests/integration/test_admit runs: some kernels that are closed, some that are not, in several shapes.
 */
static void stand_ins(void)
{
    start();
    for (unsigned n = 1; n <= 4; n++) {
        uint32_t count = WORDS / n, seed = n;
        void *fill[] = {&at[n], &count, &seed}, *copy[] = {&at[n + 1], &at[n], &count};

        REQUIRE(job_launch(open_kernel("fill"), count, stream, fill) == CUDA_SUCCESS);
        REQUIRE(job_launch(open_kernel("copy"), count, stream, copy) == CUDA_SUCCESS);
        chase(at[0], n, 1, stream);
        CU(cuStreamSynchronize(stream));
        CHECK_WORDS(at[n + 1], count, n);
    }
}

/* A graph with an open kernel goes as a whole; what it lacks is linked for it, launch after launch. */
static void linked_graph(void)
{
    CUdeviceptr addresses;
    uint32_t tables = COUNT - 1, count = WORDS;
    void *params[] = {&at[0], &addresses, &tables, &count}, *fill[] = {&at[0], &count, &tables};
    CUDA_KERNEL_NODE_PARAMS node = {.gridDimX = WORDS / 256,
                                    .gridDimY = 1,
                                    .gridDimZ = 1,
                                    .blockDimX = 256,
                                    .blockDimY = 1,
                                    .blockDimZ = 1};
    CUgraphNode first, second;
    CUgraphExec exec;
    CUgraph graph;

    start();
    addresses = table + 8;
    CU(cuGraphCreate(&graph, 0));
    node.func = open_kernel("fill");
    node.kernelParams = fill;
    CU(cuGraphAddKernelNode(&first, graph, NULL, 0, &node));
    node.func = open_kernel("spread");
    node.kernelParams = params;
    CU(cuGraphAddKernelNode(&second, graph, &first, 1, &node));
    CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CU(cuGraphLaunch(exec, stream));
    for (unsigned i = 1; i < COUNT; i++) /* some come back in between */
        if (i % 4 == 0)
            job_fill(at[i], WORDS, i, stream);
    CU(cuStreamSynchronize(stream));
    for (unsigned i = 1; i < COUNT; i++) {
        if (i % 4)
            CHECK_SUM(at[i], WORDS, i, COUNT - 1);
        else
            CHECK_WORDS(at[i], WORDS, i);
        job_fill(at[i], WORDS, i, stream);
    }
    CU(cuGraphLaunch(exec, stream));
    CU(cuStreamSynchronize(stream));
    for (unsigned i = 1; i < COUNT; i++)
        CHECK_SUM(at[i], WORDS, i, COUNT - 1);
}

/* The device says that it can, and the process may not: out of memory, said, and the job goes on. */
static void may_not_be_linked(void)
{
    CUdeviceptr addresses;
    uint32_t tables = 1, count = WORDS;
    void *params[] = {&at[0], &addresses, &tables, &count};

    start();
    addresses = table + 8;
    REQUIRE(job_launch(open_kernel("chase"), WORDS, stream, params) == CUDA_ERROR_OUT_OF_MEMORY);
    for (unsigned i = 0; i < COUNT; i++)
        CHECK_WORDS(at[i], WORDS, i);
    for (unsigned i = 6; i < COUNT; i++)
        CU(cuMemFree(at[i]));
    REQUIRE(job_launch(open_kernel("chase"), WORDS, stream, params) == CUDA_SUCCESS);
    CU(cuStreamSynchronize(stream));
    CHECK_SUM(at[0], WORDS, 0, 1);
}

/*
 * Where nothing can be linked an open kernel has all that lives in HBM, or is refused. What closed kernels
 * need makes its memory leave all the same, behind it, and comes back for the next.
 */
static void between_open_kernels(void)
{
    enum { FEW = 6, ROUNDS = 3 };
    CUdeviceptr more[COUNT];

    cuda_start();
    stream = job_stream();
    other = job_stream();
    CU(cuMemAlloc(&table, 4096));
    for (unsigned i = 0; i < FEW; i++)
        CU(cuMemAlloc(&at[i], BYTES));
    CU(cuMemcpyHtoD(table, at, sizeof at));
    CU(cuCtxSynchronize());
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < FEW; i++)
            job_fill(at[i], WORDS, i, stream);
        spread(at[0], 1, FEW - 1, stream);
        for (unsigned i = 0; i < COUNT; i++) {
            CU(cuMemAlloc(&more[i], BYTES));
            job_fill(more[i], WORDS, 100 + i, other);
        }
        for (unsigned i = 0; i < COUNT; i++)
            job_copy(more[i], more[(i + 1) % COUNT], WORDS, other);
        CU(cuStreamSynchronize(other));
        REQUIRE(job_launch(open_kernel("chase"), WORDS, stream,
                           (void *[]){&at[0], &table, &(uint32_t){1}, &(uint32_t){WORDS}}) ==
                CUDA_ERROR_OUT_OF_MEMORY);
        for (unsigned i = 0; i < COUNT; i++) {
            CHECK_WORDS(more[i], WORDS, 100 + (i + 1 < COUNT ? i + 1 : 1));
            CU(cuMemFreeAsync(more[i], other));
        }
        CU(cuStreamSynchronize(other));
        chase(at[0], 1, 1, stream);
        CU(cuStreamSynchronize(stream));
        for (unsigned i = 1; i < FEW; i++)
            CHECK_SUM(at[i], WORDS, 0, i);
    }
}

static void said(const struct outcome *of)
{
    ck_assert_msg(strstr(of->err, "open kernel chase needs") != NULL, "%s", of->err);
    ck_assert_uint_eq(outcome_number(of->statistics, "linked_operations"), 0);
    outcome_check_held(of, false);
}

static void over_the_link(const struct outcome *of)
{
    ck_assert_uint_gt(outcome_number(of->statistics, "linked_operations"), 0);
    ck_assert_uint_gt(outcome_number(of->statistics, "link_mappings"), 0);
    outcome_check_held(of, false);
}

/* Everything that is not in open.table is closed. */
#define SOME_OPEN "HBMSPILL_CLOSED=all HBMSPILL_ADMITTED=" OPEN_TABLE

/* Copies of linked memory are counted by the address, not by what it leads to. */
#define LINKED(function, tag, text)                                                                          \
    {                                                                                                        \
        .name = #function tag, .job = function, .variables = SOME_OPEN text,                                 \
        .flags = SCENARIO_SPILLS | SCENARIO_UNCOUNTED, .inspect = over_the_link                              \
    }

static const struct scenario scenarios[] = {
    LINKED(table_read, "", ""),
    LINKED(table_read, "_loosely", " HBMSPILL_STRICT=0"),
    LINKED(table_read, "_verified", " HBMSPILL_VERIFY=1"),
    LINKED(table_read, "_old_driver", " SYNTHETIC_GPU_HOST_VMM=unknown"),
    LINKED(table_written, "", ""),
    LINKED(table_written, "_loosely", " HBMSPILL_STRICT=0"),
    LINKED(table_written, "_all_open", " HBMSPILL_CLOSED=none"),
    {.name = "comes_back",
     .job = comes_back,
     .variables = SOME_OPEN " HBMSPILL_WINDOW=off",
     .flags = SCENARIO_SPILLS,
     .inspect = linked_twice},
    LINKED(batched_arrays, "", ""),
    LINKED(batched_arrays, "_loosely", " HBMSPILL_STRICT=0"),
    LINKED(copies, "", ""),
    LINKED(copies, "_loosely", " HBMSPILL_STRICT=0"),
    LINKED(births_and_deaths, "", ""),
    LINKED(births_and_deaths, "_loosely", " HBMSPILL_STRICT=0"),
    LINKED(waits_for_a_flag, "", ""),
    LINKED(waits_for_a_flag, "_loosely", " HBMSPILL_STRICT=0"),
    LINKED(globals, "", ""),
    LINKED(larger_than_hbm, "", ""),
    LINKED(larger_than_hbm, "_loosely", " HBMSPILL_STRICT=0"),
    {.name = "linked_graph",
     .job = linked_graph,
     .variables = SOME_OPEN,
     .flags = SCENARIO_SPILLS | SCENARIO_UNCOUNTED,
     .inspect = over_the_link},
    {.name = "may_not_be_linked",
     .job = may_not_be_linked,
     .variables = SOME_OPEN " SYNTHETIC_GPU_HOST_VMM=refused",
     .flags = SCENARIO_SPILLS | SCENARIO_NOT_NATIVE,
     .inspect = said},
    {.name = "cannot_be_linked",
     .job = may_not_be_linked,
     .variables = SOME_OPEN " SYNTHETIC_GPU_HOST_VMM=off",
     .flags = SCENARIO_SPILLS | SCENARIO_NOT_NATIVE,
     .inspect = said},
    {.name = "between_open_kernels",
     .job = between_open_kernels,
     .variables = SOME_OPEN " SYNTHETIC_GPU_HOST_VMM=off",
     .flags = SCENARIO_SPILLS | SCENARIO_NOT_NATIVE,
     .inspect = said},
    {.name = "stand_ins", .job = stand_ins},
};

int main(int argc, char **argv)
{
    return scenarios_main(argc, argv, "open", scenarios, sizeof scenarios / sizeof *scenarios, 20);
}
