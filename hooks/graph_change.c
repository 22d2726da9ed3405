/*
 * graph_change.c - what changes an executable graph: parameters of single nodes, switching them off, an
 * update from another graph.
 *
 * Nodes of an executable graph are named by those of the graph that it was instantiated from. After an update
 * from another graph (cuGraphExecUpdate) the program is that graph's, and which of its nodes the old names
 * mean is the driver's own affair: a node changed by name after that makes the graph unknown.
 */
#include "hooks/graph.h"

static bool same_nodes(const struct program *program, struct program_node *const *nodes, unsigned *count)
{
    for (unsigned i = 0; i < program->count; i++) {
        const struct program_node *node = &program->nodes[i];
        struct program_node *found;

        HASH_FIND_PTR(*nodes, &node->handle, found);
        if (!found || found->type != node->type)
            return false;
        ++*count;
        if (node->type != CU_GRAPH_NODE_TYPE_GRAPH && node->type != CU_GRAPH_NODE_TYPE_CONDITIONAL)
            continue;
        for (unsigned b = 0; b < node->body_count; b++)
            if (!same_nodes(node->bodies[b], nodes, count))
                return false;
    }
    return true;
}

/* Which nodes are disabled outlives an update; it is asked for by the names. False: not all is known. */
static bool read_disabled(const struct exec *exec)
{
    struct program_node *node, *next;

    if (!hbmspill_real.cuGraphNodeGetEnabled)
        return false;
    HASH_ITER(hh, exec->nodes, node, next)
    {
        unsigned enabled;

        if (node->type != CU_GRAPH_NODE_TYPE_KERNEL && node->type != CU_GRAPH_NODE_TYPE_MEMCPY &&
            node->type != CU_GRAPH_NODE_TYPE_MEMSET)
            continue;
        if (hbmspill_real.cuGraphNodeGetEnabled(exec->handle, node->handle, &enabled) != CUDA_SUCCESS)
            return false;
        node->disabled = !enabled;
    }
    return true;
}

static void updated(CUgraphExec handle, CUgraph graph)
{
    struct exec *exec = exec_find(handle);
    struct program *program;
    unsigned count = 0;
    bool same;

    if (!exec)
        return;
    if (program_read(graph, exec->priorities, &program) != 0) {
        exec_forget_program(exec);
        return;
    }
    program_mark_events(program);
    same = same_nodes(program, &exec->nodes, &count) && count == HASH_COUNT(exec->nodes);
    exec_forget_program(exec);
    exec->program = program;
    if (same)
        program_enter(program, &exec->nodes);
    if (exec->disabled && !(same && read_disabled(exec)))
        exec_forget_program(exec);
}

/* The node that is being changed, if its executable graph is known and it is of that type. */
static struct program_node *node_of(struct exec *exec, CUgraphNode handle, CUgraphNodeType type)
{
    struct program_node *node = NULL;

    if (!exec || !exec->program)
        return NULL;
    HASH_FIND_PTR(exec->nodes, &handle, node);
    exec->changed = true;
    if (node && node->type == type)
        return node;
    exec_forget_program(exec);
    return NULL;
}

static void set_kernel(CUgraphExec exec, CUgraphNode handle, CUfunction function, const unsigned grid[3],
                       const unsigned block[3], unsigned shared, void **params, void **extra)
{
    struct program_node *node = node_of(exec_find(exec), handle, CU_GRAPH_NODE_TYPE_KERNEL);

    if (node)
        program_set_kernel(node, function, grid, block, shared, params, extra);
}

static void set_copy(CUgraphExec exec, CUgraphNode handle, const CUDA_MEMCPY3D *copy)
{
    struct program_node *node = node_of(exec_find(exec), handle, CU_GRAPH_NODE_TYPE_MEMCPY);

    if (node)
        program_set_copy(node, copy);
}

static void set_memset(CUgraphExec exec, CUgraphNode handle, const CUDA_MEMSET_NODE_PARAMS *set)
{
    struct program_node *node = node_of(exec_find(exec), handle, CU_GRAPH_NODE_TYPE_MEMSET);

    if (node)
        node->set = *set;
}

static void set_host(CUgraphExec exec, CUgraphNode handle, const CUDA_HOST_NODE_PARAMS *host)
{
    struct program_node *node = node_of(exec_find(exec), handle, CU_GRAPH_NODE_TYPE_HOST);

    if (node)
        node->host = *host;
}

static void set_event(CUgraphExec exec_handle, CUgraphNode handle, CUgraphNodeType type, CUevent event)
{
    struct exec *exec = exec_find(exec_handle);
    struct program_node *node = node_of(exec, handle, type);

    if (!node)
        return;
    node->event = event;
    program_mark_events(exec->program);
}

/* "As though the nodes contained in node's graph had the parameters contained in childGraph's nodes". */
static void set_child(CUgraphExec exec_handle, CUgraphNode handle, CUgraph graph)
{
    struct exec *exec = exec_find(exec_handle);
    struct program_node *node = node_of(exec, handle, CU_GRAPH_NODE_TYPE_GRAPH);
    struct program *child;
    unsigned count = 0;
    bool same;

    if (!node)
        return;
    if (program_read(graph, exec->priorities, &child) != 0) {
        exec_forget_program(exec);
        return;
    }
    same = same_nodes(child, &exec->nodes, &count);
    program_leave(node->bodies[0], &exec->nodes);
    program_free(node->bodies[0]);
    node->bodies[0] = child;
    if (same)
        program_enter(child, &exec->nodes);
    program_mark_events(exec->program);
    if (exec->disabled && !(same && read_disabled(exec)))
        exec_forget_program(exec);
}

