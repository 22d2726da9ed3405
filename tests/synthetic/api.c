/*
 * api.c - entry to the driver: counting, the checks every function makes, functions left out.
 */
#include "clock.h"
#include "fault.h"
#include "history.h"
#include "record.h"
#include "touches.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t driver_done = PTHREAD_COND_INITIALIZER;
uint64_t counters[COUNTERS];
uint64_t driver_last_call;

static struct api_site *sites;

/* cuInit's answer; the pid tells a forked child, in which the driver cannot be used ("Initialization"). */
static bool initialized, exiting;
static pid_t init_pid;

uint64_t driver_clock(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void driver_log(const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    dprintf(STDERR_FILENO, "synthetic-gpu: %s\n", line);
}

bool driver_initialized(void)
{
    return initialized && init_pid == getpid();
}

const struct api_site *api_sites(void)
{
    return __atomic_load_n(&sites, __ATOMIC_ACQUIRE);
}

static void register_site(struct api_site *site)
{
    if (__atomic_exchange_n(&site->registered, 1, __ATOMIC_ACQ_REL))
        return;
    struct api_site *head = __atomic_load_n(&sites, __ATOMIC_RELAXED);
    do
        site->next = head;
    while (!__atomic_compare_exchange_n(&sites, &head, site, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

CUresult api_enter(struct api_site *site, unsigned flags, uint64_t key)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fault_read);
    if (!__atomic_load_n(&site->registered, __ATOMIC_ACQUIRE))
        register_site(site);
    __atomic_fetch_add(&site->calls, 1, __ATOMIC_RELAXED);
    if (options.schedule == SCHEDULE_LAZY)
        __atomic_store_n(&driver_last_call, driver_clock(), __ATOMIC_RELAXED);
    CUresult fault = fault_inject(site->name);
    if (fault != CUDA_SUCCESS)
        return fault;
    if (flags & API_BEFORE_INIT)
        return CUDA_SUCCESS;
    if (exiting)
        return CUDA_ERROR_DEINITIALIZED;
    if (!driver_initialized())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (flags & API_CONTEXT) {
        CUcontext ctx = context_current();
        if (!ctx)
            return CUDA_ERROR_INVALID_CONTEXT;
        if (!object_valid(ctx, OBJECT_CONTEXT))
            return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        CUresult error = __atomic_load_n(&ctx->error, __ATOMIC_ACQUIRE);
        if (error != CUDA_SUCCESS)
            return error;
    }
    if ((flags & API_NOT_CAPTURING) && capture_forbids())
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (clock_runs)
        clock_call(site, key);
    return CUDA_SUCCESS;
}

CUresult driver_unsupported(const char *name)
{
    static const char *said[128];
    driver_acquire();
    for (unsigned i = 0; i < ARRAY_SIZE(said); i++) {
        if (said[i] == name)
            break;
        if (!said[i]) {
            said[i] = name;
            driver_log("%s is not supported", name);
            break;
        }
    }
    driver_release();
    return CUDA_ERROR_NOT_SUPPORTED;
}

static void at_exit(void)
{
    if (!driver_initialized())
        return;
    if (clock_runs) {
        driver_acquire();
        clock_finish_locked();
        record_finish_locked();
        history_finish_locked();
        driver_release();
    }
    report_at_exit();
    /* "CUDA_ERROR_DEINITIALIZED: the CUDA driver is in the process of shutting down". */
    exiting = true;
}

static void in_child(void)
{
    /* A forked child cannot use the driver; its lock may have been held by a thread that is not there. */
    initialized = false;
    clock_runs = false;
    pthread_mutex_init(&driver_lock, NULL);
}

static CUresult init_result;

static void init_once(void)
{
    options_read();
    if (window_init() != 0 || touches_init() != 0 || kernels_init() != 0) {
        driver_log("cannot reserve the window of device addresses");
        init_result = CUDA_ERROR_OUT_OF_MEMORY;
        return;
    }
    device_count = options.devices;
    for (int i = 0; i < device_count; i++) {
        devices[i].ordinal = i;
        devices[i].hbm_bytes = options.hbm_bytes;
        devices[i].frames = frames_new((uint8_t)i, options.hbm_bytes);
        if (!devices[i].frames) {
            init_result = CUDA_ERROR_OUT_OF_MEMORY;
            return;
        }
    }
    if (clock_start() != 0) {
        init_result = CUDA_ERROR_OUT_OF_MEMORY;
        return;
    }
    record_start();
    history_start();
    init_pid = getpid();
    initialized = true;
    pthread_atfork(NULL, NULL, in_child);
    atexit(at_exit);
}

CUresult cuInit(unsigned int flags)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    API_ENTER(API_BEFORE_INIT);
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_once(&once, init_once);
    if (init_result == CUDA_SUCCESS && !driver_initialized())
        return CUDA_ERROR_NOT_INITIALIZED;
    return init_result;
}

CUresult cuDriverGetVersion(int *version)
{
    API_ENTER(API_BEFORE_INIT);
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = DRIVER_VERSION;
    return CUDA_SUCCESS;
}

/* Private tables of NVIDIA's own libraries: there are none here. */
CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
    API_ENTER(API_BEFORE_INIT);
    if (!table || !id)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_ERROR_NOT_FOUND;
}
