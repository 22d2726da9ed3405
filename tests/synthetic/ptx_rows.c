/*
 * ptx_rows.c - where rows lie: what is computed once a launch, which rows share room, numbers to offsets.
 */
#include "ptx_flow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Operations of the first straight line that depend on parameters and constants alone give the same in every
 * block: they move to the front and run once a launch, ops[0] to ops[entry - 1]. Their rows are written
 * nowhere else.
 */
int ptx_flow_hoist(struct ptx_flow *f, bool *invariant, const bool *target)
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
        struct ptx_uses u = ptx_uses_of(&op);
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
int ptx_flow_lay_out(struct ptx_flow *f, const bool *invariant, const bool *target)
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
        struct ptx_uses u = ptx_uses_of(&code->ops[i]);
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
        struct ptx_uses u = ptx_uses_of(&code->ops[i]);
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

void ptx_flow_to_offsets(struct ptx_code *code)
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
