/*
 * ptx_lower_names.c - what a name stands for: registers, variables, labels, and the scopes they live in.
 *
 * Inner scopes hide outer ones; a called function sees nothing of its caller but what the call declares for
 * it. Labels are settled when their scope ends, so that jumps may go forward.
 */
#include "ptx_lower.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

uint32_t lower_find_register(struct lower *l, const char *name)
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

void lower_declare_registers(struct lower *l, const struct ptx_statement *s)
{
    struct lower_register *r = lower_take(l, sizeof *r);
    *r = (struct lower_register){.name = s->name, .length = strlen(s->name), .count = s->count};
    r->first = l->code->row_count;
    uint32_t n = s->count ? s->count : 1;
    for (uint32_t i = 0; i < n; i++)
        lower_row(l, lower_type_width(s->type));
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
uint32_t lower_special(struct lower *l, const char *name)
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

static uint64_t align_up(uint64_t value, uint64_t to)
{
    return (value + to - 1) & ~(to - 1);
}

void lower_declare_symbol(struct lower *l, const char *name, const struct lower_symbol *symbol)
{
    struct lower_named *n = lower_take(l, sizeof *n);
    n->name = name;
    n->symbol = *symbol;
    n->next = l->scope->names;
    l->scope->names = n;
}

uint32_t lower_reserve(struct lower *l, uint32_t *bytes, const struct ptx_variable *v)
{
    uint64_t start = align_up(*bytes, v->align), size = v->count * ptx_type_size(v->type);
    if (size > UINT32_MAX / 2 || start + size > UINT32_MAX / 2)
        lower_fail(l, -EINVAL, "`%s' is too large", v->name);
    *bytes = (uint32_t)(start + size);
    return (uint32_t)start;
}

/* .shared, .local and .param variables of a function; a .param one is a call's and lives in local memory. */
void lower_declare_variable(struct lower *l, const struct ptx_variable *v)
{
    struct lower_symbol symbol = {.space = v->space, .dynamic = v->unsized};
    if (v->space == PTX_SHARED)
        symbol.offset = v->unsized ? 0 : lower_reserve(l, &l->shared_bytes, v);
    else
        symbol.offset = lower_reserve(l, &l->local_bytes, v);
    if (v->space == PTX_PARAM)
        symbol.space = PTX_LOCAL;
    lower_declare_symbol(l, v->name, &symbol);
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
            lower_declare_variable(l, v);
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
    uint32_t *rows = lower_take(l, (l->dynamic_count + 1) * sizeof *rows);
    if (l->dynamic_count)
        memcpy(rows, l->dynamic_rows, l->dynamic_count * sizeof *rows);
    rows[l->dynamic_count++] = row;
    l->dynamic_rows = rows;
    return row;
}

void lower_open_scope(struct lower *l, bool function)
{
    struct lower_scope *s = lower_take(l, sizeof *s);
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

void lower_declare_label(struct lower *l, const char *name)
{
    struct lower_scope *s = l->scope;
    if (!s->labels)
        s->labels = lower_take(l, LABEL_SLOTS * sizeof *s->labels);
    struct lower_label *label = lower_take(l, sizeof *label),
                       **slot = &s->labels[name_hash(name) % LABEL_SLOTS];
    *label = (struct lower_label){.name = name, .op = l->code->op_count, .next = *slot};
    *slot = label;
}

void lower_want_label(struct lower *l, const char *name, uint32_t op, bool in_targets)
{
    struct lower_fixup *f = lower_take(l, sizeof *f);
    *f = (struct lower_fixup){
        .name = name, .op = op, .line = l->line, .in_targets = in_targets, .next = l->scope->fixups};
    l->scope->fixups = f;
}

/* Labels are known in their scope and those inside it: what is not found moves outward. */
void lower_close_scope(struct lower *l)
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

/* The list that a .branchtargets gave a name to, or NULL. */
const struct ptx_statement *lower_find_targets(struct lower *l, const char *name)
{
    struct lower_named *n = find_named(l, name);
    return n ? n->targets : NULL;
}

void lower_declare_targets(struct lower *l, const struct ptx_statement *s)
{
    const struct lower_symbol none = {0};
    lower_declare_symbol(l, s->name, &none);
    l->scope->names->targets = s;
}
