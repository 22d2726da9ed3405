/*
 * operation.c - choosing operations, and what they mean.
 */
#include "tests/fuzz/operation.h"

#include "tests/fuzz/objects.h"
#include <wchar.h>

enum { WORDS_MAX = 1536, ROWS_MAX = 24, SUMMED_MAX = 4096 };

/* ---- what is touched ---- */

static size_t extent(const struct operation *op)
{
    return ((size_t)(op->count - 1) * op->stride + 1) * 4;
}

static struct touch reads(const struct place *place, size_t bytes)
{
    return (struct touch){place->object, place->at, place->at + bytes, false};
}

static struct touch writes(const struct place *place, size_t bytes)
{
    return (struct touch){place->object, place->at, place->at + bytes, true};
}

unsigned operation_touches(const struct operation *op, struct touch *touches)
{
    unsigned count = 0;

    switch (op->kind) {
    case OP_BLEND:
        touches[count++] = reads(&op->from[0], extent(op));
        touches[count++] = reads(&op->from[1], extent(op));
        touches[count++] = writes(&op->to, extent(op));
        break;
    case OP_ADD:
        touches[count++] = reads(&op->from[0], extent(op));
        touches[count++] = writes(&op->to, extent(op));
        break;
    case OP_SUM:
        touches[count++] = reads(&op->from[0], extent(op));
        touches[count++] = writes(&op->to, 4);
        break;
    case OP_COPY:
        touches[count++] = reads(&op->from[0], op->bytes);
        touches[count++] = writes(&op->to, op->bytes);
        break;
    case OP_BOX:
        touches[count++] = reads(&op->from[0], (op->count - 1) * op->from_pitch + op->bytes);
        touches[count++] = writes(&op->to, (op->count - 1) * op->to_pitch + op->bytes);
        break;
    case OP_SET:
        touches[count++] = writes(&op->to, (size_t)op->count * op->element);
        break;
    default:
        touches[count++] = writes(&op->to, extent(op));
    }
    return count;
}

/* What is read first, what is written as well where the old contents matter. */
bool operation_defined(const struct operation *op)
{
    struct touch touches[TOUCHES_MAX];
    unsigned count = operation_touches(op, touches);

    for (unsigned i = 0; i < count; i++) {
        bool kept = touches[i].write &&
                    (op->kind == OP_FILL || op->kind == OP_COPY || op->kind == OP_BOX || op->kind == OP_SET);

        if (!kept && !world_defined(&touches[i], 1))
            return false;
    }
    return true;
}

/* ---- the model ---- */

static uint32_t word_at(const struct place *place, size_t word)
{
    uint32_t value;

    memcpy(&value, place->object->model + place->at + word * 4, 4);
    return value;
}

static void set_word(const struct place *place, size_t word, uint32_t value)
{
    memcpy(place->object->model + place->at + word * 4, &value, 4);
}

static void apply_words(const struct operation *op)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < op->count; i++) {
        size_t at = (size_t)i * op->stride;

        switch (op->kind) {
        case OP_FILL:
            set_word(&op->to, at, job_word(op->value, i));
            break;
        case OP_BLEND:
            set_word(&op->to, at,
                     word_at(&op->to, at) * 3 + word_at(&op->from[0], at) +
                         (word_at(&op->from[1], at) ^ op->value));
            break;
        case OP_ADD:
            set_word(&op->to, at, word_at(&op->to, at) + word_at(&op->from[0], at));
            break;
        case OP_SUM:
            sum += word_at(&op->from[0], at);
            break;
        default:
            set_word(&op->to, at, word_at(&op->to, at) * 1664525 + op->value);
        }
    }
    if (op->kind == OP_SUM)
        set_word(&op->to, 0, word_at(&op->to, 0) + sum);
}

static void apply_set(const struct operation *op)
{
    unsigned char *to = op->to.object->model + op->to.at;
    const uint16_t half = (uint16_t)op->value;

    if (op->element == 1)
        memset(to, (int)op->value, op->count);
    else if (op->element == 2)
        for (size_t i = 0, count = op->count; i < count; i++)
            memcpy(to + i * 2, &half, 2);
    else
        wmemset((wchar_t *)(void *)to, (wchar_t)op->value, op->count);
}

