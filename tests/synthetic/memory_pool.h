/*
 * memory_pool.h - blocks of a memory pool, shared by the allocator (memory_pool.c) and its API
 * (memory_async.c).
 */
#ifndef SYNTHETIC_MEMORY_POOL_H
#define SYNTHETIC_MEMORY_POOL_H

#include "engine.h"

enum block_state {
    BLOCK_HOLE,    /* addresses without frames */
    BLOCK_FREE,    /* frames nobody uses */
    BLOCK_USED,    /* an allocation */
    BLOCK_LEAVING, /* freed in a stream's order, before op has ended */
};

struct block {
    uint64_t base, size;
    enum block_state state;
    struct CUmemPoolHandle_st *pool;
    struct block *prev, *next; /* by address */
    uint64_t stream_id;        /* LEAVING: where it was freed */
    struct op *op;             /* LEAVING: counted */
};

struct CUmemPoolHandle_st {
    struct object object;
    struct device *device;
    CUmemPoolProps props;
    CUcontext heap_of; /* not a pool of the application's: behind cuMemAlloc of this context */
    bool destroyed;    /* by the application; lives on while allocations do ("cuMemPoolDestroy") */
    struct block *blocks;
    uint64_t reserved, reserved_high, used, used_high, threshold;
    int reuse_follow, reuse_opportunistic, reuse_internal;
    unsigned allocations;
    CUmemAccess_flags peer_access[MAX_DEVICES];
    struct CUmemPoolHandle_st *next; /* all pools */
};

extern struct CUmemPoolHandle_st *memory_pools;
/* Gives back whole unused pages until at most keep bytes are reserved; true if a frame was freed. */
bool pool_trim_locked(struct CUmemPoolHandle_st *pool, uint64_t keep);

#endif
