/*
 * graphs.h - graphs of operations: made of nodes or captured, launched, changed, updated as a whole.
 *
 * Two nodes of which one writes what the other touches are ordered by edges, and by nothing else; a launch of
 * an executable graph comes after the one before of the same.
 */
#ifndef HBMSPILL_TESTS_FUZZ_GRAPHS_H
#define HBMSPILL_TESTS_FUZZ_GRAPHS_H

#include "tests/fuzz/world.h"

void graphs_load(void);
/* Into a free place, or instead of another. */
void graph_make(struct world *world, struct random *random);
void graph_launch(struct world *world, struct random *random);
/* Other parameters for later launches. */
void graph_change(struct world *world, struct random *random);
void graph_drop(struct world *world, unsigned index);
/* Those that name an object go. */
void graphs_forget(struct world *world, const struct object *object);

#endif
