/*
 * retry.h - a driver call that ran out of device memory is tried once more after the cache gave some back.
 *
 * HBM is needed for more than allocations: modules, local memory of kernels, graphs, libraries' workspaces.
 */
#ifndef HBMSPILL_HOOKS_RETRY_H
#define HBMSPILL_HOOKS_RETRY_H

#include "hooks/gpu.h"

/* Gives back at least `bytes' of the gpu's frames (0: as much as such a call may need). False: none were. */
bool retry_make_room(struct gpu *gpu, uint64_t bytes);

/* For a call that takes memory of the current device. */
#define RETRY_AFTER_ROOM(bytes, call) RETRY_AFTER_ROOM_OF(gpu_current(), bytes, call)

/* The same where the call says which device's: it need not be the current one, nor any be current. */
#define RETRY_AFTER_ROOM_OF(gpu, bytes, call)                                                                \
    ({                                                                                                       \
        CUresult retry_status = (call);                                                                      \
        if (retry_status == CUDA_ERROR_OUT_OF_MEMORY && shim_active() && retry_make_room(gpu, bytes))        \
            retry_status = (call);                                                                           \
        retry_status;                                                                                        \
    })

#endif
