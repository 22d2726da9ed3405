/*
 * probe.c - what a job sees of the loader: run under LD_PRELOAD by tests/unit/test_loader.c, one case per
 * run. Reports: prefix, fork, null_out.
 */
#include "tests/loader/probe.h"

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>

/* Listed functions are replaced, others are not; calls arrive. */
static void case_plain(void)
{
    void *driver = open_driver();
    unsigned int *calls = dlsym(driver, "fake_calls");
    CHECK(lies_in(dlsym(driver, "cuFakeUnlisted"), DRIVER));
    CHECK(((int (*)(void))dlsym(driver, "cuFakeUnlisted"))() == 4711);
    CHECK(*calls == 0);
    initialise(driver);
    CHECK(*calls == 1);
    init_function *init = (init_function *)dlsym(driver, "cuInit");
    CHECK(init(1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(init(0) == CUDA_SUCCESS);
    CHECK(*calls == 3);
    CHECK(lies_in(dlsym(driver, "cuFakeUnlisted"), DRIVER)); /* now that there is a log */
}

/* A job that looks everything up and initialises nothing. */
static void case_uninitialised(void)
{
    void *driver = open_driver();
    CHECK(lies_in(dlsym(driver, "cuInit"), SHIM));
    CHECK(lies_in(dlsym(driver, "cuGetProcAddress_v2"), SHIM));
}

static void case_init_fails(void)
{
    void *driver = open_driver();
    *(CUresult *)dlsym(driver, "fake_init_result") = CUDA_ERROR_NO_DEVICE;
    init_function *init = (init_function *)dlsym(driver, "cuInit");
    CHECK(lies_in((void *)init, SHIM));
    CHECK(init(0) == CUDA_ERROR_NO_DEVICE);
}

/* HBMSPILL=off: nothing is replaced. */
static void case_off(void)
{
    void *driver = open_driver();
    CHECK(lies_in(dlsym(driver, "cuInit"), DRIVER));
    CHECK(lies_in(dlsym(driver, "cuGetProcAddress_v2"), DRIVER));
    CHECK(((init_function *)dlsym(driver, "cuInit"))(0) == CUDA_SUCCESS);
}

/* cuGetProcAddress: version and flags are the driver's choice, the pointer is replaced. */
static void case_versions(void)
{
    static const struct {
        const char *symbol;
        int version;
        cuuint64_t flags;
        CUresult result;
        CUdriverProcAddressQueryResult status;
        const char *object;
        const char *same_as; /* what dlsym gives for this name */
    } asked[] = {
        {"cuInit", 2000, 0, CUDA_SUCCESS, CU_GET_PROC_ADDRESS_SUCCESS, SHIM, "cuInit"},
        {"cuInit", 13000, 0, CUDA_SUCCESS, CU_GET_PROC_ADDRESS_SUCCESS, SHIM, "cuInit"},
        {"cuInit", 1000, 0, CUDA_ERROR_NOT_FOUND, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, NULL, NULL},
        {"cuFakeUnlisted", 13000, 0, CUDA_SUCCESS, CU_GET_PROC_ADDRESS_SUCCESS, DRIVER, "cuFakeUnlisted"},
        {"cuInit_v2", 13000, 0, CUDA_ERROR_NOT_FOUND, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, NULL, NULL},
        {"cuNothing", 13000, 0, CUDA_ERROR_NOT_FOUND, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, NULL, NULL},
        {"cuGetProcAddress", 11020, 0, CUDA_ERROR_NOT_FOUND, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, NULL,
         NULL},
        {"cuGetProcAddress", 11030, 0, CUDA_SUCCESS, CU_GET_PROC_ADDRESS_SUCCESS, SHIM, "cuGetProcAddress"},
        {"cuGetProcAddress", 11080, 1, CUDA_SUCCESS, CU_GET_PROC_ADDRESS_SUCCESS, SHIM, "cuGetProcAddress"},
        {"cuGetProcAddress", 12000, 0, CUDA_SUCCESS, CU_GET_PROC_ADDRESS_SUCCESS, SHIM,
         "cuGetProcAddress_v2"},
        {"cuGetProcAddress", 13000, 1, CUDA_SUCCESS, CU_GET_PROC_ADDRESS_SUCCESS, SHIM,
         "cuGetProcAddress_v2"},
        {"cuGetProcAddress", 13000, 2, CUDA_SUCCESS, CU_GET_PROC_ADDRESS_SUCCESS, SHIM,
         "cuGetProcAddress_v2_ptsz"},
    };
    void *driver = open_driver();
    get_v2_function *get = (get_v2_function *)dlsym(driver, "cuGetProcAddress_v2");
    CHECK(lies_in((void *)get, SHIM));
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        void *pointer = &pointer;
        CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)99;
        CUresult result = get(asked[i].symbol, &pointer, asked[i].version, asked[i].flags, &status);
        if (result != asked[i].result || status != asked[i].status ||
            (asked[i].object ? !lies_in(pointer, asked[i].object) : pointer != NULL) ||
            (asked[i].same_as && pointer != dlsym(driver, asked[i].same_as))) {
            printf("%s at %d: result %d, status %d, pointer %p\n", asked[i].symbol, asked[i].version, result,
                   status, pointer);
            failures++;
        }
    }
    /* Outputs the driver does without. */
    void *pointer = NULL;
    CHECK(get("cuInit", &pointer, 13000, 0, NULL) == CUDA_SUCCESS && lies_in(pointer, SHIM));
    CHECK(get("cuInit", NULL, 13000, 0, NULL) == CUDA_SUCCESS);
    CHECK(get(NULL, &pointer, 13000, 0, NULL) == CUDA_ERROR_INVALID_VALUE);

    /* Chains: what was found through one version works, and finds the next. */
    get_v1_function *get_v1 = (get_v1_function *)dlsym(driver, "cuGetProcAddress");
    CHECK(lies_in((void *)get_v1, SHIM));
    CHECK(get_v1("cuGetProcAddress", &pointer, 12000, 0) == CUDA_SUCCESS);
    CHECK(pointer == (void *)get);
    CHECK(((get_v2_function *)pointer)("cuInit", &pointer, 12000, 0, NULL) == CUDA_SUCCESS);
    CHECK(lies_in(pointer, SHIM));
    CHECK(((init_function *)pointer)(0) == CUDA_SUCCESS);
    get_v2_function *get_ptsz = (get_v2_function *)dlsym(driver, "cuGetProcAddress_v2_ptsz");
    CHECK(lies_in((void *)get_ptsz, SHIM));
    CHECK(get_ptsz("cuGetProcAddress", &pointer, 13000, 0, NULL) == CUDA_SUCCESS &&
          pointer == (void *)get_ptsz);
    CHECK(get_v1("cuNothing", &pointer, 13000, 0) == CUDA_ERROR_NOT_FOUND && !pointer);
}

