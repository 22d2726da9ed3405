/*
 * runtime_device.c - the CUDA runtime's functions for device memory, copies and kernels, with the
 * registration of a program's code that nvcc puts into a constructor; a library, as a program has it that is
 * linked with -cudart shared. The code that is registered is PTX text.
 *
 * libcudart 13: code is loaded as a library at the first launch of one of its kernels, and a launch is one of
 * the CUkernel. The first call initialises CUDA and makes the primary context of device 0 current.
 */
#include "tests/integration/runtime_find.h"

#include <pthread.h>
#include <stdint.h>

enum { KERNELS = 16 };

struct code { /* what nvcc calls __fatBinC_Wrapper_t */
    int magic, version;
    const void *data;
    void *filename;
};

static struct {
    const void *host;
    const char *name;
    const struct code *code;
    CUkernel kernel;
} kernels[KERNELS];
static unsigned count;
static CUlibrary library; /* of the one program there is */

static cudaError_t initialised;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static CUcontext context;

static void initialise(void)
{
    CUdevice device;

    initialised = CALL(cuInit, 2000, 0);
    if (initialised == cudaSuccess)
        initialised = CALL(cuDeviceGet, 2000, &device, 0);
    if (initialised == cudaSuccess)
        initialised = CALL(cuDevicePrimaryCtxRetain, 7000, &context, device);
}

static cudaError_t start(void)
{
    pthread_once(&once, initialise);
    return initialised == cudaSuccess ? CALL(cuCtxSetCurrent, 4000, context) : initialised;
}

#define START()                                                                                              \
    do {                                                                                                     \
        cudaError_t start_error = start();                                                                   \
        if (start_error != cudaSuccess)                                                                      \
            return start_error;                                                                              \
    } while (0)

void **__cudaRegisterFatBinary(void *code)
{
    return code;
}

void __cudaRegisterFatBinaryEnd(void **code)
{
    (void)code;
}

void __cudaRegisterFunction(void **code, const char *host, char *device, const char *name, int limit,
                            void *tid, void *bid, void *block, void *grid, int *warp)
{
    (void)device, (void)limit, (void)tid, (void)bid, (void)block, (void)grid, (void)warp;
    if (count == KERNELS)
        return;
    kernels[count].host = host;
    kernels[count].name = name;
    kernels[count++].code = (const struct code *)(const void *)code;
}

cudaError_t cudaMalloc(void **memory, size_t size)
{
    CUdeviceptr address;
    cudaError_t error;

    START();
    error = CALL(cuMemAlloc, 3020, &address, size);
    if (error == cudaSuccess)
        *memory = (void *)(uintptr_t)address;
    return error;
}

cudaError_t cudaFree(void *memory)
{
    START();
    return memory ? CALL(cuMemFree, 3020, (CUdeviceptr)(uintptr_t)memory) : cudaSuccess;
}

cudaError_t cudaMallocAsync(void **memory, size_t size, cudaStream_t stream)
{
    CUdeviceptr address;
    cudaError_t error;

    START();
    error = CALL(cuMemAllocAsync, 11020, &address, size, stream);
    if (error == cudaSuccess)
        *memory = (void *)(uintptr_t)address;
    return error;
}

cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream)
{
    START();
    return CALL(cuMemFreeAsync, 11020, (CUdeviceptr)(uintptr_t)memory, stream);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    START();
    return CALL(cuMemGetInfo, 3020, free_bytes, total);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind)
{
    CUdeviceptr device_to = (uintptr_t)to, device_from = (uintptr_t)from;

    START();
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return CALL(cuMemcpyHtoD, 3020, device_to, from, size);
    case cudaMemcpyDeviceToHost:
        return CALL(cuMemcpyDtoH, 3020, to, device_from, size);
    case cudaMemcpyDeviceToDevice:
        return CALL(cuMemcpyDtoD, 3020, device_to, device_from, size);
    default:
        return CALL(cuMemcpy, 4000, device_to, device_from, size);
    }
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    (void)kind;
    START();
    return CALL(cuMemcpyAsync, 4000, (uintptr_t)to, (uintptr_t)from, size, stream);
}

cudaError_t cudaMemset(void *memory, int value, size_t size)
{
    START();
    return CALL(cuMemsetD8, 3020, (uintptr_t)memory, (unsigned char)value, size);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    START();
    return CALL(cuStreamCreate, 2000, stream, CU_STREAM_DEFAULT);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    START();
    return CALL(cuStreamSynchronize, 2000, stream);
}

cudaError_t cudaDeviceSynchronize(void)
{
    START();
    return CALL(cuCtxSynchronize, 2000);
}

cudaError_t cudaLaunchKernel(const void *host, dim3 grid, dim3 block, void **arguments, size_t shared,
                             cudaStream_t stream)
{
    unsigned i = 0;
    cudaError_t error = cudaSuccess;

    START();
    while (i < count && kernels[i].host != host)
        i++;
    if (i == count)
        return cudaErrorInvalidDeviceFunction;
    if (!library)
        error = CALL(cuLibraryLoadData, 12000, &library, kernels[i].code->data, NULL, NULL, 0, NULL, NULL, 0);
    if (error == cudaSuccess && !kernels[i].kernel)
        error = CALL(cuLibraryGetKernel, 12000, &kernels[i].kernel, library, kernels[i].name);
    return error != cudaSuccess
               ? error
               : CALL(cuLaunchKernel, 4000, (CUfunction)kernels[i].kernel, grid.x, grid.y, grid.z, block.x,
                      block.y, block.z, (unsigned)shared, stream, arguments, NULL);
}
