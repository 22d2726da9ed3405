/*
 * test_beside.c - a kernel that waits for the host, and what goes on beside it in other streams.
 */
#include "test_gpu.h"

#include <pthread.h>

/* started becomes 1; until flag is not 0 nothing else happens; then p[thread] becomes 7. */
static const char wait_ptx[] = ".version 8.0\n"
                               ".target sm_75\n"
                               ".address_size 64\n"
                               ".visible .entry await(.param .u64 flag, .param .u64 started, .param .u64 p)\n"
                               ".reqntid 64, 1, 1\n"
                               "{\n"
                               "  .reg .pred %p<2>;\n"
                               "  .reg .b32 %r<4>;\n"
                               "  .reg .b64 %rd<6>;\n"
                               "  ld.param.u64 %rd1, [flag];\n"
                               "  ld.param.u64 %rd2, [started];\n"
                               "  ld.param.u64 %rd3, [p];\n"
                               "  mov.u32 %r1, 1;\n"
                               "  st.volatile.global.u32 [%rd2], %r1;\n"
                               "AGAIN:\n"
                               "  ld.volatile.global.u32 %r2, [%rd1];\n"
                               "  setp.eq.u32 %p1, %r2, 0;\n"
                               "  @%p1 bra AGAIN;\n"
                               "  mov.u32 %r1, %tid.x;\n"
                               "  mul.wide.u32 %rd4, %r1, 4;\n"
                               "  add.s64 %rd5, %rd3, %rd4;\n"
                               "  mov.u32 %r3, 7;\n"
                               "  st.global.u32 [%rd5], %r3;\n"
                               "  ret;\n"
                               "}\n";

static volatile uint32_t *words; /* pinned: the flag, and whether it has started */
static CUdeviceptr memory[3];
static CUstream waits, other;

static void *let_go(void *argument)
{
    usleep(700000);
    *(volatile uint32_t *)argument = 1;
    return NULL;
}

static void start(const char *schedule)
{
    CUmodule module;
    CUfunction await;
    CUdeviceptr flag, started;
    void *params[] = {&flag, &started, &memory[0]};
    gpu_start(schedule, 64);
    OK(cuModuleLoadData(&module, wait_ptx));
    OK(cuModuleGetFunction(&await, module, "await"));
    OK(cuStreamCreate(&waits, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 3; i++)
        OK(cuMemAlloc(&memory[i], 4096));
    OK(cuMemHostAlloc((void **)(uintptr_t)&words, 4096, 0));
    words[0] = words[1] = 0;
    flag = (CUdeviceptr)(uintptr_t)&words[0];
    started = (CUdeviceptr)(uintptr_t)&words[1];
    OK(cuLaunchKernel(await, 1, 1, 1, 64, 1, 1, 0, waits, params, NULL));
    (void)cuStreamQuery(waits);
    while (!words[1])
        usleep(1000);
}

/* Copies both ways, memsets, events, values, host functions, frees in order, while the kernel runs. */
START_TEST(what_needs_no_kernel_goes_on)
{
    uint32_t in[64], out[64];
    CUdeviceptr pooled;
    CUevent event;
    start(schedules[_i]);
    for (uint32_t i = 0; i < 64; i++)
        in[i] = 1000 + i;
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuMemcpyHtoDAsync(memory[1], in, sizeof(in), other));
    OK(cuMemcpyDtoDAsync(memory[2], memory[1], sizeof(in), other));
    OK(cuMemsetD32Async(memory[2], 3, 32, other));
    OK(cuMemAllocAsync(&pooled, 4096, other));
    OK(cuMemsetD32Async(pooled, 4, 32, other));
    OK(cuMemFreeAsync(pooled, other));
    OK(cuStreamWriteValue32(other, (CUdeviceptr)(uintptr_t)&words[2], 9, 0));
    OK(cuStreamWaitValue32(other, (CUdeviceptr)(uintptr_t)&words[2], 9, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuEventRecord(event, other));
    OK(cuEventSynchronize(event));
    OK(cuMemcpyDtoHAsync(out, memory[2], sizeof(out), other));
    OK(cuStreamSynchronize(other));
    for (uint32_t i = 0; i < 64; i++)
        ck_assert_uint_eq(out[i], i < 32 ? 3 : 1000 + i);
    FAILS(cuStreamQuery(waits), CUDA_ERROR_NOT_READY);
    words[0] = 1;
    OK(cuStreamSynchronize(waits));
    ck_assert_uint_eq(read_word(memory[0] + 63 * 4), 7);
}
END_TEST

/* A kernel of another stream is behind it, and so is what comes behind that, and what is its own stream's. */
START_TEST(other_kernels_do_not)
{
    pthread_t thread;
    start(schedules[_i]);
    OK(cuMemsetD32Async(memory[1], 1, 64, other));
    OK(launch_increment(memory[1], 1, other));
    OK(cuMemcpyDtoDAsync(memory[2], memory[1], 256, other));
    OK(cuMemsetD32Async(memory[0], 5, 8, waits));
    usleep(500000);
    FAILS(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
    FAILS(cuStreamQuery(waits), CUDA_ERROR_NOT_READY);
    ck_assert_int_eq(pthread_create(&thread, NULL, let_go, (void *)(uintptr_t)&words[0]), 0);
    OK(cuCtxSynchronize());
    ck_assert_uint_eq(read_word(memory[2]), 2);
    ck_assert_uint_eq(read_word(memory[0]), 5);
    ck_assert_uint_eq(read_word(memory[0] + 63 * 4), 7);
    pthread_join(thread, NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("beside");
    TCase *tc = tcase_create("a kernel that waits");
    tcase_set_timeout(tc, 20);
    tcase_add_loop_test(tc, what_needs_no_kernel_goes_on, 0, 3);
    tcase_add_loop_test(tc, other_kernels_do_not, 0, 3);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
