/*
 * function.c - what can be asked about a function or kernel, its attributes, and occupancy.
 */
#include "launch.h"

static CUresult get_attribute(int *value, CUfunction_attribute attribute, const struct CUfunc_st *function)
{
    const struct ptx_kernel *kernel = function->kernel;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: {
        const uint32_t *shape = kernel->reqntid[0] ? kernel->reqntid : kernel->maxntid;
        uint32_t threads = shape[0];
        for (int i = 1; i < 3; i++)
            threads *= shape[i] ? shape[i] : 1;
        *value = threads ? (int)threads : THREADS_PER_BLOCK;
        return CUDA_SUCCESS;
    }
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = (int)kernel->shared_bytes;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = (int)kernel->local_bytes;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: /* PTX registers are virtual: a guess that always fits 1024 threads */
        *value = kernel->registers < 64 ? (int)kernel->registers : 64;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = 75;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = function->max_dynamic_shared;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *value = function->carveout;
        return CUDA_SUCCESS;
    default:
        *value = 0;
        return attribute >= 0 && attribute < CU_FUNC_ATTRIBUTE_MAX ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult set_attribute(struct CUfunc_st *function, CUfunction_attribute attribute, int value)
{
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        if (value < 0 || (uint64_t)value + function->kernel->shared_bytes > SHARED_PER_BLOCK_OPTIN)
            return CUDA_ERROR_INVALID_VALUE;
        function->max_dynamic_shared = value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        if (value < -1 || value > 100)
            return CUDA_ERROR_INVALID_VALUE;
        function->carveout = value;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static struct CUfunc_st *resolve(CUfunction handle)
{
    driver_acquire();
    struct CUfunc_st *function = function_resolve_locked(handle);
    driver_release();
    return function;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction handle)
{
    API_ENTER(API_CONTEXT);
    struct CUfunc_st *function = resolve(handle);
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    return function ? get_attribute(value, attribute, function) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value)
{
    API_ENTER(API_CONTEXT);
    struct CUfunc_st *function = resolve(handle);
    return function ? set_attribute(function, attribute, value) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache config)
{
    API_ENTER(API_CONTEXT);
    struct CUfunc_st *function = resolve(handle);
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    function->cache_config = (int)config;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetSharedMemConfig(CUfunction handle, CUsharedconfig config)
{
    API_ENTER(API_CONTEXT);
    (void)config;
    return resolve(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncGetModule(CUmodule *out, CUfunction handle)
{
    API_ENTER(API_CONTEXT);
    struct CUfunc_st *function = resolve(handle);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    *out = function->module;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction handle)
{
    API_ENTER(API_CONTEXT);
    struct CUfunc_st *function = resolve(handle);
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    *name = function->kernel->name;
    return CUDA_SUCCESS;
}

/* "CUDA_ERROR_INVALID_VALUE is returned if paramIndex is out of range" and for what is no function. */
static CUresult param_info(const struct CUfunc_st *function, size_t index, size_t *offset, size_t *size)
{
    if (!function || !offset || index >= function->kernel->param_count)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = function->kernel->params[index].offset;
    if (size)
        *size = function->kernel->params[index].size;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t *offset, size_t *size)
{
    API_ENTER(0);
    return param_info(object_valid(handle, OBJECT_FUNCTION) ? handle : NULL, index, offset, size);
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *size)
{
    API_ENTER(0);
    if (!object_valid(kernel, OBJECT_KERNEL))
        return CUDA_ERROR_INVALID_VALUE;
    return param_info(resolve((CUfunction)(void *)kernel), index, offset, size);
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction handle)
{
    API_ENTER(API_CONTEXT);
    if (!state)
        return CUDA_ERROR_INVALID_VALUE;
    if (!resolve(handle))
        return CUDA_ERROR_INVALID_HANDLE;
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction handle)
{
    API_ENTER(API_CONTEXT);
    return resolve(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuKernelGetName(const char **name, CUkernel kernel)
{
    API_ENTER(0);
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!object_valid(kernel, OBJECT_KERNEL))
        return CUDA_ERROR_INVALID_HANDLE;
    *name = kernel->name;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice dev)
{
    API_ENTER(API_CONTEXT);
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (!object_valid(kernel, OBJECT_KERNEL))
        return CUDA_ERROR_INVALID_HANDLE;
    if (device_check(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    struct CUfunc_st *function = resolve((CUfunction)(void *)kernel);
    return function ? get_attribute(value, attribute, function) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice dev)
{
    API_ENTER(API_CONTEXT);
    if (!object_valid(kernel, OBJECT_KERNEL))
        return CUDA_ERROR_INVALID_HANDLE;
    if (device_check(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    struct CUfunc_st *function = resolve((CUfunction)(void *)kernel);
    return function ? set_attribute(function, attribute, value) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
    API_ENTER(API_CONTEXT);
    (void)config;
    if (!object_valid(kernel, OBJECT_KERNEL))
        return CUDA_ERROR_INVALID_HANDLE;
    return device_check(dev) ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

/* ---- occupancy ---- */

static int blocks_per_multiprocessor(const struct CUfunc_st *function, int block_size, size_t dynamic_shared)
{
    size_t shared = function->kernel->shared_bytes + dynamic_shared;
    int blocks = THREADS_PER_MULTIPROCESSOR / (int)round_up((uint64_t)block_size, 32);
    if (blocks > BLOCKS_PER_MULTIPROCESSOR)
        blocks = BLOCKS_PER_MULTIPROCESSOR;
    if (shared && (size_t)blocks > SHARED_PER_MULTIPROCESSOR / shared)
        blocks = (int)(SHARED_PER_MULTIPROCESSOR / shared);
    return blocks;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction handle, int block_size,
                                                              size_t dynamic_shared, unsigned int flags)
{
    API_ENTER(API_CONTEXT);
    struct CUfunc_st *function = resolve(handle);
    if (!blocks || block_size <= 0 || flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
        return CUDA_ERROR_INVALID_VALUE;
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    *blocks =
        block_size > THREADS_PER_BLOCK ? 0 : blocks_per_multiprocessor(function, block_size, dynamic_shared);
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction handle, int block_size,
                                                     size_t dynamic_shared)
{
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, handle, block_size, dynamic_shared,
                                                                0);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction handle,
                                                   CUoccupancyB2DSize shared_of, size_t dynamic_shared,
                                                   int limit, unsigned int flags)
{
    API_ENTER(API_CONTEXT);
    struct CUfunc_st *function = resolve(handle);
    int best = 0, best_threads = 0, best_blocks = 0, most;
    if (!grid || !block || flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
        return CUDA_ERROR_INVALID_VALUE;
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    get_attribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function);
    if (limit > 0 && limit < most)
        most = limit;
    for (int size = most; size > 0; size -= size % 32 ? size % 32 : 32) {
        int blocks = blocks_per_multiprocessor(function, size, shared_of ? shared_of(size) : dynamic_shared);
        if (blocks * size > best_threads) {
            best = size;
            best_blocks = blocks;
            best_threads = blocks * size;
        }
    }
    *grid = best_blocks * MULTIPROCESSORS;
    *block = best;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction handle,
                                          CUoccupancyB2DSize shared_of, size_t dynamic_shared, int limit)
{
    return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, handle, shared_of, dynamic_shared, limit,
                                                     0);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction handle, int blocks, int block_size)
{
    API_ENTER(API_CONTEXT);
    struct CUfunc_st *function = resolve(handle);
    if (!bytes || blocks <= 0 || block_size <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    size_t each = SHARED_PER_MULTIPROCESSOR / (size_t)blocks;
    if (each > SHARED_PER_BLOCK_OPTIN)
        each = SHARED_PER_BLOCK_OPTIN;
    *bytes = each > function->kernel->shared_bytes ? each - function->kernel->shared_bytes : 0;
    return CUDA_SUCCESS;
}

/* Clusters came with compute capability 9.0: one block each here. */
CUresult cuOccupancyMaxPotentialClusterSize(int *size, CUfunction handle, const CUlaunchConfig *config)
{
    API_ENTER(API_CONTEXT);
    if (!size || !config)
        return CUDA_ERROR_INVALID_VALUE;
    if (!resolve(handle))
        return CUDA_ERROR_INVALID_HANDLE;
    *size = 1;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int *count, CUfunction handle, const CUlaunchConfig *config)
{
    API_ENTER(API_CONTEXT);
    struct CUfunc_st *function = resolve(handle);
    if (!count || !config)
        return CUDA_ERROR_INVALID_VALUE;
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    int threads = (int)(config->blockDimX * config->blockDimY * config->blockDimZ);
    if (threads <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    *count = MULTIPROCESSORS * blocks_per_multiprocessor(function, threads, config->sharedMemBytes);
    return CUDA_SUCCESS;
}
