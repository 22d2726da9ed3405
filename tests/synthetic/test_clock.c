/*
 * test_clock.c - virtual time: schedules reckoned by hand, and the same times whoever runs the work in which
 * order.
 *
 * Events tell times; each test runs in a process of its own and sets its link and scales first. Reckoning is
 * in nanoseconds with the constants of the modelled machine.
 */
#include "model/machine.h"
#include "test_gpu.h"

#include <pthread.h>

#define KIB 1024.0

static CUstream streams[4];
static CUevent events[16];
static char *pinned;
static CUdeviceptr memory;

/* Two non-blocking streams and more, events with times, pinned memory and device memory of 8 MiB each. */
static void start(const char *schedule, const char *link)
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

static double between(int from, int to)
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

static double memset_ns(double bytes)
{
    return MACHINE_KERNEL_GAP + bytes * 1e9 / MACHINE_HBM_RATE;
}

/* All streams wait for what keeps stream 3 busy, so that what follows is ready at the same time: event 0's.
 */
static void gate(void)
{
    OK(cuMemsetD8Async(memory + 4 * MIB, 1, 4 * MIB, streams[3])); /* 1.4 ms with a size scale of 1000 */
    OK(cuEventRecord(events[0], streams[3]));
    for (int i = 0; i < 3; i++)
        OK(cuStreamWaitEvent(streams[i], events[0], 0));
}

START_TEST(a_copy_costs_latency_and_bytes)
{
    start(schedules[_i], "10,20");
    OK(cuEventRecord(events[0], streams[0]));
    OK(cuMemcpyHtoDAsync(memory, pinned, 1000000, streams[0]));
    OK(cuEventRecord(events[1], streams[0]));
    OK(cuMemcpyDtoHAsync(pinned, memory, 1000000, streams[0]));
    OK(cuEventRecord(events[2], streams[0]));
    /* The stream was idle: the first copy starts when its call has cost the host its time. */
    TAKES(between(0, 1), MACHINE_HOST_COPY + MACHINE_COPY_LATENCY + 100000);
    TAKES(between(1, 2), MACHINE_COPY_LATENCY + 50000);
}
END_TEST

START_TEST(one_engine_serves_copies_in_turn)
{
    setenv("SYNTHETIC_GPU_SIZE_SCALE", "1000", 1);
    start(schedules[_i], "10,10");
    gate();
    OK(cuMemcpyHtoDAsync(memory, pinned, 1000, streams[0]));
    OK(cuEventRecord(events[1], streams[0]));
    OK(cuMemcpyHtoDAsync(memory + MIB, pinned, 2000, streams[1]));
    OK(cuEventRecord(events[2], streams[1]));
    TAKES(between(0, 1), MACHINE_COPY_LATENCY + 100000);
    TAKES(between(0, 2), 2 * MACHINE_COPY_LATENCY + 300000);
}
END_TEST

START_TEST(both_directions_share_the_link)
{
    setenv("SYNTHETIC_GPU_SIZE_SCALE", "1000", 1);
    start(schedules[_i], "10,20,5,8");
    gate();
    OK(cuMemcpyHtoDAsync(memory, pinned, 1000, streams[0])); /* 1e6 bytes */
    OK(cuEventRecord(events[1], streams[0]));
    OK(cuMemcpyDtoHAsync(pinned + MIB, memory + MIB, 2000, streams[1])); /* 2e6 */
    OK(cuEventRecord(events[2], streams[1]));
    /* In: 1e6 bytes at 5 a ns, 200 us. Out meanwhile 1.6e6; the other 0.4e6 at 20: 20 us. */
    TAKES(between(0, 1), MACHINE_COPY_LATENCY + 200000);
    TAKES(between(0, 2), MACHINE_COPY_LATENCY + 220000);
}
END_TEST

START_TEST(an_engine_rests_while_its_copy_waits)
{
    setenv("SYNTHETIC_GPU_SIZE_SCALE", "1000", 1);
    start(schedules[_i], "10,10");
    gate();
    /* Stream 0 computes 100 us before it copies; stream 1 copies first, though it was told later. */
    OK(cuMemsetD8Async(memory, 0, 297000, streams[0]));
    OK(cuMemcpyHtoDAsync(memory, pinned, 1000, streams[0]));
    OK(cuEventRecord(events[1], streams[0]));
    OK(cuMemcpyHtoDAsync(memory + MIB, pinned, 500, streams[1]));
    OK(cuEventRecord(events[2], streams[1]));
    TAKES(between(0, 2), MACHINE_COPY_LATENCY + 50000);
    TAKES(between(0, 1), memset_ns(297e6) + MACHINE_COPY_LATENCY + 100000);
}
END_TEST

