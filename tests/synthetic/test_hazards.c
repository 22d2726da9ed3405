/*
 * test_hazards.c - planted hazards of order: two operations that touch the same memory, and nothing says
 * which comes first.
 */
#include "planted.h"

#include <pthread.h>
#include <sched.h>

/* ---- two streams ---- */

static void kernel_and_memset(bool ordered)
{
    OK(launch_increment(p, WORDS / 64, one));
    if (ordered)
        order(one, two);
    OK(cuMemsetD32Async(p, 3, WORDS, two));
}

static void write_after_read(bool ordered)
{
    OK(launch_copy(q, p, WORDS / 64, one));
    if (ordered)
        order(one, two);
    OK(cuMemsetD8Async(p + 100, 3, 1, two));
}

static void two_copies(bool ordered)
{
    OK(cuMemcpyDtoDAsync(q, p, BYTES, one));
    if (ordered)
        order(one, two);
    OK(cuMemcpyDtoHAsync(pinned, q + 4, 8, two));
}

static void pinned_memory_of_two_copies(bool ordered)
{
    OK(cuMemcpyDtoHAsync(pinned, p, BYTES, one));
    if (ordered)
        order(one, two);
    OK(cuMemcpyHtoDAsync(q, pinned + 10, 40, two));
}

static void pinned_memory_of_a_kernel(bool ordered)
{
    OK(launch_increment((CUdeviceptr)(uintptr_t)pinned, 1, one));
    if (ordered)
        order(one, two);
    OK(cuMemcpyHtoDAsync(q, pinned, 40, two));
}

/* "The function will return once the pageable buffer has been copied to the staging memory." */
static void synchronous_copy_returns_early(bool ordered)
{
    uint32_t words[WORDS] = {0};
    OK(cuMemcpyHtoD(p, words, BYTES));
    if (ordered)
        OK(cuCtxSynchronize());
    OK(launch_increment(p, 1, one));
}

/* Two reads need no order; both have to be waited for by who writes. */
static void one_of_two_readers(bool ordered)
{
    OK(launch_copy(q, p, 1, one));
    OK(cuMemcpyDtoHAsync(pinned, p, 256, two));
    if (ordered)
        order(one, two);
    OK(cuMemsetD32Async(p, 3, 64, two));
}

/* What a third stream has seen of the first it passes on. */
static void order_through_a_third_stream(bool ordered)
{
    CUstream three;
    OK(cuStreamCreate(&three, CU_STREAM_NON_BLOCKING));
    OK(launch_increment(p, 1, one));
    order(one, three);
    if (ordered)
        order(three, two);
    OK(launch_increment(p, 1, two));
}

/* A wait is for the record before it, not for what the stream does later. */
static void wait_is_for_the_record_before_it(bool ordered)
{
    OK(cuEventRecord(event, one));
    OK(launch_increment(p, 1, one));
    if (ordered)
        OK(cuEventRecord(event, one));
    OK(cuStreamWaitEvent(two, event, 0));
    OK(launch_increment(p, 1, two));
}

static void legacy_stream(bool ordered)
{
    CUstream blocking;
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(launch_increment(p, 1, ordered ? blocking : one));
    OK(cuMemsetD32Async(p, 3, 64, NULL));
    OK(launch_copy(q, p, 1, ordered ? blocking : two));
}

