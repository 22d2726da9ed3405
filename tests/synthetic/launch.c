/*
 * launch.c - kernel launches: checks, parameters, and running a grid on the engine thread and its helpers.
 *
 * Blocks of a kernel without atomics are shared out among the CPU's cores; their order cannot be seen. A
 * kernel with atomics runs on one thread in block order, so that floating-point sums repeat.
 */
#include "launch.h"
#include "defined.h"
#include "quiet.h"
#include "touches.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_HELPERS 3
#define SMALL_GRID 512 /* threads up to which helpers are not worth waking */

const char *kernel_name(const struct kernel_work *work)
{
    return work->function->kernel->name;
}

bool kernel_copy_params(struct kernel_work *to, const struct kernel_work *from)
{
    size_t bytes = from->function->kernel->param_bytes;
    to->params = malloc(bytes ? bytes : 1);
    if (to->params)
        memcpy(to->params, from->params, bytes);
    return to->params != NULL;
}

bool kernel_touches(const struct kernel_work *work, uint64_t address, uint64_t size)
{
    uint32_t bytes = work->function->kernel->param_bytes;
    for (uint32_t at = 0; at + 8 <= bytes; at += 8) {
        uint64_t p;
        memcpy(&p, (const char *)work->params + at, 8);
        if (p >= address && p < address + size)
            return true;
        if (!window_has(p))
            continue;
        const struct range *range = range_find_locked(p);
        if (range && range->base < address + size && address < range->base + range->size)
            return true;
    }
    return false;
}

static CUresult check_shape(const struct CUfunc_st *function, const unsigned grid[3], const unsigned block[3],
                            unsigned shared)
{
    const struct ptx_kernel *kernel = function->kernel;
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    if (!grid[0] || !grid[1] || !grid[2] || !threads)
        return CUDA_ERROR_INVALID_VALUE;
    if (grid[0] > 0x7fffffff || grid[1] > 65535 || grid[2] > 65535 || block[0] > 1024 || block[1] > 1024 ||
        block[2] > 64 || threads > THREADS_PER_BLOCK)
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < 3; i++) {
        /* PTX ISA, .reqntid: "Specifying a launch with a different CTA shape results in a runtime error." */
        if (kernel->reqntid[0] && block[i] != (kernel->reqntid[i] ? kernel->reqntid[i] : 1))
            return CUDA_ERROR_INVALID_VALUE;
    }
    uint64_t max = (uint64_t)kernel->maxntid[0] * (kernel->maxntid[1] ? kernel->maxntid[1] : 1) *
                   (kernel->maxntid[2] ? kernel->maxntid[2] : 1);
    if (max && threads > max)
        return CUDA_ERROR_INVALID_VALUE;
    if (shared > (unsigned)function->max_dynamic_shared ||
        (uint64_t)shared + kernel->shared_bytes > SHARED_PER_BLOCK_OPTIN)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* "Kernel parameters can be specified in one of two ways": an array of pointers, or a packed buffer in extra.
 */
