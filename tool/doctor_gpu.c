/*
 * doctor_gpu.c - the driver and the devices, asked as a job would: libcuda.so.1 by name, functions by dlsym.
 */
#include "tool/doctor.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define GIB(bytes) ((double)(bytes) / (1 << 30))
enum { PROBE = 64 << 20, PROBES = 3, OLDEST_DRIVER = 12040 };

#define FUNCTIONS(X)                                                                                         \
    X(cuInit, "cuInit")                                                                                      \
    X(cuDriverGetVersion, "cuDriverGetVersion")                                                              \
    X(cuGetErrorName, "cuGetErrorName")                                                                      \
    X(cuDeviceGetCount, "cuDeviceGetCount")                                                                  \
    X(cuDeviceGetName, "cuDeviceGetName")                                                                    \
    X(cuDeviceTotalMem, "cuDeviceTotalMem_v2")                                                               \
    X(cuDeviceGetAttribute, "cuDeviceGetAttribute")                                                          \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain")                                                  \
    X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2")                                             \
    X(cuCtxSetCurrent, "cuCtxSetCurrent")                                                                    \
    X(cuMemAlloc, "cuMemAlloc_v2")                                                                           \
    X(cuMemFree, "cuMemFree_v2")                                                                             \
    X(cuMemHostAlloc, "cuMemHostAlloc")                                                                      \
    X(cuMemFreeHost, "cuMemFreeHost")                                                                        \
    X(cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity")                                        \
    X(cuMemCreate, "cuMemCreate")                                                                            \
    X(cuMemRelease, "cuMemRelease")                                                                          \
    X(cuMemcpyAsync, "cuMemcpyAsync")                                                                        \
    X(cuStreamSynchronize, "cuStreamSynchronize")                                                            \
    X(cuEventCreate, "cuEventCreate")                                                                        \
    X(cuEventRecord, "cuEventRecord")                                                                        \
    X(cuEventElapsedTime, "cuEventElapsedTime_v2")                                                           \
    X(cuEventDestroy, "cuEventDestroy_v2")

static struct {
#define MEMBER(name, symbol) __typeof__(&name) name;
    FUNCTIONS(MEMBER)
#undef MEMBER
} cuda;

/* The name of the first function that is missing; NULL: none is. */
static const char *load(void *library)
{
    const char *missing = NULL;

#define LOAD(name, symbol)                                                                                   \
    *(void **)&cuda.name = dlsym(library, symbol);                                                           \
    if (!cuda.name && !missing)                                                                              \
        missing = symbol;
    FUNCTIONS(LOAD)
#undef LOAD
    if (!cuda.cuEventElapsedTime) /* before 12.8 it had no second version */
        *(void **)&cuda.cuEventElapsedTime = dlsym(library, "cuEventElapsedTime");
    return missing && !strcmp(missing, "cuEventElapsedTime_v2") && cuda.cuEventElapsedTime ? NULL : missing;
}

static const char *error_name(CUresult status)
{
    const char *name = NULL;

    return cuda.cuGetErrorName(status, &name) == CUDA_SUCCESS && name ? name : "an unknown error";
}

static int attribute(CUdevice device, CUdevice_attribute which)
{
    int value = 0;

    return cuda.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

/* Handles of host memory, by making one: what drivers before 12.9 have no attribute for. */
static void look_at_handles(const char *subject, CUdevice device)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA,
                                             .id = attribute(device, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID)}};
    CUmemGenericAllocationHandle handle;
    CUresult status;
    size_t size;

    if (prop.location.id < 0)
        prop.location.id = 0;
    status = cuda.cuMemGetAllocationGranularity(&size, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (status == CUDA_SUCCESS)
        status = cuda.cuMemCreate(&handle, size, &prop, 0);
    if (status == CUDA_SUCCESS) {
        (void)cuda.cuMemRelease(handle);
        doctor_find(FINDING_GOOD, subject, NULL, "handles of host memory, on node %d", prop.location.id);
        return;
    }
    doctor_find(FINDING_WARNING, subject,
                "CUDA 12.2 has them; a container needs the right to bind memory, --cap-add SYS_NICE",
                "no handles of host memory (%s): kernels of libraries, and what is larger than HBM, cannot "
                "reach what is spilled",
                error_name(status));
}

/* Milliseconds of the best of a few; negative: it failed, with *status. */
static float copy_time(CUdeviceptr to, CUdeviceptr from, CUevent begin, CUevent end, CUresult *status)
{
    float best = -1, took;

    for (unsigned i = 0; i < PROBES; i++) {
        *status = cuda.cuEventRecord(begin, NULL);
        if (*status == CUDA_SUCCESS)
            *status = cuda.cuMemcpyAsync(to, from, PROBE, NULL);
        if (*status == CUDA_SUCCESS)
            *status = cuda.cuEventRecord(end, NULL);
        if (*status == CUDA_SUCCESS)
            *status = cuda.cuStreamSynchronize(NULL);
        if (*status == CUDA_SUCCESS)
            *status = cuda.cuEventElapsedTime(&took, begin, end);
        if (*status != CUDA_SUCCESS)
            return -1;
        if (best < 0 || took < best)
            best = took;
    }
    return best;
}

