/*
 * memory_pool.h - blocks of a memory pool, shared by the allocator (memory_pool.c), its API (memory_async.c)
 * and the places that pools are at (pool_places.c).
 */
#ifndef SYNTHETIC_MEMORY_POOL_H
#define SYNTHETIC_MEMORY_POOL_H

#include "engine.h"

enum { POOL_ALIGNMENT = 256 };

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
    struct device *device; /* NULL: of host memory */
    struct frames *frames;
    CUmemPoolProps props;
    CUcontext heap_of; /* not a pool of the application's: behind cuMemAlloc of this context */
    bool destroyed;    /* by the application; lives on while allocations do ("cuMemPoolDestroy") */
    struct block *blocks;
    uint64_t reserved, reserved_high, used, used_high, threshold;
    int reuse_follow, reuse_opportunistic, reuse_internal;
    CUmemAccess_flags access[MAX_DEVICES]; /* of host memory: what each device may do */
    bool is_default;
    struct CUmemPoolHandle_st *next; /* all pools */
};

extern struct CUmemPoolHandle_st *memory_pools;

/* One that the application may name. */
bool pool_valid(CUmemoryPool pool);
/* What cuMemAllocAsync takes from. */
struct CUmemPoolHandle_st *pool_current_locked(struct device *device);
/* What devices may do with memory of the pool: of host memory by its descriptors, those of one for all, as no
 * page has more than one. */
CUmemAccess_flags pool_device_access(const struct CUmemPoolHandle_st *pool);
/* Whatever it has: its frees are waited for. */
void pool_remove_locked(struct CUmemPoolHandle_st *pool);
/* Gives back whole unused pages until at most keep bytes are reserved; true if a frame was freed. */
bool pool_trim_locked(struct CUmemPoolHandle_st *pool, uint64_t keep);

#endif
