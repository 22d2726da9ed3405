/*
 * actions.h - a sequence of actions: some at random, then a round of them many times, and so on.
 */
#ifndef HBMSPILL_TESTS_FUZZ_ACTIONS_H
#define HBMSPILL_TESTS_FUZZ_ACTIONS_H

#include "tests/fuzz/world.h"

/* So many actions, or a few less. */
void actions_run(struct world *world, unsigned long actions, struct random *random);

#endif
