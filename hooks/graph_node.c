/*
 * graph_node.c - nodes that the job adds to graphs, or changes there.
 *
 * What they are is read when the graph is instantiated. Here the addresses of copies and memsets are mapped
 * while the driver looks at them: what is spilled, or was not touched yet, is no memory to it and is refused
 * (CUDA_ERROR_INVALID_VALUE). Kernels' parameters are not looked at.
 */
#include "hooks/graph.h"

/* Reading alone: nothing becomes newer by it than what the host tier has. */
static CUresult begin(struct operation *operation, const uint64_t *addresses, unsigned count)
{
    struct touches touches;

    touches_init(&touches);
    for (unsigned i = 0; i < count; i++)
        touches_add(&touches, addresses[i], CACHE_READ);
    return operation_begin_call(operation, &touches, "a node of a graph");
}

static uint64_t side(CUmemorytype type, const void *host, CUdeviceptr device)
{
    return type == CU_MEMORYTYPE_ARRAY ? 0 : type == CU_MEMORYTYPE_HOST ? (uintptr_t)host : device;
}

/* NULL is the driver's to refuse. */
CUresult operands_begin_copy(struct operation *operation, const CUDA_MEMCPY3D *copy)
{
    uint64_t addresses[2];

    if (!copy)
        return CUDA_SUCCESS;
    addresses[0] = side(copy->srcMemoryType, copy->srcHost, copy->srcDevice);
    addresses[1] = side(copy->dstMemoryType, copy->dstHost, copy->dstDevice);
    return begin(operation, addresses, 2);
}

CUresult operands_begin_memset(struct operation *operation, const CUDA_MEMSET_NODE_PARAMS *set)
{
    return set ? begin(operation, (const uint64_t[]){set->dst}, 1) : CUDA_SUCCESS;
}

CUresult operands_begin(struct operation *operation, const CUgraphNodeParams *params)
{
    switch (params ? params->type : CU_GRAPH_NODE_TYPE_EMPTY) {
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return operands_begin_copy(operation, &params->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return begin(operation, (const uint64_t[]){params->memset.dst}, 1);
    default:
        return CUDA_SUCCESS;
    }
}

CUresult hook_cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                                   size_t count, const CUDA_MEMCPY3D *params, CUcontext context)
{
    return WITH_COPY(params,
                     hbmspill_real.cuGraphAddMemcpyNode(node, graph, dependencies, count, params, context));
}

CUresult hook_cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                                   size_t count, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context)
{
    return WITH_MEMSET(params,
                       hbmspill_real.cuGraphAddMemsetNode(node, graph, dependencies, count, params, context));
}

CUresult hook_cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *params)
{
    return WITH_COPY(params, hbmspill_real.cuGraphMemcpyNodeSetParams(node, params));
}

CUresult hook_cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params)
{
    return WITH_MEMSET(params, hbmspill_real.cuGraphMemsetNodeSetParams(node, params));
}

CUresult hook_cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *params)
{
    return WITH_PARAMS(params, hbmspill_real.cuGraphNodeSetParams(node, params));
}

static void added(CUgraphNode node, CUgraph graph, const CUgraphNodeParams *params)
{
    if (shim_active() && params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
        graph_note_conditional(node, graph, &params->conditional);
}

CUresult hook_cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                             CUgraphNodeParams *params)
{
    CUresult status =
        WITH_PARAMS(params, hbmspill_real.cuGraphAddNode(node, graph, dependencies, count, params));

    if (status == CUDA_SUCCESS)
        added(*node, graph, params);
    return status;
}

CUresult hook_cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                                const CUgraphEdgeData *data, size_t count, CUgraphNodeParams *params)
{
    CUresult status =
        WITH_PARAMS(params, hbmspill_real.cuGraphAddNode_v2(node, graph, dependencies, data, count, params));

    if (status == CUDA_SUCCESS)
        added(*node, graph, params);
    return status;
}
