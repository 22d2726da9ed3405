#include "hooks/graph_names.h"
#include "hooks/tensor_map.h"

enum { FIRST = 64, LOWEST = 65536 /* nothing is mapped below (vm.mmap_min_addr), and counts are small */ };

void names_fini(struct names *names)
{
    free(names->touch);
    free(names->slots);
    *names = (struct names){.count = 0};
}

static unsigned *slot_of(const struct names *names, uint64_t address)
{
    unsigned mask = 2 * names->capacity - 1;
    unsigned at = (unsigned)(address * UINT64_C(0x9e3779b97f4a7c15) >> 32) & mask;

    while (names->slots[at] && names->touch[names->slots[at] - 1].address != address)
        at = (at + 1) & mask;
    return &names->slots[at];
}

static bool grow(struct names *names)
{
    unsigned capacity = names->capacity ? 2 * names->capacity : FIRST;
    struct cache_touch *touch = realloc(names->touch, capacity * sizeof *touch);
    unsigned *slots = touch ? calloc(2 * (size_t)capacity, sizeof *slots) : NULL;

    if (touch)
        names->touch = touch;
    if (!slots)
        return false;
    free(names->slots);
    names->slots = slots;
    names->capacity = capacity;
    for (unsigned i = 0; i < names->count; i++)
        *slot_of(names, names->touch[i].address) = i + 1;
    return true;
}

static bool add(struct names *names, uint64_t address, unsigned access)
{
    unsigned *slot;

    if (address < LOWEST)
        return true;
    if (names->count == names->capacity && !grow(names))
        return false;
    slot = slot_of(names, address);
    if (!*slot) {
        names->touch[names->count++] = (struct cache_touch){.address = address};
        *slot = names->count;
    }
    names->touch[*slot - 1].access |= access;
    return true;
}

/* Every aligned word of the parameters, as a launch looks at them (kernel_touches). */
static bool add_kernel(struct names *names, const struct program_kernel *kernel)
{
    bool all = true;

    for (unsigned i = 0; i < kernel->count; i++) {
        size_t end = kernel->params[i].offset + kernel->params[i].size;

        all &= kernel->params[i].size < TENSOR_MAP_BYTES;
        for (size_t at = (kernel->params[i].offset + 7) / 8 * 8; at + 8 <= end; at += 8) {
            uint64_t word;

            memcpy(&word, kernel->bytes + at, 8);
            all &= add(names, word, CACHE_READ | CACHE_WRITE);
        }
    }
    return all;
}

static bool add_copy(struct names *names, const CUDA_MEMCPY3D *copy)
{
    uint64_t src = copy->srcMemoryType == CU_MEMORYTYPE_HOST ? (uintptr_t)copy->srcHost : copy->srcDevice;
    uint64_t dst = copy->dstMemoryType == CU_MEMORYTYPE_HOST ? (uintptr_t)copy->dstHost : copy->dstDevice;

    return (copy->srcMemoryType == CU_MEMORYTYPE_ARRAY || add(names, src, CACHE_READ)) &&
           (copy->dstMemoryType == CU_MEMORYTYPE_ARRAY || add(names, dst, CACHE_READ | CACHE_WRITE));
}

static bool add_program(struct names *names, const struct program *program)
{
    bool all = true;

    for (unsigned i = 0; all && i < program->count; i++) {
        const struct program_node *node = &program->nodes[i];

        switch (node->type) {
        case CU_GRAPH_NODE_TYPE_KERNEL:
            all = add_kernel(names, &node->kernel);
            break;
        case CU_GRAPH_NODE_TYPE_MEMCPY:
            all = add_copy(names, &node->copy);
            break;
        case CU_GRAPH_NODE_TYPE_MEMSET:
            all = add(names, node->set.dst, CACHE_READ | CACHE_WRITE);
            break;
        case CU_GRAPH_NODE_TYPE_GRAPH:
        case CU_GRAPH_NODE_TYPE_CONDITIONAL:
            for (unsigned b = 0; all && b < node->body_count; b++)
                all = add_program(names, node->bodies[b]);
            break;
        default:
            break;
        }
    }
    return all;
}

bool names_read(struct names *names, const struct program *program)
{
    if (names->capacity)
        memset(names->slots, 0, 2 * (size_t)names->capacity * sizeof *names->slots);
    names->count = 0;
    return add_program(names, program);
}

void names_touches(const struct names *names, struct touches *touches)
{
    for (unsigned i = 0; i < names->count; i++)
        touches_add(touches, names->touch[i].address, names->touch[i].access);
}
