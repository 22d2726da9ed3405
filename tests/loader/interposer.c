/*
 * interposer.c - another preload library that owns dlsym, a C wrapper built at -O0 and so wrong for RTLD_NEXT
 * by itself. What matters: with it before or after libhbmspill.so nothing recurses and driver functions are
 * replaced.
 */
#include <dlfcn.h>

#pragma GCC optimize("O0") /* whatever CFLAGS say: no tail call may hide the caller */

__attribute__((visibility("default"))) unsigned long interposer_calls;
__attribute__((visibility("default"))) extern unsigned long interposer_calls;
__attribute__((visibility("default"))) void *dlsym(void *handle, const char *name);

void *dlsym(void *handle, const char *name)
{
    static void *(*real)(void *, const char *);
    interposer_calls++;
    if (!real)
        real = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    return real(handle, name);
}
