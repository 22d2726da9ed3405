/*
 * job.c - the job's side of the integration tests.
 */
#include "tests/integration/job.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum job_lookup job_lookup = JOB_DLSYM;
CUmodule job_module;
static CUcontext context;

enum {
    BLOCK = 256,
    LOOKUP_VERSION = 12080, /* at 13000 cuCtxSynchronize is another function than cuda.h's */
};

atomic_bool job_ends;

void job_fail(const char *file, int line, const char *what, const char *format, ...)
{
    va_list arguments;
    char text[512];

    while (atomic_load(&job_ends))
        pause();
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s:%d: %s: %s\n", file, line, what, text);
    _exit(1); /* whatever is queued may never end */
}

const char *job_error_name(CUresult status)
{
    const char *name = NULL;

    if (!cuda.cuGetErrorName || cuda.cuGetErrorName(status, &name) != CUDA_SUCCESS)
        return "an unknown error";
    return name;
}

/* The name without version and default-stream suffix, as cuGetProcAddress wants it. */
static bool base_name(const char *symbol, char *name, size_t size)
{
    char *end;
    bool per_thread = false;

    snprintf(name, size, "%s", symbol);
    end = name + strlen(name);
    if (end - name > 5 && (!strcmp(end - 5, "_ptsz") || !strcmp(end - 5, "_ptds"))) {
        end -= 5;
        *end = '\0';
        per_thread = true;
    }
    if (end - name > 3 && end[-3] == '_' && end[-2] == 'v')
        end[-3] = '\0';
    return per_thread;
}

void *job_symbol(const char *symbol)
{
    static void *driver;
    static __typeof__(&cuGetProcAddress_v2) get_proc_address;
    void *found = NULL;
    char name[128];

    if (!driver) {
        driver = dlopen("libcuda.so.1", RTLD_NOW);
        if (!driver)
            job_fail(__FILE__, __LINE__, "dlopen", "%s", dlerror());
        *(void **)&get_proc_address = dlsym(driver, "cuGetProcAddress_v2");
    }
    if (job_lookup == JOB_DLSYM) {
        found = dlsym(driver, symbol);
    } else {
        bool per_thread = base_name(symbol, name, sizeof name);
        cuuint64_t flags =
            per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_LEGACY_STREAM;

        get_proc_address(name, &found, LOOKUP_VERSION, flags, NULL);
        if (!found) /* a newer function */
            get_proc_address(name, &found, CUDA_VERSION, flags, NULL);
    }
    if (!found)
        job_fail(__FILE__, __LINE__, "the driver has no", "%s", symbol);
    return found;
}

void job_start(void)
{
    CUdevice device;

    cuda_load();
    CU(cuInit(0));
    CU(cuDeviceGet(&device, 0));
    CU(cuDevicePrimaryCtxRetain(&context, device));
    CU(cuCtxSetCurrent(context));
    CU(cuModuleLoadData(&job_module, job_ptx));
}

void job_end(void)
{
    if (context)
        CU(cuCtxSynchronize());
}

CUcontext job_context(void)
{
    return context;
}

CUfunction job_kernel(const char *name)
{
    CUfunction function;

    CU(cuModuleGetFunction(&function, job_module, name));
    return function;
}

CUresult job_launch(CUfunction kernel, size_t count, CUstream stream, void **params)
{
    return cuda.cuLaunchKernel(kernel, (unsigned)((count + BLOCK - 1) / BLOCK), 1, 1, BLOCK, 1, 1, 0, stream,
                               params, NULL);
}

void job_fill(CUdeviceptr at, size_t count, uint32_t seed, CUstream stream)
{
    uint32_t words = (uint32_t)count;
    void *params[] = {&at, &words, &seed};
    CUresult status = job_launch(job_kernel("fill"), count, stream, params);

    REQUIRE(status == CUDA_SUCCESS, "fill: %s", job_error_name(status));
}

void job_fill_slowly(CUdeviceptr at, size_t count, uint32_t seed, CUstream stream)
{
    uint32_t words = (uint32_t)count, loops = 1 << 18;
    void *params[] = {&at, &words, &seed, &loops};
    CUresult status = job_launch(job_kernel("slow_fill"), count, stream, params);

    REQUIRE(status == CUDA_SUCCESS, "slow_fill: %s", job_error_name(status));
}

static void binary(const char *name, CUdeviceptr to, CUdeviceptr from, size_t count, CUstream stream)
{
    uint32_t words = (uint32_t)count;
    void *params[] = {&to, &from, &words};
    CUresult status = job_launch(job_kernel(name), count, stream, params);

    REQUIRE(status == CUDA_SUCCESS, "%s: %s", name, job_error_name(status));
}

void job_add(CUdeviceptr to, CUdeviceptr from, size_t count, CUstream stream)
{
    binary("add", to, from, count, stream);
}

void job_copy(CUdeviceptr to, CUdeviceptr from, size_t count, CUstream stream)
{
    binary("copy", to, from, count, stream);
}

void job_check(const char *file, int line, CUdeviceptr at, size_t count, uint32_t seed, uint32_t and_seed)
{
    uint32_t *words = malloc(count * sizeof *words);

    REQUIRE(words, "memory");
    memset(words, 0xa5, count * sizeof *words);
    CU(cuCtxSynchronize());
    CU(cuMemcpyDtoH(words, at, count * sizeof *words));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t wanted = job_word(seed, i) + (and_seed == UINT32_MAX ? 0 : job_word(and_seed, i));

        if (words[i] != wanted)
            job_fail(file, line, "contents", "word %u of %zu at 0x%llx is 0x%08x, not 0x%08x", i, count,
                     (unsigned long long)at, words[i], wanted);
    }
    free(words);
}

CUstream job_stream(void)
{
    CUstream made;

    CU(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
    return made;
}

volatile uint32_t *job_pinned_word(void)
{
    void *memory;

    CU(cuMemHostAlloc(&memory, 4096, CU_MEMHOSTALLOC_PORTABLE));
    memset(memory, 0, 4096);
    return memory;
}

void job_flush(void)
{
    enum { PIECES = 24 };
    CUdeviceptr piece[PIECES];
    CUstream stream = job_stream();

    for (unsigned i = 0; i < PIECES; i++) {
        CU(cuMemAlloc(&piece[i], 2 * MIB));
        CU(cuMemsetD8Async(piece[i], 0, 2 * MIB, stream));
    }
    CU(cuStreamSynchronize(stream));
    CU(cuStreamDestroy(stream));
    for (unsigned i = 0; i < PIECES; i++)
        CU(cuMemFree(piece[i]));
}

size_t job_free_bytes(void)
{
    size_t free_bytes;

    CU(cuMemGetInfo(&free_bytes, NULL));
    return free_bytes;
}

void job_put_file(const char *root, const char *path, const char *text)
{
    char name[1024];
    FILE *file;

    snprintf(name, sizeof name, "%s%s", root, path);
    for (char *slash = name + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        REQUIRE(!mkdir(name, 0700) || errno == EEXIST, "%s", name);
        *slash = '/';
    }
    file = fopen(name, "w");
    REQUIRE(file != NULL, "%s", name);
    fputs(text, file);
    fclose(file);
}
