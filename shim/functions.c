/*
 * functions.c - the table of real functions and the map from a real function to its wrapper.
 *
 * Filling the table needs the dynamic linker, which other threads may have locked while they run constructors
 * that look up functions themselves. So nothing is locked here: a library is claimed by compare-and-swap, and
 * threads that find it claimed but not filled yet fill it too, with the same values.
 */

/* Declares every exact symbol and removes the macros that map one to another (cuda.h). */
#define __CUDA_API_VERSION_INTERNAL 1
#include "shim/functions.h"

#include "shim/loader.h"
#include "shim/log.h"
#include "shim/runtime_functions.h"
#include "shim/shim.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Exported for code built for per-thread streams, where cuda.h has it as an inline function. */
CUresult cuGetProcAddress_v2_ptsz(const char *symbol, void **pfn, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *status);

#define FUNCTION_CHECK(symbol, type)                                                                         \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&symbol), type),                                  \
                   #symbol " is not what " #type " describes");
HBMSPILL_HOOKED(FUNCTION_CHECK)
HBMSPILL_REAL(FUNCTION_CHECK)
#undef FUNCTION_CHECK

struct hbmspill_real hbmspill_real;
struct hbmspill_real_runtime hbmspill_real_runtime;

static struct function functions[] = {
#define FUNCTION_HOOKED(symbol, type)                                                                        \
    {#symbol, #type, (void *)hook_##symbol, (void **)&hbmspill_real.symbol, NULL, LIBRARY_DRIVER},
#define FUNCTION_REAL(symbol, type)                                                                          \
    {#symbol, #type, NULL, (void **)&hbmspill_real.symbol, NULL, LIBRARY_DRIVER},
#define FUNCTION_RUNTIME(symbol, type)                                                                       \
    {#symbol, #type, (void *)hook_##symbol, (void **)&hbmspill_real_runtime.symbol, NULL, LIBRARY_RUNTIME},
    HBMSPILL_HOOKED(FUNCTION_HOOKED) HBMSPILL_REAL(FUNCTION_REAL) HBMSPILL_HOOKED_RUNTIME(FUNCTION_RUNTIME)
#undef FUNCTION_HOOKED
#undef FUNCTION_REAL
#undef FUNCTION_RUNTIME
};

enum { FUNCTION_COUNT = sizeof functions / sizeof *functions };

/* The one object of each kind that pointers are replaced for. */
static struct library {
    const char *prefix;      /* of its file name */
    struct link_map *object; /* atomic; NULL until one was seen */
    int filled;              /* atomic */
} libraries[] = {
    [LIBRARY_DRIVER] = {"libcuda.so", NULL, 0},
    [LIBRARY_RUNTIME] = {"libcudart.so", NULL, 0},
};

static unsigned long substitutions;

struct function *function_find(const char *name)
{
    for (size_t i = 0; i < FUNCTION_COUNT; i++)
        if (functions[i].hook && !strcmp(functions[i].name, name))
            return &functions[i];
    return NULL;
}

static bool is_of_library(const struct link_map *object, enum function_library library)
{
    const char *slash = strrchr(object->l_name, '/');
    const char *base = slash ? slash + 1 : object->l_name;
    return !strncmp(base, libraries[library].prefix, strlen(libraries[library].prefix));
}

static struct link_map *object_of(void *address)
{
    Dl_info info;
    void *object = NULL;
    return dladdr1(address, &info, &object, RTLD_DL_LINKMAP) ? object : NULL;
}

bool function_in_driver(void *address)
{
    const struct link_map *object = object_of(address);
    return object && is_of_library(object, LIBRARY_DRIVER);
}

/* Fills the table from `object` if it is, or becomes, the one of its kind. */
static bool bind_library(enum function_library kind, struct link_map *object)
{
    struct library *library = &libraries[kind];
    const struct link_map *bound = __atomic_load_n(&library->object, __ATOMIC_ACQUIRE);
    if (bound && bound != object)
        return false;
    if (bound && __atomic_load_n(&library->filled, __ATOMIC_ACQUIRE))
        return true;

    /* Never closed: its functions are called for as long as the process lives. */
    void *handle = dlopen(object->l_name, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle)
        return false;
    struct link_map *opened = NULL;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &opened) || opened != object) {
        dlclose(handle); /* of that name, but not that one: loaded in another namespace */
        return false;
    }
    struct link_map *none = NULL;
    if (!__atomic_compare_exchange_n(&library->object, &none, object, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE) &&
        none != object)
        return false;
    for (size_t i = 0; i < FUNCTION_COUNT; i++)
        if (functions[i].library == kind) {
            void *real = loader_real_dlsym(handle, functions[i].name);
            if (real)
                __atomic_store_n(functions[i].real, real, __ATOMIC_RELAXED);
        }
    __atomic_store_n(&library->filled, 1, __ATOMIC_RELEASE);
    return true;
}

static void *handed_out(const struct function *function)
{
    /* The functions that this directory wraps only lead to others. */
    if (strncmp(function->name, "cuGetProcAddress", 16) != 0 && strcmp(function->name, "cuInit") != 0 &&
        function->library == LIBRARY_DRIVER)
        __atomic_fetch_add(&substitutions, 1, __ATOMIC_RELAXED);
    hooks_intercepted(function->name);
    return function->hook;
}

void *function_substitute(struct function *function, void *answer)
{
    struct link_map *object = object_of(answer);
    if (!object || !is_of_library(object, function->library))
        return NULL;
    const bool bound = bind_library(function->library, object);
    dlerror();
    if (!bound || __atomic_load_n(function->real, __ATOMIC_RELAXED) != answer)
        return NULL;
    return handed_out(function);
}

/*
 * Splits "cuMemcpyHtoDAsync_v2_ptsz" at its suffixes: whether the name without them is `symbol`, and whether
 * it is of per-thread streams.
 */
static bool is_version_of(const char *name, const char *symbol, bool *per_thread)
{
    const size_t length = strlen(symbol);
    if (strncmp(name, symbol, length) != 0)
        return false;
    const char *rest = name + length;
    if (rest[0] == '_' && rest[1] == 'v') {
        char *end;
        strtoul(rest + 2, &end, 10);
        if (end == rest + 2)
            return false;
        rest = end;
    }
    *per_thread = !strcmp(rest, "_ptsz") || !strcmp(rest, "_ptds");
    return *per_thread || !rest[0];
}

/*
 * A driver may answer cuGetProcAddress with other pointers than the symbols it exports. Then ask it for the
 * version that each listed function of that name is of: equal pointers are the same function.
 */
static struct function *find_by_version(void *answer, const char *symbol)
{
    for (size_t i = 0; i < FUNCTION_COUNT; i++) {
        struct function *function = &functions[i];
        bool per_thread;
        if (!function->hook || function->library != LIBRARY_DRIVER ||
            !is_version_of(function->name, symbol, &per_thread))
            continue;
        const char *version_text = strstr(function->type, "_v");
        void *pointer = NULL;
        CUdriverProcAddressQueryResult status;
        const int version = version_text ? atoi(version_text + 2) : 0;
        const cuuint64_t flags =
            per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
        CUresult result;
        if (hbmspill_real.cuGetProcAddress_v2)
            result = hbmspill_real.cuGetProcAddress_v2(symbol, &pointer, version, flags, &status);
        else if (hbmspill_real.cuGetProcAddress)
            result = hbmspill_real.cuGetProcAddress(symbol, &pointer, version, flags);
        else
            return NULL;
        if (result != CUDA_SUCCESS || pointer != answer)
            continue;
        __atomic_store_n(&function->by_version, pointer, __ATOMIC_RELAXED);
        void *unset = NULL;
        __atomic_compare_exchange_n(function->real, &unset, pointer, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
        return function;
    }
    return NULL;
}

void *function_filter(void *answer, const char *symbol)
{
    if (!answer)
        return answer;
    /* libcudart may be the first to speak of the driver. */
    if (!__atomic_load_n(&libraries[LIBRARY_DRIVER].filled, __ATOMIC_ACQUIRE)) {
        struct link_map *object = object_of(answer);
        if (object && is_of_library(object, LIBRARY_DRIVER))
            bind_library(LIBRARY_DRIVER, object);
    }
    for (size_t i = 0; i < FUNCTION_COUNT; i++)
        if (functions[i].hook == answer)
            return answer; /* libcudart asked through cuGetProcAddress, which gave it */
    for (size_t i = 0; i < FUNCTION_COUNT; i++)
        if (functions[i].hook && functions[i].library == LIBRARY_DRIVER &&
            (__atomic_load_n(functions[i].real, __ATOMIC_RELAXED) == answer ||
             __atomic_load_n(&functions[i].by_version, __ATOMIC_RELAXED) == answer))
            return handed_out(&functions[i]);
    const struct function *function = symbol ? find_by_version(answer, symbol) : NULL;
    if (function)
        return handed_out(function);
    log_debug(LOG_IN_LOADER, "%s was asked for and is passed through", symbol ? symbol : "?");
    return answer;
}

unsigned long function_substitutions(void)
{
    return __atomic_load_n(&substitutions, __ATOMIC_RELAXED);
}
