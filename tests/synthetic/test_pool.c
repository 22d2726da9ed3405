/*
 * test_pool.c - stream-ordered allocation, memory pools, cuMemAlloc, pointer questions.
 */
#include "test_gpu.h"

#include <pthread.h>

static CUmemoryPool new_pool(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemoryPool pool;
    OK(cuMemPoolCreate(&pool, &props));
    return pool;
}

static cuuint64_t attribute(CUmemoryPool pool, CUmemPool_attribute which)
{
    cuuint64_t value = 0;
    OK(cuMemPoolGetAttribute(pool, which, &value));
    return value;
}

START_TEST(allocation_is_aligned_counted_and_told)
{
    CUdeviceptr p[100], base;
    size_t size;
    gpu_start("eager", 64);
    CUmemoryPool pool = new_pool();
    for (int i = 0; i < 100; i++) {
        OK(cuMemAllocFromPoolAsync(&p[i], 100, pool, NULL));
        ck_assert_uint_eq(p[i] % 256, 0);
    }
    ck_assert_uint_eq(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 25600);
    ck_assert_uint_eq(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), PAGE);
    OK(cuMemGetAddressRange(&base, &size, p[7] + 99));
    ck_assert_uint_eq(base, p[7]);
    ck_assert_uint_eq(size, 100);
    FAILS(cuMemGetAddressRange(&base, &size, p[7] + 100), CUDA_ERROR_NOT_FOUND);
    CUmemoryPool told = NULL;
    OK(cuPointerGetAttribute(&told, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p[7] + 5));
    ck_assert_ptr_eq(told, pool);
    for (int i = 0; i < 100; i += 2)
        OK(cuMemFreeAsync(p[i], NULL));
    for (int i = 1; i < 100; i += 2)
        OK(cuMemFreeAsync(p[i], NULL));
    OK(cuCtxSynchronize());
    ck_assert_uint_eq(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
    ck_assert_uint_eq(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 25600);
    /* The threshold is 0: a synchronization gave everything back. */
    ck_assert_uint_eq(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
    FAILS(cuMemFreeAsync(p[0], NULL), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(threshold_keeps_memory)
{
    cuuint64_t threshold = 8 * PAGE, zero = 0;
    CUdeviceptr p;
    gpu_start("eager", 64);
    CUmemoryPool pool = new_pool();
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    OK(cuMemAllocFromPoolAsync(&p, 10 * PAGE, pool, NULL));
    OK(cuMemFreeAsync(p, NULL));
    OK(cuCtxSynchronize());
    ck_assert_uint_eq(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 8 * PAGE);
    ck_assert_uint_eq(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 10 * PAGE);
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &zero));
    ck_assert_uint_eq(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 8 * PAGE);
    OK(cuMemPoolTrimTo(pool, 3 * PAGE));
    ck_assert_uint_eq(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 3 * PAGE);
    /* Memory kept by a pool is there for others when they need it. */
    size_t total, left;
    OK(cuMemGetInfo(&left, &total));
    OK(cuMemAlloc(&p, left + 3 * PAGE));
    ck_assert_uint_eq(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
}
END_TEST

START_TEST(freed_memory_is_reused_in_the_same_stream_at_once)
{
    CUstream stream;
    CUdeviceptr p, q, last;
    gpu_start("lazy", 64);
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&last, 256));
    CUmemoryPool pool = new_pool();
    for (unsigned i = 0; i < 50; i++) {
        OK(cuMemAllocFromPoolAsync(&p, 20 * PAGE, pool, stream));
        OK(cuMemsetD32Async(p, i, 64, stream));
        OK(launch_increment(p, 1, stream));
        OK(launch_copy(last, p, 1, stream));
        OK(cuMemFreeAsync(p, stream));
    }
    OK(cuMemAllocFromPoolAsync(&q, 20 * PAGE, pool, stream));
    ck_assert_uint_eq(q, p);
    ck_assert_uint_eq(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 20 * PAGE);
    OK(cuStreamSynchronize(stream));
    ck_assert_uint_eq(read_word(last), 50);
    ck_assert_uint_eq(read_word(q), 0xa5a5a5a5); /* nobody has written it since the free */
}
END_TEST

