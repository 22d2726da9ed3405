/*
 * objects.h - memory of a world: how it is asked for, given back and looked at. For world.c; the rest is in
 * world.h.
 */
#ifndef HBMSPILL_TESTS_FUZZ_OBJECTS_H
#define HBMSPILL_TESTS_FUZZ_OBJECTS_H

#include "tests/fuzz/world.h"

void objects_load(void);
void objects_begin(struct world *world, struct random *random);
void objects_end(struct world *world, struct random *random);

/* Where a part begins, in bytes; of PARTS: the object's end. */
static inline size_t object_edge(const struct object *object, unsigned part)
{
    return part == PARTS ? object->bytes : object->bytes / PARTS / 16 * 16 * part;
}

#endif
