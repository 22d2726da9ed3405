/*
 * graph_order.c - which node of a graph is before which: a bit for each pair, made when it is first asked
 * for.
 */
#include "graph.h"

#include <stdlib.h>

static size_t words_of(const struct program *program)
{
    return (program->count + 63) / 64;
}

/* Nodes in an order that their dependencies allow; each adds itself, and those before it, to its successors.
 */
static bool fill(struct program *program, uint64_t *before)
{
    size_t words = words_of(program), done = 0, known = 0;
    size_t *order = malloc((program->count + 1) * sizeof(*order));
    size_t *missing = malloc((program->count + 1) * sizeof(*missing));
    for (size_t i = 0; order && missing && i < program->count; i++) {
        missing[i] = program->nodes[i].predecessor_count;
        if (!missing[i])
            order[known++] = i;
    }
    for (; done < known; done++) {
        const struct program_node *node = &program->nodes[order[done]];
        for (size_t i = 0; i < node->successor_count; i++) {
            uint64_t *to = before + node->successors[i] * words;
            for (size_t w = 0; w < words; w++)
                to[w] |= before[order[done] * words + w];
            to[order[done] / 64] |= 1ull << order[done] % 64;
            if (--missing[node->successors[i]] == 0)
                order[known++] = node->successors[i];
        }
    }
    bool complete = order && missing;
    free(order);
    free(missing);
    return complete;
}

bool program_before_locked(struct program *program, uint32_t first, uint32_t second)
{
    if (!program->before) {
        uint64_t *before = calloc(program->count * words_of(program) + 1, sizeof(*before));
        if (!before || !fill(program, before)) {
            free(before);
            return true; /* not known: taken to be ordered */
        }
        program->before = before;
    }
    return program->before[second * words_of(program) + first / 64] >> first % 64 & 1;
}
