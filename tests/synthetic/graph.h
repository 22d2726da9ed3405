/*
 * graph.h - graphs as the application builds them (graph.c, graph_node.c) and as they run (graph_exec.c,
 * graph_run.c).
 *
 * A graph is a list of nodes with their dependencies. Instantiating it makes a *program*: the same, fixed,
 * counted and never changed while somebody else holds it, so that an update of an executable graph concerns
 * later launches only
 * ("cuGraphExec...SetParams: already enqueued launches of hGraphExec are unaffected").
 */
#ifndef SYNTHETIC_GRAPH_H
#define SYNTHETIC_GRAPH_H

#include "event.h"
#include "launch.h"

struct CUgraphNode_st {
    struct object object;
    struct CUgraph_st *graph;
    struct CUgraphNode_st *original; /* of which it is a clone */
    CUgraphNodeParams params;        /* as given; pointers in it are not followed */
    CUkernelNodeAttrValue attributes[CU_LAUNCH_ATTRIBUTE_MAX];
    struct work work;
    void **param_pointers; /* for GetParams of kernels: into work.kernel.params */
    struct CUgraphNode_st **deps;
    CUgraphEdgeData *edges; /* one per dependency */
    size_t dep_count;
    struct CUgraph_st **bodies; /* of a child graph node (one) or a conditional */
    size_t body_count;
    size_t index; /* in its graph */
};

struct conditional {
    uint64_t address; /* of its value; the handle */
    unsigned value;   /* by default */
    bool assign;
};

struct CUgraph_st {
    struct object object;
    struct CUgraphNode_st **nodes;
    size_t count, capacity;
    struct conditional *conditionals; /* handles made for it */
    size_t conditional_count;
    bool owned; /* by a node: not the application's to destroy */
};

struct program_node {
    CUgraphNodeType type;
    struct work work;
    bool disabled;
    size_t *successors;
    size_t successor_count, predecessor_count;
    struct program **bodies;
    size_t body_count;
    CUgraphConditionalNodeType condition;
    uint64_t handle;
    CUevent event;
    CUgraphNode origin;
};

struct program {
    int refs;
    struct program_node *nodes;
    size_t count;
    struct conditional *conditionals;
    size_t conditional_count;
    uint64_t *before; /* graph_order.c, or NULL */
};

struct CUgraphExec_st {
    struct object object;
    struct program *program;
    unsigned long long flags;
    struct op *last; /* its last launch, counted: one executable graph does not run beside itself */
};

/* ---- graph.c ---- */
CUgraph graph_new_locked(void);
void graph_destroy_locked(CUgraph graph);
CUgraph graph_clone_locked(CUgraph graph);
/* Checks that all are nodes of graph. */
bool graph_has_all(CUgraph graph, const CUgraphNode *nodes, size_t count);
/* A new node at the end of graph without work; NULL when out of memory. */
CUgraphNode graph_append_locked(CUgraph graph, CUgraphNodeType type, const CUgraphNode *deps,
                                const CUgraphEdgeData *edges, size_t dep_count);
bool node_depend_locked(CUgraphNode node, CUgraphNode on, const CUgraphEdgeData *edge);
void node_destroy_locked(CUgraphNode node);

/* ---- graph_node.c ---- */
/* Makes work of params, in the context they name or the current one. */
CUresult node_work_make(const CUgraphNodeParams *params, struct work *out);

/* ---- graph_exec.c ---- */
void program_unref_locked(struct program *program);

/* ---- graph_order.c ---- */
/* A node depends on another one, directly or not. */
bool program_before_locked(struct program *program, uint32_t first, uint32_t second);

/* ---- graph_run.c ---- */
struct graph_run *graph_run_new_locked(struct program *program);

#endif