START_TEST(other_stream_gets_other_memory_until_the_free_is_reached)
{
    CUstream one, two;
    CUdeviceptr p, q;
    gpu_start("lazy", 64);
    OK(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    CUmemoryPool pool = new_pool();
    OK(cuMemAllocFromPoolAsync(&p, PAGE, pool, one));
    OK(cuMemFreeAsync(p, one));
    OK(cuMemAllocFromPoolAsync(&q, PAGE, pool, two));
    ck_assert_uint_ne(p, q);
}
END_TEST

START_TEST(short_memory_makes_a_stream_wait_for_anothers_free)
{
    CUstream one, two;
    CUdeviceptr p, q;
    uint32_t *host;
    gpu_start(schedules[_i], 64);
    size_t most = free_memory() - 8 * PAGE;
    OK(cuMemAllocHost((void **)&host, most));
    OK(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    CUmemoryPool pool = new_pool();
    OK(cuMemAllocFromPoolAsync(&p, most, pool, one));
    OK(cuMemsetD32Async(p, 1, most / 4, one));
    OK(cuMemcpyDtoHAsync(host, p, most, one));
    OK(cuMemFreeAsync(p, one));
    OK(cuMemAllocFromPoolAsync(&q, most, pool, two));
    OK(cuMemsetD32Async(q, 2, most / 4, two));
    OK(cuStreamSynchronize(two));
    OK(cuStreamSynchronize(one));
    ck_assert_uint_eq(read_word(q + most - 4), 2);
    for (size_t i = 0; i < most / 4; i += 1000)
        ck_assert_uint_eq(host[i], 1);
}
END_TEST

START_TEST(capacity_is_hard)
{
    CUdeviceptr p[64] = {0}, q;
    gpu_start("eager", 64);
    CUmemoryPool pool = new_pool();
    size_t n = free_memory() / PAGE;
    for (size_t i = 0; i < n; i++)
        OK(cuMemAllocFromPoolAsync(&p[i], PAGE, pool, NULL));
    FAILS(cuMemAllocFromPoolAsync(&q, 256, pool, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    FAILS(cuMemAlloc(&q, PAGE), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemFreeAsync(p[1], NULL));
    OK(cuMemFreeAsync(p[5], NULL));
    /* The frames of two holes make one allocation: addresses are not scarce. */
    OK(cuMemAllocFromPoolAsync(&q, 2 * PAGE, pool, NULL));
    OK(cuMemsetD32(q, 6, PAGE / 2));
    ck_assert_uint_eq(read_word(q + 2 * PAGE - 4), 6);
}
END_TEST

START_TEST(random_use_never_overlaps)
{
    enum { N = 200 };
    CUdeviceptr p[N] = {0};
    size_t size[N] = {0};
    CUstream stream;
    gpu_start(schedules[_i], 128);
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUmemoryPool pool = new_pool();
    cuuint64_t threshold = 32 * PAGE;
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    srand(7);
    for (int round = 0; round < 1500; round++) {
        int i = rand() % N;
        if (p[i]) {
            uint32_t *host = malloc(size[i]);
            OK(cuMemcpyDtoHAsync(host, p[i], size[i], stream));
            OK(cuStreamSynchronize(stream));
            size_t k = 0;
            while (k < size[i] / 4 && host[k] == (unsigned)i)
                k++;
            ck_assert_uint_eq(k, size[i] / 4);
            free(host);
            OK(cuMemFreeAsync(p[i], stream));
            p[i] = 0;
        } else {
            size[i] = (size_t)(1 + rand() % (rand() % 10 ? 2000 : 200000)) * 4;
            OK(cuMemAllocFromPoolAsync(&p[i], size[i], pool, stream));
            OK(cuMemsetD32Async(p[i], (unsigned)i, size[i] / 4, stream));
        }
    }
}
END_TEST

/* Memory freed in one stream while another, not ordered before, still works on it. */
static void free_too_early(void)
{
    CUstream one, two;
    CUdeviceptr p, flag;
    CUmemoryPool pool;
    cuuint64_t keep = UINT64_MAX; /* or the synchronization would unmap it, and the kernel fault */
    gpu_start("eager", 64);
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    OK(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&flag, 4));
    OK(cuMemsetD32(flag, 0, 1));
    OK(cuMemAllocAsync(&p, 256, one));
    OK(cuStreamSynchronize(one));
    OK(cuStreamWaitValue32(two, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(launch_increment(p, 1, two));
    OK(cuMemFreeAsync(p, one));
    OK(cuStreamSynchronize(one));
    OK(cuMemsetD32(flag, 1, 1));
    OK(cuCtxSynchronize());
}

static void free_in_time(void)
{
    CUstream one, two;
    CUdeviceptr p;
    CUevent event;
    gpu_start("random:9", 64);
    OK(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < 50; i++) {
        OK(cuMemAllocAsync(&p, 256, one));
        OK(cuEventRecord(event, one));
        OK(cuStreamWaitEvent(two, event, 0));
        OK(launch_increment(p, 1, two));
        OK(cuEventRecord(event, two));
        OK(cuStreamWaitEvent(one, event, 0));
        OK(cuMemFreeAsync(p, one));
    }
    OK(cuCtxSynchronize());
}

START_TEST(freeing_memory_in_use_is_a_hazard)
{
    ck_assert_int_eq(report_number(free_too_early, "freed-in-use"), 1);
    ck_assert_int_eq(report_number(free_in_time, "freed-in-use"), -1);
    ck_assert_int_eq(report_number(free_in_time, "launches"), 50);
}
END_TEST

static CUdeviceptr foreign;
static CUstream foreign_stream;

static void *use_without_context(void *data)
{
    CUdeviceptr p;
    (void)data;
    FAILS(cuMemFreeAsync(foreign, NULL), CUDA_ERROR_INVALID_CONTEXT);
    FAILS(cuMemAllocAsync(&p, 256, CU_STREAM_PER_THREAD), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuMemFreeAsync(foreign, foreign_stream));
    OK(cuMemAllocAsync(&foreign, 512, foreign_stream));
    return NULL;
}

START_TEST(stream_of_its_own_needs_no_current_context)
{
    pthread_t thread;
    gpu_start(schedules[_i], 64);
    OK(cuStreamCreate(&foreign_stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAllocAsync(&foreign, 256, foreign_stream));
    ck_assert_int_eq(pthread_create(&thread, NULL, use_without_context, NULL), 0);
    pthread_join(thread, NULL);
    OK(cuMemsetD32Async(foreign, 3, 128, foreign_stream));
    OK(cuStreamSynchronize(foreign_stream));
}
END_TEST

START_TEST(destroyed_pool_lives_while_allocations_do)
{
    CUdeviceptr p, q;
    gpu_start("eager", 64);
    size_t before = free_memory();
    CUmemoryPool pool = new_pool();
    OK(cuMemAllocFromPoolAsync(&p, PAGE, pool, NULL));
    OK(cuMemPoolDestroy(pool));
    FAILS(cuMemAllocFromPoolAsync(&q, PAGE, pool, NULL), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemsetD32(p, 4, 16));
    ck_assert_uint_eq(read_word(p), 4);
    OK(cuMemFreeAsync(p, NULL));
    OK(cuCtxSynchronize());
    ck_assert_uint_eq(free_memory(), before);
}
END_TEST

START_TEST(default_pool_is_current)
{
    CUmemoryPool one, two, own;
    CUdeviceptr p;
    gpu_start("eager", 64);
    OK(cuDeviceGetDefaultMemPool(&one, 0));
    OK(cuDeviceGetMemPool(&two, 0));
    ck_assert_ptr_eq(one, two);
    FAILS(cuMemPoolDestroy(one), CUDA_ERROR_INVALID_VALUE);
    own = new_pool();
    OK(cuDeviceSetMemPool(0, own));
    OK(cuMemAllocAsync(&p, 1000, NULL));
    ck_assert_uint_eq(attribute(own, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 1024);
    OK(cuMemFree(p));
    ck_assert_uint_eq(attribute(own, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
}
END_TEST

START_TEST(plain_allocation)
{
    CUdeviceptr p, q;
    size_t pitch;
    gpu_start(schedules[_i], 64);
    size_t before = free_memory();
    FAILS(cuMemAlloc(&p, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAlloc(&p, 5 * PAGE));
    OK(cuMemAllocPitch(&q, &pitch, 100, 100, 4));
    ck_assert_uint_eq(pitch % 512, 0);
    OK(launch_increment(p, 100, NULL));
    FAILS(cuMemFree(p + 256), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(p));
    FAILS(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(0));
    OK(cuMemFree(q));
    OK(cuCtxSynchronize());
    ck_assert_uint_ge(free_memory(), before);
}
END_TEST

START_TEST(pointers_tell_what_they_are)
{
    CUdeviceptr p, global;
    void *pinned;
    int ordinal, value;
    unsigned type;
    CUcontext ctx;
    static char pageable[4096];
    gpu_start("eager", 64);
    OK(cuMemAlloc(&p, 1000));
    OK(cuMemHostAlloc(&pinned, 1000, CU_MEMHOSTALLOC_PORTABLE));
    OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p + 999));
    ck_assert_int_eq(ordinal, 0);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    ck_assert_uint_eq(type, CU_MEMORYTYPE_DEVICE);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)pinned));
    ck_assert_uint_eq(type, CU_MEMORYTYPE_HOST);
    OK(cuPointerGetAttribute(&ctx, CU_POINTER_ATTRIBUTE_CONTEXT, p));
    ck_assert_ptr_eq(ctx, test_context);
    FAILS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)pageable),
          CUDA_ERROR_INVALID_VALUE);
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *answers[] = {&type, &ordinal};
    OK(cuPointerGetAttributes(2, asked, answers, (CUdeviceptr)(uintptr_t)pageable));
    ck_assert_uint_eq(type, 0);
    ck_assert_int_eq(ordinal, CU_DEVICE_INVALID);
    OK(cuMemHostRegister(pageable, sizeof(pageable), 0));
    FAILS(cuMemHostRegister(pageable, 16, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)pageable));
    ck_assert_uint_eq(type, CU_MEMORYTYPE_HOST);
    OK(cuMemHostUnregister(pageable));
    FAILS(cuMemHostUnregister(pageable), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    /* A module's variable is device memory; initialised; not to be freed. */
    size_t bytes;
    OK(cuModuleGetGlobal(&global, &bytes, test_module, "counter"));
    ck_assert_uint_eq(bytes, 16);
    ck_assert_uint_eq(read_word(global + 8), 3);
    OK(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, global));
    FAILS(cuMemFree(global), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuModuleGetGlobal(&global, &bytes, test_module, "nothing"), CUDA_ERROR_NOT_FOUND);
    /* What a pointer is does not depend on the thread's context; by what address a kernel in it reaches it
     * does. */
    OK(cuCtxSetCurrent(NULL));
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    ck_assert_uint_eq(type, CU_MEMORYTYPE_DEVICE);
    FAILS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)pageable),
          CUDA_ERROR_INVALID_VALUE);
    FAILS(cuPointerGetAttribute(&p, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, p), CUDA_ERROR_INVALID_CONTEXT);
}
END_TEST

