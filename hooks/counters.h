/*
 * counters.h - the hooks' own counts, over all devices: what the job asked for.
 *
 * The same list as the cache's (statistics.h); added up with every cache's at exit, or while threads count.
 */
#ifndef HBMSPILL_HOOKS_COUNTERS_H
#define HBMSPILL_HOOKS_COUNTERS_H

#include "cache/statistics.h"

extern struct statistics hook_counters;

#define count_add(name, value) statistics_add(&hook_counters.name, (value))
#define count_now(name) statistics_now(&hook_counters.name)

#endif
