/*
 * Integer, logic and bit instructions of the PTX interpreter against references written from the PTX ISA's
 * text.
 */
#include "tests/unit/ptx_harness.h"

#include <stdlib.h>

#define U16 (uint16_t)
#define S16 (int16_t)
#define U32 (uint32_t)
#define S32 (int32_t)
#define S64 (int64_t)

/* One reference: a function of the bits, written as an expression. */
#define REFERENCE(name, expression)                                                                          \
    static uint64_t name(uint64_t a, uint64_t b, uint64_t c)                                                 \
    {                                                                                                        \
        (void)a, (void)b, (void)c;                                                                           \
        return (uint64_t)(expression);                                                                       \
    }

REFERENCE(add16, U16(a + b))
REFERENCE(add32, U32(a + b))
REFERENCE(add64, a + b)
REFERENCE(sub16, U16(a - b))
REFERENCE(sub32, U32(a - b))
REFERENCE(sub64, a - b)
REFERENCE(mul16, U16(a *b))
REFERENCE(mul32, U32(a *b))
REFERENCE(mul64, a *b)
REFERENCE(mad16, U16(a *b + c))
REFERENCE(mad32, U32(a *b + c))
REFERENCE(mad64, a *b + c)
REFERENCE(hi_u16, U16(a *b >> 16))
REFERENCE(hi_s16, U16(S32(S16 a) * S16 b >> 16))
REFERENCE(hi_u32, U32(a *b >> 32))
REFERENCE(hi_s32, U32(S64(S32 a) * S32 b >> 32))
REFERENCE(mad_hi_s32, U32((S64(S32 a) * S32 b >> 32) + S64 c))
REFERENCE(mad_hi_u32, U32((a * b >> 32) + c))
REFERENCE(wide_u16, U32(a *b))
REFERENCE(wide_s16, U32(S32(S16 a) * S16 b))
REFERENCE(wide_u32, a *b)
REFERENCE(wide_s32, S64(S32 a) * S32 b)
REFERENCE(wide_u_by_4, a * 4)
REFERENCE(wide_s_by_8, S64(S32 a) * 8)
REFERENCE(mad_wide_u16, U32(a *b + c))
REFERENCE(mad_wide_s16, U32(S32(S16 a) * S16 b + S64 c))
REFERENCE(mad_wide_u32, a *b + c)
REFERENCE(mad_wide_s32, (uint64_t)(S64(S32 a) * S32 b) + c)

/* The high half of 64 x 64 bits, by halves. */
static uint64_t hi_u64(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t al = U32 a, ah = a >> 32, bl = U32 b, bh = b >> 32;
    uint64_t middle = ah * bl + (al * bl >> 32), other = al * bh + U32 middle;
    (void)c;
    return ah * bh + (middle >> 32) + (other >> 32);
}

static uint64_t hi_s64(uint64_t a, uint64_t b, uint64_t c)
{
    return hi_u64(a, b, c) - (S64 a < 0 ? b : 0) - (S64 b < 0 ? a : 0);
}

REFERENCE(mul24_u, U32((a & 0xffffff) * (b & 0xffffff)))
REFERENCE(mul24_s, U32(S64(S32(U32 a << 8) >> 8) * (S32(U32 b << 8) >> 8)))
REFERENCE(mul24_hi_u, U32((a & 0xffffff) * (b & 0xffffff) >> 16))
REFERENCE(mad24_u, U32((a & 0xffffff) * (b & 0xffffff) + c))

