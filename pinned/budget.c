#include "pinned/budget.h"
#include <errno.h>

void budget_init(struct budget *budget, uint64_t limit)
{
    atomic_init(&budget->limit, limit);
    atomic_init(&budget->pinned, 0);
    atomic_init(&budget->peak, 0);
}

static void note_peak(struct budget *budget, uint64_t pinned)
{
    uint64_t peak = atomic_load(&budget->peak);

    while (pinned > peak && !atomic_compare_exchange_weak(&budget->peak, &peak, pinned))
        ;
}

int budget_take(struct budget *budget, uint64_t bytes)
{
    uint64_t pinned = atomic_load(&budget->pinned), after;

    do {
        if (__builtin_add_overflow(pinned, bytes, &after) || after > atomic_load(&budget->limit))
            return -ENOSPC;
    } while (!atomic_compare_exchange_weak(&budget->pinned, &pinned, after));
    note_peak(budget, after);
    return 0;
}

void budget_take_anyway(struct budget *budget, uint64_t bytes)
{
    note_peak(budget, atomic_fetch_add(&budget->pinned, bytes) + bytes);
}

void budget_give(struct budget *budget, uint64_t bytes)
{
    atomic_fetch_sub(&budget->pinned, bytes);
}

uint64_t budget_left(const struct budget *budget)
{
    uint64_t limit = atomic_load(&budget->limit), pinned = atomic_load(&budget->pinned);

    return limit > pinned ? limit - pinned : 0;
}

bool budget_lower(struct budget *budget, uint64_t limit)
{
    uint64_t before = atomic_load(&budget->limit);

    do {
        if (before <= limit)
            return false;
    } while (!atomic_compare_exchange_weak(&budget->limit, &before, limit));
    return true;
}
