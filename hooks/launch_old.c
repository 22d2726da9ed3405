/*
 * launch_old.c - launches as of CUDA's first versions, and the one over several devices: the driver has them
 * still.
 *
 * cuLaunch, cuLaunchGrid and cuLaunchGridAsync take the parameters that cuParamSetv and its like have put
 * into the function. They cannot be read back, so such a kernel is open: it may touch anything.
 *
 * A cooperative launch over several devices is one operation of several contexts, each kernel of which waits
 * for the others: bringing in what one lacks might wait for another. It is refused, with the error that the
 * driver has for devices that cannot do it.
 */
#include "hooks/capture.h"
#include "hooks/counters.h"
#include "hooks/kernel.h"
#include "hooks/operation.h"
#include "hooks/trace.h"
#include "shim/log.h"

static CUresult old_begin(struct operation *operation, CUfunction function, CUstream stream)
{
    const char *name;
    struct touches touches;

    operation_none(operation);
    count_add(launches, 1);
    if (shim_mode() != SHIM_ON || !gpu_at(0) || capture_graph(stream, false))
        return CUDA_SUCCESS;
    name = kernel_find(function).name;
    touches_init(&touches);
    count_add(open_launches, 1);
    TRACE(trace_launch(TAPE_OPEN, name, &touches, stream, false));
    return operation_begin_launch(operation, &touches, stream, false, true, name);
}

#define OLD_HOOK(symbol, parameters, arguments, function, stream)                                            \
    CUresult hook_##symbol parameters                                                                        \
    {                                                                                                        \
        struct operation operation;                                                                          \
        CUresult status;                                                                                     \
                                                                                                             \
        if (!shim_active())                                                                                  \
            return hbmspill_real.symbol arguments;                                                           \
        status = old_begin(&operation, function, stream);                                                    \
        if (status != CUDA_SUCCESS)                                                                          \
            return status;                                                                                   \
        status = hbmspill_real.symbol arguments;                                                             \
        operation_end(&operation, status);                                                                   \
        return status;                                                                                       \
    }

OLD_HOOK(cuLaunch, (CUfunction f), (f), f, NULL)
OLD_HOOK(cuLaunchGrid, (CUfunction f, int width, int height), (f, width, height), f, NULL)
OLD_HOOK(cuLaunchGridAsync, (CUfunction f, int width, int height, CUstream stream),
         (f, width, height, stream), f, stream)

CUresult hook_cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned count, unsigned flags)
{
    if (shim_mode() != SHIM_ON || !shim_active() || !gpu_at(0))
        return hbmspill_real.cuLaunchCooperativeKernelMultiDevice(list, count, flags);
    log_once(LOG_WARN, LOG_IN_KERNEL,
             "cuLaunchCooperativeKernelMultiDevice is not supported while memory may be spilled");
    return CUDA_ERROR_NOT_SUPPORTED;
}
