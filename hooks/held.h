/*
 * held.h - what the library itself holds of the driver: counted where it is given and taken back, so that
 * what nobody could find any more (cache/audit.h) can be told.
 *
 * Over all devices. Threads: any.
 */
#ifndef HBMSPILL_HOOKS_HELD_H
#define HBMSPILL_HOOKS_HELD_H

#include "cache/audit.h"
#include "hooks/text.h"
#include "shim/functions.h"

extern struct cache_held held_given;

#define held_add(kind, n)                                                                                    \
    ((void)__atomic_fetch_add(&held_given.kind, (uint64_t)(int64_t)(n), __ATOMIC_RELAXED))

/*
 * Streams and events that the driver would not destroy: kept, and tried again whenever another is destroyed.
 * The context that they belong to is current.
 */
void held_destroy_stream(CUstream stream);
void held_destroy_event(CUevent event);

/* Members of a JSON object, each behind a comma: what is in use, what is held, what of that was lost. */
void held_put_json(struct text *text);

#endif
