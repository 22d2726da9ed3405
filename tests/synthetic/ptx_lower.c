/*
 * ptx_lower.c - a kernel's statements to operations: control flow, calls, the kernel as a whole.
 *
 * A call is lowered by lowering the callee in place with registers of its own (compilers emit few calls, and
 * recursion is refused); its parameters live in per-thread local memory, as does everything in .local.
 */
#include "ptx_lower.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALL_DEPTH_LIMIT = 16 };

/* Where a callee's ret goes: no PTX name begins with a blank. */
#define RETURN_LABEL " return"

static void lower_body(struct lower *l, const struct ptx_function *f);

static void branch(struct lower *l, const struct ptx_statement *s)
{
    lower_expect(l, s, 1, 1);
    if (s->operands[0].kind != PTX_OPERAND_NAME)
        lower_fail(l, -EINVAL, "a label expected");
    lower_emit(l, PTX_OP_BRANCH);
    lower_want_label(l, s->operands[0].name, l->code->op_count - 1, false);
}

/* brx.idx index, targets; */
static void branch_indexed(struct lower *l, const struct ptx_statement *s)
{
    lower_expect(l, s, 2, 2);
    const struct ptx_statement *list =
        s->operands[1].kind == PTX_OPERAND_NAME ? lower_find_targets(l, s->operands[1].name) : NULL;
    if (!list)
        lower_fail(l, -EINVAL, "brx.idx without its list of targets");
    uint32_t row = lower_source(l, &s->operands[0], PTX_U32), first = l->code->target_count;
    uint32_t count = list->count;
    uint32_t *targets = realloc(l->code->targets, (first + count) * sizeof *targets);
    if (!targets)
        lower_fail(l, -ENOMEM, "out of memory");
    memset(targets + first, 0, count * sizeof *targets);
    l->code->targets = targets;
    l->code->target_count += count;
    for (uint32_t i = 0; i < count; i++) {
        if (list->operands[i].kind != PTX_OPERAND_NAME)
            lower_fail(l, -EINVAL, "a label expected");
        lower_want_label(l, list->operands[i].name, first + i, true);
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
    if (lower_find_register(l, name) != PTX_NO_ROW)
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
    lower_open_scope(l, true);
    for (int i = 0; i < 2; i++) {
        const struct ptx_variable *v = formal[i];
        for (uint32_t k = 0; v; k++, v = v->next)
            lower_declare_symbol(l, v->name, &symbols[i][k]);
    }
    lower_body(l, f);
    lower_declare_label(l, RETURN_LABEL);
    lower_close_scope(l);
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
        lower_want_label(l, RETURN_LABEL, l->code->op_count - 1, false);
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
            lower_declare_label(l, s->name);
            break;
        case PTX_STATEMENT_REGISTERS:
            lower_declare_registers(l, s);
            break;
        case PTX_STATEMENT_VARIABLE:
            lower_declare_variable(l, s->variable);
            break;
        case PTX_STATEMENT_OPEN:
            lower_open_scope(l, false);
            break;
        case PTX_STATEMENT_CLOSE:
            lower_close_scope(l);
            break;
        case PTX_STATEMENT_TARGETS:
            lower_declare_targets(l, s);
            break;
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
        params->offset = lower_reserve(l, &k->param_bytes, v);
        params->size = k->param_bytes - params->offset;
        params->align = v->align;
        struct lower_symbol symbol = {.space = PTX_PARAM, .offset = params->offset};
        lower_declare_symbol(l, v->name, &symbol);
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
    lower_open_scope(l, false); /* the root: shared variables of the module end up here */
    lower_open_scope(l, true);
    parameters(l, function);
    lower_body(l, function);
    /* a jump to the end of the text is a return */
    l->guard = PTX_NO_ROW;
    l->guard_negate = false;
    lower_emit(l, PTX_OP_EXIT);
    lower_close_scope(l);
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
