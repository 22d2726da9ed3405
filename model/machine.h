/*
 * machine.h - the one place for what a modelled machine costs. Every figure has its source; [assumed] has
 * none.
 *
 * scripts/bound reads the lines `#define MACHINE_...' of this file, so that both use the same. Rates are
 * bytes per second, times nanoseconds.
 */
#ifndef MODEL_MACHINE_H
#define MODEL_MACHINE_H

/*
 * X(name, in, out, in while out is busy, out while in is busy)
 * pcie4: 25 each way, published measurements of PCIe 4 x16; both at once [assumed] undiminished.
 * pcie5: 55 each way, published measurements of PCIe 5 x16; both at once 52 in and 34 to 50 out: 42.
 * c2c: GH200's NVLink-C2C, published: 375 in, 297 out; both at once as published for GB300: 175 each.
 */
#define MACHINE_LINKS(X)                                                                                     \
    X(pcie4, 25e9, 25e9, 25e9, 25e9)                                                                         \
    X(pcie5, 55e9, 55e9, 52e9, 42e9)                                                                         \
    X(c2c, 375e9, 297e9, 175e9, 175e9)

/* Before the first byte of a copy moves; the engine is taken. [assumed] */
#define MACHINE_COPY_LATENCY 1500
/* From one kernel's end to the next one's start in a stream. Part of a kernel's duration where that is
 * derived from bytes. [assumed] */
#define MACHINE_KERNEL_GAP 1000
/* What a kernel's bytes are moved at, where durations are derived: H100's HBM3, of the data sheet's 3.35e9 a
 * millisecond nine tenths. [assumed] */
#define MACHINE_HBM_RATE 3.0e12

/* Lane-instructions a second, where a kernel's instructions are counted: H100 SXM's data sheet has 67e12
 * float32 operations a second, two of them a fused multiply-add. Tensor cores are not modelled. [assumed] for
 * other instructions. */
#define MACHINE_INSTRUCTION_RATE 33.5e12

/* A copy from pinned memory to pinned memory, where both ends of a job's copy are on the host. [assumed] */
#define MACHINE_HOST_RATE 10e9

/* A host function, from the end of what is before it to its return. [assumed] */
#define MACHINE_HOST_FUNCTION 10000

/* Host time of one launch, copy or memset: until the hook has it, and the driver's own. [assumed] */
#define MACHINE_HOST_CALL 1500
#define MACHINE_HOST_LAUNCH 1500
/* Of a window, for each operation in it: to plan it. [assumed] */
#define MACHINE_HOST_PLAN 300
/* Host time of an allocation or a free of the job, served by the cache. [assumed] */
#define MACHINE_HOST_ALLOC 300
/* Per 2 MiB handle, published: cuMemCreate 8 to 193 us, cuMemMap 1 to 1.5, cuMemSetAccess 21 to 36 (charged a
 * call and not a handle: one call spans many), cuMemUnmap 11 to 26. */
#define MACHINE_HOST_CREATE 50000
#define MACHINE_HOST_RELEASE 10000 /* [assumed] */
#define MACHINE_HOST_MAP 1250
#define MACHINE_HOST_ACCESS 28000
#define MACHINE_HOST_UNMAP 18000
#define MACHINE_HOST_RESERVE 2000 /* [assumed] */
/* Pinning, published: 0.4 to 0.5 s a GiB with cuMemHostAlloc. Nanoseconds a byte. */
#define MACHINE_HOST_PIN_BYTE 0.42
/* cuEventRecord, cuStreamWaitEvent, cuEventQuery, cuMemcpyAsync of those that order copies. [assumed] */
#define MACHINE_HOST_EVENT 600
#define MACHINE_HOST_WAIT 600
#define MACHINE_HOST_QUERY 300
#define MACHINE_HOST_COPY 1500
/* Operations that may be queued in a stream before the host has to wait for the oldest. [assumed, of the
 * order of CUDA's] */
#define MACHINE_QUEUE_DEPTH 1024

#endif
