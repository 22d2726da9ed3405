/*
 * ptx_ast.h - PTX text as a tree: what the parser makes and the lowering reads.
 *
 * Everything lives in the arena of the parse and dies with it. Names are NUL-terminated copies. Lines are
 * 1-based lines of the PTX text. Not thread safe.
 */
#ifndef SYNTHETIC_PTX_AST_H
#define SYNTHETIC_PTX_AST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bump allocator; memory comes zeroed, or NULL. */
struct ptx_arena {
    struct ptx_arena_block *blocks;
};
void *ptx_arena_alloc(struct ptx_arena *arena, size_t size);
void ptx_arena_free(struct ptx_arena *arena);

enum ptx_operand_kind {
    PTX_OPERAND_NAME,   /* a register, variable, label, function or special register */
    PTX_OPERAND_INT,    /* integer literal, two's complement in bits */
    PTX_OPERAND_FLOAT,  /* 0f..., 0d... or decimal; bits is an IEEE double, unless single */
    PTX_OPERAND_VECTOR, /* {a, b} or (a, b) */
    PTX_OPERAND_MEMORY, /* [name + offset] or [offset] */
    PTX_OPERAND_PAIR,   /* p|q */
};

struct ptx_operand {
    enum ptx_operand_kind kind;
    const char *name; /* NAME, MEMORY (NULL: absolute), PAIR */
    const char *second;
    uint64_t bits; /* INT, FLOAT; MEMORY: the offset */
    bool single;   /* FLOAT: bits holds an IEEE single */
    bool negate;   /* !name */
    struct ptx_operand *items;
    uint32_t count;
};

enum ptx_type {
    PTX_NONE,
    PTX_PRED,
    PTX_B8,
    PTX_U8,
    PTX_S8,
    PTX_B16,
    PTX_U16,
    PTX_S16,
    PTX_F16,
    PTX_BF16,
    PTX_B32,
    PTX_U32,
    PTX_S32,
    PTX_F32,
    PTX_F16X2,
    PTX_BF16X2,
    PTX_B64,
    PTX_U64,
    PTX_S64,
    PTX_F64,
};
/* PTX_NONE where the name (without its dot) is no type. */
enum ptx_type ptx_type_named(const char *name);
/* Bytes; a predicate has one. */
uint32_t ptx_type_size(enum ptx_type type);

enum ptx_space {
    PTX_GENERIC,
    PTX_GLOBAL,
    PTX_CONST,
    PTX_SHARED,
    PTX_LOCAL,
    PTX_PARAM,
};

/* A variable or a parameter. */
struct ptx_variable {
    const char *name;
    enum ptx_space space;
    enum ptx_type type;
    uint32_t align, line;
    uint64_t count; /* elements */
    bool unsized;   /* name[]: dynamic shared memory */
    bool external;
    struct ptx_operand *init;
    uint32_t init_count;
    struct ptx_variable *next;
};

enum ptx_statement_kind {
    PTX_STATEMENT_INSTRUCTION,
    PTX_STATEMENT_LABEL,
    PTX_STATEMENT_REGISTERS,
    PTX_STATEMENT_VARIABLE,
    PTX_STATEMENT_OPEN,
    PTX_STATEMENT_CLOSE,
    PTX_STATEMENT_TARGETS, /* name: .branchtargets a, b; */
};

struct ptx_statement {
    enum ptx_statement_kind kind;
    uint32_t line;
    const char *name;  /* mnemonic, label, register name or prefix */
    const char *guard; /* @name */
    bool guard_negate;
    struct ptx_operand *operands;
    uint32_t count; /* operands, or of a register range: 0 is the plain name */
    enum ptx_type type;
    struct ptx_variable *variable;
    struct ptx_statement *next;
};

struct ptx_function {
    const char *name;
    bool entry;
    uint32_t line;
    struct ptx_variable *params, *results;
    struct ptx_statement *body; /* NULL: a declaration */
    uint32_t reqntid[3], maxntid[3];
    struct ptx_function *next;
};

struct ptx_tree {
    struct ptx_arena arena;
    struct ptx_function *functions; /* in the order of the text */
    struct ptx_variable *variables; /* module scope: global, const, shared */
};

/* -EINVAL with a line in error where text is not PTX, -ENOSYS where it is PTX beyond what is understood,
 * -ENOMEM. */
int ptx_tree_parse(const char *text, size_t length, struct ptx_tree *tree, char *error, size_t error_size);
void ptx_tree_free(struct ptx_tree *tree);

#endif