START_TEST(an_engine_serves_who_came_first)
{
    setenv("SYNTHETIC_GPU_SIZE_SCALE", "1000", 1);
    start(schedules[_i], "10,10");
    gate();
    OK(cuMemsetD8Async(memory, 0, 297000, streams[0])); /* 100 us */
    OK(cuMemcpyHtoDAsync(memory, pinned, 1000, streams[0]));
    OK(cuEventRecord(events[1], streams[0]));
    OK(cuMemsetD8Async(memory + MIB, 0, 147000, streams[1])); /* 50 us */
    OK(cuMemcpyHtoDAsync(memory + MIB, pinned, 500, streams[1]));
    OK(cuEventRecord(events[2], streams[1]));
    OK(cuMemcpyHtoDAsync(memory + 2 * MIB, pinned, 2000,
                         streams[2])); /* in the engine for 200 us meanwhile */
    TAKES(between(0, 2), 2 * MACHINE_COPY_LATENCY + 250000);
    TAKES(between(0, 1), 3 * MACHINE_COPY_LATENCY + 350000);
}
END_TEST

START_TEST(a_stream_waits_for_an_event_of_another)
{
    setenv("SYNTHETIC_GPU_SIZE_SCALE", "1000", 1);
    start(schedules[_i], "pcie5");
    gate();
    OK(cuMemsetD8Async(memory, 1, 100000, streams[0]));
    OK(cuEventRecord(events[1], streams[0]));
    OK(cuMemsetD8Async(memory + MIB, 1, 30000, streams[1]));
    OK(cuStreamWaitEvent(streams[1], events[1], 0));
    OK(cuMemsetD8Async(memory + MIB, 2, 50000, streams[1]));
    OK(cuEventRecord(events[2], streams[1]));
    TAKES(between(0, 1), memset_ns(100e6));
    TAKES(between(0, 2), memset_ns(100e6) + memset_ns(50e6));
}
END_TEST

START_TEST(the_legacy_stream_waits_and_is_waited_for)
{
    CUstream blocking;
    setenv("SYNTHETIC_GPU_SIZE_SCALE", "1000", 1);
    start(schedules[_i], "pcie5");
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(cuMemsetD8Async(memory, 1, 3000000, blocking)); /* 1 ms: the host is through by then */
    OK(cuEventRecord(events[0], blocking));
    OK(cuMemsetD8Async(memory, 1, 30000, NULL));
    OK(cuEventRecord(events[1], NULL));
    OK(cuMemsetD8Async(memory + MIB, 1, 60000, blocking));
    OK(cuEventRecord(events[2], blocking));
    TAKES(between(0, 1), memset_ns(30e6));
    TAKES(between(0, 2), memset_ns(30e6) + memset_ns(60e6));
}
END_TEST

static void hand_over(void *flag)
{
    __atomic_store_n((int *)flag, 1, __ATOMIC_SEQ_CST);
}

START_TEST(a_host_function_takes_its_time)
{
    int flag = 0;
    setenv("SYNTHETIC_GPU_SIZE_SCALE", "1000", 1);
    start(schedules[_i], "pcie5");
    gate();
    OK(cuLaunchHostFunc(streams[0], hand_over, &flag));
    OK(cuEventRecord(events[1], streams[0]));
    OK(cuMemsetD8Async(memory, 1, 30000, streams[0]));
    OK(cuEventRecord(events[2], streams[0]));
    TAKES(between(0, 1), MACHINE_HOST_FUNCTION);
    ck_assert_int_eq(flag, 1);
    TAKES(between(1, 2), memset_ns(30e6));
}
END_TEST

