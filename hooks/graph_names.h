/*
 * graph_names.h - the distinct addresses that a graph's nodes name, for launches as a whole.
 *
 * A step of hundreds of kernels names some dozens of buffers, each many times. The list is made once for each
 * change of the graph; it has every word that could be an address, so it stays right whatever memory becomes
 * ours later.
 *
 * Ownership: the caller's, by names_fini. Threads: those of the executable graph (graph.h).
 */
#ifndef HBMSPILL_HOOKS_GRAPH_NAMES_H
#define HBMSPILL_HOOKS_GRAPH_NAMES_H

#include "hooks/graph_program.h"

struct names {
    struct cache_touch *touch;
    unsigned count, capacity;
    unsigned *slots; /* a hash table: 1 + place in touch, 0: free; twice as many as capacity */
};

/* False where the list cannot say it all (a parameter may hide addresses, no memory): use program_touches. */
bool names_read(struct names *names, const struct program *program);
void names_fini(struct names *names);
void names_touches(const struct names *names, struct touches *touches);

#endif
