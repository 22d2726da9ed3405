/*
 * deep.c - a library that looks the driver up by itself, for a program that opens it with RTLD_DEEPBIND: its
 * dlsym is then the first in its own scope, the C library's.
 */
#include <dlfcn.h>
#include <stddef.h>

__attribute__((visibility("default"))) void *deep_lookup(const char *name);

void *deep_lookup(const char *name)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
    return driver ? dlsym(driver, name) : NULL;
}
