#include "hooks/tensor_map.h"
#include "shim/log.h"
#include <pthread.h>
#include <uthash.h>

struct entry {
    unsigned char bytes[TENSOR_MAP_BYTES];
    uint64_t address;
    UT_hash_handle hh;
};

/* Protects the table. Leaf. */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct entry *entries;
static atomic_bool any;

/* False where it cannot be remembered: the caller must then refuse the map. */
static bool remember(const CUtensorMap *map, void *address)
{
    struct entry *entry;
    bool kept = true;

    _Static_assert(sizeof *map == TENSOR_MAP_BYTES, "a tensor map is 128 bytes");
    if (!shim_active() || !gpu_of_address((uint64_t)(uintptr_t)address))
        return true;
    pthread_rwlock_wrlock(&lock);
    HASH_FIND(hh, entries, map, TENSOR_MAP_BYTES, entry);
    if (!entry) {
        entry = malloc(sizeof *entry);
        if (entry) {
            memcpy(entry->bytes, map, TENSOR_MAP_BYTES);
            HASH_ADD(hh, entries, bytes, TENSOR_MAP_BYTES, entry);
        }
    }
    if (entry)
        entry->address = (uint64_t)(uintptr_t)address;
    else
        kept = false;
    pthread_rwlock_unlock(&lock);
    atomic_store_explicit(&any, true, memory_order_release);
    return kept;
}

void tensor_map_scan(const unsigned char *bytes, size_t offset, size_t size, struct touches *touches)
{
    if (!atomic_load_explicit(&any, memory_order_acquire))
        return;
    pthread_rwlock_rdlock(&lock);
    for (size_t at = (64 - offset % 64) % 64; at + TENSOR_MAP_BYTES <= size; at += 64) {
        struct entry *entry;

        HASH_FIND(hh, entries, bytes + at, TENSOR_MAP_BYTES, entry);
        if (entry)
            touches_add(touches, entry->address, CACHE_READ | CACHE_WRITE);
    }
    pthread_rwlock_unlock(&lock);
}

static CUresult remembered(CUresult status, const CUtensorMap *map, void *address)
{
    if (status == CUDA_SUCCESS && !remember(map, address))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return status;
}

CUresult hook_cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                     void *address, const cuuint64_t *dim, const cuuint64_t *strides,
                                     const cuuint32_t *box, const cuuint32_t *element_strides,
                                     CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                     CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    CUresult status = hbmspill_real.cuTensorMapEncodeTiled(
        map, type, rank, address, dim, strides, box, element_strides, interleave, swizzle, promotion, fill);

    return remembered(status, map, address);
}

CUresult hook_cuTensorMapEncodeIm2col(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                      void *address, const cuuint64_t *dim, const cuuint64_t *strides,
                                      const int *lower, const int *upper, cuuint32_t channels,
                                      cuuint32_t pixels, const cuuint32_t *element_strides,
                                      CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                      CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    CUresult status =
        hbmspill_real.cuTensorMapEncodeIm2col(map, type, rank, address, dim, strides, lower, upper, channels,
                                              pixels, element_strides, interleave, swizzle, promotion, fill);

    return remembered(status, map, address);
}

CUresult hook_cuTensorMapEncodeIm2colWide(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                          void *address, const cuuint64_t *dim, const cuuint64_t *strides,
                                          int lower, int upper, cuuint32_t channels, cuuint32_t pixels,
                                          const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
                                          CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle,
                                          CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    CUresult status = hbmspill_real.cuTensorMapEncodeIm2colWide(map, type, rank, address, dim, strides, lower,
                                                                upper, channels, pixels, element_strides,
                                                                interleave, mode, swizzle, promotion, fill);

    return remembered(status, map, address);
}

CUresult hook_cuTensorMapReplaceAddress(CUtensorMap *map, void *address)
{
    return remembered(hbmspill_real.cuTensorMapReplaceAddress(map, address), map, address);
}