/* Division by zero gives all ones, the remainder then is the dividend; the most negative by -1 wraps. */
static uint64_t divide(uint64_t a, uint64_t b, uint32_t bits, bool is_signed, bool remainder)
{
    uint64_t mask = bits < 64 ? (UINT64_C(1) << bits) - 1 : UINT64_MAX, q;
    if (!b)
        return remainder ? a : mask;
    if (!is_signed) {
        q = a / b;
    } else {
        uint32_t up = 64 - bits;
        int64_t x = S64(a << up) >> up, y = S64(b << up) >> up;
        uint64_t ux = x < 0 ? 0 - (uint64_t)x : (uint64_t)x, uy = y < 0 ? 0 - (uint64_t)y : (uint64_t)y;
        q = ux / uy;
        q = (x < 0) != (y < 0) ? 0 - q : q;
    }
    return (remainder ? a - q * b : q) & mask;
}
REFERENCE(div_u16, divide(a, b, 16, false, false))
REFERENCE(div_s16, divide(a, b, 16, true, false))
REFERENCE(div_u32, divide(a, b, 32, false, false))
REFERENCE(div_s32, divide(a, b, 32, true, false))
REFERENCE(div_u64, divide(a, b, 64, false, false))
REFERENCE(div_s64, divide(a, b, 64, true, false))
REFERENCE(rem_u16, divide(a, b, 16, false, true))
REFERENCE(rem_s16, divide(a, b, 16, true, true))
REFERENCE(rem_u32, divide(a, b, 32, false, true))
REFERENCE(rem_s32, divide(a, b, 32, true, true))
REFERENCE(rem_u64, divide(a, b, 64, false, true))
REFERENCE(rem_s64, divide(a, b, 64, true, true))

REFERENCE(abs16, U16(S16 a < 0 ? 0 - a : a))
REFERENCE(abs32, U32(S32 a < 0 ? 0 - a : a))
REFERENCE(abs64, S64 a < 0 ? 0 - a : a)
REFERENCE(neg16, U16(0 - a))
REFERENCE(neg32, U32(0 - a))
REFERENCE(neg64, 0 - a)
REFERENCE(smallest, a < b ? a : b)
REFERENCE(largest, a > b ? a : b)
REFERENCE(min_s16, S16 a < S16 b ? a : b)
REFERENCE(max_s16, S16 a > S16 b ? a : b)
REFERENCE(min_s32, S32 a < S32 b ? a : b)
REFERENCE(max_s32, S32 a > S32 b ? a : b)
REFERENCE(min_s64, S64 a < S64 b ? a : b)
REFERENCE(max_s64, S64 a > S64 b ? a : b)
REFERENCE(sad_u32, U32((a > b ? a - b : b - a) + c))
REFERENCE(sad_s32, U32((S32 a > S32 b ? a - b : b - a) + c))

static uint64_t saturated(int64_t value)
{
    return U32(value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : value);
}
REFERENCE(add_sat, saturated(S64(S32 a) + S32 b))
REFERENCE(sub_sat, saturated(S64(S32 a) - S32 b))

REFERENCE(both, a &b)
REFERENCE(either, a | b)
REFERENCE(differ, a ^ b)
REFERENCE(not16, U16 ~a)
REFERENCE(not32, U32 ~a)
REFERENCE(not64, ~a)
REFERENCE(not1, !a)
REFERENCE(cnot32, a == 0)
REFERENCE(shl16, b > 15 ? 0 : U16(a << b))
REFERENCE(shl32, b > 31 ? 0 : U32(a << b))
REFERENCE(shl64, b > 63 ? 0 : a << b)
REFERENCE(shr_u16, b > 15 ? 0 : a >> b)
REFERENCE(shr_u32, b > 31 ? 0 : a >> b)
REFERENCE(shr_u64, b > 63 ? 0 : a >> b)
REFERENCE(shr_s16, U16(S16 a >> (b > 15 ? 15 : b)))
REFERENCE(shr_s32, U32(S32 a >> (b > 31 ? 31 : b)))
REFERENCE(shr_s64, S64 a >> (b > 63 ? 63 : b))

static uint64_t ones(uint64_t a)
{
    uint64_t n = 0;
    for (; a; a &= a - 1)
        n++;
    return n;
}
static uint64_t leading(uint64_t a, uint32_t bits)
{
    uint32_t n = 0;
    while (n < bits && !(a >> (bits - 1 - n) & 1))
        n++;
    return n;
}
static uint64_t find(uint64_t a, uint32_t bits, bool is_signed, bool amount)
{
    uint64_t mask = bits < 64 ? (UINT64_C(1) << bits) - 1 : UINT64_MAX;
    if (is_signed && a >> (bits - 1) & 1)
        a = ~a & mask;
    return !a ? UINT32_MAX : amount ? leading(a, bits) : bits - 1 - leading(a, bits);
}
static uint64_t reversed(uint64_t a, uint32_t bits)
{
    uint64_t r = 0;
    for (uint32_t i = 0; i < bits; i++)
        r |= (a >> i & 1) << (bits - 1 - i);
    return r;
}
REFERENCE(popc, ones(a))
REFERENCE(clz32, leading(a, 32))
REFERENCE(clz64, leading(a, 64))
REFERENCE(bfind_u32, find(a, 32, false, false))
REFERENCE(bfind_s32, find(a, 32, true, false))
REFERENCE(bfind_u64, find(a, 64, false, false))
REFERENCE(bfind_s64, find(a, 64, true, false))
REFERENCE(bfind_amount, find(a, 32, false, true))
REFERENCE(bfind_amount64, find(a, 64, true, true))
REFERENCE(brev32, reversed(a, 32))
REFERENCE(brev64, reversed(a, 64))

