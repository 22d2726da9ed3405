/*
 * test_clock.c - virtual time: schedules reckoned by hand, under every schedule of the real execution.
 */
#include "test_clock.h"

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
    /* Of memory nothing, of instructions much. */
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
    TAKES(between(0, 1), MACHINE_HOST_LAUNCH + memset_ns(4.0 * MIB * 1e4) + MACHINE_HOST_EVENT);
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

int main(void)
{
    Suite *suite = suite_create("clock");
    TCase *reckoned = tcase_create("reckoned");
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
    return run_suite(suite);
}
