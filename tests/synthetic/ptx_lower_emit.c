/*
 * ptx_lower_emit.c - what every step of the lowering builds with: errors, rows, constants, operations,
 * mnemonics.
 */
#include "ptx_lower.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void lower_fail(struct lower *l, int status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int used = snprintf(l->error, l->error_size, "line %u: ", l->line);
    if (used >= 0 && (size_t)used < l->error_size)
        vsnprintf(l->error + used, l->error_size - (size_t)used, format, list);
    va_end(list);
    l->status = status;
    longjmp(l->fail, 1);
}

void *lower_take(struct lower *l, size_t size)
{
    void *memory = ptx_arena_alloc(&l->tree->arena, size);
    if (!memory)
        lower_fail(l, -ENOMEM, "out of memory");
    return memory;
}

/* Room for one more of an array that doubles. */
static void *grow(struct lower *l, void *array, uint32_t count, uint32_t *room, size_t size)
{
    if (count < *room)
        return array;
    uint32_t want = *room ? *room * 2 : 64;
    void *grown = realloc(array, want * size);
    if (!grown)
        lower_fail(l, -ENOMEM, "out of memory");
    *room = want;
    return grown;
}

uint32_t lower_row(struct lower *l, uint32_t width)
{
    struct ptx_code *code = l->code;
    code->rows = grow(l, code->rows, code->row_count, &code->row_room, sizeof *code->rows);
    code->rows[code->row_count] = (struct ptx_row){.width = width, .global = PTX_NO_ROW};
    return code->row_count++;
}

uint32_t lower_width(struct lower *l, uint32_t row)
{
    return l->code->rows[row].width;
}

static uint32_t constant_hash(uint32_t width, uint64_t value, uint32_t global)
{
    uint64_t h = (value ^ (uint64_t)width << 56 ^ (uint64_t)global << 20) * 0x9e3779b97f4a7c15;
    return (uint32_t)(h >> 32);
}

uint32_t lower_constant(struct lower *l, uint32_t width, uint64_t value, uint32_t global)
{
    if (width < 8)
        value &= (UINT64_C(1) << width * 8) - 1;
    if (2 * (l->constants + 1) > l->constant_slots) {
        uint32_t slots = l->constant_slots ? l->constant_slots * 2 : 64;
        uint32_t *table = lower_take(l, slots * sizeof *table);
        for (uint32_t i = 0; i < l->constant_slots; i++) {
            if (!l->constant_table[i])
                continue;
            const struct ptx_row *r = &l->code->rows[l->constant_table[i] - 1];
            uint32_t at = constant_hash(r->width, r->value, r->global) & (slots - 1);
            while (table[at])
                at = (at + 1) & (slots - 1);
            table[at] = l->constant_table[i];
        }
        l->constant_table = table;
        l->constant_slots = slots;
    }
    uint32_t at = constant_hash(width, value, global) & (l->constant_slots - 1);
    while (l->constant_table[at]) {
        uint32_t row = l->constant_table[at] - 1;
        const struct ptx_row *r = &l->code->rows[row];
        if (r->width == width && r->value == value && r->global == global)
            return row;
        at = (at + 1) & (l->constant_slots - 1);
    }
    uint32_t row = lower_row(l, width);
    l->code->rows[row].constant = true;
    l->code->rows[row].value = value;
    l->code->rows[row].global = global;
    l->constant_table[at] = row + 1;
    l->constants++;
    return row;
}

struct ptx_op *lower_emit(struct lower *l, enum ptx_op_kind kind)
{
    struct ptx_code *code = l->code;
    code->ops = grow(l, code->ops, code->op_count, &code->op_room, sizeof *code->ops);
    struct ptx_op *op = &code->ops[code->op_count++];
    *op = (struct ptx_op){
        .d = PTX_NO_ROW,
        .a = PTX_NO_ROW,
        .b = PTX_NO_ROW,
        .c = PTX_NO_ROW,
        .more = {PTX_NO_ROW, PTX_NO_ROW, PTX_NO_ROW},
        .guard = l->guard,
        .flags = l->guard_negate ? PTX_FLAG_NEGATE : 0,
        .line = l->line,
        .kind = (uint8_t)kind,
    };
    return op;
}

