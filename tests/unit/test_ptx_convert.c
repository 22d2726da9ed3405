/*
 * cvt, mov and cvta of the PTX interpreter: every pair of types, rounding, saturation, registers wider than
 * the type.
 */
#include "tests/unit/ptx_harness.h"

#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define REFERENCE(name, expression)                                                                          \
    static uint64_t name(uint64_t a, uint64_t b, uint64_t c)                                                 \
    {                                                                                                        \
        (void)a, (void)b, (void)c;                                                                           \
        return (uint64_t)(expression);                                                                       \
    }

/* The type under test, for references that serve all pairs. */
static struct {
    uint32_t from_bits, to_bits, register_bits;
    bool from_signed, to_signed, saturate;
    int mode;
} now;

static uint64_t mask(uint32_t bits)
{
    return bits < 64 ? ((uint64_t)1 << bits) - 1 : UINT64_MAX;
}

/* A value of an integer type, exactly. */
static __int128 exact(uint64_t a, uint32_t bits, bool is_signed)
{
    a &= mask(bits);
    if (is_signed && a >> (bits - 1))
        return (__int128)a - ((__int128)1 << bits);
    return (__int128)a;
}

static __int128 lowest(void)
{
    return now.to_signed ? -((__int128)1 << (now.to_bits - 1)) : 0;
}

static __int128 highest(void)
{
    return ((__int128)1 << (now.to_bits - now.to_signed)) - 1;
}

static uint64_t integer_pair(uint64_t a, uint64_t b, uint64_t c)
{
    __int128 value = exact(a, now.from_bits, now.from_signed);
    (void)b, (void)c;
    if (now.saturate)
        value = value < lowest() ? lowest() : value > highest() ? highest() : value;
    /* what does not fit is cut, then extended to the register by the destination's sign */
    value = exact((uint64_t)value, now.to_bits, now.to_signed);
    return (uint64_t)value & mask(now.register_bits);
}

static const struct {
    const char *name, *bits;
    uint32_t size;
    bool is_signed;
} integers[] = {{"u8", "b16", 8, false},   {"s8", "b16", 8, true},    {"u16", "b16", 16, false},
                {"s16", "b16", 16, true},  {"u32", "b32", 32, false}, {"s32", "b32", 32, true},
                {"u64", "b64", 64, false}, {"s64", "b64", 64, true}};

static void check_text(const char *format, const char *to, const char *from, const char *d, const char *a,
                       reference_fn *reference)
{
    char text[96];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text, sizeof text, format, to, from);
#pragma GCC diagnostic pop
    struct op_case op = {text, d, a, NULL, NULL, reference};
    check_cases(&op, 1);
}

START_TEST(integer_to_integer)
{
    for (size_t i = 0; i < COUNT_OF(integers); i++)
        for (size_t k = 0; k < COUNT_OF(integers); k++) {
            now.to_bits = integers[i].size;
            now.to_signed = integers[i].is_signed;
            now.from_bits = integers[k].size;
            now.from_signed = integers[k].is_signed;
            now.register_bits = now.to_bits < 16 ? 16 : now.to_bits;
            now.saturate = false;
            check_text("cvt.%s.%s %%d, %%a;", integers[i].name, integers[k].name, integers[i].bits,
                       integers[k].bits, integer_pair);
            now.saturate = true;
            check_text("cvt.sat.%s.%s %%d, %%a;", integers[i].name, integers[k].name, integers[i].bits,
                       integers[k].bits, integer_pair);
        }
}
END_TEST

START_TEST(wider_registers)
{
    /* the source's upper part does not count, the destination is extended */
    now.saturate = false;
    for (size_t i = 0; i < COUNT_OF(integers); i++) {
        now.from_bits = now.to_bits = integers[i].size;
        now.from_signed = now.to_signed = integers[i].is_signed;
        now.register_bits = 64;
        char text[64];
        snprintf(text, sizeof text, "cvt.%s.%s %%d, %%a;", integers[i].name, integers[i].name);
        struct op_case op = {text, "b64", "b64", NULL, NULL, integer_pair};
        check_cases(&op, 1);
        now.register_bits = 32;
        op.a = op.d = "b32";
        if (integers[i].size <= 32)
            check_cases(&op, 1);
    }
}
END_TEST

