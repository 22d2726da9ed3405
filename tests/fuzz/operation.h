/*
 * operation.h - what a stream or a graph's node can be given to do, apart from how it is given.
 *
 * An operation names objects and places in them. From it follow what it touches, what it does to the model,
 * and the call that submits it (submit.h) or the node that does the same (graphs.h).
 */
#ifndef HBMSPILL_TESTS_FUZZ_OPERATION_H
#define HBMSPILL_TESTS_FUZZ_OPERATION_H

#include "tests/fuzz/world.h"

enum kind {
    OP_FILL,  /* to[i * stride] = hash(i, value) */
    OP_SCALE, /* to[i * stride] = to[i * stride] * 1664525 + value, in place */
    OP_BLEND, /* to[i * stride] = to[i * stride] * 3 + a[i * stride] + (b[i * stride] ^ value) */
    OP_ADD,   /* to[i] += a[i], both in a struct by value */
    OP_SUM,   /* to[0] += the sum of a[i], by atomics */
    OP_COPY,  /* bytes */
    OP_BOX,   /* rows of bytes, each side with its own pitch */
    OP_SET,   /* elements of 1, 2 or 4 bytes */
    OP_HOST,  /* a host function does what OP_SCALE does, with stride 1 */
    OP_KINDS,
};

struct place {
    struct object *object;
    size_t at; /* bytes from its beginning */
};

struct operation {
    enum kind kind;
    struct place to, from[2];
    uint32_t count; /* of words; of elements; OP_BOX: of rows */
    uint32_t stride;
    uint32_t value;
    unsigned element;
    size_t bytes;                /* OP_COPY: in all; OP_BOX: of a row */
    size_t to_pitch, from_pitch; /* OP_BOX */
};

enum { TOUCHES_MAX = 4 };

/* A random operation over objects there are. False: this choice was not possible (what it reads is not
 * defined, or there is nothing to choose from). */
bool operation_choose(struct world *world, struct operation *op, struct random *random);
/* The same kind over the same memory, with another value. */
void operation_vary(struct operation *op, struct random *random);
unsigned operation_touches(const struct operation *op, struct touch *touches);
bool operation_defined(const struct operation *op);
/* Does to the model what the operation does to the memory. */
void operation_apply(const struct operation *op);
const char *operation_text(const struct operation *op); /* valid until the thread's next call */

#endif
