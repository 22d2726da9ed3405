/*
 * actions.c - what a program does, chosen at random.
 *
 * An action's choices follow from its seed and from what there is. A round is a list of actions; the objects
 * it made go at its end, so the next begins with what this one began with, chooses the same, and the library
 * sees the rounds of a training loop. Now and then one differs somewhere.
 */
#include "tests/fuzz/actions.h"
#include "tests/fuzz/graphs.h"
#include "tests/fuzz/submit.h"

#include <unistd.h>

enum { ROUND_MAX = 28, SILENCE_MICROSECONDS = 400 };

enum action_kind {
    ACT_BIRTH,
    ACT_FREE,
    ACT_OPERATION,
    ACT_UPLOAD,
    ACT_CHECK,
    ACT_RECORD,
    ACT_WAIT,
    ACT_STREAM,
    ACT_GRAPH_MAKE,
    ACT_GRAPH_LAUNCH,
    ACT_GRAPH_CHANGE,
    ACT_SILENCE, /* long enough for held operations to be submitted by themselves */
    ACT_QUESTION,
};

struct action {
    enum action_kind kind;
    uint64_t seed;
};

struct weight {
    enum action_kind kind;
    unsigned weight;
};

static const struct weight free_weights[] = {
    {ACT_BIRTH, 14},       {ACT_FREE, 8},    {ACT_OPERATION, 42}, {ACT_UPLOAD, 5},     {ACT_CHECK, 5},
    {ACT_RECORD, 4},       {ACT_WAIT, 3},    {ACT_STREAM, 1},     {ACT_GRAPH_MAKE, 3}, {ACT_GRAPH_LAUNCH, 6},
    {ACT_GRAPH_CHANGE, 3}, {ACT_SILENCE, 1}, {ACT_QUESTION, 1},   {ACT_FREE, 0}};

/* Of a round: what lasts is not made here. */
static const struct weight round_weights[] = {{ACT_BIRTH, 12},  {ACT_FREE, 7},         {ACT_OPERATION, 56},
                                              {ACT_UPLOAD, 4},  {ACT_CHECK, 2},        {ACT_RECORD, 4},
                                              {ACT_WAIT, 2},    {ACT_GRAPH_LAUNCH, 5}, {ACT_GRAPH_CHANGE, 1},
                                              {ACT_SILENCE, 1}, {ACT_FREE, 0}};

static struct action choose(const struct weight *weights, struct random *random)
{
    struct action action = {.kind = ACT_OPERATION};
    unsigned sum = 0, at;

    for (const struct weight *w = weights; w->weight; w++)
        sum += w->weight;
    at = sum ? random_below(random, sum) : 0;
    for (const struct weight *w = weights; w->weight; w++) {
        if (at < w->weight) {
            action.kind = w->kind;
            break;
        }
        at -= w->weight;
    }
    action.seed = random_next(random);
    return action;
}

/* Made, and mostly filled at once. */
static void birth(struct world *world, struct random *random)
{
    unsigned defining = random_below(random, 10), lane = world_lane(world, random);
    struct object *object = world->live < world->limits.live_bytes ? world_allocate(world, random) : NULL;
    struct operation op = {.stride = 1};

    if (!object)
        return;
    op.to.object = object;
    op.value = (uint32_t)random_next(random);
    if (defining < 5) {
        op.kind = OP_SET;
        op.element = 4;
        op.count = (uint32_t)(object->bytes / 4);
        submit(world, lane, &op, random);
    } else if (defining < 6) {
        op.kind = OP_FILL;
        op.count = (uint32_t)(object->bytes / 4);
        if (op.count < 100000)
            submit(world, lane, &op, random);
    } else if (defining < 8) {
        submit_upload(world, object, random);
    }
}

static void operate(struct world *world, struct random *random)
{
    unsigned lane = world_lane(world, random);
    struct operation op;

    for (unsigned tries = 0; tries < 10; tries++) {
        if (!operation_choose(world, &op, random))
            continue;
        submit(world, lane, &op, random);
        return;
    }
}

