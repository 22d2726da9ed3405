/*
 * graph_run.c - a launched graph: which nodes may run, and running one at a time in any order that the
 * dependencies allow; children and conditional bodies as runs inside.
 *
 * A node that waits for something else (a host function, an event, its body) does not hold up the others.
 */
#include "graph.h"
#include "record.h"
#include "timeline.h"
#include "touches.h"

#include <stdlib.h>

enum node_state { NODE_WAITS, NODE_READY, NODE_RUNS, NODE_DONE };

struct node_run {
    enum node_state state;
    size_t missing; /* dependencies not yet done */
    struct graph_run *body;
    struct op *event_op; /* of an event wait: what it waits for, counted */
    struct record_line *record;
    double recorded_from; /* the first of its starts */
    double start;         /* virtual ns since the outermost graph's start: the end of all it depends on */
};

struct graph_run {
    struct program *program;
    struct node_run *nodes;
    size_t done;
    uint32_t round;           /* how often it has run before, as the body of a node */
    struct graph_run *parent; /* whose node at it is the body of, or NULL */
    size_t at;
    bool started; /* conditional values assigned */
    double end;   /* virtual ns since the outermost graph's start: of the last node so far */
};

/* begin: virtual ns since the outermost graph's start. */
static void reset(struct graph_run *run, double begin)
{
    run->done = 0;
    run->started = false;
    run->end = begin;
    for (size_t i = 0; i < run->program->count; i++) {
        struct node_run *node = &run->nodes[i];
        node->missing = run->program->nodes[i].predecessor_count;
        node->state = node->missing ? NODE_WAITS : NODE_READY;
        node->start = node->recorded_from = begin;
    }
}

struct graph_run *graph_run_new_locked(struct program *program)
{
    struct graph_run *run = calloc(1, sizeof(*run));
    if (!run)
        return NULL;
    run->nodes = calloc(program->count + 1, sizeof(*run->nodes));
    if (!run->nodes) {
        free(run);
        return NULL;
    }
    run->program = program;
    program->refs++;
    for (size_t i = 0; i < program->count; i++) {
        const struct program_node *node = &program->nodes[i];
        if (node->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT && object_valid(node->event, OBJECT_EVENT) &&
            node->event->op)
            run->nodes[i].event_op = op_ref(node->event->op);
    }
    reset(run, 0);
    return run;
}

unsigned graph_run_awaits_locked(const struct graph_run *run, struct op **out, unsigned most)
{
    unsigned n = 0;
    for (size_t i = 0; i < run->program->count && n < most; i++)
        if (run->nodes[i].event_op)
            out[n++] = run->nodes[i].event_op;
    return n;
}

void graph_run_order_locked(const struct graph_run *run, struct op *op)
{
    for (size_t i = 0; i < run->program->count; i++)
        if (run->nodes[i].event_op)
            order_after_locked(op, run->nodes[i].event_op);
}

static struct node_place node_place(const struct graph_run *run, size_t at)
{
    struct node_place place = {0};
    unsigned depth = 0;
    for (const struct graph_run *r = run; r; r = r->parent)
        depth++;
    place.levels = depth < PLACE_LEVELS ? depth : PLACE_LEVELS;
    for (; run; at = run->at, run = run->parent) {
        if (--depth >= PLACE_LEVELS)
            continue;
        place.level[depth].round = run->round;
        place.level[depth].node = (uint32_t)at;
        place.level[depth].program = run->program;
    }
    return place;
}

static size_t count_works(const struct program_node *node)
{
    size_t n = 1;
    for (size_t b = 0; b < node->body_count; b++)
        for (size_t i = 0; i < node->bodies[b]->count; i++)
            n += count_works(&node->bodies[b]->nodes[i]);
    return n;
}

static size_t list_works(const struct program_node *node, const struct work **out)
{
    size_t n = 1;
    out[0] = &node->work;
    for (size_t b = 0; b < node->body_count; b++)
        for (size_t i = 0; i < node->bodies[b]->count; i++)
            n += list_works(&node->bodies[b]->nodes[i], out + n);
    return n;
}