/* A context takes with it what was pinned in it; memory that the program registered stays, unregistered. */
START_TEST(host_memory_goes_with_its_context)
{
    void *pinned;
    unsigned type;
    CUcontext ctx;
    static char pageable[4096];
    gpu_start("eager", 64);
    OK(cuMemHostAlloc(&pinned, 1000, CU_MEMHOSTALLOC_PORTABLE));
    OK(cuMemHostRegister(pageable, sizeof(pageable), CU_MEMHOSTREGISTER_PORTABLE));
    OK(cuCtxDestroy(test_context));
    OK(cuDevicePrimaryCtxRetain(&ctx, 0));
    OK(cuCtxSetCurrent(ctx));
    FAILS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)pinned),
          CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemFreeHost(pinned), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemHostUnregister(pageable), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    pageable[0] = 1;
    OK(cuMemHostRegister(pageable, sizeof(pageable), 0));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pool");
    TCase *tc = tcase_create("allocation");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, allocation_is_aligned_counted_and_told);
    tcase_add_test(tc, threshold_keeps_memory);
    tcase_add_test(tc, freed_memory_is_reused_in_the_same_stream_at_once);
    tcase_add_test(tc, other_stream_gets_other_memory_until_the_free_is_reached);
    tcase_add_loop_test(tc, short_memory_makes_a_stream_wait_for_anothers_free, 0, SCHEDULES);
    tcase_add_test(tc, capacity_is_hard);
    tcase_add_loop_test(tc, random_use_never_overlaps, 0, 3);
    tcase_add_loop_test(tc, stream_of_its_own_needs_no_current_context, 0, SCHEDULES);
    tcase_add_test(tc, freeing_memory_in_use_is_a_hazard);
    tcase_add_test(tc, destroyed_pool_lives_while_allocations_do);
    tcase_add_test(tc, default_pool_is_current);
    tcase_add_loop_test(tc, plain_allocation, 0, SCHEDULES);
    tcase_add_test(tc, pointers_tell_what_they_are);
    tcase_add_test(tc, host_memory_goes_with_its_context);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
