/*
 * cycle.h - a round of a job that repeats, as a problem of its own: operations, what they touch, how long
 * they take; and a schedule for it: what leaves and what arrives before each operation.
 *
 * Operations are numbered by phase, 0 to length - 1, and after the last one comes the first of the next
 * round. A buffer (a segment of the cache, of whole frames) either lives for ever (static), or one is born in
 * every round, before the operation at phase `birth', and dies again. A position counts on from the round in
 * which a buffer was born, so it may be beyond length: phase = position % length, and age = position / length
 * is how many rounds ago the buffer touched there was born. Static buffers have age 0.
 *
 * A schedule makes choices, never claims: whoever carries it out moves nothing that does not have to be where
 * it is, and brings in what an operation lacks.
 *
 * Sizes are bytes, times nanoseconds, rates bytes a second. Plain data, no locks. Functions return 0 or
 * -errno. cycle_file.c reads and writes both as text: the shim hands a cycle to hbmspill-plan and gets a
 * schedule back.
 */
#ifndef HBMSPILL_CACHE_CYCLE_H
#define HBMSPILL_CACHE_CYCLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { CYCLE_NEVER = UINT32_MAX, CYCLE_AGES = 64 /* the greatest age */ };

struct cycle_touch {
    uint32_t buffer, age;
};

struct cycle_op {
    double duration;       /* of the device alone */
    uint32_t first, count; /* in cycle.touches; each buffer and age once */
};

struct cycle_buffer {
    uint64_t size;  /* a multiple of the frame's */
    uint32_t birth; /* phase before which it is born, CYCLE_NEVER: static */
    /*
     * Position from which its contents are dead, and known to be: the one after its last use where its free
     * is submitted together with that, else that of the free; within CYCLE_AGES rounds. CYCLE_NEVER: it does
     * not die.
     */
    uint32_t death;
    uint32_t address; /* buffers of one number lie at one address, at different times; 0: on its own */
    uint32_t first_use, uses; /* in cycle.uses: the positions of its uses, ascending */
};

struct cycle {
    uint64_t frame_size;
    uint64_t capacity;                 /* bytes of HBM for its buffers */
    double in, out, in_both, out_both; /* of the link; the last two while both directions are busy */
    uint32_t length, buffer_count, touch_count;
    struct cycle_op *ops;
    struct cycle_buffer *buffers; /* static ones, then those born in a round, in the order of their births */
    struct cycle_touch *touches;
    uint32_t *uses; /* touch_count; made by cycle_index */
};

enum schedule_kind { SCHEDULE_OUT, SCHEDULE_IN };

/* Of the pieces (frames) of a buffer, `count' from `first' on leave or arrive, issued before the operation at
 * phase `at'. */
struct schedule_action {
    enum schedule_kind kind;
    uint32_t buffer, age; /* as a touch at that phase would name it */
    uint32_t first, count;
    uint32_t at;
};

/* Actions in the order in which they are issued: ascending `at'. */
struct schedule {
    uint64_t cycle_hash;
    double predicted; /* time of a round, 0: not known */
    /*
     * A copy in begins no sooner than the operation that it is issued before; else as soon as it has frames.
     * Where the directions of the link slow each other down, what comes too early delays what has to leave.
     */
    bool paced;
    uint32_t count, capacity;
    struct schedule_action *actions;
};

/* Fills in uses from touches. -EINVAL: the cycle contradicts itself (an index or age out of range, a use
 * before birth or after death, sizes that are no whole frames). */
int cycle_index(struct cycle *cycle);
void cycle_free(struct cycle *cycle);
/* What a schedule depends on: lengths, sizes, touches, births, deaths; capacity and frame size. No times,
 * rates or addresses.
 */
uint64_t cycle_hash(const struct cycle *cycle);

int schedule_add(struct schedule *schedule, const struct schedule_action *action);
void schedule_free(struct schedule *schedule);
/* Whether one direction of the link slows the other down, by more than a measurement may be wrong. */
bool cycle_contends(const struct cycle *cycle);
/* Stable sort by `at'. */
void schedule_sort(struct schedule *schedule);
/*
 * The actions of each buffer, in order of issue: those of buffer b are by_buffer[first[b]] up to
 * by_buffer[first[b + 1]]. by_buffer has room for all actions, first for two more than there are buffers, all
 * zero.
 */
void schedule_by_buffer(const struct schedule *schedule, uint32_t buffer_count, uint32_t *by_buffer,
                        uint32_t *first);
/* Whether every action names a buffer, an age, pieces and a phase that are there. */
bool schedule_fits(const struct schedule *schedule, const struct cycle *cycle);

/*
 * As text. Reading: a new object; -EINVAL where it is damaged or of another version, `why' (of why_size
 * bytes) says what is wrong.
 */
int cycle_write(const struct cycle *cycle, FILE *file);
int cycle_read(FILE *file, struct cycle **out, char *why, size_t why_size);
int schedule_write(const struct schedule *schedule, FILE *file);
int schedule_read(FILE *file, struct schedule **out, char *why, size_t why_size);

/*
 * A schedule made at once, without a solver (cycle_greedy.c): 0 or -ENOMEM.
 */
int schedule_greedy(const struct cycle *cycle, struct schedule **out);
/* What a schedule comes to, as the evaluator (cycle_run.h) says. */
struct schedule_worth {
    double time;  /* of a round, with what its bindings cost, nanoseconds; 0: not known */
    double moved; /* bytes, both ways */
};

/*
 * One of several made without a solver, by number: those that leave some of the capacity free, and one
 * without actions (cycle_choose.c). *best is the worth of the best one so far (nothing yet where number is
 * 0), and then of this one, which is in *out; NULL where it is no better. best may be NULL: it is not
 * reckoned, which takes most of the time. 0 or -ENOMEM.
 */
enum { SCHEDULE_TRIES = 5 };
int schedule_try(const struct cycle *cycle, unsigned number, struct schedule_worth *best,
                 struct schedule **out);
/* The best of all of them. 0 or -ENOMEM. */
int schedule_choose(const struct cycle *cycle, struct schedule **out);

static inline uint32_t cycle_pieces(const struct cycle *cycle, uint32_t buffer)
{
    return (uint32_t)(cycle->buffers[buffer].size / cycle->frame_size);
}

/* An action's position, of a static buffer its phase. */
static inline uint64_t schedule_position(const struct cycle *cycle, const struct schedule_action *action)
{
    return (uint64_t)action->age * cycle->length + action->at;
}

static inline bool cycle_static(const struct cycle_buffer *buffer)
{
    return buffer->birth == CYCLE_NEVER;
}

#endif
