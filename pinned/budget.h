/*
 * budget.h - how many bytes may be pinned, and how many are: one account for the whole process.
 *
 * Every pinned byte is in it, by whoever it was asked for: bytes are taken before memory is pinned and given
 * back after it is not any more, so the account is never below what is pinned, and at rest it is equal.
 *
 * Threads: any, without a lock. Sizes are bytes.
 */
#ifndef HBMSPILL_PINNED_BUDGET_H
#define HBMSPILL_PINNED_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct budget {
    _Atomic uint64_t limit, pinned, peak;
};

void budget_init(struct budget *budget, uint64_t limit);
/* 0, or -ENOSPC where the limit would be passed. */
int budget_take(struct budget *budget, uint64_t bytes);
/* For what is pinned in any case; the limit may be passed. */
void budget_take_anyway(struct budget *budget, uint64_t bytes);
void budget_give(struct budget *budget, uint64_t bytes);
/* What can still be taken. */
uint64_t budget_left(const struct budget *budget);
/* The system pins no more than this: the limit comes down to it. False: it was no higher. */
bool budget_lower(struct budget *budget, uint64_t limit);

#endif
