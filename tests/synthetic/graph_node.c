/*
 * graph_node.c - nodes of every kind: their parameters, and what they do.
 *
 * All forms of adding and changing a node go through CUgraphNodeParams, the newest one.
 */
#include "defined.h"
#include "graph.h"

#include <stdlib.h>
#include <string.h>

static CUresult kernel_work(const CUDA_KERNEL_NODE_PARAMS_v3 *p, struct work *out)
{
    CUfunction handle = p->func ? p->func : (CUfunction)(void *)p->kern;
    struct CUfunc_st *function = function_resolve_locked(handle);
    const unsigned grid[3] = {p->gridDimX, p->gridDimY, p->gridDimZ};
    const unsigned block[3] = {p->blockDimX, p->blockDimY, p->blockDimZ};
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    return kernel_work_make(function, grid, block, p->sharedMemBytes, p->kernelParams, p->extra, out);
}

static CUresult memcpy_work(const CUDA_MEMCPY_NODE_PARAMS *p, struct work *out)
{
    *out = (struct work){.kind = WORK_COPY};
    CUresult result = copy_from_box(&p->copyParams, &out->copy);
    return result == CUDA_SUCCESS ? copy_classify_locked(&out->copy) : result;
}

static CUresult memset_work(const CUDA_MEMSET_NODE_PARAMS_v2 *p, struct work *out)
{
    if ((p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) || !p->width || !p->height ||
        p->dst % p->elementSize)
        return CUDA_ERROR_INVALID_VALUE;
    size_t bytes = (p->height - 1) * p->pitch + p->width * p->elementSize;
    enum place place = place_of_locked(p->dst, bytes);
    if (place == PLACE_NOWHERE || place == PLACE_PAGEABLE)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (struct work){.kind = WORK_MEMSET,
                         .memset = {.dst = p->dst,
                                    .pitch = p->pitch,
                                    .width = p->width,
                                    .height = p->height,
                                    .value = p->value,
                                    .element = p->elementSize}};
    return CUDA_SUCCESS;
}