/* Bit by bit, as the ISA's pseudocode has it. */
static uint64_t extract(uint64_t a, uint64_t pos, uint64_t len, uint32_t bits, bool is_signed)
{
    uint32_t msb = bits - 1, p = pos & 0xff, n = len & 0xff;
    uint64_t d = 0, sign = !is_signed || n == 0 ? 0 : a >> (p + n - 1 < msb ? p + n - 1 : msb) & 1;
    for (uint32_t i = 0; i <= msb; i++)
        d |= (i < n && p + i <= msb ? a >> (p + i) & 1 : sign) << i;
    return d;
}
static uint64_t insert(uint64_t f, uint64_t b, uint64_t pos, uint64_t len, uint32_t bits)
{
    for (uint32_t i = 0; i < len && pos + i < bits; i++)
        b = (b & ~(UINT64_C(1) << (pos + i))) | (f >> i & 1) << (pos + i);
    return b;
}
REFERENCE(bfe_u32, extract(a, b, c, 32, false))
REFERENCE(bfe_s32, extract(a, b, c, 32, true))
REFERENCE(bfe_u64, extract(a, b, c, 64, false))
REFERENCE(bfe_s64, extract(a, b, c, 64, true))
REFERENCE(bfi_fixed, insert(a, b, 7, 13, 32))
REFERENCE(bfi_position, insert(a, b, c & 0xff, 9, 32))
REFERENCE(bfi_length, insert(a, b, 3, c & 0xff, 32))
REFERENCE(bfi64, insert(a, b, c & 0xff, 40, 64))

static uint64_t permute(uint64_t a, uint64_t b, uint64_t selectors)
{
    uint64_t bytes = b << 32 | a, d = 0;
    for (int i = 0; i < 4; i++) {
        uint64_t s = selectors >> (4 * i) & 15, byte = bytes >> (8 * (s & 7)) & 0xff;
        d |= (s & 8 ? (byte & 0x80 ? 0xff : 0) : byte) << (8 * i);
    }
    return d;
}
static uint64_t forward4(uint64_t a, uint64_t b, uint64_t c)
{
    return U32((b << 32 | a) >> (8 * (c & 3)));
}
static uint64_t replicate16(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t half = (c & 1 ? a >> 16 : a) & 0xffff;
    (void)b;
    return half << 16 | half;
}
static uint64_t replicate8(uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    return (a >> (8 * (c & 3)) & 0xff) * 0x01010101;
}
static uint64_t lookup(uint64_t a, uint64_t b, uint64_t c, uint32_t table)
{
    uint64_t d = 0;
    for (int i = 0; i < 32; i++)
        d |= (uint64_t)(table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1) << i;
    return d;
}
REFERENCE(lop3_96, lookup(a, b, c, 0x96))
REFERENCE(lop3_e8, lookup(a, b, c, 0xe8))
REFERENCE(shf_l_wrap, U32((b << 32 | a) << (c & 31) >> 32))
REFERENCE(shf_r_wrap, U32((b << 32 | a) >> (c & 31)))
REFERENCE(shf_l_clamp, c > 31 ? a : U32((b << 32 | a) << c >> 32))
REFERENCE(shf_r_clamp, c > 31 ? b : U32((b << 32 | a) >> c))

