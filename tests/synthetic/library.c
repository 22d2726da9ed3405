/*
 * library.c - libraries: code that belongs to no context, and the linker ("Library Management", cuLink*).
 *
 * A library keeps its text; it becomes a module in a context when that context first needs it.
 */
#include "launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CUlib_st {
    struct object object;
    char *text;
    struct CUmod_st *modules; /* one per context that used it */
    struct CUkern_st **kernels;
    size_t kernel_count;
};

static CUresult module_in_locked(CUlibrary library, CUcontext ctx, CUmodule *out)
{
    for (CUmodule m = library->modules; m; m = m->next) {
        if (m->ctx == ctx) {
            *out = m;
            return CUDA_SUCCESS;
        }
    }
    CUmodule module;
    CUresult result = module_load_locked(ctx, library->text, strlen(library->text), &module);
    if (result != CUDA_SUCCESS)
        return result;
    module->library = library;
    module->next = library->modules;
    library->modules = module;
    *out = module;
    return CUDA_SUCCESS;
}

struct CUfunc_st *kernel_function_locked(CUkernel kernel, CUcontext ctx)
{
    CUmodule module;
    if (!ctx || module_in_locked(kernel->library, ctx, &module) != CUDA_SUCCESS)
        return NULL;
    struct CUfunc_st *function = module->functions[kernel->index];
    function->of_kernel = kernel;
    return function;
}

struct CUfunc_st *function_resolve_locked(CUfunction handle)
{
    if (object_valid(handle, OBJECT_FUNCTION))
        return handle;
    if (object_valid(handle, OBJECT_KERNEL)) /* "f can also be a CUkernel" */
        return kernel_function_locked((CUkernel)(void *)handle, context_current());
    return NULL;
}

static void library_free_locked(CUlibrary library)
{
    while (library->modules) {
        CUmodule module = library->modules;
        library->modules = module->next;
        module_unload_locked(module);
    }
    for (size_t i = 0; i < library->kernel_count && library->kernels; i++)
        if (library->kernels[i])
            object_free_locked(library->kernels[i]);
    free(library->kernels);
    free(library->text);
    object_free_locked(library);
}

static CUresult library_load(CUlibrary *out, const char *text)
{
    CUmodule module;
    CUcontext ctx = context_current();
    if (strncmp(text, "\177ELF", 4) == 0 || strncmp(text, "P\355U\272", 4) == 0 ||
        strncmp(text, "\261CbF", 4) == 0)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    driver_acquire();
    CUlibrary library = object_new_locked(OBJECT_LIBRARY, sizeof(*library));
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!library || !(library->text = strdup(text)))
        goto fail;
    result = module_in_locked(library, ctx, &module);
    if (result != CUDA_SUCCESS)
        goto fail;
    library->kernel_count = module->function_count;
    library->kernels = calloc(library->kernel_count + 1, sizeof(struct CUkern_st *));
    for (size_t i = 0; library->kernels && i < library->kernel_count; i++) {
        CUkernel kernel = object_new_locked(OBJECT_KERNEL, sizeof(*kernel));
        if (!kernel) {
            result = CUDA_ERROR_OUT_OF_MEMORY;
            goto fail;
        }
        kernel->library = library;
        kernel->index = i;
        kernel->name = module->functions[i]->kernel->name;
        library->kernels[i] = kernel;
    }
    *out = library;
    driver_release();
    return CUDA_SUCCESS;
fail:
    if (library)
        library_free_locked(library);
    driver_release();
    return result;
}

CUresult cuLibraryLoadData(CUlibrary *out, const void *code, CUjit_option *jit, void **jit_values,
                           unsigned int jit_count, CUlibraryOption *lib, void **lib_values,
                           unsigned int lib_count)
{
    API_ENTER(API_CONTEXT);
    if (!out || !code || (jit_count && (!jit || !jit_values)) || (lib_count && !lib))
        return CUDA_ERROR_INVALID_VALUE;
    (void)lib_values;
    return library_load(out, code);
}

CUresult cuLibraryLoadFromFile(CUlibrary *out, const char *path, CUjit_option *jit, void **jit_values,
                               unsigned int jit_count, CUlibraryOption *lib, void **lib_values,
                               unsigned int lib_count)
{
    API_ENTER(API_CONTEXT);
    (void)lib_values;
    if (!out || !path || (jit_count && (!jit || !jit_values)) || (lib_count && !lib))
        return CUDA_ERROR_INVALID_VALUE;
    FILE *f = fopen(path, "re");
    if (!f)
        return CUDA_ERROR_FILE_NOT_FOUND;
    char *text = NULL;
    size_t capacity = 0;
    ssize_t n = getdelim(&text, &capacity, 0, f);
    fclose(f);
    CUresult result = n > 4 ? library_load(out, text) : CUDA_ERROR_INVALID_IMAGE;
    free(text);
    return result;
}

CUresult cuLibraryUnload(CUlibrary library)
{
    API_ENTER(0);
    CUresult result = CUDA_ERROR_INVALID_HANDLE;
    driver_acquire();
    if (object_valid(library, OBJECT_LIBRARY)) {
        for (CUmodule m = library->modules; m; m = m->next)
            context_drain_locked(m->ctx);
        library_free_locked(library);
        result = CUDA_SUCCESS;
    }
    driver_release();
    return result;
}

