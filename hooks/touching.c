/*
 * touching.c - every other way by which the job has the device read or write memory: memsets, copies in two
 * and three dimensions, between devices, to and from arrays, in batches. What they name is brought in;
 * nothing is redirected.
 *
 * Words that the front end of the GPU polls or writes (cuStreamWaitValue and its like), textures over linear
 * memory and memory handed to somebody else are made to stay: such a use has no end that could be waited for.
 */
#include "hooks/behind.h"
#include "hooks/counters.h"
#include "hooks/host_alloc.h"
#include "hooks/operation.h"
#include "hooks/sync_memops.h"
#include "hooks/trace.h"
#include "hooks/window.h"

#define TOUCHING_FORM(name, symbol, parameters, arguments, on_stream, per_thread_stream, now, ...)           \
    CUresult name parameters                                                                                 \
    {                                                                                                        \
        struct operation operation;                                                                          \
        struct touches touches;                                                                              \
        CUresult status;                                                                                     \
        bool waits;                                                                                          \
                                                                                                             \
        if (!shim_active())                                                                                  \
            return hbmspill_real.symbol arguments;                                                           \
        count_add(copies, 1);                                                                                \
        touches_init(&touches);                                                                              \
        __VA_ARGS__;                                                                                         \
        waits = (now) && sync_memops_touched(&touches);                                                      \
        TRACE(trace_other(#symbol, &touches, on_stream, per_thread_stream));                                 \
        status = operation_begin(&operation, &touches, on_stream, per_thread_stream, false, #symbol);        \
        if (status != CUDA_SUCCESS)                                                                          \
            return status;                                                                                   \
        status = hbmspill_real.symbol arguments;                                                             \
        operation_end(&operation, status);                                                                   \
        return sync_memops_finish(waits, per_thread_stream, status);                                         \
    }

/* What is queued in a stream that is named, and the synchronous forms, in a default stream. */
#define TOUCHING(name, symbol, parameters, arguments, on_stream, per_thread_stream, ...)                     \
    TOUCHING_FORM(name, symbol, parameters, arguments, on_stream, per_thread_stream, false, __VA_ARGS__)
#define TOUCHING_HOOK(symbol, ...) TOUCHING(hook_##symbol, symbol, __VA_ARGS__)
#define TOUCHING_NOW_HOOK(symbol, parameters, arguments, per_thread_stream, ...)                             \
    TOUCHING_FORM(hook_##symbol, symbol, parameters, arguments, NULL, per_thread_stream, true, __VA_ARGS__)

#define READS(address, size) touches_add_range(&touches, (uint64_t)(address), size, CACHE_READ)
#define WRITES(address, size) touches_add_range(&touches, (uint64_t)(address), size, CACHE_READ | CACHE_WRITE)

/* From the first to the last byte of so many rows. */
static uint64_t extent(uint64_t width, uint64_t height, uint64_t pitch)
{
    return width && height ? (height - 1) * pitch + width : 0;
}

/* Both default-stream forms of a memset: symbol_v2, symbol_v2_ptds, symbolAsync, symbolAsync_ptsz. */
#define MEMSET_HOOKS(symbol, type)                                                                           \
    static TOUCHING(symbol##_now, symbol##Async, (CUdeviceptr dst, type value, size_t n, CUstream stream),   \
                    (dst, value, n, stream), stream, false, WRITES(dst, n * sizeof(type)))                   \
        TOUCHING_NOW_HOOK(symbol##_v2, (CUdeviceptr dst, type value, size_t n), (dst, value, n), false,      \
                          WRITES(dst, n * sizeof(type)))                                                     \
            TOUCHING_NOW_HOOK(symbol##_v2_ptds, (CUdeviceptr dst, type value, size_t n), (dst, value, n),    \
                              true, WRITES(dst, n * sizeof(type)))                                           \
                TOUCHING_HOOK(symbol##Async_ptsz, (CUdeviceptr dst, type value, size_t n, CUstream stream),  \
                              (dst, value, n, stream), stream, true, WRITES(dst, n * sizeof(type)))          \
                    CUresult hook_##symbol##Async(CUdeviceptr dst, type value, size_t n, CUstream stream)    \
    {                                                                                                        \
        CUresult status;                                                                                     \
                                                                                                             \
        if (shim_active() && touches_within(dst, n * sizeof(type)) &&                                        \
            window_hold_memset(dst, value, sizeof(type), n, stream, &status)) {                              \
            count_add(copies, 1);                                                                            \
            return status;                                                                                   \
        }                                                                                                    \
        return symbol##_now(dst, value, n, stream);                                                          \
    }

MEMSET_HOOKS(cuMemsetD8, unsigned char)
MEMSET_HOOKS(cuMemsetD16, unsigned short)
MEMSET_HOOKS(cuMemsetD32, unsigned int)

#define MEMSET_2D_HOOKS(symbol, type)                                                                        \
    TOUCHING_NOW_HOOK(symbol##_v2, (CUdeviceptr dst, size_t pitch, type value, size_t width, size_t height), \
                      (dst, pitch, value, width, height), false,                                             \
                      WRITES(dst, extent(width * sizeof(type), height, pitch)))                              \
    TOUCHING_NOW_HOOK(                                                                                       \
        symbol##_v2_ptds, (CUdeviceptr dst, size_t pitch, type value, size_t width, size_t height),          \
        (dst, pitch, value, width, height), true, WRITES(dst, extent(width * sizeof(type), height, pitch)))  \
    TOUCHING_HOOK(symbol##Async,                                                                             \
                  (CUdeviceptr dst, size_t pitch, type value, size_t width, size_t height, CUstream stream), \
                  (dst, pitch, value, width, height, stream), stream, false,                                 \
                  WRITES(dst, extent(width * sizeof(type), height, pitch)))                                  \
    TOUCHING_HOOK(symbol##Async_ptsz,                                                                        \
                  (CUdeviceptr dst, size_t pitch, type value, size_t width, size_t height, CUstream stream), \
                  (dst, pitch, value, width, height, stream), stream, true,                                  \
                  WRITES(dst, extent(width * sizeof(type), height, pitch)))

MEMSET_2D_HOOKS(cuMemsetD2D8, unsigned char)
MEMSET_2D_HOOKS(cuMemsetD2D16, unsigned short)
MEMSET_2D_HOOKS(cuMemsetD2D32, unsigned int)

/* One side of a box: by its device or its host address, as the driver reads the structure. */
static void add_side(struct touches *touches, bool by_host, uint64_t device, const void *host, uint64_t skip,
                     uint64_t size, unsigned access)
{
    touches_add_range(touches, (by_host ? (uintptr_t)host : device) + skip, size, access);
}

#define SIDE(touches, copy, side, skip_z, rows, slices, access)                                              \
    do {                                                                                                     \
        uint64_t pitch = (copy)->side##Pitch, slice = (rows)*pitch;                                          \
        if ((copy)->side##MemoryType != CU_MEMORYTYPE_ARRAY)                                                 \
            add_side(touches, (copy)->side##MemoryType == CU_MEMORYTYPE_HOST, (copy)->side##Device,          \
                     (copy)->side##Host, (skip_z)*slice + (copy)->side##Y * pitch + (copy)->side##XInBytes,  \
                     extent(extent((copy)->WidthInBytes, (copy)->Height, pitch), slices, slice), access);    \
    } while (0)

static void add_box_2d(struct touches *touches, const CUDA_MEMCPY2D *copy)
{
    SIDE(touches, copy, src, 0, 0, 1, CACHE_READ);
    SIDE(touches, copy, dst, 0, 0, 1, CACHE_READ | CACHE_WRITE);
}

#define ADD_BOX_3D(touches, copy)                                                                            \
    SIDE(touches, copy, src, (copy)->srcZ, (copy)->srcHeight, (copy)->Depth, CACHE_READ);                    \
    SIDE(touches, copy, dst, (copy)->dstZ, (copy)->dstHeight, (copy)->Depth, CACHE_READ | CACHE_WRITE)

static void add_box_3d(struct touches *touches, const CUDA_MEMCPY3D *copy)
{
    ADD_BOX_3D(touches, copy);
}

static void add_box_peer(struct touches *touches, const CUDA_MEMCPY3D_PEER *copy)
{
    ADD_BOX_3D(touches, copy);
}

#define BOTH_ENDS(add, copy)                                                                                 \
    if (copy)                                                                                                \
    add(&touches, copy)

#define STRUCT_COPY_HOOKS(symbol, async, type, add)                                                          \
    TOUCHING_NOW_HOOK(symbol, (const type *copy), (copy), false, BOTH_ENDS(add, copy))                       \
    TOUCHING_NOW_HOOK(symbol##_ptds, (const type *copy), (copy), true, BOTH_ENDS(add, copy))                 \
    TOUCHING_HOOK(async, (const type *copy, CUstream stream), (copy, stream), stream, false,                 \
                  BOTH_ENDS(add, copy))                                                                      \
    TOUCHING_HOOK(async##_ptsz, (const type *copy, CUstream stream), (copy, stream), stream, true,           \
                  BOTH_ENDS(add, copy))

STRUCT_COPY_HOOKS(cuMemcpy2D_v2, cuMemcpy2DAsync_v2, CUDA_MEMCPY2D, add_box_2d)
STRUCT_COPY_HOOKS(cuMemcpy3D_v2, cuMemcpy3DAsync_v2, CUDA_MEMCPY3D, add_box_3d)
STRUCT_COPY_HOOKS(cuMemcpy3DPeer, cuMemcpy3DPeerAsync, CUDA_MEMCPY3D_PEER, add_box_peer)
TOUCHING_NOW_HOOK(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *copy), (copy), false,
                  BOTH_ENDS(add_box_2d, copy))
TOUCHING_NOW_HOOK(cuMemcpy2DUnaligned_v2_ptds, (const CUDA_MEMCPY2D *copy), (copy), true,
                  BOTH_ENDS(add_box_2d, copy))

#define PEER_PARAMETERS                                                                                      \
    CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context, size_t size

TOUCHING_NOW_HOOK(cuMemcpyPeer, (PEER_PARAMETERS), (dst, dst_context, src, src_context, size), false,
                  READS(src, size);
                  WRITES(dst, size))
TOUCHING_NOW_HOOK(cuMemcpyPeer_ptds, (PEER_PARAMETERS), (dst, dst_context, src, src_context, size), true,
                  READS(src, size);
                  WRITES(dst, size))
TOUCHING_HOOK(cuMemcpyPeerAsync, (PEER_PARAMETERS, CUstream stream),
              (dst, dst_context, src, src_context, size, stream), stream, false, READS(src, size);
              WRITES(dst, size))
TOUCHING_HOOK(cuMemcpyPeerAsync_ptsz, (PEER_PARAMETERS, CUstream stream),
              (dst, dst_context, src, src_context, size, stream), stream, true, READS(src, size);
              WRITES(dst, size))

TOUCHING_NOW_HOOK(cuMemcpyDtoA_v2, (CUarray dst, size_t offset, CUdeviceptr src, size_t size),
                  (dst, offset, src, size), false, READS(src, size))
TOUCHING_NOW_HOOK(cuMemcpyDtoA_v2_ptds, (CUarray dst, size_t offset, CUdeviceptr src, size_t size),
                  (dst, offset, src, size), true, READS(src, size))
TOUCHING_NOW_HOOK(cuMemcpyAtoD_v2, (CUdeviceptr dst, CUarray src, size_t offset, size_t size),
                  (dst, src, offset, size), false, WRITES(dst, size))
TOUCHING_NOW_HOOK(cuMemcpyAtoD_v2_ptds, (CUdeviceptr dst, CUarray src, size_t offset, size_t size),
                  (dst, src, offset, size), true, WRITES(dst, size))

#define ALL_OF_BATCH                                                                                         \
    for (size_t i = 0; i < count && dsts && srcs; i++) {                                                     \
        READS(srcs[i], sizes ? sizes[i] : 0);                                                                \
        WRITES(dsts[i], sizes ? sizes[i] : 0);                                                               \
    }

/* 12.8 had one more parameter, the index of the copy that failed; 13.0 dropped it under a new symbol. */
TOUCHING_HOOK(cuMemcpyBatchAsync,
              (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
               CUmemcpyAttributes *attributes, size_t *indices, size_t n, size_t *failed, CUstream stream),
              (dsts, srcs, sizes, count, attributes, indices, n, failed, stream), stream, false, ALL_OF_BATCH)
TOUCHING_HOOK(cuMemcpyBatchAsync_ptsz,
              (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
               CUmemcpyAttributes *attributes, size_t *indices, size_t n, size_t *failed, CUstream stream),
              (dsts, srcs, sizes, count, attributes, indices, n, failed, stream), stream, true, ALL_OF_BATCH)
TOUCHING_HOOK(cuMemcpyBatchAsync_v2,
              (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
               CUmemcpyAttributes *attributes, size_t *indices, size_t n, CUstream stream),
              (dsts, srcs, sizes, count, attributes, indices, n, stream), stream, false, ALL_OF_BATCH)
TOUCHING_HOOK(cuMemcpyBatchAsync_v2_ptsz,
              (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
               CUmemcpyAttributes *attributes, size_t *indices, size_t n, CUstream stream),
              (dsts, srcs, sizes, count, attributes, indices, n, stream), stream, true, ALL_OF_BATCH)

static void batch_3d(struct touches *touches, const CUDA_MEMCPY3D_BATCH_OP *list, size_t count)
{
    for (size_t i = 0; list && i < count; i++) {
        if (list[i].src.type == CU_MEMCPY_OPERAND_TYPE_POINTER)
            touches_add(touches, list[i].src.op.ptr.ptr, CACHE_READ);
        if (list[i].dst.type == CU_MEMCPY_OPERAND_TYPE_POINTER)
            touches_add(touches, list[i].dst.op.ptr.ptr, CACHE_READ | CACHE_WRITE);
    }
}

TOUCHING_HOOK(cuMemcpy3DBatchAsync,
              (size_t count, CUDA_MEMCPY3D_BATCH_OP *list, size_t *failed, unsigned long long flags,
               CUstream stream),
              (count, list, failed, flags, stream), stream, false, batch_3d(&touches, list, count))
TOUCHING_HOOK(cuMemcpy3DBatchAsync_ptsz,
              (size_t count, CUDA_MEMCPY3D_BATCH_OP *list, size_t *failed, unsigned long long flags,
               CUstream stream),
              (count, list, failed, flags, stream), stream, true, batch_3d(&touches, list, count))
TOUCHING_HOOK(cuMemcpy3DBatchAsync_v2,
              (size_t count, CUDA_MEMCPY3D_BATCH_OP *list, unsigned long long flags, CUstream stream),
              (count, list, flags, stream), stream, false, batch_3d(&touches, list, count))
TOUCHING_HOOK(cuMemcpy3DBatchAsync_v2_ptsz,
              (size_t count, CUDA_MEMCPY3D_BATCH_OP *list, unsigned long long flags, CUstream stream),
              (count, list, flags, stream), stream, true, batch_3d(&touches, list, count))

static void decompressed(struct touches *touches, const CUmemDecompressParams *list, size_t count)
{
    for (size_t i = 0; list && i < count; i++) {
        touches_add(touches, (uintptr_t)list[i].src, CACHE_READ);
        touches_add(touches, (uintptr_t)list[i].dst, CACHE_READ | CACHE_WRITE);
        touches_add(touches, (uintptr_t)list[i].dstActBytes, CACHE_READ | CACHE_WRITE);
    }
}

TOUCHING_HOOK(cuMemBatchDecompressAsync,
              (CUmemDecompressParams * list, size_t count, unsigned flags, size_t *failed, CUstream stream),
              (list, count, flags, failed, stream), stream, false, decompressed(&touches, list, count))
TOUCHING_HOOK(cuMemBatchDecompressAsync_ptsz,
              (CUmemDecompressParams * list, size_t count, unsigned flags, size_t *failed, CUstream stream),
              (list, count, flags, failed, stream), stream, true, decompressed(&touches, list, count))

/* Uses without an end. */
#define FIXING_HOOK(symbol, parameters, arguments, address)                                                  \
    CUresult hook_##symbol parameters                                                                        \
    {                                                                                                        \
        CUresult status = shim_active() ? operation_fix((uint64_t)(address), #symbol) : CUDA_SUCCESS;        \
                                                                                                             \
        return status == CUDA_SUCCESS ? hbmspill_real.symbol arguments : status;                             \
    }

/* The plain names are the first versions, with the same parameters. */
/* Made to stay, and an operation of the stream like any other, so that a free behind it comes after it. */
#define VALUE_HOOK(symbol, type, per_thread_stream, waits)                                                   \
    static TOUCHING(                                                                                         \
        symbol##_now, symbol, (CUstream stream, CUdeviceptr address, type value, unsigned flags),            \
        (stream, address, value, flags), stream, per_thread_stream, WRITES(address, sizeof(type)))           \
        CUresult hook_##symbol(CUstream stream, CUdeviceptr address, type value, unsigned flags)             \
    {                                                                                                        \
        CUresult status = shim_active() ? operation_fix(address, #symbol) : CUDA_SUCCESS;                    \
        struct gpu *gpu;                                                                                     \
                                                                                                             \
        if (status != CUDA_SUCCESS)                                                                          \
            return status;                                                                                   \
        gpu = (waits) ? behind_begin(stream, per_thread_stream) : NULL;                                      \
        status = symbol##_now(stream, address, value, flags);                                                \
        behind_end(gpu, stream, per_thread_stream);                                                          \
        return status;                                                                                       \
    }

#define VALUE_HOOKS(symbol, type, waits)                                                                     \
    VALUE_HOOK(symbol, type, false, waits)                                                                   \
    VALUE_HOOK(symbol##_ptsz, type, true, waits)                                                             \
    VALUE_HOOK(symbol##_v2, type, false, waits)                                                              \
    VALUE_HOOK(symbol##_v2_ptsz, type, true, waits)

VALUE_HOOKS(cuStreamWaitValue32, cuuint32_t, true)
VALUE_HOOKS(cuStreamWaitValue64, cuuint64_t, true)
VALUE_HOOKS(cuStreamWriteValue32, cuuint32_t, false)
VALUE_HOOKS(cuStreamWriteValue64, cuuint64_t, false)

static bool has_address(const CUstreamBatchMemOpParams *one)
{
    return one->operation != CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES &&
           one->operation != CU_STREAM_MEM_OP_BARRIER;
}

static CUresult fix_batch(const CUstreamBatchMemOpParams *list, unsigned count)
{
    CUresult status = CUDA_SUCCESS;

    for (unsigned i = 0; shim_active() && list && i < count && status == CUDA_SUCCESS; i++)
        if (has_address(&list[i]))
            status = operation_fix(list[i].waitValue.address, "cuStreamBatchMemOp");
    return status;
}

static void batch_values(struct touches *touches, const CUstreamBatchMemOpParams *list, unsigned count)
{
    for (unsigned i = 0; list && i < count; i++)
        if (has_address(&list[i]))
            touches_add(touches, list[i].waitValue.address, CACHE_READ | CACHE_WRITE);
}

static bool batch_waits(const CUstreamBatchMemOpParams *list, unsigned count)
{
    bool waits = false;

    for (unsigned i = 0; list && i < count; i++)
        waits |= list[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
                 list[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
    return waits;
}

#define BATCH_HOOK(symbol, per_thread_stream)                                                                \
    static TOUCHING(symbol##_now, symbol,                                                                    \
                    (CUstream stream, unsigned count, CUstreamBatchMemOpParams *list, unsigned flags),       \
                    (stream, count, list, flags), stream, per_thread_stream,                                 \
                    batch_values(&touches, list, count))                                                     \
        CUresult hook_##symbol(CUstream stream, unsigned count, CUstreamBatchMemOpParams *list,              \
                               unsigned flags)                                                               \
    {                                                                                                        \
        CUresult status = fix_batch(list, count);                                                            \
        struct gpu *gpu;                                                                                     \
                                                                                                             \
        if (status != CUDA_SUCCESS)                                                                          \
            return status;                                                                                   \
        gpu = shim_active() && batch_waits(list, count) ? behind_begin(stream, per_thread_stream) : NULL;    \
        status = symbol##_now(stream, count, list, flags);                                                   \
        behind_end(gpu, stream, per_thread_stream);                                                          \
        return status;                                                                                       \
    }

BATCH_HOOK(cuStreamBatchMemOp, false)
BATCH_HOOK(cuStreamBatchMemOp_ptsz, true)
BATCH_HOOK(cuStreamBatchMemOp_v2, false)
BATCH_HOOK(cuStreamBatchMemOp_v2_ptsz, true)

static uint64_t texture_address(const CUDA_RESOURCE_DESC *resource)
{
    if (!resource)
        return 0;
    if (resource->resType == CU_RESOURCE_TYPE_LINEAR)
        return resource->res.linear.devPtr;
    return resource->resType == CU_RESOURCE_TYPE_PITCH2D ? resource->res.pitch2D.devPtr : 0;
}

FIXING_HOOK(cuTexObjectCreate,
            (CUtexObject * texture, const CUDA_RESOURCE_DESC *resource, const CUDA_TEXTURE_DESC *description,
             const CUDA_RESOURCE_VIEW_DESC *view),
            (texture, resource, description, view), texture_address(resource))
FIXING_HOOK(cuTexRefSetAddress_v2, (size_t * offset, CUtexref texture, CUdeviceptr address, size_t size),
            (offset, texture, address, size), address)
FIXING_HOOK(cuTexRefSetAddress2D_v2,
            (CUtexref texture, const CUDA_ARRAY_DESCRIPTOR *description, CUdeviceptr address, size_t pitch),
            (texture, description, address, pitch), address)
FIXING_HOOK(cuTexRefSetAddress2D_v3,
            (CUtexref texture, const CUDA_ARRAY_DESCRIPTOR *description, CUdeviceptr address, size_t pitch),
            (texture, description, address, pitch), address)
FIXING_HOOK(cuMemGetHandleForAddressRange,
            (void *handle, CUdeviceptr address, size_t size, CUmemRangeHandleType type,
             unsigned long long flags),
            (handle, address, size, type, flags), address)
FIXING_HOOK(cuMulticastBindAddr,
            (CUmemGenericAllocationHandle multicast, size_t offset, CUdeviceptr address, size_t size,
             unsigned long long flags),
            (multicast, offset, address, size, flags), address)

CUresult hook_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
    CUresult status;

    if (!shim_active() || !value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !gpu_of_address(address))
        return host_set_attribute(value, attribute, address);
    status = operation_fix(address, "cuPointerSetAttribute");
    if (status != CUDA_SUCCESS)
        return status;
    return sync_memops_set(address, *(const unsigned *)value) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
