#include "cache/segment.h"
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

/* Sizes that differ by less share a class: the most an item may be rounded up by. */
#define ITEM_ALIGN 4096u

#define CLASS_DELETE(head, segment) DL_DELETE2(head, segment, class_prev, class_next)

/*
 * Lists of a size class are in order of address, and the lowest is given out first: a job that allocates the
 * same sizes in the same order in every round gets the same addresses, in whatever order it frees them. Frees
 * mostly come in ascending order, so the place is looked for from the end.
 */
static void class_insert(struct segment **head, struct segment *segment)
{
    struct segment *after = *head ? (*head)->class_prev : NULL;

    while (after && after->address > segment->address)
        after = after == *head ? NULL : after->class_prev;
    if (!after)
        DL_PREPEND2(*head, segment, class_prev, class_next);
    else
        DL_APPEND_ELEM2(*head, after, segment, class_prev, class_next);
}

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

void segments_init(struct segments *segments, const struct device_ops *ops, struct frames *frames,
                   uint64_t window_size, uint64_t slot, unsigned larger)
{
    *segments = (struct segments){.ops = ops,
                                  .frames = frames,
                                  .unit = frames->size,
                                  .unit_shift = (unsigned)__builtin_ctzll(frames->size),
                                  .slot = slot > frames->size ? slot : frames->size,
                                  .larger = larger * frames->size,
                                  .window_size = window_size};
    while (segments->larger > segments->unit && segments->slot % segments->larger)
        segments->larger /= 2;
}

static int window_add(struct segments *segments, uint64_t at_least)
{
    uint64_t size = segments->window_size > at_least ? segments->window_size : at_least;
    struct window *window = &segments->window[segments->windows];
    int error;

    if (segments->windows == SEGMENT_WINDOWS)
        return -ENOMEM;
    size = round_up(size, segments->unit);
    window->granules = calloc(size / segments->unit, sizeof(struct segment *));
    if (!window->granules)
        return -ENOMEM;
    error = segments->ops->reserve(segments->ops->ctx, size, &window->address);
    if (error) {
        free(window->granules);
        return error;
    }
    window->size = size;
    window->used = 0;
    __atomic_store_n(&segments->windows, segments->windows + 1,
                     __ATOMIC_RELEASE); /* cache_maybe_ours reads without lock */
    segments->window_size *= 2;
    return 0;
}

/* Where the next one that is to lie at a multiple of `align' can begin in a window. */
static uint64_t window_next(const struct window *window, uint64_t align)
{
    return round_up(window->address + window->used, align) - window->address;
}

static int address_take(struct segments *segments, uint64_t size, uint64_t align, uint64_t *address)
{
    struct window *last = segments->windows ? &segments->window[segments->windows - 1] : NULL;

    if (!last || window_next(last, align) + size > last->size) {
        int error = window_add(segments, size + align);

        if (error)
            return error;
        last = &segments->window[segments->windows - 1];
    }
    *address = last->address + window_next(last, align);
    last->used = *address - last->address + size;
    return 0;
}

/* The table's entry for an address, NULL where it is in no window. */
static struct segment **entry_of(const struct segments *segments, uint64_t address)
{
    unsigned windows = __atomic_load_n(&segments->windows, __ATOMIC_ACQUIRE);

    for (unsigned i = 0; i < windows; i++) {
        const struct window *window = &segments->window[i];

        if (address - window->address < window->size)
            return &window->granules[(address - window->address) >> segments->unit_shift];
    }
    return NULL;
}

void segments_expect(const struct segments *segments, uint64_t address)
{
    struct segment **entry = entry_of(segments, address);

    if (entry)
        __builtin_prefetch(__atomic_load_n(entry, __ATOMIC_RELAXED), 1);
}

struct segment *segments_find(const struct segments *segments, uint64_t address)
{
    struct segment **entry = entry_of(segments, address);

    return entry ? *entry : NULL;
}

bool segments_item(const struct segments *segments, uint64_t address, struct segment **segment,
                   uint64_t *base, unsigned *item)
{
    struct segment *found = segments_find(segments, address);
    uint64_t index;

    if (!found)
        return false;
    index = found->items == 1 ? 0 : (address - found->address) / found->item_size;
    if (address - found->address >= found->items * found->item_size ||
        !(found->live_mask & (UINT32_C(1) << index)))
        return false;
    *segment = found;
    *base = found->address + index * found->item_size;
    *item = (unsigned)index;
    return true;
}

