#include "hooks/graph_program.h"
#include <errno.h>

static void kernel_clear(struct program_kernel *kernel)
{
    free(kernel->params);
    free(kernel->bytes);
    kernel->params = NULL;
    kernel->bytes = NULL;
    kernel->count = 0;
}

void program_free(struct program *program)
{
    if (!program)
        return;
    for (unsigned i = 0; i < program->count; i++) {
        struct program_node *node = &program->nodes[i];

        if (node->type == CU_GRAPH_NODE_TYPE_KERNEL) {
            kernel_clear(&node->kernel);
            free(node->kernel.attributes);
        } else if (node->type == CU_GRAPH_NODE_TYPE_GRAPH || node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
            for (unsigned b = 0; b < node->body_count; b++)
                program_free(node->bodies[b]);
            free(node->bodies);
        }
    }
    free(program->nodes);
    free(program);
}

static bool same_layout(const struct program_kernel *have, const struct kernel *kernel)
{
    if (!have->bytes || have->count != kernel->count)
        return false;
    for (unsigned i = 0; i < have->count; i++)
        if (have->params[i].offset != kernel->params[i].offset ||
            have->params[i].size != kernel->params[i].size)
            return false;
    return true;
}

/* Room for the kernel's parameters, which is there already where they are laid out as before. */
static bool kernel_fit(struct program_kernel *into, const struct kernel *kernel)
{
    size_t bytes = 1;

    if (same_layout(into, kernel))
        return true;
    kernel_clear(into);
    for (unsigned i = 0; i < kernel->count; i++)
        if (kernel->params[i].offset + kernel->params[i].size > bytes)
            bytes = kernel->params[i].offset + kernel->params[i].size;
    into->bytes = malloc(bytes);
    into->params = malloc((kernel->count + 1) * sizeof *into->params);
    if (!into->bytes || !into->params) {
        kernel_clear(into);
        return false;
    }
    if (kernel->count)
        memcpy(into->params, kernel->params, kernel->count * sizeof *into->params);
    into->count = kernel->count;
    return true;
}

/* From one of the two forms in which a launch takes them; false where neither has all. */
static bool kernel_fill(struct program_kernel *into, void **params, void **extra)
{
    const unsigned char *buffer = NULL;
    size_t size = 0;

    for (; extra && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = *(const size_t *)extra[1];
        else
            return false;
    }
    for (unsigned i = 0; i < into->count; i++) {
        const struct kernel_param *param = &into->params[i];

        if (!params && (!buffer || param->offset + param->size > size))
            return false;
        memcpy(into->bytes + param->offset, params ? params[i] : buffer + param->offset, param->size);
    }
    return true;
}

void program_set_kernel(struct program_node *node, CUfunction function, const unsigned grid[3],
                        const unsigned block[3], unsigned shared, void **params, void **extra)
{
    struct kernel kernel = kernel_find(function);
    struct program_kernel *into = &node->kernel;

    into->closed = kernel.closed && kernel_fit(into, &kernel) && kernel_fill(into, params, extra);
    node->open = node->opaque || !into->closed; /* opaque: the device may change it */
    into->function = function;
    memcpy(into->grid, grid, sizeof into->grid);
    memcpy(into->block, block, sizeof into->block);
    into->shared = shared;
}

/*
 * A copy in a stream reads pageable memory when it is called, in a graph when it runs (CUDA, "API
 * synchronization behavior"); and it waits for what is ahead of it in the stream.
 */
static bool pageable(CUmemorytype type, const void *host, uint64_t device)
{
    uint64_t address = type == CU_MEMORYTYPE_HOST ? (uintptr_t)host : device;
    unsigned found;

    return type != CU_MEMORYTYPE_ARRAY && type != CU_MEMORYTYPE_DEVICE && !gpu_of_address(address) &&
           hbmspill_real.cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) !=
               CUDA_SUCCESS;
}

