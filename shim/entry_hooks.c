/*
 * entry_hooks.c - the wrappers of the functions through which all others are reached.
 *
 * Which version of a function is asked for, with which flags, and whether there is one, is the driver's to
 * say. Its answer is replaced where it is a function that has a wrapper, and passed on as it is otherwise;
 * status outputs and errors are never touched. Outputs may be NULL where the driver accepts it.
 */
#include "shim/loader.h"
#include "shim/ready.h"
#include "shim/runtime_functions.h"
#include "shim/shim.h"

static void filter_output(void **pointer, const char *symbol)
{
    if (pointer && shim_substitutes())
        *pointer = function_filter(*pointer, symbol);
}

CUresult hook_cuInit(unsigned int flags)
{
    CUresult result = hbmspill_real.cuInit(flags);
    if (result == CUDA_SUCCESS)
        shim_driver_ready();
    return result;
}

CUresult hook_cuGetProcAddress(const char *symbol, void **pointer, int version, cuuint64_t flags)
{
    CUresult result = hbmspill_real.cuGetProcAddress(symbol, pointer, version, flags);
    if (result == CUDA_SUCCESS)
        filter_output(pointer, symbol);
    return result;
}

CUresult hook_cuGetProcAddress_v2(const char *symbol, void **pointer, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *status)
{
    CUresult result = hbmspill_real.cuGetProcAddress_v2(symbol, pointer, version, flags, status);
    if (result == CUDA_SUCCESS)
        filter_output(pointer, symbol);
    return result;
}

CUresult hook_cuGetProcAddress_v2_ptsz(const char *symbol, void **pointer, int version, cuuint64_t flags,
                                       CUdriverProcAddressQueryResult *status)
{
    CUresult result = hbmspill_real.cuGetProcAddress_v2_ptsz(symbol, pointer, version, flags, status);
    if (result == CUDA_SUCCESS)
        filter_output(pointer, symbol);
    return result;
}

cudaError_t hook_cudaGetDriverEntryPoint(const char *symbol, void **pointer, unsigned long long flags,
                                         enum cudaDriverEntryPointQueryResult *status)
{
    cudaError_t result = hbmspill_real_runtime.cudaGetDriverEntryPoint(symbol, pointer, flags, status);
    if (result == cudaSuccess)
        filter_output(pointer, symbol);
    return result;
}

cudaError_t hook_cudaGetDriverEntryPoint_ptsz(const char *symbol, void **pointer, unsigned long long flags,
                                              enum cudaDriverEntryPointQueryResult *status)
{
    cudaError_t result = hbmspill_real_runtime.cudaGetDriverEntryPoint_ptsz(symbol, pointer, flags, status);
    if (result == cudaSuccess)
        filter_output(pointer, symbol);
    return result;
}

cudaError_t hook_cudaGetDriverEntryPointByVersion(const char *symbol, void **pointer, unsigned int version,
                                                  unsigned long long flags,
                                                  enum cudaDriverEntryPointQueryResult *status)
{
    cudaError_t result =
        hbmspill_real_runtime.cudaGetDriverEntryPointByVersion(symbol, pointer, version, flags, status);
    if (result == cudaSuccess)
        filter_output(pointer, symbol);
    return result;
}

cudaError_t hook_cudaGetDriverEntryPointByVersion_ptsz(const char *symbol, void **pointer,
                                                       unsigned int version, unsigned long long flags,
                                                       enum cudaDriverEntryPointQueryResult *status)
{
    cudaError_t result =
        hbmspill_real_runtime.cudaGetDriverEntryPointByVersion_ptsz(symbol, pointer, version, flags, status);
    if (result == cudaSuccess)
        filter_output(pointer, symbol);
    return result;
}
