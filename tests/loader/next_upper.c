/*
 * next_upper.c - a C library, built at -O0, that wraps a function and finds the wrapped one by RTLD_NEXT. If
 * a wrapper of dlsym became the caller, the answer would be this very function, and the call would never
 * return: it counts.
 */
#include <dlfcn.h>

#pragma GCC optimize("O0") /* whatever CFLAGS say: no tail call may hide the caller */

__attribute__((visibility("default"))) int next_function(int depth);

int next_function(int depth)
{
    static __thread int inside;
    if (inside)
        return -1;
    inside = 1;
    int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "next_function");
    int result = next ? next(depth) : -2;
    inside = 0;
    return result;
}