static CUresult gather_params(const struct ptx_kernel *kernel, void **params, void **extra, char *out)
{
    if (params && extra)
        return CUDA_ERROR_INVALID_VALUE;
    if (!extra) {
        if (!params && kernel->param_count)
            return CUDA_ERROR_INVALID_VALUE;
        for (uint32_t i = 0; i < kernel->param_count; i++)
            memcpy(out + kernel->params[i].offset, params[i], kernel->params[i].size);
        return CUDA_SUCCESS;
    }
    const void *buffer = NULL;
    size_t size = 0;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = *(size_t *)extra[1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (kernel->param_bytes > size || (!buffer && kernel->param_bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (kernel->param_bytes)
        memcpy(out, buffer, kernel->param_bytes);
    return CUDA_SUCCESS;
}

CUresult kernel_work_make(struct CUfunc_st *function, const unsigned grid[3], const unsigned block[3],
                          unsigned shared, void **params, void **extra, struct work *out)
{
    CUresult result = check_shape(function, grid, block, shared);
    if (result != CUDA_SUCCESS)
        return result;
    char *copy = calloc(1, function->kernel->param_bytes + 8);
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = gather_params(function->kernel, params, extra, copy);
    if (result != CUDA_SUCCESS) {
        free(copy);
        return result;
    }
    *out = (struct work){.kind = WORK_KERNEL,
                         .kernel = {.function = function,
                                    .grid = {grid[0], grid[1], grid[2]},
                                    .block = {block[0], block[1], block[2]},
                                    .shared = shared,
                                    .params = copy}};
    return CUDA_SUCCESS;
}

/* ---- running ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t start, finished;
    bool started;
    unsigned helpers, busy;
    uint64_t generation;
    /* the grid being run */
    const struct ptx_launch *launch;
    uint64_t next, blocks, chunk, instructions;
    int error;
    struct ptx_fault fault;
} team = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .start = PTHREAD_COND_INITIALIZER,
          .finished = PTHREAD_COND_INITIALIZER};

static pthread_mutex_t team_owner = PTHREAD_MUTEX_INITIALIZER; /* one grid at a time, over all devices */

static void run_share(const struct ptx_launch *launch)
{
    struct ptx_fault fault;
    uint64_t instructions = 0;
    for (;;) {
        uint64_t first = __atomic_fetch_add(&team.next, team.chunk, __ATOMIC_RELAXED);
        if (first >= team.blocks || __atomic_load_n(&team.error, __ATOMIC_RELAXED))
            break;
        uint64_t end = first + team.chunk < team.blocks ? first + team.chunk : team.blocks;
        int error = ptx_run(launch, first, end, &fault, &instructions);
        if (error) {
            pthread_mutex_lock(&team.lock);
            if (!team.error) {
                team.fault = fault;
                __atomic_store_n(&team.error, error, __ATOMIC_RELAXED);
            }
            pthread_mutex_unlock(&team.lock);
            break;
        }
    }
    __atomic_fetch_add(&team.instructions, instructions, __ATOMIC_RELAXED);
}

static void *helper_main(void *unused)
{
    uint64_t seen = 0;
    (void)unused;
    pthread_setname_np(pthread_self(), "gpu-helper");
    quiet_exclude_me();
    pthread_mutex_lock(&team.lock);
    for (;;) {
        while (team.generation == seen || !team.launch)
            pthread_cond_wait(&team.start, &team.lock);
        seen = team.generation;
        const struct ptx_launch *launch = team.launch;
        team.busy++;
        pthread_mutex_unlock(&team.lock);
        run_share(launch);
        pthread_mutex_lock(&team.lock);
        if (--team.busy == 0)
            pthread_cond_signal(&team.finished);
    }
    return NULL;
}

static void start_helpers(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    team.started = true;
    while (team.helpers + 1 < (unsigned)cores && team.helpers < MAX_HELPERS) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, helper_main, NULL) != 0)
            break;
        pthread_detach(thread);
        team.helpers++;
    }
}

static int run_grid(const struct ptx_launch *launch, uint64_t blocks, bool alone, struct ptx_fault *fault,
                    uint64_t *instructions)
{
    uint64_t threads = blocks * launch->block[0] * launch->block[1] * launch->block[2];
    if (alone || blocks == 1 || threads <= SMALL_GRID)
        return ptx_run(launch, 0, blocks, fault, instructions);
    pthread_mutex_lock(&team_owner);
    pthread_mutex_lock(&team.lock);
    if (!team.started)
        start_helpers();
    team.launch = launch;
    team.next = 0;
    team.instructions = 0;
    team.blocks = blocks;
    team.chunk = blocks / (8 * (team.helpers + 1)) + (blocks >= 8 * (team.helpers + 1) ? 0 : 1);
    team.error = 0;
    team.generation++;
    pthread_cond_broadcast(&team.start);
    pthread_mutex_unlock(&team.lock);
    run_share(launch);
    pthread_mutex_lock(&team.lock);
    team.launch = NULL; /* who has not begun does not */
    while (team.busy)
        pthread_cond_wait(&team.finished, &team.lock);
    int error = team.error;
    *instructions = team.instructions;
    if (error)
        *fault = team.fault;
    pthread_mutex_unlock(&team.lock);
    pthread_mutex_unlock(&team_owner);
    return error;
}

