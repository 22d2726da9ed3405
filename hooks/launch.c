/*
 * launch.c - kernel launches.
 *
 * Programmatic stream serialization lets a kernel start before the one ahead of it has ended. Its own
 * griddepcontrol.wait then orders what it reads of that kernel, but it knows nothing of waits that were put
 * in between, or of memory that had another owner who is still ahead of it in the stream, so for such a
 * launch the attribute is taken off.
 */
#include "hooks/admit.h"
#include "hooks/capture.h"
#include "hooks/counters.h"
#include "hooks/kernel.h"
#include "hooks/operation.h"
#include "hooks/trace.h"
#include "hooks/window.h"
#include <stdlib.h>
#include <string.h>

struct launching {
    struct operation operation;
    struct kernel kernel;
    bool held;  /* for later: the result is the job's */
    bool trial; /* admit.h */
    uint64_t shape;
};

static uint64_t shape_of(const CUlaunchConfig *config)
{
    const unsigned numbers[] = {config->gridDimX,      config->gridDimY,  config->gridDimZ,
                                config->blockDimX,     config->blockDimY, config->blockDimZ,
                                config->sharedMemBytes};
    uint64_t shape = 0;

    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++)
        shape = (shape ^ numbers[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return shape;
}

static CUlaunchConfig plain_config(unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                   unsigned bz, unsigned shared, CUstream stream)
{
    return (CUlaunchConfig){.gridDimX = gx,
                            .gridDimY = gy,
                            .gridDimZ = gz,
                            .blockDimX = bx,
                            .blockDimY = by,
                            .blockDimZ = bz,
                            .sharedMemBytes = shared,
                            .hStream = stream};
}

/* may_hold: the window may have it. */
static CUresult launch_begin(struct launching *launching, CUfunction function, void **params, void **extra,
                             bool per_thread, const CUlaunchConfig *config, bool plain, bool may_hold)
{
    struct kernel kernel = kernel_find(function);
    CUstream stream = config->hStream;
    struct touches touches;
    bool open, readable;
    CUresult status;

    count_add(launches, 1);
    operation_none(&launching->operation);
    launching->held = launching->trial = false;
    if (shim_mode() != SHIM_ON || !gpu_at(0))
        return CUDA_SUCCESS;
    touches_init(&touches);
    readable = kernel_touches(&kernel, params, extra, &touches);
    open = !readable || !kernel.closed;
    if (touches.gpu)
        cache_expect(touches.gpu->cache, touches.touch, touches.count);
    if (open)
        count_add(open_launches, 1);
    TRACE(trace_launch(open ? TAPE_OPEN : TAPE_LAUNCH, kernel.name, &touches, stream, per_thread));
    if (!open && may_hold && !extra && !per_thread &&
        window_hold_launch(&kernel, config, plain, params, &touches, &status)) {
        launching->held = true;
        touches_fini(&touches);
        return status;
    }
    if (capture_graph(stream, per_thread)) { /* its parameters are not looked at before it runs */
        touches_fini(&touches);
        return CUDA_SUCCESS;
    }
    if (open && readable && admit_on_trial(&kernel)) {
        status = admit_begin(&kernel, &touches);
        if (status != CUDA_SUCCESS) {
            touches_fini(&touches);
            return status;
        }
        launching->trial = true;
        launching->kernel = kernel;
        launching->shape = shape_of(config);
        open = false;
    }
    status = operation_begin_launch(&launching->operation, &touches, stream, per_thread, open, kernel.name);
    if (status != CUDA_SUCCESS && launching->trial)
        (void)admit_end(&kernel, 0, status);
    return status;
}

/* The result of the launch, and what is to be told of it. */
static CUresult launch_end(struct launching *launching, CUresult status)
{
    operation_end(&launching->operation, status);
    return launching->trial ? admit_end(&launching->kernel, launching->shape, status) : status;
}

static CUresult launch(PFN_cuLaunchKernel_v4000 real, bool per_thread, CUfunction f, unsigned gx, unsigned gy,
                       unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream,
                       void **params, void **extra)
{
    const CUlaunchConfig config = plain_config(gx, gy, gz, bx, by, bz, shared, stream);
    struct launching launching;
    CUresult status;

    if (!shim_active())
        return real(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
    status = launch_begin(&launching, f, params, extra, per_thread, &config, true, true);
    if (status != CUDA_SUCCESS || launching.held)
        return status;
    return launch_end(&launching, real(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra));
}

CUresult hook_cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                             unsigned bz, unsigned shared, CUstream stream, void **params, void **extra)
{
    return launch(hbmspill_real.cuLaunchKernel, false, f, gx, gy, gz, bx, by, bz, shared, stream, params,
                  extra);
}

CUresult hook_cuLaunchKernel_ptsz(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                  unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params,
                                  void **extra)
{
    return launch(hbmspill_real.cuLaunchKernel_ptsz, true, f, gx, gy, gz, bx, by, bz, shared, stream, params,
                  extra);
}

static CUresult launch_cooperative(PFN_cuLaunchCooperativeKernel_v9000 real, bool per_thread, CUfunction f,
                                   unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                   unsigned bz, unsigned shared, CUstream stream, void **params)
{
    const CUlaunchConfig config = plain_config(gx, gy, gz, bx, by, bz, shared, stream);
    struct launching launching;
    CUresult status;

    if (!shim_active())
        return real(f, gx, gy, gz, bx, by, bz, shared, stream, params);
    status = launch_begin(&launching, f, params, NULL, per_thread, &config, false, false);
    if (status != CUDA_SUCCESS)
        return status;
    return launch_end(&launching, real(f, gx, gy, gz, bx, by, bz, shared, stream, params));
}

CUresult hook_cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                        unsigned by, unsigned bz, unsigned shared, CUstream stream,
                                        void **params)
{
    return launch_cooperative(hbmspill_real.cuLaunchCooperativeKernel, false, f, gx, gy, gz, bx, by, bz,
                              shared, stream, params);
}

