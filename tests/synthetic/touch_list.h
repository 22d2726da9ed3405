/*
 * touch_list.h - lists of who touched something, shared by all that has gone through the same: a piece of
 * memory holds the number of a list (0: empty), which is never changed. All pieces of a tensor have the same,
 * so that what an operation makes of a list is worked out once and looked up for the others.
 *
 * Lists are never given back one by one. When there are too many, everything is forgotten, and a race between
 * an operation before that and one after it is not seen. All functions want driver_lock.
 */
#ifndef SYNTHETIC_TOUCH_LIST_H
#define SYNTHETIC_TOUCH_LIST_H

#include "touches.h"

/* 0 or -errno. */
int touch_lists_init(void);
/* There are so many that all have to be forgotten: by whoever holds numbers of them, then by
 * touch_lists_clear. */
bool touch_lists_full_locked(void);
void touch_lists_clear_locked(void);

/* From now on it is this work of op that touches; bytes, for texts. False: it is not kept, memory being
 * short. */
bool touch_begin_locked(const struct op *op, const struct node_place *place, const struct work *work,
                        uint64_t bytes);
/* Nothing more is kept, memory being short. */
void touch_lose_locked(void);
/*
 * The list after it has read and written those units, 4 bytes each, of the piece at address; counts a hazard
 * where somebody in the list did so without an order between them.
 */
uint32_t touch_list_after_locked(uint32_t list, uint64_t read, uint64_t written, uint64_t address);
/* It touches an address that gives access since that operation only: a hazard. */
void touch_granted_locked(uint64_t granted, uint64_t address);

/* Somebody in a list who touched some of those units and is not known to the host to have ended, as a text;
 * or NULL. */
const char *touch_list_unfinished_locked(uint32_t list, uint64_t mask);

#endif
