/*
 * test_errors.c - what the driver refuses: calls before initialization, without context, with dead handles;
 * injected faults; entry points; functions that are left out.
 */
#include "test_gpu.h"

#include <dlfcn.h>

START_TEST(nothing_works_before_initialization)
{
    int count, version;
    CUcontext ctx;
    CUdeviceptr p;
    FAILS(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
    FAILS(cuDevicePrimaryCtxRetain(&ctx, 0), CUDA_ERROR_NOT_INITIALIZED);
    FAILS(cuMemAlloc(&p, 16), CUDA_ERROR_NOT_INITIALIZED);
    OK(cuDriverGetVersion(&version));
    ck_assert_int_ge(version, 13000);
    FAILS(cuInit(1), CUDA_ERROR_INVALID_VALUE);
    OK(cuInit(0));
    OK(cuInit(0));
    OK(cuDeviceGetCount(&count));
    ck_assert_int_eq(count, 1);
}
END_TEST

START_TEST(work_needs_a_context)
{
    CUcontext ctx, popped;
    CUdeviceptr p;
    CUdevice device;
    unsigned flags;
    int active;
    OK(cuInit(0));
    FAILS(cuMemAlloc(&p, 16), CUDA_ERROR_INVALID_CONTEXT);
    FAILS(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    ck_assert_int_eq(active, 0);
    OK(cuDevicePrimaryCtxRetain(&ctx, 0));
    OK(cuCtxPushCurrent(ctx));
    OK(cuCtxGetDevice(&device));
    ck_assert_int_eq(device, 0);
    OK(cuMemAlloc(&p, 16));
    OK(cuCtxPopCurrent(&popped));
    ck_assert_ptr_eq(popped, ctx);
    FAILS(cuMemAlloc(&p, 16), CUDA_ERROR_INVALID_CONTEXT);
    FAILS(cuCtxPopCurrent(&popped), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuDevicePrimaryCtxRelease(0));
    FAILS(cuCtxSetCurrent(ctx), CUDA_ERROR_INVALID_CONTEXT);
    FAILS(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
    FAILS(cuDevicePrimaryCtxRetain(&ctx, 1), CUDA_ERROR_INVALID_DEVICE);
}
END_TEST

START_TEST(device_is_what_it_claims)
{
    int value;
    size_t total, free_bytes, all;
    char name[64];
    gpu_start("eager", 96);
    OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    ck_assert_int_eq(value, 7);
    OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
    ck_assert_int_eq(value, 1);
    OK(cuDeviceTotalMem(&total, 0));
    ck_assert_uint_eq(total, 96 * MIB);
    OK(cuMemGetInfo(&free_bytes, &all));
    ck_assert_uint_eq(all, total);
    ck_assert_uint_le(free_bytes, total);
    OK(cuDeviceGetName(name, sizeof(name), 0));
    ck_assert_str_eq(name, "Synthetic GPU");
}
END_TEST

START_TEST(launches_are_checked)
{
    CUdeviceptr p;
    void *params[] = {&p};
    CUfunction missing;
    CUmodule bad;
    gpu_start("eager", 64);
    OK(cuMemAlloc(&p, 65536));
    FAILS(cuLaunchKernel(test_increment, 0, 1, 1, 64, 1, 1, 0, NULL, params, NULL), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuLaunchKernel(test_increment, 1, 1, 1, 0, 1, 1, 0, NULL, params, NULL), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuLaunchKernel(test_copy, 1, 1, 1, 2048, 1, 1, 0, NULL, params, NULL), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuLaunchKernel(test_increment, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuLaunchKernel(test_increment, 1, 1, 1, 64, 1, 1, 1 << 20, NULL, params, NULL),
          CUDA_ERROR_INVALID_VALUE);
    FAILS(cuLaunchKernel(test_increment, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuLaunchKernel((CUfunction)&p, 1, 1, 1, 64, 1, 1, 0, NULL, params, NULL),
          CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuModuleGetFunction(&missing, test_module, "nothing"), CUDA_ERROR_NOT_FOUND);
    FAILS(cuModuleLoadData(&bad, "this is no PTX"), CUDA_ERROR_INVALID_PTX);
    FAILS(cuModuleLoadData(&bad, "\177ELF\2\1\1"), CUDA_ERROR_NO_BINARY_FOR_GPU);
    OK(cuModuleUnload(test_module));
    FAILS(launch_increment(p, 1, NULL), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuModuleUnload(test_module), CUDA_ERROR_INVALID_HANDLE);
}
END_TEST

START_TEST(parameters_are_listed_and_packed)
{
    CUdeviceptr p, q;
    size_t offset, size;
    CUlibrary library;
    CUkernel kernel;
    gpu_start("eager", 64);
    OK(cuFuncGetParamInfo(test_copy, 1, &offset, &size));
    ck_assert_uint_eq(offset, 8);
    ck_assert_uint_eq(size, 8);
    FAILS(cuFuncGetParamInfo(test_copy, 2, &offset, &size), CUDA_ERROR_INVALID_VALUE);
    OK(cuLibraryLoadData(&library, test_ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "copy"));
    OK(cuKernelGetParamInfo(kernel, 0, &offset, &size));
    FAILS(cuKernelGetParamInfo(kernel, 2, &offset, &size), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuFuncGetParamInfo((CUfunction)kernel, 0, &offset, &size), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAlloc(&p, 256));
    OK(cuMemAlloc(&q, 256));
    OK(cuMemsetD32(p, 12, 64));
    /* The parameters as one buffer; and a kernel instead of a function. */
    CUdeviceptr packed[2] = {q, p};
    size_t bytes = sizeof(packed);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    OK(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, extra));
    ck_assert_uint_eq(read_word(q), 12);
    CUlaunchConfig config = {
        .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 64, .blockDimY = 1, .blockDimZ = 1};
    void *params[] = {&q};
    OK(cuLaunchKernelEx(&config, test_increment, params, NULL));
    ck_assert_uint_eq(read_word(q), 13);
    OK(cuLaunchCooperativeKernel(test_increment, 1, 1, 1, 64, 1, 1, 0, NULL, params));
    ck_assert_uint_eq(read_word(q), 14);
    OK(cuLibraryUnload(library));
    FAILS(cuLibraryUnload(library), CUDA_ERROR_INVALID_HANDLE);
}
END_TEST

START_TEST(linker_passes_ptx_through)
{
    CUlinkState state;
    CUmodule module;
    CUfunction function;
    void *image;
    size_t size;
    gpu_start("eager", 64);
    OK(cuLinkCreate(0, NULL, NULL, &state));
    OK(cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)(uintptr_t)test_ptx, sizeof(test_ptx) - 1, "x", 0, NULL,
                     NULL));
    OK(cuLinkComplete(state, &image, &size));
    OK(cuModuleLoadData(&module, image));
    OK(cuModuleGetFunction(&function, module, "increment"));
    OK(cuLinkDestroy(state));
    FAILS(cuLinkDestroy(state), CUDA_ERROR_INVALID_HANDLE);
}
END_TEST

START_TEST(faults_are_injected)
{
    CUdeviceptr p;
    setenv("SYNTHETIC_GPU_FAULT",
           "cuMemAlloc:3:OUT_OF_MEMORY,cuStreamSynchronize:0:UNKNOWN,cuMemFree_v2:1:NOT_PERMITTED,"
           "cuCtxSynchronize:2/3:UNKNOWN",
           1);
    gpu_start("eager", 64);
    OK(cuMemAlloc(&p, 16));
    FAILS(cuMemFree(p), CUDA_ERROR_NOT_PERMITTED);
    OK(cuMemFree(p));
    OK(cuMemAlloc(&p, 16));
    FAILS(cuMemAlloc(&p, 16), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAlloc(&p, 16));
    FAILS(cuStreamSynchronize(NULL), CUDA_ERROR_UNKNOWN);
    FAILS(cuStreamSynchronize(NULL), CUDA_ERROR_UNKNOWN);
    for (int i = 1; i < 10; i++)
        FAILS(cuCtxSynchronize(), i % 3 == 2 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS);
}
END_TEST

/* "leaves the process in an inconsistent state and any further CUDA work will return the same error" */
START_TEST(fatal_faults_stay)
{
    CUevent event;
    CUdeviceptr p;
    setenv("SYNTHETIC_GPU_FAULT", "cuEventRecord:1:LAUNCH_FAILED", 1);
    gpu_start("eager", 64);
    OK(cuMemAlloc(&p, 16));
    OK(cuEventCreate(&event, 0));
    FAILS(cuEventRecord(event, NULL), CUDA_ERROR_LAUNCH_FAILED);
    FAILS(cuEventRecord(event, NULL), CUDA_ERROR_LAUNCH_FAILED);
    FAILS(cuMemFree(p), CUDA_ERROR_LAUNCH_FAILED);
    FAILS(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
}
END_TEST

/* Of 64 words that are copied one arrives with one bit changed, and that copy only. */
START_TEST(copies_are_corrupted)
{
    uint32_t words[64] = {0};
    CUdeviceptr p;
    unsigned wrong = 0;
    setenv("SYNTHETIC_GPU_FAULT", "cuMemcpyDtoHAsync:2:CORRUPT", 1);
    gpu_start(schedules[_i], 64);
    OK(cuMemAlloc(&p, sizeof(words)));
    OK(cuMemsetD32(p, 77, 64));
    for (unsigned copy = 1; copy <= 3; copy++) {
        OK(cuMemcpyDtoHAsync(words, p, sizeof(words), NULL));
        OK(cuStreamSynchronize(NULL));
        wrong = 0;
        for (unsigned i = 0; i < 64; i++)
            wrong += words[i] != 77;
        ck_assert_uint_eq(wrong, copy == 2);
    }
}
END_TEST

/* Only what copies can be corrupted; a mistake in the list is not overlooked. */
START_TEST(faults_are_understood)
{
    static const char *const bad[] = {"cuMemMap:1:CORRUPT", "cuMemMap:1:NO_SUCH_ERROR",
                                      "cuMemMap:OUT_OF_MEMORY"};
    int status;
    pid_t child = fork();
    if (child == 0) {
        setenv("SYNTHETIC_GPU_FAULT", bad[_i], 1);
        _exit(cuInit(0) == CUDA_SUCCESS ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status));
}
END_TEST

static void hold_some(void)
{
    CUmemAllocationProp prop;
    CUmemGenericAllocationHandle handle[2];
    CUdeviceptr p, q;
    CUstream stream[2];
    CUevent event[2];
    void *host;
    gpu_start("eager", 64);
    prop = device_prop();
    OK(cuMemCreate(&handle[0], PAGE, &prop, 0));
    OK(cuMemCreate(&handle[1], PAGE, &prop, 0));
    OK(cuMemAddressReserve(&p, 2 * PAGE, 0, 0, 0));
    OK(cuMemMap(p, PAGE, 0, handle[0], 0));
    OK(cuMemRelease(handle[0]));
    OK(cuMemHostAlloc(&host, 4096, 0));
    OK(cuStreamCreate(&stream[0], 0));
    OK(cuStreamCreate(&stream[1], 0));
    OK(cuStreamDestroy(stream[0]));
    OK(cuEventCreate(&event[0], 0));
    OK(cuEventCreate(&event[1], 0));
    OK(cuEventDestroy(event[0]));
    OK(cuMemAlloc(&q, 16));
}

START_TEST(what_is_held_is_reported)
{
    static const struct {
        const char *name;
        int count;
    } held[] = {{"held_handles", 1},          {"held_mappings", 1},         {"held_reservations", 1},
                {"held_host_allocations", 1}, {"held_streams", 1},          {"held_events", 1},
                {"held_allocations", 1},      {"held_pool_allocations", 0}, {"held_contexts", 1}};
    for (unsigned i = 0; i < sizeof(held) / sizeof(*held); i++)
        ck_assert_msg(report_number(hold_some, held[i].name) == held[i].count, "%s", held[i].name);
}
END_TEST

START_TEST(entry_points_come_in_versions)
{
    void *function, *exported;
    CUdriverProcAddressQueryResult status;
    void *self = dlopen("libcuda.so.1", RTLD_NOW);
    ck_assert_ptr_nonnull(self);
    OK(cuGetProcAddress_v2("cuMemAlloc", &function, 13000, 0, &status));
    ck_assert_ptr_eq(function, dlsym(self, "cuMemAlloc_v2"));
    ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_SUCCESS);
    OK(cuGetProcAddress_v2("cuMemAlloc", &function, 3000, 0, &status));
    ck_assert_ptr_eq(function, dlsym(self, "cuMemAlloc"));
    OK(cuGetProcAddress_v2("cuGraphAddNode", &function, 12020, 0, &status));
    ck_assert_ptr_eq(function, dlsym(self, "cuGraphAddNode"));
    OK(cuGetProcAddress_v2("cuGraphAddNode", &function, 11000, 0, &status));
    ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    ck_assert_ptr_null(function);
    FAILS(cuGetProcAddress_v2("cuNothing", &function, 13000, 0, &status), CUDA_ERROR_NOT_FOUND);
    ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    OK(cuGetProcAddress_v2("cuMemcpyAsync", &function, 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
                           &status));
    exported = dlsym(self, "cuMemcpyAsync_ptsz");
    ck_assert_ptr_nonnull(exported);
    ck_assert_ptr_eq(function, exported);
    CUuuid id = {{0}};
    const void *table;
    FAILS(cuGetExportTable(&table, &id), CUDA_ERROR_NOT_FOUND);
    /* There, but not implemented. */
    int (*texture)(void) = (int (*)(void))dlsym(self, "cuTexRefCreate");
    ck_assert_ptr_nonnull(texture);
    ck_assert_int_eq(texture(), CUDA_ERROR_NOT_SUPPORTED);
}
END_TEST

START_TEST(errors_have_names)
{
    const char *text;
    OK(cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
    ck_assert_str_eq(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
    OK(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
    ck_assert_str_eq(text, "out of memory");
    FAILS(cuGetErrorName((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
    ck_assert_ptr_null(text);
}
END_TEST

/* A forked child cannot use the driver, and its parent goes on undisturbed. */
START_TEST(child_process_has_no_driver)
{
    CUdeviceptr p;
    gpu_start("eager", 64);
    OK(cuMemAlloc(&p, 256));
    OK(cuMemsetD32(p, 1, 64));
    pid_t child = fork();
    if (child == 0)
        _exit(cuMemAlloc(&p, 16) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    OK(launch_increment(p, 1, NULL));
    ck_assert_uint_eq(read_word(p), 2);
}
END_TEST

static CUdeviceptr late;

static void free_late(void)
{
    if (cuMemFree(late) != CUDA_ERROR_DEINITIALIZED)
        _exit(1);
}

static void use_after_exit(void)
{
    atexit(free_late); /* runs after the driver's own, which registers later */
    gpu_start("eager", 64);
    OK(cuMemAlloc(&late, 256));
}

START_TEST(driver_is_gone_at_exit)
{
    ck_assert_int_eq(report_number(use_after_exit, "cuMemAlloc_v2"), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("errors");
    TCase *tc = tcase_create("refusals");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, nothing_works_before_initialization);
    tcase_add_test(tc, work_needs_a_context);
    tcase_add_test(tc, device_is_what_it_claims);
    tcase_add_test(tc, launches_are_checked);
    tcase_add_test(tc, parameters_are_listed_and_packed);
    tcase_add_test(tc, linker_passes_ptx_through);
    tcase_add_test(tc, faults_are_injected);
    tcase_add_test(tc, fatal_faults_stay);
    tcase_add_loop_test(tc, copies_are_corrupted, 0, SCHEDULES);
    tcase_add_loop_test(tc, faults_are_understood, 0, 3);
    tcase_add_test(tc, what_is_held_is_reported);
    tcase_add_test(tc, entry_points_come_in_versions);
    tcase_add_test(tc, errors_have_names);
    tcase_add_test(tc, child_process_has_no_driver);
    tcase_add_test(tc, driver_is_gone_at_exit);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
