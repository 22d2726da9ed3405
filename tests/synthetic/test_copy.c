/*
 * test_copy.c - copies and memsets: what waits, what is staged, what is refused, how bytes are counted.
 */
#include "test_gpu.h"

#define BYTES 65536

static CUstream stream;
static CUdeviceptr device, other;
static unsigned char *pinned;
static unsigned char pageable[BYTES];

static void start(const char *schedule)
{
    gpu_start(schedule, 64);
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&device, BYTES));
    OK(cuMemAlloc(&other, BYTES));
    OK(cuMemAllocHost((void **)&pinned, BYTES));
}

/* Pageable memory may be used again when the call returns, long before the copy has run. */
START_TEST(pageable_source_is_staged)
{
    start(schedules[_i]);
    for (int i = 0; i < 20; i++) {
        memset(pageable, i, BYTES);
        OK(cuMemcpyHtoDAsync(device, pageable, BYTES, stream));
        memset(pageable, 255, BYTES);
        OK(cuMemcpyDtoDAsync(other, device, BYTES, stream));
        OK(cuMemcpyDtoHAsync(pinned, other, BYTES, stream));
        OK(cuStreamSynchronize(stream));
        ck_assert_int_eq(pinned[0], i);
        ck_assert_int_eq(pinned[BYTES - 1], i);
    }
    memset(pageable, 77, BYTES);
    OK(cuMemcpyHtoD(device, pageable, BYTES));
    memset(pageable, 0, BYTES);
    OK(cuMemcpyDtoH(pageable, device, BYTES));
    ck_assert_int_eq(pageable[100], 77);
}
END_TEST

/* Pinned memory is read when the copy runs. */
START_TEST(pinned_source_is_read_late)
{
    start("lazy");
    memset(pinned, 1, BYTES);
    OK(cuMemcpyHtoDAsync(device, pinned, BYTES, stream));
    memset(pinned, 2, BYTES);
    OK(cuStreamSynchronize(stream));
    ck_assert_uint_eq(read_word(device), 0x02020202);
}
END_TEST

START_TEST(copy_to_pageable_memory_waits)
{
    start(schedules[_i]);
    OK(cuMemsetD8Async(device, 9, BYTES, stream));
    OK(cuMemcpyDtoHAsync(pageable, device, BYTES, stream));
    ck_assert_int_eq(pageable[BYTES - 1], 9);
}
END_TEST

START_TEST(copy_from_host_to_host_waits)
{
    start(schedules[_i]);
    memset(pinned, 3, BYTES);
    OK(cuMemcpyAsync((CUdeviceptr)(uintptr_t)pageable, (CUdeviceptr)(uintptr_t)pinned, BYTES, stream));
    ck_assert_int_eq(pageable[5], 3);
    pageable[5] = 4;
    OK(cuMemcpy((CUdeviceptr)(uintptr_t)pinned, (CUdeviceptr)(uintptr_t)pageable, BYTES));
    ck_assert_int_eq(pinned[5], 4);
}
END_TEST

