/*
 * functions.h - every function of cuda.h 13.0 by its exported name: those with behaviour, and those that only
 * say that they are not supported (textures, arrays, graphics, IPC pools, multicast, green contexts ...).
 */
#ifndef SYNTHETIC_FUNCTIONS_H
#define SYNTHETIC_FUNCTIONS_H

/* clang-format off */
#define SUPPORTED_FUNCTIONS(X) \
    X(cuCtxCreate) X(cuCtxCreate_v2) X(cuCtxCreate_v3) X(cuCtxCreate_v4) X(cuCtxDestroy) \
    X(cuCtxDestroy_v2) X(cuCtxDisablePeerAccess) X(cuCtxEnablePeerAccess) X(cuCtxGetApiVersion) \
    X(cuCtxGetCacheConfig) X(cuCtxGetCurrent) X(cuCtxGetDevice) X(cuCtxGetDevice_v2) X(cuCtxGetFlags) \
    X(cuCtxGetId) X(cuCtxGetLimit) X(cuCtxGetSharedMemConfig) X(cuCtxGetStreamPriorityRange) \
    X(cuCtxPopCurrent) X(cuCtxPopCurrent_v2) X(cuCtxPushCurrent) X(cuCtxPushCurrent_v2) \
    X(cuCtxRecordEvent) X(cuCtxResetPersistingL2Cache) X(cuCtxSetCacheConfig) X(cuCtxSetCurrent) \
    X(cuCtxSetFlags) X(cuCtxSetLimit) X(cuCtxSetSharedMemConfig) X(cuCtxSynchronize) \
    X(cuCtxSynchronize_v2) X(cuCtxWaitEvent) X(cuDeviceCanAccessPeer) X(cuDeviceComputeCapability) \
    X(cuDeviceGet) X(cuDeviceGetAttribute) X(cuDeviceGetByPCIBusId) X(cuDeviceGetCount) \
    X(cuDeviceGetDefaultMemPool) X(cuDeviceGetExecAffinitySupport) X(cuDeviceGetLuid) \
    X(cuDeviceGetMemPool) X(cuDeviceGetName) X(cuDeviceGetP2PAttribute) X(cuDeviceGetPCIBusId) \
    X(cuDeviceGetProperties) X(cuDeviceGetUuid) X(cuDeviceGetUuid_v2) X(cuDevicePrimaryCtxGetState) \
    X(cuDevicePrimaryCtxRelease) X(cuDevicePrimaryCtxRelease_v2) X(cuDevicePrimaryCtxReset) \
    X(cuDevicePrimaryCtxReset_v2) X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxSetFlags) \
    X(cuDevicePrimaryCtxSetFlags_v2) X(cuDeviceSetMemPool) X(cuDeviceTotalMem_v2) X(cuDriverGetVersion) \
    X(cuEventCreate) X(cuEventDestroy) X(cuEventDestroy_v2) X(cuEventElapsedTime) \
    X(cuEventElapsedTime_v2) X(cuEventQuery) X(cuEventRecord) X(cuEventRecordWithFlags) \
    X(cuEventRecordWithFlags_ptsz) X(cuEventRecord_ptsz) X(cuEventSynchronize) X(cuFuncGetAttribute) \
    X(cuFuncGetModule) X(cuFuncGetName) X(cuFuncGetParamInfo) X(cuFuncIsLoaded) X(cuFuncLoad) \
    X(cuFuncSetAttribute) X(cuFuncSetCacheConfig) X(cuFuncSetSharedMemConfig) X(cuGetErrorName) \
    X(cuGetErrorString) X(cuGetExportTable) X(cuGetProcAddress) X(cuGetProcAddress_v2) X(cuGetProcAddress_v2_ptsz) \
    X(cuGraphAddChildGraphNode) X(cuGraphAddDependencies) X(cuGraphAddDependencies_v2) \
    X(cuGraphAddEmptyNode) X(cuGraphAddEventRecordNode) X(cuGraphAddEventWaitNode) X(cuGraphAddHostNode) \
    X(cuGraphAddKernelNode) X(cuGraphAddKernelNode_v2) X(cuGraphAddMemcpyNode) X(cuGraphAddMemsetNode) \
    X(cuGraphAddNode) X(cuGraphAddNode_v2) X(cuGraphChildGraphNodeGetGraph) X(cuGraphClone) \
    X(cuGraphConditionalHandleCreate) X(cuGraphCreate) X(cuGraphDebugDotPrint) X(cuGraphDestroy) \
    X(cuGraphDestroyNode) X(cuGraphEventRecordNodeGetEvent) X(cuGraphEventRecordNodeSetEvent) \
    X(cuGraphEventWaitNodeGetEvent) X(cuGraphEventWaitNodeSetEvent) \
    X(cuGraphExecChildGraphNodeSetParams) X(cuGraphExecDestroy) X(cuGraphExecEventRecordNodeSetEvent) \
    X(cuGraphExecEventWaitNodeSetEvent) X(cuGraphExecGetFlags) X(cuGraphExecHostNodeSetParams) \
    X(cuGraphExecKernelNodeSetParams) X(cuGraphExecKernelNodeSetParams_v2) \
    X(cuGraphExecMemcpyNodeSetParams) X(cuGraphExecMemsetNodeSetParams) X(cuGraphExecNodeSetParams) \
    X(cuGraphExecUpdate) X(cuGraphExecUpdate_v2) X(cuGraphGetEdges) X(cuGraphGetEdges_v2) \
    X(cuGraphGetNodes) X(cuGraphGetRootNodes) X(cuGraphHostNodeGetParams) X(cuGraphHostNodeSetParams) \
    X(cuGraphInstantiate) X(cuGraphInstantiateWithFlags) X(cuGraphInstantiateWithParams) \
    X(cuGraphInstantiateWithParams_ptsz) X(cuGraphInstantiate_v2) X(cuGraphKernelNodeCopyAttributes) \
    X(cuGraphKernelNodeGetAttribute) X(cuGraphKernelNodeGetParams) X(cuGraphKernelNodeGetParams_v2) \
    X(cuGraphKernelNodeSetAttribute) X(cuGraphKernelNodeSetParams) X(cuGraphKernelNodeSetParams_v2) \
    X(cuGraphLaunch) X(cuGraphLaunch_ptsz) X(cuGraphMemcpyNodeGetParams) X(cuGraphMemcpyNodeSetParams) \
    X(cuGraphMemsetNodeGetParams) X(cuGraphMemsetNodeSetParams) X(cuGraphNodeFindInClone) \
    X(cuGraphNodeGetDependencies) X(cuGraphNodeGetDependencies_v2) X(cuGraphNodeGetDependentNodes) \
    X(cuGraphNodeGetDependentNodes_v2) X(cuGraphNodeGetEnabled) X(cuGraphNodeGetType) \
    X(cuGraphNodeSetEnabled) X(cuGraphNodeSetParams) X(cuGraphReleaseUserObject) \
    X(cuGraphRemoveDependencies) X(cuGraphRemoveDependencies_v2) X(cuGraphRetainUserObject) \
    X(cuGraphUpload) X(cuGraphUpload_ptsz) X(cuInit) X(cuIpcCloseMemHandle) X(cuIpcGetEventHandle) \
    X(cuIpcGetMemHandle) X(cuIpcOpenEventHandle) X(cuIpcOpenMemHandle) X(cuIpcOpenMemHandle_v2) \
    X(cuKernelGetAttribute) X(cuKernelGetFunction) X(cuKernelGetLibrary) X(cuKernelGetName) \
    X(cuKernelGetParamInfo) X(cuKernelSetAttribute) X(cuKernelSetCacheConfig) \
    X(cuLaunchCooperativeKernel) X(cuLaunchCooperativeKernel_ptsz) X(cuLaunchHostFunc) \
    X(cuLaunchHostFunc_ptsz) X(cuLaunchKernel) X(cuLaunchKernelEx) X(cuLaunchKernelEx_ptsz) \
    X(cuLaunchKernel_ptsz) X(cuLibraryEnumerateKernels) X(cuLibraryGetGlobal) X(cuLibraryGetKernel) \
    X(cuLibraryGetKernelCount) X(cuLibraryGetManaged) X(cuLibraryGetModule) X(cuLibraryLoadData) \
    X(cuLibraryLoadFromFile) X(cuLibraryUnload) X(cuLinkAddData) X(cuLinkAddData_v2) X(cuLinkComplete) \
    X(cuLinkCreate) X(cuLinkCreate_v2) X(cuLinkDestroy) X(cuMemAddressFree) X(cuMemAddressReserve) \
    X(cuMemAdvise) X(cuMemAdvise_v2) X(cuMemAllocAsync) X(cuMemAllocAsync_ptsz) \
    X(cuMemAllocFromPoolAsync) X(cuMemAllocFromPoolAsync_ptsz) X(cuMemAllocHost) X(cuMemAllocHost_v2) X(cuMemAllocManaged) \
    X(cuMemAllocPitch_v2) X(cuMemAlloc_v2) X(cuMemCreate) X(cuMemExportToShareableHandle) \
    X(cuMemFreeAsync) X(cuMemFreeAsync_ptsz) X(cuMemFreeHost) X(cuMemFree_v2) X(cuMemGetAccess) \
    X(cuMemGetAddressRange_v2) X(cuMemGetAllocationGranularity) \
    X(cuMemGetAllocationPropertiesFromHandle) X(cuMemGetDefaultMemPool) X(cuMemGetInfo_v2) \
    X(cuMemGetMemPool) X(cuMemHostAlloc) X(cuMemHostGetDevicePointer_v2) X(cuMemHostGetFlags) \
    X(cuMemHostRegister) X(cuMemHostRegister_v2) X(cuMemHostUnregister) \
    X(cuMemImportFromShareableHandle) X(cuMemMap) X(cuMemPoolCreate) X(cuMemPoolDestroy) \
    X(cuMemPoolGetAccess) X(cuMemPoolGetAttribute) X(cuMemPoolSetAccess) X(cuMemPoolSetAttribute) \
    X(cuMemPoolTrimTo) X(cuMemPrefetchAsync) X(cuMemPrefetchAsync_ptsz) X(cuMemPrefetchAsync_v2) \
    X(cuMemPrefetchAsync_v2_ptsz) X(cuMemRelease) X(cuMemRetainAllocationHandle) X(cuMemSetAccess) \
    X(cuMemSetMemPool) X(cuMemUnmap) X(cuMemcpy) X(cuMemcpy2DAsync_v2) X(cuMemcpy2DAsync_v2_ptsz) \
    X(cuMemcpy2DUnaligned_v2) X(cuMemcpy2DUnaligned_v2_ptds) X(cuMemcpy2D_v2) X(cuMemcpy2D_v2_ptds) \
    X(cuMemcpy3DAsync_v2) X(cuMemcpy3DAsync_v2_ptsz) X(cuMemcpy3D_v2) X(cuMemcpy3D_v2_ptds) \
    X(cuMemcpyAsync) X(cuMemcpyAsync_ptsz) X(cuMemcpyBatchAsync) X(cuMemcpyBatchAsync_ptsz) \
    X(cuMemcpyBatchAsync_v2) X(cuMemcpyBatchAsync_v2_ptsz) X(cuMemcpyDtoDAsync_v2) \
    X(cuMemcpyDtoDAsync_v2_ptsz) X(cuMemcpyDtoD_v2) X(cuMemcpyDtoD_v2_ptds) X(cuMemcpyDtoHAsync_v2) \
    X(cuMemcpyDtoHAsync_v2_ptsz) X(cuMemcpyDtoH_v2) X(cuMemcpyDtoH_v2_ptds) X(cuMemcpyHtoDAsync_v2) \
    X(cuMemcpyHtoDAsync_v2_ptsz) X(cuMemcpyHtoD_v2) X(cuMemcpyHtoD_v2_ptds) X(cuMemcpyPeer) \
    X(cuMemcpyPeerAsync) X(cuMemcpyPeerAsync_ptsz) X(cuMemcpy_ptds) X(cuMemsetD16Async) \
    X(cuMemsetD16Async_ptsz) X(cuMemsetD16_v2) X(cuMemsetD16_v2_ptds) X(cuMemsetD2D16Async) \
    X(cuMemsetD2D16Async_ptsz) X(cuMemsetD2D16_v2) X(cuMemsetD2D16_v2_ptds) X(cuMemsetD2D32Async) \
    X(cuMemsetD2D32Async_ptsz) X(cuMemsetD2D32_v2) X(cuMemsetD2D32_v2_ptds) X(cuMemsetD2D8Async) \
    X(cuMemsetD2D8Async_ptsz) X(cuMemsetD2D8_v2) X(cuMemsetD2D8_v2_ptds) X(cuMemsetD32Async) \
    X(cuMemsetD32Async_ptsz) X(cuMemsetD32_v2) X(cuMemsetD32_v2_ptds) X(cuMemsetD8Async) \
    X(cuMemsetD8Async_ptsz) X(cuMemsetD8_v2) X(cuMemsetD8_v2_ptds) X(cuModuleEnumerateFunctions) \
    X(cuModuleGetFunction) X(cuModuleGetFunctionCount) X(cuModuleGetGlobal_v2) X(cuModuleGetLoadingMode) \
    X(cuModuleLoad) X(cuModuleLoadData) X(cuModuleLoadDataEx) X(cuModuleLoadFatBinary) X(cuModuleUnload) \
    X(cuOccupancyAvailableDynamicSMemPerBlock) X(cuOccupancyMaxActiveBlocksPerMultiprocessor) \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags) X(cuOccupancyMaxActiveClusters) \
    X(cuOccupancyMaxPotentialBlockSize) X(cuOccupancyMaxPotentialBlockSizeWithFlags) \
    X(cuOccupancyMaxPotentialClusterSize) X(cuPointerGetAttribute) X(cuPointerGetAttributes) \
    X(cuPointerSetAttribute) X(cuStreamAddCallback) X(cuStreamAddCallback_ptsz) \
    X(cuStreamAttachMemAsync) X(cuStreamAttachMemAsync_ptsz) X(cuStreamBatchMemOp) \
    X(cuStreamBatchMemOp_ptsz) X(cuStreamBatchMemOp_v2) X(cuStreamBatchMemOp_v2_ptsz) \
    X(cuStreamBeginCapture) X(cuStreamBeginCaptureToGraph) X(cuStreamBeginCaptureToGraph_ptsz) \
    X(cuStreamBeginCapture_ptsz) X(cuStreamBeginCapture_v2) X(cuStreamBeginCapture_v2_ptsz) \
    X(cuStreamCopyAttributes) X(cuStreamCopyAttributes_ptsz) X(cuStreamCreate) \
    X(cuStreamCreateWithPriority) X(cuStreamDestroy) X(cuStreamDestroy_v2) X(cuStreamEndCapture) \
    X(cuStreamEndCapture_ptsz) X(cuStreamGetAttribute) X(cuStreamGetAttribute_ptsz) \
    X(cuStreamGetCaptureInfo) X(cuStreamGetCaptureInfo_ptsz) X(cuStreamGetCaptureInfo_v2) \
    X(cuStreamGetCaptureInfo_v2_ptsz) X(cuStreamGetCaptureInfo_v3) X(cuStreamGetCaptureInfo_v3_ptsz) \
    X(cuStreamGetCtx) X(cuStreamGetCtx_ptsz) X(cuStreamGetCtx_v2) X(cuStreamGetCtx_v2_ptsz) \
    X(cuStreamGetDevice) X(cuStreamGetDevice_ptsz) X(cuStreamGetFlags) X(cuStreamGetFlags_ptsz) \
    X(cuStreamGetId) X(cuStreamGetId_ptsz) X(cuStreamGetPriority) X(cuStreamGetPriority_ptsz) \
    X(cuStreamIsCapturing) X(cuStreamIsCapturing_ptsz) X(cuStreamQuery) X(cuStreamQuery_ptsz) \
    X(cuStreamSetAttribute) X(cuStreamSetAttribute_ptsz) X(cuStreamSynchronize) \
    X(cuStreamSynchronize_ptsz) X(cuStreamUpdateCaptureDependencies) \
    X(cuStreamUpdateCaptureDependencies_ptsz) X(cuStreamUpdateCaptureDependencies_v2) \
    X(cuStreamUpdateCaptureDependencies_v2_ptsz) X(cuStreamWaitEvent) X(cuStreamWaitEvent_ptsz) \
    X(cuStreamWaitValue32) X(cuStreamWaitValue32_ptsz) X(cuStreamWaitValue32_v2) \
    X(cuStreamWaitValue32_v2_ptsz) X(cuStreamWaitValue64) X(cuStreamWaitValue64_ptsz) \
    X(cuStreamWaitValue64_v2) X(cuStreamWaitValue64_v2_ptsz) X(cuStreamWriteValue32) \
    X(cuStreamWriteValue32_ptsz) X(cuStreamWriteValue32_v2) X(cuStreamWriteValue32_v2_ptsz) \
    X(cuStreamWriteValue64) X(cuStreamWriteValue64_ptsz) X(cuStreamWriteValue64_v2) \
    X(cuStreamWriteValue64_v2_ptsz) X(cuThreadExchangeStreamCaptureMode) X(cuUserObjectCreate) \
    X(cuUserObjectRelease) X(cuUserObjectRetain)

