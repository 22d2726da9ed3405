/*
 * functions.h - the driver functions hbmspill has to do with.
 *
 * HBMSPILL_HOOKED lists those that have a wrapper, HBMSPILL_REAL those that are only called. A line is the
 * exact symbol that libcuda exports and the typedef of cudaTypedefs.h for that version (the compiler checks
 * that the two belong together, in functions.c, and that the wrapper has that type, here). To wrap another
 * function add a line and write hook_<symbol> in hooks/; nothing else. Symbols that end in _ptsz or _ptds are
 * like any other.
 *
 * Real functions are hbmspill_real.<symbol>, NULL where the driver has no such symbol: check those that are
 * not in every driver. The table is filled before the first substituted pointer is handed out, so a hook
 * always finds its own entry set.
 *
 * cuda.h maps some old names to new ones by macro; a listed symbol that is such a name is undefined below, so
 * that a name in this tree is the symbol it says.
 */
#ifndef HBMSPILL_SHIM_FUNCTIONS_H
#define HBMSPILL_SHIM_FUNCTIONS_H

#include <cuda.h>
#include <cudaTypedefs.h>
#include <stdbool.h>

#undef cuGetProcAddress
#undef cuGetProcAddress_v2
#undef cuMemAllocAsync
#undef cuMemMapArrayAsync
#undef cuMemBatchDecompressAsync
#undef cuGraphicsUnmapResources
#undef cuGraphicsMapResources
#undef cuWaitExternalSemaphoresAsync
#undef cuSignalExternalSemaphoresAsync
#undef cuGraphUpload
#undef cuStreamCopyAttributes
#undef cuStreamSetAttribute
#undef cuStreamAttachMemAsync
#undef cuLaunchHostFunc
#undef cuStreamAddCallback
#undef cuStreamQuery
#undef cuEventElapsedTime
#undef cuEventDestroy
#undef cuEventRecordWithFlags
#undef cuMemAllocFromPoolAsync
#undef cuMemFreeAsync
#undef cuStreamBeginCapture
#undef cuStreamBeginCaptureToGraph
#undef cuStreamDestroy
#undef cuCtxDestroy
#undef cuDevicePrimaryCtxRelease
#undef cuDevicePrimaryCtxReset
#undef cuStreamWaitValue32
#undef cuStreamWaitValue64
#undef cuStreamWriteValue32
#undef cuStreamWriteValue64
#undef cuStreamBatchMemOp
#undef cuGraphKernelNodeGetParams
#undef cuGraphInstantiate
#undef cuGraphGetEdges
#undef cuGraphExecKernelNodeSetParams
#undef cuGraphExecUpdate
#undef cuStreamEndCapture
#undef cuLaunchKernel
#undef cuLaunchKernelEx
#undef cuLaunchCooperativeKernel
#undef cuGraphAddNode
#undef cuGraphInstantiateWithParams
#undef cuGraphLaunch
#undef cuMemcpyPeer
#undef cuMemcpyPeerAsync
#undef cuMemcpyBatchAsync
#undef cuMemcpy3DBatchAsync
#undef cuMemcpy
#undef cuMemcpy3DPeer
#undef cuMemcpyAsync
#undef cuMemsetD8Async
#undef cuMemsetD16Async
#undef cuMemsetD32Async
#undef cuMemsetD2D8Async
#undef cuMemsetD2D16Async
#undef cuMemsetD2D32Async
#undef cuMemcpy3DPeerAsync
#undef cuStreamSynchronize
#undef cuStreamWaitEvent
#undef cuEventRecord
#undef cuMemAllocHost
#undef cuMemHostRegister
#undef cuMemDiscardAndPrefetchBatchAsync
#undef cuMemDiscardBatchAsync

/* Types of first versions that cudaTypedefs.h gives to those who define __CUDA_API_VERSION_INTERNAL alone. */
typedef CUresult(CUDAAPI *PFN_cuStreamDestroy_v2000)(CUstream);
typedef CUresult(CUDAAPI *PFN_cuStreamBeginCapture_v10000)(CUstream);
typedef CUresult(CUDAAPI *PFN_cuStreamBeginCapture_v10000_ptsz)(CUstream);
typedef CUresult(CUDAAPI *PFN_cuGraphInstantiate_v10000)(CUgraphExec *, CUgraph, CUgraphNode *, char *,
                                                         size_t);
typedef CUresult(CUDAAPI *PFN_cuGraphInstantiate_v11000)(CUgraphExec *, CUgraph, CUgraphNode *, char *,
                                                         size_t);
typedef CUresult(CUDAAPI *PFN_cuCtxDestroy_v2000)(CUcontext);
typedef CUresult(CUDAAPI *PFN_cuDevicePrimaryCtxRelease_v7000)(CUdevice);
typedef CUresult(CUDAAPI *PFN_cuDevicePrimaryCtxReset_v7000)(CUdevice);
typedef CUresult(CUDAAPI *PFN_cuEventDestroy_v2000)(CUevent);
typedef CUresult(CUDAAPI *PFN_cuMemAllocHost_v2000)(void **, unsigned);
typedef CUresult(CUDAAPI *PFN_cuMemHostRegister_v4000)(void *, size_t, unsigned);
typedef CUresult(CUDAAPI *PFN_cuTexRefSetAddress2D_v3020)(CUtexref, const CUDA_ARRAY_DESCRIPTOR *,
                                                          CUdeviceptr, size_t);

