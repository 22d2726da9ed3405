/*
 * Launches of graphs while memory is short: what changes an executable graph between them, their order, and
 * when a graph goes as a whole.
 */
#include "tests/integration/graph_job.h"

#include <pthread.h>

/* ---- changes ---- */

/* What an earlier launch does is not changed by what is set behind it. */
static void changed_while_running(void)
{
    CUgraphNode slow, node;
    CUgraphExec exec;
    struct slow filler;

    start();
    CU(cuGraphAddKernelNode(&slow, graph, NULL, 0, slow_params(&filler, at[1], 60)));
    node = kernel_node(graph, &slow, "copy", at[2], at[1]);
    exec = instantiate();
    CU(cuGraphLaunch(exec, stream));
    CU(cuGraphExecKernelNodeSetParams(exec, slow, slow_params(&filler, at[1], 61)));
    set_kernel(exec, node, "copy", at[3], at[1]);
    CU(cuGraphLaunch(exec, stream));
    CU(cuGraphExecDestroy(exec));
    CHECK_WORDS(at[2], 256, 60);
    CHECK_WORDS(at[3], 256, 61);
    CHECK_WORDS(at[1], 256, 61);
}

/* Disabled nodes do nothing until they are enabled, whatever is set or updated meanwhile. */
static void disabled(void)
{
    CUgraphExecUpdateResultInfo info;
    CUDA_MEMSET_NODE_PARAMS set;
    CUgraphNode add, copy, zero;
    CUDA_MEMCPY3D box;
    CUgraphExec exec;

    start();
    add = kernel_node(graph, NULL, "add", at[0], at[1]);
    box = row(at[2], at[1]);
    copy = copy_node(graph, &add, &box);
    set = plain_set(at[3], 0, 4);
    zero = set_node(graph, &copy, &set);
    exec = instantiate();
    CU(cuGraphNodeSetEnabled(exec, add, 0));
    CU(cuGraphNodeSetEnabled(exec, copy, 0));
    CU(cuGraphNodeSetEnabled(exec, zero, 0));
    CU(cuGraphLaunch(exec, stream));
    for (unsigned i = 0; i < 4; i++)
        CHECK_WORDS(at[i], WORDS, i);
    set_kernel(exec, add, "add", at[4], at[1]);
    CU(cuGraphExecUpdate(exec, graph, &info));
    CU(cuGraphLaunch(exec, stream));
    for (unsigned i = 0; i < 5; i++)
        CHECK_WORDS(at[i], WORDS, i);
    CU(cuGraphNodeSetEnabled(exec, copy, 1));
    CU(cuGraphLaunch(exec, stream));
    CHECK_WORDS(at[2], WORDS, 1);
    CHECK_WORDS(at[3], WORDS, 3);
    CU(cuGraphNodeSetEnabled(exec, add, 1));
    CU(cuGraphNodeSetEnabled(exec, zero, 1));
    CU(cuGraphLaunch(exec, stream));
    CHECK_SUM(at[0], WORDS, 0, 1);
    check_bytes(at[3], BYTES, (const unsigned char[]){0}, 1);
}

/* Updated from another graph: the nodes are still named by the first. */
static void updated_from_another(void)
{
    CUgraphExecUpdateResultInfo info;
    CUgraphNode node;
    CUgraph other;
    CUgraphExec exec;

    start();
    node = kernel_node(graph, NULL, "add", at[0], at[1]);
    exec = instantiate();
    CU(cuGraphCreate(&other, 0));
    kernel_node(other, NULL, "add", at[2], at[3]);
    CU(cuGraphExecUpdate(exec, other, &info));
    CU(cuGraphDestroy(other));
    CU(cuGraphLaunch(exec, stream));
    CHECK_SUM(at[2], WORDS, 2, 3);
    CHECK_WORDS(at[0], WORDS, 0);
    set_kernel(exec, node, "add", at[4], at[5]);
    CU(cuGraphLaunch(exec, stream));
    CHECK_SUM(at[4], WORDS, 4, 5);
    CHECK_WORDS(at[0], WORDS, 0);
}

static void the_last_as_a_whole(const struct outcome *of)
{
    ck_assert_uint_eq(outcome_number(of->statistics, "graph_launches"), 2);
    ck_assert_uint_eq(outcome_calls(of, "cuGraphLaunch"), 1);
}

/* ---- launches ---- */