uint32_t lower_type_width(enum ptx_type type)
{
    uint32_t size = ptx_type_size(type);
    return size == 1 && type != PTX_PRED ? 2 : size;
}

uint32_t lower_alu(struct lower *l, uint32_t d, const char *name, uint32_t a, uint32_t b, uint32_t c)
{
    const struct ptx_alu *alu = ptx_alu_find(name);
    if (!alu)
        lower_fail(l, -ENOSYS, "unknown opcode `%s' (no operation `%s')", l->statement->name, name);
    if (d == PTX_NO_ROW)
        d = lower_row(l, lower_type_width(alu->d));
    const uint32_t source[3] = {a, b, c};
    for (uint32_t i = 0; i < alu->sources && i < 3; i++)
        if (source[i] == PTX_NO_ROW || lower_width(l, source[i]) != lower_type_width(alu->src[i]))
            lower_fail(l, -EINVAL, "an operand of `%s' has the wrong width (in `%s')", l->statement->name,
                       name);
    if (lower_width(l, d) != lower_type_width(alu->d))
        lower_fail(l, -EINVAL, "the result of `%s' has the wrong width", l->statement->name);
    struct ptx_op *op = lower_emit(l, PTX_OP_ALU);
    op->fn = alu->fn;
    op->d = d;
    op->a = a;
    op->b = alu->sources > 1 ? b : PTX_NO_ROW;
    op->c = alu->sources > 2 ? c : PTX_NO_ROW;
    op->row_width = (uint8_t)lower_type_width(alu->d);
    return d;
}

uint32_t lower_alu_of(struct lower *l, uint32_t d, const char *base, const char *type, uint32_t a, uint32_t b,
                      uint32_t c)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%s", base, type);
    return lower_alu(l, d, name, a, b, c);
}

bool type_is_float(enum ptx_type type)
{
    return type == PTX_F16 || type == PTX_BF16 || type == PTX_F32 || type == PTX_F64 || type == PTX_F16X2 ||
           type == PTX_BF16X2;
}

bool type_is_signed(enum ptx_type type)
{
    return type == PTX_S8 || type == PTX_S16 || type == PTX_S32 || type == PTX_S64;
}

const char *lower_any(enum ptx_type type)
{
    if (type == PTX_PRED)
        return "pred";
    static const char *const names[] = {[1] = "u16", [2] = "u16", [4] = "u32", [8] = "u64"};
    return names[ptx_type_size(type)];
}

const char *lower_sign(enum ptx_type type)
{
    static const char *const names[] = {[1] = "s16", [2] = "s16", [4] = "s32", [8] = "s64"};
    return type_is_signed(type) ? names[ptx_type_size(type)] : lower_any(type);
}

bool mnemonic_has(struct mnemonic *m, const char *part)
{
    bool found = false;
    for (uint32_t i = 0; i < m->count; i++)
        if (!strcmp(m->part[i], part)) {
            m->used |= 1u << i;
            found = true;
        }
    return found;
}

const char *mnemonic_rounding(struct mnemonic *m)
{
    if (mnemonic_has(m, "rz"))
        return "rz.";
    if (mnemonic_has(m, "rm"))
        return "rm.";
    if (mnemonic_has(m, "rp"))
        return "rp.";
    mnemonic_has(m, "rn");
    return "";
}

void mnemonic_cut(struct lower *l, struct mnemonic *m, const char *text)
{
    memset(m, 0, sizeof *m);
    if (strlen(text) >= sizeof m->text)
        lower_fail(l, -EINVAL, "a mnemonic of %zu characters", strlen(text));
    strcpy(m->text, text);
    char *save = NULL;
    for (char *part = strtok_r(m->text, ".", &save); part; part = strtok_r(NULL, ".", &save)) {
        if (m->count == sizeof m->part / sizeof *m->part)
            lower_fail(l, -EINVAL, "`%s' has too many parts", text);
        enum ptx_type type = ptx_type_named(part);
        if (type && m->count) {
            if (m->types < 4)
                m->type[m->types++] = type;
            m->used |= 1u << m->count;
        }
        m->part[m->count++] = part;
    }
    m->used |= 1;
}