CUresult cuLibraryGetKernel(CUkernel *out, CUlibrary library, const char *name)
{
    API_ENTER(0);
    if (!out || !name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!object_valid(library, OBJECT_LIBRARY))
        return CUDA_ERROR_INVALID_HANDLE;
    for (size_t i = 0; i < library->kernel_count; i++) {
        if (strcmp(library->kernels[i]->name, name) == 0) {
            *out = library->kernels[i];
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary library)
{
    API_ENTER(0);
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    if (!object_valid(library, OBJECT_LIBRARY))
        return CUDA_ERROR_INVALID_HANDLE;
    *count = (unsigned)library->kernel_count;
    return CUDA_SUCCESS;
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int count, CUlibrary library)
{
    API_ENTER(0);
    if (!kernels)
        return CUDA_ERROR_INVALID_VALUE;
    if (!object_valid(library, OBJECT_LIBRARY))
        return CUDA_ERROR_INVALID_HANDLE;
    for (unsigned i = 0; i < count && i < library->kernel_count; i++)
        kernels[i] = library->kernels[i];
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetModule(CUmodule *out, CUlibrary library)
{
    API_ENTER(API_CONTEXT);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!object_valid(library, OBJECT_LIBRARY))
        return CUDA_ERROR_INVALID_HANDLE;
    driver_acquire();
    CUresult result = module_in_locked(library, context_current(), out);
    driver_release();
    return result;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library, const char *name)
{
    API_ENTER(API_CONTEXT);
    CUmodule module;
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!object_valid(library, OBJECT_LIBRARY))
        return CUDA_ERROR_INVALID_HANDLE;
    driver_acquire();
    CUresult result = module_in_locked(library, context_current(), &module);
    driver_release();
    return result == CUDA_SUCCESS ? module_global(address, bytes, module, name) : result;
}

CUresult cuLibraryGetManaged(CUdeviceptr *address, size_t *bytes, CUlibrary library, const char *name)
{
    API_ENTER(API_CONTEXT);
    (void)address;
    (void)bytes;
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    return object_valid(library, OBJECT_LIBRARY) ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuKernelGetFunction(CUfunction *out, CUkernel kernel)
{
    API_ENTER(API_CONTEXT);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!object_valid(kernel, OBJECT_KERNEL))
        return CUDA_ERROR_INVALID_HANDLE;
    driver_acquire();
    struct CUfunc_st *function = kernel_function_locked(kernel, context_current());
    driver_release();
    if (!function)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = function;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetLibrary(CUlibrary *out, CUkernel kernel)
{
    API_ENTER(0);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!object_valid(kernel, OBJECT_KERNEL))
        return CUDA_ERROR_INVALID_HANDLE;
    *out = kernel->library;
    return CUDA_SUCCESS;
}

/* ---- the linker: one PTX input in, the same out ---- */

struct CUlinkState_st {
    struct object object;
    char *text;
    size_t length;
};

CUresult cuLinkCreate_v2(unsigned int count, CUjit_option *options_, void **values, CUlinkState *out)
{
    API_ENTER(API_CONTEXT);
    if (!out || (count && (!options_ || !values)))
        return CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    CUlinkState state = object_new_locked(OBJECT_LINK, sizeof(*state));
    driver_release();
    if (!state)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = state;
    return CUDA_SUCCESS;
}

CUresult cuLinkCreate(unsigned int count, CUjit_option *options_, void **values, CUlinkState *out)
{
    return cuLinkCreate_v2(count, options_, values, out);
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name,
                          unsigned int count, CUjit_option *options_, void **values)
{
    API_ENTER(API_CONTEXT);
    (void)name;
    if (!data || !size || (count && (!options_ || !values)))
        return CUDA_ERROR_INVALID_VALUE;
    if (!object_valid(state, OBJECT_LINK))
        return CUDA_ERROR_INVALID_HANDLE;
    if (type != CU_JIT_INPUT_PTX)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (state->text) /* linking several modules together is not implemented */
        return CUDA_ERROR_NOT_SUPPORTED;
    state->text = strndup(data, size);
    state->length = state->text ? strlen(state->text) + 1 : 0;
    return state->text ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name,
                       unsigned int count, CUjit_option *options_, void **values)
{
    return cuLinkAddData_v2(state, type, data, size, name, count, options_, values);
}

/* "cubinOut ... is owned by the state" */
CUresult cuLinkComplete(CUlinkState state, void **out, size_t *size)
{
    API_ENTER(API_CONTEXT);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!object_valid(state, OBJECT_LINK))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!state->text)
        return CUDA_ERROR_INVALID_IMAGE;
    *out = state->text;
    if (size)
        *size = state->length;
    return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState state)
{
    API_ENTER(0);
    if (!object_valid(state, OBJECT_LINK))
        return CUDA_ERROR_INVALID_HANDLE;
    driver_acquire();
    free(state->text);
    object_free_locked(state);
    driver_release();
    return CUDA_SUCCESS;
}
