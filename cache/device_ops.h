/*
 * device_ops.h - all that the cache knows of a GPU.
 *
 * hooks/device_cuda.c implements it over the real driver, tests/unit/fake_device.c over arrays. Streams,
 * events and frame handles are opaque 64-bit values. Sizes are bytes; addresses are device virtual addresses
 * (host addresses for `any' copies too).
 *
 * Every function returns 0 or -errno: -ENOMEM where the device or the host has no more of it, -EIO for any
 * other error of the driver (the implementation remembers which). All are called with the cache's lock held
 * and must not wait for the GPU, except host_alloc, host_free, host_create, host_destroy and
 * event_synchronize, which are called without it.
 */
#ifndef HBMSPILL_CACHE_DEVICE_OPS_H
#define HBMSPILL_CACHE_DEVICE_OPS_H

#include <stdint.h>

struct device_ops {
    void *ctx;

    /* Address space (cuMemAddressReserve/Free); no memory behind it. */
    int (*reserve)(void *ctx, uint64_t size, uint64_t *address);
    int (*unreserve)(void *ctx, uint64_t address, uint64_t size);

    /*
     * HBM: a frame is one handle (cuMemCreate/Release), mapped as a whole, possibly at several addresses;
     * unmap and set_access take one mapping or several that lie side by side, as the driver does.
     */
    int (*frame_create)(void *ctx, uint64_t size, uint64_t *handle);
    int (*frame_release)(void *ctx, uint64_t handle);
    int (*map)(void *ctx, uint64_t address, uint64_t size, uint64_t handle);
    int (*unmap)(void *ctx, uint64_t address, uint64_t size);
    int (*set_access)(void *ctx, uint64_t address, uint64_t size);

    /*
     * Pinned host memory; its address is valid on the device too. host_alloc: -ENOSPC where others have what
     * was to be had, and may give some of it back. host_room: about how many bytes there are to be had now;
     * NULL: nobody else takes any.
     */
    int (*host_alloc)(void *ctx, uint64_t size, void **out);
    int (*host_free)(void *ctx, void *memory);
    uint64_t (*host_room)(void *ctx);

    /*
     * The same as handles of `unit' bytes, size / unit of them into handles[], side by side at *memory for
     * the CPU and the device; a handle can also be mapped (map, unmap) wherever a frame can, and is then
     * reached over the link. All or nothing. The caller has unmapped it everywhere else when it destroys it;
     * what the driver then does not take back is the implementation's to keep and to try again (a mapping
     * counts for each handle, and a reservation). -ENOTSUP: not on this machine, use host_alloc. Both NULL
     * where that is known beforehand.
     */
    int (*host_create)(void *ctx, uint64_t size, uint64_t unit, void **memory, uint64_t *handles);
    int (*host_destroy)(void *ctx, void *memory, uint64_t size, uint64_t unit, const uint64_t *handles);

    int (*stream_create)(void *ctx, uint64_t *stream);
    int (*stream_destroy)(void *ctx, uint64_t stream);
    int (*copy)(void *ctx, uint64_t stream, uint64_t dst, uint64_t src, uint64_t size);

    /* Called once all before it in the stream has completed, by a thread of the device's; calls none of
     * these. */
    int (*host_function)(void *ctx, uint64_t stream, void (*function)(void *data), void *data);

    int (*event_create)(void *ctx, uint64_t *event);
    int (*event_destroy)(void *ctx, uint64_t event);
    int (*event_record)(void *ctx, uint64_t event, uint64_t stream);
    int (*stream_wait)(void *ctx, uint64_t stream, uint64_t event);
    int (*event_query)(void *ctx, uint64_t event); /* 0: completed, -EBUSY: not yet */
    int (*event_synchronize)(void *ctx, uint64_t event);

    /*
     * Events that take the time; recorded, queried, waited for and destroyed as others. elapsed: nanoseconds
     * of the device between two that were recorded, -EBUSY until both have happened.
     */
    int (*timer_create)(void *ctx, uint64_t *event);
    int (*elapsed)(void *ctx, uint64_t start, uint64_t end, double *nanoseconds);
};

#endif
