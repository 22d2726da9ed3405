/*
 * tape_rounds.c - the rounds of a tape: found at its end, and its last one repeated, over and over, as a job
 * would go on.
 */
#include "cache/tape.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The event behind launch number `launches' (from 1). */
static uint32_t behind_launch(const struct tape *tape, uint32_t launches)
{
    uint32_t seen = 0;

    for (uint32_t i = 0; i < tape->event_count; i++) {
        if (seen == launches)
            return i;
        seen += tape_is_launch(tape->events[i].kind);
    }
    return tape->event_count;
}

static bool names_birth(const struct tape_event *event)
{
    return event->kind == TAPE_ALLOC || event->kind == TAPE_FREE;
}

static uint32_t events_in(const struct tape *tape, uint32_t from, uint32_t until, enum tape_kind kind)
{
    uint32_t events = 0;

    for (uint32_t i = from; i < until; i++)
        events += tape->events[i].kind == kind;
    return events;
}

static uint32_t births_in(const struct tape *tape, uint32_t from, uint32_t until)
{
    return events_in(tape, from, until, TAPE_ALLOC);
}

/* What a birth named in the last round is `times' rounds later, by what was named in its place a round
 * earlier. */
static bool renamed(uint32_t before, uint32_t id, uint32_t births, uint32_t times, uint32_t *out)
{
    if (id != before && id - before != births)
        return false;
    *out = id == before ? id : id + births * times;
    return true;
}

/* When a job queries and waits is the host's timing, and no matter of rounds. */
static bool compared(const struct tape_event *event)
{
    return event->kind != TAPE_SUBMIT && event->kind != TAPE_WAIT && event->kind != TAPE_HOST_FUNCTION &&
           event->kind != TAPE_RECORD && event->kind != TAPE_AFTER && event->kind != TAPE_MARK;
}

/* Copies of an array's last part are going to be appended. */
static bool make_room(void **array, uint32_t *capacity, uint64_t count, size_t size)
{
    void *grown = count && count < UINT32_MAX ? realloc(*array, count * size) : NULL;

    if (!grown)
        return false;
    *array = grown;
    *capacity = (uint32_t)count;
    return true;
}

/* Whether event `last' is event `before', a round later. */
static bool alike(const struct tape *tape, uint32_t before, uint32_t last, uint32_t births)
{
    const struct tape_event *event = &tape->events[last], *then = &tape->events[before];
    uint32_t ignored;

    if (event->kind != then->kind || event->count != then->count || event->size != then->size)
        return false;
    if (names_birth(event) && !renamed(then->id, event->id, births, 0, &ignored))
        return false;
    for (uint32_t k = 0; k < event->count; k++)
        if (!renamed(tape->touches[then->first + k].id, tape->touches[event->first + k].id, births, 0,
                     &ignored))
            return false;
    return true;
}

/* The first launch from `index' on, or `end'. */
static uint32_t next_launch(const struct tape *tape, uint32_t index, uint32_t end)
{
    while (index < end && !tape_is_launch(tape->events[index].kind))
        index++;
    return index;
}

/*
 * Which of events from .. until - 1 is event `last' a round earlier: the first that is alike and was not
 * found for another. `until' where there is none.
 */
static uint32_t find_alike(const struct tape *tape, uint32_t from, uint32_t until, bool *found, uint32_t last,
                           uint32_t births)
{
    for (uint32_t i = from; i < until; i++)
        if (!found[i] && compared(&tape->events[i]) && alike(tape, i, last, births)) {
            found[i] = true;
            return i;
        }
    return until;
}

/*
 * pair[i]: which event of the round a .. b - 1 event b + i is, a round later; itself where it is not
 * compared. Launches come in order; the others in any, and first looked for between the same launches: a
 * job's threads give arrays to the device, and give them up, as they happen to run. found: of all events,
 * false.
 */
static bool pair_rounds(const struct tape *tape, uint32_t a, uint32_t b, uint32_t end, uint32_t births,
                        bool *found, uint32_t *pair)
{
    uint32_t begin = a, launch = next_launch(tape, a, b); /* a .. launch - 1: what comes ahead of it */

    for (uint32_t i = b; i < end; i++) {
        bool is_launch = tape_is_launch(tape->events[i].kind);
        uint32_t from = is_launch ? launch : a, until = is_launch && launch < b ? launch + 1 : launch;

        pair[i - b] = compared(&tape->events[i]) ? find_alike(tape, from, until, found, i, births) : i;
        if (pair[i - b] == until && !is_launch) {
            pair[i - b] = find_alike(tape, begin, b, found, i, births);
            until = b;
        }
        if (pair[i - b] == until)
            return false;
        if (is_launch) {
            a = until;
            launch = next_launch(tape, a, b);
        }
    }
    return true;
}

