/*
 * fake_forward.c - a libcuda.so.1 that is a thin layer over another one, as on WSL: each function looks up
 * the one of the same name in libcuda.so.1.1 and calls it. If that look-up gave a hook, the call would come
 * back here for ever.
 */
#include <cuda.h>
#include <dlfcn.h>

#define EXPORT __attribute__((visibility("default")))

static void *inner(const char *name)
{
    void *library = dlopen("libcuda.so.1.1", RTLD_LAZY);
    return library ? dlsym(library, name) : NULL;
}

/* It looks at once for what it will need. If these answers were hooks, the hooks would be bound to the wrong
 * driver. */
static void *first;

__attribute__((constructor)) static void load(void)
{
    first = inner("cuInit");
}

EXPORT CUresult cuInit(unsigned int flags)
{
    CUresult (*function)(unsigned int) = (CUresult(*)(unsigned int))inner("cuInit");
    return function && (void *)function == first ? function(flags) : CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
}
