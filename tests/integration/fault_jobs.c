/*
 * fault_jobs.c - the jobs for a driver whose calls fail, less graphs.
 */
#include "tests/integration/fault_job.h"

void fault_job_plain(void)
{
    enum { COUNT = 8 };
    CUstream stream;
    unsigned flags;

    begin();
    stream = own.stream[0];
    TRY(cuMemHostAlloc(&own.pinned, BYTES, 0));
    TRY(cuMemHostAlloc(&own.combined, 4096, CU_MEMHOSTALLOC_WRITECOMBINED));
    TRY(cuMemHostGetFlags(&flags, own.pinned));
    REQUIRE(flags == CU_MEMHOSTALLOC_DEVICEMAP);
    for (unsigned i = 0; i < COUNT; i++) {
        allocate(i, stream);
        fill(i, i, stream);
    }
    for (unsigned i = 0; i + 1 < COUNT; i += 2)
        copy(i, i + 1, stream);
    TRY(cuLaunchHostFunc(stream, nothing, NULL));
    TRY(cuEventRecord(own.event, stream));
    TRY(cuStreamWaitEvent(own.stream[1], own.event, 0));
    for (unsigned i = 0; i + 1 < COUNT; i += 4) {
        TRY(cuMemcpyDtoDAsync(own.memory[i + 1], own.memory[COUNT - 1], BYTES, own.stream[1]));
        seeds[i + 1] = seeds[COUNT - 1];
    }
    for (unsigned i = 0; i < COUNT; i++)
        check(i);
    memcpy(own.pinned, sink, sizeof sink); /* the last one's */
    TRY(cuMemcpyHtoDAsync(own.memory[0], own.pinned, sizeof sink, stream));
    seeds[0] = seeds[COUNT - 1];
    TRY(cuMemcpyHtoD(own.memory[2], sink, sizeof sink));
    seeds[2] = seeds[COUNT - 1];
    TRY(cuMemsetD32Async(own.memory[4], 7, LOOKED_AT, stream));
    TRY(cuMemsetD8Async(own.memory[4], 9, 4, stream));
    TRY(cuStreamSynchronize(stream));
    TRY(cuMemcpyDtoHAsync(own.pinned, own.memory[4], sizeof sink, stream));
    TRY(cuStreamSynchronize(stream));
    REQUIRE(((uint32_t *)own.pinned)[0] == 0x09090909 && ((uint32_t *)own.pinned)[1] == 7);
    check(0);
    check(2);
    for (unsigned i = 4; i < COUNT; i++) /* back comes what was written in the host tier, if it was */
        copy(i, i % 4 < 2 ? 0 : 2, stream);
    check(5);
    check(6);
    for (unsigned i = 0; i < COUNT; i++)
        free_one(i, stream);
    for (unsigned i = 0; i < COUNT; i++) { /* nothing was lost by it: as much can be had again */
        allocate(i, stream);
        fill(i, 50 + i, stream);
    }
    for (unsigned i = 0; i < COUNT; i++)
        check(i);
    end();
}

void fault_job_rounds(void)
{
    enum { LAYERS = 5, ROUNDS = 12 };
    CUstream stream;

    begin();
    stream = own.stream[0];
    for (unsigned i = 0; i < LAYERS; i++) {
        allocate(2 * i, stream);
        fill(2 * i, i, stream);
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < LAYERS; i++) { /* temporaries are the odd ones */
            allocate(2 * i + 1, stream);
            copy(2 * i + 1, 2 * i, stream);
        }
        for (unsigned i = LAYERS; i-- > 0;) {
            fill(2 * i, round * LAYERS + i, stream);
            copy(2 * i, 2 * i + 1, stream);
            free_one(2 * i + 1, stream);
        }
        TRY(cuStreamSynchronize(stream));
    }
    for (unsigned i = 0; i < LAYERS; i++)
        check(2 * i);
    end();
}

/* Memory of the host from a pool of its own and from the driver's; it is written by the CPU and on the
 * device.
 */
static void host_pools(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_HOST}};
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemoryPool of_driver;
    uint32_t *words;

    TRY(cuMemPoolCreate(&own.host_pool, &props));
    TRY(cuMemPoolSetAccess(own.host_pool, &access, 1));
    TRY(cuMemAllocFromPoolAsync(&own.host_pooled[0], BYTES, own.host_pool, own.stream[0]));
    TRY(cuMemGetDefaultMemPool(&of_driver, &props.location, CU_MEM_ALLOCATION_TYPE_PINNED));
    TRY(cuMemGetMemPool(&of_driver, &props.location, CU_MEM_ALLOCATION_TYPE_PINNED));
    TRY(cuMemAllocFromPoolAsync(&own.host_pooled[1], 3 * BYTES, of_driver, own.stream[0]));
    TRY(cuStreamSynchronize(own.stream[0]));
    words = (uint32_t *)(uintptr_t)own.host_pooled[0];
    for (uint32_t i = 0; i < LOOKED_AT; i++)
        words[i] = i;
    *(uint32_t *)(uintptr_t)own.host_pooled[1] = 1;
    TRY(cuMemsetD32Async(own.host_pooled[0], 5, LOOKED_AT / 2, own.stream[0]));
    TRY(cuStreamSynchronize(own.stream[0]));
    REQUIRE(words[0] == 5 && words[LOOKED_AT - 1] == LOOKED_AT - 1);
    TRY(cuMemFree(own.host_pooled[1]));
    own.host_pooled[1] = 0;
    TRY(cuMemPoolTrimTo(of_driver, 0));
}

