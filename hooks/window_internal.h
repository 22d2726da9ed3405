/*
 * window_internal.h - the window as its files see it: window.c (what is held, and when it goes),
 * window_hold.c (what may be held, and what is kept of it), window_submit.c (how it is carried out).
 */
#ifndef HBMSPILL_HOOKS_WINDOW_INTERNAL_H
#define HBMSPILL_HOOKS_WINDOW_INTERNAL_H

#include "hooks/window.h"

/* From HELD_FREE on: what a tail may have. From HELD_RECORD on: what the cache does not plan. */
enum held_kind {
    HELD_LAUNCH,
    HELD_LAUNCH_EX,
    HELD_COPY,
    HELD_MEMSET,
    HELD_FREE,
    HELD_RECORD,
    HELD_WAIT,
    HELD_HOST_FUNCTION
};

enum { WINDOW_EVENTS = 16 };

struct held {
    enum held_kind kind;
    uint64_t hash; /* by which rounds tell operations apart */
    CUcontext context;
    CUstream stream;
    uint32_t touch_first, touch_count; /* in the window's touches */
    union {
        struct {
            CUfunction function;
            CUlaunchConfig config;
            const char *name;
            size_t attributes, params; /* offsets in the window's bytes */
            uint32_t param_count;
        } launch;
        struct {
            CUdeviceptr dst, src;
            size_t size;
        } copy;
        struct {
            CUdeviceptr dst;
            unsigned value, width;
            size_t count;
        } memset;
        CUdeviceptr free;
        CUevent event; /* record, wait */
        struct {
            CUhostFn function;
            void *data;
        } host;
    };
};

/* Operations held. Offsets instead of pointers: the arrays grow. */
struct window {
    struct held *held;
    uint32_t count, capacity;
    struct cache_touch *touches;
    uint32_t touch_count, touch_capacity;
    unsigned char *bytes;
    size_t byte_count, byte_capacity;
    struct {
        CUevent event;
        bool recorded;       /* else only waited for */
    } events[WINDOW_EVENTS]; /* that its tail has to do with */
    uint32_t event_count;
    bool tail; /* its tail has begun */
};

/*
 * A new entry at the end of the window being filled, with window.c's lock, until window_end; NULL where it
 * cannot be held. window_end(NULL), needed then as well, undoes it, but for bytes that were taken: they are
 * lost until the window goes.
 */
struct held *window_begin(enum held_kind kind, CUstream stream, const struct cache_touch *touches,
                          uint32_t count);
/* The same for what is in a tail; event: that it has to do with, or NULL. */
struct held *window_begin_tail(enum held_kind kind, CUstream stream, CUevent event);
/* An operation of the stream is not to be held behind a tail, but comes behind it: submits that. */
void window_end_tail(CUstream stream);
/* True where it is held now. *status: that of a full window's submission. */
bool window_end(const struct held *held, CUresult *status);
/* In between. Room for size bytes, aligned for any type, at *offset of the window's bytes; false where there
 * is no memory. The bytes move with every such call. */
bool window_take(size_t size, size_t *offset);
unsigned char *window_bytes(size_t offset);

/* Whether operations of a stream may be held now. */
bool window_may_hold(CUstream stream);

/* What is in a tail is done: the record, the wait, the host function. */
CUresult window_tail_submit(const struct held *held);

/* Carries a window out, with the turn. The first error; what stands behind it was left undone. */
CUresult window_carry_out(struct gpu *gpu, const struct window *window);

#endif
