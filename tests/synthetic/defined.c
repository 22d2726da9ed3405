/*
 * defined.c - the bits of defined.h: of frames, a bit for each unit that was written; of pinned memory, a bit
 * for each that was not.
 */
#include "defined.h"

#include <string.h>

#define PIECE 256
#define PIECES_OF_PAGE (PAGE / PIECE)
#define POISON_UNIT (POISON * 0x01010101u)

/* Units first to last of a piece. */
static uint64_t units(uint64_t first, uint64_t last)
{
    return (~0ull >> (63 - last)) & (~0ull << first);
}

/* Where this process finds them: what the CPU may write it has at its own address, whatever the device may.
 */
static uint32_t *units_of(uint64_t piece)
{
    bool own = !window_has(piece) || window_page(piece)->host_access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return own ? (void *)(uintptr_t)piece : window_alias(piece);
}

/* Of those units, the ones that still hold POISON. A piece that holds nothing else, as most of memory that is
 * not in use, is seen in a vector loop. */
static uint64_t poisoned(uint64_t piece, uint64_t mask)
{
    const uint32_t *at = units_of(piece);
    uint64_t left = 0;
    if (mask == UINT64_MAX) {
        uint32_t other = 0;
        for (unsigned unit = 0; unit < 64; unit++)
            other |= at[unit] ^ POISON_UNIT;
        if (!other)
            return mask;
    }
    for (; mask; mask &= mask - 1) {
        unsigned unit = (unsigned)__builtin_ctzll(mask);
        if (at[unit] == POISON_UNIT)
            left |= 1ull << unit;
    }
    return left;
}

static void poison(uint64_t piece, uint64_t mask)
{
    uint32_t *at = units_of(piece);
    if (mask == UINT64_MAX)
        memset(at, POISON, PIECE);
    else
        for (; mask; mask &= mask - 1)
            at[__builtin_ctzll(mask)] = POISON_UNIT;
}

/* ---- frames ---- */

uint64_t *defined_word(uint64_t address)
{
    const struct page *page = window_page(address);
    return page->frame ? frames_of(page->space)->defined + (page->frame - 1) * PIECES_OF_PAGE +
                             (address & PAGE_MASK) / PIECE
                       : NULL;
}

static bool cpu_sees(uint64_t address)
{
    return !window_has(address) || window_page(address)->host_access;
}

uint64_t defined_missing(uint64_t address, uint64_t mask)
{
    uint64_t piece = address & ~(uint64_t)(PIECE - 1);
    if (!cpu_sees(address))
        return mask;
    uint64_t left = poisoned(piece, mask);
    __atomic_fetch_or(defined_word(address), mask & ~left, __ATOMIC_RELAXED);
    return left;
}

void defined_handed_out_locked(struct frames *frames, uint32_t frame)
{
    memset(frames->defined + frame * PIECES_OF_PAGE, 0, PIECES_OF_PAGE * sizeof(*frames->defined));
}

/* ---- pinned memory ---- */

/* The word of a piece of pinned memory, or NULL. range_lock or driver_lock held. */
static uint64_t *undefined_word(uint64_t address)
{
    const struct range *range = window_has(address) ? NULL : range_find_locked(address);
    return range && range->undefined ? range->undefined + (address / PIECE - range->base / PIECE) : NULL;
}

static uint64_t undefined_units(uint64_t *word, uint64_t piece, uint64_t mask)
{
    uint64_t left = *word & mask;
    if (left) {
        left = poisoned(piece, left);
        *word &= ~mask | left;
    }
    return left;
}

uint64_t defined_outside(uint64_t address, uint32_t size, bool write)
{
    uint64_t piece = address & ~(uint64_t)(PIECE - 1), left = 0;
    uint64_t mask = units(address % PIECE / 4, (address + size - 1) % PIECE / 4);
    pthread_rwlock_rdlock(&range_lock);
    uint64_t *word = undefined_word(address);
    if (word && write)
        *word &= ~mask;
    else if (word)
        left = undefined_units(word, piece, mask);
    pthread_rwlock_unlock(&range_lock);
    return left ? piece + (uint64_t)__builtin_ctzll(left) * 4 : 0;
}

/* ---- any memory ---- */

/* Of those units of a piece, the ones that were written. */
static uint64_t read_units(uint64_t piece, uint64_t mask)
{
    uint64_t *word;
    if (window_has(piece)) {
        word = defined_word(piece);
        uint64_t missing = word ? mask & ~*word : 0;
        return mask & ~(missing ? defined_missing(piece, missing) : 0);
    }
    word = undefined_word(piece);
    if (!word) /* the range may begin within the piece */
        word = undefined_word(piece + PIECE - 1);
    return word ? mask & ~undefined_units(word, piece, mask) : mask;
}

