/*
 * ptx_lower.h - turning statements into operations: what the files of the lowering share.
 *
 * A struct lower exists while one kernel is lowered. Errors leave by longjmp to ptx_lower_kernel, so that no
 * step has to hand them on; everything allocated hangs off the code or the arena. Functions that return a row
 * return a register number of the code (ptx_ir.h).
 */
#ifndef SYNTHETIC_PTX_LOWER_H
#define SYNTHETIC_PTX_LOWER_H

#include "ptx_ir.h"

#include <setjmp.h>

struct lower_scope;

struct lower {
    struct ptx_module *module;
    struct ptx_tree *tree;
    struct ptx_code *code;
    struct lower_scope *scope;
    const struct ptx_statement *statement;
    uint32_t line;
    uint32_t guard; /* of what is emitted: row or PTX_NO_ROW */
    bool guard_negate;
    uint32_t carry;                     /* CC.CF, or PTX_NO_ROW */
    uint32_t shared_bytes, local_bytes; /* so far */
    uint32_t depth;                     /* of calls */
    uint32_t constant_slots;            /* of the table of constants, a power of two */
    uint32_t *constant_table;           /* row + 1 */
    uint32_t constants;
    uint32_t *dynamic_rows; /* constants that hold the start of dynamic shared memory */
    uint32_t dynamic_count;
    jmp_buf fail;
    int status;
    char *error;
    size_t error_size;
};

__attribute__((format(printf, 3, 4), noreturn)) void lower_fail(struct lower *l, int status,
                                                                const char *format, ...);

/* A mnemonic cut at its dots. A part that nobody asked for makes the instruction unknown. */
struct mnemonic {
    char text[128];
    const char *part[20];
    uint32_t count, used;  /* used: one bit a part */
    enum ptx_type type[4]; /* the types in it, in order */
    uint32_t types;
};
/* -EINVAL where it has too many parts. */
void mnemonic_cut(struct lower *l, struct mnemonic *m, const char *text);
bool mnemonic_has(struct mnemonic *m, const char *part);
/* The rounding mode in it: "" for .rn and none, else "rz", "rm", "rp". */
const char *mnemonic_rounding(struct mnemonic *m);

/* Zeroed memory of the arena. */
void *lower_take(struct lower *l, size_t size);
/* Bytes of a register for a type: a byte lives in 16 bits. */
uint32_t lower_type_width(enum ptx_type type);
uint32_t lower_row(struct lower *l, uint32_t width);
uint32_t lower_constant(struct lower *l, uint32_t width, uint64_t value, uint32_t global);
struct ptx_op *lower_emit(struct lower *l, enum ptx_op_kind kind);
/* -ENOSYS where there is no such operation. d may be PTX_NO_ROW: a new row. */
uint32_t lower_alu(struct lower *l, uint32_t d, const char *name, uint32_t a, uint32_t b, uint32_t c);
/* The same with the name put together: base.type. */
uint32_t lower_alu_of(struct lower *l, uint32_t d, const char *base, const char *type, uint32_t a, uint32_t b,
                      uint32_t c);

/* A row that holds the operand as the type says (8 bit types: in 16 bit, as the register has it). */
uint32_t lower_source(struct lower *l, const struct ptx_operand *operand, enum ptx_type type);
uint32_t lower_predicate(struct lower *l, const struct ptx_operand *operand);
/* Register named by a destination; PTX_NO_ROW for the sink `_'. */
uint32_t lower_register(struct lower *l, const struct ptx_operand *operand);
uint32_t lower_width(struct lower *l, uint32_t row);

/* A destination that may be wider than the result: compute into row, then call lower_store_dest. */
struct lower_dest {
    uint32_t row, final;
    enum ptx_type type;
};
struct lower_dest lower_dest(struct lower *l, const struct ptx_operand *operand, enum ptx_type type);
void lower_finish_dest(struct lower *l, const struct lower_dest *dest);

