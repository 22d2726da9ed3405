/*
 * ptx_run.c - runs thread blocks: the schedule of chunks and barriers.
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

static void start_chunk(const struct ptx_code *code, struct ptx_chunk *c, uint32_t first, uint32_t threads)
{
    c->first = first;
    c->lanes = threads - first < PTX_LANES ? threads - first : PTX_LANES;
    c->clock = 0;
    memset(c->mask, 0, sizeof c->mask);
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
            ptx_chunk_run(x, &chunks[0]);
        }
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        start_chunk(x->code, &chunks[i], i * PTX_LANES, x->block_threads);
    for (bool waiting = true; waiting;) {
        waiting = false;
        for (uint32_t i = 0; i < count; i++) {
            x->local = local + local_chunk * i;
            waiting |= ptx_chunk_run(x, &chunks[i]) == CHUNK_BARRIER;
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
        ptx_chunk_spread(rows + r->offset, r->width);
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
    ptx_chunk_prepare();
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
    x->traffic = launch->traffic;
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
            ptx_chunk_execute_uniform(x, &code->ops[k], chunks[i].rows);
    }
    int status = run_blocks(x, first, end, chunks, count, memory + at_local);
    __builtin_ia32_ldmxcsr(caller);
    if (instructions)
        *instructions += x->instructions;
    ptx_traffic_add(x);
    return status;
}