CUresult node_work_make(const CUgraphNodeParams *params, struct work *out)
{
    switch (params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return kernel_work(&params->kernel, out);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return memcpy_work(&params->memcpy, out);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return memset_work(&params->memset, out);
    case CU_GRAPH_NODE_TYPE_HOST:
        if (!params->host.fn)
            return CUDA_ERROR_INVALID_VALUE;
        *out = (struct work){.kind = WORK_HOST,
                             .host = {.function = params->host.fn, .data = params->host.userData}};
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        *out = (struct work){.kind = WORK_EMPTY};
        return object_valid(params->eventWait.event, OBJECT_EVENT) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    case CU_GRAPH_NODE_TYPE_GRAPH:
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        *out = (struct work){.kind = WORK_EMPTY};
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

static CUresult make_bodies(CUgraphNode node, CUgraphNodeParams *params)
{
    bool conditional = params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
    size_t n = conditional ? params->conditional.size : 1;
    if (conditional) {
        CUgraphConditionalNodeType type = params->conditional.type;
        if (!n || (type == CU_GRAPH_COND_TYPE_WHILE && n != 1) || (type == CU_GRAPH_COND_TYPE_IF && n > 2) ||
            type > CU_GRAPH_COND_TYPE_SWITCH || !params->conditional.handle)
            return CUDA_ERROR_INVALID_VALUE;
    } else if (!object_valid(params->graph.graph, OBJECT_GRAPH)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    node->bodies = calloc(n, sizeof(CUgraph));
    if (!node->bodies)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (; node->body_count < n; node->body_count++) {
        /* A child graph is cloned into its node, or moved there. */
        bool move = !conditional && params->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
        CUgraph body = conditional ? graph_new_locked()
                       : move      ? params->graph.graph
                                   : graph_clone_locked(params->graph.graph);
        if (!body)
            return CUDA_ERROR_OUT_OF_MEMORY;
        body->owned = true;
        node->bodies[node->body_count] = body;
    }
    if (conditional)
        params->conditional.phGraph_out =
            node->bodies; /* "CUDA-owned array ... valid for the node's lifetime" */
    return CUDA_SUCCESS;
}

static CUresult add_locked(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps,
                           const CUgraphEdgeData *edges, size_t dep_count, CUgraphNodeParams *params)
{
    struct work work = {.kind = WORK_EMPTY};
    if (!out || !object_valid(graph, OBJECT_GRAPH) || (dep_count && !deps) ||
        !graph_has_all(graph, deps, dep_count))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = node_work_make(params, &work);
    if (result != CUDA_SUCCESS)
        return result;
    CUgraphNode node = graph_append_locked(graph, params->type, deps, edges, dep_count);
    if (!node) {
        work_clear(&work);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    node->work = work;
    if (params->type == CU_GRAPH_NODE_TYPE_GRAPH || params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
        result = make_bodies(node, params);
    if (result != CUDA_SUCCESS) {
        node_destroy_locked(node);
        return result;
    }
    node->params = *params;
    *out = node;
    return CUDA_SUCCESS;
}

static CUresult add(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *edges,
                    size_t dep_count, CUgraphNodeParams *params)
{
    driver_acquire();
    CUresult result = add_locked(out, graph, deps, edges, dep_count, params);
    driver_release();
    return result;
}

static CUresult set_params(CUgraphNode node, const CUgraphNodeParams *params)
{
    struct work work;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    if (!object_valid(node, OBJECT_NODE) || node->params.type != params->type)
        goto out;
    result = node_work_make(params, &work);
    if (result != CUDA_SUCCESS)
        goto out;
    work_clear(&node->work);
    free(node->param_pointers);
    node->param_pointers = NULL;
    node->work = work;
    node->params = *params;
out:
    driver_release();
    return result;
}

static CUresult get_params(CUgraphNode node, CUgraphNodeType type, CUgraphNodeParams *out)
{
    if (!object_valid(node, OBJECT_NODE) || node->params.type != type)
        return CUDA_ERROR_INVALID_VALUE;
    *out = node->params;
    if (type == CU_GRAPH_NODE_TYPE_KERNEL) {
        const struct ptx_kernel *kernel = node->work.kernel.function->kernel;
        driver_acquire();
        if (!node->param_pointers) {
            node->param_pointers = calloc(kernel->param_count + 1, sizeof(void *));
            for (uint32_t i = 0; node->param_pointers && i < kernel->param_count; i++)
                node->param_pointers[i] = (char *)node->work.kernel.params + kernel->params[i].offset;
        }
        driver_release();
        out->kernel.kernelParams = node->param_pointers;
        out->kernel.extra = NULL;
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphAddNode_v2(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps,
                           const CUgraphEdgeData *edges, size_t dep_count, CUgraphNodeParams *params)
{
    API_ENTER(API_CONTEXT);
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    return add(out, graph, deps, edges, dep_count, params);
}

CUresult cuGraphAddNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps, size_t dep_count,
                        CUgraphNodeParams *params)
{
    return cuGraphAddNode_v2(out, graph, deps, NULL, dep_count, params);
}

CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *params)
{
    API_ENTER(API_CONTEXT);
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    return set_params(node, params);
}

/* ---- kernels; v2 is v3 without ownership of a context, v1 is v2 without kern and ctx ---- */

static CUgraphNodeParams kernel_params(const CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
    memcpy(&params.kernel, p, sizeof(*p));
    return params;
}

static CUgraphNodeParams kernel_params_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
    memcpy(&params.kernel, p, sizeof(*p));
    return params;
}

_Static_assert(sizeof(CUDA_KERNEL_NODE_PARAMS_v2) == sizeof(CUDA_KERNEL_NODE_PARAMS_v3),
               "kernel node parameters");

CUresult cuGraphAddKernelNode_v2(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps, size_t dep_count,
                                 const CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
    API_ENTER(API_CONTEXT);
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams params = kernel_params(p);
    return add(out, graph, deps, NULL, dep_count, &params);
}

CUresult cuGraphAddKernelNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps, size_t dep_count,
                              const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    API_ENTER(API_CONTEXT);
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams params = kernel_params_v1(p);
    return add(out, graph, deps, NULL, dep_count, &params);
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
    API_ENTER(0);
    CUgraphNodeParams params;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = get_params(node, CU_GRAPH_NODE_TYPE_KERNEL, &params);
    if (result == CUDA_SUCCESS)
        memcpy(p, &params.kernel, sizeof(*p));
    return result;
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    API_ENTER(0);
    CUgraphNodeParams params;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = get_params(node, CU_GRAPH_NODE_TYPE_KERNEL, &params);
    if (result == CUDA_SUCCESS)
        memcpy(p, &params.kernel, sizeof(*p));
    return result;
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
    API_ENTER(API_CONTEXT);
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams params = kernel_params(p);
    return set_params(node, &params);
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    API_ENTER(API_CONTEXT);
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams params = kernel_params_v1(p);
    return set_params(node, &params);
}

/* Attributes are kept and have no effect: priorities and carveouts are hints. */
CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute,
                                       CUkernelNodeAttrValue *value)
{
    API_ENTER(0);
    if (!object_valid(node, OBJECT_NODE) || node->params.type != CU_GRAPH_NODE_TYPE_KERNEL || !value ||
        (unsigned)attribute >= CU_LAUNCH_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    *value = node->attributes[attribute];
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute,
                                       const CUkernelNodeAttrValue *value)
{
    API_ENTER(0);
    if (!object_valid(node, OBJECT_NODE) || node->params.type != CU_GRAPH_NODE_TYPE_KERNEL || !value ||
        (unsigned)attribute >= CU_LAUNCH_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    node->attributes[attribute] = *value;
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from)
{
    API_ENTER(0);
    if (!object_valid(to, OBJECT_NODE) || !object_valid(from, OBJECT_NODE) ||
        to->params.type != CU_GRAPH_NODE_TYPE_KERNEL || from->params.type != CU_GRAPH_NODE_TYPE_KERNEL)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(to->attributes, from->attributes, sizeof(to->attributes));
    return CUDA_SUCCESS;
}

/* ---- copies and memsets ---- */

CUresult cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps, size_t dep_count,
                              const CUDA_MEMCPY3D *copy, CUcontext ctx)
{
    API_ENTER(API_CONTEXT);
    if (!copy)
        return CUDA_ERROR_INVALID_VALUE;
    if (context_check(ctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMCPY,
                                .memcpy = {.copyCtx = ctx, .copyParams = *copy}};
    return add(out, graph, deps, NULL, dep_count, &params);
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *copy)
{
    API_ENTER(0);
    CUgraphNodeParams params;
    if (!copy)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = get_params(node, CU_GRAPH_NODE_TYPE_MEMCPY, &params);
    if (result == CUDA_SUCCESS)
        *copy = params.memcpy.copyParams;
    return result;
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *copy)
{
    API_ENTER(API_CONTEXT);
    if (!copy)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMCPY,
                                .memcpy = {.copyCtx = context_current(), .copyParams = *copy}};
    return set_params(node, &params);
}

static CUgraphNodeParams memset_params(const CUDA_MEMSET_NODE_PARAMS_v1 *p, CUcontext ctx)
{
    return (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_MEMSET,
                               .memset = {.dst = p->dst,
                                          .pitch = p->pitch,
                                          .value = p->value,
                                          .elementSize = p->elementSize,
                                          .width = p->width,
                                          .height = p->height,
                                          .ctx = ctx}};
}

CUresult cuGraphAddMemsetNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps, size_t dep_count,
                              const CUDA_MEMSET_NODE_PARAMS_v1 *p, CUcontext ctx)
{
    API_ENTER(API_CONTEXT);
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    if (context_check(ctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    CUgraphNodeParams params = memset_params(p, ctx);
    return add(out, graph, deps, NULL, dep_count, &params);
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS_v1 *p)
{
    API_ENTER(0);
    CUgraphNodeParams params;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = get_params(node, CU_GRAPH_NODE_TYPE_MEMSET, &params);
    if (result == CUDA_SUCCESS)
        memcpy(p, &params.memset, sizeof(*p));
    return result;
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS_v1 *p)
{
    API_ENTER(API_CONTEXT);
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams params = memset_params(p, context_current());
    return set_params(node, &params);
}

/* ---- host functions, child graphs, events, nothing ---- */

CUresult cuGraphAddHostNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps, size_t dep_count,
                            const CUDA_HOST_NODE_PARAMS_v1 *p)
{
    API_ENTER(API_CONTEXT);
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_HOST,
                                .host = {.fn = p->fn, .userData = p->userData}};
    return add(out, graph, deps, NULL, dep_count, &params);
}

CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS_v1 *p)
{
    API_ENTER(0);
    CUgraphNodeParams params;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = get_params(node, CU_GRAPH_NODE_TYPE_HOST, &params);
    if (result == CUDA_SUCCESS)
        *p = (CUDA_HOST_NODE_PARAMS_v1){.fn = params.host.fn, .userData = params.host.userData};
    return result;
}

CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS_v1 *p)
{
    API_ENTER(API_CONTEXT);
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_HOST,
                                .host = {.fn = p->fn, .userData = p->userData}};
    return set_params(node, &params);
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps, size_t dep_count,
                                  CUgraph child)
{
    API_ENTER(API_CONTEXT);
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .graph = {.graph = child}};
    return add(out, graph, deps, NULL, dep_count, &params);
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *out)
{
    API_ENTER(0);
    if (!out || !object_valid(node, OBJECT_NODE) || node->params.type != CU_GRAPH_NODE_TYPE_GRAPH)
        return CUDA_ERROR_INVALID_VALUE;
    *out = node->bodies[0];
    return CUDA_SUCCESS;
}

