/*
 * test_graph.c - graphs and stream capture, under every schedule.
 */
#include "test_gpu.h"

#include <pthread.h>

#define WORDS 256

static CUstream stream;
static CUdeviceptr p, q;

static void start(const char *schedule)
{
    gpu_start(schedule, 64);
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&p, WORDS * 4));
    OK(cuMemAlloc(&q, WORDS * 4));
    OK(cuMemsetD32(p, 0, WORDS));
    OK(cuMemsetD32(q, 0, WORDS));
    OK(cuCtxSynchronize());
}

static CUDA_KERNEL_NODE_PARAMS increment_params(void **params)
{
    CUDA_KERNEL_NODE_PARAMS node = {.func = test_increment,
                                    .gridDimX = WORDS / 64,
                                    .gridDimY = 1,
                                    .gridDimZ = 1,
                                    .blockDimX = 64,
                                    .blockDimY = 1,
                                    .blockDimZ = 1,
                                    .kernelParams = params};
    return node;
}

static CUgraphNode add_increment(CUgraph graph, CUdeviceptr *at, const CUgraphNode *deps, size_t count)
{
    void *params[] = {at};
    CUDA_KERNEL_NODE_PARAMS node_params = increment_params(params);
    CUgraphNode node;
    OK(cuGraphAddKernelNode(&node, graph, deps, count, &node_params));
    return node;
}

static CUgraphNode add_copy(CUgraph graph, CUdeviceptr dst, CUdeviceptr src, const CUgraphNode *deps,
                            size_t count)
{
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = src,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = dst,
                          .WidthInBytes = WORDS * 4,
                          .Height = 1,
                          .Depth = 1};
    CUgraphNode node;
    OK(cuGraphAddMemcpyNode(&node, graph, deps, count, &copy, test_context));
    return node;
}

static CUgraphNode add_memset(CUgraph graph, CUdeviceptr dst, unsigned value, const CUgraphNode *deps,
                              size_t count)
{
    CUDA_MEMSET_NODE_PARAMS params = {
        .dst = dst, .value = value, .elementSize = 4, .width = WORDS, .height = 1};
    CUgraphNode node;
    OK(cuGraphAddMemsetNode(&node, graph, deps, count, &params, test_context));
    return node;
}

static int host_calls;

static void CUDA_CB count_call(void *data)
{
    host_calls += *(int *)data;
}

