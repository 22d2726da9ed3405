/*
 * touches.c - what memory remembers of who touched it: a list (touch_list.h) for every piece, and one for
 * every page of addresses.
 */
#include "touch_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PIECE 256
#define PIECES_OF_PAGE (PAGE / PIECE)

static uint32_t *page_users;   /* by page of the window: a list */
static uint64_t *page_granted; /* the number of the last operation submitted before it gave access */

int touches_init(void)
{
    page_users = sparse_new(WINDOW_BYTES / PAGE * sizeof(*page_users));
    page_granted = sparse_new(WINDOW_BYTES / PAGE * sizeof(*page_granted));
    return page_users && page_granted ? touch_lists_init() : -ENOMEM;
}

/* ---- memory ---- */

static uint32_t *cell_of(uint64_t address)
{
    if (window_has(address)) {
        const struct page *page = window_page(address);
        return page->frame ? frames_of(page->space)->touches + (page->frame - 1) * PIECES_OF_PAGE +
                                 (address & PAGE_MASK) / PIECE
                           : NULL;
    }
    const struct range *range = range_find_locked(address);
    return range && range->touches ? range->touches + address / PIECE - range->base / PIECE : NULL;
}

/* How far the cells from address on lie side by side. */
static uint64_t run_end(uint64_t address, uint64_t end)
{
    uint64_t to = 0;
    if (window_has(address)) {
        to = (address | PAGE_MASK) + 1;
    } else {
        const struct range *range = range_find_locked(address);
        to = range && range_is_host(range) ? range->base + range->size : end;
    }
    return to < end ? to : end;
}

static void touch_page(uint64_t address)
{
    uint64_t page = (address - window_base) / PAGE;
    touch_granted_locked(page_granted[page], address);
    page_users[page] = touch_list_after_locked(page_users[page], 1, 0, address);
}

static void touch_bytes(uint64_t address, uint64_t size, bool write)
{
    uint64_t end = address + size, mask_before = 0;
    uint32_t before = 0, after = 0; /* most cells of a range have the same list, and get the same */
    while (address < end) {
        uint64_t run = run_end(address, end);
        uint32_t *cell = cell_of(address);
        if (cell && window_has(address))
            touch_page(address);
        for (; cell && address < run; cell++) {
            uint64_t next = (address | (PIECE - 1)) + 1, to = next < run ? next : run;
            uint64_t first = address % PIECE / 4, last = (to - 1) % PIECE / 4;
            uint64_t mask = (~0ull >> (63 - last)) & (~0ull << first);
            if (mask != mask_before || *cell != before) {
                mask_before = mask;
                before = *cell;
                after = touch_list_after_locked(before, write ? 0 : mask, write ? mask : 0, address);
            }
            *cell = after;
            address = to;
        }
        address = run;
    }
}

static void touch_box(uint64_t address, size_t width, size_t height, size_t depth, size_t pitch, size_t slice,
                      bool write)
{
    for (size_t z = 0; z < depth; z++)
        for (size_t y = 0; y < height; y++)
            touch_bytes(address + z * slice + y * pitch, width, write);
}

/* Eight units of the interpreter's as units of 4 bytes. */
static uint64_t spread(uint8_t units)
{
    uint64_t mask = 0;
    if (units == 0xff)
        return UINT64_MAX;
    for (unsigned i = 0; i < 8; i++)
        if (units >> i & 1)
            mask |= 0xffull << (8 * i);
    return mask;
}

static void touch_by_kernel(const struct touched *touched)
{
    uint64_t page = UINT64_MAX;
    for (size_t i = 0; i < touched->count; i++) {
        uint64_t word = touched->seen[touched->pieces[i]], address = window_base + touched->pieces[i] * PIECE;
        uint32_t *cell = cell_of(address);
        if (!cell)
            continue;
        if (address / PAGE != page)
            touch_page(address);
        page = address / PAGE;
        *cell = touch_list_after_locked(*cell, spread(ptx_units_touched(word, touched->number, false)),
                                        spread(ptx_units_touched(word, touched->number, true)), address);
    }
    for (size_t i = 0; i < touched->outside_count; i++)
        touch_bytes(touched->outside[i].address, touched->outside[i].size, touched->outside[i].write);
}

/* ---- what a kernel touched ---- */

static void *more(void *list, size_t *capacity, size_t count, size_t size)
{
    if (count <= *capacity)
        return list;
    size_t grown = *capacity ? *capacity * 2 : 4096;
    while (grown < count)
        grown *= 2;
    list = realloc(list, grown * size);
    if (list)
        *capacity = grown;
    return list;
}