static uint64_t dot(uint64_t a, uint64_t b, uint64_t c, bool sa, bool sb)
{
    int64_t sum = 0;
    for (int i = 0; i < 4; i++) {
        int64_t x = a >> (8 * i) & 0xff, y = b >> (8 * i) & 0xff;
        sum += (sa && x > 127 ? x - 256 : x) * (sb && y > 127 ? y - 256 : y);
    }
    return U32((uint64_t)sum + c);
}
REFERENCE(dp4a_uu, dot(a, b, c, false, false))
REFERENCE(dp4a_ss, dot(a, b, c, true, true))
REFERENCE(dp4a_us, dot(a, b, c, false, true))
REFERENCE(dp4a_su, dot(a, b, c, true, false))

/* Two words with a carry between them. */
REFERENCE(carry_chain, (a + b) >> 32 & 0xffffffff)
static uint64_t wide_sum_high(uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    return a + b < a;
}
REFERENCE(borrow_chain, U32((a >> 32) - (b >> 32) - (U32 a < U32 b)))
REFERENCE(mad_chain, U32((a * b >> 32) + (U32(a * b) + c > UINT32_MAX)))

START_TEST(arithmetic)
{
    static const struct op_case cases[] = {
        {"add.s16 %d, %a, %b;", "b16", "b16", "b16", NULL, add16},
        {"add.s32 %d, %a, %b;", "b32", "b32", "b32", NULL, add32},
        {"add.u64 %d, %a, %b;", "b64", "b64", "b64", NULL, add64},
        {"sub.u16 %d, %a, %b;", "b16", "b16", "b16", NULL, sub16},
        {"sub.s32 %d, %a, %b;", "b32", "b32", "b32", NULL, sub32},
        {"sub.s64 %d, %a, %b;", "b64", "b64", "b64", NULL, sub64},
        {"mul.lo.s16 %d, %a, %b;", "b16", "b16", "b16", NULL, mul16},
        {"mul.lo.u32 %d, %a, %b;", "b32", "b32", "b32", NULL, mul32},
        {"mul.lo.s64 %d, %a, %b;", "b64", "b64", "b64", NULL, mul64},
        {"mad.lo.s16 %d, %a, %b, %c;", "b16", "b16", "b16", "b16", mad16},
        {"mad.lo.s32 %d, %a, %b, %c;", "b32", "b32", "b32", "b32", mad32},
        {"mad.lo.u64 %d, %a, %b, %c;", "b64", "b64", "b64", "b64", mad64},
        {"mul.hi.u16 %d, %a, %b;", "b16", "b16", "b16", NULL, hi_u16},
        {"mul.hi.s16 %d, %a, %b;", "b16", "b16", "b16", NULL, hi_s16},
        {"mul.hi.u32 %d, %a, %b;", "b32", "b32", "b32", NULL, hi_u32},
        {"mul.hi.s32 %d, %a, %b;", "b32", "b32", "b32", NULL, hi_s32},
        {"mul.hi.u64 %d, %a, %b;", "b64", "b64", "b64", NULL, hi_u64},
        {"mul.hi.s64 %d, %a, %b;", "b64", "b64", "b64", NULL, hi_s64},
        {"mad.hi.s32 %d, %a, %b, %c;", "b32", "b32", "b32", "b32", mad_hi_s32},
        {"mad.hi.u32 %d, %a, %b, %c;", "b32", "b32", "b32", "b32", mad_hi_u32},
        {"mul.wide.u16 %d, %a, %b;", "b32", "b16", "b16", NULL, wide_u16},
        {"mul.wide.s16 %d, %a, %b;", "b32", "b16", "b16", NULL, wide_s16},
        {"mul.wide.u32 %d, %a, %b;", "b64", "b32", "b32", NULL, wide_u32},
        {"mul.wide.s32 %d, %a, %b;", "b64", "b32", "b32", NULL, wide_s32},
        {"mul.wide.u32 %d, %a, 4;", "b64", "b32", NULL, NULL, wide_u_by_4},
        {"mul.wide.s32 %d, %a, 8;", "b64", "b32", NULL, NULL, wide_s_by_8},
        {"mad.wide.u16 %d, %a, %b, %c;", "b32", "b16", "b16", "b32", mad_wide_u16},
        {"mad.wide.s16 %d, %a, %b, %c;", "b32", "b16", "b16", "b32", mad_wide_s16},
        {"mad.wide.u32 %d, %a, %b, %c;", "b64", "b32", "b32", "b64", mad_wide_u32},
        {"mad.wide.s32 %d, %a, %b, %c;", "b64", "b32", "b32", "b64", mad_wide_s32},
        {"mul24.lo.u32 %d, %a, %b;", "b32", "b32", "b32", NULL, mul24_u},
        {"mul24.lo.s32 %d, %a, %b;", "b32", "b32", "b32", NULL, mul24_s},
        {"mul24.hi.u32 %d, %a, %b;", "b32", "b32", "b32", NULL, mul24_hi_u},
        {"mad24.lo.u32 %d, %a, %b, %c;", "b32", "b32", "b32", "b32", mad24_u},
        {"add.sat.s32 %d, %a, %b;", "b32", "b32", "b32", NULL, add_sat},
        {"sub.sat.s32 %d, %a, %b;", "b32", "b32", "b32", NULL, sub_sat},
        {"sad.u32 %d, %a, %b, %c;", "b32", "b32", "b32", "b32", sad_u32},
        {"sad.s32 %d, %a, %b, %c;", "b32", "b32", "b32", "b32", sad_s32},
    };
    check_cases(cases, COUNT_OF(cases));
}
END_TEST

