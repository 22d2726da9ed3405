/*
 * shim.h - what the rest of hbmspill may know of the loader.
 *
 * A process goes through: loaded (nothing happens but that the constructor sets environment variables) ->
 * active (cuInit has succeeded; hooks do their work) -> exit. A child forked from an active process is inert
 * for good: CUDA cannot be used there. Where shim_active() is false a hook forwards its arguments and returns
 * what the real function returned, no more.
 */
#ifndef HBMSPILL_SHIM_SHIM_H
#define HBMSPILL_SHIM_SHIM_H

#include "shim/functions.h"

#include <stdatomic.h>
#include <stdbool.h>

enum shim_mode { SHIM_OFF, SHIM_OBSERVE, SHIM_ON };

enum shim_state { SHIM_LOADED, SHIM_ACTIVE, SHIM_INERT };

/* Read it through shim_active(). */
extern atomic_int shim_state;

/* HBMSPILL, constant. */
enum shim_mode shim_mode(void);

/* Whether hooks have work to do: any thread, one relaxed load. Never true with HBMSPILL=off. */
static inline bool shim_active(void)
{
    return atomic_load_explicit(&shim_state, memory_order_relaxed) == SHIM_ACTIVE;
}

/* Whether driver functions are replaced by hooks in this process: not with HBMSPILL=off, not in a forked
 * child. */
bool shim_substitutes(void);

/*
 * What the job's XLA allocator asks the driver for (XLA_PYTHON_CLIENT_ALLOCATOR and what goes with it). As of
 * cuInit.
 *
 *   TENSORS  an allocation for each (cuda_async), or the job is none of JAX's
 *   REGIONS  handles that it maps itself: one for each tensor (vmm), or as many as are needed, which it cuts
 * up (platform; default and bfc where they are not told to take all at once) SLAB     one, for all that it
 * may ever use (default, bfc), or unified memory
 */
enum shim_allocator { SHIM_ALLOCATOR_TENSORS, SHIM_ALLOCATOR_REGIONS, SHIM_ALLOCATOR_SLAB };
enum shim_allocator shim_allocator(void);
/* The share of a GPU's memory that the user lets JAX have (XLA_CLIENT_MEM_FRACTION or the older name), at
 * most 1. As of cuInit. */
double shim_memory_fraction(void);

/*
 * What hooks/ provides.
 */

/*
 * cuInit has succeeded for the first time; shim_active() becomes true when this returns, and other threads'
 * cuInit waits for it. No context need be current. May call the driver; must not call the dynamic linker (a
 * thread that holds its lock may be waiting in cuInit).
 */
void hooks_driver_ready(void);

/* A pointer to hook_<name> was handed out. Any thread, possibly before cuInit; the name is a constant. */
void hooks_intercepted(const char *name);

/*
 * The process, which was active, exits. No driver call: the driver may be gone (CUDA_ERROR_DEINITIALIZED).
 * Other threads may still be in hooks, so a lock may never come free, and destructors of other libraries may
 * call hooks after this.
 */
void hooks_exit(void);

/* In the child of a fork of an active process, before anything else runs there: async-signal-safe work only.
 */
void hooks_fork_child(void);

#endif
