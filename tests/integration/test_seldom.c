/*
 * Functions with a wrapper that no other test calls: what they do to memory that is spilled, or around it, is
 * done all the same.
 */
#include "tests/integration/job.h"
#include "tests/integration/scenario.h"

#include <check.h>
#include <stdatomic.h>
#include <unistd.h>

enum { BYTES = 3 << 20, WORDS = BYTES / 4, COUNT = 4 };

/* The driver's function of that name, as cuda.h maps it to an exact symbol. */
#define CALL(function) ((__typeof__(&function))job_symbol(JOB_TEXT(function)))
#define DO(function, ...)                                                                                    \
    do {                                                                                                     \
        CUresult done = CALL(function)(__VA_ARGS__);                                                         \
        REQUIRE(done == CUDA_SUCCESS, #function ": %s", job_error_name(done));                               \
    } while (0)

static CUdeviceptr at[COUNT];
static CUstream stream;
static uint8_t mirror[COUNT][BYTES]; /* what has to be there */

static void begin(void)
{
    cuda_start();
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (uint32_t i = 0; i < COUNT; i++) {
        CU(cuMemAlloc(&at[i], BYTES));
        job_fill(at[i], WORDS, i, stream);
        for (uint32_t k = 0; k < WORDS; k++)
            ((uint32_t *)mirror[i])[k] = job_word(i, k);
    }
    CU(cuStreamSynchronize(stream));
    job_flush();
}

static void end(void)
{
    uint8_t *found = malloc(BYTES);

    CU(cuCtxSynchronize());
    for (unsigned i = 0; i < COUNT; i++) {
        CU(cuMemcpyDtoH(found, at[i], BYTES));
        for (unsigned k = 0; k < BYTES; k++)
            REQUIRE(found[k] == mirror[i][k], "byte %u of %u is 0x%02x, not 0x%02x", k, i, found[k],
                    mirror[i][k]);
    }
    free(found);
}

/* ---- memsets and copies ---- */

enum { PITCH = 4096, WIDTH = 300, HEIGHT = 500 };

static void set_2d(unsigned buffer, size_t first, unsigned element, unsigned value)
{
    for (unsigned y = 0; y < HEIGHT; y++)
        for (unsigned x = 0; x < WIDTH; x++)
            memcpy(&mirror[buffer][first + y * (size_t)PITCH + x * element], &value, element);
}

static void memsets(void)
{
    begin();
    DO(cuMemsetD2D8Async, at[0] + 5, PITCH, 0x5a, WIDTH, HEIGHT, stream);
    set_2d(0, 5, 1, 0x5a);
    DO(cuMemsetD2D16Async, at[1] + 8, PITCH, 0x1234, WIDTH, HEIGHT, stream);
    set_2d(1, 8, 2, 0x1234);
    DO(cuMemsetD2D32Async, at[2] + 16, PITCH, 0xdeadbeef, WIDTH, HEIGHT, stream);
    set_2d(2, 16, 4, 0xdeadbeef);
    CU(cuStreamSynchronize(stream)); /* which the legacy stream does not wait for */
    job_flush();
    DO(cuMemsetD2D16, at[3] + 2, PITCH, 0x4321, WIDTH, HEIGHT);
    set_2d(3, 2, 2, 0x4321);
    job_flush();
    DO(cuMemsetD2D32, at[0] + PITCH, PITCH, 77, WIDTH, HEIGHT);
    set_2d(0, PITCH, 4, 77);
    end();
}

static void copies(void)
{
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUdeviceptr to[2], from[2];
    size_t sizes[] = {BYTES / 2, 4096}, first = 0;
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcPitch = 1001,
                          .dstPitch = 777,
                          .WidthInBytes = 701,
                          .Height = 99};

    begin();
    copy.srcDevice = at[0] + 3;
    copy.dstDevice = at[1] + 7;
    DO(cuMemcpy2DUnaligned, &copy);
    CU(cuCtxSynchronize()); /* the other stream does not wait for the legacy one */
    for (unsigned y = 0; y < 99; y++)
        memcpy(&mirror[1][7 + y * 777], &mirror[0][3 + y * 1001], 701);
    job_flush();
    to[0] = at[2] + 256, from[0] = at[1];
    to[1] = at[3], from[1] = at[0] + 512;
    DO(cuMemcpyBatchAsync, to, from, sizes, 2, &attributes, &first, 1, stream);
    memcpy(&mirror[2][256], mirror[1], sizes[0]);
    memcpy(mirror[3], &mirror[0][512], sizes[1]);
    end();
}

/* ---- streams and events ---- */

static atomic_uint told;
static volatile uint64_t *word64;

