/*
 * graph.c - graphs.
 *
 * Each node has its own set, replaced when the node is updated. A graph made as a child is copied into its
 * parent by the driver at that moment, so its sets are copied into the child node's; bodies of conditional
 * nodes belong to the parent and are filled afterwards, so they are linked. An instantiated graph has a copy
 * of all sets.
 *
 * A node of a kind that is not looked into makes the graph open: everything is brought in. So is a graph
 * whose making was not seen (the forms of cuGraphInstantiate before CUDA 12).
 */
#include "hooks/graph.h"
#include "hooks/counters.h"
#include "hooks/kernel.h"
#include "hooks/operation.h"
#include "hooks/retry.h"
#include "hooks/trace.h"
#include <pthread.h>
#include <uthash.h>
#include <utlist.h>

struct node_set {
    CUgraphNode node; /* NULL: captured */
    bool open;
    unsigned count;
    struct cache_touch *touch;
    struct node_set *next;
};

struct graph {
    const void *handle; /* CUgraph or CUgraphExec */
    CUgraph parent;     /* of a conditional body */
    struct node_set *sets;
    UT_hash_handle hh;
};

/* Protects both tables. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct graph *graphs, *execs;

/*
 * A node does not say which graph it is in, and the driver makes some that nobody added: those of a clone,
 * and of the copy of a child that its parent has. What such a node is given is kept under this handle, and
 * every graph that is instantiated afterwards is taken to touch it.
 */
static const char unplaced;

static struct graph *find(struct graph **table, const void *handle, bool make)
{
    struct graph *graph;

    HASH_FIND_PTR(*table, &handle, graph);
    if (!graph && make) {
        graph = calloc(1, sizeof *graph);
        if (graph) {
            graph->handle = handle;
            HASH_ADD_PTR(*table, handle, graph);
        }
    }
    return graph;
}

static void sets_free(struct node_set *sets)
{
    struct node_set *set, *next;

    LL_FOREACH_SAFE(sets, set, next)
    {
        free(set->touch);
        free(set);
    }
}

static void forget(struct graph **table, const void *handle)
{
    struct graph *graph, *body, *next;
    const void *none = &unplaced;

    pthread_mutex_lock(&lock);
    HASH_FIND_PTR(*table, &handle, graph);
    if (graph) {
        HASH_DEL(*table, graph);
        sets_free(graph->sets);
        free(graph);
    }
    if (table == &graphs) {
        HASH_ITER(hh, graphs, body, next)
        {
            if (body->parent == handle) {
                HASH_DEL(graphs, body);
                sets_free(body->sets);
                free(body);
            }
        }
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what was freed is no longer in the table */
        HASH_FIND_PTR(graphs, &none, body);
        if (body && HASH_COUNT(graphs) == 1) { /* no graph is left that such a node could be in */
            HASH_DEL(graphs, body);
            sets_free(body->sets);
            free(body);
        }
    }
    pthread_mutex_unlock(&lock);
}

/* The node's set, empty; NULL where there is no memory. */
static struct node_set *set_for(struct graph *graph, CUgraphNode node)
{
    struct node_set *set = NULL;

    if (node)
        LL_SEARCH_SCALAR(graph->sets, set, node, node);
    if (!set) {
        set = calloc(1, sizeof *set);
        if (!set)
            return NULL;
        set->node = node;
        LL_PREPEND(graph->sets, set);
    }
    free(set->touch);
    set->touch = NULL;
    set->count = 0;
    set->open = false;
    return set;
}

static bool set_append(struct node_set *set, const struct cache_touch *touch, unsigned count)
{
    struct cache_touch *grown;

    if (!count)
        return true;
    grown = realloc(set->touch, (set->count + count) * sizeof *grown);
    if (!grown)
        return false;
    memcpy(grown + set->count, touch, count * sizeof *touch);
    set->touch = grown;
    set->count += count;
    return true;
}

