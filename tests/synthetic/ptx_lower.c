/*
 * ptx_lower.c - a kernel's statements to operations: names, scopes, labels, control flow, calls.
 *
 * A call is lowered by lowering the callee in place with registers of its own (compilers emit few calls, and
 * recursion is refused); its parameters live in per-thread local memory, as does everything in .local.
 */
#include "ptx_lower.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALL_DEPTH_LIMIT = 16 };

/* Where a callee's ret goes: no PTX name begins with a blank. */
#define RETURN_LABEL " return"

struct lower_register {
    const char *name;
    size_t length;
    uint32_t count, first; /* count 0: the name itself */
    struct lower_register *next;
};

struct lower_label {
    const char *name;
    uint32_t op;
    struct lower_label *next;
};

/* A place that waits for a label: an operation's target, or an entry of code->targets. */
struct lower_fixup {
    const char *name;
    uint32_t op, line;
    bool in_targets;
    struct lower_fixup *next;
};

struct lower_named {
    const char *name;
    struct lower_symbol symbol;
    const struct ptx_statement *targets; /* of .branchtargets */
    struct lower_named *next;
};

struct lower_scope {
    struct lower_scope *parent;
    struct lower_register *registers;
    struct lower_label **labels; /* hashed */
    uint32_t label_slots;
    struct lower_fixup *fixups;
    struct lower_named *names;
    bool function; /* names of the caller end here */
};

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

static void *take(struct lower *l, size_t size)
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
        uint32_t *table = take(l, slots * sizeof *table);
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

static uint32_t type_width(enum ptx_type type)
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
        d = lower_row(l, type_width(alu->d));
    const uint32_t source[3] = {a, b, c};
    for (uint32_t i = 0; i < alu->sources; i++)
        if (source[i] == PTX_NO_ROW || lower_width(l, source[i]) != type_width(alu->src[i]))
            lower_fail(l, -EINVAL, "an operand of `%s' has the wrong width (in `%s')", l->statement->name,
                       name);
    if (lower_width(l, d) != type_width(alu->d))
        lower_fail(l, -EINVAL, "the result of `%s' has the wrong width", l->statement->name);
    struct ptx_op *op = lower_emit(l, PTX_OP_ALU);
    op->fn = alu->fn;
    op->d = d;
    op->a = a;
    op->b = alu->sources > 1 ? b : PTX_NO_ROW;
    op->c = alu->sources > 2 ? c : PTX_NO_ROW;
    op->row_width = (uint8_t)type_width(alu->d);
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

/* Registers */

static uint32_t find_register(struct lower *l, const char *name)
{
    size_t length = strlen(name), prefix = length;
    while (prefix && name[prefix - 1] >= '0' && name[prefix - 1] <= '9')
        prefix--;
    for (struct lower_scope *s = l->scope; s; s = s->parent) {
        for (struct lower_register *r = s->registers; r; r = r->next) {
            if (!r->count) {
                if (r->length == length && !memcmp(r->name, name, length))
                    return r->first;
                continue;
            }
            /* the prefix itself may end in digits */
            if (r->length >= length || r->length < prefix || memcmp(r->name, name, r->length))
                continue;
            char *end;
            unsigned long index = strtoul(name + r->length, &end, 10);
            if (!*end && index < r->count && (name[r->length] != '0' || !name[r->length + 1]))
                return r->first + (uint32_t)index;
        }
        if (s->function)
            break;
    }
    return PTX_NO_ROW;
}

static void declare_registers(struct lower *l, const struct ptx_statement *s)
{
    struct lower_register *r = take(l, sizeof *r);
    *r = (struct lower_register){.name = s->name, .length = strlen(s->name), .count = s->count};
    r->first = l->code->row_count;
    uint32_t n = s->count ? s->count : 1;
    for (uint32_t i = 0; i < n; i++)
        lower_row(l, type_width(s->type));
    r->next = l->scope->registers;
    l->scope->registers = r;
    l->code->pub.registers += n;
}

