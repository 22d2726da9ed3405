/*
 * ptx_math.h - the scalar functions behind PTX instructions, written so that a loop over lanes becomes vector
 * code.
 *
 * Everything here follows the PTX ISA's text for the instruction of the same name; what the ISA leaves to the
 * implementation (the approximate instructions) is computed in double and rounded once.
 */
#ifndef SYNTHETIC_PTX_MATH_H
#define SYNTHETIC_PTX_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t bits_f32(float x)
{
    uint32_t b;
    memcpy(&b, &x, 4);
    return b;
}

static inline float f32_bits(uint32_t b)
{
    float x;
    memcpy(&x, &b, 4);
    return x;
}

static inline uint64_t bits_f64(double x)
{
    uint64_t b;
    memcpy(&b, &x, 8);
    return b;
}

static inline double f64_bits(uint64_t b)
{
    double x;
    memcpy(&x, &b, 8);
    return x;
}

/* An operation that yields NaN yields the canonical one (PTX ISA, "Floating Point"): 0x7fffffff in single. */
static inline float canon_f32(float x)
{
    return x != x ? f32_bits(0x7fffffff) : x;
}

/* Subnormals to zero, the sign kept. */
static inline float ftz_f32(float x)
{
    uint32_t b = bits_f32(x);
    return f32_bits((b & 0x7f800000) ? b : b & 0x80000000);
}

static inline double ftz_f64(double x)
{
    uint64_t b = bits_f64(x);
    return f64_bits((b & 0x7ff0000000000000) ? b : b & 0x8000000000000000);
}

/* To [0, 1]; NaN to +0. */
static inline float sat_f32(float x)
{
    return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f;
}

static inline double sat_f64(double x)
{
    return x > 0.0 ? (x < 1.0 ? x : 1.0) : 0.0;
}

/* min and max: a NaN operand gives the other one, -0 is below +0. */
static inline float min_f32(float a, float b)
{
    float equal = f32_bits(bits_f32(a) | bits_f32(b));
    float r = a < b ? a : a > b ? b : equal;
    r = a != a ? b : b != b ? a : r;
    return canon_f32(r);
}

static inline float max_f32(float a, float b)
{
    float equal = f32_bits(bits_f32(a) & bits_f32(b));
    float r = a > b ? a : a < b ? b : equal;
    r = a != a ? b : b != b ? a : r;
    return canon_f32(r);
}

static inline double min_f64(double a, double b)
{
    double equal = f64_bits(bits_f64(a) | bits_f64(b));
    double r = a < b ? a : a > b ? b : equal;
    return a != a ? b : b != b ? a : r;
}

static inline double max_f64(double a, double b)
{
    double equal = f64_bits(bits_f64(a) & bits_f64(b));
    double r = a > b ? a : a < b ? b : equal;
    return a != a ? b : b != b ? a : r;
}

/* IEEE half, without the help of the machine: any x86-64 has to give the same bits. */
static inline float f32_from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = h & 0x7fff;
    /* the exponent rebias is a multiplication by 2^112, which gets subnormals right as well */
    float scaled = f32_bits(magnitude << 13) * 0x1p112f;
    uint32_t special = 0x7f800000 | (magnitude & 0x3ff) << 13;
    return f32_bits(sign | (magnitude >= 0x7c00 ? special : bits_f32(scaled)));
}

/* Round to nearest even. */
static inline uint16_t f16_from_f32(float x)
{
    uint32_t b = bits_f32(x), sign = b >> 16 & 0x8000, m = b & 0x7fffffff;
    uint32_t normal = (m + 0xfff + (m >> 13 & 1)) - (112u << 23);
    /* adding 0.5 aligns the last place of a half subnormal with that of the sum, whose addition rounds to
     * even */
    uint32_t subnormal = bits_f32(f32_bits(m) + 0.5f) - bits_f32(0.5f);
    uint32_t r = m < 113u << 23 ? subnormal : normal >> 13;
    r = m >= 0x477ff000 ? 0x7c00 : r;
    r = m > 0x7f800000 ? 0x7fff : r;
    return (uint16_t)(m > 0x7f800000 ? r : sign | r);
}