/* Some units of a piece have been written, with that. */
static void write_units(uint64_t address, uint64_t mask, uint64_t defined)
{
    uint64_t piece = address & ~(uint64_t)(PIECE - 1), *word;
    if (window_has(address)) {
        word = defined_word(address);
        if (!word)
            return;
        __atomic_fetch_or(word, mask & defined, __ATOMIC_RELAXED);
        if (mask & ~defined)
            __atomic_fetch_and(word, ~(mask & ~defined), __ATOMIC_RELAXED);
    } else {
        word = undefined_word(address);
        if (!word)
            return;
        *word = (*word & ~mask) | (mask & ~defined);
    }
    if (mask & ~defined && cpu_sees(address))
        poison(piece, mask & ~defined);
}

void defined_write_locked(uint64_t address, uint64_t size)
{
    for (uint64_t end = address + size; address < end;) {
        uint64_t next = (address | (PIECE - 1)) + 1, to = next < end ? next : end;
        write_units(address, units(address % PIECE / 4, (to - 1) % PIECE / 4), UINT64_MAX);
        address = to;
    }
}

void defined_free_locked(uint64_t address, uint64_t size)
{
    for (uint64_t end = address + size; address < end; address += PIECE) {
        uint64_t *word = defined_word(address);
        if (!word || !*word)
            continue;
        memset(units_of(address), POISON, PIECE);
        *word = 0;
    }
}

/* ---- copies ---- */

/* The n units at address, which may lie in two pieces. */
static uint64_t read_across(uint64_t address, unsigned n)
{
    uint64_t piece = address & ~(uint64_t)(PIECE - 1);
    unsigned first = (unsigned)(address % PIECE / 4), here = 64 - first;
    if (here >= n)
        return read_units(piece, units(first, first + n - 1)) >> first;
    return read_units(piece, units(first, 63)) >> first | read_units(piece + PIECE, units(0, n - here - 1))
                                                              << here;
}

static void report_read(const struct op *op, const struct copy_work *copy, uint64_t address)
{
    report_hazard_locked(
        "undefined-read",
        "a copy of %zu bytes (operation %llu, stream %llu) hands the host 0x%llx, which nobody has written "
        "since that memory changed hands",
        copy->width * copy->height * copy->depth, (unsigned long long)op->order.number,
        (unsigned long long)op->stream->id, (unsigned long long)address);
}

/* The first undefined address of [address, address + size), or 0. */
static uint64_t first_undefined(uint64_t address, uint64_t size)
{
    for (uint64_t end = address + size; address < end; address = (address | (PIECE - 1)) + 1) {
        uint64_t piece = address & ~(uint64_t)(PIECE - 1), to = piece + PIECE < end ? piece + PIECE : end;
        uint64_t mask = units(address % PIECE / 4, (to - 1) % PIECE / 4);
        uint64_t missing = mask & ~read_units(piece, mask);
        if (missing)
            return piece + (uint64_t)__builtin_ctzll(missing) * 4;
    }
    return 0;
}

/* What is known of the source of one row goes to its destination. */
static void copy_row(uint64_t dst, uint64_t src, uint64_t size)
{
    uint64_t first = round_up(dst, 4), end = (dst + size) & ~3ull;
    if ((dst ^ src) & 3 || first >= end) {
        defined_write_locked(dst, size);
        return;
    }
    if (first > dst && read_across(src & ~3ull, 1)) /* units in part: written by this, if by anybody */
        defined_write_locked(dst, first - dst);
    if (dst + size > end && read_across(src + (end - dst), 1))
        defined_write_locked(end, dst + size - end);
    while (first < end) {
        uint64_t next = (first | (PIECE - 1)) + 1, to = next < end ? next : end;
        unsigned n = (unsigned)(to - first) / 4, at = (unsigned)(first % PIECE / 4);
        write_units(first, units(at, at + n - 1), read_across(src + (first - dst), n) << at);
        first = to;
    }
}

static void copy_box(const struct op *op, const struct copy_work *copy)
{
    bool to_host = !window_has(copy->dst) && !undefined_word(copy->dst);
    uint64_t undefined = 0;
    for (size_t z = 0; z < copy->depth; z++) {
        for (size_t y = 0; y < copy->height; y++) {
            uint64_t dst = copy->dst + z * copy->dst_slice + y * copy->dst_pitch;
            uint64_t src = copy->src + z * copy->src_slice + y * copy->src_pitch;
            if (!to_host && copy->staged)
                defined_write_locked(dst, copy->width);
            else if (!to_host)
                copy_row(dst, src, copy->width);
            else if (!undefined && !copy->staged)
                undefined = first_undefined(src, copy->width);
        }
    }
    if (undefined)
        report_read(op, copy, undefined);
}

void defined_note_locked(const struct op *op, const struct work *work)
{
    const struct memset_work *m = &work->memset;
    switch (work->kind) {
    case WORK_COPY:
        copy_box(op, &work->copy);
        break;
    case WORK_MEMSET:
        for (size_t y = 0; y < m->height; y++)
            defined_write_locked(m->dst + y * m->pitch, m->width * m->element);
        break;
    case WORK_WRITE_VALUE:
        defined_write_locked(work->value.address, work->value.wide ? 8 : 4);
        break;
    case WORK_FREE:
        defined_free_locked(work->free.address, work->free.size);
        break;
    default:
        break;
    }
}
