/*
 * cudart.c - a stand-in for libcudart.so.13, as far as a program needs it that reaches the GPU through the
 * driver. Under the name of libcudart.so.12 it is the same: what is here did not change from 12 to 13.
 *
 * Kernels registered by a program's own static constructors are machine code, which the synthetic GPU does
 * not run: they register, and asking for one says cudaErrorInvalidDeviceFunction.
 */
#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

/* Values of cudaError_t; those up to 999 that matter here are the driver's. */
enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    INVALID_DEVICE_FUNCTION = 98,
};

#define RUNTIME_VERSION 13000

int EXPORT cudaGetDeviceCount(int *count);
int EXPORT cudaRuntimeGetVersion(int *version);
int EXPORT cudaDriverGetVersion(int *version);
int EXPORT cudaPeekAtLastError(void);
int EXPORT cudaGetLastError(void);
int EXPORT cudaGetDevice(int *device);
int EXPORT cudaSetDevice(int device);
int EXPORT cudaDeviceSynchronize(void);
int EXPORT cudaStreamSynchronize(CUstream stream);
int EXPORT cudaGetFuncBySymbol(CUfunction *function, const void *symbol);
int EXPORT cudaGetKernel(CUkernel *kernel, const void *symbol);
const char EXPORT *cudaGetErrorString(int error);
const char EXPORT *cudaGetErrorName(int error);
void EXPORT **__cudaRegisterFatBinary(void *binary);
void EXPORT __cudaRegisterFatBinaryEnd(void **handle);
void EXPORT __cudaUnregisterFatBinary(void **handle);
void EXPORT __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit,
                                   void *tid, void *bid, void *block, void *grid, int *warp);
void EXPORT __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external,
                              size_t size, int constant, int global);
unsigned EXPORT __cudaPushCallConfiguration(void);
int EXPORT __cudaPopCallConfiguration(void);
int EXPORT cudaLaunchKernel(const void *function);
char EXPORT __cudaInitModule(void **handle);

static _Thread_local int last_error;

static int note(int error)
{
    if (error)
        last_error = error;
    return error;
}

int cudaGetDeviceCount(int *count)
{
    CUresult result = cuInit(0);
    if (result == CUDA_SUCCESS)
        result = cuDeviceGetCount(count);
    return note((int)result);
}

int cudaRuntimeGetVersion(int *version)
{
    if (!version)
        return note(INVALID_VALUE);
    *version = RUNTIME_VERSION;
    return SUCCESS;
}

int cudaDriverGetVersion(int *version)
{
    return note((int)cuDriverGetVersion(version));
}

int cudaPeekAtLastError(void)
{
    return last_error;
}

int cudaGetLastError(void)
{
    int error = last_error;
    last_error = SUCCESS;
    return error;
}

int cudaGetDevice(int *device)
{
    CUdevice dev = 0;
    if (!device)
        return note(INVALID_VALUE);
    if (cuCtxGetDevice(&dev) != CUDA_SUCCESS)
        dev = 0; /* no context yet: the default device */
    *device = dev;
    return SUCCESS;
}

int cudaSetDevice(int device)
{
    CUcontext ctx;
    CUresult result = cuInit(0);
    if (result == CUDA_SUCCESS)
        result = cuDevicePrimaryCtxRetain(&ctx, device);
    if (result == CUDA_SUCCESS)
        result = cuCtxSetCurrent(ctx);
    return note((int)result);
}

int cudaDeviceSynchronize(void)
{
    return note((int)cuCtxSynchronize());
}

int cudaStreamSynchronize(CUstream stream)
{
    return note((int)cuStreamSynchronize(stream));
}

int cudaGetFuncBySymbol(CUfunction *function, const void *symbol)
{
    (void)symbol;
    return note(function ? INVALID_DEVICE_FUNCTION : INVALID_VALUE);
}

int cudaGetKernel(CUkernel *kernel, const void *symbol)
{
    (void)symbol;
    return note(kernel ? INVALID_DEVICE_FUNCTION : INVALID_VALUE);
}

const char *cudaGetErrorString(int error)
{
    const char *text = NULL;
    if (error == INVALID_DEVICE_FUNCTION)
        return "invalid device function";
    return cuGetErrorString((CUresult)error, &text) == CUDA_SUCCESS ? text : "unrecognized error code";
}

const char *cudaGetErrorName(int error)
{
    const char *text = NULL;
    if (error == SUCCESS)
        return "cudaSuccess";
    if (error == INVALID_DEVICE_FUNCTION)
        return "cudaErrorInvalidDeviceFunction";
    return cuGetErrorName((CUresult)error, &text) == CUDA_SUCCESS ? text : "unrecognized error code";
}

void **__cudaRegisterFatBinary(void *binary)
{
    static void *handles[1024];
    static size_t used;
    size_t at = __atomic_fetch_add(&used, 1, __ATOMIC_RELAXED) % (sizeof(handles) / sizeof(handles[0]));
    handles[at] = binary;
    return &handles[at];
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

void __cudaUnregisterFatBinary(void **handle)
{
    (void)handle;
}

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit,
                            void *tid, void *bid, void *block, void *grid, int *warp)
{
    (void)handle, (void)host, (void)device, (void)name, (void)limit, (void)tid, (void)bid, (void)block,
        (void)grid, (void)warp;
}

void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t size,
                       int constant, int global)
{
    (void)handle, (void)host, (void)device, (void)name, (void)external, (void)size, (void)constant,
        (void)global;
}

/* A kernel<<<>>> call: not 0 means that it is not made. */
unsigned __cudaPushCallConfiguration(void)
{
    return (unsigned)note(INVALID_DEVICE_FUNCTION);
}

int __cudaPopCallConfiguration(void)
{
    return note(INVALID_DEVICE_FUNCTION);
}

int cudaLaunchKernel(const void *function)
{
    (void)function;
    return note(INVALID_DEVICE_FUNCTION);
}

char __cudaInitModule(void **handle)
{
    (void)handle;
    return 0;
}
