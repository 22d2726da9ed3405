/*
 * lifecycle.c - what the hooks do when the process becomes active, forks and exits.
 *
 * At exit the driver may be gone already, so nothing is given back: the counters are read and said, no more.
 */
#include "hooks/admit.h"
#include "hooks/events.h"
#include "hooks/planner.h"
#include "hooks/report.h"
#include "hooks/trace.h"
#include "hooks/window.h"
#include "shim/log.h"
#include "shim/shim.h"

static atomic_uint handed_out;

void hooks_driver_ready(void)
{
    report_start();
    trace_begin();
    events_open();
    log_debug(LOG_IN_HOOKS, "the driver is ready; %u functions were handed out", atomic_load(&handed_out));
}

void hooks_intercepted(const char *name)
{
    log_trace(LOG_IN_HOOKS, "%s handed out", name);
    atomic_fetch_add_explicit(&handed_out, 1, memory_order_relaxed);
}

void hooks_exit(void)
{
    window_stop();
    admit_exit();
    trace_end();
    events_close();
    planner_exit();
    report_exit();
}

void hooks_fork_child(void)
{
}
