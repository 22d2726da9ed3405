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

/* Whatever may run after an operation. */
static void push_successors(struct flow *f, uint32_t at)
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
static void mark_region(struct flow *f, uint32_t branch)
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

/*
 * Operations of the first straight line that depend on parameters and constants alone give the same in every
 * block: they move to the front and run once a launch, ops[0] to ops[entry - 1]. Their rows are written
 * nowhere else.
 */
static int hoist(struct flow *f, bool *invariant, const bool *target)
{
    struct ptx_code *code = f->code;
    uint32_t end = 0, front = 0, rest = 0;
    while (end < code->op_count && code->ops[end].kind < PTX_OP_BRANCH && !target[end])
        end++;
    struct ptx_op *moved = malloc((end + 1) * sizeof *moved);
    if (!moved)
        return -ENOMEM;
    for (uint32_t i = 0; i < end; i++) {
        struct ptx_op op = code->ops[i];
        struct uses u = uses_of(&op);
        bool all = (op.flags & PTX_FLAG_UNIFORM) && op.guard == PTX_NO_ROW &&
                   (op.kind == PTX_OP_PARAM || op.kind == PTX_OP_ALU);
        for (uint32_t k = 0; k < u.sources; k++)
            all = all && (invariant[u.source[k]] || code->rows[u.source[k]].constant);
        for (uint32_t k = 0; k < u.dests; k++)
            all = all && f->writes[u.dest[k]] == 1;
        for (uint32_t k = 0; k < u.dests && all; k++)
            invariant[u.dest[k]] = true;
        if (all)
            code->ops[front++] = op; /* front never passes i */
        else
            moved[rest++] = op;
    }
    memcpy(code->ops + front, moved, rest * sizeof *moved);
    free(moved);
    code->entry = front;
    return 0;
}

enum { ROW_UNSEEN = UINT32_MAX, ROW_EVERYWHERE = UINT32_MAX - 1 };

/* The blocks between which groups of lanes change. starts[i]: operation i begins one. */
static void find_starts(const struct ptx_code *code, const bool *target, bool *starts)
{
    for (uint32_t i = 0; i < code->op_count; i++)
        starts[i] = i == 0 || i == code->entry || target[i] || code->ops[i - 1].kind >= PTX_OP_BRANCH;
}

static void note_block(uint32_t *home, uint32_t row, uint32_t block)
{
    if (home[row] == ROW_UNSEEN)
        home[row] = block;
    else if (home[row] != block)
        home[row] = ROW_EVERYWHERE;
}

static uint32_t width_class(uint32_t width)
{
    return width == 8 ? 3 : width >> 1;
}

/*
 * Rows that live inside one block share room with others: groups change only between blocks, so what one
 * group leaves in such a row nobody reads. The last use of each is found backwards, room is handed out
 * forwards; the room of an operation's sources is free for the operations behind it, not for its own results.
 */
