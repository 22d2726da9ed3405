/*
 * memory.h - device memory of the synthetic GPU.
 *
 * A window of device addresses is reserved for the whole process and is PROT_NONE to the CPU. Behind it, at
 * address + window_delta, lies the alias window through which the engine and the interpreter reach what is
 * mapped. Everything is in pages of PAGE bytes; a page table says which frame is at an address and who may
 * touch it.
 *
 * A range is what an address can be asked about: an allocation, a VMM mapping, pinned or registered host
 * memory, a module's global. Ranges never overlap. They are changed under driver_lock and range_lock both, so
 * either is enough to read.
 */
#ifndef SYNTHETIC_MEMORY_H
#define SYNTHETIC_MEMORY_H

#include "driver.h"
#include "ptx.h"

#define PAGE (2ull << 20)
#define PAGE_MASK (PAGE - 1)
#ifdef __SANITIZE_THREAD__ /* leaves the process 1.5 TiB of addresses */
#define WINDOW_BYTES (256ull << 30)
#else
#define WINDOW_BYTES (4ull << 40)
#endif

extern uint64_t window_base;
extern int64_t window_delta;
extern struct ptx_memory ptx_memory;

static inline bool window_has(uint64_t address)
{
    return address - window_base < WINDOW_BYTES;
}

static inline void *window_alias(uint64_t address)
{
    return (void *)(uintptr_t)(address + (uint64_t)window_delta);
}

static inline uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

/* ---- frames.c: physical pages ---- */

#define POISON 0xa5 /* what memory that changes hands is filled with */

#define SPACE_HOST 0xff /* frames of host memory given out as handles and by pools */

struct frames {
    int fd;
    uint8_t space; /* device ordinal, or SPACE_HOST */
    uint32_t count;
    uint32_t used, peak;
    uint64_t driver_bytes, peak_driver_bytes; /* of them, what the application did not ask for: variables */
    uint32_t search;                          /* no free frame below */
    uint8_t *state;                           /* per frame: FRAME_FRESH ... */
    uint8_t *real;     /* per frame: 1 where it has memory behind it, as far as known */
    uint32_t *touches; /* touches.c */
    uint64_t *defined; /* defined.c: a word for each piece of 256 bytes */
};

/* Zeroed bytes that take memory where they are used, or NULL; given back with munmap. */
void *sparse_new(uint64_t bytes);
struct frames *frames_new(uint8_t space, size_t bytes);
/* n frames into out, contiguous where possible; false and nothing taken when there are not enough. */
bool frames_take_locked(struct frames *frames, uint32_t n, uint32_t *out);
void frames_give_locked(struct frames *frames, uint32_t n, const uint32_t *list);
struct frames *frames_of(uint8_t space);
void frames_forget_touches_locked(void);

/* ---- window.c: addresses, page table ---- */

struct page {
    uint32_t frame; /* + 1; 0: nothing mapped */
    uint8_t space;
    uint8_t device_access; /* CUmemAccess_flags of the device: 0, 1 read, 3 read and write */
    uint8_t host_access;   /* of the CPU, host frames only */
    uint8_t reserved;      /* part of an address reservation */
};

int window_init(void);
struct page *window_page(uint64_t address);
/* Finds a free stretch of addresses and marks it; 0 when there is none. All sizes multiples of PAGE. */
uint64_t window_reserve_locked(uint64_t size, uint64_t alignment, uint64_t wish);
void window_release_locked(uint64_t address, uint64_t size);
/* Enters frames in the page table without access, sets access (this makes them visible), takes them out. */
void window_map_locked(uint64_t address, uint32_t n, uint8_t space, const uint32_t *list);
int window_access_locked(uint64_t address, uint64_t size, uint8_t device_access, int host_access);
void window_unmap_locked(uint64_t address, uint64_t size);
/* The device may read (or write) all of [address, address + size), window addresses only. */
bool window_accessible_locked(uint64_t address, uint64_t size, bool write);

/* ---- ranges.c ---- */

enum range_kind {
    RANGE_POOL = 1,   /* cuMemAllocAsync; owner is the block */
    RANGE_ALLOC,      /* cuMemAlloc, module globals; the same */
    RANGE_MAPPING,    /* cuMemMap; owner is the handle */
    RANGE_HOST,       /* cuMemHostAlloc, cuMemAllocHost */
    RANGE_REGISTERED, /* cuMemHostRegister */
    RANGE_MANAGED,
};

