/*
 * driver.h - what every file of the synthetic driver shares: entry to an API function, objects, contexts,
 * devices.
 *
 * The driver is a libcuda.so.1 of our own: the functions of the CUDA driver API with the behaviour of its
 * documentation, on memory and streams made of memfd pages and threads.
 *
 * Threads and locks: driver_lock (rank 1) protects every structure of the driver; it is held for bookkeeping
 * only, never while an operation or a function of the application runs. range_lock (rank 2, memory.h) lets
 * kernels look up host ranges without driver_lock. Functions whose name ends in _locked want driver_lock
 * held. Errors: CUresult, as the API returns them.
 */
#ifndef SYNTHETIC_DRIVER_H
#define SYNTHETIC_DRIVER_H

/* Declare every version of every function under its exported name (cuMemAlloc_v2, cuMemcpyAsync_ptsz ...). */
#define __CUDA_API_VERSION_INTERNAL 1
#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DRIVER_VERSION 13000 /* what cuDriverGetVersion says: 1000 * major + 10 * minor */
#define MAX_DEVICES 8

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

extern pthread_mutex_t driver_lock;
extern pthread_cond_t driver_done; /* broadcast when an operation has ended; waits hold driver_lock */

void driver_acquire_running(void);
extern bool clock_runs; /* virtual time is kept (clock.h); fixed by cuInit */

static inline void driver_acquire(void)
{
    if (clock_runs)
        driver_acquire_running();
    else
        pthread_mutex_lock(&driver_lock);
}

static inline void driver_release(void)
{
    pthread_mutex_unlock(&driver_lock);
}

/* ---- api.c: what happens on entry to every function ---- */

struct api_site {
    const char *name;
    uint64_t calls; /* atomic */
    struct api_site *next;
    int registered;
    double cost;    /* virtual ns of host time a call takes; negative: not a call that the clock knows */
    double host_ns; /* virtual host time so far; driver_lock */
};

enum {
    API_BEFORE_INIT = 1, /* may be called before cuInit */
    API_CONTEXT = 2,     /* needs a current context, without a sticky error */
    API_NOT_CAPTURING =
        4, /* unsafe while a stream capture could be disturbed ("Stream Management", capture modes) */
};

/* Counts the call, applies fault injection and the checks of flags, lets the clock have its time. key: an
 * address the call is about, or 0. */
CUresult api_enter(struct api_site *site, unsigned flags, uint64_t key);
const struct api_site *api_sites(void);

#define API_ENTER(flags) API_ENTER_ABOUT(flags, 0)
#define API_ENTER_ABOUT(flags, key)                                                                          \
    do {                                                                                                     \
        static struct api_site api_site_ = {.name = __func__};                                               \
        CUresult api_result_ = api_enter(&api_site_, (flags), (key));                                        \
        if (api_result_ != CUDA_SUCCESS)                                                                     \
            return api_result_;                                                                              \
    } while (0)

/* One line on stderr, prefixed with the name of the synthetic GPU. */
void driver_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Says once per name that a function is not implemented. */
CUresult driver_unsupported(const char *name);

uint64_t driver_clock(void);      /* ns, monotonic */
extern uint64_t driver_last_call; /* when the job last entered the driver, ns; kept by lazy schedules only */
bool driver_initialized(void);

/* ---- objects.c: handles that can be checked ---- */

enum object_kind {
    OBJECT_CONTEXT = 1,
    OBJECT_STREAM,
    OBJECT_EVENT,
    OBJECT_MODULE,
    OBJECT_LIBRARY,
    OBJECT_FUNCTION,
    OBJECT_KERNEL,
    OBJECT_POOL,
    OBJECT_GRAPH,
    OBJECT_NODE,
    OBJECT_GRAPH_EXEC,
    OBJECT_LINK,
    OBJECT_USER,
    OBJECT_KINDS,
};

/* First member of every handle type. Memory of a kind is never given back, so a stale handle can be
 * recognised. */
struct object {
    uint32_t magic;
    uint32_t kind;
    struct object *next_free;
};

/* Zeroed, or NULL when out of memory. driver_lock held. */
void *object_new_locked(enum object_kind kind, size_t size);
void object_free_locked(void *object);
bool object_valid(const void *object, enum object_kind kind);
/* How many of a kind there are. */
size_t objects_live_locked(enum object_kind kind);

/* ---- context.c ---- */

struct device;
struct CUstream_st;

struct CUctx_st {
    struct object object;
    struct device *device;
    unsigned flags;
    uint64_t id;
    bool primary;
    int refs;       /* of a primary context */
    CUresult error; /* sticky: what an operation ended with */
    struct CUstream_st *legacy;
    struct CUstream_st *streams;     /* all of them, the legacy and per-thread ones included */
    struct CUmemPoolHandle_st *heap; /* what cuMemAlloc and module globals come from */
    size_t limits[CU_LIMIT_MAX];
    struct CUctx_st *next; /* of the device */
};

struct device {
    int ordinal;
    CUcontext primary; /* NULL while not retained */
    unsigned primary_flags;
    CUcontext contexts;
    struct CUmemPoolHandle_st *default_pool, *current_pool, *graph_pool;
    struct engine *engine;
    struct frames *frames;
    size_t hbm_bytes;
};

extern struct device devices[MAX_DEVICES];
extern int device_count;

/* The current context of the calling thread, or NULL. */
CUcontext context_current(void);
CUresult context_check(CUcontext ctx);
/* 0 or CUDA_ERROR_INVALID_DEVICE. */
CUresult device_check(CUdevice dev);
void context_fail_locked(CUcontext ctx, CUresult error);

/* ---- configuration, from the environment (options.c) ---- */

enum { MAX_HOST_NODES = 8 };
enum schedule_kind { SCHEDULE_EAGER, SCHEDULE_LAZY, SCHEDULE_RANDOM };

struct options {
    size_t hbm_bytes;
    enum schedule_kind schedule;
    uint64_t seed;
    char schedule_name[48];
    int devices;
    const char *report;
    enum host_vmm {
        HOST_VMM_ON,
        HOST_VMM_OFF,          /* the device does not support it, and says so */
        HOST_VMM_UNKNOWN,      /* it does, but the driver is older than the attribute that says so */
        HOST_VMM_REFUSED,      /* the process may not, as in containers without the right to bind memory */
    } host_vmm;                /* host memory as handles and from pools */
    int host_nodes, host_node; /* NUMA nodes of the host, and the one closest to every device */
    bool clock;                /* keep virtual time */
    double link_in, link_out, link_in_both, link_out_both; /* bytes a second */
    char link_name[64];
    double compute_scale; /* kernels take so many times as long */
    double size_scale;    /* a byte stands for so many */
    double driver_scale;  /* calls of the driver take so many times as long */
    const char *record, *history;
};
extern struct options options;
void options_read(void);
/* A file's name with the process id for %p. */
void options_path(const char *pattern, char *out, size_t size);

/* ---- entry points for process start and end ---- */
void report_at_exit(void);
void report_hazard_locked(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

enum counter {
    COUNT_LAUNCHES,
    COUNT_GRAPH_LAUNCHES,
    COUNT_H2D,
    COUNT_D2H,
    COUNT_D2D,
    COUNT_H2H,
    COUNT_INSTRUCTIONS,
    COUNTERS,
};
extern uint64_t counters[COUNTERS];
static inline void count_add(enum counter counter, uint64_t n)
{
    __atomic_fetch_add(&counters[counter], n, __ATOMIC_RELAXED);
}

#endif
