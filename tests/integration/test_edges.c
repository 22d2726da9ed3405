/*
 * The edges of a swap and what else may end in a wrong order, each by a job of
 * its own that no other test program has. doc/INTERNALS.md lists all edges with
 * their tests.
 */
#include "tests/integration/job.h"
#include "tests/integration/scenario.h"

#include <check.h>
#include <pthread.h>

enum { BYTES = 3 << 20, WORDS = BYTES / 4, COUNT = 8 };

static CUdeviceptr at[COUNT];
static CUstream stream, other;

/* Buffer i holds the words of seed i. */
static void start(void)
{
    cuda_start();
    stream = job_stream();
    other = job_stream();
    for (unsigned i = 0; i < COUNT; i++) {
        CU(cuMemAlloc(&at[i], BYTES));
        job_fill(at[i], WORDS, i, stream);
    }
    CU(cuCtxSynchronize());
}

/* What is put into the stream from now on runs when a kernel in another one has
 * taken its time. */
static void gate(CUstream in)
{
    static CUdeviceptr somewhere;
    static CUstream slow;
    CUevent event;

    if (!slow) {
        slow = job_stream();
        CU(cuMemAlloc(&somewhere, 1024));
    }
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    job_fill_slowly(somewhere, 256, 0, slow);
    CU(cuEventRecord(event, slow));
    CU(cuStreamWaitEvent(in, event, 0));
    CU(cuEventDestroy(event));
}

/* ---- copies and memsets that return before they are done ---- */

static uint32_t *word;

