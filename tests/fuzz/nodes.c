/*
 * nodes.c - the three ways in which a graph comes to have an operation.
 */
#include "tests/fuzz/nodes.h"

void nodes_load(void)
{
    cuda_load();
}

static CUDA_MEMSET_NODE_PARAMS set_of(const struct operation *op)
{
    return (CUDA_MEMSET_NODE_PARAMS){.dst = op->to.object->at + op->to.at,
                                     .value = op->value & (UINT32_MAX >> (32 - 8 * op->element)),
                                     .elementSize = op->element,
                                     .width = op->count,
                                     .height = 1};
}

/* params point into the launch. */
static CUDA_KERNEL_NODE_PARAMS kernel_of(const struct operation *op, struct launch *launch)
{
    launch_of(op, launch);
    return (CUDA_KERNEL_NODE_PARAMS){.func = launch->function,
                                     .gridDimX = launch->blocks,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 256,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = launch->params};
}

CUresult node_add(CUgraph to, const struct operation *op, const CUgraphNode *after, unsigned count,
                  CUgraphNode *node)
{
    struct launch launch;

    switch (op->kind) {
    case OP_COPY:
    case OP_BOX: {
        CUDA_MEMCPY3D box = box_of(op);

        return cuda.cuGraphAddMemcpyNode(node, to, after, count, &box, job_context());
    }
    case OP_SET: {
        CUDA_MEMSET_NODE_PARAMS set = set_of(op);

        return cuda.cuGraphAddMemsetNode(node, to, after, count, &set, job_context());
    }
    case OP_HOST: {
        CUDA_HOST_NODE_PARAMS host = {.fn = host_function, .userData = host_data_of(op)};

        return cuda.cuGraphAddHostNode(node, to, after, count, &host);
    }
    default: {
        CUDA_KERNEL_NODE_PARAMS kernel = kernel_of(op, &launch);

        return cuda.cuGraphAddKernelNode(node, to, after, count, &kernel);
    }
    }
}

CUresult node_capture(const struct operation *op, CUstream stream)
{
    CUdeviceptr to = op->to.object->at + op->to.at;
    struct launch launch;
    CUDA_MEMCPY3D box;

    switch (op->kind) {
    case OP_COPY:
        return cuda.cuMemcpyAsync(to, op->from[0].object->at + op->from[0].at, op->bytes, stream);
    case OP_BOX:
        box = box_of(op);
        return cuda.cuMemcpy3DAsync(&box, stream);
    case OP_SET:
        return op->element == 1   ? cuda.cuMemsetD8Async(to, (unsigned char)op->value, op->count, stream)
               : op->element == 2 ? cuda.cuMemsetD16Async(to, (unsigned short)op->value, op->count, stream)
                                  : cuda.cuMemsetD32Async(to, op->value, op->count, stream);
    case OP_HOST:
        return cuda.cuLaunchHostFunc(stream, host_function, host_data_of(op));
    default:
        launch_of(op, &launch);
        return cuda.cuLaunchKernel(launch.function, launch.blocks, 1, 1, 256, 1, 1, 0, stream, launch.params,
                                   NULL);
    }
}

CUresult node_set(CUgraphExec exec, CUgraphNode node, const struct operation *op)
{
    struct launch launch;
    CUDA_KERNEL_NODE_PARAMS kernel;

    if (op->kind == OP_HOST) {
        CUDA_HOST_NODE_PARAMS host = {.fn = host_function, .userData = host_data_of(op)};

        return cuda.cuGraphExecHostNodeSetParams(exec, node, &host);
    }
    if (op->kind == OP_SET) {
        CUDA_MEMSET_NODE_PARAMS set = set_of(op);

        return cuda.cuGraphExecMemsetNodeSetParams(exec, node, &set, job_context());
    }
    if (op->kind == OP_COPY) {
        CUDA_MEMCPY3D box = box_of(op);

        return cuda.cuGraphExecMemcpyNodeSetParams(exec, node, &box, job_context());
    }
    kernel = kernel_of(op, &launch);
    return cuda.cuGraphExecKernelNodeSetParams(exec, node, &kernel);
}
