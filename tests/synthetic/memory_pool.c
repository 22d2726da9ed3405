/*
 * memory_pool.c - the allocator under cuMemAllocAsync, cuMemAlloc and modules' variables.
 *
 * A pool is a list of blocks over address arenas of its own; frames are put behind addresses page by page as
 * it grows and leave page by page as it is trimmed. Allocation is best fit, POOL_ALIGNMENT bytes aligned.
 * Reuse follows "Stream Ordered Memory Allocator": a block freed in a stream may be given out again at once
 * in the same stream; to others when the free has been reached; or, when memory is short, at once together
 * with a wait for it.
 */
#include "memory_pool.h"
#include "clock.h"
#include "defined.h"
#include "touches.h"

#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES (WINDOW_BYTES / 32)

struct CUmemPoolHandle_st *memory_pools;

struct CUmemPoolHandle_st *pool_new_locked(struct device *device, const CUmemPoolProps *props,
                                           CUcontext heap_of)
{
    struct CUmemPoolHandle_st *pool = object_new_locked(OBJECT_POOL, sizeof(*pool));
    if (!pool)
        return NULL;
    pool->device = device;
    pool->frames = device ? device->frames : frames_of(SPACE_HOST);
    if (!pool->frames) {
        object_free_locked(pool);
        return NULL;
    }
    if (props)
        pool->props = *props;
    pool->heap_of = heap_of;
    pool->reuse_follow = pool->reuse_opportunistic = pool->reuse_internal = 1;
    pool->next = memory_pools;
    memory_pools = pool;
    return pool;
}

static struct block *block_new(struct CUmemPoolHandle_st *pool, uint64_t base, uint64_t size,
                               enum block_state state)
{
    struct block *block = calloc(1, sizeof(*block));
    if (block)
        *block = (struct block){.base = base, .size = size, .state = state, .pool = pool};
    return block;
}

/* Cuts block at size; the rest becomes a block of the same kind behind it. */
static bool block_split(struct block *block, uint64_t size)
{
    if (block->size == size)
        return true;
    struct block *rest = block_new(block->pool, block->base + size, block->size - size, block->state);
    if (!rest)
        return false;
    rest->stream_id = block->stream_id;
    rest->op = block->op ? op_ref(block->op) : NULL;
    rest->prev = block;
    rest->next = block->next;
    if (rest->next)
        rest->next->prev = rest;
    block->next = rest;
    block->size = size;
    return true;
}

static void block_leave_list(struct block *block)
{
    if (block->prev)
        block->prev->next = block->next;
    else
        block->pool->blocks = block->next;
    if (block->next)
        block->next->prev = block->prev; /* NOLINT(clang-analyzer-unix.Malloc): a list, no ring */
    free(block);
}

/* Joins block with its neighbours of the same kind; returns the joined one. */
static struct block *block_join(struct block *block)
{
    struct block *other = block->next;
    if (other && other->state == block->state && block->base + block->size == other->base) {
        block->size += other->size;
        block_leave_list(other);
    }
    other = block->prev;
    if (other && other->state == block->state && other->base + other->size == block->base) {
        other->size += block->size;
        block_leave_list(block);
        block = other;
    }
    return block;
}

static void block_forget_op(struct block *block)
{
    if (block->op)
        op_unref_locked(block->op);
    block->op = NULL;
}

/* Blocks whose free has been reached are free. */
static void settle(struct CUmemPoolHandle_st *pool)
{
again:
    for (struct block *b = clock_runs ? pool->blocks : NULL; b; b = b->next) {
        if (b->state == BLOCK_LEAVING && b->op->time.state == TIME_ENDED && b->op->state != OP_DONE) {
            op_await_locked(
                b->op); /* it ends at once in real time too; drops the lock: the list may have changed */
            goto again;
        }
    }
    for (struct block *b = pool->blocks; b; b = b->next) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): joining returns the block that is left */
        if (b->state == BLOCK_LEAVING && op_passed_locked(b->op)) {
            block_forget_op(b);
            b->state = BLOCK_FREE;
            touches_forget_locked(b->base, b->size); /* whoever gets it next comes after the free */
            b = block_join(b);
        }
    }
}

enum reuse { REUSE_FREE, REUSE_SAME_STREAM, REUSE_ANY };

static struct block *best_fit(struct CUmemPoolHandle_st *pool, uint64_t size, uint64_t stream_id,
                              enum reuse reuse)
{
    struct block *best = NULL;
    for (struct block *b = pool->blocks; b; b = b->next) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): a list without what was joined */
        bool fits = b->size >= size && (!best || b->size < best->size);
        if (!fits)
            continue;
        if (b->state == BLOCK_FREE)
            best = b;
        else if (b->state == BLOCK_LEAVING &&
                 (reuse == REUSE_ANY || (reuse == REUSE_SAME_STREAM && b->stream_id == stream_id)))
            best = b;
    }
    return best;
}

