/*
 * fake_cudart.c - a libcudart.so.13 that finds driver functions as the real one does: through
 * cuGetProcAddress, which it looks up in libcuda. With FAKE_CUDART_DIRECT set it gives pointers that no
 * look-up of ours ever saw.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <driver_types.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define DRIVER "libcuda.so.1"

typedef CUresult get_function(const char *symbol, void **pfn, int version, cuuint64_t flags,
                              CUdriverProcAddressQueryResult *status);

EXPORT cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags,
                                           enum cudaDriverEntryPointQueryResult *status);
EXPORT cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned int version,
                                                    unsigned long long flags,
                                                    enum cudaDriverEntryPointQueryResult *status);

static cudaError_t find(const char *symbol, void **function, unsigned int version, unsigned long long flags,
                        enum cudaDriverEntryPointQueryResult *status)
{
    void *driver = dlopen(DRIVER, RTLD_LAZY);
    if (!driver)
        return cudaErrorInsufficientDriver;
    if (getenv("FAKE_CUDART_DIRECT")) {
        void *(*exported)(const char *) = (void *(*)(const char *))dlsym(driver, "cuFakeExported");
        *function = exported(symbol);
        *status = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
        return cudaSuccess;
    }
    get_function *get = (get_function *)dlsym(driver, "cuGetProcAddress_v2");
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    CUresult result = get(symbol, function, (int)version, flags, &found);
    *status = (enum cudaDriverEntryPointQueryResult)found;
    return result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_FOUND ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *status)
{
    return find(symbol, function, 13000, flags, status);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned int version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *status)
{
    return find(symbol, function, version, flags, status);
}
