/*
 * pinned.h - pinned host memory of each device: where it comes from, and the one account of it.
 *
 * Host slots and what the job asks for (host_alloc.c) come from a pool for each device (pinned/pool.h), whose
 * memory is registered with the driver in the gpu's context. Where the driver does not register memory, or
 * the device does not reach it by the CPU's address, it is the driver's own, in the same account.
 *
 * Threads: any. Bytes.
 */
#ifndef HBMSPILL_HOOKS_PINNED_H
#define HBMSPILL_HOOKS_PINNED_H

#include "hooks/text.h"
#include "pinned/pool.h"

struct gpu;

struct pinned_memory {
    struct pool *pool; /* NULL: the driver's own memory */
    struct pin_ops ops;
    int node;            /* it is placed there; -1: not placed */
    atomic_bool lost;    /* with the context, all of it went */
    atomic_bool refused; /* registering was refused for good */
    bool primary;        /* its context is the device's primary one */
};

/* The account; its limit is HBMSPILL_HOST_LIMIT's. */
struct budget *pinned_budget(void);

/* Bytes for memory that is not from a pool; idle memory of the pools makes way. 0 or -ENOSPC. */
int pinned_take(uint64_t bytes);

/* For a gpu that is being made; context and device are set. */
void pinned_init(struct gpu *gpu);

/* device_ops' host_alloc, host_free and host_room. */
int pinned_slot_alloc(struct gpu *gpu, uint64_t size, void **out);
int pinned_slot_free(struct gpu *gpu, void *memory);
uint64_t pinned_room(void);

/* From the pool, whatever other pools have to give back for it. -ENOTSUP: there is no pool. */
int pinned_alloc(struct gpu *gpu, uint64_t size, void **out);
/* The driver's own, in the account; what it does not take back stays there. */
int pinned_native_alloc(struct gpu *gpu, uint64_t size, unsigned flags, void **out);
int pinned_native_free(struct gpu *gpu, void *memory);
/* Whether job memory may come from the pool: every device of the process reaches it by the CPU's address. */
bool pinned_serves(struct gpu *gpu);

/*
 * From hooks that are called often enough: gives back what was idle for HBMSPILL_HOST_DECAY_MS, or all that
 * is idle where memory is short (PSI) or a signal asked for it. A look at the clock where it is not time yet.
 */
void pinned_tick(void);

/* The gpu's context went, and with it what was registered in it. */
void pinned_context_gone(struct gpu *gpu);

/* Things of the driver's that the pools have (held.c), and members of a JSON object: a device's; the account
 * of pinned memory, and what our own records take. */
uint64_t pinned_registrations(void);
uint64_t pinned_host_allocations(void);
void pinned_put_json(struct text *text, struct gpu *gpu);
void pinned_put_account(struct text *text);

#endif