CUresult cuGraphAddEmptyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps, size_t dep_count)
{
    API_ENTER(API_CONTEXT);
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    return add(out, graph, deps, NULL, dep_count, &params);
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps, size_t dep_count,
                                   CUevent event)
{
    API_ENTER(API_CONTEXT);
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .eventRecord = {.event = event}};
    return add(out, graph, deps, NULL, dep_count, &params);
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps, size_t dep_count,
                                 CUevent event)
{
    API_ENTER(API_CONTEXT);
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .eventWait = {.event = event}};
    return add(out, graph, deps, NULL, dep_count, &params);
}

static CUresult get_event(CUgraphNode node, CUgraphNodeType type, CUevent *out)
{
    CUgraphNodeParams params;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = get_params(node, type, &params);
    if (result == CUDA_SUCCESS)
        *out = params.eventWait.event;
    return result;
}

CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent *out)
{
    API_ENTER(0);
    return get_event(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, out);
}

CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent *out)
{
    API_ENTER(0);
    return get_event(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, out);
}

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event)
{
    API_ENTER(API_CONTEXT);
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .eventRecord = {.event = event}};
    return set_params(node, &params);
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event)
{
    API_ENTER(API_CONTEXT);
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .eventWait = {.event = event}};
    return set_params(node, &params);
}

/* A handle is the device address of its value; kernels set it by a store (device_runtime.c). */
CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *out, CUgraph graph, CUcontext ctx,
                                        unsigned int value, unsigned int flags)
{
    API_ENTER(API_CONTEXT);
    if (!out || !object_valid(graph, OBJECT_GRAPH) || flags & ~(unsigned)CU_GRAPH_COND_ASSIGN_DEFAULT)
        return CUDA_ERROR_INVALID_VALUE;
    if (!ctx)
        ctx = context_current();
    if (context_check(ctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    driver_acquire();
    size_t n = graph->conditional_count;
    struct conditional *grown = realloc(graph->conditionals, (n + 1) * sizeof(*grown));
    uint64_t address = grown ? heap_allocate_locked(ctx, sizeof(unsigned), true) : 0;
    if (grown)
        graph->conditionals = grown;
    if (address) {
        grown[n] = (struct conditional){
            .address = address, .value = value, .assign = (flags & CU_GRAPH_COND_ASSIGN_DEFAULT) != 0};
        graph->conditional_count++;
        *(unsigned *)window_alias(address) = value;
        defined_write_locked(address, sizeof(unsigned));
        *out = address;
        result = CUDA_SUCCESS;
    }
    driver_release();
    return result;
}
