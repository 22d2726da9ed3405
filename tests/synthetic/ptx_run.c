/*
 * ptx_run.c - runs thread blocks: the schedule of lanes, chunks and barriers.
 *
 * A block is cut into chunks of PTX_LANES threads. A kernel without barriers runs chunk after chunk in one
 * file of rows; one with barriers gives each chunk its own and lets each run to its next barrier in turn. In
 * a chunk the lanes at the lowest operation run as a group; where a branch splits them, the others wait with
 * the operation they come to, and join when the group gets there. Lanes that wait at a barrier are out of the
 * schedule until all threads of the block have arrived there or ended (CUDA: threads that have exited count
 * as arrived).
 *
 * The same launch always runs the same way, whatever thread it is on.
 */
#include "ptx_run.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* All exceptions masked, to nearest, subnormals kept. */
#define MXCSR_IEEE 0x1f80u

enum outcome { CHUNK_DONE, CHUNK_BARRIER };

static ptx_access_fn *load_run, *store_run;
static pthread_once_t access_once = PTHREAD_ONCE_INIT;

static void choose_access(void)
{
    int level = ptx_level();
    load_run = level == 4 ? ptx_access_load_v4 : level == 3 ? ptx_access_load_v3 : ptx_access_load_v2;
    store_run = level == 4 ? ptx_access_store_v4 : level == 3 ? ptx_access_store_v3 : ptx_access_store_v2;
}

/* The lanes to run next: those at the lowest operation. False when none can run. */
static bool regroup(struct ptx_chunk *c)
{
    uint32_t lowest = UINT32_MAX, next = UINT32_MAX;
    for (uint32_t i = 0; i < c->lanes; i++) {
        if (c->state[i] != PTX_LANE_RUN)
            continue;
        uint32_t pc = c->pcs[i];
        if (pc < lowest) {
            next = lowest;
            lowest = pc;
        } else if (pc > lowest && pc < next) {
            next = pc;
        }
    }
    if (lowest == UINT32_MAX)
        return false;
    uint32_t lo = UINT32_MAX, hi = 0, members = 0;
    for (uint32_t i = 0; i < c->lanes; i++) {
        uint8_t in = c->state[i] == PTX_LANE_RUN && c->pcs[i] == lowest;
        c->mask[i] = in;
        if (!in)
            continue;
        members++;
        hi = i + 1;
        if (lo == UINT32_MAX)
            lo = i;
    }
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
static void spread(char *row, uint32_t width)
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
        spread(rows + op->d, op->row_width);
    for (uint32_t e = 1; e < op->count; e++)
        spread(rows + op->more[e - 1], op->row_width);
}

/* An operation that is the same for all lanes. */
static void execute(struct ptx_exec *x, const struct ptx_op *op, const struct ptx_lanes *lanes);

static void execute_uniform(struct ptx_exec *x, const struct ptx_op *op, char *rows)
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
    const uint8_t *p = (const uint8_t *)(c->rows + op->guard), flip = op->flags & PTX_FLAG_NEGATE ? 1 : 0;
    uint32_t lo = UINT32_MAX, hi = 0, members = 0;
    for (uint32_t i = c->lo; i < c->hi; i++) {
        mask[i] = c->mask[i] & (p[i] ^ flip);
        members += mask[i];
    }
    if (!members)
        return false;
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
        return regroup(c);
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
        execute_uniform(x, op, c->rows);
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
static enum outcome run_chunk(struct ptx_exec *x, struct ptx_chunk *c)
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
                    spread(rows + op->d, op->row_width);
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

static void start_chunk(const struct ptx_code *code, struct ptx_chunk *c, uint32_t first, uint32_t threads)
{
    c->first = first;
    c->lanes = threads - first < PTX_LANES ? threads - first : PTX_LANES;
    c->clock = 0;
    memset(c->state, PTX_LANE_RUN, sizeof c->state);
    for (uint32_t i = 0; i < PTX_LANES; i++)
        c->pcs[i] = code->entry;
}

