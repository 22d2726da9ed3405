/*
 * submitting.c - calls by which the job could notice that operations are held: they are submitted first.
 *
 * Nothing else is done here. An error of what was held is returned by such a call, after the call itself was
 * made.
 */
#include "hooks/host_pool.h"
#include "hooks/trace.h"
#include "hooks/window.h"

#define SUBMITTING(symbol, parameters, arguments, submit, note)                                              \
    CUresult hook_##symbol parameters                                                                        \
    {                                                                                                        \
        TRACE(note);                                                                                         \
        CUresult held = submit;                                                                              \
        CUresult status = hbmspill_real.symbol arguments;                                                    \
                                                                                                             \
        return held != CUDA_SUCCESS ? held : status;                                                         \
    }

/* The same for a call that waits; waited: what is done where it has. */
#define WAITING(symbol, parameters, arguments, submit, note, waited)                                         \
    CUresult hook_##symbol parameters                                                                        \
    {                                                                                                        \
        TRACE(note);                                                                                         \
        CUresult held = submit;                                                                              \
        CUresult status = hbmspill_real.symbol arguments;                                                    \
                                                                                                             \
        if (status == CUDA_SUCCESS && shim_active())                                                         \
            waited;                                                                                          \
        return held != CUDA_SUCCESS ? held : status;                                                         \
    }

/* In a stream, which is a parameter of that name; the per-thread default stream never has anything held. */
#define SUBMITTING_HOOKS(symbol, parameters, arguments)                                                      \
    SUBMITTING(symbol, parameters, arguments, window_submit_for(stream), trace_submit(&stream, false))       \
    SUBMITTING(symbol##_ptsz, parameters, arguments,                                                         \
               window_submit_for(stream ? stream : CU_STREAM_PER_THREAD), trace_submit(&stream, true))

/* For all streams. */
#define SUBMITTING_HOOK(symbol, parameters, arguments)                                                       \
    SUBMITTING(symbol, parameters, arguments, window_submit(), trace_submit(NULL, false))

WAITING(cuStreamSynchronize, (CUstream stream), (stream), window_submit_for(stream),
        trace_wait(&stream, false), host_pools_waited_for(stream, false))
WAITING(cuStreamSynchronize_ptsz, (CUstream stream), (stream),
        window_submit_for(stream ? stream : CU_STREAM_PER_THREAD), trace_wait(&stream, true),
        host_pools_waited_for(stream, true))
SUBMITTING_HOOKS(cuStreamQuery, (CUstream stream), (stream))
SUBMITTING_HOOKS(cuStreamAttachMemAsync, (CUstream stream, CUdeviceptr address, size_t size, unsigned flags),
                 (stream, address, size, flags))
SUBMITTING_HOOKS(cuStreamSetAttribute,
                 (CUstream stream, CUstreamAttrID attribute, const CUstreamAttrValue *value),
                 (stream, attribute, value))
SUBMITTING_HOOKS(cuStreamCopyAttributes, (CUstream stream, CUstream src), (stream, src))
SUBMITTING_HOOKS(cuMemcpyHtoAAsync_v2,
                 (CUarray dst, size_t offset, const void *src, size_t size, CUstream stream),
                 (dst, offset, src, size, stream))
SUBMITTING_HOOKS(cuMemcpyAtoHAsync_v2, (void *dst, CUarray src, size_t offset, size_t size, CUstream stream),
                 (dst, src, offset, size, stream))
SUBMITTING_HOOKS(cuMemMapArrayAsync, (CUarrayMapInfo * list, unsigned count, CUstream stream),
                 (list, count, stream))
SUBMITTING_HOOKS(cuGraphUpload, (CUgraphExec exec, CUstream stream), (exec, stream))
SUBMITTING_HOOKS(cuSignalExternalSemaphoresAsync,
                 (const CUexternalSemaphore *semaphores, const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *params,
                  unsigned count, CUstream stream),
                 (semaphores, params, count, stream))
SUBMITTING_HOOKS(cuGraphicsMapResources, (unsigned count, CUgraphicsResource *resources, CUstream stream),
                 (count, resources, stream))
SUBMITTING_HOOKS(cuGraphicsUnmapResources, (unsigned count, CUgraphicsResource *resources, CUstream stream),
                 (count, resources, stream))
WAITING(cuCtxSynchronize, (void), (), window_submit(), trace_wait(NULL, false), host_pools_waited(NULL))
WAITING(cuCtxSynchronize_v2, (CUcontext context), (context), window_submit(), trace_wait(NULL, false),
        host_pools_waited(context))
SUBMITTING_HOOK(cuCtxRecordEvent, (CUcontext context, CUevent event), (context, event))
SUBMITTING_HOOK(cuCtxWaitEvent, (CUcontext context, CUevent event), (context, event))
SUBMITTING_HOOK(cuCtxSetLimit, (CUlimit limit, size_t value), (limit, value))
SUBMITTING_HOOK(cuFuncSetAttribute, (CUfunction function, CUfunction_attribute attribute, int value),
                (function, attribute, value))
