/*
 * graph.h - what the nodes of graphs touch, so that it can be brought in before the graph is launched.
 *
 * Addresses are kept as the nodes were given them and resolved at launch; what has been freed by then does
 * not count. Threads: any; one lock, a leaf.
 */
#ifndef HBMSPILL_HOOKS_GRAPH_H
#define HBMSPILL_HOOKS_GRAPH_H

#include "hooks/touches.h"

/* Notes what a node of the graph touches, in place of what was noted for it; node NULL: one more captured
 * operation. */
CUresult graph_note(CUgraph graph, CUgraphNode node, const struct touches *touches, bool open);

#endif
