#include "cache/cycle_greedy.h"
#include <errno.h>
#include <stdlib.h>

int greedy_link_init(struct greedy_link *link, const struct cycle *cycle, double rate)
{
    double piece = (double)cycle->frame_size * 1e9 * GREEDY_TICKS / rate;

    link->slots = 2 * cycle->length;
    link->left = calloc(link->slots, sizeof *link->left);
    link->some = calloc(link->slots / 64 + 1, sizeof *link->some);
    link->taken = malloc(link->slots * sizeof *link->taken);
    if (!link->left || !link->some || !link->taken)
        return -ENOMEM;
    link->piece = piece < 1 ? 1 : piece < 1e15 ? (int64_t)piece : (int64_t)1e15;
    return 0;
}

void greedy_link_set(struct greedy_link *link, const struct cycle *cycle)
{
    for (uint32_t i = 0; i < cycle->length; i++) {
        double ticks = cycle->ops[i].duration * GREEDY_TICKS;

        link->left[2 * i] = link->left[2 * i + 1] = 0;
        greedy_link_add(link, 2 * i, ticks < 1e15 ? (int64_t)ticks : (int64_t)1e15);
        greedy_link_add(link, 2 * i + 1, 0);
    }
}

void greedy_link_free(struct greedy_link *link)
{
    free(link->left);
    free(link->some);
    free(link->taken);
}

/* First bit from `begin' on, before `end', of bits that do not wrap; -1: none. */
static int64_t bit_after(const uint64_t *bits, int64_t begin, int64_t end)
{
    uint64_t word;

    if (begin >= end)
        return -1;
    word = bits[begin / 64] >> (begin % 64) << (begin % 64);
    for (int64_t at = begin / 64; at * 64 < end; word = bits[at]) {
        if (word) {
            int64_t found = at * 64 + __builtin_ctzll(word);

            return found < end ? found : -1;
        }
        if (++at * 64 >= end)
            break;
    }
    return -1;
}

/* Last bit before `end', from `begin' on. */
static int64_t bit_before(const uint64_t *bits, int64_t end, int64_t begin)
{
    int64_t at = (end - 1) / 64;
    uint64_t word;

    if (begin >= end)
        return -1;
    word = bits[at] << (63 - (end - 1) % 64) >> (63 - (end - 1) % 64);
    for (;;) {
        if (word) {
            int64_t found = at * 64 + 63 - __builtin_clzll(word);

            return found >= begin ? found : -1;
        }
        if (at * 64 <= begin)
            return -1;
        word = bits[--at];
    }
}

/* First slot with something left, from `slot' on, before `end'; no more than once around. */
static int64_t link_after(const struct greedy_link *link, int64_t slot, int64_t end)
{
    int64_t slots = link->slots;

    while (slot < end) {
        int64_t base = slot / slots * slots, stop = end < base + slots ? end : base + slots;
        int64_t found = bit_after(link->some, slot - base, stop - base);

        if (found >= 0)
            return base + found;
        slot = stop;
    }
    return -1;
}

/* Last slot with something left before `slot', from `begin' on. */
int64_t greedy_link_before(const struct greedy_link *link, int64_t slot, int64_t begin)
{
    int64_t slots = link->slots;

    while (slot > begin) {
        int64_t base = (slot - 1) / slots * slots, stop = begin > base ? begin : base;
        int64_t found = bit_before(link->some, slot - base, stop - base);

        if (found >= 0)
            return base + found;
        slot = stop;
    }
    return -1;
}

void greedy_link_add(struct greedy_link *link, int64_t slot, int64_t ticks)
{
    int64_t at = slot % link->slots;

    link->left[at] += ticks;
    if (link->left[at] > 0)
        link->some[at / 64] |= UINT64_C(1) << (at % 64);
    else
        link->some[at / 64] &= ~(UINT64_C(1) << (at % 64));
}

static void give_back(struct greedy_link *link)
{
    for (; link->taken_count; link->taken_count--)
        greedy_link_add(link, link->taken[link->taken_count - 1].slot,
                        link->taken[link->taken_count - 1].ticks);
}

bool greedy_link_take(struct greedy_link *link, int64_t begin, int64_t end, bool backwards, int64_t most,
                      struct greedy_span *span)
{
    int64_t missing = link->piece;

    link->taken_count = 0;
    for (;;) {
        int64_t slot = backwards ? greedy_link_before(link, end, begin) : link_after(link, begin, end);
        int64_t left, ticks;

        if (slot < 0) {
            give_back(link);
            return false;
        }
        left = link->left[slot % link->slots];
        ticks = left < missing ? left : missing;
        if (!link->taken_count) {
            span->pieces = left / link->piece < most ? left / link->piece : most;
            span->first = span->last = slot;
            ticks = span->pieces ? span->pieces * link->piece : left;
        }
        if (backwards)
            span->first = slot;
        else
            span->last = slot;
        greedy_link_add(link, slot, -ticks);
        link->taken[link->taken_count].slot = slot;
        link->taken[link->taken_count++].ticks = ticks;
        missing -= ticks;
        if (missing <= 0)
            break;
    }
    span->pieces = span->pieces ? span->pieces : 1;
    return true;
}
