/*
 * entry_points.c - cuGetProcAddress: a function by its plain name, in the form of a version of CUDA.
 */
#include "driver.h"
#include "functions.h"
#include "versions.h"

#include <stdio.h>
#include <string.h>

typedef void (*function_pointer)(void);

/* Not declared by cuda.h, which has it as an inline function. */
#pragma GCC visibility push(default)
CUresult cuGetProcAddress_v2_ptsz(const char *symbol, void **out, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *status);
#pragma GCC visibility pop

static const struct {
    const char *name;
    function_pointer function;
} exported[] = {
#define X(name) {#name, (function_pointer)name},
    SUPPORTED_FUNCTIONS(X) UNSUPPORTED_FUNCTIONS(X)
#undef X
};

static const struct {
    const char *name;
    int version;
    const char *exported_name;
} versions[] = {
#define V(name, version, exported_name) {#name, version, #exported_name},
    FUNCTION_VERSIONS(V)
#undef V
};

static function_pointer find(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(exported); i++)
        if (strcmp(exported[i].name, name) == 0)
            return exported[i].function;
    return NULL;
}

/* The variant for the per-thread default stream, where a function has one. */
static function_pointer find_per_thread(const char *name)
{
    char variant[80];
    function_pointer function;
    snprintf(variant, sizeof(variant), "%s_ptsz", name);
    function = find(variant);
    if (function)
        return function;
    snprintf(variant, sizeof(variant), "%s_ptds", name);
    function = find(variant);
    return function ? function : find(name);
}

/* *known: the name exists, perhaps only in a later version. */
static const char *exported_name(const char *name, int version, bool *known)
{
    const char *best = NULL;
    *known = false;
    for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
        if (strcmp(versions[i].name, name) != 0)
            continue;
        *known = true;
        if (versions[i].version <= version)
            best = versions[i].exported_name; /* in ascending order */
    }
    return best;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **out, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status)
{
    API_ENTER(API_BEFORE_INIT);
    const cuuint64_t known_flags =
        CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    bool known;
    if (!symbol || !out || flags & ~known_flags)
        return CUDA_ERROR_INVALID_VALUE;
    const char *name = exported_name(symbol, version, &known);
    function_pointer function = NULL;
    if (name)
        function = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM ? find_per_thread(name) : find(name);
    if (!function) {
        *out = NULL;
        if (status)
            *status =
                known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        return known && status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
    }
    memcpy(out, &function, sizeof(function));
    if (status)
        *status = CU_GET_PROC_ADDRESS_SUCCESS;
    return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char *symbol, void **out, int version, cuuint64_t flags)
{
    return cuGetProcAddress_v2(symbol, out, version, flags, NULL);
}

/*
 * "CU_GET_PROC_ADDRESS_DEFAULT: This is the default mode. It is equivalent to
 * CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM if the code is compiled with [...]
 * CUDA_API_PER_THREAD_DEFAULT_STREAM": cuda.h then means this function.
 */
CUresult cuGetProcAddress_v2_ptsz(const char *symbol, void **out, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *status)
{
    if (flags == CU_GET_PROC_ADDRESS_DEFAULT)
        flags = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    return cuGetProcAddress_v2(symbol, out, version, flags, status);
}
