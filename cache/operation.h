/*
 * operation.h - the steps of an operation's begin and end (operation.c), for those that differ in one of them
 * (copy.c).
 *
 * Called with the cache's lock held; 0 or -errno, op->failure with -ENOMEM.
 */
#ifndef HBMSPILL_CACHE_OPERATION_H
#define HBMSPILL_CACHE_OPERATION_H

#include "cache/internal.h"

/* Its stream is known and nothing touched. May release and take the lock. */
int op_start(struct cache *cache, struct cache_op *op, struct stream_key stream);
/* One more segment, or more access to one that is there. */
int op_add(struct cache_op *op, struct segment *segment, unsigned access);
/* Brings everything in; the pins are held when it returns 0. May release and take the lock. */
int op_place(struct cache *cache, struct cache_op *op);
/* Orders the stream, notes what will be written; afterwards it may be submitted. Gives the pins up where it
 * fails. */
int op_begin_placed(struct cache *cache, struct cache_op *op);
void op_unpin(struct cache *cache, struct cache_op *op);
/* Returns the memory of the list, and the stream to those that may be forgotten. */
void op_clear(struct cache *cache, struct cache_op *op);

#endif