static void set_enabled(CUgraphExec exec_handle, CUgraphNode handle, bool enabled)
{
    struct exec *exec = exec_find(exec_handle);
    struct program_node *node = NULL;

    if (!exec)
        return;
    exec->disabled |= !enabled;
    if (!exec->program)
        return;
    HASH_FIND_PTR(exec->nodes, &handle, node);
    if (node)
        node->disabled = !enabled;
    else
        exec_forget_program(exec);
}

/* Kinds that are not looked into have nothing to keep. */
static void set_params(CUgraphExec exec, CUgraphNode node, const CUgraphNodeParams *params)
{
    CUDA_MEMSET_NODE_PARAMS set;

    switch (params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        set_kernel(exec, node, params->kernel.func ? params->kernel.func : (CUfunction)params->kernel.kern,
                   (unsigned[]){params->kernel.gridDimX, params->kernel.gridDimY, params->kernel.gridDimZ},
                   (unsigned[]){params->kernel.blockDimX, params->kernel.blockDimY, params->kernel.blockDimZ},
                   params->kernel.sharedMemBytes, params->kernel.kernelParams, params->kernel.extra);
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        set_copy(exec, node, &params->memcpy.copyParams);
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        set = (CUDA_MEMSET_NODE_PARAMS){.dst = params->memset.dst,
                                        .pitch = params->memset.pitch,
                                        .value = params->memset.value,
                                        .elementSize = params->memset.elementSize,
                                        .width = params->memset.width,
                                        .height = params->memset.height};
        set_memset(exec, node, &set);
        break;
    case CU_GRAPH_NODE_TYPE_HOST:
        set_host(exec, node,
                 &(CUDA_HOST_NODE_PARAMS){.fn = params->host.fn, .userData = params->host.userData});
        break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        set_child(exec, node, params->graph.graph);
        break;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        set_event(exec, node, params->type, params->eventRecord.event);
        break;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        set_event(exec, node, params->type, params->eventWait.event);
        break;
    default:
        break;
    }
}

/* ---- hooks ---- */

CUresult hook_cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    return NOTED(hbmspill_real.cuGraphExecUpdate_v2(exec, graph, info), updated(exec, graph));
}

CUresult hook_cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *error_node,
                                CUgraphExecUpdateResult *result)
{
    return NOTED(hbmspill_real.cuGraphExecUpdate(exec, graph, error_node, result), updated(exec, graph));
}

#define SHAPE(params)                                                                                        \
    (unsigned[]){(params)->gridDimX, (params)->gridDimY, (params)->gridDimZ},                                \
        (unsigned[]){(params)->blockDimX, (params)->blockDimY, (params)->blockDimZ},                         \
        (params)->sharedMemBytes

CUresult hook_cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                const CUDA_KERNEL_NODE_PARAMS *params)
{
    return NOTED(hbmspill_real.cuGraphExecKernelNodeSetParams_v2(exec, node, params),
                 set_kernel(exec, node, params->func ? params->func : (CUfunction)params->kern, SHAPE(params),
                            params->kernelParams, params->extra));
}

CUresult hook_cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                             const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    return NOTED(hbmspill_real.cuGraphExecKernelNodeSetParams(exec, node, params),
                 set_kernel(exec, node, params->func, SHAPE(params), params->kernelParams, params->extra));
}

CUresult hook_cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params,
                                             CUcontext context)
{
    return NOTED(WITH_COPY(params, hbmspill_real.cuGraphExecMemcpyNodeSetParams(exec, node, params, context)),
                 set_copy(exec, node, params));
}

CUresult hook_cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                             const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context)
{
    return NOTED(
        WITH_MEMSET(params, hbmspill_real.cuGraphExecMemsetNodeSetParams(exec, node, params, context)),
        set_memset(exec, node, params));
}

CUresult hook_cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_HOST_NODE_PARAMS *params)
{
    return NOTED(hbmspill_real.cuGraphExecHostNodeSetParams(exec, node, params),
                 set_host(exec, node, params));
}

CUresult hook_cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event)
{
    return NOTED(hbmspill_real.cuGraphExecEventRecordNodeSetEvent(exec, node, event),
                 set_event(exec, node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event));
}

CUresult hook_cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event)
{
    return NOTED(hbmspill_real.cuGraphExecEventWaitNodeSetEvent(exec, node, event),
                 set_event(exec, node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event));
}

CUresult hook_cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child)
{
    return NOTED(hbmspill_real.cuGraphExecChildGraphNodeSetParams(exec, node, child),
                 set_child(exec, node, child));
}

CUresult hook_cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params)
{
    return NOTED(WITH_PARAMS(params, hbmspill_real.cuGraphExecNodeSetParams(exec, node, params)),
                 set_params(exec, node, params));
}

CUresult hook_cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled)
{
    return NOTED(hbmspill_real.cuGraphNodeSetEnabled(exec, node, enabled),
                 set_enabled(exec, node, enabled != 0));
}
