/*
 * ptx_lower_convert.c - mov, cvt, cvta and their like.
 *
 * cvt is a short chain: the source widened to what an operation takes, the conversion, a clamp where the
 * destination is narrower, the extension to the register that receives it.
 */
#include "ptx_lower.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* mov {a, b}, x and mov x, {a, b}, of two or four parts. */
static void unpack(struct lower *l, const struct ptx_operand *parts, uint32_t row)
{
    uint32_t width = lower_width(l, row), part = width / parts->count;
    if ((parts->count != 2 && parts->count != 4) || part < 2 || part * parts->count != width)
        lower_fail(l, -ENOSYS, "`%s' into %u parts is not understood", l->statement->name, parts->count);
    uint32_t piece[4];
    const char *whole = width == 8 ? "u64" : "u32", *low = width == 8 ? "cvt.u32.u64" : "cvt.u16.u32";
    if (parts->count == 2) {
        bool need_low = strcmp(parts->items[0].name ? parts->items[0].name : "", "_") != 0;
        bool need_high = strcmp(parts->items[1].name ? parts->items[1].name : "", "_") != 0;
        piece[0] = need_low ? lower_alu(l, PTX_NO_ROW, low, row, PTX_NO_ROW, PTX_NO_ROW) : PTX_NO_ROW;
        piece[1] =
            need_high ? lower_alu_of(l, PTX_NO_ROW, "high", whole, row, PTX_NO_ROW, PTX_NO_ROW) : PTX_NO_ROW;
    } else {
        uint32_t half[2] = {lower_alu(l, PTX_NO_ROW, "cvt.u32.u64", row, PTX_NO_ROW, PTX_NO_ROW),
                            lower_alu(l, PTX_NO_ROW, "high.u64", row, PTX_NO_ROW, PTX_NO_ROW)};
        for (int i = 0; i < 4; i++)
            piece[i] = lower_alu(l, PTX_NO_ROW, i & 1 ? "high.u32" : "cvt.u16.u32", half[i / 2], PTX_NO_ROW,
                                 PTX_NO_ROW);
    }
    const enum ptx_type type = part == 2 ? PTX_B16 : PTX_B32;
    for (uint32_t i = 0; i < parts->count; i++) {
        if (piece[i] == PTX_NO_ROW)
            continue;
        struct lower_dest dest = lower_dest(l, &parts->items[i], type);
        lower_alu_of(l, dest.row, "mov", lower_any(type), piece[i], PTX_NO_ROW, PTX_NO_ROW);
        lower_finish_dest(l, &dest);
    }
}

static uint32_t pack(struct lower *l, const struct ptx_operand *parts, enum ptx_type type)
{
    uint32_t part = ptx_type_size(type) / parts->count;
    if ((parts->count != 2 && parts->count != 4) || part < 2 || part * parts->count != ptx_type_size(type))
        lower_fail(l, -ENOSYS, "`%s' from %u parts is not understood", l->statement->name, parts->count);
    uint32_t piece[4];
    for (uint32_t i = 0; i < parts->count; i++)
        piece[i] = lower_source(l, &parts->items[i], part == 2 ? PTX_B16 : PTX_B32);
    if (parts->count == 2)
        return lower_alu_of(l, PTX_NO_ROW, "pack", lower_any(type), piece[0], piece[1], PTX_NO_ROW);
    uint32_t low = lower_alu(l, PTX_NO_ROW, "pack.u32", piece[0], piece[1], PTX_NO_ROW);
    uint32_t high = lower_alu(l, PTX_NO_ROW, "pack.u32", piece[2], piece[3], PTX_NO_ROW);
    return lower_alu(l, PTX_NO_ROW, "pack.u64", low, high, PTX_NO_ROW);
}

