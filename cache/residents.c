#include "cache/residents.h"
#include "cache/internal.h"
#include <utlist.h>

enum { ROWS = 256 }; /* a power of two; three quarters are given out, so a free one is found soon */

struct residents {
    struct resident_row row[ROWS]; /* by hash of the size; [0] for the rest */
    unsigned used;
};

static struct resident_row *row_of(struct residents *residents, uint64_t size)
{
    uint64_t hash = size * UINT64_C(0x9e3779b97f4a7c15);

    for (uint32_t i = (uint32_t)(hash >> 32);; i++) {
        struct resident_row *row = &residents->row[i % ROWS];

        if (i % ROWS == 0 || (row->size && row->size != size))
            continue;
        if (!row->size && residents->used >= ROWS / 4 * 3)
            return &residents->row[0];
        residents->used += !row->size;
        row->size = size;
        return row;
    }
}

/* Of a segment that has several allocations, some given back, the pieces belong to all of it. */
static void add(struct residents *residents, const struct segment *segment)
{
    struct resident_row *row = row_of(residents, segment->item_size);
    const uint64_t live = segment->live_items * segment->item_size;
    const uint64_t filled = segment->unit * segment->filled_pieces;
    const uint64_t hbm = segment->filled || filled > live ? live : filled;

    row->count += segment->live_items;
    if (segment->state == SEGMENT_EMPTY)
        return;
    row->hbm += hbm;
    row->host += live - hbm;
}

static bool is_before(const struct resident_row *a, const struct resident_row *b)
{
    return a->hbm != b->hbm ? a->hbm > b->hbm : a->hbm + a->host > b->hbm + b->host;
}

unsigned cache_residents(struct cache *cache, struct resident_row *rows, unsigned max)
{
    struct residents residents = {.used = 0};
    const struct segment *segment;
    unsigned count = 0;

    pthread_mutex_lock(&cache->lock);
    DL_FOREACH2(cache->segments.all, segment, all_next)
    if (segment->live_items)
        add(&residents, segment);
    pthread_mutex_unlock(&cache->lock);
    for (unsigned i = 0; i < ROWS; i++) {
        const struct resident_row *row = &residents.row[i];
        unsigned place = count;

        if (!row->hbm && !row->host)
            continue;
        while (place > 0 && is_before(row, &rows[place - 1]))
            place--;
        if (place == max)
            continue;
        if (count < max)
            count++;
        for (unsigned k = count - 1; k > place; k--)
            rows[k] = rows[k - 1];
        rows[place] = *row;
    }
    return count;
}
