/*
 * graph.c - the structure of graphs: nodes, dependencies, clones ("Graph Management").
 */
#include "graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

CUgraph graph_new_locked(void)
{
    return object_new_locked(OBJECT_GRAPH, sizeof(struct CUgraph_st));
}

static void node_free_locked(CUgraphNode node)
{
    for (size_t i = 0; i < node->body_count; i++)
        graph_destroy_locked(node->bodies[i]);
    free(node->bodies);
    free(node->deps);
    free(node->edges);
    free(node->param_pointers);
    work_clear(&node->work);
    object_free_locked(node);
}

void graph_destroy_locked(CUgraph graph)
{
    for (size_t i = 0; i < graph->count; i++)
        node_free_locked(graph->nodes[i]);
    free(graph->nodes);
    free(graph->conditionals);
    object_free_locked(graph);
}

bool graph_has_all(CUgraph graph, const CUgraphNode *nodes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!object_valid(nodes[i], OBJECT_NODE) || nodes[i]->graph != graph)
            return false;
    return true;
}

bool node_depend_locked(CUgraphNode node, CUgraphNode on, const CUgraphEdgeData *edge)
{
    struct CUgraphNode_st **deps = realloc(node->deps, (node->dep_count + 1) * sizeof(CUgraphNode));
    if (!deps)
        return false;
    node->deps = deps;
    CUgraphEdgeData *edges = realloc(node->edges, (node->dep_count + 1) * sizeof(*edges));
    if (!edges)
        return false;
    node->edges = edges;
    node->deps[node->dep_count] = on;
    node->edges[node->dep_count++] = edge ? *edge : (CUgraphEdgeData){0};
    return true;
}

static CUgraphNode append(CUgraph graph)
{
    if (graph->count == graph->capacity) {
        size_t more = graph->capacity ? graph->capacity * 2 : 16;
        struct CUgraphNode_st **grown = realloc(graph->nodes, more * sizeof(CUgraphNode));
        if (!grown)
            return NULL;
        graph->nodes = grown;
        graph->capacity = more;
    }
    CUgraphNode node = object_new_locked(OBJECT_NODE, sizeof(*node));
    if (!node)
        return NULL;
    node->graph = graph;
    node->index = graph->count;
    graph->nodes[graph->count++] = node;
    return node;
}

CUgraphNode graph_append_locked(CUgraph graph, CUgraphNodeType type, const CUgraphNode *deps,
                                const CUgraphEdgeData *edges, size_t dep_count)
{
    CUgraphNode node = append(graph);
    if (!node)
        return NULL;
    node->params.type = type;
    for (size_t i = 0; i < dep_count; i++) {
        if (!node_depend_locked(node, deps[i], edges ? &edges[i] : NULL)) {
            node_destroy_locked(node);
            return NULL;
        }
    }
    return node;
}

static void forget_dependency(CUgraphNode node, size_t at)
{
    node->dep_count--;
    memmove(node->deps + at, node->deps + at + 1, (node->dep_count - at) * sizeof(CUgraphNode));
    memmove(node->edges + at, node->edges + at + 1, (node->dep_count - at) * sizeof(*node->edges));
}

void node_destroy_locked(CUgraphNode node)
{
    CUgraph graph = node->graph;
    memmove(graph->nodes + node->index, graph->nodes + node->index + 1,
            (graph->count - node->index - 1) * sizeof(CUgraphNode));
    graph->count--;
    for (size_t i = 0; i < graph->count; i++) {
        CUgraphNode other = graph->nodes[i];
        other->index = i;
        for (size_t d = other->dep_count; d-- > 0;)
            if (other->deps[d] == node)
                forget_dependency(other, d);
    }
    node_free_locked(node);
}

CUgraph graph_clone_locked(CUgraph graph)
{
    CUgraph clone = graph_new_locked();
    if (!clone)
        return NULL;
    for (size_t i = 0; i < graph->count; i++) {
        CUgraphNode from = graph->nodes[i], to = append(clone);
        if (!to || !work_copy(&to->work, &from->work))
            goto fail;
        to->original = from;
        to->params = from->params;
        memcpy(to->attributes, from->attributes, sizeof(to->attributes));
        to->bodies = from->body_count ? calloc(from->body_count, sizeof(CUgraph)) : NULL;
        if (from->body_count && !to->bodies)
            goto fail;
        for (; to->body_count < from->body_count; to->body_count++) {
            to->bodies[to->body_count] = graph_clone_locked(from->bodies[to->body_count]);
            if (!to->bodies[to->body_count])
                goto fail;
            to->bodies[to->body_count]->owned = true;
        }
    }
    for (size_t i = 0; i < graph->count; i++)
        for (size_t d = 0; d < graph->nodes[i]->dep_count; d++)
            if (!node_depend_locked(clone->nodes[i], clone->nodes[graph->nodes[i]->deps[d]->index],
                                    &graph->nodes[i]->edges[d]))
                goto fail;
    if (graph->conditional_count) {
        size_t bytes = graph->conditional_count * sizeof(*graph->conditionals);
        clone->conditionals = malloc(bytes);
        if (!clone->conditionals)
            goto fail;
        memcpy(clone->conditionals, graph->conditionals, bytes);
        clone->conditional_count = graph->conditional_count;
    }
    return clone;
fail:
    graph_destroy_locked(clone);
    return NULL;
}

