/*
 * ptx_lower_integer.c - integer, logic and bit instructions to operations.
 */
#include "ptx_lower.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

bool lower_is_one_of(const char *base, const char *list)
{
    size_t n = strlen(base);
    for (const char *at = list; (at = strstr(at, base)); at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return true;
    return false;
}

enum ptx_type mnemonic_type(struct mnemonic *m)
{
    return m->types ? m->type[m->types - 1] : PTX_NONE;
}

/* One operation on operands of one type. */
bool lower_plain(struct lower *l, const struct ptx_statement *s, const char *name, enum ptx_type d,
                 const enum ptx_type *types, uint32_t sources)
{
    uint32_t source[3] = {PTX_NO_ROW, PTX_NO_ROW, PTX_NO_ROW};
    lower_expect(l, s, sources + 1, sources + 1);
    for (uint32_t i = 0; i < sources; i++)
        source[i] = lower_source(l, &s->operands[i + 1], types[i]);
    struct lower_dest dest = lower_dest(l, &s->operands[0], d);
    lower_alu(l, dest.row, name, source[0], source[1], source[2]);
    lower_finish_dest(l, &dest);
    return true;
}

static uint32_t carry_row(struct lower *l)
{
    if (l->carry == PTX_NO_ROW)
        l->carry = lower_row(l, 1);
    return l->carry;
}

/* add.cc, addc, sub.cc, subc, mad.cc, madc: the carry flag is a hidden predicate. */
static bool carrying(struct lower *l, struct mnemonic *m, const struct ptx_statement *s)
{
    const char *base = m->part[0];
    enum ptx_type type = mnemonic_type(m);
    bool out = mnemonic_has(m, "cc"), multiply = base[0] == 'm', subtract = base[0] == 's';
    bool in = base[3] == 'c';
    if (!out && !in)
        return false;
    if (!lower_is_one_of(lower_any(type), "u32 u64"))
        return false;
    lower_expect(l, s, multiply ? 4 : 3, multiply ? 4 : 3);
    uint32_t a = lower_source(l, &s->operands[1], type), b = lower_source(l, &s->operands[2], type);
    if (multiply) {
        bool high = mnemonic_has(m, "hi");
        mnemonic_has(m, "lo");
        uint32_t addend = lower_source(l, &s->operands[3], type);
        a = lower_alu_of(l, PTX_NO_ROW, high ? "mul.hi" : "mul.lo", high ? lower_sign(type) : lower_any(type),
                         a, b, PTX_NO_ROW);
        b = addend;
    }
    uint32_t carry = in ? carry_row(l) : lower_constant(l, 1, 0, PTX_NO_ROW);
    struct lower_dest dest = lower_dest(l, &s->operands[0], type);
    uint32_t next = PTX_NO_ROW;
    if (out)
        next = lower_alu_of(l, PTX_NO_ROW, subtract ? "borrow" : "carry", lower_any(type), a, b, carry);
    lower_alu_of(l, dest.row, subtract ? "subc" : "addc", lower_any(type), a, b, carry);
    if (out)
        lower_alu(l, carry_row(l), "mov.pred", next, PTX_NO_ROW, PTX_NO_ROW);
    lower_finish_dest(l, &dest);
    return true;
}

/* mul.wide by a literal power of two is a shift, which vector units do faster. */
static bool shifted(struct lower *l, const struct ptx_statement *s, enum ptx_type type, enum ptx_type wide)
{
    if (s->count != 3 || s->operands[2].kind != PTX_OPERAND_INT || ptx_type_size(type) != 4)
        return false;
    uint64_t factor = s->operands[2].bits;
    if (!factor || factor > 1u << 30 || (factor & (factor - 1)))
        return false;
    uint32_t a = lower_source(l, &s->operands[1], type);
    struct lower_dest dest = lower_dest(l, &s->operands[0], wide);
    lower_alu_of(l, dest.row, "shl.wide", lower_sign(type), a, PTX_NO_ROW, PTX_NO_ROW);
    l->code->ops[l->code->op_count - 1].imm = (uint64_t)__builtin_ctzll(factor);
    lower_finish_dest(l, &dest);
    return true;
}

bool lower_integer(struct lower *l, struct mnemonic *m, const struct ptx_statement *s)
{
    const char *base = m->part[0];
    enum ptx_type type = mnemonic_type(m);
    char name[64];
    if (!type || type_is_float(type) || (ptx_type_size(type) == 1 && type != PTX_PRED))
        return false;
    const enum ptx_type same[3] = {type, type, type};
    const enum ptx_type wide = type == PTX_U16   ? PTX_U32
                               : type == PTX_S16 ? PTX_S32
                               : type == PTX_U32 ? PTX_U64
                                                 : PTX_S64;
    if (lower_is_one_of(base, "add addc sub subc mad madc") && carrying(l, m, s))
        return true;
    if (lower_is_one_of(base, "add sub")) {
        if (mnemonic_has(m, "sat"))
            snprintf(name, sizeof name, "%s.sat.%s", base, lower_sign(type));
        else
            snprintf(name, sizeof name, "%s.%s", base, lower_any(type));
        return lower_plain(l, s, name, type, same, 2);
    }
    if (lower_is_one_of(base, "mul mad")) {
        bool mad = base[1] == 'a';
        if (mnemonic_has(m, "wide")) {
            const enum ptx_type types[3] = {type, type, wide};
            if (!mad && shifted(l, s, type, wide))
                return true;
            snprintf(name, sizeof name, "%s.wide.%s", base, lower_sign(type));
            return lower_plain(l, s, name, wide, types, mad ? 3 : 2);
        }
        if (!mnemonic_has(m, "hi")) {
            if (!mnemonic_has(m, "lo"))
                return false;
            snprintf(name, sizeof name, "%s.lo.%s", base, lower_any(type));
            return lower_plain(l, s, name, type, same, mad ? 3 : 2);
        }
        if (!mad) {
            snprintf(name, sizeof name, "mul.hi.%s", lower_sign(type));
            return lower_plain(l, s, name, type, same, 2);
        }
        lower_expect(l, s, 4, 4);
        uint32_t a = lower_source(l, &s->operands[1], type), b = lower_source(l, &s->operands[2], type);
        uint32_t c = lower_source(l, &s->operands[3], type);
        struct lower_dest dest = lower_dest(l, &s->operands[0], type);
        uint32_t product = lower_alu_of(l, PTX_NO_ROW, "mul.hi", lower_sign(type), a, b, PTX_NO_ROW);
        lower_alu_of(l, dest.row, mnemonic_has(m, "sat") ? "add.sat" : "add",
                     mnemonic_has(m, "sat") ? "s32" : lower_any(type), product, c, PTX_NO_ROW);
        lower_finish_dest(l, &dest);
        return true;
    }
    if (lower_is_one_of(base, "mul24 mad24")) {
        bool mad = base[1] == 'a', high = mnemonic_has(m, "hi");
        if (!high)
            mnemonic_has(m, "lo");
        lower_expect(l, s, mad ? 4 : 3, mad ? 4 : 3);
        uint32_t a = lower_source(l, &s->operands[1], type), b = lower_source(l, &s->operands[2], type);
        uint32_t c = mad ? lower_source(l, &s->operands[3], type) : PTX_NO_ROW;
        struct lower_dest dest = lower_dest(l, &s->operands[0], type);
        uint32_t product = lower_alu_of(l, mad ? PTX_NO_ROW : dest.row, high ? "mul24.hi" : "mul24.lo",
                                        lower_sign(type), a, b, PTX_NO_ROW);
        if (mad)
            lower_alu(l, dest.row, mnemonic_has(m, "sat") ? "add.sat.s32" : "add.u32", product, c,
                      PTX_NO_ROW);
        lower_finish_dest(l, &dest);
        return true;
    }
    if (lower_is_one_of(base, "and or xor not cnot")) {
        snprintf(name, sizeof name, "%s.%s", base, lower_any(type));
        return lower_plain(l, s, name, type, same, lower_is_one_of(base, "not cnot") ? 1 : 2);
    }
    if (lower_is_one_of(base, "neg abs div rem min max sad")) {
        if (lower_is_one_of(base, "min max") && mnemonic_has(m, "relu"))
            return false;
        snprintf(name, sizeof name, "%s.%s", base, !strcmp(base, "neg") ? lower_any(type) : lower_sign(type));
        return lower_plain(l, s, name, type, same,
                           lower_is_one_of(base, "neg abs") ? 1
                           : !strcmp(base, "sad")           ? 3
                                                            : 2);
    }
    if (lower_is_one_of(base, "shl shr")) {
        /* the amount is always 32 bits, and clamps */
        const enum ptx_type types[2] = {type, PTX_U32};
        bool arithmetic = !strcmp(base, "shr") && type_is_signed(type);
        snprintf(name, sizeof name, "%s.%s", arithmetic ? "sar" : base,
                 arithmetic ? lower_sign(type) : lower_any(type));
        return lower_plain(l, s, name, type, types, 2);
    }
    if (lower_is_one_of(base, "popc clz")) {
        snprintf(name, sizeof name, "%s.%s", base, lower_any(type));
        return lower_plain(l, s, name, PTX_U32, same, 1);
    }
    if (!strcmp(base, "brev")) {
        snprintf(name, sizeof name, "brev.%s", lower_any(type));
        return lower_plain(l, s, name, type, same, 1);
    }
    if (!strcmp(base, "bfind")) {
        snprintf(name, sizeof name, mnemonic_has(m, "shiftamt") ? "bfind.shiftamt.%s" : "bfind.%s",
                 lower_sign(type));
        return lower_plain(l, s, name, PTX_U32, same, 1);
    }
    if (!strcmp(base, "bfe")) {
        const enum ptx_type types[3] = {type, PTX_U32, PTX_U32};
        snprintf(name, sizeof name, "bfe.%s", lower_sign(type));
        return lower_plain(l, s, name, type, types, 3);
    }
    if (!strcmp(base, "bfi")) {
        lower_expect(l, s, 5, 5);
        uint32_t a = lower_source(l, &s->operands[1], type), b = lower_source(l, &s->operands[2], type);
        uint32_t pos = lower_source(l, &s->operands[3], PTX_U32),
                 len = lower_source(l, &s->operands[4], PTX_U32);
        uint32_t packed = lower_alu(l, PTX_NO_ROW, "bfi.pack", pos, len, PTX_NO_ROW);
        struct lower_dest dest = lower_dest(l, &s->operands[0], type);
        lower_alu_of(l, dest.row, "bfi", lower_any(type), a, b, packed);
        lower_finish_dest(l, &dest);
        return true;
    }
    if (!strcmp(base, "prmt")) {
        static const char *const modes[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
        for (uint32_t i = 0; i < 6; i++)
            if (mnemonic_has(m, modes[i])) {
                lower_plain(l, s, "prmt.mode", type, same, 3);
                l->code->ops[l->code->op_count - 1].imm = i;
                return true;
            }
        return lower_plain(l, s, "prmt.b32", type, same, 3);
    }
    if (!strcmp(base, "lop3")) {
        if (s->count != 5 || s->operands[4].kind != PTX_OPERAND_INT)
            return false;
        struct ptx_statement cut = *s;
        cut.count = 4;
        lower_plain(l, &cut, "lop3.b32", type, same, 3);
        l->code->ops[l->code->op_count - 1].imm = s->operands[4].bits & 0xff;
        return true;
    }
    if (!strcmp(base, "shf")) {
        bool left = mnemonic_has(m, "l"), right = mnemonic_has(m, "r");
        bool wrap = mnemonic_has(m, "wrap"), clamp = mnemonic_has(m, "clamp");
        if (left == right || wrap == clamp)
            return false;
        snprintf(name, sizeof name, "shf.%s.%s.b32", left ? "l" : "r", wrap ? "wrap" : "clamp");
        return lower_plain(l, s, name, type, same, 3);
    }
    if (!strcmp(base, "dp4a") && m->types == 2) {
        const enum ptx_type types[3] = {PTX_U32, PTX_U32, PTX_U32};
        snprintf(name, sizeof name, "dp4a.%s.%s", lower_sign(m->type[0]), lower_sign(m->type[1]));
        return lower_plain(l, s, name, PTX_U32, types, 3);
    }
    return false;
}
