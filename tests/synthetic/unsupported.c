/*
 * unsupported.c - functions of the driver API that exist and are not implemented: CUDA_ERROR_NOT_SUPPORTED,
 * and their name once on stderr. They are defined without their parameters, which nothing looks at (System V
 * calling convention).
 */
#include "functions.h"

extern int driver_unsupported(const char *name); /* CUDA_ERROR_NOT_SUPPORTED */

#define X(name)                                                                                              \
    __attribute__((visibility("default"))) int name(void);                                                   \
    int name(void)                                                                                           \
    {                                                                                                        \
        return driver_unsupported(#name);                                                                    \
    }
UNSUPPORTED_FUNCTIONS(X)
