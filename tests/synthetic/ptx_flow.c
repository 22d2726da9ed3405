/*
 * ptx_flow.c - what can be known of a kernel before it runs: which operations are uniform.
 *
 * Uniform means: the same value in all lanes that are active when the operation runs. Lanes that diverge run
 * lowest operation first (ptx_run.c), so the lanes split by a branch meet again at the first operation J that
 * all their paths reach and that lies behind everything on those paths; until J they are apart. A register
 * that is written once, from uniform operands, is uniform even where lanes are apart: its operands do not
 * change before they meet. One that is written at several places is not, if one of them lies where lanes are
 * apart.
 */
#include "ptx_flow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void add(uint32_t *list, uint32_t *count, uint32_t row)
{
    if (row != PTX_NO_ROW)
        list[(*count)++] = row;
}

struct ptx_uses ptx_uses_of(const struct ptx_op *op)
{
    struct ptx_uses u = {.sources = 0};
    switch ((enum ptx_op_kind)op->kind) {
    case PTX_OP_ALU:
    case PTX_OP_ATOMIC:
    case PTX_OP_SHUFFLE:
    case PTX_OP_VOTE:
    case PTX_OP_SWITCH:
    case PTX_OP_SPECIAL:
        add(u.source, &u.sources, op->a);
        add(u.source, &u.sources, op->b);
        add(u.source, &u.sources, op->c);
        add(u.dest, &u.dests, op->d);
        add(u.dest, &u.dests, op->more[0]);
        break;
    case PTX_OP_LOAD:
    case PTX_OP_PARAM:
        add(u.source, &u.sources, op->a);
        add(u.dest, &u.dests, op->d);
        for (int i = 0; i < 3; i++)
            add(u.dest, &u.dests, op->more[i]);
        break;
    case PTX_OP_STORE:
        add(u.source, &u.sources, op->a);
        add(u.source, &u.sources, op->d);
        for (int i = 0; i < 3; i++)
            add(u.source, &u.sources, op->more[i]);
        break;
    case PTX_OP_BRANCH:
    case PTX_OP_BARRIER:
    case PTX_OP_EXIT:
    case PTX_OP_TRAP:
        break;
    }
    return u;
}

static void heap_push(struct ptx_flow *f, uint32_t op)
{
    if (op >= f->code->op_count || f->in_heap[op])
        return;
    f->in_heap[op] = 1;
    uint32_t at = f->heap_count++;
    while (at && f->heap[(at - 1) / 2] > op) {
        f->heap[at] = f->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    f->heap[at] = op;
}

static uint32_t heap_pop(struct ptx_flow *f)
{
    uint32_t top = f->heap[0], last = f->heap[--f->heap_count], at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= f->heap_count)
            break;
        if (child + 1 < f->heap_count && f->heap[child + 1] < f->heap[child])
            child++;
        if (f->heap[child] >= last)
            break;
        f->heap[at] = f->heap[child];
        at = child;
    }
    f->heap[at] = last;
    return top;
}

/* Whatever may run after an operation. */
static void push_successors(struct ptx_flow *f, uint32_t at)
{
    const struct ptx_op *op = &f->code->ops[at];
    bool ends = op->kind == PTX_OP_BRANCH || op->kind == PTX_OP_EXIT || op->kind == PTX_OP_TRAP;
    if (op->kind == PTX_OP_BRANCH)
        heap_push(f, op->target);
    if (op->kind == PTX_OP_SWITCH)
        for (uint64_t i = 0; i < op->imm; i++)
            heap_push(f, f->code->targets[op->target + i]);
    if (!ends || op->guard != PTX_NO_ROW)
        heap_push(f, at + 1);
}

/*
 * Runs the schedule in the abstract from a branch that splits: everything visited before only one place is
 * left. Lanes that wait at a barrier let those behind them go first, so a region with a barrier in it has no
 * end.
 */
static void mark_region(struct ptx_flow *f, uint32_t branch)
{
    uint32_t count = 0, highest = 0;
    bool endless = false;
    push_successors(f, branch);
    while (f->heap_count) {
        if (f->heap_count == 1 && f->heap[0] >= highest && !endless)
            break;
        uint32_t at = heap_pop(f);
        f->in_heap[at] = 2;
        f->visited[count++] = at;
        f->apart[at] = true;
        endless |= f->code->ops[at].kind == PTX_OP_BARRIER;
        if (at > highest)
            highest = at;
        push_successors(f, at);
    }
    if (f->heap_count)
        f->in_heap[heap_pop(f)] = 0;
    for (uint32_t i = 0; i < count; i++)
        f->in_heap[f->visited[i]] = 0;
}

static bool any_varying(const struct ptx_flow *f, const uint32_t *rows, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (f->varying[rows[i]])
            return true;
    return false;
}

