#include "hooks/admit.h"
#include "hooks/text.h"
#include "hooks/window.h"
#include "shim/log.h"
#include "shim/options.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { KERNELS = 4096, SHAPES = 64 };

struct trial {
    char hash[IMAGE_HASH];
    char name[1024];
    unsigned long long launches;
    unsigned shapes; /* SHAPES: at least so many */
    uint64_t shape[SHAPES];
    struct trial *next;
};

/* Held from begin to end, so that nothing else is launched on trial meanwhile; guards what follows. */
static pthread_mutex_t alone = PTHREAD_MUTEX_INITIALIZER;
static struct trial *trials;
static unsigned count;
static char failure[1400]; /* the row of the kernel that was not closed */
static char device_name[128];
static int driver_version;

bool admit_on_trial(const struct kernel *kernel)
{
    return *options_get()->admit.text && !kernel->closed && kernel->listed && *kernel->hash &&
           !kernel->known_open;
}

static void write_rows(void)
{
    FILE *file = fopen(options_get()->admit.text, "we");

    if (!file) {
        log_error(LOG_IN_ADMIT, "%s cannot be written", options_get()->admit.text);
        return;
    }
    if (*failure)
        fprintf(file, "%s\n", failure);
    for (const struct trial *trial = trials; trial; trial = trial->next)
        fprintf(file, "closed %s %s %llu launches, %u%s shapes; %s, driver %d.%d\n", trial->hash, trial->name,
                trial->launches, trial->shapes, trial->shapes == SHAPES ? " or more" : "", device_name,
                driver_version / 1000, driver_version % 1000 / 10);
    fclose(file);
}

/* With the lock. NULL: there are too many. */
static struct trial *trial_of(const struct kernel *kernel)
{
    struct trial *trial;

    for (trial = trials; trial; trial = trial->next)
        if (!strcmp(trial->hash, kernel->hash) && !strcmp(trial->name, kernel->name))
            return trial;
    if (count == KERNELS || strlen(kernel->name) >= sizeof trial->name)
        return NULL;
    trial = calloc(1, sizeof *trial);
    if (!trial)
        return NULL;
    snprintf(trial->hash, sizeof trial->hash, "%s", kernel->hash);
    snprintf(trial->name, sizeof trial->name, "%s", kernel->name);
    trial->next = trials;
    trials = trial;
    count++;
    return trial;
}

static void learn_machine(const struct gpu *gpu)
{
    if (*device_name)
        return;
    if (!hbmspill_real.cuDeviceGetName ||
        hbmspill_real.cuDeviceGetName(device_name, sizeof device_name, gpu->device) != CUDA_SUCCESS)
        snprintf(device_name, sizeof device_name, "a device without a name");
    (void)hbmspill_real.cuDriverGetVersion(&driver_version);
}

CUresult admit_begin(const struct kernel *kernel, const struct touches *touches)
{
    struct gpu *gpu = touches->gpu ? touches->gpu : gpu_current();
    CUresult status = window_submit();
    bool entered;
    int error = 0;

    pthread_mutex_lock(&alone);
    if (status == CUDA_SUCCESS)
        status = hbmspill_real.cuCtxSynchronize();
    if (status == CUDA_SUCCESS && gpu) {
        learn_machine(gpu);
        entered = gpu_enter(gpu);
        error = cache_isolate(gpu->cache, touches->touch, touches->count);
        gpu_leave(entered);
        status = gpu_result(gpu, error);
    }
    if (status != CUDA_SUCCESS) {
        log_error(LOG_IN_ADMIT, "%s could not be tried: error %d", kernel->name, (int)status);
        pthread_mutex_unlock(&alone);
    }
    return status;
}

static void passed(struct trial *trial, uint64_t shape)
{
    trial->launches++;
    for (unsigned i = 0; i < trial->shapes; i++)
        if (trial->shape[i] == shape)
            return;
    if (trial->shapes < SHAPES)
        trial->shape[trial->shapes++] = shape;
}

static void faulted(const struct kernel *kernel, CUresult status)
{
    struct trial **link = &trials;
    const char *name = "an error";

    if (hbmspill_real.cuGetErrorName)
        (void)hbmspill_real.cuGetErrorName(status, &name);
    for (; *link; link = &(*link)->next) {
        struct trial *trial = *link;

        if (strcmp(trial->hash, kernel->hash) != 0 || strcmp(trial->name, kernel->name) != 0)
            continue;
        snprintf(failure, sizeof failure,
                 "open %s %s ended with %s, after %llu launches without, when all that its parameters do not "
                 "point into was inaccessible",
                 kernel->hash, kernel->name, name, trial->launches);
        *link = trial->next;
        free(trial);
        break;
    }
    log_warn(LOG_IN_ADMIT, "%s", failure);
    write_rows();
}

CUresult admit_end(const struct kernel *kernel, uint64_t shape, CUresult status)
{
    struct trial *trial = trial_of(kernel);

    if (status == CUDA_SUCCESS) { /* an error of the launch itself says nothing of what it touches */
        status = hbmspill_real.cuCtxSynchronize();
        if (status == CUDA_SUCCESS && trial)
            passed(trial, shape);
        else if (trial)
            faulted(kernel, status);
    }
    pthread_mutex_unlock(&alone);
    return status;
}

void admit_exit(void)
{
    if (*options_get()->admit.text && !*failure && pthread_mutex_trylock(&alone) == 0) {
        write_rows();
        pthread_mutex_unlock(&alone);
    }
}
