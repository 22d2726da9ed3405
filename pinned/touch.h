/*
 * touch.h - the first touch of memory, by several threads: the kernel clears each page then, which is most of
 * what pinning costs, and one thread clears no faster than one core writes.
 */
#ifndef HBMSPILL_PINNED_TOUCH_H
#define HBMSPILL_PINNED_TOUCH_H

#include <stddef.h>

/* How many threads that many bytes are worth on the CPUs that the caller may run on. */
unsigned touch_threads(size_t size);

/*
 * Every page of a range that was just mapped has memory afterwards: 0, or -ENOMEM. Threads of its own, at
 * most `threads' with the caller, that take no signals and are gone when this returns; where none can be made
 * the caller does it all.
 */
int touch_first(void *memory, size_t size, unsigned threads);

#endif