static void case_runtime(void)
{
    void *runtime = open_library("libcudart.so.13", 0);
    entry_function *get = (entry_function *)dlsym(runtime, "cudaGetDriverEntryPoint");
    entry_version_function *get_version =
        (entry_version_function *)dlsym(runtime, "cudaGetDriverEntryPointByVersion");
    CHECK(lies_in((void *)get, SHIM));
    CHECK(lies_in((void *)get_version, SHIM));
    CHECK(!dlsym(runtime, "cudaGetDriverEntryPoint_ptsz")); /* the fake has none */

    void *pointer = NULL, *of_driver = NULL;
    enum cudaDriverEntryPointQueryResult status;
    /* The first time hooks are asked for past libcuda's own look-up: the table must be filled by then. */
    CHECK(get("cuInit", &pointer, 0, &status) == cudaSuccess && status == cudaDriverEntryPointSuccess);
    void *driver = open_driver();
    of_driver = dlsym(driver, "cuInit");
    CHECK(lies_in(of_driver, SHIM));
    CHECK(pointer == of_driver);
    CHECK(get("cuFakeUnlisted", &pointer, 0, &status) == cudaSuccess && lies_in(pointer, DRIVER));
    CHECK(get("cuNothing", &pointer, 0, &status) == cudaSuccess && !pointer);
    CHECK(status == cudaDriverEntryPointSymbolNotFound);
    CHECK(get_version("cuGetProcAddress", &pointer, 11030, 0, &status) == cudaSuccess);
    CHECK(lies_in(pointer, SHIM) &&
          (getenv("FAKE_CUDART_DIRECT") || pointer == dlsym(driver, "cuGetProcAddress")));
    CHECK(get_version("cuGetProcAddress", &pointer, 12080, 0, &status) == cudaSuccess);
    CHECK(lies_in(pointer, SHIM));
}

/* RTLD_NEXT out of a library that wraps a function, again and again on one thread. */
static void case_next(void)
{
    int (*function)(int) = (int (*)(int))dlsym(RTLD_DEFAULT, "next_function");
    CHECK(function != NULL);
    for (int i = 0; function && i < 1000; i++)
        if (function(i) != 100 + i) {
            CHECK(!"the wrapped function was reached");
            break;
        }
    void *driver = open_driver();
    initialise(driver);
}

/*
 * Two owners of dlsym in one process. dlvsym, by which both look for the next one, finds versioned symbols
 * only where a library has any: the first in the list has the word, and the C library is next. PROBE_OBJECT
 * is who that is.
 */