/* Of ptx_traffic: a word for each piece of the window. */
static uint64_t *launch_seen;
static uint32_t launch_number;

int kernels_init(void)
{
    void *p = mmap(NULL, WINDOW_BYTES / PTX_PIECE * sizeof(*launch_seen), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return -errno;
    launch_seen = p;
    return 0;
}

static bool is_host_memory(uint64_t address)
{
    return window_page(address)->space == SPACE_HOST;
}

/* What a launch is watched by: helpers may tell of what they touched at a time. */
struct watch {
    struct ptx_traffic traffic; /* first member */
    struct touched *touched;
    uint64_t undefined; /* the lowest address it read that nobody had written, or 0 */
    uint32_t line;
};
static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER;

static void note_pieces(struct ptx_traffic *traffic, const uint64_t *pieces, uint32_t count)
{
    struct touched *touched = ((struct watch *)(void *)traffic)->touched;
    pthread_mutex_lock(&watch_lock);
    touched_pieces(touched, pieces, count);
    pthread_mutex_unlock(&watch_lock);
}

static void note_read(struct watch *watch, uint64_t address, uint32_t line)
{
    if (address && (!watch->undefined || address < watch->undefined)) {
        watch->undefined = address;
        watch->line = line;
    }
}

static void note_undefined(struct ptx_traffic *traffic, uint64_t address, uint64_t units, uint32_t line)
{
    pthread_mutex_lock(&watch_lock);
    units = defined_missing(address, units);
    if (units)
        note_read((struct watch *)(void *)traffic,
                  (address & ~(uint64_t)(PTX_PIECE - 1)) + (uint64_t)__builtin_ctzll(units) * 4, line);
    pthread_mutex_unlock(&watch_lock);
}

static void note_outside(struct ptx_traffic *traffic, uint64_t address, uint32_t size, bool write,
                         uint32_t line)
{
    struct watch *watch = (struct watch *)(void *)traffic;
    pthread_mutex_lock(&watch_lock);
    note_read(watch, defined_outside(address, size, write), line);
    touched_outside(watch->touched, address, size, write);
    pthread_mutex_unlock(&watch_lock);
}

CUresult kernel_run(const struct kernel_work *work, struct work_count *count, struct touched *touched)
{
    struct ptx_fault fault = {0};
    struct ptx_launch launch = {
        .kernel = work->function->kernel,
        .grid = {work->grid[0], work->grid[1], work->grid[2]},
        .block = {work->block[0], work->block[1], work->block[2]},
        .dynamic_shared_bytes = work->shared,
        .params = work->params,
        .memory = &ptx_memory,
    };
    struct watch watch = {.traffic = {.seen = launch_seen,
                                      .is_host = is_host_memory,
                                      .touched = note_pieces,
                                      .defined = defined_word,
                                      .undefined = note_undefined,
                                      .outside = note_outside},
                          .touched = touched};
    uint64_t blocks = (uint64_t)work->grid[0] * work->grid[1] * work->grid[2];
    do
        watch.traffic.number = __atomic_add_fetch(&launch_number, 1, __ATOMIC_RELAXED) & 0x3fffffff;
    while (!watch.traffic.number);
    launch.traffic = &watch.traffic;
    touched->seen = launch_seen;
    touched->number = watch.traffic.number;
    count_add(COUNT_LAUNCHES, 1);
    int error = run_grid(&launch, blocks, launch.kernel->has_atomics, &fault, &count->instructions);
    count_add(COUNT_INSTRUCTIONS, count->instructions);
    count->bytes = watch.traffic.device_read + watch.traffic.device_written;
    count->host_read = watch.traffic.host_read;
    count->host_written = watch.traffic.host_written;
    if (watch.undefined) {
        driver_acquire();
        report_hazard_locked(
            "undefined-read",
            "kernel %s, PTX line %u, reads 0x%llx, which nobody has written since that memory "
            "changed hands",
            launch.kernel->name, watch.line, (unsigned long long)watch.undefined);
        driver_release();
    }
    if (!error)
        return CUDA_SUCCESS;
    driver_acquire();
    report_hazard_locked("illegal-address", "kernel %s, PTX line %u, %s 0x%llx: %s",
                         fault.kernel ? fault.kernel : launch.kernel->name, fault.line,
                         fault.write ? "writes" : "reads", (unsigned long long)fault.address, fault.reason);
    driver_release();
    return CUDA_ERROR_ILLEGAL_ADDRESS;
}

/* ---- the API ---- */

static CUresult launch(CUfunction handle, const unsigned grid[3], const unsigned block[3], unsigned shared,
                       CUstream stream_handle, void **params, void **extra, bool early)
{
    struct CUstream_st *stream;
    struct work work;
    driver_acquire();
    CUresult result = stream_resolve_locked(stream_handle, &stream);
    struct CUfunc_st *function = result == CUDA_SUCCESS ? function_resolve_locked(handle) : NULL;
    if (result == CUDA_SUCCESS && !function)
        result = CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS && function->module->ctx != stream->ctx)
        result = CUDA_ERROR_INVALID_HANDLE; /* function and stream of different contexts */
    if (result == CUDA_SUCCESS)
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the parameters go with the work */
        result = kernel_work_make(function, grid, block, shared, params, extra, &work);
    if (result == CUDA_SUCCESS)
        work.kernel.early = early;
    if (result == CUDA_SUCCESS)
        result = stream_submit_locked(stream, &work, NULL, 0, NULL);
    driver_release();
    return result;
}

