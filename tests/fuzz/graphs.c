/*
 * graphs.c - a graph is a list of operations whose edges allow that order.
 */
#include "tests/fuzz/graphs.h"
#include "tests/fuzz/nodes.h"

enum { NODES_MAX = 8, FORKS = 3 };

struct graph {
    CUgraph graph;
    CUgraphExec exec;
    bool captured;
    unsigned count;
    struct operation op[NODES_MAX];
    CUgraphNode node[NODES_MAX]; /* of one made node by node */
    uint32_t before[NODES_MAX];  /* nodes that a node comes after, as bits */
    uint32_t edges[NODES_MAX];   /* those it has an edge from */
    bool disabled[NODES_MAX];
    bool some_disabled, updated;
    struct clock launched; /* what the next launch comes after by itself */
};

void graphs_load(void)
{
    cuda_load();
    nodes_load();
}

/* ---- what must be ordered ---- */

static bool conflict(const struct operation *a, const struct operation *b)
{
    struct touch at[TOUCHES_MAX], bt[TOUCHES_MAX];
    unsigned as = operation_touches(a, at), bs = operation_touches(b, bt);

    for (unsigned i = 0; i < as; i++)
        for (unsigned k = 0; k < bs; k++)
            if (at[i].object == bt[k].object && (at[i].write || bt[k].write) && at[i].first < bt[k].end &&
                bt[k].first < at[i].end)
                return true;
    return false;
}

/* Gives node i edges from those before it that it has to come after, latest first, and from some others. */
static void choose_edges(struct graph *graph, unsigned i, struct random *random)
{
    graph->edges[i] = graph->before[i] = 0;
    for (unsigned k = i; k-- > 0;) {
        if (graph->before[i] & 1u << k)
            continue;
        if (conflict(&graph->op[i], &graph->op[k]) || random_percent(random, 15)) {
            graph->edges[i] |= 1u << k;
            graph->before[i] |= 1u << k | graph->before[k];
        }
    }
}

/* ---- node by node ---- */

/* NULL: refused. */
static CUgraph assemble(struct world *world, const struct graph *of, CUgraphNode *nodes)
{
    CUgraph made;

    CU(cuGraphCreate(&made, 0));
    for (unsigned i = 0; i < of->count; i++) {
        CUgraphNode after[NODES_MAX];
        unsigned count = 0;

        for (unsigned k = 0; k < i; k++)
            if (of->edges[i] & 1u << k)
                after[count++] = nodes[k];
        if (!world_did(world, node_add(made, &of->op[i], count ? after : NULL, count, &nodes[i]),
                       "a node of a graph")) {
            CU(cuGraphDestroy(made));
            return NULL;
        }
    }
    return made;
}

/* ---- by capture ---- */

/* Streams that take part in a capture, and the nodes that the next one of each comes after. */
struct capture {
    CUstream stream[FORKS];
    uint32_t after[FORKS];
    bool joined[FORKS];
};

static void hand_over(struct capture *capture, unsigned from, unsigned to)
{
    CUevent event;

    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CU(cuEventRecord(event, capture->stream[from]));
    CU(cuStreamWaitEvent(capture->stream[to], event, 0));
    CU(cuEventDestroy(event));
    capture->after[to] |= capture->after[from];
    capture->joined[to] = true;
}

static uint32_t conflicts(const struct graph *graph, unsigned i)
{
    uint32_t mask = 0;

    for (unsigned k = 0; k < i; k++)
        if (conflict(&graph->op[i], &graph->op[k]))
            mask |= 1u << k;
    return mask;
}

static void capture_all(struct graph *graph, struct capture *now, CUresult *status, struct random *random)
{
    for (unsigned i = 0; i < graph->count && *status == CUDA_SUCCESS; i++) {
        unsigned in = random_percent(random, 50) ? 0 : random_below(random, FORKS);
        uint32_t needed = conflicts(graph, i);

        if (!now->joined[in])
            hand_over(now, 0, in);
        for (unsigned k = 0; k < FORKS; k++)
            if (now->joined[k] && (needed & now->after[k] & ~now->after[in]))
                hand_over(now, k, in);
        *status = node_capture(&graph->op[i], now->stream[in]);
        graph->before[i] = now->after[in];
        now->after[in] |= 1u << i;
    }
    for (unsigned k = 1; k < FORKS; k++)
        if (now->joined[k])
            hand_over(now, k, 0);
}