START_TEST(calls_cost_the_host_time)
{
    CUmemAllocationProp prop = device_prop();
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address;
    start(schedules[_i], "pcie5");
    OK(cuEventRecord(events[0], streams[0]));
    OK(cuMemAddressReserve(&address, PAGE, 0, 0, 0));
    OK(cuMemCreate(&handle, PAGE, &prop, 0));
    OK(cuMemMap(address, PAGE, 0, handle, 0));
    OK(set_access(address, PAGE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    OK(cuEventRecord(events[1], streams[0]));
    OK(cuMemUnmap(address, PAGE));
    OK(cuMemRelease(handle));
    OK(cuEventRecord(events[2], streams[0]));
    TAKES(between(0, 1), MACHINE_HOST_RESERVE + MACHINE_HOST_CREATE + MACHINE_HOST_MAP + MACHINE_HOST_ACCESS +
                             MACHINE_HOST_EVENT);
    TAKES(between(1, 2), MACHINE_HOST_UNMAP + MACHINE_HOST_RELEASE + MACHINE_HOST_EVENT);
}
END_TEST

START_TEST(scales_multiply_what_they_are_for)
{
    void *p;
    setenv("SYNTHETIC_GPU_DRIVER_SCALE", "0.5", 1);
    setenv("SYNTHETIC_GPU_SIZE_SCALE", "1000000", 1);
    setenv("SYNTHETIC_GPU_COMPUTE_SCALE", "3", 1);
    start(schedules[_i], "10,10");
    OK(cuEventRecord(events[0], streams[0]));
    OK(launch_increment(memory, 1, streams[0]));
    OK(cuEventRecord(events[1], streams[0]));
    /* 64 words read and written, 256 bytes each: more than its few hundred lane-instructions take. */
    TAKES(between(0, 1), MACHINE_HOST_LAUNCH * 0.5 + MACHINE_HOST_CALL + MACHINE_KERNEL_GAP +
                             3 * 512e6 * 1e9 / MACHINE_HBM_RATE);
    OK(cuEventRecord(events[0], streams[0]));
    OK(cuMemHostAlloc(&p, 1000, 0));
    OK(cuEventRecord(events[1], streams[0]));
    TAKES(between(0, 1), (MACHINE_HOST_RESERVE + MACHINE_HOST_PIN_BYTE * 1e9 + MACHINE_HOST_EVENT) * 0.5);
    OK(cuMemsetD8Async(memory, 1, 64, streams[0])); /* has the event behind it on the device's time */
    OK(cuEventRecord(events[0], streams[0]));
    OK(cuMemcpyHtoDAsync(memory, pinned, 10, streams[0]));
    OK(cuEventRecord(events[1], streams[0]));
    TAKES(between(0, 1), MACHINE_COPY_LATENCY + 1e6);
}
END_TEST

START_TEST(a_kernel_takes_what_its_instructions_take)
{
    /* Ten thousand blocks on the same 64 words: of memory nothing, of instructions much. */
    static const char loop[] = ".version 8.0\n.target sm_75\n.address_size 64\n"
                               ".visible .entry spin(.param .u64 p)\n{\n"
                               "  .reg .pred %p<2>;\n  .reg .b32 %r<3>;\n"
                               "  mov.u32 %r1, 1000;\n"
                               "$again:\n"
                               "  sub.s32 %r1, %r1, 1;\n"
                               "  setp.ne.s32 %p1, %r1, 0;\n"
                               "  @%p1 bra $again;\n"
                               "  ret;\n}\n";
    CUmodule module;
    CUfunction function;
    CUdeviceptr p;
    void *params[] = {&p};
    start(schedules[_i], "pcie5");
    p = memory;
    OK(cuModuleLoadData(&module, loop));
    OK(cuModuleGetFunction(&function, module, "spin"));
    OK(cuEventRecord(events[0], streams[0]));
    OK(cuLaunchKernel(function, 1000, 1, 1, 64, 1, 1, 0, streams[0], params, NULL));
    OK(cuEventRecord(events[1], streams[0]));
    double ns = between(0, 1) - MACHINE_HOST_LAUNCH - MACHINE_HOST_CALL - MACHINE_KERNEL_GAP;
    double instructions = ns * MACHINE_INSTRUCTION_RATE / 1e9 / 64000;
    /* 3000 and what is around the loop; the interpreter may know a step that costs it nothing. */
    ck_assert_msg(instructions > 2990 && instructions < 3010, "%.1f lane-instructions a thread",
                  instructions);
}
END_TEST

START_TEST(a_full_stream_makes_the_host_wait)
{
    setenv("SYNTHETIC_GPU_SIZE_SCALE", "10000", 1);
    start(schedules[_i], "pcie5");
    OK(cuEventRecord(events[0], streams[1]));
    OK(cuMemsetD8Async(memory, 1, 4 * MIB, streams[0])); /* 14 ms */
    for (int i = 1; i < MACHINE_QUEUE_DEPTH; i++)
        OK(cuMemsetD8Async(memory, 1, 64, streams[0]));
    OK(cuEventRecord(events[1], streams[1]));
    /* The stream is full: the next call waits until the first operation has ended. */
    TAKES(between(0, 1), MACHINE_HOST_LAUNCH + memset_ns(4 * KIB * KIB * 1e4) + MACHINE_HOST_EVENT);
}
END_TEST

START_TEST(a_query_tells_what_the_clock_says)
{
    unsigned asked = 0;
    start(schedules[_i], "10,10");
    OK(cuMemcpyHtoDAsync(memory, pinned, 1000000, streams[0]));
    OK(cuEventRecord(events[0], streams[0]));
    while (cuEventQuery(events[0]) == CUDA_ERROR_NOT_READY)
        asked++;
    /* The copy ends 101,500 ns after its call, the first question is asked 600 after it. */
    ck_assert_uint_eq(asked, (MACHINE_COPY_LATENCY + 100000 - MACHINE_HOST_EVENT + MACHINE_HOST_QUERY - 1) /
                                 MACHINE_HOST_QUERY);
    OK(cuStreamQuery(streams[0]));
}
END_TEST

START_TEST(times_of_events_wait_for_the_clock)
{
    float ms;
    start(schedules[_i], "10,10");
    OK(cuEventRecord(events[0], streams[0]));
    OK(cuMemcpyHtoDAsync(memory, pinned, 1000000, streams[0]));
    OK(cuEventRecord(events[1], streams[0]));
    FAILS(cuEventElapsedTime(&ms, events[0], events[1]), CUDA_ERROR_NOT_READY);
    FAILS(cuStreamQuery(streams[0]), CUDA_ERROR_NOT_READY);
    OK(cuStreamSynchronize(streams[0]));
    OK(cuEventElapsedTime(&ms, events[0], events[1]));
}
END_TEST

START_TEST(a_graph_takes_its_longest_way)
{
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node[4];
    CUDA_MEMSET_NODE_PARAMS params = {.elementSize = 1, .height = 1, .dst = memory};
    setenv("SYNTHETIC_GPU_SIZE_SCALE", "1000", 1);
    start(schedules[_i], "pcie5");
    OK(cuGraphCreate(&graph, 0));
    size_t widths[] = {30000, 60000, 90000, 30000};
    for (int i = 0; i < 4; i++) { /* 0, then 1 and 2 side by side, then 3 */
        params.dst = memory + (unsigned)i * MIB;
        params.width = widths[i];
        const CUgraphNode *on = i == 3 ? &node[1] : node;
        OK(cuGraphAddMemsetNode(&node[i], graph, on, i == 0 ? 0 : i == 3 ? 2 : 1, &params, test_context));
    }
    OK(cuGraphInstantiate(&exec, graph, 0));
    gate();
    OK(cuGraphLaunch(exec, streams[0]));
    OK(cuEventRecord(events[1], streams[0]));
    TAKES(between(0, 1), memset_ns(30e6) + memset_ns(90e6) + memset_ns(30e6));
}
END_TEST

/* The event is behind a host function, which is called when its time has come. */
START_TEST(a_graph_waits_for_an_event)
{
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode wait, fill;
    CUDA_MEMSET_NODE_PARAMS params = {.elementSize = 1, .height = 1, .dst = memory, .width = 30000};
    int flag = 0;
    setenv("SYNTHETIC_GPU_SIZE_SCALE", "1000", 1);
    start(schedules[_i], "pcie5");
    params.dst = memory;
    gate();
    OK(cuLaunchHostFunc(streams[1], hand_over, &flag));
    OK(cuEventRecord(events[1], streams[1]));
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddEventWaitNode(&wait, graph, NULL, 0, events[1]));
    OK(cuGraphAddMemsetNode(&fill, graph, &wait, 1, &params, test_context));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuStreamCreate(&streams[0], CU_STREAM_NON_BLOCKING)); /* one that the gate does not hold up */
    OK(cuGraphLaunch(exec, streams[0]));
    OK(cuEventRecord(events[2], streams[0]));
    TAKES(between(1, 2), memset_ns(30e6));
    ck_assert_int_eq(flag, 1);
}
END_TEST

