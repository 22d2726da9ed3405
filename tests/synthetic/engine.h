/*
 * engine.h - streams, operations and the thread that runs them.
 *
 * An operation waits at the end of its stream's queue. One engine thread per device picks, by the schedule,
 * among the streams whose first operation may run, and runs it without holding a lock. Host functions run on
 * a callback thread of their own, so that one that waits for another thread does not stop the device.
 *
 * Ownership: an operation is counted: one reference of its stream until it has ended, one of every event,
 * block or later operation that waits for it.
 */
#ifndef SYNTHETIC_ENGINE_H
#define SYNTHETIC_ENGINE_H

#include "memory.h"
#include "order.h"

enum work_kind {
    WORK_EMPTY,
    WORK_KERNEL,
    WORK_COPY,
    WORK_MEMSET,
    WORK_HOST,     /* cuLaunchHostFunc */
    WORK_CALLBACK, /* cuStreamAddCallback */
    WORK_WRITE_VALUE,
    WORK_WAIT_VALUE,
    WORK_FREE, /* where a stream frees memory of a pool; does nothing but look */
    WORK_GRAPH,
};

/* A box of bytes: x in bytes, y rows, z slices. One-dimensional: height and depth 1. */
struct copy_work {
    uint64_t dst, src;
    size_t width, height, depth;
    size_t dst_pitch, src_pitch, dst_slice, src_slice;
    bool returns_late; /* the call returns when it is done */
    bool corrupt;      /* one bit arrives wrong (fault.c) */
    void *staged;      /* owned copy of a pageable source, packed; then src is its address */
    enum place dst_place, src_place;
};

struct memset_work {
    uint64_t dst;
    size_t pitch, width, height; /* width in elements */
    unsigned value, element;
};

struct kernel_work {
    struct CUfunc_st *function;
    unsigned grid[3], block[3], shared;
    void *params; /* owned, function's parameter bytes */
    bool early;   /* need not wait for the end of a kernel that is ahead of it in its stream */
};

struct host_work {
    CUhostFn function;
    CUstreamCallback callback;
    CUstream stream; /* as the application named it */
    void *data;
};

struct free_work {
    uint64_t address, size;
};

struct value_work {
    uint64_t address, value;
    unsigned flags;
    bool wide;
};

struct work {
    enum work_kind kind;
    union {
        struct copy_work copy;
        struct memset_work memset;
        struct kernel_work kernel;
        struct host_work host;
        struct value_work value;
        struct free_work free;
        struct graph_run *graph;
    };
};

/* Deep copy (parameters, staged bytes); false when out of memory. */
bool work_copy(struct work *to, const struct work *from);
void work_clear(struct work *work);
/* What a kernel did: lane-instructions, and bytes of memory it read and wrote (ptx.h, ptx_traffic). */
struct work_count {
    uint64_t instructions;
    uint64_t bytes;                   /* of the device's memory */
    uint64_t host_read, host_written; /* of the host's */
};
struct touched;
/* Runs it here and now, on an engine thread, no lock held. Counts are set and touched is added to for
 * kernels.
 */
CUresult work_run(const struct work *work, struct work_count *count, struct touched *touched);
/* May touch [address, address + size), as far as its pointers tell. driver_lock held. */
bool work_touches(const struct work *work, uint64_t address, uint64_t size);
const char *work_name(const struct work *work);

/*
 * Where an operation is in virtual time (timeline.c). Nothing of it is used while the clock is off: then lane
 * is NULL.
 */
enum time_state {
    TIME_QUEUED,
    TIME_RUNS,   /* until `end', or, where ns is negative, until it has run and ns is known */
    TIME_COPIES, /* waits for its engine, or is in it */
    TIME_DUE,    /* a host function whose time has come; it ends when it has returned */
    TIME_ENDED,
};

struct op_time {
    enum time_state state;
    struct lane *lane;
    struct op *next; /* in its lane */
    double submit;   /* ns since cuInit: the host's clock at the call */
    double start, end;
    double ns;     /* of a kernel or a graph: how long it takes; negative: not known before it has run */
    bool awaited;  /* a thread waits for it */
    bool released; /* a host function that may be called */
    bool blocked;  /* a host function that takes long to return: nobody waits for that any more */
    struct record_line *record; /* waits for how long it takes */
    uint64_t recording;         /* of an event: 1 + its number in the record; 0: it has none */
};

enum op_state { OP_QUEUED, OP_RUNNING, OP_DONE };

struct op {
    struct op *next; /* in its stream */
    struct CUstream_st *stream;
    CUcontext ctx;
    uint64_t seq; /* order of submission over all streams of a device */
    enum op_state state;
    bool ran_early; /* what it does is done; it ends when it has come to the head of its stream */
    int refs;
    struct op *after[4]; /* counted; must have ended before this may run */
    unsigned after_count;
    struct work work;
    uint64_t finished_ns;
    struct op_order order;
    struct op_time time;
};

struct CUstream_st {
    struct object object;
    CUcontext ctx;
    unsigned flags;
    int priority;
    uint64_t id;
    bool legacy, per_thread, destroyed;
    pthread_t thread; /* of a per-thread stream */
    struct op *head, *tail;
    struct capture *capture;          /* in progress, or NULL */
    struct CUgraphNode_st **frontier; /* of a capture: what the next node depends on */
    size_t frontier_count;
    CUsynchronizationPolicy sync_policy;
    struct stream_order order;
    struct lane *lane;        /* of virtual time, or NULL */
    struct CUstream_st *next; /* of the context */
};

