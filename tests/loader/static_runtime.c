/*
 * static_runtime.c - a library with a CUDA runtime linked into it, as nvcc makes them by default: it opens
 * the driver, finds cuGetProcAddress_v2 by dlsym and everything else by that, and it exports the runtime's
 * own functions, since nobody hid them.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <driver_types.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

typedef CUresult get_function(const char *symbol, void **pfn, int version, cuuint64_t flags,
                              CUdriverProcAddressQueryResult *status);

EXPORT cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **pointer, unsigned long long flags,
                                           enum cudaDriverEntryPointQueryResult *status);

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **pointer, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *status)
{
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
    get_function *get = driver ? (get_function *)dlsym(driver, "cuGetProcAddress_v2") : NULL;

    *pointer = NULL;
    if (!get)
        return cudaErrorInsufficientDriver;
    get(symbol, pointer, CUDA_VERSION, flags, &found);
    if (status)
        *status = (enum cudaDriverEntryPointQueryResult)found;
    return cudaSuccess;
}
