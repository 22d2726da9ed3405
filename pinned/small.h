/*
 * small.h - small pieces of pinned memory, by a jemalloc arena whose memory is pinned slabs.
 *
 * jemalloc asks for address space in slabs of some MiB and says which parts of a slab it uses (commit) and
 * which no longer (decommit). A slab is pinned as a whole when its first part is used, and unpinned when its
 * last part is not; its address space is kept. Nothing of jemalloc's own is in there.
 *
 * Threads: any; jemalloc's locks are held while a slab is pinned, so who needs another slab waits for it.
 */
#ifndef HBMSPILL_PINNED_SMALL_H
#define HBMSPILL_PINNED_SMALL_H

#include "pinned/extent.h"

struct small;

/* source: kept. 0 or -ENOMEM. Arenas cannot be given back, so neither can this. */
int small_create(struct extent_source *source, struct small **out);
/* 0, or the error of pinning: -ENOSPC, -ENOMEM or what pin_ops said. align: a power of two. */
int small_alloc(struct small *small, size_t size, size_t align, void **out);
void small_free(struct small *small, void *memory);
/* Unpins slabs that nothing is in. */
void small_trim(struct small *small);
/* Bytes of slabs now pinned. */
uint64_t small_pinned(struct small *small);
/* Calls for every pinned slab, with a lock held. */
void small_each(struct small *small, void (*visit)(void *context, const void *memory, size_t size),
                void *context);

#endif
