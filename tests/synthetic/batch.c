/*
 * batch.c - several operations by one call: cuMemcpyBatchAsync, cuStreamBatchMemOp; and hints about managed
 * memory.
 *
 * Copies of a batch are asynchronous whatever their pointers are: attributes say when a source may be read.
 * Only CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL is done with the source when the call returns.
 */
#include "clock.h"
#include "model/machine.h"

#include <stdlib.h>
#include <string.h>

static CUresult copy_one_locked(struct CUstream_st *stream, CUdeviceptr dst, CUdeviceptr src, size_t size,
                                CUmemcpySrcAccessOrder order)
{
    struct work work = {.kind = WORK_COPY,
                        .copy = {.dst = dst, .src = src, .width = size, .height = 1, .depth = 1}};
    struct op *op = NULL;
    bool during = order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    CUresult result = dst && src && size ? copy_classify_locked(&work.copy) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    if (during && work.copy.src_place != PLACE_DEVICE) {
        work.copy.staged = malloc(size);
        if (!work.copy.staged)
            return CUDA_ERROR_OUT_OF_MEMORY;
        memcpy(work.copy.staged, (const void *)(uintptr_t)src, size);
        work.copy.src = (uint64_t)(uintptr_t)work.copy.staged;
        during = false;
    }
    result = stream_submit_locked(stream, &work, NULL, 0, during ? &op : NULL);
    if (op) {
        op_wait_locked(op);
        op_unref_locked(op);
    }
    return result;
}

static CUresult copy_batch(const CUdeviceptr *dsts, const CUdeviceptr *srcs, const size_t *sizes,
                           size_t count, const CUmemcpyAttributes *attrs, const size_t *first,
                           size_t attr_count, CUstream handle)
{
    struct CUstream_st *stream;
    if (!dsts || !srcs || !sizes || !count || !attrs || !first || !attr_count || attr_count > count ||
        first[0] != 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < attr_count; i++) {
        if (first[i] >= count || (i && first[i] <= first[i - 1]) || !attrs[i].srcAccessOrder ||
            attrs[i].srcAccessOrder > CU_MEMCPY_SRC_ACCESS_ORDER_ANY)
            return CUDA_ERROR_INVALID_VALUE;
    }
    driver_acquire();
    CUresult result = stream_resolve_locked(handle, &stream);
    if (result == CUDA_SUCCESS && stream->legacy) /* "Must not be legacy NULL stream." */
        result = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0, a = 0; i < count && result == CUDA_SUCCESS; i++) {
        while (a + 1 < attr_count && first[a + 1] <= i)
            a++;
        if (i) /* the first is the call's own cost */
            clock_charge_locked(MACHINE_HOST_COPY);
        result = copy_one_locked(stream, dsts[i], srcs[i], sizes[i], attrs[a].srcAccessOrder);
    }
    driver_release();
    return result;
}

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                               CUmemcpyAttributes *attrs, size_t *first, size_t attr_count, CUstream stream)
{
    API_ENTER(API_CONTEXT);
    return copy_batch(dsts, srcs, sizes, count, attrs, first, attr_count, stream);
}

/* 12.8's form tells which copy was wrong; which one it was is not always known: then SIZE_MAX. */
CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                            CUmemcpyAttributes *attrs, size_t *first, size_t attr_count, size_t *fail,
                            CUstream stream)
{
    API_ENTER(API_CONTEXT);
    CUresult result = copy_batch(dsts, srcs, sizes, count, attrs, first, attr_count, stream);
    if (result != CUDA_SUCCESS && fail)
        *fail = SIZE_MAX;
    return result;
}

CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *ops,
                               unsigned int flags)
{
    API_ENTER(API_CONTEXT);
    CUresult result = CUDA_SUCCESS;
    if (!ops || !count || count > 256 || flags)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count && result == CUDA_SUCCESS; i++) {
        const CUstreamBatchMemOpParams *op = &ops[i];
        switch (op->operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
            result =
                stream_value_operation(stream, WORK_WAIT_VALUE, op->waitValue.address, op->waitValue.value64,
                                       op->waitValue.flags, op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64);
            break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        case CU_STREAM_MEM_OP_WRITE_VALUE_64:
            result = stream_value_operation(stream, WORK_WRITE_VALUE, op->writeValue.address,
                                            op->writeValue.value64, op->writeValue.flags,
                                            op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64);
            break;
        case CU_STREAM_MEM_OP_BARRIER: /* memory operations here are in order anyway */
            break;
        default:
            result = CUDA_ERROR_NOT_SUPPORTED;
        }
    }
    return result;
}

CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *ops,
                            unsigned int flags)
{
    return cuStreamBatchMemOp_v2(stream, count, ops, flags);
}

/* ---- managed memory stays where it is: hints are checked and dropped ---- */

static CUresult check_managed(CUdeviceptr address, size_t count)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    const struct range *range = range_find_locked(address);
    if (range && range->kind == RANGE_MANAGED && count && count <= range->base + range->size - address)
        result = CUDA_SUCCESS;
    driver_release();
    return result;
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t count, CUmemLocation location, unsigned int flags,
                               CUstream handle)
{
    API_ENTER(API_CONTEXT);
    struct CUstream_st *stream;
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (location.type == CU_MEM_LOCATION_TYPE_DEVICE && device_check(location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    CUresult result = check_managed(address, count);
    if (result != CUDA_SUCCESS)
        return result;
    driver_acquire();
    result = stream_resolve_locked(handle, &stream);
    if (result == CUDA_SUCCESS) {
        struct work work = {.kind = WORK_EMPTY};
        result = stream_submit_locked(stream, &work, NULL, 0, NULL);
    }
    driver_release();
    return result;
}

CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t count, CUdevice dev, CUstream stream)
{
    CUmemLocation location = {.type = dev == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST
                                                           : CU_MEM_LOCATION_TYPE_DEVICE,
                              .id = dev == CU_DEVICE_CPU ? 0 : dev};
    return cuMemPrefetchAsync_v2(address, count, location, 0, stream);
}

CUresult cuMemAdvise_v2(CUdeviceptr address, size_t count, CUmem_advise advice, CUmemLocation location)
{
    API_ENTER(API_CONTEXT);
    (void)location;
    if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
        return CUDA_ERROR_INVALID_VALUE;
    return check_managed(address, count);
}

CUresult cuMemAdvise(CUdeviceptr address, size_t count, CUmem_advise advice, CUdevice dev)
{
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = dev};
    return cuMemAdvise_v2(address, count, advice, location);
}