void touched_pieces(struct touched *touched, const uint64_t *pieces, uint32_t count)
{
    uint64_t *list = more(touched->pieces, &touched->capacity, touched->count + count, sizeof(*list));
    if (!list) {
        touched->incomplete = true;
        return;
    }
    touched->pieces = list;
    memcpy(list + touched->count, pieces, count * sizeof(*list));
    touched->count += count;
}

void touched_outside(struct touched *touched, uint64_t address, uint32_t size, bool write)
{
    struct touched_outside *last =
        touched->outside_count ? &touched->outside[touched->outside_count - 1] : NULL;
    if (last && last->write == write && address >= last->address && address <= last->address + last->size) {
        if (address + size > last->address + last->size)
            last->size = address + size - last->address;
        return;
    }
    last = more(touched->outside, &touched->outside_capacity, touched->outside_count + 1, sizeof(*last));
    if (!last) {
        touched->incomplete = true;
        return;
    }
    touched->outside = last;
    last[touched->outside_count++] =
        (struct touched_outside){.address = address, .size = size, .write = write};
}

/* ---- what is known of all memory ---- */

static void forget_everything(void)
{
    frames_forget_touches_locked();
    ranges_forget_touches_locked();
    madvise(page_users, WINDOW_BYTES / PAGE * sizeof(*page_users), MADV_DONTNEED);
    touch_lists_clear_locked();
}

void touches_note_locked(const struct op *op, const struct node_place *place, const struct work *work,
                         struct touched *touched)
{
    const struct copy_work *c = &work->copy;
    const struct memset_work *m = &work->memset;
    if (touch_lists_full_locked())
        forget_everything();
    switch (work->kind) {
    case WORK_KERNEL:
        if (touched->incomplete)
            touch_lose_locked();
        if (touch_begin_locked(op, place, work, 0))
            touch_by_kernel(touched);
        touched->count = touched->outside_count = 0;
        break;
    case WORK_COPY:
        if (!touch_begin_locked(op, place, work, c->width * c->height * c->depth))
            break;
        if (!c->staged)
            touch_box(c->src, c->width, c->height, c->depth, c->src_pitch, c->src_slice, false);
        touch_box(c->dst, c->width, c->height, c->depth, c->dst_pitch, c->dst_slice, true);
        break;
    case WORK_MEMSET:
        if (touch_begin_locked(op, place, work, m->width * m->element * m->height))
            touch_box(m->dst, m->width * m->element, m->height, 1, m->pitch, 0, true);
        break;
    case WORK_FREE:
        if (touch_begin_locked(op, place, work, work->free.size))
            touch_bytes(work->free.address, work->free.size, true);
        break;
    default:
        break;
    }
}

void touches_forget_frames_locked(struct frames *frames, uint32_t n, const uint32_t *list)
{
    for (uint32_t i = 0; i < n; i++)
        memset(frames->touches + list[i] * PIECES_OF_PAGE, 0, PIECES_OF_PAGE * sizeof(*frames->touches));
}

void touches_forget_locked(uint64_t address, uint64_t size)
{
    uint64_t end = address + size;
    while (address < end) {
        uint64_t run = run_end(address, end);
        uint32_t *cell = cell_of(address);
        if (cell)
            memset(cell, 0, ((run - 1) / PIECE - address / PIECE + 1) * sizeof(*cell));
        address = run;
    }
}

void touches_page_mapped_locked(uint64_t address, uint64_t size)
{
    memset(page_users + (address - window_base) / PAGE, 0, size / PAGE * sizeof(*page_users));
}

void touches_page_granted_locked(uint64_t address)
{
    page_granted[(address - window_base) / PAGE] = order_now_locked();
}

static const char *unfinished_of_pages(uint64_t address, uint64_t size)
{
    const char *found = NULL;
    for (uint64_t a = address & ~PAGE_MASK; a < address + size && !found; a += PAGE)
        found = touch_list_unfinished_locked(page_users[(a - window_base) / PAGE], 1);
    return found;
}

static const char *unfinished_of_pieces(uint64_t address, uint64_t size)
{
    const char *found = NULL;
    uint32_t before = 0;
    for (uint64_t end = address + size; address < end && !found; address = (address | (PIECE - 1)) + 1) {
        const uint32_t *cell = cell_of(address);
        if (cell && *cell != before)
            found = touch_list_unfinished_locked(*cell, UINT64_MAX);
        before = cell ? *cell : 0;
    }
    return found;
}

bool touches_leave_locked(const char *function, uint64_t address, uint64_t size, bool pages)
{
    const char *user = pages ? unfinished_of_pages(address, size) : unfinished_of_pieces(address, size);
    if (user)
        report_hazard_locked(
            "memory-in-use",
            "%s of 0x%llx, %llu bytes, before the host knows that %s, which touched it, has ended", function,
            (unsigned long long)address, (unsigned long long)size, user);
    return user != NULL;
}
