/*
 * order.c - vector clocks over lanes.
 */
#include "tests/fuzz/order.h"

#include <string.h>

void clock_join(struct clock *clock, const struct clock *other)
{
    for (unsigned i = 0; i < LANES; i++)
        if (clock->of[i] < other->of[i])
            clock->of[i] = other->of[i];
}

/*
 * "Stream synchronization behavior": the legacy stream waits for all blocking streams, and they for it. And
 * nothing starts before it was submitted, so all that the host knows to have ended has.
 */
void order_enter(struct order *order, unsigned lane)
{
    clock_join(&order->seen[lane], &order->seen[LANE_HOST]);
    if (lane == LANE_LEGACY) {
        for (unsigned i = LANE_THREAD; i < LANES; i++)
            if (order->blocking[i])
                clock_join(&order->seen[LANE_LEGACY], &order->seen[i]);
    } else if (order->blocking[lane]) {
        clock_join(&order->seen[lane], &order->seen[LANE_LEGACY]);
    }
}

uint32_t order_did(struct order *order, unsigned lane)
{
    return ++order->seen[lane].of[lane];
}

void order_waited(struct order *order, unsigned lane)
{
    clock_join(&order->seen[LANE_HOST], &order->seen[lane]);
}

static void need(const struct clock *seen, unsigned lane, uint32_t number, struct clock *needs)
{
    if (seen->of[lane] < number && needs->of[lane] < number)
        needs->of[lane] = number;
}

void order_needs(const struct order *order, unsigned lane, const struct uses *uses, bool write,
                 struct clock *needs)
{
    const struct clock *seen = &order->seen[lane];

    need(seen, uses->writer, uses->written, needs);
    for (unsigned i = 0; write && i < LANES; i++)
        need(seen, i, uses->read[i], needs);
}

void order_used(unsigned lane, uint32_t number, struct uses *uses, bool write)
{
    if (write) {
        memset(uses->read, 0, sizeof uses->read);
        uses->writer = lane;
        uses->written = number;
    } else {
        uses->read[lane] = number;
    }
}
