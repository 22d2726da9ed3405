/*
 * job.h - what the jobs are written with: the driver's functions by dlsym, kernels, buffers whose every word
 * is known.
 *
 * The driver is opened as CUDA programs open it, by name, and every function is looked up on that handle: a
 * program that was linked against it would not be seen by anybody in between. cuda.h maps names to versions
 * by macro, so cuda.cuMemAlloc is the function cuMemAlloc_v2; with CUDA_API_PER_THREAD_DEFAULT_STREAM defined
 * before this header the names ending in _ptsz and _ptds are meant, which is why the table belongs to the
 * file.
 *
 * A check that fails says where and ends the process with status 1.
 */
#ifndef HBMSPILL_TESTS_INTEGRATION_JOB_H
#define HBMSPILL_TESTS_INTEGRATION_JOB_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* For limits of time: how much longer a job may take in a build with a sanitizer. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { JOB_SLOWER = 10 };
#else
enum { JOB_SLOWER = 1 };
#endif

#define MIB ((size_t)1 << 20)

#define JOB_FUNCTIONS(X)                                                                                     \
    X(cuInit)                                                                                                \
    X(cuGetErrorName)                                                                                        \
    X(cuDeviceGet)                                                                                           \
    X(cuDeviceTotalMem)                                                                                      \
    X(cuDeviceGetDefaultMemPool)                                                                             \
    X(cuDeviceGetMemPool)                                                                                    \
    X(cuDeviceSetMemPool)                                                                                    \
    X(cuDevicePrimaryCtxRetain)                                                                              \
    X(cuDevicePrimaryCtxReset)                                                                               \
    X(cuCtxSetCurrent)                                                                                       \
    X(cuCtxGetCurrent)                                                                                       \
    X(cuCtxDestroy)                                                                                          \
    X(cuCtxSynchronize)                                                                                      \
    X(cuMemAlloc)                                                                                            \
    X(cuMemAllocPitch)                                                                                       \
    X(cuMemAllocManaged)                                                                                     \
    X(cuMemAllocAsync)                                                                                       \
    X(cuMemAllocFromPoolAsync)                                                                               \
    X(cuMemFree)                                                                                             \
    X(cuMemFreeAsync)                                                                                        \
    X(cuMemPoolCreate)                                                                                       \
    X(cuMemPoolDestroy)                                                                                      \
    X(cuMemPoolGetAttribute)                                                                                 \
    X(cuMemPoolSetAttribute)                                                                                 \
    X(cuMemPoolSetAccess)                                                                                    \
    X(cuMemPoolTrimTo)                                                                                       \
    X(cuMemGetDefaultMemPool)                                                                                \
    X(cuMemGetMemPool)                                                                                       \
    X(cuMemHostAlloc)                                                                                        \
    X(cuMemAllocHost)                                                                                        \
    X(cuMemFreeHost)                                                                                         \
    X(cuMemHostGetFlags)                                                                                     \
    X(cuMemHostGetDevicePointer)                                                                             \
    X(cuMemHostRegister)                                                                                     \
    X(cuMemHostUnregister)                                                                                   \
    X(cuMemAddressReserve)                                                                                   \
    X(cuMemAddressFree)                                                                                      \
    X(cuMemCreate)                                                                                           \
    X(cuMemRelease)                                                                                          \
    X(cuMemMap)                                                                                              \
    X(cuMemUnmap)                                                                                            \
    X(cuMemGetAccess)                                                                                        \
    X(cuMemRetainAllocationHandle)                                                                           \
    X(cuMemExportToShareableHandle)                                                                          \
    X(cuMemGetAllocationPropertiesFromHandle)                                                                \
    X(cuMemSetAccess)                                                                                        \
    X(cuMemGetInfo)                                                                                          \
    X(cuMemGetAddressRange)                                                                                  \
    X(cuPointerGetAttribute)                                                                                 \
    X(cuPointerGetAttributes)                                                                                \
    X(cuPointerSetAttribute)                                                                                 \
    X(cuIpcGetMemHandle)                                                                                     \
    X(cuMemcpy)                                                                                              \
    X(cuMemcpyAsync)                                                                                         \
    X(cuMemcpyHtoD)                                                                                          \
    X(cuMemcpyDtoH)                                                                                          \
    X(cuMemcpyDtoD)                                                                                          \
    X(cuMemcpyHtoDAsync)                                                                                     \
    X(cuMemcpyDtoHAsync)                                                                                     \
    X(cuMemcpyDtoDAsync)                                                                                     \
    X(cuMemcpyPeer)                                                                                          \
    X(cuMemcpyPeerAsync)                                                                                     \
    X(cuMemcpy2D)                                                                                            \
    X(cuMemcpy2DAsync)                                                                                       \
    X(cuMemcpy3D)                                                                                            \
    X(cuMemcpy3DAsync)                                                                                       \
    X(cuMemsetD8)                                                                                            \
    X(cuMemsetD16)                                                                                           \
    X(cuMemsetD32)                                                                                           \
    X(cuMemsetD8Async)                                                                                       \
    X(cuMemsetD16Async)                                                                                      \
    X(cuMemsetD32Async)                                                                                      \
    X(cuMemsetD2D8)                                                                                          \
    X(cuMemsetD2D32Async)                                                                                    \
    X(cuStreamCreate)                                                                                        \
    X(cuStreamDestroy)                                                                                       \
    X(cuStreamSynchronize)                                                                                   \
    X(cuStreamQuery)                                                                                         \
    X(cuStreamWaitEvent)                                                                                     \
    X(cuStreamWriteValue32)                                                                                  \
    X(cuStreamWaitValue32)                                                                                   \
    X(cuStreamBeginCapture)                                                                                  \
    X(cuStreamEndCapture)                                                                                    \
    X(cuThreadExchangeStreamCaptureMode)                                                                     \
    X(cuEventCreate)                                                                                         \
    X(cuEventDestroy)                                                                                        \
    X(cuEventRecord)                                                                                         \
    X(cuEventSynchronize)                                                                                    \
    X(cuEventElapsedTime)                                                                                    \
    X(cuEventQuery)                                                                                          \
    X(cuLaunchHostFunc)                                                                                      \
    X(cuLaunchKernel)                                                                                        \
    X(cuLaunchKernelEx)                                                                                      \
    X(cuLaunchCooperativeKernel)                                                                             \
    X(cuModuleLoadData)                                                                                      \
    X(cuModuleLoadDataEx)                                                                                    \
    X(cuModuleUnload)                                                                                        \
    X(cuModuleGetFunction)                                                                                   \
    X(cuModuleGetGlobal)                                                                                     \
    X(cuLibraryLoadData)                                                                                     \
    X(cuLibraryGetKernel)                                                                                    \
    X(cuLibraryUnload)                                                                                       \
    X(cuKernelGetFunction)                                                                                   \
    X(cuGraphCreate)                                                                                         \
    X(cuGraphDestroy)                                                                                        \
    X(cuGraphDestroyNode)                                                                                    \
    X(cuGraphClone)                                                                                          \
    X(cuGraphNodeFindInClone)                                                                                \
    X(cuGraphAddKernelNode)                                                                                  \
    X(cuGraphAddMemcpyNode)                                                                                  \
    X(cuGraphAddMemsetNode)                                                                                  \
    X(cuGraphAddChildGraphNode)                                                                              \
    X(cuGraphChildGraphNodeGetGraph)                                                                         \
    X(cuGraphAddHostNode)                                                                                    \
    X(cuGraphAddEmptyNode)                                                                                   \
    X(cuGraphAddEventRecordNode)                                                                             \
    X(cuGraphAddEventWaitNode)                                                                               \
    X(cuGraphAddDependencies)                                                                                \
    X(cuGraphKernelNodeSetAttribute)                                                                         \
    X(cuGraphMemcpyNodeSetParams)                                                                            \
    X(cuGraphMemsetNodeSetParams)                                                                            \
    X(cuGraphNodeSetEnabled)                                                                                 \
    X(cuGraphExecHostNodeSetParams)                                                                          \
    X(cuGraphExecEventRecordNodeSetEvent)                                                                    \
    X(cuGraphExecEventWaitNodeSetEvent)                                                                      \
    X(cuGraphExecChildGraphNodeSetParams)                                                                    \
    X(cuGraphGetNodes)                                                                                       \
    X(cuGraphAddNode)                                                                                        \
    X(cuGraphConditionalHandleCreate)                                                                        \
    X(cuGraphKernelNodeSetParams)                                                                            \
    X(cuGraphInstantiateWithFlags)                                                                           \
    X(cuGraphExecUpdate)                                                                                     \
    X(cuGraphExecDestroy)                                                                                    \
    X(cuGraphExecKernelNodeSetParams)                                                                        \
    X(cuGraphExecMemcpyNodeSetParams)                                                                        \
    X(cuGraphExecMemsetNodeSetParams)                                                                        \
    X(cuGraphLaunch)

