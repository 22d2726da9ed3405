/*
 * order.h - what is ordered after what, by CUDA's rules alone.
 *
 * A lane is a sequence of operations: the host's, the legacy stream's, the thread's default stream's, a
 * created stream's. Each knows by a vector clock up to which of every lane's operations the next of its own
 * comes after. Two operations may touch the same bytes, one of them writing, only where one clock has the
 * other; whoever makes operations asks here first and adds waits for the rest. So what a program computes is
 * what its operations compute one after the other, whatever the GPU does.
 *
 * A destroyed stream's lane is not used again: its successor is not ordered after its work.
 */
#ifndef HBMSPILL_TESTS_FUZZ_ORDER_H
#define HBMSPILL_TESTS_FUZZ_ORDER_H

#include <stdbool.h>
#include <stdint.h>

enum { LANE_HOST, LANE_LEGACY, LANE_THREAD, LANE_CREATED, LANES = 12 };

struct clock {
    uint32_t of[LANES];
};

struct order {
    struct clock seen[LANES];
    bool blocking[LANES]; /* ordered with the legacy stream, both ways */
};

/* Who used a piece of memory last. */
struct uses {
    unsigned writer;
    uint32_t written; /* 0: by nobody */
    uint32_t read[LANES];
};

void clock_join(struct clock *clock, const struct clock *other);
/* The next operation of a lane is about to be submitted: what CUDA orders it after by itself. */
void order_enter(struct order *order, unsigned lane);
/* It has been submitted. Its number in the lane. */
uint32_t order_did(struct order *order, unsigned lane);
/* The host has waited for all that is in the lane. */
void order_waited(struct order *order, unsigned lane);
/* Adds to `needs' what the lane's next operation has to come after and does not yet. */
void order_needs(const struct order *order, unsigned lane, const struct uses *uses, bool write,
                 struct clock *needs);
void order_used(unsigned lane, uint32_t number, struct uses *uses, bool write);

#endif