static const struct {
    const char *name;
    uint8_t code;
    uint8_t width;
} specials[] = {
    {"%tid.x", PTX_TID_X, 4},
    {"%tid.y", PTX_TID_Y, 4},
    {"%tid.z", PTX_TID_Z, 4},
    {"%ntid.x", PTX_NTID_X, 4},
    {"%ntid.y", PTX_NTID_Y, 4},
    {"%ntid.z", PTX_NTID_Z, 4},
    {"%ctaid.x", PTX_CTAID_X, 4},
    {"%ctaid.y", PTX_CTAID_Y, 4},
    {"%ctaid.z", PTX_CTAID_Z, 4},
    {"%nctaid.x", PTX_NCTAID_X, 4},
    {"%nctaid.y", PTX_NCTAID_Y, 4},
    {"%nctaid.z", PTX_NCTAID_Z, 4},
    {"%laneid", PTX_LANEID, 4},
    {"%warpid", PTX_WARPID, 4},
    {"%nwarpid", PTX_NWARPID, 4},
    {"%smid", PTX_SMID, 4},
    {"%nsmid", PTX_NSMID, 4},
    {"%gridid", PTX_GRIDID, 8},
    {"%clock", PTX_CLOCK, 4},
    {"%clock_hi", PTX_ZERO, 4},
    {"%clock64", PTX_CLOCK, 8},
    {"%globaltimer", PTX_CLOCK, 8},
    {"%globaltimer_lo", PTX_CLOCK, 4},
    {"%globaltimer_hi", PTX_ZERO, 4},
    {"%lanemask_eq", PTX_LANEMASK_EQ, 4},
    {"%lanemask_le", PTX_LANEMASK_LE, 4},
    {"%lanemask_lt", PTX_LANEMASK_LT, 4},
    {"%lanemask_ge", PTX_LANEMASK_GE, 4},
    {"%lanemask_gt", PTX_LANEMASK_GT, 4},
    {"%dynamic_smem_size", PTX_DYNAMIC_SHARED, 4},
    {"%total_smem_size", PTX_TOTAL_SHARED, 4},
};

/* PTX_NO_ROW where the name is no special register. */
static uint32_t special(struct lower *l, const char *name)
{
    if (!strcmp(name, "WARP_SZ"))
        return lower_constant(l, 4, PTX_WARP, PTX_NO_ROW);
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        if (strcmp(specials[i].name, name))
            continue;
        uint32_t row = lower_row(l, specials[i].width);
        struct ptx_op *op = lower_emit(l, PTX_OP_SPECIAL);
        op->d = row;
        op->code = specials[i].code;
        op->row_width = specials[i].width;
        return row;
    }
    return PTX_NO_ROW;
}

/* Symbols */

static uint64_t align_up(uint64_t value, uint64_t to)
{
    return (value + to - 1) & ~(to - 1);
}

static void declare_symbol(struct lower *l, const char *name, const struct lower_symbol *symbol)
{
    struct lower_named *n = take(l, sizeof *n);
    n->name = name;
    n->symbol = *symbol;
    n->next = l->scope->names;
    l->scope->names = n;
}

static uint32_t reserve(struct lower *l, uint32_t *bytes, const struct ptx_variable *v)
{
    uint64_t start = align_up(*bytes, v->align), size = v->count * ptx_type_size(v->type);
    if (size > UINT32_MAX / 2 || start + size > UINT32_MAX / 2)
        lower_fail(l, -EINVAL, "`%s' is too large", v->name);
    *bytes = (uint32_t)(start + size);
    return (uint32_t)start;
}

/* .shared, .local and .param variables of a function; a .param one is a call's and lives in local memory. */
static void declare_variable(struct lower *l, const struct ptx_variable *v)
{
    struct lower_symbol symbol = {.space = v->space, .dynamic = v->unsized};
    if (v->space == PTX_SHARED)
        symbol.offset = v->unsized ? 0 : reserve(l, &l->shared_bytes, v);
    else
        symbol.offset = reserve(l, &l->local_bytes, v);
    if (v->space == PTX_PARAM)
        symbol.space = PTX_LOCAL;
    declare_symbol(l, v->name, &symbol);
}

static struct lower_named *find_named(struct lower *l, const char *name)
{
    for (struct lower_scope *s = l->scope; s; s = s->function ? NULL : s->parent)
        for (struct lower_named *n = s->names; n; n = n->next)
            if (!strcmp(n->name, name))
                return n;
    return NULL;
}