struct cuda {
#define JOB_MEMBER(name) __typeof__(&name) name;
    JOB_FUNCTIONS(JOB_MEMBER)
#undef JOB_MEMBER
};

static struct cuda cuda;

/* How functions are found: by dlsym on the driver's handle, or by its cuGetProcAddress. */
enum job_lookup { JOB_DLSYM, JOB_PROC_ADDRESS };
extern enum job_lookup job_lookup;
/* A function of the driver by its exported name; the process ends where there is none. */
void *job_symbol(const char *name);

#define JOB_TEXT_(text) #text
#define JOB_TEXT(text) JOB_TEXT_(text)

static inline void cuda_load(void)
{
#define JOB_LOAD(name) *(void **)&cuda.name = job_symbol(JOB_TEXT(name));
    JOB_FUNCTIONS(JOB_LOAD)
#undef JOB_LOAD
}

/* Set before the process exits while other threads use the driver: what fails from then on ends nothing. */
extern atomic_bool job_ends;
__attribute__((noreturn, format(printf, 4, 5))) void job_fail(const char *file, int line, const char *what,
                                                              const char *format, ...);
const char *job_error_name(CUresult status);

/* Followed by a format and its values where more can be said. */
#define REQUIRE(condition, ...)                                                                              \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            job_fail(__FILE__, __LINE__, #condition, "false. " __VA_ARGS__);                                 \
    } while (0)

