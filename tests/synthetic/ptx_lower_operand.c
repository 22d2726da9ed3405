/*
 * ptx_lower_operand.c - operands to rows: literals, registers of another width, destinations.
 */
#include "ptx_lower.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t literal(struct lower *l, const struct ptx_operand *o, enum ptx_type type)
{
    if (type == PTX_PRED)
        return o->bits != 0;
    if (o->kind == PTX_OPERAND_INT) {
        if (!type_is_float(type))
            return o->bits;
        double value = (double)(int64_t)o->bits;
        float single = (float)value;
        uint32_t bits;
        memcpy(&bits, &single, 4);
        if (type == PTX_F32)
            return bits;
        uint64_t wide;
        memcpy(&wide, &value, 8);
        if (type == PTX_F64)
            return wide;
        return o->bits; /* a half is written as its bits */
    }
    float single;
    double wide;
    uint64_t bits = o->bits;
    if (o->single) {
        uint32_t low = (uint32_t)o->bits;
        memcpy(&single, &low, 4);
        wide = (double)single;
    } else {
        memcpy(&wide, &o->bits, 8);
        single = (float)wide;
    }
    if (ptx_type_size(type) == 4) {
        uint32_t low;
        memcpy(&low, &single, 4);
        return low;
    }
    if (ptx_type_size(type) == 8) {
        memcpy(&bits, &wide, 8);
        return bits;
    }
    lower_fail(l, -EINVAL, "a floating-point literal in `%s'", l->statement->name);
}

/* The low part of a row, or a row of exactly this width. */
static uint32_t narrowed(struct lower *l, uint32_t row, uint32_t width)
{
    uint32_t have = lower_width(l, row);
    if (have == width)
        return row;
    if (have < width || have == 1 || width == 1)
        lower_fail(l, -EINVAL, "an operand of `%s' has %u bytes where %u are needed", l->statement->name,
                   have, width);
    char name[32];
    snprintf(name, sizeof name, "cvt.u%u.u%u", width * 8, have * 8);
    return lower_alu(l, PTX_NO_ROW, name, row, PTX_NO_ROW, PTX_NO_ROW);
}

uint32_t lower_register(struct lower *l, const struct ptx_operand *o)
{
    if (o->kind != PTX_OPERAND_NAME && o->kind != PTX_OPERAND_PAIR)
        lower_fail(l, -EINVAL, "a register expected in `%s'", l->statement->name);
    if (!strcmp(o->name, "_"))
        return PTX_NO_ROW;
    uint32_t row = lower_find_register(l, o->name);
    if (row == PTX_NO_ROW)
        lower_fail(l, -EINVAL, "`%s' is not a register", o->name);
    return row;
}

uint32_t lower_source(struct lower *l, const struct ptx_operand *o, enum ptx_type type)
{
    uint32_t width = lower_type_width(type);
    if (o->kind == PTX_OPERAND_INT || o->kind == PTX_OPERAND_FLOAT)
        return lower_constant(l, width, literal(l, o, type), PTX_NO_ROW);
    if (o->kind == PTX_OPERAND_VECTOR) {
        if (o->count != 2)
            lower_fail(l, -ENOSYS, "a vector operand of `%s'", l->statement->name);
        enum ptx_type half = width == 8 ? PTX_B32 : PTX_B16;
        uint32_t low = lower_source(l, &o->items[0], half), high = lower_source(l, &o->items[1], half);
        return lower_alu_of(l, PTX_NO_ROW, "pack", lower_any(type), low, high, PTX_NO_ROW);
    }
    if (o->kind != PTX_OPERAND_NAME)
        lower_fail(l, -EINVAL, "an operand of `%s' is not understood", l->statement->name);
    uint32_t row = lower_find_register(l, o->name);
    if (row == PTX_NO_ROW)
        row = lower_special(l, o->name);
    if (row == PTX_NO_ROW) {
        struct lower_symbol symbol;
        if (!lower_find_symbol(l, o->name, &symbol))
            lower_fail(l, -EINVAL, "`%s' is not known", o->name);
        return lower_symbol_address(l, &symbol, o->bits, width);
    }
    if (o->negate) {
        if (type != PTX_PRED)
            lower_fail(l, -EINVAL, "`!' on what is no predicate");
        return lower_alu(l, PTX_NO_ROW, "not.pred", row, PTX_NO_ROW, PTX_NO_ROW);
    }
    return narrowed(l, row, width);
}

uint32_t lower_predicate(struct lower *l, const struct ptx_operand *o)
{
    return lower_source(l, o, PTX_PRED);
}

struct lower_dest lower_dest(struct lower *l, const struct ptx_operand *o, enum ptx_type type)
{
    struct lower_dest out = {.final = lower_register(l, o), .type = type};
    uint32_t width = lower_type_width(type);
    if (out.final == PTX_NO_ROW) {
        out.row = out.final = lower_row(l, width);
        return out;
    }
    uint32_t have = lower_width(l, out.final);
    if (have < width || (have == 1) != (width == 1))
        lower_fail(l, -EINVAL, "the destination of `%s' is too narrow", l->statement->name);
    out.row = have == width ? out.final : lower_row(l, width);
    return out;
}

void lower_finish_dest(struct lower *l, const struct lower_dest *dest)
{
    if (dest->row == dest->final)
        return;
    char name[32];
    snprintf(name, sizeof name, "cvt.u%u.%s", lower_width(l, dest->final) * 8, lower_sign(dest->type));
    lower_alu(l, dest->final, name, dest->row, PTX_NO_ROW, PTX_NO_ROW);
}

void lower_expect(struct lower *l, const struct ptx_statement *s, uint32_t low, uint32_t high)
{
    if (s->count < low || s->count > high)
        lower_fail(l, -EINVAL, "`%s' with %u operands", s->name, s->count);
}
