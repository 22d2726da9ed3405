#include "hooks/kernel.h"
#include "hooks/kernels_table.h"
#include "hooks/tensor_map.h"
#include "shim/log.h"
#include "shim/options.h"
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct record {
    struct kernel kernel;
    const void *module, *library; /* it came from, where the driver says so */
    char hash[IMAGE_HASH];
    UT_hash_handle hh;
};

struct module {
    const void *handle; /* CUmodule or CUlibrary */
    bool xla;           /* XLA loaded it */
    char hash[IMAGE_HASH];
    UT_hash_handle hh;
};

/* Protects both tables. Leaf: nothing is locked inside it. */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct record *records;
static struct module *modules; /* of which anything is known */

/* The object that holds XLA exports the plugin entry; its address is in no other (FACTS: jaxlib dlsyms
 * GetPjrtApi). */
static bool called_by_xla(const void *caller)
{
    Dl_info object;
    void *handle;
    bool found;

    if (!dladdr(caller, &object) || !object.dli_fname)
        return false;
    handle = dlopen(object.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle)
        return false;
    found = dlsym(handle, "GetPjrtApi") != NULL;
    dlclose(handle);
    return found;
}

void kernel_module_loaded(const void *handle, const void *caller, const void *image, const char *path)
{
    struct module *module = calloc(1, sizeof *module);

    if (!module)
        return; /* its kernels are open, then */
    module->handle = handle;
    module->xla = options_get()->closed == OPTION_CLOSED_AUTO && called_by_xla(caller);
    if (!module->xla && (*options_get()->admit.text || kernels_need_hashes()) &&
        !(image ? image_hash(image, SIZE_MAX, module->hash) : image_hash_file(path, module->hash)))
        log_debug(LOG_IN_KERNEL, "a module is neither a cubin, a fat binary nor PTX: its kernels are open");
    if (!module->xla && !*module->hash) {
        free(module);
        return;
    }
    pthread_rwlock_wrlock(&lock);
    HASH_ADD_PTR(modules, handle, module);
    pthread_rwlock_unlock(&lock);
}

