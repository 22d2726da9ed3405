/*
 * runtime_host.c - the CUDA runtime's functions for host memory, which find the driver as libcudart does:
 * they open it by name, look up cuGetProcAddress_v2 by dlsym, and everything else by that, in the version
 * that the function last changed in. Built into the job, as a program has the runtime from nvcc, and as a
 * library that the job opens.
 *
 * libcudart 13 knows no cuMemAllocHost: cudaMallocHost is cuMemHostAlloc without flags. The flags are the
 * same bits in both. Where the driver gives an error, it is the runtime's of the same number, as those up to
 * 999 are.
 */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

static void *find(const char *name, int version)
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
            *(void **)&call_##name = find(#name, version);                                                   \
        (cudaError_t)(call_##name ? call_##name(__VA_ARGS__) : CUDA_ERROR_NOT_FOUND);                        \
    })

cudaError_t cudaHostAlloc(void **memory, size_t size, unsigned flags)
{
    return CALL(cuMemHostAlloc, 2020, memory, size, flags);
}

cudaError_t cudaMallocHost(void **memory, size_t size)
{
    return CALL(cuMemHostAlloc, 2020, memory, size, 0);
}

cudaError_t cudaFreeHost(void *memory)
{
    return CALL(cuMemFreeHost, 2000, memory);
}

cudaError_t cudaHostRegister(void *memory, size_t size, unsigned flags)
{
    return CALL(cuMemHostRegister, 6050, memory, size, flags);
}

cudaError_t cudaHostUnregister(void *memory)
{
    return CALL(cuMemHostUnregister, 4000, memory);
}

cudaError_t cudaHostGetDevicePointer(void **device, void *memory, unsigned flags)
{
    CUdeviceptr address;
    cudaError_t error = CALL(cuMemHostGetDevicePointer, 3020, &address, memory, flags);

    if (error == cudaSuccess)
        *device = (void *)(uintptr_t)address;
    return error;
}

cudaError_t cudaHostGetFlags(unsigned *flags, void *memory)
{
    return CALL(cuMemHostGetFlags, 2030, flags, memory);
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *of, const void *pointer)
{
    CUpointer_attribute list[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                  CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER,
                                  CU_POINTER_ATTRIBUTE_IS_MANAGED};
    unsigned type = 0;
    int device = 0, managed = 0;
    void *values[] = {&type, &device, &of->devicePointer, &of->hostPointer, &managed};
    cudaError_t error = CALL(cuPointerGetAttributes, 7000, 5, list, values, (CUdeviceptr)(uintptr_t)pointer);

    if (error != cudaSuccess)
        return error;
    of->device = device;
    of->type = managed                        ? cudaMemoryTypeManaged
               : type == CU_MEMORYTYPE_HOST   ? cudaMemoryTypeHost
               : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                                              : cudaMemoryTypeUnregistered;
    return cudaSuccess;
}