static inline uint16_t f16_from_f32_rz(float x)
{
    uint32_t b = bits_f32(x), sign = b >> 16 & 0x8000, m = b & 0x7fffffff;
    uint32_t subnormal = m < 113u << 23 ? (uint32_t)(f32_bits(m) * 0x1p24f) : 0;
    uint32_t r = m < 113u << 23 ? subnormal : (m - (112u << 23)) >> 13;
    r = m >= 0x47800000 ? (m == 0x7f800000 ? 0x7c00 : 0x7bff) : r;
    return (uint16_t)(m > 0x7f800000 ? 0x7fff : sign | r);
}

static inline float f32_from_bf16(uint16_t h)
{
    return f32_bits((uint32_t)h << 16);
}

static inline uint16_t bf16_from_f32(float x)
{
    uint32_t b = bits_f32(x);
    uint32_t r = (b + 0x7fff + (b >> 16 & 1)) >> 16;
    return (uint16_t)((b & 0x7fffffff) > 0x7f800000 ? 0x7fff : r);
}

static inline uint16_t bf16_from_f32_rz(float x)
{
    uint32_t b = bits_f32(x);
    return (uint16_t)((b & 0x7fffffff) > 0x7f800000 ? 0x7fff : b >> 16);
}

/* A double as a single rounded to odd, so that a second rounding to half or bfloat16 is the only one that
 * counts. */
static inline float f32_odd(double x)
{
    float f = (float)x;
    uint32_t b = bits_f32(f);
    double back = (double)f;
    int inexact = back != x && x == x;
    /* when inexact: truncate, then set the last bit */
    int above = inexact && (back > x) == (x > 0);
    b -= (uint32_t)above;
    b |= (uint32_t)inexact;
    return f32_bits(b);
}

/* a*b+c of halves or bfloat16, rounded to odd in double (the product is exact there), then to single. */
static inline float fma_odd(float a, float b, float c)
{
    double p = (double)a * (double)b, s = p + (double)c;
    double t = s - p, error = (p - (s - t)) + ((double)c - t);
    uint64_t u = bits_f64(s);
    int inexact = error == error && error != 0.0 && s - s == 0.0;
    int above = inexact && (error < 0) == (s > 0);
    u -= (uint64_t)above;
    u |= (uint64_t)inexact;
    return f32_odd(f64_bits(u));
}

/* Float to integer: NaN to 0, out of range to the nearest bound. x is an integer already. */
static inline int32_t s32_from_f64(double x)
{
    x = x == x ? x : 0.0;
    x = x > -0x1p31 ? x : -0x1p31;
    x = x < 0x7fffffffp0 ? x : 0x7fffffffp0;
    return (int32_t)x;
}

static inline uint32_t u32_from_f64(double x)
{
    x = x > 0.0 ? x : 0.0;
    x = x < 0xffffffffp0 ? x : 0xffffffffp0;
    return (uint32_t)(int64_t)x;
}

static inline int64_t s64_from_f64(double x)
{
    return !(x == x) ? 0 : x >= 0x1p63 ? INT64_MAX : x <= -0x1p63 ? INT64_MIN : (int64_t)x;
}

static inline uint64_t u64_from_f64(double x)
{
    return !(x > 0.0) ? 0 : x >= 0x1p64 ? UINT64_MAX : (uint64_t)x;
}