/* ---- the same times every time ---- */

static double times[64];

/* Three streams with copies both ways, kernels and waits, by a generator of its own. */
static void tangle(unsigned seed)
{
    for (unsigned i = 0; i < 60; i++) {
        seed = seed * 1664525u + 1013904223u;
        CUstream stream = streams[(seed >> 8) % 3];
        size_t bytes = 4096 + (seed >> 12) % 200000;
        CUdeviceptr p = memory + (seed >> 10) % 8 * (MIB / 2);
        switch ((seed >> 24) % 6) {
        case 0:
            OK(cuMemcpyHtoDAsync(p, pinned, bytes, stream));
            break;
        case 1:
            OK(cuMemcpyDtoHAsync(pinned, p, bytes, stream));
            break;
        case 2:
            OK(launch_increment(p, 1 + (seed >> 16) % 50, stream));
            break;
        case 3:
            OK(cuMemcpyDtoDAsync(p, memory, bytes, stream));
            break;
        case 4:
            OK(cuMemsetD8Async(p, 0, bytes, stream));
            break;
        default:
            OK(cuStreamWaitEvent(stream, events[(seed >> 16) % 8], 0));
            break;
        }
        OK(cuEventRecord(events[(seed >> 20) % 8], stream));
        if (i % 16 == 15)
            OK(cuEventSynchronize(events[(seed >> 20) % 8]));
    }
}