/* The fewest items side by side that lose at most a tenth to rounding, else the number that loses least. */
static unsigned pack_for(uint64_t item_size, uint64_t unit)
{
    unsigned best = 1;
    double least = 2;

    for (unsigned n = 1; n <= SEGMENT_PACK; n++) {
        double loss = 1 - (double)(n * item_size) / (double)round_up(n * item_size, unit);

        if (loss < least) {
            least = loss;
            best = n;
        }
        if (loss <= 0.1)
            break;
    }
    return best;
}

static struct size_class *class_find(struct segments *segments, uint64_t size)
{
    uint64_t item_size = round_up(size, ITEM_ALIGN);
    struct size_class *class;

    LL_FOREACH(segments->classes, class)
    if (class->item_size == item_size)
        return class;
    class = calloc(1, sizeof *class);
    if (!class)
        return NULL;
    class->item_size = item_size;
    class->pack = segments->apart ? 1 : pack_for(item_size, segments->unit);
    LL_PREPEND(segments->classes, class);
    return class;
}

static bool is_small(const struct segments *segments, const struct size_class *class)
{
    return class->item_size <= segments->unit / 2;
}

/* Of a class whose items lie side by side in frames of the first size. */
static bool is_packed(const struct segments *segments, const struct segment *segment)
{
    return segment->size_class->pack > 1 && is_small(segments, segment->size_class);
}

bool segment_large(const struct segments *segments, const struct segment *segment, uint64_t unit)
{
    return segment->size >= unit && !is_packed(segments, segment);
}

/* Its record has room for as many pieces of segments.unit as it has. */
void segment_divide(struct segments *segments, struct segment *segment, uint64_t unit)
{
    uint64_t run = segments->slot > unit ? segments->slot / unit : 1;

    segment->unit = unit;
    segment->pieces = (unsigned)((segment->size + unit - 1) / unit);
    segment->run = segment->pieces < run && segment->pieces ? segment->pieces : (unsigned)run;
    segment->runs = (segment->pieces + segment->run - 1) / segment->run;
    segment->small = is_packed(segments, segment) || unit != segments->frames->size;
    for (unsigned i = 0; i < segment->pieces; i++)
        segment->piece[i] = (struct binding){.segment = segment, .offset = i * unit};
}

static struct segment *segment_make(struct segments *segments, struct size_class *class, unsigned items,
                                    int *error)
{
    uint64_t size = round_up(items * class->item_size, segments->unit), address;
    uint64_t align = size >= segments->larger ? segments->larger : segments->unit;
    unsigned pieces = (unsigned)(size / segments->unit);
    unsigned runs = (unsigned)((size + segments->slot - 1) / segments->slot);
    struct segment *segment;

    *error = address_take(segments, round_up(size, align), align, &address);
    if (*error)
        return NULL;
    segment = arena_take(&segments->records, sizeof *segment + pieces * sizeof segment->piece[0] +
                                                 runs * sizeof segment->slot[0]);
    if (!segment) {
        segments->window[segments->windows - 1].used -=
            round_up(size, align); /* taken from the end of the last one */
        *error = -ENOMEM;
        return NULL;
    }
    segment->address = address;
    segment->size = size;
    segment->size_class = class;
    segment->item_size = class->item_size;
    segment->items = (uint8_t)items;
    segment->slot = (struct slot **)(void *)&segment->piece[pieces]; /* none yet: the arena's are zero */
    segment_divide(segments, segment,
                   segment_large(segments, segment, segments->frames->size) ? segments->frames->size
                                                                            : segments->unit);
    segment->plan_index = UINT32_MAX;
    segment->leaves = UINT64_MAX;
    segment->version = 1; /* no piece is clean */
    for (uint64_t at = 0; at < size; at += segments->unit)
        __atomic_store_n(entry_of(segments, segment->address + at), segment,
                         __ATOMIC_RELAXED); /* segments_expect reads without lock */
    DL_APPEND2(segments->all, segment, all_prev, all_next);
    return segment;
}

/*
 * A new owner comes after all uses of the segment; where some of them stand behind a host function, it would
 * wait for that too.
 */
static bool may_give(const struct segments *segments, const struct segment *segment)
{
    struct streams *streams = segments->frames->streams;
    struct edges edges;

    if (!streams->holds)
        return true;
    edges = segment_edges(segment);
    return !streams_behind(streams, &edges);
}

