/*
 * probe.h - what the programs that look at the loader are written with: checks, look-ups, a table of cases.
 *
 * Exit status 0 if all of the case held, else 1 with a line per failure on standard output; nothing is said
 * by a case that holds, so that what libhbmspill.so says is all there is.
 */
#ifndef HBMSPILL_TESTS_LOADER_PROBE_H
#define HBMSPILL_TESTS_LOADER_PROBE_H

#include <cuda.h>
#include <dlfcn.h>
#include <driver_types.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#undef cuGetProcAddress

#define SHIM "libhbmspill"
#define DRIVER "libcuda.so"

typedef CUresult init_function(unsigned int flags);
typedef CUresult get_v1_function(const char *symbol, void **pfn, int version, cuuint64_t flags);
typedef CUresult get_v2_function(const char *symbol, void **pfn, int version, cuuint64_t flags,
                                 CUdriverProcAddressQueryResult *status);
typedef cudaError_t entry_function(const char *symbol, void **pointer, unsigned long long flags,
                                   enum cudaDriverEntryPointQueryResult *status);
typedef cudaError_t entry_version_function(const char *symbol, void **pointer, unsigned int version,
                                           unsigned long long flags,
                                           enum cudaDriverEntryPointQueryResult *status);

static int failures;

/* For what the rest of a case cannot do without. */
#define REQUIRE(condition)                                                                                   \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                           \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                           \
            __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);                                              \
        }                                                                                                    \
    } while (0)

/* Whether a pointer lies in an object whose file name starts so. */
static inline bool lies_in(void *pointer, const char *object)
{
    Dl_info info;
    if (!pointer || !dladdr(pointer, &info))
        return false;
    const char *slash = strrchr(info.dli_fname, '/');
    return !strncmp(slash ? slash + 1 : info.dli_fname, object, strlen(object));
}

static inline void *open_library(const char *name, int flags)
{
    void *library = dlopen(name, RTLD_LAZY | flags);
    if (!library) {
        printf("%s\n", dlerror());
        exit(1);
    }
    return library;
}

static inline void *open_driver(void)
{
    return open_library("libcuda.so.1", 0);
}

static inline void initialise(void *driver)
{
    init_function *init = (init_function *)dlsym(driver, "cuInit");
    CHECK(lies_in((void *)init, SHIM));
    CHECK(init && init(0) == CUDA_SUCCESS);
}

struct probe_case {
    const char *name;
    void (*run)(void);
};

#define PROBE_CASE(name)                                                                                     \
    {                                                                                                        \
#name, case_##name                                                                                   \
    }

/* Runs the case that the one argument names. */
static inline int probe_main(int argc, char **argv, const struct probe_case *cases, size_t count)
{
    alarm(60); /* a loop or a deadlock is a failure, not a hang */
    for (size_t i = 0; argc == 2 && i < count; i++)
        if (!strcmp(cases[i].name, argv[1])) {
            cases[i].run();
            return failures != 0;
        }
    fprintf(stderr, "usage: %s CASE\n", argv[0]);
    return 2;
}

#endif