/* 2^x in double; the error is below 2^-45, far below half an ulp of single. */
static inline double exp2_f64(double x)
{
    x = x > 2000.0 ? 2000.0 : x < -2000.0 ? -2000.0 : x;
    /* 1.5 * 2^52 leaves the nearest integer in the low bits */
    double shifted = x + 0x1.8p52;
    int64_t n = (int64_t)(bits_f64(shifted) & 0x1fffff);
    n = n & 0x100000 ? n - 0x200000 : n;
    double t = (x - (shifted - 0x1.8p52)) * 0x1.62e42fefa39efp-1;
    double p = 1.0 / 479001600;
    p = p * t + 1.0 / 39916800;
    p = p * t + 1.0 / 3628800;
    p = p * t + 1.0 / 362880;
    p = p * t + 1.0 / 40320;
    p = p * t + 1.0 / 5040;
    p = p * t + 1.0 / 720;
    p = p * t + 1.0 / 120;
    p = p * t + 1.0 / 24;
    p = p * t + 1.0 / 6;
    p = p * t + 0.5;
    p = p * t + 1.0;
    p = p * t + 1.0;
    /* scale in two steps: the result is rounded to single later, so underflow here only has to stay tiny */
    int64_t half = n / 2;
    int64_t e1 = half < -1000 ? -1000 : half > 1000 ? 1000 : half;
    int64_t e2 = n - half;
    e2 = e2 < -1000 ? -1000 : e2 > 1000 ? 1000 : e2;
    return p * f64_bits((uint64_t)(e1 + 1023) << 52) * f64_bits((uint64_t)(e2 + 1023) << 52);
}

static inline float ex2_f32(float x)
{
    double r = exp2_f64((double)x);
    return x != x ? f32_bits(0x7fffffff) : (float)r;
}

/* log2 of a single, in double. */
static inline float lg2_f32(float x)
{
    uint64_t b = bits_f64((double)x);
    int64_t e = (int64_t)(b >> 52 & 0x7ff) - 1023;
    uint64_t mantissa = b & 0xfffffffffffff;
    /* mantissa in [sqrt(1/2), sqrt(2)): no cancellation near one */
    int high = mantissa > 0x6a09e667f3bcc;
    double m = f64_bits(mantissa | (uint64_t)(1023 - high) << 52);
    e += high;
    double s = (m - 1.0) / (m + 1.0), z = s * s;
    double p = 1.0 / 23;
    p = p * z + 1.0 / 21;
    p = p * z + 1.0 / 19;
    p = p * z + 1.0 / 17;
    p = p * z + 1.0 / 15;
    p = p * z + 1.0 / 13;
    p = p * z + 1.0 / 11;
    p = p * z + 1.0 / 9;
    p = p * z + 1.0 / 7;
    p = p * z + 1.0 / 5;
    p = p * z + 1.0 / 3;
    p = p * z + 1.0;
    double r = (double)e + 2.0 * s * p * 0x1.71547652b82fep0;
    float f = (float)r;
    f = x == 0.0f ? -HUGE_VALF : f;
    f = x == HUGE_VALF ? HUGE_VALF : f;
    return !(x >= 0.0f) ? f32_bits(0x7fffffff) : f;
}

static inline float rsqrt_f32(float x)
{
    return canon_f32((float)(1.0 / sqrt((double)x)));
}

/* rcp.approx.ftz.f64 and its like: the low word of operand and result is dropped (PTX ISA). */
static inline double high_word(double x)
{
    return f64_bits(bits_f64(x) & 0xffffffff00000000);
}

static inline double rcp_high(double x)
{
    return high_word(ftz_f64(1.0 / ftz_f64(high_word(x))));
}

static inline double rsqrt_high(double x)
{
    return high_word(ftz_f64(1.0 / sqrt(ftz_f64(high_word(x)))));
}

static inline uint64_t mulhi_u64(uint64_t a, uint64_t b)
{
    return (uint64_t)((unsigned __int128)a * b >> 64);
}

static inline uint64_t mulhi_s64(uint64_t a, uint64_t b)
{
    return (uint64_t)((__int128)(int64_t)a * (int64_t)b >> 64);
}

/* Division by zero is unspecified in PTX; machines give all ones. The most negative number by -1 wraps. */
static inline uint64_t div_u(uint64_t a, uint64_t b)
{
    return b ? a / b : UINT64_MAX;
}