/* What is asked for: of a class, alone in its segment or not. */
struct wanted {
    struct size_class *class;
    bool alone;
};

/* The first of a class's list that may be given out; `others': also one that is kept for a birth of a round.
 */
static struct segment *first_free(const struct segments *segments, const struct wanted *wanted,
                                  struct segment *list, bool others)
{
    struct segment *segment;

    LL_FOREACH2(list, segment, class_next)
    if ((others || !place_kept(segment)) && (!wanted->alone || segment->items == 1) &&
        may_give(segments, segment))
        return segment;
    return NULL;
}

static struct segment *find_free(const struct segments *segments, const struct wanted *wanted, bool others)
{
    struct segment *segment = first_free(segments, wanted, wanted->class->open, others);

    return segment ? segment : first_free(segments, wanted, wanted->class->dead, others);
}

/* A packed segment pays once its size is common; the first few of a size stand alone. */
static struct segment *make_one(struct segments *segments, const struct wanted *wanted, int *error)
{
    struct size_class *class = wanted->class;
    bool packed = !wanted->alone && class->live_items + 1 >= class->pack;
    struct segment *segment = segment_make(segments, class, packed ? class->pack : 1, error);

    if (segment)
        class_insert(&class->dead, segment);
    return segment;
}

/* Addresses cost page tables and records of segments: for births in rounds so many bytes for one of HBM at
 * most. */
enum { ADDRESSES = 16 };

/*
 * That of a round ago, or of two rounds where that is in use until this one has begun; else one that nobody
 * comes back to; else, for a birth in a round, a new one, so that each has its own; else the lowest. The name
 * may become another.
 */
static struct segment *choose(struct segments *segments, const struct wanted *wanted, uint64_t *name,
                              int *error)
{
    struct segment *segment = *name ? place_find(segments, *name) : NULL;

    if (segment && segment->live_items) {
        *name = place_other(*name);
        segment = place_find(segments, *name);
    }
    if (segment && !segment->live_items && may_give(segments, segment))
        return segment;
    segment = find_free(segments, wanted, false);
    if (segment)
        return segment;
    if (*name && segments->extra < ADDRESSES * segments->frames->limit) {
        segment = make_one(segments, wanted, error);
        if (segment) {
            segments->extra += segment->size;
            return segment;
        }
    }
    segment = wanted->class->places ? find_free(segments, wanted, true) : NULL;
    return segment ? segment : make_one(segments, wanted, error);
}

int segments_take_item(struct segments *segments, uint64_t size, const struct moment *moment,
                       struct segment **out, unsigned *item)
{
    struct size_class *class = class_find(segments, size);
    struct wanted wanted = {class, moment->alone && class && !is_small(segments, class)};
    struct segment *segment;
    uint64_t name;
    int error;

    if (!class)
        return -ENOMEM;
    name = class->pack == 1 || wanted.alone ? place_birth(class, moment) : 0;
    segment = choose(segments, &wanted, &name, &error);
    if (!segment)
        return error;
    if (name)
        place_keep(segments, segment, name);
    else
        place_forget(segments, segment);
    if (!segment->live_items) {
        CLASS_DELETE(class->dead, segment);
        class_insert(&class->open, segment);
    }
    *item = (unsigned)__builtin_ctz(~segment->live_mask);
    segment->live_mask |= UINT32_C(1) << *item;
    segment->asked[*item] = size;
    segment->live_items++;
    class->live_items++;
    if (segment->live_items == segment->items)
        CLASS_DELETE(class->open, segment);
    *out = segment;
    return 0;
}

bool segments_give_item(struct segment *segment, unsigned item)
{
    struct size_class *class = segment->size_class;

    if (segment->live_items == segment->items)
        class_insert(&class->open, segment);
    segment->live_mask &= ~(UINT32_C(1) << item);
    segment->live_items--;
    class->live_items--;
    if (segment->live_items)
        return false;
    CLASS_DELETE(class->open, segment);
    class_insert(&class->dead, segment);
    return true;
}

void segments_destroy(struct segments *segments)
{
    struct size_class *class, *next_class;

    places_free(segments);
    arena_free(&segments->records);
    for (class = segments->classes; class; class = next_class) {
        next_class = class->next;
        free(class);
    }
    for (unsigned i = 0; i < segments->windows; i++) {
        segments->ops->unreserve(segments->ops->ctx, segments->window[i].address, segments->window[i].size);
        free(segments->window[i].granules);
    }
}