static uint64_t integer_to_single(uint64_t a, uint64_t b, uint64_t c)
{
    /* quadruple precision holds any of them: one rounding in the machine's mode */
    __int128 value = exact(a, now.from_bits, now.from_signed);
    (void)b, (void)c;
    volatile int64_t s = (int64_t)value;
    volatile uint64_t u = (uint64_t)value;
    fesetround(now.mode);
    volatile float r = now.from_signed ? (float)s : (float)u;
    fesetround(FE_TONEAREST);
    return of_f32(r);
}

static uint64_t integer_to_double(uint64_t a, uint64_t b, uint64_t c)
{
    __int128 value = exact(a, now.from_bits, now.from_signed);
    (void)b, (void)c;
    volatile int64_t s = (int64_t)value;
    volatile uint64_t u = (uint64_t)value;
    fesetround(now.mode);
    volatile double r = now.from_signed ? (double)s : (double)u;
    fesetround(FE_TONEAREST);
    return of_f64(r);
}

static uint64_t half_bits(__float128 value)
{
    _Float16 half = (_Float16)value;
    uint16_t bits;
    memcpy(&bits, &half, 2);
    return value != value ? 0x7fff : bits;
}

static uint64_t integer_to_half(uint64_t a, uint64_t b, uint64_t c)
{
    (void)b, (void)c;
    return half_bits((__float128)exact(a, now.from_bits, now.from_signed));
}

static const struct {
    const char *name, *integral;
    int mode;
} modes[] = {{"rn", "rni", FE_TONEAREST},
             {"rz", "rzi", FE_TOWARDZERO},
             {"rm", "rmi", FE_DOWNWARD},
             {"rp", "rpi", FE_UPWARD}};

START_TEST(integer_to_float)
{
    for (size_t m = 0; m < COUNT_OF(modes); m++)
        for (size_t k = 0; k < COUNT_OF(integers); k++) {
            char to[32];
            now.from_bits = integers[k].size;
            now.from_signed = integers[k].is_signed;
            now.mode = modes[m].mode;
            snprintf(to, sizeof to, "%s.f32", modes[m].name);
            check_text("cvt.%s.%s %%d, %%a;", to, integers[k].name, "f32", integers[k].bits,
                       integer_to_single);
            snprintf(to, sizeof to, "%s.f64", modes[m].name);
            check_text("cvt.%s.%s %%d, %%a;", to, integers[k].name, "f64", integers[k].bits,
                       integer_to_double);
            if (m == 0)
                check_text("cvt.rn.%s.%s %%d, %%a;", "f16", integers[k].name, "f16", integers[k].bits,
                           integer_to_half);
        }
}
END_TEST

static long double integral(long double x)
{
    fesetround(now.mode);
    volatile long double r = rintl(x);
    fesetround(FE_TONEAREST);
    return r;
}

/* NaN gives 0, what is too large the nearest bound. */
static uint64_t to_integer(long double x)
{
    if (x != x)
        return 0;
    x = integral(x);
    __int128 value = x <= (long double)lowest()    ? lowest()
                     : x >= (long double)highest() ? highest()
                                                   : (__int128)x;
    return (uint64_t)exact((uint64_t)value, now.to_bits, now.to_signed) & mask(now.register_bits);
}

static long double of_half(uint64_t a)
{
    uint16_t bits = (uint16_t)a;
    _Float16 half;
    memcpy(&half, &bits, 2);
    return (long double)half;
}

REFERENCE(single_to_integer, to_integer((long double)as_f32(a)))
REFERENCE(double_to_integer, to_integer((long double)as_f64(a)))
REFERENCE(half_to_integer, to_integer(of_half(a)))
REFERENCE(brain_to_integer, to_integer((long double)as_f32(a << 16)))