/* Appends `event' as it is `times' rounds later; before: the same a round earlier. */
static void repeat_event(struct tape *tape, uint32_t before, struct tape_event event, uint32_t births,
                         uint32_t times)
{
    const struct tape_event *then = compared(&event) ? &tape->events[before] : &event;
    uint32_t first = event.first;

    if (names_birth(&event))
        (void)renamed(then->id, event.id, births, times, &event.id);
    if (event.kind == TAPE_ALLOC)
        tape->sizes[tape->births++] = event.size;
    event.first = tape->touch_count;
    for (uint32_t k = 0; k < event.count; k++) {
        struct tape_touch touch = tape->touches[first + k];

        (void)renamed(tape->touches[then->first + k].id, touch.id, births, times, &touch.id);
        tape->touches[tape->touch_count++] = touch;
    }
    tape->launches += tape_is_launch(event.kind);
    tape->recordings += event.kind == TAPE_RECORD;
    tape->events[tape->event_count++] = event;
}

/*
 * What a stream waits for is named by how long ago it was recorded, and so is right a round later, too;
 * unless it was recorded once, before the last two rounds: then it has long been passed.
 */
static void forget_old(struct tape *tape, uint32_t a, uint32_t b, uint32_t end)
{
    uint32_t recordings = events_in(tape, a, b, TAPE_RECORD);

    for (uint32_t i = b; i < end; i++) {
        struct tape_event *event = &tape->events[i];

        recordings += event->kind == TAPE_RECORD;
        if (event->kind == TAPE_AFTER && event->back > recordings)
            *event = (struct tape_event){.kind = TAPE_MARK, .stream = event->stream, .duration = -1};
    }
}

int tape_repeat(struct tape *tape, uint32_t period, uint32_t times)
{
    uint32_t a = behind_launch(tape, tape->launches - 2 * period);
    uint32_t b = behind_launch(tape, tape->launches - period), end = behind_launch(tape, tape->launches);
    uint32_t count = tape->event_count, births = births_in(tape, b, end), first = next_launch(tape, b, end);
    struct tape_event *behind = malloc(((size_t)count + 1) * sizeof *behind);
    uint32_t *pair = malloc(((size_t)count + 1) * sizeof *pair);
    bool *found = calloc((size_t)count + 1, sizeof *found);
    int error = 0;

    if (births_in(tape, a, b) != births || births_in(tape, end, count))
        error = -EINVAL;
    else if (!behind || !pair || !found ||
             !make_room((void **)&tape->events, &tape->event_capacity, count + (uint64_t)times * (end - b),
                        sizeof *tape->events) ||
             !make_room((void **)&tape->touches, &tape->touch_capacity,
                        (uint64_t)tape->touch_count * (times + 2) + 1, sizeof *tape->touches) ||
             !make_room((void **)&tape->sizes, &tape->birth_capacity,
                        tape->births + (uint64_t)times * births + 1, sizeof *tape->sizes))
        error = -ENOMEM;
    else if (!pair_rounds(tape, a, b, end, births, found, pair))
        error = -EINVAL;
    if (!error) {
        memcpy(behind, tape->events + end, (count - end) * sizeof *behind);
        tape->recordings -= events_in(tape, end, count, TAPE_RECORD);
        forget_old(tape, a, b, end);
        /* What comes behind the last round began the round before: frees, without which contents would not be
         * dead. */
        for (uint32_t i = end; i < count; i++)
            pair[i - b] = compared(&tape->events[i]) ? find_alike(tape, b, first, found, i, births) : first;
        tape->event_count = end;
        for (uint32_t k = 1; k <= times; k++)
            for (uint32_t i = b; i < end; i++)
                repeat_event(tape, pair[i - b], tape->events[i], births, k);
        for (uint32_t i = end; i < count; i++)
            if (pair[i - b] < first)
                repeat_event(tape, pair[i - b], behind[i - end], births, times);
    }
    free(behind);
    free(pair);
    free(found);
    return error;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash ^= value + UINT64_C(0x9e3779b97f4a7c15) + (hash << 6) + (hash >> 2);
    return hash * UINT64_C(0xbf58476d1ce4e5b9);
}

/*
 * Read backwards, the rounds at the end are a prefix with a period; the prefix function gives the shortest
 * period of every prefix, and the longest prefix with three periods in it is taken.
 */
bool tape_find_rounds(const struct tape *tape, uint32_t *period, uint32_t *rounds)
{
    uint32_t n = 0, *border = malloc((tape->launches + 1) * sizeof *border);
    uint64_t *signature = malloc((tape->launches + 1) * sizeof *signature);
    bool found = false;

    if (!border || !signature)
        goto done;
    for (uint32_t i = tape->event_count; i-- > 0;) {
        const struct tape_event *event = &tape->events[i];
        uint64_t hash;

        if (!tape_is_launch(event->kind))
            continue;
        hash = mix(event->name, event->count);
        for (uint32_t k = event->first; k < event->first + event->count; k++)
            hash = mix(hash, tape->sizes[tape->touches[k].id]);
        signature[n++] = hash;
    }
    for (uint32_t i = 1, length = 0; i < n; i++) {
        if (i == 1)
            border[0] = 0;
        while (length && signature[i] != signature[length])
            length = border[length - 1];
        length += signature[i] == signature[length];
        border[i] = length;
    }
    for (uint32_t length = n; length >= 3 && !found; length--) {
        uint32_t shortest = length - border[length - 1];

        if (shortest <= length / 3) {
            *period = shortest;
            *rounds = length / shortest;
            found = true;
        }
    }
done:
    free(border);
    free(signature);
    return found;
}
