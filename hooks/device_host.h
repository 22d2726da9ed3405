/*
 * device_host.h - pinned host memory as handles, which can be mapped where the device looks for spilled
 * memory: host_create and host_destroy of struct device_ops over the real driver.
 *
 * Threads: any; the gpu's context is current.
 */
#ifndef HBMSPILL_HOOKS_DEVICE_HOST_H
#define HBMSPILL_HOOKS_DEVICE_HOST_H

#include "hooks/gpu.h"

/*
 * Whether the driver says that it has them, of that size; sets gpu->host_location: on the node where the
 * gpu's pinned memory is placed (hooks/pinned.h), else on the one that the driver says is closest.
 */
bool device_host_supported(struct gpu *gpu, uint64_t unit);
int device_host_create(void *ctx, uint64_t size, uint64_t unit, void **memory, uint64_t *handles);
int device_host_destroy(void *ctx, void *memory, uint64_t size, uint64_t unit, const uint64_t *handles);
/* Adds what is kept of those that the driver would not take back. */
struct cache_held;
void device_host_refused(struct cache_held *held);

#endif
