/*
 * Graphs: what their nodes touch is in device memory before they run, however they were made and changed.
 */
#include "tests/integration/job.h"
#include "tests/integration/scenario.h"

#include <cudaTypedefs.h>

#include <check.h>
#include <pthread.h>

enum { BYTES = 3 << 20, WORDS = BYTES / 4, COUNT = 8 };

static CUdeviceptr at[COUNT];
static CUstream stream;

/* Buffer i holds the words of seed i. */
static void start(void)
{
    cuda_start();
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < COUNT; i++) {
        CU(cuMemAlloc(&at[i], BYTES));
        job_fill(at[i], WORDS, i, stream);
    }
}

/* Parameters of a launch of a kernel with two buffers, as both the launch and the node forms want them. */
struct call {
    CUdeviceptr to, from;
    uint32_t words;
    void *list[3];
    CUDA_KERNEL_NODE_PARAMS node;
};

static CUDA_KERNEL_NODE_PARAMS *call(struct call *call, const char *kernel, CUdeviceptr to, CUdeviceptr from)
{
    *call = (struct call){.to = to, .from = from, .words = WORDS};
    call->list[0] = &call->to;
    call->list[1] = &call->from;
    call->list[2] = &call->words;
    call->node = (CUDA_KERNEL_NODE_PARAMS){.func = job_kernel(kernel),
                                           .gridDimX = WORDS / 256,
                                           .gridDimY = 1,
                                           .gridDimZ = 1,
                                           .blockDimX = 256,
                                           .blockDimY = 1,
                                           .blockDimZ = 1,
                                           .kernelParams = call->list};
    return &call->node;
}

/* The same as the first version of the structure, which has nothing after `extra'. */
static CUDA_KERNEL_NODE_PARAMS_v1 *call_v1(struct call *of, CUDA_KERNEL_NODE_PARAMS_v1 *node,
                                           const char *kernel, CUdeviceptr to, CUdeviceptr from)
{
    call(of, kernel, to, from);
    *node = (CUDA_KERNEL_NODE_PARAMS_v1){.func = of->node.func,
                                         .gridDimX = of->node.gridDimX,
                                         .gridDimY = 1,
                                         .gridDimZ = 1,
                                         .blockDimX = 256,
                                         .blockDimY = 1,
                                         .blockDimZ = 1,
                                         .kernelParams = of->list};
    return node;
}

static CUDA_MEMCPY3D box(CUdeviceptr to, CUdeviceptr from)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = from,
                           .srcPitch = BYTES,
                           .srcHeight = 1,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = to,
                           .dstPitch = BYTES,
                           .dstHeight = 1,
                           .WidthInBytes = BYTES,
                           .Height = 1,
                           .Depth = 1};
}

static CUDA_MEMSET_NODE_PARAMS zero(CUdeviceptr to)
{
    return (CUDA_MEMSET_NODE_PARAMS){
        .dst = to, .pitch = BYTES, .value = 0, .elementSize = 4, .width = WORDS, .height = 1};
}

