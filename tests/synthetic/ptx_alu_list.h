/*
 * ptx_alu_list.h - every arithmetic operation of the interpreter: canonical name, types, one expression.
 *
 * ALU(id, name, destination type, sources, type of a, b, c, expression over a, b, c and imm). The decoder
 * turns an instruction into one or several of these; the types say how wide the rows are and how a literal is
 * read. EACH_INT and the like are lists over types so that a family is written once.
 */

/* clang-format off */

/* add ... : the low half does not depend on the sign */
#define INT_ANY(T, n) \
    ALU(add_##n, "add." #n, T, 2, T, T, T, a + b) \
    ALU(sub_##n, "sub." #n, T, 2, T, T, T, a - b) \
    ALU(mul_lo_##n, "mul.lo." #n, T, 2, T, T, T, (C_##T)((uint64_t)a * b)) \
    ALU(mad_lo_##n, "mad.lo." #n, T, 3, T, T, T, (C_##T)((uint64_t)a * b + c)) \
    ALU(and_##n, "and." #n, T, 2, T, T, T, a & b) \
    ALU(or_##n, "or." #n, T, 2, T, T, T, a | b) \
    ALU(xor_##n, "xor." #n, T, 2, T, T, T, a ^ b) \
    ALU(not_##n, "not." #n, T, 1, T, T, T, (C_##T)~a) \
    ALU(cnot_##n, "cnot." #n, T, 1, T, T, T, (C_##T)!a) \
    ALU(neg_##n, "neg." #n, T, 1, T, T, T, (C_##T)(0 - a)) \
    ALU(shl_##n, "shl." #n, T, 2, T, U32, U32, b < sizeof a * 8 ? (C_##T)((uint64_t)a << (b & 63)) : (C_##T)0) \
    ALU(shr_##n, "shr." #n, T, 2, T, U32, U32, b < sizeof a * 8 ? (C_##T)(a >> (b & (sizeof a * 8 - 1))) : (C_##T)0) \
    ALU(mov_##n, "mov." #n, T, 1, T, T, T, a) \
    ALU(selp_##n, "selp." #n, T, 3, T, T, PRED, c ? a : b)
INT_ANY(U16, u16)
INT_ANY(U32, u32)
INT_ANY(U64, u64)

#define INT_SIGN(T, n) \
    ALU(div_##n, "div." #n, T, 2, T, T, T, (C_##T)DIV_##T(a, b)) \
    ALU(rem_##n, "rem." #n, T, 2, T, T, T, (C_##T)REM_##T(a, b)) \
    ALU(min_##n, "min." #n, T, 2, T, T, T, a < b ? a : b) \
    ALU(max_##n, "max." #n, T, 2, T, T, T, a > b ? a : b) \
    ALU(eq_##n, "eq." #n, PRED, 2, T, T, T, a == b) \
    ALU(ne_##n, "ne." #n, PRED, 2, T, T, T, a != b) \
    ALU(lt_##n, "lt." #n, PRED, 2, T, T, T, a < b) \
    ALU(le_##n, "le." #n, PRED, 2, T, T, T, a <= b) \
    ALU(gt_##n, "gt." #n, PRED, 2, T, T, T, a > b) \
    ALU(ge_##n, "ge." #n, PRED, 2, T, T, T, a >= b) \
    ALU(cvt_u16_##n, "cvt.u16." #n, U16, 1, T, T, T, (uint16_t)a) \
    ALU(cvt_u32_##n, "cvt.u32." #n, U32, 1, T, T, T, (uint32_t)a) \
    ALU(cvt_u64_##n, "cvt.u64." #n, U64, 1, T, T, T, (uint64_t)a) \
    ALU(cvt_f32_##n, "cvt.f32." #n, F32, 1, T, T, T, (float)a) \
    ALU(cvt_f64_##n, "cvt.f64." #n, F64, 1, T, T, T, (double)a)
INT_SIGN(U16, u16)
INT_SIGN(S16, s16)
INT_SIGN(U32, u32)
INT_SIGN(S32, s32)
INT_SIGN(U64, u64)
INT_SIGN(S64, s64)

#define INT_SIGNED(T, n) \
    ALU(abs_##n, "abs." #n, T, 1, T, T, T, (C_##T)(a < 0 ? 0 - (uint64_t)(int64_t)a : (uint64_t)(int64_t)a)) \
    ALU(sar_##n, "sar." #n, T, 2, T, U32, U32, (C_##T)(a >> (b < sizeof a * 8 ? b : sizeof a * 8 - 1)))
INT_SIGNED(S16, s16)
INT_SIGNED(S32, s32)
INT_SIGNED(S64, s64)

/* A byte kept in a 16 bit row. */
ALU(ext_u8, "ext.u8", U16, 1, U16, U16, U16, (uint16_t)(a & 0xff))
ALU(ext_s8, "ext.s8", U16, 1, U16, U16, U16, (uint16_t)(int16_t)(int8_t)a)

ALU(mul_hi_u16, "mul.hi.u16", U16, 2, U16, U16, U16, (uint16_t)((uint32_t)a * b >> 16))
ALU(mul_hi_s16, "mul.hi.s16", S16, 2, S16, S16, S16, (int16_t)(a * b >> 16))
ALU(mul_hi_u32, "mul.hi.u32", U32, 2, U32, U32, U32, (uint32_t)((uint64_t)a * b >> 32))
ALU(mul_hi_s32, "mul.hi.s32", S32, 2, S32, S32, S32, (int32_t)((int64_t)a * b >> 32))
ALU(mul_hi_u64, "mul.hi.u64", U64, 2, U64, U64, U64, mulhi_u64(a, b))
ALU(mul_hi_s64, "mul.hi.s64", U64, 2, U64, U64, U64, mulhi_s64(a, b))
ALU(mul_wide_u16, "mul.wide.u16", U32, 2, U16, U16, U16, (uint32_t)a * b)
ALU(mul_wide_s16, "mul.wide.s16", S32, 2, S16, S16, S16, a * b)
ALU(mul_wide_u32, "mul.wide.u32", U64, 2, U32, U32, U32, (uint64_t)a * b)
ALU(mul_wide_s32, "mul.wide.s32", S64, 2, S32, S32, S32, (int64_t)a * b)
/* mul.wide by a power of two, imm its logarithm: what most address computations are */
ALU(shl_wide_u32, "shl.wide.u32", U64, 1, U32, U32, U32, (uint64_t)a << (imm & 31))
ALU(shl_wide_s32, "shl.wide.s32", S64, 1, S32, S32, S32, (int64_t)((uint64_t)(int64_t)a << (imm & 31)))
ALU(mad_wide_u16, "mad.wide.u16", U32, 3, U16, U16, U32, (uint32_t)a * b + c)
ALU(mad_wide_s16, "mad.wide.s16", U32, 3, S16, S16, U32, (uint32_t)(a * b) + c)
ALU(mad_wide_u32, "mad.wide.u32", U64, 3, U32, U32, U64, (uint64_t)a * b + c)
ALU(mad_wide_s32, "mad.wide.s32", U64, 3, S32, S32, U64, (uint64_t)((int64_t)a * b) + c)
ALU(mul24_lo_u32, "mul24.lo.u32", U32, 2, U32, U32, U32, (a & 0xffffff) * (b & 0xffffff))
ALU(mul24_lo_s32, "mul24.lo.s32", U32, 2, U32, U32, U32, (uint32_t)((int64_t)((int32_t)(a << 8) >> 8) * ((int32_t)(b << 8) >> 8)))
ALU(mul24_hi_u32, "mul24.hi.u32", U32, 2, U32, U32, U32, (uint32_t)((uint64_t)(a & 0xffffff) * (b & 0xffffff) >> 16))
ALU(mul24_hi_s32, "mul24.hi.s32", U32, 2, U32, U32, U32, (uint32_t)((int64_t)((int32_t)(a << 8) >> 8) * ((int32_t)(b << 8) >> 8) >> 16))
ALU(add_sat_s32, "add.sat.s32", S32, 2, S32, S32, S32, (int32_t)((int64_t)a + b > INT32_MAX ? INT32_MAX : (int64_t)a + b < INT32_MIN ? INT32_MIN : (int64_t)a + b))
ALU(sub_sat_s32, "sub.sat.s32", S32, 2, S32, S32, S32, (int32_t)((int64_t)a - b > INT32_MAX ? INT32_MAX : (int64_t)a - b < INT32_MIN ? INT32_MIN : (int64_t)a - b))
ALU(sad_u16, "sad.u16", U16, 3, U16, U16, U16, (uint16_t)(c + (a > b ? a - b : b - a)))
ALU(sad_s16, "sad.s16", U16, 3, S16, S16, U16, (uint16_t)(c + (a > b ? a - b : b - a)))
ALU(sad_u32, "sad.u32", U32, 3, U32, U32, U32, c + (a > b ? a - b : b - a))
ALU(sad_s32, "sad.s32", U32, 3, S32, S32, U32, c + (a > b ? (uint32_t)a - (uint32_t)b : (uint32_t)b - (uint32_t)a))
ALU(sad_u64, "sad.u64", U64, 3, U64, U64, U64, c + (a > b ? a - b : b - a))
ALU(sad_s64, "sad.s64", U64, 3, S64, S64, U64, c + (a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a))

/* The carry is a predicate row of its own; carry.* is the carry out of an addition, borrow.* of a subtraction. */
ALU(addc_u32, "addc.u32", U32, 3, U32, U32, PRED, a + b + c)
ALU(addc_u64, "addc.u64", U64, 3, U64, U64, PRED, a + b + c)
ALU(subc_u32, "subc.u32", U32, 3, U32, U32, PRED, a - b - c)
ALU(subc_u64, "subc.u64", U64, 3, U64, U64, PRED, a - b - c)
ALU(carry_u32, "carry.u32", PRED, 3, U32, U32, PRED, ((uint64_t)a + b + c) >> 32)
ALU(carry_u64, "carry.u64", PRED, 3, U64, U64, PRED, (a + b < a) | (a + b + c < a + b))
ALU(borrow_u32, "borrow.u32", PRED, 3, U32, U32, PRED, ((uint64_t)a - b - c) >> 63)
ALU(borrow_u64, "borrow.u64", PRED, 3, U64, U64, PRED, (a < b) | (a - b < c))

ALU(popc_u32, "popc.u32", U32, 1, U32, U32, U32, (uint32_t)__builtin_popcount(a))
ALU(popc_u64, "popc.u64", U32, 1, U64, U64, U64, (uint32_t)__builtin_popcountll(a))
ALU(clz_u32, "clz.u32", U32, 1, U32, U32, U32, a ? (uint32_t)__builtin_clz(a) : 32)
ALU(clz_u64, "clz.u64", U32, 1, U64, U64, U64, a ? (uint32_t)__builtin_clzll(a) : 64)
ALU(bfind_u32, "bfind.u32", U32, 1, U32, U32, U32, bfind_u64(a))
ALU(bfind_s32, "bfind.s32", U32, 1, U32, U32, U32, bfind_u64((int32_t)a < 0 ? ~a : a))
ALU(bfind_u64, "bfind.u64", U32, 1, U64, U64, U64, bfind_u64(a))
ALU(bfind_s64, "bfind.s64", U32, 1, U64, U64, U64, bfind_u64((int64_t)a < 0 ? ~a : a))
ALU(bfind_amt_u32, "bfind.shiftamt.u32", U32, 1, U32, U32, U32, a ? 31 - bfind_u64(a) : UINT32_MAX)
ALU(bfind_amt_s32, "bfind.shiftamt.s32", U32, 1, U32, U32, U32, ((int32_t)a < 0 ? ~a : a) ? 31 - bfind_u64((int32_t)a < 0 ? ~a : a) : UINT32_MAX)
ALU(bfind_amt_u64, "bfind.shiftamt.u64", U32, 1, U64, U64, U64, a ? 63 - bfind_u64(a) : UINT32_MAX)
ALU(bfind_amt_s64, "bfind.shiftamt.s64", U32, 1, U64, U64, U64, ((int64_t)a < 0 ? ~a : a) ? 63 - bfind_u64((int64_t)a < 0 ? ~a : a) : UINT32_MAX)
ALU(brev_u32, "brev.u32", U32, 1, U32, U32, U32, (uint32_t)(brev_u64(a) >> 32))
ALU(brev_u64, "brev.u64", U64, 1, U64, U64, U64, brev_u64(a))
ALU(bfe_u32, "bfe.u32", U32, 3, U32, U32, U32, (uint32_t)bfe_u(a, b, c, 32))
ALU(bfe_s32, "bfe.s32", U32, 3, S32, U32, U32, (uint32_t)bfe_s(a, b, c, 32))
ALU(bfe_u64, "bfe.u64", U64, 3, U64, U32, U32, bfe_u(a, b, c, 64))
ALU(bfe_s64, "bfe.s64", U64, 3, S64, U32, U32, bfe_s(a, b, c, 64))
/* bfi takes position and length packed: pos in the low half of c */
ALU(bfi_u32, "bfi.u32", U32, 3, U32, U32, U32, (uint32_t)bfi_u(a, b, c & 0xffff, c >> 16, 32))
ALU(bfi_u64, "bfi.u64", U64, 3, U64, U64, U32, bfi_u(a, b, c & 0xffff, c >> 16, 64))
ALU(bfi_pack, "bfi.pack", U32, 2, U32, U32, U32, (a & 0xff) | (b & 0xff) << 16)
ALU(prmt, "prmt.b32", U32, 3, U32, U32, U32, prmt_default(a, b, c))
ALU(prmt_mode, "prmt.mode", U32, 3, U32, U32, U32, prmt_default(a, b, prmt_selector((uint32_t)imm, c)))
ALU(lop3, "lop3.b32", U32, 3, U32, U32, U32, lop3_u32(a, b, c, (uint32_t)imm))
ALU(shf_l_wrap, "shf.l.wrap.b32", U32, 3, U32, U32, U32, (uint32_t)(((uint64_t)b << 32 | a) << (c & 31) >> 32))
ALU(shf_r_wrap, "shf.r.wrap.b32", U32, 3, U32, U32, U32, (uint32_t)(((uint64_t)b << 32 | a) >> (c & 31)))
ALU(shf_l_clamp, "shf.l.clamp.b32", U32, 3, U32, U32, U32, (uint32_t)(((uint64_t)b << 32 | a) << (c < 32 ? c : 32) >> 32))
ALU(shf_r_clamp, "shf.r.clamp.b32", U32, 3, U32, U32, U32, (uint32_t)(((uint64_t)b << 32 | a) >> (c < 32 ? c : 32)))
ALU(dp4a_uu, "dp4a.u32.u32", U32, 3, U32, U32, U32, c + dot4(a, b, 0, 0))
ALU(dp4a_us, "dp4a.u32.s32", U32, 3, U32, U32, U32, c + dot4(a, b, 0, 1))
ALU(dp4a_su, "dp4a.s32.u32", U32, 3, U32, U32, U32, c + dot4(a, b, 1, 0))
ALU(dp4a_ss, "dp4a.s32.s32", U32, 3, U32, U32, U32, c + dot4(a, b, 1, 1))

/* Packing and unpacking of mov {a, b}. */
ALU(pack_u32, "pack.u32", U32, 2, U16, U16, U16, (uint32_t)b << 16 | a)
ALU(pack_u64, "pack.u64", U64, 2, U32, U32, U32, (uint64_t)b << 32 | a)
ALU(high_u32, "high.u32", U16, 1, U32, U32, U32, (uint16_t)(a >> 16))
ALU(high_u64, "high.u64", U32, 1, U64, U64, U64, (uint32_t)(a >> 32))

ALU(mov_pred, "mov.pred", PRED, 1, PRED, PRED, PRED, a)
ALU(not_pred, "not.pred", PRED, 1, PRED, PRED, PRED, (uint8_t)(a ^ 1))
ALU(and_pred, "and.pred", PRED, 2, PRED, PRED, PRED, a & b)
ALU(or_pred, "or.pred", PRED, 2, PRED, PRED, PRED, a | b)
ALU(xor_pred, "xor.pred", PRED, 2, PRED, PRED, PRED, a ^ b)
ALU(selp_pred, "selp.pred", PRED, 3, PRED, PRED, PRED, c ? a : b)

ALU(add_f32, "add.f32", F32, 2, F32, F32, F32, canon_f32(a + b))
ALU(sub_f32, "sub.f32", F32, 2, F32, F32, F32, canon_f32(a - b))
ALU(mul_f32, "mul.f32", F32, 2, F32, F32, F32, canon_f32(a * b))
ALU(div_f32, "div.f32", F32, 2, F32, F32, F32, canon_f32(a / b))
ALU(fma_f32, "fma.f32", F32, 3, F32, F32, F32, canon_f32(fmaf(a, b, c)))
ALU(rcp_f32, "rcp.f32", F32, 1, F32, F32, F32, canon_f32(1.0f / a))
ALU(sqrt_f32, "sqrt.f32", F32, 1, F32, F32, F32, canon_f32(sqrtf(a)))
ALU(add_f64, "add.f64", F64, 2, F64, F64, F64, a + b)
ALU(sub_f64, "sub.f64", F64, 2, F64, F64, F64, a - b)
ALU(mul_f64, "mul.f64", F64, 2, F64, F64, F64, a * b)
ALU(div_f64, "div.f64", F64, 2, F64, F64, F64, a / b)
ALU(fma_f64, "fma.f64", F64, 3, F64, F64, F64, fma(a, b, c))
ALU(rcp_f64, "rcp.f64", F64, 1, F64, F64, F64, 1.0 / a)
ALU(sqrt_f64, "sqrt.f64", F64, 1, F64, F64, F64, sqrt(a))
ALU(fma_odd, "fma.odd", F32, 3, F32, F32, F32, fma_odd(a, b, c))

#define FLOAT(T, n, bits_of, of_bits, U, sign) \
    ALU(abs_##n, "abs." #n, T, 1, T, T, T, of_bits(bits_of(a) & ~(sign))) \
    ALU(neg_##n, "neg." #n, T, 1, T, T, T, of_bits(bits_of(a) ^ (sign))) \
    ALU(copysign_##n, "copysign." #n, T, 2, T, T, T, of_bits((bits_of(b) & ~(sign)) | (bits_of(a) & (sign)))) \
    ALU(min_##n, "min." #n, T, 2, T, T, T, min_##n(a, b)) \
    ALU(max_##n, "max." #n, T, 2, T, T, T, max_##n(a, b)) \
    ALU(ftz_##n, "ftz." #n, T, 1, T, T, T, ftz_##n(a)) \
    ALU(sat_##n, "sat." #n, T, 1, T, T, T, sat_##n(a)) \
    ALU(eq_##n, "eq." #n, PRED, 2, T, T, T, a == b) \
    ALU(ne_##n, "ne." #n, PRED, 2, T, T, T, (a < b) | (a > b)) \
    ALU(lt_##n, "lt." #n, PRED, 2, T, T, T, a < b) \
    ALU(le_##n, "le." #n, PRED, 2, T, T, T, a <= b) \
    ALU(gt_##n, "gt." #n, PRED, 2, T, T, T, a > b) \
    ALU(ge_##n, "ge." #n, PRED, 2, T, T, T, a >= b) \
    ALU(equ_##n, "equ." #n, PRED, 2, T, T, T, (a == b) | (a != a) | (b != b)) \
    ALU(neu_##n, "neu." #n, PRED, 2, T, T, T, a != b) \
    ALU(ltu_##n, "ltu." #n, PRED, 2, T, T, T, !(a >= b)) \
    ALU(leu_##n, "leu." #n, PRED, 2, T, T, T, !(a > b)) \
    ALU(gtu_##n, "gtu." #n, PRED, 2, T, T, T, !(a <= b)) \
    ALU(geu_##n, "geu." #n, PRED, 2, T, T, T, !(a < b)) \
    ALU(num_##n, "num." #n, PRED, 2, T, T, T, (a == a) & (b == b)) \
    ALU(nan_##n, "nan." #n, PRED, 2, T, T, T, (a != a) | (b != b)) \
    ALU(isfinite_##n, "testp.finite." #n, PRED, 1, T, T, T, a - a == 0) \
    ALU(isinf_##n, "testp.infinite." #n, PRED, 1, T, T, T, (a == a) & (a - a != 0)) \
    ALU(isnum_##n, "testp.number." #n, PRED, 1, T, T, T, a == a) \
    ALU(isnan_##n, "testp.notanumber." #n, PRED, 1, T, T, T, a != a) \
    ALU(isnormal_##n, "testp.normal." #n, PRED, 1, T, T, T, (a - a == 0) & (ftz_##n(a) != 0)) \
    ALU(issub_##n, "testp.subnormal." #n, PRED, 1, T, T, T, (a != 0) & (ftz_##n(a) == 0))
FLOAT(F32, f32, bits_f32, f32_bits, uint32_t, 0x80000000u)
FLOAT(F64, f64, bits_f64, f64_bits, uint64_t, 0x8000000000000000u)
ALU(min_nan_f32, "min.NaN.f32", F32, 2, F32, F32, F32, a != a || b != b ? f32_bits(0x7fffffff) : min_f32(a, b))
ALU(max_nan_f32, "max.NaN.f32", F32, 2, F32, F32, F32, a != a || b != b ? f32_bits(0x7fffffff) : max_f32(a, b))

/* Rounding to integers. */
ALU(rni_f32, "rni.f32", F32, 1, F32, F32, F32, rintf(a))
ALU(rzi_f32, "rzi.f32", F32, 1, F32, F32, F32, truncf(a))
ALU(rmi_f32, "rmi.f32", F32, 1, F32, F32, F32, floorf(a))
ALU(rpi_f32, "rpi.f32", F32, 1, F32, F32, F32, ceilf(a))
ALU(rni_f64, "rni.f64", F64, 1, F64, F64, F64, rint(a))
ALU(rzi_f64, "rzi.f64", F64, 1, F64, F64, F64, trunc(a))
ALU(rmi_f64, "rmi.f64", F64, 1, F64, F64, F64, floor(a))
ALU(rpi_f64, "rpi.f64", F64, 1, F64, F64, F64, ceil(a))
ALU(int_s32_f32, "cvt.s32.f32", S32, 1, F32, F32, F32, s32_from_f64((double)a))
ALU(int_u32_f32, "cvt.u32.f32", U32, 1, F32, F32, F32, u32_from_f64((double)a))
ALU(int_s64_f32, "cvt.s64.f32", S64, 1, F32, F32, F32, s64_from_f64((double)a))
ALU(int_u64_f32, "cvt.u64.f32", U64, 1, F32, F32, F32, u64_from_f64((double)a))
ALU(int_s32_f64, "cvt.s32.f64", S32, 1, F64, F64, F64, s32_from_f64(a))
ALU(int_u32_f64, "cvt.u32.f64", U32, 1, F64, F64, F64, u32_from_f64(a))
ALU(int_s64_f64, "cvt.s64.f64", S64, 1, F64, F64, F64, s64_from_f64(a))
ALU(int_u64_f64, "cvt.u64.f64", U64, 1, F64, F64, F64, u64_from_f64(a))

ALU(cvt_f64_f32, "cvt.f64.f32", F64, 1, F32, F32, F32, (double)a)
ALU(cvt_f32_f64, "cvt.f32.f64", F32, 1, F64, F64, F64, canon_f32((float)a))
ALU(odd_f32_f64, "odd.f32.f64", F32, 1, F64, F64, F64, f32_odd(a))
ALU(cvt_f32_f16, "cvt.f32.f16", F32, 1, U16, U16, U16, canon_f32(f32_from_f16(a)))
ALU(cvt_f32_bf16, "cvt.f32.bf16", F32, 1, U16, U16, U16, f32_from_bf16(a))
ALU(cvt_f16_f32, "cvt.f16.f32", U16, 1, F32, F32, F32, f16_from_f32(a))
ALU(cvt_rz_f16_f32, "cvt.rz.f16.f32", U16, 1, F32, F32, F32, f16_from_f32_rz(a))
ALU(cvt_bf16_f32, "cvt.bf16.f32", U16, 1, F32, F32, F32, bf16_from_f32(a))
ALU(cvt_rz_bf16_f32, "cvt.rz.bf16.f32", U16, 1, F32, F32, F32, bf16_from_f32_rz(a))

ALU(ex2_f32, "ex2.f32", F32, 1, F32, F32, F32, ex2_f32(a))
ALU(lg2_f32, "lg2.f32", F32, 1, F32, F32, F32, lg2_f32(a))
ALU(sin_f32, "sin.f32", F32, 1, F32, F32, F32, canon_f32((float)sin((double)a)))
ALU(cos_f32, "cos.f32", F32, 1, F32, F32, F32, canon_f32((float)cos((double)a)))
ALU(tanh_f32, "tanh.f32", F32, 1, F32, F32, F32, canon_f32((float)tanh((double)a)))
ALU(rsqrt_f32, "rsqrt.f32", F32, 1, F32, F32, F32, rsqrt_f32(a))
ALU(rsqrt_f64, "rsqrt.f64", F64, 1, F64, F64, F64, 1.0 / sqrt(a))
ALU(rcp_high, "rcp.high.f64", F64, 1, F64, F64, F64, rcp_high(a))
ALU(rsqrt_high, "rsqrt.high.f64", F64, 1, F64, F64, F64, rsqrt_high(a))

/* clang-format on */
#undef INT_ANY
#undef INT_SIGN
#undef INT_SIGNED
#undef FLOAT