/* clang-format off */
#define HBMSPILL_HOOKED(X) \
    X(cuInit, PFN_cuInit_v2000) \
    X(cuGetProcAddress, PFN_cuGetProcAddress_v11030) \
    X(cuGetProcAddress_v2, PFN_cuGetProcAddress_v12000) \
    X(cuGetProcAddress_v2_ptsz, PFN_cuGetProcAddress_v12000) \
    X(cuMemAlloc_v2, PFN_cuMemAlloc_v3020) \
    X(cuMemAllocPitch_v2, PFN_cuMemAllocPitch_v3020) \
    X(cuMemAllocManaged, PFN_cuMemAllocManaged_v6000) \
    X(cuMemAllocAsync, PFN_cuMemAllocAsync_v11020) \
    X(cuMemAllocAsync_ptsz, PFN_cuMemAllocAsync_v11020_ptsz) \
    X(cuMemAllocFromPoolAsync, PFN_cuMemAllocFromPoolAsync_v11020) \
    X(cuMemAllocFromPoolAsync_ptsz, PFN_cuMemAllocFromPoolAsync_v11020_ptsz) \
    X(cuMemFree_v2, PFN_cuMemFree_v3020) \
    X(cuMemFreeAsync, PFN_cuMemFreeAsync_v11020) \
    X(cuMemFreeAsync_ptsz, PFN_cuMemFreeAsync_v11020_ptsz) \
    X(cuMemPoolCreate, PFN_cuMemPoolCreate_v11020) \
    X(cuMemPoolDestroy, PFN_cuMemPoolDestroy_v11020) \
    X(cuMemPoolGetAttribute, PFN_cuMemPoolGetAttribute_v11020) \
    X(cuMemPoolTrimTo, PFN_cuMemPoolTrimTo_v11020) \
    X(cuMemGetDefaultMemPool, PFN_cuMemGetDefaultMemPool_v13000) \
    X(cuMemGetMemPool, PFN_cuMemGetMemPool_v13000) \
    X(cuMemCreate, PFN_cuMemCreate_v10020) \
    X(cuMemRelease, PFN_cuMemRelease_v10020) \
    X(cuMemMap, PFN_cuMemMap_v10020) \
    X(cuMemUnmap, PFN_cuMemUnmap_v10020) \
    X(cuMemAddressReserve, PFN_cuMemAddressReserve_v10020) \
    X(cuMemAddressFree, PFN_cuMemAddressFree_v10020) \
    X(cuMemSetAccess, PFN_cuMemSetAccess_v10020) \
    X(cuMemGetAccess, PFN_cuMemGetAccess_v10020) \
    X(cuMemGetAllocationPropertiesFromHandle, PFN_cuMemGetAllocationPropertiesFromHandle_v10020) \
    X(cuMemExportToShareableHandle, PFN_cuMemExportToShareableHandle_v10020) \
    X(cuMulticastBindMem, PFN_cuMulticastBindMem_v12010) \
    X(cuMemGetInfo_v2, PFN_cuMemGetInfo_v3020) \
    X(cuDeviceTotalMem_v2, PFN_cuDeviceTotalMem_v3020) \
    X(cuMemGetAddressRange_v2, PFN_cuMemGetAddressRange_v3020) \
    X(cuPointerGetAttribute, PFN_cuPointerGetAttribute_v4000) \
    X(cuPointerGetAttributes, PFN_cuPointerGetAttributes_v7000) \
    X(cuPointerSetAttribute, PFN_cuPointerSetAttribute_v6000) \
    X(cuMemGetHandleForAddressRange, PFN_cuMemGetHandleForAddressRange_v11070) \
    X(cuMemRetainAllocationHandle, PFN_cuMemRetainAllocationHandle_v11000) \
    X(cuMulticastBindAddr, PFN_cuMulticastBindAddr_v12010) \
    X(cuTexObjectCreate, PFN_cuTexObjectCreate_v5000) \
    X(cuTexRefSetAddress_v2, PFN_cuTexRefSetAddress_v3020) \
    X(cuTexRefSetAddress2D_v3, PFN_cuTexRefSetAddress2D_v4010) \
    X(cuTexRefSetAddress2D_v2, PFN_cuTexRefSetAddress2D_v3020) \
    X(cuTensorMapEncodeTiled, PFN_cuTensorMapEncodeTiled_v12000) \
    X(cuTensorMapEncodeIm2col, PFN_cuTensorMapEncodeIm2col_v12000) \
    X(cuTensorMapEncodeIm2colWide, PFN_cuTensorMapEncodeIm2colWide_v12080) \
    X(cuTensorMapReplaceAddress, PFN_cuTensorMapReplaceAddress_v12000) \
    X(cuStreamDestroy_v2, PFN_cuStreamDestroy_v4000) \
    X(cuStreamDestroy, PFN_cuStreamDestroy_v2000) \
    X(cuStreamBeginCapture, PFN_cuStreamBeginCapture_v10000) \
    X(cuStreamBeginCapture_ptsz, PFN_cuStreamBeginCapture_v10000_ptsz) \
    X(cuStreamBeginCapture_v2, PFN_cuStreamBeginCapture_v10010) \
    X(cuStreamBeginCapture_v2_ptsz, PFN_cuStreamBeginCapture_v10010_ptsz) \
    X(cuStreamBeginCaptureToGraph, PFN_cuStreamBeginCaptureToGraph_v12030) \
    X(cuStreamBeginCaptureToGraph_ptsz, PFN_cuStreamBeginCaptureToGraph_v12030_ptsz) \
    X(cuStreamEndCapture, PFN_cuStreamEndCapture_v10000) \
    X(cuStreamEndCapture_ptsz, PFN_cuStreamEndCapture_v10000_ptsz) \
    X(cuStreamBatchMemOp_v2, PFN_cuStreamBatchMemOp_v11070) \
    X(cuStreamBatchMemOp, PFN_cuStreamBatchMemOp_v8000) \
    X(cuStreamBatchMemOp_ptsz, PFN_cuStreamBatchMemOp_v8000_ptsz) \
    X(cuStreamWaitValue32, PFN_cuStreamWaitValue32_v8000) \
    X(cuStreamWaitValue32_ptsz, PFN_cuStreamWaitValue32_v8000_ptsz) \
    X(cuStreamWaitValue64, PFN_cuStreamWaitValue64_v9000) \
    X(cuStreamWaitValue64_ptsz, PFN_cuStreamWaitValue64_v9000_ptsz) \
    X(cuStreamWriteValue32, PFN_cuStreamWriteValue32_v8000) \
    X(cuStreamWriteValue32_ptsz, PFN_cuStreamWriteValue32_v8000_ptsz) \
    X(cuStreamWriteValue64, PFN_cuStreamWriteValue64_v9000) \
    X(cuStreamWriteValue64_ptsz, PFN_cuStreamWriteValue64_v9000_ptsz) \
    X(cuStreamBatchMemOp_v2_ptsz, PFN_cuStreamBatchMemOp_v11070_ptsz) \
    X(cuLaunchKernel, PFN_cuLaunchKernel_v4000) \
    X(cuLaunchKernel_ptsz, PFN_cuLaunchKernel_v7000_ptsz) \
    X(cuLaunchKernelEx, PFN_cuLaunchKernelEx_v11060) \
    X(cuLaunchKernelEx_ptsz, PFN_cuLaunchKernelEx_v11060_ptsz) \
    X(cuLaunchCooperativeKernel, PFN_cuLaunchCooperativeKernel_v9000) \
    X(cuLaunchCooperativeKernel_ptsz, PFN_cuLaunchCooperativeKernel_v9000_ptsz) \
    X(cuLaunchCooperativeKernelMultiDevice, PFN_cuLaunchCooperativeKernelMultiDevice_v9000) \
    X(cuLaunch, PFN_cuLaunch_v2000) \
    X(cuLaunchGrid, PFN_cuLaunchGrid_v2000) \
    X(cuLaunchGridAsync, PFN_cuLaunchGridAsync_v2000) \
    X(cuModuleLoad, PFN_cuModuleLoad_v2000) \
    X(cuModuleLoadData, PFN_cuModuleLoadData_v2000) \
    X(cuModuleLoadDataEx, PFN_cuModuleLoadDataEx_v2010) \
    X(cuModuleLoadFatBinary, PFN_cuModuleLoadFatBinary_v2000) \
    X(cuModuleUnload, PFN_cuModuleUnload_v2000) \
    X(cuLibraryLoadData, PFN_cuLibraryLoadData_v12000) \
    X(cuLibraryUnload, PFN_cuLibraryUnload_v12000) \
    X(cuGraphExecKernelNodeSetParams, PFN_cuGraphExecKernelNodeSetParams_v10010) \
    X(cuGraphExecUpdate, PFN_cuGraphExecUpdate_v10020) \
    X(cuGraphDestroyNode, PFN_cuGraphDestroyNode_v10000) \
    X(cuGraphAddMemcpyNode, PFN_cuGraphAddMemcpyNode_v10000) \
    X(cuGraphAddMemsetNode, PFN_cuGraphAddMemsetNode_v10000) \
    X(cuGraphMemcpyNodeSetParams, PFN_cuGraphMemcpyNodeSetParams_v10000) \
    X(cuGraphMemsetNodeSetParams, PFN_cuGraphMemsetNodeSetParams_v10000) \
    X(cuGraphNodeSetParams, PFN_cuGraphNodeSetParams_v12020) \
    X(cuGraphAddNode, PFN_cuGraphAddNode_v12020) \
    X(cuGraphAddNode_v2, PFN_cuGraphAddNode_v12030) \
    X(cuGraphDestroy, PFN_cuGraphDestroy_v10000) \
    X(cuGraphInstantiate, PFN_cuGraphInstantiate_v10000) \
    X(cuGraphInstantiate_v2, PFN_cuGraphInstantiate_v11000) \
    X(cuGraphInstantiateWithFlags, PFN_cuGraphInstantiateWithFlags_v11040) \
    X(cuGraphInstantiateWithParams, PFN_cuGraphInstantiateWithParams_v12000) \
    X(cuGraphInstantiateWithParams_ptsz, PFN_cuGraphInstantiateWithParams_v12000_ptsz) \
    X(cuGraphExecDestroy, PFN_cuGraphExecDestroy_v10000) \
    X(cuGraphExecUpdate_v2, PFN_cuGraphExecUpdate_v12000) \
    X(cuGraphExecKernelNodeSetParams_v2, PFN_cuGraphExecKernelNodeSetParams_v12000) \
    X(cuGraphExecMemcpyNodeSetParams, PFN_cuGraphExecMemcpyNodeSetParams_v10020) \
    X(cuGraphExecMemsetNodeSetParams, PFN_cuGraphExecMemsetNodeSetParams_v10020) \
    X(cuGraphExecHostNodeSetParams, PFN_cuGraphExecHostNodeSetParams_v10020) \
    X(cuGraphExecEventRecordNodeSetEvent, PFN_cuGraphExecEventRecordNodeSetEvent_v11010) \
    X(cuGraphExecEventWaitNodeSetEvent, PFN_cuGraphExecEventWaitNodeSetEvent_v11010) \
    X(cuGraphNodeSetEnabled, PFN_cuGraphNodeSetEnabled_v11060) \
    X(cuGraphExecChildGraphNodeSetParams, PFN_cuGraphExecChildGraphNodeSetParams_v11010) \
    X(cuGraphExecNodeSetParams, PFN_cuGraphExecNodeSetParams_v12020) \
    X(cuGraphLaunch, PFN_cuGraphLaunch_v10000) \
    X(cuGraphLaunch_ptsz, PFN_cuGraphLaunch_v10000_ptsz) \
    X(cuMemcpyPeer, PFN_cuMemcpyPeer_v4000) \
    X(cuMemcpyPeer_ptds, PFN_cuMemcpyPeer_v7000_ptds) \
    X(cuMemcpyPeerAsync, PFN_cuMemcpyPeerAsync_v4000) \
    X(cuMemcpyPeerAsync_ptsz, PFN_cuMemcpyPeerAsync_v7000_ptsz) \
    X(cuMemcpyDtoA_v2, PFN_cuMemcpyDtoA_v3020) \
    X(cuMemcpyDtoA_v2_ptds, PFN_cuMemcpyDtoA_v7000_ptds) \
    X(cuMemcpyAtoD_v2, PFN_cuMemcpyAtoD_v3020) \
    X(cuMemcpyAtoD_v2_ptds, PFN_cuMemcpyAtoD_v7000_ptds) \
    X(cuMemcpyBatchAsync, PFN_cuMemcpyBatchAsync_v12080) \
    X(cuMemcpyBatchAsync_ptsz, PFN_cuMemcpyBatchAsync_v12080_ptsz) \
    X(cuMemcpyBatchAsync_v2, PFN_cuMemcpyBatchAsync_v13000) \
    X(cuMemcpyBatchAsync_v2_ptsz, PFN_cuMemcpyBatchAsync_v13000_ptsz) \
    X(cuMemcpy3DBatchAsync, PFN_cuMemcpy3DBatchAsync_v12080) \
    X(cuMemcpy3DBatchAsync_ptsz, PFN_cuMemcpy3DBatchAsync_v12080_ptsz) \
    X(cuMemcpy3DBatchAsync_v2, PFN_cuMemcpy3DBatchAsync_v13000) \
    X(cuMemcpy3DBatchAsync_v2_ptsz, PFN_cuMemcpy3DBatchAsync_v13000_ptsz) \
    X(cuMemcpy, PFN_cuMemcpy_v4000) \
    X(cuMemcpy_ptds, PFN_cuMemcpy_v7000_ptds) \
    X(cuMemcpyHtoD_v2, PFN_cuMemcpyHtoD_v3020) \
    X(cuMemcpyHtoD_v2_ptds, PFN_cuMemcpyHtoD_v7000_ptds) \
    X(cuMemcpyDtoH_v2, PFN_cuMemcpyDtoH_v3020) \
    X(cuMemcpyDtoH_v2_ptds, PFN_cuMemcpyDtoH_v7000_ptds) \
    X(cuMemcpyDtoD_v2, PFN_cuMemcpyDtoD_v3020) \
    X(cuMemcpyDtoD_v2_ptds, PFN_cuMemcpyDtoD_v7000_ptds) \
    X(cuMemsetD8_v2, PFN_cuMemsetD8_v3020) \
    X(cuMemsetD8_v2_ptds, PFN_cuMemsetD8_v7000_ptds) \
    X(cuMemsetD16_v2, PFN_cuMemsetD16_v3020) \
    X(cuMemsetD16_v2_ptds, PFN_cuMemsetD16_v7000_ptds) \
    X(cuMemsetD32_v2, PFN_cuMemsetD32_v3020) \
    X(cuMemsetD32_v2_ptds, PFN_cuMemsetD32_v7000_ptds) \
    X(cuMemsetD2D8_v2, PFN_cuMemsetD2D8_v3020) \
    X(cuMemsetD2D8_v2_ptds, PFN_cuMemsetD2D8_v7000_ptds) \
    X(cuMemsetD2D16_v2, PFN_cuMemsetD2D16_v3020) \
    X(cuMemsetD2D16_v2_ptds, PFN_cuMemsetD2D16_v7000_ptds) \
    X(cuMemsetD2D32_v2, PFN_cuMemsetD2D32_v3020) \
    X(cuMemsetD2D32_v2_ptds, PFN_cuMemsetD2D32_v7000_ptds) \
    X(cuMemcpy2D_v2, PFN_cuMemcpy2D_v3020) \
    X(cuMemcpy2D_v2_ptds, PFN_cuMemcpy2D_v7000_ptds) \
    X(cuMemcpy2DUnaligned_v2, PFN_cuMemcpy2DUnaligned_v3020) \
    X(cuMemcpy2DUnaligned_v2_ptds, PFN_cuMemcpy2DUnaligned_v7000_ptds) \
    X(cuMemcpy3D_v2, PFN_cuMemcpy3D_v3020) \
    X(cuMemcpy3D_v2_ptds, PFN_cuMemcpy3D_v7000_ptds) \
    X(cuMemcpy3DPeer, PFN_cuMemcpy3DPeer_v4000) \
    X(cuMemcpy3DPeer_ptds, PFN_cuMemcpy3DPeer_v7000_ptds) \
    X(cuMemcpyAsync, PFN_cuMemcpyAsync_v4000) \
    X(cuMemcpyAsync_ptsz, PFN_cuMemcpyAsync_v7000_ptsz) \
    X(cuMemcpyHtoDAsync_v2, PFN_cuMemcpyHtoDAsync_v3020) \
    X(cuMemcpyHtoDAsync_v2_ptsz, PFN_cuMemcpyHtoDAsync_v7000_ptsz) \
    X(cuMemcpyDtoHAsync_v2, PFN_cuMemcpyDtoHAsync_v3020) \
    X(cuMemcpyDtoHAsync_v2_ptsz, PFN_cuMemcpyDtoHAsync_v7000_ptsz) \
    X(cuMemcpyDtoDAsync_v2, PFN_cuMemcpyDtoDAsync_v3020) \
    X(cuMemcpyDtoDAsync_v2_ptsz, PFN_cuMemcpyDtoDAsync_v7000_ptsz) \
    X(cuMemsetD8Async, PFN_cuMemsetD8Async_v3020) \
    X(cuMemsetD8Async_ptsz, PFN_cuMemsetD8Async_v7000_ptsz) \
    X(cuMemsetD16Async, PFN_cuMemsetD16Async_v3020) \
    X(cuMemsetD16Async_ptsz, PFN_cuMemsetD16Async_v7000_ptsz) \
    X(cuMemsetD32Async, PFN_cuMemsetD32Async_v3020) \
    X(cuMemsetD32Async_ptsz, PFN_cuMemsetD32Async_v7000_ptsz) \
    X(cuMemsetD2D8Async, PFN_cuMemsetD2D8Async_v3020) \
    X(cuMemsetD2D8Async_ptsz, PFN_cuMemsetD2D8Async_v7000_ptsz) \
    X(cuMemsetD2D16Async, PFN_cuMemsetD2D16Async_v3020) \
    X(cuMemsetD2D16Async_ptsz, PFN_cuMemsetD2D16Async_v7000_ptsz) \
    X(cuMemsetD2D32Async, PFN_cuMemsetD2D32Async_v3020) \
    X(cuMemsetD2D32Async_ptsz, PFN_cuMemsetD2D32Async_v7000_ptsz) \
    X(cuMemcpy2DAsync_v2, PFN_cuMemcpy2DAsync_v3020) \
    X(cuMemcpy2DAsync_v2_ptsz, PFN_cuMemcpy2DAsync_v7000_ptsz) \
    X(cuMemcpy3DAsync_v2, PFN_cuMemcpy3DAsync_v3020) \
    X(cuMemcpy3DAsync_v2_ptsz, PFN_cuMemcpy3DAsync_v7000_ptsz) \
    X(cuMemcpy3DPeerAsync, PFN_cuMemcpy3DPeerAsync_v4000) \
    X(cuMemcpy3DPeerAsync_ptsz, PFN_cuMemcpy3DPeerAsync_v7000_ptsz) \
    X(cuStreamWaitValue32_v2, PFN_cuStreamWaitValue32_v11070) \
    X(cuStreamWaitValue32_v2_ptsz, PFN_cuStreamWaitValue32_v11070_ptsz) \
    X(cuStreamWaitValue64_v2, PFN_cuStreamWaitValue64_v11070) \
    X(cuStreamWaitValue64_v2_ptsz, PFN_cuStreamWaitValue64_v11070_ptsz) \
    X(cuStreamWriteValue32_v2, PFN_cuStreamWriteValue32_v11070) \
    X(cuStreamWriteValue32_v2_ptsz, PFN_cuStreamWriteValue32_v11070_ptsz) \
    X(cuStreamWriteValue64_v2, PFN_cuStreamWriteValue64_v11070) \
    X(cuStreamWriteValue64_v2_ptsz, PFN_cuStreamWriteValue64_v11070_ptsz) \
    X(cuEventQuery, PFN_cuEventQuery_v2000) \
    X(cuEventSynchronize, PFN_cuEventSynchronize_v2000) \
    X(cuEventElapsedTime, PFN_cuEventElapsedTime_v2000) \
    X(cuEventElapsedTime_v2, PFN_cuEventElapsedTime_v12080) \
    X(cuEventDestroy, PFN_cuEventDestroy_v2000) \
    X(cuEventDestroy_v2, PFN_cuEventDestroy_v4000) \
    X(cuEventRecord, PFN_cuEventRecord_v2000) \
    X(cuEventRecord_ptsz, PFN_cuEventRecord_v7000_ptsz) \
    X(cuEventRecordWithFlags, PFN_cuEventRecordWithFlags_v11010) \
    X(cuEventRecordWithFlags_ptsz, PFN_cuEventRecordWithFlags_v11010_ptsz) \
    X(cuCtxSynchronize_v2, PFN_cuCtxSynchronize_v13000) \
    X(cuCtxRecordEvent, PFN_cuCtxRecordEvent_v12050) \
    X(cuCtxWaitEvent, PFN_cuCtxWaitEvent_v12050) \
    X(cuGreenCtxRecordEvent, PFN_cuGreenCtxRecordEvent_v12040) \
    X(cuGreenCtxWaitEvent, PFN_cuGreenCtxWaitEvent_v12040) \
    X(cuGreenCtxDestroy, PFN_cuGreenCtxDestroy_v12040) \
    X(cuCtxDetach, PFN_cuCtxDetach_v2000) \
    X(cuCtxDestroy, PFN_cuCtxDestroy_v2000) \
    X(cuDevicePrimaryCtxRelease, PFN_cuDevicePrimaryCtxRelease_v7000) \
    X(cuDevicePrimaryCtxReset, PFN_cuDevicePrimaryCtxReset_v7000) \
    X(cuStreamSynchronize, PFN_cuStreamSynchronize_v2000) \
    X(cuStreamSynchronize_ptsz, PFN_cuStreamSynchronize_v7000_ptsz) \
    X(cuStreamQuery, PFN_cuStreamQuery_v2000) \
    X(cuStreamQuery_ptsz, PFN_cuStreamQuery_v7000_ptsz) \
    X(cuStreamWaitEvent, PFN_cuStreamWaitEvent_v3020) \
    X(cuStreamWaitEvent_ptsz, PFN_cuStreamWaitEvent_v7000_ptsz) \
    X(cuStreamAddCallback, PFN_cuStreamAddCallback_v5000) \
    X(cuStreamAddCallback_ptsz, PFN_cuStreamAddCallback_v7000_ptsz) \
    X(cuLaunchHostFunc, PFN_cuLaunchHostFunc_v10000) \
    X(cuLaunchHostFunc_ptsz, PFN_cuLaunchHostFunc_v10000_ptsz) \
    X(cuStreamAttachMemAsync, PFN_cuStreamAttachMemAsync_v6000) \
    X(cuStreamAttachMemAsync_ptsz, PFN_cuStreamAttachMemAsync_v7000_ptsz) \
    X(cuStreamSetAttribute, PFN_cuStreamSetAttribute_v11000) \
    X(cuStreamSetAttribute_ptsz, PFN_cuStreamSetAttribute_v11000_ptsz) \
    X(cuStreamCopyAttributes, PFN_cuStreamCopyAttributes_v11000) \
    X(cuStreamCopyAttributes_ptsz, PFN_cuStreamCopyAttributes_v11000_ptsz) \
    X(cuMemBatchDecompressAsync, PFN_cuMemBatchDecompressAsync_v12060) \
    X(cuMemBatchDecompressAsync_ptsz, PFN_cuMemBatchDecompressAsync_v12060_ptsz) \
    X(cuMemDiscardBatchAsync, PFN_cuMemDiscardBatchAsync_v13000) \
    X(cuMemDiscardBatchAsync_ptsz, PFN_cuMemDiscardBatchAsync_v13000_ptsz) \
    X(cuMemDiscardAndPrefetchBatchAsync, PFN_cuMemDiscardAndPrefetchBatchAsync_v13000) \
    X(cuMemDiscardAndPrefetchBatchAsync_ptsz, PFN_cuMemDiscardAndPrefetchBatchAsync_v13000_ptsz) \
    X(cuMemcpyHtoA_v2, PFN_cuMemcpyHtoA_v3020) \
    X(cuMemcpyHtoA_v2_ptds, PFN_cuMemcpyHtoA_v7000_ptds) \
    X(cuMemcpyAtoH_v2, PFN_cuMemcpyAtoH_v3020) \
    X(cuMemcpyAtoH_v2_ptds, PFN_cuMemcpyAtoH_v7000_ptds) \
    X(cuMemcpyAtoA_v2, PFN_cuMemcpyAtoA_v3020) \
    X(cuMemcpyAtoA_v2_ptds, PFN_cuMemcpyAtoA_v7000_ptds) \
    X(cuMemcpyHtoAAsync_v2, PFN_cuMemcpyHtoAAsync_v3020) \
    X(cuMemcpyHtoAAsync_v2_ptsz, PFN_cuMemcpyHtoAAsync_v7000_ptsz) \
    X(cuMemcpyAtoHAsync_v2, PFN_cuMemcpyAtoHAsync_v3020) \
    X(cuMemcpyAtoHAsync_v2_ptsz, PFN_cuMemcpyAtoHAsync_v7000_ptsz) \
    X(cuMemMapArrayAsync, PFN_cuMemMapArrayAsync_v11010) \
    X(cuMemMapArrayAsync_ptsz, PFN_cuMemMapArrayAsync_v11010_ptsz) \
    X(cuGraphUpload, PFN_cuGraphUpload_v11010) \
    X(cuGraphUpload_ptsz, PFN_cuGraphUpload_v11010_ptsz) \
    X(cuSignalExternalSemaphoresAsync, PFN_cuSignalExternalSemaphoresAsync_v10000) \
    X(cuSignalExternalSemaphoresAsync_ptsz, PFN_cuSignalExternalSemaphoresAsync_v10000_ptsz) \
    X(cuWaitExternalSemaphoresAsync, PFN_cuWaitExternalSemaphoresAsync_v10000) \
    X(cuWaitExternalSemaphoresAsync_ptsz, PFN_cuWaitExternalSemaphoresAsync_v10000_ptsz) \
    X(cuGraphicsMapResources, PFN_cuGraphicsMapResources_v3000) \
    X(cuGraphicsMapResources_ptsz, PFN_cuGraphicsMapResources_v7000_ptsz) \
    X(cuGraphicsUnmapResources, PFN_cuGraphicsUnmapResources_v3000) \
    X(cuGraphicsUnmapResources_ptsz, PFN_cuGraphicsUnmapResources_v7000_ptsz) \
    X(cuGraphicsUnregisterResource, PFN_cuGraphicsUnregisterResource_v3000) \
    X(cuArrayDestroy, PFN_cuArrayDestroy_v2000) \
    X(cuMipmappedArrayDestroy, PFN_cuMipmappedArrayDestroy_v5000) \
    X(cuTexObjectDestroy, PFN_cuTexObjectDestroy_v5000) \
    X(cuSurfObjectDestroy, PFN_cuSurfObjectDestroy_v5000) \
    X(cuDestroyExternalMemory, PFN_cuDestroyExternalMemory_v10000) \
    X(cuIpcCloseMemHandle, PFN_cuIpcCloseMemHandle_v4010) \
    X(cuTexRefSetArray, PFN_cuTexRefSetArray_v2000) \
    X(cuTexRefSetMipmappedArray, PFN_cuTexRefSetMipmappedArray_v5000) \
    X(cuSurfRefSetArray, PFN_cuSurfRefSetArray_v3000) \
    X(cuTexRefSetAddressMode, PFN_cuTexRefSetAddressMode_v2000) \
    X(cuTexRefSetBorderColor, PFN_cuTexRefSetBorderColor_v8000) \
    X(cuTexRefSetFilterMode, PFN_cuTexRefSetFilterMode_v2000) \
    X(cuTexRefSetFlags, PFN_cuTexRefSetFlags_v2000) \
    X(cuTexRefSetFormat, PFN_cuTexRefSetFormat_v2000) \
    X(cuTexRefSetMaxAnisotropy, PFN_cuTexRefSetMaxAnisotropy_v5000) \
    X(cuTexRefSetMipmapFilterMode, PFN_cuTexRefSetMipmapFilterMode_v5000) \
    X(cuTexRefSetMipmapLevelBias, PFN_cuTexRefSetMipmapLevelBias_v5000) \
    X(cuTexRefSetMipmapLevelClamp, PFN_cuTexRefSetMipmapLevelClamp_v5000) \
    X(cuCtxSynchronize, PFN_cuCtxSynchronize_v2000) \
    X(cuCtxDestroy_v2, PFN_cuCtxDestroy_v4000) \
    X(cuCtxSetLimit, PFN_cuCtxSetLimit_v3010) \
    X(cuDevicePrimaryCtxRelease_v2, PFN_cuDevicePrimaryCtxRelease_v11000) \
    X(cuDevicePrimaryCtxReset_v2, PFN_cuDevicePrimaryCtxReset_v11000) \
    X(cuMemHostAlloc, PFN_cuMemHostAlloc_v2020) \
    X(cuMemAllocHost, PFN_cuMemAllocHost_v2000) \
    X(cuMemAllocHost_v2, PFN_cuMemAllocHost_v3020) \
    X(cuMemHostRegister_v2, PFN_cuMemHostRegister_v6050) \
    X(cuMemHostRegister, PFN_cuMemHostRegister_v4000) \
    X(cuMemFreeHost, PFN_cuMemFreeHost_v2000) \
    X(cuMemHostUnregister, PFN_cuMemHostUnregister_v4000) \
    X(cuMemHostGetFlags, PFN_cuMemHostGetFlags_v2030) \
    X(cuFuncSetAttribute, PFN_cuFuncSetAttribute_v9000) \
    X(cuFuncSetCacheConfig, PFN_cuFuncSetCacheConfig_v3000) \
    X(cuKernelSetAttribute, PFN_cuKernelSetAttribute_v12000)

