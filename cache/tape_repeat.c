/*
 * tape_repeat.c - a tape made longer by its last round, over and over: what a job would go on doing.
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

static uint32_t births_in(const struct tape *tape, uint32_t from, uint32_t until)
{
    uint32_t births = 0;

    for (uint32_t i = from; i < until; i++)
        births += tape->events[i].kind == TAPE_ALLOC;
    return births;
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
    return event->kind != TAPE_SUBMIT && event->kind != TAPE_WAIT && event->kind != TAPE_HOST_FUNCTION;
}

/* The first event to compare from `index' on. */
static uint32_t next_compared(const struct tape *tape, uint32_t index)
{
    while (index < tape->event_count && !compared(&tape->events[index]))
        index++;
    return index;
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

static bool repeat_event(struct tape *tape, uint32_t before, uint32_t last, uint32_t births, uint32_t times)
{
    struct tape_event event = tape->events[last];
    const struct tape_event *then = compared(&event) ? &tape->events[before] : &event;
    uint32_t first = event.first;

    if (event.kind != then->kind || event.count != then->count)
        return false;
    if (names_birth(&event) && !renamed(then->id, event.id, births, times, &event.id))
        return false;
    if (event.kind == TAPE_ALLOC)
        tape->sizes[tape->births++] = event.size;
    event.first = tape->touch_count;
    for (uint32_t k = 0; k < event.count; k++) {
        struct tape_touch touch = tape->touches[first + k];

        if (!renamed(tape->touches[then->first + k].id, touch.id, births, times, &touch.id))
            return false;
        tape->touches[tape->touch_count++] = touch;
    }
    tape->launches += tape_is_launch(event.kind);
    tape->events[tape->event_count++] = event;
    return true;
}

int tape_repeat(struct tape *tape, uint32_t period, uint32_t times)
{
    uint32_t a = behind_launch(tape, tape->launches - 2 * period);
    uint32_t b = behind_launch(tape, tape->launches - period), end = behind_launch(tape, tape->launches);
    uint32_t births = births_in(tape, b, end), tail = tape->event_count - end;
    struct tape_event *behind;
    int error = 0;

    if (births_in(tape, a, b) != births || births_in(tape, end, tape->event_count))
        return -EINVAL;
    behind = malloc((tail + 1) * sizeof *behind);
    if (!behind)
        return -ENOMEM;
    memcpy(behind, tape->events + end, tail * sizeof *behind);
    tape->event_count = end;
    if (!make_room((void **)&tape->events, &tape->event_capacity, end + (uint64_t)times * (end - b) + tail,
                   sizeof *tape->events) ||
        !make_room((void **)&tape->touches, &tape->touch_capacity,
                   (uint64_t)tape->touch_count * (times + 1) + 1, sizeof *tape->touches) ||
        !make_room((void **)&tape->sizes, &tape->birth_capacity, tape->births + (uint64_t)times * births + 1,
                   sizeof *tape->sizes))
        error = -ENOMEM;
    for (uint32_t k = 1; k <= times && !error; k++)
        for (uint32_t i = b, then = a; i < end && !error; i++) {
            then = next_compared(tape, then);
            if (!repeat_event(tape, then, i, births, k))
                error = -EINVAL;
            then += compared(&tape->events[i]);
        }
    /* What comes behind the last round began the round before: frees, without which contents would not be
     * dead. */
    for (uint32_t i = 0, then = b; i < tail && !error; i++) {
        if (!compared(&behind[i]))
            continue;
        then = next_compared(tape, then);
        tape->events[tape->event_count] = behind[i];
        if (!repeat_event(tape, then, tape->event_count, births, times))
            break;
        then++;
    }
    free(behind);
    return error;
}
