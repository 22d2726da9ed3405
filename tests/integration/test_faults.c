/*
 * A driver function that the library calls fails once, at its first, second ... call: the job gets right
 * contents or an error of CUDA's, never wrong contents, and having been told it may try again.
 */
#include "tests/integration/job.h"
#include "tests/integration/scenario.h"

#include <check.h>

enum { BYTES = 3 << 20, WORDS = BYTES / 4, COUNT = 8, GAVE_UP = 3 };

static const char *const functions[] = {
    "cuMemAddressReserve", "cuMemCreate",        "cuMemMap",           "cuMemSetAccess", "cuMemUnmap",
    "cuMemRelease",        "cuMemHostAlloc",     "cuMemcpyAsync",      "cuEventCreate",  "cuEventRecord",
    "cuEventQuery",        "cuEventSynchronize", "cuStreamWaitEvent",  "cuStreamCreate", "cuMemFreeHost",
    "cuCtxPushCurrent",    "cuMemGetInfo",       "cuFuncGetParamInfo", "cuLaunchKernel", "cuMemcpyDtoDAsync",
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

/*
 * A call that fails is made once more; if that fails too the job gives up, which is all right. Where
 * operations are held an error may be that of an earlier one, so the job gives up at once.
 */
static bool again(void)
{
    if (getenv("GIVE_UP"))
        exit(GAVE_UP);
    return true;
}

#define TRY(call)                                                                                            \
    do {                                                                                                     \
        if (cuda.call != CUDA_SUCCESS && again() && cuda.call != CUDA_SUCCESS)                               \
            exit(GAVE_UP);                                                                                   \
    } while (0)

static void launch(const char *kernel, size_t words, CUstream stream, void **params)
{
    CUfunction function;

    TRY(cuModuleGetFunction(&function, job_module, kernel));
    if (job_launch(function, words, stream, params) != CUDA_SUCCESS && again() &&
        job_launch(function, words, stream, params) != CUDA_SUCCESS)
        exit(GAVE_UP);
}

static void fill(CUdeviceptr at, uint32_t seed, CUstream stream)
{
    uint32_t words = WORDS;
    void *params[] = {&at, &words, &seed};

    launch("fill", WORDS, stream, params);
}

static void combine(const char *kernel, CUdeviceptr to, CUdeviceptr from, CUstream stream)
{
    uint32_t words = WORDS;
    void *params[] = {&to, &from, &words};

    launch(kernel, WORDS, stream, params);
}

/* The words are the seed's, or the sum of two seeds'. */
static void check(CUdeviceptr at, uint32_t seed, uint32_t other)
{
    static uint32_t words[WORDS];

    TRY(cuCtxSynchronize());
    TRY(cuMemcpyDtoH(words, at, BYTES));
    for (uint32_t i = 0; i < WORDS; i++)
        REQUIRE(words[i] == job_word(seed, i) + (other == seed ? 0 : job_word(other, i)),
                "word %u of buffer %u", i, seed);
}

static void job(void)
{
    CUdeviceptr at[COUNT];
    CUstream stream;

    cuda_start();
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < COUNT; i++) {
        TRY(cuMemAllocAsync(&at[i], BYTES, stream));
        fill(at[i], i, stream);
    }
    for (unsigned i = 0; i + 1 < COUNT; i += 2) /* at[i] is written whole: it may be done twice */
        combine("copy", at[i], at[i + 1], stream);
    for (unsigned i = 0; i + 1 < COUNT; i += 4)
        TRY(cuMemcpyDtoDAsync(at[i + 1], at[COUNT - 1], BYTES, stream));
    for (unsigned i = 0; i < COUNT; i++) {
        unsigned seed = i % 4 == 1 ? COUNT - 1 : i % 2 ? i : i + 1;

        check(at[i], seed, seed);
        TRY(cuMemFreeAsync(at[i], stream));
    }
    /* Nothing was lost by it: as much can be had again. */
    for (unsigned i = 0; i < COUNT; i++) {
        TRY(cuMemAllocAsync(&at[i], BYTES, stream));
        fill(at[i], 50 + i, stream);
    }
    for (unsigned i = 0; i < COUNT; i++)
        check(at[i], 50 + i, 50 + i);
}

static const struct scenario faulty = {.name = "faulty", .job = job, .hbm = "24M"};

static bool run_with(const char *function, unsigned occurrence, bool window)
{
    char variables[256];
    const struct outcome *of;

    snprintf(variables, sizeof variables, "SYNTHETIC_GPU_FAULT=%s:%u:%s %s", function, occurrence,
             (occurrence & 1) ? "UNKNOWN" : "OUT_OF_MEMORY", window ? "GIVE_UP=1" : "HBMSPILL_WINDOW=off");
    of = scenario_run(&faulty, (occurrence & 2) ? "lazy" : "random:7", variables);
    ck_assert_msg(of->status == 0 || of->status == GAVE_UP, "%s: status %d\n%s", variables, of->status,
                  of->err);
    ck_assert_msg(strstr(of->report, "\"hazards\": []") != NULL, "%s: %s", variables, of->report);
    ck_assert_uint_le(outcome_number(of->report, "peak_device_bytes"),
                      outcome_number(of->report, "hbm_bytes"));
    return of->status == 0;
}

START_TEST(fails_once)
{
    static const unsigned occurrences[] = {1, 2, 5, 11, 30};
    enum { OCCURRENCES = sizeof occurrences / sizeof *occurrences };
    bool closely = getenv("FAULT_EVERY") != NULL; /* all occurrences up to 40 */
    unsigned completed = 0;

    for (unsigned k = 0; k < (closely ? 40 : OCCURRENCES); k++) {
        unsigned occurrence = closely ? k + 1 : occurrences[k];

        completed += run_with(functions[_i], occurrence, false);
        if (closely || k % 2)
            run_with(functions[_i], occurrence, true);
    }
    ck_assert_msg(completed > 0, "%s", functions[_i]);
}
END_TEST

int main(int argc, char **argv)
{
    return scenarios_main_with(argc, argv, "faults", &faulty, 1, 20, fails_once, FUNCTIONS);
}