START_TEST(nodes_run_in_dependency_order)
{
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode nodes[5];
    int two = 2;
    CUDA_HOST_NODE_PARAMS host = {.fn = count_call, .userData = &two};
    host_calls = 0;
    start(schedules[_i]);
    OK(cuGraphCreate(&graph, 0));
    nodes[0] = add_memset(graph, p, 40, NULL, 0);
    nodes[1] = add_increment(graph, &p, &nodes[0], 1);
    OK(cuGraphAddEmptyNode(&nodes[2], graph, &nodes[1], 1));
    nodes[3] = add_copy(graph, q, p, &nodes[2], 1);
    OK(cuGraphAddHostNode(&nodes[4], graph, &nodes[3], 1, &host));
    add_increment(graph, &q, &nodes[4], 1);
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    for (int i = 0; i < 10; i++)
        OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    ck_assert_uint_eq(read_word(p), 41);
    ck_assert_uint_eq(read_word(q + 4 * (WORDS - 1)), 42);
    ck_assert_int_eq(host_calls, 20);
    OK(cuGraphExecDestroy(exec));
    FAILS(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(structure_is_told)
{
    CUgraph graph, clone;
    CUgraphNode a, b, c, nodes[8], from[8], to[8], found;
    CUgraphNodeType type;
    size_t count;
    start("eager");
    OK(cuGraphCreate(&graph, 0));
    a = add_memset(graph, p, 1, NULL, 0);
    b = add_increment(graph, &p, &a, 1);
    c = add_increment(graph, &q, NULL, 0);
    OK(cuGraphAddDependencies(graph, &b, &c, NULL, 1));
    FAILS(cuGraphAddDependencies(graph, &b, &c, NULL, 1), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuGraphAddDependencies(graph, &c, &a, NULL, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphGetNodes(graph, NULL, &count));
    ck_assert_uint_eq(count, 3);
    count = 8;
    OK(cuGraphGetNodes(graph, nodes, &count));
    ck_assert_ptr_eq(nodes[1], b);
    ck_assert_ptr_null(nodes[3]);
    count = 8;
    OK(cuGraphGetRootNodes(graph, nodes, &count));
    ck_assert_uint_eq(count, 1);
    ck_assert_ptr_eq(nodes[0], a);
    count = 8;
    OK(cuGraphGetEdges(graph, from, to, NULL, &count));
    ck_assert_uint_eq(count, 2);
    ck_assert_ptr_eq(from[1], b);
    ck_assert_ptr_eq(to[1], c);
    count = 8;
    OK(cuGraphNodeGetDependencies(b, nodes, NULL, &count));
    ck_assert_uint_eq(count, 1);
    ck_assert_ptr_eq(nodes[0], a);
    count = 8;
    OK(cuGraphNodeGetDependentNodes(b, nodes, NULL, &count));
    ck_assert_uint_eq(count, 1);
    ck_assert_ptr_eq(nodes[0], c);
    OK(cuGraphNodeGetType(a, &type));
    ck_assert_int_eq(type, CU_GRAPH_NODE_TYPE_MEMSET);
    OK(cuGraphClone(&clone, graph));
    OK(cuGraphNodeFindInClone(&found, c, clone));
    ck_assert_ptr_ne(found, c);
    OK(cuGraphRemoveDependencies(graph, &b, &c, NULL, 1));
    OK(cuGraphDestroyNode(b));
    OK(cuGraphGetNodes(graph, NULL, &count));
    ck_assert_uint_eq(count, 2);
    CUDA_KERNEL_NODE_PARAMS params;
    OK(cuGraphKernelNodeGetParams(c, &params));
    ck_assert_uint_eq(*(CUdeviceptr *)params.kernelParams[0], q);
    FAILS(cuGraphKernelNodeGetParams(a, &params), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphDestroy(graph));
    FAILS(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

/* A launch that is under way keeps the parameters it was launched with. */
START_TEST(update_concerns_later_launches_only)
{
    CUgraph graph;
    CUgraphExec exec;
    start(schedules[_i]);
    OK(cuGraphCreate(&graph, 0));
    CUgraphNode node = add_increment(graph, &p, NULL, 0);
    OK(cuGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 10; i++) {
        CUdeviceptr target = i % 2 ? p : q;
        void *params[] = {&target};
        CUDA_KERNEL_NODE_PARAMS node_params = increment_params(params);
        OK(cuGraphLaunch(exec, stream));
        OK(cuGraphExecKernelNodeSetParams(exec, node, &node_params));
    }
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    ck_assert_uint_eq(read_word(p), 6);
    ck_assert_uint_eq(read_word(q), 5);
}
END_TEST

START_TEST(whole_graph_update)
{
    CUgraph graph, same, longer;
    CUgraphExec exec;
    CUgraphExecUpdateResultInfo info;
    start(schedules[_i]);
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphCreate(&same, 0));
    OK(cuGraphCreate(&longer, 0));
    add_memset(graph, p, 1, NULL, 0);
    add_memset(same, p, 2, NULL, 0);
    add_memset(longer, p, 3, NULL, 0);
    add_memset(longer, p, 3, NULL, 0);
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphExecUpdate(exec, same, &info));
    FAILS(cuGraphExecUpdate(exec, longer, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    ck_assert_int_eq(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    ck_assert_uint_eq(read_word(p), 2);
}
END_TEST

START_TEST(disabled_node_does_nothing)
{
    CUgraph graph;
    CUgraphExec exec;
    unsigned enabled;
    start(schedules[_i]);
    OK(cuGraphCreate(&graph, 0));
    CUgraphNode one = add_increment(graph, &p, NULL, 0);
    add_increment(graph, &p, &one, 1);
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphNodeSetEnabled(exec, one, 0));
    OK(cuGraphNodeGetEnabled(exec, one, &enabled));
    ck_assert_uint_eq(enabled, 0);
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    ck_assert_uint_eq(read_word(p), 1);
}
END_TEST

START_TEST(child_graph_runs_inside)
{
    CUgraph graph, child, inside;
    CUgraphExec exec;
    CUgraphNode a, b;
    start(schedules[_i]);
    OK(cuGraphCreate(&child, 0));
    a = add_increment(child, &p, NULL, 0);
    add_increment(child, &p, &a, 1);
    OK(cuGraphCreate(&graph, 0));
    a = add_memset(graph, p, 5, NULL, 0);
    OK(cuGraphAddChildGraphNode(&b, graph, &a, 1, child));
    OK(cuGraphChildGraphNodeGetGraph(b, &inside));
    ck_assert_ptr_ne(inside, child);
    FAILS(cuGraphDestroy(inside), CUDA_ERROR_INVALID_VALUE);
    add_copy(graph, q, p, &b, 1);
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    ck_assert_uint_eq(read_word(q), 7);
}
END_TEST

/* Sets a conditional handle to p[0] < limit, after p was incremented. */
static const char set_condition[] =
    ".version 8.3\n"
    ".target sm_75\n"
    ".address_size 64\n"
    ".extern .func cudaGraphSetConditional\n"
    "(\n"
    "  .param .b64 cudaGraphSetConditional_param_0,\n"
    "  .param .b32 cudaGraphSetConditional_param_1\n"
    ")\n"
    ";\n"
    ".visible .entry below(.param .u64 handle, .param .u64 p, .param .u32 limit)\n"
    "{\n"
    "  .reg .pred %p<2>;\n"
    "  .reg .b32 %r<5>;\n"
    "  .reg .b64 %rd<4>;\n"
    "  ld.param.u64 %rd1, [handle];\n"
    "  ld.param.u64 %rd2, [p];\n"
    "  ld.param.u32 %r1, [limit];\n"
    "  ld.global.u32 %r2, [%rd2];\n"
    "  setp.lt.u32 %p1, %r2, %r1;\n"
    "  selp.b32 %r3, 1, 0, %p1;\n"
    "  { // callseq 0, 0\n"
    "  .reg .b32 temp_param_reg;\n"
    "  .param .b64 param0;\n"
    "  st.param.b64 [param0+0], %rd1;\n"
    "  .param .b32 param1;\n"
    "  st.param.b32 [param1+0], %r3;\n"
    "  call.uni\n"
    "  cudaGraphSetConditional,\n"
    "  (\n"
    "  param0,\n"
    "  param1\n"
    "  );\n"
    "  } // callseq 0\n"
    "  ret;\n"
    "}\n";

static CUgraphNode add_condition(CUgraph graph, CUgraphConditionalHandle handle, CUdeviceptr at,
                                 unsigned limit, const CUgraphNode *deps, size_t count)
{
    static CUmodule module;
    CUfunction function;
    void *params[] = {&handle, &at, &limit};
    CUgraphNode node;
    if (!module)
        OK(cuModuleLoadData(&module, set_condition));
    OK(cuModuleGetFunction(&function, module, "below"));
    CUDA_KERNEL_NODE_PARAMS node_params = increment_params(params);
    node_params.func = function;
    node_params.gridDimX = node_params.blockDimX = 1;
    OK(cuGraphAddKernelNode(&node, graph, deps, count, &node_params));
    return node;
}

static CUgraphNode add_conditional(CUgraph graph, CUgraphConditionalHandle handle,
                                   CUgraphConditionalNodeType type, unsigned size, const CUgraphNode *deps,
                                   size_t count, CUgraph *bodies)
{
    CUgraphNodeParams params = {
        .type = CU_GRAPH_NODE_TYPE_CONDITIONAL,
        .conditional = {.handle = handle, .type = type, .size = size, .ctx = test_context}};
    CUgraphNode node;
    OK(cuGraphAddNode(&node, graph, deps, NULL, count, &params));
    memcpy(bodies, params.conditional.phGraph_out, size * sizeof(CUgraph));
    return node;
}

START_TEST(while_node_repeats_its_body)
{
    CUgraph graph, body;
    CUgraphExec exec;
    CUgraphConditionalHandle handle;
    start(schedules[_i]);
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphConditionalHandleCreate(&handle, graph, test_context, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
    CUgraphNode first = add_memset(graph, p, 3, NULL, 0);
    CUgraphNode loop = add_conditional(graph, handle, CU_GRAPH_COND_TYPE_WHILE, 1, &first, 1, &body);
    CUgraphNode node = add_increment(body, &p, NULL, 0);
    node = add_increment(body, &q, &node, 1);
    add_condition(body, handle, p, 20, &node, 1);
    add_increment(graph, &p, &loop, 1);
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    ck_assert_uint_eq(read_word(p), 21);
    ck_assert_uint_eq(read_word(q), 17);
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    ck_assert_uint_eq(read_word(q), 34);
}
END_TEST

START_TEST(if_and_switch_choose_a_body)
{
    CUgraph graph, bodies[3], choice[2];
    CUgraphExec exec;
    CUgraphConditionalHandle handle, one;
    start(schedules[_i]);
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphConditionalHandleCreate(&handle, graph, test_context, 0, CU_GRAPH_COND_ASSIGN_DEFAULT));
    OK(cuGraphConditionalHandleCreate(&one, graph, test_context, 2, CU_GRAPH_COND_ASSIGN_DEFAULT));
    CUgraphNode node = add_increment(graph, &p, NULL, 0);
    node = add_condition(graph, handle, p, 3, &node, 1);
    add_conditional(graph, handle, CU_GRAPH_COND_TYPE_IF, 2, &node, 1, choice);
    add_memset(choice[0], q, 111, NULL, 0);
    add_memset(choice[1], q, 222, NULL, 0);
    add_conditional(graph, one, CU_GRAPH_COND_TYPE_SWITCH, 3, NULL, 0, bodies);
    CUdeviceptr untouched;
    OK(cuMemAlloc(&untouched, WORDS * 4));
    OK(cuMemsetD32(untouched, 5, WORDS));
    add_memset(bodies[0], untouched, 1, NULL, 0);
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    ck_assert_uint_eq(read_word(q), 111);
    OK(cuGraphLaunch(exec, stream));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    ck_assert_uint_eq(read_word(q), 222);
    ck_assert_uint_eq(read_word(untouched), 5); /* body 2 of the switch is empty */
}
END_TEST

START_TEST(events_in_a_graph)
{
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode wait, node;
    CUevent before, after;
    CUstream other;
    start(schedules[_i]);
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&before, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&after, CU_EVENT_DISABLE_TIMING));
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddEventWaitNode(&wait, graph, NULL, 0, before));
    node = add_increment(graph, &p, &wait, 1);
    OK(cuGraphAddEventRecordNode(&node, graph, &node, 1, after));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuMemsetD32Async(p, 9, WORDS, other));
    OK(cuEventRecord(before, other));
    OK(cuGraphLaunch(exec, stream));
    OK(cuEventSynchronize(after));
    ck_assert_uint_eq(read_word(p), 10);
}
END_TEST

/* ---- capture ---- */

START_TEST(captured_work_runs_when_launched)
{
    CUgraph graph;
    CUgraphExec exec;
    CUstreamCaptureStatus status;
    cuuint64_t id = 0;
    size_t count;
    start(schedules[_i]);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(cuMemsetD32Async(p, 30, WORDS, stream));
    OK(launch_increment(p, WORDS / 64, stream));
    OK(cuMemcpyDtoDAsync(q, p, WORDS * 4, stream));
    OK(cuStreamGetCaptureInfo(stream, &status, &id, NULL, NULL, NULL, &count));
    ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    ck_assert_uint_eq(count, 1);
    ck_assert_uint_ne(id, 0);
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuStreamIsCapturing(stream, &status));
    ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuCtxSynchronize());
    ck_assert_uint_eq(read_word(q), 0);
    OK(cuGraphGetNodes(graph, NULL, &count));
    ck_assert_uint_eq(count, 3);
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    ck_assert_uint_eq(read_word(q), 31);
}
END_TEST

