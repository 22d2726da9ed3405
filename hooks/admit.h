/*
 * admit.h - HBMSPILL_ADMIT: finding out which kernels are closed, by running them with everything they do not
 * name made inaccessible (scripts/gpu-admit does it; slow, for that alone).
 *
 * A kernel that would be open, but whose parameters can be listed and that is not known to be open, is on
 * trial: what is queued ends, every allocation that its parameters do not point into is unmapped, it runs
 * alone and is waited for. One that faults then is not closed; the context is lost with it, so the file is
 * written at once. At exit it gets a row for each kernel that came through:
 *
 *   closed HASH KERNEL LAUNCHES launches, SHAPES shapes; DEVICE, driver VERSION
 *   open HASH KERNEL ended with ERROR ...
 *
 * One kernel at a time, over all threads.
 */
#ifndef HBMSPILL_HOOKS_ADMIT_H
#define HBMSPILL_HOOKS_ADMIT_H

#include "hooks/kernel.h"

/* Whether launches of the kernel are trials. */
bool admit_on_trial(const struct kernel *kernel);
/*
 * Before a trial, which is then launched as if closed; CUDA_SUCCESS, or what to tell the job instead of
 * launching. shape: a number for its grid and the like.
 */
CUresult admit_begin(const struct kernel *kernel, const struct touches *touches);
/* After it, with the result of the launch: what the job is to be told. */
CUresult admit_end(const struct kernel *kernel, uint64_t shape, CUresult status);
/* At exit; calls no driver function. */
void admit_exit(void);

#endif
