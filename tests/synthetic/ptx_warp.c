/*
 * ptx_warp.c - operations in which lanes see each other or themselves: shuffles, votes, special registers.
 */
#include "ptx_run.h"

#include <string.h>

static bool active(const struct ptx_lanes *lanes, uint32_t lane)
{
    return lane >= lanes->lo && lane < lanes->hi && (!lanes->mask || lanes->mask[lane]);
}

/*
 * shfl (PTX ISA, "shfl.sync"): c holds the clamp in its low five bits and the segment mask above. All lanes
 * read before any writes. A source lane that is not active has an undefined value there; here it is what its
 * register holds.
 */
void ptx_shuffle_run(struct ptx_exec *x, const struct ptx_op *op, const struct ptx_lanes *lanes)
{
    struct ptx_chunk *chunk = x->chunk;
    const uint32_t *a = (const uint32_t *)(chunk->rows + op->a), *b = (const uint32_t *)(chunk->rows + op->b);
    const uint32_t *c = (const uint32_t *)(chunk->rows + op->c);
    uint32_t from[PTX_LANES], value[PTX_LANES];
    uint8_t valid[PTX_LANES];
    for (uint32_t i = lanes->lo; i < lanes->hi; i++) {
        uint32_t lane = i % PTX_WARP, by = b[i] & 0x1f, clamp = c[i] & 0x1f, segment = c[i] >> 8 & 0x1f;
        uint32_t top = (lane & segment) | (clamp & ~segment), bottom = lane & segment;
        uint32_t j;
        bool good;
        switch ((enum ptx_shuffle)op->code) {
        case PTX_SHFL_UP:
            j = lane - by;
            good = (int32_t)j >= (int32_t)top;
            break;
        case PTX_SHFL_DOWN:
            j = lane + by;
            good = j <= top;
            break;
        case PTX_SHFL_BFLY:
            j = lane ^ by;
            good = j <= top;
            break;
        default:
            j = bottom | (by & ~segment);
            good = j <= top;
            break;
        }
        from[i] = i - lane + (good ? j : lane);
        valid[i] = good;
    }
    for (uint32_t i = lanes->lo; i < lanes->hi; i++)
        value[i] = a[from[i]];
    for (uint32_t i = lanes->lo; i < lanes->hi; i++) {
        if (lanes->mask && !lanes->mask[i])
            continue;
        if (op->d != PTX_NO_ROW)
            ((uint32_t *)(chunk->rows + op->d))[i] = value[i];
        if (op->more[0] != PTX_NO_ROW)
            ((uint8_t *)(chunk->rows + op->more[0]))[i] = valid[i];
    }
}

static uint64_t lane_value(const char *row, uint32_t lane, uint32_t width)
{
    uint64_t value = 0;
    memcpy(&value, row + (size_t)lane * width, width);
    return value;
}

void ptx_vote_run(struct ptx_exec *x, const struct ptx_op *op, const struct ptx_lanes *lanes)
{
    struct ptx_chunk *chunk = x->chunk;
    const uint8_t *p = (const uint8_t *)(chunk->rows + (op->a == PTX_NO_ROW ? 0 : op->a));
    for (uint32_t warp = lanes->lo / PTX_WARP * PTX_WARP; warp < lanes->hi; warp += PTX_WARP) {
        uint32_t members = 0, ballot = 0, results[PTX_WARP];
        uint8_t agreed[PTX_WARP] = {0};
        for (uint32_t k = 0; k < PTX_WARP; k++)
            if (active(lanes, warp + k))
                members |= 1u << k;
        if (op->code <= PTX_VOTE_BALLOT)
            for (uint32_t k = 0; k < PTX_WARP; k++)
                if (members >> k & 1 && p[warp + k])
                    ballot |= 1u << k;
        for (uint32_t k = 0; k < PTX_WARP; k++) {
            if (!(members >> k & 1))
                continue;
            uint32_t same = 0;
            switch ((enum ptx_vote)op->code) {
            case PTX_VOTE_ALL:
                results[k] = ballot == members;
                break;
            case PTX_VOTE_ANY:
                results[k] = ballot != 0;
                break;
            case PTX_VOTE_UNI:
                results[k] = ballot == 0 || ballot == members;
                break;
            case PTX_VOTE_BALLOT:
                results[k] = ballot;
                break;
            case PTX_ACTIVEMASK:
                results[k] = members;
                break;
            case PTX_MATCH_ANY:
            case PTX_MATCH_ALL:
                for (uint32_t j = 0; j < PTX_WARP; j++)
                    if (members >> j & 1 && lane_value(chunk->rows + op->a, warp + j, op->width) ==
                                                lane_value(chunk->rows + op->a, warp + k, op->width))
                        same |= 1u << j;
                agreed[k] = same == members;
                results[k] = op->code == PTX_MATCH_ANY ? same : agreed[k] ? members : 0;
                break;
            }
        }
        for (uint32_t k = 0; k < PTX_WARP; k++) {
            if (!(members >> k & 1))
                continue;
            memcpy(chunk->rows + op->d + (size_t)(warp + k) * op->row_width, &results[k], op->row_width);
            if (op->more[0] != PTX_NO_ROW)
                chunk->rows[op->more[0] + warp + k] = (char)agreed[k];
        }
    }
}