static CUresult note(struct graph **table, const void *handle, CUgraphNode node,
                     const struct touches *touches, bool open)
{
    struct graph *graph;
    struct node_set *set;
    bool kept = false;

    pthread_mutex_lock(&lock);
    graph = find(table, handle, true);
    set = graph ? set_for(graph, node) : NULL;
    if (set) {
        kept = set_append(set, touches->touch, touches->count);
        set->open = open || touches->failed;
    }
    pthread_mutex_unlock(&lock);
    return kept ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult graph_note(CUgraph graph, CUgraphNode node, const struct touches *touches, bool open)
{
    return note(&graphs, graph, node, touches, open);
}

/*
 * With the lock: all sets of `graph', bodies of its conditional nodes included, into one set or one by one;
 * these stay the same nodes' in an instantiated graph, not in another graph.
 */
static bool copy_sets(const struct graph *graph, struct graph *into, struct node_set *into_set,
                      bool keep_nodes)
{
    struct graph *body, *next;
    struct node_set *set;

    LL_FOREACH(graph->sets, set)
    {
        struct node_set *target = into_set;

        if (!target) {
            target = calloc(1, sizeof *target);
            if (!target)
                return false;
            target->node = keep_nodes ? set->node : NULL;
            LL_PREPEND(into->sets, target);
        }
        target->open |= set->open;
        if (!set_append(target, set->touch, set->count))
            return false;
    }
    HASH_ITER(hh, graphs, body, next)
    {
        if (body->parent && body->parent == graph->handle && !copy_sets(body, into, into_set, keep_nodes))
            return false;
    }
    return true;
}

/* The parent's child node gets all that the child has. */
static CUresult adopt(struct graph **table, const void *handle, CUgraphNode node, CUgraph child)
{
    struct graph *parent, *from;
    struct node_set *set;
    bool kept = true;

    pthread_mutex_lock(&lock);
    from = find(&graphs, child, false);
    if (from) {
        parent = find(table, handle, true);
        set = parent ? set_for(parent, node) : NULL;
        kept = set && copy_sets(from, parent, set, false);
    }
    pthread_mutex_unlock(&lock);
    return kept ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* `handle' has what `graph' has, and nothing else. */
static CUresult duplicate(struct graph **table, const void *handle, CUgraph graph)
{
    bool keep_nodes = table == &execs, kept;
    struct graph *copy, *from, *others;

    forget(table, handle);
    pthread_mutex_lock(&lock);
    from = find(&graphs, graph, false);
    others = keep_nodes ? find(&graphs, &unplaced, false) : NULL;
    copy = find(table, handle, true); /* also where it touches nothing: then that is known */
    kept = copy && (!from || copy_sets(from, copy, NULL, keep_nodes)) &&
           (!others || copy_sets(others, copy, NULL, keep_nodes));
    pthread_mutex_unlock(&lock);
    return kept ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult note_kernel(struct graph **table, const void *handle, CUgraphNode node, CUfunction function,
                            void **params, void **extra)
{
    struct kernel kernel = kernel_find(function);
    struct touches touches;
    CUresult status;
    bool open;

    touches_init(&touches);
    open = !kernel_touches(&kernel, params, extra, &touches) || !kernel.closed;
    status = note(table, handle, node, &touches, open);
    touches_fini(&touches);
    return status;
}

static CUresult note_copy(struct graph **table, const void *handle, CUgraphNode node,
                          const CUDA_MEMCPY3D *copy)
{
    struct touches touches;
    CUresult status;

    touches_init(&touches);
    touches_add(&touches, copy->srcDevice, CACHE_READ);
    touches_add(&touches, (uintptr_t)copy->srcHost, CACHE_READ);
    touches_add(&touches, copy->dstDevice, CACHE_READ | CACHE_WRITE);
    touches_add(&touches, (uintptr_t)copy->dstHost, CACHE_READ | CACHE_WRITE);
    status = note(table, handle, node, &touches, false);
    touches_fini(&touches);
    return status;
}

static CUresult note_address(struct graph **table, const void *handle, CUgraphNode node, uint64_t address)
{
    struct touches touches;
    CUresult status;

    touches_init(&touches);
    touches_add(&touches, address, CACHE_READ | CACHE_WRITE);
    status = note(table, handle, node, &touches, false);
    touches_fini(&touches);
    return status;
}

static CUresult note_open(struct graph **table, const void *handle, CUgraphNode node)
{
    struct touches touches;

    touches_init(&touches);
    return note(table, handle, node, &touches, true);
}

/* What is added to the graph is the parent's too: a conditional body, or the parent's copy of a child. */
static CUresult note_body(CUgraph graph, CUgraph parent)
{
    struct graph *body;

    pthread_mutex_lock(&lock);
    body = find(&graphs, graph, true);
    if (body)
        body->parent = parent;
    if (!find(&graphs, parent, true)) /* it need not have a node of its own that touches anything */
        body = NULL;
    pthread_mutex_unlock(&lock);
    return body ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* By the general form of node parameters. Kinds without memory of their own leave nothing. */
static CUresult note_params(struct graph **table, const void *handle, CUgraphNode node, CUgraph graph,
                            const CUgraphNodeParams *params)
{
    CUresult status = CUDA_SUCCESS;

    switch (params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return note_kernel(table, handle, node,
                           params->kernel.func ? params->kernel.func : (CUfunction)params->kernel.kern,
                           params->kernel.kernelParams, params->kernel.extra);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return note_copy(table, handle, node, &params->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return note_address(table, handle, node, params->memset.dst);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return adopt(table, handle, node, params->graph.graph);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        for (unsigned i = 0; params->conditional.phGraph_out && i < params->conditional.size; i++)
            if (status == CUDA_SUCCESS)
                status = note_body(params->conditional.phGraph_out[i], graph);
        return status;
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_HOST:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return CUDA_SUCCESS;
    default:
        return note_open(table, handle, node);
    }
}

/* Once the driver has taken it. A set that could not be kept makes the graph unusable: said as what it is. */
#define NOTED(call, how)                                                                                     \
    ({                                                                                                       \
        CUresult noted_status = (call);                                                                      \
        if (noted_status == CUDA_SUCCESS && shim_active())                                                   \
            noted_status = (how);                                                                            \
        noted_status;                                                                                        \
    })

CUresult hook_cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                                      size_t count, const CUDA_KERNEL_NODE_PARAMS *params)
{
    return NOTED(hbmspill_real.cuGraphAddKernelNode_v2(node, graph, dependencies, count, params),
                 note_kernel(&graphs, graph, *node, params->func ? params->func : (CUfunction)params->kern,
                             params->kernelParams, params->extra));
}

/* The plain names: the first versions, whose structure ends with `extra'. */
CUresult hook_cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                                   size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    return NOTED(hbmspill_real.cuGraphAddKernelNode(node, graph, dependencies, count, params),
                 note_kernel(&graphs, graph, *node, params->func, params->kernelParams, params->extra));
}

CUresult hook_cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                                   size_t count, const CUDA_MEMCPY3D *params, CUcontext context)
{
    return NOTED(hbmspill_real.cuGraphAddMemcpyNode(node, graph, dependencies, count, params, context),
                 note_copy(&graphs, graph, *node, params));
}

CUresult hook_cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                                   size_t count, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context)
{
    return NOTED(hbmspill_real.cuGraphAddMemsetNode(node, graph, dependencies, count, params, context),
                 note_address(&graphs, graph, *node, params->dst));
}

CUresult hook_cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                                       size_t count, CUgraph child)
{
    return NOTED(hbmspill_real.cuGraphAddChildGraphNode(node, graph, dependencies, count, child),
                 adopt(&graphs, graph, *node, child));
}

