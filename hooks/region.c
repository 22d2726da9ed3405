#include "hooks/region.h"
#include "hooks/alloc.h"
#include "hooks/outside.h"
#include "hooks/retry.h"
#include "shim/log.h"
#include "shim/options.h"
#include "shim/shim.h"
#include <pthread.h>
#include <stdlib.h>
#include <uthash.h>

struct region {
    CUmemGenericAllocationHandle id; /* its own address: no handle of the driver's is that */
    uint64_t address, size;
    CUmemAllocationProp prop;
    struct gpu *gpu;
    unsigned refs;         /* of the handle */
    bool reserved, mapped; /* the job has its address; its handle is mapped there */
    bool real;             /* it is the driver's: nothing else here counts but refs */
    CUmemGenericAllocationHandle handle;
    UT_hash_handle by_id, by_address;
};

/* Protects the tables and what is in them. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct region *ids, *addresses;

static struct region *of_id(CUmemGenericAllocationHandle id)
{
    struct region *region;

    HASH_FIND(by_id, ids, &id, sizeof id, region);
    return region;
}

static struct region *of_address(uint64_t address)
{
    struct region *region;

    HASH_FIND(by_address, addresses, &address, sizeof address, region);
    return region;
}

/* The one that an address lies in. Without lock: only who uses it may ask. */
static struct region *around(uint64_t address)
{
    struct gpu *gpu = shim_active() ? gpu_of_address(address) : NULL;
    struct region *region = NULL;
    uint64_t base, size;

    if (gpu && cache_find(gpu->cache, address, &base, &size)) {
        pthread_mutex_lock(&lock);
        region = of_address(base);
        pthread_mutex_unlock(&lock);
    }
    return region && region->reserved ? region : NULL;
}

/* Under the lock: taken out where nothing keeps it, to be given to `end' without the lock. */
static struct region *ended(struct region *region)
{
    if (region->refs || region->reserved)
        return NULL;
    HASH_DELETE(by_id, ids, region);
    if (!region->real)
        HASH_DELETE(by_address, addresses, region);
    return region;
}

static CUresult end(struct region *region)
{
    CUresult status = CUDA_SUCCESS;

    if (region && region->real) {
        status = hbmspill_real.cuMemRelease(region->handle);
        if (status == CUDA_SUCCESS)
            outside_remove(OUTSIDE_HANDLE, region->handle);
    } else if (region) {
        status = alloc_give(region->address);
    }
    free(region);
    return status;
}

static bool one_device(void)
{
    int devices;

    return hbmspill_real.cuDeviceGetCount && hbmspill_real.cuDeviceGetCount(&devices) == CUDA_SUCCESS &&
           devices == 1;
}

bool region_spilled(void)
{
    return shim_allocator() == SHIM_ALLOCATOR_REGIONS && one_device();
}

bool region_create(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                   unsigned long long flags, CUresult *status)
{
    struct region *region;
    CUdeviceptr address;
    struct gpu *gpu;

    if (!region_spilled() || shim_mode() != SHIM_ON || flags || size < options_get()->min_size ||
        prop->type != CU_MEM_ALLOCATION_TYPE_PINNED || prop->allocFlags.compressionType ||
        prop->allocFlags.usage || !(gpu = gpu_make_current()) || gpu->device != prop->location.id ||
        size % gpu->granularity || size > gpu->hbm_limit / 2 || !(region = calloc(1, sizeof *region)))
        return false;
    if (!alloc_take(&address, size, status)) {
        free(region);
        return false;
    }
    if (*status != CUDA_SUCCESS) {
        free(region);
        return true;
    }
    region->id = (uintptr_t)region;
    region->address = address;
    region->size = size;
    region->prop = *prop;
    region->gpu = gpu;
    region->refs = 1;
    pthread_mutex_lock(&lock);
    HASH_ADD(by_id, ids, id, sizeof region->id, region);
    HASH_ADD(by_address, addresses, address, sizeof region->address, region);
    pthread_mutex_unlock(&lock);
    *handle = region->id;
    return true;
}

bool region_release(CUmemGenericAllocationHandle handle, CUresult *status)
{
    struct region *region, *over = NULL;

    pthread_mutex_lock(&lock);
    region = of_id(handle);
    *status = region && !region->refs ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (region && region->refs) {
        region->refs--;
        over = ended(region);
    }
    pthread_mutex_unlock(&lock);
    if (over)
        *status = end(over);
    return region;
}