/* Whether each lane computes for itself, operands apart. */
static bool by_nature(const struct ptx_op *op, bool apart)
{
    switch ((enum ptx_op_kind)op->kind) {
    case PTX_OP_ATOMIC:
    case PTX_OP_SHUFFLE:
    case PTX_OP_VOTE:
        return true;
    case PTX_OP_SPECIAL:
        return op->code < PTX_FIRST_UNIFORM || (op->code == PTX_CLOCK && apart);
    case PTX_OP_LOAD:
        /* generic addresses may be local */
        return op->space == PTX_LOCAL || op->space == PTX_GENERIC ||
               (apart && !(op->flags & PTX_FLAG_CONSTANT));
    case PTX_OP_STORE:
        return op->space == PTX_LOCAL || op->space == PTX_GENERIC;
    default:
        return false;
    }
}

static bool varies(const struct ptx_flow *f, const struct ptx_op *op, const struct ptx_uses *u, uint32_t at)
{
    return by_nature(op, f->apart[at]) || any_varying(f, u->source, u->sources) ||
           (op->guard != PTX_NO_ROW && f->varying[op->guard]);
}

static void find_varying(struct ptx_flow *f)
{
    struct ptx_code *code = f->code;
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < code->op_count; i++) {
            const struct ptx_op *op = &code->ops[i];
            struct ptx_uses u = ptx_uses_of(op);
            bool vary = varies(f, op, &u, i);
            if ((op->kind == PTX_OP_BRANCH || op->kind == PTX_OP_SWITCH || op->kind == PTX_OP_EXIT) && vary &&
                !f->split[i]) {
                f->split[i] = true;
                if (op->kind != PTX_OP_EXIT)
                    mark_region(f, i);
                changed = true;
            }
            for (uint32_t k = 0; k < u.dests; k++) {
                uint32_t d = u.dest[k];
                if (!f->varying[d] && (vary || (f->apart[i] && f->writes[d] > 1))) {
                    f->varying[d] = true;
                    changed = true;
                }
            }
        }
    }
}

/* An operation is uniform if all it touches is; what reads a uniform row lane by lane needs it spread. */
static void set_flags(struct ptx_flow *f, bool *spread)
{
    struct ptx_code *code = f->code;
    for (uint32_t i = 0; i < code->op_count; i++) {
        struct ptx_op *op = &code->ops[i];
        struct ptx_uses u = ptx_uses_of(op);
        bool uniform = !varies(f, op, &u, i) && !any_varying(f, u.dest, u.dests);
        if (op->guard != PTX_NO_ROW && !f->varying[op->guard])
            op->flags |= PTX_FLAG_GUARD_UNIFORM;
        if (uniform) {
            op->flags |= PTX_FLAG_UNIFORM;
            continue;
        }
        for (uint32_t k = 0; k < u.sources; k++)
            spread[u.source[k]] = true;
    }
    for (uint32_t i = 0; i < code->op_count; i++) {
        struct ptx_op *op = &code->ops[i];
        struct ptx_uses u = ptx_uses_of(op);
        for (uint32_t k = 0; k < u.dests; k++)
            if (spread[u.dest[k]])
                op->flags |= PTX_FLAG_SPREAD;
    }
}

static void find_targets(const struct ptx_code *code, bool *target)
{
    for (uint32_t i = 0; i < code->op_count; i++)
        if (code->ops[i].kind == PTX_OP_BRANCH)
            target[code->ops[i].target] = true;
    for (uint32_t i = 0; i < code->target_count; i++)
        target[code->targets[i]] = true;
}

int ptx_code_finish(struct ptx_code *code)
{
    int status = -ENOMEM;
    uint32_t ops = code->op_count, rows = code->row_count;
    struct ptx_flow f = {.code = code};
    bool *spread = calloc(rows + 1, sizeof *spread), *invariant = calloc(rows + 1, sizeof *invariant);
    bool *target = calloc(ops + 1, sizeof *target);
    f.varying = calloc(rows + 1, sizeof *f.varying);
    f.writes = calloc(rows + 1, sizeof *f.writes);
    f.apart = calloc(ops, sizeof *f.apart);
    f.split = calloc(ops, sizeof *f.split);
    f.heap = calloc(ops + 1, sizeof *f.heap);
    f.in_heap = calloc(ops, sizeof *f.in_heap);
    f.visited = calloc(ops, sizeof *f.visited);
    if (spread && invariant && target && f.varying && f.writes && f.apart && f.split && f.heap && f.in_heap &&
        f.visited) {
        for (uint32_t i = 0; i < ops; i++) {
            struct ptx_uses u = ptx_uses_of(&code->ops[i]);
            for (uint32_t k = 0; k < u.dests; k++)
                f.writes[u.dest[k]]++;
        }
        find_varying(&f);
        set_flags(&f, spread);
        find_targets(code, target);
        status = ptx_flow_hoist(&f, invariant, target);
        if (!status)
            status = ptx_flow_lay_out(&f, invariant, target);
        if (!status)
            ptx_flow_to_offsets(code);
    }
    free(spread);
    free(invariant);
    free(target);
    free(f.varying);
    free(f.writes);
    free(f.apart);
    free(f.split);
    free(f.heap);
    free(f.in_heap);
    free(f.visited);
    return status;
}

void ptx_code_free(struct ptx_code *code)
{
    if (!code)
        return;
    free((char *)code->pub.name);
    free((void *)code->pub.params);
    free(code->ops);
    free(code->rows);
    free(code->targets);
    free(code);
}