START_TEST(division)
{
    static const struct op_case cases[] = {
        {"div.u16 %d, %a, %b;", "b16", "b16", "b16", NULL, div_u16},
        {"div.s16 %d, %a, %b;", "b16", "b16", "b16", NULL, div_s16},
        {"div.u32 %d, %a, %b;", "b32", "b32", "b32", NULL, div_u32},
        {"div.s32 %d, %a, %b;", "b32", "b32", "b32", NULL, div_s32},
        {"div.u64 %d, %a, %b;", "b64", "b64", "b64", NULL, div_u64},
        {"div.s64 %d, %a, %b;", "b64", "b64", "b64", NULL, div_s64},
        {"rem.u16 %d, %a, %b;", "b16", "b16", "b16", NULL, rem_u16},
        {"rem.s16 %d, %a, %b;", "b16", "b16", "b16", NULL, rem_s16},
        {"rem.u32 %d, %a, %b;", "b32", "b32", "b32", NULL, rem_u32},
        {"rem.s32 %d, %a, %b;", "b32", "b32", "b32", NULL, rem_s32},
        {"rem.u64 %d, %a, %b;", "b64", "b64", "b64", NULL, rem_u64},
        {"rem.s64 %d, %a, %b;", "b64", "b64", "b64", NULL, rem_s64},
    };
    check_cases(cases, COUNT_OF(cases));
}
END_TEST

START_TEST(order_and_sign)
{
    static const struct op_case cases[] = {
        {"abs.s16 %d, %a;", "b16", "b16", NULL, NULL, abs16},
        {"abs.s32 %d, %a;", "b32", "b32", NULL, NULL, abs32},
        {"abs.s64 %d, %a;", "b64", "b64", NULL, NULL, abs64},
        {"neg.s16 %d, %a;", "b16", "b16", NULL, NULL, neg16},
        {"neg.s32 %d, %a;", "b32", "b32", NULL, NULL, neg32},
        {"neg.s64 %d, %a;", "b64", "b64", NULL, NULL, neg64},
        {"min.u16 %d, %a, %b;", "b16", "b16", "b16", NULL, smallest},
        {"max.u16 %d, %a, %b;", "b16", "b16", "b16", NULL, largest},
        {"min.s16 %d, %a, %b;", "b16", "b16", "b16", NULL, min_s16},
        {"max.s16 %d, %a, %b;", "b16", "b16", "b16", NULL, max_s16},
        {"min.u32 %d, %a, %b;", "b32", "b32", "b32", NULL, smallest},
        {"max.u32 %d, %a, %b;", "b32", "b32", "b32", NULL, largest},
        {"min.s32 %d, %a, %b;", "b32", "b32", "b32", NULL, min_s32},
        {"max.s32 %d, %a, %b;", "b32", "b32", "b32", NULL, max_s32},
        {"min.u64 %d, %a, %b;", "b64", "b64", "b64", NULL, smallest},
        {"max.u64 %d, %a, %b;", "b64", "b64", "b64", NULL, largest},
        {"min.s64 %d, %a, %b;", "b64", "b64", "b64", NULL, min_s64},
        {"max.s64 %d, %a, %b;", "b64", "b64", "b64", NULL, max_s64},
    };
    check_cases(cases, COUNT_OF(cases));
}
END_TEST