bool lower_find_symbol(struct lower *l, const char *name, struct lower_symbol *out)
{
    struct lower_named *named = find_named(l, name);
    if (!named) {
        struct lower_scope *s = l->scope;
        while (s->parent)
            s = s->parent;
        for (named = s->names; named; named = named->next)
            if (!strcmp(named->name, name))
                break;
    }
    if (named) {
        *out = named->symbol;
        return true;
    }
    for (size_t i = 0; i < l->module->global_count; i++)
        if (!strcmp(l->module->details[i].pub.name, name)) {
            *out = (struct lower_symbol){.space = l->module->details[i].pub.constant ? PTX_CONST : PTX_GLOBAL,
                                         .global = (uint32_t)i};
            return true;
        }
    /* A module's shared variable takes room in the kernels that name it. */
    for (struct ptx_variable *v = l->tree->variables; v; v = v->next)
        if (v->space == PTX_SHARED && !strcmp(v->name, name)) {
            struct lower_scope *inner = l->scope;
            while (l->scope->parent)
                l->scope = l->scope->parent;
            declare_variable(l, v);
            *out = l->scope->names->symbol;
            l->scope = inner;
            return true;
        }
    return false;
}

uint32_t lower_symbol_address(struct lower *l, const struct lower_symbol *symbol, uint64_t addend,
                              uint32_t width)
{
    if (symbol->space == PTX_PARAM)
        lower_fail(l, -ENOSYS, "the address of a kernel parameter is not understood");
    if (symbol->space == PTX_GLOBAL || symbol->space == PTX_CONST) {
        if (width != 8)
            lower_fail(l, -EINVAL, "an address of global memory has 64 bits");
        return lower_constant(l, 8, addend, symbol->global);
    }
    if (!symbol->dynamic)
        return lower_constant(l, width, symbol->offset + addend, PTX_NO_ROW);
    /* known once all static shared memory is: not shared with other constants */
    uint32_t row = lower_row(l, width);
    l->code->rows[row].constant = true;
    l->code->rows[row].value = addend;
    uint32_t *rows = take(l, (l->dynamic_count + 1) * sizeof *rows);
    if (l->dynamic_count)
        memcpy(rows, l->dynamic_rows, l->dynamic_count * sizeof *rows);
    rows[l->dynamic_count++] = row;
    l->dynamic_rows = rows;
    return row;
}

/* Operands */

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
    uint32_t row = find_register(l, o->name);
    if (row == PTX_NO_ROW)
        lower_fail(l, -EINVAL, "`%s' is not a register", o->name);
    return row;
}

