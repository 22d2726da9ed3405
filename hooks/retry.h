/*
 * retry.h - a driver call that ran out of device memory is tried once more after the cache gave some back.
 *
 * HBM is needed for more than allocations: modules, local memory of kernels, graphs, libraries' workspaces.
 */
#ifndef HBMSPILL_HOOKS_RETRY_H
#define HBMSPILL_HOOKS_RETRY_H

#include "hooks/gpu.h"

/* Gives back at least `bytes' of the current device's frames (0: as much as such a call may need). False:
 * none were. */
bool retry_make_room(uint64_t bytes);

#define RETRY_AFTER_ROOM(bytes, call)                                                                        \
    ({                                                                                                       \
        CUresult retry_status = (call);                                                                      \
        if (retry_status == CUDA_ERROR_OUT_OF_MEMORY && shim_active() && retry_make_room(bytes))             \
            retry_status = (call);                                                                           \
        retry_status;                                                                                        \
    })

#endif
