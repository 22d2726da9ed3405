/*
 * module.c - modules from PTX text, their functions and variables ("Module Management").
 *
 * An image is PTX text, ended by a NUL byte; images come without a size. Machine code (an ELF cubin or a fat
 * binary) is for GPUs and is refused with CUDA_ERROR_NO_BINARY_FOR_GPU.
 */
#include "defined.h"
#include "launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Module variables are device memory, initialised before anything can run. */
static CUresult place_globals_locked(CUmodule module)
{
    const struct ptx_global *globals;
    module->global_count = ptx_module_globals(module->ptx, &globals);
    module->globals = calloc(module->global_count + 1, sizeof(*module->globals));
    if (!module->globals)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < module->global_count; i++) {
        uint64_t size = globals[i].size ? globals[i].size : 1;
        module->globals[i] = heap_allocate_locked(module->ctx, size, true);
        if (!module->globals[i])
            return CUDA_ERROR_OUT_OF_MEMORY;
        ptx_module_set_global_address(module->ptx, i, module->globals[i]);
    }
    /* Only now do initialisers that name other variables hold addresses. */
    for (size_t i = 0; i < module->global_count; i++) {
        void *to = window_alias(module->globals[i]);
        if (globals[i].init)
            memcpy(to, globals[i].init, globals[i].size);
        else
            memset(to, 0, globals[i].size);
        defined_write_locked(module->globals[i], globals[i].size);
    }
    return CUDA_SUCCESS;
}

void module_unload_locked(CUmodule module)
{
    for (size_t i = 0; i < module->function_count && module->functions; i++)
        if (module->functions[i])
            object_free_locked(module->functions[i]);
    for (size_t i = 0; i < module->global_count && module->globals; i++) {
        struct range *range = module->globals[i] ? range_find_locked(module->globals[i]) : NULL;
        if (range)
            heap_free_locked(range);
    }
    free(module->functions);
    free(module->globals);
    if (module->ptx)
        ptx_module_free(module->ptx);
    object_free_locked(module);
}

CUresult module_load_locked(CUcontext ctx, const char *text, size_t length, CUmodule *out)
{
    char error[256] = "";
    CUmodule module = object_new_locked(OBJECT_MODULE, sizeof(*module));
    if (!module)
        return CUDA_ERROR_OUT_OF_MEMORY;
    module->ctx = ctx;
    char *linked = device_runtime_link(text, length);
    int parsed = linked ? ptx_module_parse(linked, strlen(linked), &module->ptx, error, sizeof(error))
                        : ptx_module_parse(text, length, &module->ptx, error, sizeof(error));
    free(linked);
    if (parsed != 0) {
        const char *dump = getenv("SYNTHETIC_GPU_DUMP");
        module->ptx = NULL;
        module_unload_locked(module);
        driver_log("PTX refused: %s", error);
        FILE *f = dump ? fopen(dump, "we") : NULL;
        if (f) {
            fwrite(text, 1, length, f);
            fclose(f);
        }
        return CUDA_ERROR_INVALID_PTX;
    }
    const struct ptx_kernel *kernels;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    module->function_count = ptx_module_kernels(module->ptx, &kernels);
    module->functions = calloc(module->function_count + 1, sizeof(struct CUfunc_st *));
    if (!module->functions)
        goto fail;
    for (size_t i = 0; i < module->function_count; i++) {
        struct CUfunc_st *function = object_new_locked(OBJECT_FUNCTION, sizeof(*function));
        if (!function)
            goto fail;
        function->module = module;
        function->kernel = &kernels[i];
        function->max_dynamic_shared = kernels[i].shared_bytes < SHARED_PER_BLOCK
                                           ? (int)(SHARED_PER_BLOCK - kernels[i].shared_bytes)
                                           : 0;
        function->carveout = -1;
        module->functions[i] = function;
    }
    result = place_globals_locked(module);
    if (result != CUDA_SUCCESS)
        goto fail;
    *out = module;
    return CUDA_SUCCESS;
fail:
    module_unload_locked(module);
    return result;
}

