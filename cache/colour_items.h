/*
 * colour_items.h - what gets colours together: pieces of an address that always move together, with all their
 * stays, of all buffers that lie there one after the other; in the order in which they are to choose. Private
 * to colour.c and colour_items.c.
 *
 * First what never leaves. Then, by time, what is there where the circle is cut, which is where fewest are,
 * the longest first, and the rest in the order of arrival from there on; or all by how long they stay.
 */
#ifndef HBMSPILL_CACHE_COLOUR_ITEMS_H
#define HBMSPILL_CACHE_COLOUR_ITEMS_H

#include "cache/colour.h"

struct colour_item {
    uint32_t first, count;
    uint32_t stays, stay_count; /* in colour_items.stays */
    double begins, takes;       /* the first of them, from the cut on; all together */
    bool crosses, whole;
};

struct colour_items {
    const struct stays *of;
    struct colour_item *items;
    uint32_t count, capacity;
    uint32_t *stays, stay_count, stay_capacity; /* indices */
};

/* -ENOMEM. */
int colour_items_make(const struct cycle *cycle, const struct stays *stays, double round,
                      enum colour_order order, struct colour_items *out);
void colour_items_free(struct colour_items *items);

static inline const struct stay *colour_item_stay(const struct colour_items *items,
                                                  const struct colour_item *item, uint32_t index)
{
    return &items->of->stays[items->stays[item->stays + index]];
}

#endif