void fault_job_pools(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUlaunchConfig config = {
        .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = LOOKED_AT, .blockDimY = 1, .blockDimZ = 1};
    enum { COUNT = 7 };
    uint32_t words = LOOKED_AT, seed = 70;
    void *params[] = {&own.memory[1], &words, &seed};
    size_t free_bytes, total, pitch, size;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    CUdeviceptr base;
    CUfunction function;
    CUkernel of_library;
    int ordinal;
    void *values[] = {&ordinal};

    begin();
    config.hStream = own.stream[0];
    TRY(cuDeviceTotalMem(&total, 0));
    TRY(cuMemGetInfo(&free_bytes, &total));
    TRY(cuMemPoolCreate(&own.pool, &props));
    TRY(cuMemAllocFromPoolAsync(&own.pooled, 4096, own.pool, own.stream[0]));
    TRY(cuMemsetD32Async(own.pooled, 3, 1024, own.stream[0]));
    host_pools();
    for (unsigned i = 0; i < COUNT; i++) {
        allocate(i, own.stream[0]);
        fill(i, i, own.stream[0]);
    }
    TRY(cuMemAlloc(&own.memory[COUNT], 65536)); /* the driver's: too small */
    fill(COUNT, 90, own.stream[0]);
    TRY(cuMemAllocAsync(&own.memory[COUNT + 1], 4096, own.stream[0]));
    TRY(cuMemAllocPitch(&own.memory[COUNT + 2], &pitch, BYTES, 1, 4));
    TRY(cuMemHostRegister(page, sizeof page, 0));
    own.registered = true;
    TRY(cuMemAllocManaged(&own.managed, 65536, CU_MEM_ATTACH_GLOBAL));
    fill(COUNT + 2, 91, own.stream[0]);
    TRY(cuMemAddressReserve(&own.reserved, BYTES, 0, 0, 0));
    TRY(cuMemCreate(&own.handle, BYTES, &prop, 0));
    TRY(cuMemMap(own.reserved, BYTES, 0, own.handle, 0));
    own.mapped = own.reserved;
    TRY(cuMemSetAccess(own.mapped, BYTES, &access, 1));
    TRY(cuCtxSynchronize()); /* what follows is in the legacy stream, which does not wait for another */
    TRY(cuMemcpy(own.mapped, own.memory[0], sizeof sink));
    TRY(cuMemcpyDtoH(sink, own.mapped, sizeof sink));
    look(sink, seeds[0], 0);
    TRY(cuMemGetAddressRange(&base, &size, own.memory[2] + 100));
    REQUIRE(base == own.memory[2] && size == BYTES);
    TRY(cuPointerGetAttribute(&ordinal, attributes[0], own.memory[2]));
    TRY(cuPointerGetAttributes(1, attributes, values, own.memory[0]));
    TRY(cuPointerGetAttribute(&ordinal, attributes[0], own.mapped));
    TRY(cuPointerGetAttributes(1, attributes, values, own.mapped));
    TRY(cuLibraryLoadData(&own.library, job_ptx, NULL, NULL, 0, NULL, NULL, 0));
    TRY(cuLibraryGetKernel(&of_library, own.library, "fill"));
    TRY(cuLaunchKernelEx(&config, (CUfunction)of_library, params, NULL));
    seeds[1] = seed;
    TRY(cuKernelGetFunction(&function, of_library));
    TRY(cuLaunchKernel(function, 1, 1, 1, LOOKED_AT, 1, 1, 0, own.stream[0], params, NULL));
    TRY(cuStreamWriteValue32(own.stream[0], own.memory[3], 17, 0));
    TRY(cuStreamWaitValue32(own.stream[0], own.memory[3], 17, CU_STREAM_WAIT_VALUE_EQ));
    TRY(cuMemsetD2D8(own.memory[4], BYTES, 1, 64, 1));
    TRY(cuCtxSynchronize());
    TRY(cuMemcpyDtoH(sink, own.memory[3], 4));
    REQUIRE(sink[0] == 17);
    TRY(cuMemcpyDtoH(sink, own.memory[4], 64));
    REQUIRE(sink[0] == 0x01010101);
    for (unsigned i = 0; i < COUNT + 3; i++)
        if (i != 3 && i != 4 && i != COUNT + 1)
            check(i);
    end();
}