/* Handles are recycled: all that is known of the module's kernels goes with it. */
void kernel_module_unloaded(const void *handle)
{
    struct record *record, *next;
    struct module *module;

    pthread_rwlock_wrlock(&lock);
    HASH_FIND_PTR(modules, &handle, module);
    if (module) {
        HASH_DEL(modules, module);
        free(module);
    }
    HASH_ITER(hh, records, record, next)
    {
        if (record->module == handle || record->library == handle) {
            /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): `next' was read before */
            HASH_DEL(records, record);
            free(record->kernel.params);
            free(record);
        }
    }
    pthread_rwlock_unlock(&lock);
}

/* One parameter more; false where it cannot be kept. */
static bool add_param(struct kernel *kernel, const struct kernel_param *param)
{
    struct kernel_param *params = realloc(kernel->params, (kernel->count + 1) * sizeof *params);

    if (!params)
        return false;
    kernel->params = params;
    kernel->params[kernel->count++] = *param;
    return true;
}

/*
 * By one of the two functions; false where the list is not complete. Its end is asked for twice: it is told
 * by an error, and a list that ends too early would leave memory out of HBM that the kernel touches.
 */
static bool list_by(struct kernel *kernel, bool as_kernel)
{
    CUresult (*by_function)(CUfunction, size_t, size_t *, size_t *) = hbmspill_real.cuFuncGetParamInfo;
    CUresult (*by_kernel)(CUkernel, size_t, size_t *, size_t *) = hbmspill_real.cuKernelGetParamInfo;

    if (as_kernel ? !by_kernel : !by_function)
        return false;
    for (bool ended = false;;) {
        struct kernel_param param;
        CUresult status =
            as_kernel ? by_kernel((CUkernel)kernel->function, kernel->count, &param.offset, &param.size)
                      : by_function(kernel->function, kernel->count, &param.offset, &param.size);

        if (status == CUDA_ERROR_INVALID_VALUE && ended)
            return true;
        ended = status == CUDA_ERROR_INVALID_VALUE;
        if (!ended && (status != CUDA_SUCCESS || !add_param(kernel, &param)))
            return false;
    }
}

/*
 * The parameters as the driver lists them. A launch accepts a CUfunction and a CUkernel, and so may any other
 * function that takes one; INVALID_VALUE ends the list of parameters and says as well that the handle is not
 * of the kind that was asked for. So a list that is empty is one only where the other function has none
 * either.
 */
static bool list_params(struct record *record)
{
    struct kernel *kernel = &record->kernel;
    CUmodule module = NULL;
    CUlibrary library = NULL;
    bool listed;

    if (hbmspill_real.cuFuncGetModule &&
        hbmspill_real.cuFuncGetModule(&module, kernel->function) == CUDA_SUCCESS)
        record->module = module;
    if (hbmspill_real.cuKernelGetLibrary &&
        hbmspill_real.cuKernelGetLibrary(&library, (CUkernel)kernel->function) == CUDA_SUCCESS)
        record->library = library;
    if (!record->module && !record->library)
        return false;
    listed = list_by(kernel, false);
    if (kernel->count)
        return listed;
    return list_by(kernel, true) && (kernel->count || listed || record->library);
}

/* With the lock. *why it is not. */
static bool is_closed(struct record *record, bool listed, const char **why)
{
    enum kernels_verdict verdict;
    struct module *module;

    HASH_FIND_PTR(modules, &record->module, module);
    if (!module)
        HASH_FIND_PTR(modules, &record->library, module);
    if (module)
        memcpy(record->hash, module->hash, sizeof record->hash);
    record->kernel.hash = record->hash;
    record->kernel.listed = listed;
    if (!listed) {
        *why = "its parameters cannot be listed";
        return false;
    }
    if (module && module->xla)
        return true;
    *why = "its module is not one of XLA's, and nobody has admitted it";
    verdict = kernels_look_up(*record->hash ? record->hash : NULL, record->kernel.name, why);
    record->kernel.known_open = verdict == KERNELS_OPEN;
    switch (options_get()->closed) {
    case OPTION_CLOSED_ALL:
        return verdict != KERNELS_OPEN;
    case OPTION_CLOSED_NONE:
        return false;
    default:
        return verdict == KERNELS_CLOSED;
    }
}

static void learn_name(struct kernel *kernel)
{
    const char *name = NULL;

    kernel->name = "?";
    if (hbmspill_real.cuFuncGetName && hbmspill_real.cuFuncGetName(&name, kernel->function) == CUDA_SUCCESS &&
        name)
        kernel->name = name;
    else if (hbmspill_real.cuKernelGetName &&
             hbmspill_real.cuKernelGetName(&name, (CUkernel)kernel->function) == CUDA_SUCCESS && name)
        kernel->name = name;
}

static unsigned most_threads(CUfunction function)
{
    int threads;

    if (!hbmspill_real.cuFuncGetAttribute ||
        hbmspill_real.cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function) !=
            CUDA_SUCCESS ||
        threads <= 0)
        return UINT_MAX;
    return (unsigned)threads;
}

static struct kernel learn(CUfunction function)
{
    struct record *record = calloc(1, sizeof *record), *there;
    struct kernel unknown = {.function = function, .name = "?", .hash = ""};
    const char *why = "HBMSPILL_CLOSED=none";
    bool listed;

    if (!record)
        return unknown;
    record->kernel.function = function;
    record->kernel.most_threads = most_threads(function);
    learn_name(&record->kernel);
    listed = list_params(record);
    pthread_rwlock_wrlock(&lock);
    HASH_FIND_PTR(records, &function, there);
    if (there) {
        unknown = there->kernel;
        free(record->kernel.params);
        free(record);
    } else {
        record->kernel.closed = is_closed(record, listed, &why);
        HASH_ADD_PTR(records, kernel.function, record);
        unknown = record->kernel;
        if (!record->kernel.closed)
            log_debug(LOG_IN_KERNEL, "%s is open: %s", record->kernel.name, why);
    }
    pthread_rwlock_unlock(&lock);
    return unknown;
}

struct kernel kernel_find(CUfunction function)
{
    struct record *record;
    struct kernel kernel;

    pthread_rwlock_rdlock(&lock);
    HASH_FIND_PTR(records, &function, record);
    if (record)
        kernel = record->kernel;
    pthread_rwlock_unlock(&lock);
    return record ? kernel : learn(function);
}

/* Every aligned 8-byte word may be a pointer; a tensor map hides one in 128 bytes. */
static void scan(const unsigned char *bytes, size_t offset, size_t size, struct touches *touches)
{
    size_t first = (8 - offset % 8) % 8;

    for (size_t at = first; at + 8 <= size; at += 8) {
        uint64_t word;

        memcpy(&word, bytes + at, 8);
        touches_add(touches, word, CACHE_READ | CACHE_WRITE);
    }
    if (size >= TENSOR_MAP_BYTES)
        tensor_map_scan(bytes, offset, size, touches);
}

/* A launch with `extra' names one buffer with all parameters at their offsets, ended by CU_LAUNCH_PARAM_END.
 */
static bool scan_extra(void **extra, struct touches *touches)
{
    const unsigned char *buffer = NULL;
    size_t size = 0;

    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = *(const size_t *)extra[1];
        else
            return false;
    }
    if (buffer)
        scan(buffer, 0, size, touches);
    return buffer || !size;
}

bool kernel_touches(const struct kernel *kernel, void **params, void **extra, struct touches *touches)
{
    if (extra)
        return scan_extra(extra, touches) && !touches->failed;
    if (!params)
        return kernel->count == 0;
    for (unsigned i = 0; i < kernel->count; i++)
        scan(params[i], kernel->params[i].offset, kernel->params[i].size, touches);
    return !touches->failed;
}