CUresult hook_cuGraphAddBatchMemOpNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                                       size_t count, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params)
{
    return NOTED(hbmspill_real.cuGraphAddBatchMemOpNode(node, graph, dependencies, count, params),
                 note_open(&graphs, graph, *node));
}

CUresult hook_cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                             CUgraphNodeParams *params)
{
    return NOTED(hbmspill_real.cuGraphAddNode(node, graph, dependencies, count, params),
                 note_params(&graphs, graph, *node, graph, params));
}

CUresult hook_cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                                const CUgraphEdgeData *data, size_t count, CUgraphNodeParams *params)
{
    return NOTED(hbmspill_real.cuGraphAddNode_v2(node, graph, dependencies, data, count, params),
                 note_params(&graphs, graph, *node, graph, params));
}

/* Its set is looked for in all graphs. */
static CUgraph graph_of(CUgraphNode node)
{
    struct graph *graph, *next;
    struct node_set *set;
    CUgraph found = (CUgraph)&unplaced;

    pthread_mutex_lock(&lock);
    HASH_ITER(hh, graphs, graph, next)
    {
        LL_SEARCH_SCALAR(graph->sets, set, node, node);
        if (set) {
            found = (CUgraph)graph->handle;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* The handle may be given to a node of another graph. */
static void forget_node(CUgraphNode node)
{
    struct graph *graph, *next;
    struct node_set *set;

    pthread_mutex_lock(&lock);
    HASH_ITER(hh, graphs, graph, next)
    {
        LL_SEARCH_SCALAR(graph->sets, set, node, node);
        if (set) {
            LL_DELETE(graph->sets, set);
            free(set->touch);
            free(set);
        }
    }
    pthread_mutex_unlock(&lock);
}

CUresult hook_cuGraphDestroyNode(CUgraphNode node)
{
    if (shim_active())
        forget_node(node);
    return hbmspill_real.cuGraphDestroyNode(node);
}

CUresult hook_cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph)
{
    return NOTED(hbmspill_real.cuGraphChildGraphNodeGetGraph(node, graph), note_body(*graph, graph_of(node)));
}

CUresult hook_cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)
{
    return NOTED(hbmspill_real.cuGraphKernelNodeSetParams_v2(node, params),
                 note_kernel(&graphs, graph_of(node), node,
                             params->func ? params->func : (CUfunction)params->kern, params->kernelParams,
                             params->extra));
}

CUresult hook_cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    return NOTED(
        hbmspill_real.cuGraphKernelNodeSetParams(node, params),
        note_kernel(&graphs, graph_of(node), node, params->func, params->kernelParams, params->extra));
}

