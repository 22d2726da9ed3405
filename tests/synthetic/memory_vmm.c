/*
 * memory_vmm.c - virtual memory management: reservations, handles, mappings, access.
 *
 * The rules are those of "Virtual Memory Management" in the driver API reference: a mapping covers a whole
 * handle at offset 0 of a range that is reserved and not mapped; it gives no access until cuMemSetAccess;
 * cuMemUnmap takes whole mappings, one or several in a row; a handle's memory lives until it is released and
 * no longer mapped; it may be mapped at several addresses.
 */
#include "clock.h"
#include "model/machine.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct handle {
    CUmemGenericAllocationHandle id;
    CUmemAllocationProp prop;
    uint64_t size;
    uint32_t *frames;
    uint8_t space;
    unsigned refs; /* cuMemCreate and cuMemRetainAllocationHandle, less cuMemRelease */
    unsigned mappings;
    uint64_t inode; /* of the file that stands for it, where it was exported */
};

struct reservation {
    uint64_t base, size;
    struct reservation *next;
};

static struct handle **handles; /* by id; NULL: gone */
static uint64_t handle_count, handle_capacity;
static struct reservation *reservations;

#define HANDLE_BASE 0x10000

static struct handle *handle_find(CUmemGenericAllocationHandle id)
{
    return id >= HANDLE_BASE && id - HANDLE_BASE < handle_count ? handles[id - HANDLE_BASE] : NULL;
}

static void handle_drop(struct handle *handle)
{
    if (handle->refs || handle->mappings)
        return;
    frames_give_locked(frames_of(handle->space), (uint32_t)(handle->size / PAGE), handle->frames);
    if (handle->space == SPACE_HOST)
        host_pages_locked(-(int64_t)handle->size);
    handles[handle->id - HANDLE_BASE] = NULL;
    free(handle->frames);
    free(handle);
}

void vmm_live_locked(size_t *live_handles, size_t *live_reservations)
{
    *live_handles = *live_reservations = 0;
    for (uint64_t i = 0; i < handle_count; i++)
        *live_handles += handles[i] && handles[i]->refs;
    for (const struct reservation *r = reservations; r; r = r->next)
        ++*live_reservations;
}

