/*
 * fault_job.h - what careful jobs are made of: every status is looked at, and whatever happened, all that the
 * job has is given back (fault_jobs.h).
 *
 * Static, as the table of the driver's functions is. A buffer holds the words of a seed; the first LOOKED_AT
 * of them are written and read.
 */
#ifndef HBMSPILL_TESTS_INTEGRATION_FAULT_JOB_H
#define HBMSPILL_TESTS_INTEGRATION_FAULT_JOB_H

#include "tests/integration/fault_jobs.h"
#include "tests/integration/job.h"

enum { BYTES = 2 << 20, WORDS = BYTES / 4, LOOKED_AT = 256, MOST = 24 };

/* What the job has: given back at the end, however it comes. */
static struct {
    CUdeviceptr memory[MOST];
    CUstream stream[2];
    CUevent event;
    CUgraph graph, captured, clone;
    CUgraphExec exec, other_exec;
    CUmemoryPool pool, host_pool;
    CUdeviceptr pooled, host_pooled[2], reserved, mapped, managed;
    CUmemGenericAllocationHandle handle;
    CUlibrary library;
    void *pinned, *combined;
    bool registered;
} own;
static uint32_t seeds[MOST], sink[LOOKED_AT];
static char page[8192] __attribute__((aligned(4096)));

/* Tried again where it may be; a call that gives back is always, since nobody else will. */
#define GIVE_BACK(what, call)                                                                                \
    do {                                                                                                     \
        if (what) {                                                                                          \
            if (cuda.call != CUDA_SUCCESS)                                                                   \
                (void)cuda.call;                                                                             \
            memset(&(what), 0, sizeof(what));                                                                \
        }                                                                                                    \
    } while (0)

static inline void give_back(void)
{
    (void)cuda.cuCtxSynchronize();
    GIVE_BACK(own.exec, cuGraphExecDestroy(own.exec));
    GIVE_BACK(own.other_exec, cuGraphExecDestroy(own.other_exec));
    GIVE_BACK(own.graph, cuGraphDestroy(own.graph));
    GIVE_BACK(own.captured, cuGraphDestroy(own.captured));
    GIVE_BACK(own.clone, cuGraphDestroy(own.clone));
    for (unsigned i = 0; i < MOST; i++)
        GIVE_BACK(own.memory[i], cuMemFree(own.memory[i]));
    GIVE_BACK(own.pooled, cuMemFree(own.pooled));
    GIVE_BACK(own.pool, cuMemPoolDestroy(own.pool));
    for (unsigned i = 0; i < 2; i++)
        GIVE_BACK(own.host_pooled[i], cuMemFree(own.host_pooled[i]));
    GIVE_BACK(own.host_pool, cuMemPoolDestroy(own.host_pool));
    GIVE_BACK(own.mapped, cuMemUnmap(own.mapped, BYTES));
    GIVE_BACK(own.handle, cuMemRelease(own.handle));
    GIVE_BACK(own.reserved, cuMemAddressFree(own.reserved, BYTES));
    GIVE_BACK(own.managed, cuMemFree(own.managed));
    GIVE_BACK(own.pinned, cuMemFreeHost(own.pinned));
    GIVE_BACK(own.combined, cuMemFreeHost(own.combined));
    GIVE_BACK(own.registered, cuMemHostUnregister(page));
    GIVE_BACK(own.event, cuEventDestroy(own.event));
    for (unsigned i = 0; i < 2; i++)
        GIVE_BACK(own.stream[i], cuStreamDestroy(own.stream[i]));
    GIVE_BACK(own.library, cuLibraryUnload(own.library));
    GIVE_BACK(job_module, cuModuleUnload(job_module));
}

static inline void give_up(const char *call, CUresult status)
{
    const char *name = "?";

    (void)cuda.cuGetErrorName(status, &name);
    fprintf(stderr, "gives up: %s: %s\n", call, name);
    give_back();
    exit(FAULT_GAVE_UP);
}

#define TRY(call)                                                                                            \
    do {                                                                                                     \
        CUresult try_status = cuda.call;                                                                     \
        if (try_status != CUDA_SUCCESS && getenv("RETRY"))                                                   \
            try_status = cuda.call;                                                                          \
        if (try_status != CUDA_SUCCESS)                                                                      \
            give_up(#call, try_status);                                                                      \
    } while (0)

static inline void begin(void)
{
    CUcontext context;
    CUdevice device;

    cuda_load();
    TRY(cuInit(0));
    TRY(cuDeviceGet(&device, 0));
    TRY(cuDevicePrimaryCtxRetain(&context, device));
    TRY(cuCtxSetCurrent(context));
    TRY(cuModuleLoadData(&job_module, job_ptx));
    TRY(cuStreamCreate(&own.stream[0], CU_STREAM_NON_BLOCKING));
    TRY(cuStreamCreate(&own.stream[1], CU_STREAM_DEFAULT));
    TRY(cuEventCreate(&own.event, CU_EVENT_DISABLE_TIMING));
}

static inline void end(void)
{
    TRY(cuCtxSynchronize());
    give_back();
}

#define LAUNCH(function, stream_, params)                                                                    \
    TRY(cuLaunchKernel(function, 1, 1, 1, LOOKED_AT, 1, 1, 0, stream_, params, NULL))

static inline CUfunction kernel(const char *name)
{
    CUfunction function;

    TRY(cuModuleGetFunction(&function, job_module, name));
    return function;
}

/* Buffer i gets the words of a seed. */
static inline void fill(unsigned i, uint32_t seed, CUstream stream)
{
    uint32_t words = LOOKED_AT;
    void *params[] = {&own.memory[i], &words, &seed};

    LAUNCH(kernel("fill"), stream, params);
    seeds[i] = seed;
}

static inline void copy(unsigned to, unsigned from, CUstream stream)
{
    uint32_t words = LOOKED_AT;
    void *params[] = {&own.memory[to], &own.memory[from], &words};

    LAUNCH(kernel("copy"), stream, params);
    seeds[to] = seeds[from];
}

static inline void look(const uint32_t *words, uint32_t seed, unsigned i)
{
    for (uint32_t k = 0; k < LOOKED_AT; k++)
        REQUIRE(words[k] == job_word(seed, k), "word %u of buffer %u is 0x%08x, not 0x%08x", k, i, words[k],
                job_word(seed, k));
}

static inline void check(unsigned i)
{
    TRY(cuCtxSynchronize());
    TRY(cuMemcpyDtoH(sink, own.memory[i], sizeof sink));
    look(sink, seeds[i], i);
}

static inline void allocate(unsigned i, CUstream stream)
{
    if (i % 2)
        TRY(cuMemAllocAsync(&own.memory[i], BYTES, stream));
    else
        TRY(cuMemAlloc(&own.memory[i], BYTES));
    if (getenv("WHOLE")) /* written to the end, as what is not written has no right contents */
        TRY(cuMemsetD32Async(own.memory[i], i, WORDS, stream));
}

/* One that failed and one that is tried again must not be taken for freed twice. */
static inline void free_one(unsigned i, CUstream stream)
{
    CUdeviceptr memory = own.memory[i];

    if (i % 2)
        TRY(cuMemFreeAsync(memory, stream));
    else
        TRY(cuMemFree(memory));
    own.memory[i] = 0;
}

static inline void nothing(void *unused)
{
    (void)unused;
}

#endif
