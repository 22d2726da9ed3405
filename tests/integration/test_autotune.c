/*
 * Who times candidates must not time a swap: XLA's autotuner allocates a candidate's outputs, runs it without
 * a clock, waits for it, and does the same once more with the launches between two events. After the first of
 * these all that it touches is in HBM; the second gets the frames of the first's outputs, so nothing has to
 * make way, and nothing is copied between the events. Times are the device's, virtual.
 *
 * Without schedules: in a round that is followed the outputs get addresses of their own, and binding one for
 * the first time is the host's work, which a device that has nothing else to do waits for.
 */
#include "tests/integration/job.h"
#include "tests/integration/scenario.h"

#include <check.h>

enum { BUFFERS = 14, CANDIDATES = 4 };

#define BYTES (4 * MIB)
#define WORDS (BYTES / 4)

static CUdeviceptr at[BUFFERS];
static CUstream stream;

/* Other work in between, on all else; what the candidates use leaves HBM. */
static void other_work(void)
{
    for (unsigned i = 2; i + 1 < BUFFERS; i += 2)
        job_add(at[i], at[i + 1], WORDS, stream);
}

static void launch(unsigned candidate, CUdeviceptr out)
{
    job_copy(out, at[0], WORDS >> candidate, stream);
    job_add(out, at[1], WORDS >> candidate, stream);
}

static void run(unsigned candidate)
{
    CUdeviceptr out;

    CU(cuMemAllocAsync(&out, BYTES, stream));
    launch(candidate, out);
    CU(cuMemFreeAsync(out, stream));
    CU(cuStreamSynchronize(stream));
}

/* Milliseconds of the device. */
static float timed(unsigned candidate)
{
    CUevent start, end;
    CUdeviceptr out;
    float time;

    CU(cuEventCreate(&start, CU_EVENT_DEFAULT));
    CU(cuEventCreate(&end, CU_EVENT_DEFAULT));
    CU(cuMemAllocAsync(&out, BYTES, stream));
    CU(cuEventRecord(start, stream));
    launch(candidate, out);
    CU(cuEventRecord(end, stream));
    CU(cuMemFreeAsync(out, stream));
    CU(cuEventSynchronize(end));
    CU(cuEventElapsedTime(&time, start, end));
    CU(cuEventDestroy(start));
    CU(cuEventDestroy(end));
    return time;
}

static void autotune(void)
{
    float before = 0;

    cuda_start();
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < BUFFERS; i++) {
        CU(cuMemAlloc(&at[i], BYTES));
        job_fill(at[i], WORDS, i, stream);
    }
    for (unsigned round = 0; round < 3; round++)
        for (unsigned candidate = 0; candidate < CANDIDATES; candidate++) {
            float first, again;

            other_work();
            run(candidate);
            first = timed(candidate);
            again = timed(candidate);
            REQUIRE(first > 0 && first <= again * 1.02F, "candidate %u took %g ms, then %g", candidate,
                    (double)first, (double)again);
            REQUIRE(!candidate || again < before, "candidate %u took %g ms, the one before %g", candidate,
                    (double)again, (double)before);
            before = again;
        }
    CHECK_WORDS(at[0], WORDS, 0);
    CHECK_WORDS(at[1], WORDS, 1);
}

#define VIRTUAL "SYNTHETIC_GPU_CLOCK=1 HBMSPILL_PLAN=off "

static const struct scenario scenarios[] = {
    {.name = "autotune", .job = autotune, .flags = SCENARIO_SPILLS, .variables = VIRTUAL},
    {.name = "autotune_bip",
     .job = autotune,
     .flags = SCENARIO_SPILLS | SCENARIO_ONCE,
     .variables = VIRTUAL "HBMSPILL_POLICY=bip"},
};

int main(int argc, char **argv)
{
    return scenarios_main(argc, argv, "autotune", scenarios, sizeof scenarios / sizeof *scenarios, 60);
}
