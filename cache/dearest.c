#include "cache/dearest.h"
#include "cache/internal.h"

static struct dearest_row *row_of(struct dearest *dearest, struct segment *segment)
{
    struct dearest_mark *mark = &segment->cost;
    uint64_t hash = (segment->item_size ^ (uint64_t)mark->site << 40) * UINT64_C(0x9e3779b97f4a7c15);
    struct dearest_row *row;

    if (mark->row)
        return &dearest->row[mark->row];
    /* Three quarters of the table are given out, so a free row is found soon. */
    for (uint32_t i = (uint32_t)(hash >> 32);; i++) {
        mark->row = i % DEAREST_ROWS;
        row = &dearest->row[mark->row];
        if (mark->row == 0)
            continue;
        if (row->size == segment->item_size && row->site == mark->site)
            return row;
        if (row->size == 0)
            break;
    }
    if (dearest->used >= DEAREST_ROWS / 4 * 3) {
        mark->row = 0;
        return &dearest->row[0];
    }
    dearest->used++;
    row->size = segment->item_size;
    row->site = mark->site;
    return row;
}

void dearest_moved(struct cache *cache, struct segment *segment, bool out, uint64_t bytes)
{
    struct dearest_row *row = row_of(&cache->dearest, segment);

    if (out) {
        row->moves_out++;
        row->bytes_out += bytes;
    } else {
        row->moves_in++;
        row->bytes_in += bytes;
    }
}

void dearest_left(struct cache *cache, struct segment *segment)
{
    if (segment->cost.left)
        return;
    segment->cost.left = cache->tick;
    segment->cost.last_use = segment->mark;
}

void dearest_used(struct segment *segment, struct dearest *dearest, uint64_t tick)
{
    struct dearest_mark *mark = &segment->cost;
    struct dearest_row *row;

    if (!mark->left)
        return;
    row = row_of(dearest, segment);
    row->returns++;
    row->reuse_distance += tick - mark->last_use;
    row->away += tick - mark->left;
    mark->left = 0;
}

void cache_set_site(struct cache *cache, uint64_t address, uint32_t site)
{
    struct segment *segment;
    uint64_t base;
    unsigned item;

    pthread_mutex_lock(&cache->lock);
    if (segments_item(&cache->segments, address, &segment, &base, &item) && segment->cost.site != site) {
        segment->cost.site = site; /* of several in one segment, the newest */
        segment->cost.row = 0;
    }
    pthread_mutex_unlock(&cache->lock);
}

static uint64_t moved(const struct dearest_row *row)
{
    return row->bytes_in + row->bytes_out;
}

unsigned cache_dearest(struct cache *cache, struct dearest_row *rows, unsigned max)
{
    unsigned count = 0;

    pthread_mutex_lock(&cache->lock);
    for (unsigned i = 0; i < DEAREST_ROWS; i++) {
        const struct dearest_row *row = &cache->dearest.row[i];
        unsigned place = count;

        if (!moved(row))
            continue;
        while (place > 0 && moved(&rows[place - 1]) < moved(row))
            place--;
        if (place == max)
            continue;
        if (count < max)
            count++;
        for (unsigned j = count - 1; j > place; j--)
            rows[j] = rows[j - 1];
        rows[place] = *row;
    }
    pthread_mutex_unlock(&cache->lock);
    return count;
}
