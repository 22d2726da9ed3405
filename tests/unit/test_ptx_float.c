/*
 * Floating-point instructions of the PTX interpreter: all rounding modes, NaN, subnormals, halves.
 *
 * References use the C library and the machine's rounding mode in single steps that the compiler must not
 * fold (volatile), and quadruple precision where one rounding has to be exact.
 */
#include "tests/unit/ptx_harness.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

#define REFERENCE(name, expression)                                                                          \
    static uint64_t name(uint64_t a, uint64_t b, uint64_t c)                                                 \
    {                                                                                                        \
        (void)a, (void)b, (void)c;                                                                           \
        return (uint64_t)(expression);                                                                       \
    }

enum operation { ADD, SUB, MUL, DIV, FMA, RCP, SQRT };

static uint64_t single(enum operation op, int mode, uint64_t a, uint64_t b, uint64_t c)
{
    volatile float x = as_f32(a), y = as_f32(b), z = as_f32(c), r = 0;
    fesetround(mode);
    switch (op) {
    case ADD:
        r = x + y;
        break;
    case SUB:
        r = x - y;
        break;
    case MUL:
        r = x * y;
        break;
    case DIV:
        r = x / y;
        break;
    case FMA:
        r = fmaf(x, y, z);
        break;
    case RCP:
        r = 1.0f / x;
        break;
    case SQRT:
        r = sqrtf(x);
        break;
    }
    fesetround(FE_TONEAREST);
    return of_f32(r);
}

static uint64_t twofold(enum operation op, int mode, uint64_t a, uint64_t b, uint64_t c)
{
    volatile double x = as_f64(a), y = as_f64(b), z = as_f64(c), r = 0;
    fesetround(mode);
    switch (op) {
    case ADD:
        r = x + y;
        break;
    case SUB:
        r = x - y;
        break;
    case MUL:
        r = x * y;
        break;
    case DIV:
        r = x / y;
        break;
    case FMA:
        r = fma(x, y, z);
        break;
    case RCP:
        r = 1.0 / x;
        break;
    case SQRT:
        r = sqrt(x);
        break;
    }
    fesetround(FE_TONEAREST);
    return of_f64(r);
}

