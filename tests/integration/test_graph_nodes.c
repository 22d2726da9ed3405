/*
 * Nodes of graphs while memory is short: every kind, and the edges between them.
 */
#include "tests/integration/graph_job.h"

/* ---- kinds of nodes ---- */

static void kernels(void)
{
    CUgraphNode first, second;
    CUgraphExec exec;

    start();
    first = kernel_node(graph, NULL, "add", at[0], at[1]);
    second = kernel_node(graph, &first, "add", at[2], at[0]);
    kernel_node(graph, &second, "copy", at[3], at[2]);
    exec = instantiate();
    CU(cuGraphDestroy(graph));
    for (unsigned round = 0; round < 3; round++) {
        job_fill(at[0], WORDS, 0, stream);
        CU(cuMemsetD32Async(at[2], 0, WORDS, stream));
        job_flush();
        CU(cuGraphLaunch(exec, stream));
        CHECK_SUM(at[0], WORDS, 0, 1);
        CHECK_SUM(at[2], WORDS, 0, 1);
        CHECK_SUM(at[3], WORDS, 0, 1);
        CHECK_WORDS(at[1], WORDS, 1);
    }
    CU(cuGraphExecDestroy(exec));
}

/* Parameters in one buffer, and more of it than the kernel has. */
static void packed_parameters(void)
{
    struct {
        CUdeviceptr to, from;
        uint32_t words, more;
    } buffer = {at[0], at[1], WORDS, 99};
    size_t size = sizeof buffer;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    CUDA_KERNEL_NODE_PARAMS node = {.gridDimX = WORDS / 256,
                                    .gridDimY = 1,
                                    .gridDimZ = 1,
                                    .blockDimX = 256,
                                    .blockDimY = 1,
                                    .blockDimZ = 1,
                                    .extra = extra};
    CUgraphNode made;
    CUgraphExec exec;

    start();
    node.func = job_kernel("add");
    buffer.to = at[0];
    buffer.from = at[1];
    CU(cuGraphAddKernelNode(&made, graph, NULL, 0, &node));
    exec = instantiate();
    CU(cuGraphLaunch(exec, stream));
    CHECK_SUM(at[0], WORDS, 0, 1);
    buffer.to = at[2];
    buffer.from = at[3];
    CU(cuGraphExecKernelNodeSetParams(exec, made, &node));
    buffer.from = at[4];
    CU(cuGraphLaunch(exec, stream));
    CHECK_SUM(at[2], WORDS, 2, 3);
    CHECK_SUM(at[0], WORDS, 0, 1);
}

static void memsets(void)
{
    CUDA_MEMSET_NODE_PARAMS set;
    CUgraphNode node;
    CUgraphExec exec;

    start();
    set = plain_set(at[0], 0x5a, 1);
    node = set_node(graph, NULL, &set);
    set = plain_set(at[1], 0x1234, 2);
    node = set_node(graph, &node, &set);
    set = plain_set(at[2], 0x12345678, 4);
    node = set_node(graph, &node, &set);
    /* Three of every four bytes of a row, two of every four halves, one of every two words. */
    set = (CUDA_MEMSET_NODE_PARAMS){
        .dst = at[3], .pitch = 4, .value = 0, .elementSize = 1, .width = 3, .height = 1024};
    node = set_node(graph, &node, &set);
    set.dst = at[4];
    set.pitch = 8;
    set.elementSize = set.width = 2;
    node = set_node(graph, &node, &set);
    set.dst = at[5];
    set.elementSize = 4;
    set.width = 1;
    set_node(graph, &node, &set);
    exec = instantiate();
    for (unsigned i = 0; i < 6; i++)
        CU(cuMemsetD8Async(at[i], 0xee, BYTES, stream));
    job_flush();
    CU(cuGraphLaunch(exec, stream));
    check_bytes(at[0], BYTES, (const unsigned char[]){0x5a}, 1);
    check_bytes(at[1], BYTES, (const unsigned char[]){0x34, 0x12}, 2);
    check_bytes(at[2], BYTES, (const unsigned char[]){0x78, 0x56, 0x34, 0x12}, 4);
    check_bytes(at[3], 4096, (const unsigned char[]){0, 0, 0, 0xee}, 4);
    check_bytes(at[4], 8192, (const unsigned char[]){0, 0, 0, 0, 0xee, 0xee, 0xee, 0xee}, 8);
    check_bytes(at[5], 8192, (const unsigned char[]){0, 0, 0, 0, 0xee, 0xee, 0xee, 0xee}, 8);
    check_bytes(at[3] + 4096, BYTES - 4096, (const unsigned char[]){0xee}, 1);
}

