/*
 * pool_places.c - where pools are: on a device, on the host, on one of its nodes; the default and the current
 * one of each place, and who may reach what is in them.
 *
 * "In the case of pools created with CU_MEM_LOCATION_TYPE_HOST_NUMA or CU_MEM_LOCATION_TYPE_HOST, their
 * default accessibility will be from the host CPU" (cuMemPoolCreate): devices have to be given access.
 */
#include "memory_pool.h"

#include <string.h>

struct host_place {
    struct CUmemPoolHandle_st *default_pool, *current_pool;
};

/* Of the host: its nodes, and last the one for memory that is on no node in particular. */
static struct host_place host_places[MAX_HOST_NODES + 1];

bool pool_valid(CUmemoryPool pool)
{
    return object_valid(pool, OBJECT_POOL) && !pool->destroyed && !pool->heap_of;
}

static struct CUmemPoolHandle_st *default_pool_locked(struct device *device)
{
    if (!device->default_pool) {
        CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal}};
        device->default_pool = pool_new_locked(device, &props, NULL);
        if (device->default_pool)
            device->default_pool->is_default = true;
    }
    return device->default_pool;
}

struct CUmemPoolHandle_st *pool_current_locked(struct device *device)
{
    if (!device->current_pool || !object_valid(device->current_pool, OBJECT_POOL))
        device->current_pool = default_pool_locked(device);
    return device->current_pool;
}

/* ---- of the host ---- */

/* CUDA_SUCCESS, with the place; what the driver says of a location that no pool is at. */
static CUresult find_host_place(const CUmemLocation *location, struct host_place **out)
{
    switch (location->type) {
    case CU_MEM_LOCATION_TYPE_HOST: /* "id is ignored for such pools" */
        *out = &host_places[MAX_HOST_NODES];
        break;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA: /* "id must specify the NUMA ID of the host memory node" */
        if (location->id < 0 || location->id >= options.host_nodes)
            return CUDA_ERROR_INVALID_VALUE;
        *out = &host_places[location->id];
        break;
    default: /* "Specifying CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT [..] will result in
              * CUDA_ERROR_INVALID_VALUE"
              */
        return CUDA_ERROR_INVALID_VALUE;
    }
    return options.host_vmm == HOST_VMM_OFF       ? CUDA_ERROR_NOT_SUPPORTED
           : options.host_vmm == HOST_VMM_REFUSED ? CUDA_ERROR_NOT_PERMITTED
                                                  : CUDA_SUCCESS;
}

static struct CUmemPoolHandle_st *host_default_locked(struct host_place *place, const CUmemLocation *location)
{
    if (!place->default_pool) {
        CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = *location};
        place->default_pool = pool_new_locked(NULL, &props, NULL);
        if (place->default_pool)
            place->default_pool->is_default = true;
    }
    return place->default_pool;
}

static struct CUmemPoolHandle_st *host_current_locked(struct host_place *place, const CUmemLocation *location)
{
    return place->current_pool ? place->current_pool : host_default_locked(place, location);
}

/* ---- pools come and go ---- */