void operation_apply(const struct operation *op)
{
    unsigned char *to = op->to.object->model + op->to.at;
    struct touch touches[TOUCHES_MAX];
    unsigned count = operation_touches(op, touches);

    switch (op->kind) {
    case OP_COPY:
        memcpy(to, op->from[0].object->model + op->from[0].at, op->bytes);
        break;
    case OP_BOX:
        for (size_t row = 0; row < op->count; row++)
            memcpy(to + row * op->to_pitch, op->from[0].object->model + op->from[0].at + row * op->from_pitch,
                   op->bytes);
        break;
    case OP_SET:
        apply_set(op);
        break;
    default:
        apply_words(op);
    }
    world_define(&touches[count - 1],
                 op->kind == OP_COPY || op->kind == OP_SET || (op->kind == OP_FILL && op->stride == 1));
}

/* ---- choosing ---- */

static struct object *some_object(struct world *world, struct random *random, unsigned pinned_percent)
{
    if (!world->count || random_percent(random, pinned_percent))
        return &world->pinned[random_below(random, PINNED)];
    return world->objects[random_below(random, world->count)];
}

/* A place for words of 4 bytes. */
static struct place some_place(struct object *object, size_t bytes, struct random *random)
{
    return (struct place){object, random_below(random, (object->bytes - bytes) / 4 + 1) * (size_t)4};
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Words spread over all of the smallest object, or side by side. */
static void spread(struct operation *op, size_t bytes, struct random *random)
{
    size_t words = bytes / 4;

    op->count = random_from(random, 1, (uint32_t)smaller(words, WORDS_MAX));
    op->stride = 1;
    if (random_percent(random, 65) && words > op->count)
        op->stride = random_percent(random, 70) ? (uint32_t)(words / op->count)
                                                : random_from(random, 1, (uint32_t)(words / op->count));
}

static bool choose_words(struct world *world, struct operation *op, struct random *random)
{
    struct object *to = some_object(world, random, op->kind == OP_HOST ? 100 : 4), *a, *b;
    size_t least = to->bytes;

    a = some_object(world, random, 8);
    b = random_percent(random, 25) ? a : some_object(world, random, 4);
    if (op->kind == OP_BLEND || op->kind == OP_ADD || op->kind == OP_SUM) {
        if (a == to || (op->kind == OP_BLEND && b == to))
            return false;
        least = smaller(least, smaller(a->bytes, b->bytes));
    }
    spread(op, least, random);
    if (op->kind == OP_ADD || op->kind == OP_SUM || op->kind == OP_HOST)
        op->stride = 1;
    if (op->kind == OP_SUM)
        op->count = (uint32_t)smaller(a->bytes / 4, random_from(random, 1, SUMMED_MAX));
    op->to = some_place(to, op->kind == OP_SUM ? 4 : extent(op), random);
    op->from[0] = some_place(a, smaller(a->bytes, extent(op)), random);
    op->from[1] = some_place(b, smaller(b->bytes, extent(op)), random);
    return true;
}

static bool overlap(const struct operation *op)
{
    struct touch touches[TOUCHES_MAX];

    operation_touches(op, touches);
    return touches[0].object == touches[1].object && touches[0].first < touches[1].end &&
           touches[1].first < touches[0].end;
}

/* Whole parts, or any bytes. */
static bool choose_copy(struct world *world, struct operation *op, struct random *random)
{
    struct object *to = some_object(world, random, 15), *from = some_object(world, random, 15);
    unsigned part;

    if (to->way == WAY_PINNED && from->way == WAY_PINNED)
        return false;
    op->to.object = to;
    op->from[0].object = from;
    op->bytes = smaller(to->bytes, from->bytes);
    if (random_percent(random, 50)) {
        part = random_below(random, PARTS);
        op->to.at = object_edge(to, part);
        op->bytes = smaller(op->bytes, object_edge(to, random_from(random, part + 1, PARTS)) - op->to.at);
    } else {
        op->bytes = random_from(random, 1, (uint32_t)op->bytes);
        if (random_percent(random, 50))
            op->bytes = smaller(op->bytes, random_from(random, 1, 8192));
        op->to.at = random_below(random, to->bytes - op->bytes + 1);
    }
    op->from[0].at = random_below(random, from->bytes - op->bytes + 1);
    return !overlap(op);
}

static bool choose_box(struct world *world, struct operation *op, struct random *random)
{
    struct object *to = some_object(world, random, 15), *from = some_object(world, random, 15);
    size_t row = smaller(to->bytes, from->bytes) / ROWS_MAX;

    if (to->way == WAY_PINNED && from->way == WAY_PINNED)
        return false;
    op->bytes = random_from(random, 1, (uint32_t)row);
    op->count = random_from(random, 1, ROWS_MAX);
    op->to_pitch = random_from(random, (uint32_t)op->bytes, (uint32_t)(to->bytes / ROWS_MAX));
    op->from_pitch = random_from(random, (uint32_t)op->bytes, (uint32_t)(from->bytes / ROWS_MAX));
    op->to.object = to;
    op->from[0].object = from;
    op->to.at = random_below(random, to->bytes - op->count * op->to_pitch + 1);
    op->from[0].at = random_below(random, from->bytes - op->count * op->from_pitch + 1);
    return !overlap(op);
}

static bool choose_set(struct world *world, struct operation *op, struct random *random)
{
    struct object *to = some_object(world, random, 0);
    unsigned part = random_below(random, PARTS);
    size_t room;

    if (to->way == WAY_PINNED)
        return false;
    op->element = 1u << random_below(random, 3);
    op->to = (struct place){to, object_edge(to, part)};
    room = to->bytes - op->to.at;
    if (random_percent(random, 60)) {
        op->count =
            (uint32_t)((object_edge(to, random_from(random, part + 1, PARTS)) - op->to.at) / op->element);
    } else {
        op->to.at += random_below(random, room / 2) / 4 * 4;
        op->count = random_from(random, 1, (uint32_t)((to->bytes - op->to.at) / op->element));
    }
    return true;
}

bool operation_choose(struct world *world, struct operation *op, struct random *random)
{
    static const enum kind kinds[] = {OP_FILL,  OP_SCALE, OP_SCALE, OP_BLEND, OP_BLEND, OP_BLEND,
                                      OP_BLEND, OP_ADD,   OP_SUM,   OP_COPY,  OP_COPY,  OP_COPY,
                                      OP_BOX,   OP_SET,   OP_SET,   OP_HOST};
    bool chosen;

    memset(op, 0, sizeof *op);
    op->kind = kinds[random_below(random, sizeof kinds / sizeof *kinds)];
    op->value = (uint32_t)random_next(random);
    op->stride = 1;
    chosen = op->kind == OP_COPY  ? choose_copy(world, op, random)
             : op->kind == OP_BOX ? choose_box(world, op, random)
             : op->kind == OP_SET ? choose_set(world, op, random)
                                  : choose_words(world, op, random);
    return chosen && operation_defined(op);
}

void operation_vary(struct operation *op, struct random *random)
{
    op->value = (uint32_t)random_next(random);
}

const char *operation_text(const struct operation *op)
{
    static const char *const names[] = {"fill", "scale", "blend", "add", "sum", "copy", "box", "set", "host"};
    static _Thread_local char text[256];

    snprintf(text, sizeof text, "%s to %u+%zu from %d+%zu, %d+%zu, count %u stride %u bytes %zu value %08x",
             names[op->kind], op->to.object->id, op->to.at,
             op->from[0].object ? (int)op->from[0].object->id : -1, op->from[0].at,
             op->from[1].object ? (int)op->from[1].object->id : -1, op->from[1].at, op->count, op->stride,
             op->bytes, op->value);
    return text;
}
