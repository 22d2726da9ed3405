/*
 * attributes.c - what the device says it is: a compute capability 7.5 GPU with virtual memory management.
 */
#include "launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char device_name[] = "Synthetic GPU";

struct attribute {
    CUdevice_attribute attribute;
    int value;
};

#define A(name, value)                                                                                       \
    {                                                                                                        \
        CU_DEVICE_ATTRIBUTE_##name, value                                                                    \
    }

/* What is not listed is 0: not there. */
static const struct attribute attributes[] = {
    A(MAX_THREADS_PER_BLOCK, THREADS_PER_BLOCK),
    A(MAX_BLOCK_DIM_X, 1024),
    A(MAX_BLOCK_DIM_Y, 1024),
    A(MAX_BLOCK_DIM_Z, 64),
    A(MAX_GRID_DIM_X, 0x7fffffff),
    A(MAX_GRID_DIM_Y, 65535),
    A(MAX_GRID_DIM_Z, 65535),
    A(MAX_SHARED_MEMORY_PER_BLOCK, SHARED_PER_BLOCK),
    A(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, SHARED_PER_BLOCK_OPTIN),
    A(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, SHARED_PER_MULTIPROCESSOR),
    A(TOTAL_CONSTANT_MEMORY, 65536),
    A(WARP_SIZE, 32),
    A(MAX_PITCH, 0x7fffffff),
    A(MAX_REGISTERS_PER_BLOCK, REGISTERS_PER_BLOCK),
    A(MAX_REGISTERS_PER_MULTIPROCESSOR, REGISTERS_PER_BLOCK),
    A(CLOCK_RATE, 1500000),
    A(TEXTURE_ALIGNMENT, 512),
    A(TEXTURE_PITCH_ALIGNMENT, 32),
    A(SURFACE_ALIGNMENT, 512),
    A(GPU_OVERLAP, 1),
    A(MULTIPROCESSOR_COUNT, MULTIPROCESSORS),
    A(CAN_MAP_HOST_MEMORY, 1),
    A(COMPUTE_MODE, CU_COMPUTEMODE_DEFAULT),
    A(CONCURRENT_KERNELS, 1),
    A(MEMORY_CLOCK_RATE, 5000000),
    A(GLOBAL_MEMORY_BUS_WIDTH, 256),
    A(L2_CACHE_SIZE, 4 << 20),
    A(MAX_THREADS_PER_MULTIPROCESSOR, THREADS_PER_MULTIPROCESSOR),
    A(MAX_BLOCKS_PER_MULTIPROCESSOR, BLOCKS_PER_MULTIPROCESSOR),
    A(ASYNC_ENGINE_COUNT, 2),
    A(UNIFIED_ADDRESSING, 1),
    A(PCI_BUS_ID, 1),
    A(COMPUTE_CAPABILITY_MAJOR, 7),
    A(COMPUTE_CAPABILITY_MINOR, 5),
    A(STREAM_PRIORITIES_SUPPORTED, 1),
    A(GLOBAL_L1_CACHE_SUPPORTED, 1),
    A(LOCAL_L1_CACHE_SUPPORTED, 1),
    A(MANAGED_MEMORY, 1),
    A(HOST_NATIVE_ATOMIC_SUPPORTED, 1),
    A(SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 32),
    A(CONCURRENT_MANAGED_ACCESS, 1),
    A(COMPUTE_PREEMPTION_SUPPORTED, 1),
    A(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1),
    A(CAN_USE_64_BIT_STREAM_MEM_OPS_V1, 1),
    A(CAN_USE_STREAM_WAIT_VALUE_NOR_V1, 1),
    A(CAN_USE_64_BIT_STREAM_MEM_OPS, 1),
    A(CAN_USE_STREAM_WAIT_VALUE_NOR, 1),
    A(COOPERATIVE_LAUNCH, 1),
    A(HOST_REGISTER_SUPPORTED, 1),
    A(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1),
    A(HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1),
    A(READ_ONLY_HOST_REGISTER_SUPPORTED, 1),
    A(MEMORY_POOLS_SUPPORTED, 1),
    A(HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1),
    A(HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1),
    A(HOST_NUMA_MEMORY_POOLS_SUPPORTED, 1),
    A(HOST_MEMORY_POOLS_SUPPORTED, 1),
    A(NUMA_ID, -1),
};

