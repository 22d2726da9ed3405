/*
 * graph_exec.c - executable graphs: from instantiation to destruction, and the order of their launches.
 *
 * What cannot be kept makes the graph unknown: it is then launched as a whole and taken to touch anything.
 */
#include "hooks/graph.h"
#include "hooks/held.h"
#include "hooks/retry.h"
#include "hooks/window.h"
#include <pthread.h>

/* Protects the table, and of each record what is said of its last launch: a stream that another thread
 * destroys may have had it. Leaf; events are made and recorded with it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct exec *execs;
struct exec *exec_find(CUgraphExec handle)
{
    struct exec *exec;

    pthread_mutex_lock(&lock);
    HASH_FIND_PTR(execs, &handle, exec);
    pthread_mutex_unlock(&lock);
    return exec;
}

void exec_refresh(struct exec *exec)
{
    if (!exec->changed)
        return;
    exec->changed = false;
    exec->opaque = exec->open = exec->program == NULL;
    if (exec->program)
        program_kind(exec->program, &exec->opaque, &exec->open);
    exec->named = exec->program && names_read(&exec->names, exec->program);
}

void exec_forget_program(struct exec *exec)
{
    HASH_CLEAR(hh, exec->nodes);
    program_free(exec->program);
    exec->program = NULL;
    exec->changed = true;
}

unsigned exec_events(void)
{
    const struct exec *exec, *next;
    unsigned count = 0;

    pthread_mutex_lock(&lock);
    HASH_ITER(hh, execs, exec, next)
    count += exec->event != NULL;
    pthread_mutex_unlock(&lock);
    return count;
}

static void forget(CUgraphExec handle)
{
    struct exec *exec;

    pthread_mutex_lock(&lock);
    HASH_FIND_PTR(execs, &handle, exec);
    if (exec)
        HASH_DEL(execs, exec);
    pthread_mutex_unlock(&lock);
    if (!exec)
        return;
    exec_forget_program(exec);
    names_fini(&exec->names);
    if (exec->event)
        held_destroy_event(exec->event);
    free(exec);
}

/* Without a record a graph is unknown, as one is that cannot be read. */
static void instantiated(CUgraphExec handle, CUgraph graph, unsigned long long flags)
{
    struct exec *exec;

    if (shim_mode() != SHIM_ON)
        return;
    forget(handle); /* handles are given out again */
    exec = calloc(1, sizeof *exec);
    if (!exec)
        return;
    exec->handle = handle;
    exec->changed = true;
    exec->priorities = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) != 0;
    /* One that kernels may launch could run when nobody here knows. */
    if (!(flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) &&
        program_read(graph, exec->priorities, &exec->program) == 0) {
        program_mark_events(exec->program);
        program_enter(exec->program, &exec->nodes);
    }
    pthread_mutex_lock(&lock);
    HASH_ADD_PTR(execs, handle, exec);
    pthread_mutex_unlock(&lock);
}

/* ---- order between launches ---- */

/* Locked. What is held for the stream was submitted. Event and stream are to be of one context
 * (cuEventRecord).
 */
static CUresult record(struct exec *exec)
{
    struct gpu *gpu = gpu_at(0);
    bool entered = gpu && gpu_enter(gpu);
    CUresult status = CUDA_SUCCESS;
    CUevent made;

    if (!exec->event) {
        status = hbmspill_real.cuEventCreate(&made, CU_EVENT_DISABLE_TIMING);
        if (status == CUDA_SUCCESS) {
            held_add(events, 1);
            exec->event = made;
        }
    }
    if (status == CUDA_SUCCESS)
        status = hbmspill_real.cuEventRecord(exec->event, exec->stream);
    exec->recorded = status == CUDA_SUCCESS;
    gpu_leave(entered);
    return status;
}

static bool to_record(const struct exec *exec)
{
    return exec->launched && !exec->recorded;
}

CUresult exec_record(struct exec *exec)
{
    CUresult status = CUDA_SUCCESS;
    CUstream stream;
    bool missing;

    pthread_mutex_lock(&lock);
    missing = to_record(exec);
    stream = exec->stream;
    pthread_mutex_unlock(&lock);
    if (!missing)
        return CUDA_SUCCESS;
    status = window_submit_for(stream);
    if (status != CUDA_SUCCESS)
        return status;
    pthread_mutex_lock(&lock);
    if (to_record(exec)) /* not by exec_record_all meanwhile */
        status = record(exec);
    pthread_mutex_unlock(&lock);
    return status;
}

void exec_launched(struct exec *exec, CUstream stream, bool singly)
{
    pthread_mutex_lock(&lock);
    exec->launched = true;
    exec->singly = singly;
    exec->stream = stream;
    exec->recorded = false;
    pthread_mutex_unlock(&lock);
}

void exec_completed(struct exec *exec)
{
    pthread_mutex_lock(&lock);
    exec->launched = false;
    pthread_mutex_unlock(&lock);
}

/* The driver sees to it where both are whole. A thread's own default stream is another one in each thread. */
bool exec_comes_after(const struct exec *exec, CUstream stream, bool singly)
{
    bool after;

    pthread_mutex_lock(&lock);
    after = exec->launched && (singly || exec->singly) &&
            (exec->stream != stream || stream == CU_STREAM_PER_THREAD);
    pthread_mutex_unlock(&lock);
    return after;
}

/*
 * By a thread that need not be the graphs' user, but not while they are launched in these streams. Where no
 * event can be had the work is waited for.
 */
void exec_record_all(bool any, CUstream stream)
{
    struct exec *exec, *next;
    bool failed = false;

    pthread_mutex_lock(&lock);
    HASH_ITER(hh, execs, exec, next)
    {
        if (!to_record(exec) || !(any || exec->stream == stream) || record(exec) == CUDA_SUCCESS)
            continue;
        exec->launched = false;
        failed = true;
    }
    pthread_mutex_unlock(&lock);
    if (failed)
        (void)hbmspill_real.cuCtxSynchronize();
}

/* ---- hooks ---- */

#define INSTANTIATED(call, flags) NOTED(RETRY_AFTER_ROOM(0, call), instantiated(*exec, graph, flags))

/* The plain name: the first version. */
CUresult hook_cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *error, char *log, size_t size)
{
    return INSTANTIATED(hbmspill_real.cuGraphInstantiate(exec, graph, error, log, size), 0);
}

CUresult hook_cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error, char *log,
                                    size_t size)
{
    return INSTANTIATED(hbmspill_real.cuGraphInstantiate_v2(exec, graph, error, log, size), 0);
}

CUresult hook_cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    return INSTANTIATED(hbmspill_real.cuGraphInstantiateWithFlags(exec, graph, flags), flags);
}

CUresult hook_cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    return INSTANTIATED(hbmspill_real.cuGraphInstantiateWithParams(exec, graph, params), params->flags);
}

CUresult hook_cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph,
                                                CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    return INSTANTIATED(hbmspill_real.cuGraphInstantiateWithParams_ptsz(exec, graph, params), params->flags);
}

CUresult hook_cuGraphExecDestroy(CUgraphExec exec)
{
    if (shim_active())
        forget(exec);
    return hbmspill_real.cuGraphExecDestroy(exec);
}
