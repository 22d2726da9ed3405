#include "cache/cycle_greedy.h"
#include <errno.h>
#include <stdlib.h>

enum { SHARE = 1024 }; /* share is in parts of it */

/* Longest times that are told apart: sums of them must not overflow. */
static const double most_piece = 1e11, most_operation = 1e13;

static int init(struct greedy_link *link, const struct cycle *cycle, double rate)
{
    double piece = (double)cycle->frame_size * 1e9 * GREEDY_TICKS / rate;

    link->slots = 2 * cycle->length;
    link->left = calloc(link->slots, sizeof *link->left);
    link->some = calloc(link->slots / 64 + 1, sizeof *link->some);
    link->taken = malloc(link->slots * sizeof *link->taken);
    if (!link->left || !link->some || !link->taken)
        return -ENOMEM;
    link->piece = piece < 1 ? 1 : (int64_t)(piece < most_piece ? piece : most_piece);
    return 0;
}

/*
 * While a direction moves a byte in the time 1 / `both' in which it has the other beside it, that one loses
 * what it would have moved alone, 1 - other_both / other of it.
 */
static int64_t share(double rate, double both, double other, double other_both)
{
    double part = rate / both * (1 - other_both / other);

    return part > 0 ? (int64_t)((part < 4 ? part : 4) * SHARE) : 0;
}

int greedy_links_init(struct greedy_link *links, const struct cycle *cycle)
{
    links[GREEDY_OUT].other = &links[GREEDY_IN];
    links[GREEDY_IN].other = &links[GREEDY_OUT];
    links[GREEDY_OUT].share = share(cycle->out, cycle->out_both, cycle->in, cycle->in_both);
    links[GREEDY_IN].share = share(cycle->in, cycle->in_both, cycle->out, cycle->out_both);
    return init(&links[GREEDY_OUT], cycle, cycle->out) || init(&links[GREEDY_IN], cycle, cycle->in) ? -ENOMEM
                                                                                                    : 0;
}

void greedy_links_set(struct greedy_link *links, const struct cycle *cycle)
{
    for (uint32_t i = 0; i < cycle->length; i++) {
        double ticks = cycle->ops[i].duration * GREEDY_TICKS;

        for (uint32_t k = 0; k < 2; k++)
            links[k].left[2 * i] = links[k].left[2 * i + 1] = 0;
        greedy_links_add(links, 2 * i, (int64_t)(ticks < most_operation ? ticks : most_operation));
        greedy_links_add(links, 2 * i + 1, 0);
    }
}

void greedy_link_free(struct greedy_link *link)
{
    free(link->left);
    free(link->some);
    free(link->taken);
}

/* What it may take of a slot: not more than the other has left to lose. */
static int64_t available(const struct greedy_link *link, int64_t at)
{
    int64_t left = link->left[at], others = link->other->left[at];

    if (!link->share || others > INT64_MAX / SHARE)
        return left;
    others = others * SHARE / link->share;
    return others < left ? others : left;
}

static void note(struct greedy_link *link, int64_t at)
{
    if (available(link, at) > 0)
        link->some[at / 64] |= UINT64_C(1) << (at % 64);
    else
        link->some[at / 64] &= ~(UINT64_C(1) << (at % 64));
}

void greedy_links_add(struct greedy_link *links, int64_t slot, int64_t ticks)
{
    int64_t at = slot % links->slots;

    links[GREEDY_OUT].left[at] += ticks;
    links[GREEDY_IN].left[at] += ticks;
    note(&links[GREEDY_OUT], at);
    note(&links[GREEDY_IN], at);
}

/* By the other, rounded up, so that what is available is used up in the end. */
static int64_t lost(const struct greedy_link *link, int64_t ticks)
{
    return ticks / SHARE * link->share + (ticks % SHARE * link->share + SHARE - 1) / SHARE;
}

static void take(struct greedy_link *link, int64_t slot, int64_t ticks)
{
    int64_t at = slot % link->slots;

    link->left[at] -= ticks;
    link->other->left[at] -= lost(link, ticks);
    note(link, at);
    note(link->other, at);
}

void greedy_link_give_back(struct greedy_link *link, const struct greedy_taken *taken, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        int64_t at = taken[i].slot % link->slots;

        link->left[at] += taken[i].ticks;
        link->other->left[at] += lost(link, taken[i].ticks);
        note(link, at);
        note(link->other, at);
    }
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

bool greedy_link_take(struct greedy_link *link, int64_t begin, int64_t end, bool backwards, int64_t most,
                      struct greedy_span *span)
{
    int64_t missing = link->piece;

    link->taken_count = 0;
    for (;;) {
        int64_t slot = backwards ? greedy_link_before(link, end, begin) : link_after(link, begin, end);
        int64_t left, ticks;

        if (slot < 0) {
            greedy_link_give_back(link, link->taken, link->taken_count);
            return false;
        }
        left = available(link, slot % link->slots);
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
        take(link, slot, ticks);
        link->taken[link->taken_count].slot = slot;
        link->taken[link->taken_count++].ticks = ticks;
        missing -= ticks;
        if (missing <= 0)
            break;
    }
    span->pieces = span->pieces ? span->pieces : 1;
    return true;
}
