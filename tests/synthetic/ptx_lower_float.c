/*
 * ptx_lower_float.c - float arithmetic and comparison instructions to operations.
 *
 * Modifiers become operations of their own: .ftz on operands and result, .sat on the result, a half is
 * widened to single and rounded back (single has more than twice the digits, so the second rounding is
 * innocuous; fma goes through a rounding to odd).
 */
#include "ptx_lower.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

uint32_t lower_widen(struct lower *l, uint32_t row, enum ptx_type type)
{
    return lower_alu(l, PTX_NO_ROW, type == PTX_F16 ? "cvt.f32.f16" : "cvt.f32.bf16", row, PTX_NO_ROW,
                     PTX_NO_ROW);
}

uint32_t lower_narrow(struct lower *l, uint32_t d, uint32_t row, enum ptx_type type)
{
    return lower_alu(l, d, type == PTX_F16 ? "cvt.f16.f32" : "cvt.bf16.f32", row, PTX_NO_ROW, PTX_NO_ROW);
}

/* What a float instruction does to rows of f32 or f64. */
struct float_operation {
    const char *base;
    const char *rounding;
    const char *word; /* between base and type: "NaN." */
    bool ftz, sat, relu;
    uint32_t sources;
};

static uint32_t float_core(struct lower *l, const struct float_operation *f, uint32_t d,
                           const uint32_t source[3], enum ptx_type type)
{
    const char *suffix = type == PTX_F64 ? "f64" : "f32";
    uint32_t in[3] = {source[0], source[1], source[2]};
    bool after = f->sat || f->ftz;
    char name[64];
    if (f->ftz)
        for (uint32_t i = 0; i < f->sources; i++)
            in[i] = lower_alu_of(l, PTX_NO_ROW, "ftz", suffix, in[i], PTX_NO_ROW, PTX_NO_ROW);
    snprintf(name, sizeof name, "%s.%s%s%s", f->base, f->rounding, f->word, suffix);
    uint32_t row = lower_alu(l, after ? PTX_NO_ROW : d, name, in[0], in[1], in[2]);
    if (f->ftz)
        row = lower_alu_of(l, f->sat ? PTX_NO_ROW : d, "ftz", suffix, row, PTX_NO_ROW, PTX_NO_ROW);
    if (f->sat)
        row = lower_alu_of(l, d, "sat", suffix, row, PTX_NO_ROW, PTX_NO_ROW);
    return row;
}

static uint32_t float_half(struct lower *l, const struct float_operation *f, uint32_t d,
                           const uint32_t source[3], enum ptx_type type)
{
    uint32_t sign = lower_constant(l, 2, 0x8000, PTX_NO_ROW), rest = lower_constant(l, 2, 0x7fff, PTX_NO_ROW);
    if (!strcmp(f->base, "neg"))
        return lower_alu(l, d, "xor.u16", source[0], sign, PTX_NO_ROW);
    if (!strcmp(f->base, "abs"))
        return lower_alu(l, d, "and.u16", source[0], rest, PTX_NO_ROW);
    uint32_t in[3] = {PTX_NO_ROW, PTX_NO_ROW, PTX_NO_ROW};
    for (uint32_t i = 0; i < f->sources; i++)
        in[i] = lower_widen(l, source[i], type);
    struct float_operation single = *f;
    uint32_t row;
    if (!strcmp(f->base, "fma")) {
        row = lower_alu(l, PTX_NO_ROW, "fma.odd", in[0], in[1], in[2]);
        if (f->sat)
            row = lower_alu(l, PTX_NO_ROW, "sat.f32", row, PTX_NO_ROW, PTX_NO_ROW);
    } else {
        row = float_core(l, &single, PTX_NO_ROW, in, PTX_F32);
    }
    if (f->relu)
        row = lower_alu(l, PTX_NO_ROW, "max.NaN.f32", row, lower_constant(l, 4, 0, PTX_NO_ROW), PTX_NO_ROW);
    return lower_narrow(l, d, row, type);
}

static bool float_apply(struct lower *l, const struct ptx_statement *s, struct float_operation *f,
                        enum ptx_type type)
{
    uint32_t source[3] = {PTX_NO_ROW, PTX_NO_ROW, PTX_NO_ROW};
    bool packed = type == PTX_F16X2 || type == PTX_BF16X2, half = type == PTX_F16 || type == PTX_BF16;
    lower_expect(l, s, f->sources + 1, f->sources + 1);
    if (f->ftz && (packed || half))
        return false; /* subnormal halves are kept by all that is emitted for these machines */
    for (uint32_t i = 0; i < f->sources; i++)
        source[i] = lower_source(l, &s->operands[i + 1], type);
    struct lower_dest dest = lower_dest(l, &s->operands[0], type);
    if (packed) {
        enum ptx_type part = type == PTX_F16X2 ? PTX_F16 : PTX_BF16;
        uint32_t low[3], high[3];
        for (uint32_t i = 0; i < f->sources; i++) {
            low[i] = lower_alu(l, PTX_NO_ROW, "cvt.u16.u32", source[i], PTX_NO_ROW, PTX_NO_ROW);
            high[i] = lower_alu(l, PTX_NO_ROW, "high.u32", source[i], PTX_NO_ROW, PTX_NO_ROW);
        }
        uint32_t a = float_half(l, f, PTX_NO_ROW, low, part), b = float_half(l, f, PTX_NO_ROW, high, part);
        lower_alu(l, dest.row, "pack.u32", a, b, PTX_NO_ROW);
    } else if (half) {
        float_half(l, f, dest.row, source, type);
    } else {
        if (f->relu)
            return false;
        float_core(l, f, dest.row, source, type);
    }
    lower_finish_dest(l, &dest);
    return true;
}

