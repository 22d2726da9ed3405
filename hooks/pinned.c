#include "hooks/pinned.h"
#include "hooks/capture.h"
#include "hooks/gpu.h"
#include "hooks/held.h"
#include "hooks/host_memory.h"
#include "hooks/host_pool.h"
#include "pinned/numa.h"
#include "pinned/system.h"
#include "shim/log.h"
#include "shim/memory.h"
#include "shim/options.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <uthash.h>

#define MIB(bytes) ((unsigned long long)((bytes) >> 20))

static uint64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

struct budget *pinned_budget(void)
{
    return host_memory_budget();
}

int pinned_take(uint64_t bytes)
{
    struct gpu *gpu;

    for (unsigned i = 0; budget_take(pinned_budget(), bytes); i++) {
        if (!i)
            host_pools_ask();
        gpu = gpu_at(i);
        if (!gpu)
            return -ENOSPC;
        if (gpu->pinned.pool)
            pool_trim(gpu->pinned.pool, 0, UINT64_MAX);
    }
    return 0;
}

/* What the driver says, as pin_ops has it. */
static int outcome(struct gpu *gpu, CUresult status)
{
    switch (status) {
    case CUDA_SUCCESS:
        return 0;
    case CUDA_ERROR_OUT_OF_MEMORY:
    case CUDA_ERROR_OPERATING_SYSTEM: /* an OS call failed: locking pages is one */
        return -ENOMEM;
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_NOT_PERMITTED:
        return -ENOTSUP;
    default:
        atomic_store_explicit(&gpu->last_error, (int)status, memory_order_relaxed);
        return -EIO;
    }
}

/* In the gpu's context, under the relaxed capture mode (device_cuda.c). */
#define CALL(gpu, call)                                                                                      \
    ({                                                                                                       \
        bool call_entered = gpu_enter(gpu);                                                                  \
        int call_mode = capture_relax();                                                                     \
        CUresult call_status = hbmspill_real.call;                                                           \
        capture_restore(call_mode);                                                                          \
        gpu_leave(call_entered);                                                                             \
        outcome(gpu, call_status);                                                                           \
    })

static int pin(void *ctx, void *memory, uint64_t size)
{
    struct gpu *gpu = ctx;
    int error;

    error = CALL(gpu, cuMemHostRegister_v2(memory, size, CU_MEMHOSTREGISTER_PORTABLE));
    if (!error)
        held_add(registrations, 1);
    if (error == -ENOTSUP && !atomic_exchange(&gpu->pinned.refused, true))
        log_gpu(LOG_INFO, LOG_IN_HOST, gpu->device,
                "the driver registers no memory; its own pinned memory is used");
    return error;
}

static int unpin(void *ctx, void *memory)
{
    struct gpu *gpu = ctx;
    int error = CALL(gpu, cuMemHostUnregister(memory));

    if (!error)
        held_add(registrations, -1);
    return error;
}

static void refused(void *ctx, uint64_t pinned, uint64_t size)
{
    struct system_memory memory;

    (void)ctx;
    system_memory_read(options_get()->test_root.text, &memory);
    if (memory.memlock < pinned + size)
        log_once(
            LOG_WARN, LOG_IN_HOST,
            "the system pins no %llu MiB with %llu MiB pinned: less host memory is used (a limit on locked "
            "memory of %llu KiB may be why: ulimit -l)",
            MIB(size), MIB(pinned), (unsigned long long)(memory.memlock >> 10));
    else
        log_once(LOG_WARN, LOG_IN_HOST,
                 "the system pins no %llu MiB with %llu MiB pinned: less host memory is used "
                 "(HBMSPILL_HOST_LIMIT)",
                 MIB(size), MIB(pinned));
}

static int attribute(CUdevice device, CUdevice_attribute attribute_of)
{
    int value = 0;

    return hbmspill_real.cuDeviceGetAttribute(&value, attribute_of, device) == CUDA_SUCCESS ? value : 0;
}

