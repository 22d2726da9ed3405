/*
 * observe.h - who is told what a cache does: the log, the file of events, a profiler. NULL where none is.
 */
#ifndef HBMSPILL_HOOKS_OBSERVE_H
#define HBMSPILL_HOOKS_OBSERVE_H

#include "hooks/gpu.h"

const struct cache_observer *observe_cache(struct gpu *gpu);

#endif