START_TEST(fork_and_join_are_captured)
{
    CUgraph graph;
    CUgraphExec exec;
    CUstream other;
    CUevent fork_event, join;
    size_t count;
    start(schedules[_i]);
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&fork_event, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemsetD32Async(p, 1, WORDS, stream));
    OK(cuEventRecord(fork_event, stream));
    OK(cuStreamWaitEvent(other, fork_event, 0));
    FAILS(cuEventQuery(fork_event), CUDA_ERROR_CAPTURED_EVENT);
    OK(launch_copy(q, p, WORDS / 64, other));
    OK(launch_increment(q, WORDS / 64, other));
    OK(cuEventRecord(join, other));
    OK(cuStreamWaitEvent(stream, join, 0));
    OK(launch_copy(p, q, WORDS / 64, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphGetEdges(graph, NULL, NULL, NULL, &count));
    ck_assert_uint_eq(count, 4);
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    ck_assert_uint_eq(read_word(p), 2);
}
END_TEST

START_TEST(unjoined_stream_spoils_a_capture)
{
    CUgraph graph = (CUgraph)(uintptr_t)1;
    CUstream other;
    CUevent event;
    CUstreamCaptureStatus status;
    start("eager");
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecord(event, stream));
    OK(cuStreamWaitEvent(other, event, 0));
    OK(launch_increment(p, 1, other));
    FAILS(cuStreamEndCapture(other, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    FAILS(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    ck_assert_ptr_null(graph);
    OK(cuStreamIsCapturing(other, &status));
    ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_NONE);
}
END_TEST

START_TEST(forbidden_calls_spoil_a_capture)
{
    CUgraph graph;
    CUstream blocking;
    CUdeviceptr more;
    CUstreamCaptureStatus status;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    static char pageable[WORDS * 4];
    start("eager");
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    FAILS(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    FAILS(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    FAILS(cuMemAlloc(&more, 16), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    OK(cuStreamIsCapturing(stream, &status));
    ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    FAILS(launch_increment(p, 1, stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    FAILS(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    FAILS(cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    ck_assert_int_eq(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cuMemAlloc(&more, 16));
    FAILS(cuMemcpyHtoDAsync(p, pageable, 16, stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    FAILS(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    FAILS(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    OK(cuStreamCreate(&blocking, 0));
    OK(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    FAILS(launch_increment(p, 1, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    FAILS(cuStreamEndCapture(blocking, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}
END_TEST

START_TEST(capture_into_a_graph)
{
    CUgraph graph, same;
    CUgraphExec exec;
    start(schedules[_i]);
    OK(cuGraphCreate(&graph, 0));
    CUgraphNode first = add_memset(graph, p, 50, NULL, 0);
    OK(cuStreamBeginCaptureToGraph(stream, graph, &first, NULL, 1, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(launch_increment(p, WORDS / 64, stream));
    OK(cuStreamEndCapture(stream, &same));
    ck_assert_ptr_eq(same, graph);
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    ck_assert_uint_eq(read_word(p), 51);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("graph");
    TCase *tc = tcase_create("graphs");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, nodes_run_in_dependency_order, 0, SCHEDULES);
    tcase_add_test(tc, structure_is_told);
    tcase_add_loop_test(tc, update_concerns_later_launches_only, 0, SCHEDULES);
    tcase_add_loop_test(tc, whole_graph_update, 0, SCHEDULES);
    tcase_add_loop_test(tc, disabled_node_does_nothing, 0, SCHEDULES);
    tcase_add_loop_test(tc, child_graph_runs_inside, 0, SCHEDULES);
    tcase_add_loop_test(tc, while_node_repeats_its_body, 0, SCHEDULES);
    tcase_add_loop_test(tc, if_and_switch_choose_a_body, 0, SCHEDULES);
    tcase_add_loop_test(tc, events_in_a_graph, 0, SCHEDULES);
    suite_add_tcase(suite, tc);
    tc = tcase_create("capture");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, captured_work_runs_when_launched, 0, SCHEDULES);
    tcase_add_loop_test(tc, fork_and_join_are_captured, 0, SCHEDULES);
    tcase_add_test(tc, unjoined_stream_spoils_a_capture);
    tcase_add_test(tc, forbidden_calls_spoil_a_capture);
    tcase_add_loop_test(tc, capture_into_a_graph, 0, SCHEDULES);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