CUresult cuLaunchKernel(CUfunction f, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
                        CUstream stream, void **params, void **extra)
{
    API_ENTER(API_CONTEXT);
    const unsigned grid[3] = {grid_x, grid_y, grid_z}, block[3] = {block_x, block_y, block_z};
    return launch(f, grid, block, shared, stream, params, extra, false);
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int grid_x, unsigned int grid_y,
                                   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                   unsigned int block_z, unsigned int shared, CUstream stream, void **params)
{
    API_ENTER(API_CONTEXT);
    const unsigned grid[3] = {grid_x, grid_y, grid_z}, block[3] = {block_x, block_y, block_z};
    uint64_t blocks = (uint64_t)grid_x * grid_y * grid_z;
    /* "cannot exceed the maximum number of blocks per multiprocessor times the number of multiprocessors" */
    if (blocks > (uint64_t)BLOCKS_PER_MULTIPROCESSOR * MULTIPROCESSORS)
        return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    return launch(f, grid, block, shared, stream, params, NULL, false);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
    API_ENTER(API_CONTEXT);
    bool early = false;
    if (!config || (config->numAttrs && !config->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttribute *attr = &config->attrs[i];
        const CUlaunchAttributeValue *value = &attr->value;
        switch (attr->id) {
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION: /* compute capability 9.0 */
            if (value->clusterDim.x * value->clusterDim.y * value->clusterDim.z > 1)
                return CUDA_ERROR_INVALID_VALUE;
            break;
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
        case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
            return CUDA_ERROR_NOT_SUPPORTED;
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
            /* Whether the kernel ahead "requests the overlap" is not asked: that any may is the stricter
             * reading. */
            early = value->programmaticStreamSerializationAllowed != 0;
            break;
        default: /* hints */
            break;
        }
    }
    const unsigned grid[3] = {config->gridDimX, config->gridDimY, config->gridDimZ};
    const unsigned block[3] = {config->blockDimX, config->blockDimY, config->blockDimZ};
    return launch(f, grid, block, config->sharedMemBytes, config->hStream, params, extra, early);
}
