/*
 * launch.h - modules, functions and kernels, shared by module.c, library.c, launch.c, attributes.c and
 * graph.c.
 */
#ifndef SYNTHETIC_LAUNCH_H
#define SYNTHETIC_LAUNCH_H

#include "engine.h"

#define SHARED_PER_BLOCK 49152 /* bytes, without opting in */
#define SHARED_PER_BLOCK_OPTIN 65536
#define SHARED_PER_MULTIPROCESSOR 65536
#define THREADS_PER_BLOCK 1024
#define THREADS_PER_MULTIPROCESSOR 1024
#define BLOCKS_PER_MULTIPROCESSOR 16
#define REGISTERS_PER_BLOCK 65536
#define MULTIPROCESSORS 40

struct CUfunc_st {
    struct object object;
    struct CUmod_st *module;
    const struct ptx_kernel *kernel;
    struct CUkern_st *of_kernel; /* the library's kernel it stands for, or NULL */
    int max_dynamic_shared, carveout, cache_config;
};

struct CUmod_st {
    struct object object;
    CUcontext ctx;
    struct ptx_module *ptx;
    struct CUfunc_st **functions; /* one per kernel of ptx, in its order */
    size_t function_count;
    uint64_t *globals; /* addresses, one per global of ptx */
    size_t global_count;
    struct CUlib_st *library; /* it belongs to, or NULL */
    struct CUmod_st *next;    /* of the library: one per context */
};

struct CUkern_st {
    struct object object;
    struct CUlib_st *library;
    size_t index; /* of the kernel in the modules */
    const char *name;
};

/* PTX text (NUL-terminated) to a module of ctx; says on stderr what is wrong with it. */
CUresult module_load_locked(CUcontext ctx, const char *text, size_t length, CUmodule *out);
void module_unload_locked(CUmodule module);
CUresult module_global(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name);
/* The function behind a CUfunction or a CUkernel given as one, or NULL. */
struct CUfunc_st *function_resolve_locked(CUfunction handle);
struct CUfunc_st *kernel_function_locked(CUkernel kernel, CUcontext ctx);

/* Checks a launch and makes work of it; the parameters are copied. */
CUresult kernel_work_make(struct CUfunc_st *function, const unsigned grid[3], const unsigned block[3],
                          unsigned shared, void **params, void **extra, struct work *out);
bool kernel_copy_params(struct kernel_work *to, const struct kernel_work *from);
/* On an engine thread, no lock held; what it touched is added to touched. */
CUresult kernel_run(const struct kernel_work *work, struct work_count *count, struct touched *touched);
bool kernel_touches(const struct kernel_work *work, uint64_t address, uint64_t size);
const char *kernel_name(const struct kernel_work *work);

/* device_runtime.c: the device runtime's functions, as PTX. A new text (to free), or NULL when there is
 * nothing to do. */
char *device_runtime_link(const char *text, size_t length);

#endif
