/*
 * graph_read.c - reading a graph's nodes from the driver.
 *
 * The order: as the nodes were made, but each behind all that it depends on. Edges of any kind count as full
 * dependencies, which is more than a programmatic one asks for (CUgraphDependencyType).
 */
#include "hooks/graph.h"
#include "hooks/graph_program.h"
#include <errno.h>

/* What a launch can be given of a kernel node's attributes; the rest is about streams and early starts. */
static const CUlaunchAttributeID carried[] = {
    CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW,
    CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
    CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
    CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
    CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP,
    CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN,
    CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION,
    CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING,
    CU_LAUNCH_ATTRIBUTE_PRIORITY,
};
enum { CARRIED = sizeof carried / sizeof *carried };

/* False where it is not set, or unknown to the driver. */
static bool get_attribute(CUgraphNode node, CUlaunchAttributeID id, CUlaunchAttributeValue *value)
{
    static const CUlaunchAttributeValue unset;

    memset(value, 0, sizeof *value);
    if (!hbmspill_real.cuGraphKernelNodeGetAttribute ||
        hbmspill_real.cuGraphKernelNodeGetAttribute(node, id, value) != CUDA_SUCCESS)
        return false;
    if (id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP && !value->memSyncDomainMap.default_ &&
        value->memSyncDomainMap.remote == 1) /* the default, which a launch need not be told */
        return false;
    return memcmp(value->pad, unset.pad, sizeof unset.pad) != 0;
}

static int read_attributes(struct program_node *node, bool priorities)
{
    CUlaunchAttribute found[CARRIED];
    CUlaunchAttributeValue value;
    unsigned count = 0;

    if (get_attribute(node->handle, CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE, &value) &&
        value.deviceUpdatableKernelNode.deviceUpdatable)
        node->opaque = node->open = true; /* kernels may change what it is given */
    for (unsigned i = 0; i < CARRIED; i++) {
        if ((carried[i] == CU_LAUNCH_ATTRIBUTE_PRIORITY && !priorities) ||
            !get_attribute(node->handle, carried[i], &value))
            continue;
        memset(&found[count], 0, sizeof *found);
        found[count].id = carried[i];
        found[count++].value = value;
    }
    if (!count)
        return 0;
    node->kernel.attributes = malloc(count * sizeof *found);
    if (!node->kernel.attributes)
        return -ENOMEM;
    memcpy(node->kernel.attributes, found, count * sizeof *found);
    node->kernel.attribute_count = count;
    return 0;
}

static int read_kernel(struct program_node *node, bool priorities)
{
    CUDA_KERNEL_NODE_PARAMS params = {.func = NULL};

    if (hbmspill_real.cuGraphKernelNodeGetParams_v2) {
        if (hbmspill_real.cuGraphKernelNodeGetParams_v2(node->handle, &params) != CUDA_SUCCESS)
            return -EIO;
    } else {
        CUDA_KERNEL_NODE_PARAMS_v1 first; /* all but the last members */

        if (!hbmspill_real.cuGraphKernelNodeGetParams ||
            hbmspill_real.cuGraphKernelNodeGetParams(node->handle, &first) != CUDA_SUCCESS)
            return -EIO;
        memcpy(&params, &first, sizeof first);
    }
    program_set_kernel(node, params.func ? params.func : (CUfunction)params.kern,
                       (unsigned[]){params.gridDimX, params.gridDimY, params.gridDimZ},
                       (unsigned[]){params.blockDimX, params.blockDimY, params.blockDimZ},
                       params.sharedMemBytes, params.kernelParams, params.extra);
    return read_attributes(node, priorities);
}

static int read_bodies(struct program_node *node, const CUgraph *graphs, unsigned count, bool priorities)
{
    node->bodies = calloc(count + 1, sizeof *node->bodies);
    if (!node->bodies)
        return -ENOMEM;
    for (; node->body_count < count; node->body_count++) {
        int error = program_read(graphs[node->body_count], priorities, &node->bodies[node->body_count]);

        if (error)
            return error;
    }
    return 0;
}

