/*
 * graph_program.h - what an executable graph does: its nodes in an order in which they may be launched, with
 * their parameters as last set.
 *
 * A program is read from the graph when that is instantiated, which copies the graph's state of that moment
 * (cuGraphInstantiate); however the graph was made - node by node, captured, cloned - the driver knows its
 * nodes. Addresses are kept as the nodes were given them and looked up when they are used.
 *
 * Ownership: a program owns all behind it, child graphs and conditional bodies included. Threads: none of its
 * own; "graph objects are not threadsafe" (CUDA, Graph Management), so whoever uses the executable graph has
 * its program to itself. Errors: 0, -ENOMEM, or -EIO where the driver would not tell.
 */
#ifndef HBMSPILL_HOOKS_GRAPH_PROGRAM_H
#define HBMSPILL_HOOKS_GRAPH_PROGRAM_H

#include "hooks/kernel.h"
#include "hooks/touches.h"
#include <uthash.h>

struct program;

struct program_kernel {
    CUfunction function; /* or a CUkernel: a launch accepts either */
    bool closed;         /* else nothing is kept of the parameters */
    unsigned grid[3], block[3], shared;
    unsigned count;
    struct kernel_param *params; /* where each is in `bytes' */
    unsigned char *bytes;        /* as a launch's packed buffer */
    CUlaunchAttribute *attributes;
    unsigned attribute_count;
};

struct program_node {
    CUgraphNode handle; /* in the graph that was instantiated */
    CUgraphNodeType type;
    bool disabled; /* cuGraphNodeSetEnabled */
    bool opaque;   /* not to be launched but with the whole graph */
    bool open;     /* may touch any allocation */
    bool entered;  /* in a table by handle */
    union {
        struct program_kernel kernel;
        CUDA_MEMCPY3D copy;
        CUDA_MEMSET_NODE_PARAMS set;
        CUDA_HOST_NODE_PARAMS host;
        CUevent event;
        struct { /* of a child graph (one), of a conditional node */
            struct program **bodies;
            unsigned body_count;
        };
    };
    UT_hash_handle hh; /* by handle, over a program and all inside it */
};

struct program {
    unsigned count;
    struct program_node *nodes; /* each behind all it depends on */
};

/* priorities: kernels run at their nodes' (CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY). */
int program_read(CUgraph graph, bool priorities, struct program **out);
void program_free(struct program *program);

/* New parameters of a node. What cannot be kept makes the node open. */
void program_set_kernel(struct program_node *node, CUfunction function, const unsigned grid[3],
                        const unsigned block[3], unsigned shared, void **params, void **extra);
void program_set_copy(struct program_node *node, const CUDA_MEMCPY3D *copy);

/*
 * Once an event is known or changed: a node waits for what an event stands for when the graph is launched
 * (cuGraphAddEventWaitNode), which could not be had where the same graph records that event before: such a
 * recording is opaque.
 */
void program_mark_events(struct program *program);

/* Enters all nodes into a table by handle, removes them from it. */
void program_enter(struct program *program, struct program_node **table);
void program_leave(struct program *program, struct program_node **table);

/* Whether any node is opaque, whether any is open. */
void program_kind(const struct program *program, bool *opaque, bool *open);
/* Everything its nodes name, disabled ones included. */
void program_touches(const struct program *program, struct touches *touches);
/* What one node names, not what is inside it. */
void program_node_touches(const struct program_node *node, struct touches *touches);

#endif
