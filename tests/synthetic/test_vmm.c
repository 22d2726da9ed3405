/*
 * test_vmm.c - virtual memory management, rule by rule.
 */
#include "test_gpu.h"

static CUdeviceptr reserve(size_t size)
{
    CUdeviceptr p;
    OK(cuMemAddressReserve(&p, size, 0, 0, 0));
    return p;
}

static CUmemGenericAllocationHandle create(size_t size)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = device_prop();
    OK(cuMemCreate(&handle, size, &prop, 0));
    return handle;
}

START_TEST(granularity_is_a_page)
{
    size_t granularity;
    CUmemAllocationProp prop = device_prop();
    CUmemGenericAllocationHandle handle;
    CUdeviceptr p;
    gpu_start("eager", 64);
    OK(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    ck_assert_uint_eq(granularity, PAGE);
    FAILS(cuMemCreate(&handle, PAGE / 2, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemCreate(&handle, 0, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemAddressReserve(&p, PAGE + 1, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemAddressReserve(&p, PAGE, 3, 0, 0), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(reservation_is_aligned_and_where_wished)
{
    CUdeviceptr p, q;
    gpu_start("eager", 64);
    OK(cuMemAddressReserve(&p, 4 * PAGE, 1ull << 30, 0, 0));
    ck_assert_uint_eq(p % (1ull << 30), 0);
    OK(cuMemAddressFree(p, 4 * PAGE));
    OK(cuMemAddressReserve(&q, PAGE, 0, p, 0));
    ck_assert_uint_eq(q, p);
    FAILS(cuMemAddressFree(q, 2 * PAGE), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAddressFree(q, PAGE));
    FAILS(cuMemAddressFree(q, PAGE), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(map_wants_whole_handle_in_free_reserved_range)
{
    gpu_start("eager", 64);
    CUdeviceptr p = reserve(4 * PAGE);
    CUmemGenericAllocationHandle handle = create(2 * PAGE);
    FAILS(cuMemMap(p, PAGE, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemMap(p, 2 * PAGE, PAGE, handle, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemMap(p + 3 * PAGE, 2 * PAGE, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemMap(p + 4096, 2 * PAGE, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemMap(p, 2 * PAGE, 0, handle + 1000, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(p, 2 * PAGE, 0, handle, 0));
    FAILS(cuMemMap(p + PAGE, 2 * PAGE, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(p + 2 * PAGE, 2 * PAGE, 0, handle, 0));
    FAILS(cuMemAddressFree(p, 4 * PAGE), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(mapping_gives_no_access)
{
    gpu_start(schedules[_i], 64);
    CUdeviceptr p = reserve(PAGE);
    OK(cuMemMap(p, PAGE, 0, create(PAGE), 0));
    OK(cuMemsetD8Async(p, 1, 16, NULL));
    FAILS(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    /* The error stays. */
    FAILS(cuMemsetD8Async(p, 1, 16, NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
    FAILS(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}
END_TEST

START_TEST(access_of_mapping_is_set_and_told)
{
    unsigned long long flags = 7;
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    gpu_start("eager", 64);
    CUdeviceptr p = reserve(3 * PAGE);
    OK(cuMemMap(p, 2 * PAGE, 0, create(2 * PAGE), 0));
    OK(cuMemGetAccess(&flags, &location, p));
    ck_assert_uint_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    FAILS(set_access(p, PAGE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), CUDA_ERROR_INVALID_VALUE);
    FAILS(set_access(p, 3 * PAGE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), CUDA_ERROR_INVALID_VALUE);
    OK(set_access(p, 2 * PAGE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    OK(cuMemGetAccess(&flags, &location, p + PAGE));
    ck_assert_uint_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cuMemsetD32(p, 77, 16));
    ck_assert_uint_eq(read_word(p + 60), 77);
    /* Access may be set over several mappings at once. */
    OK(cuMemMap(p + 2 * PAGE, PAGE, 0, create(PAGE), 0));
    OK(set_access(p, 3 * PAGE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    OK(cuMemsetD32(p, 78, 3 * PAGE / 4));
    ck_assert_uint_eq(read_word(p + 3 * PAGE - 4), 78);
}
END_TEST

START_TEST(write_through_read_only_access_faults)
{
    gpu_start(schedules[_i], 64);
    CUdeviceptr p = reserve(PAGE);
    OK(cuMemMap(p, PAGE, 0, create(PAGE), 0));
    OK(set_access(p, PAGE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    OK(cuMemsetD32(p, 5, 64));
    OK(cuCtxSynchronize());
    OK(set_access(p, PAGE, CU_MEM_ACCESS_FLAGS_PROT_READ));
    ck_assert_uint_eq(read_word(p), 5);
    OK(launch_increment(p, 1, NULL));
    FAILS(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}
END_TEST

START_TEST(one_handle_at_two_addresses_is_one_memory)
{
    gpu_start(schedules[_i], 64);
    CUdeviceptr p = reserve(2 * PAGE), q = reserve(2 * PAGE);
    CUmemGenericAllocationHandle handle = create(2 * PAGE);
    OK(cuMemMap(p, 2 * PAGE, 0, handle, 0));
    OK(cuMemMap(q, 2 * PAGE, 0, handle, 0));
    OK(set_access(p, 2 * PAGE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    OK(set_access(q, 2 * PAGE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    OK(cuMemsetD32(p + PAGE, 41, 64));
    OK(launch_increment(q + PAGE, 1, NULL));
    ck_assert_uint_eq(read_word(p + PAGE), 42);
    OK(cuMemUnmap(p, 2 * PAGE));
    ck_assert_uint_eq(read_word(q + PAGE), 42);
}
END_TEST

START_TEST(unmap_takes_whole_mappings)
{
    gpu_start("eager", 64);
    CUdeviceptr p = reserve(4 * PAGE);
    OK(cuMemMap(p, 2 * PAGE, 0, create(2 * PAGE), 0));
    OK(cuMemMap(p + 2 * PAGE, PAGE, 0, create(PAGE), 0));
    FAILS(cuMemUnmap(p, PAGE), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemUnmap(p + PAGE, PAGE), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemUnmap(p, 4 * PAGE), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(p, 3 * PAGE));
    FAILS(cuMemUnmap(p, 3 * PAGE), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAddressFree(p, 4 * PAGE));
}
END_TEST

START_TEST(released_memory_lives_while_mapped)
{
    gpu_start("eager", 64);
    size_t before = free_memory();
    CUdeviceptr p = reserve(2 * PAGE);
    CUmemGenericAllocationHandle handle = create(2 * PAGE), again;
    ck_assert_uint_eq(free_memory(), before - 2 * PAGE);
    OK(cuMemMap(p, 2 * PAGE, 0, handle, 0));
    OK(set_access(p, 2 * PAGE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    OK(cuMemRelease(handle));
    FAILS(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
    ck_assert_uint_eq(free_memory(), before - 2 * PAGE);
    OK(cuMemsetD32(p, 9, 4));
    ck_assert_uint_eq(read_word(p), 9);
    OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(p + PAGE)));
    ck_assert_uint_eq(again, handle);
    OK(cuMemUnmap(p, 2 * PAGE));
    ck_assert_uint_eq(free_memory(), before - 2 * PAGE);
    OK(cuMemRelease(again));
    ck_assert_uint_eq(free_memory(), before);
    FAILS(cuMemMap(p, 2 * PAGE, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(capacity_is_hard)
{
    CUmemGenericAllocationHandle handles[40] = {0}, more;
    CUmemAllocationProp prop = device_prop(), told;
    gpu_start("eager", 64);
    size_t n = free_memory() / PAGE;
    ck_assert_uint_le(n, 32);
    for (size_t i = 0; i < n; i++)
        handles[i] = create(PAGE);
    FAILS(cuMemCreate(&more, PAGE, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemRelease(handles[3]));
    OK(cuMemRelease(handles[7]));
    FAILS(cuMemCreate(&more, 3 * PAGE, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    /* Two pages that are not neighbours make one handle. */
    OK(cuMemCreate(&more, 2 * PAGE, &prop, 0));
    CUdeviceptr p = reserve(2 * PAGE);
    OK(cuMemMap(p, 2 * PAGE, 0, more, 0));
    OK(set_access(p, 2 * PAGE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    OK(cuMemsetD32(p, 3, 2 * PAGE / 4));
    ck_assert_uint_eq(read_word(p + PAGE), 3);
    OK(cuMemGetAllocationPropertiesFromHandle(&told, more));
    ck_assert_int_eq(told.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
}
END_TEST

START_TEST(new_memory_is_not_zero)
{
    gpu_start("eager", 64);
    CUdeviceptr p = reserve(PAGE);
    OK(cuMemMap(p, PAGE, 0, create(PAGE), 0));
    OK(set_access(p, PAGE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    ck_assert_uint_eq(read_word(p), 0xa5a5a5a5);
}
END_TEST

START_TEST(cpu_access_to_device_memory_dies)
{
    gpu_start("eager", 64);
    CUdeviceptr p = reserve(PAGE);
    OK(cuMemMap(p, PAGE, 0, create(PAGE), 0));
    OK(set_access(p, PAGE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    OK(cuMemsetD32(p, 1, 4));
    OK(cuCtxSynchronize());
    *(volatile uint32_t *)(uintptr_t)p = 1;
}
END_TEST

static CUdeviceptr host_mapping(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0}};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr p = reserve(PAGE);
    OK(cuMemCreate(&handle, PAGE, &prop, 0));
    OK(cuMemMap(p, PAGE, 0, handle, 0));
    return p;
}

START_TEST(host_memory_may_be_mapped_for_both)
{
    gpu_start(schedules[_i], 64);
    size_t before = free_memory();
    CUdeviceptr p = host_mapping();
    ck_assert_uint_eq(free_memory(), before);
    CUmemAccessDesc desc[2] = {{.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
                               {.location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0},
                                .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
    OK(cuMemSetAccess(p, PAGE, desc, 2));
    volatile uint32_t *host = (volatile uint32_t *)(uintptr_t)p;
    for (int i = 0; i < 64; i++)
        host[i] = 10;
    OK(launch_increment(p, 1, NULL));
    OK(cuCtxSynchronize());
    ck_assert_uint_eq(host[63], 11);
    unsigned type;
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    ck_assert_uint_eq(type, CU_MEMORYTYPE_HOST);
}
END_TEST

START_TEST(host_memory_mapped_for_the_device_dies_under_the_cpu)
{
    gpu_start("eager", 64);
    CUdeviceptr p = host_mapping();
    OK(set_access(p, PAGE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    OK(cuMemsetD32(p, 1, 4));
    ck_assert_uint_eq(read_word(p), 1);
    *(volatile uint32_t *)(uintptr_t)p = 1;
}
END_TEST

START_TEST(cpu_gets_no_access_to_device_memory)
{
    CUmemAccessDesc desc = {.location = {.type = CU_MEM_LOCATION_TYPE_HOST, .id = 0},
                            .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    gpu_start("eager", 64);
    CUdeviceptr p = reserve(PAGE);
    OK(cuMemMap(p, PAGE, 0, create(PAGE), 0));
    FAILS(cuMemSetAccess(p, PAGE, &desc, 1), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(kernel_on_unmapped_address_faults)
{
    gpu_start(schedules[_i], 64);
    CUdeviceptr p = reserve(PAGE);
    OK(launch_increment(p, 4, NULL));
    FAILS(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    FAILS(launch_increment(p, 1, NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
    FAILS(cuMemAlloc(&p, 16), CUDA_ERROR_ILLEGAL_ADDRESS);
}
END_TEST

START_TEST(devices_are_no_peers)
{
    CUmemAccessDesc desc = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1},
                            .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemAllocationProp prop = device_prop();
    CUmemGenericAllocationHandle handle;
    CUcontext other;
    CUdeviceptr q;
    int can;
    setenv("SYNTHETIC_GPU_DEVICES", "2", 1);
    gpu_start("eager", 64);
    OK(cuDeviceCanAccessPeer(&can, 0, 1));
    ck_assert_int_eq(can, 0);
    CUdeviceptr p = reserve(PAGE);
    OK(cuMemMap(p, PAGE, 0, create(PAGE), 0));
    FAILS(cuMemSetAccess(p, PAGE, &desc, 1), CUDA_ERROR_INVALID_DEVICE);
    OK(set_access(p, PAGE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    /* Each has memory of its own, and copies between them go through all the same. */
    prop.location.id = 1;
    OK(cuMemCreate(&handle, 32 * MIB, &prop, 0));
    FAILS(cuMemCreate(&handle, 64 * MIB, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuCtxCreate_v4(&other, NULL, 0, 1));
    OK(cuMemAlloc(&q, 256));
    OK(cuMemsetD32(q, 31, 64));
    OK(cuMemcpyPeer(p, test_context, q, other, 256));
    OK(cuCtxPopCurrent(&other));
    ck_assert_uint_eq(read_word(p), 31);
}
END_TEST

START_TEST(many_rebindings_keep_their_contents)
{
    enum { N = 8 };
    CUmemGenericAllocationHandle handle[N];
    CUdeviceptr p[N];
    gpu_start("eager", 64);
    for (int i = 0; i < N; i++) {
        p[i] = reserve(PAGE);
        handle[i] = create(PAGE);
        OK(cuMemMap(p[i], PAGE, 0, handle[i], 0));
        OK(set_access(p[i], PAGE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
        OK(cuMemsetD32(p[i], (unsigned)i, 64));
    }
    for (int round = 1; round < 50; round++) {
        OK(cuCtxSynchronize());
        for (int i = 0; i < N; i++)
            OK(cuMemUnmap(p[i], PAGE));
        for (int i = 0; i < N; i++) {
            OK(cuMemMap(p[i], PAGE, 0, handle[(i + round) % N], 0));
            OK(set_access(p[i], PAGE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
        }
        for (int i = 0; i < N; i++)
            ck_assert_uint_eq(read_word(p[i] + 128), (unsigned)((i + round) % N));
    }
}
END_TEST

/* Memory is unmapped under an operation that waits in its queue. */
static void unmap_too_early(void)
{
    gpu_start("lazy", 64);
    CUdeviceptr p = reserve(PAGE);
    OK(cuMemMap(p, PAGE, 0, create(PAGE), 0));
    OK(set_access(p, PAGE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    OK(launch_increment(p, 1, NULL));
    OK(cuMemUnmap(p, PAGE));
}

static void unmap_in_time(void)
{
    gpu_start("lazy", 64);
    CUdeviceptr p = reserve(PAGE);
    OK(cuMemMap(p, PAGE, 0, create(PAGE), 0));
    OK(set_access(p, PAGE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    OK(launch_increment(p, 1, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemUnmap(p, PAGE));
}

START_TEST(unmapping_memory_in_use_is_a_hazard)
{
    ck_assert_int_eq(report_number(unmap_too_early, "memory-in-use"), 1);
    ck_assert_int_eq(report_number(unmap_in_time, "memory-in-use"), -1);
    ck_assert_int_eq(report_number(unmap_in_time, "launches"), 1);
}
END_TEST

START_TEST(file_descriptor_stands_for_a_handle)
{
    CUmemAllocationProp prop = device_prop();
    CUmemGenericAllocationHandle handle, imported;
    int fd;
    gpu_start("eager", 64);
    size_t before = free_memory();
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    OK(cuMemCreate(&handle, PAGE, &prop, 0));
    OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    ck_assert_uint_eq(imported, handle);
    close(fd);
    OK(cuMemRelease(handle));
    ck_assert_uint_eq(free_memory(), before - PAGE);
    OK(cuMemRelease(imported));
    ck_assert_uint_eq(free_memory(), before);
    FAILS(cuMemExportToShareableHandle(&fd, create(PAGE), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
          CUDA_ERROR_INVALID_VALUE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("vmm");
    TCase *tc = tcase_create("rules");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, granularity_is_a_page);
    tcase_add_test(tc, reservation_is_aligned_and_where_wished);
    tcase_add_test(tc, map_wants_whole_handle_in_free_reserved_range);
    tcase_add_loop_test(tc, mapping_gives_no_access, 0, SCHEDULES);
    tcase_add_test(tc, access_of_mapping_is_set_and_told);
    tcase_add_loop_test(tc, write_through_read_only_access_faults, 0, SCHEDULES);
    tcase_add_loop_test(tc, one_handle_at_two_addresses_is_one_memory, 0, SCHEDULES);
    tcase_add_test(tc, unmap_takes_whole_mappings);
    tcase_add_test(tc, released_memory_lives_while_mapped);
    tcase_add_test(tc, capacity_is_hard);
    tcase_add_test(tc, new_memory_is_not_zero);
    tcase_add_test_raise_signal(tc, cpu_access_to_device_memory_dies, SIGSEGV);
    tcase_add_loop_test(tc, host_memory_may_be_mapped_for_both, 0, SCHEDULES);
    tcase_add_test_raise_signal(tc, host_memory_mapped_for_the_device_dies_under_the_cpu, SIGSEGV);
    tcase_add_test(tc, cpu_gets_no_access_to_device_memory);
    tcase_add_loop_test(tc, kernel_on_unmapped_address_faults, 0, SCHEDULES);
    tcase_add_test(tc, devices_are_no_peers);
    tcase_add_test(tc, many_rebindings_keep_their_contents);
    tcase_add_test(tc, unmapping_memory_in_use_is_a_hazard);
    tcase_add_test(tc, file_descriptor_stands_for_a_handle);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
