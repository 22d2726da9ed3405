/*
 * Rounds of operations that are all alike but for the buffer, found and followed: with windows, with windows
 * of a few operations, without any, with frames that become larger, and on two devices at once, where nothing
 * is held either.
 */
#include "tests/integration/job.h"
#include "tests/integration/scenario.h"

#include <check.h>

enum { BUFFERS = 13, ROUNDS = 10, WORDS = 1 << 20, TOUCHED = 1024 };

struct device {
    CUcontext context;
    CUstream stream;
    CUdeviceptr at[BUFFERS];
    uint32_t expected[BUFFERS]; /* what all touched words of a buffer are */
};

static void begin(struct device *device, CUcontext context)
{
    device->context = context;
    CU(cuCtxSetCurrent(context));
    CU(cuStreamCreate(&device->stream, CU_STREAM_NON_BLOCKING));
    for (uint32_t i = 0; i < BUFFERS; i++) {
        device->expected[i] = i + 1;
        CU(cuMemAllocAsync(&device->at[i], WORDS * sizeof(uint32_t), device->stream));
        CU(cuMemsetD32Async(device->at[i], i + 1, WORDS, device->stream));
    }
}

static void check(const struct device *device)
{
    static uint32_t words[WORDS];

    CU(cuCtxSetCurrent(device->context));
    for (uint32_t i = 0; i < BUFFERS; i++) {
        CU(cuMemcpyDtoH(words, device->at[i], sizeof words));
        for (uint32_t k = 0; k < WORDS; k++)
            REQUIRE(words[k] == (k < TOUCHED ? device->expected[i] : i + 1), "buffer %u, word %u: %u", i, k,
                    words[k]);
    }
}

/* Each buffer gets its neighbour added. */
static void launches(struct device *device)
{
    for (uint32_t i = 0; i < BUFFERS; i++) {
        job_add(device->at[i], device->at[(i + 1) % BUFFERS], TOUCHED, device->stream);
        device->expected[i] += device->expected[(i + 1) % BUFFERS];
    }
    CU(cuStreamSynchronize(device->stream));
}

/* Each buffer gets its neighbour's first words. */
static void copies(struct device *device)
{
    CU(cuCtxSetCurrent(device->context));
    for (uint32_t i = 0; i < BUFFERS; i++) {
        CU(cuMemcpyDtoDAsync(device->at[i], device->at[(i + 1) % BUFFERS], TOUCHED * sizeof(uint32_t),
                             device->stream));
        device->expected[i] = device->expected[(i + 1) % BUFFERS];
    }
    CU(cuStreamSynchronize(device->stream));
}

static void one_device(void)
{
    static struct device device;

    cuda_start();
    begin(&device, job_context());
    for (unsigned round = 0; round < ROUNDS; round++)
        launches(&device);
    check(&device);
}

static void two_devices(void)
{
    static struct device devices[2];
    CUcontext second;
    CUdevice device;

    cuda_start();
    begin(&devices[0], job_context());
    CU(cuDeviceGet(&device, 1));
    CU(cuDevicePrimaryCtxRetain(&second, device));
    begin(&devices[1], second);
    for (unsigned round = 0; round < ROUNDS; round++) {
        CU(cuCtxSetCurrent(devices[0].context));
        launches(&devices[0]);
        copies(&devices[1]);
    }
    check(&devices[0]);
    check(&devices[1]);
    CU(cuCtxSetCurrent(devices[1].context));
    CU(cuCtxSynchronize());
    CU(cuCtxSetCurrent(devices[0].context));
}

/* At least half of the operations of each device follow a schedule. */
static void followed(const struct outcome *outcome, unsigned devices)
{
    ck_assert_uint_ge(outcome_number(outcome->statistics, "rounds_found"), devices);
    ck_assert_uint_ge(outcome_number(outcome->statistics, "planned_operations"),
                      devices * ROUNDS * BUFFERS / 2);
}

static void held(const struct outcome *outcome)
{
    followed(outcome, 1);
    ck_assert_uint_gt(outcome_number(outcome->statistics, "windows"), 0);
}

/* The round is found again with them; and they are few by then: those of the first size went back. */
static void larger(const struct outcome *outcome)
{
    ck_assert_uint_eq(outcome_number(outcome->statistics, "reframed"), 1);
    ck_assert_uint_eq(outcome_number(outcome->statistics, "rounds_found"), 2);
    ck_assert_uint_gt(outcome_number(outcome->statistics, "planned_operations"), ROUNDS * BUFFERS / 3);
    ck_assert_uint_gt(outcome_number(outcome->statistics, "frames_released"), 0);
}

static void not_held(const struct outcome *outcome)
{
    followed(outcome, 1);
    ck_assert_uint_eq(outcome_number(outcome->statistics, "windows"), 0);
}

static void not_held_on_two(const struct outcome *outcome)
{
    followed(outcome, 2);
}

int main(int argc, char **argv)
{
    static const struct scenario scenarios[] = {
        {.name = "windows", .job = one_device, .flags = SCENARIO_SPILLS, .inspect = held},
        {.name = "small_windows",
         .job = one_device,
         .flags = SCENARIO_SPILLS,
         .variables = "HBMSPILL_WINDOW=5",
         .inspect = held},
        {.name = "larger_frames",
         .job = one_device,
         .flags = SCENARIO_SPILLS,
         .variables = "HBMSPILL_TEST_REFRAME=2 HBMSPILL_VERIFY=1",
         .inspect = larger},
        {.name = "no_windows",
         .job = one_device,
         .flags = SCENARIO_SPILLS,
         .variables = "HBMSPILL_WINDOW=off",
         .inspect = not_held},
        {.name = "two_devices",
         .job = two_devices,
         .flags = SCENARIO_SPILLS,
         .variables = "SYNTHETIC_GPU_DEVICES=2 HBMSPILL_HBM_LIMIT=18M", /* 40M for both of them */
         .inspect = not_held_on_two},
    };

    return scenarios_main(argc, argv, "rounds", scenarios, sizeof scenarios / sizeof *scenarios, 60);
}
