/*
 * memory.h - memory that is not the library's own: what the C library or another allocated by itself for us.
 *
 * The library's malloc, free and so on are an arena of its own (memory.c), so these pointers may not be given
 * to free.
 *
 * What the C library takes from the job's heap by itself when it is called from here (test_own_heap.c has the
 * list, and fails at anything else): a thread's own data, once, when the window's helper is made; the streams
 * and directories of a plan that is asked for or found (planner.c, plan_cache.c), once for each round that
 * repeats; libraries that are looked up (dlopen, realpath), once. No lock of ours that an allocation of the
 * job's could wait for is held then.
 */
#ifndef HBMSPILL_SHIM_MEMORY_H
#define HBMSPILL_SHIM_MEMORY_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that the library's own records take, as their allocator rounds them. Any thread. */
uint64_t memory_own_bytes(void);

/* To the process's free, whoever has that: it is the one that who allocated found, too. NULL is allowed. */
static inline void memory_free_foreign(void *memory)
{
    void (*give_back)(void *) = NULL;

    if (memory)
        *(void **)&give_back = dlsym(RTLD_DEFAULT, "free");
    if (give_back)
        give_back(memory);
}

#endif
