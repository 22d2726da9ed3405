/*
 * shim.c - the life of the process: constructor, first cuInit, fork, exit.
 *
 * The library is preloaded into every process of a job, most of which never use CUDA. The constructor
 * therefore does nothing that can be seen but set environment variables; messages wait for cuInit.
 */
#include "shim/shim.h"

#include "shim/environment.h"
#include "shim/loader.h"
#include "shim/log.h"
#include "shim/options.h"
#include "shim/ready.h"

#include <pthread.h>
#include <unistd.h>

_Static_assert((int)SHIM_OFF == (int)OPTION_MODE_OFF && (int)SHIM_OBSERVE == (int)OPTION_MODE_OBSERVE &&
                   (int)SHIM_ON == (int)OPTION_MODE_ON,
               "HBMSPILL's values are in the order of enum shim_mode");

atomic_int shim_state = SHIM_LOADED;

static pthread_once_t ready_once = PTHREAD_ONCE_INIT;
static pid_t active_pid;

enum shim_mode shim_mode(void)
{
    return (enum shim_mode)options_get()->mode;
}

bool shim_substitutes(void)
{
    return shim_mode() != SHIM_OFF && atomic_load_explicit(&shim_state, memory_order_relaxed) != SHIM_INERT;
}

enum shim_allocator shim_allocator(void)
{
    return environment_allocator();
}

double shim_memory_fraction(void)
{
    return environment_memory_fraction();
}

static void become_active(void)
{
    const struct options *options = options_get();
    const struct option_warnings *warnings = options_warnings();

    log_configure(options->log.level, options->log_file.text);
    for (unsigned int i = 0; i < warnings->count; i++)
        log_warn(LOG_IN_OPTIONS, "%s", warnings->text[i]);
    if (warnings->dropped)
        log_warn(LOG_IN_OPTIONS, "%u more complaints about HBMSPILL variables", warnings->dropped);
    environment_report();
    active_pid = getpid();
    hooks_driver_ready();
    atomic_store_explicit(&shim_state, SHIM_ACTIVE, memory_order_release);
}

void shim_driver_ready(void)
{
    if (shim_substitutes())
        pthread_once(&ready_once, become_active);
}

static void forked_child(void)
{
    log_fork_child();
    /* A fork before cuInit leaves a process that may use CUDA like any other. */
    if (atomic_load_explicit(&shim_state, memory_order_relaxed) != SHIM_ACTIVE)
        return;
    atomic_store_explicit(&shim_state, SHIM_INERT, memory_order_relaxed);
    hooks_fork_child();
}

__attribute__((constructor)) static void shim_load(void)
{
    environment_prepare(shim_mode() == SHIM_ON);
    pthread_atfork(NULL, NULL, forked_child);
}

/* Runs after every atexit handler; no driver call from here on. */
__attribute__((destructor)) static void shim_unload(void)
{
    if (!shim_active() || getpid() != active_pid) /* a child made by clone or vfork has no fork handlers */
        return;
    hooks_exit();
    environment_recheck();
    if (!function_substitutions())
        log_warn(LOG_IN_LOADER,
                 "the job initialised CUDA but asked for none of the functions that hbmspill handles: "
                 "nothing can be spilled");
    environment_warn_hidden();
    log_flush();
}
