/*
 * module.c - modules and libraries as they come and go: who loaded them decides whether their kernels are closed.
 */
#include "hooks/kernel.h"

/* The caller of the hook itself; the hooks below are called through pointers, so nothing is in between. */
#define CALLER __builtin_return_address(0)

static CUresult loaded(CUresult status, const void *handle, const void *caller)
{
    if (status == CUDA_SUCCESS && shim_active())
        kernel_module_loaded(handle, caller);
    return status;
}

CUresult hook_cuModuleLoad(CUmodule *module, const char *path)
{
    CUresult status = hbmspill_real.cuModuleLoad(module, path);

    return loaded(status, status == CUDA_SUCCESS ? *module : NULL, CALLER);
}

CUresult hook_cuModuleLoadData(CUmodule *module, const void *image)
{
    CUresult status = hbmspill_real.cuModuleLoadData(module, image);

    return loaded(status, status == CUDA_SUCCESS ? *module : NULL, CALLER);
}

CUresult hook_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, CUjit_option *options,
                                 void **values)
{
    CUresult status = hbmspill_real.cuModuleLoadDataEx(module, image, count, options, values);

    return loaded(status, status == CUDA_SUCCESS ? *module : NULL, CALLER);
}

CUresult hook_cuModuleLoadFatBinary(CUmodule *module, const void *binary)
{
    CUresult status = hbmspill_real.cuModuleLoadFatBinary(module, binary);

    return loaded(status, status == CUDA_SUCCESS ? *module : NULL, CALLER);
}

CUresult hook_cuModuleUnload(CUmodule module)
{
    if (shim_active())
        kernel_module_unloaded(module); /* before: afterwards the handle may be somebody else's */
    return hbmspill_real.cuModuleUnload(module);
}

CUresult hook_cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *options, void **values,
                                unsigned count, CUlibraryOption *library_options, void **library_values,
                                unsigned library_count)
{
    CUresult status = hbmspill_real.cuLibraryLoadData(library, code, options, values, count, library_options,
                                                      library_values, library_count);

    return loaded(status, status == CUDA_SUCCESS ? *library : NULL, CALLER);
}

CUresult hook_cuLibraryUnload(CUlibrary library)
{
    CUmodule module;

    if (shim_active()) {
        kernel_module_unloaded(library);
        if (hbmspill_real.cuLibraryGetModule && hbmspill_real.cuLibraryGetModule(&module, library) == CUDA_SUCCESS)
            kernel_module_unloaded(module);
    }
    return hbmspill_real.cuLibraryUnload(library);
}