START_TEST(logic_and_shifts)
{
    static const struct op_case cases[] = {
        {"and.b16 %d, %a, %b;", "b16", "b16", "b16", NULL, both},
        {"and.b32 %d, %a, %b;", "b32", "b32", "b32", NULL, both},
        {"and.b64 %d, %a, %b;", "b64", "b64", "b64", NULL, both},
        {"and.pred %d, %a, %b;", "pred", "pred", "pred", NULL, both},
        {"or.b16 %d, %a, %b;", "b16", "b16", "b16", NULL, either},
        {"or.b32 %d, %a, %b;", "b32", "b32", "b32", NULL, either},
        {"or.b64 %d, %a, %b;", "b64", "b64", "b64", NULL, either},
        {"or.pred %d, %a, %b;", "pred", "pred", "pred", NULL, either},
        {"xor.b16 %d, %a, %b;", "b16", "b16", "b16", NULL, differ},
        {"xor.b32 %d, %a, %b;", "b32", "b32", "b32", NULL, differ},
        {"xor.b64 %d, %a, %b;", "b64", "b64", "b64", NULL, differ},
        {"xor.pred %d, %a, %b;", "pred", "pred", "pred", NULL, differ},
        {"not.b16 %d, %a;", "b16", "b16", NULL, NULL, not16},
        {"not.b32 %d, %a;", "b32", "b32", NULL, NULL, not32},
        {"not.b64 %d, %a;", "b64", "b64", NULL, NULL, not64},
        {"not.pred %d, %a;", "pred", "pred", NULL, NULL, not1},
        {"cnot.b32 %d, %a;", "b32", "b32", NULL, NULL, cnot32},
        {"shl.b16 %d, %a, %b;", "b16", "b16", "b32", NULL, shl16},
        {"shl.b32 %d, %a, %b;", "b32", "b32", "b32", NULL, shl32},
        {"shl.b64 %d, %a, %b;", "b64", "b64", "b32", NULL, shl64},
        {"shr.u16 %d, %a, %b;", "b16", "b16", "b32", NULL, shr_u16},
        {"shr.u32 %d, %a, %b;", "b32", "b32", "b32", NULL, shr_u32},
        {"shr.u64 %d, %a, %b;", "b64", "b64", "b32", NULL, shr_u64},
        {"shr.s16 %d, %a, %b;", "b16", "b16", "b32", NULL, shr_s16},
        {"shr.s32 %d, %a, %b;", "b32", "b32", "b32", NULL, shr_s32},
        {"shr.s64 %d, %a, %b;", "b64", "b64", "b32", NULL, shr_s64},
    };
    check_cases(cases, COUNT_OF(cases));
}
END_TEST