SUBMITTING_HOOK(cuFuncSetCacheConfig, (CUfunction function, CUfunc_cache config), (function, config))
SUBMITTING_HOOK(cuKernelSetAttribute,
                (CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device),
                (attribute, value, kernel, device))
SUBMITTING_HOOK(cuGreenCtxRecordEvent, (CUgreenCtx context, CUevent event), (context, event))
SUBMITTING_HOOK(cuGreenCtxWaitEvent, (CUgreenCtx context, CUevent event), (context, event))
SUBMITTING_HOOK(cuGreenCtxDestroy, (CUgreenCtx context), (context))
SUBMITTING_HOOK(cuCtxDetach, (CUcontext context), (context))

/* What is there of managed memory is gone behind these; what is held may read it. */
SUBMITTING_HOOKS(cuMemDiscardBatchAsync,
                 (CUdeviceptr * list, size_t *sizes, size_t count, unsigned long long flags, CUstream stream),
                 (list, sizes, count, flags, stream))
SUBMITTING_HOOKS(cuMemDiscardAndPrefetchBatchAsync,
                 (CUdeviceptr * list, size_t *sizes, size_t count, CUmemLocation *places, size_t *indices,
                  size_t place_count, unsigned long long flags, CUstream stream),
                 (list, sizes, count, places, indices, place_count, flags, stream))

/* Arrays, which kernels reach through textures and surfaces: none of ours, and in no kernel's parameters. */
#define ARRAY_HOOKS(symbol, parameters, arguments)                                                           \
    SUBMITTING_HOOK(symbol, parameters, arguments)                                                           \
    SUBMITTING_HOOK(symbol##_ptds, parameters, arguments)

ARRAY_HOOKS(cuMemcpyHtoA_v2, (CUarray dst, size_t offset, const void *src, size_t size),
            (dst, offset, src, size))
ARRAY_HOOKS(cuMemcpyAtoH_v2, (void *dst, CUarray src, size_t offset, size_t size), (dst, src, offset, size))
ARRAY_HOOKS(cuMemcpyAtoA_v2, (CUarray dst, size_t dst_offset, CUarray src, size_t src_offset, size_t size),
            (dst, dst_offset, src, src_offset, size))

/* A launch has what it uses of these as it is at the call: it is made before they go or change. */
SUBMITTING_HOOK(cuArrayDestroy, (CUarray array), (array))
SUBMITTING_HOOK(cuMipmappedArrayDestroy, (CUmipmappedArray array), (array))
SUBMITTING_HOOK(cuTexObjectDestroy, (CUtexObject texture), (texture))
SUBMITTING_HOOK(cuSurfObjectDestroy, (CUsurfObject surface), (surface))
SUBMITTING_HOOK(cuDestroyExternalMemory, (CUexternalMemory memory), (memory))
SUBMITTING_HOOK(cuIpcCloseMemHandle, (CUdeviceptr address), (address))
SUBMITTING_HOOK(cuGraphicsUnregisterResource, (CUgraphicsResource resource), (resource))
SUBMITTING_HOOK(cuTexRefSetArray, (CUtexref texture, CUarray array, unsigned flags), (texture, array, flags))
SUBMITTING_HOOK(cuTexRefSetMipmappedArray, (CUtexref texture, CUmipmappedArray array, unsigned flags),
                (texture, array, flags))
SUBMITTING_HOOK(cuSurfRefSetArray, (CUsurfref surface, CUarray array, unsigned flags),
                (surface, array, flags))
SUBMITTING_HOOK(cuTexRefSetAddressMode, (CUtexref texture, int dimension, CUaddress_mode mode),
                (texture, dimension, mode))
SUBMITTING_HOOK(cuTexRefSetBorderColor, (CUtexref texture, float *colour), (texture, colour))
SUBMITTING_HOOK(cuTexRefSetFilterMode, (CUtexref texture, CUfilter_mode mode), (texture, mode))
SUBMITTING_HOOK(cuTexRefSetFlags, (CUtexref texture, unsigned flags), (texture, flags))
SUBMITTING_HOOK(cuTexRefSetFormat, (CUtexref texture, CUarray_format format, int components),
                (texture, format, components))
SUBMITTING_HOOK(cuTexRefSetMaxAnisotropy, (CUtexref texture, unsigned most), (texture, most))
SUBMITTING_HOOK(cuTexRefSetMipmapFilterMode, (CUtexref texture, CUfilter_mode mode), (texture, mode))
SUBMITTING_HOOK(cuTexRefSetMipmapLevelBias, (CUtexref texture, float bias), (texture, bias))
SUBMITTING_HOOK(cuTexRefSetMipmapLevelClamp, (CUtexref texture, float least, float most),
                (texture, least, most))
