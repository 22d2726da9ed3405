/*
 * fault_graphs.c - graphs in a job whose driver fails: built and captured, launched as a whole and node by
 * node, changed.
 */
#include "tests/integration/fault_job.h"

/* A chain: the copy of buffer 0 to 1, of that to 2 by a copy node, a memset of 3's head, a host function. */
static void build(CUgraphNode node[4])
{
    static uint32_t words = LOOKED_AT;
    void *params[] = {&own.memory[1], &own.memory[0], &words};
    CUDA_KERNEL_NODE_PARAMS launch = {.func = kernel("copy"),
                                      .gridDimX = 1,
                                      .gridDimY = 1,
                                      .gridDimZ = 1,
                                      .blockDimX = LOOKED_AT,
                                      .blockDimY = 1,
                                      .blockDimZ = 1,
                                      .kernelParams = params};
    CUDA_MEMCPY3D row = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                         .srcDevice = own.memory[1],
                         .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                         .dstDevice = own.memory[2],
                         .WidthInBytes = BYTES,
                         .Height = 1,
                         .Depth = 1};
    CUDA_MEMSET_NODE_PARAMS set = {
        .dst = own.memory[3], .value = 5, .elementSize = 4, .width = LOOKED_AT, .height = 1};
    CUDA_HOST_NODE_PARAMS host = {.fn = nothing};
    CUcontext context;

    TRY(cuCtxGetCurrent(&context));
    TRY(cuGraphCreate(&own.graph, 0));
    TRY(cuGraphAddKernelNode(&node[0], own.graph, NULL, 0, &launch));
    TRY(cuGraphAddMemcpyNode(&node[1], own.graph, &node[0], 1, &row, context));
    TRY(cuGraphAddMemsetNode(&node[2], own.graph, &node[1], 1, &set, context));
    TRY(cuGraphAddHostNode(&node[3], own.graph, &node[2], 1, &host));
}

static void graph_ran(void)
{
    seeds[1] = seeds[2] = seeds[0];
    check(1);
    check(2);
    TRY(cuMemcpyDtoH(sink, own.memory[3], sizeof sink));
    REQUIRE(sink[0] == 5 && sink[LOOKED_AT - 1] == 5, "0x%08x", sink[0]);
}

/* A launch that failed may have left some of it undone, which the job is told. */
static void launch(CUgraphExec exec, CUstream stream)
{
    fill(0, seeds[0] + 1, stream);
    TRY(cuStreamSynchronize(stream));
    TRY(cuGraphLaunch(exec, stream));
    TRY(cuGraphLaunch(exec, own.stream[1])); /* behind the one before */
    graph_ran();
}

void fault_job_graphs(void)
{
    enum { COUNT = 10 };
    CUgraphExecUpdateResultInfo info;
    CUgraphNode node[4], captured[4];
    size_t size;
    CUDA_MEMSET_NODE_PARAMS set;
    CUcontext context;
    CUstream stream;

    begin();
    stream = own.stream[0];
    for (unsigned i = 0; i < 4; i++) {
        allocate(i, stream);
        fill(i, i, stream);
    }
    build(node);
    TRY(cuGraphInstantiateWithFlags(&own.exec, own.graph, 0));
    launch(own.exec, stream); /* as a whole: it fits */
    for (unsigned i = 4; i < COUNT; i++) {
        allocate(i, stream);
        fill(i, i, stream);
    }
    launch(own.exec, stream); /* node by node */
    TRY(cuCtxGetCurrent(&context));
    set = (CUDA_MEMSET_NODE_PARAMS){
        .dst = own.memory[3], .value = 5, .elementSize = 4, .width = LOOKED_AT, .height = 1};
    TRY(cuGraphExecMemsetNodeSetParams(own.exec, node[2], &set, context));
    launch(own.exec, stream);
    TRY(cuGraphClone(&own.clone, own.graph));
    TRY(cuGraphExecUpdate(own.exec, own.clone, &info));
    launch(own.exec, stream);
    TRY(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    {
        uint32_t words = LOOKED_AT;
        void *params[] = {&own.memory[4], &own.memory[0], &words};
        CUfunction function;
        CUresult status = cuda.cuModuleGetFunction(&function, job_module, "copy");

        if (status == CUDA_SUCCESS)
            status = cuda.cuLaunchKernel(function, 1, 1, 1, LOOKED_AT, 1, 1, 0, stream, params, NULL);
        if (status == CUDA_SUCCESS)
            status = cuda.cuMemcpyDtoDAsync(own.memory[5], own.memory[4], BYTES, stream);
        if (cuda.cuStreamEndCapture(stream, &own.captured) != CUDA_SUCCESS) {
            own.captured = NULL;
            (void)cuda.cuStreamEndCapture(stream, &own.captured);
        }
        if (status != CUDA_SUCCESS || !own.captured)
            give_up("capture", status);
    }
    TRY(cuGraphInstantiateWithFlags(&own.other_exec, own.captured, 0));
    size = sizeof captured / sizeof *captured;
    TRY(cuGraphGetNodes(own.captured, captured, &size));
    TRY(cuGraphNodeSetEnabled(own.other_exec, captured[0], 0));
    TRY(cuGraphNodeSetEnabled(own.other_exec, captured[0], 1));
    TRY(cuGraphLaunch(own.other_exec, stream));
    TRY(cuStreamSynchronize(stream));
    seeds[4] = seeds[5] = seeds[0];
    for (unsigned i = 4; i < COUNT; i++)
        check(i);
    end();
}