bool lower_float(struct lower *l, struct mnemonic *m, const struct ptx_statement *s)
{
    const char *base = m->part[0];
    enum ptx_type type = mnemonic_type(m);
    if (!type_is_float(type))
        return false;
    struct float_operation f = {.base = base, .rounding = "", .word = ""};
    f.ftz = mnemonic_has(m, "ftz");
    if (lower_is_one_of(base, "add sub mul fma mad div rcp sqrt")) {
        f.sources = lower_is_one_of(base, "fma mad") ? 3 : lower_is_one_of(base, "rcp sqrt") ? 1 : 2;
        if (!strcmp(base, "mad"))
            f.base = "fma";
        f.rounding = mnemonic_rounding(m);
        f.sat = mnemonic_has(m, "sat");
        f.relu = mnemonic_has(m, "relu");
        bool approximate = mnemonic_has(m, "approx") || mnemonic_has(m, "full");
        if (approximate && type == PTX_F64) {
            if (strcmp(base, "rcp"))
                return false;
            f.word = "high.";
        }
        if (*f.rounding && (type == PTX_F16 || type == PTX_BF16))
            return false;
        return float_apply(l, s, &f, type);
    }
    if (lower_is_one_of(base, "rsqrt ex2 lg2 sin cos tanh")) {
        f.sources = 1;
        if (!mnemonic_has(m, "approx"))
            return false;
        if (type == PTX_F64 && f.ftz) {
            f.word = "high.";
            f.ftz = false;
        }
        /* 2^x of a half or bfloat16 is one rounding away: ex2 in single is not correctly rounded to it, and
         * need not be */
        return float_apply(l, s, &f, type);
    }
    if (lower_is_one_of(base, "neg abs")) {
        f.sources = 1;
        return float_apply(l, s, &f, type);
    }
    if (lower_is_one_of(base, "min max")) {
        f.sources = 2;
        if (mnemonic_has(m, "NaN"))
            f.word = "NaN.";
        if (mnemonic_has(m, "xorsign") && mnemonic_has(m, "abs"))
            return false;
        return float_apply(l, s, &f, type);
    }
    if (!strcmp(base, "copysign")) {
        f.sources = 2;
        return float_apply(l, s, &f, type);
    }
    return false;
}

static bool is_comparison(const char *part)
{
    return lower_is_one_of(part, "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan");
}

/* The comparison in m of two operands, as a predicate row. */
static uint32_t compared(struct lower *l, struct mnemonic *m, enum ptx_type type, const struct ptx_operand *x,
                         const struct ptx_operand *y)
{
    const char *comparison = NULL;
    for (uint32_t i = 1; i < m->count && !comparison; i++)
        if (is_comparison(m->part[i])) {
            comparison = m->part[i];
            m->used |= 1u << i;
        }
    if (!comparison)
        lower_fail(l, -ENOSYS, "unknown opcode `%s'", l->statement->name);
    static const char *const aliases[4][2] = {{"lo", "lt"}, {"ls", "le"}, {"hi", "gt"}, {"hs", "ge"}};
    for (int i = 0; i < 4; i++)
        if (!strcmp(comparison, aliases[i][0]))
            comparison = aliases[i][1];
    uint32_t a = lower_source(l, x, type), b = lower_source(l, y, type);
    const char *suffix = lower_sign(type);
    if (type_is_float(type)) {
        bool ftz = mnemonic_has(m, "ftz");
        suffix = type == PTX_F64 ? "f64" : "f32";
        if (type == PTX_F16 || type == PTX_BF16) {
            if (ftz)
                lower_fail(l, -ENOSYS, "unknown opcode `%s'", l->statement->name);
            a = lower_widen(l, a, type);
            b = lower_widen(l, b, type);
        } else if (ftz) {
            a = lower_alu_of(l, PTX_NO_ROW, "ftz", suffix, a, PTX_NO_ROW, PTX_NO_ROW);
            b = lower_alu_of(l, PTX_NO_ROW, "ftz", suffix, b, PTX_NO_ROW, PTX_NO_ROW);
        }
    }
    char name[64];
    snprintf(name, sizeof name, "%s.%s", comparison, suffix);
    return lower_alu(l, PTX_NO_ROW, name, a, b, PTX_NO_ROW);
}

/* The boolean operation of a setp or set; NULL where there is none. */
static const char *combination(struct mnemonic *m)
{
    return mnemonic_has(m, "and")   ? "and.pred"
           : mnemonic_has(m, "or")  ? "or.pred"
           : mnemonic_has(m, "xor") ? "xor.pred"
                                    : NULL;
}