/* Addresses without frames are cheap: another arena. */
static bool add_arena(struct CUmemPoolHandle_st *pool, uint64_t size)
{
    uint64_t bytes = size > ARENA_BYTES ? round_up(size, ARENA_BYTES) : ARENA_BYTES;
    uint64_t base = window_reserve_locked(bytes, PAGE, 0);
    struct block *hole = base ? block_new(pool, base, bytes, BLOCK_HOLE) : NULL;
    if (!hole) {
        if (base)
            window_release_locked(base, bytes);
        return false;
    }
    struct block **link = &pool->blocks, *prev = NULL;
    while (*link && (*link)->base < base) {
        prev = *link;
        link = &prev->next;
    }
    hole->prev = prev;
    hole->next = *link;
    if (hole->next)
        hole->next->prev = hole;
    *link = hole;
    return true;
}

/* The hole that needs the fewest new bytes, a free block before it counted. */
static struct block *best_hole(struct CUmemPoolHandle_st *pool, uint64_t size, uint64_t *missing)
{
    struct block *best = NULL;
    for (struct block *b = pool->blocks; b; b = b->next) {
        if (b->state != BLOCK_HOLE)
            continue;
        struct block *before = b->prev;
        bool joins = before && before->state == BLOCK_FREE && before->base + before->size == b->base;
        uint64_t need = round_up(size - (joins ? before->size : 0), PAGE);
        if (b->size < need || (best && need >= *missing))
            continue;
        best = b;
        *missing = need;
    }
    return best;
}

/* A free block of at least size bytes with frames newly behind it, or NULL. */
static struct block *grow(struct CUmemPoolHandle_st *pool, uint64_t size)
{
    uint64_t missing = 0;
    struct block *hole = best_hole(pool, size, &missing);
    if (!hole && add_arena(pool, round_up(size, PAGE)))
        hole = best_hole(pool, size, &missing);
    if (!hole || (pool->props.maxSize && pool->reserved + missing > pool->props.maxSize))
        return NULL;
    uint32_t n = (uint32_t)(missing / PAGE), *list = malloc(n * sizeof(*list));
    if (!list || !block_split(hole, missing))
        goto fail;
    if (!frames_take_locked(pool->frames, n, list))
        goto fail;
    window_map_locked(hole->base, n, pool->frames->space, list);
    if (window_access_locked(hole->base, missing, (uint8_t)pool_device_access(pool),
                             pool->device ? -1 : CU_MEM_ACCESS_FLAGS_PROT_READWRITE) != 0) {
        window_unmap_locked(hole->base, missing);
        frames_give_locked(pool->frames, n, list);
        goto fail;
    }
    free(list);
    if (!pool->device)
        host_pages_locked((int64_t)missing);
    pool->reserved += missing;
    if (pool->reserved > pool->reserved_high)
        pool->reserved_high = pool->reserved;
    hole->state = BLOCK_FREE;
    return block_join(hole);
fail:
    free(list);
    if (hole)
        block_join(hole);
    return NULL;
}

/* Takes the frames from whole pages inside a free block. */
static struct block *ungrow(struct block *block, uint64_t at_most)
{
    struct CUmemPoolHandle_st *pool = block->pool;
    uint64_t first = round_up(block->base, PAGE), end = (block->base + block->size) & ~PAGE_MASK;
    if (end <= first)
        return block;
    if (end - first > at_most)
        first = end - (at_most & ~PAGE_MASK);
    if (end <= first)
        return block;
    uint32_t n = (uint32_t)((end - first) / PAGE), *list = malloc(n * sizeof(*list));
    if (!list || (first > block->base && !block_split(block, first - block->base)))
        goto out;
    if (first > block->base)
        block = block->next;
    if (!block_split(block, end - first))
        goto out;
    for (uint32_t i = 0; i < n; i++)
        list[i] = window_page(first + i * PAGE)->frame - 1;
    window_unmap_locked(first, end - first);
    frames_give_locked(pool->frames, n, list);
    if (!pool->device)
        host_pages_locked(-(int64_t)(end - first));
    pool->reserved -= end - first;
    block->state = BLOCK_HOLE;
    block = block_join(block);
out:
    free(list);
    return block;
}

bool pool_trim_locked(struct CUmemPoolHandle_st *pool, uint64_t keep)
{
    uint64_t before = pool->reserved;
    settle(pool);
    for (struct block *b = pool->blocks; b && pool->reserved > keep; b = b->next)
        if (b->state == BLOCK_FREE) /* NOLINT(clang-analyzer-unix.Malloc): it returns a block that is left */
            b = ungrow(b, pool->reserved - keep);
    return pool->reserved < before;
}

bool pool_reclaim_locked(const struct frames *frames)
{
    bool any = false;
    for (struct CUmemPoolHandle_st *pool = memory_pools; pool; pool = pool->next)
        if (pool->frames == frames)
            any |= pool_trim_locked(pool, 0);
    return any;
}

/* Waits until every free that was asked for in this pool has been reached. */
static bool drain_leaving(struct CUmemPoolHandle_st *pool)
{
    bool any = false;
again:
    for (struct block *b = pool->blocks; b; b = b->next) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): as above */
        if (b->state == BLOCK_LEAVING && !op_passed_locked(b->op)) {
            op_await_locked(b->op); /* drops the lock: the list may have changed */
            any = true;
            goto again;
        }
    }
    settle(pool);
    return any;
}

