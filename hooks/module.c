/*
 * module.c - modules and libraries as they come and go: who loaded them decides whether their kernels are
 * closed.
 */
#include "hooks/kernel.h"
#include "hooks/retry.h"
#include "hooks/window.h"

/* The caller of the hook itself; the hooks below are called through pointers, so nothing is in between. */
#define CALLER __builtin_return_address(0)

/* handle: where the driver put it, a CUmodule or CUlibrary. */
static CUresult loaded(CUresult status, const void *handle, const void *caller, const void *image,
                       const char *path)
{
    if (status == CUDA_SUCCESS && shim_active())
        kernel_module_loaded(*(const void *const *)handle, caller, image, path);
    return status;
}

CUresult hook_cuModuleLoad(CUmodule *module, const char *path)
{
    CUresult status = RETRY_AFTER_ROOM(0, hbmspill_real.cuModuleLoad(module, path));

    return loaded(status, module, CALLER, NULL, path);
}

CUresult hook_cuModuleLoadData(CUmodule *module, const void *image)
{
    CUresult status = RETRY_AFTER_ROOM(0, hbmspill_real.cuModuleLoadData(module, image));

    return loaded(status, module, CALLER, image, NULL);
}

CUresult hook_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, CUjit_option *options,
                                 void **values)
{
    CUresult status =
        RETRY_AFTER_ROOM(0, hbmspill_real.cuModuleLoadDataEx(module, image, count, options, values));

    return loaded(status, module, CALLER, image, NULL);
}

CUresult hook_cuModuleLoadFatBinary(CUmodule *module, const void *binary)
{
    CUresult status = RETRY_AFTER_ROOM(0, hbmspill_real.cuModuleLoadFatBinary(module, binary));

    return loaded(status, module, CALLER, binary, NULL);
}

CUresult hook_cuModuleUnload(CUmodule module)
{
    CUresult status;

    window_submit_quietly(CU_STREAM_LEGACY);
    if (shim_active())
        kernel_module_unloaded(module); /* before: afterwards the handle may be somebody else's */
    status = hbmspill_real.cuModuleUnload(module);
    return status;
}

CUresult hook_cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *options, void **values,
                                unsigned count, CUlibraryOption *library_options, void **library_values,
                                unsigned library_count)
{
    CUresult status =
        RETRY_AFTER_ROOM(0, hbmspill_real.cuLibraryLoadData(library, code, options, values, count,
                                                            library_options, library_values, library_count));

    return loaded(status, library, CALLER, code, NULL);
}

CUresult hook_cuLibraryUnload(CUlibrary library)
{
    CUresult status;
    CUmodule module;

    window_submit_quietly(CU_STREAM_LEGACY);
    if (shim_active()) {
        kernel_module_unloaded(library);
        if (hbmspill_real.cuLibraryGetModule &&
            hbmspill_real.cuLibraryGetModule(&module, library) == CUDA_SUCCESS)
            kernel_module_unloaded(module);
    }
    status = hbmspill_real.cuLibraryUnload(library);
    return status;
}