static void word_make(void)
{
    void *memory;

    CU(cuMemHostAlloc(&memory, 4096, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    memset(memory, 0, 4096);
    word = memory;
}

/* What is put into the stream from now on does not run before word_set. */
static void wait_for_word(CUstream in)
{
    __atomic_store_n(word, 0, __ATOMIC_RELEASE);
    CU(cuStreamWaitValue32(in, (CUdeviceptr)(uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_GEQ));
}

static void word_set(void)
{
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
}

/* What can make way does, without a wait for anything but that. */
static void crowd(void)
{
    enum { PIECES = 24 };
    static CUdeviceptr piece[PIECES];

    for (unsigned i = 0; i < PIECES; i++) {
        if (!piece[i])
            CU(cuMemAlloc(&piece[i], 2 * MIB));
        CU(cuMemsetD8Async(piece[i], 0, 2 * MIB, other));
    }
    CU(cuStreamSynchronize(other));
}

static void early_copies(void)
{
    uint32_t *pageable = malloc(4096), value;

    start();
    word_make();
    REQUIRE(pageable);
    for (uint32_t k = 0; k < 1024; k++)
        pageable[k] = job_word(50, k);
    wait_for_word(NULL);
    CU(cuMemcpyDtoD(at[0], at[1], BYTES));
    CU(cuMemsetD32(at[2], 0x77777777, WORDS));
    CU(cuMemcpy(at[3], at[4], BYTES));
    crowd();
    word_set();
    CHECK_WORDS(at[0], WORDS, 1);
    CHECK_WORDS(at[3], WORDS, 4);
    CU(cuMemcpyDtoH(&value, at[2] + BYTES - 4, 4));
    REQUIRE(value == 0x77777777, "0x%08x", value);
    for (unsigned i = 0; i < COUNT; i++)
        job_fill(at[i], WORDS, i, stream);
    CU(cuCtxSynchronize());
    wait_for_word(stream); /* a pageable source is staged, and the call returns */
    CU(cuMemcpyHtoDAsync(at[5], pageable, 4096, stream));
    memset(pageable, 0, 4096);
    crowd();
    word_set();
    CHECK_WORDS(at[5], 1024, 50);
    for (unsigned i = 0; i < COUNT; i++)
        if (i != 5)
            CHECK_WORDS(at[i], WORDS, i);
    free(pageable);
}

/* ---- early starts ---- */

static void launch_early(const char *kernel, void **params)
{
    CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                               .value.programmaticStreamSerializationAllowed = 1};
    CUlaunchConfig config = {.gridDimX = WORDS / 256,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 256,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = stream,
                             .attrs = &early,
                             .numAttrs = 1};

    CU(cuLaunchKernelEx(&config, job_kernel(kernel), params, NULL));
}

static void fill_early(CUdeviceptr where, uint32_t seed)
{
    uint32_t words = WORDS;
    void *params[] = {&where, &words, &seed};

    launch_early("fill", params);
}

/*
 * A kernel reads memory that is then freed in its stream; what is allocated
 * next has it, or its frames, and is written by a kernel that need not wait for
 * the one ahead. There the allocation does: it "is ordered" in the stream.
 */
static void early_start(size_t more, bool keep)
{
    enum { ROUNDS = 12 };

    start();
    if (!more)
        job_flush(); /* from then on operations are held, where they are */
    for (unsigned round = 0; round < ROUNDS; round++) {
        CUdeviceptr old, new;

        CU(cuMemAllocAsync(&old, BYTES, stream));
        job_fill(old, WORDS, 100 + round, stream);
        CU(cuStreamSynchronize(stream));
        gate(stream);
        job_copy(at[round % COUNT], old, WORDS, stream);
        CU(cuMemFreeAsync(old, stream));
        (void)cuda.cuStreamQuery(stream); /* what was held until here is submitted */
        CU(cuMemAllocAsync(&new, BYTES + round * more, stream));
        fill_early(new, 200 + round);
        CHECK_WORDS(at[round % COUNT], WORDS, 100 + round);
        CHECK_WORDS(new, WORDS, 200 + round);
        if (!keep)
            CU(cuMemFreeAsync(new, stream));
    }
}

static void early_start_in_reused_memory(void)
{
    early_start(0, false);
}

/* No two are of one size, so each takes the frames of what was freed last, and there are no others. */
static void early_start_in_reused_frames(void)
{
    early_start(8192, true);
}

static void early_start_in_a_window(void)
{
    early_start(0, false);
}

/* ---- handles that are given out again ---- */

struct by_value {
    CUdeviceptr to;
    uint32_t count, pad;
    CUdeviceptr from;
};

/* A handle of a kernel that was unloaded becomes one of a kernel with other
 * parameters. */
static void recycled_kernel(void)
{
    enum { LOADS = 300, WANTED = 3 };
    static CUfunction seen[LOADS];
    unsigned found = 0;

    start();
    for (unsigned load = 0; load < LOADS && found < WANTED; load++) {
        static const char *const names[] = {"add", "add_struct"};
        const unsigned to = load % COUNT, from = (load + 1) % COUNT;
        struct by_value value = {.to = at[to], .count = WORDS, .from = at[from]};
        uint32_t count = WORDS;
        void *by_value[] = {&value}, *by_pointer[] = {&at[to], &at[from], &count};
        CUfunction function;
        CUmodule module;
        bool known = false, structure;

        CU(cuModuleLoadData(&module, job_ptx));
        CU(cuModuleGetFunction(&function, module, names[load % 2]));
        for (unsigned i = (load + 1) % 2; i < load; i += 2)
            known |= seen[i] == function; /* with the other name */
        structure = load % 2;
        seen[load] = function;
        if (known) {
            job_fill(at[to], WORDS, load, stream);
            job_fill(at[from], WORDS, 1000 + load, stream);
            job_flush();
        }
        if (known || load < LOADS / 3)
            REQUIRE(job_launch(function, WORDS, stream, structure ? by_value : by_pointer) == CUDA_SUCCESS);
        CU(cuStreamSynchronize(stream));
        if (known)
            CHECK_SUM(at[to], WORDS, load, 1000 + load);
        CU(cuModuleUnload(module));
        found += known;
    }
    REQUIRE(found == WANTED, "%u handles came back", found);
}

/* ---- streams behind what another thread has to end ---- */

static void (*release)(void);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool released;

static void CUDA_CB wait_until_released(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    while (!released)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void release_function(void)
{
    pthread_mutex_lock(&lock);
    released = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Needs all of device memory, and only then lets the others go on. */
static void *work_then_release(void *unused)
{
    enum { PIECES = 14 };
    CUdeviceptr piece[PIECES];
    CUstream own;

    (void)unused;
    CU(cuCtxSetCurrent(job_context()));
    own = job_stream();
    for (unsigned i = 0; i < PIECES; i++) {
        CU(cuMemAllocAsync(&piece[i], BYTES, own));
        job_fill(piece[i], WORDS, 50 + i, own);
    }
    for (unsigned i = 0; i + 1 < PIECES; i++)
        job_add(piece[i], piece[i + 1], WORDS, own);
    CU(cuStreamSynchronize(own));
    release();
    for (unsigned i = 0; i + 1 < PIECES; i++)
        CHECK_SUM(piece[i], WORDS, 50 + i, 51 + i);
    return NULL;
}

static void begin(void (*how)(void))
{
    cuda_start();
    stream = job_stream();
    other = job_stream();
    word_make();
    release = how;
    for (unsigned i = 0; i < 2; i++) {
        CU(cuMemAlloc(&at[i], BYTES));
        job_fill(at[i], WORDS, i, stream);
    }
    CU(cuStreamSynchronize(stream));
}

/* at[1] was added to at[0] behind it. */
static void end(void)
{
    pthread_t thread;

    REQUIRE(pthread_create(&thread, NULL, work_then_release, NULL) == 0);
    pthread_join(thread, NULL);
    CHECK_SUM(at[0], WORDS, 0, 1);
    CHECK_WORDS(at[1], WORDS, 1);
}

static void value_wait(void)
{
    begin(word_set);
    wait_for_word(stream);
    job_add(at[0], at[1], WORDS, stream);
    end();
}

static void value_waits_in_a_batch(void)
{
    __typeof__(&cuStreamBatchMemOp_v2) batch;
    CUstreamBatchMemOpParams one = {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32,
                                                  .value = 1,
                                                  .flags = CU_STREAM_WAIT_VALUE_GEQ}};

    begin(word_set);
    one.waitValue.address = (CUdeviceptr)(uintptr_t)word;
    *(void **)&batch = job_symbol("cuStreamBatchMemOp_v2");
    REQUIRE(batch(stream, 1, &one, 0) == CUDA_SUCCESS);
    job_add(at[0], at[1], WORDS, stream);
    end();
}

/* The host function is in one stream, what is touched behind it in another that
 * waits for the first. */
static void event_behind_a_host_function(void)
{
    CUevent event;

    begin(release_function);
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CU(cuLaunchHostFunc(other, wait_until_released, NULL));
    CU(cuEventRecord(event, other));
    CU(cuStreamWaitEvent(stream, event, 0));
    job_add(at[0], at[1], WORDS, stream);
    end();
}

/* The host function is a node of a graph that is launched as a whole. */
static void graph_with_a_host_function(void)
{
    CUDA_HOST_NODE_PARAMS host = {.fn = wait_until_released};
    CUgraphNode node;
    CUgraphExec exec;
    CUgraph graph;

    begin(release_function);
    CU(cuGraphCreate(&graph, 0));
    CU(cuGraphAddHostNode(&node, graph, NULL, 0, &host));
    CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CU(cuGraphLaunch(exec, stream));
    job_add(at[0], at[1], WORDS, stream);
    end();
}

/* ---- captures ---- */

enum { KINDS = CU_GRAPH_NODE_TYPE_CONDITIONAL + 1 };

static void count_nodes(CUgraph graph, unsigned *kinds)
{
    CUresult (*type_of)(CUgraphNode, CUgraphNodeType *);
    CUgraphNode node[32];
    size_t count = 32;

    *(void **)&type_of = job_symbol("cuGraphNodeGetType");
    memset(kinds, 0, KINDS * sizeof *kinds);
    CU(cuGraphGetNodes(graph, node, &count));
    for (size_t i = 0; i < count; i++) {
        CUgraphNodeType type;

        REQUIRE(type_of(node[i], &type) == CUDA_SUCCESS && (unsigned)type < KINDS);
        kinds[type]++;
    }
}

static void CUDA_CB do_nothing(void *unused)
{
    (void)unused;
}

/* Work that swaps, from before the capture until after it. */
static void swap(CUdeviceptr *piece, unsigned count, uint32_t seed)
{
    for (unsigned i = 0; i < count; i++)
        job_fill(piece[i], WORDS, seed + i, other);
    for (unsigned i = 0; i + 1 < count; i++)
        job_add(piece[i], piece[i + 1], WORDS, other);
}

/*
 * The graph has the nodes that were captured and no more, though what they
 * touch is spilled and copies of other streams are going on. The numbers are
 * those of a run without the library, which this also has.
 */
static void capture_in(CUstreamCaptureMode mode, bool to_graph)
{
    enum { PIECES = 10 };
    CUresult (*begin_to_graph)(CUstream, CUgraph, const CUgraphNode *, const CUgraphEdgeData *, size_t,
                               CUstreamCaptureMode);
    CUdeviceptr piece[PIECES];
    unsigned kinds[KINDS];
    CUstream joined = job_stream();
    CUgraph graph, made;
    CUgraphExec exec;
    CUevent event;

    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (unsigned i = 0; i < PIECES; i++)
        CU(cuMemAlloc(&piece[i], BYTES));
    swap(piece, PIECES, 300);
    for (unsigned i = 0; i < COUNT; i++)
        job_fill(at[i], WORDS, i, stream); /* no part of it, though it be held until now */
    if (to_graph) {
        *(void **)&begin_to_graph = job_symbol("cuStreamBeginCaptureToGraph");
        CU(cuGraphCreate(&made, 0));
        REQUIRE(begin_to_graph(stream, made, NULL, NULL, 0, mode) == CUDA_SUCCESS);
    } else {
        CU(cuStreamBeginCapture(stream, mode));
    }
    job_add(at[0], at[1], WORDS, stream);
    swap(piece, PIECES, 400);
    CU(cuEventRecord(event, stream));
    CU(cuStreamWaitEvent(joined, event, 0));
    CU(cuMemcpyDtoDAsync(at[2], at[3], BYTES, joined));
    CU(cuMemsetD32Async(at[4], 0, WORDS, stream));
    CU(cuLaunchHostFunc(stream, do_nothing, NULL));
    CU(cuEventRecord(event, joined));
    CU(cuStreamWaitEvent(stream, event, 0));
    job_add(at[4], at[2], WORDS, stream);
    CU(cuStreamEndCapture(stream, &graph));
    count_nodes(graph, kinds);
    for (unsigned type = 0; type < KINDS; type++) {
        unsigned wanted = type == CU_GRAPH_NODE_TYPE_KERNEL ? 2
                          : type == CU_GRAPH_NODE_TYPE_MEMCPY || type == CU_GRAPH_NODE_TYPE_MEMSET ||
                                  type == CU_GRAPH_NODE_TYPE_HOST
                              ? 1
                              : 0;

        REQUIRE(kinds[type] == wanted, "%u nodes of type %u", kinds[type], type);
    }
    CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CU(cuGraphLaunch(exec, stream));
    CHECK_SUM(at[0], WORDS, 0, 1);
    CHECK_WORDS(at[2], WORDS, 3);
    CHECK_WORDS(at[4], WORDS, 3);
    for (unsigned i = 0; i + 1 < PIECES; i++)
        CHECK_SUM(piece[i], WORDS, 400 + i, 401 + i);
    CU(cuGraphExecDestroy(exec));
    CU(cuGraphDestroy(graph));
    for (unsigned i = 0; i < PIECES; i++)
        CU(cuMemFree(piece[i]));
}

static void capture_global(void)
{
    start();
    capture_in(CU_STREAM_CAPTURE_MODE_GLOBAL, false);
    capture_in(CU_STREAM_CAPTURE_MODE_GLOBAL, true);
}

static void capture_thread_local(void)
{
    start();
    capture_in(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, false);
    capture_in(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, true);
}

static void capture_relaxed(void)
{
    start();
    capture_in(CU_STREAM_CAPTURE_MODE_RELAXED, false);
    capture_in(CU_STREAM_CAPTURE_MODE_RELAXED, true);
}

/* ---- a context that goes with all that is in it ---- */

static void context_destroyed(void)
{
    CUresult (*reset)(CUdevice);

    start();
    job_flush();
    *(void **)&reset = job_symbol("cuDevicePrimaryCtxReset_v2");
    for (unsigned i = 0; i < COUNT; i++)
        job_add(at[i], at[(i + 1) % COUNT], WORDS, i % 2 ? stream : other);
    REQUIRE(reset(0) == CUDA_SUCCESS);
    exit(0); /* there is nothing left to synchronize with */
}

#define SWAPS(name_) .name = #name_, .job = name_, .flags = SCENARIO_SPILLS

static const struct scenario scenarios[] = {
    {SWAPS(early_copies), .variables = "HBMSPILL_WINDOW=off"},
    {SWAPS(early_start_in_reused_memory), .variables = "HBMSPILL_WINDOW=off"},
    {SWAPS(early_start_in_reused_frames), .variables = "HBMSPILL_WINDOW=off"},
    /* Without plans no operation is timed, which takes events between kernels. */
    {SWAPS(early_start_in_a_window), .variables = "HBMSPILL_PLAN=off"},
    {SWAPS(recycled_kernel)},
    {SWAPS(value_wait)},
    {SWAPS(value_waits_in_a_batch)},
    {SWAPS(event_behind_a_host_function)},
    {SWAPS(graph_with_a_host_function)},
    {.name = "capture_global", .job = capture_global, .flags = SCENARIO_SPILLS | SCENARIO_UNCOUNTED},
    {.name = "capture_thread_local",
     .job = capture_thread_local,
     .flags = SCENARIO_SPILLS | SCENARIO_UNCOUNTED},
    {.name = "capture_relaxed", .job = capture_relaxed, .flags = SCENARIO_SPILLS | SCENARIO_UNCOUNTED},
    {.name = "context_destroyed",
     .job = context_destroyed,
     .flags = SCENARIO_SPILLS | SCENARIO_UNCOUNTED | SCENARIO_HAZARDS},
};

int main(int argc, char **argv)
{
    return scenarios_main(argc, argv, "edges", scenarios, sizeof scenarios / sizeof *scenarios, 30);
}
