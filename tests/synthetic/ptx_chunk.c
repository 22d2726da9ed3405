/*
 * ptx_chunk.c - runs the lanes of one chunk up to a barrier or their end.
 *
 * The lanes at the lowest operation run as a group; where a branch splits them, the others wait with the
 * operation they come to, and join when the group gets there. Most operations find all lanes together, side
 * by side: those are one call of the function that loops over them. Lanes that are not side by side have
 * results computed into a scratch row first.
 */
#include "ptx_run.h"

#include <pthread.h>
#include <string.h>

static ptx_access_fn *load_run, *store_run;
static pthread_once_t access_once = PTHREAD_ONCE_INIT;

static void choose_access(void)
{
    int level = ptx_level();
    load_run = level == 4 ? ptx_access_load_v4 : level == 3 ? ptx_access_load_v3 : ptx_access_load_v2;
    store_run = level == 4 ? ptx_access_store_v4 : level == 3 ? ptx_access_store_v3 : ptx_access_store_v2;
}

/* Whether all lanes of the chunk can run, and from the same operation: at its start, and where all of them
 * have branched. */
static bool together(const struct ptx_chunk *c)
{
    uint32_t apart = 0;
    uint8_t stopped = 0;
    for (uint32_t i = 0; i < c->lanes; i++)
        stopped |= c->state[i] ^ PTX_LANE_RUN;
    for (uint32_t i = 0; !stopped && i < c->lanes; i++)
        apart |= c->pcs[i] ^ c->pcs[0];
    return !stopped && !apart;
}

static bool is_whole(const struct ptx_chunk *c)
{
    return c->dense && c->lo == 0 && c->hi == c->lanes;
}

/* The lanes to run next: those at the lowest operation. False when none can run. */
static bool regroup(struct ptx_chunk *c)
{
    const uint32_t lanes = c->lanes;
    uint32_t lowest = UINT32_MAX, next = UINT32_MAX, lo = 0, hi = lanes, members = 0;
    if (together(c)) {
        memset(c->mask, 1, lanes);
        c->pc = c->pcs[0];
        c->stop = UINT32_MAX;
        c->lo = 0;
        c->hi = lanes;
        c->dense = true;
        return true;
    }
    /* Each of these is a vector loop. */
    for (uint32_t i = 0; i < lanes; i++) {
        uint32_t pc = c->state[i] == PTX_LANE_RUN ? c->pcs[i] : UINT32_MAX;
        lowest = pc < lowest ? pc : lowest;
    }
    if (lowest == UINT32_MAX)
        return false;
    for (uint32_t i = 0; i < lanes; i++) {
        uint32_t pc = c->state[i] == PTX_LANE_RUN && c->pcs[i] != lowest ? c->pcs[i] : UINT32_MAX;
        next = pc < next ? pc : next;
    }
#pragma GCC ivdep
    for (uint32_t i = 0; i < lanes; i++) {
        uint8_t in = (c->state[i] == PTX_LANE_RUN) & (c->pcs[i] == lowest);
        c->mask[i] = in;
        members += in;
    }
    while (!c->mask[lo])
        lo++;
    while (!c->mask[hi - 1])
        hi--;
    c->pc = lowest;
    c->stop = next;
    c->lo = lo;
    c->hi = hi;
    c->dense = members == hi - lo;
    return true;
}

/* The group leaves: to pc, in a state. */
static void park(struct ptx_chunk *c, uint32_t pc, enum ptx_lane_state state)
{
    if (c->dense) {
        const uint32_t end = c->hi;
        for (uint32_t i = c->lo; i < end; i++)
            c->pcs[i] = pc;
        memset(c->state + c->lo, (int)state, c->hi - c->lo);
        return;
    }
    for (uint32_t i = c->lo; i < c->hi; i++)
        if (c->mask[i]) {
            c->pcs[i] = pc;
            c->state[i] = (uint8_t)state;
        }
}