uint32_t lower_source(struct lower *l, const struct ptx_operand *o, enum ptx_type type)
{
    uint32_t width = type_width(type);
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
    uint32_t row = find_register(l, o->name);
    if (row == PTX_NO_ROW)
        row = special(l, o->name);
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
    uint32_t width = type_width(type);
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

/* Mnemonics */

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

static void mnemonic_cut(struct lower *l, struct mnemonic *m, const char *text)
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

/* Scopes, labels, control flow */

static void open_scope(struct lower *l, bool function)
{
    struct lower_scope *s = take(l, sizeof *s);
    s->parent = l->scope;
    s->function = function;
    l->scope = s;
}

static uint32_t name_hash(const char *name)
{
    uint32_t h = 2166136261u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 16777619u;
    return h;
}

enum { LABEL_SLOTS = 256 };

static void declare_label(struct lower *l, const char *name)
{
    struct lower_scope *s = l->scope;
    if (!s->labels)
        s->labels = take(l, LABEL_SLOTS * sizeof *s->labels);
    struct lower_label *label = take(l, sizeof *label), **slot = &s->labels[name_hash(name) % LABEL_SLOTS];
    *label = (struct lower_label){.name = name, .op = l->code->op_count, .next = *slot};
    *slot = label;
}

static void want_label(struct lower *l, const char *name, uint32_t op, bool in_targets)
{
    struct lower_fixup *f = take(l, sizeof *f);
    *f = (struct lower_fixup){
        .name = name, .op = op, .line = l->line, .in_targets = in_targets, .next = l->scope->fixups};
    l->scope->fixups = f;
}

/* Labels are known in their scope and those inside it: what is not found moves outward. */
static void close_scope(struct lower *l)
{
    struct lower_scope *s = l->scope;
    struct lower_fixup *next;
    for (struct lower_fixup *f = s->fixups; f; f = next) {
        next = f->next;
        struct lower_label *label = s->labels ? s->labels[name_hash(f->name) % LABEL_SLOTS] : NULL;
        while (label && strcmp(label->name, f->name))
            label = label->next;
        if (label) {
            if (f->in_targets)
                l->code->targets[f->op] = label->op;
            else
                l->code->ops[f->op].target = label->op;
        } else if (s->function || !s->parent) {
            l->line = f->line;
            lower_fail(l, -EINVAL, "label `%s' is not there", f->name);
        } else {
            f->next = s->parent->fixups;
            s->parent->fixups = f;
        }
    }
    l->scope = s->parent;
}

static void lower_body(struct lower *l, const struct ptx_function *f);

static void branch(struct lower *l, const struct ptx_statement *s)
{
    lower_expect(l, s, 1, 1);
    if (s->operands[0].kind != PTX_OPERAND_NAME)
        lower_fail(l, -EINVAL, "a label expected");
    lower_emit(l, PTX_OP_BRANCH);
    want_label(l, s->operands[0].name, l->code->op_count - 1, false);
}

/* brx.idx index, targets; */
static void branch_indexed(struct lower *l, const struct ptx_statement *s)
{
    lower_expect(l, s, 2, 2);
    struct lower_named *n =
        s->operands[1].kind == PTX_OPERAND_NAME ? find_named(l, s->operands[1].name) : NULL;
    if (!n || !n->targets)
        lower_fail(l, -EINVAL, "brx.idx without its list of targets");
    uint32_t row = lower_source(l, &s->operands[0], PTX_U32), first = l->code->target_count;
    uint32_t count = n->targets->count;
    uint32_t *targets = realloc(l->code->targets, (first + count) * sizeof *targets);
    if (!targets)
        lower_fail(l, -ENOMEM, "out of memory");
    memset(targets + first, 0, count * sizeof *targets);
    l->code->targets = targets;
    l->code->target_count += count;
    for (uint32_t i = 0; i < count; i++) {
        if (n->targets->operands[i].kind != PTX_OPERAND_NAME)
            lower_fail(l, -EINVAL, "a label expected");
        want_label(l, n->targets->operands[i].name, first + i, true);
    }
    struct ptx_op *op = lower_emit(l, PTX_OP_SWITCH);
    op->a = row;
    op->target = first;
    op->imm = count;
}

/*
 * call (results), function, (params); the operands are .param variables, which the callee reaches under its
 * own names. The callee's body is lowered here and its ret jumps to the end of it. A guard becomes a jump
 * over the call.
 */
static void call(struct lower *l, const struct ptx_statement *s)
{
    uint32_t at = 0;
    const struct ptx_operand *results = NULL, *params = NULL;
    if (at < s->count && s->operands[at].kind == PTX_OPERAND_VECTOR)
        results = &s->operands[at++];
    if (at == s->count || s->operands[at].kind != PTX_OPERAND_NAME)
        lower_fail(l, -EINVAL, "a call without a function");
    const char *name = s->operands[at++].name;
    if (at < s->count && s->operands[at].kind == PTX_OPERAND_VECTOR)
        params = &s->operands[at++];
    if (find_register(l, name) != PTX_NO_ROW)
        lower_fail(l, -ENOSYS, "indirect calls are not understood");
    const struct ptx_function *f = l->tree->functions;
    while (f && (strcmp(f->name, name) || !f->body))
        f = f->next;
    if (!f)
        lower_fail(l, -ENOSYS, "call of `%s', which has no body here", name);
    if (++l->depth > CALL_DEPTH_LIMIT)
        lower_fail(l, -ENOSYS, "calls nest too deeply at `%s'", name);
    const struct ptx_variable *formal[2] = {f->results, f->params};
    const struct ptx_operand *given[2] = {results, params};
    struct lower_symbol symbols[2][16];
    for (int i = 0; i < 2; i++) {
        const struct ptx_variable *v = formal[i];
        uint32_t n = given[i] ? given[i]->count : 0;
        for (uint32_t k = 0; k < n; k++, v = v->next) {
            const struct ptx_operand *o = &given[i]->items[k];
            if (!v || o->kind != PTX_OPERAND_NAME || !lower_find_symbol(l, o->name, &symbols[i][k]) ||
                symbols[i][k].space != PTX_LOCAL)
                lower_fail(l, -ENOSYS, "argument %u of the call of `%s' is not a .param variable of its kind",
                           k, name);
        }
        if (v)
            lower_fail(l, -EINVAL, "too few arguments in the call of `%s'", name);
    }
    uint32_t guard = l->guard, skip = l->code->op_count;
    bool negate = l->guard_negate;
    if (guard != PTX_NO_ROW)
        lower_emit(l, PTX_OP_BRANCH)->flags ^= PTX_FLAG_NEGATE;
    l->guard = PTX_NO_ROW;
    l->guard_negate = false;
    open_scope(l, true);
    for (int i = 0; i < 2; i++) {
        const struct ptx_variable *v = formal[i];
        for (uint32_t k = 0; v; k++, v = v->next)
            declare_symbol(l, v->name, &symbols[i][k]);
    }
    lower_body(l, f);
    declare_label(l, RETURN_LABEL);
    close_scope(l);
    l->depth--;
    if (guard != PTX_NO_ROW)
        l->code->ops[skip].target = l->code->op_count;
    l->guard = guard;
    l->guard_negate = negate;
}

static bool control(struct lower *l, struct mnemonic *m, const struct ptx_statement *s)
{
    const char *base = m->part[0];
    if (!strcmp(base, "bra")) {
        mnemonic_has(m, "uni");
        branch(l, s);
    } else if (!strcmp(base, "brx")) {
        mnemonic_has(m, "idx");
        mnemonic_has(m, "uni");
        branch_indexed(l, s);
    } else if (!strcmp(base, "call")) {
        mnemonic_has(m, "uni");
        call(l, s);
    } else if (!strcmp(base, "ret") && l->depth) {
        mnemonic_has(m, "uni");
        lower_emit(l, PTX_OP_BRANCH);
        want_label(l, RETURN_LABEL, l->code->op_count - 1, false);
    } else if (!strcmp(base, "ret") || !strcmp(base, "exit")) {
        mnemonic_has(m, "uni");
        lower_emit(l, PTX_OP_EXIT);
    } else if (!strcmp(base, "trap") || !strcmp(base, "brkpt")) {
        lower_emit(l, PTX_OP_TRAP);
    } else {
        return false;
    }
    return true;
}

static void instruction(struct lower *l, const struct ptx_statement *s)
{
    struct mnemonic m;
    mnemonic_cut(l, &m, s->name);
    l->statement = s;
    l->guard = PTX_NO_ROW;
    l->guard_negate = false;
    if (s->guard) {
        struct ptx_operand o = {.kind = PTX_OPERAND_NAME, .name = s->guard};
        uint32_t guard = lower_register(l, &o);
        if (guard == PTX_NO_ROW || lower_width(l, guard) != 1)
            lower_fail(l, -EINVAL, "`%s' is not a predicate", s->guard);
        /* what one instruction becomes must not change its own guard half way */
        for (uint32_t i = 0; i < s->count; i++)
            if ((s->operands[i].kind == PTX_OPERAND_NAME || s->operands[i].kind == PTX_OPERAND_PAIR) &&
                (!strcmp(s->operands[i].name, s->guard) ||
                 (s->operands[i].second && !strcmp(s->operands[i].second, s->guard)))) {
                guard = lower_alu(l, PTX_NO_ROW, "mov.pred", guard, PTX_NO_ROW, PTX_NO_ROW);
                break;
            }
        l->guard = guard;
        l->guard_negate = s->guard_negate;
    }
    if (!control(l, &m, s) && !lower_move(l, &m, s) && !lower_memory(l, &m, s) && !lower_integer(l, &m, s) &&
        !lower_compare(l, &m, s) && !lower_float(l, &m, s) && !lower_convert(l, &m, s) &&
        !lower_warp(l, &m, s))
        lower_fail(l, -ENOSYS, "unknown opcode `%s'", s->name);
    for (uint32_t i = 0; i < m.count; i++)
        if (!(m.used >> i & 1))
            lower_fail(l, -ENOSYS, "unknown opcode `%s' (`.%s' is not understood)", s->name, m.part[i]);
    l->guard = PTX_NO_ROW;
    l->guard_negate = false;
}

static void lower_body(struct lower *l, const struct ptx_function *f)
{
    for (const struct ptx_statement *s = f->body; s; s = s->next) {
        l->line = s->line;
        switch (s->kind) {
        case PTX_STATEMENT_INSTRUCTION:
            instruction(l, s);
            break;
        case PTX_STATEMENT_LABEL:
            declare_label(l, s->name);
            break;
        case PTX_STATEMENT_REGISTERS:
            declare_registers(l, s);
            break;
        case PTX_STATEMENT_VARIABLE:
            declare_variable(l, s->variable);
            break;
        case PTX_STATEMENT_OPEN:
            open_scope(l, false);
            break;
        case PTX_STATEMENT_CLOSE:
            close_scope(l);
            break;
        case PTX_STATEMENT_TARGETS: {
            struct lower_symbol none = {0};
            declare_symbol(l, s->name, &none);
            l->scope->names->targets = s;
            break;
        }
        }
    }
}

static void parameters(struct lower *l, const struct ptx_function *f)
{
    struct ptx_kernel *k = &l->code->pub;
    uint32_t count = 0;
    for (const struct ptx_variable *v = f->params; v; v = v->next)
        count++;
    struct ptx_param *params = calloc(count + 1, sizeof *params);
    if (!params)
        lower_fail(l, -ENOMEM, "out of memory");
    k->params = params;
    k->param_count = count;
    for (const struct ptx_variable *v = f->params; v; v = v->next, params++) {
        params->offset = reserve(l, &k->param_bytes, v);
        params->size = k->param_bytes - params->offset;
        params->align = v->align;
        struct lower_symbol symbol = {.space = PTX_PARAM, .offset = params->offset};
        declare_symbol(l, v->name, &symbol);
    }
}

int ptx_lower_kernel(struct ptx_module *module, struct ptx_tree *tree, const struct ptx_function *function,
                     struct ptx_code **out, char *error, size_t error_size)
{
    struct ptx_code *code = calloc(1, sizeof *code);
    struct lower *l = calloc(1, sizeof *l);
    volatile int status = -ENOMEM;
    if (!code || !l)
        goto fail;
    *l = (struct lower){.module = module,
                        .tree = tree,
                        .code = code,
                        .line = function->line,
                        .guard = PTX_NO_ROW,
                        .carry = PTX_NO_ROW,
                        .error = error,
                        .error_size = error_size};
    if (setjmp(l->fail)) {
        status = l->status;
        goto fail;
    }
    code->pub.name = strdup(function->name);
    if (!code->pub.name)
        goto fail;
    code->pub.module = module;
    memcpy(code->pub.reqntid, function->reqntid, sizeof function->reqntid);
    memcpy(code->pub.maxntid, function->maxntid, sizeof function->maxntid);
    open_scope(l, false); /* the root: shared variables of the module end up here */
    open_scope(l, true);
    parameters(l, function);
    lower_body(l, function);
    /* a jump to the end of the text is a return */
    l->guard = PTX_NO_ROW;
    l->guard_negate = false;
    lower_emit(l, PTX_OP_EXIT);
    close_scope(l);
    code->pub.shared_bytes = l->shared_bytes;
    code->pub.local_bytes = (l->local_bytes + 15) & ~15u;
    for (uint32_t i = 0; i < l->dynamic_count; i++)
        code->rows[l->dynamic_rows[i]].value += ptx_dynamic_shared_start(&code->pub);
    status = ptx_code_finish(code);
    if (status)
        goto fail;
    free(l);
    *out = code;
    return 0;
fail:
    if (status == -ENOMEM && error_size)
        snprintf(error, error_size, "out of memory");
    ptx_code_free(code);
    free(l);
    return status;
}