START_TEST(device_to_device_does_not_wait)
{
    start("lazy");
    OK(cuMemsetD8(device, 1, BYTES));
    OK(cuMemcpyDtoD(other, device, BYTES));
    OK(cuMemcpyDtoDAsync(other, device, BYTES, stream));
    FAILS(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    OK(cuCtxSynchronize());
}
END_TEST

/* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS on either end makes the synchronous forms wait, and only these. */
START_TEST(synchronizing_memory_is_waited_for)
{
    unsigned yes = 1;
    start("lazy");
    ck_assert_int_eq(cuStreamQuery(CU_STREAM_LEGACY), CUDA_SUCCESS);
    OK(cuMemsetD8(other, 1, BYTES));
    ck_assert_int_eq(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
    OK(cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, device));
    OK(cuMemsetD8(device, 1, BYTES));
    ck_assert_int_eq(cuStreamQuery(CU_STREAM_LEGACY), CUDA_SUCCESS);
    OK(cuMemcpyDtoD(other, device, BYTES));
    ck_assert_int_eq(cuStreamQuery(CU_STREAM_LEGACY), CUDA_SUCCESS);
    OK(cuMemcpyHtoD(device, pageable, BYTES));
    ck_assert_int_eq(cuStreamQuery(CU_STREAM_LEGACY), CUDA_SUCCESS);
    OK(cuMemsetD8Async(device, 1, BYTES, CU_STREAM_LEGACY));
    ck_assert_int_eq(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
}
END_TEST

START_TEST(addresses_of_nobody_are_refused)
{
    start("eager");
    FAILS(cuMemcpyHtoD(device + (1ull << 33), pageable, 16), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemcpyHtoD(device, pageable, BYTES + 1), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemcpyDtoDAsync(device, other + (1ull << 32), 16, stream), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemcpyDtoH(NULL, device, 16), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemsetD32(device + 2, 0, 4), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemsetD8((CUdeviceptr)(uintptr_t)pageable, 0, 4), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemsetD8(device, 0, BYTES + 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemcpyHtoD(device, pageable, 0));
    /* None of this was a fault of an operation. */
    OK(cuCtxSynchronize());
}
END_TEST

START_TEST(memsets_of_every_width)
{
    start(schedules[_i]);
    OK(cuMemsetD8(device, 0, BYTES));
    OK(cuMemsetD16(device, 0x1234, 10));
    OK(cuMemsetD32Async(device + 64, 0xabcdef01, 3, NULL));
    OK(cuMemsetD2D8(device + 1024, 64, 0x5a, 8, 4));
    OK(cuMemsetD2D16Async(device + 2048, 64, 0x0102, 2, 3, NULL));
    OK(cuMemsetD2D32(device + 4096, 64, 7, 1, 2));
    OK(cuMemcpyDtoH(pageable, device, BYTES));
    ck_assert_int_eq(pageable[0], 0x34);
    ck_assert_int_eq(pageable[19], 0x12);
    ck_assert_int_eq(pageable[20], 0);
    ck_assert_int_eq(pageable[75], 0xab);
    ck_assert_int_eq(pageable[76], 0);
    ck_assert_int_eq(pageable[1024 + 3 * 64 + 7], 0x5a);
    ck_assert_int_eq(pageable[1024 + 3 * 64 + 8], 0);
    ck_assert_int_eq(pageable[1024 + 4 * 64], 0);
    ck_assert_int_eq(pageable[2048 + 2 * 64 + 3], 1);
    ck_assert_int_eq(pageable[2048 + 2 * 64 + 4], 0);
    ck_assert_int_eq(pageable[4096 + 64], 7);
}
END_TEST

START_TEST(planes_and_boxes)
{
    start(schedules[_i]);
    for (int i = 0; i < BYTES; i++)
        pageable[i] = (unsigned char)(i * 7);
    CUDA_MEMCPY2D plane = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                           .srcHost = pageable,
                           .srcPitch = 100,
                           .srcXInBytes = 3,
                           .srcY = 2,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = device,
                           .dstPitch = 64,
                           .WidthInBytes = 50,
                           .Height = 20};
    OK(cuMemcpy2D(&plane));
    plane.Height = 3;
    plane.dstDevice = other;
    OK(cuMemcpy2DAsync(&plane, stream));
    CUDA_MEMCPY3D box = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                         .srcDevice = device,
                         .srcPitch = 64,
                         .srcHeight = 10,
                         .dstMemoryType = CU_MEMORYTYPE_HOST,
                         .dstHost = pinned,
                         .dstPitch = 50,
                         .dstHeight = 4,
                         .WidthInBytes = 50,
                         .Height = 4,
                         .Depth = 2};
    OK(cuMemcpy3D(&box));
    for (int z = 0; z < 2; z++)
        for (int y = 0; y < 4; y++)
            for (int x = 0; x < 50; x++)
                ck_assert_int_eq(pinned[(z * 4 + y) * 50 + x],
                                 (unsigned char)(((z * 10 + y + 2) * 100 + x + 3) * 7));
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH(pinned, other + 2 * 64, 50));
    ck_assert_int_eq(pinned[49], (unsigned char)((4 * 100 + 52) * 7));
    plane.dstPitch = 10;
    FAILS(cuMemcpy2D(&plane), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

/* A copy may go over the border of two mappings. */
START_TEST(copy_spans_mappings)
{
    CUdeviceptr p;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = device_prop();
    start(schedules[_i]);
    OK(cuMemAddressReserve(&p, 2 * PAGE, 0, 0, 0));
    for (int i = 1; i >= 0; i--) {
        OK(cuMemCreate(&handle, PAGE, &prop, 0));
        OK(cuMemMap(p + (unsigned)i * PAGE, PAGE, 0, handle, 0));
    }
    OK(set_access(p, 2 * PAGE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    memset(pageable, 6, BYTES);
    OK(cuMemcpyHtoD(p + PAGE - BYTES / 2, pageable, BYTES));
    ck_assert_uint_eq(read_word(p + PAGE), 0x06060606);
    ck_assert_uint_eq(read_word(p + PAGE - 4), 0x06060606);
}
END_TEST

START_TEST(batch_reads_its_sources_when_its_attributes_say)
{
    start("lazy");
    memset(pageable, 1, BYTES);
    memset(pinned, 1, BYTES);
    CUdeviceptr dsts[] = {device, device + 256, device + 512};
    CUdeviceptr srcs[] = {(CUdeviceptr)(uintptr_t)pinned, (CUdeviceptr)(uintptr_t)pageable,
                          (CUdeviceptr)(uintptr_t)pageable + 256};
    size_t sizes[] = {256, 256, 256}, first[] = {0, 2};
    CUmemcpyAttributes attrs[] = {{.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM},
                                  {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL}};
    FAILS(cuMemcpyBatchAsync(dsts, srcs, sizes, 3, attrs, first, 2, NULL), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemcpyBatchAsync(dsts, srcs, sizes, 1, attrs, first, 2, stream), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemcpyBatchAsync(dsts, srcs, sizes, 3, attrs, first, 2, stream));
    memset(pageable, 2, BYTES);
    memset(pinned, 2, BYTES);
    OK(cuStreamSynchronize(stream));
    ck_assert_uint_eq(read_word(device), 0x02020202);
    ck_assert_uint_eq(read_word(device + 256), 0x02020202);
    ck_assert_uint_eq(read_word(device + 512), 0x01010101);
}
END_TEST

static void copy_all_ways(void)
{
    start("eager");
    OK(cuMemcpyHtoD(device, pageable, 1000));
    OK(cuMemcpyDtoHAsync(pinned, device, 200, stream));
    OK(cuMemcpyDtoD(other, device, 30));
    /* By what the pointers are, not by the function's name. */
    OK(cuMemcpyDtoDAsync((CUdeviceptr)(uintptr_t)pinned, device, 4, stream));
    OK(cuMemcpyHtoD((CUdeviceptr)(uintptr_t)pinned, pageable, 5));
    OK(cuCtxSynchronize());
}

START_TEST(bytes_are_counted_by_what_the_pointers_are)
{
    ck_assert_int_eq(report_number(copy_all_ways, "h2d_bytes"), 1000);
    ck_assert_int_eq(report_number(copy_all_ways, "d2h_bytes"), 204);
    ck_assert_int_eq(report_number(copy_all_ways, "d2d_bytes"), 30);
    ck_assert_int_eq(report_number(copy_all_ways, "h2h_bytes"), 5);
    ck_assert_int_eq(report_number(copy_all_ways, "cuMemcpyDtoDAsync_v2"), 1);
    ck_assert_int_eq(report_number(copy_all_ways, "hbm_bytes"), 64 << 20);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("copy");
    TCase *tc = tcase_create("copies");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, pageable_source_is_staged, 0, SCHEDULES);
    tcase_add_test(tc, pinned_source_is_read_late);
    tcase_add_loop_test(tc, copy_to_pageable_memory_waits, 0, SCHEDULES);
    tcase_add_loop_test(tc, copy_from_host_to_host_waits, 0, SCHEDULES);
    tcase_add_test(tc, device_to_device_does_not_wait);
    tcase_add_test(tc, synchronizing_memory_is_waited_for);
    tcase_add_test(tc, addresses_of_nobody_are_refused);
    tcase_add_loop_test(tc, memsets_of_every_width, 0, SCHEDULES);
    tcase_add_loop_test(tc, planes_and_boxes, 0, SCHEDULES);
    tcase_add_loop_test(tc, copy_spans_mappings, 0, SCHEDULES);
    tcase_add_test(tc, batch_reads_its_sources_when_its_attributes_say);
    tcase_add_test(tc, bytes_are_counted_by_what_the_pointers_are);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
