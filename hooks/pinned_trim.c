/*
 * pinned_trim.c - idle pinned memory goes back to the system: after a time, where memory is short, on demand.
 *
 * Looked at from the hooks, since the library has no thread for it: a job that makes no CUDA call gives
 * nothing back meanwhile.
 */
#include "hooks/capture.h"
#include "hooks/gpu.h"
#include "pinned/system.h"
#include "shim/log.h"
#include "shim/options.h"
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#define MILLISECOND UINT64_C(1000000)
#define NEVER UINT64_MAX

/*
 * PSI's average is over ten seconds, so looking once a second misses nothing. A tenth of the time is what
 * systemd-oomd and others begin to act above; here it costs only that idle memory is pinned anew later.
 */
static const uint64_t look_every = 1000 * MILLISECOND;
static const double pressure_most = 10;

static _Atomic uint64_t next_look;
static volatile sig_atomic_t asked_for;

static void on_signal(int number)
{
    (void)number;
    asked_for = 1;
}

/* Where the job has a handler of its own, that stays. */
static void listen(void)
{
    struct sigaction action, present;

    if (options_get()->trim_signal != 1)
        return;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    if (sigaction(SIGUSR1, NULL, &present) || present.sa_handler != SIG_DFL ||
        sigaction(SIGUSR1, &action, NULL))
        log_warn(LOG_IN_HOST, "HBMSPILL_TRIM_SIGNAL=usr1: the job has a handler of its own, which stays");
}

static uint64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return (uint64_t)time.tv_sec * 1000 * MILLISECOND + (uint64_t)time.tv_nsec;
}

static void trim(uint64_t idle_for, const char *why)
{
    uint64_t gone = 0;
    struct gpu *gpu;

    for (unsigned i = 0; (gpu = gpu_at(i)); i++) {
        if (!gpu->pinned.pool)
            continue;
        if (!idle_for)
            cache_trim_host(gpu->cache);
        gone += pool_trim(gpu->pinned.pool, idle_for, UINT64_MAX);
    }
    if (gone)
        log_info(LOG_IN_HOST, "%s: %llu MiB of idle pinned memory given back", why,
                 (unsigned long long)(gone >> 20));
}

/* One thread at a time finds that it is time. */
static void look(uint64_t time)
{
    const struct options *options = options_get();
    uint64_t decay = options->host_decay * MILLISECOND;

    if (decay)
        trim(decay, "HBMSPILL_HOST_DECAY_MS");
    if (system_pressure(options->test_root.text) >= pressure_most)
        trim(0, "memory is short");
    atomic_store(&next_look, time + (decay && decay < look_every ? decay : look_every));
}

void pinned_tick(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    uint64_t due = atomic_load_explicit(&next_look, memory_order_relaxed), time;

    if (!gpu_at(0) || atomic_load_explicit(&captures_active, memory_order_relaxed))
        return;
    if (!due)
        pthread_once(&once, listen);
    if (asked_for) {
        asked_for = 0;
        trim(0, "SIGUSR1");
    }
    time = now();
    if (due != NEVER && time >= due && atomic_compare_exchange_strong(&next_look, &due, NEVER))
        look(time);
}
