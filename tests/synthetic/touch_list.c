/*
 * touch_list.c - operations that have touched something, lists of them, and races.
 */
#include "touch_list.h"
#include "graph.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TOUCHES (1u << 18)
#define MOST_NODES (1u << 20)
#define ROOM_FOR_NODES (4 * MOST_NODES) /* one touch may make many */

/* Somebody who touched something. */
struct touch {
    uint64_t number; /* of the operation, order.h */
    unsigned chain;
    uint8_t levels; /* of its place in a graph */
    uint8_t kind;   /* enum work_kind */
    struct {
        uint32_t round, node;
    } level[PLACE_LEVELS];
    const char *name; /* of a kernel; kept */
    uint64_t stream_id, bytes;
};

struct node {
    uint32_t next, touch;
    uint64_t mask; /* of units of 4 bytes */
    bool write;
};

static struct touch *touches; /* [0] is nobody */
static struct node *nodes;    /* [0] is the end */
static size_t touch_count = 1, node_count = 1;
static bool lost;

/* The one that is being noted. */
static struct {
    uint32_t touch;
    const struct op *op;
    const struct node_place *place;
    uint64_t address; /* of the piece */
} now;

void touch_lose_locked(void)
{
    if (!lost)
        driver_log("out of memory: who touches what is no longer checked");
    lost = true;
}

/* What the present touch has made of lists already. */
static struct {
    uint32_t touch, list, result;
    uint64_t read, written;
} known[256];

int touch_lists_init(void)
{
    touches = sparse_new(MOST_TOUCHES * sizeof(*touches));
    nodes = sparse_new(ROOM_FOR_NODES * sizeof(*nodes));
    return touches && nodes ? 0 : -ENOMEM;
}

bool touch_lists_full_locked(void)
{
    return touch_count >= MOST_TOUCHES || node_count >= MOST_NODES;
}

void touch_lists_clear_locked(void)
{
    touch_count = node_count = 1;
    memset(known, 0, sizeof(known));
}

/* ---- texts ---- */

static const char *touch_text(const struct touch *touch, char *text, size_t size)
{
    char what[120];
    unsigned long long bytes = touch->bytes;
    switch (touch->kind) {
    case WORK_KERNEL:
        snprintf(what, sizeof(what), "kernel %.80s", touch->name);
        break;
    case WORK_COPY:
        snprintf(what, sizeof(what), "a copy of %llu bytes", bytes);
        break;
    case WORK_MEMSET:
        snprintf(what, sizeof(what), "a memset of %llu bytes", bytes);
        break;
    default:
        snprintf(what, sizeof(what), "the free of %llu bytes", bytes);
    }
    int n = snprintf(text, size, "%s (operation %llu, stream %llu", what, (unsigned long long)touch->number,
                     (unsigned long long)touch->stream_id);
    if (touch->levels && n > 0 && (size_t)n < size)
        n += snprintf(text + n, size - (size_t)n, ", node %u of a graph", touch->level[0].node);
    if (n > 0 && (size_t)n < size)
        snprintf(text + n, size - (size_t)n, ")");
    return text;
}