#define MODES(lower, OP)                                                                                     \
    REFERENCE(lower##_rn_f32, single(OP, FE_TONEAREST, a, b, c))                                             \
    REFERENCE(lower##_rz_f32, single(OP, FE_TOWARDZERO, a, b, c))                                            \
    REFERENCE(lower##_rm_f32, single(OP, FE_DOWNWARD, a, b, c))                                              \
    REFERENCE(lower##_rp_f32, single(OP, FE_UPWARD, a, b, c))                                                \
    REFERENCE(lower##_rn_f64, twofold(OP, FE_TONEAREST, a, b, c))                                            \
    REFERENCE(lower##_rz_f64, twofold(OP, FE_TOWARDZERO, a, b, c))                                           \
    REFERENCE(lower##_rm_f64, twofold(OP, FE_DOWNWARD, a, b, c))                                             \
    REFERENCE(lower##_rp_f64, twofold(OP, FE_UPWARD, a, b, c))
MODES(add, ADD)
MODES(sub, SUB)
MODES(mul, MUL)
MODES(div, DIV)
MODES(fma, FMA)
MODES(rcp, RCP)
MODES(sqrt, SQRT)

#define ONE(op, mode, type)                                                                                  \
    {                                                                                                        \
#op "." #mode "." #type " %d, %a;", #type, #type, NULL, NULL, op##_##mode##_##type                   \
    }
#define TWO(op, mode, type)                                                                                  \
    {                                                                                                        \
#op "." #mode "." #type " %d, %a, %b;", #type, #type, #type, NULL, op##_##mode##_##type              \
    }
#define THREE(op, mode, type)                                                                                \
    {                                                                                                        \
#op "." #mode "." #type " %d, %a, %b, %c;", #type, #type, #type, #type, op##_##mode##_##type         \
    }
#define ALL(N, op, type) N(op, rn, type), N(op, rz, type), N(op, rm, type), N(op, rp, type)

START_TEST(rounded_single)
{
    static const struct op_case cases[] = {
        ALL(TWO, add, f32), ALL(TWO, sub, f32),  ALL(TWO, mul, f32),   ALL(TWO, div, f32),
        ALL(ONE, rcp, f32), ALL(ONE, sqrt, f32), ALL(THREE, fma, f32),
    };
    check_cases(cases, COUNT_OF(cases));
}
END_TEST

START_TEST(rounded_double)
{
    static const struct op_case cases[] = {
        ALL(TWO, add, f64), ALL(TWO, sub, f64),  ALL(TWO, mul, f64),   ALL(TWO, div, f64),
        ALL(ONE, rcp, f64), ALL(ONE, sqrt, f64), ALL(THREE, fma, f64),
    };
    check_cases(cases, COUNT_OF(cases));
}
END_TEST

/* Subnormals to zero of the same sign, before and after. */
static uint64_t flush(uint64_t a)
{
    return a & 0x7f800000 ? a : a & 0x80000000;
}
/* To [0, 1]; NaN gives 0. */
static uint64_t unit(uint64_t a)
{
    float x = as_f32(a);
    return of_f32(x != x ? 0.0f : x <= 0.0f ? 0.0f : x > 1.0f ? 1.0f : x);
}
REFERENCE(add_ftz, flush(add_rn_f32(flush(a), flush(b), 0)))
REFERENCE(mul_ftz, flush(mul_rn_f32(flush(a), flush(b), 0)))
REFERENCE(fma_ftz, flush(fma_rn_f32(flush(a), flush(b), flush(c))))
REFERENCE(add_sat, unit(add_rn_f32(a, b, 0)))
REFERENCE(mul_ftz_sat, unit(mul_ftz(a, b, 0)))
REFERENCE(fma_sat, unit(fma_rn_f32(a, b, c)))
REFERENCE(div_ftz, flush(div_rn_f32(flush(a), flush(b), 0)))

START_TEST(flush_and_saturate)
{
    static const struct op_case cases[] = {
        {"add.ftz.f32 %d, %a, %b;", "f32", "f32", "f32", NULL, add_ftz},
        {"mul.rn.ftz.f32 %d, %a, %b;", "f32", "f32", "f32", NULL, mul_ftz},
        {"fma.rn.ftz.f32 %d, %a, %b, %c;", "f32", "f32", "f32", "f32", fma_ftz},
        {"add.sat.f32 %d, %a, %b;", "f32", "f32", "f32", NULL, add_sat},
        {"mul.ftz.sat.f32 %d, %a, %b;", "f32", "f32", "f32", NULL, mul_ftz_sat},
        {"fma.rn.sat.f32 %d, %a, %b, %c;", "f32", "f32", "f32", "f32", fma_sat},
        {"div.approx.ftz.f32 %d, %a, %b;", "f32", "f32", "f32", NULL, div_ftz},
        {"div.full.f32 %d, %a, %b;", "f32", "f32", "f32", NULL, div_rn_f32},
    };
    check_cases(cases, COUNT_OF(cases));
}
END_TEST

/* minNum and maxNum with -0 below +0. */
static uint64_t least(uint64_t a, uint64_t b)
{
    float x = as_f32(a), y = as_f32(b);
    return x != x ? b : y != y ? a : x == y ? (a | b) : x < y ? a : b;
}
static uint64_t most(uint64_t a, uint64_t b)
{
    float x = as_f32(a), y = as_f32(b);
    return x != x ? b : y != y ? a : x == y ? (a & b) : x > y ? a : b;
}
static uint64_t least64(uint64_t a, uint64_t b)
{
    double x = as_f64(a), y = as_f64(b);
    return x != x ? b : y != y ? a : x == y ? (a | b) : x < y ? a : b;
}
static uint64_t most64(uint64_t a, uint64_t b)
{
    double x = as_f64(a), y = as_f64(b);
    return x != x ? b : y != y ? a : x == y ? (a & b) : x > y ? a : b;
}
static bool no_number(uint64_t a)
{
    return as_f32(a) != as_f32(a);
}
#define SIGN32 ((uint64_t)1 << 31)
#define SIGN64 ((uint64_t)1 << 63)
REFERENCE(min_f32, least(a, b))
REFERENCE(max_f32, most(a, b))
REFERENCE(min_f64, least64(a, b))
REFERENCE(max_f64, most64(a, b))
REFERENCE(min_nan, no_number(a) || no_number(b) ? 0x7fffffff : least(a, b))
REFERENCE(max_nan, no_number(a) || no_number(b) ? 0x7fffffff : most(a, b))
REFERENCE(neg_f32, a ^ SIGN32)
REFERENCE(abs_f32, a & ~SIGN32)
REFERENCE(neg_f64, a ^ SIGN64)
REFERENCE(abs_f64, a & ~SIGN64)
REFERENCE(copysign_f32, (b & ~SIGN32) | (a & SIGN32))
REFERENCE(copysign_f64, (b & ~SIGN64) | (a & SIGN64))
REFERENCE(is_finite, isfinite(as_f32(a)) != 0)
REFERENCE(infinite, isinf(as_f32(a)) != 0)
REFERENCE(number, !isnan(as_f32(a)))
REFERENCE(notanumber, isnan(as_f64(a)) != 0)
REFERENCE(normal, isnormal(as_f32(a)) != 0)
REFERENCE(subnormal, fpclassify(as_f64(a)) == FP_SUBNORMAL)

START_TEST(order_and_sign)
{
    static const struct op_case cases[] = {
        {"min.f32 %d, %a, %b;", "f32", "f32", "f32", NULL, min_f32},
        {"max.f32 %d, %a, %b;", "f32", "f32", "f32", NULL, max_f32},
        {"min.NaN.f32 %d, %a, %b;", "f32", "f32", "f32", NULL, min_nan},
        {"max.NaN.f32 %d, %a, %b;", "f32", "f32", "f32", NULL, max_nan},
        {"min.f64 %d, %a, %b;", "f64", "f64", "f64", NULL, min_f64},
        {"max.f64 %d, %a, %b;", "f64", "f64", "f64", NULL, max_f64},
        {"neg.f32 %d, %a;", "b32", "f32", NULL, NULL, neg_f32},
        {"abs.f32 %d, %a;", "b32", "f32", NULL, NULL, abs_f32},
        {"neg.f64 %d, %a;", "b64", "f64", NULL, NULL, neg_f64},
        {"abs.f64 %d, %a;", "b64", "f64", NULL, NULL, abs_f64},
        {"copysign.f32 %d, %a, %b;", "b32", "f32", "f32", NULL, copysign_f32},
        {"copysign.f64 %d, %a, %b;", "b64", "f64", "f64", NULL, copysign_f64},
        {"testp.finite.f32 %d, %a;", "pred", "f32", NULL, NULL, is_finite},
        {"testp.infinite.f32 %d, %a;", "pred", "f32", NULL, NULL, infinite},
        {"testp.number.f32 %d, %a;", "pred", "f32", NULL, NULL, number},
        {"testp.notanumber.f64 %d, %a;", "pred", "f64", NULL, NULL, notanumber},
        {"testp.normal.f32 %d, %a;", "pred", "f32", NULL, NULL, normal},
        {"testp.subnormal.f64 %d, %a;", "pred", "f64", NULL, NULL, subnormal},
    };
    check_cases(cases, COUNT_OF(cases));
}
END_TEST

/* Ordered comparisons are false with a NaN, unordered ones true. */
static uint64_t related(double x, double y, const char *relation)
{
    bool unordered = x != x || y != y, u = relation[2] == 'u';
    if (!strcmp(relation, "num") || !strcmp(relation, "nan"))
        return unordered == (relation[1] == 'a');
    if (unordered)
        return u;
    return relation[0] == 'e'   ? x == y
           : relation[0] == 'n' ? x != y
           : relation[0] == 'l' ? (relation[1] == 't' ? x < y : x <= y)
                                : (relation[1] == 't' ? x > y : x >= y);
}
static double of_half(uint64_t a)
{
    uint16_t bits = (uint16_t)a;
    _Float16 value;
    memcpy(&value, &bits, 2);
    return (double)value;
}
#define RELATION(name)                                                                                       \
    REFERENCE(name##_f32, related((double)as_f32(a), (double)as_f32(b), #name))                              \
    REFERENCE(name##_f64, related(as_f64(a), as_f64(b), #name))                                              \
    REFERENCE(name##_f16, related(of_half(a), of_half(b), #name))
RELATION(eq)
RELATION(ne)
RELATION(lt)
RELATION(le)
RELATION(gt)
RELATION(ge)
RELATION(equ)
RELATION(neu)
RELATION(ltu)
RELATION(leu)
RELATION(gtu)
RELATION(geu)
RELATION(num)
RELATION(nan)
#define COMPARE(name)                                                                                        \
    {"setp." #name ".f32 %d, %a, %b;", "pred", "f32", "f32", NULL, name##_f32},                              \
        {"setp." #name ".f64 %d, %a, %b;", "pred", "f64", "f64", NULL, name##_f64},                          \
    {                                                                                                        \
        "setp." #name ".f16 %d, %a, %b;", "pred", "f16", "f16", NULL, name##_f16                             \
    }
REFERENCE(lt_ftz, related((double)as_f32(flush(a)), (double)as_f32(flush(b)), "lt"))
REFERENCE(sign_select, as_f32(c) >= 0.0f ? a : b)

START_TEST(comparisons)
{
    static const struct op_case cases[] = {
        COMPARE(eq),
        COMPARE(ne),
        COMPARE(lt),
        COMPARE(le),
        COMPARE(gt),
        COMPARE(ge),
        COMPARE(equ),
        COMPARE(neu),
        COMPARE(ltu),
        COMPARE(leu),
        COMPARE(gtu),
        COMPARE(geu),
        COMPARE(num),
        COMPARE(nan),
        {"setp.lt.ftz.f32 %d, %a, %b;", "pred", "f32", "f32", NULL, lt_ftz},
        {"slct.b32.f32 %d, %a, %b, %c;", "b32", "b32", "b32", "f32", sign_select},
    };
    check_cases(cases, COUNT_OF(cases));
}
END_TEST

static uint64_t to_half(__float128 value)
{
    _Float16 half = (_Float16)value;
    uint16_t bits;
    memcpy(&bits, &half, 2);
    return value != value ? 0x7fff : bits;
}
#define Q(x) ((__float128)of_half(x))
static uint64_t half_add(uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    /* a sum of zeros keeps its sign in quadruple precision as well */
    return to_half(Q(a) + Q(b));
}
REFERENCE(half_sub, to_half(Q(a) - Q(b)))
REFERENCE(half_mul, to_half(Q(a) * Q(b)))
REFERENCE(half_fma, to_half(Q(a) * Q(b) + Q(c)))
REFERENCE(half_neg, a ^ 0x8000)
REFERENCE(half_abs, a & 0x7fff)
static uint64_t half_min(uint64_t a, uint64_t b, uint64_t c)
{
    double x = of_half(a), y = of_half(b);
    (void)c;
    if (x != x && y != y)
        return 0x7fff;
    return x != x ? b : y != y ? a : x == y ? (a | b) : x < y ? a : b;
}
static uint64_t half_max_nan(uint64_t a, uint64_t b, uint64_t c)
{
    double x = of_half(a), y = of_half(b);
    (void)c;
    return x != x || y != y ? 0x7fff : x == y ? (a & b) : x > y ? a : b;
}
#define HALVES(name)                                                                                         \
    REFERENCE(name##_x2, name(a & 0xffff, b & 0xffff, c & 0xffff) |                                          \
                             name(a >> 16 & 0xffff, b >> 16 & 0xffff, c >> 16 & 0xffff) << 16)
HALVES(half_add)
HALVES(half_mul)
HALVES(half_fma)
HALVES(half_neg)

/* bfloat16 is the upper half of a single: round to nearest even on its lower half. */
static uint64_t to_brain(float value)
{
    uint32_t bits = (uint32_t)of_f32(value), low = bits & 0xffff, high = bits >> 16;
    if (value != value)
        return 0x7fff;
    return high + (low > 0x8000 || (low == 0x8000 && (high & 1)));
}
#define B(x) as_f32((x) << 16)
REFERENCE(brain_add, to_brain(B(a) + B(b)))
REFERENCE(brain_mul, to_brain(B(a) * B(b)))
HALVES(brain_mul)

START_TEST(halves)
{
    static const struct op_case cases[] = {
        {"add.rn.f16 %d, %a, %b;", "f16", "f16", "f16", NULL, half_add},
        {"sub.f16 %d, %a, %b;", "f16", "f16", "f16", NULL, half_sub},
        {"mul.rn.f16 %d, %a, %b;", "f16", "f16", "f16", NULL, half_mul},
        {"fma.rn.f16 %d, %a, %b, %c;", "f16", "f16", "f16", "f16", half_fma},
        {"neg.f16 %d, %a;", "f16", "f16", NULL, NULL, half_neg},
        {"abs.f16 %d, %a;", "f16", "f16", NULL, NULL, half_abs},
        {"min.f16 %d, %a, %b;", "f16", "f16", "f16", NULL, half_min},
        {"max.NaN.f16 %d, %a, %b;", "f16", "f16", "f16", NULL, half_max_nan},
        {"add.f16x2 %d, %a, %b;", "f16x2", "f16x2", "f16x2", NULL, half_add_x2},
        {"mul.f16x2 %d, %a, %b;", "f16x2", "f16x2", "f16x2", NULL, half_mul_x2},
        {"fma.rn.f16x2 %d, %a, %b, %c;", "f16x2", "f16x2", "f16x2", "f16x2", half_fma_x2},
        {"neg.f16x2 %d, %a;", "f16x2", "f16x2", NULL, NULL, half_neg_x2},
        {"add.rn.bf16 %d, %a, %b;", "bf16", "bf16", "bf16", NULL, brain_add},
        {"mul.rn.bf16 %d, %a, %b;", "bf16", "bf16", "bf16", NULL, brain_mul},
        {"mul.rn.bf16x2 %d, %a, %b;", "bf16x2", "bf16x2", "bf16x2", NULL, brain_mul_x2},
    };
    check_cases(cases, COUNT_OF(cases));
}
END_TEST

/* The approximate instructions: computed in long double and rounded once. */
REFERENCE(ex2, of_f32((float)exp2l((long double)as_f32(a))))
REFERENCE(lg2, of_f32((float)log2l((long double)as_f32(a))))
REFERENCE(sine, of_f32((float)sinl((long double)as_f32(a))))
REFERENCE(cosine, of_f32((float)cosl((long double)as_f32(a))))
REFERENCE(tangent, of_f32((float)tanhl((long double)as_f32(a))))
REFERENCE(rsqrt, of_f32((float)(1.0L / sqrtl((long double)as_f32(a)))))
REFERENCE(ex2_ftz, flush(ex2(flush(a), 0, 0)))
REFERENCE(lg2_ftz, flush(lg2(flush(a), 0, 0)))
static double top(double x)
{
    double r = as_f64(of_f64(x) & 0xffffffff00000000);
    return fpclassify(r) == FP_SUBNORMAL ? copysign(0, r) : r;
}
REFERENCE(rcp_top, of_f64(top(1.0 / top(as_f64(a)))))
REFERENCE(rsqrt_top, of_f64(top(1.0 / sqrt(top(as_f64(a))))))

START_TEST(approximations)
{
    static const struct op_case cases[] = {
        {"ex2.approx.f32 %d, %a;", "f32", "f32", NULL, NULL, ex2},
        {"ex2.approx.ftz.f32 %d, %a;", "f32", "f32", NULL, NULL, ex2_ftz},
        {"lg2.approx.f32 %d, %a;", "f32", "f32", NULL, NULL, lg2},
        {"lg2.approx.ftz.f32 %d, %a;", "f32", "f32", NULL, NULL, lg2_ftz},
        {"sin.approx.f32 %d, %a;", "f32", "f32", NULL, NULL, sine},
        {"cos.approx.f32 %d, %a;", "f32", "f32", NULL, NULL, cosine},
        {"tanh.approx.f32 %d, %a;", "f32", "f32", NULL, NULL, tangent},
        {"rsqrt.approx.f32 %d, %a;", "f32", "f32", NULL, NULL, rsqrt},
        {"rcp.approx.f32 %d, %a;", "f32", "f32", NULL, NULL, rcp_rn_f32},
        {"sqrt.approx.f32 %d, %a;", "f32", "f32", NULL, NULL, sqrt_rn_f32},
        {"rcp.approx.ftz.f64 %d, %a;", "f64", "f64", NULL, NULL, rcp_top},
        {"rsqrt.approx.ftz.f64 %d, %a;", "f64", "f64", NULL, NULL, rsqrt_top},
    };
    check_cases(cases, COUNT_OF(cases));
}
END_TEST

/* NaN is always the canonical one in single and half: its bits reach memory. */
REFERENCE(canonical, 0x7fffffff)

START_TEST(canonical_nan)
{
    static const struct op_case cases[] = {
        {"{ add.f32 %d, %a, 0fFFC12345; }", "b32", "f32", NULL, NULL, canonical},
        {"{ mul.f32 %d, %a, 0f7F800001; }", "b32", "f32", NULL, NULL, canonical},
        {"{ fma.rn.f32 %d, %a, %a, 0f7FC00000; }", "b32", "f32", NULL, NULL, canonical},
        {"{ .reg .b32 x; and.b32 x, %a, 1; mov.b32 x, 0fFFC00001; max.f32 %d, x, 0f7FC00000; }", "b32", "f32",
         NULL, NULL, canonical},
        {"{ sub.f32 %d, 0f7F800000, 0f7F800000; }", "b32", "f32", NULL, NULL, canonical},
    };
    check_cases(cases, COUNT_OF(cases));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("ptx float");
    TCase *t = tcase_create("operations");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, rounded_single);
    tcase_add_test(t, rounded_double);
    tcase_add_test(t, flush_and_saturate);
    tcase_add_test(t, order_and_sign);
    tcase_add_test(t, comparisons);
    tcase_add_test(t, halves);
    tcase_add_test(t, approximations);
    tcase_add_test(t, canonical_nan);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return run_at_all_levels(suite);
}
