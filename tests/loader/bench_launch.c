/*
 * bench_launch.c - what a launch costs by the number of pointers it is given, with 100,000 allocations alive.
 *
 * Run with bench_driver.c as libcuda.so.1, with libhbmspill.so preloaded and without: the difference is the
 * hook. Prints a line for each number of pointers: the median of real time in nanoseconds, the clock's own
 * share taken off. Pointers are drawn at random, among all allocations (records as cold as can be) and among
 * as many as a round of a job uses. Each is as large as a frame. Exit: 1 where a call failed.
 */
#include "tests/bench_clock.h"
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { ALLOCATIONS = 100000, ROUND = 1000, MOST = 16, SIZE = 32 << 20 };

static CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                          CUstream, void **, void **);
static CUdeviceptr addresses[ALLOCATIONS];

static void *function(void *library, const char *name)
{
    void *found = dlsym(library, name);

    if (!found) {
        fprintf(stderr, "bench_launch: no %s\n", name);
        exit(1);
    }
    return found;
}

/* What glibc's rand is too short for; the constants are Knuth's (MMIX). */
static uint64_t random_number(void)
{
    static uint64_t state = 1;

    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return state >> 33;
}

/* Pointers into the first `among' allocations, drawn at random. */
static int measure(CUfunction kernel, CUstream stream, unsigned count, unsigned among)
{
    for (unsigned i = 0; i < SAMPLES; i++) {
        CUdeviceptr arguments[MOST];
        void *params[MOST];
        double begin;

        for (unsigned k = 0; k < count; k++) {
            arguments[k] = addresses[random_number() % among] + 256;
            params[k] = &arguments[k];
        }
        begin = now();
        if (launch(kernel, 1, 1, 1, 128, 1, 1, 0, stream, params, NULL))
            return -1;
        samples[i] = now() - begin;
    }
    return 0;
}

int main(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    CUresult (*init)(unsigned), (*alloc)(CUdeviceptr *, size_t), (*stream_create)(CUstream *, unsigned);
    CUresult (*load)(CUmodule *, const void *), (*get_function)(CUfunction *, CUmodule, const char *);
    CUstream stream;
    CUmodule module;
    CUfunction kernel;
    char name[8];
    double clock;

    if (!library) {
        fprintf(stderr, "bench_launch: %s\n", dlerror());
        return 1;
    }
    init = (CUresult(*)(unsigned))function(library, "cuInit");
    alloc = (CUresult(*)(CUdeviceptr *, size_t))function(library, "cuMemAlloc_v2");
    stream_create = (CUresult(*)(CUstream *, unsigned))function(library, "cuStreamCreate");
    load = (CUresult(*)(CUmodule *, const void *))function(library, "cuModuleLoadData");
    get_function =
        (CUresult(*)(CUfunction *, CUmodule, const char *))function(library, "cuModuleGetFunction");
    *(void **)&launch = function(library, "cuLaunchKernel");
    if (init(0) || stream_create(&stream, CU_STREAM_NON_BLOCKING) || load(&module, "image") ||
        get_function(&kernel, module, "1"))
        return 1;
    for (unsigned i = 0; i < ALLOCATIONS; i++) {
        void *params[1] = {&addresses[i]};

        if (alloc(&addresses[i], SIZE) || launch(kernel, 1, 1, 1, 128, 1, 1, 0, stream, params, NULL))
            return 1;
    }
    clock = clock_cost();
    for (unsigned count = 0; count <= MOST; count = count ? 2 * count : 1) {
        snprintf(name, sizeof name, "%u", count);
        for (unsigned i = 0; i < 2; i++) {
            if (get_function(&kernel, module, name) ||
                measure(kernel, stream, count, i ? ALLOCATIONS : ROUND))
                return 1;
            printf("launch %s %u %.0f\n", i ? "all" : "round", count, median() - clock);
        }
    }
    return 0;
}
