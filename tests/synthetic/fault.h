/*
 * fault.h - faults on demand (SYNTHETIC_GPU_FAULT; fault.c says what there is). Threads: any.
 */
#ifndef SYNTHETIC_FAULT_H
#define SYNTHETIC_FAULT_H

#include "driver.h"

/* Before any call; a list that is not understood ends the process. */
void fault_read(void);
/* On entry to a function: the error it is to return, CUDA_SUCCESS: none. driver_lock not held. */
CUresult fault_inject(const char *name);
/* Whether the copy that the calling thread's present call makes is to go wrong; true once. */
bool fault_corrupts(void);

#endif
