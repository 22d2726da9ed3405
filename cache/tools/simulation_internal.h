/*
 * simulation_internal.h - the simulated machine as its two files see it: simulation.c (what happens when) and
 * simulation_ops.c (the calls, and what they cost the host).
 */
#ifndef HBMSPILL_CACHE_TOOLS_SIMULATION_INTERNAL_H
#define HBMSPILL_CACHE_TOOLS_SIMULATION_INTERNAL_H

#include "cache/tools/simulation.h"
#include "model/machine.h"

#define SIMULATION_DEVICE_BASE                                                                               \
    (UINT64_C(1) << 52) /* every device address is above, every host address below */
#define SIMULATION_HOST_BASE (UINT64_C(1) << 40)
#define SIMULATION_NEVER 1e300

enum op_kind { OP_KERNEL, OP_COPY, OP_RECORD, OP_WAIT, OP_MARK, OP_WATCH };

struct op {
    enum op_kind kind;
    bool in;         /* copy; wait: for copies of the cache's to the device */
    bool job;        /* wait: the job's */
    uint32_t number; /* event, mark, watch; copy of the cache's to the device: from 1 */
    uint32_t version;
    uint32_t tag;  /* kernel, copy: the job's */
    double amount; /* nanoseconds, bytes; watch: when it was queued */
};

struct stream {
    struct op *ring;
    uint32_t first, count, capacity;
    uint32_t heavy;    /* kernels and copies among them */
    bool own;          /* the cache's */
    bool running;      /* its head is a kernel that runs until `end', or a copy in its engine */
    bool queued;       /* its head is a copy that waits for the engine since `since' */
    bool stalled;      /* its head is a wait for an event that has not happened, since `since' */
    double end, since; /* since: also when what runs began */
    double ready;      /* what was ahead was done, and waited for, but copies of the cache's to the device */
    bool in;           /* the last copy queued was one of these */
};

struct engine {
    int stream;   /* whose copy is in it, -1: none */
    double left;  /* nanoseconds of work at the full rate */
    double speed; /* of that work, now */
    double busy, bytes;
};

struct event {
    uint32_t recorded, done; /* versions */
    bool in;                 /* recorded behind a copy of the cache's to the device */
    double time;             /* of the last one done */
};

/* By number; negative: not yet. */
struct simulation_times {
    double *time;
    uint32_t capacity;
};

struct simulation {
    struct device_ops ops;
    struct simulation_config config;
    double host, device; /* clocks; the device's is never ahead of the host's but while the host waits */
    struct stream stream[SIMULATION_STREAMS];
    unsigned streams;
    struct engine engine[2]; /* 0: out, 1: in */
    struct event *events;
    uint64_t *free_events;
    uint32_t event_count, event_capacity, free_event_count;
    struct simulation_times marks, watched;
    struct simulation_copy *copies;
    uint32_t copy_count, copy_capacity;
    struct host_block { /* pinned memory, in order of address; size 0: given back */
        uint64_t address, size;
    } * blocks;
    uint32_t block_count, block_capacity;
    uint64_t next_device, next_host, next_handle;
    uint64_t hbm_used, host_used;
    double stream_stalled, host_waited, driver_time;
    uint32_t tag; /* of what is queued next */
};

/* Queues an operation at the host's present time; waits first where the stream is full. */
int simulation_enqueue(struct simulation *simulation, uint64_t stream, const struct op *op);
/* The device does all that happens until the host's present time. */
void simulation_catch_up(struct simulation *simulation);
/* One step of the device, not beyond `limit'; false where there is nothing before it. */
bool simulation_step(struct simulation *simulation, double limit);
/* The host waited for the device: its clock follows. */
void simulation_waited(struct simulation *simulation);
void simulation_set_speeds(struct simulation *simulation);
/* A copy of the cache's to the device is to be queued: its number, from 1 on, or -ENOMEM. */
int simulation_copy_add(struct simulation *simulation, uint64_t address, uint64_t size, uint32_t *number);

#endif