/* Rows and boxes, within the device, to pinned memory and from it, by offsets. */
static void copies(void)
{
    enum { ROW = 1024, ROWS = 512, HALF = ROW / 2 };
    unsigned char *pinned[2];
    CUDA_MEMCPY3D copy;
    CUgraphNode node;
    CUgraphExec exec;

    start();
    for (unsigned i = 0; i < 2; i++)
        CU(cuMemHostAlloc((void **)&pinned[i], BYTES, 0));
    memset(pinned[0], 0x77, BYTES);
    copy = row(at[1], at[0]);
    node = copy_node(graph, NULL, &copy);
    copy = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_HOST,
                           .srcHost = pinned[0],
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = at[2],
                           .dstXInBytes = 4096,
                           .WidthInBytes = BYTES - 4096,
                           .Height = 1,
                           .Depth = 1};
    node = copy_node(graph, &node, &copy);
    copy = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = at[3],
                           .srcXInBytes = 4096,
                           .dstMemoryType = CU_MEMORYTYPE_HOST,
                           .dstHost = pinned[1],
                           .WidthInBytes = BYTES - 4096,
                           .Height = 1,
                           .Depth = 1};
    node = copy_node(graph, &node, &copy);
    /* The left half of each row becomes the right one of the other. */
    copy = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = at[2],
                           .srcY = 16,
                           .srcPitch = ROW,
                           .srcHeight = ROWS,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = at[4],
                           .dstXInBytes = HALF,
                           .dstPitch = ROW,
                           .dstHeight = ROWS,
                           .WidthInBytes = HALF,
                           .Height = ROWS,
                           .Depth = 1};
    copy_node(graph, &node, &copy);
    exec = instantiate();
    CU(cuMemsetD8Async(at[4], 0xee, BYTES, stream));
    job_flush();
    CU(cuGraphLaunch(exec, stream));
    CU(cuStreamSynchronize(stream));
    for (uint32_t i = 0; i < WORDS - 1024; i++)
        REQUIRE(((uint32_t *)pinned[1])[i] == job_word(3, i + 1024), "word %u", i);
    CHECK_WORDS(at[1], WORDS, 0);
    CHECK_WORDS(at[2], 1024, 2);
    check_bytes(at[2] + 4096, BYTES - 4096, (const unsigned char[]){0x77}, 1);
    {
        unsigned char pattern[ROW];

        memset(pattern, 0xee, HALF);
        memset(pattern + HALF, 0x77, HALF);
        check_bytes(at[4], (size_t)ROWS * ROW, pattern, ROW);
    }
    for (unsigned i = 0; i < 2; i++)
        CU(cuMemFreeHost(pinned[i]));
}

struct seen {
    const uint32_t *words;
    unsigned calls;
    bool right;
};

static void CUDA_CB look(void *argument)
{
    struct seen *seen = argument;

    seen->right = ++seen->calls > 0;
    for (uint32_t i = 0; i < 1024; i++)
        seen->right &= seen->words[i] == job_word(0, i) + job_word(1, i);
}

static void CUDA_CB count_only(void *argument)
{
    ++((struct seen *)argument)->calls;
}

