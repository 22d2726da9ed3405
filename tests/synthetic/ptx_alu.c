/*
 * ptx_alu.c - the arithmetic operations: one loop over lanes each.
 *
 * Compiled once per level of x86-64 vector instructions (PTX_LEVEL); ptx_dispatch.c picks the table of the
 * machine. All levels give the same bits: no contraction, no reassociation, and nothing here depends on the
 * machine's own conversion instructions.
 */
#include "ptx_alu.h"
#include "ptx_math.h"

typedef uint8_t C_PRED;
typedef uint16_t C_U16;
typedef int16_t C_S16;
typedef uint32_t C_U32;
typedef int32_t C_S32;
typedef uint64_t C_U64;
typedef int64_t C_S64;
typedef float C_F32;
typedef double C_F64;

#define DIV_U16 div_u
#define DIV_U32 div_u
#define DIV_U64 div_u
#define DIV_S16 div_s
#define DIV_S32 div_s
#define DIV_S64 div_s
#define REM_U16(x, y) ((y) ? (x) % (y) : (x))
#define REM_U32 REM_U16
#define REM_U64 REM_U16
#define REM_S16 rem_s
#define REM_S32 rem_s
#define REM_S64 rem_s

/*
 * The destination may be one of the sources: never another row of a different width, so there is no
 * dependence between lanes and the loop may be vectorised as it stands. A whole chunk is worth a loop of
 * known length.
 */
#define ALU(id, name, D, n, A, B, C, expression)                                                             \
    static inline __attribute__((always_inline)) void body_##id(const struct ptx_op *op, char *rows,         \
                                                                uint32_t lo, uint32_t hi)                    \
    {                                                                                                        \
        C_##D *pd = (C_##D *)__builtin_assume_aligned(rows + op->d, 64);                                     \
        const C_##A *pa = (const C_##A *)__builtin_assume_aligned(rows + op->a, 64);                         \
        const C_##B *pb = (const C_##B *)__builtin_assume_aligned(rows + ((n) > 1 ? op->b : 0), 64);         \
        const C_##C *pc = (const C_##C *)__builtin_assume_aligned(rows + ((n) > 2 ? op->c : 0), 64);         \
        const uint64_t imm = op->imm;                                                                        \
        (void)pb, (void)pc, (void)imm;                                                                       \
        _Pragma("GCC ivdep") for (uint32_t i = lo; i < hi; i++)                                              \
        {                                                                                                    \
            const C_##A a = pa[i];                                                                           \
            const C_##B b = (n) > 1 ? pb[i] : 0;                                                             \
            const C_##C c = (n) > 2 ? pc[i] : 0;                                                             \
            (void)b, (void)c;                                                                                \
            pd[i] = (C_##D)(expression);                                                                     \
        }                                                                                                    \
    }                                                                                                        \
    static void alu_##id(const struct ptx_op *op, char *rows, uint32_t lo, uint32_t hi)                      \
    {                                                                                                        \
        if (lo == 0 && hi == PTX_LANES)                                                                      \
            body_##id(op, rows, 0, PTX_LANES);                                                               \
        else                                                                                                 \
            body_##id(op, rows, lo, hi);                                                                     \
    }
#include "ptx_alu_list.h"
#undef ALU

const struct ptx_alu PTX_LEVEL_NAME(ptx_alu_table)[] = {
#define ALU(id, name, D, n, A, B, C, expression) {name, alu_##id, PTX_##D, {PTX_##A, PTX_##B, PTX_##C}, n},
#include "ptx_alu_list.h"
#undef ALU
    {0},
};
