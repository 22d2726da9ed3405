/*
 * top.h - hbmspill top: looking at jobs, and showing them. Rates are between two looks, half a second apart.
 */
#ifndef HBMSPILL_TOOL_TOP_H
#define HBMSPILL_TOOL_TOP_H

#include "shim/live.h"

enum { JOBS_MAX = 64 };

struct job {
    long pid;
    char command[64];
    struct live_page now, before; /* before.version 0: it was not there */
};
struct jobs {
    unsigned count, unreadable; /* the latter: pages of another version */
    struct job job[JOBS_MAX];
};

/* All that may be looked at, or only one process (0: all). */
void top_look(long only, struct jobs *jobs);
/* What they were at the look before. */
void top_remember(struct jobs *jobs, const struct jobs *before);
/* How long ago the job wrote it: one that makes no CUDA call says nothing new. */
uint64_t top_age_ms(const struct live_page *page);

void top_print_text(const struct jobs *jobs);
void top_print_json(const struct jobs *jobs);

#endif