CUresult hook_cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *params)
{
    return NOTED(hbmspill_real.cuGraphMemcpyNodeSetParams(node, params),
                 note_copy(&graphs, graph_of(node), node, params));
}

CUresult hook_cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params)
{
    return NOTED(hbmspill_real.cuGraphMemsetNodeSetParams(node, params),
                 note_address(&graphs, graph_of(node), node, params->dst));
}

CUresult hook_cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *params)
{
    return NOTED(hbmspill_real.cuGraphNodeSetParams(node, params),
                 note_params(&graphs, graph_of(node), node, graph_of(node), params));
}

CUresult hook_cuGraphClone(CUgraph *clone, CUgraph graph)
{
    return NOTED(hbmspill_real.cuGraphClone(clone, graph), duplicate(&graphs, *clone, graph));
}

CUresult hook_cuGraphDestroy(CUgraph graph)
{
    if (shim_active())
        forget(&graphs, graph);
    return hbmspill_real.cuGraphDestroy(graph);
}

#define INSTANTIATED(call) NOTED(RETRY_AFTER_ROOM(0, call), duplicate(&execs, *exec, graph))

CUresult hook_cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    return INSTANTIATED(hbmspill_real.cuGraphInstantiateWithFlags(exec, graph, flags));
}

CUresult hook_cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    return INSTANTIATED(hbmspill_real.cuGraphInstantiateWithParams(exec, graph, params));
}

CUresult hook_cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph,
                                                CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    return INSTANTIATED(hbmspill_real.cuGraphInstantiateWithParams_ptsz(exec, graph, params));
}

CUresult hook_cuGraphExecDestroy(CUgraphExec exec)
{
    if (shim_active())
        forget(&execs, exec);
    return hbmspill_real.cuGraphExecDestroy(exec);
}

