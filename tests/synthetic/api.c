/*
 * api.c - entry to the driver: counting, fault injection, the checks every function makes, functions left
 * out.
 *
 * Fault injection: SYNTHETIC_GPU_FAULT is a comma-separated list of FUNCTION:OCCURRENCE:ERROR, the error by
 * its name without CUDA_ERROR_; the occurrence is counted from 1, 0 means every call. A version suffix (_v2
 * ...) may be left out.
 */
#include "clock.h"
#include "history.h"
#include "record.h"

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

struct fault {
    char name[64];
    uint64_t occurrence, seen;
    CUresult error;
};
static struct fault faults[16];
static unsigned fault_count;

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

/* "cuMemAlloc" names cuMemAlloc_v2 too. */
static bool name_matches(const char *wanted, const char *name)
{
    size_t n = strlen(wanted);
    if (strncmp(wanted, name, n) != 0)
        return false;
    return name[n] == 0 || (name[n] == '_' && name[n + 1] == 'v' && strlen(name + n) == 3);
}

static CUresult error_by_name(const char *name)
{
    for (int e = 1; e < 1000; e++) {
        const char *full;
        if (cuGetErrorName((CUresult)e, &full) == CUDA_SUCCESS && strncmp(full, "CUDA_ERROR_", 11) == 0 &&
            strcmp(full + 11, name) == 0)
            return (CUresult)e;
    }
    return CUDA_SUCCESS;
}

static void read_faults(void)
{
    const char *text = getenv("SYNTHETIC_GPU_FAULT");
    char copy[1024], *save = NULL;
    if (!text)
        return;
    snprintf(copy, sizeof(copy), "%s", text);
    for (char *item = strtok_r(copy, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
        struct fault fault = {0};
        char error[64];
        unsigned long long occurrence;
        if (sscanf(item, "%63[^:]:%llu:%63s", fault.name, &occurrence, error) != 3 ||
            (fault.error = error_by_name(error)) == CUDA_SUCCESS || fault_count == ARRAY_SIZE(faults)) {
            driver_log("SYNTHETIC_GPU_FAULT: `%s' is not FUNCTION:OCCURRENCE:ERROR", item);
            abort();
        }
        fault.occurrence = occurrence;
        faults[fault_count++] = fault;
    }
}

static CUresult injected_fault(const char *name)
{
    for (unsigned i = 0; i < fault_count; i++) {
        if (!name_matches(faults[i].name, name))
            continue;
        uint64_t seen = __atomic_add_fetch(&faults[i].seen, 1, __ATOMIC_RELAXED);
        if (faults[i].occurrence == 0 || faults[i].occurrence == seen)
            return faults[i].error;
    }
    return CUDA_SUCCESS;
}

CUresult api_enter(struct api_site *site, unsigned flags, uint64_t key)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_faults);
    if (!__atomic_load_n(&site->registered, __ATOMIC_ACQUIRE))
        register_site(site);
    __atomic_fetch_add(&site->calls, 1, __ATOMIC_RELAXED);
    if (options.schedule == SCHEDULE_LAZY)
        __atomic_store_n(&driver_last_call, driver_clock(), __ATOMIC_RELAXED);
    if (fault_count) {
        CUresult fault = injected_fault(site->name);
        if (fault != CUDA_SUCCESS)
            return fault;
    }
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
    if (window_init() != 0) {
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