CUresult cuGraphCreate(CUgraph *out, unsigned int flags)
{
    API_ENTER(0);
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    CUgraph graph = graph_new_locked();
    driver_release();
    if (!graph)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = graph;
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    API_ENTER(0);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    if (object_valid(graph, OBJECT_GRAPH) && !graph->owned) {
        graph_destroy_locked(graph);
        result = CUDA_SUCCESS;
    }
    driver_release();
    return result;
}

CUresult cuGraphClone(CUgraph *out, CUgraph original)
{
    API_ENTER(0);
    if (!out || !object_valid(original, OBJECT_GRAPH))
        return CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    CUgraph clone = graph_clone_locked(original);
    driver_release();
    if (!clone)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = clone;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeFindInClone(CUgraphNode *out, CUgraphNode original, CUgraph clone)
{
    API_ENTER(0);
    if (!out || !object_valid(original, OBJECT_NODE) || !object_valid(clone, OBJECT_GRAPH))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < clone->count; i++) {
        if (clone->nodes[i]->original == original) {
            *out = clone->nodes[i];
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    API_ENTER(0);
    if (!type || !object_valid(node, OBJECT_NODE))
        return CUDA_ERROR_INVALID_VALUE;
    *type = node->params.type;
    return CUDA_SUCCESS;
}

/* "If nodes is NULL, ... returns the number of nodes"; what does not fit is left out, what is left over set
 * to NULL. */
static CUresult list_nodes(CUgraph graph, CUgraphNode *nodes, size_t *count, bool roots)
{
    size_t n = 0;
    if (!count || !object_valid(graph, OBJECT_GRAPH))
        return CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    for (size_t i = 0; i < graph->count; i++) {
        if (roots && graph->nodes[i]->dep_count)
            continue;
        if (nodes && n == *count)
            break;
        if (nodes)
            nodes[n] = graph->nodes[i];
        n++;
    }
    driver_release();
    for (size_t i = n; nodes && i < *count; i++)
        nodes[i] = NULL;
    *count = n;
    return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    API_ENTER(0);
    return list_nodes(graph, nodes, count, false);
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    API_ENTER(0);
    return list_nodes(graph, nodes, count, true);
}

/* Edges from `from' (or all), to `to' (or all). */
static CUresult list_edges(CUgraph graph, const struct CUgraphNode_st *only_from,
                           const struct CUgraphNode_st *only_to, CUgraphNode *from, CUgraphNode *to,
                           CUgraphEdgeData *data, size_t *count)
{
    size_t n = 0;
    if (!count || !object_valid(graph, OBJECT_GRAPH))
        return CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    for (size_t i = 0; i < graph->count; i++) {
        CUgraphNode node = graph->nodes[i];
        for (size_t d = 0; d < node->dep_count; d++) {
            if ((only_from && node->deps[d] != only_from) || (only_to && node != only_to))
                continue;
            bool room = (!from && !to) || n < *count;
            if (room && from)
                from[n] = node->deps[d];
            if (room && to)
                to[n] = node;
            if (room && data)
                data[n] = node->edges[d];
            n += room;
        }
    }
    driver_release();
    *count = n;
    return CUDA_SUCCESS;
}

CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data,
                            size_t *count)
{
    API_ENTER(0);
    return list_edges(graph, NULL, NULL, from, to, data, count);
}

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
    API_ENTER(0);
    return list_edges(graph, NULL, NULL, from, to, NULL, count);
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *deps, CUgraphEdgeData *data,
                                       size_t *count)
{
    API_ENTER(0);
    if (!object_valid(node, OBJECT_NODE))
        return CUDA_ERROR_INVALID_VALUE;
    return list_edges(node->graph, NULL, node, deps, NULL, data, count);
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *deps, size_t *count)
{
    return cuGraphNodeGetDependencies_v2(node, deps, NULL, count);
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *data,
                                         size_t *count)
{
    API_ENTER(0);
    if (!object_valid(node, OBJECT_NODE))
        return CUDA_ERROR_INVALID_VALUE;
    return list_edges(node->graph, node, NULL, NULL, nodes, data, count);
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes, size_t *count)
{
    return cuGraphNodeGetDependentNodes_v2(node, nodes, NULL, count);
}

