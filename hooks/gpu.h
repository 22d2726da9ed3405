/*
 * gpu.h - one struct for each device the job has memory on: its cache, its limits, its way to the driver.
 *
 * A gpu is made by the first allocation on its device that the cache takes, with the context that is then
 * current; streams and events of the cache belong to that context. It lives until the process ends.
 *
 * Threads: any. gpu_enter and gpu_leave bracket calls into the cache, so that its driver calls find the
 * context.
 */
#ifndef HBMSPILL_HOOKS_GPU_H
#define HBMSPILL_HOOKS_GPU_H

#include "cache/cache.h"
#include "hooks/link.h"
#include "hooks/pinned.h"
#include "shim/shim.h"

enum { GPUS_MAX = 64 };

struct gpu {
    CUdevice device;
    CUcontext context;
    CUmemAllocationProp prop; /* of frames */
    CUmemAccessDesc access;
    CUmemLocation host_location; /* of slots that are handles (device_host.h) */
    struct device_ops ops;
    struct cache *cache;
    uint64_t granularity;    /* bytes */
    uint64_t physical_total; /* what the device has */
    uint64_t hbm_limit, host_limit;
    uint64_t hbm_told; /* the limit, less what the user keeps from JAX alone: JAX takes that off by itself */
    atomic_int last_error;          /* CUresult behind the last -EIO */
    struct cache_observer observer; /* what the cache tells: observe.h */
    struct link link;
    struct pinned_memory pinned;
};

/* The gpu of a device, NULL before its first managed allocation. */
struct gpu *gpu_of_device(CUdevice device);
/* The same for the current context's device. */
struct gpu *gpu_current(void);
/* Made now if need be. NULL where this device cannot be managed (no VMM, no context, mode is not on): said
 * once. */
struct gpu *gpu_make_current(void);
/* The gpu whose cache an address may belong to, NULL for a foreign one. No lock. */
struct gpu *gpu_of_address(uint64_t address);
/* The i-th gpu made, NULL past the last. */
struct gpu *gpu_at(unsigned i);

/* What the job may be told of, known without making it: bytes of HBM (hbm_told), of pinned host memory. */
bool gpu_limits(CUdevice device, uint64_t *hbm, uint64_t *host);

/* Makes the gpu's context current if it is not. Returns what gpu_leave needs. */
bool gpu_enter(struct gpu *gpu);
void gpu_leave(bool entered);

/* 0 or -errno of the cache as the driver would say it. */
CUresult gpu_result(struct gpu *gpu, int error);

/* How a stream argument names a stream; per_thread: for entry points where 0 means the per-thread default
 * stream. */
struct stream_key stream_key_of(CUstream stream, bool per_thread);

/*
 * What the job does in a stream and the driver is not told, an allocation or a free of ours: in the legacy
 * stream it orders other streams all the same. Nothing of the stream is held.
 */
CUresult gpu_legacy_action(struct gpu *gpu, CUstream stream, bool per_thread);

/* hooks/device_cuda.c: the real device_ops. gpu->context, prop and access are set. */
void device_cuda_init(struct gpu *gpu);

#endif