START_TEST(bits)
{
    static const struct op_case cases[] = {
        {"popc.b32 %d, %a;", "b32", "b32", NULL, NULL, popc},
        {"popc.b64 %d, %a;", "b32", "b64", NULL, NULL, popc},
        {"clz.b32 %d, %a;", "b32", "b32", NULL, NULL, clz32},
        {"clz.b64 %d, %a;", "b32", "b64", NULL, NULL, clz64},
        {"bfind.u32 %d, %a;", "b32", "b32", NULL, NULL, bfind_u32},
        {"bfind.s32 %d, %a;", "b32", "b32", NULL, NULL, bfind_s32},
        {"bfind.u64 %d, %a;", "b32", "b64", NULL, NULL, bfind_u64},
        {"bfind.s64 %d, %a;", "b32", "b64", NULL, NULL, bfind_s64},
        {"bfind.shiftamt.u32 %d, %a;", "b32", "b32", NULL, NULL, bfind_amount},
        {"bfind.shiftamt.s64 %d, %a;", "b32", "b64", NULL, NULL, bfind_amount64},
        {"brev.b32 %d, %a;", "b32", "b32", NULL, NULL, brev32},
        {"brev.b64 %d, %a;", "b64", "b64", NULL, NULL, brev64},
        {"bfe.u32 %d, %a, %b, %c;", "b32", "b32", "b32", "b32", bfe_u32},
        {"bfe.s32 %d, %a, %b, %c;", "b32", "b32", "b32", "b32", bfe_s32},
        {"bfe.u64 %d, %a, %b, %c;", "b64", "b64", "b32", "b32", bfe_u64},
        {"bfe.s64 %d, %a, %b, %c;", "b64", "b64", "b32", "b32", bfe_s64},
        {"bfi.b32 %d, %a, %b, 7, 13;", "b32", "b32", "b32", NULL, bfi_fixed},
        {"bfi.b32 %d, %a, %b, %c, 9;", "b32", "b32", "b32", "b32", bfi_position},
        {"bfi.b32 %d, %a, %b, 3, %c;", "b32", "b32", "b32", "b32", bfi_length},
        {"bfi.b64 %d, %a, %b, %c, 40;", "b64", "b64", "b64", "b32", bfi64},
        {"prmt.b32 %d, %a, %b, %c;", "b32", "b32", "b32", "b32", permute},
        {"prmt.b32.f4e %d, %a, %b, %c;", "b32", "b32", "b32", "b32", forward4},
        {"prmt.b32.rc8 %d, %a, %b, %c;", "b32", "b32", "b32", "b32", replicate8},
        {"prmt.b32.rc16 %d, %a, %b, %c;", "b32", "b32", "b32", "b32", replicate16},
        {"lop3.b32 %d, %a, %b, %c, 0x96;", "b32", "b32", "b32", "b32", lop3_96},
        {"lop3.b32 %d, %a, %b, %c, 0xe8;", "b32", "b32", "b32", "b32", lop3_e8},
        {"shf.l.wrap.b32 %d, %a, %b, %c;", "b32", "b32", "b32", "b32", shf_l_wrap},
        {"shf.r.wrap.b32 %d, %a, %b, %c;", "b32", "b32", "b32", "b32", shf_r_wrap},
        {"shf.l.clamp.b32 %d, %a, %b, %c;", "b32", "b32", "b32", "b32", shf_l_clamp},
        {"shf.r.clamp.b32 %d, %a, %b, %c;", "b32", "b32", "b32", "b32", shf_r_clamp},
        {"dp4a.u32.u32 %d, %a, %b, %c;", "b32", "b32", "b32", "b32", dp4a_uu},
        {"dp4a.s32.s32 %d, %a, %b, %c;", "b32", "b32", "b32", "b32", dp4a_ss},
        {"dp4a.u32.s32 %d, %a, %b, %c;", "b32", "b32", "b32", "b32", dp4a_us},
        {"dp4a.s32.u32 %d, %a, %b, %c;", "b32", "b32", "b32", "b32", dp4a_su},
    };
    check_cases(cases, COUNT_OF(cases));
}
END_TEST

START_TEST(carries)
{
    static const struct op_case cases[] = {
        {"{ .reg .b32 x; add.cc.u32 x, %a, %b; addc.u32 %d, 0, 0; }", "b32", "b32", "b32", NULL, carry_chain},
        {"{ .reg .b64 x; add.cc.u64 x, %a, %b; addc.u64 %d, 0, 0; }", "b64", "b64", "b64", NULL,
         wide_sum_high},
        {"{ .reg .b32 al, ah, bl, bh, x; mov.b64 {al, ah}, %a; mov.b64 {bl, bh}, %b; sub.cc.u32 x, al, bl;"
         " subc.u32 %d, ah, bh; }",
         "b32", "b64", "b64", NULL, borrow_chain},
        {"{ .reg .b32 x; mad.lo.cc.u32 x, %a, %b, %c; madc.hi.u32 %d, %a, %b, 0; }", "b32", "b32", "b32",
         "b32", mad_chain},
    };
    check_cases(cases, COUNT_OF(cases));
}
END_TEST

