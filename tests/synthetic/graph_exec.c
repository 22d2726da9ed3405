/*
 * graph_exec.c - executable graphs: instantiation, updates, launches.
 */
#include "graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void program_unref_locked(struct program *program)
{
    if (--program->refs)
        return;
    for (size_t i = 0; i < program->count; i++) {
        struct program_node *node = &program->nodes[i];
        work_clear(&node->work);
        free(node->successors);
        for (size_t b = 0; b < node->body_count; b++)
            if (node->bodies[b])
                program_unref_locked(node->bodies[b]);
        free(node->bodies);
    }
    free(program->nodes);
    free(program->before);
    free(program->conditionals);
    free(program);
}

static struct program *program_alloc(size_t nodes, size_t conditionals)
{
    struct program *program = calloc(1, sizeof(*program));
    if (!program)
        return NULL;
    program->refs = 1;
    program->nodes = calloc(nodes + 1, sizeof(*program->nodes));
    program->conditionals = calloc(conditionals + 1, sizeof(*program->conditionals));
    if (program->nodes && program->conditionals)
        return program;
    program_unref_locked(program);
    return NULL;
}

static bool add_successor(struct program_node *node, size_t successor)
{
    size_t *grown = realloc(node->successors, (node->successor_count + 1) * sizeof(*grown));
    if (!grown)
        return false;
    node->successors = grown;
    grown[node->successor_count++] = successor;
    return true;
}

static struct program *program_new_locked(CUgraph graph)
{
    struct program *program = program_alloc(graph->count, graph->conditional_count);
    if (!program)
        return NULL;
    program->conditional_count = graph->conditional_count;
    if (graph->conditional_count)
        memcpy(program->conditionals, graph->conditionals,
               graph->conditional_count * sizeof(*graph->conditionals));
    program->count = graph->count;
    for (size_t i = 0; i < graph->count; i++) {
        CUgraphNode from = graph->nodes[i];
        struct program_node *to = &program->nodes[i];
        to->type = from->params.type;
        to->origin = from;
        if (!work_copy(&to->work, &from->work))
            goto fail;
        if (to->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
            to->condition = from->params.conditional.type;
            to->handle = from->params.conditional.handle;
        } else if (to->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD || to->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT) {
            to->event = from->params.eventWait.event;
        }
        if (from->body_count && !(to->bodies = calloc(from->body_count, sizeof(struct program *))))
            goto fail;
        for (; to->body_count < from->body_count; to->body_count++)
            if (!(to->bodies[to->body_count] = program_new_locked(from->bodies[to->body_count])))
                goto fail;
        to->predecessor_count = from->dep_count;
    }
    for (size_t i = 0; i < graph->count; i++)
        for (size_t d = 0; d < graph->nodes[i]->dep_count; d++)
            if (!add_successor(&program->nodes[graph->nodes[i]->deps[d]->index], i))
                goto fail;
    return program;
fail:
    program_unref_locked(program);
    return NULL;
}

static struct program *program_clone_locked(const struct program *program)
{
    struct program *clone = program_alloc(program->count, program->conditional_count);
    if (!clone)
        return NULL;
    clone->conditional_count = program->conditional_count;
    memcpy(clone->conditionals, program->conditionals,
           program->conditional_count * sizeof(*clone->conditionals));
    for (; clone->count < program->count; clone->count++) {
        const struct program_node *from = &program->nodes[clone->count];
        struct program_node *to = &clone->nodes[clone->count];
        *to = *from;
        to->successors = malloc((from->successor_count + 1) * sizeof(*to->successors));
        to->bodies = calloc(from->body_count + 1, sizeof(struct program *));
        to->body_count = 0;
        if (!work_copy(&to->work, &from->work)) {
            to->work.kind = WORK_EMPTY;
            goto fail;
        }
        if (!to->successors || !to->bodies)
            goto fail;
        if (from->successor_count)
            memcpy(to->successors, from->successors, from->successor_count * sizeof(*to->successors));
        for (; to->body_count < from->body_count; to->body_count++)
            if (!(to->bodies[to->body_count] = program_clone_locked(from->bodies[to->body_count])))
                goto fail;
    }
    return clone;
fail:
    clone->count++; /* the half-made one is freed too */
    program_unref_locked(clone);
    return NULL;
}

