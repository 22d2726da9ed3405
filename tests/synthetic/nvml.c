/*
 * nvml.c - a stand-in for libnvidia-ml.so.1: NVML is there, and so are the driver's devices, about which it
 * knows their name, memory and bus address. What else is asked is not supported.
 */
#include <cuda.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { NVML_SUCCESS = 0, NVML_INVALID_ARGUMENT = 2, NVML_NOT_SUPPORTED = 3, NVML_NOT_FOUND = 6 };

struct nvmlDevice_st {
    int ordinal;
};

struct nvml_memory {
    unsigned long long total, free, used;
};

static struct nvmlDevice_st devices[16];

int EXPORT nvmlInit_v2(void);
int EXPORT nvmlInit(void);
int EXPORT nvmlInitWithFlags(unsigned flags);
int EXPORT nvmlShutdown(void);
const char EXPORT *nvmlErrorString(int result);
int EXPORT nvmlDeviceGetCount_v2(unsigned *count);
int EXPORT nvmlDeviceGetHandleByIndex_v2(unsigned index, struct nvmlDevice_st **device);
int EXPORT nvmlDeviceGetHandleByPciBusId_v2(const char *id, struct nvmlDevice_st **device);
int EXPORT nvmlDeviceGetName(struct nvmlDevice_st *device, char *name, unsigned length);
int EXPORT nvmlDeviceGetMemoryInfo(struct nvmlDevice_st *device, struct nvml_memory *memory);
int EXPORT nvmlDeviceGetCurrPcieLinkGeneration(struct nvmlDevice_st *device, unsigned *generation);
int EXPORT nvmlDeviceGetCurrPcieLinkWidth(struct nvmlDevice_st *device, unsigned *width);
int EXPORT nvmlDeviceGetMaxPcieLinkGeneration(struct nvmlDevice_st *device, unsigned *generation);
int EXPORT nvmlDeviceGetMaxPcieLinkWidth(struct nvmlDevice_st *device, unsigned *width);
int EXPORT nvmlDeviceGetNvLinkState(struct nvmlDevice_st *device, unsigned link, int *active);
int EXPORT nvmlDeviceGetGpuFabricInfoV(struct nvmlDevice_st *device, void *info);
int EXPORT nvmlSystemGetDriverVersion(char *version, unsigned length);
int EXPORT nvmlSystemGetCudaDriverVersion(int *version);

int nvmlInit_v2(void)
{
    return cuInit(0) == CUDA_SUCCESS ? NVML_SUCCESS : NVML_NOT_FOUND;
}

int nvmlInit(void)
{
    return nvmlInit_v2();
}

int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    return nvmlInit_v2();
}

int nvmlShutdown(void)
{
    return NVML_SUCCESS;
}

const char *nvmlErrorString(int result)
{
    return result == NVML_SUCCESS         ? "Success"
           : result == NVML_NOT_SUPPORTED ? "Not Supported"
                                          : "Unknown Error";
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    int n;
    if (!count)
        return NVML_INVALID_ARGUMENT;
    if (cuDeviceGetCount(&n) != CUDA_SUCCESS)
        return NVML_NOT_FOUND;
    *count = (unsigned)n;
    return NVML_SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct nvmlDevice_st **device)
{
    unsigned count;
    if (!device || nvmlDeviceGetCount_v2(&count) != NVML_SUCCESS || index >= count)
        return NVML_INVALID_ARGUMENT;
    devices[index].ordinal = (int)index;
    *device = &devices[index];
    return NVML_SUCCESS;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *id, struct nvmlDevice_st **device)
{
    CUdevice dev;
    if (!id || !device)
        return NVML_INVALID_ARGUMENT;
    if (cuDeviceGetByPCIBusId(&dev, id) != CUDA_SUCCESS)
        return NVML_NOT_FOUND;
    return nvmlDeviceGetHandleByIndex_v2((unsigned)dev, device);
}

int nvmlDeviceGetName(struct nvmlDevice_st *device, char *name, unsigned length)
{
    if (!device || !name || !length)
        return NVML_INVALID_ARGUMENT;
    return cuDeviceGetName(name, (int)length, device->ordinal) == CUDA_SUCCESS ? NVML_SUCCESS
                                                                               : NVML_NOT_FOUND;
}

int nvmlDeviceGetMemoryInfo(struct nvmlDevice_st *device, struct nvml_memory *memory)
{
    size_t total, free_bytes, all;
    if (!device || !memory || cuDeviceTotalMem(&total, device->ordinal) != CUDA_SUCCESS)
        return NVML_INVALID_ARGUMENT;
    if (cuMemGetInfo(&free_bytes, &all) != CUDA_SUCCESS)
        free_bytes = total;
    *memory = (struct nvml_memory){.total = total, .free = free_bytes, .used = total - free_bytes};
    return NVML_SUCCESS;
}

int nvmlDeviceGetCurrPcieLinkGeneration(struct nvmlDevice_st *device, unsigned *generation)
{
    if (!device || !generation)
        return NVML_INVALID_ARGUMENT;
    *generation = 4;
    return NVML_SUCCESS;
}

int nvmlDeviceGetMaxPcieLinkGeneration(struct nvmlDevice_st *device, unsigned *generation)
{
    return nvmlDeviceGetCurrPcieLinkGeneration(device, generation);
}

int nvmlDeviceGetCurrPcieLinkWidth(struct nvmlDevice_st *device, unsigned *width)
{
    if (!device || !width)
        return NVML_INVALID_ARGUMENT;
    *width = 16;
    return NVML_SUCCESS;
}

int nvmlDeviceGetMaxPcieLinkWidth(struct nvmlDevice_st *device, unsigned *width)
{
    return nvmlDeviceGetCurrPcieLinkWidth(device, width);
}

/* No NVLink, no fabric. */
int nvmlDeviceGetNvLinkState(struct nvmlDevice_st *device, unsigned link, int *active)
{
    (void)link;
    return device && active ? NVML_NOT_SUPPORTED : NVML_INVALID_ARGUMENT;
}

int nvmlDeviceGetGpuFabricInfoV(struct nvmlDevice_st *device, void *info)
{
    return device && info ? NVML_NOT_SUPPORTED : NVML_INVALID_ARGUMENT;
}

int nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    if (!version || !length)
        return NVML_INVALID_ARGUMENT;
    snprintf(version, length, "580.0.0");
    return NVML_SUCCESS;
}

int nvmlSystemGetCudaDriverVersion(int *version)
{
    return cuDriverGetVersion(version) == CUDA_SUCCESS ? NVML_SUCCESS : NVML_INVALID_ARGUMENT;
}