static void blend(char *d, const char *from, const uint8_t *mask, uint32_t lo, uint32_t hi, uint32_t width)
{
#define BLEND(T)                                                                                             \
    for (uint32_t i = lo; i < hi; i++)                                                                       \
    ((T *)d)[i] = mask[i] ? ((const T *)from)[i] : ((const T *)d)[i]
    switch (width) {
    case 1:
        BLEND(uint8_t);
        break;
    case 2:
        BLEND(uint16_t);
        break;
    case 4:
        BLEND(uint32_t);
        break;
    default:
        BLEND(uint64_t);
        break;
    }
#undef BLEND
}

/* Lane 0 of a row to all lanes. */
void ptx_chunk_spread(char *row, uint32_t width)
{
#define SPREAD(T)                                                                                            \
    do {                                                                                                     \
        T value = *(const T *)row;                                                                           \
        for (uint32_t i = 0; i < PTX_LANES; i++)                                                             \
            ((T *)row)[i] = value;                                                                           \
    } while (0)
    switch (width) {
    case 1:
        memset(row, *row, PTX_LANES);
        break;
    case 2:
        SPREAD(uint16_t);
        break;
    case 4:
        SPREAD(uint32_t);
        break;
    default:
        SPREAD(uint64_t);
        break;
    }
#undef SPREAD
}

static void load_parameter(struct ptx_exec *x, const struct ptx_op *op, char *rows)
{
    for (uint32_t e = 0; e < op->count; e++) {
        uint64_t value = 0;
        memcpy(&value, (const char *)x->launch->params + op->imm + (size_t)e * op->width, op->width);
        if (op->flags & PTX_FLAG_SIGNED && op->width < 8) {
            uint32_t shift = 64 - 8u * op->width;
            value = (uint64_t)((int64_t)(value << shift) >> shift);
        }
        memcpy(rows + (e ? op->more[e - 1] : op->d), &value, op->row_width);
    }
}

static void spread_results(const struct ptx_op *op, char *rows)
{
    if (op->d != PTX_NO_ROW)
        ptx_chunk_spread(rows + op->d, op->row_width);
    for (uint32_t e = 1; e < op->count; e++)
        ptx_chunk_spread(rows + op->more[e - 1], op->row_width);
}

/* An operation that is the same for all lanes. */
static void execute(struct ptx_exec *x, const struct ptx_op *op, const struct ptx_lanes *lanes);

void ptx_chunk_execute_uniform(struct ptx_exec *x, const struct ptx_op *op, char *rows)
{
    const struct ptx_lanes one = {0, 1, NULL};
    if (op->kind == PTX_OP_ALU)
        op->fn(op, rows, 0, 1);
    else if (op->kind == PTX_OP_PARAM)
        load_parameter(x, op, rows);
    else
        execute(x, op, &one);
    if (op->flags & PTX_FLAG_SPREAD)
        spread_results(op, rows);
}

static void execute(struct ptx_exec *x, const struct ptx_op *op, const struct ptx_lanes *lanes)
{
    switch ((enum ptx_op_kind)op->kind) {
    case PTX_OP_LOAD:
        load_run(x, op, lanes);
        break;
    case PTX_OP_STORE:
        store_run(x, op, lanes);
        break;
    case PTX_OP_ATOMIC:
        ptx_atomic_run(x, op, lanes);
        break;
    case PTX_OP_SHUFFLE:
        ptx_shuffle_run(x, op, lanes);
        break;
    case PTX_OP_VOTE:
        ptx_vote_run(x, op, lanes);
        break;
    case PTX_OP_SPECIAL:
        ptx_special_run(x, op, lanes);
        break;
    default:
        break;
    }
}

/* What a guard leaves of the group. False: nothing. */
static bool guarded(const struct ptx_chunk *c, const struct ptx_op *op, uint8_t *mask, struct ptx_lanes *out)
{
    const char *p = c->rows + op->guard;
    const uint64_t ones = 0x0101010101010101u, flip = op->flags & PTX_FLAG_NEGATE ? ones : 0;
    uint32_t lo, hi, members = 0;
    /* Eight lanes at a time; outside the group c->mask is 0. */
    for (uint32_t i = 0; i < PTX_LANES; i += 8) {
        uint64_t in, holds;
        memcpy(&in, c->mask + i, 8);
        memcpy(&holds, p + i, 8);
        in &= holds ^ flip;
        memcpy(mask + i, &in, 8);
        members += (uint32_t)(in * ones >> 56);
    }
    if (!members)
        return false;
    if (members == c->hi - c->lo) {
        *out = (struct ptx_lanes){c->lo, c->hi, NULL};
        return true;
    }
    for (lo = c->lo; !mask[lo]; lo++)
        ;
    for (hi = c->hi; !mask[hi - 1]; hi--)
        ;
    *out = (struct ptx_lanes){lo, hi, members == hi - lo ? NULL : mask};
    return true;
}

