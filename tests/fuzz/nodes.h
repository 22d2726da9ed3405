/*
 * nodes.h - an operation as a node of a graph: added, captured, or put in place of another's parameters.
 *
 * The library may refuse any of these for want of memory: what a copy or memset names is looked up then.
 */
#ifndef HBMSPILL_TESTS_FUZZ_NODES_H
#define HBMSPILL_TESTS_FUZZ_NODES_H

#include "tests/fuzz/submit.h"

void nodes_load(void);
CUresult node_add(CUgraph to, const struct operation *op, const CUgraphNode *after, unsigned count,
                  CUgraphNode *node);
CUresult node_capture(const struct operation *op, CUstream stream);
/* Of an executable graph: the operation is of the node's kind. */
CUresult node_set(CUgraphExec exec, CUgraphNode node, const struct operation *op);

#endif