static uint64_t special(const struct ptx_exec *x, uint32_t code, uint32_t lane)
{
    const struct ptx_chunk *chunk = x->chunk;
    const uint32_t *block = x->launch->block, *grid = x->launch->grid;
    uint32_t thread = chunk->first + lane, in_warp = thread % PTX_WARP;
    switch ((enum ptx_special)code) {
    case PTX_TID_X:
        return thread % block[0];
    case PTX_TID_Y:
        return thread / block[0] % block[1];
    case PTX_TID_Z:
        return thread / block[0] / block[1];
    case PTX_LANEID:
        return in_warp;
    case PTX_WARPID:
        return thread / PTX_WARP;
    case PTX_LANEMASK_EQ:
        return 1u << in_warp;
    case PTX_LANEMASK_LE:
        return (2u << in_warp) - 1;
    case PTX_LANEMASK_LT:
        return (1u << in_warp) - 1;
    case PTX_LANEMASK_GE:
        return (uint32_t)(0 - (1u << in_warp));
    case PTX_LANEMASK_GT:
        return (uint32_t)(0 - (2u << in_warp));
    case PTX_NTID_X:
        return block[0];
    case PTX_NTID_Y:
        return block[1];
    case PTX_NTID_Z:
        return block[2];
    case PTX_CTAID_X:
        return x->ctaid[0];
    case PTX_CTAID_Y:
        return x->ctaid[1];
    case PTX_CTAID_Z:
        return x->ctaid[2];
    case PTX_NCTAID_X:
        return grid[0];
    case PTX_NCTAID_Y:
        return grid[1];
    case PTX_NCTAID_Z:
        return grid[2];
    case PTX_NWARPID:
        return (x->block_threads + PTX_WARP - 1) / PTX_WARP;
    case PTX_NSMID:
        return 1;
    case PTX_CLOCK:
        return chunk->clock;
    case PTX_DYNAMIC_SHARED:
        return x->launch->dynamic_shared_bytes;
    case PTX_TOTAL_SHARED:
        return x->shared_bytes;
    case PTX_GRIDID:
    case PTX_SMID:
    case PTX_ZERO:
        return 0;
    }
    return 0;
}

void ptx_special_run(struct ptx_exec *x, const struct ptx_op *op, const struct ptx_lanes *lanes)
{
    char *row = x->chunk->rows + op->d;
    if (op->code >= PTX_FIRST_UNIFORM || lanes->mask) {
        for (uint32_t i = lanes->lo; i < lanes->hi; i++) {
            uint64_t value = special(x, op->code, i);
            if (!lanes->mask || lanes->mask[i])
                memcpy(row + (size_t)i * op->row_width, &value, op->row_width);
        }
        return;
    }
    if (op->code == PTX_TID_X && x->launch->block[1] == 1 && x->launch->block[2] == 1) {
        /* Copies: what d points to might be these, and the loop would be one lane at a time. */
        const uint32_t first = x->chunk->first, end = lanes->hi;
        uint32_t *d = (uint32_t *)row;
        for (uint32_t i = lanes->lo; i < end; i++)
            d[i] = first + i;
        return;
    }
    for (uint32_t i = lanes->lo; i < lanes->hi; i++)
        ((uint32_t *)row)[i] = (uint32_t)special(x, op->code, i);
}