static uint64_t compare_bits(uint64_t a, uint64_t b, int relation)
{
    int order = a < b ? -1 : a > b;
    return relation == 0   ? order == 0
           : relation == 1 ? order != 0
           : relation == 2 ? order < 0
           : relation == 3 ? order <= 0
           : relation == 4 ? order > 0
                           : order >= 0;
}
#define FLIP32 ((uint64_t)1 << 31)
#define FLIP64 ((uint64_t)1 << 63)
#define COMPARISON(name, relation)                                                                           \
    REFERENCE(u_##name, compare_bits(a, b, relation))                                                        \
    REFERENCE(s16_##name, compare_bits(a ^ 0x8000, b ^ 0x8000, relation))                                    \
    REFERENCE(s32_##name, compare_bits(a ^ FLIP32, b ^ FLIP32, relation))                                    \
    REFERENCE(s64_##name, compare_bits(a ^ FLIP64, b ^ FLIP64, relation))
COMPARISON(eq, 0)
COMPARISON(ne, 1)
COMPARISON(lt, 2)
COMPARISON(le, 3)
COMPARISON(gt, 4)
COMPARISON(ge, 5)
REFERENCE(lt_and, compare_bits(a, b, 2) & c)
REFERENCE(lt_or_not, compare_bits(a, b, 2) | !c)
REFERENCE(lt_xor, compare_bits(a, b, 2) ^ c)
REFERENCE(not_lt_and, (a >= b) && c)
REFERENCE(set_mask, a < b ? 0xffffffff : 0)
REFERENCE(set_float, a < b ? 0x3f800000 : 0)
REFERENCE(pick, c ? a : b)
REFERENCE(pick_sign, S32 c >= 0 ? a : b)

#define COMPARE(name)                                                                                        \
    {"setp." #name ".u16 %d, %a, %b;", "pred", "b16", "b16", NULL, u_##name},                                \
        {"setp." #name ".u32 %d, %a, %b;", "pred", "b32", "b32", NULL, u_##name},                            \
        {"setp." #name ".u64 %d, %a, %b;", "pred", "b64", "b64", NULL, u_##name},                            \
        {"setp." #name ".s16 %d, %a, %b;", "pred", "b16", "b16", NULL, s16_##name},                          \
        {"setp." #name ".s32 %d, %a, %b;", "pred", "b32", "b32", NULL, s32_##name},                          \
    {                                                                                                        \
        "setp." #name ".s64 %d, %a, %b;", "pred", "b64", "b64", NULL, s64_##name                             \
    }

START_TEST(comparisons)
{
    static const struct op_case cases[] = {
        COMPARE(eq),
        COMPARE(ne),
        COMPARE(lt),
        COMPARE(le),
        COMPARE(gt),
        COMPARE(ge),
        {"setp.eq.b16 %d, %a, %b;", "pred", "b16", "b16", NULL, u_eq},
        {"setp.ne.b64 %d, %a, %b;", "pred", "b64", "b64", NULL, u_ne},
        {"setp.lo.u32 %d, %a, %b;", "pred", "b32", "b32", NULL, u_lt},
        {"setp.hs.u32 %d, %a, %b;", "pred", "b32", "b32", NULL, u_ge},
        {"setp.lt.and.u32 %d, %a, %b, %c;", "pred", "b32", "b32", "pred", lt_and},
        {"setp.lt.or.u32 %d, %a, %b, !%c;", "pred", "b32", "b32", "pred", lt_or_not},
        {"setp.lt.xor.u32 %d, %a, %b, %c;", "pred", "b32", "b32", "pred", lt_xor},
        {"set.lt.u32.u32 %d, %a, %b;", "b32", "b32", "b32", NULL, set_mask},
        {"set.lt.f32.u32 %d, %a, %b;", "b32", "b32", "b32", NULL, set_float},
        {"selp.b16 %d, %a, %b, %c;", "b16", "b16", "b16", "pred", pick},
        {"selp.b32 %d, %a, %b, %c;", "b32", "b32", "b32", "pred", pick},
        {"selp.f64 %d, %a, %b, %c;", "b64", "b64", "b64", "pred", pick},
        {"slct.u32.s32 %d, %a, %b, %c;", "b32", "b32", "b32", "b32", pick_sign},
        {"{ setp.lt.and.u32 %p|%q, %a, %b, %c; and.pred %d, %q, %q; }", "pred", "b32", "b32", "pred",
         not_lt_and},
    };
    check_cases(cases, COUNT_OF(cases));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("ptx integer");
    TCase *t = tcase_create("operations");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, arithmetic);
    tcase_add_test(t, division);
    tcase_add_test(t, order_and_sign);
    tcase_add_test(t, logic_and_shifts);
    tcase_add_test(t, bits);
    tcase_add_test(t, carries);
    tcase_add_test(t, comparisons);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return run_at_all_levels(suite);
}
