/*
 * faults_unreached.h - functions of shim/functions.h that no job of test_faults.c calls: they are forwarded
 * as those of their kind that it does call, or the synthetic GPU does not have them. test_faults.c says when
 * this list is wrong. Names without versions.
 */
"cuCtxDestroy", "cuCtxRecordEvent", "cuCtxSetLimit", "cuCtxWaitEvent", "cuDeviceGetName",
    "cuDevicePrimaryCtxReset", "cuDriverGetVersion", "cuEventRecordWithFlags", "cuFuncSetAttribute",
    "cuFuncSetCacheConfig", "cuGetErrorName", "cuGetProcAddress", "cuGraphAddNode",
    "cuGraphChildGraphNodeGetGraph", "cuGraphDestroyNode", "cuGraphEventRecordNodeGetEvent",
    "cuGraphEventWaitNodeGetEvent", "cuGraphExecChildGraphNodeSetParams",
    "cuGraphExecEventRecordNodeSetEvent", "cuGraphExecEventWaitNodeSetEvent", "cuGraphExecHostNodeSetParams",
    "cuGraphExecKernelNodeSetParams", "cuGraphExecMemcpyNodeSetParams", "cuGraphExecNodeSetParams",
    "cuGraphInstantiate", "cuGraphInstantiateWithParams", "cuGraphMemcpyNodeSetParams",
    "cuGraphMemsetNodeSetParams", "cuGraphNodeGetEnabled", "cuGraphNodeSetParams", "cuGraphUpload",
    "cuGraphicsMapResources", "cuGraphicsUnmapResources", "cuKernelGetName", "cuKernelSetAttribute",
    "cuLaunchCooperativeKernel", "cuMemAllocHost", "cuMemAllocPitch", "cuMemBatchDecompressAsync",
    "cuMemFreeAsync", "cuMemGetAddressRange", "cuMemGetHandleForAddressRange", "cuMemMapArrayAsync",
    "cuMemRetainAllocationHandle", "cuMemcpy", "cuMemcpy2D", "cuMemcpy2DAsync", "cuMemcpy2DUnaligned",
    "cuMemcpy3D", "cuMemcpy3DAsync", "cuMemcpy3DBatchAsync", "cuMemcpy3DPeer", "cuMemcpy3DPeerAsync",
    "cuMemcpyAtoD", "cuMemcpyAtoHAsync", "cuMemcpyBatchAsync", "cuMemcpyDtoA", "cuMemcpyDtoD",
    "cuMemcpyHtoAAsync", "cuMemcpyHtoD", "cuMemcpyHtoDAsync", "cuMemcpyPeer", "cuMemcpyPeerAsync",
    "cuMemsetD16", "cuMemsetD16Async", "cuMemsetD2D16", "cuMemsetD2D16Async", "cuMemsetD2D32",
    "cuMemsetD2D32Async", "cuMemsetD2D8Async", "cuMemsetD32", "cuMemsetD8", "cuModuleLoad",
    "cuModuleLoadDataEx", "cuModuleLoadFatBinary", "cuMulticastBindAddr", "cuPointerSetAttribute",
    "cuSignalExternalSemaphoresAsync", "cuStreamAddCallback", "cuStreamAttachMemAsync", "cuStreamBatchMemOp",
    "cuStreamBeginCaptureToGraph", "cuStreamCopyAttributes", "cuStreamQuery", "cuStreamSetAttribute",
    "cuStreamWaitValue64", "cuStreamWriteValue64", "cuTensorMapEncodeIm2col", "cuTensorMapEncodeIm2colWide",
    "cuTensorMapEncodeTiled", "cuTensorMapReplaceAddress", "cuTexObjectCreate", "cuTexRefSetAddress",
    "cuTexRefSetAddress2D", "cuWaitExternalSemaphoresAsync",
