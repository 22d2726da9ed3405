/*
 * ptx_ir.h - a kernel as it is run: a flat array of operations on rows.
 *
 * A row is one register of all lanes of a chunk, side by side; a chunk is up to PTX_LANES consecutive threads
 * of a block. Rows have the width of their register (a predicate has one byte, 0 or 1). Constants are rows
 * too, filled once. While lowering, operands are register numbers; ptx_code_finish turns them into byte
 * offsets into the chunk's file of rows.
 *
 * A uniform operation has the same operands in all lanes of a block: it runs for lane 0 only, whether that
 * lane is active or not, and its result is spread over the row where another operation reads the row.
 *
 * Ownership: a ptx_code belongs to its module and is not written after loading, but for addresses of globals.
 */
#ifndef SYNTHETIC_PTX_IR_H
#define SYNTHETIC_PTX_IR_H

#include "ptx.h"
#include "ptx_ast.h"

/* Lanes of a chunk: a multiple of 64, so that a row of bytes is a multiple of a cache line. */
enum { PTX_LANES = 128, PTX_WARP = 32 };

#define PTX_NO_ROW UINT32_MAX

/* Where generic addresses of shared and local memory lie: not canonical, so no device or host address
 * collides. */
#define PTX_SHARED_WINDOW (UINT64_C(1) << 60)
#define PTX_LOCAL_WINDOW (UINT64_C(2) << 60)
#define PTX_WINDOW_SIZE (UINT64_C(1) << 32)

struct ptx_op;
typedef void ptx_alu_fn(const struct ptx_op *op, char *rows, uint32_t lo, uint32_t hi);

enum ptx_op_kind {
    PTX_OP_ALU,
    PTX_OP_LOAD,
    PTX_OP_STORE,
    PTX_OP_ATOMIC,
    PTX_OP_SHUFFLE,
    PTX_OP_VOTE,
    PTX_OP_SPECIAL,
    PTX_OP_PARAM, /* load of a kernel parameter */
    PTX_OP_BRANCH,
    PTX_OP_SWITCH,
    PTX_OP_BARRIER,
    PTX_OP_EXIT,
    PTX_OP_TRAP,
};

enum ptx_op_flag {
    PTX_FLAG_UNIFORM = 1,   /* lane 0 only */
    PTX_FLAG_SPREAD = 2,    /* then copied to all lanes */
    PTX_FLAG_NEGATE = 4,    /* of the guard */
    PTX_FLAG_SIGNED = 8,    /* a load extends by the sign */
    PTX_FLAG_CONSTANT = 16, /* a load whose memory does not change while the kernel runs */
    PTX_FLAG_GUARD_UNIFORM = 32,
};

struct ptx_op {
    ptx_alu_fn *fn;
    uint32_t d, a, b, c; /* rows */
    uint32_t more[3];    /* further rows of a vector access */
    uint32_t guard;      /* predicate row, or PTX_NO_ROW */
    uint64_t imm;        /* byte offset, mode, lut ... */
    uint32_t target;     /* of a branch: index of an operation; of a switch: first entry in code->targets */
    uint32_t line;
    uint8_t kind, flags, space, code;
    uint8_t width, count; /* of a memory access: bytes of an element, elements */
    uint8_t row_width; /* bytes of a lane of d (loads, stores: of every register; for specials the result) */
    uint8_t type;      /* of an atomic: enum ptx_type */
};

enum ptx_atomic {
    PTX_ATOM_ADD,
    PTX_ATOM_MIN,
    PTX_ATOM_MAX,
    PTX_ATOM_AND,
    PTX_ATOM_OR,
    PTX_ATOM_XOR,
    PTX_ATOM_EXCH,
    PTX_ATOM_CAS,
    PTX_ATOM_INC,
    PTX_ATOM_DEC,
};

enum ptx_special {
    PTX_TID_X,
    PTX_TID_Y,
    PTX_TID_Z,
    PTX_LANEID,
    PTX_WARPID,
    PTX_LANEMASK_EQ,
    PTX_LANEMASK_LE,
    PTX_LANEMASK_LT,
    PTX_LANEMASK_GE,
    PTX_LANEMASK_GT,
    PTX_FIRST_UNIFORM, /* from here on the same in all lanes of a block */
    PTX_NTID_X = PTX_FIRST_UNIFORM,
    PTX_NTID_Y,
    PTX_NTID_Z,
    PTX_CTAID_X,
    PTX_CTAID_Y,
    PTX_CTAID_Z,
    PTX_NCTAID_X,
    PTX_NCTAID_Y,
    PTX_NCTAID_Z,
    PTX_GRIDID,
    PTX_SMID,
    PTX_NSMID,
    PTX_NWARPID,
    PTX_CLOCK, /* operations run by the chunk: deterministic */
    PTX_DYNAMIC_SHARED,
    PTX_TOTAL_SHARED,
    PTX_ZERO, /* always 0 */
};

enum ptx_vote {
    PTX_VOTE_ALL,
    PTX_VOTE_ANY,
    PTX_VOTE_UNI,
    PTX_VOTE_BALLOT,
    PTX_ACTIVEMASK,
    PTX_MATCH_ANY,
    PTX_MATCH_ALL,
};

enum ptx_shuffle { PTX_SHFL_UP, PTX_SHFL_DOWN, PTX_SHFL_BFLY, PTX_SHFL_IDX };

/* A register while lowering and after. */
struct ptx_row {
    uint32_t width;  /* bytes of a lane */
    uint32_t offset; /* of the row in the file, bytes; set by ptx_code_finish */
    uint32_t global; /* a constant that holds the address of this global plus value, or PTX_NO_ROW */
    bool constant;
    uint64_t value;
    uint64_t address; /* of the global, added to value */
};

struct ptx_code {
    struct ptx_kernel pub; /* the module shows a copy */
    struct ptx_op *ops;
    uint32_t op_count, op_room;
    uint32_t entry; /* operations before it run once a launch */
    struct ptx_row *rows;
    uint32_t row_count, row_room;
    uint32_t *targets;
    uint32_t target_count;
    uint32_t file_bytes; /* of the rows of one chunk */
    uint32_t scratch;    /* offset of a row of 8 bytes a lane that no register has */
    bool has_barrier;
};

struct ptx_module_global {
    struct ptx_global pub;
    uint64_t address;
    struct ptx_reference {
        uint64_t offset; /* in init, 8 bytes */
        uint32_t global;
        uint64_t addend;
    } * references;
    uint32_t reference_count;
};

struct ptx_module {
    struct ptx_kernel *kernels; /* what ptx_module_kernels shows */
    struct ptx_code **codes;    /* of the same index */
    size_t kernel_count;
    struct ptx_global *globals; /* what ptx_module_globals shows */
    struct ptx_module_global *details;
    size_t global_count;
};

/* Dynamic shared memory lies behind the static, 16-byte aligned. */
static inline uint32_t ptx_dynamic_shared_start(const struct ptx_kernel *kernel)
{
    return (kernel->shared_bytes + 15) & ~15u;
}

/* What an ALU mnemonic in its canonical form does; widths by type. */
struct ptx_alu {
    const char *name;
    ptx_alu_fn *fn;
    enum ptx_type d, src[3];
    uint8_t sources;
};
/* NULL where there is none. The functions are those for this machine's vector instructions. */
const struct ptx_alu *ptx_alu_find(const char *name);

/* Flow: marks what is uniform, lays out rows, turns register numbers to offsets. -ENOMEM. */
int ptx_code_finish(struct ptx_code *code);
void ptx_code_free(struct ptx_code *code);

#endif