static void case_interposed(void)
{
    const char *object = getenv("PROBE_OBJECT");
    unsigned long *calls = dlsym(RTLD_DEFAULT, "interposer_calls");
    void *driver = open_driver();
    REQUIRE(calls && object);
    CHECK((*calls > 0) == !strcmp(object, DRIVER));
    for (int i = 0; i < 1000 && !failures; i++) {
        CHECK(lies_in(dlsym(driver, "cuInit"), object));
        CHECK(lies_in(dlsym(driver, "cuFakeUnlisted"), DRIVER));
    }
    CHECK(((init_function *)dlsym(driver, "cuInit"))(0) == CUDA_SUCCESS);
}

/* The special handles, for a listed name. */
static void case_handles(void)
{
    CHECK(!dlsym(RTLD_DEFAULT, "cuInit"));
    CHECK(dlerror() != NULL);
    void *local = open_driver();
    CHECK(!dlsym(RTLD_DEFAULT, "cuInit")); /* RTLD_LOCAL: not in this program's scope */
    open_library("libcuda.so.1", RTLD_GLOBAL);
    CHECK(lies_in(dlsym(RTLD_DEFAULT, "cuInit"), SHIM));
    CHECK(dlsym(RTLD_DEFAULT, "cuInit") == dlsym(local, "cuInit"));
    CHECK(lies_in(dlsym(dlopen(NULL, RTLD_LAZY), "cuInit"), SHIM));
    CHECK(!dlerror());
    CHECK(lies_in(dlsym(RTLD_NEXT, "cuInit"), DRIVER)); /* left to the real dlsym */
    CHECK(lies_in(dlsym(RTLD_DEFAULT, "dlsym"), SHIM));
}

/* dlerror says what it would say without us. */
static void case_dlerror(void)
{
    void *driver = open_driver();
    CHECK(!dlsym(driver, "cuNothing"));
    const char *message = dlerror();
    CHECK(message && strstr(message, "undefined symbol: cuNothing") && strstr(message, "libcuda.so.1"));
    CHECK(!dlerror());
    /* A listed name that this library does not have. */
    void *other = open_library("libcudnn.so.9", 0);
    CHECK(!dlsym(other, "cuGetProcAddress_v2"));
    message = dlerror();
    CHECK(message && strstr(message, "undefined symbol: cuGetProcAddress_v2") &&
          strstr(message, "libcudnn.so.9"));
    /* An error nobody asked for is gone after a look-up that succeeded. */
    CHECK(!dlsym(driver, "cuNothing"));
    CHECK(lies_in(dlsym(driver, "cuInit"), SHIM));
    CHECK(!dlerror());
    errno = 4711;
    CHECK(lies_in(dlsym(driver, "cuInit"), SHIM));
    CHECK(errno == 4711);
}

/* Names that begin like the driver's, in libraries that are not the driver. */
static void case_foreign(void)
{
    void *library = open_library("libcudnn.so.9", 0);
    CHECK(lies_in(dlsym(library, "cudnnCreate"), "libcudnn"));
    int (*init)(unsigned int) = (int (*)(unsigned int))dlsym(library, "cuInit");
    CHECK(lies_in((void *)init, "libcudnn"));
    CHECK(init(7) == 1007);
    void *driver = open_driver();
    CHECK(lies_in(dlsym(driver, "cuInit"), SHIM));
    CHECK(dlsym(library, "cuInit") == (void *)init);
}

/* A second libcuda in the process is nobody's but its own. */
static void case_second_driver(void)
{
    void *first = open_driver();
    void *second = open_library(getenv("PROBE_SECOND"), 0);
    CHECK(first != second);
    CHECK(lies_in(dlsym(first, "cuInit"), SHIM));
    CHECK(lies_in(dlsym(second, "cuInit"), DRIVER));
    initialise(first);
}

/* A libcuda that looks up its own functions in another one. */
static void case_forward(void)
{
    void *driver = open_driver();
    for (int i = 0; i < 3; i++)
        initialise(driver);
}

enum { THREADS = 16 };
static pthread_barrier_t barrier;

static void *cold_thread(void *driver)
{
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 100; i++) {
        CHECK(lies_in(dlsym(driver, "cuInit"), SHIM));
        CHECK(lies_in(dlsym(driver, "cuFakeUnlisted"), DRIVER));
        CHECK(!dlsym(driver, "cuNothing"));
        CHECK(dlsym(RTLD_DEFAULT, "pthread_create") == (void *)pthread_create);
    }
    initialise(driver);
    return NULL;
}

/* The first look-ups of the process, by 16 threads at once. */
static void case_threads(void)
{
    void *driver = open_driver();
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        CHECK(!pthread_create(&threads[i], NULL, cold_thread, driver));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(*(unsigned int *)dlsym(driver, "fake_calls") == THREADS);
}

