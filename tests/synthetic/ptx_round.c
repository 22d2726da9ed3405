/*
 * ptx_round.c - arithmetic with a rounding mode other than to nearest: .rz, .rm, .rp.
 *
 * The machine's rounding mode is set around the loop; -frounding-math keeps the compiler from folding or
 * moving the operation. These instructions are rare, so one loop for all machines is enough.
 */
#include "ptx_alu.h"
#include "ptx_math.h"

#include <fenv.h>

typedef float C_F32;
typedef double C_F64;
typedef uint16_t C_U16;
typedef int16_t C_S16;
typedef uint32_t C_U32;
typedef int32_t C_S32;
typedef uint64_t C_U64;
typedef int64_t C_S64;

#define ROUNDED(id, name, mode, D, n, A, B, C, expression)                                                   \
    static void round_##id(const struct ptx_op *op, char *rows, uint32_t lo, uint32_t hi)                    \
    {                                                                                                        \
        int before = fegetround();                                                                           \
        fesetround(mode);                                                                                    \
        for (uint32_t i = lo; i < hi; i++) {                                                                 \
            const C_##A a = ((const C_##A *)(rows + op->a))[i];                                              \
            const C_##B b = (n) > 1 ? ((const C_##B *)(rows + op->b))[i] : 0;                                \
            const C_##C c = (n) > 2 ? ((const C_##C *)(rows + op->c))[i] : 0;                                \
            (void)b, (void)c;                                                                                \
            volatile C_##D result = (C_##D)(expression);                                                     \
            ((C_##D *)(rows + op->d))[i] = result;                                                           \
        }                                                                                                    \
        fesetround(before);                                                                                  \
    }

/* clang-format off */
#define FROM_INT(m, mode, n, T) \
    X(f32_##n##_##m, "cvt." #m ".f32." #n, mode, F32, 1, T, T, T, (float)a) \
    X(f64_##n##_##m, "cvt." #m ".f64." #n, mode, F64, 1, T, T, T, (double)a)
#define MODE(m, mode) \
    X(add_f32_##m, "add." #m ".f32", mode, F32, 2, F32, F32, F32, canon_f32(a + b)) \
    X(sub_f32_##m, "sub." #m ".f32", mode, F32, 2, F32, F32, F32, canon_f32(a - b)) \
    X(mul_f32_##m, "mul." #m ".f32", mode, F32, 2, F32, F32, F32, canon_f32(a * b)) \
    X(div_f32_##m, "div." #m ".f32", mode, F32, 2, F32, F32, F32, canon_f32(a / b)) \
    X(fma_f32_##m, "fma." #m ".f32", mode, F32, 3, F32, F32, F32, canon_f32(fmaf(a, b, c))) \
    X(rcp_f32_##m, "rcp." #m ".f32", mode, F32, 1, F32, F32, F32, canon_f32(1.0f / a)) \
    X(sqrt_f32_##m, "sqrt." #m ".f32", mode, F32, 1, F32, F32, F32, canon_f32(sqrtf(a))) \
    X(add_f64_##m, "add." #m ".f64", mode, F64, 2, F64, F64, F64, a + b) \
    X(sub_f64_##m, "sub." #m ".f64", mode, F64, 2, F64, F64, F64, a - b) \
    X(mul_f64_##m, "mul." #m ".f64", mode, F64, 2, F64, F64, F64, a * b) \
    X(div_f64_##m, "div." #m ".f64", mode, F64, 2, F64, F64, F64, a / b) \
    X(fma_f64_##m, "fma." #m ".f64", mode, F64, 3, F64, F64, F64, fma(a, b, c)) \
    X(rcp_f64_##m, "rcp." #m ".f64", mode, F64, 1, F64, F64, F64, 1.0 / a) \
    X(sqrt_f64_##m, "sqrt." #m ".f64", mode, F64, 1, F64, F64, F64, sqrt(a)) \
    X(cvt_f32_f64_##m, "cvt." #m ".f32.f64", mode, F32, 1, F64, F64, F64, canon_f32((float)a)) \
    FROM_INT(m, mode, u16, U16) FROM_INT(m, mode, s16, S16) FROM_INT(m, mode, u32, U32) \
    FROM_INT(m, mode, s32, S32) FROM_INT(m, mode, u64, U64) FROM_INT(m, mode, s64, S64)
/* clang-format on */
#define MODES MODE(rz, FE_TOWARDZERO) MODE(rm, FE_DOWNWARD) MODE(rp, FE_UPWARD)

#define X ROUNDED
MODES
#undef X

const struct ptx_alu ptx_alu_table_round[] = {
#define X(id, name, mode, D, n, A, B, C, expression)                                                         \
    {name, round_##id, PTX_##D, {PTX_##A, PTX_##B, PTX_##C}, n},
    MODES
#undef X
    {0},
};