static bool depends_on(CUgraphNode node, CUgraphNode on)
{
    if (node == on)
        return true;
    for (size_t d = 0; d < node->dep_count; d++)
        if (depends_on(node->deps[d], on))
            return true;
    return false;
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                   const CUgraphEdgeData *data, size_t count)
{
    API_ENTER(0);
    if (!object_valid(graph, OBJECT_GRAPH) || (count && (!from || !to)))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_SUCCESS;
    driver_acquire();
    if (!graph_has_all(graph, from, count) || !graph_has_all(graph, to, count))
        result = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
        for (size_t d = 0; d < to[i]->dep_count; d++)
            if (to[i]->deps[d] == from[i]) /* "Specifying an existing dependency will return an error." */
                result = CUDA_ERROR_INVALID_VALUE;
        if (result == CUDA_SUCCESS && depends_on(from[i], to[i])) /* a circle */
            result = CUDA_ERROR_INVALID_VALUE;
        if (result == CUDA_SUCCESS && !node_depend_locked(to[i], from[i], data ? &data[i] : NULL))
            result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    driver_release();
    return result;
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    return cuGraphAddDependencies_v2(graph, from, to, NULL, count);
}

CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                      const CUgraphEdgeData *data, size_t count)
{
    API_ENTER(0);
    (void)data;
    if (!object_valid(graph, OBJECT_GRAPH) || (count && (!from || !to)))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_SUCCESS;
    driver_acquire();
    if (!graph_has_all(graph, from, count) || !graph_has_all(graph, to, count))
        result = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
        size_t d = 0;
        while (d < to[i]->dep_count && to[i]->deps[d] != from[i])
            d++;
        if (d < to[i]->dep_count)
            forget_dependency(to[i], d);
        else
            result = CUDA_ERROR_INVALID_VALUE;
    }
    driver_release();
    return result;
}

CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                   size_t count)
{
    return cuGraphRemoveDependencies_v2(graph, from, to, NULL, count);
}

CUresult cuGraphDestroyNode(CUgraphNode node)
{
    API_ENTER(0);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    if (object_valid(node, OBJECT_NODE)) {
        node_destroy_locked(node);
        result = CUDA_SUCCESS;
    }
    driver_release();
    return result;
}

CUresult cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned int flags)
{
    API_ENTER(0);
    (void)flags;
    FILE *f = path && object_valid(graph, OBJECT_GRAPH) ? fopen(path, "we") : NULL;
    if (!f)
        return CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    fprintf(f, "digraph {\n");
    for (size_t i = 0; i < graph->count; i++) {
        CUgraphNode node = graph->nodes[i];
        fprintf(f, "  n%zu [label=\"%s\"];\n", i, work_name(&node->work));
        for (size_t d = 0; d < node->dep_count; d++)
            fprintf(f, "  n%zu -> n%zu;\n", node->deps[d]->index, i);
    }
    fprintf(f, "}\n");
    driver_release();
    fclose(f);
    return CUDA_SUCCESS;
}

/* ---- user objects: counted; a graph's share is not dropped before the graph, which is allowed to be late
 * ---- */

struct CUuserObject_st {
    struct object object;
    CUhostFn destroy;
    void *data;
    unsigned refs;
};

CUresult cuUserObjectCreate(CUuserObject *out, void *data, CUhostFn destroy, unsigned int refs,
                            unsigned int flags)
{
    API_ENTER(0);
    if (!out || !destroy || !refs || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    driver_acquire();
    CUuserObject object = object_new_locked(OBJECT_USER, sizeof(*object));
    driver_release();
    if (!object)
        return CUDA_ERROR_OUT_OF_MEMORY;
    object->destroy = destroy;
    object->data = data;
    object->refs = refs;
    *out = object;
    return CUDA_SUCCESS;
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned int count)
{
    API_ENTER(0);
    if (!object_valid(object, OBJECT_USER) || !count)
        return CUDA_ERROR_INVALID_VALUE;
    __atomic_fetch_add(&object->refs, count, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned int count)
{
    API_ENTER(0);
    if (!object_valid(object, OBJECT_USER) || !count || count > object->refs)
        return CUDA_ERROR_INVALID_VALUE;
    if (__atomic_sub_fetch(&object->refs, count, __ATOMIC_ACQ_REL) == 0) {
        object->destroy(object->data);
        driver_acquire();
        object_free_locked(object);
        driver_release();
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags)
{
    API_ENTER(0);
    if (!object_valid(graph, OBJECT_GRAPH) || !object_valid(object, OBJECT_USER) || !count ||
        flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE)
        return CUDA_ERROR_INVALID_VALUE;
    if (!(flags & CU_GRAPH_USER_OBJECT_MOVE))
        __atomic_fetch_add(&object->refs, count, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
    if (!object_valid(graph, OBJECT_GRAPH))
        return CUDA_ERROR_INVALID_VALUE;
    return cuUserObjectRelease(object, count);
}