struct helper {
    pthread_t thread;
    int number;
    CUdeviceptr p;
};

/* A thread that copies and waits for itself, over and over. */
static void *help(void *argument)
{
    struct helper *helper = argument;
    OK(cuCtxSetCurrent(test_context));
    for (int i = 0; i < 10; i++) {
        OK(cuMemcpyHtoDAsync(helper->p, pinned, 10000u * (unsigned)(helper->number + 1),
                             streams[helper->number]));
        OK(launch_increment(helper->p, 4, streams[helper->number]));
        OK(cuEventRecord(events[8 + helper->number], streams[helper->number]));
        if (i % 3 == 0)
            OK(cuEventSynchronize(events[8 + helper->number]));
    }
    OK(cuStreamSynchronize(streams[helper->number]));
    return NULL;
}

static void measure(const char *schedule, int with_threads)
{
    float ms;
    start(schedule, "20,15,12,9");
    OK(cuEventRecord(events[15], streams[3]));
    for (int i = 0; i < 8; i++)
        OK(cuEventRecord(events[i], streams[0]));
    if (with_threads) {
        struct helper helpers[3];
        for (int i = 0; i < 3; i++) {
            helpers[i] = (struct helper){.number = i, .p = memory + (unsigned)i * 2 * MIB};
            ck_assert_int_eq(pthread_create(&helpers[i].thread, NULL, help, &helpers[i]), 0);
        }
        for (int i = 0; i < 3; i++)
            ck_assert_int_eq(pthread_join(helpers[i].thread, NULL), 0);
    } else {
        tangle(7);
    }
    OK(cuCtxSynchronize());
    OK(cuEventRecord(events[14], streams[3]));
    OK(cuEventSynchronize(events[14]));
    for (int i = 0; i < 15; i++) {
        if (cuEventElapsedTime(&ms, events[15], events[i]) == CUDA_SUCCESS)
            times[i] = (double)ms;
    }
}

/* measure() in a process of its own. */
static void measure_apart(const char *schedule, int with_threads, double *out)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        measure(schedule, with_threads);
        _exit(write(ends[1], times, sizeof(times)) == (ssize_t)sizeof(times) ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(read(ends[0], out, sizeof(times)), sizeof(times));
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    close(ends[0]);
    close(ends[1]);
}

START_TEST(every_schedule_gives_the_same_times)
{
    double first[64], now[64];
    measure_apart("eager", _i, first);
    ck_assert(first[14] > 0.1);
    for (unsigned k = 0; k < 2 * SCHEDULES; k++) {
        measure_apart(schedules[k % SCHEDULES], _i, now);
        for (int i = 0; i < 15; i++)
            ck_assert_msg(now[i] == first[i], "event %d: %.9f ms with %s, %.9f before", i, now[i],
                          schedules[k % SCHEDULES], first[i]);
    }
}
END_TEST