static int told(CUresult status)
{
    return status == CUDA_SUCCESS ? 0 : -EIO;
}

/* Whether the condition holds is known on the device alone (cudaGraphSetConditional). */
static int read_conditional(struct program_node *node, bool priorities)
{
    unsigned count;
    CUgraph *bodies = graph_bodies(node->handle, &count);

    node->opaque = true;
    node->open = bodies == NULL;
    return read_bodies(node, bodies, bodies ? count : 0, priorities);
}

static int read_node(struct program_node *node, CUgraphNode handle, bool priorities)
{
    CUDA_MEMCPY3D copy;
    CUgraph child;
    int error;

    error = told(hbmspill_real.cuGraphNodeGetType(handle, &node->type));
    if (error) {
        node->type = CU_GRAPH_NODE_TYPE_EMPTY;
        return error;
    }
    node->handle = handle;
    switch (node->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return read_kernel(node, priorities);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        error = told(hbmspill_real.cuGraphMemcpyNodeGetParams(handle, &copy));
        if (!error)
            program_set_copy(node, &copy);
        return error;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return told(hbmspill_real.cuGraphMemsetNodeGetParams(handle, &node->set));
    case CU_GRAPH_NODE_TYPE_HOST:
        return told(hbmspill_real.cuGraphHostNodeGetParams(handle, &node->host));
    case CU_GRAPH_NODE_TYPE_GRAPH:
        error = told(hbmspill_real.cuGraphChildGraphNodeGetGraph(handle, &child));
        return error ? error : read_bodies(node, &child, 1, priorities);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        return read_conditional(node, priorities);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return told(hbmspill_real.cuGraphEventRecordNodeGetEvent(handle, &node->event));
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return told(hbmspill_real.cuGraphEventWaitNodeGetEvent(handle, &node->event));
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return 0;
    default:
        node->opaque = node->open = true;
        return 0;
    }
}

/* ---- order ---- */

/* A node of the graph while it is put in order. */
struct place {
    CUgraphNode handle;
    unsigned first, count; /* its dependencies in `before' */
    bool entered, placed;
    UT_hash_handle hh;
};

struct order {
    size_t count, edges;
    CUgraphNode *nodes, *from, *to;
    CUgraphEdgeData *data;
    struct place *places, *by_handle;
    struct place **before, **stack;
};

static void order_fini(struct order *order)
{
    HASH_CLEAR(hh, order->by_handle);
    free(order->nodes);
    free(order->from);
    free(order->to);
    free(order->data);
    free(order->places);
    free(order->before);
    free(order->stack);
}

/* What every driver has that knows such nodes; event nodes came later. */
static bool readable(void)
{
    return hbmspill_real.cuGraphGetNodes && hbmspill_real.cuGraphNodeGetType &&
           hbmspill_real.cuGraphMemcpyNodeGetParams && hbmspill_real.cuGraphMemsetNodeGetParams &&
           hbmspill_real.cuGraphHostNodeGetParams && hbmspill_real.cuGraphChildGraphNodeGetGraph;
}

static int get_edges(struct order *order, CUgraph graph)
{
    bool second = hbmspill_real.cuGraphGetEdges_v2 != NULL;

    if (!second && !hbmspill_real.cuGraphGetEdges)
        return -EIO;
    if ((second ? hbmspill_real.cuGraphGetEdges_v2(graph, NULL, NULL, NULL, &order->edges)
                : hbmspill_real.cuGraphGetEdges(graph, NULL, NULL, &order->edges)) != CUDA_SUCCESS)
        return -EIO;
    order->from = calloc(order->edges + 1, sizeof(CUgraphNode));
    order->to = calloc(order->edges + 1, sizeof(CUgraphNode));
    order->data = calloc(order->edges + 1, sizeof *order->data);
    if (!order->from || !order->to || !order->data)
        return -ENOMEM;
    if (!order->edges)
        return 0;
    /* The first form, and the second without `data', refuse edges that are not plain
     * (CUDA_ERROR_LOSSY_QUERY). */
    return told(
        second ? hbmspill_real.cuGraphGetEdges_v2(graph, order->from, order->to, order->data, &order->edges)
               : hbmspill_real.cuGraphGetEdges(graph, order->from, order->to, &order->edges));
}