/* Whether a guard that is the same in all lanes lets the operation run. */
static bool guard_holds(const struct ptx_op *op, const char *rows)
{
    return (rows[op->guard] != 0) != !!(op->flags & PTX_FLAG_NEGATE);
}

static void branch(struct ptx_chunk *c, const struct ptx_op *op)
{
    uint8_t mask[PTX_LANES];
    struct ptx_lanes taken;
    if (op->guard == PTX_NO_ROW) {
        c->pc = op->target;
    } else if (op->flags & PTX_FLAG_GUARD_UNIFORM) {
        c->pc = guard_holds(op, c->rows) ? op->target : c->pc + 1;
    } else if (!guarded(c, op, mask, &taken)) {
        c->pc++;
    } else if (taken.lo == c->lo && taken.hi == c->hi &&
               (!taken.mask || !memcmp(mask + c->lo, c->mask + c->lo, c->hi - c->lo))) {
        c->pc = op->target;
    } else {
        for (uint32_t i = c->lo; i < c->hi; i++)
            if (c->mask[i])
                c->pcs[i] = mask[i] ? op->target : c->pc + 1;
        regroup(c);
    }
}

/* brx.idx: an index beyond the list goes on behind it (undefined in PTX). */
static void branch_indexed(const struct ptx_code *code, struct ptx_chunk *c, const struct ptx_op *op)
{
    const uint32_t *index = (const uint32_t *)(c->rows + op->a);
    const uint8_t *guard = op->guard == PTX_NO_ROW ? NULL : (const uint8_t *)(c->rows + op->guard);
    bool same_index = op->flags & PTX_FLAG_UNIFORM, same_guard = op->flags & PTX_FLAG_GUARD_UNIFORM;
    for (uint32_t i = c->lo; i < c->hi; i++) {
        uint32_t k = index[same_index ? 0 : i];
        bool taken = !guard || guard[same_guard ? 0 : i] != !!(op->flags & PTX_FLAG_NEGATE);
        if (c->mask[i])
            c->pcs[i] = taken && k < op->imm ? code->targets[op->target + k] : c->pc + 1;
    }
    regroup(c);
}

/* Lanes stop, at a barrier or for good. False when that leaves none to run. */
static bool stop(struct ptx_chunk *c, const struct ptx_op *op)
{
    enum ptx_lane_state state = op->kind == PTX_OP_EXIT ? PTX_LANE_DONE : PTX_LANE_BARRIER;
    uint8_t mask[PTX_LANES];
    struct ptx_lanes lanes;
    uint32_t pc = c->pc + 1;
    if (op->guard == PTX_NO_ROW) {
        park(c, pc, state);
        return !is_whole(c) && regroup(c);
    }
    if (op->flags & PTX_FLAG_GUARD_UNIFORM) {
        if (!guard_holds(op, c->rows)) {
            c->pc = pc;
            return true;
        }
        park(c, pc, state);
        return regroup(c);
    }
    if (!guarded(c, op, mask, &lanes)) {
        c->pc = pc;
        return true;
    }
    park(c, pc, PTX_LANE_RUN);
    for (uint32_t i = lanes.lo; i < lanes.hi; i++)
        if (mask[i])
            c->state[i] = (uint8_t)state;
    return regroup(c);
}

static void execute_masked(const struct ptx_op *op, char *rows, uint32_t scratch,
                           const struct ptx_lanes *lanes)
{
    struct ptx_op copy = *op;
    copy.d = scratch;
    copy.fn(&copy, rows, lanes->lo, lanes->hi);
    blend(rows + op->d, rows + scratch, lanes->mask, lanes->lo, lanes->hi, op->row_width);
}