/* A host function sees what the nodes before it did, and those behind it come after it. */
static void host_function(void)
{
    struct seen seen = {.calls = 0}, other = {.calls = 0};
    CUDA_HOST_NODE_PARAMS host = {.fn = look, .userData = &seen};
    CUDA_MEMCPY3D copy;
    CUgraphNode node, function, empty;
    CUgraphExec exec;
    uint32_t *pinned;

    start();
    CU(cuMemHostAlloc((void **)&pinned, BYTES, 0));
    seen.words = pinned;
    node = kernel_node(graph, NULL, "add", at[0], at[1]);
    copy = row(0, at[0]);
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = pinned;
    node = copy_node(graph, &node, &copy);
    CU(cuGraphAddHostNode(&function, graph, &node, 1, &host));
    CU(cuGraphAddEmptyNode(&empty, graph, &function, 1));
    kernel_node(graph, &empty, "copy", at[2], at[0]);
    exec = instantiate();
    CU(cuGraphLaunch(exec, stream));
    CU(cuStreamSynchronize(stream));
    REQUIRE(seen.calls == 1 && seen.right);
    CHECK_SUM(at[2], WORDS, 0, 1);
    host = (CUDA_HOST_NODE_PARAMS){.fn = count_only, .userData = &other};
    CU(cuGraphExecHostNodeSetParams(exec, function, &host));
    CU(cuGraphLaunch(exec, stream));
    CU(cuStreamSynchronize(stream));
    REQUIRE(seen.calls == 1 && other.calls == 1);
    CU(cuMemFreeHost(pinned));
}

/* An event that another stream recorded is waited for; one that the graph records stands for it afterwards.
 */