static CUresult load(CUmodule *out, const void *image)
{
    const unsigned char *bytes = image;
    if (!out || !image)
        return CUDA_ERROR_INVALID_VALUE;
    static const unsigned char elf[4] = {0x7f, 'E', 'L', 'F'}, fat[4] = {0x50, 0xed, 0x55, 0xba},
                               fat_wrapper[4] = {0xb1, 0x43, 0x62, 0x46};
    if (memcmp(bytes, elf, 4) == 0 || memcmp(bytes, fat, 4) == 0 || memcmp(bytes, fat_wrapper, 4) == 0)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    driver_acquire();
    CUresult result = module_load_locked(context_current(), image, strlen(image), out);
    driver_release();
    return result;
}

CUresult cuModuleLoadData(CUmodule *out, const void *image)
{
    API_ENTER(API_CONTEXT | API_NOT_CAPTURING);
    return load(out, image);
}

CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned int count, CUjit_option *options_,
                            void **values)
{
    API_ENTER(API_CONTEXT | API_NOT_CAPTURING);
    if (count && (!options_ || !values))
        return CUDA_ERROR_INVALID_VALUE;
    return load(out, image);
}

CUresult cuModuleLoadFatBinary(CUmodule *out, const void *image)
{
    API_ENTER(API_CONTEXT | API_NOT_CAPTURING);
    return load(out, image);
}

CUresult cuModuleLoad(CUmodule *out, const char *path)
{
    API_ENTER(API_CONTEXT | API_NOT_CAPTURING);
    FILE *f = path ? fopen(path, "re") : NULL;
    if (!f)
        return path ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
    char *text = NULL;
    size_t capacity = 0;
    ssize_t n = getdelim(&text, &capacity, 0, f);
    fclose(f);
    CUresult result = n > 4 ? load(out, text) : CUDA_ERROR_INVALID_IMAGE;
    free(text);
    return result;
}

CUresult cuModuleUnload(CUmodule module)
{
    API_ENTER(API_CONTEXT | API_NOT_CAPTURING);
    CUresult result = CUDA_ERROR_INVALID_HANDLE;
    driver_acquire();
    if (object_valid(module, OBJECT_MODULE) && !module->library) {
        context_drain_locked(module->ctx); /* kernels of it may be queued */
        module_unload_locked(module);
        result = CUDA_SUCCESS;
    }
    driver_release();
    return result;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    API_ENTER(0);
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_EAGER_LOADING;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
    API_ENTER(API_CONTEXT);
    if (!out || !name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!object_valid(module, OBJECT_MODULE))
        return CUDA_ERROR_INVALID_HANDLE;
    for (size_t i = 0; i < module->function_count; i++) {
        if (strcmp(module->functions[i]->kernel->name, name) == 0) {
            *out = module->functions[i];
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule module)
{
    API_ENTER(API_CONTEXT);
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    if (!object_valid(module, OBJECT_MODULE))
        return CUDA_ERROR_INVALID_HANDLE;
    *count = (unsigned)module->function_count;
    return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction *out, unsigned int count, CUmodule module)
{
    API_ENTER(API_CONTEXT);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!object_valid(module, OBJECT_MODULE))
        return CUDA_ERROR_INVALID_HANDLE;
    for (unsigned i = 0; i < count && i < module->function_count; i++)
        out[i] = module->functions[i];
    return CUDA_SUCCESS;
}

/* "Both parameters dptr and bytes are optional. If one of them is NULL, it is ignored." */
CUresult module_global(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name)
{
    const struct ptx_global *globals;
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!object_valid(module, OBJECT_MODULE))
        return CUDA_ERROR_INVALID_HANDLE;
    size_t n = ptx_module_globals(module->ptx, &globals);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(globals[i].name, name) != 0)
            continue;
        if (address)
            *address = module->globals[i];
        if (bytes)
            *bytes = globals[i].size;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name)
{
    API_ENTER(API_CONTEXT);
    return module_global(address, bytes, module, name);
}