static CUgraphExec instantiate(CUgraph graph)
{
    CUgraphExec exec;

    CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

static void launch(CUgraphExec exec)
{
    CU(cuGraphLaunch(exec, stream));
}

/* Kernel, copy and memset nodes; all of their memory is spilled before each launch. */
static void nodes(void)
{
    CUgraphNode first, second, third;
    CUDA_MEMSET_NODE_PARAMS set;
    CUDA_MEMCPY3D copy;
    struct call add;
    CUgraph graph;
    CUgraphExec exec;

    start();
    CU(cuGraphCreate(&graph, 0));
    set = zero(at[2]);
    CU(cuGraphAddMemsetNode(&first, graph, NULL, 0, &set, job_context()));
    CU(cuGraphAddKernelNode(&second, graph, &first, 1, call(&add, "add", at[2], at[1])));
    copy = box(at[3], at[2]);
    CU(cuGraphAddMemcpyNode(&third, graph, &second, 1, &copy, job_context()));
    exec = instantiate(graph);
    CU(cuGraphDestroy(graph));
    for (unsigned round = 0; round < 3; round++) {
        job_fill(at[1], WORDS, 20 + round, stream);
        job_flush();
        launch(exec);
        job_add(at[0], at[3], WORDS, stream);
        CHECK_WORDS(at[2], WORDS, 20 + round);
        CHECK_WORDS(at[3], WORDS, 20 + round);
        CHECK_WORDS(at[1], WORDS, 20 + round);
        job_fill(at[0], WORDS, 0, stream);
    }
    for (unsigned i = 4; i < COUNT; i++)
        CHECK_WORDS(at[i], WORDS, i);
    CU(cuGraphExecDestroy(exec));
}

/* The functions that had the plain names before CUDA 12. */
static void old_names(void)
{
    PFN_cuGraphAddKernelNode_v10000 add_node;
    PFN_cuGraphKernelNodeSetParams_v10000 set_node;
    PFN_cuGraphExecKernelNodeSetParams_v10010 set_exec;
    PFN_cuGraphExecUpdate_v10020 update;
    CUDA_KERNEL_NODE_PARAMS_v1 v1;
    CUgraphExecUpdateResult result;
    CUgraphNode node, error_node;
    CUgraph graph;
    CUgraphExec exec;
    struct call add;

    start();
    *(void **)&add_node = job_symbol("cuGraphAddKernelNode");
    *(void **)&set_node = job_symbol("cuGraphKernelNodeSetParams");
    *(void **)&set_exec = job_symbol("cuGraphExecKernelNodeSetParams");
    *(void **)&update = job_symbol("cuGraphExecUpdate");
    CU(cuGraphCreate(&graph, 0));
    REQUIRE(add_node(&node, graph, NULL, 0, call_v1(&add, &v1, "add", at[0], at[1])) == CUDA_SUCCESS);
    exec = instantiate(graph);
    job_flush();
    launch(exec);
    CHECK_SUM(at[0], WORDS, 0, 1);
    REQUIRE(set_exec(exec, node, call_v1(&add, &v1, "add", at[2], at[3])) == CUDA_SUCCESS);
    job_flush();
    launch(exec);
    CHECK_SUM(at[2], WORDS, 2, 3);
    REQUIRE(set_node(node, call_v1(&add, &v1, "add", at[4], at[5])) == CUDA_SUCCESS);
    REQUIRE(update(exec, graph, &error_node, &result) == CUDA_SUCCESS);
    job_flush();
    launch(exec);
    CHECK_SUM(at[4], WORDS, 4, 5);
    CHECK_SUM(at[0], WORDS, 0, 1);
}

/* An instantiated graph is given other pointers, node by node and as a whole. */
static void updates(void)
{
    CUgraphExecUpdateResultInfo info;
    CUgraphNode first, second, third;
    CUDA_MEMSET_NODE_PARAMS set;
    CUDA_MEMCPY3D copy;
    struct call add;
    CUgraph graph;
    CUgraphExec exec;

    start();
    CU(cuGraphCreate(&graph, 0));
    CU(cuGraphAddKernelNode(&first, graph, NULL, 0, call(&add, "add", at[0], at[1])));
    copy = box(at[2], at[0]);
    CU(cuGraphAddMemcpyNode(&second, graph, &first, 1, &copy, job_context()));
    set = zero(at[3]);
    CU(cuGraphAddMemsetNode(&third, graph, &second, 1, &set, job_context()));
    exec = instantiate(graph);
    CU(cuGraphExecKernelNodeSetParams(exec, first, call(&add, "add", at[4], at[5])));
    copy = box(at[6], at[4]);
    CU(cuGraphExecMemcpyNodeSetParams(exec, second, &copy, job_context()));
    set = zero(at[7]);
    CU(cuGraphExecMemsetNodeSetParams(exec, third, &set, job_context()));
    job_flush();
    launch(exec);
    CHECK_SUM(at[4], WORDS, 4, 5);
    CHECK_SUM(at[6], WORDS, 4, 5);
    for (unsigned i = 0; i < 4; i++)
        CHECK_WORDS(at[i], WORDS, i);
    job_flush();
    CU(cuGraphExecUpdate(exec, graph, &info));
    launch(exec);
    CHECK_SUM(at[0], WORDS, 0, 1);
    CHECK_SUM(at[2], WORDS, 0, 1);
    CHECK_SUM(at[4], WORDS, 4, 5);
    CU(cuGraphKernelNodeSetParams(first, call(&add, "add", at[1], at[5])));
    CU(cuGraphExecUpdate(exec, graph, &info));
    job_flush();
    launch(exec);
    CHECK_SUM(at[1], WORDS, 1, 5);
}

/* A child's nodes, and the child changed through the parent's copy of it. */
static void child(void)
{
    CUgraphNode inner, outer, copied;
    CUgraph graph, small, inside;
    CUgraphExec exec;
    size_t count = 1;
    struct call add;

    start();
    CU(cuGraphCreate(&small, 0));
    CU(cuGraphAddKernelNode(&inner, small, NULL, 0, call(&add, "add", at[0], at[1])));
    CU(cuGraphCreate(&graph, 0));
    CU(cuGraphAddChildGraphNode(&outer, graph, NULL, 0, small));
    exec = instantiate(graph);
    job_flush();
    launch(exec);
    CHECK_SUM(at[0], WORDS, 0, 1);
    CU(cuGraphExecDestroy(exec));

    CU(cuGraphChildGraphNodeGetGraph(outer, &inside));
    CU(cuGraphGetNodes(inside, &copied, &count));
    CU(cuGraphKernelNodeSetParams(copied, call(&add, "add", at[2], at[3])));
    exec = instantiate(graph);
    job_flush();
    launch(exec);
    CHECK_SUM(at[2], WORDS, 2, 3);
    CHECK_SUM(at[0], WORDS, 0, 1);
}

/* A clone's nodes are its own. */
static void cloned(void)
{
    CUgraphNode node, twin;
    CUgraph graph, copy;
    CUgraphExec exec, exec_copy;
    struct call add;

    start();
    CU(cuGraphCreate(&graph, 0));
    CU(cuGraphAddKernelNode(&node, graph, NULL, 0, call(&add, "add", at[0], at[1])));
    CU(cuGraphClone(&copy, graph));
    CU(cuGraphNodeFindInClone(&twin, node, copy));
    CU(cuGraphKernelNodeSetParams(twin, call(&add, "add", at[2], at[3])));
    exec = instantiate(graph);
    exec_copy = instantiate(copy);
    job_flush();
    launch(exec_copy);
    launch(exec);
    CHECK_SUM(at[0], WORDS, 0, 1);
    CHECK_SUM(at[2], WORDS, 2, 3);
}

/* A node's handle is given out again, to a node of another graph. */
static void node_handles(void)
{
    CUgraph graph[2];
    CUgraphNode keep, node;
    CUgraphExec exec;
    struct call add;

    start();
    CU(cuGraphCreate(&graph[0], 0));
    CU(cuGraphCreate(&graph[1], 0));
    for (unsigned round = 0; round < 6; round++) {
        unsigned g = round % 2;

        CU(cuGraphAddKernelNode(&node, graph[g], NULL, 0, call(&add, "add", at[6], at[7])));
        CU(cuGraphKernelNodeSetParams(node, call(&add, "copy", at[round], at[7])));
        exec = instantiate(graph[g]);
        job_flush();
        launch(exec);
        CHECK_WORDS(at[round], WORDS, 7);
        CU(cuGraphExecDestroy(exec));
        CU(cuGraphDestroyNode(node));
        if (round % 3 == 0)
            CU(cuGraphAddKernelNode(&keep, graph[g], NULL, 0, call(&add, "copy", at[round], at[7])));
    }
    CHECK_WORDS(at[6], WORDS, 6);
}

/* The general form of a node, a loop whose condition is false the first time, and one taken once. */
static void conditional(void)
{
    CUgraphConditionalHandle handle;
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    CUgraphNode node, inner;
    CUgraph graph;
    CUgraphExec exec;
    struct call add;

    start();
    CU(cuGraphCreate(&graph, 0));
    CU(cuGraphConditionalHandleCreate(&handle, graph, job_context(), 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
    params.conditional = (CUDA_CONDITIONAL_NODE_PARAMS){
        .handle = handle, .type = CU_GRAPH_COND_TYPE_IF, .size = 1, .ctx = job_context()};
    CU(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params));
    CU(cuGraphAddKernelNode(&inner, params.conditional.phGraph_out[0], NULL, 0,
                            call(&add, "add", at[0], at[1])));
    exec = instantiate(graph);
    job_flush();
    launch(exec);
    CHECK_SUM(at[0], WORDS, 0, 1);
}

static void capture_in(CUstreamCaptureMode mode)
{
    CUgraph graph;
    CUgraphExec exec;

    CU(cuStreamBeginCapture(stream, mode));
    job_add(at[0], at[1], WORDS, stream);
    CU(cuMemcpyDtoDAsync(at[2], at[0], BYTES, stream));
    CU(cuMemsetD8Async(at[3], 0, BYTES, stream));
    CU(cuStreamEndCapture(stream, &graph));
    exec = instantiate(graph);
    CU(cuGraphDestroy(graph));
    for (unsigned round = 0; round < 2; round++) {
        job_fill(at[0], WORDS, 0, stream);
        job_flush();
        launch(exec);
        CHECK_SUM(at[0], WORDS, 0, 1);
        CHECK_SUM(at[2], WORDS, 0, 1);
    }
    CU(cuGraphExecDestroy(exec));
}

static void capture(void)
{
    start();
    capture_in(CU_STREAM_CAPTURE_MODE_GLOBAL);
    capture_in(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    capture_in(CU_STREAM_CAPTURE_MODE_RELAXED);
}

/* What was launched before the capture is no part of it, once memory was short as well. */
static void capture_after_work(void)
{
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node[4];
    size_t count = 4;

    start();
    job_flush();
    for (unsigned i = 0; i < COUNT; i++)
        job_fill(at[i], WORDS, 10 + i, stream);
    CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    job_add(at[0], at[1], WORDS, stream);
    CU(cuStreamEndCapture(stream, &graph));
    CU(cuGraphGetNodes(graph, node, &count));
    REQUIRE(count == 1, "%zu nodes", count);
    for (unsigned i = 0; i < COUNT; i++)
        CHECK_WORDS(at[i], WORDS, 10 + i);
    exec = instantiate(graph);
    launch(exec);
    CHECK_SUM(at[0], WORDS, 10, 11);
}

/* cuStreamBeginCapture of CUDA 10.0, without a mode. */
static void capture_by_old_name(void)
{
    CUresult (*begin)(CUstream);
    CUgraph graph;
    CUgraphExec exec;

    start();
    *(void **)&begin = job_symbol("cuStreamBeginCapture");
    job_flush();
    REQUIRE(begin(stream) == CUDA_SUCCESS);
    job_add(at[0], at[1], WORDS, stream);
    CU(cuStreamEndCapture(stream, &graph));
    exec = instantiate(graph);
    launch(exec);
    CHECK_SUM(at[0], WORDS, 0, 1);
}

static pthread_barrier_t step;

/* Spills and brings back, while the other thread captures. */
static void *spill(void *unused)
{
    CUdeviceptr own[10];
    CUstream mine;

    (void)unused;
    CU(cuCtxSetCurrent(job_context()));
    CU(cuStreamCreate(&mine, CU_STREAM_NON_BLOCKING));
    pthread_barrier_wait(&step);
    for (unsigned i = 0; i < 10; i++) {
        CU(cuMemAllocAsync(&own[i], BYTES, mine));
        job_fill(own[i], WORDS, 40 + i, mine);
    }
    for (unsigned i = 0; i + 1 < 10; i++)
        job_add(own[i], own[i + 1], WORDS, mine);
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step);
    for (unsigned i = 0; i + 1 < 10; i++)
        CHECK_SUM(own[i], WORDS, 40 + i, 41 + i);
    return NULL;
}

/*
 * Memory last used in the legacy stream and in the stream that captures has to make way while the capture is
 * in progress: nothing may be recorded in either by then.
 */
static void capture_beside(CUstreamCaptureMode mode)
{
    CUstream blocking;
    pthread_t thread;
    CUgraph graph;
    CUgraphExec exec;

    start();
    CU(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    CU(cuStreamSynchronize(stream));
    job_fill(at[2], WORDS, 2, NULL);
    job_fill(at[3], WORDS, 3, blocking);
    job_fill(at[4], WORDS, 4, blocking);
    pthread_barrier_init(&step, NULL, 2);
    pthread_create(&thread, NULL, spill, NULL);
    CU(cuStreamBeginCapture(blocking, mode));
    job_add(at[0], at[1], WORDS, blocking);
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step);
    job_add(at[2], at[3], WORDS, blocking);
    CU(cuStreamEndCapture(blocking, &graph));
    pthread_barrier_wait(&step);
    pthread_join(thread, NULL);
    exec = instantiate(graph);
    launch(exec);
    CHECK_SUM(at[0], WORDS, 0, 1);
    CHECK_SUM(at[2], WORDS, 2, 3);
    for (unsigned i = 3; i < COUNT; i++)
        CHECK_WORDS(at[i], WORDS, i);
}

static void capture_beside_global(void)
{
    capture_beside(CU_STREAM_CAPTURE_MODE_GLOBAL);
}

static void capture_beside_thread_local(void)
{
    capture_beside(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

static void capture_beside_relaxed(void)
{
    capture_beside(CU_STREAM_CAPTURE_MODE_RELAXED);
}

/* A second stream joins a capture after it did work of its own meanwhile. */
static void capture_joined(void)
{
    CUstream other;
    CUevent event;
    pthread_t thread;
    CUgraph graph;
    CUgraphExec exec;

    start();
    CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    pthread_barrier_init(&step, NULL, 2);
    pthread_create(&thread, NULL, spill, NULL);
    CU(cuStreamSynchronize(stream));
    CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    job_fill(at[4], WORDS, 34, other);
    CU(cuEventRecord(event, stream));
    CU(cuStreamWaitEvent(other, event, 0));
    job_add(at[0], at[1], WORDS, other);
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step);
    CU(cuEventRecord(event, other));
    CU(cuStreamWaitEvent(stream, event, 0));
    CU(cuStreamEndCapture(stream, &graph));
    pthread_barrier_wait(&step);
    pthread_join(thread, NULL);
    exec = instantiate(graph);
    launch(exec);
    CHECK_SUM(at[0], WORDS, 0, 1);
    CHECK_WORDS(at[4], WORDS, 34);
}

enum { MANY = 14 };

static CUdeviceptr more[MANY];

/* A chain over more than device memory holds: buffer i becomes the sum of those up to i. */
static CUgraph chain(void)
{
    CUgraphNode node, before;
    struct call add;
    CUgraph graph;

    CU(cuGraphCreate(&graph, 0));
    for (unsigned i = 0; i < MANY; i++) {
        CU(cuMemAlloc(&more[i], BYTES));
        job_fill(more[i], WORDS, i, stream);
        if (!i)
            continue;
        CU(cuGraphAddKernelNode(&node, graph, &before, i > 1, call(&add, "add", more[i], more[i - 1])));
        before = node;
    }
    return graph;
}

/* The words of buffer i of a chain that ran once. */
static void check_chain(void)
{
    uint32_t *words = malloc(BYTES), *sum = calloc(WORDS, 4);

    REQUIRE(words && sum);
    for (unsigned i = 0; i < MANY; i++) {
        CU(cuMemcpyDtoH(words, more[i], BYTES));
        for (unsigned k = 0; k < WORDS; k++)
            REQUIRE(words[k] == (sum[k] += job_word(i, k)), "buffer %u, word %u", i, k);
    }
    free(words);
    free(sum);
}

/* A graph that touches more than there is of device memory, though none of its nodes does. */
static void larger_than_memory(void)
{
    CUgraph graph;
    CUgraphExec exec;

    start();
    graph = chain();
    exec = instantiate(graph);
    CU(cuGraphDestroy(graph));
    launch(exec);
    CU(cuStreamSynchronize(stream));
    CU(cuGraphExecDestroy(exec));
    check_chain();
    for (unsigned i = 0; i < COUNT; i++)
        CHECK_WORDS(at[i], WORDS, i);
}

static void one_by_one(const struct outcome *of)
{
    ck_assert_uint_eq(outcome_calls(of, "cuGraphLaunch"), 0);
    ck_assert_uint_ge(outcome_calls(of, "cuLaunchKernel"), MANY - 1);
    ck_assert_uint_eq(outcome_number(of->statistics, "graph_launches"), 1);
}

static const struct scenario scenarios[] = {
    {.name = "nodes", .job = nodes, .flags = SCENARIO_SPILLS | SCENARIO_UNCOUNTED},
    {.name = "old_names", .job = old_names, .flags = SCENARIO_SPILLS},
    {.name = "updates", .job = updates, .flags = SCENARIO_SPILLS | SCENARIO_UNCOUNTED},
    {.name = "child", .job = child, .flags = SCENARIO_SPILLS},
    {.name = "clone", .job = cloned, .flags = SCENARIO_SPILLS},
    {.name = "node_handles", .job = node_handles, .flags = SCENARIO_SPILLS},
    {.name = "conditional", .job = conditional, .flags = SCENARIO_SPILLS},
    {.name = "capture", .job = capture, .flags = SCENARIO_SPILLS | SCENARIO_UNCOUNTED},
    {.name = "capture_after_work", .job = capture_after_work, .flags = SCENARIO_SPILLS},
    {.name = "capture_by_old_name", .job = capture_by_old_name, .flags = SCENARIO_SPILLS},
    {.name = "capture_beside_global", .job = capture_beside_global, .flags = SCENARIO_SPILLS},
    {.name = "capture_beside_thread_local", .job = capture_beside_thread_local, .flags = SCENARIO_SPILLS},
    {.name = "capture_beside_relaxed", .job = capture_beside_relaxed, .flags = SCENARIO_SPILLS},
    {.name = "capture_joined", .job = capture_joined, .flags = SCENARIO_SPILLS},
    {.name = "larger_than_memory",
     .job = larger_than_memory,
     .flags = SCENARIO_SPILLS,
     .inspect = one_by_one},
};

int main(int argc, char **argv)
{
    return scenarios_main(argc, argv, "graphs", scenarios, sizeof scenarios / sizeof *scenarios, 20);
}