void graph_run_record_locked(struct graph_run *run, uint64_t stream_id)
{
    if (!options.record)
        return;
    for (size_t i = 0; i < run->program->count; i++) {
        const struct program_node *node = &run->program->nodes[i];
        if (node->disabled)
            continue;
        if (!node->body_count) {
            run->nodes[i].record = record_work_locked(&node->work, stream_id);
            continue;
        }
        const struct work **works = malloc(count_works(node) * sizeof(*works));
        if (works)
            run->nodes[i].record = record_nodes_locked(works, list_works(node, works), stream_id);
        free(works);
    }
}

double graph_run_ns(const struct graph_run *run)
{
    return run->end;
}

void graph_run_free_locked(struct graph_run *run)
{
    for (size_t i = 0; i < run->program->count; i++) {
        if (run->nodes[i].body)
            graph_run_free_locked(run->nodes[i].body);
        if (run->nodes[i].event_op)
            op_unref_locked(run->nodes[i].event_op);
    }
    program_unref_locked(run->program);
    free(run->nodes);
    free(run);
}

static bool node_can_go(const struct node_run *node)
{
    if (node->state == NODE_READY)
        return !node->event_op || node->event_op->state == OP_DONE;
    return node->state == NODE_RUNS && node->body && graph_run_ready_locked(node->body);
}

bool graph_run_ready_locked(const struct graph_run *run)
{
    if (run->done == run->program->count)
        return true;
    for (size_t i = 0; i < run->program->count; i++)
        if (node_can_go(&run->nodes[i]))
            return true;
    return false;
}

bool graph_run_touches(const struct graph_run *run, uint64_t address, uint64_t size)
{
    for (size_t i = 0; i < run->program->count; i++) {
        const struct program_node *node = &run->program->nodes[i];
        if (run->nodes[i].state == NODE_DONE)
            continue;
        if (work_touches(&node->work, address, size))
            return true;
        for (size_t b = 0; b < node->body_count; b++) {
            for (size_t k = 0; k < node->bodies[b]->count; k++)
                if (work_touches(&node->bodies[b]->nodes[k].work, address, size))
                    return true;
        }
    }
    return false;
}

/*
 * Virtual time of a graph: each node starts at the end of those it depends on and has the machine to itself,
 * but for what does not depend on it; copies of a graph do not queue for an engine.
 */
static void node_done(struct graph_run *run, size_t at, double ns)
{
    const struct program_node *node = &run->program->nodes[at];
    double end = run->nodes[at].start + ns;
    record_done_locked(run->nodes[at].record, end - run->nodes[at].recorded_from);
    run->nodes[at].record = NULL;
    run->nodes[at].state = NODE_DONE;
    run->done++;
    if (end > run->end)
        run->end = end;
    for (size_t i = 0; i < node->successor_count; i++) {
        struct node_run *successor = &run->nodes[node->successors[i]];
        if (end > successor->start)
            successor->start = successor->recorded_from = end;
        if (--successor->missing == 0)
            successor->state = NODE_READY;
    }
}

struct host_call {
    struct graph_run *run;
    size_t at;
    struct op *op; /* counted */
};

static void host_done(void *argument)
{
    struct host_call *call = argument;
    node_done(call->run, call->at, clock_runs ? work_ns(&call->run->program->nodes[call->at].work) : 0);
    pthread_cond_signal(&call->op->ctx->device->engine->wake);
    op_unref_locked(call->op);
    free(call);
}

/* The body a conditional runs now, or NULL. */
static struct program *chosen_body(const struct program_node *node, const struct op *op)
{
    if (node->type == CU_GRAPH_NODE_TYPE_GRAPH)
        return node->bodies[0];
    if (op->ctx->error != CUDA_SUCCESS)
        return NULL;
    unsigned value = *(const volatile unsigned *)window_alias(node->handle);
    switch (node->condition) {
    case CU_GRAPH_COND_TYPE_IF:
        return value ? node->bodies[0] : node->body_count > 1 ? node->bodies[1] : NULL;
    case CU_GRAPH_COND_TYPE_WHILE:
        return value ? node->bodies[0] : NULL;
    default:
        return value < node->body_count ? node->bodies[value] : NULL;
    }
}