static void CUDA_CB tell(CUstream of, CUresult status, void *data)
{
    (void)of;
    if (status == CUDA_SUCCESS && *(volatile uint32_t *)word64 == job_word(7, 0))
        atomic_fetch_add(&told, (unsigned)(uintptr_t)data);
}

static void streams(void)
{
    CUstreamAttrValue value = {.syncPolicy = CU_SYNC_POLICY_YIELD};
    CUdeviceptr managed;
    CUstream other;
    CUevent event;
    void *memory;

    begin();
    CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CU(cuMemHostAlloc(&memory, 4096, CU_MEMHOSTALLOC_PORTABLE));
    memset(memory, 0, 4096);
    word64 = memory;
    DO(cuStreamSetAttribute, stream, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value);
    DO(cuStreamCopyAttributes, other, stream);
    DO(cuMemAllocManaged, &managed, 4096, CU_MEM_ATTACH_GLOBAL);
    DO(cuStreamAttachMemAsync, stream, managed, 0, CU_MEM_ATTACH_SINGLE);
    REQUIRE(CALL(cuStreamAttachMemAsync)(stream, at[0], 0, CU_MEM_ATTACH_SINGLE) == CUDA_ERROR_INVALID_VALUE);

    /* What waits for the value waits for what was launched before it was written. */
    job_fill((CUdeviceptr)(uintptr_t)word64, 1, 7, stream);
    job_copy(at[0], at[1], WORDS, stream);
    memcpy(mirror[0], mirror[1], BYTES);
    DO(cuStreamWriteValue64, stream, (CUdeviceptr)(uintptr_t)&word64[1], UINT64_C(1) << 40, 0);
    DO(cuStreamWaitValue64, other, (CUdeviceptr)(uintptr_t)&word64[1], UINT64_C(1) << 40,
       CU_STREAM_WAIT_VALUE_EQ);
    job_copy(at[2], at[0], WORDS, other);
    memcpy(mirror[2], mirror[1], BYTES);
    DO(cuStreamAddCallback, stream, tell, (void *)1, 0);
    DO(cuEventRecordWithFlags, event, other, CU_EVENT_RECORD_DEFAULT);
    CU(cuStreamWaitEvent(stream, event, 0));
    job_copy(at[3], at[2], WORDS, stream);
    memcpy(mirror[3], mirror[1], BYTES);
    end();
    REQUIRE(atomic_load(&told) == 1);
    CU(cuMemFree(managed));
}

/* For green contexts only ("CUDA_ERROR_NOT_SUPPORTED" for the primary one): the work around it is done. */
static void context_events(void)
{
    CUevent event;

    begin();
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    job_copy(at[0], at[1], WORDS, stream);
    REQUIRE(CALL(cuCtxRecordEvent)(job_context(), event) == CUDA_ERROR_NOT_SUPPORTED);
    job_copy(at[2], at[0], WORDS, stream);
    REQUIRE(CALL(cuCtxWaitEvent)(job_context(), event) == CUDA_ERROR_NOT_SUPPORTED);
    job_copy(at[3], at[2], WORDS, stream);
    for (unsigned i = 0; i < COUNT; i++)
        memcpy(mirror[i], mirror[1], BYTES);
    end();
}

/* ---- graphs ---- */

static CUgraphNodeParams memset_params(CUdeviceptr address, unsigned value)
{
    return (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_MEMSET,
                               .memset = {.dst = address,
                                          .value = value,
                                          .elementSize = 4,
                                          .width = WORDS,
                                          .height = 1,
                                          .ctx = job_context()}};
}

static void set_words(unsigned buffer, uint32_t value)
{
    for (uint32_t k = 0; k < WORDS; k++)
        ((uint32_t *)mirror[buffer])[k] = value;
}

static void graphs(void)
{
    CUDA_GRAPH_INSTANTIATE_PARAMS how = {0};
    CUgraphNodeParams params;
    CUgraphNode node;
    CUgraphExec exec;
    CUgraph graph;

    begin();
    CU(cuGraphCreate(&graph, 0));
    params = memset_params(at[0], 1);
    CU(cuGraphAddMemsetNode(
        &node, graph, NULL, 0,
        &(CUDA_MEMSET_NODE_PARAMS){.dst = at[3], .elementSize = 4, .width = 1, .height = 1}, job_context()));
    DO(cuGraphNodeSetParams, node, &params);
    DO(cuGraphInstantiateWithParams, &exec, graph, &how);
    REQUIRE(how.result_out == CUDA_GRAPH_INSTANTIATE_SUCCESS);
    job_flush();
    DO(cuGraphUpload, exec, stream);
    CU(cuGraphLaunch(exec, stream));
    set_words(0, 1);
    params = memset_params(at[2], 9);
    DO(cuGraphExecNodeSetParams, exec, node, &params);
    CU(cuStreamSynchronize(stream));
    job_flush();
    CU(cuGraphLaunch(exec, stream));
    set_words(2, 9);
    end();
    CU(cuGraphExecDestroy(exec));
    CU(cuGraphDestroy(graph));
}