/* ---- what is written ---- */

static void three_copies(void)
{
    start("eager", "10,10");
    OK(cuMemcpyHtoDAsync(memory, pinned, 1000000, streams[0]));
    OK(cuMemcpyHtoDAsync(memory, pinned, 1000000, streams[1]));
    OK(cuMemcpyDtoHAsync(pinned, memory, 500000, streams[0]));
    OK(cuCtxSynchronize());
}

static void waits(void)
{
    setenv("SYNTHETIC_GPU_SIZE_SCALE", "1000", 1);
    start("eager", "pcie5");
    gate();
    OK(cuMemsetD8Async(memory, 1, 300000, streams[0])); /* 100 us */
    OK(cuEventRecord(events[1], streams[0]));
    OK(cuMemsetD8Async(memory + MIB, 1, 3000, streams[1]));
    OK(cuStreamWaitEvent(streams[1], events[1], 0));
    OK(cuMemsetD8Async(memory + MIB, 1, 3000, streams[1]));
    OK(cuCtxSynchronize());
}

START_TEST(the_report_has_the_model)
{
    ck_assert_int_eq(report_number(three_copies, "in_busy_ns"), 2 * (MACHINE_COPY_LATENCY + 100000));
    ck_assert_int_eq(report_number(three_copies, "in_bytes"), 2000000);
    ck_assert_int_eq(report_number(three_copies, "out_busy_ns"), MACHINE_COPY_LATENCY + 50000);
    ck_assert_int_eq(report_number(three_copies, "threads_not_waited_for"), 0);
    ck_assert_int_gt(report_number(three_copies, "makespan_ns"), 250000);
    ck_assert_int_gt(report_number(three_copies, "host_waited_ns"), 190000);
    /* The first stream of those that waited is the gated one, from the time there was work behind the wait.
     */
    ck_assert_int_gt(report_number(waits, "waited_ns"), 1300000);
    ck_assert_int_lt(report_number(waits, "waited_ns"), 1400000);
}
END_TEST

static void recorded(void)
{
    CUdeviceptr p, q;
    CUmemoryPool pool;
    start("lazy", "pcie5");
    OK(cuMemAlloc(&p, 5000));
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemAllocFromPoolAsync(&q, 70000, pool, streams[0]));
    OK(cuMemcpyHtoDAsync(q, pinned, 4096, streams[0]));
    OK(launch_copy(p, q, 8, streams[0]));
    OK(launch_increment(p + 256, 1, streams[1]));
    OK(cuMemsetD8Async(p, 0, 100, streams[1]));
    OK(cuMemFreeAsync(q, streams[0]));
    OK(cuMemcpyDtoH(pinned + MIB, p, 12));
    OK(cuMemFree(p));
}

/* Its lines behind those of start(), in which the module's variable and `memory' were born: 0 and 1. */
START_TEST(the_record_can_be_read)
{
    char path[64], line[256], text[4096] = "";
    snprintf(path, sizeof(path), "/tmp/synthetic-gpu-record-%d", (int)getpid());
    setenv("SYNTHETIC_GPU_RECORD", path, 1);
    report_number(recorded, "launches");
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_ptr_nonnull(fgets(line, sizeof(line), f));
    ck_assert_str_eq(line, "device-record 1\n");
    while (fgets(line, sizeof(line), f))
        strcat(text, line);
    fclose(f);
    unlink(path);
    char wanted[4096];
    /* Kernels: 2048 bytes read and written; 256 and 256. */
    snprintf(wanted, sizeof(wanted),
             "a 0 16\n"
             "a 1 8388608\n"
             "a 2 5000\n"
             "a 3 70000\n"
             "c 0 i 4096 3w\n"
             "n 0 copy\n"
             "l 0 0 %.0f 2 3\n"
             "n 1 increment\n"
             "l 1 1 %.0f 2\n"
             "m 1 2w\n"
             "f 3 0\n"
             "c 2 O 12 2r\n"
             "f 2 -\n"
             "e 11\n",
             MACHINE_KERNEL_GAP + 4096 * 1e9 / MACHINE_HBM_RATE,
             MACHINE_KERNEL_GAP + 512 * 1e9 / MACHINE_HBM_RATE);
    ck_assert_str_eq(text, wanted);
}
END_TEST