static void events(void)
{
    CUgraphNode wait, node, record;
    CUstream before, after;
    CUevent event[4];
    CUgraphExec exec;

    start();
    CU(cuStreamCreate(&before, CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&after, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < 4; i++)
        CU(cuEventCreate(&event[i], CU_EVENT_DISABLE_TIMING));
    CU(cuGraphAddEventWaitNode(&wait, graph, NULL, 0, event[0]));
    node = kernel_node(graph, &wait, "add", at[0], at[1]);
    CU(cuGraphAddEventRecordNode(&record, graph, &node, 1, event[1]));
    exec = instantiate();
    for (unsigned round = 0; round < 2; round++) {
        job_fill(at[0], WORDS, 0, stream);
        CU(cuStreamSynchronize(stream));
        job_fill_slowly(at[1], 256, 40 + round, before);
        CU(cuEventRecord(event[2 * round], before));
        CU(cuGraphLaunch(exec, stream));
        CU(cuStreamWaitEvent(after, event[2 * round + 1], 0));
        job_copy(at[2 + round], at[0], WORDS, after);
        CU(cuStreamSynchronize(after));
        CHECK_SUM(at[2 + round], 256, 0, 40 + round);
        CU(cuGraphExecEventWaitNodeSetEvent(exec, wait, event[2]));
        CU(cuGraphExecEventRecordNodeSetEvent(exec, record, event[3]));
    }
}

/* A graph that waits for an event it records itself waits for what the event was when it is launched. */
static void own_event(void)
{
    CUgraphNode node, wait;
    CUstream before;
    CUgraphExec exec;
    CUevent event;

    start();
    CU(cuStreamCreate(&before, CU_STREAM_NON_BLOCKING));
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CU(cuGraphAddEventRecordNode(&node, graph, NULL, 0, event));
    CU(cuGraphAddEventWaitNode(&wait, graph, &node, 1, event));
    kernel_node(graph, &wait, "add", at[0], at[1]);
    exec = instantiate();
    job_fill_slowly(at[1], 256, 40, before);
    CU(cuEventRecord(event, before));
    CU(cuGraphLaunch(exec, stream));
    CHECK_SUM(at[0], 256, 0, 40);
}

/* A child in a child, and its nodes changed by name and as a whole. */
static void children(void)
{
    CUgraph inner, middle, inside, other;
    CUgraphNode node, outer, child, copied;
    CUgraphExec exec;
    size_t count = 1;

    start();
    CU(cuGraphCreate(&inner, 0));
    kernel_node(inner, NULL, "add", at[0], at[1]);
    CU(cuGraphCreate(&middle, 0));
    CU(cuGraphAddChildGraphNode(&child, middle, NULL, 0, inner));
    node = kernel_node(graph, NULL, "copy", at[1], at[2]);
    CU(cuGraphAddChildGraphNode(&outer, graph, &node, 1, middle));
    kernel_node(graph, &outer, "copy", at[3], at[0]);
    exec = instantiate();
    CU(cuGraphLaunch(exec, stream));
    CHECK_SUM(at[3], WORDS, 0, 2);

    /* The node is named by the parent's copy of the child. */
    CU(cuGraphChildGraphNodeGetGraph(outer, &inside));
    CU(cuGraphGetNodes(inside, &child, &count));
    CU(cuGraphChildGraphNodeGetGraph(child, &inside));
    CU(cuGraphGetNodes(inside, &copied, &count));
    job_fill(at[0], WORDS, 0, stream);
    set_kernel(exec, copied, "copy", at[0], at[4]);
    CU(cuGraphLaunch(exec, stream));
    CHECK_WORDS(at[3], WORDS, 4);

    CU(cuGraphCreate(&other, 0));
    kernel_node(other, NULL, "copy", at[0], at[5]);
    CU(cuGraphCreate(&middle, 0));
    CU(cuGraphAddChildGraphNode(&child, middle, NULL, 0, other));
    for (unsigned twice = 0; twice < 2; twice++)
        CU(cuGraphExecChildGraphNodeSetParams(exec, outer, middle));
    CU(cuGraphLaunch(exec, stream));
    CHECK_WORDS(at[3], WORDS, 5);
    CU(cuGraphExecDestroy(exec));
}

/* A copy of pageable memory reads it when it runs, which in a stream it would at the call. */
static void pageable(void)
{
    uint32_t *words = malloc(BYTES);
    CUDA_MEMCPY3D copy;
    CUgraphExec exec;

    REQUIRE(words);
    start();
    copy = row(at[0], 0);
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = words;
    copy_node(graph, NULL, &copy);
    exec = instantiate();
    for (uint32_t i = 0; i < WORDS; i++)
        words[i] = job_word(80, i);
    CU(cuGraphLaunch(exec, stream));
    CHECK_WORDS(at[0], WORDS, 80);
    free(words);
}

/*
 * Memory that a copy or memset node is given is spilled, or was never touched; so is what a captured copy is
 * given.
 */
static void operands(void)
{
    CUDA_MEMSET_NODE_PARAMS set;
    CUgraphNode copy, zero;
    CUdeviceptr fresh[2];
    CUDA_MEMCPY3D box;
    CUgraph captured;
    CUgraphExec exec;

    start();
    for (unsigned i = 0; i < 2; i++)
        CU(cuMemAlloc(&fresh[i], BYTES));
    box = row(fresh[0], at[0]);
    copy = copy_node(graph, NULL, &box);
    set = plain_set(fresh[1], 7, 1);
    zero = set_node(graph, &copy, &set);
    exec = instantiate();
    CU(cuGraphLaunch(exec, stream));
    CHECK_WORDS(fresh[0], WORDS, 0);
    check_bytes(fresh[1], BYTES, (const unsigned char[]){7}, 1);
    job_flush();
    box = row(at[1], at[2]);
    CU(cuGraphMemcpyNodeSetParams(copy, &box));
    CU(cuGraphExecMemcpyNodeSetParams(exec, copy, &box, job_context()));
    job_flush();
    set = plain_set(at[3], 9, 1);
    CU(cuGraphMemsetNodeSetParams(zero, &set));
    CU(cuGraphExecMemsetNodeSetParams(exec, zero, &set, job_context()));
    CU(cuGraphLaunch(exec, stream));
    CHECK_WORDS(at[1], WORDS, 2);
    CHECK_WORDS(at[2], WORDS, 2);
    check_bytes(at[3], BYTES, (const unsigned char[]){9}, 1);
    CU(cuGraphExecDestroy(exec));
    job_flush();
    CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CU(cuMemcpyDtoDAsync(at[4], at[5], BYTES, stream));
    CU(cuMemsetD8Async(at[6], 3, BYTES, stream));
    CU(cuStreamEndCapture(stream, &captured));
    CU(cuGraphInstantiateWithFlags(&exec, captured, 0));
    CU(cuGraphLaunch(exec, stream));
    CHECK_WORDS(at[4], WORDS, 5);
    CHECK_WORDS(at[5], WORDS, 5);
    check_bytes(at[6], BYTES, (const unsigned char[]){3}, 1);
    for (unsigned i = 0; i < COUNT; i += 7)
        CHECK_WORDS(at[i], WORDS, i);
}

/* ---- edges ---- */

/* Nodes made in an order in which they must not run, in two branches that join. */
static void branches(void)
{
    CUgraphNode from[5], to[5], join, left, right, root;
    CUgraphExec exec;

    start();
    join = kernel_node(graph, NULL, "add", at[2], at[3]);
    left = kernel_node(graph, NULL, "copy", at[2], at[0]);
    right = kernel_node(graph, NULL, "copy", at[3], at[1]);
    root = kernel_node(graph, NULL, "copy", at[0], at[4]);
    CU(cuGraphAddDependencies(graph, (from[0] = left, from[1] = right, from[2] = root, from[3] = root, from),
                              (to[0] = join, to[1] = join, to[2] = left, to[3] = right, to), NULL, 4));
    exec = instantiate();
    CU(cuGraphLaunch(exec, stream));
    CHECK_SUM(at[2], WORDS, 4, 1);
    CHECK_WORDS(at[3], WORDS, 1);
    CHECK_WORDS(at[0], WORDS, 4);
}

/* An edge by which a kernel may start early is one by which it may start when the other has ended. */
static void programmatic_edge(void)
{
    const CUgraphEdgeData early = {.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
                                   .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
    CUlaunchAttributeValue value = {.cooperative = 1};
    CUgraphNode first, second;
    CUgraphExec exec;

    start();
    second = kernel_node(graph, NULL, "add", at[2], at[0]);
    first = kernel_node(graph, NULL, "copy", at[0], at[1]);
    CU(cuGraphAddDependencies(graph, &first, &second, &early, 1));
    CU(cuGraphKernelNodeSetAttribute(second, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
    exec = instantiate();
    CU(cuGraphLaunch(exec, stream));
    CHECK_SUM(at[2], WORDS, 2, 1);
}

/* The one with an attribute is launched by the function that takes attributes. */
static void with_attributes(const struct outcome *of)
{
    one_by_one(of);
    ck_assert_uint_eq(outcome_calls(of, "cuLaunchKernelEx"), 1);
}

/* A node's priority counts where the graph was instantiated so. */
static void priorities(void)
{
    CUlaunchAttributeValue value = {.priority = -1};
    CUgraphNode node;
    CUgraphExec exec[2];

    start();
    node = kernel_node(graph, NULL, "copy", at[0], at[1]);
    CU(cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    CU(cuGraphInstantiateWithFlags(&exec[0], graph, 0));
    CU(cuGraphInstantiateWithFlags(&exec[1], graph, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY));
    for (unsigned i = 0; i < 2; i++) {
        set_kernel(exec[i], node, "copy", at[2 + i], at[1]);
        CU(cuGraphLaunch(exec[i], stream));
        CHECK_WORDS(at[2 + i], WORDS, 1);
    }
}

/* What kernels on the device may change is not known here. */
static void device_updatable(void)
{
    CUlaunchAttributeValue value = {.deviceUpdatableKernelNode = {.deviceUpdatable = 1}};
    CUgraphNode node;
    CUgraphExec exec;

    start();
    node = kernel_node(graph, NULL, "add", at[0], at[1]);
    CU(cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE, &value));
    exec = instantiate();
    set_kernel(exec, node, "add", at[0], at[2]);
    CU(cuGraphLaunch(exec, stream));
    CHECK_SUM(at[0], WORDS, 0, 2);
}

static const struct scenario scenarios[] = {
    {SINGLY(kernels)},
    {SINGLY(packed_parameters)},
    {SINGLY(memsets)},
    {SINGLY(copies)},
    {.name = "pageable",
     .job = pageable,
     .flags = SCENARIO_SPILLS | SCENARIO_UNCOUNTED,
     .inspect = as_a_whole},
    {SINGLY(operands)},
    {SINGLY(host_function)},
    {SINGLY(events)},
    {.name = "own_event", .job = own_event, .flags = SCENARIO_SPILLS, .inspect = as_a_whole},
    {SINGLY(children)},
    {SINGLY(branches)},
    {.name = "programmatic_edge",
     .job = programmatic_edge,
     .flags = SCENARIO_SPILLS,
     .inspect = with_attributes},
    {.name = "priorities", .job = priorities, .flags = SCENARIO_SPILLS, .inspect = with_attributes},
    {.name = "device_updatable", .job = device_updatable, .flags = SCENARIO_SPILLS, .inspect = as_a_whole},
};

int main(int argc, char **argv)
{
    return scenarios_main(argc, argv, "graph nodes", scenarios, sizeof scenarios / sizeof *scenarios, 20);
}
