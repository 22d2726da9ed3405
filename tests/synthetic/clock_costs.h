/*
 * clock_costs.h - the calls the clock knows, and what each costs the host: X(name, ns). Names of a family:
 * version suffixes and _ptsz, _ptds may follow. The constants are model/machine.h's; LAUNCH also has what the
 * program spends before it comes to the call, which the driver's scale is not for (own). What costs by the
 * byte is charged where it happens, and so are queries (clock_answer_locked).
 */
#define CLOCK_CALLS(X)                                                                                       \
    X(cuLaunchKernel, MACHINE_HOST_LAUNCH, MACHINE_HOST_CALL)                                                \
    X(cuLaunchKernelEx, MACHINE_HOST_LAUNCH, MACHINE_HOST_CALL)                                              \
    X(cuLaunchCooperativeKernel, MACHINE_HOST_LAUNCH, MACHINE_HOST_CALL)                                     \
    X(cuGraphLaunch, MACHINE_HOST_LAUNCH, MACHINE_HOST_CALL)                                                 \
    X(cuLaunchHostFunc, MACHINE_HOST_LAUNCH, 0)                                                              \
    X(cuStreamAddCallback, MACHINE_HOST_LAUNCH, 0)                                                           \
    X(cuMemcpy, MACHINE_HOST_COPY, 0)                                                                        \
    X(cuMemcpyAsync, MACHINE_HOST_COPY, 0)                                                                   \
    X(cuMemcpyHtoD, MACHINE_HOST_COPY, 0)                                                                    \
    X(cuMemcpyDtoH, MACHINE_HOST_COPY, 0)                                                                    \
    X(cuMemcpyDtoD, MACHINE_HOST_COPY, 0)                                                                    \
    X(cuMemcpyHtoDAsync, MACHINE_HOST_COPY, 0)                                                               \
    X(cuMemcpyDtoHAsync, MACHINE_HOST_COPY, 0)                                                               \
    X(cuMemcpyDtoDAsync, MACHINE_HOST_COPY, 0)                                                               \
    X(cuMemcpyPeer, MACHINE_HOST_COPY, 0)                                                                    \
    X(cuMemcpyPeerAsync, MACHINE_HOST_COPY, 0)                                                               \
    X(cuMemcpy2D, MACHINE_HOST_COPY, 0)                                                                      \
    X(cuMemcpy2DUnaligned, MACHINE_HOST_COPY, 0)                                                             \
    X(cuMemcpy2DAsync, MACHINE_HOST_COPY, 0)                                                                 \
    X(cuMemcpy3D, MACHINE_HOST_COPY, 0)                                                                      \
    X(cuMemcpy3DAsync, MACHINE_HOST_COPY, 0)                                                                 \
    X(cuMemcpyBatchAsync, MACHINE_HOST_COPY, 0)                                                              \
    X(cuMemsetD8, MACHINE_HOST_LAUNCH, 0)                                                                    \
    X(cuMemsetD16, MACHINE_HOST_LAUNCH, 0)                                                                   \
    X(cuMemsetD32, MACHINE_HOST_LAUNCH, 0)                                                                   \
    X(cuMemsetD2D8, MACHINE_HOST_LAUNCH, 0)                                                                  \
    X(cuMemsetD2D16, MACHINE_HOST_LAUNCH, 0)                                                                 \
    X(cuMemsetD2D32, MACHINE_HOST_LAUNCH, 0)                                                                 \
    X(cuMemsetD8Async, MACHINE_HOST_LAUNCH, 0)                                                               \
    X(cuMemsetD16Async, MACHINE_HOST_LAUNCH, 0)                                                              \
    X(cuMemsetD32Async, MACHINE_HOST_LAUNCH, 0)                                                              \
    X(cuMemsetD2D8Async, MACHINE_HOST_LAUNCH, 0)                                                             \
    X(cuMemsetD2D16Async, MACHINE_HOST_LAUNCH, 0)                                                            \
    X(cuMemsetD2D32Async, MACHINE_HOST_LAUNCH, 0)                                                            \
    X(cuEventRecord, MACHINE_HOST_EVENT, 0)                                                                  \
    X(cuEventRecordWithFlags, MACHINE_HOST_EVENT, 0)                                                         \
    X(cuEventQuery, 0, 0)                                                                                    \
    X(cuEventSynchronize, MACHINE_HOST_QUERY, 0)                                                             \
    X(cuEventElapsedTime, MACHINE_HOST_QUERY, 0)                                                             \
    X(cuStreamWaitEvent, MACHINE_HOST_WAIT, 0)                                                               \
    X(cuStreamQuery, 0, 0)                                                                                   \
    X(cuStreamSynchronize, MACHINE_HOST_QUERY, 0)                                                            \
    X(cuCtxSynchronize, MACHINE_HOST_QUERY, 0)                                                               \
    X(cuStreamWriteValue32, MACHINE_HOST_EVENT, 0)                                                           \
    X(cuStreamWriteValue64, MACHINE_HOST_EVENT, 0)                                                           \
    X(cuStreamWaitValue32, MACHINE_HOST_WAIT, 0)                                                             \
    X(cuStreamWaitValue64, MACHINE_HOST_WAIT, 0)                                                             \
    X(cuStreamBatchMemOp, MACHINE_HOST_EVENT, 0)                                                             \
    X(cuStreamCreate, 0, 0)                                                                                  \
    X(cuStreamCreateWithPriority, 0, 0)                                                                      \
    X(cuStreamDestroy, 0, 0)                                                                                 \
    X(cuMemAlloc, MACHINE_HOST_ALLOC, 0)                                                                     \
    X(cuMemAllocPitch, MACHINE_HOST_ALLOC, 0)                                                                \
    X(cuMemFree, MACHINE_HOST_ALLOC, 0)                                                                      \
    X(cuMemAllocAsync, MACHINE_HOST_ALLOC, 0)                                                                \
    X(cuMemAllocFromPoolAsync, MACHINE_HOST_ALLOC, 0)                                                        \
    X(cuMemFreeAsync, MACHINE_HOST_ALLOC, 0)                                                                 \
    X(cuMemAllocManaged, MACHINE_HOST_ALLOC, 0)                                                              \
    X(cuMemPoolTrimTo, MACHINE_HOST_RELEASE, 0)                                                              \
    X(cuMemCreate, MACHINE_HOST_CREATE, 0)                                                                   \
    X(cuMemRelease, MACHINE_HOST_RELEASE, 0)                                                                 \
    X(cuMemMap, MACHINE_HOST_MAP, 0)                                                                         \
    X(cuMemUnmap, MACHINE_HOST_UNMAP, 0)                                                                     \
    X(cuMemSetAccess, MACHINE_HOST_ACCESS, 0)                                                                \
    X(cuMemAddressReserve, MACHINE_HOST_RESERVE, 0)                                                          \
    X(cuMemAddressFree, MACHINE_HOST_RESERVE, 0)                                                             \
    X(cuMemHostAlloc, MACHINE_HOST_RESERVE, 0)                                                               \
    X(cuMemAllocHost, MACHINE_HOST_RESERVE, 0)                                                               \
    X(cuMemHostRegister, MACHINE_HOST_RESERVE, 0)                                                            \
    X(cuMemFreeHost, MACHINE_HOST_RELEASE, 0)                                                                \
    X(cuMemHostUnregister, MACHINE_HOST_RELEASE, 0)