/* NULL: refused. */
static CUgraph capture(struct world *world, struct graph *graph, struct random *random)
{
    static const CUstreamCaptureMode modes[] = {
        CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED};
    struct capture now = {.joined = {true}};
    CUgraph made = NULL;
    CUresult status;

    for (unsigned i = 0; i < FORKS; i++) /* streams of their own: nothing of the world's is in them */
        CU(cuStreamCreate(&now.stream[i], CU_STREAM_NON_BLOCKING));
    status = cuda.cuStreamBeginCapture(now.stream[0], modes[random_below(random, 3)]);
    if (status == CUDA_SUCCESS) {
        capture_all(graph, &now, &status, random);
        CU(cuStreamEndCapture(now.stream[0], &made));
    }
    if (!world_did(world, status, "a capture") && made) {
        CU(cuGraphDestroy(made));
        made = NULL;
    }
    for (unsigned i = 0; i < FORKS; i++)
        CU(cuStreamDestroy(now.stream[i]));
    return made;
}

/* ---- life ---- */

void graph_drop(struct world *world, unsigned index)
{
    struct graph *graph = world->graphs[index];

    if (!graph)
        return;
    world_say(world, "graph %u dropped", index);
    world->graphs[index] = NULL;
    world_did(world, cuda.cuGraphExecDestroy(graph->exec), "cuGraphExecDestroy");
    CU(cuGraphDestroy(graph->graph));
    free(graph);
}

static bool names(const struct graph *graph, const struct object *object)
{
    for (unsigned i = 0; i < graph->count; i++)
        if (graph->op[i].to.object == object || graph->op[i].from[0].object == object ||
            graph->op[i].from[1].object == object)
            return true;
    return false;
}

void graphs_forget(struct world *world, const struct object *object)
{
    for (unsigned i = 0; i < GRAPHS_MAX; i++)
        if (world->graphs[i] && names(world->graphs[i], object))
            graph_drop(world, i);
}

void graph_make(struct world *world, struct random *random)
{
    unsigned index = random_below(random, GRAPHS_MAX), wanted = random_from(random, 1, NODES_MAX);
    struct graph *graph;

    graph_drop(world, index);
    graph = calloc(1, sizeof *graph);
    REQUIRE(graph);
    for (unsigned tries = 0; tries < 4 * wanted && graph->count < wanted; tries++)
        if (operation_choose(world, &graph->op[graph->count], random))
            graph->count++;
    graph->captured = world->limits.alone && random_percent(random, 50); /* it forbids calls to others */
    world_say(world, "graph %u of %u nodes, %s", index, graph->count, graph->captured ? "captured" : "made");
    if (!graph->count) {
        free(graph);
        return;
    }
    for (unsigned i = 0; i < graph->count; i++)
        world_say(world, "    %s", operation_text(&graph->op[i]));
    for (unsigned i = 0; i < graph->count; i++)
        choose_edges(graph, i, random);
    graph->graph = graph->captured ? capture(world, graph, random) : assemble(world, graph, graph->node);
    if (!graph->graph) {
        free(graph);
        return;
    }
    if (!world_did(world, cuda.cuGraphInstantiateWithFlags(&graph->exec, graph->graph, 0),
                   "cuGraphInstantiate")) {
        CU(cuGraphDestroy(graph->graph));
        free(graph);
        return;
    }
    world->graphs[index] = graph;
}

static struct graph *some_graph(struct world *world, unsigned *index, struct random *random)
{
    *index = random_below(random, GRAPHS_MAX);
    for (unsigned i = 0; i < GRAPHS_MAX; i++, *index = (*index + 1) % GRAPHS_MAX)
        if (world->graphs[*index])
            return world->graphs[*index];
    return NULL;
}