/* Whether host memory can be had as handles and from pools. */
static bool about_host_memory(CUdevice_attribute attribute)
{
    return attribute == CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED ||
           attribute == CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED ||
           attribute == CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED ||
           attribute == CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice dev)
{
    API_ENTER(0);
    if (!value || attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_check(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    if (about_host_memory(attribute) && options.host_vmm == HOST_VMM_UNKNOWN)
        return CUDA_ERROR_INVALID_VALUE;
    *value = 0;
    for (size_t i = 0; i < ARRAY_SIZE(attributes); i++)
        if (attributes[i].attribute == attribute)
            *value = attributes[i].value;
    if (about_host_memory(attribute) && options.host_vmm == HOST_VMM_OFF)
        *value = 0;
    if (attribute == CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID)
        *value = options.host_node;
    if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)
        *value += dev;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    API_ENTER(0);
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_check(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    API_ENTER(0);
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = device_count;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice dev)
{
    API_ENTER(0);
    if (!name || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_check(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)length, "%s", device_name);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
    API_ENTER(0);
    if (!uuid)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_check(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    memcpy(uuid->bytes, "synthetic-gpu-00", 16);
    uuid->bytes[15] = (char)('0' + dev);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
    return cuDeviceGetUuid_v2(uuid, dev);
}

CUresult cuDeviceGetLuid(char *luid, unsigned int *mask, CUdevice dev)
{
    API_ENTER(0);
    (void)luid; /* Windows only */
    (void)mask;
    return device_check(dev) ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
    API_ENTER(0);
    if (!major || !minor)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_check(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    *major = 7;
    *minor = 5;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(CUdevprop *prop, CUdevice dev)
{
    API_ENTER(0);
    if (!prop)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_check(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    *prop = (CUdevprop){.maxThreadsPerBlock = THREADS_PER_BLOCK,
                        .maxThreadsDim = {1024, 1024, 64},
                        .maxGridSize = {0x7fffffff, 65535, 65535},
                        .sharedMemPerBlock = SHARED_PER_BLOCK,
                        .totalConstantMemory = 65536,
                        .SIMDWidth = 32,
                        .memPitch = 0x7fffffff,
                        .regsPerBlock = REGISTERS_PER_BLOCK,
                        .clockRate = 1500000,
                        .textureAlign = 512};
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice dev)
{
    API_ENTER(0);
    if (!id || length < 13)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_check(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(id, (size_t)length, "0000:%02x:00.0", 1 + dev);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *out, const char *id)
{
    API_ENTER(0);
    unsigned domain = 0, bus, device, function = 0;
    if (!out || !id)
        return CUDA_ERROR_INVALID_VALUE;
    if (sscanf(id, "%x:%x:%x.%x", &domain, &bus, &device, &function) < 3) {
        domain = 0;
        if (sscanf(id, "%x:%x.%x", &bus, &device, &function) < 2)
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (domain || device || bus < 1 || device_check((int)bus - 1))
        return CUDA_ERROR_INVALID_DEVICE;
    *out = (CUdevice)bus - 1;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetExecAffinitySupport(int *value, CUexecAffinityType type, CUdevice dev)
{
    API_ENTER(0);
    (void)type;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_check(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    *value = 0;
    return CUDA_SUCCESS;
}

/* Devices here are no peers of each other. */
CUresult cuDeviceCanAccessPeer(int *can, CUdevice dev, CUdevice peer)
{
    API_ENTER(0);
    if (!can)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_check(dev) || device_check(peer))
        return CUDA_ERROR_INVALID_DEVICE;
    *can = 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice source,
                                 CUdevice target)
{
    API_ENTER(0);
    (void)attribute;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_check(source) || device_check(target) || source == target)
        return CUDA_ERROR_INVALID_DEVICE;
    *value = 0;
    return CUDA_SUCCESS;
}
