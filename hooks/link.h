/*
 * link.h - how fast memory moves between host and device, measured once for each gpu.
 *
 * Measured when memory gets short and the cache has a frame to spare, on that frame and pinned memory of the
 * cache's own, within some 200 ms: a job that always fits pays nothing, and a moment in which there is
 * nothing to spare is let pass. Until then, and where it cannot be measured, rates are assumed ones.
 *
 * A job that is ahead of its GPU has a frame to spare only later, and is not slowed down by waiting a little:
 * the thread that is to measure waits for one, holding nothing, longer from one try to the next, at most a
 * ninth of the time; after some tries data is moved out for it. The same goes for copies of the cache's own,
 * which take part of the link. Other threads go on.
 */
#ifndef HBMSPILL_HOOKS_LINK_H
#define HBMSPILL_HOOKS_LINK_H

#include "cache/device_ops.h"
#include <stdatomic.h>
#include <stdbool.h>

struct gpu;
struct cache_loan;

/* Bytes a second: host to device (in) and back (out), alone and while the other direction is busy too. */
struct link_rates {
    double in, out, in_both, out_both;
};

struct link {
    atomic_int state;       /* enum link_state */
    atomic_ullong next_try; /* CLOCK_MONOTONIC, nanoseconds */
    uint64_t patience;      /* how long the next try may wait; by the thread that tries */
    unsigned tries;
    struct link_rates rates; /* constant once the state is LINK_MEASURED, else the assumed ones */
    double seconds;          /* what measuring took */
};

enum link_state { LINK_DUE, LINK_BUSY, LINK_MEASURED, LINK_ASSUMED };

void link_init(struct link *link);
/* Measures now if memory is short, it was not done yet, and it can be done; costs a load or two otherwise. */
void link_when_short(struct gpu *gpu);
/* Whether the rates were measured. Both outputs are valid either way. */
bool link_known(const struct link *link, struct link_rates *rates);

/* What was queued for a measurement, whether it succeeded or not. */
struct link_traffic {
    uint64_t bytes_in, bytes_out;
    bool idle; /* all of it is known to have completed */
};

/* The measurement itself. 0, or -errno of a call, -ERANGE where times make no sense; *traffic either way. */
int link_measure(const struct device_ops *ops, const struct cache_loan *loan, struct link_rates *rates,
                 struct link_traffic *traffic);

#endif