void vmm_host_nodes_locked(size_t live[MAX_HOST_NODES])
{
    memset(live, 0, MAX_HOST_NODES * sizeof(live[0]));
    for (uint64_t i = 0; i < handle_count; i++)
        if (handles[i] && handles[i]->prop.location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
            live[handles[i]->prop.location.id]++;
}

static CUresult prop_check(const CUmemAllocationProp *prop, uint8_t *space)
{
    if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->requestedHandleTypes &
        ~(CUmemAllocationHandleType)(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC))
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC || prop->allocFlags.gpuDirectRDMACapable)
        return CUDA_ERROR_NOT_SUPPORTED; /* as the device's attributes 110, 116 and 128 say */
    switch (prop->location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        if (device_check(prop->location.id))
            return CUDA_ERROR_INVALID_DEVICE;
        *space = (uint8_t)prop->location.id;
        return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST:
        *space = SPACE_HOST;
        return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA: /* "id must specify the NUMA ID of the CPU" */
        if (prop->location.id < 0 || prop->location.id >= options.host_nodes)
            return CUDA_ERROR_INVALID_VALUE;
        *space = SPACE_HOST;
        return CUDA_SUCCESS;
    default: /* "Specifying CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT [..] will result in
                CUDA_ERROR_INVALID_VALUE" */
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option)
{
    API_ENTER(0);
    uint8_t space;
    if (!granularity ||
        (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM && option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = prop_check(prop, &space);
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_SUPPORTED) {
        *granularity = PAGE;
        return CUDA_SUCCESS;
    }
    return result;
}

CUresult cuMemAddressReserve(CUdeviceptr *out, size_t size, size_t alignment, CUdeviceptr wish,
                             unsigned long long flags)
{
    API_ENTER(0);
    if (!out || !size || size & PAGE_MASK || flags || (alignment & (alignment - 1)))
        return CUDA_ERROR_INVALID_VALUE;
    struct reservation *r = malloc(sizeof(*r));
    if (!r)
        return CUDA_ERROR_OUT_OF_MEMORY;
    driver_acquire();
    r->base = window_reserve_locked(size, alignment < PAGE ? PAGE : alignment, wish);
    r->size = size;
    if (r->base) {
        r->next = reservations;
        reservations = r;
        *out = r->base;
    }
    driver_release();
    if (!r->base) {
        free(r);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

static bool anything_mapped(uint64_t base, uint64_t size)
{
    for (uint64_t a = base; a < base + size; a += PAGE)
        if (window_page(a)->frame)
            return true;
    return false;
}

CUresult cuMemAddressFree(CUdeviceptr base, size_t size)
{
    API_ENTER(0);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    for (struct reservation **link = &reservations; *link; link = &(*link)->next) {
        struct reservation *r = *link;
        if (r->base != base)
            continue;
        if (r->size == size && !anything_mapped(base, size)) {
            *link = r->next;
            window_release_locked(base, size);
            free(r);
            result = CUDA_SUCCESS;
        }
        break;
    }
    driver_release();
    return result;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t size, const CUmemAllocationProp *prop,
                     unsigned long long flags)
{
    API_ENTER(0);
    uint8_t space = 0;
    if (!out || flags || !size || size & PAGE_MASK)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = prop_check(prop, &space);
    if (result != CUDA_SUCCESS)
        return result;
    if (space == SPACE_HOST && options.host_vmm == HOST_VMM_OFF)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (space == SPACE_HOST && options.host_vmm == HOST_VMM_REFUSED)
        return CUDA_ERROR_NOT_PERMITTED;
    uint32_t n = (uint32_t)(size / PAGE);
    struct handle *handle = calloc(1, sizeof(*handle));
    if (handle)
        handle->frames = malloc(n * sizeof(*handle->frames));
    driver_acquire();
    struct frames *frames = frames_of(space);
    result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!handle || !handle->frames || !frames)
        goto fail;
    if (handle_count == handle_capacity) {
        uint64_t more = handle_capacity ? handle_capacity * 2 : 1024;
        struct handle **grown = realloc(handles, more * sizeof(struct handle *));
        if (!grown)
            goto fail;
        handles = grown;
        handle_capacity = more;
    }
    if (!frames_take_locked(frames, n, handle->frames) &&
        !(space != SPACE_HOST && pool_reclaim_locked(frames) &&
          frames_take_locked(frames, n, handle->frames)))
        goto fail;
    handle->prop = *prop;
    handle->size = size;
    handle->space = space;
    handle->refs = 1;
    handle->id = HANDLE_BASE + handle_count;
    handles[handle_count++] = handle;
    *out = handle->id;
    if (space == SPACE_HOST)
        host_pages_locked((int64_t)size);
    driver_release();
    return CUDA_SUCCESS;
fail:
    driver_release();
    if (handle)
        free(handle->frames);
    free(handle);
    return result;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle id)
{
    API_ENTER(0);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    struct handle *handle = handle_find(id);
    if (handle && handle->refs) {
        handle->refs--;
        handle_drop(handle);
        result = CUDA_SUCCESS;
    }
    driver_release();
    return result;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address)
{
    API_ENTER(0);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (!out)
        return result;
    driver_acquire();
    struct range *range = range_find_locked((uint64_t)(uintptr_t)address);
    if (range && range->kind == RANGE_MAPPING) {
        struct handle *handle = range->owner;
        handle->refs++;
        *out = handle->id;
        result = CUDA_SUCCESS;
    }
    driver_release();
    return result;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop, CUmemGenericAllocationHandle id)
{
    API_ENTER(0);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    struct handle *handle = handle_find(id);
    if (prop && handle) {
        *prop = handle->prop;
        result = CUDA_SUCCESS;
    }
    driver_release();
    return result;
}

/* Inside one reservation, though not necessarily all of it. */
static bool inside_reservation(uint64_t base, uint64_t size)
{
    for (struct reservation *r = reservations; r; r = r->next)
        if (base >= r->base && size <= r->size && base - r->base <= r->size - size)
            return true;
    return false;
}

CUresult cuMemMap(CUdeviceptr base, size_t size, size_t offset, CUmemGenericAllocationHandle id,
                  unsigned long long flags)
{
    API_ENTER(0);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (flags || offset || !size || size & PAGE_MASK || base & PAGE_MASK)
        return result;
    driver_acquire();
    struct handle *handle = handle_find(id);
    if (!handle || !handle->refs || handle->size != size || !inside_reservation(base, size) ||
        anything_mapped(base, size))
        goto out;
    struct range range = {
        .base = base,
        .size = size,
        .kind = RANGE_MAPPING,
        .device = handle->space == SPACE_HOST ? CU_DEVICE_INVALID : handle->space,
        .owner = handle,
    };
    result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!range_add_locked(&range))
        goto out;
    window_map_locked(base, (uint32_t)(size / PAGE), handle->space, handle->frames);
    handle->mappings++;
    result = CUDA_SUCCESS;
out:
    driver_release();
    return result;
}

/* [base, base + size) is exactly one or several whole mappings. */
static bool whole_mappings(uint64_t base, uint64_t size)
{
    uint64_t end = base + size;
    while (base < end) {
        struct range *range = range_find_locked(base);
        if (!range || range->kind != RANGE_MAPPING || range->base != base || range->size > end - base)
            return false;
        base += range->size;
    }
    return size != 0;
}

CUresult cuMemUnmap(CUdeviceptr base, size_t size)
{
    API_ENTER(0);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    if (!whole_mappings(base, size))
        goto out;
    memory_leaves_locked("cuMemUnmap", base, size, true);
    if (!whole_mappings(base, size)) /* another thread was faster while a running operation was waited for */
        goto out;
    window_unmap_locked(base, size);
    for (uint64_t a = base; a < base + size;) {
        struct range *range = range_find_locked(a);
        struct handle *handle = range->owner;
        a += range->size;
        range_remove_locked(range);
        handle->mappings--;
        handle_drop(handle);
    }
    result = CUDA_SUCCESS;
out:
    driver_release();
    return result;
}

static bool access_flags_valid(CUmemAccess_flags flags)
{
    return flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
           flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

CUresult cuMemSetAccess(CUdeviceptr base, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    API_ENTER(0);
    int device = -1, device_access = -1, host_access = -1;
    if (!desc || !count || !size)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (!access_flags_valid(desc[i].flags))
            return CUDA_ERROR_INVALID_VALUE;
        switch (desc[i].location.type) {
        case CU_MEM_LOCATION_TYPE_DEVICE:
            if (device_check(desc[i].location.id))
                return CUDA_ERROR_INVALID_DEVICE;
            device = desc[i].location.id;
            device_access = (int)desc[i].flags;
            break;
        case CU_MEM_LOCATION_TYPE_HOST:
        case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
            host_access = (int)desc[i].flags;
            break;
        default:
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    /* "the range must be a multiple of whole mapped allocations": what is set is set for all of each. */
    if (!whole_mappings(base, size))
        goto out;
    if (host_access > 0) { /* the CPU has no access to the memory of this device */
        for (uint64_t a = base; a < base + size; a += PAGE)
            if (window_page(a)->space != SPACE_HOST)
                goto out;
    }
    bool changes = false, lessens = false;
    for (uint64_t a = base; device_access >= 0 && a < base + size; a += PAGE) {
        struct page *page = window_page(a);
        if (page->space != SPACE_HOST && page->space != device) {
            result = CUDA_ERROR_INVALID_DEVICE; /* devices are no peers of each other */
            goto out;
        }
        changes |= page->device_access != device_access;
        lessens |= (page->device_access & ~device_access) != 0;
    }
    if (lessens)
        memory_leaves_locked("cuMemSetAccess", base, size, true);
    result = CUDA_SUCCESS;
    if (!changes && host_access < 0)
        goto out;
    uint8_t access = device_access >= 0 ? (uint8_t)device_access : window_page(base)->device_access;
    if (window_access_locked(base, size, access, host_access) != 0)
        result = CUDA_ERROR_OUT_OF_MEMORY;
out:
    driver_release();
    return result;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address)
{
    API_ENTER(0);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (!flags || !location)
        return result;
    driver_acquire();
    struct range *range = range_find_locked(address);
    if (range && range->kind == RANGE_MAPPING) {
        const struct page *page = window_page(address);
        result = CUDA_SUCCESS;
        if (location->type == CU_MEM_LOCATION_TYPE_DEVICE)
            *flags = page->space == SPACE_HOST || page->space == location->id ? page->device_access : 0;
        else
            *flags = page->host_access;
    }
    driver_release();
    return result;
}

/*
 * A file descriptor stands for a handle within this process: importing it retains the handle. Another process
 * cannot import it.
 */
CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle id,
                                      CUmemAllocationHandleType type, unsigned long long flags)
{
    API_ENTER(0);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    struct stat file;
    driver_acquire();
    struct handle *handle = handle_find(id);
    if (!handle || !out || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        !(handle->prop.requestedHandleTypes & type))
        goto out;
    result = CUDA_ERROR_OPERATING_SYSTEM;
    int fd = memfd_create("synthetic-gpu-handle", MFD_CLOEXEC);
    if (fd < 0 || fstat(fd, &file) != 0)
        goto out;
    handle->inode = file.st_ino;
    *(int *)out = fd; /* the caller's to close */
    result = CUDA_SUCCESS;
out:
    driver_release();
    return result;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *os_handle,
                                        CUmemAllocationHandleType type)
{
    API_ENTER(0);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    struct stat file;
    if (!out || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        fstat((int)(intptr_t)os_handle, &file) != 0)
        return result;
    driver_acquire();
    for (uint64_t i = 0; i < handle_count && result != CUDA_SUCCESS; i++) {
        if (handles[i] && handles[i]->inode && handles[i]->inode == file.st_ino) {
            handles[i]->refs++;
            *out = handles[i]->id;
            result = CUDA_SUCCESS;
        }
    }
    driver_release();
    return result;
}