static int order_read(struct order *order, CUgraph graph)
{
    struct place *place;
    unsigned first = 0;
    int error;

    if (!readable() || hbmspill_real.cuGraphGetNodes(graph, NULL, &order->count) != CUDA_SUCCESS)
        return -EIO;
    order->nodes = calloc(order->count + 1, sizeof(CUgraphNode));
    order->places = calloc(order->count + 1, sizeof *order->places);
    order->stack = calloc(order->count + 1, sizeof *order->stack);
    if (!order->nodes || !order->places || !order->stack)
        return -ENOMEM;
    if (order->count && hbmspill_real.cuGraphGetNodes(graph, order->nodes, &order->count) != CUDA_SUCCESS)
        return -EIO;
    error = get_edges(order, graph);
    if (error)
        return error;
    order->before = calloc(order->edges + 1, sizeof *order->before);
    if (!order->before)
        return -ENOMEM;
    for (size_t i = 0; i < order->count; i++) {
        order->places[i].handle = order->nodes[i];
        place = &order->places[i];
        HASH_ADD_PTR(order->by_handle, handle, place);
    }
    for (size_t i = 0; i < order->edges; i++) {
        HASH_FIND_PTR(order->by_handle, &order->to[i], place);
        if (!place)
            return -EIO;
        place->count++;
    }
    for (size_t i = 0; i < order->count; i++) {
        order->places[i].first = first;
        first += order->places[i].count;
        order->places[i].count = 0;
    }
    for (size_t i = 0; i < order->edges; i++) {
        struct place *from;

        HASH_FIND_PTR(order->by_handle, &order->to[i], place);
        HASH_FIND_PTR(order->by_handle, &order->from[i], from);
        if (!place || !from)
            return -EIO;
        order->before[place->first + place->count++] = from;
    }
    return 0;
}

/* `nodes' in the new order: each node where it was made, but what it depends on before it. */
static int order_make(struct order *order)
{
    size_t done = 0;

    for (size_t i = 0; i < order->count; i++) {
        size_t depth = 0;

        if (order->places[i].placed)
            continue;
        order->places[i].entered = true;
        order->stack[depth++] = &order->places[i];
        while (depth) {
            struct place *place = order->stack[depth - 1], *next = NULL;

            while (place->count && !next) {
                next = order->before[place->first + --place->count];
                if (next->placed)
                    next = NULL;
            }
            if (!next) {
                place->placed = true;
                order->nodes[done++] = place->handle;
                depth--;
            } else if (next->entered) {
                return -EIO; /* a circle, which the driver does not allow */
            } else {
                next->entered = true;
                order->stack[depth++] = next;
            }
        }
    }
    return 0;
}

int program_read(CUgraph graph, bool priorities, struct program **out)
{
    struct program *program = calloc(1, sizeof *program);
    struct order order = {.count = 0};
    int error = program ? order_read(&order, graph) : -ENOMEM;

    if (!error)
        error = order_make(&order);
    if (!error) {
        program->nodes = calloc(order.count + 1, sizeof *program->nodes);
        if (!program->nodes)
            error = -ENOMEM;
    }
    while (!error && program->count < order.count) {
        struct program_node *node = &program->nodes[program->count];

        error = read_node(node, order.nodes[program->count++], priorities);
    }
    order_fini(&order);
    if (error) {
        program_free(program);
        return error;
    }
    *out = program;
    return 0;
}