static bool move(struct lower *l, struct mnemonic *m, const struct ptx_statement *s)
{
    if (m->types != 1 || m->count != 2)
        return false;
    enum ptx_type type = m->type[0];
    lower_expect(l, s, 2, 2);
    if (s->operands[0].kind == PTX_OPERAND_VECTOR) {
        unpack(l, &s->operands[0], lower_source(l, &s->operands[1], type));
        return true;
    }
    uint32_t first = l->code->op_count;
    uint32_t row = s->operands[1].kind == PTX_OPERAND_VECTOR ? pack(l, &s->operands[1], type)
                                                             : lower_source(l, &s->operands[1], type);
    struct lower_dest dest = lower_dest(l, &s->operands[0], type);
    /* what was just made for this mov may as well be made in place */
    struct ptx_op *last = l->code->op_count > first ? &l->code->ops[l->code->op_count - 1] : NULL;
    if (last && last->d == row && dest.row == dest.final)
        last->d = dest.row;
    else
        lower_alu_of(l, dest.row, "mov", lower_any(type), row, PTX_NO_ROW, PTX_NO_ROW);
    lower_finish_dest(l, &dest);
    return true;
}

static uint64_t window_of(enum ptx_space space)
{
    return space == PTX_SHARED ? PTX_SHARED_WINDOW : space == PTX_LOCAL ? PTX_LOCAL_WINDOW : 0;
}