CUresult hook_cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                             unsigned by, unsigned bz, unsigned shared, CUstream stream,
                                             void **params)
{
    return launch_cooperative(hbmspill_real.cuLaunchCooperativeKernel_ptsz, true, f, gx, gy, gz, bx, by, bz,
                              shared, stream, params);
}

static bool has_early_start(const CUlaunchConfig *config)
{
    for (unsigned i = 0; i < config->numAttrs; i++)
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            return true;
    return false;
}

/* The launch with its attributes less the early start. */
static CUresult launch_in_order(PFN_cuLaunchKernelEx_v11060 real, const CUlaunchConfig *config, CUfunction f,
                                void **params, void **extra)
{
    CUlaunchConfig changed = *config;
    CUlaunchAttribute *attributes = malloc(config->numAttrs * sizeof *attributes);
    CUresult status;

    if (!attributes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    changed.attrs = attributes;
    changed.numAttrs = 0;
    for (unsigned i = 0; i < config->numAttrs; i++)
        if (config->attrs[i].id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            attributes[changed.numAttrs++] = config->attrs[i];
    status = real(&changed, f, params, extra);
    free(attributes);
    return status;
}

static CUresult launch_ex(PFN_cuLaunchKernelEx_v11060 real, bool per_thread, const CUlaunchConfig *config,
                          CUfunction f, void **params, void **extra)
{
    struct launching launching;
    CUresult status;

    if (!shim_active() || !config)
        return real(config, f, params, extra);
    status = launch_begin(&launching, f, params, extra, per_thread, config, false, true);
    if (status != CUDA_SUCCESS || launching.held)
        return status;
    if (operation_handed_over(&launching.operation) && has_early_start(config))
        status = launch_in_order(real, config, f, params, extra);
    else
        status = real(config, f, params, extra);
    return launch_end(&launching, status);
}

CUresult hook_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
    return launch_ex(hbmspill_real.cuLaunchKernelEx, false, config, f, params, extra);
}

CUresult hook_cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
    return launch_ex(hbmspill_real.cuLaunchKernelEx_ptsz, true, config, f, params, extra);
}
