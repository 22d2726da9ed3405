/*
 * strange.c - programs that come to the driver by unusual ways; as probe.c otherwise, whose macros these are.
 */
#include "tests/loader/probe.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

/* dlvsym is nobody's but the C library's: the same answers, and no dlsym of a version is ours. */
static void case_dlvsym(void)
{
    void *driver = open_driver();
    void *next = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    CHECK(lies_in(next, "libc.so"));
    CHECK(next == dlvsym(RTLD_DEFAULT, "dlsym", "GLIBC_2.34"));
    CHECK(next == dlvsym(RTLD_DEFAULT, "dlsym", "GLIBC_2.2.5"));
    CHECK(!dlvsym(driver, "dlsym", "GLIBC_1.0"));
    CHECK(lies_in(dlsym(RTLD_DEFAULT, "dlsym"), SHIM));
    /* A symbol without a version is found by any that is not the library's own. */
    CHECK(!dlvsym(driver, "cuInit", "CUDA_1") || lies_in(dlvsym(driver, "cuInit", "CUDA_1"), DRIVER));
    initialise(driver);
}

/*
 * A library opened with RTLD_DEEPBIND has the C library's dlsym: what it finds is the driver. Nothing breaks,
 * and nobody else is concerned.
 */
static void case_deepbind(void)
{
    void *deep = open_library("deep.so", RTLD_DEEPBIND);
    void *(*lookup)(const char *) = (void *(*)(const char *))dlsym(deep, "deep_lookup");
    REQUIRE(lookup);
    CHECK(lies_in(lookup("cuInit"), DRIVER));
    CHECK(((init_function *)lookup("cuInit"))(0) == CUDA_SUCCESS);
    void *driver = open_driver();
    CHECK(lies_in(dlsym(driver, "cuInit"), SHIM));
    initialise(driver);
    CHECK(lies_in(lookup("cuInit"), DRIVER));
}

/* The same library opened without it. */
static void case_not_deepbind(void)
{
    void *deep = open_library("deep.so", 0);
    void *(*lookup)(const char *) = (void *(*)(const char *))dlsym(deep, "deep_lookup");
    REQUIRE(lookup);
    CHECK(lies_in(lookup("cuInit"), SHIM));
    initialise(open_driver());
}

/* The driver opened again, by its path, by a link to it, by its other name: one driver, the same wrappers. */
static void case_paths(void)
{
    void *driver = open_driver();
    void *init = dlsym(driver, "cuInit");
    char path[PATH_MAX], link[] = "/tmp/hbmspill-test-XXXXXX", in_it[64];
    Dl_info info;
    REQUIRE(dladdr(dlsym(driver, "cuFakeUnlisted"), &info) && realpath(info.dli_fname, path));
    void *again = open_library(path, 0);
    CHECK(again == driver);
    CHECK(lies_in(init, SHIM) && dlsym(again, "cuInit") == init);
    REQUIRE(mkdtemp(link));
    snprintf(in_it, sizeof in_it, "%s/libcuda.so.1", link);
    REQUIRE(!symlink(path, in_it));
    again = open_library(in_it, RTLD_GLOBAL);
    CHECK(dlsym(again, "cuInit") == init && dlsym(RTLD_DEFAULT, "cuInit") == init);
    CHECK(!unlink(in_it) && !rmdir(link));
    for (int i = 0; i < 100; i++) {
        again = open_library(path, RTLD_NOLOAD);
        CHECK(dlsym(again, "cuInit") == init);
        dlclose(again);
    }
    initialise(driver);
}

/* Its own functions stay its own, and what they find is wrapped. */
static void case_static_runtime(void)
{
    void *library = open_library("static_runtime.so", 0), *pointer = NULL;
    enum cudaDriverEntryPointQueryResult status;
    entry_function *get = (entry_function *)dlsym(library, "cudaGetDriverEntryPoint");
    CHECK(lies_in((void *)get, "static_runtime"));
    CHECK(get("cuInit", &pointer, 0, &status) == cudaSuccess && status == cudaDriverEntryPointSuccess);
    CHECK(lies_in(pointer, SHIM));
    CHECK(((init_function *)pointer)(0) == CUDA_SUCCESS);
    CHECK(get("cuFakeUnlisted", &pointer, 0, NULL) == cudaSuccess && lies_in(pointer, DRIVER));
    CHECK(get("cuNothing", &pointer, 0, &status) == cudaSuccess && !pointer);
    CHECK(status == cudaDriverEntryPointSymbolNotFound);
    /* Beside the shared one. */
    void *runtime = open_library("libcudart.so.13", 0);
    CHECK(lies_in(dlsym(runtime, "cudaGetDriverEntryPoint"), SHIM));
    CHECK(lies_in(dlsym(library, "cudaGetDriverEntryPoint"), "static_runtime"));
}

/* Another namespace has a C library and a driver of its own, and no preload. */
static void case_namespace(void)
{
    void *driver = open_driver();
    void *other = dlmopen(LM_ID_NEWLM, "deep.so", RTLD_LAZY);
    REQUIRE(other);
    void *(*lookup)(const char *) = (void *(*)(const char *))dlsym(other, "deep_lookup");
    REQUIRE(lookup);
    void *init = lookup("cuInit");
    CHECK(lies_in(init, DRIVER));
    CHECK(((init_function *)init)(0) == CUDA_SUCCESS);
    CHECK(lies_in(dlsym(driver, "cuInit"), SHIM));
    initialise(driver);
}

enum { THREADS = 16 };
static pthread_barrier_t barrier;
static void *found[THREADS][6];

/* No two threads begin with the same function; all of them end with all. */
static void *cold_thread(void *self)
{
    static const char *const names[] = {"cuInit", "cuGetProcAddress", "cuFakeUnlisted"};
    const unsigned first = (unsigned)(uintptr_t)self;
    pthread_barrier_wait(&barrier);
    void *driver = open_driver(), *runtime = open_library("libcudart.so.13", 0), *pointer;
    for (unsigned i = 0; i < 6; i++) {
        const unsigned k = (i + first) % 6;
        CUdriverProcAddressQueryResult status;
        enum cudaDriverEntryPointQueryResult runtime_status;
        pointer = NULL;
        if (k < 3) {
            get_v2_function *get = (get_v2_function *)dlsym(driver, "cuGetProcAddress_v2");
            CHECK(lies_in((void *)get, SHIM));
            CHECK(get(names[k], &pointer, 13000, 0, &status) == CUDA_SUCCESS);
        } else {
            entry_function *get = (entry_function *)dlsym(runtime, "cudaGetDriverEntryPoint");
            CHECK(lies_in((void *)get, SHIM));
            CHECK(get(names[k - 3], &pointer, 0, &runtime_status) == cudaSuccess);
        }
        CHECK(lies_in(pointer, k % 3 == 2 ? DRIVER : SHIM));
        found[first][k] = pointer;
    }
    initialise(driver);
    return NULL;
}

/* The first questions of the process, by 16 threads at once, through both ways: one answer for all. */
static void case_threads_versions(void)
{
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(!pthread_create(&threads[i], NULL, cold_thread, (void *)i));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 1; i < THREADS; i++)
        CHECK(!memcmp(found[i], found[0], sizeof found[0]));
}

int main(int argc, char **argv)
{
    static const struct probe_case cases[] = {
        PROBE_CASE(dlvsym),         PROBE_CASE(deepbind),  PROBE_CASE(not_deepbind),     PROBE_CASE(paths),
        PROBE_CASE(static_runtime), PROBE_CASE(namespace), PROBE_CASE(threads_versions),
    };
    return probe_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