static void check(struct world *world, struct random *random)
{
    if (!world->count || random_percent(random, 25))
        world_check(world, &world->pinned[random_below(random, PINNED)], random);
    else
        world_check(world, world->objects[random_below(random, world->count)], random);
}

static void act(struct world *world, const struct action *action)
{
    struct random random = random_of(action->seed, 2);
    unsigned base = world->lasting;

    world->step++;
    switch (action->kind) {
    case ACT_BIRTH:
        birth(world, &random);
        break;
    case ACT_FREE:
        if (world->count > base)
            world_free(world, world->objects[base + random_below(&random, world->count - base)], &random);
        break;
    case ACT_OPERATION:
        operate(world, &random);
        break;
    case ACT_UPLOAD:
        if (world->count)
            submit_upload(world, world->objects[random_below(&random, world->count)], &random);
        break;
    case ACT_CHECK:
        check(world, &random);
        break;
    case ACT_RECORD:
        world_record(world, &random);
        break;
    case ACT_WAIT:
        world_wait(world, world_lane(world, &random), &random);
        break;
    case ACT_STREAM:
        world_replace_stream(world, &random);
        break;
    case ACT_GRAPH_MAKE:
        graph_make(world, &random);
        break;
    case ACT_GRAPH_LAUNCH:
        graph_launch(world, &random);
        break;
    case ACT_GRAPH_CHANGE:
        graph_change(world, &random);
        break;
    case ACT_SILENCE:
        usleep(SILENCE_MICROSECONDS);
        break;
    case ACT_QUESTION:
        world_ask(world, &random);
        break;
    }
}

/* ---- rounds ---- */

struct round {
    unsigned count;
    struct action action[ROUND_MAX];
    uint64_t frees; /* the seed of those at the end */
};

static void choose_round(struct round *round, struct random *random)
{
    round->count = random_from(random, 4, ROUND_MAX);
    for (unsigned i = 0; i < round->count; i++)
        round->action[i] = choose(round_weights, random);
    if (random_percent(random, 50)) /* as XLA does it: what is temporary is asked for first */
        for (unsigned i = 0; i < round->count / 3; i++)
            round->action[i].kind = ACT_BIRTH;
    round->frees = random_next(random);
}

/* differs: the action that is another this time, or none where there are not so many. */
static void run_round(struct world *world, const struct round *round, unsigned differs, struct random *random)
{
    struct random frees = random_of(round->frees, 3);

    for (unsigned i = 0; i < round->count; i++) {
        if (i != differs) {
            act(world, &round->action[i]);
        } else if (random_percent(random, 60)) { /* one more, or one less */
            struct action other = choose(free_weights, random);

            act(world, &other);
            act(world, &round->action[i]);
        }
    }
    for (unsigned tries = 0; world->count > world->lasting && tries < 100; tries++) {
        struct action action = {.kind = ACT_FREE, .seed = random_next(&frees)};

        act(world, &action);
        world->step--;
    }
}

static void repeat(struct world *world, unsigned long until, struct random *random)
{
    unsigned rounds = random_from(random, 3, 20);
    struct round round;

    choose_round(&round, random);
    world->lasting = world->count;
    for (unsigned i = 0; i < rounds && world->step < until; i++) {
        unsigned differs = random_percent(random, 12) ? random_below(random, round.count) : ROUND_MAX;

        world_say(world, "round %u of %u", i, rounds);
        run_round(world, &round, differs, random);
    }
    world->lasting = 0;
}

void actions_run(struct world *world, unsigned long actions, struct random *random)
{
    for (unsigned births = random_from(random, 3, 25); births && world->step < actions; births--) {
        struct action action = {.kind = ACT_BIRTH, .seed = random_next(random)};

        act(world, &action);
    }
    while (world->step < actions) {
        unsigned some = random_from(random, 5, 40);

        for (unsigned i = 0; i < some && world->step < actions; i++) {
            struct action action = choose(free_weights, random);

            act(world, &action);
        }
        if (random_percent(random, 75))
            repeat(world, actions, random);
    }
}
