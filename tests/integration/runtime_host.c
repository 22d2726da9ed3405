/*
 * runtime_host.c - the CUDA runtime's functions for host memory. Built into the job, as a program has the
 * runtime from nvcc, and as a library that the job opens.
 *
 * libcudart 13 knows no cuMemAllocHost: cudaMallocHost is cuMemHostAlloc without flags. The flags are the
 * same bits in both.
 */
#include "tests/integration/runtime_find.h"

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