void program_set_copy(struct program_node *node, const CUDA_MEMCPY3D *copy)
{
    node->copy = *copy;
    node->opaque = pageable(copy->srcMemoryType, copy->srcHost, copy->srcDevice) ||
                   pageable(copy->dstMemoryType, copy->dstHost, copy->dstDevice);
}

static bool has_inside(const struct program_node *node)
{
    return node->type == CU_GRAPH_NODE_TYPE_GRAPH || node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
}

void program_enter(struct program *program, struct program_node **table)
{
    for (unsigned i = 0; i < program->count; i++) {
        struct program_node *node = &program->nodes[i];

        HASH_ADD_PTR(*table, handle, node);
        node->entered = true;
        for (unsigned b = 0; has_inside(node) && b < node->body_count; b++)
            program_enter(node->bodies[b], table);
    }
}

void program_leave(struct program *program, struct program_node **table)
{
    for (unsigned i = 0; i < program->count; i++) {
        struct program_node *node = &program->nodes[i];

        if (node->entered) {
            /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it is in the table, so there is one */
            HASH_DEL(*table, node);
            node->entered = false;
        }
        for (unsigned b = 0; has_inside(node) && b < node->body_count; b++)
            program_leave(node->bodies[b], table);
    }
}

static bool waits_for(const struct program *program, CUevent event)
{
    for (unsigned i = 0; i < program->count; i++) {
        const struct program_node *node = &program->nodes[i];

        if (node->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT && node->event == event)
            return true;
        for (unsigned b = 0; has_inside(node) && b < node->body_count; b++)
            if (waits_for(node->bodies[b], event))
                return true;
    }
    return false;
}

static void mark_events(struct program *program, const struct program *whole)
{
    for (unsigned i = 0; i < program->count; i++) {
        struct program_node *node = &program->nodes[i];

        if (node->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
            node->opaque = waits_for(whole, node->event);
        for (unsigned b = 0; has_inside(node) && b < node->body_count; b++)
            mark_events(node->bodies[b], whole);
    }
}

void program_mark_events(struct program *program)
{
    mark_events(program, program);
}

void program_kind(const struct program *program, bool *opaque, bool *open)
{
    for (unsigned i = 0; i < program->count; i++) {
        const struct program_node *node = &program->nodes[i];

        *opaque |= node->opaque;
        *open |= node->open;
        for (unsigned b = 0; has_inside(node) && b < node->body_count; b++)
            program_kind(node->bodies[b], opaque, open);
    }
}

void program_node_touches(const struct program_node *node, struct touches *touches)
{
    const CUDA_MEMCPY3D *copy = &node->copy;

    switch (node->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        for (unsigned i = 0; i < node->kernel.count; i++) {
            struct kernel one = {.count = 1, .params = &node->kernel.params[i]};

            (void)kernel_touches(&one, (void *[]){node->kernel.bytes + node->kernel.params[i].offset}, NULL,
                                 touches);
        }
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        if (copy->srcMemoryType != CU_MEMORYTYPE_ARRAY)
            touches_add(touches,
                        copy->srcMemoryType == CU_MEMORYTYPE_HOST ? (uintptr_t)copy->srcHost
                                                                  : copy->srcDevice,
                        CACHE_READ);
        if (copy->dstMemoryType != CU_MEMORYTYPE_ARRAY)
            touches_add(touches,
                        copy->dstMemoryType == CU_MEMORYTYPE_HOST ? (uintptr_t)copy->dstHost
                                                                  : copy->dstDevice,
                        CACHE_READ | CACHE_WRITE);
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        touches_add(touches, node->set.dst, CACHE_READ | CACHE_WRITE);
        break;
    default:
        break;
    }
}

void program_touches(const struct program *program, struct touches *touches)
{
    for (unsigned i = 0; i < program->count; i++) {
        const struct program_node *node = &program->nodes[i];

        program_node_touches(node, touches);
        for (unsigned b = 0; has_inside(node) && b < node->body_count; b++)
            program_touches(node->bodies[b], touches);
    }
}