/* The program, and nobody else's: a launch that is under way keeps the old one. */
static struct program *writable_locked(CUgraphExec exec)
{
    if (exec->program->refs > 1) {
        struct program *clone = program_clone_locked(exec->program);
        if (!clone)
            return NULL;
        program_unref_locked(exec->program);
        exec->program = clone;
    }
    return exec->program;
}

static struct program_node *find_node(struct program *program, CUgraphNode origin)
{
    if (object_valid(origin, OBJECT_NODE) && origin->index < program->count &&
        program->nodes[origin->index].origin == origin)
        return &program->nodes[origin->index];
    for (size_t i = 0; i < program->count; i++) {
        struct program_node *node = &program->nodes[i];
        if (node->origin == origin)
            return node;
        for (size_t b = 0; b < node->body_count; b++) {
            struct program_node *found = find_node(node->bodies[b], origin);
            if (found)
                return found;
        }
    }
    return NULL;
}

/* ---- instantiation ---- */

static CUresult instantiate(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
    const unsigned long long known = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                     CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                     CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
    if (!out || !object_valid(graph, OBJECT_GRAPH) || graph->owned)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (flags & ~known)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    driver_acquire();
    struct program *program = program_new_locked(graph);
    CUgraphExec exec = program ? object_new_locked(OBJECT_GRAPH_EXEC, sizeof(*exec)) : NULL;
    if (exec) {
        exec->program = program;
        exec->flags = flags;
        *out = exec;
        result = CUDA_SUCCESS;
    } else if (program) {
        program_unref_locked(program);
    }
    driver_release();
    return result;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
    API_ENTER(API_CONTEXT);
    return instantiate(out, graph, flags);
}

CUresult cuGraphInstantiate_v2(CUgraphExec *out, CUgraph graph, CUgraphNode *error_node, char *log,
                               size_t size)
{
    API_ENTER(API_CONTEXT);
    if (error_node)
        *error_node = NULL;
    if (log && size)
        log[0] = 0;
    return instantiate(out, graph, 0);
}

CUresult cuGraphInstantiate(CUgraphExec *out, CUgraph graph, CUgraphNode *error_node, char *log, size_t size)
{
    return cuGraphInstantiate_v2(out, graph, error_node, log, size);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    API_ENTER(API_CONTEXT);
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = instantiate(out, graph, params->flags);
    params->hErrNode_out = NULL;
    params->result_out =
        result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    return result;
}

CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t *flags)
{
    API_ENTER(0);
    if (!object_valid(exec, OBJECT_GRAPH_EXEC) || !flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = exec->flags;
    return CUDA_SUCCESS;
}

/* A launch under way holds the program: it goes on ("cuGraphExecDestroy"). */
CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    API_ENTER(0);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    if (object_valid(exec, OBJECT_GRAPH_EXEC)) {
        program_unref_locked(exec->program);
        if (exec->last)
            op_unref_locked(exec->last);
        object_free_locked(exec);
        result = CUDA_SUCCESS;
    }
    driver_release();
    return result;
}

/* ---- launch ---- */