static void *constructor_thread(void *unused)
{
    (void)unused;
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 50; i++) {
        void *library = open_library("constructor.so", 0);
        CHECK(lies_in(*(void **)dlsym(library, "constructor_answer"), SHIM));
        dlclose(library);
    }
    return NULL;
}

static void *lookup_thread(void *unused)
{
    (void)unused;
    pthread_barrier_wait(&barrier);
    void *driver = open_driver();
    for (int i = 0; i < 1000; i++)
        CHECK(lies_in(dlsym(driver, "cuInit"), SHIM));
    return NULL;
}

/* Look-ups from constructors, which hold the dynamic linker's lock, beside others. */
static void case_constructor(void)
{
    pthread_t threads[4];
    pthread_barrier_init(&barrier, NULL, 4);
    for (int i = 0; i < 4; i++)
        CHECK(!pthread_create(&threads[i], NULL, i % 2 ? lookup_thread : constructor_thread, NULL));
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

/* Runs `child` in a fork; its failures count. */
static void in_child(void (*child)(void *driver), void *driver)
{
    pid_t pid = fork();
    if (!pid) {
        child(driver);
        exit(failures != 0); /* with destructors: nothing may be said, no driver call made */
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static get_v2_function *get_before_fork;

static void inert_child(void *driver)
{
    /* New look-ups give the driver; pointers from before forward. */
    CHECK(lies_in(dlsym(driver, "cuInit"), DRIVER));
    void *pointer = NULL;
    CHECK(get_before_fork("cuInit", &pointer, 13000, 0, NULL) == CUDA_SUCCESS);
    CHECK(lies_in(pointer, DRIVER));
    const pid_t grandchild = fork();
    if (!grandchild)
        exit(lies_in(dlsym(driver, "cuInit"), DRIVER) ? 0 : 1);
    int status;
    CHECK(waitpid(grandchild, &status, 0) == grandchild && status == 0);
}

/* After cuInit a forked child is inert, and so are its children. */
static void case_fork(void)
{
    void *driver = open_driver();
    get_before_fork = (get_v2_function *)dlsym(driver, "cuGetProcAddress_v2");
    CHECK(lies_in((void *)get_before_fork, SHIM));
    initialise(driver);
    in_child(inert_child, driver);
    CHECK(lies_in(dlsym(driver, "cuInit"), SHIM)); /* the parent is what it was */
}

/* Before cuInit a forked child is a process like any other. */
static void case_fork_before(void)
{
    in_child(initialise, open_driver());
}

/* A script that assigns the variables after start. */
static void case_overwrite(void)
{
    setenv("XLA_FLAGS", "--xla_users=1 --xla_multiheap_size_constraint_per_heap=64", 1);
    setenv("XLA_PYTHON_CLIENT_ALLOCATOR", "bfc", 1);
    initialise(open_driver());
}

static void case_overwrite_flags(void)
{
    setenv("XLA_FLAGS", "--xla_users=1", 1);
    initialise(open_driver());
}

static void case_overwrite_late(void)
{
    initialise(open_driver());
    unsetenv("XLA_PYTHON_CLIENT_ALLOCATOR");
    setenv("XLA_FLAGS", "--xla_multiheap_size_constraint_per_heap_not=1", 1);
}

static const char *value_of(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "(unset)";
}

/* The environment the constructor leaves is the one everybody sees, and can be changed. */
static void case_environment(void)
{
    const char *names[] = {"XLA_FLAGS", "XLA_PYTHON_CLIENT_ALLOCATOR", "TF_CPP_MIN_LOG_LEVEL",
                           "HBMSPILL_INHERITED"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        printf("%s=%s\n", names[i], value_of(names[i]));
    size_t before = 0, after = 0;
    for (char **variable = environ; *variable; variable++)
        before++;
    CHECK(!setenv("PROBE_NEW", "1", 1) && !strcmp(value_of("PROBE_NEW"), "1"));
    CHECK(!unsetenv("PROBE_NEW") && !getenv("PROBE_NEW"));
    for (char **variable = environ; *variable; variable++)
        after++;
    CHECK(before == after);
}

int main(int argc, char **argv)
{
    static const struct probe_case cases[] = {
#define CASE PROBE_CASE
        CASE(plain),
        CASE(uninitialised),
        CASE(init_fails),
        CASE(off),
        CASE(versions),
        CASE(runtime),
        CASE(next),
        CASE(interposed),
        CASE(handles),
        CASE(dlerror),
        CASE(foreign),
        CASE(second_driver),
        CASE(forward),
        CASE(threads),
        CASE(constructor),
        CASE(fork),
        CASE(fork_before),
        CASE(overwrite),
        CASE(overwrite_flags),
        CASE(overwrite_late),
        CASE(environment),
#undef CASE
    };
    return probe_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
