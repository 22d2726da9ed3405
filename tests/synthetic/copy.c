/*
 * copy.c - the copies and memsets of the API.
 *
 * "API synchronization behavior" of the driver API reference, followed to the letter:
 *   synchronous copies: pageable to device returns when the source is staged, after synchronizing the stream;
 * to pageable or pinned host memory when it is done; device to device does not wait; host to host waits.
 *   asynchronous copies: pageable to device is staged; device to pageable waits; host to host waits; others
 * do not. memsets: do not wait, but for pinned host memory in the synchronous form. What a pointer is
 * decides, not the function's name.
 */
#include "clock.h"
#include "fault.h"
#include "model/machine.h"

#include <stdlib.h>
#include <string.h>

static CUresult stage(struct copy_work *copy)
{
    char *to = malloc(copy->width * copy->height * copy->depth);
    if (!to)
        return CUDA_ERROR_OUT_OF_MEMORY;
    const char *from = (const char *)(uintptr_t)copy->src;
    copy->staged = to;
    for (size_t z = 0; z < copy->depth; z++)
        for (size_t y = 0; y < copy->height; y++, to += copy->width)
            memcpy(to, from + z * copy->src_slice + y * copy->src_pitch, copy->width);
    copy->src = (uint64_t)(uintptr_t)copy->staged;
    copy->src_pitch = copy->width;
    copy->src_slice = copy->width * copy->height;
    return CUDA_SUCCESS;
}

/* Virtual time: the host copies it, at the rate of its memory. */
static double staging_ns(const struct copy_work *copy)
{
    const struct work work = {.kind = WORK_COPY, .copy = *copy};
    return clock_runs ? work_bytes(&work) * 1e9 / MACHINE_HOST_RATE : 0;
}

/* What the pointers are; CUDA_ERROR_INVALID_VALUE for a device address of nobody's. */
static CUresult classify_locked(struct copy_work *copy)
{
    size_t h = copy->height - 1, d = copy->depth - 1;
    copy->dst_place = place_of_locked(copy->dst, d * copy->dst_slice + h * copy->dst_pitch + copy->width);
    copy->src_place = place_of_locked(copy->src, d * copy->src_slice + h * copy->src_pitch + copy->width);
    if (copy->dst_place == PLACE_NOWHERE || copy->src_place == PLACE_NOWHERE)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: "synchronous memory operations initiated on the region of memory that ptr
 * points to will always synchronize". */
static bool always_synchronizes_locked(uint64_t address)
{
    const struct range *range = range_find_locked(address);
    return range && range->sync_memops;
}

static CUresult submit(struct copy_work copy, CUstream handle, bool synchronous)
{
    struct CUstream_st *stream;
    struct op *op = NULL;
    copy.corrupt = fault_corrupts();
    if (!copy.width || !copy.height || !copy.depth)
        return CUDA_SUCCESS;
    if (!copy.dst || !copy.src)
        return CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    CUresult result = stream_resolve_locked(handle, &stream);
    if (result == CUDA_SUCCESS)
        result = classify_locked(&copy);
    if (result != CUDA_SUCCESS)
        goto out;
    bool from_device = copy.src_place == PLACE_DEVICE, to_device = copy.dst_place == PLACE_DEVICE;
    bool wait = (!from_device && !to_device) || copy.dst_place == PLACE_PAGEABLE ||
                (synchronous && !(from_device && to_device));
    bool always =
        synchronous && (always_synchronizes_locked(copy.src) || always_synchronizes_locked(copy.dst));
    if (stream->capture) {
        /* "host memory copies from and to pageable memory are not permitted in a capture" where they would
         * wait. */
        if (copy.dst_place == PLACE_PAGEABLE || copy.src_place == PLACE_PAGEABLE) {
            capture_invalidate_locked(stream->capture);
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
            goto out;
        }
        wait = false;
    }
    if (copy.src_place == PLACE_PAGEABLE && to_device) {
        if (synchronous && !stream->legacy)
            stream_drain_locked(stream);
        clock_charge_locked(staging_ns(&copy));
        driver_release();
        result = stage(&copy);
        driver_acquire();
        wait = false;
    }
    wait |= always;
    copy.returns_late = wait;
    struct work work = {.kind = WORK_COPY, .copy = copy};
    if (result == CUDA_SUCCESS)
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is staged goes with the work */
        result = stream_submit_locked(stream, &work, NULL, 0, wait ? &op : NULL);
    if (result == CUDA_SUCCESS && op) {
        CUcontext ctx = stream->ctx;
        op_wait_locked(op);
        op_unref_locked(op);
        result = ctx->error;
    }
out:
    driver_release();
    return result;
}

static struct copy_work line(uint64_t dst, uint64_t src, size_t bytes)
{
    return (struct copy_work){.dst = dst, .src = src, .width = bytes, .height = 1, .depth = 1};
}

static uint64_t device_side(uint64_t dst, uint64_t src)
{
    return window_has(dst) ? dst : src;
}

#define HOST(p) ((uint64_t)(uintptr_t)(p))

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
    API_ENTER_ABOUT(API_CONTEXT | API_NOT_CAPTURING, device_side(dst, src));
    return submit(line(dst, src, n), NULL, true);
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream)
{
    API_ENTER_ABOUT(API_CONTEXT, device_side(dst, src));
    return submit(line(dst, src, n), stream, false);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t n)
{
    API_ENTER_ABOUT(API_CONTEXT | API_NOT_CAPTURING, dst);
    return submit(line(dst, HOST(src), n), NULL, true);
}

CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t n)
{
    API_ENTER_ABOUT(API_CONTEXT | API_NOT_CAPTURING, src);
    return submit(line(HOST(dst), src, n), NULL, true);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
    API_ENTER_ABOUT(API_CONTEXT | API_NOT_CAPTURING, dst);
    return submit(line(dst, src, n), NULL, true);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t n, CUstream stream)
{
    API_ENTER_ABOUT(API_CONTEXT, dst);
    return submit(line(dst, HOST(src), n), stream, false);
}

CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t n, CUstream stream)
{
    API_ENTER_ABOUT(API_CONTEXT, src);
    return submit(line(HOST(dst), src, n), stream, false);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream)
{
    API_ENTER_ABOUT(API_CONTEXT, device_side(dst, src));
    return submit(line(dst, src, n), stream, false);
}

/* "asynchronous with respect to the host, but serialized with respect to all pending and future asynchronous
 * work into the current device, srcDevice and dstDevice": here it waits for both ends, and for the copy. */
CUresult cuMemcpyPeer(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t n)
{
    API_ENTER(API_CONTEXT | API_NOT_CAPTURING);
    if (context_check(dst_ctx) || context_check(src_ctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    driver_acquire();
    context_drain_locked(src_ctx);
    context_drain_locked(dst_ctx);
    driver_release();
    CUresult result = submit(line(dst, src, n), NULL, true);
    driver_acquire();
    context_drain_locked(context_current());
    driver_release();
    return result == CUDA_SUCCESS ? context_current()->error : result;
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t n,
                           CUstream stream)
{
    API_ENTER(API_CONTEXT);
    if (context_check(dst_ctx) || context_check(src_ctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    return submit(line(dst, src, n), stream, false);
}

/* The _ptds variants: synchronous, in the calling thread's own stream. */

CUresult cuMemcpy_ptds(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
    API_ENTER_ABOUT(API_CONTEXT | API_NOT_CAPTURING, device_side(dst, src));
    return submit(line(dst, src, n), CU_STREAM_PER_THREAD, true);
}

CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr dst, const void *src, size_t n)
{
    API_ENTER_ABOUT(API_CONTEXT | API_NOT_CAPTURING, dst);
    return submit(line(dst, HOST(src), n), CU_STREAM_PER_THREAD, true);
}

CUresult cuMemcpyDtoH_v2_ptds(void *dst, CUdeviceptr src, size_t n)
{
    API_ENTER_ABOUT(API_CONTEXT | API_NOT_CAPTURING, src);
    return submit(line(HOST(dst), src, n), CU_STREAM_PER_THREAD, true);
}

CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
    API_ENTER_ABOUT(API_CONTEXT | API_NOT_CAPTURING, dst);
    return submit(line(dst, src, n), CU_STREAM_PER_THREAD, true);
}

/* ---- boxes ---- */

static CUresult side(CUmemorytype type, const void *host, CUdeviceptr device, size_t x, size_t y, size_t z,
                     size_t pitch, size_t height, uint64_t *out)
{
    uint64_t base;
    switch (type) {
    case CU_MEMORYTYPE_HOST:
        base = HOST(host);
        break;
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED:
        base = device;
        break;
    default: /* arrays */
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (!base)
        return CUDA_ERROR_INVALID_VALUE;
    *out = base + (z * height + y) * pitch + x;
    return CUDA_SUCCESS;
}

CUresult copy_from_box(const CUDA_MEMCPY3D *box, struct copy_work *out)
{
    size_t src_pitch = box->srcPitch ? box->srcPitch : box->WidthInBytes + box->srcXInBytes;
    size_t dst_pitch = box->dstPitch ? box->dstPitch : box->WidthInBytes + box->dstXInBytes;
    size_t src_height = box->srcHeight ? box->srcHeight : box->Height;
    size_t dst_height = box->dstHeight ? box->dstHeight : box->Height;
    *out = (struct copy_work){.width = box->WidthInBytes,
                              .height = box->Height,
                              .depth = box->Depth,
                              .src_pitch = src_pitch,
                              .dst_pitch = dst_pitch,
                              .src_slice = src_pitch * src_height,
                              .dst_slice = dst_pitch * dst_height};
    if ((box->srcPitch && box->srcPitch < box->WidthInBytes) ||
        (box->dstPitch && box->dstPitch < box->WidthInBytes))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = side(box->srcMemoryType, box->srcHost, box->srcDevice, box->srcXInBytes, box->srcY,
                           box->srcZ, src_pitch, src_height, &out->src);
    if (result == CUDA_SUCCESS)
        result = side(box->dstMemoryType, box->dstHost, box->dstDevice, box->dstXInBytes, box->dstY,
                      box->dstZ, dst_pitch, dst_height, &out->dst);
    return result;
}

CUresult copy_classify_locked(struct copy_work *copy)
{
    return copy->width && copy->height && copy->depth ? classify_locked(copy) : CUDA_SUCCESS;
}

static CUresult copy_box(const CUDA_MEMCPY3D *box, CUstream stream, bool synchronous)
{
    struct copy_work copy;
    if (!box)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = copy_from_box(box, &copy);
    return result == CUDA_SUCCESS ? submit(copy, stream, synchronous) : result;
}

static CUresult copy_plane(const CUDA_MEMCPY2D *p, CUstream stream, bool synchronous)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D box = {
        .srcXInBytes = p->srcXInBytes,
        .srcY = p->srcY,
        .srcMemoryType = p->srcMemoryType,
        .srcHost = p->srcHost,
        .srcDevice = p->srcDevice,
        .srcPitch = p->srcPitch,
        .dstXInBytes = p->dstXInBytes,
        .dstY = p->dstY,
        .dstMemoryType = p->dstMemoryType,
        .dstHost = p->dstHost,
        .dstDevice = p->dstDevice,
        .dstPitch = p->dstPitch,
        .WidthInBytes = p->WidthInBytes,
        .Height = p->Height,
        .Depth = 1,
    };
    return copy_box(&box, stream, synchronous);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy)
{
    API_ENTER(API_CONTEXT | API_NOT_CAPTURING);
    return copy_plane(copy, NULL, true);
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy)
{
    API_ENTER(API_CONTEXT | API_NOT_CAPTURING);
    return copy_plane(copy, NULL, true);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream)
{
    API_ENTER(API_CONTEXT);
    return copy_plane(copy, stream, false);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *copy)
{
    API_ENTER(API_CONTEXT | API_NOT_CAPTURING);
    return copy_box(copy, NULL, true);
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *copy, CUstream stream)
{
    API_ENTER(API_CONTEXT);
    return copy_box(copy, stream, false);
}

CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *copy)
{
    API_ENTER(API_CONTEXT | API_NOT_CAPTURING);
    return copy_plane(copy, CU_STREAM_PER_THREAD, true);
}

CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *copy)
{
    API_ENTER(API_CONTEXT | API_NOT_CAPTURING);
    return copy_plane(copy, CU_STREAM_PER_THREAD, true);
}

