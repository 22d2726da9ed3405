/*
 * host_table.h - the pinned host memory that the job has: by address, and what was given back and cannot be
 * reused yet.
 *
 * Threads: any; one lock, a leaf. Entries in the table are its own; one that was taken out is the caller's.
 */
#ifndef HBMSPILL_HOOKS_HOST_TABLE_H
#define HBMSPILL_HOOKS_HOST_TABLE_H

#include "hooks/gpu.h"
#include "pinned/ranges.h"

struct pinned {
    struct range range;
    uint64_t counted; /* in the account, for what is not from the pool */
    struct gpu *gpu;  /* whose pool it is from, or NULL */
    CUcontext context;
    CUdevice device;
    unsigned flags;
    unsigned long long id;
    bool sync_memops;
    struct pinned *next; /* given back, and not yet to be reused */
};

/* A copy of it, with an id. False: no memory. */
bool host_add(const struct pinned *of);
/* The one that begins there, out of the table; NULL: none does. */
struct pinned *host_take(const void *memory);
/* The one from a pool that an address lies in, copied. */
bool host_find(uint64_t address, struct pinned *out);

/* Pinned memory of the job's that has no address here (handles): counted as the job's, or not any longer. */
void host_note(int64_t bytes);

/* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS of that one. False: it is in none. */
bool host_set_sync(uint64_t address, bool sync);

/* One that was taken out is kept until host_kept gives all that are, as a list. */
void host_keep(struct pinned *pinned);
struct pinned *host_kept(void);

#endif