/* A launch comes after the one before of the same graph, in whatever stream that was. */
static void follow(bool destroy)
{
    CUstream other, third;
    CUgraphNode slow;
    CUgraphExec exec;
    struct slow filler;

    CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&third, CU_STREAM_NON_BLOCKING));
    CU(cuGraphAddKernelNode(&slow, graph, NULL, 0, slow_params(&filler, at[0], 0)));
    kernel_node(graph, &slow, "add", at[1], at[0]);
    exec = instantiate();
    CU(cuStreamSynchronize(stream));
    CU(cuGraphLaunch(exec, stream));
    if (destroy)
        CU(cuStreamDestroy(stream));
    CU(cuGraphLaunch(exec, other));
    if (destroy)
        CU(cuStreamDestroy(other));
    CU(cuGraphLaunch(exec, third));
    CU(cuStreamSynchronize(third));
    {
        uint32_t found[256];

        CU(cuMemcpyDtoH(found, at[1], sizeof found));
        for (uint32_t i = 0; i < 256; i++)
            REQUIRE(found[i] == job_word(1, i) + 3 * job_word(0, i), "word %u", i);
    }
}

static void streams_in_turn(void)
{
    start();
    follow(false);
}

static void streams_that_go(void)
{
    start();
    follow(true);
}

/* The first launch is a whole one, the second is not; nothing but the graph itself orders them. */
static void whole_then_singly(void)
{
    enum { MORE = 8 };
    CUdeviceptr more[MORE];
    CUstream filling, other[4];
    CUgraphNode slow;
    CUgraphExec exec;
    struct slow filler;

    start_roomy();
    CU(cuStreamCreate(&filling, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < 4; i++)
        CU(cuStreamCreate(&other[i], CU_STREAM_NON_BLOCKING));
    CU(cuGraphAddKernelNode(&slow, graph, NULL, 0, slow_params(&filler, at[0], 70)));
    kernel_node(graph, &slow, "copy", at[1], at[0]);
    exec = instantiate();
    CU(cuStreamSynchronize(stream));
    CU(cuGraphLaunch(exec, stream));
    for (unsigned i = 0; i < MORE; i++) { /* what the graph does not touch has to go */
        CU(cuMemAlloc(&more[i], BYTES));
        job_fill(more[i], WORDS, i, filling);
    }
    for (unsigned i = 0; i < 4; i++) {
        CU(cuGraphExecKernelNodeSetParams(exec, slow, slow_params(&filler, at[0], 71 + i)));
        CU(cuGraphLaunch(exec, other[i]));
    }
    CHECK_WORDS(at[1], 256, 74);
    CHECK_WORDS(at[0], 256, 74);
}

static void the_first_as_a_whole(const struct outcome *of)
{
    ck_assert_uint_eq(outcome_number(of->statistics, "graph_launches"), 5);
    ck_assert_uint_eq(outcome_calls(of, "cuGraphLaunch"), 1);
}

static pthread_barrier_t next, end;

static void *launch_in_own_stream(void *argument)
{
    CUresult (*launch)(CUgraphExec, CUstream);

    *(void **)&launch = job_symbol("cuGraphLaunch_ptsz");
    CU(cuCtxSetCurrent(job_context()));
    REQUIRE(launch(argument, NULL) == CUDA_SUCCESS);
    pthread_barrier_wait(&next);
    pthread_barrier_wait(&end);
    return NULL;
}

/* By threads, each in its own default stream. */
static void threads(void)
{
    CUgraphNode node, last;
    CUgraphExec exec;
    pthread_t thread[COUNT];

    start();
    pthread_barrier_init(&next, NULL, 2);
    pthread_barrier_init(&end, NULL, COUNT - 1);
    node = kernel_node(graph, NULL, "copy", at[0], at[2]);
    last = kernel_node(graph, &node, "add", at[1], at[0]);
    exec = instantiate();
    for (unsigned i = 2; i < COUNT; i++) {
        set_kernel(exec, node, "copy", at[0], at[i]);
        set_kernel(exec, last, "copy", at[1], at[0]);
        pthread_create(&thread[i], NULL, launch_in_own_stream, exec);
        pthread_barrier_wait(&next);
    }
    CHECK_WORDS(at[1], WORDS, COUNT - 1);
    CHECK_WORDS(at[0], WORDS, COUNT - 1);
    pthread_barrier_wait(&end);
    for (unsigned i = 2; i < COUNT; i++)
        pthread_join(thread[i], NULL);
}

/* While everything fits a graph is one launch, and none of its nodes is. */
static void roomy(void)
{
    CUgraphNode node;
    CUgraphExec exec;

    start_roomy();
    node = kernel_node(graph, NULL, "add", at[0], at[1]);
    kernel_node(graph, &node, "copy", at[2], at[0]);
    exec = instantiate();
    CU(cuGraphLaunch(exec, stream));
    CHECK_SUM(at[0], WORDS, 0, 1);
    CHECK_SUM(at[2], WORDS, 0, 1);
}

static void one_launch(const struct outcome *of)
{
    ck_assert_uint_eq(outcome_calls(of, "cuGraphLaunch"), 1);
    ck_assert_uint_eq(outcome_calls(of, "cuLaunchKernel"), COUNT); /* start_roomy's own */
    ck_assert_uint_eq(outcome_number(of->report, "launches"), COUNT + 2);
    ck_assert_uint_eq(outcome_number(of->statistics, "evictions"), 0);
}

/* Memory was never short, but the graph needs more than there is. */
static void larger_than_memory(void)
{
    enum { MANY = 14 };
    CUdeviceptr fresh[MANY];
    CUgraphNode node;
    CUgraphExec exec;

    start_roomy();
    for (unsigned i = 0; i < MANY; i++)
        CU(cuMemAlloc(&fresh[i], BYTES));
    node = kernel_node(graph, NULL, "copy", fresh[0], at[0]);
    for (unsigned i = 1; i < MANY; i++)
        node = kernel_node(graph, &node, "copy", fresh[i], i < COUNT ? at[i] : fresh[i - 1]);
    exec = instantiate();
    CU(cuGraphLaunch(exec, stream));
    for (unsigned i = 0; i < MANY; i++)
        CHECK_WORDS(fresh[i], WORDS, i < COUNT ? i : COUNT - 1);
}

static void one_by_one_in_silence(const struct outcome *of)
{
    one_by_one(of);
    ck_assert_msg(strstr(of->err, "error") == NULL, "%s", of->err);
}

/* A kernel that cannot be had in memory at once: refused before anything of its graph runs. */
static void too_big_a_kernel(void)
{
    CUdeviceptr big[2];
    CUgraphNode node;
    CUgraphExec exec;

    start();
    for (unsigned i = 0; i < 2; i++)
        CU(cuMemAlloc(&big[i], 24 * MIB));
    node = kernel_node(graph, NULL, "add", at[0], at[1]);
    kernel_node(graph, &node, "add", big[0], big[1]);
    exec = instantiate();
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuGraphLaunch(exec, stream));
    CU(cuGraphNodeSetEnabled(exec, node, 1));
    for (unsigned i = 0; i < COUNT; i++)
        CHECK_WORDS(at[i], WORDS, i);
    set_kernel(exec, node, "add", at[2], at[3]);
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuGraphLaunch(exec, stream));
    CHECK_WORDS(at[2], WORDS, 2);
}

