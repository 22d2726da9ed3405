/*
 * record.h - what the device was given to do, as a text: allocations, frees, kernels, copies and memsets in
 * the order of their submission, with how long each kernel took in virtual time.
 *
 * The lines are those of doc/TRACE.md, behind a first line of its own, `device-record 1': a, f, l, t, c, m,
 * h, r, q, n and, at the end, e. The device's view: an allocation is what has an address range on the device
 * (cuMemAlloc, pools, module variables, managed memory not; a VMM mapping of device memory is one from
 * cuMemMap to cuMemUnmap). A kernel's touches are what its parameters point into. The kernels of a graph are
 * lines of their own; a child graph and a conditional node are one line t each. In virtual time a line `s -'
 * says that here all threads of the job waited for the device, other than for room in its queues: what comes
 * behind it may depend on what the device has done. All functions want driver_lock; they do nothing without
 * SYNTHETIC_GPU_RECORD.
 */
#ifndef SYNTHETIC_RECORD_H
#define SYNTHETIC_RECORD_H

#include "engine.h"

struct record_line;

/* cuInit; what goes wrong is said and there is no record. */
void record_start(void);
void record_range_new_locked(struct range *range);
void record_range_gone_locked(const struct range *range);
/* NULL, or a line that wants record_done_locked once it is known how long it took, ns. */
struct record_line *record_work_locked(const struct work *work, uint64_t stream_id);
/* A node of a graph whose own nodes, count of them, are not recorded one by one. */
struct record_line *record_nodes_locked(const struct work *const *works, size_t count, uint64_t stream_id);
/* An event was recorded: its number in the record, plus one; 0 where there is no record. */
uint64_t record_recorded_locked(uint64_t stream_id);
/* A stream waits for what was recorded under that; for what was not (0), nothing is said. */
void record_after_locked(uint64_t stream_id, uint64_t recording);
void record_host_waits_locked(void);
void record_done_locked(struct record_line *line, double ns);
void record_finish_locked(void);

#endif