/* How a type appears in canonical names: b32, u32, s32 -> u32 (any), s32 -> s32 (sign). */
const char *lower_any(enum ptx_type type);
const char *lower_sign(enum ptx_type type);
bool type_is_float(enum ptx_type type);
bool type_is_signed(enum ptx_type type);

void lower_expect(struct lower *l, const struct ptx_statement *s, uint32_t low, uint32_t high);

/* Whether base is one of the words in list, which blanks separate. */
bool lower_is_one_of(const char *base, const char *list);
/* The last type in a mnemonic, which is that of the operands. */
enum ptx_type mnemonic_type(struct mnemonic *m);
/* One operation: a destination and sources, each of its type. Returns true. */
bool lower_plain(struct lower *l, const struct ptx_statement *s, const char *name, enum ptx_type d,
                 const enum ptx_type *types, uint32_t sources);

/* Each takes what it knows and returns true, or leaves the instruction alone. */
bool lower_integer(struct lower *l, struct mnemonic *m, const struct ptx_statement *s);
bool lower_float(struct lower *l, struct mnemonic *m, const struct ptx_statement *s);
bool lower_compare(struct lower *l, struct mnemonic *m, const struct ptx_statement *s);
bool lower_convert(struct lower *l, struct mnemonic *m, const struct ptx_statement *s);
bool lower_move(struct lower *l, struct mnemonic *m, const struct ptx_statement *s);
bool lower_memory(struct lower *l, struct mnemonic *m, const struct ptx_statement *s);
bool lower_warp(struct lower *l, struct mnemonic *m, const struct ptx_statement *s);

/* Float arithmetic on rows of f16 or bf16 through single. */
uint32_t lower_widen(struct lower *l, uint32_t row, enum ptx_type type);
uint32_t lower_narrow(struct lower *l, uint32_t d, uint32_t row, enum ptx_type type);

/* What a name stands for, other than a register. */
struct lower_symbol {
    enum ptx_space space;
    uint64_t offset; /* SHARED, LOCAL: address; PARAM: byte of the kernel's parameters */
    uint32_t global; /* GLOBAL, CONST: index */
    bool dynamic;    /* dynamic shared memory: offset counts from its start */
};
/* False where the name is unknown. */
bool lower_find_symbol(struct lower *l, const char *name, struct lower_symbol *out);
/* The address of a symbol in its space, as a constant. */
uint32_t lower_symbol_address(struct lower *l, const struct lower_symbol *symbol, uint64_t addend,
                              uint32_t width);

/* Scopes: a function's hides all names of its caller. Closing settles the jumps to the labels in it. */
void lower_open_scope(struct lower *l, bool function);
void lower_close_scope(struct lower *l);
void lower_declare_registers(struct lower *l, const struct ptx_statement *s);
void lower_declare_symbol(struct lower *l, const char *name, const struct lower_symbol *symbol);
/* .shared, .local and a call's .param variables. */
void lower_declare_variable(struct lower *l, const struct ptx_variable *v);
void lower_declare_label(struct lower *l, const char *name);
void lower_declare_targets(struct lower *l, const struct ptx_statement *s);
const struct ptx_statement *lower_find_targets(struct lower *l, const char *name);
/* The operation (or, in_targets, the entry of code->targets) op waits for the label. */
void lower_want_label(struct lower *l, const char *name, uint32_t op, bool in_targets);
/* PTX_NO_ROW where there is no such register, or special register. */
uint32_t lower_find_register(struct lower *l, const char *name);
uint32_t lower_special(struct lower *l, const char *name);
/* Room for a variable at the end of bytes, aligned; its offset. */
uint32_t lower_reserve(struct lower *l, uint32_t *bytes, const struct ptx_variable *v);

/* The kernel's code; -errno with a line in error. */
int ptx_lower_kernel(struct ptx_module *module, struct ptx_tree *tree, const struct ptx_function *function,
                     struct ptx_code **out, char *error, size_t error_size);

#endif
