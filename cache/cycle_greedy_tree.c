#include "cache/cycle_greedy.h"
#include <errno.h>
#include <stdlib.h>

int greedy_tree_init(struct greedy_tree *tree, uint32_t length)
{
    tree->length = length;
    for (tree->leaves = 1; tree->leaves < length;)
        tree->leaves *= 2;
    tree->nodes = malloc(2 * (size_t)tree->leaves * sizeof *tree->nodes);
    return tree->nodes ? 0 : -ENOMEM;
}

static void update(struct greedy_tree *tree, uint32_t node)
{
    int64_t a = tree->nodes[2 * node].least, b = tree->nodes[2 * node + 1].least;

    tree->nodes[node].least = (a < b ? a : b) + tree->nodes[node].added;
}

void greedy_tree_set(struct greedy_tree *tree, const int64_t *values)
{
    for (uint32_t i = 0; i < tree->leaves; i++)
        tree->nodes[tree->leaves + i].least = i < tree->length ? values[i] : INT64_MAX / 4;
    for (uint32_t i = tree->leaves - 1; i; i--) {
        tree->nodes[i].added = 0;
        update(tree, i);
    }
}

/* Values at phases begin to end - 1, bottom up: whole nodes first, then what is above both ends. */
static void add_phases(struct greedy_tree *tree, uint32_t begin, uint32_t end, int64_t value)
{
    uint32_t low = begin + tree->leaves, high = end + tree->leaves, a = low, b = high;

    if (begin >= end)
        return;
    for (; a < b; a /= 2, b /= 2) {
        if (a & 1) {
            tree->nodes[a].least += value;
            if (a < tree->leaves)
                tree->nodes[a].added += value;
            a++;
        }
        if (b & 1) {
            b--;
            tree->nodes[b].least += value;
            if (b < tree->leaves)
                tree->nodes[b].added += value;
        }
    }
    low /= 2;
    for (high = (high - 1) / 2; low != high; low /= 2, high /= 2) {
        update(tree, low);
        update(tree, high);
    }
    for (; low; low /= 2)
        update(tree, low);
}

void greedy_tree_add(struct greedy_tree *tree, int64_t begin, int64_t end, int64_t value)
{
    int64_t length = tree->length;

    while (begin < end) {
        int64_t base = begin / length * length, stop = end < base + length ? end : base + length;

        add_phases(tree, (uint32_t)(begin - base), (uint32_t)(stop - base), value);
        begin = stop;
    }
}

int64_t greedy_tree_value(const struct greedy_tree *tree, int64_t position)
{
    uint32_t node = (uint32_t)(position % tree->length) + tree->leaves;
    int64_t value = tree->nodes[node].least;

    while (node /= 2)
        value += tree->nodes[node].added;
    return value;
}

/* First or last phase in begin to end - 1 with less than `limit'; -1: none. */
static int64_t find(const struct greedy_tree *tree, uint32_t node, uint32_t low, uint32_t high,
                    uint32_t begin, uint32_t end, int64_t limit, bool last)
{
    uint32_t middle = low + (high - low) / 2;
    int64_t found;

    if (begin >= high || end <= low || tree->nodes[node].least >= limit)
        return -1;
    if (high - low == 1)
        return low;
    limit -= tree->nodes[node].added;
    found = last ? find(tree, 2 * node + 1, middle, high, begin, end, limit, last)
                 : find(tree, 2 * node, low, middle, begin, end, limit, last);
    if (found >= 0)
        return found;
    return last ? find(tree, 2 * node, low, middle, begin, end, limit, last)
                : find(tree, 2 * node + 1, middle, high, begin, end, limit, last);
}

int64_t greedy_tree_first(const struct greedy_tree *tree, int64_t begin, int64_t end, int64_t limit)
{
    int64_t length = tree->length;

    while (begin < end) {
        int64_t base = begin / length * length, stop = end < base + length ? end : base + length;
        int64_t found =
            find(tree, 1, 0, tree->leaves, (uint32_t)(begin - base), (uint32_t)(stop - base), limit, false);

        if (found >= 0)
            return base + found;
        begin = stop;
    }
    return -1;
}

int64_t greedy_tree_last(const struct greedy_tree *tree, int64_t begin, int64_t end, int64_t limit)
{
    int64_t length = tree->length;

    while (begin < end) {
        int64_t base = (end - 1) / length * length, start = begin > base ? begin : base;
        int64_t found =
            find(tree, 1, 0, tree->leaves, (uint32_t)(start - base), (uint32_t)(end - base), limit, true);

        if (found >= 0)
            return base + found;
        end = start;
    }
    return -1;
}
