/*
 * test_clock.h - what the tests of virtual time share: streams, events and memory, and times between events.
 *
 * Each test runs in a process of its own and sets its link and scales first. Reckoning is in nanoseconds with
 * the constants of the modelled machine.
 */
#ifndef SYNTHETIC_TEST_CLOCK_H
#define SYNTHETIC_TEST_CLOCK_H

#include "model/machine.h"
#include "test_gpu.h"

static CUstream streams[4];
static CUevent events[16];
static char *pinned;
static CUdeviceptr memory;

/* Four non-blocking streams, events with times, pinned memory and device memory of 8 MiB each. */
static inline void start(const char *schedule, const char *link)
{
    setenv("SYNTHETIC_GPU_LINK", link, 1);
    gpu_start(schedule, 64);
    for (int i = 0; i < 4; i++)
        OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 16; i++)
        OK(cuEventCreate(&events[i], CU_EVENT_DEFAULT));
    OK(cuMemAllocHost((void **)&pinned, 8 * MIB));
    OK(cuMemAlloc(&memory, 8 * MIB));
    OK(cuCtxSynchronize());
}

static inline double between(int from, int to)
{
    float ms;
    OK(cuEventSynchronize(events[to]));
    OK(cuEventElapsedTime(&ms, events[from], events[to]));
    return (double)ms * 1e6;
}

/* Times are told as floats of milliseconds. */
#define TAKES(got, wanted)                                                                                   \
    do {                                                                                                     \
        double got_ = (got), wanted_ = (wanted);                                                             \
        ck_assert_msg(got_ > wanted_ - 0.01 - wanted_ * 2e-7 && got_ < wanted_ + 0.01 + wanted_ * 2e-7,      \
                      "%s is %.3f ns, not %.3f", #got, got_, wanted_);                                       \
    } while (0)

static inline double memset_ns(double bytes)
{
    return MACHINE_KERNEL_GAP + bytes * 1e9 / MACHINE_HBM_RATE;
}

/* All streams wait for what keeps stream 3 busy, so that what follows is ready at the same time: event 0's.
 */
static inline void gate(void)
{
    OK(cuMemsetD8Async(memory + 4 * MIB, 1, 4 * MIB, streams[3])); /* 1.4 ms with a size scale of 1000 */
    OK(cuEventRecord(events[0], streams[3]));
    for (int i = 0; i < 3; i++)
        OK(cuStreamWaitEvent(streams[i], events[0], 0));
}

#endif