START_TEST(float_to_integer)
{
    for (size_t m = 0; m < COUNT_OF(modes); m++)
        for (size_t k = 0; k < COUNT_OF(integers); k++) {
            char to[32];
            now.to_bits = integers[k].size;
            now.to_signed = integers[k].is_signed;
            now.register_bits = now.to_bits < 16 ? 16 : now.to_bits;
            now.mode = modes[m].mode;
            snprintf(to, sizeof to, "%s.%s", modes[m].integral, integers[k].name);
            check_text("cvt.%s.%s %%d, %%a;", to, "f32", integers[k].bits, "f32", single_to_integer);
            check_text("cvt.%s.%s %%d, %%a;", to, "f64", integers[k].bits, "f64", double_to_integer);
            check_text("cvt.%s.%s %%d, %%a;", to, "f16", integers[k].bits, "f16", half_to_integer);
            check_text("cvt.%s.%s %%d, %%a;", to, "bf16", integers[k].bits, "bf16", brain_to_integer);
        }
}
END_TEST

static uint64_t narrow_single(uint64_t a, uint64_t b, uint64_t c)
{
    volatile double x = as_f64(a);
    (void)b, (void)c;
    fesetround(now.mode);
    volatile float r = (float)x;
    fesetround(FE_TONEAREST);
    return of_f32(r);
}
REFERENCE(widen_single, of_f64((double)as_f32(a)))
REFERENCE(half_to_single, of_f32((float)of_half(a)))
REFERENCE(half_to_double, of_f64((double)of_half(a)))
REFERENCE(brain_to_single, a << 16)
REFERENCE(single_to_half, half_bits((__float128)as_f32(a)))
REFERENCE(double_to_half, half_bits((__float128)as_f64(a)))

/* Towards zero: the nearest, one step back where it is too large. */
static uint64_t single_to_half_rz(uint64_t a, uint64_t b, uint64_t c)
{
    float x = as_f32(a);
    uint64_t bits = half_bits((__float128)x);
    (void)b, (void)c;
    if (x != x || isinf(x))
        return bits;
    return fabsl(of_half(bits)) > (long double)fabsf(x) ? bits - 1 : bits;
}
static uint64_t to_brain(float value)
{
    uint32_t bits = (uint32_t)of_f32(value), low = bits & 0xffff, high = bits >> 16;
    return value != value ? 0x7fff : high + (low > 0x8000 || (low == 0x8000 && (high & 1)));
}
REFERENCE(single_to_brain, to_brain(as_f32(a)))
REFERENCE(single_to_brain_rz, as_f32(a) != as_f32(a) ? 0x7fff : a >> 16)
REFERENCE(pair_of_halves, half_bits((__float128)as_f32(a)) << 16 | half_bits((__float128)as_f32(b)))
REFERENCE(pair_of_brains, to_brain(as_f32(a)) << 16 | to_brain(as_f32(b)))
static uint64_t flush(uint64_t a)
{
    return a & 0x7f800000 ? a : a & 0x80000000;
}
REFERENCE(saturated, as_f32(a) > 0 ? (as_f32(a) < 1 ? a : 0x3f800000) : 0)
REFERENCE(flushed, flush(a))
REFERENCE(relu_half, as_f32(a) != as_f32(a) ? 0x7fff : half_bits(as_f32(a) > 0 ? (__float128)as_f32(a) : 0))

static uint64_t integral_single(uint64_t a, uint64_t b, uint64_t c)
{
    (void)b, (void)c;
    return of_f32((float)integral((long double)as_f32(a)));
}
static uint64_t integral_double(uint64_t a, uint64_t b, uint64_t c)
{
    (void)b, (void)c;
    return of_f64((double)integral((long double)as_f64(a)));
}

