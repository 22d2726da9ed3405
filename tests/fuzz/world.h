/*
 * world.h - one thread's memory and streams, with a model of what every byte must be.
 *
 * Objects are device memory, however it was asked for, and pinned host memory. Each has a model of its
 * contents on the CPU, written when an operation is submitted; operations are ordered (order.h), so the
 * device has the same bytes in the end. An object is looked at in PARTS parts: two streams may use different
 * parts of it at once, and a part nobody wrote yet is not read.
 *
 * Threads: a world is one thread's; worlds share the context and nothing else.
 */
#ifndef HBMSPILL_TESTS_FUZZ_WORLD_H
#define HBMSPILL_TESTS_FUZZ_WORLD_H

#include "tests/fuzz/order.h"
#include "tests/fuzz/random.h"
#include "tests/integration/job.h"

enum {
    PARTS = 4,
    OBJECTS_MAX = 48,
    EVENTS = 6,
    GRAPHS_MAX = 3,
    SIZES = 4,
    PINNED = 2,
    PINNED_BYTES = 512 << 10
};

enum way {
    WAY_ALLOC,  /* cuMemAlloc */
    WAY_PITCH,  /* cuMemAllocPitch, used as one piece */
    WAY_ASYNC,  /* cuMemAllocAsync */
    WAY_POOL,   /* cuMemAllocFromPoolAsync */
    WAY_MAPPED, /* cuMemCreate and cuMemMap */
    WAY_PINNED, /* cuMemHostAlloc */
    DEVICE_WAYS = WAY_PINNED,
};

struct object {
    unsigned id; /* for messages */
    enum way way;
    CUdeviceptr at; /* pinned: the host's address */
    size_t bytes;
    CUmemGenericAllocationHandle handle; /* WAY_MAPPED */
    unsigned char *model;
    bool defined[PARTS];
    struct uses uses[PARTS];
};

/* What a use of a piece of an object is; [first, end) in bytes. */
struct touch {
    struct object *object;
    size_t first, end;
    bool write;
};

/* What a sequence may be like, chosen once for its seed. */
struct limits {
    size_t live_bytes;   /* about so much is allocated at once */
    size_t most_bytes;   /* of one object */
    size_t mapped_bytes; /* of WAY_MAPPED in all, which is never spilled */
    bool may_run_out;    /* the tiers are too small: CUDA_ERROR_OUT_OF_MEMORY is a right answer */
    unsigned streams;    /* of created ones in use at a time */
    bool legacy, thread; /* the default streams are used too */
    bool alone;          /* no other thread calls the driver */
};

struct graph;

struct world {
    struct limits limits;
    struct order order;
    CUstream stream[LANES];
    bool alive[LANES];
    unsigned created; /* lanes given to streams so far */
    CUmemoryPool pool;
    struct {
        CUevent event;
        bool recorded;
        struct clock clock;
    } events[EVENTS];
    struct object *objects[OBJECTS_MAX]; /* of device memory, in order of birth */
    unsigned count;
    struct object pinned[PINNED];
    struct graph *graphs[GRAPHS_MAX];
    size_t live, mapped, sizes[SIZES];
    unsigned lasting; /* of objects: those that a round does not free */
    unsigned next_id;
    unsigned long step; /* actions so far, for messages */
    bool loud;          /* say what is done */
};

/* One in a process, before any world. */
void world_load(void);
void world_begin(struct world *world, const struct limits *limits, struct random *random);
/* Looks at everything, frees it and destroys the streams. */
void world_end(struct world *world, struct random *random);

/*
 * Whether a call succeeded. False: it was refused for want of memory, which such a world allows, and has done
 * nothing. Where the whole context is refused from then on the process ends with REFUSED; any other error
 * ends it with 1.
 */
bool world_did(struct world *world, CUresult status, const char *what);
enum { REFUSED = 3 };
/* The same of a call that asks for no memory: it may say that what was held before was refused, no more. */
void world_must(struct world *world, CUresult status, const char *what);

/* A stream in use, the legacy one included where allowed. */
unsigned world_lane(struct world *world, struct random *random);
/* Another stream instead of one in use, which may still have work. */
void world_replace_stream(struct world *world, struct random *random);
/* Notes the state of a lane in an event; world_order may use it later. */
void world_record(struct world *world, struct random *random);
/* The host waits for a lane in one of the ways there are. False: refused. */
bool world_wait(struct world *world, unsigned lane, struct random *random);
/*
 * The lane's next operation may touch these: adds the waits that are missing. False: refused.
 */
bool world_order(struct world *world, unsigned lane, const struct touch *touches, unsigned count,
                 struct random *random);
/* It was submitted. */
void world_touched(struct world *world, unsigned lane, const struct touch *touches, unsigned count);

/* New device memory with contents nobody knows, on a lane where the way has one. NULL: refused. */
struct object *world_allocate(struct world *world, struct random *random);
/* Gives it back, with everything that names it. */
void world_free(struct world *world, struct object *object, struct random *random);
/* All that is read is defined. */
bool world_defined(const struct touch *touches, unsigned count);
/* Parts that are written as a whole are defined from now on; only where `whole'. */
void world_define(const struct touch *touch, bool whole);

__attribute__((format(printf, 2, 3))) void world_say(const struct world *world, const char *format, ...);
/* Compares bytes with the model; the process ends where they differ. */
void world_compare(const struct world *world, const struct object *object, size_t at,
                   const unsigned char *bytes, size_t count, const char *how);
/* The defined parts of an object, copied back. Host memory is waited for and looked at. */
void world_check(struct world *world, struct object *object, struct random *random);
/* Questions to the driver whose answers are known. */
void world_ask(struct world *world, struct random *random);

#endif
