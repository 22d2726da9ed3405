/*
 * ptx_flow.c - what can be known of a kernel before it runs: which operations are uniform, where rows lie.
 *
 * Uniform means: the same value in all lanes that are active when the operation runs. Lanes that diverge run
 * lowest operation first (ptx_run.c), so the lanes split by a branch meet again at the first operation J that
 * all their paths reach and that lies behind everything on those paths; until J they are apart. A register
 * that is written once, from uniform operands, is uniform even where lanes are apart: its operands do not
 * change before they meet. One that is written at several places is not, if one of them lies where lanes are
 * apart.
 */
#include "ptx_ir.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct uses {
    uint32_t source[8], sources;
    uint32_t dest[4], dests;
};

static void add(uint32_t *list, uint32_t *count, uint32_t row)
{
    if (row != PTX_NO_ROW)
        list[(*count)++] = row;
}

static struct uses uses_of(const struct ptx_op *op)
{
    struct uses u = {.sources = 0};
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

/* Calls visit for every operation that may run after op. */
static uint32_t successors(const struct ptx_code *code, uint32_t at, uint32_t *out, uint32_t room)
{
    const struct ptx_op *op = &code->ops[at];
    uint32_t n = 0;
    bool guarded = op->guard != PTX_NO_ROW;
    if (op->kind == PTX_OP_BRANCH)
        out[n++] = op->target;
    if (op->kind == PTX_OP_SWITCH)
        for (uint32_t i = 0; i < op->imm && n < room - 1; i++)
            out[n++] = code->targets[op->target + i];
    bool ends = op->kind == PTX_OP_BRANCH || op->kind == PTX_OP_EXIT || op->kind == PTX_OP_TRAP;
    if (!ends || guarded)
        out[n++] = at + 1;
    return n;
}

struct flow {
    struct ptx_code *code;
    bool *varying;    /* by row */
    uint32_t *writes; /* by row: how many operations write it */
    bool *apart;      /* by operation: lanes may be apart here */
    bool *split;      /* by operation: a branch whose region is marked */
    uint32_t *heap;   /* operations to visit, lowest first */
    uint32_t heap_count;
    uint8_t *in_heap; /* by operation: 1 waiting, 2 visited, in the region being marked */
    uint32_t *visited;
};

static void heap_push(struct flow *f, uint32_t op)
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

static uint32_t heap_pop(struct flow *f)
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

/* Runs the schedule in the abstract from a branch that splits: everything visited before only one place is
 * left. */
static void mark_region(struct flow *f, uint32_t branch)
{
    uint32_t next[64], *list = next, n, count = 0, highest = 0;
    const struct ptx_op *op = &f->code->ops[branch];
    uint32_t room = op->kind == PTX_OP_SWITCH ? (uint32_t)op->imm + 2 : 4;
    if (room > 64)
        room = 64; /* more targets than that are treated as apart for good, below */
    n = successors(f->code, branch, list, room);
    for (uint32_t i = 0; i < n; i++)
        heap_push(f, list[i]);
    bool overflow = op->kind == PTX_OP_SWITCH && op->imm + 2 > 64;
    while (f->heap_count) {
        if (f->heap_count == 1 && f->heap[0] > highest && !overflow && count)
            break;
        if (f->heap_count == 1 && !count && !overflow)
            break; /* both ways lead to the same operation */
        uint32_t at = heap_pop(f);
        f->in_heap[at] = 2;
        f->visited[count++] = at;
        f->apart[at] = true;
        if (at > highest)
            highest = at;
        if (f->code->ops[at].kind == PTX_OP_SWITCH && f->code->ops[at].imm + 2 > 64) {
            for (uint64_t i = 0; i < f->code->ops[at].imm; i++)
                heap_push(f, f->code->targets[f->code->ops[at].target + i]);
            heap_push(f, at + 1);
            continue;
        }
        n = successors(f->code, at, list, 64);
        for (uint32_t i = 0; i < n; i++)
            heap_push(f, list[i]);
    }
    if (f->heap_count)
        f->in_heap[heap_pop(f)] = 0;
    for (uint32_t i = 0; i < count; i++)
        f->in_heap[f->visited[i]] = 0;
}

static bool any_varying(const struct flow *f, const uint32_t *rows, uint32_t count)
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

static bool varies(const struct flow *f, const struct ptx_op *op, const struct uses *u, uint32_t at)
{
    return by_nature(op, f->apart[at]) || any_varying(f, u->source, u->sources) ||
           (op->guard != PTX_NO_ROW && f->varying[op->guard]);
}

static void find_varying(struct flow *f)
{
    struct ptx_code *code = f->code;
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < code->op_count; i++) {
            const struct ptx_op *op = &code->ops[i];
            struct uses u = uses_of(op);
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
static void set_flags(struct flow *f, bool *spread)
{
    struct ptx_code *code = f->code;
    for (uint32_t i = 0; i < code->op_count; i++) {
        struct ptx_op *op = &code->ops[i];
        struct uses u = uses_of(op);
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
        struct uses u = uses_of(op);
        for (uint32_t k = 0; k < u.dests; k++)
            if (spread[u.dest[k]])
                op->flags |= PTX_FLAG_SPREAD;
    }
}

static uint32_t offset_of(const struct ptx_code *code, uint32_t row)
{
    return row == PTX_NO_ROW ? PTX_NO_ROW : code->rows[row].offset;
}

static int lay_out(struct ptx_code *code)
{
    uint64_t offset = 0;
    for (uint32_t i = 0; i < code->row_count; i++) {
        code->rows[i].offset = (uint32_t)offset;
        offset += (uint64_t)code->rows[i].width * PTX_LANES;
        if (offset > UINT32_MAX / 2)
            return -ENOMEM;
    }
    code->scratch = (uint32_t)offset;
    code->file_bytes = (uint32_t)offset + 8 * PTX_LANES;
    for (uint32_t i = 0; i < code->op_count; i++) {
        struct ptx_op *op = &code->ops[i];
        op->d = offset_of(code, op->d);
        op->a = offset_of(code, op->a);
        op->b = offset_of(code, op->b);
        op->c = offset_of(code, op->c);
        for (int k = 0; k < 3; k++)
            op->more[k] = offset_of(code, op->more[k]);
        op->guard = offset_of(code, op->guard);
    }
    return 0;
}

int ptx_code_finish(struct ptx_code *code)
{
    int status = -ENOMEM;
    uint32_t ops = code->op_count, rows = code->row_count;
    struct flow f = {.code = code};
    bool *spread = calloc(rows + 1, sizeof *spread);
    f.varying = calloc(rows + 1, sizeof *f.varying);
    f.writes = calloc(rows + 1, sizeof *f.writes);
    f.apart = calloc(ops, sizeof *f.apart);
    f.split = calloc(ops, sizeof *f.split);
    f.heap = calloc(ops + 1, sizeof *f.heap);
    f.in_heap = calloc(ops, sizeof *f.in_heap);
    f.visited = calloc(ops, sizeof *f.visited);
    if (spread && f.varying && f.writes && f.apart && f.split && f.heap && f.in_heap && f.visited) {
        for (uint32_t i = 0; i < ops; i++) {
            struct uses u = uses_of(&code->ops[i]);
            for (uint32_t k = 0; k < u.dests; k++)
                f.writes[u.dest[k]]++;
        }
        find_varying(&f);
        set_flags(&f, spread);
        status = lay_out(code);
    }
    free(spread);
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