static void start_body(struct graph_run *run, size_t at, struct op *op)
{
    struct program *body = chosen_body(&run->program->nodes[at], op);
    struct node_run *node = &run->nodes[at];
    if (node->body && node->body->program != body) {
        graph_run_free_locked(node->body);
        node->body = NULL;
    }
    if (!body) {
        node_done(run, at, 0);
        return;
    }
    if (node->body) {
        node->body->round++;
        reset(node->body, node->start);
    } else {
        node->body = graph_run_new_locked(body);
        if (!node->body) {
            context_fail_locked(op->ctx, CUDA_ERROR_OUT_OF_MEMORY);
            node_done(run, at, 0);
            return;
        }
        node->body->parent = run;
        node->body->at = at;
        reset(node->body, node->start);
    }
    node->state = NODE_RUNS;
}

static void start_node(struct graph_run *run, size_t at, struct op *op)
{
    const struct program_node *node = &run->program->nodes[at];
    struct engine *engine = op->ctx->device->engine;
    struct host_call *call;
    double ns = 0;
    switch (node->type) {
    case CU_GRAPH_NODE_TYPE_HOST:
        call = op->ctx->error == CUDA_SUCCESS ? malloc(sizeof(*call)) : NULL;
        if (call) {
            *call = (struct host_call){.run = run, .at = at, .op = op_ref(op)};
            run->nodes[at].state = NODE_RUNS;
            if (engine_call_host_locked(engine, &node->work, op, host_done, call) == 0)
                return;
            op_unref_locked(op);
            free(call);
            context_fail_locked(op->ctx, CUDA_ERROR_OUT_OF_MEMORY);
        }
        break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        start_body(run, at, op);
        return;
    case CU_GRAPH_NODE_TYPE_KERNEL:
    case CU_GRAPH_NODE_TYPE_MEMCPY:
    case CU_GRAPH_NODE_TYPE_MEMSET:
        run->nodes[at].state = NODE_RUNS;
        if (!node->disabled) {
            struct node_place place = node_place(run, at);
            ns = engine_run_work_locked(engine, &node->work, op, &place);
        }
        break;
    default:
        break;
    }
    node_done(run, at, ns);
}

/* "CU_GRAPH_COND_ASSIGN_DEFAULT: the default value is applied when the graph is launched" */
static void assign_defaults(const struct program *program)
{
    for (size_t i = 0; i < program->conditional_count; i++)
        if (program->conditionals[i].assign)
            *(unsigned *)window_alias(program->conditionals[i].address) = program->conditionals[i].value;
    for (size_t i = 0; i < program->count; i++)
        for (size_t b = 0; b < program->nodes[i].body_count; b++)
            assign_defaults(program->nodes[i].bodies[b]);
}

static size_t pick_node(const struct graph_run *run, struct engine *engine)
{
    size_t chosen = run->program->count, n = 0;
    for (size_t i = 0; i < run->program->count; i++) {
        if (!node_can_go(&run->nodes[i]))
            continue;
        if (options.schedule != SCHEDULE_RANDOM)
            return i;
        if (engine_random(++engine->picks) % ++n == 0)
            chosen = i;
    }
    return chosen;
}

static bool step(struct graph_run *run, struct op *op)
{
    size_t at = pick_node(run, op->ctx->device->engine);
    if (at < run->program->count) {
        struct node_run *node = &run->nodes[at];
        if (node->state == NODE_READY) {
            start_node(run, at, op);
        } else if (step(node->body, op)) {
            const struct program_node *program_node = &run->program->nodes[at];
            node->start = node->body->end;
            if (program_node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL &&
                program_node->condition == CU_GRAPH_COND_TYPE_WHILE)
                start_body(run, at, op); /* once more, or done */
            else
                node_done(run, at, 0);
        }
    }
    return run->done == run->program->count;
}

bool graph_run_step_locked(struct graph_run *run, struct op *op)
{
    if (!run->started) {
        run->started = true;
        assign_defaults(run->program);
    }
    return step(run, op);
}
