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

static CUstream stream_make(void)
{
    CUstream made;

    CU(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
    return made;
}

/* Buffer i holds the words of seed i; the table has the addresses of all, in the driver's memory. */
static void start(void)
{
    cuda_start();
    stream = stream_make();
    other = stream_make();
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

static void over_the_link(const struct outcome *of)
{
    ck_assert_uint_gt(outcome_number(of->statistics, "linked_operations"), 0);
    ck_assert_uint_gt(outcome_number(of->statistics, "link_mappings"), 0);
    outcome_check_held(of, false);
}

static const struct scenario scenarios[] = {
    {.name = "table_read",
     .job = table_read,
     .variables = "HBMSPILL_CLOSED=auto",
     .flags = SCENARIO_SPILLS,
     .inspect = over_the_link},
    {.name = "table_written",
     .job = table_written,
     .variables = "HBMSPILL_CLOSED=auto",
     .flags = SCENARIO_SPILLS,
     .inspect = over_the_link},
};

int main(int argc, char **argv)
{
    return scenarios_main(argc, argv, "open", scenarios, sizeof scenarios / sizeof *scenarios, 40);
}