/* Also of a stream that is gone by then. */
static void legacy_stream_waits_for_a_destroyed_one(bool ordered)
{
    CUstream blocking;
    OK(cuStreamCreate(&blocking, ordered ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
    OK(launch_increment(p, 1, blocking));
    OK(cuStreamDestroy(blocking));
    let_it_run();
    OK(launch_increment(p, 1, NULL));
}

/* ---- the host ---- */

static void host_waits(bool ordered)
{
    OK(launch_increment(p, 1, one));
    OK(cuStreamSynchronize(ordered ? one : two));
    OK(launch_increment(p, 1, two));
}

static void host_asks(bool ordered)
{
    OK(launch_increment(p, 1, one));
    OK(cuEventRecord(event, one));
    if (ordered)
        while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
            sched_yield();
    else
        let_it_run();
    OK(launch_increment(p, 1, two));
}

static pthread_barrier_t called;

static void CUDA_CB call(void *unused)
{
    (void)unused;
    pthread_barrier_wait(&called);
}

static void host_is_called(bool ordered)
{
    pthread_barrier_init(&called, NULL, 2);
    OK(launch_increment(p, 1, one));
    OK(cuLaunchHostFunc(ordered ? one : two, call, NULL));
    pthread_barrier_wait(&called);
    OK(launch_increment(p, 1, two));
}

static void value_in_memory(bool ordered)
{
    OK(cuMemsetD32(q, 0, 1));
    OK(cuCtxSynchronize());
    OK(launch_increment(p, 1, one));
    OK(cuStreamWriteValue32(one, q, 1, 0));
    if (ordered)
        OK(cuStreamWaitValue32(two, q, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(launch_increment(p, 1, two));
}

/* ---- what is touched ---- */

/* Neighbours, down to 32 bytes for kernels (64 lanes write 256 bytes) and 4 for copies. */
static void neighbours(bool apart)
{
    OK(launch_increment(p, 1, one));
    OK(cuMemsetD8Async(p + (apart ? 256 : 255), 1, 4, two));
    OK(cuMemcpyDtoHAsync(pinned, q, 8, one));
    OK(cuMemcpyDtoHAsync(pinned + (apart ? 2 : 1), q, 8, two));
}

/* The memory counts, not its address. */
static void two_addresses_of_one_memory(bool ordered)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    CUmemAllocationProp prop = device_prop();
    OK(cuMemCreate(&handle, PAGE, &prop, 0));
    OK(cuMemAddressReserve(&at, 2 * PAGE, 0, 0, 0));
    OK(cuMemMap(at, PAGE, 0, handle, 0));
    OK(cuMemMap(at + PAGE, PAGE, 0, handle, 0));
    OK(set_access(at, 2 * PAGE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    OK(cuMemsetD32Async(at, 3, WORDS, one));
    if (ordered)
        order(one, two);
    OK(cuMemcpyDtoHAsync(pinned, at + PAGE, BYTES, two));
}

/* ---- graphs ---- */

static CUDA_KERNEL_NODE_PARAMS increment_params(void **params)
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = test_increment,
                                     .gridDimX = 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 64,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = params};
}

static CUgraphNode add_increment(CUgraph graph, const CUgraphNode *deps, size_t count)
{
    void *params[] = {&p};
    CUDA_KERNEL_NODE_PARAMS node_params = increment_params(params);
    CUgraphNode node;
    OK(cuGraphAddKernelNode(&node, graph, deps, count, &node_params));
    return node;
}

static CUgraphNode add_memset(CUgraph graph, const CUgraphNode *deps, size_t count)
{
    CUDA_MEMSET_NODE_PARAMS params = {.dst = p, .value = 1, .elementSize = 4, .width = 64, .height = 1};
    CUgraphNode node;
    OK(cuGraphAddMemsetNode(&node, graph, deps, count, &params, test_context));
    return node;
}

static CUgraphExec instantiate(CUgraph graph)
{
    CUgraphExec exec;
    OK(cuGraphInstantiate(&exec, graph, 0));
    return exec;
}

static void nodes_of_a_graph(bool ordered)
{
    CUgraph graph;
    CUgraphNode nodes[2];
    OK(cuGraphCreate(&graph, 0));
    nodes[0] = add_increment(graph, NULL, 0);
    OK(cuGraphAddEmptyNode(&nodes[1], graph, ordered ? nodes : NULL, ordered));
    add_memset(graph, &nodes[1], 1);
    CUgraphExec exec = instantiate(graph);
    OK(cuGraphLaunch(exec, one));
    OK(cuGraphLaunch(exec, two)); /* comes after the first: an executable graph does not run beside itself */
}

static void node_of_a_child(bool ordered)
{
    CUgraph graph, child;
    CUgraphNode node, inside;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphCreate(&child, 0));
    node = add_increment(child, NULL, 0);
    add_increment(child, &node, 1);
    OK(cuGraphAddChildGraphNode(&inside, graph, NULL, 0, child));
    add_memset(graph, &inside, ordered);
    OK(cuGraphLaunch(instantiate(graph), one));
}

static void graph_and_stream(bool ordered)
{
    CUgraph graph;
    OK(cuGraphCreate(&graph, 0));
    add_increment(graph, NULL, 0);
    OK(cuGraphLaunch(instantiate(graph), one));
    if (ordered)
        order(one, two);
    OK(cuMemsetD32Async(p, 3, WORDS, two));
}

/* ---- the cases ---- */

static const struct plant cases[] = {
    {"kernel and memset", kernel_and_memset, "unordered", "kernel increment", "a memset of 1024 bytes"},
    {"write after read", write_after_read, "unordered", "kernel copy", "a memset of 1 bytes"},
    {"two copies", two_copies, "unordered", "a copy of 1024 bytes", "a copy of 8 bytes"},
    {"pinned memory of two copies", pinned_memory_of_two_copies, "unordered", "a copy of 1024 bytes",
     "a copy of 40 bytes"},
    {"pinned memory of a kernel", pinned_memory_of_a_kernel, "unordered", "kernel increment",
     "a copy of 40 bytes"},
    {"synchronous copy returns early", synchronous_copy_returns_early, "unordered", "a copy of 1024 bytes",
     "kernel increment"},
    {"one of two readers", one_of_two_readers, "unordered", "kernel copy", "a memset of 256 bytes"},
    {"order through a third stream", order_through_a_third_stream, "unordered", "kernel increment",
     "kernel increment"},
    {"wait is for the record before it", wait_is_for_the_record_before_it, "unordered", "kernel increment",
     "kernel increment"},
    {"legacy stream", legacy_stream, "unordered", "kernel ", "nothing orders them"},
    {"legacy stream waits for a destroyed one", legacy_stream_waits_for_a_destroyed_one, "unordered",
     "kernel increment", "kernel increment"},
    {"host waits", host_waits, "unordered", "kernel increment", "kernel increment"},
    {"host asks", host_asks, "unordered", "kernel increment", "kernel increment"},
    {"host is called", host_is_called, "unordered", "kernel increment", "kernel increment"},
    {"value in memory", value_in_memory, "unordered", "kernel increment", "kernel increment"},
    {"neighbours", neighbours, "unordered", "kernel increment", "a memset of 4 bytes"},
    {"two addresses of one memory", two_addresses_of_one_memory, "unordered", "a memset of 1024 bytes",
     "a copy of 1024 bytes"},
    {"nodes of a graph", nodes_of_a_graph, "unordered", "kernel increment", "a memset of 256 bytes"},
    {"node of a child", node_of_a_child, "unordered", "kernel increment", "a memset of 256 bytes"},
    {"graph and stream", graph_and_stream, "unordered", "kernel increment", "a memset of 1024 bytes"},
};

int main(void)
{
    return planted_main("hazards", cases, sizeof(cases) / sizeof(cases[0]));
}
