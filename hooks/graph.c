/*
 * graph.c - the bodies of conditional nodes.
 *
 * The graphs that a conditional node runs are handed out when it is added, and there is no call that tells
 * them later. Conditional nodes cannot be cloned (cuGraphClone), so there are no others.
 */
#include "hooks/graph.h"
#include <pthread.h>

struct conditional {
    CUgraphNode node;
    CUgraph graph;   /* it was added to */
    CUgraph *bodies; /* "CUDA-owned array, valid for the lifetime of the conditional node" */
    unsigned count;
    UT_hash_handle hh;
};

/* Protects the table. Leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct conditional *conditionals;

CUgraph *graph_bodies(CUgraphNode node, unsigned *count)
{
    struct conditional *found;
    CUgraph *bodies = NULL;

    pthread_mutex_lock(&lock);
    HASH_FIND_PTR(conditionals, &node, found);
    if (found) {
        bodies = found->bodies;
        *count = found->count;
    }
    pthread_mutex_unlock(&lock);
    return bodies;
}

void graph_note_conditional(CUgraphNode node, CUgraph graph, const CUDA_CONDITIONAL_NODE_PARAMS *params)
{
    struct conditional *entry;

    pthread_mutex_lock(&lock);
    HASH_FIND_PTR(conditionals, &node, entry); /* handles are given out again */
    if (!entry) {
        entry = calloc(1, sizeof *entry);
        if (entry) {
            entry->node = node;
            HASH_ADD_PTR(conditionals, node, entry);
        }
    }
    if (entry) {
        entry->graph = graph;
        entry->bodies = params->phGraph_out;
        entry->count = entry->bodies ? params->size : 0;
    }
    pthread_mutex_unlock(&lock);
}

static struct conditional *find_in(CUgraph graph)
{
    struct conditional *entry;

    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what was freed is no longer in the table */
    for (entry = conditionals; entry && entry->graph != graph; entry = entry->hh.next)
        ;
    return entry;
}

static void forget_graph(CUgraph graph);

/* With the lock: a conditional node that goes, and what is in its bodies. */
static void forget_entry(struct conditional *entry)
{
    const struct conditional gone = *entry;

    HASH_DEL(conditionals, entry);
    free(entry);
    for (unsigned i = 0; i < gone.count; i++)
        forget_graph(gone.bodies[i]);
}

static void forget_graph(CUgraph graph)
{
    struct conditional *entry;

    while ((entry = find_in(graph)))
        forget_entry(entry);
}

static void forget_node(CUgraphNode node)
{
    struct conditional *entry;

    pthread_mutex_lock(&lock);
    HASH_FIND_PTR(conditionals, &node, entry);
    if (entry)
        forget_entry(entry);
    pthread_mutex_unlock(&lock);
}

CUresult hook_cuGraphDestroyNode(CUgraphNode node)
{
    if (shim_active())
        forget_node(node);
    return hbmspill_real.cuGraphDestroyNode(node);
}

CUresult hook_cuGraphDestroy(CUgraph graph)
{
    if (shim_active()) {
        pthread_mutex_lock(&lock);
        forget_graph(graph);
        pthread_mutex_unlock(&lock);
    }
    return hbmspill_real.cuGraphDestroy(graph);
}