struct range {
    uint64_t base, size;
    enum range_kind kind;
    CUcontext context; /* NULL for mappings */
    int device;
    unsigned flags; /* of host memory, as asked for */
    uint64_t id;
    uint64_t birth, freed_in; /* record.c: its number; the id of the stream it is freed in, 0: in none */
    void *owner;
    bool global; /* a module's variable: not the application's to free */
    bool sync_memops;
    uint32_t *touches;   /* of host memory: touches.c */
    uint64_t *undefined; /* of host memory: defined.c */
};

extern pthread_rwlock_t range_lock;

/* Enters a copy of *range; NULL when it overlaps another or memory is short. */
struct range *range_add_locked(const struct range *range);
void range_remove_locked(struct range *range);
struct range *range_find_locked(uint64_t address);
/* How many there are of a kind, without the variables of modules. */
size_t ranges_live_locked(enum range_kind kind);
void ranges_forget_touches_locked(void);
/* Any range of host memory of a context, NULL: none. */
struct range *range_host_of_locked(CUcontext ctx);
/* All bytes of [address, address + size) are in ranges, which may be several mappings in a row. */
bool range_covers_locked(uint64_t address, uint64_t size);
static inline bool range_is_host(const struct range *range)
{
    return range->kind == RANGE_HOST || range->kind == RANGE_REGISTERED || range->kind == RANGE_MANAGED;
}
/* Host memory at an address of the window: a handle that is mapped, or from a pool. */
static inline bool range_is_host_pages(const struct range *range)
{
    return (range->kind == RANGE_MAPPING || range->kind == RANGE_POOL) &&
           window_page(range->base)->space == SPACE_HOST;
}

enum place { PLACE_PAGEABLE, PLACE_PINNED, PLACE_DEVICE, PLACE_NOWHERE };
/* What a pointer is. PLACE_NOWHERE: a device address without allocation. */
enum place place_of_locked(uint64_t address, uint64_t size);

/* ---- host_memory.c ---- */

/* A range begins or ends: where it is page-locked, its whole pages are counted. */
void pinned_range_locked(const struct range *range, bool ends);
/* Pages of the window with host memory behind them come, which the host's clock is charged for, or go (below
 * 0). */
void host_pages_locked(int64_t bytes);
/* Bytes that are page-locked, and the most that ever were. */
void pinned_read_locked(uint64_t *now, uint64_t *peak);

/* ---- memory_vmm.c ---- */
/* Handles not released as often as they were made or retained, and reservations. */
void vmm_live_locked(size_t *handles, size_t *reservations);
/* Handles of host memory, by the node they are on. */
void vmm_host_nodes_locked(size_t live[MAX_HOST_NODES]);

/* ---- what pieces of memory remember: touches.c, defined.c ---- */

/* Pieces of 256 bytes that [base, base + size) lies in. */
static inline uint64_t pieces_of(uint64_t base, uint64_t size)
{
    return (base + size + 255) / 256 - base / 256;
}

/* ---- host_memory.c ---- */
CUresult host_memory_free(void *p);
void host_memory_destroy_locked(CUcontext ctx);

/* ---- memory_pool.c ---- */

struct block;
struct op;
struct CUmemPoolHandle_st *pool_new_locked(struct device *device, const CUmemPoolProps *props,
                                           CUcontext heap_of);
/* The address, or 0. stream NULL: usable at once by everybody. *after: an operation the stream must wait for
 * first. */
uint64_t pool_allocate_locked(struct CUmemPoolHandle_st *pool, size_t size, struct CUstream_st *stream,
                              CUcontext ctx, struct op **after);
/* The range is gone for the application; its memory is free when op (counted by the callee; NULL: now) has
 * ended. */
void pool_free_range_locked(struct range *range, uint64_t stream_id, struct op *op);
/* Gives back what is above the release thresholds, as synchronizing calls do. */
void pool_trim_all_locked(void);
/* Gives back everything unused of all pools over those frames; true if that freed one. */
bool pool_reclaim_locked(const struct frames *frames);
void pool_destroy_locked(struct CUmemPoolHandle_st *pool);

/* ---- memory.c ---- */
/* Device memory that is no stream's: cuMemAlloc, a module's variables. The address, or 0. */
uint64_t heap_allocate_locked(CUcontext ctx, size_t size, bool global);
CUresult heap_free_locked(struct range *range);
void heap_destroy_locked(struct CUmemPoolHandle_st *heap);

#endif