CUresult cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D *copy)
{
    API_ENTER(API_CONTEXT | API_NOT_CAPTURING);
    return copy_box(copy, CU_STREAM_PER_THREAD, true);
}

/* ---- memsets ---- */

static CUresult fill(CUdeviceptr dst, size_t pitch, unsigned value, unsigned element, size_t width,
                     size_t height, CUstream handle, bool synchronous)
{
    struct CUstream_st *stream;
    struct op *op = NULL;
    if (!width || !height)
        return CUDA_SUCCESS;
    if (!dst || dst % element || (height > 1 && (pitch < width * element || pitch % element)))
        return CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    CUresult result = stream_resolve_locked(handle, &stream);
    enum place place = place_of_locked(dst, (height - 1) * pitch + width * element);
    if (result == CUDA_SUCCESS && (place == PLACE_NOWHERE || place == PLACE_PAGEABLE))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        struct work work = {.kind = WORK_MEMSET,
                            .memset = {.dst = dst,
                                       .pitch = pitch,
                                       .width = width,
                                       .height = height,
                                       .value = value,
                                       .element = element}};
        bool wait = synchronous && (place == PLACE_PINNED || always_synchronizes_locked(dst));
        result = stream_submit_locked(stream, &work, NULL, 0, wait ? &op : NULL);
    }
    if (op) {
        CUcontext ctx = stream->ctx;
        op_wait_locked(op);
        op_unref_locked(op);
        result = ctx->error;
    }
    driver_release();
    return result;
}

