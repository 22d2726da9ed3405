/*
 * graph_launch.c - launches of executable graphs.
 *
 * As a whole a graph needs in device memory at once what all its nodes touch, and what is moved for it is
 * waited for before its first node. So while memory is plenty it is launched as it is; once memory was short,
 * or where not all of it fits, its nodes are launched one by one in the stream of the launch, by the hooks
 * that the job's own calls go through. One stream is an order that the graph's edges allow ("nodes may be
 * scheduled at any time once their dependencies have completed"), and what was to run at once runs one after
 * the other.
 *
 * A launch that fails before its first node was taken left nothing behind; one that fails later cannot be
 * taken back, and no call succeeds after it (window_fail).
 */
#include "hooks/behind.h"
#include "hooks/capture.h"
#include "hooks/counters.h"
#include "hooks/graph.h"
#include "hooks/operation.h"
#include "hooks/retry.h"
#include "hooks/trace.h"
#include "hooks/window.h"
#include <stdio.h>

static CUresult launch_kernel(const struct program_kernel *kernel, CUstream stream)
{
    CUlaunchConfig config = {.gridDimX = kernel->grid[0],
                             .gridDimY = kernel->grid[1],
                             .gridDimZ = kernel->grid[2],
                             .blockDimX = kernel->block[0],
                             .blockDimY = kernel->block[1],
                             .blockDimZ = kernel->block[2],
                             .sharedMemBytes = kernel->shared,
                             .hStream = stream,
                             .attrs = kernel->attributes,
                             .numAttrs = kernel->attribute_count};
    void *few[64], **params = few;
    CUresult status;

    if (kernel->count > 64 && !(params = malloc(kernel->count * sizeof *params)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; i < kernel->count; i++)
        params[i] = kernel->bytes + kernel->params[i].offset;
    if (kernel->attribute_count)
        status = hook_cuLaunchKernelEx(&config, kernel->function, params, NULL);
    else
        status = hook_cuLaunchKernel(kernel->function, config.gridDimX, config.gridDimY, config.gridDimZ,
                                     config.blockDimX, config.blockDimY, config.blockDimZ,
                                     config.sharedMemBytes, stream, params, NULL);
    if (params != few)
        free(params);
    return status;
}

/* Whether a copy is of one row in linear memory, and where that starts on either side. */
static bool one_row(const CUDA_MEMCPY3D *copy, CUdeviceptr *dst, CUdeviceptr *src)
{
    if (copy->Height != 1 || copy->Depth != 1 || copy->srcMemoryType == CU_MEMORYTYPE_ARRAY ||
        copy->dstMemoryType == CU_MEMORYTYPE_ARRAY || copy->srcY || copy->srcZ || copy->dstY || copy->dstZ)
        return false;
    *src = (copy->srcMemoryType == CU_MEMORYTYPE_HOST ? (uintptr_t)copy->srcHost : copy->srcDevice) +
           copy->srcXInBytes;
    *dst = (copy->dstMemoryType == CU_MEMORYTYPE_HOST ? (uintptr_t)copy->dstHost : copy->dstDevice) +
           copy->dstXInBytes;
    return true;
}

static enum tape_copy form_of(const CUDA_MEMCPY3D *copy)
{
    if (copy->dstMemoryType == CU_MEMORYTYPE_HOST)
        return TAPE_TO_HOST;
    return copy->srcMemoryType == CU_MEMORYTYPE_HOST ? TAPE_TO_DEVICE : TAPE_INSIDE;
}

/* One row goes as a plain copy, which can be held and served in the host tier. */
static CUresult launch_copy(const CUDA_MEMCPY3D *copy, CUstream stream)
{
    CUdeviceptr dst, src;

    if (!copy->WidthInBytes || !copy->Height || !copy->Depth)
        return CUDA_SUCCESS;
    if (!one_row(copy, &dst, &src))
        return hook_cuMemcpy3DAsync_v2(copy, stream);
    if (copy->srcMemoryType == CU_MEMORYTYPE_DEVICE && copy->dstMemoryType == CU_MEMORYTYPE_DEVICE)
        return hook_cuMemcpyDtoDAsync_v2(dst, src, copy->WidthInBytes, stream);
    return hook_cuMemcpyAsync(dst, src, copy->WidthInBytes, stream);
}

static CUresult launch_memset(const CUDA_MEMSET_NODE_PARAMS *set, CUstream stream)
{
    if (!set->width || !set->height)
        return CUDA_SUCCESS;
    switch (set->elementSize) {
    case 1:
        return set->height == 1
                   ? hook_cuMemsetD8Async(set->dst, (unsigned char)set->value, set->width, stream)
                   : hook_cuMemsetD2D8Async(set->dst, set->pitch, (unsigned char)set->value, set->width,
                                            set->height, stream);
    case 2:
        return set->height == 1
                   ? hook_cuMemsetD16Async(set->dst, (unsigned short)set->value, set->width, stream)
                   : hook_cuMemsetD2D16Async(set->dst, set->pitch, (unsigned short)set->value, set->width,
                                             set->height, stream);
    default:
        return set->height == 1 ? hook_cuMemsetD32Async(set->dst, set->value, set->width, stream)
                                : hook_cuMemsetD2D32Async(set->dst, set->pitch, set->value, set->width,
                                                          set->height, stream);
    }
}

/* *done: nodes that were taken, of those that do anything. */
static CUresult launch_nodes(const struct program *program, CUstream stream, unsigned *done)
{
    CUresult status = CUDA_SUCCESS;

    for (unsigned i = 0; i < program->count && status == CUDA_SUCCESS; i++) {
        const struct program_node *node = &program->nodes[i];

        if (node->disabled || node->type == CU_GRAPH_NODE_TYPE_EMPTY)
            continue;
        switch (node->type) {
        case CU_GRAPH_NODE_TYPE_KERNEL:
            status = launch_kernel(&node->kernel, stream);
            break;
        case CU_GRAPH_NODE_TYPE_MEMCPY:
            status = launch_copy(&node->copy, stream);
            break;
        case CU_GRAPH_NODE_TYPE_MEMSET:
            status = launch_memset(&node->set, stream);
            break;
        case CU_GRAPH_NODE_TYPE_HOST:
            status = hook_cuLaunchHostFunc(stream, node->host.fn, node->host.userData);
            break;
        case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
            status = hook_cuEventRecord(node->event, stream);
            break;
        case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
            status = hook_cuStreamWaitEvent(stream, node->event, CU_EVENT_WAIT_DEFAULT);
            break;
        default: /* a child: no other kind is in a program that is launched so */
            status = launch_nodes(node->bodies[0], stream, done);
            continue;
        }
        *done += status == CUDA_SUCCESS;
    }
    return status;
}

/*
 * Whether each node can be had in device memory: what cannot is refused before the first one runs. Copies
 * of one row need not be.
 */
static CUresult check_nodes(const struct program *program, struct gpu *gpu, CUstream stream)
{
    CUresult status = CUDA_SUCCESS;

    for (unsigned i = 0; i < program->count && status == CUDA_SUCCESS; i++) {
        const struct program_node *node = &program->nodes[i];
        struct operation operation;
        struct touches touches;
        CUdeviceptr dst, src;
        char what[160];

        if (node->type == CU_GRAPH_NODE_TYPE_GRAPH)
            status = check_nodes(node->bodies[0], gpu, stream);
        if (node->disabled ||
            (node->type != CU_GRAPH_NODE_TYPE_KERNEL && node->type != CU_GRAPH_NODE_TYPE_MEMSET &&
             node->type != CU_GRAPH_NODE_TYPE_MEMCPY) ||
            (node->type == CU_GRAPH_NODE_TYPE_MEMCPY && one_row(&node->copy, &dst, &src)))
            continue;
        touches_init(&touches);
        program_node_touches(node, &touches);
        if (!touches.failed && cache_op_fits(gpu->cache, touches.touch, touches.count)) {
            touches_fini(&touches);
            continue;
        }
        /* Said, and refused, as any launch that does not fit. */
        snprintf(what, sizeof what, "%s of a graph",
                 node->type == CU_GRAPH_NODE_TYPE_KERNEL ? kernel_find(node->kernel.function).name
                                                         : "a copy or memset");
        status = operation_begin(&operation, &touches, stream, false, false, what);
        if (status == CUDA_SUCCESS)
            operation_end(&operation, CUDA_ERROR_UNKNOWN);
    }
    return status;
}

/* The stream comes after an earlier launch in another one. */
static CUresult follow(struct exec *exec, CUstream stream, bool singly)
{
    CUresult status;

    if (!exec_comes_after(exec, stream, singly))
        return CUDA_SUCCESS;
    status = exec_record(exec);
    if (status != CUDA_SUCCESS || !exec->event) /* none: it was waited for meanwhile */
        return status;
    return hook_cuStreamWaitEvent(stream, exec->event, CU_EVENT_WAIT_DEFAULT);
}

/* A thread's own default stream can be named only there, and one that may be captured takes no event later.
 */
static void launched(struct exec *exec, CUstream stream, bool singly)
{
    exec_launched(exec, stream, singly);
    if ((stream == CU_STREAM_PER_THREAD || atomic_load_explicit(&captures_active, memory_order_relaxed)) &&
        exec_record(exec) != CUDA_SUCCESS) {
        (void)hbmspill_real.cuStreamSynchronize(stream);
        exec_completed(exec);
    }
}

static CUresult launch_singly(struct exec *exec, struct gpu *gpu, CUstream stream)
{
    CUresult status = check_nodes(exec->program, gpu, stream);
    unsigned done = 0;

    if (status == CUDA_SUCCESS)
        status = follow(exec, stream, true);
    if (status != CUDA_SUCCESS)
        return status;
    status = launch_nodes(exec->program, stream, &done);
    if (status == CUDA_SUCCESS)
        launched(exec, stream, true);
    else if (done)
        window_fail(status);
    return status;
}

/*
 * A trace has the nodes though they are launched together, since with less memory they would not be. stream:
 * CU_STREAM_PER_THREAD names a thread's own.
 */
static void trace_nodes(const struct program *program, CUstream stream)
{
    for (unsigned i = 0; i < program->count; i++) {
        const struct program_node *node = &program->nodes[i];
        struct touches touches;
        CUdeviceptr dst, src;

        if (node->disabled)
            continue;
        touches_init(&touches);
        program_node_touches(node, &touches);
        switch (node->type) {
        case CU_GRAPH_NODE_TYPE_KERNEL:
            trace_launch(TAPE_LAUNCH, kernel_find(node->kernel.function).name, &touches, stream, false);
            break;
        case CU_GRAPH_NODE_TYPE_MEMCPY:
            if (one_row(&node->copy, &dst, &src))
                trace_copy(dst, src, node->copy.WidthInBytes, stream, false, false, form_of(&node->copy));
            else
                trace_other("cuMemcpy3DAsync_v2", &touches, stream, false);
            break;
        case CU_GRAPH_NODE_TYPE_MEMSET:
            if (node->set.height == 1)
                trace_memset(node->set.dst, stream);
            else
                trace_other("cuMemsetD2D32Async", &touches, stream, false);
            break;
        case CU_GRAPH_NODE_TYPE_HOST:
            trace_host_function(stream, false);
            break;
        case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
            trace_submit(&stream, false);
            break;
        case CU_GRAPH_NODE_TYPE_GRAPH:
            trace_nodes(node->bodies[0], stream);
            break;
        default:
            break;
        }
        touches_fini(&touches);
    }
}

/* Its memory is all one gpu's, in whose context the launch is made. */
static bool may_go_singly(const struct exec *exec, const struct touches *touches)
{
    CUcontext context;

    return exec && !exec->opaque && !exec->open && touches->gpu && !touches->mixed && !touches->failed &&
           hbmspill_real.cuCtxGetCurrent(&context) == CUDA_SUCCESS && context == touches->gpu->context;
}

/* Whether a node may wait for another thread of the job. */
static bool program_waits(const struct program *program)
{
    bool waits = false;

    for (unsigned i = 0; i < program->count && !waits; i++) {
        const struct program_node *node = &program->nodes[i];

        switch (node->type) {
        case CU_GRAPH_NODE_TYPE_HOST:
        case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
        case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
            waits = true;
            break;
        case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
            waits = behind_event(node->event);
            break;
        case CU_GRAPH_NODE_TYPE_GRAPH:
        case CU_GRAPH_NODE_TYPE_CONDITIONAL:
            for (unsigned b = 0; b < node->body_count; b++)
                waits |= program_waits(node->bodies[b]);
            break;
        default:
            break;
        }
    }
    return waits;
}

/* exec: NULL where it is not known. stream: none that captures. */
static CUresult launch_whole(PFN_cuGraphLaunch_v10000 real, CUgraphExec handle, struct exec *exec,
                             CUstream stream)
{
    CUresult status = exec ? follow(exec, stream, false) : CUDA_SUCCESS;
    struct gpu *gpu = NULL;

    if (status == CUDA_SUCCESS && (!exec || !exec->program || program_waits(exec->program)))
        gpu = behind_begin(stream, false);
    if (status == CUDA_SUCCESS)
        status = RETRY_AFTER_ROOM(0, real(handle, stream));
    behind_end(gpu, stream, false);
    if (status == CUDA_SUCCESS && exec)
        launched(exec, stream, false);
    return status;
}

static CUresult launch(PFN_cuGraphLaunch_v10000 real, bool per_thread, CUgraphExec handle, struct exec *exec,
                       CUstream stream)
{
    CUstream named = per_thread && !stream ? CU_STREAM_PER_THREAD : stream;
    bool open = !exec || exec->open, singly;
    struct operation operation;
    struct touches touches;
    struct gpu *gpu;
    CUresult status;

    touches_init(&touches);
    if (!open && exec->named)
        names_touches(&exec->names, &touches);
    else if (!open)
        program_touches(exec->program, &touches);
    gpu = touches.gpu;
    singly = may_go_singly(exec, &touches);
    /* As a whole it would reach over the link what each of its nodes can have in device memory. */
    if (singly &&
        (cache_under_pressure(gpu->cache) || !cache_op_fits(gpu->cache, touches.touch, touches.count))) {
        touches_fini(&touches);
        return launch_singly(exec, gpu, named);
    }
    if (!singly)
        TRACE(trace_launch(open ? TAPE_OPEN : TAPE_OTHER, "a graph", &touches, stream, per_thread));
    /* Where it need not go as a whole, nothing is said if as a whole it does not fit. */
    status = operation_begin(&operation, &touches, stream, per_thread, open,
                             open     ? "an open graph"
                             : singly ? NULL
                                      : "a graph");
    if (status == CUDA_ERROR_OUT_OF_MEMORY && singly)
        return launch_singly(exec, gpu, named);
    if (status != CUDA_SUCCESS)
        return status;
    if (singly)
        TRACE(trace_nodes(exec->program, named));
    status = launch_whole(real, handle, exec, named);
    operation_end(&operation, status);
    return status;
}

static CUresult graph_launch(PFN_cuGraphLaunch_v10000 real, bool per_thread, CUgraphExec handle,
                             CUstream stream)
{
    CUstream named = per_thread && !stream ? CU_STREAM_PER_THREAD : stream;
    struct exec *exec;

    if (!shim_active())
        return real(handle, stream);
    count_add(graph_launches, 1);
    if (capture_graph(stream, per_thread)) /* it becomes a child, and is read as one */
        return real(handle, stream);
    exec = exec_find(handle);
    if (exec)
        exec_refresh(exec);
    return gpu_at(0) ? launch(real, per_thread, handle, exec, stream)
                     : launch_whole(real, handle, exec, named);
}

CUresult hook_cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    return graph_launch(hbmspill_real.cuGraphLaunch, false, exec, stream);
}

CUresult hook_cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream)
{
    return graph_launch(hbmspill_real.cuGraphLaunch_ptsz, true, exec, stream);
}