static enum ptx_space space_in(struct mnemonic *m)
{
    static const struct {
        const char *name;
        enum ptx_space space;
    } names[] = {{"global", PTX_GLOBAL},
                 {"const", PTX_CONST},
                 {"shared", PTX_SHARED},
                 {"shared::cta", PTX_SHARED},
                 {"local", PTX_LOCAL}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (mnemonic_has(m, names[i].name))
            return names[i].space;
    return PTX_GENERIC;
}

/* cvta: shared and local addresses gain or lose their window, global ones are generic already. */
static bool convert_address(struct lower *l, struct mnemonic *m, const struct ptx_statement *s)
{
    enum ptx_space space = space_in(m);
    if (space == PTX_GENERIC || m->types != 1 || ptx_type_size(m->type[0]) != 8)
        return false;
    bool to = mnemonic_has(m, "to");
    lower_expect(l, s, 2, 2);
    uint32_t row = lower_source(l, &s->operands[1], PTX_U64), window = PTX_NO_ROW;
    struct lower_dest dest = lower_dest(l, &s->operands[0], PTX_U64);
    if (window_of(space))
        window = lower_constant(l, 8, window_of(space), PTX_NO_ROW);
    lower_alu(l, dest.row,
              !window_of(space) ? "mov.u64"
              : to              ? "sub.u64"
                                : "add.u64",
              row, window, PTX_NO_ROW);
    lower_finish_dest(l, &dest);
    return true;
}

static bool is_space(struct lower *l, struct mnemonic *m, const struct ptx_statement *s)
{
    enum ptx_space space = space_in(m);
    if (space == PTX_GENERIC || space == PTX_CONST)
        return false;
    lower_expect(l, s, 2, 2);
    uint32_t row = lower_source(l, &s->operands[1], PTX_U64);
    uint32_t top = lower_alu(l, PTX_NO_ROW, "shr.u64", row, lower_constant(l, 4, 60, PTX_NO_ROW), PTX_NO_ROW);
    struct lower_dest dest = lower_dest(l, &s->operands[0], PTX_PRED);
    lower_alu(l, dest.row, "eq.u64", top, lower_constant(l, 8, window_of(space) >> 60, PTX_NO_ROW),
              PTX_NO_ROW);
    return true;
}

bool lower_move(struct lower *l, struct mnemonic *m, const struct ptx_statement *s)
{
    if (!strcmp(m->part[0], "mov"))
        return move(l, m, s);
    if (!strcmp(m->part[0], "cvta"))
        return convert_address(l, m, s);
    if (!strcmp(m->part[0], "isspacep"))
        return is_space(l, m, s);
    return false;
}

/* An 8 bit type in the 16 bit row that holds it, with the upper byte as the type says. */
static uint32_t extended(struct lower *l, uint32_t row, enum ptx_type type)
{
    if (ptx_type_size(type) != 1)
        return row;
    return lower_alu(l, PTX_NO_ROW, type == PTX_S8 ? "ext.s8" : "ext.u8", row, PTX_NO_ROW, PTX_NO_ROW);
}

/* How the value of an integer type is named once extended. */
static const char *value_name(enum ptx_type type)
{
    return type == PTX_S8 ? "s16" : type == PTX_U8 || type == PTX_B8 ? "u16" : lower_sign(type);
}

/* Bounds of an integer type as its value in 64 bits. */
static void bounds(enum ptx_type type, uint64_t *low, uint64_t *high)
{
    uint32_t bits = ptx_type_size(type) * 8;
    if (type_is_signed(type)) {
        *high = (UINT64_C(1) << (bits - 1)) - 1;
        *low = ~*high;
    } else {
        *high = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
        *low = 0;
    }
}

static uint32_t to_width(struct lower *l, uint32_t d, uint32_t row, const char *from, uint32_t width)
{
    char name[32];
    snprintf(name, sizeof name, "cvt.u%u.%s", width * 8, from);
    return lower_alu(l, d, name, row, PTX_NO_ROW, PTX_NO_ROW);
}

/* The row, clamped to an integer type: row is s32 or u32 or wider, as name says. */
static uint32_t clamped(struct lower *l, uint32_t row, const char *name, enum ptx_type to)
{
    uint64_t low, high;
    uint32_t width = lower_width(l, row);
    bounds(to, &low, &high);
    if (name[0] == 's')
        row = lower_alu_of(l, PTX_NO_ROW, "max", name, row, lower_constant(l, width, low, PTX_NO_ROW),
                           PTX_NO_ROW);
    return lower_alu_of(l, PTX_NO_ROW, "min", name, row, lower_constant(l, width, high, PTX_NO_ROW),
                        PTX_NO_ROW);
}

static bool integer_to_integer(struct lower *l, struct mnemonic *m, const struct ptx_statement *s,
                               enum ptx_type to, enum ptx_type from)
{
    uint32_t row = extended(l, lower_source(l, &s->operands[1], from), from);
    const char *name = value_name(from);
    if (mnemonic_has(m, "sat")) {
        /* in 64 bits every bound but the unsigned 64 bit one of a signed source is a signed number */
        bool source_signed = name[0] == 's';
        row = to_width(l, PTX_NO_ROW, row, name, 8);
        name = source_signed ? "s64" : "u64";
        if (source_signed && to == PTX_U64)
            row = lower_alu(l, PTX_NO_ROW, "max.s64", row, lower_constant(l, 8, 0, PTX_NO_ROW), PTX_NO_ROW);
        else if (source_signed || type_is_signed(to) || ptx_type_size(to) < 8) {
            uint64_t low, high;
            bounds(to, &low, &high);
            if (source_signed)
                row = lower_alu(l, PTX_NO_ROW, "max.s64", row, lower_constant(l, 8, low, PTX_NO_ROW),
                                PTX_NO_ROW);
            row = lower_alu_of(l, PTX_NO_ROW, "min", name, row, lower_constant(l, 8, high, PTX_NO_ROW),
                               PTX_NO_ROW);
        }
    }
    struct lower_dest dest = lower_dest(l, &s->operands[0], to);
    if (ptx_type_size(to) == 1) {
        uint32_t low = to_width(l, PTX_NO_ROW, row, name, 2);
        lower_alu(l, dest.row, to == PTX_S8 ? "ext.s8" : "ext.u8", low, PTX_NO_ROW, PTX_NO_ROW);
    } else {
        to_width(l, dest.row, row, name, ptx_type_size(to));
    }
    lower_finish_dest(l, &dest);
    return true;
}

static bool integer_to_float(struct lower *l, struct mnemonic *m, const struct ptx_statement *s,
                             enum ptx_type to, enum ptx_type from)
{
    uint32_t row = extended(l, lower_source(l, &s->operands[1], from), from);
    const char *rounding = mnemonic_rounding(m), *name = value_name(from);
    struct lower_dest dest = lower_dest(l, &s->operands[0], to);
    char full[32];
    if (to == PTX_F32 || to == PTX_F64) {
        snprintf(full, sizeof full, "cvt.%s%s.%s", rounding, to == PTX_F32 ? "f32" : "f64", name);
        lower_alu(l, dest.row, full, row, PTX_NO_ROW, PTX_NO_ROW);
    } else {
        /* 64 bits round in double already; for a half that is beyond its range anyhow, for a bfloat16 it is
         * not */
        if ((to != PTX_F16 && to != PTX_BF16) || *rounding || (to == PTX_BF16 && ptx_type_size(from) == 8))
            return false;
        row = lower_alu_of(l, PTX_NO_ROW, "cvt.f64", name, row, PTX_NO_ROW, PTX_NO_ROW);
        row = lower_alu(l, PTX_NO_ROW, "odd.f32.f64", row, PTX_NO_ROW, PTX_NO_ROW);
        lower_narrow(l, dest.row, row, to);
    }
    lower_finish_dest(l, &dest);
    return true;
}

/* The integer rounding in m as "rni", or NULL. */
static const char *integer_rounding(struct mnemonic *m)
{
    static const char *const names[] = {"rni", "rzi", "rmi", "rpi"};
    for (int i = 0; i < 4; i++)
        if (mnemonic_has(m, names[i]))
            return names[i];
    return NULL;
}

static bool float_to_integer(struct lower *l, struct mnemonic *m, const struct ptx_statement *s,
                             enum ptx_type to, enum ptx_type from)
{
    const char *rounding = integer_rounding(m), *suffix = from == PTX_F64 ? "f64" : "f32";
    uint32_t row = lower_source(l, &s->operands[1], from);
    if (!rounding)
        return false;
    mnemonic_has(m, "sat"); /* conversion to an integer saturates in any case */
    if (from == PTX_F16 || from == PTX_BF16)
        row = lower_widen(l, row, from);
    if (mnemonic_has(m, "ftz"))
        row = lower_alu_of(l, PTX_NO_ROW, "ftz", suffix, row, PTX_NO_ROW, PTX_NO_ROW);
    row = lower_alu_of(l, PTX_NO_ROW, rounding, suffix, row, PTX_NO_ROW, PTX_NO_ROW);
    struct lower_dest dest = lower_dest(l, &s->operands[0], to);
    char name[32];
    if (ptx_type_size(to) >= 4) {
        snprintf(name, sizeof name, "cvt.%s.%s", lower_sign(to), suffix);
        lower_alu(l, dest.row, name, row, PTX_NO_ROW, PTX_NO_ROW);
    } else {
        const char *middle = type_is_signed(to) ? "s32" : "u32";
        snprintf(name, sizeof name, "cvt.%s.%s", middle, suffix);
        row = lower_alu(l, PTX_NO_ROW, name, row, PTX_NO_ROW, PTX_NO_ROW);
        row = clamped(l, row, middle, to);
        to_width(l, dest.row, row, middle, 2);
    }
    lower_finish_dest(l, &dest);
    return true;
}

/* A single or double to single, half or bfloat16, rounded as asked. */
static uint32_t narrow_to(struct lower *l, uint32_t d, uint32_t row, enum ptx_type from, enum ptx_type to,
                          const char *rounding)
{
    char name[32];
    if (to == PTX_F32) {
        snprintf(name, sizeof name, "cvt.%sf32.f64", rounding);
        return lower_alu(l, d, name, row, PTX_NO_ROW, PTX_NO_ROW);
    }
    if (from == PTX_F64)
        row = lower_alu(l, PTX_NO_ROW, "odd.f32.f64", row, PTX_NO_ROW, PTX_NO_ROW);
    snprintf(name, sizeof name, "cvt.%s%s.f32", rounding, to == PTX_F16 ? "f16" : "bf16");
    return lower_alu(l, d, name, row, PTX_NO_ROW, PTX_NO_ROW);
}

static bool float_to_float(struct lower *l, struct mnemonic *m, const struct ptx_statement *s,
                           enum ptx_type to, enum ptx_type from)
{
    const char *integer = integer_rounding(m), *rounding = mnemonic_rounding(m);
    bool ftz = mnemonic_has(m, "ftz"), sat = mnemonic_has(m, "sat"), relu = mnemonic_has(m, "relu");
    enum ptx_type have = from;
    uint32_t row = lower_source(l, &s->operands[1], from);
    if (from == PTX_F16 || from == PTX_BF16) {
        row = lower_widen(l, row, from);
        have = PTX_F32;
    }
    const char *suffix = have == PTX_F64 ? "f64" : "f32";
    if (ftz && from != PTX_F16 && from != PTX_BF16)
        row = lower_alu_of(l, PTX_NO_ROW, "ftz", suffix, row, PTX_NO_ROW, PTX_NO_ROW);
    if (integer)
        row = lower_alu_of(l, PTX_NO_ROW, integer, suffix, row, PTX_NO_ROW, PTX_NO_ROW);
    if (to == PTX_F64 && have == PTX_F32) {
        row = lower_alu(l, PTX_NO_ROW, "cvt.f64.f32", row, PTX_NO_ROW, PTX_NO_ROW);
        have = PTX_F64;
    } else if (to == PTX_F32 && have == PTX_F64) {
        row = narrow_to(l, PTX_NO_ROW, row, have, to, rounding);
        have = PTX_F32;
    }
    suffix = have == PTX_F64 ? "f64" : "f32";
    if (ftz && to == PTX_F32)
        row = lower_alu_of(l, PTX_NO_ROW, "ftz", suffix, row, PTX_NO_ROW, PTX_NO_ROW);
    if (sat)
        row = lower_alu_of(l, PTX_NO_ROW, "sat", suffix, row, PTX_NO_ROW, PTX_NO_ROW);
    if (relu)
        row = lower_alu(l, PTX_NO_ROW, "max.NaN.f32", row, lower_constant(l, 4, 0, PTX_NO_ROW), PTX_NO_ROW);
    struct lower_dest dest = lower_dest(l, &s->operands[0], to);
    if (to == have)
        lower_alu_of(l, dest.row, "mov", lower_any(to), row, PTX_NO_ROW, PTX_NO_ROW);
    else
        narrow_to(l, dest.row, row, have, to, rounding);
    lower_finish_dest(l, &dest);
    return true;
}

/* cvt.rn.f16x2.f32 d, a, b: a is the upper half. */
static bool float_to_pair(struct lower *l, struct mnemonic *m, const struct ptx_statement *s,
                          enum ptx_type to)
{
    const char *rounding = mnemonic_rounding(m);
    bool relu = mnemonic_has(m, "relu");
    enum ptx_type part = to == PTX_F16X2 ? PTX_F16 : PTX_BF16;
    uint32_t half[2];
    for (int i = 0; i < 2; i++) {
        uint32_t row = lower_source(l, &s->operands[i + 1], PTX_F32);
        if (relu)
            row =
                lower_alu(l, PTX_NO_ROW, "max.NaN.f32", row, lower_constant(l, 4, 0, PTX_NO_ROW), PTX_NO_ROW);
        half[i] = narrow_to(l, PTX_NO_ROW, row, PTX_F32, part, rounding);
    }
    struct lower_dest dest = lower_dest(l, &s->operands[0], to);
    lower_alu(l, dest.row, "pack.u32", half[1], half[0], PTX_NO_ROW);
    lower_finish_dest(l, &dest);
    return true;
}

bool lower_convert(struct lower *l, struct mnemonic *m, const struct ptx_statement *s)
{
    if (strcmp(m->part[0], "cvt") || m->types != 2)
        return false;
    enum ptx_type to = m->type[0], from = m->type[1];
    if ((to == PTX_F16X2 || to == PTX_BF16X2) && from == PTX_F32) {
        lower_expect(l, s, 3, 3);
        return float_to_pair(l, m, s, to);
    }
    lower_expect(l, s, 2, 2);
    if (to == PTX_PRED || from == PTX_PRED || from == PTX_F16X2 || from == PTX_BF16X2)
        return false;
    if (type_is_float(to))
        return type_is_float(from) ? float_to_float(l, m, s, to, from) : integer_to_float(l, m, s, to, from);
    return type_is_float(from) ? float_to_integer(l, m, s, to, from) : integer_to_integer(l, m, s, to, from);
}
