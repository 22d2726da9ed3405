/*
 * graph.h - graphs that the job launches: as a whole while memory is plenty, else node by node.
 *
 * graph.c           bodies of conditional nodes, the one thing about a graph that the driver does not tell
 * graph_node.c      adding and changing nodes of graphs
 * graph_read.c      a graph, read from the driver, becomes a program
 * graph_program.c   programs: nodes in an order, with their parameters
 * graph_names.c     the addresses a program names
 * graph_exec.c      executable graphs: a program each
 * graph_change.c    what changes one
 * graph_launch.c    launches
 *
 * Threads: any; one lock for each table, held for look-ups alone. An executable graph's own record needs
 * none: "graph objects are not threadsafe" (CUDA, Graph Management).
 */
#ifndef HBMSPILL_HOOKS_GRAPH_H
#define HBMSPILL_HOOKS_GRAPH_H

#include "hooks/graph_names.h"
#include "hooks/graph_program.h"
#include "hooks/operation.h"

/* A conditional node was added. One that cannot be noted makes every graph it is in open. */
void graph_note_conditional(CUgraphNode node, CUgraph graph, const CUDA_CONDITIONAL_NODE_PARAMS *params);
/* The bodies of a conditional node, the driver's array; NULL where the node's making was not seen. */
CUgraph *graph_bodies(CUgraphNode node, unsigned *count);

/*
 * The driver looks up what a copy's or memset's addresses are when a node is given them, so they have to be
 * mapped until operation_end. Not CUDA_SUCCESS: return it to the job.
 * operands_begin takes any kind of node and looks after these two.
 */
CUresult operands_begin_copy(struct operation *operation, const CUDA_MEMCPY3D *copy);
CUresult operands_begin_memset(struct operation *operation, const CUDA_MEMSET_NODE_PARAMS *set);
CUresult operands_begin(struct operation *operation, const CUgraphNodeParams *params);

/* A call of the driver's, and what to note once it has taken it. */
#define NOTED(call, note)                                                                                    \
    ({                                                                                                       \
        CUresult noted_status = (call);                                                                      \
                                                                                                             \
        if (noted_status == CUDA_SUCCESS && shim_active())                                                   \
            note;                                                                                            \
        noted_status;                                                                                        \
    })

#define WITH_OPERANDS(begin, call)                                                                           \
    ({                                                                                                       \
        struct operation operands = {.gpu = NULL};                                                           \
        CUresult operands_status = shim_active() ? begin : CUDA_SUCCESS;                                     \
                                                                                                             \
        if (operands_status == CUDA_SUCCESS) {                                                               \
            operands_status = (call);                                                                        \
            operation_end(&operands, operands_status);                                                       \
        }                                                                                                    \
        operands_status;                                                                                     \
    })
#define WITH_COPY(copy, call) WITH_OPERANDS(operands_begin_copy(&operands, copy), call)
#define WITH_MEMSET(set, call) WITH_OPERANDS(operands_begin_memset(&operands, set), call)
#define WITH_PARAMS(params, call) WITH_OPERANDS(operands_begin(&operands, params), call)

struct exec {
    CUgraphExec handle;
    struct program *program;    /* NULL: unknown, it may touch anything */
    struct program_node *nodes; /* by handle; NULL where the handles are not the program's */
    bool priorities;
    bool changed;      /* what follows is to be found out */
    bool opaque, open; /* not to be launched node by node; may touch anything */
    struct names names;
    bool named;    /* names has all */
    bool disabled; /* some node was, once */
    /* "Each launch is ordered behind any previous launches of hGraphExec" (cuGraphLaunch), in whatever
     * stream: what a launch node by node has to see to. Other threads look at these, and record
     * (graph_exec.c). */
    bool launched, singly; /* at all; the last time, node by node */
    CUstream stream;       /* of the last launch */
    CUevent event;         /* NULL: none yet */
    bool recorded;         /* it is behind the last launch */
    UT_hash_handle hh;
};

/* The record of an executable graph, NULL where its making was not seen. */
struct exec *exec_find(CUgraphExec handle);
/* What it does is no longer known. */
void exec_forget_program(struct exec *exec);
/* Brings opaque, open and names up to date. */
void exec_refresh(struct exec *exec);
/* Was launched in the stream, as a whole or node by node. */
void exec_launched(struct exec *exec, CUstream stream, bool singly);
/* Its last launch needs no event: it was waited for. */
void exec_completed(struct exec *exec);
/* A launch in the stream has to be made to come after the last one, by its event. */
bool exec_comes_after(const struct exec *exec, CUstream stream, bool singly);
/* Records the event behind the last launch, if that is still to be done. */
CUresult exec_record(struct exec *exec);
/* The same for all whose last launch was in the stream, or in any: it goes, or a capture begins. What is held
 * was submitted. */
void exec_record_all(bool any, CUstream stream);
/* How many events of the driver's they have. */
unsigned exec_events(void);

#endif
