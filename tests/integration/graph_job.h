/*
 * graph_job.h - what jobs with graphs are made of: buffers that are spilled, nodes over them, and what a run
 * must have been.
 *
 * Static, as the table of the driver's functions is. Where memory is short the graphs' nodes are launched one
 * by one, which the synthetic GPU's report shows.
 */
#ifndef HBMSPILL_TESTS_INTEGRATION_GRAPH_JOB_H
#define HBMSPILL_TESTS_INTEGRATION_GRAPH_JOB_H

#include "tests/integration/job.h"
#include "tests/integration/scenario.h"

#include <check.h>

enum { BYTES = 3 << 20, WORDS = BYTES / 4, COUNT = 8 };

static CUdeviceptr at[COUNT];
static CUstream stream;
static CUgraph graph;

/* Buffer i holds the words of seed i. */
static inline void start_roomy(void)
{
    cuda_start();
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < COUNT; i++) {
        CU(cuMemAlloc(&at[i], BYTES));
        job_fill(at[i], WORDS, i, stream);
    }
    CU(cuGraphCreate(&graph, 0));
}

/* The same, with all of it spilled. */
static inline void start(void)
{
    start_roomy();
    job_flush();
}

/* Parameters of a node of a kernel with two buffers. */
struct pair {
    CUdeviceptr to, from;
    uint32_t words;
    void *params[3];
    CUDA_KERNEL_NODE_PARAMS node;
};

static inline const CUDA_KERNEL_NODE_PARAMS *pair_params(struct pair *pair, const char *kernel,
                                                         CUdeviceptr to, CUdeviceptr from)
{
    *pair = (struct pair){.to = to, .from = from, .words = WORDS};
    pair->params[0] = &pair->to;
    pair->params[1] = &pair->from;
    pair->params[2] = &pair->words;
    pair->node = (CUDA_KERNEL_NODE_PARAMS){.func = job_kernel(kernel),
                                           .gridDimX = WORDS / 256,
                                           .gridDimY = 1,
                                           .gridDimZ = 1,
                                           .blockDimX = 256,
                                           .blockDimY = 1,
                                           .blockDimZ = 1,
                                           .kernelParams = pair->params};
    return &pair->node;
}

/* The same of one that takes its time to fill 256 words. */
struct slow {
    CUdeviceptr at;
    uint32_t words, seed, loops;
    void *params[4];
    CUDA_KERNEL_NODE_PARAMS node;
};

static inline const CUDA_KERNEL_NODE_PARAMS *slow_params(struct slow *slow, CUdeviceptr where, uint32_t seed)
{
    *slow = (struct slow){.at = where, .words = 256, .seed = seed, .loops = 1 << 18};
    slow->params[0] = &slow->at;
    slow->params[1] = &slow->words;
    slow->params[2] = &slow->seed;
    slow->params[3] = &slow->loops;
    slow->node = (CUDA_KERNEL_NODE_PARAMS){.func = job_kernel("slow_fill"),
                                           .gridDimX = 1,
                                           .gridDimY = 1,
                                           .gridDimZ = 1,
                                           .blockDimX = 256,
                                           .blockDimY = 1,
                                           .blockDimZ = 1,
                                           .kernelParams = slow->params};
    return &slow->node;
}

static inline CUgraphNode kernel_node(CUgraph in, const CUgraphNode *after, const char *kernel,
                                      CUdeviceptr to, CUdeviceptr from)
{
    struct pair pair;
    CUgraphNode made;

    CU(cuGraphAddKernelNode(&made, in, after, after != NULL, pair_params(&pair, kernel, to, from)));
    return made;
}

static inline void set_kernel(CUgraphExec exec, CUgraphNode of, const char *kernel, CUdeviceptr to,
                              CUdeviceptr from)
{
    struct pair pair;

    CU(cuGraphExecKernelNodeSetParams(exec, of, pair_params(&pair, kernel, to, from)));
}

/* One row within the device. */
static inline CUDA_MEMCPY3D row(CUdeviceptr to, CUdeviceptr from)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = from,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = to,
                           .WidthInBytes = BYTES,
                           .Height = 1,
                           .Depth = 1};
}

static inline CUgraphNode copy_node(CUgraph in, const CUgraphNode *after, const CUDA_MEMCPY3D *copy)
{
    CUgraphNode made;

    CU(cuGraphAddMemcpyNode(&made, in, after, after != NULL, copy, job_context()));
    return made;
}

static inline CUDA_MEMSET_NODE_PARAMS plain_set(CUdeviceptr to, unsigned value, unsigned size)
{
    return (CUDA_MEMSET_NODE_PARAMS){
        .dst = to, .value = value, .elementSize = size, .width = BYTES / size, .height = 1};
}

static inline CUgraphNode set_node(CUgraph in, const CUgraphNode *after, const CUDA_MEMSET_NODE_PARAMS *set)
{
    CUgraphNode made;

    CU(cuGraphAddMemsetNode(&made, in, after, after != NULL, set, job_context()));
    return made;
}

static inline CUgraphExec instantiate(void)
{
    CUgraphExec exec;

    CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

static inline void check_bytes(CUdeviceptr where, size_t count, const unsigned char *pattern, unsigned period)
{
    unsigned char *bytes = malloc(count);

    REQUIRE(bytes);
    CU(cuCtxSynchronize());
    CU(cuMemcpyDtoH(bytes, where, count));
    for (size_t i = 0; i < count; i++)
        REQUIRE(bytes[i] == pattern[i % period], "byte %zu is 0x%02x", i, bytes[i]);
    free(bytes);
}

/* ---- what a run must have been ---- */

static inline void one_by_one(const struct outcome *of)
{
    ck_assert_uint_eq(outcome_calls(of, "cuGraphLaunch"), 0);
    ck_assert_uint_gt(outcome_number(of->statistics, "graph_launches"), 0);
}

static inline void as_a_whole(const struct outcome *of)
{
    ck_assert_uint_gt(outcome_calls(of, "cuGraphLaunch"), 0);
    ck_assert_uint_eq(outcome_calls(of, "cuGraphLaunch"), outcome_number(of->statistics, "graph_launches"));
}

/* A scenario of that name whose graphs are launched so. */
#define SINGLY(name_)                                                                                        \
    .name = #name_, .job = name_, .flags = SCENARIO_SPILLS | SCENARIO_UNCOUNTED, .inspect = one_by_one

#endif