#define EXPECT(wanted, call)                                                                                 \
    do {                                                                                                     \
        CUresult job_status = cuda.call;                                                                     \
        if (job_status != (wanted))                                                                          \
            job_fail(__FILE__, __LINE__, #call, "%s instead of %s", job_error_name(job_status),              \
                     job_error_name(wanted));                                                                \
    } while (0)

#define CU(call) EXPECT(CUDA_SUCCESS, call)

/* Initialises CUDA, makes device 0's primary context current and loads the kernels. Once in a process. */
void job_start(void);
/* The same with cuda_load before. */
static inline void cuda_start(void)
{
    cuda_load();
    job_start();
}

/* What is queued ends, the library's copies as well, so that all of it is in the counters. */
void job_end(void);

/* The kernels below as a PTX module; each has .reqntid 256 and looks at one word of 4 bytes per thread. */
extern const char job_ptx[];
extern CUmodule job_module;
CUcontext job_context(void);
CUfunction job_kernel(const char *name);

/* fill: word i becomes job_word(seed, i), for count words. */
void job_fill(CUdeviceptr at, size_t count, uint32_t seed, CUstream stream);
/* The same for a few words, taking a tenth of a second or so for each block of 256. */
void job_fill_slowly(CUdeviceptr at, size_t count, uint32_t seed, CUstream stream);
/* add: to[i] += from[i] */
void job_add(CUdeviceptr to, CUdeviceptr from, size_t count, CUstream stream);
/* copy: to[i] = from[i] */
void job_copy(CUdeviceptr to, CUdeviceptr from, size_t count, CUstream stream);
/* Launches any of the kernels with count threads, rounded up to blocks. */
CUresult job_launch(CUfunction kernel, size_t count, CUstream stream, void **params);

static inline uint32_t job_word(uint32_t seed, uint32_t i)
{
    uint32_t x = (i + seed * 977u) * 2654435761u;

    return x ^ (x >> 15);
}

/* Copies the words back and compares all of them with the sum of the seeds' words. */
void job_check(const char *file, int line, CUdeviceptr at, size_t count, uint32_t seed, uint32_t and_seed);
#define CHECK_WORDS(at, count, seed) job_check(__FILE__, __LINE__, at, count, seed, UINT32_MAX)
#define CHECK_SUM(at, count, seed, other) job_check(__FILE__, __LINE__, at, count, seed, other)

/* A new stream that the legacy one does not order. */
CUstream job_stream(void);
/* A word of pinned memory, 0, which a kernel writes through the same address. */
volatile uint32_t *job_pinned_word(void);
/* Evicts what was used before: allocates, fills and frees more than device memory holds. */
void job_flush(void);

/* A file of a machine made of files, below the directory root; the directories it lies in are made. */
void job_put_file(const char *root, const char *path, const char *text);
/* A number of the preloaded library's own is not to be had in the job; this is the driver's memory info. */
size_t job_free_bytes(void);

#endif