#define HBMSPILL_REAL(X) \
    X(cuFuncGetAttribute, PFN_cuFuncGetAttribute_v2020) \
    X(cuDriverGetVersion, PFN_cuDriverGetVersion_v2020) \
    X(cuGetErrorName, PFN_cuGetErrorName_v6000) \
    X(cuCtxGetCurrent, PFN_cuCtxGetCurrent_v4000) \
    X(cuCtxGetDevice, PFN_cuCtxGetDevice_v2000) \
    X(cuCtxPushCurrent_v2, PFN_cuCtxPushCurrent_v4000) \
    X(cuCtxPopCurrent_v2, PFN_cuCtxPopCurrent_v4000) \
    X(cuDeviceGetAttribute, PFN_cuDeviceGetAttribute_v2000) \
    X(cuDeviceGetName, PFN_cuDeviceGetName_v2000) \
    X(cuDeviceGetPCIBusId, PFN_cuDeviceGetPCIBusId_v4010) \
    X(cuDeviceGetCount, PFN_cuDeviceGetCount_v2000) \
    X(cuDevicePrimaryCtxGetState, PFN_cuDevicePrimaryCtxGetState_v7000) \
    X(cuDevicePrimaryCtxRetain, PFN_cuDevicePrimaryCtxRetain_v7000) \
    X(cuDeviceGetMemPool, PFN_cuDeviceGetMemPool_v11020) \
    X(cuDeviceGetDefaultMemPool, PFN_cuDeviceGetDefaultMemPool_v11020) \
    X(cuMemGetAllocationGranularity, PFN_cuMemGetAllocationGranularity_v10020) \
    X(cuStreamCreate, PFN_cuStreamCreate_v2000) \
    X(cuStreamGetCaptureInfo_v2, PFN_cuStreamGetCaptureInfo_v11030) \
    X(cuStreamGetCaptureInfo_v3, PFN_cuStreamGetCaptureInfo_v12030) \
    X(cuThreadExchangeStreamCaptureMode, PFN_cuThreadExchangeStreamCaptureMode_v10010) \
    X(cuEventCreate, PFN_cuEventCreate_v2000) \
    X(cuGraphGetNodes, PFN_cuGraphGetNodes_v10000) \
    X(cuGraphGetEdges, PFN_cuGraphGetEdges_v10000) \
    X(cuGraphGetEdges_v2, PFN_cuGraphGetEdges_v12030) \
    X(cuGraphNodeGetType, PFN_cuGraphNodeGetType_v10000) \
    X(cuGraphKernelNodeGetParams, PFN_cuGraphKernelNodeGetParams_v10000) \
    X(cuGraphKernelNodeGetParams_v2, PFN_cuGraphKernelNodeGetParams_v12000) \
    X(cuGraphKernelNodeGetAttribute, PFN_cuGraphKernelNodeGetAttribute_v11000) \
    X(cuGraphMemcpyNodeGetParams, PFN_cuGraphMemcpyNodeGetParams_v10000) \
    X(cuGraphMemsetNodeGetParams, PFN_cuGraphMemsetNodeGetParams_v10000) \
    X(cuGraphHostNodeGetParams, PFN_cuGraphHostNodeGetParams_v10000) \
    X(cuGraphChildGraphNodeGetGraph, PFN_cuGraphChildGraphNodeGetGraph_v10000) \
    X(cuGraphEventRecordNodeGetEvent, PFN_cuGraphEventRecordNodeGetEvent_v11010) \
    X(cuGraphEventWaitNodeGetEvent, PFN_cuGraphEventWaitNodeGetEvent_v11010) \
    X(cuGraphNodeGetEnabled, PFN_cuGraphNodeGetEnabled_v11060) \
    X(cuFuncGetModule, PFN_cuFuncGetModule_v11000) \
    X(cuFuncGetName, PFN_cuFuncGetName_v12030) \
    X(cuFuncGetParamInfo, PFN_cuFuncGetParamInfo_v12040) \
    X(cuKernelGetLibrary, PFN_cuKernelGetLibrary_v12050) \
    X(cuKernelGetName, PFN_cuKernelGetName_v12030) \
    X(cuKernelGetParamInfo, PFN_cuKernelGetParamInfo_v12040) \
    X(cuLibraryGetModule, PFN_cuLibraryGetModule_v12000)
/* clang-format on */

struct hbmspill_real {
#define FUNCTION_MEMBER(symbol, type) type symbol;
    HBMSPILL_HOOKED(FUNCTION_MEMBER)
    HBMSPILL_REAL(FUNCTION_MEMBER)
#undef FUNCTION_MEMBER
};

/* Written by functions_substitute alone; constant once it has handed out a pointer. */
extern struct hbmspill_real hbmspill_real;

#define FUNCTION_PROTOTYPE(symbol, type) __typeof__(*(type)0) hook_##symbol;
HBMSPILL_HOOKED(FUNCTION_PROTOTYPE)
#undef FUNCTION_PROTOTYPE

#endif