static CUresult create_on_host(CUmemoryPool *out, const CUmemPoolProps *props)
{
    struct host_place *place;
    CUresult result = find_host_place(&props->location, &place);
    if (result != CUDA_SUCCESS)
        return result;
    if (props->handleTypes != CU_MEM_HANDLE_TYPE_NONE) /* of a node's, as the device's attribute 119 says */
        return props->location.type == CU_MEM_LOCATION_TYPE_HOST ? CUDA_ERROR_INVALID_VALUE
                                                                 : CUDA_ERROR_NOT_SUPPORTED;
    driver_acquire();
    struct CUmemPoolHandle_st *pool = pool_new_locked(NULL, props, NULL);
    driver_release();
    if (!pool)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = pool;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props)
{
    API_ENTER(0);
    if (!out || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return create_on_host(out, props);
    if (props->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (device_check(props->location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    driver_acquire();
    struct CUmemPoolHandle_st *pool = pool_new_locked(&devices[props->location.id], props, NULL);
    driver_release();
    if (!pool)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = pool;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    API_ENTER(0);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    if (pool_valid(pool) && !pool->is_default) { /* "A device's default memory pool cannot be destroyed." */
        /* "Destroying the current mempool of a device sets the default mempool of that device as the current
         * mempool for that device." */
        if (pool->device && pool->device->current_pool == pool)
            pool->device->current_pool = default_pool_locked(pool->device);
        for (size_t i = 0; i < ARRAY_SIZE(host_places); i++)
            if (host_places[i].current_pool == pool)
                host_places[i].current_pool = NULL;
        pool_destroy_locked(pool);
        result = CUDA_SUCCESS;
    }
    driver_release();
    return result;
}

/* ---- access ---- */

CUmemAccess_flags pool_device_access(const struct CUmemPoolHandle_st *pool)
{
    unsigned flags = pool->device ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    for (int i = 0; i < device_count && !pool->device; i++)
        flags |= pool->access[i];
    return flags;
}

static struct block *next_used(struct CUmemPoolHandle_st *pool, uint64_t from)
{
    for (struct block *b = pool->blocks; b; b = b->next)
        if (b->state == BLOCK_USED && b->base >= from)
            return b;
    return NULL;
}

/* What is there already has the access that the pool now says. */
static CUresult apply_access_locked(struct CUmemPoolHandle_st *pool, CUmemAccess_flags before)
{
    CUmemAccess_flags flags = pool_device_access(pool);
    if (before & ~flags) {
        /* The lock may be dropped meanwhile: by address. */
        for (struct block *b = next_used(pool, 0); b;) {
            uint64_t end = b->base + b->size;
            memory_leaves_locked("cuMemPoolSetAccess", b->base, b->size, true);
            b = next_used(pool, end);
        }
    }
    for (struct block *b = pool->blocks; b;) {
        struct block *first = b;
        uint64_t end = b->base;
        for (; b && b->state != BLOCK_HOLE && b->base == end; b = b->next)
            end += b->size; /* holes begin and end with a page, and so does what is between them */
        if (end > first->base &&
            window_access_locked(first->base, end - first->base, (uint8_t)flags, -1) != 0)
            return CUDA_ERROR_OUT_OF_MEMORY;
        if (b == first)
            b = b->next;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    API_ENTER(0);
    if (!pool_valid(pool) || (!map && count))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
            return CUDA_ERROR_INVALID_VALUE;
        if (device_check(map[i].location.id))
            return CUDA_ERROR_INVALID_DEVICE;
        if (!pool->device) {
            if (map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
                map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
                map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
                return CUDA_ERROR_INVALID_VALUE;
            continue;
        }
        /* The pool's own device always has access; other devices are no peers here. */
        bool own = map[i].location.id == pool->device->ordinal;
        if (own ? map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                : map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (pool->device)
        return CUDA_SUCCESS;
    driver_acquire();
    CUmemAccess_flags before = pool_device_access(pool);
    for (size_t i = 0; i < count; i++)
        pool->access[map[i].location.id] = map[i].flags;
    CUresult result = apply_access_locked(pool, before);
    driver_release();
    return result;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
    API_ENTER(0);
    if (!flags || !location || !pool_valid(pool))
        return CUDA_ERROR_INVALID_VALUE;
    if (!pool->device &&
        (location->type == CU_MEM_LOCATION_TYPE_HOST || location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA)) {
        *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        return CUDA_SUCCESS;
    }
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_check(location->id))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!pool->device)
        *flags = pool->access[location->id];
    else
        *flags = location->id == pool->device->ordinal ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                       : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

/* ---- the default one, and the current one ---- */

static CUresult of_device(CUmemoryPool *out, CUdevice dev, struct CUmemPoolHandle_st *(*get)(struct device *))
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_check(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    driver_acquire();
    *out = get(&devices[dev]);
    driver_release();
    return CUDA_SUCCESS;
}

static CUresult of_host(CUmemoryPool *out, const CUmemLocation *location,
                        struct CUmemPoolHandle_st *(*get)(struct host_place *, const CUmemLocation *))
{
    struct host_place *place;
    CUresult result = find_host_place(location, &place);
    if (result != CUDA_SUCCESS)
        return result;
    driver_acquire();
    struct CUmemPoolHandle_st *pool = get(place, location);
    driver_release();
    if (!pool)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = pool;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice dev)
{
    API_ENTER(0);
    return of_device(out, dev, default_pool_locked);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *out, CUdevice dev)
{
    API_ENTER(0);
    return of_device(out, dev, pool_current_locked);
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *out, CUmemLocation *location, CUmemAllocationType type)
{
    API_ENTER(0);
    if (!out || !location || type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    return location->type == CU_MEM_LOCATION_TYPE_DEVICE ? of_device(out, location->id, default_pool_locked)
                                                         : of_host(out, location, host_default_locked);
}

CUresult cuMemGetMemPool(CUmemoryPool *out, CUmemLocation *location, CUmemAllocationType type)
{
    API_ENTER(0);
    if (!out || !location || type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    return location->type == CU_MEM_LOCATION_TYPE_DEVICE ? of_device(out, location->id, pool_current_locked)
                                                         : of_host(out, location, host_current_locked);
}

/* "The memory pool must be local to the specified device." */
static CUresult set_of_device(CUdevice dev, CUmemoryPool pool)
{
    if (device_check(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!pool_valid(pool) || pool->device != &devices[dev])
        return CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    devices[dev].current_pool = pool;
    driver_release();
    return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
    API_ENTER(0);
    return set_of_device(dev, pool);
}

/* "The location and allocation type specified must match those of the pool" */
CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    API_ENTER(0);
    if (!location || type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (location->type == CU_MEM_LOCATION_TYPE_DEVICE)
        return set_of_device(location->id, pool);
    struct host_place *place;
    CUresult result = find_host_place(location, &place);
    if (result != CUDA_SUCCESS)
        return result;
    bool matches = pool_valid(pool) && pool->props.location.type == location->type &&
                   (location->type == CU_MEM_LOCATION_TYPE_HOST || pool->props.location.id == location->id);
    if (!matches)
        return CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    place->current_pool = pool;
    driver_release();
    return CUDA_SUCCESS;
}
