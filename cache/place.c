#define HASH_NONFATAL_OOM 1 /* a job does not end for want of a few bytes here */
#include "cache/place.h"
#include "cache/segment.h"
#include <stdlib.h>
#include <uthash.h>

struct place {
    uint64_t name;
    struct segment *segment;
    uint64_t turn; /* births there had been in its class when it was taken last */
    UT_hash_handle hh;
};

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

uint64_t place_birth(struct size_class *class, const struct moment *moment)
{
    uint64_t name;

    class->births++;
    if (!moment->round)
        return 0;
    if (class->moment.round != moment->round || class->moment.window != moment->window ||
        class->moment.phase != moment->phase) {
        class->moment = *moment;
        class->births_since = 0;
    }
    name = mix(mix(mix(moment->round, moment->phase), class->item_size), class->births_since++);
    return name ? name : 1;
}

uint64_t place_other(uint64_t name)
{
    return mix(name, 1) | 1;
}

static struct place *find(const struct segments *segments, uint64_t name)
{
    struct place *place;

    HASH_FIND(hh, segments->places, &name, sizeof name, place);
    return place;
}

struct segment *place_find(const struct segments *segments, uint64_t name)
{
    const struct place *place = find(segments, name);

    return place ? place->segment : NULL;
}

void place_forget(struct segments *segments, struct segment *segment)
{
    struct place *place = segment->place;

    if (!place)
        return;
    HASH_DEL(segments->places, place); /* NOLINT(clang-analyzer-core.NullDereference): it is in the table */
    segment->place = NULL;
    segment->size_class->places--;
    free(place);
}

void place_keep(struct segments *segments, struct segment *segment, uint64_t name)
{
    struct place *place = find(segments, name);

    if (!place || place->segment != segment) {
        if (place)
            place_forget(segments, place->segment);
        place_forget(segments, segment);
        place = malloc(sizeof *place);
        if (!place)
            return;
        *place = (struct place){.name = name, .segment = segment};
        HASH_ADD(hh, segments->places, name, sizeof place->name, place);
        if (!place->hh.tbl) { /* there was no memory */
            free(place);
            return;
        }
        segment->place = place;
        segment->size_class->places++;
    }
    place->turn = segment->size_class->births;
}

/*
 * A round that goes on gives out each of a class's places once, so one that was left out for two rounds and
 * more belongs to a round that is over.
 */
bool place_kept(const struct segment *segment)
{
    const struct size_class *class = segment->size_class;

    return segment->place && class->births - segment->place->turn <= 2 * (class->places + 1);
}

void places_free(struct segments *segments)
{
    struct place *place, *next;

    HASH_ITER(hh, segments->places, place, next)
    place_forget(segments, place->segment);
}