static void says_kernel(const struct outcome *of)
{
    ck_assert_msg(strstr(of->err, "add of a graph needs") != NULL, "%s", of->err);
    ck_assert_msg(strstr(of->err, "HBMSPILL_HBM_LIMIT") != NULL, "%s", of->err);
    ck_assert_uint_eq(outcome_calls(of, "cuGraphLaunch"), 0);
}

/* A graph that goes only as a whole and does not fit. */
static void too_big_a_whole(void)
{
    enum { MANY = 14 };
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    CUgraphConditionalHandle handle;
    CUdeviceptr more[MANY];
    CUgraphNode node;
    CUgraphExec exec;

    start();
    for (unsigned i = 0; i < MANY; i++) {
        CU(cuMemAlloc(&more[i], BYTES));
        job_fill(more[i], WORDS, i, stream);
    }
    CU(cuGraphConditionalHandleCreate(&handle, graph, job_context(), 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
    params.conditional = (CUDA_CONDITIONAL_NODE_PARAMS){
        .handle = handle, .type = CU_GRAPH_COND_TYPE_IF, .size = 1, .ctx = job_context()};
    CU(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params));
    for (unsigned i = 0; i + 1 < MANY; i++)
        kernel_node(params.conditional.phGraph_out[0], NULL, "add", more[i], more[i + 1]);
    exec = instantiate();
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuGraphLaunch(exec, stream));
    CU(cuGraphExecDestroy(exec));
    CU(cuGraphDestroy(graph));
    for (unsigned i = 0; i < MANY; i++)
        CHECK_WORDS(more[i], WORDS, i);
    for (unsigned i = 0; i < COUNT; i++)
        CHECK_WORDS(at[i], WORDS, i);
}

