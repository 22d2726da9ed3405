/*
 * defined.h - which bytes of memory nobody has written since it changed hands: undefined, and whoever reads
 * them has an error.
 *
 * Memory is kept in units of 4 bytes; one that was written in part counts as written. Frames are undefined
 * when they are handed out, memory of a pool when it is freed, in its stream's order; it is filled with
 * POISON then. A kernel that reads an undefined unit is a hazard, and so is a copy to pageable memory of one:
 * the host reads it. A copy to device memory or to pinned memory passes it on: whole buffers are copied of
 * which a part is in use. Between addresses that differ by no multiple of 4 all that is copied counts as
 * written.
 *
 * The CPU writes pinned memory, and frames of the host that it has access to, unseen. There an undefined unit
 * holds POISON, which a copy puts there in place of whatever its source held; one that holds anything else
 * has been written. Pinned memory is the CPU's to begin with and counts as written.
 */
#ifndef SYNTHETIC_DEFINED_H
#define SYNTHETIC_DEFINED_H

#include "engine.h"

/* No lock, from any thread: of a kernel that runs. The word of the piece of the window at address, a bit for
 * each unit that was written; NULL where nothing is mapped. */
uint64_t *defined_word(uint64_t address);
/* Some units of it were not written: which of them indeed, as far as the CPU has not. */
uint64_t defined_missing(uint64_t address, uint64_t units);
/* An access of a kernel to [address, address + size) of pinned memory: the first undefined address that it
 * reads, or 0. */
uint64_t defined_outside(uint64_t address, uint32_t size, bool write);

/* The rest wants driver_lock. */

/* Frames are handed out: all undefined. */
void defined_handed_out_locked(struct frames *frames, uint32_t frame);
/* Memory is written by the driver; is freed. */
void defined_write_locked(uint64_t address, uint64_t size);
void defined_free_locked(uint64_t address, uint64_t size);
/* Work of op that is not a kernel has just run. */
void defined_note_locked(const struct op *op, const struct work *work);

#endif
