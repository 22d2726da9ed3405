/*
 * runtime_find.h - how the stand-ins for the CUDA runtime find the driver: as libcudart does, they open it by
 * name, look up cuGetProcAddress_v2 by dlsym, and everything else by that, in the version that the function
 * last changed in.
 *
 * Where the driver gives an error, it is the runtime's of the same number, as those up to 999 are.
 */
#ifndef HBMSPILL_TESTS_INTEGRATION_RUNTIME_FIND_H
#define HBMSPILL_TESTS_INTEGRATION_RUNTIME_FIND_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

/* What the code calls that nvcc writes; in no header of the runtime's. */
void **__cudaRegisterFatBinary(void *code);
void __cudaRegisterFatBinaryEnd(void **code);
void __cudaRegisterFunction(void **code, const char *host, char *device, const char *name, int limit,
                            void *tid, void *bid, void *block, void *grid, int *warp);

static inline void *runtime_find(const char *name, int version)
{
    CUresult (*get)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
    CUdriverProcAddressQueryResult found;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *function = NULL;

    if (!driver)
        return NULL;
    *(void **)&get = dlsym(driver, "cuGetProcAddress_v2");
    return get && get(name, &function, version, CU_GET_PROC_ADDRESS_DEFAULT, &found) == CUDA_SUCCESS
               ? function
               : NULL;
}

/* A driver function; the headers' macros make the name the version's. */
#define CALL(name, version, ...)                                                                             \
    ({                                                                                                       \
        static __typeof__(name) *call_##name;                                                                \
        if (!call_##name)                                                                                    \
            *(void **)&call_##name = runtime_find(#name, version);                                           \
        (cudaError_t)(call_##name ? call_##name(__VA_ARGS__) : CUDA_ERROR_NOT_FOUND);                        \
    })

#endif