/* A parameter under a guard that varies: the value is in a row of its own first. */
static void load_parameter_masked(struct ptx_exec *x, const struct ptx_op *op, char *rows,
                                  const struct ptx_lanes *lanes)
{
    struct ptx_op copy = *op;
    copy.count = 1;
    copy.d = x->code->scratch;
    for (uint32_t e = 0; e < op->count; e++) {
        copy.imm = op->imm + (uint64_t)e * op->width;
        load_parameter(x, &copy, rows);
        char *row = rows + (e ? op->more[e - 1] : op->d);
        for (uint32_t i = lanes->lo; i < lanes->hi; i++)
            if (!lanes->mask || lanes->mask[i])
                memcpy(row + (size_t)i * op->row_width, rows + copy.d, op->row_width);
    }
}

/* What is neither plain arithmetic nor control flow. */
static void step(struct ptx_exec *x, struct ptx_chunk *c, const struct ptx_op *op)
{
    uint8_t mask[PTX_LANES];
    struct ptx_lanes lanes = {c->lo, c->hi, c->dense ? NULL : c->mask};
    if (op->guard != PTX_NO_ROW) {
        if (op->flags & PTX_FLAG_GUARD_UNIFORM ? !guard_holds(op, c->rows) : !guarded(c, op, mask, &lanes))
            return;
    }
    if (op->flags & PTX_FLAG_UNIFORM)
        ptx_chunk_execute_uniform(x, op, c->rows);
    else if (op->kind == PTX_OP_PARAM)
        load_parameter_masked(x, op, c->rows, &lanes);
    else if (op->kind != PTX_OP_ALU)
        execute(x, op, &lanes);
    else if (lanes.mask)
        execute_masked(op, c->rows, x->code->scratch, &lanes);
    else
        op->fn(op, c->rows, lanes.lo, lanes.hi);
}

static void trap(struct ptx_exec *x, struct ptx_chunk *c, const struct ptx_op *op)
{
    uint8_t mask[PTX_LANES];
    struct ptx_lanes lanes;
    if (op->guard == PTX_NO_ROW ||
        (op->flags & PTX_FLAG_GUARD_UNIFORM ? guard_holds(op, c->rows) : guarded(c, op, mask, &lanes)))
        ptx_fault_raise(x, 0, false, "trap");
    c->pc++;
}

/* Runs a chunk until its threads wait at a barrier or have ended. */
enum ptx_outcome ptx_chunk_run(struct ptx_exec *x, struct ptx_chunk *c)
{
    const struct ptx_op *ops = x->code->ops;
    char *rows = c->rows;
    x->chunk = c;
    if (!regroup(c))
        return CHUNK_DONE;
    for (;;) {
        if (c->pc >= c->stop) {
            park(c, c->pc, PTX_LANE_RUN);
            regroup(c);
        }
        const struct ptx_op *op = &ops[c->pc];
        x->instructions += c->hi - c->lo;
        c->clock++;
        if (op->kind == PTX_OP_ALU && op->guard == PTX_NO_ROW) {
            c->pc++;
            if (op->flags & PTX_FLAG_UNIFORM) {
                op->fn(op, rows, 0, 1);
                if (op->flags & PTX_FLAG_SPREAD)
                    ptx_chunk_spread(rows + op->d, op->row_width);
            } else if (c->dense) {
                op->fn(op, rows, c->lo, c->hi);
            } else {
                const struct ptx_lanes lanes = {c->lo, c->hi, c->mask};
                execute_masked(op, rows, x->code->scratch, &lanes);
            }
            continue;
        }
        x->op = op;
        switch ((enum ptx_op_kind)op->kind) {
        case PTX_OP_BRANCH:
            branch(c, op);
            break;
        case PTX_OP_SWITCH:
            branch_indexed(x->code, c, op);
            break;
        case PTX_OP_BARRIER:
        case PTX_OP_EXIT:
            if (stop(c, op))
                break;
            for (uint32_t i = 0; i < c->lanes; i++)
                if (c->state[i] == PTX_LANE_BARRIER)
                    return CHUNK_BARRIER;
            return CHUNK_DONE;
        case PTX_OP_TRAP:
            trap(x, c, op);
            break;
        default:
            c->pc++;
            step(x, c, op);
            break;
        }
    }
}

void ptx_chunk_prepare(void)
{
    pthread_once(&access_once, choose_access);
}