struct engine {
    struct device *device;
    pthread_t thread, callback_thread;
    pthread_cond_t wake, callback_wake;
    bool started;
    int waiters;
    uint64_t next_seq, released_seq;
    uint64_t picks;
    size_t queued;
    uint64_t held_since_ns; /* lazy: since when something has been held back */
    uint64_t hold_until_ns;
    const struct work *running; /* on the engine thread */
    uint64_t running_since_ns;
    struct touched *touched; /* by the kernel that runs, touches.h */
    /* engine_beside.c */
    pthread_t beside_thread;
    pthread_cond_t beside_wake;
    bool beside_looks;         /* it looks again by itself */
    const struct work *beside; /* on that thread */
    struct callback *callbacks, **callbacks_end;
};

int engine_start_locked(struct device *device);

/* Takes *work over (also on failure). after: counted by the callee. *out (may be NULL) gets a counted
 * reference. */
CUresult stream_submit_locked(struct CUstream_st *stream, struct work *work, struct op *const *after,
                              unsigned after_count, struct op **out);
void op_unref_locked(struct op *op);
static inline struct op *op_ref(struct op *op)
{
    op->refs++;
    return op;
}
/* The host waits for it, in virtual time too where there is any. */
void op_wait_locked(struct op *op);
/* The same, of which the application does not know. */
void op_await_locked(struct op *op);
/* Waits until it has run; at most that long where ns is not 0. False: it has not. */
bool op_wait_run_locked(struct op *op, uint64_t ns);
/* It has ended, as far as the host can know. */
bool op_passed_locked(const struct op *op);
/* Waits for all there is in a stream, or in all streams of a context. */
void stream_drain_locked(struct CUstream_st *stream);
void context_drain_locked(CUcontext ctx);
/* A query found something unfinished: a lazy device goes on. */
void engine_poke_locked(struct engine *engine);
/* Runs work on the engine thread, of op, as which of its nodes (or NULL): drops driver_lock meanwhile; fails
 * the context on error. The virtual time it takes, ns; 0 without a clock. */
struct node_place;
double engine_run_work_locked(struct engine *engine, const struct work *work, const struct op *op,
                              const struct node_place *place);
/* The next operation that may run, of those wanted (NULL: all); *polling: memory is waited for. */
struct op *engine_pick_locked(struct engine *engine, bool (*wanted)(const struct op *op), bool *polling);
void engine_run_op_locked(struct engine *engine, struct op *op);
/* A number for the n-th decision of a random schedule. */
uint64_t engine_random(uint64_t n);
/* Calls function(data) on the callback thread, as part of op, then done(argument) under driver_lock. */
int engine_call_host_locked(struct engine *engine, const struct work *work, const struct op *op,
                            void (*done)(void *argument), void *argument);

/* ---- engine_beside.c ---- */
int engine_beside_start_locked(struct engine *engine);
/* Something may have become ready while the engine thread is busy. */
void engine_beside_wake_locked(struct engine *engine);
/* The calling thread is that one. */
bool engine_is_beside(const struct engine *engine);

/* ---- leaving.c ---- */
/* Before memory is unmapped or freed by the host: counts a hazard where an operation that is not known to
 * have ended touches it, waits for a running one. pages: whole pages of addresses, whatever is behind them.
 */
void memory_leaves_locked(const char *function, uint64_t address, uint64_t size, bool pages);
/* A stream has come to where it frees memory: counts a hazard where another stream still touches it. */
void memory_freed_locked(const struct op *op);

/* ---- launch.c ---- */
/* cuInit. 0 or -errno. */
int kernels_init(void);

/* ---- copy.c ---- */
CUresult copy_from_box(const CUDA_MEMCPY3D *box, struct copy_work *out);
/* Sets what the pointers are; CUDA_ERROR_INVALID_VALUE for a device address of nobody's. */
CUresult copy_classify_locked(struct copy_work *copy);

/* ---- stream.c ---- */
/* NULL and CU_STREAM_LEGACY, CU_STREAM_PER_THREAD and real handles to the stream, in the current context. */
CUresult stream_resolve_locked(CUstream handle, struct CUstream_st **out);
/* A wait for a value in memory or a write of one, checked and put into the stream. */
CUresult stream_value_operation(CUstream handle, enum work_kind kind, CUdeviceptr address, uint64_t value,
                                unsigned flags, bool wide);
struct CUstream_st *stream_new_locked(CUcontext ctx, unsigned flags, int priority);
void stream_free_locked(struct CUstream_st *stream);

/* ---- capture.c ---- */
bool capture_forbids(void);
/* While a stream captures, its work becomes a graph node. */
CUresult capture_add_locked(struct CUstream_st *stream, struct work *work);
/* Work for the legacy stream while a blocking stream of the context captures. */
bool capture_blocks_legacy_locked(CUcontext ctx);
void capture_invalidate_locked(struct capture *capture);
/* A stream of a capture is destroyed. */
void capture_abandon_locked(struct CUstream_st *stream);

/* ---- graph.c ---- */
/* Has a node that can run now, or has ended. */
bool graph_run_ready_locked(const struct graph_run *run);
/* Runs one node: called by the engine thread with driver_lock held, which is dropped meanwhile. True at the
 * end. */
bool graph_run_step_locked(struct graph_run *run, struct op *op);
void graph_run_free_locked(struct graph_run *run);
bool graph_run_touches(const struct graph_run *run, uint64_t address, uint64_t size);
/* It runs after what its nodes wait for. */
void graph_run_order_locked(const struct graph_run *run, struct op *op);
/* What its nodes wait for: puts uncounted operations into out, at most so many; the number there. */
unsigned graph_run_awaits_locked(const struct graph_run *run, struct op **out, unsigned most);
/* Its nodes into the record. */
void graph_run_record_locked(struct graph_run *run, uint64_t stream_id);
/* Virtual ns from its first node's start to its last one's end; known at its end. */
double graph_run_ns(const struct graph_run *run);

#endif
