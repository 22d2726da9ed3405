/*
 * costs.h - what the dearest allocations cost, for the report: where they were made, how much they moved, and
 * whether there was enough to do while it moved.
 *
 * For each of the rows that moved most bytes (cache/dearest.h) the time its transfers take at the link's
 * rates is held against the time of the operations that ran while the data was away. Where the transfers take
 * longer they cannot have been hidden, however well they were planned: the data would have been better off
 * where it was. The mean time of an operation is the device's, between waits that were timed (cache/stall.h).
 *
 * Threads: costs_wanted and costs_note_allocation any; the others the one that writes the report.
 */
#ifndef HBMSPILL_HOOKS_COSTS_H
#define HBMSPILL_HOOKS_COSTS_H

#include "hooks/gpu.h"
#include "hooks/text.h"

/* Whether anybody is going to read about it: the log at info, or a statistics file. Constant. */
bool costs_wanted(void);

/* An allocation of ours was made; takes its call site if it may matter. */
void costs_note_allocation(struct gpu *gpu, uint64_t address, uint64_t size);

/* A piece of memory is not what it should be (HBMSPILL_VERIFY): says so, and ends the process. Any thread. */
__attribute__((noreturn)) void costs_mismatch(void *unused, const struct cache_mismatch *mismatch);

/* The list of the dearest as a JSON value. */
void costs_put_json(struct text *text);
/* The same as a table, in lines of the log at info. */
void costs_log(void);

#endif
