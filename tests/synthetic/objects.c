/*
 * objects.c - memory of handles, such that a stale or foreign handle can be told from a live one.
 *
 * What is freed goes to a list of its kind, oldest reused first, and is never given back to malloc: reading
 * the magic of a destroyed handle is always allowed, and it says "destroyed" until much later.
 */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC_LIVE 0x5350474cu
#define MAGIC_DEAD 0xdeadd00du

static struct {
    struct object *head, *tail;
    size_t size, count, live;
} pool[OBJECT_KINDS];

void *object_new_locked(enum object_kind kind, size_t size)
{
    struct object *object = NULL;
    if (pool[kind].count > 64) { /* keep the last ones recognisable */
        object = pool[kind].head;
        pool[kind].head = object->next_free;
        pool[kind].count--;
        memset(object, 0, size);
    } else {
        object = calloc(1, size);
        if (!object)
            return NULL;
    }
    object->kind = kind;
    object->magic = MAGIC_LIVE;
    pool[kind].live++;
    return object;
}

void object_free_locked(void *pointer)
{
    struct object *object = pointer;
    enum object_kind kind = object->kind;
    object->magic = MAGIC_DEAD;
    object->next_free = NULL;
    if (pool[kind].head)
        pool[kind].tail->next_free = object;
    else
        pool[kind].head = object;
    pool[kind].tail = object;
    pool[kind].count++;
    pool[kind].live--;
}

size_t objects_live_locked(enum object_kind kind)
{
    return pool[kind].live;
}

bool object_valid(const void *pointer, enum object_kind kind)
{
    const struct object *object = pointer;
    /* Special handles (CU_STREAM_LEGACY ...) and small integers are not objects. */
    if ((uintptr_t)object < 4096 || ((uintptr_t)object & 7))
        return false;
    return object->magic == MAGIC_LIVE && object->kind == (uint32_t)kind;
}
