/*
 * test_gpu.h - what the tests of the synthetic driver share. Each test runs in a process of its own (Check's
 * fork mode) and initialises the driver itself, after choosing schedule and memory.
 */
#ifndef SYNTHETIC_TEST_GPU_H
#define SYNTHETIC_TEST_GPU_H

#include <check.h>
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1ull << 20)
#define PAGE (2 * MIB)

#define OK(call) ck_assert_int_eq((call), CUDA_SUCCESS)
#define FAILS(call, error) ck_assert_int_eq((call), (error))

static const char *const schedules[] = {"eager", "lazy", "random:1", "random:2", "random:3"};
#define SCHEDULES 5

/* In all kernels a block has 64 threads; they work on uint32_t at p[block * 64 + thread]. */
static const char test_ptx[] = ".version 8.0\n"
                               ".target sm_75\n"
                               ".address_size 64\n"
                               ".global .align 4 .u32 counter[4] = {1, 2, 3, 4};\n"
                               ".visible .entry increment(.param .u64 p)\n"
                               ".reqntid 64, 1, 1\n"
                               "{\n"
                               "  .reg .b32 %r<6>;\n"
                               "  .reg .b64 %rd<6>;\n"
                               "  ld.param.u64 %rd1, [p];\n"
                               "  mov.u32 %r1, %tid.x;\n"
                               "  mov.u32 %r2, %ctaid.x;\n"
                               "  shl.b32 %r3, %r2, 6;\n"
                               "  add.s32 %r4, %r3, %r1;\n"
                               "  mul.wide.u32 %rd2, %r4, 4;\n"
                               "  add.s64 %rd3, %rd1, %rd2;\n"
                               "  ld.global.u32 %r5, [%rd3];\n"
                               "  add.s32 %r5, %r5, 1;\n"
                               "  st.global.u32 [%rd3], %r5;\n"
                               "  ret;\n"
                               "}\n"
                               ".visible .entry copy(.param .u64 dst, .param .u64 src)\n"
                               "{\n"
                               "  .reg .b32 %r<6>;\n"
                               "  .reg .b64 %rd<6>;\n"
                               "  ld.param.u64 %rd1, [dst];\n"
                               "  ld.param.u64 %rd4, [src];\n"
                               "  mov.u32 %r1, %tid.x;\n"
                               "  mov.u32 %r2, %ctaid.x;\n"
                               "  shl.b32 %r3, %r2, 6;\n"
                               "  add.s32 %r4, %r3, %r1;\n"
                               "  mul.wide.u32 %rd2, %r4, 4;\n"
                               "  add.s64 %rd3, %rd4, %rd2;\n"
                               "  ld.global.u32 %r5, [%rd3];\n"
                               "  add.s64 %rd3, %rd1, %rd2;\n"
                               "  st.global.u32 [%rd3], %r5;\n"
                               "  ret;\n"
                               "}\n";

static CUcontext test_context;
static CUfunction test_increment, test_copy;
static CUmodule test_module;

/* A context on device 0 with `megabytes' of memory, and the kernels above. */
static inline void gpu_start(const char *schedule, unsigned megabytes)
{
    char size[32];
    snprintf(size, sizeof(size), "%uM", megabytes);
    setenv("SYNTHETIC_GPU_HBM", size, 1);
    setenv("SYNTHETIC_GPU_SCHEDULE", schedule, 1);
    OK(cuInit(0));
    OK(cuCtxCreate_v4(&test_context, NULL, 0, 0));
    OK(cuModuleLoadData(&test_module, test_ptx));
    OK(cuModuleGetFunction(&test_increment, test_module, "increment"));
    OK(cuModuleGetFunction(&test_copy, test_module, "copy"));
}

static inline CUresult launch_increment(CUdeviceptr p, unsigned blocks, CUstream stream)
{
    void *params[] = {&p};
    return cuLaunchKernel(test_increment, blocks, 1, 1, 64, 1, 1, 0, stream, params, NULL);
}

static inline CUresult launch_copy(CUdeviceptr dst, CUdeviceptr src, unsigned blocks, CUstream stream)
{
    void *params[] = {&dst, &src};
    return cuLaunchKernel(test_copy, blocks, 1, 1, 64, 1, 1, 0, stream, params, NULL);
}

static inline uint32_t read_word(CUdeviceptr p)
{
    uint32_t value = 0;
    OK(cuMemcpyDtoH(&value, p, sizeof(value)));
    return value;
}

static inline CUmemAllocationProp device_prop(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    return prop;
}

static inline CUresult set_access(CUdeviceptr p, size_t size, CUmemAccess_flags flags)
{
    CUmemAccessDesc desc = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}, .flags = flags};
    return cuMemSetAccess(p, size, &desc, 1);
}

static inline size_t free_memory(void)
{
    size_t free_bytes, total;
    OK(cuMemGetInfo(&free_bytes, &total));
    return free_bytes;
}

/* The report that body leaves behind, run in a child process. */
static inline void report_text(void (*body)(void), char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof(path), "/tmp/synthetic-gpu-test-%d.json", (int)getpid());
    setenv("SYNTHETIC_GPU_REPORT", path, 1);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        body();
        exit(0);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, size - 1, f)] = 0;
    fclose(f);
    unlink(path);
}

/* The number after "name": in it; -1 where it is not there. */
static inline long long report_number(void (*body)(void), const char *name)
{
    char key[64], text[65536];
    report_text(body, text, sizeof(text));
    snprintf(key, sizeof(key), "\"%s\"", name);
    const char *at = strstr(text, key);
    if (!at)
        return -1;
    at += strlen(key);
    at += strcspn(at, "0123456789");
    return atoll(at);
}

static inline int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
