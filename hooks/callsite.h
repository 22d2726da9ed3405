/*
 * callsite.h - where in the program an allocation is made.
 *
 * A call site is the return addresses of the innermost frames, kept once for each different stack and named
 * by a small number. Stacks are taken with backtrace(3), which costs some microseconds, so most allocations
 * are recognised by their size and by how deep the stack is, and only what is new is walked, within a budget
 * of time. They are turned into names when they are printed.
 *
 * Threads: any. Not from signal handlers.
 */
#ifndef HBMSPILL_HOOKS_CALLSITE_H
#define HBMSPILL_HOOKS_CALLSITE_H

#include <stdint.h>

enum { CALLSITE_FRAMES = 20 };

/* The site of an allocation of so many bytes that is being made; 0 where the budget is spent or no stack can
 * be had. */
uint32_t callsite_take(uint64_t size);
/* The return addresses of a site, innermost first, without those in this library; returns how many. */
unsigned callsite_addresses(uint32_t site, void *addresses[CALLSITE_FRAMES]);

#endif
