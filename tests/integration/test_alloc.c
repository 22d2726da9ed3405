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

static const struct scenario scenarios[] = {
    {.name = "plain", .job = plain, .flags = SCENARIO_SPILLS},
    {.name = "plain_by_proc_address", .job = plain_by_proc_address, .flags = SCENARIO_SPILLS},
};

int main(int argc, char **argv)
{
    return scenarios_main(argc, argv, "alloc", scenarios, sizeof scenarios / sizeof *scenarios, 20);
}
