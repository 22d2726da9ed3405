/*
 * fake_device.h - a GPU in a few arrays, behind struct device_ops, for the cache's unit tests.
 *
 * Streams are queues; nothing runs until the test (or a synchronize) lets it, in an order drawn from a seed
 * among what the events allow. Addresses are resolved when an operation runs, not when it is queued, so work
 * that is unordered against a rebinding, or reaches an unmapped address, is caught (fake->faults).
 */
#ifndef TESTS_FAKE_DEVICE_H
#define TESTS_FAKE_DEVICE_H

#include "cache/device_ops.h"
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

enum { FAKE_GRANULE = 65536, FAKE_STREAMS = 64, FAKE_BUFFERS = 8 };

struct fake_frame {
    unsigned char *memory;
    uint64_t size;
    unsigned mappings;
    bool released;
    bool host; /* one handle of a slot: memory is part of the slot's */
};

struct fake_mapping {
    uint64_t address, size;
    struct fake_frame *frame;
    bool access;
};

struct fake_op {
    enum { FAKE_COPY, FAKE_KERNEL, FAKE_RECORD, FAKE_WAIT, FAKE_HOST } kind;
    uint64_t dst, src, size;        /* copy */
    uint64_t buffers[FAKE_BUFFERS]; /* kernel: each gets `value', after `expect' was found, by fake_value */
    uint64_t bytes[FAKE_BUFFERS];
    uint64_t expect[FAKE_BUFFERS]; /* 0: not checked */
    uint64_t value[FAKE_BUFFERS];  /* 0: only read */
    unsigned count;
    uint64_t event, version;  /* record, wait */
    void (*function)(void *); /* host */
    void *data;
    struct fake_op *next;
};

/* The calls of struct device_ops, all of them: test_cache_faults.c checks that. */
#define FAKE_CALLS(X)                                                                                        \
    X(reserve)                                                                                               \
    X(unreserve)                                                                                             \
    X(frame_create)                                                                                          \
    X(frame_release)                                                                                         \
    X(map)                                                                                                   \
    X(unmap)                                                                                                 \
    X(set_access)                                                                                            \
    X(host_alloc)                                                                                            \
    X(host_create)                                                                                           \
    X(host_destroy)                                                                                          \
    X(host_free)                                                                                             \
    X(stream_create)                                                                                         \
    X(stream_destroy)                                                                                        \
    X(copy)                                                                                                  \
    X(host_function)                                                                                         \
    X(event_create)                                                                                          \
    X(event_destroy)                                                                                         \
    X(event_record)                                                                                          \
    X(stream_wait)                                                                                           \
    X(event_query)                                                                                           \
    X(event_synchronize)                                                                                     \
    X(timer_create)                                                                                          \
    X(elapsed)

enum fake_call {
#define FAKE_CALL(name) FAKE_##name,
    FAKE_CALLS(FAKE_CALL)
#undef FAKE_CALL
        FAKE_CALL_COUNT
};

struct fake_device {
    struct device_ops ops;
    pthread_mutex_t lock; /* every function takes it: threads may share a device */
    uint64_t random;
    uint64_t hbm, hbm_used, hbm_peak; /* bytes; a hard limit */
    uint64_t host, host_used;
    uint64_t next_address;
    struct fake_mapping *mappings;
    size_t mapping_count, mapping_capacity;
    struct fake_op *head[FAKE_STREAMS], *tail[FAKE_STREAMS];
    unsigned streams;
    uint64_t *recorded, *done; /* per event: version recorded last, version completed */
    uint64_t *time;            /* and when that was */
    uint64_t operations_run;
    size_t events, event_capacity;
    unsigned faults, mismatches, frames_live, events_live, reserved, slots_live, streams_live;
    uint64_t calls;
    uint64_t fail_at; /* this call (counted from 1 over all of ops) returns -ENOMEM, or -EIO where that is not
                         possible */
    uint64_t called[FAKE_CALL_COUNT];
    unsigned handles_live, blocks_live; /* of host memory: a block has one address range for its handles */
    bool no_handles;                    /* host memory cannot be mapped elsewhere */
    struct {
        enum fake_call call;
        uint64_t occurrence; /* from 1; 0: none */
        int error;
        bool happened;
    } fault; /* that call returns the error, having done nothing */
};

/* What a buffer of that value has at an offset: every place something else, so that pieces are not mixed up.
 */
static inline uint64_t fake_value(uint64_t value, uint64_t offset)
{
    return value + (offset << 40);
}

void fake_init(struct fake_device *fake, uint64_t hbm, uint64_t host, uint64_t seed);
void fake_fini(struct fake_device *fake);
uint64_t fake_stream(struct fake_device *fake);
/* Queues a kernel; op is copied. */
void fake_kernel(struct fake_device *fake, uint64_t stream, const struct fake_op *op);
/* Runs up to `steps' operations. */
void fake_run(struct fake_device *fake, unsigned steps);
/* Runs everything; false where streams wait for each other for ever. */
bool fake_drain(struct fake_device *fake);
uint64_t fake_random(struct fake_device *fake);

#endif
