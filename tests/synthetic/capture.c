/*
 * capture.c - stream capture: work put into a capturing stream becomes nodes of a graph ("Stream Management",
 * cuStreamBeginCapture and following).
 *
 * A capture has an origin stream; other streams join it by waiting for an event recorded in it. Each stream
 * knows the nodes its next one depends on. A forbidden call invalidates the capture; it ends with an error at
 * cuStreamEndCapture.
 */
#include "capture.h"
#include "event.h"
#include "graph.h"

#include <stdlib.h>
#include <string.h>

struct capture {
    uint64_t id;
    CUstreamCaptureMode mode;
    struct CUstream_st *origin;
    pthread_t thread;
    CUgraph graph;
    bool to_graph; /* the application's own graph */
    bool invalid;
    size_t first; /* nodes of graph before the capture */
    CUevent *events;
    size_t event_count;
    struct capture *next;
};

static struct capture *captures;
static uint64_t next_capture_id = 1;
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

/* Potentially unsafe calls: forbidden in a thread whose mode is GLOBAL while any global capture goes on, and,
 * unless its mode is RELAXED, while a capture that is not relaxed was begun by the thread itself. */
bool capture_forbids(void)
{
    bool forbids = false;
    if (!__atomic_load_n(&captures, __ATOMIC_ACQUIRE) || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    driver_acquire();
    for (struct capture *c = captures; c; c = c->next) {
        bool own = pthread_equal(c->thread, pthread_self()) && c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
        bool global =
            c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (own || global) {
            c->invalid = true;
            forbids = true;
        }
    }
    driver_release();
    return forbids;
}

bool capture_blocks_legacy_locked(CUcontext ctx)
{
    bool blocks = false;
    for (struct CUstream_st *s = ctx->streams; s && captures; s = s->next) {
        if (s->capture && !(s->flags & CU_STREAM_NON_BLOCKING)) {
            s->capture->invalid = true;
            blocks = true;
        }
    }
    return blocks;
}

void capture_invalidate_locked(struct capture *capture)
{
    capture->invalid = true;
}

static void set_frontier(struct CUstream_st *stream, struct CUgraphNode_st **nodes, size_t count)
{
    free(stream->frontier);
    stream->frontier = nodes;
    stream->frontier_count = count;
}

static bool copy_frontier(struct CUstream_st *stream, CUgraphNode const *nodes, size_t count)
{
    struct CUgraphNode_st **copy = malloc((count + 1) * sizeof(CUgraphNode));
    if (!copy)
        return false;
    if (count)
        memcpy(copy, nodes, count * sizeof(CUgraphNode));
    set_frontier(stream, copy, count);
    return true;
}

void capture_event_forget_locked(CUevent event)
{
    struct capture *capture = event->capture;
    free(event->nodes);
    event->nodes = NULL;
    event->node_count = 0;
    event->capture = NULL;
    for (size_t i = 0; capture && i < capture->event_count; i++)
        if (capture->events[i] == event)
            capture->events[i] = NULL;
}

/* Ends it for all streams and events that took part. */
static void capture_end_locked(struct capture *capture)
{
    for (int d = 0; d < device_count; d++) {
        for (CUcontext ctx = devices[d].contexts; ctx; ctx = ctx->next) {
            for (struct CUstream_st *s = ctx->streams; s; s = s->next) {
                if (s->capture != capture)
                    continue;
                s->capture = NULL;
                set_frontier(s, NULL, 0);
            }
        }
    }
    for (size_t i = 0; i < capture->event_count; i++)
        if (capture->events[i])
            capture_event_forget_locked(capture->events[i]);
    for (struct capture **link = &captures; *link; link = &(*link)->next) {
        if (*link == capture) {
            *link = capture->next;
            break;
        }
    }
    free(capture->events);
    free(capture);
}

void capture_abandon_locked(struct CUstream_st *stream)
{
    struct capture *capture = stream->capture;
    capture->invalid = true;
    if (capture->origin == stream) {
        CUgraph graph = capture->to_graph ? NULL : capture->graph;
        capture_end_locked(capture);
        if (graph)
            graph_destroy_locked(graph);
    }
    stream->capture = NULL;
    set_frontier(stream, NULL, 0);
}

/* ---- work becomes nodes ---- */

static CUDA_MEMCPY3D box_of(const struct copy_work *copy)
{
    return (CUDA_MEMCPY3D){
        .srcMemoryType = copy->src_place == PLACE_DEVICE ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
        .srcHost = (const void *)(uintptr_t)copy->src,
        .srcDevice = copy->src,
        .srcPitch = copy->src_pitch,
        .srcHeight = copy->src_pitch ? copy->src_slice / copy->src_pitch : 0,
        .dstMemoryType = copy->dst_place == PLACE_DEVICE ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
        .dstHost = (void *)(uintptr_t)copy->dst,
        .dstDevice = copy->dst,
        .dstPitch = copy->dst_pitch,
        .dstHeight = copy->dst_pitch ? copy->dst_slice / copy->dst_pitch : 0,
        .WidthInBytes = copy->width,
        .Height = copy->height,
        .Depth = copy->depth,
    };
}

static CUgraphNodeParams params_of(const struct work *work, CUcontext ctx)
{
    const struct kernel_work *k = &work->kernel;
    const struct memset_work *m = &work->memset;
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    switch (work->kind) {
    case WORK_KERNEL:
        params.type = CU_GRAPH_NODE_TYPE_KERNEL;
        params.kernel = (CUDA_KERNEL_NODE_PARAMS_v3){.func = k->function,
                                                     .gridDimX = k->grid[0],
                                                     .gridDimY = k->grid[1],
                                                     .gridDimZ = k->grid[2],
                                                     .blockDimX = k->block[0],
                                                     .blockDimY = k->block[1],
                                                     .blockDimZ = k->block[2],
                                                     .sharedMemBytes = k->shared,
                                                     .ctx = ctx};
        break;
    case WORK_COPY:
        params.type = CU_GRAPH_NODE_TYPE_MEMCPY;
        params.memcpy = (CUDA_MEMCPY_NODE_PARAMS){.copyCtx = ctx, .copyParams = box_of(&work->copy)};
        break;
    case WORK_MEMSET:
        params.type = CU_GRAPH_NODE_TYPE_MEMSET;
        params.memset = (CUDA_MEMSET_NODE_PARAMS_v2){.dst = m->dst,
                                                     .pitch = m->pitch,
                                                     .value = m->value,
                                                     .elementSize = m->element,
                                                     .width = m->width,
                                                     .height = m->height,
                                                     .ctx = ctx};
        break;
    case WORK_HOST:
        params.type = CU_GRAPH_NODE_TYPE_HOST;
        params.host = (CUDA_HOST_NODE_PARAMS_v2){.fn = work->host.function, .userData = work->host.data};
        break;
    default:
        break;
    }
    return params;
}

CUresult capture_add_locked(struct CUstream_st *stream, struct work *work)
{
    struct capture *capture = stream->capture;
    CUresult result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (capture->invalid)
        goto fail;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (work->kind != WORK_KERNEL && work->kind != WORK_COPY && work->kind != WORK_MEMSET &&
        work->kind != WORK_HOST && work->kind != WORK_EMPTY) {
        capture->invalid = true;
        goto fail;
    }
    result = CUDA_ERROR_OUT_OF_MEMORY;
    CUgraphNodeParams params = params_of(work, stream->ctx);
    CUgraphNode node =
        graph_append_locked(capture->graph, params.type, stream->frontier, NULL, stream->frontier_count);
    if (!node)
        goto fail;
    node->params = params;
    node->work = *work;
    work->kind = WORK_EMPTY; /* taken over */
    if (!copy_frontier(stream, &node, 1))
        goto fail;
    return CUDA_SUCCESS;
fail:
    work_clear(work);
    return result;
}

CUresult capture_record_event_locked(struct CUstream_st *stream, CUevent event)
{
    struct capture *capture = stream->capture;
    if (capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    struct CUgraphNode_st **nodes = malloc((stream->frontier_count + 1) * sizeof(CUgraphNode));
    CUevent *events = realloc(capture->events, (capture->event_count + 1) * sizeof(CUevent));
    if (events)
        capture->events = events;
    if (!nodes || !events) {
        free(nodes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (stream->frontier_count)
        memcpy(nodes, stream->frontier, stream->frontier_count * sizeof(CUgraphNode));
    capture_event_forget_locked(event);
    if (event->op)
        op_unref_locked(event->op);
    event->op = NULL;
    event->capture = capture;
    event->nodes = nodes;
    event->node_count = stream->frontier_count;
    events[capture->event_count++] = event;
    return CUDA_SUCCESS;
}

CUresult capture_wait_event_locked(struct CUstream_st *stream, CUevent event)
{
    struct capture *capture = event->capture;
    if (stream->capture && stream->capture != capture) {
        stream->capture->invalid = capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (stream->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    size_t have = stream->capture ? stream->frontier_count : 0, n = have;
    struct CUgraphNode_st **nodes = malloc((have + event->node_count + 1) * sizeof(CUgraphNode));
    if (!nodes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (have)
        memcpy(nodes, stream->frontier, have * sizeof(CUgraphNode));
    for (size_t i = 0; i < event->node_count; i++) {
        size_t k = 0;
        while (k < n && nodes[k] != event->nodes[i])
            k++;
        if (k == n)
            nodes[n++] = event->nodes[i];
    }
    stream->capture = capture;
    set_frontier(stream, nodes, n);
    return CUDA_SUCCESS;
}

/* ---- the API ---- */

static CUresult begin(CUstream handle, CUstreamCaptureMode mode, CUgraph graph, const CUgraphNode *deps,
                      size_t dep_count)
{
    struct CUstream_st *stream;
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    CUresult result = stream_resolve_locked(handle, &stream);
    if (result == CUDA_SUCCESS && stream->legacy) /* "not the legacy stream" */
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (result == CUDA_SUCCESS && stream->capture)
        result = CUDA_ERROR_ILLEGAL_STATE;
    if (result != CUDA_SUCCESS)
        goto out;
    struct capture *capture = calloc(1, sizeof(*capture));
    result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!capture)
        goto out;
    capture->graph = graph ? graph : graph_new_locked();
    if (!capture->graph || !copy_frontier(stream, deps, dep_count)) {
        if (!graph && capture->graph)
            graph_destroy_locked(capture->graph);
        free(capture);
        goto out;
    }
    capture->to_graph = graph != NULL;
    capture->id = next_capture_id++;
    capture->mode = mode;
    capture->origin = stream;
    capture->thread = pthread_self();
    capture->first = capture->graph->count;
    capture->next = captures;
    stream->capture = capture;
    __atomic_store_n(&captures, capture, __ATOMIC_RELEASE);
    result = CUDA_SUCCESS;
out:
    driver_release();
    return result;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    API_ENTER(API_CONTEXT);
    return begin(stream, mode, NULL, NULL, 0);
}

CUresult cuStreamBeginCapture(CUstream stream)
{
    API_ENTER(API_CONTEXT);
    return begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL, NULL, NULL, 0);
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *deps,
                                     const CUgraphEdgeData *edges, size_t dep_count, CUstreamCaptureMode mode)
{
    API_ENTER(API_CONTEXT);
    (void)edges; /* plain ones; others mean programmatic launches, which only allow an overlap */
    if (!object_valid(graph, OBJECT_GRAPH) || (dep_count && !deps) || !graph_has_all(graph, deps, dep_count))
        return CUDA_ERROR_INVALID_VALUE;
    return begin(stream, mode, graph, deps, dep_count);
}

static void mark(const struct CUgraphNode_st *node, bool *reached)
{
    if (reached[node->index])
        return;
    reached[node->index] = true;
    for (size_t d = 0; d < node->dep_count; d++)
        mark(node->deps[d], reached);
}

/* Every captured node must lead to the origin stream's end, or a stream was forked and not joined. */
static bool joined(const struct capture *capture)
{
    const struct CUstream_st *origin = capture->origin;
    bool *reached = calloc(capture->graph->count + 1, sizeof(*reached)), all = reached != NULL;
    for (size_t i = 0; all && i < origin->frontier_count; i++)
        mark(origin->frontier[i], reached);
    for (size_t i = capture->first; all && i < capture->graph->count; i++)
        all = reached[i];
    free(reached);
    return all;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *out)
{
    API_ENTER(API_CONTEXT);
    struct CUstream_st *stream;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    CUresult result = stream_resolve_locked(handle, &stream);
    struct capture *capture = result == CUDA_SUCCESS ? stream->capture : NULL;
    if (result != CUDA_SUCCESS)
        goto out;
    result = CUDA_ERROR_ILLEGAL_STATE;
    if (!capture)
        goto out;
    result = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (capture->origin != stream)
        goto out;
    /* "If the mode is not RELAXED, cuStreamEndCapture must be called from the same thread" */
    result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(capture->thread, pthread_self()))
        goto out;
    CUgraph graph = capture->graph;
    bool own = !capture->to_graph;
    result = capture->invalid   ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
             : !joined(capture) ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                                : CUDA_SUCCESS;
    capture_end_locked(capture);
    if (result != CUDA_SUCCESS && own)
        graph_destroy_locked(graph);
    *out = result == CUDA_SUCCESS ? graph : NULL;
out:
    driver_release();
    return result;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
    API_ENTER(API_CONTEXT);
    struct CUstream_st *stream;
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    CUresult result = stream_resolve_locked(handle, &stream);
    if (result == CUDA_SUCCESS && stream->legacy && capture_blocks_legacy_locked(stream->ctx))
        result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (result == CUDA_SUCCESS)
        *status = !stream->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
                  : stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                             : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    driver_release();
    return result;
}

CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id,
                                   CUgraph *graph, const CUgraphNode **deps, const CUgraphEdgeData **edges,
                                   size_t *count)
{
    API_ENTER(API_CONTEXT);
    struct CUstream_st *stream;
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    CUresult result = stream_resolve_locked(handle, &stream);
    if (result != CUDA_SUCCESS)
        goto out;
    struct capture *capture = stream->capture;
    *status = !capture           ? CU_STREAM_CAPTURE_STATUS_NONE
              : capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                 : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (!capture || capture->invalid)
        goto out;
    if (id)
        *id = capture->id;
    if (graph)
        *graph = capture->graph;
    if (deps)
        *deps = stream->frontier;
    if (edges)
        *edges = NULL;
    if (count)
        *count = stream->frontier_count;
out:
    driver_release();
    return result;
}

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                                   CUgraph *graph, const CUgraphNode **deps, size_t *count)
{
    return cuStreamGetCaptureInfo_v3(stream, status, id, graph, deps, NULL, count);
}

CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id)
{
    return cuStreamGetCaptureInfo_v3(stream, status, id, NULL, NULL, NULL, NULL);
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream handle, CUgraphNode *deps,
                                              const CUgraphEdgeData *edges, size_t count, unsigned int flags)
{
    API_ENTER(API_CONTEXT);
    struct CUstream_st *stream;
    (void)edges;
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (count && !deps))
        return CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    CUresult result = stream_resolve_locked(handle, &stream);
    if (result == CUDA_SUCCESS && !stream->capture)
        result = CUDA_ERROR_ILLEGAL_STATE;
    if (result == CUDA_SUCCESS && stream->capture->invalid)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (result == CUDA_SUCCESS && !graph_has_all(stream->capture->graph, deps, count))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        size_t have = flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES ? stream->frontier_count : 0;
        struct CUgraphNode_st **nodes = malloc((have + count + 1) * sizeof(CUgraphNode));
        if (nodes) {
            if (have)
                memcpy(nodes, stream->frontier, have * sizeof(CUgraphNode));
            if (count)
                memcpy(nodes + have, deps, count * sizeof(CUgraphNode));
            set_frontier(stream, nodes, have + count);
        } else {
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    driver_release();
    return result;
}

CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *deps, size_t count,
                                           unsigned int flags)
{
    return cuStreamUpdateCaptureDependencies_v2(stream, deps, NULL, count, flags);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    API_ENTER(0);
    if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode old = thread_mode;
    thread_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}