static void look_at_link(const char *subject)
{
    CUevent begin = NULL, end = NULL;
    CUdeviceptr memory = 0;
    void *host = NULL;
    float in = -1, out = -1;
    CUresult status = cuda.cuMemHostAlloc(&host, PROBE, 0);

    if (status != CUDA_SUCCESS) {
        doctor_find(FINDING_FAULT, subject,
                    "raise the limit on locked memory, ulimit -l, or the container's memory",
                    "the driver pins no %d MiB of host memory (%s): nothing can be spilled", PROBE >> 20,
                    error_name(status));
        return;
    }
    memset(host, 1, PROBE);
    status = cuda.cuMemAlloc(&memory, PROBE);
    if (status == CUDA_SUCCESS)
        status = cuda.cuEventCreate(&begin, CU_EVENT_DEFAULT);
    if (status == CUDA_SUCCESS)
        status = cuda.cuEventCreate(&end, CU_EVENT_DEFAULT);
    if (status == CUDA_SUCCESS)
        in = copy_time(memory, (CUdeviceptr)(uintptr_t)host, begin, end, &status);
    if (in > 0)
        out = copy_time((CUdeviceptr)(uintptr_t)host, memory, begin, end, &status);
    if (in > 0 && out > 0)
        doctor_find(FINDING_GOOD, subject, NULL,
                    "the link moves %.1f GB/s in and %.1f GB/s out (%d MiB, best of %d)",
                    PROBE / 1e6 / (double)in, PROBE / 1e6 / (double)out, PROBE >> 20, PROBES);
    else
        doctor_find(FINDING_WARNING, subject, "is somebody else using the GPU? nvidia-smi says who",
                    "the link could not be measured (%s)", error_name(status));
    if (begin)
        (void)cuda.cuEventDestroy(begin);
    if (end)
        (void)cuda.cuEventDestroy(end);
    if (memory)
        (void)cuda.cuMemFree(memory);
    (void)cuda.cuMemFreeHost(host);
}

static void look_at_device(CUdevice device)
{
    char subject[16], name[128] = "?";
    CUcontext context;
    size_t total = 0;
    CUresult status;

    snprintf(subject, sizeof subject, "gpu%d", device);
    (void)cuda.cuDeviceGetName(name, sizeof name, device);
    (void)cuda.cuDeviceTotalMem(&total, device);
    doctor_find(FINDING_GOOD, subject, NULL, "%s, compute capability %d.%d, %.1f GiB", name,
                attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
                attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR), GIB(total));
    if (attribute(device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED))
        doctor_find(FINDING_GOOD, subject, NULL, "virtual memory management");
    else
        doctor_find(FINDING_FAULT, subject, "neither this GPU nor its driver can be helped",
                    "no virtual memory management: nothing can be spilled");
    status = cuda.cuDevicePrimaryCtxRetain(&context, device);
    if (status == CUDA_SUCCESS)
        status = cuda.cuCtxSetCurrent(context);
    if (status != CUDA_SUCCESS) {
        doctor_find(FINDING_FAULT, subject, "is its memory full? nvidia-smi says whose it is",
                    "no context can be made (%s)", error_name(status));
        return;
    }
    look_at_handles(subject, device);
    look_at_link(subject);
    (void)cuda.cuDevicePrimaryCtxRelease(device);
}

void doctor_gpu(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    int version = 0, count = 0;
    const char *missing;
    CUresult status;

    if (!library) {
        doctor_find(FINDING_FAULT, "driver",
                    "install NVIDIA's, or give it to the container (docker run --gpus all)",
                    "the driver cannot be loaded (%s)", dlerror());
        return;
    }
    missing = load(library);
    if (missing) {
        doctor_find(FINDING_FAULT, "driver", "install one for CUDA 12.4 or newer", "libcuda.so.1 has no %s",
                    missing);
        return;
    }
    status = cuda.cuInit(0);
    if (status != CUDA_SUCCESS || cuda.cuDriverGetVersion(&version) != CUDA_SUCCESS ||
        cuda.cuDeviceGetCount(&count) != CUDA_SUCCESS) {
        doctor_find(FINDING_FAULT, "driver", "does nvidia-smi list a GPU? CUDA_VISIBLE_DEVICES may hide it",
                    "CUDA does not start (%s)", error_name(status));
        return;
    }
    if (version < OLDEST_DRIVER)
        doctor_find(FINDING_FAULT, "driver", "install a newer one",
                    "it is for CUDA %d.%d, and does not list kernels' parameters, which came with 12.4",
                    version / 1000, version % 1000 / 10);
    else
        doctor_find(FINDING_GOOD, "driver", NULL, "CUDA %d.%d, %d device%s", version / 1000,
                    version % 1000 / 10, count, count == 1 ? "" : "s");
    for (int device = 0; device < count; device++)
        look_at_device(device);
}