void pool_remove_locked(struct CUmemPoolHandle_st *pool)
{
    drain_leaving(pool);
    pool_trim_locked(pool, 0);
    for (struct CUmemPoolHandle_st **link = &memory_pools; *link; link = &(*link)->next) {
        if (*link == pool) {
            *link = pool->next;
            break;
        }
    }
    while (pool->blocks) {
        struct block *block = pool->blocks;
        if (block->state == BLOCK_HOLE) /* NOLINT(clang-analyzer-unix.Malloc): the head of what is left */
            window_release_locked(block->base, block->size);
        block_leave_list(block);
    }
    object_free_locked(pool);
}

/* One that was destroyed ends when nothing of it is in use, and not before all frees have been reached. */
static void end_if_idle_locked(struct CUmemPoolHandle_st *pool)
{
    settle(pool); /* which may drop the lock, and another thread be faster */
    if (!object_valid(pool, OBJECT_POOL) || !pool->destroyed)
        return;
    for (const struct block *b = pool->blocks; b; b = b->next)
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the same */
        if (b->state == BLOCK_USED || b->state == BLOCK_LEAVING)
            return;
    pool_remove_locked(pool);
}

/* "the allocator will try to release memory back to the OS on the next call to stream, event or context
 * synchronize" */
void pool_trim_all_locked(void)
{
    struct CUmemPoolHandle_st *next;
    for (struct CUmemPoolHandle_st *pool = memory_pools; pool; pool = next) {
        next = pool->next;
        if (pool->destroyed)
            end_if_idle_locked(pool);
        else if (pool->reserved > pool->threshold && pool->reserved > round_up(pool->used, PAGE))
            pool_trim_locked(pool, pool->threshold);
    }
}

static struct block *find_block(struct CUmemPoolHandle_st *pool, uint64_t size, uint64_t stream_id,
                                struct op **after)
{
    settle(pool);
    struct block *block = best_fit(pool, size, stream_id, REUSE_SAME_STREAM);
    if (!block)
        block = grow(pool, size);
    if (!block && pool_reclaim_locked(pool->frames))
        block = grow(pool, size);
    if (!block && after && pool->reuse_internal) {
        block = best_fit(pool, size, stream_id, REUSE_ANY);
        if (block && block->state == BLOCK_LEAVING && block->stream_id != stream_id)
            *after = op_ref(block->op);
    }
    if (!block && drain_leaving(pool)) {
        block = best_fit(pool, size, stream_id, REUSE_FREE);
        if (!block) {
            pool_reclaim_locked(pool->frames);
            block = grow(pool, size);
        }
    }
    return block;
}

uint64_t pool_allocate_locked(struct CUmemPoolHandle_st *pool, size_t size, struct CUstream_st *stream,
                              CUcontext ctx, struct op **after)
{
    uint64_t bytes = round_up(size, POOL_ALIGNMENT), stream_id = stream ? stream->id : 0;
    if (bytes < size || bytes > WINDOW_BYTES)
        return 0;
    clock_catch_up_locked();
    struct block *block = find_block(pool, bytes, stream_id, after);
    if (!block || !block_split(block, bytes))
        return 0;
    block_forget_op(block);
    block->state = BLOCK_USED;
    struct range range = {
        .base = block->base,
        .size = size,
        .kind = pool->heap_of ? RANGE_ALLOC : RANGE_POOL,
        .context = ctx,
        .device = pool->device ? pool->device->ordinal : CU_DEVICE_INVALID,
        .owner = block,
    };
    if (!range_add_locked(&range)) {
        block->state = BLOCK_FREE;
        block_join(block);
        return 0;
    }
    pool->used += bytes;
    if (pool->used > pool->used_high)
        pool->used_high = pool->used;
    return range.base;
}

void pool_free_range_locked(struct range *range, uint64_t stream_id, struct op *op)
{
    struct block *block = range->owner;
    struct CUmemPoolHandle_st *pool = block->pool;
    range->freed_in = op ? stream_id : 0;
    if (range->global)
        pool->device->frames->driver_bytes -= block->size;
    range_remove_locked(range);
    pool->used -= block->size;
    if (op) {
        block->state = BLOCK_LEAVING;
        block->stream_id = stream_id;
        block->op = op_ref(op);
    } else {
        block->state = BLOCK_FREE;
        touches_forget_locked(block->base, block->size);
        defined_free_locked(block->base, block->size);
        block_join(block);
    }
    if (pool->destroyed)
        end_if_idle_locked(pool);
}

/*
 * "If any pointers obtained from this pool haven't been freed or the pool has free operations that haven't
 * completed when cuMemPoolDestroy is invoked, the function will return immediately and the resources
 * associated with the pool will be released automatically once there are no more outstanding allocations."
 */
void pool_destroy_locked(struct CUmemPoolHandle_st *pool)
{
    pool->destroyed = true;
    end_if_idle_locked(pool);
}