START_TEST(the_history_has_starts_and_ends)
{
    char path[64], kind[3];
    unsigned long long stream[3];
    double submit[3], began[3], ended[3], bytes[3];
    snprintf(path, sizeof(path), "/tmp/synthetic-gpu-history-%d", (int)getpid());
    setenv("SYNTHETIC_GPU_HISTORY", path, 1);
    report_number(three_copies, "launches");
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fscanf(f, "device-history 1\n"), 0);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(fscanf(f, "%c %llu %lf %lf %lf %lf\n", &kind[i], &stream[i], &submit[i], &began[i],
                                &ended[i], &bytes[i]),
                         6);
    ck_assert_int_eq(fgetc(f), EOF);
    fclose(f);
    unlink(path);
    /* In order of their ends: in, out behind it in the same stream, in of the other stream. */
    ck_assert_uint_eq(stream[0], stream[1]);
    ck_assert_uint_ne(stream[0], stream[2]);
    ck_assert(kind[0] == 'c' && kind[1] == 'c' && kind[2] == 'c');
    ck_assert(bytes[0] == 1e6 && bytes[1] == 5e5 && bytes[2] == 1e6);
    ck_assert(began[0] == submit[0] && began[1] == ended[0] && began[2] == ended[0]);
    ck_assert(submit[2] == submit[0] + MACHINE_HOST_COPY && submit[1] == submit[2] + MACHINE_HOST_COPY);
    ck_assert(ended[0] - began[0] == MACHINE_COPY_LATENCY + 100000);
    ck_assert(ended[1] - began[1] == MACHINE_COPY_LATENCY + 50000);
    ck_assert(ended[2] - began[2] == MACHINE_COPY_LATENCY + 100000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("clock");
    TCase *reckoned = tcase_create("reckoned"), *same = tcase_create("same"),
          *written = tcase_create("written");
    tcase_set_timeout(reckoned, 60);
    tcase_add_loop_test(reckoned, a_copy_costs_latency_and_bytes, 0, SCHEDULES);
    tcase_add_loop_test(reckoned, one_engine_serves_copies_in_turn, 0, SCHEDULES);
    tcase_add_loop_test(reckoned, both_directions_share_the_link, 0, SCHEDULES);
    tcase_add_loop_test(reckoned, an_engine_rests_while_its_copy_waits, 0, SCHEDULES);
    tcase_add_loop_test(reckoned, an_engine_serves_who_came_first, 0, SCHEDULES);
    tcase_add_loop_test(reckoned, a_stream_waits_for_an_event_of_another, 0, SCHEDULES);
    tcase_add_loop_test(reckoned, the_legacy_stream_waits_and_is_waited_for, 0, SCHEDULES);
    tcase_add_loop_test(reckoned, a_host_function_takes_its_time, 0, SCHEDULES);
    tcase_add_loop_test(reckoned, calls_cost_the_host_time, 0, SCHEDULES);
    tcase_add_loop_test(reckoned, scales_multiply_what_they_are_for, 0, SCHEDULES);
    tcase_add_loop_test(reckoned, a_kernel_takes_what_its_instructions_take, 0, SCHEDULES);
    tcase_add_loop_test(reckoned, a_full_stream_makes_the_host_wait, 0, SCHEDULES);
    tcase_add_loop_test(reckoned, a_query_tells_what_the_clock_says, 0, SCHEDULES);
    tcase_add_loop_test(reckoned, times_of_events_wait_for_the_clock, 0, SCHEDULES);
    tcase_add_loop_test(reckoned, a_graph_takes_its_longest_way, 0, SCHEDULES);
    tcase_add_loop_test(reckoned, a_graph_waits_for_an_event, 0, SCHEDULES);
    suite_add_tcase(suite, reckoned);
    tcase_set_timeout(same, 120);
    tcase_add_loop_test(same, every_schedule_gives_the_same_times, 0, 2);
    suite_add_tcase(suite, same);
    tcase_set_timeout(written, 60);
    tcase_add_test(written, the_report_has_the_model);
    tcase_add_test(written, the_record_can_be_read);
    tcase_add_test(written, the_history_has_starts_and_ends);
    suite_add_tcase(suite, written);
    return run_suite(suite);
}
