/*
 * arrivals.h - which bytes came in too late: after the operation they were for could have started without
 * them.
 *
 * A copy the cache makes to the device is for the first operation behind it that touches memory it brings in.
 * It is late where it ends after that operation's stream was through with all that is ahead of the operation
 * but waits for such copies. Both times are the simulation's. What made the host itself late counts as having
 * been ahead: an operation could not have started before it was submitted.
 *
 * One thread; sizes bytes. Errors: -ENOMEM.
 */
#ifndef HBMSPILL_CACHE_TOOLS_ARRIVALS_H
#define HBMSPILL_CACHE_TOOLS_ARRIVALS_H

#include "cache/tools/simulation.h"

struct arrivals {
    uint32_t *operation; /* that a copy is for, by the copy's number in the simulation */
    uint32_t *open;      /* numbers of copies that are for none yet */
    uint32_t count, capacity, open_count;
    uint32_t operations; /* that copies were for, so far */
    bool claimed;        /* by the one that comes next */
};

void arrivals_free(struct arrivals *arrivals);

/* Copies queued since are taken notice of. To be called before memory they bring in is named below. */
int arrivals_note(struct arrivals *arrivals, const struct simulation *simulation);
/*
 * An operation is about to be queued that touches this memory. Copies that are for it are known by the number
 * arrivals->operations, which goes up by one when the last memory was named: arrivals_operation.
 */
void arrivals_claim(struct arrivals *arrivals, const struct simulation *simulation, uint64_t address,
                    uint64_t size);
/* True where any was: *number is to be watched (simulation_watch) ahead of the operation. */
bool arrivals_operation(struct arrivals *arrivals, uint32_t *number);
/* The memory is given back: what came in for it is for nobody. */
void arrivals_drop(struct arrivals *arrivals, const struct simulation *simulation, uint64_t address,
                   uint64_t size);
/* Bytes that were late, for operations from number `from' up to, not including, `until'. At the end of all
 * work. */
double arrivals_late(const struct arrivals *arrivals, const struct simulation *simulation, uint32_t from,
                     uint32_t until);

#endif