/* Registered memory can be used by its own address. */
static bool registers(CUdevice device)
{
    return attribute(device, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED) &&
           attribute(device, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
}

/* Where the device's memory should be; -1: wherever the system puts it. */
static int choose_node(const struct gpu *gpu)
{
    const struct options *options = options_get();
    const char *root = options->test_root.text;
    const int wanted = options_of_device(options, gpu->device).numa;
    int node = wanted;
    char pci[32] = "";

    if (node == NUMA_OFF)
        return -1;
    if (node == NUMA_AUTO) {
        if (!hbmspill_real.cuDeviceGetPCIBusId ||
            hbmspill_real.cuDeviceGetPCIBusId(pci, sizeof pci, gpu->device) != CUDA_SUCCESS)
            return -1;
        node = system_device_node(root, pci);
        if (node < 0 || !numa_policy_is_default())
            return -1; /* no NUMA, or the job was started with a placement of its own (numactl) */
    }
    if (system_node_listed(root, "online", node) && numa_has(node))
        return node;
    if (wanted == NUMA_AUTO)
        log_gpu(LOG_INFO, LOG_IN_HOST, gpu->device,
                "it (%s) is next to node %d, which has no memory to use: not placed", pci, node);
    else
        log_once(LOG_WARN, LOG_IN_HOST,
                 "HBMSPILL_NUMA=%d: there is no such node with memory to use: not placed", node);
    return -1;
}

static bool is_primary(const struct gpu *gpu)
{
    CUcontext primary = NULL;
    unsigned flags;
    int active = 0;

    if (!hbmspill_real.cuDevicePrimaryCtxGetState || !hbmspill_real.cuDevicePrimaryCtxRetain ||
        !hbmspill_real.cuDevicePrimaryCtxRelease_v2 ||
        hbmspill_real.cuDevicePrimaryCtxGetState(gpu->device, &flags, &active) != CUDA_SUCCESS || !active ||
        hbmspill_real.cuDevicePrimaryCtxRetain(&primary, gpu->device) != CUDA_SUCCESS)
        return false;
    (void)hbmspill_real.cuDevicePrimaryCtxRelease_v2(gpu->device);
    return primary == gpu->context;
}

void pinned_init(struct gpu *gpu)
{
    struct pinned_memory *pinned = &gpu->pinned;
    struct pool_config config = {.ops = &pinned->ops, .budget = pinned_budget(), .clock = now};

    pinned->ops = (struct pin_ops){.ctx = gpu, .pin = pin, .unpin = unpin, .refused = refused};
    pinned->node = config.node = choose_node(gpu);
    pinned->primary = is_primary(gpu);
    if (!hbmspill_real.cuMemHostRegister_v2 || !hbmspill_real.cuMemHostUnregister ||
        !registers(gpu->device) || pool_create(&config, &pinned->pool))
        pinned->pool = NULL;
}

static bool has_pool(const struct gpu *gpu)
{
    return gpu->pinned.pool && !atomic_load(&gpu->pinned.refused);
}

bool pinned_serves(struct gpu *gpu)
{
    static atomic_int all; /* 0: not looked yet, 1: yes, 2: no */
    int known = atomic_load(&all), count;

    if (!known) {
        known = hbmspill_real.cuDeviceGetCount(&count) == CUDA_SUCCESS ? 1 : 2;
        for (CUdevice device = 0; known == 1 && device < count; device++)
            known = registers(device) ? 1 : 2;
        atomic_store(&all, known);
    }
    return known == 1 && has_pool(gpu) && !atomic_load(&gpu->pinned.lost);
}

int pinned_alloc(struct gpu *gpu, uint64_t size, void **out)
{
    struct gpu *other;
    int error;

    if (!has_pool(gpu))
        return -ENOTSUP;
    if (atomic_load(&gpu->pinned.lost)) /* what is idle is not pinned any more */
        return -EIO;
    error = pool_alloc(gpu->pinned.pool, size, out);
    if (error != -ENOSPC)
        return error;
    for (unsigned i = 0; (other = gpu_at(i)); i++)
        if (other != gpu && other->pinned.pool)
            pool_trim(other->pinned.pool, 0, UINT64_MAX);
    return pool_alloc(gpu->pinned.pool, size, out);
}

/* The driver's own memory, where it registers none. */
struct native {
    void *memory;
    const struct gpu *gpu;
    uint64_t size;
    UT_hash_handle hh;
};
/* Guards the table; a leaf. */
static pthread_mutex_t native_lock = PTHREAD_MUTEX_INITIALIZER;
static struct native *natives;

int pinned_native_alloc(struct gpu *gpu, uint64_t size, unsigned flags, void **out)
{
    struct native *native = calloc(1, sizeof *native);
    int error;

    if (!native)
        return -ENOMEM;
    native->gpu = gpu;
    native->size = extent_round(size);
    error = budget_take(pinned_budget(), native->size);
    if (error) {
        free(native);
        return error;
    }
    error = CALL(gpu, cuMemHostAlloc(&native->memory, size, flags));
    if (error) {
        uint64_t pinned;

        budget_give(pinned_budget(), native->size);
        pinned = atomic_load(&pinned_budget()->pinned);
        if (error == -ENOMEM && budget_lower(pinned_budget(), pinned + native->size - 1))
            refused(gpu, pinned, native->size);
        free(native);
        return error == -ENOTSUP ? -EIO : error;
    }
    held_add(host_allocations, 1);
    *out = native->memory;
    pthread_mutex_lock(&native_lock);
    HASH_ADD_PTR(natives, memory, native);
    pthread_mutex_unlock(&native_lock);
    return 0;
}

int pinned_native_free(struct gpu *gpu, void *memory)
{
    struct native *native;
    int error;

    pthread_mutex_lock(&native_lock);
    HASH_FIND_PTR(natives, &memory, native);
    pthread_mutex_unlock(&native_lock);
    if (!native)
        return -EINVAL;
    error = CALL(gpu, cuMemFreeHost(memory));
    if (error)
        return -EIO;
    held_add(host_allocations, -1);
    budget_give(pinned_budget(), native->size);
    pthread_mutex_lock(&native_lock);
    HASH_DEL(natives, native);
    pthread_mutex_unlock(&native_lock);
    free(native);
    return 0;
}

int pinned_slot_alloc(struct gpu *gpu, uint64_t size, void **out)
{
    int error = pinned_alloc(gpu, size, out);

    return error == -ENOTSUP ? pinned_native_alloc(gpu, size, CU_MEMHOSTALLOC_PORTABLE, out) : error;
}

int pinned_slot_free(struct gpu *gpu, void *memory)
{
    int error = gpu->pinned.pool ? pool_free(gpu->pinned.pool, memory) : -ENOENT;

    return error == -ENOENT ? pinned_native_free(gpu, memory) : error;
}

uint64_t pinned_room(void)
{
    struct pool_usage usage;
    struct gpu *gpu;
    uint64_t room;

    host_pools_ask(); /* ours were synchronizations too */
    room = budget_left(pinned_budget());

    for (unsigned i = 0; (gpu = gpu_at(i)); i++) {
        if (!gpu->pinned.pool)
            continue;
        pool_usage(gpu->pinned.pool, &usage);
        room += usage.idle;
    }
    return room;
}

/* The driver has freed them. */
static void forget_natives(const struct gpu *gpu)
{
    struct native *native, *next;

    pthread_mutex_lock(&native_lock);
    HASH_ITER(hh, natives, native, next)
    {
        if (native->gpu != gpu)
            continue;
        held_add(host_allocations, -1);
        budget_give(pinned_budget(), native->size);
        HASH_DEL(natives, native);
        free(native);
    }
    pthread_mutex_unlock(&native_lock);
}

void pinned_context_gone(struct gpu *gpu)
{
    if (atomic_exchange(&gpu->pinned.lost, true))
        return;
    if (gpu->pinned.pool)
        held_add(registrations, -(int64_t)pool_forget(gpu->pinned.pool));
    forget_natives(gpu);
}

uint64_t pinned_registrations(void)
{
    struct pool_usage usage;
    uint64_t sum = 0;
    struct gpu *gpu;

    for (unsigned i = 0; (gpu = gpu_at(i)); i++) {
        if (!gpu->pinned.pool)
            continue;
        pool_usage(gpu->pinned.pool, &usage);
        sum += usage.registrations;
    }
    return sum;
}

uint64_t pinned_host_allocations(void)
{
    uint64_t count;

    pthread_mutex_lock(&native_lock);
    count = HASH_COUNT(natives);
    pthread_mutex_unlock(&native_lock);
    return count;
}

void pinned_put_json(struct text *text, struct gpu *gpu)
{
    enum { NODES = 64 };
    struct pool_usage usage = {0};
    unsigned pages_on[NODES] = {0};
    const char *separator = "";

    if (gpu->pinned.pool) {
        pool_usage(gpu->pinned.pool, &usage);
        pool_where(gpu->pinned.pool, pages_on, NODES);
    }
    text_put(
        text,
        "\"pool_bytes\": %llu, \"pool_idle_bytes\": %llu, \"pool_asked_bytes\": %llu, \"pool_made\": %llu, "
        "\"pool_reused\": %llu, \"numa_node\": %d, \"numa_pages\": {",
        (unsigned long long)usage.pinned, (unsigned long long)usage.idle, (unsigned long long)usage.asked,
        (unsigned long long)usage.made, (unsigned long long)usage.reused, gpu->pinned.node);
    for (unsigned node = 0; node < NODES; node++) {
        if (!pages_on[node])
            continue;
        text_put(text, "%s\"%u\": %u", separator, node, pages_on[node]);
        separator = ", ";
    }
    text_put(text, "}, \"numa_handle_node\": %d", gpu->ops.host_create ? gpu->host_location.id : -1);
}

void pinned_put_account(struct text *text)
{
    const struct budget *budget = pinned_budget();

    text_put(text,
             ",\n  \"pinned_bytes\": %llu,\n  \"peak_pinned_bytes\": %llu,\n  \"pinned_limit\": %llu,\n"
             "  \"own_bytes\": %llu",
             (unsigned long long)atomic_load(&budget->pinned), (unsigned long long)atomic_load(&budget->peak),
             (unsigned long long)atomic_load(&budget->limit), (unsigned long long)memory_own_bytes());
}