void graph_launch(struct world *world, struct random *random)
{
    struct touch touches[NODES_MAX * TOUCHES_MAX];
    unsigned index, count = 0, lane = world_lane(world, random);
    struct graph *graph = some_graph(world, &index, random);

    if (!graph)
        return;
    for (unsigned i = 0; i < graph->count; i++) {
        if (graph->disabled[i])
            continue;
        if (!operation_defined(&graph->op[i]))
            return;
        count += operation_touches(&graph->op[i], touches + count);
    }
    order_enter(&world->order, lane);
    clock_join(&world->order.seen[lane], &graph->launched);
    if (!world_order(world, lane, touches, count, random))
        return;
    world_say(world, "stream %u: graph %u", lane, index);
    if (!world_did(world, cuda.cuGraphLaunch(graph->exec, world->stream[lane]), "cuGraphLaunch"))
        return;
    world_touched(world, lane, touches, count);
    graph->launched = world->order.seen[lane];
    for (unsigned i = 0; i < graph->count; i++)
        if (!graph->disabled[i])
            operation_apply(&graph->op[i]);
}

/* ---- changes ---- */

/* Whether the edges there are order a node, changed to be `op', with all the others. */
static bool fits(const struct graph *graph, unsigned of, const struct operation *op)
{
    for (unsigned k = 0; k < graph->count; k++)
        if (k != of && conflict(op, &graph->op[k]) &&
            !(k < of ? graph->before[of] & 1u << k : graph->before[k] & 1u << of))
            return false;
    return true;
}

/*
 * What may be changed of an executable copy node: "CUDA_ERROR_INVALID_VALUE if the memory operands' mappings
 * changed or either the original or new memory operands are multidimensional".
 */
static bool may_become(const struct operation *op, const struct operation *other)
{
    if (op->kind != other->kind)
        return false;
    return op->kind != OP_COPY ||
           ((op->to.object->way == WAY_PINNED) == (other->to.object->way == WAY_PINNED) &&
            (op->from[0].object->way == WAY_PINNED) == (other->from[0].object->way == WAY_PINNED));
}

static bool has_boxes(const struct graph *graph)
{
    for (unsigned i = 0; i < graph->count; i++)
        if (graph->op[i].kind == OP_BOX)
            return true;
    return false;
}

/* The whole graph anew, of the same shape, as the executable's next state. */
static void update(struct world *world, struct graph *graph, struct random *random)
{
    CUgraphExecUpdateResultInfo info;
    CUgraphNode nodes[NODES_MAX];
    struct graph next = *graph;
    CUgraph other;

    for (unsigned i = 0; i < graph->count; i++)
        operation_vary(&next.op[i], random);
    other = assemble(world, &next, nodes);
    if (!other)
        return;
    if (world_did(world, cuda.cuGraphExecUpdate(graph->exec, other, &info), "cuGraphExecUpdate")) {
        memcpy(graph->op, next.op, sizeof next.op);
        graph->updated = true;
    }
    CU(cuGraphDestroy(other));
}

void graph_change(struct world *world, struct random *random)
{
    unsigned index, i, way;
    struct graph *graph = some_graph(world, &index, random);
    struct operation op, other;
    bool known;

    if (!graph || graph->captured) /* a captured graph's nodes have no names here */
        return;
    i = random_below(random, graph->count);
    way = random_below(random, 10);
    /*
     * Which nodes the names mean after an update is not known to the library: as documented, it then launches
     * the graph as a whole, and everything has to fit.
     */
    known = world->limits.may_run_out || !graph->updated;
    world_say(world, "graph %u changed, way %u, node %u", index, way, i);
    op = graph->op[i];
    if (way < 2) {
        if (!has_boxes(graph) && (world->limits.may_run_out || !graph->some_disabled))
            update(world, graph, random);
    } else if (way < 4) {
        if (!known || op.kind == OP_HOST)
            return;
        graph->disabled[i] = !graph->disabled[i];
        graph->some_disabled = true;
        CU(cuGraphNodeSetEnabled(graph->exec, graph->node[i], !graph->disabled[i]));
    } else if (known && op.kind != OP_BOX) {
        operation_vary(&op, random);
        for (unsigned tries = 0; tries < 6; tries++) {
            if (!operation_choose(world, &other, random) || !may_become(&op, &other) ||
                !fits(graph, i, &other))
                continue;
            op = other;
            break;
        }
        if (world_did(world, node_set(graph->exec, graph->node[i], &op), "a node's new parameters"))
            graph->op[i] = op;
    }
}