static int lay_out(struct flow *f, const bool *invariant, const bool *target)
{
    struct ptx_code *code = f->code;
    uint32_t rows = code->row_count, ops = code->op_count, block = 0, tops[4] = {0, 0, 0, 0};
    uint64_t offset = 0;
    uint32_t *home = malloc((rows + 1) * sizeof *home), *last = calloc(rows + 1, sizeof *last);
    uint32_t *pool[4] = {NULL, NULL, NULL, NULL};
    bool *starts = calloc(ops + 1, sizeof *starts), *written = calloc(rows + 1, sizeof *written);
    bool *placed = calloc(rows + 1, sizeof *placed);
    int status = -ENOMEM;
    for (int k = 0; k < 4; k++)
        pool[k] = malloc((rows + 1) * sizeof **pool);
    if (!home || !last || !starts || !written || !placed || !pool[0] || !pool[1] || !pool[2] || !pool[3])
        goto out;
    find_starts(code, target, starts);
    for (uint32_t i = 0; i < rows; i++)
        home[i] = code->rows[i].constant || invariant[i] ? ROW_EVERYWHERE : ROW_UNSEEN;
    for (uint32_t i = 0; i < ops; i++) {
        struct uses u = uses_of(&code->ops[i]);
        block += starts[i];
        if (code->ops[i].guard != PTX_NO_ROW)
            u.source[u.sources++] = code->ops[i].guard;
        for (uint32_t k = 0; k < u.sources; k++) {
            note_block(home, u.source[k], block);
            last[u.source[k]] = i;
            if (!written[u.source[k]])
                home[u.source[k]] =
                    ROW_EVERYWHERE; /* read before it is written here: it comes from elsewhere */
        }
        for (uint32_t k = 0; k < u.dests; k++) {
            note_block(home, u.dest[k], block);
            if (last[u.dest[k]] < i)
                last[u.dest[k]] = i;
            /* a guarded write keeps what was there */
            if (code->ops[i].guard == PTX_NO_ROW)
                written[u.dest[k]] = true;
            else if (!written[u.dest[k]])
                home[u.dest[k]] = ROW_EVERYWHERE;
        }
    }
    for (uint32_t i = 0; i < rows; i++) {
        if (home[i] == ROW_UNSEEN && !code->rows[i].constant)
            continue; /* declared and not used */
        if (home[i] != ROW_EVERYWHERE)
            continue;
        code->rows[i].offset = (uint32_t)offset;
        placed[i] = true;
        offset += (uint64_t)code->rows[i].width * PTX_LANES;
        if (offset > UINT32_MAX / 4)
            goto out;
    }
    for (uint32_t i = 0; i < ops; i++) {
        struct uses u = uses_of(&code->ops[i]);
        if (code->ops[i].guard != PTX_NO_ROW)
            u.source[u.sources++] = code->ops[i].guard;
        for (uint32_t k = 0; k < u.dests; k++) {
            uint32_t row = u.dest[k], class = width_class(code->rows[row].width);
            if (placed[row])
                continue;
            placed[row] = true;
            if (tops[class]) {
                code->rows[row].offset = pool[class][--tops[class]];
                continue;
            }
            code->rows[row].offset = (uint32_t)offset;
            offset += (uint64_t)code->rows[row].width * PTX_LANES;
            if (offset > UINT32_MAX / 4)
                goto out;
        }
        uint32_t all[12], n = 0;
        for (uint32_t k = 0; k < u.sources; k++)
            all[n++] = u.source[k];
        for (uint32_t k = 0; k < u.dests; k++)
            all[n++] = u.dest[k];
        for (uint32_t k = 0; k < n; k++) {
            uint32_t row = all[k];
            if (home[row] == ROW_EVERYWHERE || last[row] != i)
                continue;
            last[row] = UINT32_MAX; /* once, if it is named twice */
            uint32_t class = width_class(code->rows[row].width);
            pool[class][tops[class]++] = code->rows[row].offset;
        }
    }
    code->scratch = (uint32_t)offset;
    code->file_bytes = (uint32_t)offset + 8 * PTX_LANES;
    status = 0;
out:
    free(home);
    free(last);
    free(starts);
    free(written);
    free(placed);
    for (int k = 0; k < 4; k++)
        free(pool[k]);
    return status;
}

static uint32_t offset_of(const struct ptx_code *code, uint32_t row)
{
    return row == PTX_NO_ROW ? PTX_NO_ROW : code->rows[row].offset;
}

static void to_offsets(struct ptx_code *code)
{
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
    struct flow f = {.code = code};
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
            struct uses u = uses_of(&code->ops[i]);
            for (uint32_t k = 0; k < u.dests; k++)
                f.writes[u.dest[k]]++;
        }
        find_varying(&f);
        set_flags(&f, spread);
        find_targets(code, target);
        status = hoist(&f, invariant, target);
        if (!status)
            status = lay_out(&f, invariant, target);
        if (!status)
            to_offsets(code);
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
