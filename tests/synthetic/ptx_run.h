/*
 * ptx_run.h - a launch in progress on one thread: what the scheduler, memory access and warp operations
 * share.
 *
 * Everything here belongs to the thread inside ptx_run. A fault leaves by ptx_fault_raise (or, for a page
 * that is not there, by the signal handler) straight to ptx_run.
 */
#ifndef SYNTHETIC_PTX_RUN_H
#define SYNTHETIC_PTX_RUN_H

#include "ptx_alu.h"

#include <setjmp.h>

enum ptx_lane_state {
    PTX_LANE_RUN,
    PTX_LANE_BARRIER,
    PTX_LANE_DONE,
};

/* Up to PTX_LANES threads of a block. The lanes of the group run at pc; the others wait at their own. */
struct ptx_chunk {
    char *rows;
    uint32_t first, lanes; /* thread index of lane 0 in its block; threads there are */
    uint32_t pc;
    uint32_t stop;   /* lowest pc at which lanes outside the group wait */
    uint32_t lo, hi; /* bounds of the group */
    bool dense;      /* all lanes from lo to hi are in the group */
    uint64_t clock;
    uint8_t mask[PTX_LANES]; /* 1: in the group; 0 elsewhere, also behind the chunk's lanes */
    uint8_t state[PTX_LANES];
    uint32_t pcs[PTX_LANES];
};

/* The lanes an operation is for: mask counts only where it is not NULL. */
struct ptx_lanes {
    uint32_t lo, hi;
    const uint8_t *mask;
};

struct ptx_exec {
    const struct ptx_launch *launch;
    const struct ptx_code *code;
    struct ptx_memory memory;
    uint32_t ctaid[3];
    uint32_t block_threads;
    char *shared;
    uint32_t shared_bytes; /* static and dynamic */
    char *local;           /* of the chunk that runs: local_bytes a lane */
    uint32_t local_bytes;
    const struct ptx_op *op; /* the one that runs, for faults */
    struct ptx_chunk *chunk;
    uint64_t instructions;
    struct ptx_traffic *traffic;                              /* of the launch, or NULL */
    uint64_t device_pieces[2], host_pieces[2], host_bytes[2]; /* read, written: not yet added to it */
    uint64_t touched[256];                                    /* pieces it has not been told of */
    uint32_t touched_count;
    struct ptx_fault *fault;
    sigjmp_buf leave;
};

__attribute__((noreturn)) void ptx_fault_raise(struct ptx_exec *x, uint64_t address, bool write,
                                               const char *reason);

/* The launch whose window faults belong to, or NULL. Set around what may touch the window. */
void ptx_fault_watch(struct ptx_exec *x);

/* Where a lane's access goes. Raises a fault where it must not. */
char *ptx_access_resolve(struct ptx_exec *x, enum ptx_space space, uint64_t address, uint32_t size,
                         uint32_t lane, bool write);

/*
 * A word of ptx_traffic's seen: the launch's number from bit 34; 32, 33: counted as read, as written; of each
 * unit, from bit 0: read, from bit 8: written, from bit 16 and 24: the same, and nothing more is to be done
 * for another such access.
 */
enum { PTX_SEEN_WRITE = 8, PTX_SEEN_SETTLED = 16, PTX_SEEN_COUNTED = 32, PTX_SEEN_NUMBER = 34 };

/* An access within one piece that is perhaps the launch's first of its kind there. */
void ptx_traffic_note(struct ptx_exec *x, uint64_t address, uint32_t size, bool write);
void ptx_traffic_outside(struct ptx_exec *x, uint64_t address, uint32_t size, bool write);
void ptx_traffic_add(struct ptx_exec *x);

/* The units of [address, address + size), which lies in one piece. */
static inline __attribute__((always_inline)) uint64_t ptx_units(uint64_t address, uint64_t size)
{
    uint64_t first = address % PTX_PIECE / PTX_UNIT, last = (address + size - 1) % PTX_PIECE / PTX_UNIT;
    return (2ull << last) - (1ull << first);
}

static inline __attribute__((always_inline)) bool
ptx_traffic_settled(const struct ptx_traffic *traffic, uint64_t word, uint64_t units, bool write)
{
    return word >> PTX_SEEN_NUMBER == traffic->number &&
           !(units & ~(word >> (PTX_SEEN_SETTLED + (write ? PTX_SEEN_WRITE : 0))));
}

static inline __attribute__((always_inline)) void ptx_traffic_touch(struct ptx_exec *x, uint64_t address,
                                                                    uint64_t size, bool write)
{
    const struct ptx_traffic *traffic = x->traffic;
    while (size) {
        uint64_t piece = (address - x->memory.window_base) / PTX_PIECE,
                 left = PTX_PIECE - address % PTX_PIECE;
        uint64_t here = size < left ? size : left;
        uint64_t word = __atomic_load_n(&traffic->seen[piece], __ATOMIC_RELAXED);
        if (!ptx_traffic_settled(traffic, word, ptx_units(address, here), write))
            ptx_traffic_note(x, address, (uint32_t)here, write);
        address += here;
        size -= here;
    }
}

typedef void ptx_access_fn(struct ptx_exec *x, const struct ptx_op *op, const struct ptx_lanes *lanes);
extern ptx_access_fn ptx_access_load_v2, ptx_access_load_v3, ptx_access_load_v4;
extern ptx_access_fn ptx_access_store_v2, ptx_access_store_v3, ptx_access_store_v4;

void ptx_atomic_run(struct ptx_exec *x, const struct ptx_op *op, const struct ptx_lanes *lanes);
void ptx_shuffle_run(struct ptx_exec *x, const struct ptx_op *op, const struct ptx_lanes *lanes);
void ptx_vote_run(struct ptx_exec *x, const struct ptx_op *op, const struct ptx_lanes *lanes);
void ptx_special_run(struct ptx_exec *x, const struct ptx_op *op, const struct ptx_lanes *lanes);

enum ptx_outcome { CHUNK_DONE, CHUNK_BARRIER };

/* Chooses, once, what runs loads and stores; to be called before the others. */
void ptx_chunk_prepare(void);
/* Runs a chunk until its threads wait at a barrier or have ended. */
enum ptx_outcome ptx_chunk_run(struct ptx_exec *x, struct ptx_chunk *c);
/* An operation that is the same for all lanes, in lane 0 of the chunk's rows. */
void ptx_chunk_execute_uniform(struct ptx_exec *x, const struct ptx_op *op, char *rows);
/* Lane 0 of a row to all lanes. */
void ptx_chunk_spread(char *row, uint32_t width);

/* 2, 3 or 4: the level of x86-64 this machine has (2 also where it has less than 3). */
int ptx_level(void);

#endif