static void says_graph(const struct outcome *of)
{
    ck_assert_msg(strstr(of->err, "a graph needs") != NULL, "%s", of->err);
    ck_assert_msg(strstr(of->err, "HBMSPILL_HBM_LIMIT") != NULL, "%s", of->err);
}

/* The driver does not say what is in the graph. */
static void unreadable(void)
{
    CUgraphNode node;
    CUgraphExec exec;

    start();
    node = kernel_node(graph, NULL, "add", at[0], at[1]);
    kernel_node(graph, &node, "copy", at[2], at[0]);
    exec = instantiate();
    set_kernel(exec, node, "add", at[3], at[1]);
    CU(cuGraphLaunch(exec, stream));
    CHECK_SUM(at[3], WORDS, 3, 1);
    CHECK_WORDS(at[2], WORDS, 0);
}

/* The third of a graph's kernels fails: what was done cannot be taken back, and every call says so. */
static void fails_halfway(void)
{
    CUgraphNode node;
    CUgraphExec exec;
    CUresult status;

    start();
    node = kernel_node(graph, NULL, "add", at[0], at[1]);
    node = kernel_node(graph, &node, "add", at[2], at[1]);
    kernel_node(graph, &node, "add", at[3], at[1]);
    exec = instantiate();
    EXPECT(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, cuGraphLaunch(exec, stream));
    EXPECT(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, cuStreamSynchronize(stream));
    status = cuda.cuGraphLaunch(exec, stream);
    REQUIRE(status == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "%s", job_error_name(status));
    exit(0);
}

static const struct scenario scenarios[] = {
    {SINGLY(changed_while_running)},
    {SINGLY(disabled)},
    {.name = "updated_from_another",
     .job = updated_from_another,
     .flags = SCENARIO_SPILLS,
     .inspect = the_last_as_a_whole},
    {SINGLY(streams_in_turn)},
    {SINGLY(streams_that_go)},
    {.name = "whole_then_singly",
     .job = whole_then_singly,
     .flags = SCENARIO_SPILLS,
     .inspect = the_first_as_a_whole},
    {SINGLY(threads)},
    {.name = "roomy", .job = roomy, .inspect = one_launch},
    {.name = "larger_than_memory",
     .job = larger_than_memory,
     .flags = SCENARIO_SPILLS,
     .inspect = one_by_one_in_silence},
    {.name = "too_big_a_kernel",
     .job = too_big_a_kernel,
     .variables = "SYNTHETIC_GPU_HOST_VMM=off",
     .flags = SCENARIO_SPILLS | SCENARIO_NOT_NATIVE,
     .inspect = says_kernel},
    {.name = "too_big_a_whole",
     .job = too_big_a_whole,
     .variables = "SYNTHETIC_GPU_HOST_VMM=off",
     .flags = SCENARIO_SPILLS | SCENARIO_NOT_NATIVE,
     .inspect = says_graph},
#define UNREADABLE(function)                                                                                 \
    {                                                                                                        \
        .name = "unreadable", .job = unreadable, .flags = SCENARIO_SPILLS | SCENARIO_NOT_NATIVE,             \
        .variables = "SYNTHETIC_GPU_FAULT=" #function ":1:UNKNOWN", .inspect = as_a_whole                    \
    }
    UNREADABLE(cuGraphGetNodes),
    UNREADABLE(cuGraphGetEdges_v2),
    UNREADABLE(cuGraphNodeGetType),
    UNREADABLE(cuGraphKernelNodeGetParams_v2),
    {.name = "fails_halfway",
     .job = fails_halfway,
     .flags = SCENARIO_SPILLS | SCENARIO_NOT_NATIVE,
     .variables = "HBMSPILL_WINDOW=off SYNTHETIC_GPU_FAULT=cuLaunchKernel:11:LAUNCH_OUT_OF_RESOURCES"},
};

int main(int argc, char **argv)
{
    return scenarios_main(argc, argv, "graph launches", scenarios, sizeof scenarios / sizeof *scenarios, 20);
}