bool region_reserve(CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr wish,
                    unsigned long long flags, CUresult *status)
{
    struct region *region, *next, *found = NULL;

    if (!address || wish || flags)
        return false;
    pthread_mutex_lock(&lock);
    HASH_ITER(by_id, ids, region, next)
    if (!region->real && !region->reserved && region->size == size && region->refs &&
        (!alignment || region->address % alignment == 0))
        found = region; /* the last of the list is the newest */
    if (found) {
        found->reserved = true;
        *address = found->address;
        *status = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

bool region_unreserve(CUdeviceptr address, size_t size, CUresult *status)
{
    struct region *region, *over = NULL;

    pthread_mutex_lock(&lock);
    region = of_address(address);
    if (region && region->reserved) {
        *status = CUDA_ERROR_INVALID_VALUE;
        if (region->size == size && !region->mapped) {
            region->reserved = false;
            over = ended(region);
            *status = CUDA_SUCCESS;
        }
    } else {
        region = NULL;
    }
    pthread_mutex_unlock(&lock);
    if (over)
        *status = end(over);
    return region;
}

/* What the driver could do with it and this cannot. */
static CUresult refused(const char *what)
{
    log_once(LOG_WARN, LOG_IN_ALLOC,
             "%s is not to be had for memory of XLA_PYTHON_CLIENT_ALLOCATOR that may be spilled; with "
             "HBMSPILL=observe it is, and nothing is spilled",
             what);
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult region_real_handle(CUmemGenericAllocationHandle handle, CUmemGenericAllocationHandle *real)
{
    CUmemGenericAllocationHandle made;
    struct region *region;
    bool in_use = false, mine = false;
    CUresult status;

    *real = handle;
    pthread_mutex_lock(&lock);
    region = of_id(handle);
    if (region && region->real)
        *real = region->handle;
    else if (region && region->reserved)
        in_use = true;
    pthread_mutex_unlock(&lock);
    if (in_use)
        return refused("an exported, bound or second mapping");
    if (!region || *real != handle)
        return CUDA_SUCCESS;
    outside_make_room(region->gpu, region->size);
    status = RETRY_AFTER_ROOM_OF(region->gpu, region->size,
                                 hbmspill_real.cuMemCreate(&made, region->size, &region->prop, 0));
    if (status != CUDA_SUCCESS)
        return status;
    pthread_mutex_lock(&lock);
    if (!region->real && !region->reserved) { /* nobody did either meanwhile */
        HASH_DELETE(by_address, addresses, region);
        region->real = mine = true;
        region->handle = made;
    }
    in_use = !region->real;
    *real = region->real ? region->handle : handle;
    pthread_mutex_unlock(&lock);
    if (mine) {
        outside_add(region->gpu, OUTSIDE_HANDLE, made, region->size);
        return alloc_give(region->address);
    }
    (void)hbmspill_real.cuMemRelease(made);
    return in_use ? refused("an exported, bound or second mapping") : CUDA_SUCCESS;
}

bool region_map(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                unsigned long long flags, CUresult *status)
{
    struct region *region, *there = around(address);

    pthread_mutex_lock(&lock);
    region = of_id(handle);
    if (!there && (!region || region->real)) {
        region = NULL;
    } else if (region == there && region && address == region->address) {
        *status = CUDA_ERROR_INVALID_VALUE;
        if (size == region->size && !offset && !flags && !region->mapped && region->refs) {
            region->mapped = true;
            *status = CUDA_SUCCESS;
        }
    } else if (there) {
        region = there;
        *status = refused("another mapping");
    } else {
        region = NULL; /* mapped elsewhere: the driver's from now on (region_real_handle) */
    }
    pthread_mutex_unlock(&lock);
    return region;
}

bool region_unmap(CUdeviceptr address, size_t size, CUresult *status)
{
    struct region *region;

    pthread_mutex_lock(&lock);
    region = of_address(address);
    if (region && region->reserved) {
        *status = region->mapped && region->size == size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        if (*status == CUDA_SUCCESS)
            region->mapped = false;
    } else {
        region = NULL;
    }
    pthread_mutex_unlock(&lock);
    return region;
}

bool region_set_access(CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count,
                       CUresult *status)
{
    struct region *region = around(address);

    if (!region)
        return false;
    *status = CUDA_SUCCESS;
    if (!region->mapped || !access || !count || address != region->address || size != region->size)
        *status = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; *status == CUDA_SUCCESS && i < count; i++)
        if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
            access[i].location.id != region->gpu->device ||
            access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            *status = refused("access by others, or for reading alone");
    return true;
}

bool region_get_access(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address,
                       CUresult *status)
{
    struct region *region = around(address);

    if (!region)
        return false;
    *status = flags && location && region->mapped ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (*status == CUDA_SUCCESS)
        *flags = location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id == region->gpu->device
                     ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                     : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return true;
}

bool region_retain(CUmemGenericAllocationHandle *handle, CUdeviceptr address, CUresult *status)
{
    struct region *region = around(address);

    if (!region)
        return false;
    *status = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    if (handle && region->mapped) {
        region->refs++;
        *handle = region->id;
        *status = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return true;
}

bool region_properties(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle, CUresult *status)
{
    struct region *region;

    pthread_mutex_lock(&lock);
    region = of_id(handle);
    *status = prop && region ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (*status == CUDA_SUCCESS)
        *prop = region->prop;
    pthread_mutex_unlock(&lock);
    return region;
}