/* Names outlive their modules here. */
static const char *kept_name(const char *name)
{
    static struct kept {
        struct kept *next;
        char name[];
    } * table[1024];
    uint32_t hash = 2166136261u;
    for (const char *c = name; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619u;
    struct kept **link = &table[hash % ARRAY_SIZE(table)];
    for (struct kept *k = *link; k; k = k->next)
        if (strcmp(k->name, name) == 0)
            return k->name;
    size_t bytes = strlen(name) + 1;
    struct kept *kept = malloc(sizeof(*kept) + bytes);
    if (!kept)
        return "of a name that there was no memory for";
    memcpy(kept->name, name, bytes);
    kept->next = *link;
    *link = kept;
    return kept->name;
}

/* ---- order ---- */

static bool is_before_now(const struct touch *touch)
{
    const struct node_place *place = now.place;
    if (touch->number != now.op->order.number)
        return order_before_locked(touch->chain, touch->number, now.op);
    for (unsigned i = 0; place && i < touch->levels && i < place->levels; i++) {
        if (touch->level[i].round != place->level[i].round)
            return touch->level[i].round < place->level[i].round;
        if (touch->level[i].node != place->level[i].node)
            return program_before_locked(place->level[i].program, touch->level[i].node, place->level[i].node);
    }
    return true;
}

static void report_race(const struct node *other, bool write)
{
    char first[200], second[200];
    const struct touch *a = &touches[other->touch], *b = &touches[now.touch];
    bool frees = a->kind == WORK_FREE || b->kind == WORK_FREE;
    report_hazard_locked(frees ? "freed-in-use" : "unordered",
                         "%s %s 0x%llx, %s %s it, and nothing orders them",
                         touch_text(b, second, sizeof(second)),
                         b->kind == WORK_FREE ? "frees"
                         : write              ? "writes"
                                              : "reads",
                         (unsigned long long)now.address, touch_text(a, first, sizeof(first)),
                         a->kind == WORK_FREE ? "frees"
                         : other->write       ? "writes"
                                              : "reads");
}

/* ---- lists ---- */

static uint32_t node_new(uint32_t next, uint32_t touch, uint64_t mask, bool write)
{
    if (node_count == ROOM_FOR_NODES) {
        touch_lose_locked();
        return 0;
    }
    nodes[node_count] = (struct node){.next = next, .touch = touch, .mask = mask, .write = write};
    return (uint32_t)node_count++;
}

/* The list after the present touch has read and written those units. */
static uint32_t list_after(uint32_t list, uint64_t read, uint64_t written)
{
    uint32_t result = 0;
    uint64_t said = 0;
    for (uint32_t i = list; i; i = nodes[i].next) {
        const struct node node = nodes[i];
        bool before = is_before_now(&touches[node.touch]);
        if (!before && node.mask & (node.write ? read | written : written) && !said++)
            report_race(&node, (node.mask & written) != 0);
        uint64_t left = node.mask & ~written;
        if (!node.write && before)
            left &= ~read;
        if (left)
            result = node_new(result, node.touch, left, node.write);
    }
    if (read & ~written)
        result = node_new(result, now.touch, read & ~written, false);
    if (written)
        result = node_new(result, now.touch, written, true);
    return result;
}

uint32_t touch_list_after_locked(uint32_t list, uint64_t read, uint64_t written, uint64_t address)
{
    uint64_t hash =
        (list * 0x9e3779b97f4a7c15u) ^ (read * 0xbf58476d1ce4e5b9u) ^ (written * 0x94d049bb133111ebu);
    unsigned at = (unsigned)(hash >> 56);
    now.address = address;
    if (known[at].touch != now.touch || known[at].list != list || known[at].read != read ||
        known[at].written != written) {
        known[at].result = list_after(list, read, written);
        known[at].touch = now.touch;
        known[at].list = list;
        known[at].read = read;
        known[at].written = written;
    }
    return known[at].result;
}

/* ---- touching ---- */

bool touch_begin_locked(const struct op *op, const struct node_place *place, const struct work *work,
                        uint64_t bytes)
{
    if (lost)
        return false;
    struct touch *touch = &touches[touch_count];
    *touch = (struct touch){.number = op->order.number,
                            .chain = op->order.chain,
                            .kind = (uint8_t)work->kind,
                            .name = work->kind == WORK_KERNEL ? kept_name(work_name(work)) : NULL,
                            .stream_id = op->stream->id,
                            .bytes = bytes};
    touch->levels = place ? (uint8_t)place->levels : 0;
    for (unsigned i = 0; i < touch->levels; i++) {
        touch->level[i].round = place->level[i].round;
        touch->level[i].node = place->level[i].node;
    }
    now.touch = (uint32_t)touch_count++;
    now.op = op;
    now.place = place;
    return true;
}

void touch_granted_locked(uint64_t granted, uint64_t address)
{
    char text[200];
    if (granted >= now.op->order.number)
        report_hazard_locked("mapped-late", "%s touches 0x%llx, which gave no access when it was submitted",
                             touch_text(&touches[now.touch], text, sizeof(text)),
                             (unsigned long long)address);
}

const char *touch_list_unfinished_locked(uint32_t list, uint64_t mask)
{
    static char text[200];
    for (uint32_t i = list; i; i = nodes[i].next) {
        const struct touch *touch = &touches[nodes[i].touch];
        if (nodes[i].mask & mask && !order_before_host_locked(touch->chain, touch->number))
            return touch_text(touch, text, sizeof(text));
    }
    return NULL;
}