static void run_block(struct ptx_exec *x, struct ptx_chunk *chunks, uint32_t count, char *local)
{
    size_t local_chunk = (size_t)x->local_bytes * PTX_LANES;
    x->local = local;
    if (!x->code->has_barrier) {
        for (uint32_t i = 0; i < count; i++) {
            start_chunk(x->code, &chunks[0], i * PTX_LANES, x->block_threads);
            run_chunk(x, &chunks[0]);
        }
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        start_chunk(x->code, &chunks[i], i * PTX_LANES, x->block_threads);
    for (bool waiting = true; waiting;) {
        waiting = false;
        for (uint32_t i = 0; i < count; i++) {
            x->local = local + local_chunk * i;
            waiting |= run_chunk(x, &chunks[i]) == CHUNK_BARRIER;
        }
        for (uint32_t i = 0; i < count; i++)
            for (uint32_t k = 0; k < chunks[i].lanes; k++)
                if (chunks[i].state[k] == PTX_LANE_BARRIER)
                    chunks[i].state[k] = PTX_LANE_RUN;
    }
}

static void fill_constants(const struct ptx_code *code, char *rows)
{
    for (uint32_t i = 0; i < code->row_count; i++) {
        const struct ptx_row *r = &code->rows[i];
        if (!r->constant)
            continue;
        uint64_t value = r->value + r->address;
        memcpy(rows + r->offset, &value, r->width);
        spread(rows + r->offset, r->width);
    }
}

/* Memory of the thread that runs launches, kept from one to the next. */
struct arena {
    char *memory;
    size_t size;
};
static pthread_key_t arena_key;
static pthread_once_t arena_once = PTHREAD_ONCE_INIT;

static void arena_free(void *p)
{
    struct arena *arena = p;
    if (arena->memory)
        munmap(arena->memory, arena->size);
    free(arena);
}

static void arena_make_key(void)
{
    if (pthread_key_create(&arena_key, arena_free))
        abort();
}

static char *arena_take(size_t size)
{
    pthread_once(&arena_once, arena_make_key);
    struct arena *arena = pthread_getspecific(arena_key);
    if (!arena) {
        arena = calloc(1, sizeof *arena);
        if (!arena || pthread_setspecific(arena_key, arena)) {
            free(arena);
            return NULL;
        }
    }
    if (arena->size < size) {
        size = (size + 0xfffff) & ~(size_t)0xfffff;
        char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            return NULL;
        if (arena->memory)
            munmap(arena->memory, arena->size);
        arena->memory = memory;
        arena->size = size;
    }
    return arena->memory;
}

static size_t round_up(size_t size)
{
    return (size + 127) & ~(size_t)127;
}

/* Where a fault comes back to. */
static __attribute__((noinline)) int run_blocks(struct ptx_exec *x, uint64_t first, uint64_t end,
                                                struct ptx_chunk *chunks, uint32_t count, char *local)
{
    const uint32_t *grid = x->launch->grid;
    if (sigsetjmp(x->leave, 0)) {
        ptx_fault_watch(NULL);
        return -EFAULT;
    }
    ptx_fault_watch(x);
    for (uint64_t b = first; b < end; b++) {
        x->ctaid[0] = (uint32_t)(b % grid[0]);
        x->ctaid[1] = (uint32_t)(b / grid[0] % grid[1]);
        x->ctaid[2] = (uint32_t)(b / grid[0] / grid[1]);
        run_block(x, chunks, count, local);
    }
    ptx_fault_watch(NULL);
    return 0;
}

int ptx_run(const struct ptx_launch *launch, uint64_t first, uint64_t end, struct ptx_fault *fault,
            uint64_t *instructions)
{
    const struct ptx_kernel *kernel = launch->kernel;
    const struct ptx_code *code = kernel->module->codes[kernel - kernel->module->kernels];
    pthread_once(&access_once, choose_access);
    uint64_t threads = (uint64_t)launch->block[0] * launch->block[1] * launch->block[2];
    if (!threads || threads > 1024)
        return -EINVAL;
    uint32_t count = (uint32_t)(threads + PTX_LANES - 1) / PTX_LANES;
    uint32_t files = code->has_barrier ? count : 1;
    uint32_t shared_bytes = kernel->shared_bytes;
    if (launch->dynamic_shared_bytes)
        shared_bytes = ptx_dynamic_shared_start(kernel) + launch->dynamic_shared_bytes;
    size_t at_chunks = round_up(sizeof(struct ptx_exec));
    size_t at_shared = at_chunks + round_up(files * sizeof(struct ptx_chunk));
    size_t at_local = at_shared + round_up(shared_bytes);
    size_t at_rows = at_local + round_up((size_t)kernel->local_bytes * PTX_LANES * files);
    size_t total = at_rows + (size_t)code->file_bytes * files;
    char *memory = arena_take(total);
    if (!memory)
        return -ENOMEM;
    struct ptx_exec *x = (struct ptx_exec *)memory;
    struct ptx_chunk *chunks = (struct ptx_chunk *)(memory + at_chunks);
    memset(memory, 0, at_shared);
    x->launch = launch;
    x->code = code;
    x->memory = *launch->memory;
    x->block_threads = (uint32_t)threads;
    x->shared = memory + at_shared;
    x->shared_bytes = shared_bytes;
    x->local_bytes = kernel->local_bytes;
    x->fault = fault;
    for (uint32_t i = 0; i < files; i++) {
        chunks[i].rows = memory + at_rows + (size_t)code->file_bytes * i;
        /* registers start at zero, as shared memory does: undefined in CUDA, but the same on every run */
        memset(chunks[i].rows, 0, code->file_bytes);
        fill_constants(code, chunks[i].rows);
    }
    memset(memory + at_shared, 0, at_rows - at_shared);
    /* whoever calls may have set a rounding mode or flush-to-zero (XLA's thread pools do): PTX says otherwise
     */
    uint32_t caller = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(MXCSR_IEEE);
    for (uint32_t i = 0; i < files; i++) {
        x->chunk = &chunks[i];
        for (uint32_t k = 0; k < code->entry; k++)
            execute_uniform(x, &code->ops[k], chunks[i].rows);
    }
    int status = run_blocks(x, first, end, chunks, count, memory + at_local);
    __builtin_ia32_ldmxcsr(caller);
    if (instructions)
        *instructions += x->instructions;
    return status;
}
