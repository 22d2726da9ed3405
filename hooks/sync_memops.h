/*
 * sync_memops.h - CU_POINTER_ATTRIBUTE_SYNC_MEMOPS of memory of the cache's: what the driver keeps for memory
 * of its own, and has not for memory that is mapped.
 *
 * "A boolean attribute which when set, ensures that synchronous memory operations initiated on the region of
 * memory that ptr points to will always synchronize" (cuda.h). Who sets it hands the memory to a third party
 * (GPUDirect RDMA), so such memory stays where it is, too (operation_fix).
 *
 * Threads: any; one lock, a leaf, and none while no memory has it.
 */
#ifndef HBMSPILL_HOOKS_SYNC_MEMOPS_H
#define HBMSPILL_HOOKS_SYNC_MEMOPS_H

#include "hooks/touches.h"

/* For the allocation that an address of ours lies in. False: there is none, or no memory to note it in. */
bool sync_memops_set(uint64_t address, bool on);
bool sync_memops_of(uint64_t address);
/* An allocation begins there: it does not have it, whatever was there before. */
void sync_memops_born(uint64_t base);
/* Whether an operation that names these has to be waited for in its synchronous form. */
bool sync_memops_touched(const struct touches *touches);
/* Waits, where it has to, for a synchronous form that was queued: it is the last in its stream. */
CUresult sync_memops_finish(bool touched, bool per_thread, CUresult status);

#endif
