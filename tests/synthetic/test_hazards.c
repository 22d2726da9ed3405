/*
 * test_hazards.c - planted hazards: each is found under every schedule, also where this run happens to go
 * well, and is told with both operations; and each has a twin with the order that was missing, in which
 * nothing is found.
 */
#include "test_gpu.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#define WORDS 256
#define BYTES (WORDS * 4)

static CUstream one, two;
static CUdeviceptr p, q;
static CUevent event;
static uint32_t *pinned;

static void start(void)
{
    OK(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuMemAlloc(&p, BYTES));
    OK(cuMemAlloc(&q, BYTES));
    OK(cuMemHostAlloc((void **)&pinned, BYTES, 0));
    OK(cuMemsetD32(p, 0, WORDS));
    OK(cuMemsetD32(q, 0, WORDS));
    OK(cuCtxSynchronize());
}

static void order(CUstream first, CUstream second)
{
    OK(cuEventRecord(event, first));
    OK(cuStreamWaitEvent(second, event, 0));
}

/* Most likely it has run by then; but nobody has said so. */
static void let_it_run(void)
{
    usleep(100000);
}

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

/* ---- memory that is taken away, or comes too late ---- */

static CUdeviceptr mapping(void)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    CUmemAllocationProp prop = device_prop();
    OK(cuMemCreate(&handle, PAGE, &prop, 0));
    OK(cuMemAddressReserve(&at, PAGE, 0, 0, 0));
    OK(cuMemMap(at, PAGE, 0, handle, 0));
    OK(set_access(at, PAGE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    OK(cuMemRelease(handle));
    return at;
}

static void unmapped(bool known)
{
    CUdeviceptr at = mapping();
    OK(cuMemsetD32Async(at, 3, WORDS, one));
    if (known)
        OK(cuStreamSynchronize(one));
    else
        let_it_run();
    OK(cuMemUnmap(at, PAGE));
}

static void made_inaccessible(bool known)
{
    CUdeviceptr at = mapping();
    OK(cuMemsetD32Async(at, 3, WORDS, one));
    if (known)
        OK(cuStreamSynchronize(one));
    else
        let_it_run();
    OK(set_access(at, PAGE, CU_MEM_ACCESS_FLAGS_PROT_NONE));
}

static void freed_by_the_host(bool known)
{
    CUdeviceptr at;
    OK(cuMemAllocAsync(&at, BYTES, one));
    OK(cuMemsetD32Async(at, 3, WORDS, one));
    if (known)
        OK(cuStreamSynchronize(one));
    else
        let_it_run();
    OK(cuMemFree(at));
}

static void freed_by_another_stream(bool ordered)
{
    CUdeviceptr at;
    OK(cuMemAllocAsync(&at, BYTES, one));
    OK(cuMemsetD32Async(at, 3, WORDS, one));
    if (ordered)
        order(one, two);
    OK(cuMemFreeAsync(at, two));
}

/* Memory of a pool goes to another stream when its free has been reached, without anybody waiting for that.
 */
static void used_after_the_free(bool anew)
{
    CUdeviceptr at, again;
    OK(cuMemAllocAsync(&at, BYTES, one));
    OK(cuMemsetD32Async(at, 3, WORDS, one));
    OK(cuMemFreeAsync(at, one));
    let_it_run();
    if (anew)
        OK(cuMemAllocAsync(&again, BYTES, two));
    OK(launch_copy(anew ? again : at, p, WORDS / 64, two));
}

static void mapped_late(bool in_time)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at = mapping(), flag = q;
    CUmemAllocationProp prop = device_prop();
    OK(cuMemsetD32(flag, 0, 1));
    OK(cuMemUnmap(at, PAGE));
    OK(cuCtxSynchronize());
    OK(cuStreamWaitValue32(one, flag, 1, CU_STREAM_WAIT_VALUE_EQ)); /* so that it goes well this time */
    if (!in_time)
        OK(launch_copy(at, p, 1, one));
    OK(cuMemCreate(&handle, PAGE, &prop, 0));
    OK(cuMemMap(at, PAGE, 0, handle, 0));
    OK(set_access(at, PAGE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    if (in_time)
        OK(launch_copy(at, p, 1, one));
    OK(cuStreamWriteValue32(two, flag, 1, 0));
}

/* ---- memory that nobody has written ---- */

/* All in one stream: launch_increment reads and writes 256 bytes. */

static void new_memory(bool written)
{
    CUdeviceptr at = mapping();
    OK(cuMemsetD32Async(at, 3, written ? 64 : 63, one));
    OK(launch_increment(at, 1, one));
    OK(launch_copy(at + 1024, p, 1, one)); /* a kernel's stores count */
    OK(launch_increment(at + 1024, 1, one));
}

/* Freed memory of a pool is nobody's, whoever gets it. */
static void memory_used_again(bool written)
{
    CUdeviceptr at, again;
    OK(cuMemAllocAsync(&at, BYTES, one));
    OK(cuMemsetD32Async(at, 3, WORDS, one));
    OK(cuMemFreeAsync(at, one));
    OK(cuMemAllocAsync(&again, BYTES, one));
    ck_assert_uint_eq(again, at);
    if (written)
        OK(cuMemcpyDtoDAsync(again, p, 256, one));
    OK(launch_increment(again, 1, one));
}

/* A copy of what is undefined is nothing wrong; to use the copy is. */
static void copied_on_the_device(bool only_what_was_written)
{
    CUdeviceptr at = mapping();
    OK(cuMemsetD32Async(at + 300, 3, 64, one));
    OK(cuMemcpyDtoDAsync(at + PAGE / 2, at, 1000, one));
    OK(launch_increment(at + PAGE / 2 + (only_what_was_written ? 300 : 296), 1, one));
}

static void copied_through_pinned_memory(bool only_what_was_written)
{
    CUdeviceptr at = mapping();
    OK(cuMemsetD32Async(at + 20, 3, 64, one));
    OK(cuMemcpyDtoHAsync(pinned + 1, at + 4, 600, one));
    OK(cuMemcpyHtoDAsync(at + PAGE / 2, pinned + 1, 600, one));
    OK(launch_increment(at + PAGE / 2 + (only_what_was_written ? 16 : 20), 1, one));
}

/* What the CPU has written in between counts, though nobody sees it. */
static void written_by_the_cpu(bool written)
{
    CUdeviceptr at = mapping();
    OK(cuMemcpyDtoHAsync(pinned, at, 256, one));
    OK(cuStreamSynchronize(one));
    memset(pinned, 0, written ? 256 : 252);
    OK(cuMemcpyHtoDAsync(at + PAGE / 2, pinned, 256, one));
    OK(launch_increment(at + PAGE / 2, 1, one));
}

static void read_where_it_is_pinned(bool written)
{
    CUdeviceptr at = mapping();
    OK(cuMemcpyDtoHAsync(pinned, written ? p : at, 256, one));
    OK(launch_increment((CUdeviceptr)(uintptr_t)pinned, 1, one));
}

/* Frames of the host that the CPU may write. */
static void memory_of_the_host(bool written)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0}};
    CUmemAccessDesc desc[2] = {
        {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
        {.location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA}, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
    OK(cuMemCreate(&handle, PAGE, &prop, 0));
    OK(cuMemAddressReserve(&at, PAGE, 0, 0, 0));
    OK(cuMemMap(at, PAGE, 0, handle, 0));
    OK(cuMemSetAccess(at, PAGE, desc, 2));
    memset((void *)(uintptr_t)at, 0, written ? 256 : 252);
    OK(launch_increment(at, 1, one));
}

static void handed_to_the_host(bool written)
{
    char pageable[100];
    CUdeviceptr at = mapping();
    OK(cuMemsetD8Async(at, 3, written ? 109 : 108, one)); /* a unit written in part counts as written */
    OK(cuMemcpyDtoHAsync(pageable, at + 12, 100, one));
}

/* ---- the cases ---- */

static const struct plant {
    const char *what;
    void (*body)(bool right);
    const char *hazard;
    const char *first, *second; /* operations that it has to name */
} plants[] = {
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
    {"unmapped", unmapped, "memory-in-use", "cuMemUnmap", "a memset"},
    {"made inaccessible", made_inaccessible, "memory-in-use", "cuMemSetAccess", "a memset"},
    {"freed by the host", freed_by_the_host, "memory-in-use", "cuMemFree", "a memset"},
    {"freed by another stream", freed_by_another_stream, "freed-in-use", "free", "a memset"},
    {"used after the free", used_after_the_free, "freed-in-use", "free", "kernel copy"},
    {"new memory", new_memory, "undefined-read", "kernel increment", "PTX line 17"},
    {"memory used again", memory_used_again, "undefined-read", "kernel increment", "PTX line 17"},
    {"copied on the device", copied_on_the_device, "undefined-read", "kernel increment", "PTX line 17"},
    {"copied through pinned memory", copied_through_pinned_memory, "undefined-read", "kernel increment",
     "PTX line 17"},
    {"written by the CPU", written_by_the_cpu, "undefined-read", "kernel increment", "PTX line 17"},
    {"read where it is pinned", read_where_it_is_pinned, "undefined-read", "kernel increment", "PTX line 17"},
    {"memory of the host", memory_of_the_host, "undefined-read", "kernel increment", "PTX line 17"},
    {"handed to the host", handed_to_the_host, "undefined-read", "a copy of 100 bytes", "hands the host"},
    {"mapped late", mapped_late, "mapped-late", "kernel copy", "no access when it was submitted"},
};

static const struct plant *planted;
static const char *schedule;
static bool right;

static void run(void)
{
    gpu_start(schedule, 64);
    start();
    planted->body(right);
    CUresult result = cuCtxSynchronize();
    ck_assert(result == CUDA_SUCCESS || (!right && result == CUDA_ERROR_ILLEGAL_ADDRESS));
}

/* What the report says about hazards, from the name of the first one on. */
static void hazards(char *out, size_t size)
{
    static char text[65536];
    report_text(run, text, sizeof(text));
    const char *at = strstr(text, "\"hazards\": ["), *end;
    ck_assert_ptr_nonnull(at);
    at += strlen("\"hazards\": [");
    end = strchr(at, ']');
    ck_assert_ptr_nonnull(end);
    snprintf(out, size, "%.*s", (int)(end - at), at);
}

START_TEST(hazard_is_found)
{
    char found[4096];
    planted = &plants[_i / SCHEDULES];
    schedule = schedules[_i % SCHEDULES];
    right = false;
    hazards(found, sizeof(found));
    ck_assert_msg(strstr(found, planted->hazard) && strstr(found, planted->first) &&
                      strstr(found, planted->second),
                  "%s, %s: found %s", planted->what, schedule, found);
    right = true;
    hazards(found, sizeof(found));
    ck_assert_msg(!*found, "%s done right, %s: found %s", planted->what, schedule, found);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hazards");
    TCase *tc = tcase_create("planted");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, hazard_is_found, 0, (int)(SCHEDULES * sizeof(plants) / sizeof(plants[0])));
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