#define MEMSET(bits, type)                                                                                   \
    CUresult cuMemsetD##bits##_v2(CUdeviceptr dst, type value, size_t n)                                     \
    {                                                                                                        \
        API_ENTER(API_CONTEXT | API_NOT_CAPTURING);                                                          \
        return fill(dst, 0, value, (bits) / 8, n, 1, NULL, true);                                            \
    }                                                                                                        \
    CUresult cuMemsetD##bits##_v2_ptds(CUdeviceptr dst, type value, size_t n)                                \
    {                                                                                                        \
        API_ENTER(API_CONTEXT | API_NOT_CAPTURING);                                                          \
        return fill(dst, 0, value, (bits) / 8, n, 1, CU_STREAM_PER_THREAD, true);                            \
    }                                                                                                        \
    CUresult cuMemsetD##bits##Async(CUdeviceptr dst, type value, size_t n, CUstream stream)                  \
    {                                                                                                        \
        API_ENTER(API_CONTEXT);                                                                              \
        return fill(dst, 0, value, (bits) / 8, n, 1, stream, false);                                         \
    }                                                                                                        \
    CUresult cuMemsetD2D##bits##_v2(CUdeviceptr dst, size_t pitch, type value, size_t width, size_t height)  \
    {                                                                                                        \
        API_ENTER(API_CONTEXT | API_NOT_CAPTURING);                                                          \
        return fill(dst, pitch, value, (bits) / 8, width, height, NULL, true);                               \
    }                                                                                                        \
    CUresult cuMemsetD2D##bits##_v2_ptds(CUdeviceptr dst, size_t pitch, type value, size_t width,            \
                                         size_t height)                                                      \
    {                                                                                                        \
        API_ENTER(API_CONTEXT | API_NOT_CAPTURING);                                                          \
        return fill(dst, pitch, value, (bits) / 8, width, height, CU_STREAM_PER_THREAD, true);               \
    }                                                                                                        \
    CUresult cuMemsetD2D##bits##Async(CUdeviceptr dst, size_t pitch, type value, size_t width,               \
                                      size_t height, CUstream stream)                                        \
    {                                                                                                        \
        API_ENTER(API_CONTEXT);                                                                              \
        return fill(dst, pitch, value, (bits) / 8, width, height, stream, false);                            \
    }

MEMSET(8, unsigned char)
MEMSET(16, unsigned short)
MEMSET(32, unsigned int)
