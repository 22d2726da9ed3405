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

enum op_kind { OP_KERNEL, OP_COPY, OP_RECORD, OP_WAIT, OP_MARK };

struct op {
    enum op_kind kind;
    bool in;         /* copy */
    uint32_t number; /* event, or mark */
    uint32_t version;
    double amount; /* nanoseconds, bytes */
};

struct stream {
    struct op *ring;
    uint32_t first, count, capacity;
    uint32_t heavy; /* kernels and copies among them */
    bool own;       /* the cache's */
    bool running;   /* its head is a kernel that runs until `end', or a copy in its engine */
    bool queued;    /* its head is a copy that waits for the engine since `since' */
    bool stalled;   /* its head is a wait for an event that has not happened, since `since' */
    double end, since;
};

struct engine {
    int stream;   /* whose copy is in it, -1: none */
    double left;  /* nanoseconds of work at the full rate */
    double speed; /* of that work, now */
    double busy, bytes;
};

struct event {
    uint32_t recorded, done; /* versions */
    double time;             /* of the last one done */
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
    double *marks;
    uint32_t mark_capacity;
    uint64_t next_device, next_host, next_handle;
    uint64_t hbm_used, host_used;
    double stream_stalled, host_waited, driver_time;
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

#endif