START_TEST(float_to_float)
{
    static const struct op_case cases[] = {
        {"cvt.f64.f32 %d, %a;", "f64", "f32", NULL, NULL, widen_single},
        {"cvt.f32.f16 %d, %a;", "f32", "f16", NULL, NULL, half_to_single},
        {"cvt.f64.f16 %d, %a;", "f64", "f16", NULL, NULL, half_to_double},
        {"cvt.f32.bf16 %d, %a;", "f32", "bf16", NULL, NULL, brain_to_single},
        {"cvt.rn.f16.f32 %d, %a;", "f16", "f32", NULL, NULL, single_to_half},
        {"cvt.rz.f16.f32 %d, %a;", "f16", "f32", NULL, NULL, single_to_half_rz},
        {"cvt.rn.f16.f64 %d, %a;", "f16", "f64", NULL, NULL, double_to_half},
        {"cvt.rn.bf16.f32 %d, %a;", "bf16", "f32", NULL, NULL, single_to_brain},
        {"cvt.rz.bf16.f32 %d, %a;", "bf16", "f32", NULL, NULL, single_to_brain_rz},
        {"cvt.rn.f16x2.f32 %d, %a, %b;", "f16x2", "f32", "f32", NULL, pair_of_halves},
        {"cvt.rn.bf16x2.f32 %d, %a, %b;", "bf16x2", "f32", "f32", NULL, pair_of_brains},
        {"cvt.rn.relu.f16.f32 %d, %a;", "f16", "f32", NULL, NULL, relu_half},
        {"cvt.sat.f32.f32 %d, %a;", "f32", "f32", NULL, NULL, saturated},
        {"cvt.ftz.f32.f32 %d, %a;", "f32", "f32", NULL, NULL, flushed},
    };
    check_cases(cases, COUNT_OF(cases));
    for (size_t m = 0; m < COUNT_OF(modes); m++) {
        now.mode = modes[m].mode;
        check_text("cvt.%s.f32.%s %%d, %%a;", modes[m].name, "f64", "f32", "f64", narrow_single);
        check_text("cvt.%s.f32.%s %%d, %%a;", modes[m].integral, "f32", "f32", "f32", integral_single);
        check_text("cvt.%s.f64.%s %%d, %%a;", modes[m].integral, "f64", "f64", "f64", integral_double);
    }
}
END_TEST

REFERENCE(same, a)
REFERENCE(low32, (uint32_t)a)
REFERENCE(high32, a >> 32)
REFERENCE(high16, a >> 16)
REFERENCE(low16, a & 0xffff)
REFERENCE(join32, b << 32 | a)
REFERENCE(join16, b << 16 | a)
REFERENCE(quarter2, a >> 32 & 0xffff)
REFERENCE(swap_quarters, a << 48 | (a & 0xffff0000) << 16 | (a >> 16 & 0xffff0000) | a >> 48)
REFERENCE(shared_address, a)
REFERENCE(is_shared, 1)

START_TEST(moves)
{
    static const struct op_case cases[] = {
        {"mov.b16 %d, %a;", "b16", "b16", NULL, NULL, same},
        {"mov.u32 %d, %a;", "b32", "b32", NULL, NULL, same},
        {"mov.f64 %d, %a;", "b64", "b64", NULL, NULL, same},
        {"mov.pred %d, %a;", "pred", "pred", NULL, NULL, same},
        {"{ .reg .b32 x; mov.b64 {%d, x}, %a; }", "b32", "b64", NULL, NULL, low32},
        {"mov.b64 {_, %d}, %a;", "b32", "b64", NULL, NULL, high32},
        {"mov.b32 {_, %d}, %a;", "b16", "b32", NULL, NULL, high16},
        {"mov.b32 {%d, _}, %a;", "b16", "b32", NULL, NULL, low16},
        {"mov.b64 {%d, _}, %a;", "b64", "b64", NULL, NULL, low32},
        {"mov.b64 %d, {%a, %b};", "b64", "b32", "b32", NULL, join32},
        {"mov.b32 %d, {%a, %b};", "b32", "b16", "b16", NULL, join16},
        {"{ .reg .b16 w, x, y, z; mov.b64 {w, x, y, z}, %a; mov.b16 %d, y; }", "b16", "b64", NULL, NULL,
         quarter2},
        {"{ .reg .b16 w, x, y, z; mov.b64 {w, x, y, z}, %a; mov.b64 %d, {z, y, x, w}; }", "b64", "b64", NULL,
         NULL, swap_quarters},
        {"{ .reg .b64 x; cvta.shared.u64 x, %a; cvta.to.shared.u64 %d, x; }", "b64", "b64", NULL, NULL,
         shared_address},
        {"{ .reg .b64 x; and.b64 x, %a, 0xffff; cvta.shared.u64 x, x; isspacep.shared %d, x; }", "pred",
         "b64", NULL, NULL, is_shared},
    };
    check_cases(cases, COUNT_OF(cases));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("ptx convert");
    TCase *t = tcase_create("operations");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, integer_to_integer);
    tcase_add_test(t, wider_registers);
    tcase_add_test(t, integer_to_float);
    tcase_add_test(t, float_to_integer);
    tcase_add_test(t, float_to_float);
    tcase_add_test(t, moves);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return run_at_all_levels(suite);
}
