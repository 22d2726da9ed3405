/*
 * ptx_lower_memory.c - loads, stores, atomics, barriers and warp instructions to operations.
 *
 * Caching and ordering hints are accepted and dropped: a chunk runs in program order and chunks of a block
 * take turns only at barriers, so every ordering a kernel may ask for holds. .param of a called function is
 * local memory.
 */
#include "ptx_lower.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct place {
    enum ptx_space space;
    uint32_t row; /* u64 address */
    uint64_t offset;
};

static bool starts(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

static void drop_hints(struct mnemonic *m)
{
    static const char *const hints[] = {"volatile", "relaxed", "acquire", "release", "acq_rel", "weak",
                                        "cta",      "cluster", "gpu",     "sys",     "nc",      "ca",
                                        "cg",       "cs",      "lu",      "cv",      "wb",      "wt",
                                        "mmio",     "noftz",   "gl",      "sc"};
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        mnemonic_has(m, hints[i]);
    for (uint32_t i = 1; i < m->count; i++)
        if (starts(m->part[i], "L1::") || starts(m->part[i], "L2::"))
            m->used |= 1u << i;
}

static enum ptx_space space_of(struct mnemonic *m)
{
    static const struct {
        const char *name;
        enum ptx_space space;
    } names[] = {{"global", PTX_GLOBAL},      {"const", PTX_CONST},      {"shared", PTX_SHARED},
                 {"shared::cta", PTX_SHARED}, {"local", PTX_LOCAL},      {"param", PTX_PARAM},
                 {"param::entry", PTX_PARAM}, {"param::func", PTX_PARAM}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (mnemonic_has(m, names[i].name))
            return names[i].space;
    return PTX_GENERIC;
}

static struct place place_of(struct lower *l, const struct ptx_operand *o, enum ptx_space space)
{
    struct place out = {.space = space, .row = PTX_NO_ROW, .offset = o->bits};
    struct lower_symbol symbol;
    if (o->kind != PTX_OPERAND_MEMORY)
        lower_fail(l, -EINVAL, "an address expected in `%s'", l->statement->name);
    if (!o->name) {
        out.row = lower_constant(l, 8, 0, PTX_NO_ROW);
    } else if (lower_find_symbol(l, o->name, &symbol)) {
        bool same = space == symbol.space || space == PTX_GENERIC ||
                    (space == PTX_PARAM && symbol.space == PTX_LOCAL) ||
                    (space == PTX_GLOBAL && symbol.space == PTX_CONST);
        if (!same)
            lower_fail(l, -EINVAL, "`%s' is in another space than `%s' says", o->name, l->statement->name);
        out.space = symbol.space;
        if (symbol.space == PTX_PARAM) {
            out.offset += symbol.offset;
            return out;
        }
        out.row = lower_symbol_address(l, &symbol, 0, 8);
    } else {
        struct ptx_operand r = {.kind = PTX_OPERAND_NAME, .name = o->name};
        uint32_t row = lower_register(l, &r), width = row == PTX_NO_ROW ? 0 : lower_width(l, row);
        if (space == PTX_PARAM)
            lower_fail(l, -ENOSYS, "a computed address in parameter space is not understood");
        if (width == 4)
            row = lower_alu(l, PTX_NO_ROW, "cvt.u64.u32", row, PTX_NO_ROW, PTX_NO_ROW);
        else if (width != 8)
            lower_fail(l, -EINVAL, "`%s' is no address", o->name);
        out.row = row;
    }
    return out;
}

/* The registers of a plain or vector operand; count is what the mnemonic's .v says. */
static const struct ptx_operand *elements(struct lower *l, const struct ptx_operand *o, uint32_t count)
{
    if (o->kind != PTX_OPERAND_VECTOR) {
        if (count != 1)
            lower_fail(l, -EINVAL, "`%s' without a vector operand", l->statement->name);
        return o;
    }
    if (o->count != count)
        lower_fail(l, -EINVAL, "`%s' with a vector of %u", l->statement->name, o->count);
    return o->items;
}

static bool access_memory(struct lower *l, struct mnemonic *m, const struct ptx_statement *s, bool store)
{
    if (m->types != 1)
        return false;
    enum ptx_type type = m->type[0];
    bool constant = mnemonic_has(m, "nc");
    drop_hints(m);
    enum ptx_space space = space_of(m);
    uint32_t count = mnemonic_has(m, "v2") ? 2 : mnemonic_has(m, "v4") ? 4 : 1;
    lower_expect(l, s, 2, 2);
    const struct ptx_operand *list = elements(l, &s->operands[store ? 1 : 0], count);
    struct place place = place_of(l, &s->operands[store ? 0 : 1], space);
    uint32_t rows[4] = {PTX_NO_ROW, PTX_NO_ROW, PTX_NO_ROW, PTX_NO_ROW}, width = ptx_type_size(type);
    uint32_t row_width = width == 1 ? 2 : width;
    if (type == PTX_PRED || (store && (place.space == PTX_PARAM || place.space == PTX_CONST)))
        return false;
    if (store) {
        for (uint32_t i = 0; i < count; i++)
            rows[i] = lower_source(l, &list[i], type);
    } else {
        for (uint32_t i = 0; i < count; i++) {
            rows[i] = lower_register(l, &list[i]);
            if (rows[i] != PTX_NO_ROW && lower_width(l, rows[i]) > row_width)
                row_width = lower_width(l, rows[i]);
        }
        for (uint32_t i = 0; i < count; i++) {
            if (rows[i] == PTX_NO_ROW)
                rows[i] = lower_row(l, row_width);
            if (lower_width(l, rows[i]) != row_width)
                lower_fail(l, -EINVAL, "the destination of `%s' is too narrow", s->name);
        }
    }
    /* a vector load that overwrites its own address reads it more than once */
    for (uint32_t i = 0; i < count && !store && count > 1; i++)
        if (rows[i] == place.row)
            place.row = lower_alu(l, PTX_NO_ROW, "mov.u64", place.row, PTX_NO_ROW, PTX_NO_ROW);
    struct ptx_op *op = lower_emit(l, place.space == PTX_PARAM ? PTX_OP_PARAM
                                      : store                  ? PTX_OP_STORE
                                                               : PTX_OP_LOAD);
    op->a = place.row;
    op->imm = place.offset;
    op->space = (uint8_t)place.space;
    op->width = (uint8_t)width;
    op->count = (uint8_t)count;
    op->row_width = (uint8_t)row_width;
    op->d = rows[0];
    for (uint32_t i = 1; i < count; i++)
        op->more[i - 1] = rows[i];
    if (type_is_signed(type))
        op->flags |= PTX_FLAG_SIGNED;
    if (constant || place.space == PTX_CONST || place.space == PTX_PARAM)
        op->flags |= PTX_FLAG_CONSTANT;
    return true;
}

static bool atomic(struct lower *l, struct mnemonic *m, const struct ptx_statement *s, bool result)
{
    static const char *const names[] = {
        [PTX_ATOM_ADD] = "add", [PTX_ATOM_MIN] = "min", [PTX_ATOM_MAX] = "max",   [PTX_ATOM_AND] = "and",
        [PTX_ATOM_OR] = "or",   [PTX_ATOM_XOR] = "xor", [PTX_ATOM_EXCH] = "exch", [PTX_ATOM_CAS] = "cas",
        [PTX_ATOM_INC] = "inc", [PTX_ATOM_DEC] = "dec"};
    int code = -1;
    if (m->types != 1)
        return false;
    enum ptx_type type = m->type[0];
    drop_hints(m);
    enum ptx_space space = space_of(m);
    for (int i = 0; i < 10; i++)
        if (mnemonic_has(m, names[i]))
            code = i;
    if (code < 0 || ptx_type_size(type) < 2 || type == PTX_BF16X2)
        return false;
    if (type_is_float(type) && code != PTX_ATOM_ADD && code != PTX_ATOM_EXCH)
        return false;
    if ((code == PTX_ATOM_INC || code == PTX_ATOM_DEC) && type != PTX_U32)
        return false;
    if (ptx_type_size(type) == 2 && code != PTX_ATOM_CAS && code != PTX_ATOM_ADD)
        return false;
    uint32_t first = result ? 1 : 0, sources = code == PTX_ATOM_CAS ? 2 : 1;
    lower_expect(l, s, first + 1 + sources, first + 1 + sources);
    struct place place = place_of(l, &s->operands[first], space);
    if (place.space == PTX_PARAM || place.space == PTX_CONST || place.space == PTX_LOCAL)
        return false;
    uint32_t b = lower_source(l, &s->operands[first + 1], type), c = PTX_NO_ROW;
    if (sources == 2)
        c = lower_source(l, &s->operands[first + 2], type);
    struct lower_dest dest = {.row = PTX_NO_ROW, .final = PTX_NO_ROW};
    if (result && lower_register(l, &s->operands[0]) != PTX_NO_ROW)
        dest = lower_dest(l, &s->operands[0], type);
    struct ptx_op *op = lower_emit(l, PTX_OP_ATOMIC);
    op->d = dest.row;
    op->a = place.row;
    op->b = b;
    op->c = c;
    op->imm = place.offset;
    op->space = (uint8_t)place.space;
    op->code = (uint8_t)code;
    op->type = (uint8_t)type;
    op->count = 1;
    op->width = op->row_width = (uint8_t)ptx_type_size(type);
    lower_finish_dest(l, &dest);
    /* a sum of integers is the same in any order; what comes back, and rounding, is not */
    if (place.space != PTX_SHARED &&
        (dest.row != PTX_NO_ROW || type_is_float(type) || code == PTX_ATOM_EXCH || code == PTX_ATOM_CAS))
        l->code->pub.has_atomics = true;
    return true;
}

bool lower_memory(struct lower *l, struct mnemonic *m, const struct ptx_statement *s)
{
    static const char *const nothing[] = {"membar",  "fence",     "prefetch",       "prefetchu",
                                          "discard", "nanosleep", "griddepcontrol", "applypriority"};
    const char *base = m->part[0];
    if (!strcmp(base, "ld") || !strcmp(base, "ldu"))
        return access_memory(l, m, s, false);
    if (!strcmp(base, "st"))
        return access_memory(l, m, s, true);
    if (!strcmp(base, "atom") || !strcmp(base, "red"))
        return atomic(l, m, s, base[0] == 'a');
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++)
        if (!strcmp(base, nothing[i])) {
            m->used = ~0u;
            return true;
        }
    return false;
}

static bool shuffle(struct lower *l, struct mnemonic *m, const struct ptx_statement *s)
{
    static const char *const modes[] = {
        [PTX_SHFL_UP] = "up", [PTX_SHFL_DOWN] = "down", [PTX_SHFL_BFLY] = "bfly", [PTX_SHFL_IDX] = "idx"};
    int mode = -1;
    bool sync = mnemonic_has(m, "sync");
    for (int i = 0; i < 4; i++)
        if (mnemonic_has(m, modes[i]))
            mode = i;
    if (mode < 0 || m->types != 1 || ptx_type_size(m->type[0]) != 4)
        return false;
    lower_expect(l, s, sync ? 5 : 4, sync ? 5 : 4);
    uint32_t a = lower_source(l, &s->operands[1], PTX_B32), b = lower_source(l, &s->operands[2], PTX_U32);
    uint32_t c = lower_source(l, &s->operands[3], PTX_U32), p = PTX_NO_ROW;
    if (s->operands[0].kind == PTX_OPERAND_PAIR) {
        struct ptx_operand o = {.kind = PTX_OPERAND_NAME, .name = s->operands[0].second};
        p = lower_register(l, &o);
        if (p != PTX_NO_ROW && lower_width(l, p) != 1)
            lower_fail(l, -EINVAL, "`%s' is not a predicate", o.name);
    }
    uint32_t d = lower_register(l, &s->operands[0]);
    struct lower_dest dest = {.row = PTX_NO_ROW, .final = PTX_NO_ROW};
    if (d != PTX_NO_ROW) {
        struct ptx_operand o = s->operands[0];
        o.kind = PTX_OPERAND_NAME;
        dest = lower_dest(l, &o, PTX_B32);
    }
    struct ptx_op *op = lower_emit(l, PTX_OP_SHUFFLE);
    op->d = dest.row == PTX_NO_ROW ? PTX_NO_ROW : dest.row;
    op->a = a;
    op->b = b;
    op->c = c;
    op->more[0] = p;
    op->code = (uint8_t)mode;
    op->row_width = 4;
    lower_finish_dest(l, &dest);
    return true;
}

static bool vote(struct lower *l, struct mnemonic *m, const struct ptx_statement *s)
{
    const char *base = m->part[0];
    struct ptx_op *op;
    bool sync = mnemonic_has(m, "sync");
    if (m->types != 1)
        return false;
    if (!strcmp(base, "activemask")) {
        lower_expect(l, s, 1, 1);
        struct lower_dest dest = lower_dest(l, &s->operands[0], PTX_B32);
        op = lower_emit(l, PTX_OP_VOTE);
        op->d = dest.row;
        op->code = PTX_ACTIVEMASK;
        op->row_width = 4;
        lower_finish_dest(l, &dest);
        return true;
    }
    if (!strcmp(base, "vote")) {
        static const char *const modes[] = {[PTX_VOTE_ALL] = "all",
                                            [PTX_VOTE_ANY] = "any",
                                            [PTX_VOTE_UNI] = "uni",
                                            [PTX_VOTE_BALLOT] = "ballot"};
        int mode = -1;
        for (int i = 0; i < 4; i++)
            if (mnemonic_has(m, modes[i]))
                mode = i;
        if (mode < 0)
            return false;
        lower_expect(l, s, sync ? 3 : 2, sync ? 3 : 2);
        uint32_t a = lower_predicate(l, &s->operands[1]);
        struct lower_dest dest = lower_dest(l, &s->operands[0], mode == PTX_VOTE_BALLOT ? PTX_B32 : PTX_PRED);
        op = lower_emit(l, PTX_OP_VOTE);
        op->d = dest.row;
        op->a = a;
        op->code = (uint8_t)mode;
        op->row_width = mode == PTX_VOTE_BALLOT ? 4 : 1;
        lower_finish_dest(l, &dest);
        return true;
    }
    bool any = mnemonic_has(m, "any"), all = mnemonic_has(m, "all");
    enum ptx_type type = m->type[0];
    if (any == all || ptx_type_size(type) < 4)
        return false;
    lower_expect(l, s, 3, 3);
    uint32_t a = lower_source(l, &s->operands[1], type), p = PTX_NO_ROW;
    struct ptx_operand d = s->operands[0];
    if (d.kind == PTX_OPERAND_PAIR) {
        struct ptx_operand o = {.kind = PTX_OPERAND_NAME, .name = d.second};
        p = lower_register(l, &o);
        d.kind = PTX_OPERAND_NAME;
    }
    struct lower_dest dest = lower_dest(l, &d, PTX_B32);
    op = lower_emit(l, PTX_OP_VOTE);
    op->d = dest.row;
    op->a = a;
    op->more[0] = p;
    op->code = any ? PTX_MATCH_ANY : PTX_MATCH_ALL;
    op->width = (uint8_t)ptx_type_size(type);
    op->row_width = 4;
    lower_finish_dest(l, &dest);
    return true;
}

bool lower_warp(struct lower *l, struct mnemonic *m, const struct ptx_statement *s)
{
    const char *base = m->part[0];
    if (!strcmp(base, "shfl"))
        return shuffle(l, m, s);
    if (!strcmp(base, "vote") || !strcmp(base, "activemask") || !strcmp(base, "match"))
        return vote(l, m, s);
    if (!strcmp(base, "bar") || !strcmp(base, "barrier")) {
        mnemonic_has(m, "cta");
        mnemonic_has(m, "aligned");
        bool sync = mnemonic_has(m, "sync");
        if (mnemonic_has(m, "warp"))
            return sync; /* lanes of a warp meet by themselves: the lowest instruction runs first */
        if (!sync || s->count > 1)
            return false; /* barriers of a part of the block */
        lower_emit(l, PTX_OP_BARRIER);
        l->code->has_barrier = true;
        return true;
    }
    return false;
}
