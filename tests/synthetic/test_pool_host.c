/*
 * test_pool_host.c - memory pools of host memory: where they may be, who may reach what is in them, and when
 * their memory goes back.
 */
#include "test_gpu.h"

static CUmemoryPool new_pool(CUmemLocationType type, int id)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = type, .id = id}};
    CUmemoryPool pool;
    OK(cuMemPoolCreate(&pool, &props));
    return pool;
}

static CUresult create(CUmemLocationType type, int id, CUmemAllocationHandleType handles)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = type, .id = id},
                            .handleTypes = handles};
    CUmemoryPool pool;
    return cuMemPoolCreate(&pool, &props);
}

static void let_device(CUmemoryPool pool, CUmemAccess_flags flags)
{
    CUmemAccessDesc desc = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}, .flags = flags};
    OK(cuMemPoolSetAccess(pool, &desc, 1));
}

static cuuint64_t reserved(CUmemoryPool pool)
{
    cuuint64_t value = 0;
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value));
    return value;
}

START_TEST(where_pools_may_be)
{
    gpu_start("eager", 64);
    OK(create(CU_MEM_LOCATION_TYPE_HOST, 77, CU_MEM_HANDLE_TYPE_NONE)); /* the id is ignored */
    FAILS(create(CU_MEM_LOCATION_TYPE_HOST, 0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
          CUDA_ERROR_INVALID_VALUE);
    OK(create(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0, CU_MEM_HANDLE_TYPE_NONE));
    FAILS(create(CU_MEM_LOCATION_TYPE_HOST_NUMA, 1, CU_MEM_HANDLE_TYPE_NONE), CUDA_ERROR_INVALID_VALUE);
    FAILS(create(CU_MEM_LOCATION_TYPE_HOST_NUMA, -1, CU_MEM_HANDLE_TYPE_NONE), CUDA_ERROR_INVALID_VALUE);
    FAILS(create(CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0, CU_MEM_HANDLE_TYPE_NONE),
          CUDA_ERROR_INVALID_VALUE);
    FAILS(create(CU_MEM_LOCATION_TYPE_INVALID, 0, CU_MEM_HANDLE_TYPE_NONE), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(where_the_system_does_not_have_them)
{
    static const CUdevice_attribute attributes[] = {CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED,
                                                    CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED};
    int value = -1;
    setenv("SYNTHETIC_GPU_HOST_VMM", _i ? "refused" : "off", 1);
    gpu_start("eager", 64);
    for (int i = 0; i < 2; i++) {
        OK(cuDeviceGetAttribute(&value, attributes[i], 0));
        ck_assert_int_eq(value, _i);
        FAILS(create(i ? CU_MEM_LOCATION_TYPE_HOST_NUMA : CU_MEM_LOCATION_TYPE_HOST, 0,
                     CU_MEM_HANDLE_TYPE_NONE),
              _i ? CUDA_ERROR_NOT_PERMITTED : CUDA_ERROR_NOT_SUPPORTED);
    }
}
END_TEST

/* It is no memory of the device's, is the CPU's at its own address, and a device's once that may reach it. */
START_TEST(memory_of_the_host)
{
    CUmemLocationType type = _i % 2 ? CU_MEM_LOCATION_TYPE_HOST_NUMA : CU_MEM_LOCATION_TYPE_HOST;
    CUmemLocation device = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}, host = {.type = type};
    CUmemAccess_flags flags;
    CUmemoryPool told;
    CUdeviceptr p;
    unsigned kind;
    void *pointer;
    int value;
    gpu_start(schedules[_i], 64);
    size_t before = free_memory();
    CUmemoryPool pool = new_pool(type, 0);
    OK(cuMemPoolGetAccess(&flags, pool, &device));
    ck_assert_int_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    OK(cuMemPoolGetAccess(&flags, pool, &host));
    ck_assert_int_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cuMemAllocFromPoolAsync(&p, 100 * MIB, pool, NULL)); /* more than the device has */
    OK(cuCtxSynchronize());
    ck_assert_uint_eq(free_memory(), before);
    ck_assert_uint_eq(reserved(pool), 100 * MIB);
    OK(cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    ck_assert_uint_eq(kind, CU_MEMORYTYPE_HOST);
    OK(cuPointerGetAttribute(&pointer, CU_POINTER_ATTRIBUTE_HOST_POINTER, p + 8));
    ck_assert_uint_eq((uintptr_t)pointer, p + 8);
    OK(cuPointerGetAttribute(&told, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
    ck_assert_ptr_eq(told, pool);
    OK(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, p));
    ck_assert_int_eq(value, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    uint32_t *words = (uint32_t *)(uintptr_t)p;
    for (unsigned i = 0; i < 128; i++)
        words[i] = i;
    let_device(pool, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cuMemPoolGetAccess(&flags, pool, &device));
    ck_assert_int_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(launch_increment(p, 2, NULL));
    OK(cuCtxSynchronize());
    for (unsigned i = 0; i < 128; i++)
        ck_assert_uint_eq(words[i], i + 1);
    OK(cuMemFreeAsync(p, NULL));
    OK(cuMemAllocFromPoolAsync(&p, 10 * MIB, pool, NULL)); /* access is the pool's, not the allocation's */
    OK(cuMemsetD32Async(p, 7, 64, NULL));
    OK(launch_increment(p, 1, NULL));
    OK(cuCtxSynchronize());
    ck_assert_uint_eq(*(uint32_t *)(uintptr_t)p, 8);
}
END_TEST

static void not_the_devices(void)
{
    CUdeviceptr p;
    gpu_start("eager", 64);
    CUmemoryPool pool = new_pool(CU_MEM_LOCATION_TYPE_HOST, 0);
    OK(cuMemAllocFromPoolAsync(&p, 4096, pool, NULL));
    if (getenv("TAKEN_AWAY")) {
        let_device(pool, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        OK(cuMemsetD32(p, 1, 64));
        let_device(pool, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    }
    OK(cuCtxSynchronize());
    *(uint32_t *)(uintptr_t)p = 1;
    OK(launch_increment(p, 1, NULL));
    FAILS(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

START_TEST(a_device_without_access)
{
    char text[65536];
    if (_i)
        setenv("TAKEN_AWAY", "1", 1);
    report_text(not_the_devices, text, sizeof(text));
    ck_assert_ptr_nonnull(strstr(text, "illegal-address"));
}
END_TEST

static void access_goes_too_early(void)
{
    CUdeviceptr p;
    CUstream stream;
    gpu_start("lazy", 64);
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUmemoryPool pool = new_pool(CU_MEM_LOCATION_TYPE_HOST, 0);
    let_device(pool, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cuMemAllocFromPoolAsync(&p, 4096, pool, stream));
    OK(cuMemsetD32Async(p, 1, 64, stream));
    let_device(pool, CU_MEM_ACCESS_FLAGS_PROT_READ);
}

START_TEST(access_that_is_in_use)
{
    char text[65536];
    report_text(access_goes_too_early, text, sizeof(text));
    ck_assert_ptr_nonnull(strstr(text, "cuMemPoolSetAccess"));
    ck_assert_ptr_nonnull(strstr(text, "memory-in-use"));
}
END_TEST

/* What is reserved is pinned, and the report counts it. */
static void pins(void)
{
    cuuint64_t threshold = 4 * PAGE;
    CUdeviceptr p, q;
    gpu_start("eager", 64);
    CUmemoryPool pool = new_pool(CU_MEM_LOCATION_TYPE_HOST, 0), gone = new_pool(CU_MEM_LOCATION_TYPE_HOST, 0);
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    OK(cuMemAllocFromPoolAsync(&p, 10 * PAGE, pool, NULL));
    OK(cuMemAllocFromPoolAsync(&q, PAGE, gone, NULL));
    OK(cuMemFreeAsync(p, NULL));
    OK(cuMemPoolDestroy(gone)); /* what is allocated of it stays */
    OK(cuCtxSynchronize());
    ck_assert_uint_eq(reserved(pool), 4 * PAGE);
    OK(cuMemPoolTrimTo(pool, 3 * PAGE));
    ck_assert_uint_eq(reserved(pool), 3 * PAGE);
}

START_TEST(what_is_reserved_is_pinned)
{
    ck_assert_int_eq(report_number(pins, "pinned_bytes"), (long long)(4 * PAGE));
    ck_assert_int_eq(report_number(pins, "peak_pinned_bytes"), (long long)(11 * PAGE));
}
END_TEST

/* "the function will return immediately": a free that waits in a stream is not waited for. */
static void destroyed_before_the_free(void)
{
    CUdeviceptr p;
    CUstream stream;
    gpu_start("lazy", 64);
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUmemoryPool pool = new_pool(CU_MEM_LOCATION_TYPE_HOST, 0);
    OK(cuMemAllocFromPoolAsync(&p, PAGE, pool, stream));
    OK(cuStreamSynchronize(stream));
    CUdeviceptr flag;
    OK(cuMemAlloc(&flag, 4));
    OK(cuMemsetD32(flag, 0, 1));
    OK(cuStreamWaitValue32(stream, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuMemFreeAsync(p, stream));
    OK(cuMemPoolDestroy(pool));
    FAILS(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    OK(cuMemsetD32(flag, 1, 1));
    if (getenv("AND_WAITED"))
        OK(cuStreamSynchronize(stream));
}

START_TEST(a_destroyed_pool_waits_for_its_frees)
{
    setenv("AND_WAITED", "1", 1);
    ck_assert_int_eq(report_number(destroyed_before_the_free, "pinned_bytes"), 0);
}
END_TEST

START_TEST(the_default_and_the_current_one)
{
    CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST}, node = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA};
    CUmemAllocationType pinned = CU_MEM_ALLOCATION_TYPE_PINNED;
    CUmemoryPool one, two, other;
    CUdeviceptr p;
    gpu_start("eager", 64);
    OK(cuMemGetDefaultMemPool(&one, &host, pinned));
    OK(cuMemGetMemPool(&two, &host, pinned));
    ck_assert_ptr_eq(one, two);
    OK(cuMemGetDefaultMemPool(&other, &node, pinned));
    ck_assert_ptr_ne(one, other);
    FAILS(cuMemPoolDestroy(one), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuDeviceSetMemPool(0, one), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemSetMemPool(&host, pinned, other), CUDA_ERROR_INVALID_VALUE);
    CUmemoryPool own = new_pool(CU_MEM_LOCATION_TYPE_HOST, 0);
    OK(cuMemSetMemPool(&host, pinned, own));
    OK(cuMemGetMemPool(&two, &host, pinned));
    ck_assert_ptr_eq(two, own);
    OK(cuMemPoolDestroy(own));
    OK(cuMemGetMemPool(&two, &host, pinned));
    ck_assert_ptr_eq(two, one);
    OK(cuMemAllocFromPoolAsync(&p, PAGE, one, NULL));
    OK(cuCtxSynchronize());
    *(uint32_t *)(uintptr_t)p = 1;
    ck_assert_uint_eq(reserved(one), PAGE);
    node.id = 3;
    FAILS(cuMemGetDefaultMemPool(&other, &node, pinned), CUDA_ERROR_INVALID_VALUE);
    host.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
    FAILS(cuMemGetDefaultMemPool(&other, &host, pinned), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

/* What is freed is nobody's: what is read of it before somebody has written is undefined, by the CPU's access
 * as by the device's. */
static void reads_what_was_freed(void)
{
    CUdeviceptr p, q;
    gpu_start("eager", 64);
    CUmemoryPool pool = new_pool(CU_MEM_LOCATION_TYPE_HOST, 0);
    let_device(pool,
               getenv("READ_ONLY") ? CU_MEM_ACCESS_FLAGS_PROT_READ : CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cuMemAllocFromPoolAsync(&p, 4096, pool, NULL));
    OK(cuMemAlloc(&q, 4096));
    OK(cuCtxSynchronize());
    memset((void *)(uintptr_t)p, 1, 4096);
    OK(launch_copy(q, p, 1, NULL));
    OK(cuMemFreeAsync(p, NULL));
    OK(cuMemAllocFromPoolAsync(&p, 4096, pool, NULL));
    if (!getenv("ONLY_ONCE"))
        OK(launch_copy(q, p, 1, NULL));
    OK(cuCtxSynchronize());
}

START_TEST(freed_memory_is_undefined)
{
    char text[65536];
    if (_i & 1)
        setenv("READ_ONLY", "1", 1);
    if (_i & 2)
        setenv("ONLY_ONCE", "1", 1);
    report_text(reads_what_was_freed, text, sizeof(text));
    ck_assert_int_eq(strstr(text, "undefined-read") != NULL, !(_i & 2));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pool_host");
    TCase *tc = tcase_create("pools of host memory");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, where_pools_may_be);
    tcase_add_loop_test(tc, where_the_system_does_not_have_them, 0, 2);
    tcase_add_loop_test(tc, memory_of_the_host, 0, SCHEDULES);
    tcase_add_loop_test(tc, a_device_without_access, 0, 2);
    tcase_add_test(tc, access_that_is_in_use);
    tcase_add_test(tc, what_is_reserved_is_pinned);
    tcase_add_test(tc, a_destroyed_pool_waits_for_its_frees);
    tcase_add_test(tc, the_default_and_the_current_one);
    tcase_add_loop_test(tc, freed_memory_is_undefined, 0, 4);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
