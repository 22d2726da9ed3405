/*
 * Kernels that are running and wait for the host, which first does other things: what such a kernel touches
 * makes way last, nothing waits for it, and what others need is moved.
 *
 * Kernels of other streams do not run beside it on the synthetic GPU; copies and memsets do.
 */
#include "tests/integration/job.h"
#include "tests/integration/scenario.h"

#include <check.h>
#include <unistd.h>

enum { BYTES = 3 << 20, WORDS = BYTES / 4, COUNT = 14 }; /* 42 of 40 MiB, less what is kept in reserve */

static CUdeviceptr at[COUNT], table;
static CUstream stream, other;
static volatile uint32_t *words; /* the flag, and whether the kernel has started */

/* Buffer i holds the words of seed i; the table has the addresses of all, in the driver's memory. */
static void start(void)
{
    cuda_start();
    stream = job_stream();
    other = job_stream();
    words = job_pinned_word();
    CU(cuMemAlloc(&table, 4096));
    for (unsigned i = 0; i < COUNT; i++)
        CU(cuMemAlloc(&at[i], BYTES));
    CU(cuMemcpyHtoD(table, at, sizeof at));
    for (unsigned i = COUNT; i-- > 0;) /* the first are used last, and in HBM */
        job_fill(at[i], WORDS, i, stream);
    CU(cuCtxSynchronize());
}

/* It is running, and goes on when words[0] is 1: then the words at the address that lies there are 7 more. */
static void await_behind(CUdeviceptr address)
{
    static CUmodule unknown; /* a module that nobody vouches for, as a library's */
    CUdeviceptr flag = (CUdeviceptr)(uintptr_t)&words[0], started = (CUdeviceptr)(uintptr_t)&words[1];
    uint32_t count = WORDS;
    void *params[] = {&flag, &started, &address, &count};
    CUfunction function;
    CUresult status;

    if (!unknown)
        CU(cuModuleLoadData(&unknown, job_ptx));
    CU(cuModuleGetFunction(&function, unknown, "await_behind"));
    words[0] = words[1] = 0;
    status = job_launch(function, WORDS, stream, params);
    REQUIRE(status == CUDA_SUCCESS, "%s", job_error_name(status));
    while (!words[1]) {
        (void)cuda.cuStreamQuery(stream); /* which submits it, and makes a lazy device go on */
        usleep(1000);
    }
}

static void check_awaited(CUdeviceptr of, uint32_t seed)
{
    uint32_t *copy = malloc(BYTES);

    REQUIRE(copy);
    CU(cuStreamSynchronize(stream));
    CU(cuMemcpyDtoH(copy, of, BYTES));
    for (uint32_t i = 0; i < WORDS; i++)
        REQUIRE(copy[i] == job_word(seed, i) + 7, "word %u is 0x%x", i, copy[i]);
    free(copy);
}

/*
 * One that may touch anything: nothing is moved, and nobody waits. Launches come back, what is copied goes
 * where the kernel would see it, and what is new has memory.
 */
static void anything_is_touched(void)
{
    CUdeviceptr fresh[2];
    uint32_t word;

    start();
    for (unsigned i = 0; i < 2; i++)
        CU(cuMemAlloc(&fresh[i], BYTES));
    await_behind(table + 8); /* at[1] */
    for (unsigned i = 2; i < 8; i++) {
        CU(cuMemsetD32Async(at[i], i, WORDS, other));
        CU(cuMemcpyDtoDAsync(fresh[i % 2], at[i], BYTES, other));
    }
    for (unsigned i = 2; i < 8; i++) {
        CU(cuMemcpyDtoHAsync(&word, at[i] + BYTES - 4, 4, other));
        CU(cuStreamSynchronize(other));
        REQUIRE(word == i, "buffer %u: %u", i, word);
    }
    for (unsigned i = 8; i < COUNT; i++)
        job_add(at[i], at[0], WORDS, other); /* come back, and run when the first is done */
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    words[0] = 1;
    check_awaited(at[1], 1);
    CU(cuStreamSynchronize(other));
    for (unsigned i = 8; i < COUNT; i++)
        CHECK_SUM(at[i], WORDS, 0, i);
    for (unsigned i = 0; i < 2; i++) {
        CU(cuMemcpyDtoH(&word, fresh[i], 4));
        REQUIRE(word == 6 + i, "new buffer %u: %u", i, word);
    }
}

static void linked(const struct outcome *of)
{
    ck_assert_uint_gt(outcome_number(of->statistics, "linked_operations"), 0);
}

#define SOME_OPEN "HBMSPILL_CLOSED=all HBMSPILL_ADMITTED=" OPEN_TABLE
#define TOUCHES(tag, text)                                                                                   \
    {                                                                                                        \
        .name = "anything_is_touched" tag, .job = anything_is_touched, .variables = SOME_OPEN text,          \
        .flags = SCENARIO_SPILLS | SCENARIO_UNCOUNTED, .inspect = linked                                     \
    }

static const struct scenario scenarios[] = {
    TOUCHES("", ""),
    TOUCHES("_loosely", " HBMSPILL_STRICT=0"),
    TOUCHES("_one_by_one", " HBMSPILL_WINDOW=off"),
};

int main(int argc, char **argv)
{
    return scenarios_main(argc, argv, "await", scenarios, sizeof scenarios / sizeof *scenarios, 20);
}
