/*
 * host_account.h - what the driver pins for the job by itself, in the account of pinned memory.
 *
 * The job is refused nothing by us: it has what it would have without the library, which then has less for
 * what is spilled. What is idle in the pools makes way for it.
 *
 * Threads: any; no lock is held across a call of the driver's. Bytes.
 */
#ifndef HBMSPILL_HOOKS_HOST_ACCOUNT_H
#define HBMSPILL_HOOKS_HOST_ACCOUNT_H

#include "shim/functions.h"
#include <stdbool.h>
#include <stdint.h>

/* Into the account, before the driver pins them; past the limit where there is no other way, which is said
 * once. */
void host_account_take(uint64_t bytes);
/* Past the limit by what is the job's already: what is idle makes way, else it is said. */
void host_account_check(void);
/* What is idle anywhere is given back. False: nothing was. */
bool host_account_make_room(void);
/* The system has no more to pin. */
bool host_account_refused(CUresult status);
/* Says so, once, where that is the driver's answer for size bytes. */
void host_account_tell(CUresult status, uint64_t size);

/* Memory that is made there is pinned host memory. */
bool host_account_on_host(const CUmemLocation *location);

/* cuMemCreate of a handle that is not of a device's memory: host memory is pinned, and stays until it is
 * released and mapped nowhere. */
CUresult host_account_create(CUmemGenericAllocationHandle *handle, size_t size,
                             const CUmemAllocationProp *prop, unsigned long long flags);
/* So many bytes of such handles went. */
void host_account_release(uint64_t bytes);

#endif