/* ---- modules and settings ---- */

static void fill_with(CUmodule module, unsigned buffer, uint32_t seed)
{
    uint32_t words = WORDS;
    void *params[] = {&at[buffer], &words, &seed};
    CUfunction function;

    CU(cuModuleGetFunction(&function, module, "fill"));
    DO(cuFuncSetCacheConfig, function, CU_FUNC_CACHE_PREFER_L1);
    DO(cuFuncSetAttribute, function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024);
    REQUIRE(job_launch(function, WORDS, stream, params) == CUDA_SUCCESS);
    for (uint32_t k = 0; k < WORDS; k++)
        ((uint32_t *)mirror[buffer])[k] = job_word(seed, k);
    job_flush();
}

static void modules(void)
{
    char path[] = "/tmp/test_seldom.XXXXXX";
    int file = mkstemp(path);
    size_t length = strlen(job_ptx);
    CUmodule module[3];
    CUlibrary library;
    CUkernel kernel;
    CUdevice device;

    begin();
    REQUIRE(file >= 0 && write(file, job_ptx, length) == (ssize_t)length);
    close(file);
    DO(cuModuleLoad, &module[0], path);
    unlink(path);
    DO(cuModuleLoadDataEx, &module[1], job_ptx, 0, NULL, NULL);
    DO(cuModuleLoadFatBinary, &module[2], job_ptx);
    for (uint32_t i = 0; i < 3; i++)
        fill_with(module[i], i, 40 + i);
    CU(cuDeviceGet(&device, 0));
    CU(cuLibraryLoadData(&library, job_ptx, NULL, NULL, 0, NULL, NULL, 0));
    CU(cuLibraryGetKernel(&kernel, library, "fill"));
    DO(cuKernelSetAttribute, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 2048, kernel, device);
    DO(cuCtxSetLimit, CU_LIMIT_STACK_SIZE, 2048);
    end();
    for (unsigned i = 0; i < 3; i++)
        CU(cuModuleUnload(module[i]));
    CU(cuLibraryUnload(library));
}

/* ---- memory ---- */

static void pointers(void)
{
    CUmemGenericAllocationHandle handle;
    CUdevice device;
    CUmemoryPool pool;
    uint64_t used;
    unsigned yes = 1;

    begin();
    DO(cuPointerSetAttribute, &yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at[0]);
    if (CALL(cuMemRetainAllocationHandle)(&handle, (void *)(uintptr_t)at[1]) == CUDA_SUCCESS)
        CU(cuMemRelease(handle));
    REQUIRE(CALL(cuIpcCloseMemHandle)(at[2]) != CUDA_SUCCESS);
    CU(cuDeviceGet(&device, 0));
    DO(cuDeviceGetMemPool, &pool, device);
    DO(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
    job_flush();
    end();
}

/* Another context on the device, and the primary one retained once more. */
static void contexts(void)
{
    CUcontext more, again;
    CUdevice device;

    begin();
    CU(cuDeviceGet(&device, 0));
    DO(cuCtxCreate, &more, NULL, 0, device);
    CU(cuCtxSetCurrent(job_context()));
    job_copy(at[0], at[1], WORDS, stream);
    memcpy(mirror[0], mirror[1], BYTES);
    DO(cuCtxDestroy, more);
    CU(cuDevicePrimaryCtxRetain(&again, device));
    job_copy(at[2], at[1], WORDS, stream);
    memcpy(mirror[2], mirror[1], BYTES);
    DO(cuDevicePrimaryCtxRelease, device);
    end();
}

static const struct scenario scenarios[] = {
    {.name = "memsets", .job = memsets, .flags = SCENARIO_SPILLS | SCENARIO_UNCOUNTED},
    {.name = "copies", .job = copies, .flags = SCENARIO_SPILLS | SCENARIO_UNCOUNTED},
    {.name = "streams", .job = streams, .flags = SCENARIO_SPILLS | SCENARIO_UNCOUNTED},
    {.name = "context_events", .job = context_events, .flags = SCENARIO_SPILLS},
    {.name = "graphs", .job = graphs, .flags = SCENARIO_SPILLS | SCENARIO_UNCOUNTED},
    {.name = "modules", .job = modules, .flags = SCENARIO_SPILLS},
    {.name = "pointers", .job = pointers, .flags = SCENARIO_SPILLS},
    {.name = "contexts", .job = contexts, .flags = SCENARIO_SPILLS},
};

int main(int argc, char **argv)
{
    return scenarios_main(argc, argv, "seldom", scenarios, sizeof scenarios / sizeof *scenarios, 30);
}