static inline int64_t div_s(int64_t a, int64_t b)
{
    return b == 0 ? -1 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static inline int64_t rem_s(int64_t a, int64_t b)
{
    return b == 0 ? a : b == -1 ? 0 : a % b;
}

static inline uint64_t bfe_u(uint64_t a, uint32_t pos, uint32_t len, uint32_t width)
{
    pos &= 0xff;
    len &= 0xff;
    a = pos < width ? a >> pos : 0;
    return len < 64 ? a & ((UINT64_C(1) << len) - 1) : a;
}

/* a is sign extended to 64 bits. */
static inline uint64_t bfe_s(int64_t a, uint32_t pos, uint32_t len, uint32_t width)
{
    pos &= 0xff;
    len &= 0xff;
    if (len == 0)
        return 0;
    uint32_t last = pos + len - 1 < width - 1 ? pos + len - 1 : width - 1;
    uint64_t sign = a >> last & 1 ? UINT64_MAX : 0;
    uint64_t field = pos < width ? (uint64_t)a >> pos : 0;
    uint32_t kept = pos < width ? (len < width - pos ? len : width - pos) : 0;
    uint64_t mask = kept < 64 ? (UINT64_C(1) << kept) - 1 : UINT64_MAX;
    return (field & mask) | (sign & ~mask);
}

static inline uint64_t bfi_u(uint64_t a, uint64_t b, uint32_t pos, uint32_t len, uint32_t width)
{
    pos &= 0xff;
    len &= 0xff;
    uint64_t mask = len < 64 ? (UINT64_C(1) << len) - 1 : UINT64_MAX;
    return pos < width ? (b & ~(mask << pos)) | (a & mask) << pos : b;
}

static inline uint64_t brev_u64(uint64_t x)
{
    x = (x >> 1 & 0x5555555555555555) | (x & 0x5555555555555555) << 1;
    x = (x >> 2 & 0x3333333333333333) | (x & 0x3333333333333333) << 2;
    x = (x >> 4 & 0x0f0f0f0f0f0f0f0f) | (x & 0x0f0f0f0f0f0f0f0f) << 4;
    return __builtin_bswap64(x);
}

static inline uint32_t bfind_u64(uint64_t x)
{
    return x ? 63 - (uint32_t)__builtin_clzll(x) : UINT32_MAX;
}

static inline uint32_t prmt_default(uint32_t a, uint32_t b, uint32_t selector)
{
    uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t r = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t s = selector >> (4 * i) & 0xf;
        uint32_t byte = (uint32_t)(bytes >> (s & 7) * 8) & 0xff;
        byte = s & 8 ? (byte & 0x80 ? 0xff : 0) : byte;
        r |= byte << (8 * i);
    }
    return r;
}

/* The modes of prmt: f4e b4e rc8 ecl ecr rc16 as a selector of the default mode. */
static inline uint32_t prmt_selector(uint32_t mode, uint32_t c)
{
    static const uint16_t selectors[6][4] = {
        {0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123}, {0x0000, 0x1111, 0x2222, 0x3333},
        {0x3210, 0x3211, 0x3222, 0x3333}, {0x0000, 0x1110, 0x2210, 0x3210}, {0x1010, 0x3232, 0x1010, 0x3232},
    };
    return selectors[mode][c & 3];
}

static inline uint32_t lop3_u32(uint32_t a, uint32_t b, uint32_t c, uint32_t lut)
{
    uint32_t r = 0;
    for (int i = 0; i < 8; i++)
        if (lut >> i & 1)
            r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return r;
}

static inline uint32_t dot4(uint32_t a, uint32_t b, int sa, int sb)
{
    uint32_t r = 0;
    for (int i = 0; i < 4; i++) {
        int32_t x = sa ? (int8_t)(a >> (8 * i)) : (uint8_t)(a >> (8 * i));
        int32_t y = sb ? (int8_t)(b >> (8 * i)) : (uint8_t)(b >> (8 * i));
        r += (uint32_t)(x * y);
    }
    return r;
}

#endif
