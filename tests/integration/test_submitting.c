/*
 * Calls by which a job could notice that operations are held back, of which the synthetic GPU has nothing but
 * the name: whatever the driver answers, what was held has been submitted before.
 */
#include "tests/integration/job.h"
#include "tests/integration/scenario.h"

#include <check.h>
#include <dlfcn.h>

static const struct {
    const char *name;
    int stream; /* which parameter that is; -1: none */
} submitting[] = {
    {"cuArrayDestroy", -1},
    {"cuCtxDetach", -1},
    {"cuDestroyExternalMemory", -1},
    {"cuGraphicsMapResources", 2},
    {"cuGraphicsUnmapResources", 2},
    {"cuGraphicsUnregisterResource", -1},
    {"cuGreenCtxDestroy", -1},
    {"cuGreenCtxRecordEvent", -1},
    {"cuGreenCtxWaitEvent", -1},
    {"cuMemBatchDecompressAsync", 4},
    {"cuMemDiscardAndPrefetchBatchAsync", 7},
    {"cuMemDiscardBatchAsync", 4},
    {"cuMemMapArrayAsync", 2},
    {"cuMemcpy3DBatchAsync_v2", 3},
    {"cuMemcpyAtoA_v2", -1},
    {"cuMemcpyAtoD_v2", -1},
    {"cuMemcpyAtoHAsync_v2", 4},
    {"cuMemcpyAtoH_v2", -1},
    {"cuMemcpyDtoA_v2", -1},
    {"cuMemcpyHtoAAsync_v2", 4},
    {"cuMemcpyHtoA_v2", -1},
    {"cuMipmappedArrayDestroy", -1},
    {"cuMulticastBindAddr", -1},
    {"cuSignalExternalSemaphoresAsync", 3},
    {"cuSurfObjectDestroy", -1},
    {"cuSurfRefSetArray", -1},
    {"cuTexObjectCreate", -1},
    {"cuTexObjectDestroy", -1},
    {"cuTexRefSetAddress2D_v2", -1},
    {"cuTexRefSetAddress2D_v3", -1},
    {"cuTexRefSetAddressMode", -1},
    {"cuTexRefSetAddress_v2", -1},
    {"cuTexRefSetArray", -1},
    {"cuTexRefSetBorderColor", -1},
    {"cuTexRefSetFilterMode", -1},
    {"cuTexRefSetFlags", -1},
    {"cuTexRefSetFormat", -1},
    {"cuTexRefSetMaxAnisotropy", -1},
    {"cuTexRefSetMipmapFilterMode", -1},
    {"cuTexRefSetMipmapLevelBias", -1},
    {"cuTexRefSetMipmapLevelClamp", -1},
    {"cuTexRefSetMipmappedArray", -1},
    {"cuWaitExternalSemaphoresAsync", 3},
    {"cuLaunch", -1},
    {"cuLaunchGrid", -1},
    {"cuLaunchGridAsync", 3},
};
enum { SUBMITTING = sizeof submitting / sizeof *submitting };

typedef CUresult any_function(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
                              uintptr_t);

/* The driver's own function: the C library's dlsym has a version, the preloaded one has none. */
static void *past_the_library(const char *name)
{
    void *(*real)(void *, const char *);

    *(void **)&real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    REQUIRE(real);
    return real(dlopen("libcuda.so.1", RTLD_NOW), name);
}

/*
 * What was launched is in its stream or has run. Soon the library submits by itself, so a call that does not
 * is found often, but not every time.
 */
static void submitted_before(void)
{
    __typeof__(&cuStreamQuery) query;
    volatile uint32_t *word;
    CUstream stream;

    cuda_start();
    job_flush(); /* memory was short: from now on operations are held */
    stream = job_stream();
    *(void **)&query = past_the_library("cuStreamQuery");
    word = job_pinned_word();
    for (uint32_t i = 0; i < SUBMITTING; i++) {
        any_function *function = (any_function *)job_symbol(submitting[i].name);
        uintptr_t a[8] = {0};
        CUresult status;

        if (submitting[i].stream >= 0)
            a[submitting[i].stream] = (uintptr_t)stream;
        job_fill((CUdeviceptr)(uintptr_t)word, 1, i + 1, stream);
        status = function(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
        REQUIRE(status == CUDA_ERROR_NOT_SUPPORTED, "%s: %s", submitting[i].name, job_error_name(status));
        REQUIRE(query(stream) == CUDA_ERROR_NOT_READY || *word == job_word(i + 1, 0),
                "%s came before what was launched", submitting[i].name);
        CU(cuStreamSynchronize(stream));
    }
    CU(cuMemFreeHost((void *)(uintptr_t)word));
}

static void inspect_held(const struct outcome *outcome)
{
    ck_assert_uint_ge(outcome_number(outcome->statistics, "held"), SUBMITTING);
}

int main(int argc, char **argv)
{
    const struct scenario scenario = {.name = "submitted_before",
                                      .job = submitted_before,
                                      .flags = SCENARIO_NOT_NATIVE,
                                      .inspect = inspect_held};

    return scenarios_main(argc, argv, "submitting", &scenario, 1, 30);
}