#define UNSUPPORTED_FUNCTIONS(X) \
    X(cuArray3DCreate) X(cuArray3DCreate_v2) X(cuArray3DGetDescriptor) X(cuArray3DGetDescriptor_v2) \
    X(cuArrayCreate) X(cuArrayCreate_v2) X(cuArrayDestroy) X(cuArrayGetDescriptor) \
    X(cuArrayGetDescriptor_v2) X(cuArrayGetMemoryRequirements) X(cuArrayGetPlane) \
    X(cuArrayGetSparseProperties) X(cuCheckpointProcessCheckpoint) \
    X(cuCheckpointProcessGetRestoreThreadId) X(cuCheckpointProcessGetState) X(cuCheckpointProcessLock) \
    X(cuCheckpointProcessRestore) X(cuCheckpointProcessUnlock) X(cuCoredumpGetAttribute) \
    X(cuCoredumpGetAttributeGlobal) X(cuCoredumpSetAttribute) X(cuCoredumpSetAttributeGlobal) \
    X(cuCtxAttach) X(cuCtxDetach) X(cuCtxFromGreenCtx) X(cuCtxGetDevResource) X(cuCtxGetExecAffinity) \
    X(cuDestroyExternalMemory) X(cuDestroyExternalSemaphore) X(cuDevResourceGenerateDesc) \
    X(cuDevSmResourceSplitByCount) X(cuDeviceGetDevResource) X(cuDeviceGetGraphMemAttribute) \
    X(cuDeviceGetHostAtomicCapabilities) X(cuDeviceGetNvSciSyncAttributes) \
    X(cuDeviceGetP2PAtomicCapabilities) X(cuDeviceGetTexture1DLinearMaxWidth) X(cuDeviceGraphMemTrim) \
    X(cuDeviceRegisterAsyncNotification) X(cuDeviceSetGraphMemAttribute) X(cuDeviceTotalMem) \
    X(cuDeviceUnregisterAsyncNotification) X(cuExternalMemoryGetMappedBuffer) \
    X(cuExternalMemoryGetMappedMipmappedArray) X(cuFlushGPUDirectRDMAWrites) X(cuFuncSetBlockShape) \
    X(cuFuncSetSharedSize) X(cuGraphAddBatchMemOpNode) X(cuGraphAddExternalSemaphoresSignalNode) \
    X(cuGraphAddExternalSemaphoresWaitNode) X(cuGraphAddMemAllocNode) X(cuGraphAddMemFreeNode) \
    X(cuGraphBatchMemOpNodeGetParams) X(cuGraphBatchMemOpNodeSetParams) \
    X(cuGraphExecBatchMemOpNodeSetParams) X(cuGraphExecExternalSemaphoresSignalNodeSetParams) \
    X(cuGraphExecExternalSemaphoresWaitNodeSetParams) X(cuGraphExternalSemaphoresSignalNodeGetParams) \
    X(cuGraphExternalSemaphoresSignalNodeSetParams) X(cuGraphExternalSemaphoresWaitNodeGetParams) \
    X(cuGraphExternalSemaphoresWaitNodeSetParams) X(cuGraphMemAllocNodeGetParams) \
    X(cuGraphMemFreeNodeGetParams) X(cuGraphicsMapResources) X(cuGraphicsMapResources_ptsz) \
    X(cuGraphicsResourceGetMappedMipmappedArray) X(cuGraphicsResourceGetMappedPointer) \
    X(cuGraphicsResourceGetMappedPointer_v2) X(cuGraphicsResourceSetMapFlags) \
    X(cuGraphicsResourceSetMapFlags_v2) X(cuGraphicsSubResourceGetMappedArray) \
    X(cuGraphicsUnmapResources) X(cuGraphicsUnmapResources_ptsz) X(cuGraphicsUnregisterResource) \
    X(cuGreenCtxCreate) X(cuGreenCtxDestroy) X(cuGreenCtxGetDevResource) X(cuGreenCtxGetId) \
    X(cuGreenCtxRecordEvent) X(cuGreenCtxStreamCreate) X(cuGreenCtxWaitEvent) X(cuImportExternalMemory) \
    X(cuImportExternalSemaphore) X(cuLaunch) X(cuLaunchCooperativeKernelMultiDevice) X(cuLaunchGrid) \
    X(cuLaunchGridAsync) X(cuLibraryGetUnifiedFunction) X(cuLinkAddFile) X(cuLinkAddFile_v2) \
    X(cuLogsCurrent) X(cuLogsDumpToFile) X(cuLogsDumpToMemory) X(cuLogsRegisterCallback) \
    X(cuLogsUnregisterCallback) X(cuMemAlloc) X(cuMemAllocPitch) \
    X(cuMemBatchDecompressAsync) X(cuMemBatchDecompressAsync_ptsz) X(cuMemDiscardAndPrefetchBatchAsync) \
    X(cuMemDiscardAndPrefetchBatchAsync_ptsz) X(cuMemDiscardBatchAsync) X(cuMemDiscardBatchAsync_ptsz) \
    X(cuMemFree) X(cuMemGetAddressRange) X(cuMemGetHandleForAddressRange) X(cuMemGetInfo) \
    X(cuMemHostGetDevicePointer) X(cuMemMapArrayAsync) X(cuMemMapArrayAsync_ptsz) \
    X(cuMemPoolExportPointer) X(cuMemPoolExportToShareableHandle) X(cuMemPoolImportFromShareableHandle) \
    X(cuMemPoolImportPointer) X(cuMemPrefetchBatchAsync) X(cuMemPrefetchBatchAsync_ptsz) \
    X(cuMemRangeGetAttribute) X(cuMemRangeGetAttributes) X(cuMemcpy2D) X(cuMemcpy2DAsync) \
    X(cuMemcpy2DUnaligned) X(cuMemcpy3D) X(cuMemcpy3DAsync) X(cuMemcpy3DBatchAsync) \
    X(cuMemcpy3DBatchAsync_ptsz) X(cuMemcpy3DBatchAsync_v2) X(cuMemcpy3DBatchAsync_v2_ptsz) \
    X(cuMemcpy3DPeer) X(cuMemcpy3DPeerAsync) X(cuMemcpy3DPeerAsync_ptsz) X(cuMemcpy3DPeer_ptds) \
    X(cuMemcpyAtoA) X(cuMemcpyAtoA_v2) X(cuMemcpyAtoA_v2_ptds) X(cuMemcpyAtoD) X(cuMemcpyAtoD_v2) \
    X(cuMemcpyAtoD_v2_ptds) X(cuMemcpyAtoH) X(cuMemcpyAtoHAsync) X(cuMemcpyAtoHAsync_v2) \
    X(cuMemcpyAtoHAsync_v2_ptsz) X(cuMemcpyAtoH_v2) X(cuMemcpyAtoH_v2_ptds) X(cuMemcpyDtoA) \
    X(cuMemcpyDtoA_v2) X(cuMemcpyDtoA_v2_ptds) X(cuMemcpyDtoD) X(cuMemcpyDtoDAsync) X(cuMemcpyDtoH) \
    X(cuMemcpyDtoHAsync) X(cuMemcpyHtoA) X(cuMemcpyHtoAAsync) X(cuMemcpyHtoAAsync_v2) \
    X(cuMemcpyHtoAAsync_v2_ptsz) X(cuMemcpyHtoA_v2) X(cuMemcpyHtoA_v2_ptds) X(cuMemcpyHtoD) \
    X(cuMemcpyHtoDAsync) X(cuMemcpyPeer_ptds) X(cuMemsetD16) X(cuMemsetD2D16) X(cuMemsetD2D32) \
    X(cuMemsetD2D8) X(cuMemsetD32) X(cuMemsetD8) X(cuMipmappedArrayCreate) X(cuMipmappedArrayDestroy) \
    X(cuMipmappedArrayGetLevel) X(cuMipmappedArrayGetMemoryRequirements) \
    X(cuMipmappedArrayGetSparseProperties) X(cuModuleGetGlobal) X(cuModuleGetSurfRef) \
    X(cuModuleGetTexRef) X(cuMulticastAddDevice) X(cuMulticastBindAddr) X(cuMulticastBindMem) \
    X(cuMulticastCreate) X(cuMulticastGetGranularity) X(cuMulticastUnbind) X(cuParamSetSize) \
    X(cuParamSetTexRef) X(cuParamSetf) X(cuParamSeti) X(cuParamSetv) X(cuSignalExternalSemaphoresAsync) \
    X(cuSignalExternalSemaphoresAsync_ptsz) X(cuStreamGetGreenCtx) X(cuSurfObjectCreate) \
    X(cuSurfObjectDestroy) X(cuSurfObjectGetResourceDesc) X(cuSurfRefGetArray) X(cuSurfRefSetArray) \
    X(cuTensorMapEncodeIm2col) X(cuTensorMapEncodeIm2colWide) X(cuTensorMapEncodeTiled) \
    X(cuTensorMapReplaceAddress) X(cuTexObjectCreate) X(cuTexObjectDestroy) \
    X(cuTexObjectGetResourceDesc) X(cuTexObjectGetResourceViewDesc) X(cuTexObjectGetTextureDesc) \
    X(cuTexRefCreate) X(cuTexRefDestroy) X(cuTexRefGetAddress) X(cuTexRefGetAddressMode) \
    X(cuTexRefGetAddress_v2) X(cuTexRefGetArray) X(cuTexRefGetBorderColor) X(cuTexRefGetFilterMode) \
    X(cuTexRefGetFlags) X(cuTexRefGetFormat) X(cuTexRefGetMaxAnisotropy) X(cuTexRefGetMipmapFilterMode) \
    X(cuTexRefGetMipmapLevelBias) X(cuTexRefGetMipmapLevelClamp) X(cuTexRefGetMipmappedArray) \
    X(cuTexRefSetAddress) X(cuTexRefSetAddress2D) X(cuTexRefSetAddress2D_v2) X(cuTexRefSetAddress2D_v3) \
    X(cuTexRefSetAddressMode) X(cuTexRefSetAddress_v2) X(cuTexRefSetArray) X(cuTexRefSetBorderColor) \
    X(cuTexRefSetFilterMode) X(cuTexRefSetFlags) X(cuTexRefSetFormat) X(cuTexRefSetMaxAnisotropy) \
    X(cuTexRefSetMipmapFilterMode) X(cuTexRefSetMipmapLevelBias) X(cuTexRefSetMipmapLevelClamp) \
    X(cuTexRefSetMipmappedArray) X(cuWaitExternalSemaphoresAsync) X(cuWaitExternalSemaphoresAsync_ptsz)
/* clang-format on */

#endif
