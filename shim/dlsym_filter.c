/*
 * dlsym_filter.c - what the exported dlsym (dlsym_entry.S) answers.
 *
 * Everything but a listed name is left to the real dlsym at once. For a listed name the real lookup comes
 * first and its answer is replaced only where it is the driver's function (function_substitute).
 *
 * RTLD_NEXT is never answered here: what comes after the caller is for the real dlsym to say, and a library
 * that asks so interposes driver functions itself and wants the driver's. RTLD_DEFAULT is looked up from this
 * object, in the global scope, which the caller's scope starts with; what is not found there (a library
 * opened with RTLD_LOCAL may find more in its own scope) is left to the real dlsym. A library opened with
 * RTLD_DEEPBIND has its own scope first, which only makes a difference with two drivers in one process.
 *
 * The driver's own lookups are not answered either: a libcuda that forwards to another one (WSL) would be led
 * back into its own wrappers.
 *
 * dlvsym is not interposed: libcuda's symbols have no versions, so nobody asks for one.
 *
 * Another preload library that owns dlsym: the first in LD_PRELOAD has the word, and goes on to the C
 * library, since dlvsym does not find a dlsym without a version. So libhbmspill.so belongs first.
 */
#include "shim/loader.h"
#include "shim/log.h"
#include "shim/shim.h"

#include <dlfcn.h>
#include <errno.h>

typedef void *dlsym_function(void *handle, const char *name);

/* Where dlsym_entry.S jumps to; set by the first call of the filter, which comes before. */
extern dlsym_function *shim_dlsym_real;
dlsym_function *shim_dlsym_real;

void *shim_dlsym_filter(void *handle, const char *name, void *caller);

static void *dlsym_missing(void *handle, const char *name)
{
    (void)handle;
    (void)name;
    errno = ENOSYS;
    return NULL;
}

/* Several threads may do this at once; they find the same. */
static dlsym_function *find_real_dlsym(void)
{
    /* glibc 2.34 moved it into libc; before, libdl had it, under the version its architecture started with.
     */
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    dlsym_function *real = NULL;
    for (size_t i = 0; !real && i < sizeof versions / sizeof *versions; i++)
        real = (dlsym_function *)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    dlerror();
    if (!real) {
        log_error(LOG_IN_LOADER, "the C library has no dlsym that is known here; nothing can be looked up");
        real = dlsym_missing;
    }
    __atomic_store_n(&shim_dlsym_real, real, __ATOMIC_RELEASE);
    return real;
}

void *loader_real_dlsym(void *handle, const char *name)
{
    dlsym_function *real = __atomic_load_n(&shim_dlsym_real, __ATOMIC_ACQUIRE);
    return (real ? real : find_real_dlsym())(handle, name);
}

/* A substitute, or NULL: jump to the real dlsym. */
void *shim_dlsym_filter(void *handle, const char *name, void *caller)
{
    if (!__atomic_load_n(&shim_dlsym_real, __ATOMIC_ACQUIRE))
        find_real_dlsym();
    if (!name || name[0] != 'c' || name[1] != 'u')
        return NULL;
    struct function *function = function_find(name);
    if (!function && name[2] >= 'A' && name[2] <= 'Z')
        log_debug(LOG_IN_LOADER, "%s was asked for and is passed through", name);
    if (!function || handle == RTLD_NEXT || !shim_substitutes() || function_in_driver(caller))
        return NULL;
    void *answer = loader_real_dlsym(handle, name);
    return answer ? function_substitute(function, answer) : NULL;
}
