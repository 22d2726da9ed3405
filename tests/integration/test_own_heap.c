/*
 * The job's heap is the job's: no call makes the library take memory from it, and what the C library takes
 * for its sake is on a list. The job has a malloc of its own, which sees who calls.
 */
#include "tests/integration/job.h"
#include "tests/integration/scenario.h"

#include <check.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>

#define EXPORT __attribute__((visibility("default")))

enum { BYTES = 2 << 20, WORDS = BYTES / 4, BUFFERS = 30 };

/* Of the preloaded library; both 0 where there is none. */
static _Atomic uintptr_t first, last;
static atomic_uint calls;
static _Thread_local bool looking;

/*
 * What the library may call of the C library, though that allocates: for the helper's thread, for plans,
 * which are read and written as streams, and what is looked up once (shim/memory.h).
 */
static const char *const allowed[] = {"pthread_create", "opendir", "fdopen",   "open_memstream", "fgets",
                                      "fprintf",        "fclose",  "realpath", "dlopen",         "backtrace"};

static bool is_ours(const void *caller)
{
    return (uintptr_t)caller >= atomic_load(&first) && (uintptr_t)caller < atomic_load(&last);
}

/* By its address in the C library; opendir goes on in a function beside it that has no name. */
static bool is_allowed(const void *within)
{
    uintptr_t at, opens = (uintptr_t)dlsym(RTLD_DEFAULT, "opendir");
    Dl_info info;

    if (!dladdr(within, &info) || !info.dli_saddr)
        return (uintptr_t)within - opens < 1024 || opens - (uintptr_t)within < 1024;
    at = (uintptr_t)info.dli_saddr;
    for (unsigned i = 0; i < sizeof allowed / sizeof *allowed; i++)
        if (at == (uintptr_t)dlsym(RTLD_DEFAULT, allowed[i]))
            return true;
    return false;
}

static bool in_the_c_library(const void *caller)
{
    Dl_info info;

    return dladdr(caller, &info) && info.dli_fname &&
           (strstr(info.dli_fname, "/libc.so") || strstr(info.dli_fname, "/ld-linux"));
}

/* Through as many frames of the C library as there are. */
static void note(const void *caller)
{
    enum { FRAMES = 16, OWN = 2 }; /* this function and malloc */
    void *frame[FRAMES];
    int count, at = OWN;

    if (!atomic_load(&first) || looking)
        return;
    looking = true;
    count = is_ours(caller) ? 0 : backtrace(frame, FRAMES);
    while (at < count && in_the_c_library(frame[at]))
        at++;
    if (is_ours(caller) || (at > OWN && at < count && is_ours(frame[at]) && !is_allowed(frame[at - 1]))) {
        atomic_fetch_add(&calls, 1);
        if (count)
            backtrace_symbols_fd(frame, count, 2);
    }
    looking = false;
}

/* NOLINTBEGIN(bugprone-reserved-identifier): the C library's own names */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);

EXPORT void *malloc(size_t size)
{
    note(__builtin_return_address(0));
    return __libc_malloc(size);
}

EXPORT void *calloc(size_t count, size_t size)
{
    note(__builtin_return_address(0));
    return __libc_calloc(count, size);
}

EXPORT void *realloc(void *memory, size_t size)
{
    note(__builtin_return_address(0));
    return __libc_realloc(memory, size);
}
/* NOLINTEND(bugprone-reserved-identifier) */

static int look_at(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size, (void)context;
    if (!strstr(info->dlpi_name, "libhbmspill"))
        return 0;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];

        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
            continue;
        atomic_store(&last, info->dlpi_addr + part->p_vaddr + part->p_memsz);
        atomic_store(&first, info->dlpi_addr + part->p_vaddr);
    }
    return 1;
}

/* Rounds that repeat, so that schedules are made and a plan is asked for; pinned memory, a graph. */
static void a_bit_of_all(void)
{
    CUdeviceptr at[BUFFERS];
    CUgraphExec launchable;
    CUstream stream;
    CUgraph graph;
    void *host, *here;

    (void)backtrace(&here, 1); /* it loads a library the first time */
    dl_iterate_phdr(look_at, NULL);
    REQUIRE(dlsym(RTLD_DEFAULT, "malloc") == (void *)(uintptr_t)malloc); /* the others find it */
    REQUIRE((atomic_load(&first) != 0) == (getenv("LD_PRELOAD") != NULL));
    cuda_start();
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuMemHostAlloc(&host, 100, 0));
    for (unsigned i = 0; i < BUFFERS; i++)
        CU(cuMemAllocAsync(&at[i], BYTES, stream));
    for (unsigned round = 0; round < 6; round++)
        for (unsigned i = 0; i < BUFFERS; i++)
            job_fill(at[i], WORDS, round + i, stream);
    CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    job_fill(at[0], WORDS, 77, stream);
    CU(cuStreamEndCapture(stream, &graph));
    CU(cuGraphInstantiateWithFlags(&launchable, graph, 0));
    CU(cuGraphLaunch(launchable, stream));
    CU(cuStreamSynchronize(stream));
    CHECK_WORDS(at[0], WORDS, 77);
    for (unsigned i = 1; i < BUFFERS; i++)
        CHECK_WORDS(at[i], WORDS, 5 + i);
    for (unsigned i = 0; i < BUFFERS; i++)
        CU(cuMemFreeAsync(at[i], stream));
    CU(cuMemFreeHost(host));
    CU(cuGraphExecDestroy(launchable));
    CU(cuGraphDestroy(graph));
    CU(cuStreamDestroy(stream));
    REQUIRE(atomic_load(&calls) == 0, "%u calls of the job's malloc", atomic_load(&calls));
}

static const struct scenario scenarios[] = {
    {"own_heap", a_bit_of_all, SCENARIO_SPILLS, NULL,
     "HBMSPILL_LOG=info HBMSPILL_TRACE=/dev/null HBMSPILL_PLAN=auto", NULL},
};

int main(int argc, char **argv)
{
    return scenarios_main(argc, argv, "own_heap", scenarios, sizeof scenarios / sizeof *scenarios, 60);
}