bool lower_compare(struct lower *l, struct mnemonic *m, const struct ptx_statement *s)
{
    const char *base = m->part[0];
    enum ptx_type type = mnemonic_type(m);
    if (!type)
        return false;
    if (!strcmp(base, "setp")) {
        const char *combine = combination(m);
        lower_expect(l, s, combine ? 4 : 3, combine ? 4 : 3);
        const struct ptx_operand *d = &s->operands[0];
        uint32_t row = compared(l, m, type, &s->operands[1], &s->operands[2]);
        uint32_t with = combine ? lower_predicate(l, &s->operands[3]) : PTX_NO_ROW;
        uint32_t second = PTX_NO_ROW, inverse = PTX_NO_ROW;
        if (d->kind == PTX_OPERAND_PAIR && strcmp(d->second, "_")) {
            struct ptx_operand o = {.kind = PTX_OPERAND_NAME, .name = d->second};
            second = lower_register(l, &o);
            inverse = lower_alu(l, PTX_NO_ROW, "not.pred", row, PTX_NO_ROW, PTX_NO_ROW);
            if (combine)
                inverse = lower_alu(l, PTX_NO_ROW, combine, inverse, with, PTX_NO_ROW);
        }
        struct ptx_op *last = &l->code->ops[l->code->op_count - 1];
        uint32_t first = lower_register(l, d);
        if (combine)
            lower_alu(l, first, combine, row, with, PTX_NO_ROW);
        else if (second == PTX_NO_ROW && first != PTX_NO_ROW && lower_width(l, first) == 1 && last->d == row)
            last->d = first;
        else if (first != PTX_NO_ROW)
            lower_alu(l, first, "mov.pred", row, PTX_NO_ROW, PTX_NO_ROW);
        if (second != PTX_NO_ROW)
            lower_alu(l, second, "mov.pred", inverse, PTX_NO_ROW, PTX_NO_ROW);
        return true;
    }
    if (!strcmp(base, "set") && m->types == 2) {
        const char *combine = combination(m);
        lower_expect(l, s, combine ? 4 : 3, combine ? 4 : 3);
        uint32_t row = compared(l, m, type, &s->operands[1], &s->operands[2]);
        if (combine)
            row = lower_alu(l, PTX_NO_ROW, combine, row, lower_predicate(l, &s->operands[3]), PTX_NO_ROW);
        enum ptx_type d = m->type[0];
        uint64_t one = d == PTX_F32    ? 0x3f800000
                       : d == PTX_F16  ? 0x3c00
                       : d == PTX_BF16 ? 0x3f80
                                       : UINT64_MAX;
        struct lower_dest dest = lower_dest(l, &s->operands[0], d);
        uint32_t width = lower_width(l, dest.row);
        lower_alu_of(l, dest.row, "selp", lower_any(d), lower_constant(l, width, one, PTX_NO_ROW),
                     lower_constant(l, width, 0, PTX_NO_ROW), row);
        lower_finish_dest(l, &dest);
        return true;
    }
    if (!strcmp(base, "selp")) {
        lower_expect(l, s, 4, 4);
        uint32_t a = lower_source(l, &s->operands[1], type), b = lower_source(l, &s->operands[2], type);
        uint32_t p = lower_predicate(l, &s->operands[3]);
        struct lower_dest dest = lower_dest(l, &s->operands[0], type);
        lower_alu_of(l, dest.row, "selp", lower_any(type), a, b, p);
        lower_finish_dest(l, &dest);
        return true;
    }
    if (!strcmp(base, "slct") && m->types == 2) {
        /* a where c >= 0: NaN selects b */
        lower_expect(l, s, 4, 4);
        uint32_t a = lower_source(l, &s->operands[1], m->type[0]),
                 b = lower_source(l, &s->operands[2], m->type[0]);
        uint32_t c = lower_source(l, &s->operands[3], type);
        if (mnemonic_has(m, "ftz"))
            c = lower_alu(l, PTX_NO_ROW, "ftz.f32", c, PTX_NO_ROW, PTX_NO_ROW);
        uint32_t p = lower_alu(l, PTX_NO_ROW, type == PTX_F32 ? "ge.f32" : "ge.s32", c,
                               lower_constant(l, 4, 0, PTX_NO_ROW), PTX_NO_ROW);
        struct lower_dest dest = lower_dest(l, &s->operands[0], m->type[0]);
        lower_alu_of(l, dest.row, "selp", lower_any(m->type[0]), a, b, p);
        lower_finish_dest(l, &dest);
        return true;
    }
    if (!strcmp(base, "testp") && (type == PTX_F32 || type == PTX_F64)) {
        static const char *const what[] = {"finite",     "infinite", "number",
                                           "notanumber", "normal",   "subnormal"};
        for (int i = 0; i < 6; i++) {
            if (!mnemonic_has(m, what[i]))
                continue;
            char name[64];
            snprintf(name, sizeof name, "testp.%s.%s", what[i], type == PTX_F64 ? "f64" : "f32");
            return lower_plain(l, s, name, PTX_PRED, &type, 1);
        }
    }
    return false;
}