CUresult hook_cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    return NOTED(hbmspill_real.cuGraphExecUpdate_v2(exec, graph, info), duplicate(&execs, exec, graph));
}

CUresult hook_cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *error_node,
                                CUgraphExecUpdateResult *result)
{
    return NOTED(hbmspill_real.cuGraphExecUpdate(exec, graph, error_node, result),
                 duplicate(&execs, exec, graph));
}

CUresult hook_cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                const CUDA_KERNEL_NODE_PARAMS *params)
{
    return NOTED(hbmspill_real.cuGraphExecKernelNodeSetParams_v2(exec, node, params),
                 note_kernel(&execs, exec, node, params->func ? params->func : (CUfunction)params->kern,
                             params->kernelParams, params->extra));
}

CUresult hook_cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                             const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    return NOTED(hbmspill_real.cuGraphExecKernelNodeSetParams(exec, node, params),
                 note_kernel(&execs, exec, node, params->func, params->kernelParams, params->extra));
}

CUresult hook_cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params,
                                             CUcontext context)
{
    return NOTED(hbmspill_real.cuGraphExecMemcpyNodeSetParams(exec, node, params, context),
                 note_copy(&execs, exec, node, params));
}

CUresult hook_cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                             const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context)
{
    return NOTED(hbmspill_real.cuGraphExecMemsetNodeSetParams(exec, node, params, context),
                 note_address(&execs, exec, node, params->dst));
}

CUresult hook_cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child)
{
    return NOTED(hbmspill_real.cuGraphExecChildGraphNodeSetParams(exec, node, child),
                 adopt(&execs, exec, node, child));
}

CUresult hook_cuGraphExecBatchMemOpNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                 const CUDA_BATCH_MEM_OP_NODE_PARAMS *params)
{
    return NOTED(hbmspill_real.cuGraphExecBatchMemOpNodeSetParams(exec, node, params),
                 note_open(&execs, exec, node));
}

CUresult hook_cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params)
{
    return NOTED(hbmspill_real.cuGraphExecNodeSetParams(exec, node, params),
                 note_params(&execs, exec, node, graph_of(node), params));
}

/* Everything the graph touches, at once. A graph that was never seen being made may touch anything. */
static bool exec_touches(CUgraphExec exec, struct touches *touches)
{
    struct graph *graph;
    struct node_set *set;
    bool open;

    pthread_mutex_lock(&lock);
    graph = find(&execs, exec, false);
    open = graph == NULL;
    if (graph) {
        LL_FOREACH(graph->sets, set)
        {
            open |= set->open;
            for (unsigned i = 0; i < set->count; i++)
                touches_add(touches, set->touch[i].address, set->touch[i].access);
        }
    }
    pthread_mutex_unlock(&lock);
    return open;
}

static CUresult graph_launch(PFN_cuGraphLaunch_v10000 real, bool per_thread, CUgraphExec exec,
                             CUstream stream)
{
    struct operation operation = {.gpu = NULL};
    struct touches touches;
    CUresult status;

    if (!shim_active())
        return real(exec, stream);
    count_add(graph_launches, 1);
    if (gpu_at(0)) {
        bool open;

        touches_init(&touches);
        open = exec_touches(exec, &touches);
        TRACE(trace_launch(open ? TAPE_OPEN : TAPE_OTHER, "a graph", &touches, stream, per_thread));
        status = operation_begin(&operation, &touches, stream, per_thread, open,
                                 open ? "an open graph" : "a graph");
        if (status != CUDA_SUCCESS)
            return status;
    }
    status = RETRY_AFTER_ROOM(0, real(exec, stream));
    operation_end(&operation, status);
    return status;
}

CUresult hook_cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    return graph_launch(hbmspill_real.cuGraphLaunch, false, exec, stream);
}

CUresult hook_cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream)
{
    return graph_launch(hbmspill_real.cuGraphLaunch_ptsz, true, exec, stream);
}