static void record_events_locked(const struct program *program, struct op *op)
{
    for (size_t i = 0; i < program->count; i++) {
        const struct program_node *node = &program->nodes[i];
        if (node->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD && object_valid(node->event, OBJECT_EVENT)) {
            /* Seen as complete with the graph, which is never too early. */
            if (node->event->op)
                op_unref_locked(node->event->op);
            node->event->op = op_ref(op);
        }
        for (size_t b = 0; b < node->body_count; b++)
            record_events_locked(node->bodies[b], op);
    }
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle)
{
    API_ENTER(API_CONTEXT);
    struct CUstream_st *stream;
    struct op *op = NULL;
    if (!object_valid(exec, OBJECT_GRAPH_EXEC))
        return CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    CUresult result = stream_resolve_locked(handle, &stream);
    if (result == CUDA_SUCCESS && stream->capture) { /* child graphs by capture are not implemented */
        capture_invalidate_locked(stream->capture);
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (result == CUDA_SUCCESS) {
        struct work work = {.kind = WORK_GRAPH, .graph = graph_run_new_locked(exec->program)};
        if (work.graph)
            result = stream_submit_locked(stream, &work, &exec->last, exec->last ? 1 : 0, &op);
        else
            result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result == CUDA_SUCCESS) {
        if (exec->last)
            op_unref_locked(exec->last);
        exec->last = op;
        record_events_locked(exec->program, op);
    }
    driver_release();
    return result;
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream handle)
{
    API_ENTER(API_CONTEXT);
    struct CUstream_st *stream;
    if (!object_valid(exec, OBJECT_GRAPH_EXEC))
        return CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    CUresult result = stream_resolve_locked(handle, &stream);
    driver_release();
    return result;
}

/* ---- updates ---- */

static CUgraphExecUpdateResult compare(const struct program *now, const struct program *then,
                                       CUgraphNode *where)
{
    if (now->count != then->count)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (size_t i = 0; i < now->count; i++) {
        const struct program_node *a = &now->nodes[i], *b = &then->nodes[i];
        *where = b->origin;
        if (a->type != b->type)
            return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
        if (a->predecessor_count != b->predecessor_count || a->successor_count != b->successor_count ||
            a->body_count != b->body_count ||
            (a->successor_count &&
             memcmp(a->successors, b->successors, a->successor_count * sizeof(size_t)) != 0))
            return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        for (size_t k = 0; k < a->body_count; k++) {
            CUgraphExecUpdateResult result = compare(a->bodies[k], b->bodies[k], where);
            if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS)
                return result;
        }
    }
    *where = NULL;
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

/* Nodes are still named by those of the graph that was instantiated, and still enabled or not. */
static void keep_origins(struct program *to, const struct program *from)
{
    for (size_t i = 0; i < to->count; i++) {
        to->nodes[i].origin = from->nodes[i].origin;
        to->nodes[i].disabled = from->nodes[i].disabled;
        for (size_t b = 0; b < to->nodes[i].body_count; b++)
            keep_origins(to->nodes[i].bodies[b], from->nodes[i].bodies[b]);
    }
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    API_ENTER(API_CONTEXT);
    if (!object_valid(exec, OBJECT_GRAPH_EXEC) || !object_valid(graph, OBJECT_GRAPH) || !info)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_SUCCESS;
    CUgraphNode where = NULL;
    driver_acquire();
    struct program *program = program_new_locked(graph);
    info->result = program ? compare(exec->program, program, &where) : CU_GRAPH_EXEC_UPDATE_ERROR;
    info->errorNode = where;
    info->errorFromNode = NULL;
    if (info->result == CU_GRAPH_EXEC_UPDATE_SUCCESS) {
        keep_origins(program, exec->program);
        program_unref_locked(exec->program);
        exec->program = program;
    } else {
        if (program)
            program_unref_locked(program);
        result = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    driver_release();
    return result;
}

CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *error_node,
                           CUgraphExecUpdateResult *out)
{
    CUgraphExecUpdateResultInfo info = {.result = CU_GRAPH_EXEC_UPDATE_ERROR};
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = cuGraphExecUpdate_v2(exec, graph, &info);
    if (error_node)
        *error_node = info.errorNode;
    *out = info.result;
    return result;
}

static CUresult set_params(CUgraphExec exec, CUgraphNode origin, const CUgraphNodeParams *params)
{
    struct work work = {.kind = WORK_EMPTY};
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (!object_valid(exec, OBJECT_GRAPH_EXEC))
        return result;
    driver_acquire();
    struct program_node *node = find_node(exec->program, origin);
    if (!node || node->type != params->type)
        goto out;
    result = node_work_make(params, &work);
    if (result != CUDA_SUCCESS)
        goto out;
    struct program *program = writable_locked(exec);
    if (!program) {
        work_clear(&work);
        result = CUDA_ERROR_OUT_OF_MEMORY;
        goto out;
    }
    node = find_node(program, origin);
    if (params->type == CU_GRAPH_NODE_TYPE_GRAPH) {
        struct program *body =
            object_valid(params->graph.graph, OBJECT_GRAPH) ? program_new_locked(params->graph.graph) : NULL;
        CUgraphNode where;
        if (!body || compare(node->bodies[0], body, &where) != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
            if (body)
                program_unref_locked(body);
            result = CUDA_ERROR_INVALID_VALUE;
            goto out;
        }
        keep_origins(body, node->bodies[0]);
        program_unref_locked(node->bodies[0]);
        node->bodies[0] = body;
    } else if (params->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD ||
               params->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT) {
        node->event = params->eventWait.event;
    }
    work_clear(&node->work);
    node->work = work;
out:
    driver_release();
    return result;
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params)
{
    API_ENTER(API_CONTEXT);
    return params ? set_params(exec, node, params) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
    API_ENTER(API_CONTEXT);
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&params.kernel, p, sizeof(*p));
    return set_params(exec, node, &params);
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    API_ENTER(API_CONTEXT);
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&params.kernel, p, sizeof(*p));
    return set_params(exec, node, &params);
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *copy,
                                        CUcontext ctx)
{
    API_ENTER(API_CONTEXT);
    if (!copy)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMCPY,
                                .memcpy = {.copyCtx = ctx, .copyParams = *copy}};
    return set_params(exec, node, &params);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMSET_NODE_PARAMS_v1 *p, CUcontext ctx)
{
    API_ENTER(API_CONTEXT);
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMSET,
                                .memset = {.dst = p->dst,
                                           .pitch = p->pitch,
                                           .value = p->value,
                                           .elementSize = p->elementSize,
                                           .width = p->width,
                                           .height = p->height,
                                           .ctx = ctx}};
    return set_params(exec, node, &params);
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS_v1 *p)
{
    API_ENTER(API_CONTEXT);
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_HOST,
                                .host = {.fn = p->fn, .userData = p->userData}};
    return set_params(exec, node, &params);
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child)
{
    API_ENTER(API_CONTEXT);
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .graph = {.graph = child}};
    return set_params(exec, node, &params);
}

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event)
{
    API_ENTER(API_CONTEXT);
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .eventRecord = {.event = event}};
    return set_params(exec, node, &params);
}

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event)
{
    API_ENTER(API_CONTEXT);
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .eventWait = {.event = event}};
    return set_params(exec, node, &params);
}

/* "Only kernel, memset and memcpy nodes are currently supported." */
static bool can_be_disabled(const struct program_node *node)
{
    return node && (node->type == CU_GRAPH_NODE_TYPE_KERNEL || node->type == CU_GRAPH_NODE_TYPE_MEMSET ||
                    node->type == CU_GRAPH_NODE_TYPE_MEMCPY);
}

CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode origin, unsigned int enabled)
{
    API_ENTER(0);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (!object_valid(exec, OBJECT_GRAPH_EXEC))
        return result;
    driver_acquire();
    if (can_be_disabled(find_node(exec->program, origin)) && writable_locked(exec)) {
        find_node(exec->program, origin)->disabled = !enabled;
        result = CUDA_SUCCESS;
    }
    driver_release();
    return result;
}

CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode origin, unsigned int *enabled)
{
    API_ENTER(0);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (!object_valid(exec, OBJECT_GRAPH_EXEC) || !enabled)
        return result;
    driver_acquire();
    const struct program_node *node = find_node(exec->program, origin);
    if (can_be_disabled(node)) {
        *enabled = !node->disabled;
        result = CUDA_SUCCESS;
    }
    driver_release();
    return result;
}
