/*
 * plan_known.c - a window that is part of a known round: its actions are those of the round's schedule.
 *
 * A window belongs to a round where all its operations have the signatures expected there, and touch the
 * static buffers expected. If one does not, the window is planned alone, and rounds are looked for anew from
 * the next one on; one that is known already is joined at any place where a window began in it.
 */
#include "cache/home.h"
#include "cache/plan.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* Of a round, and moved in it, out and in: beyond that no other schedule than the first is tried. */
enum { MOST_OPERATIONS = 2000, MOST_PIECES = 40000 };

static const struct cycle_op *op_at(const struct known *known, uint32_t phase)
{
    return &known->cycle->ops[phase];
}

static bool same_static(const struct known *known, const struct cycle_touch *name,
                        const struct segment *segment)
{
    const struct known_life *life = &known->lives[name->buffer][0];

    return !cycle_static(&known->cycle->buffers[name->buffer]) ||
           (life->segment == segment && life->life == segment->life);
}

/* Whether the window goes on in the round at `phase'. */
static bool goes_on(const struct cache *cache, const struct plan *plan, const struct known *known,
                    uint32_t phase)
{
    for (uint32_t i = 0; i < plan->length; i++, phase = (phase + 1) % known->cycle->length) {
        const struct cycle_op *op = op_at(known, phase);
        uint32_t first = plan->touch_first[i];

        if (op->count != plan->touch_first[i + 1] - first ||
            known->signatures[phase] != history_at(&cache->history, cache->plan_base + i)->signature)
            return false;
        for (uint32_t k = 0; k < op->count; k++)
            if (!same_static(known, &known->cycle->touches[op->first + k],
                             plan->segments[plan->touch[first + k]].segment))
                return false;
    }
    return true;
}

/*
 * A phase at which the window goes on in a round; CYCLE_NEVER: none. Where windows began in it, or wherever
 * its first operations, or with one of few operations those up to it, are those of the round: a few alone say
 * little.
 */
static uint32_t joins_at(const struct cache *cache, const struct plan *plan, const struct known *known)
{
    uint32_t length = known->cycle->length, ahead = plan->length < HISTORY_GRAM ? plan->length : HISTORY_GRAM;
    uint64_t gram = history_gram(&cache->history, cache->plan_base + ahead - 1);

    for (uint32_t k = 0; k < known->entry_count && !plan->alone; k++)
        if (goes_on(cache, plan, known, known->entries[k]))
            return known->entries[k];
    for (uint32_t k = known_gram(known, gram); k < length && known->grams[k].gram == gram; k++) {
        uint32_t phase = (known->grams[k].phase + length - (ahead - 1) % length) % length;

        if (goes_on(cache, plan, known, phase))
            return phase;
    }
    return CYCLE_NEVER;
}

static bool find(struct cache *cache, const struct plan *plan)
{
    struct known *following = cache->following;

    if (following && goes_on(cache, plan, following, cache->phase))
        return true;
    for (unsigned i = 0; i < CACHE_KNOWN; i++) {
        uint32_t phase = cache->known[i] ? joins_at(cache, plan, cache->known[i]) : CYCLE_NEVER;

        if (phase != CYCLE_NEVER) {
            cache->following = cache->known[i];
            cache->following->round++;
            cache->phase = phase;
            return true;
        }
    }
    cache->following = NULL;
    if (cache->at_home)
        homes_leave(cache);
    return false;
}

/* The life that a name stands for at a phase; NULL: none has been seen yet. */
static struct known_life *resolve(struct known *known, uint32_t phase, uint32_t buffer, uint32_t age)
{
    uint32_t birth = known->cycle->buffers[buffer].birth;

    if (birth != CYCLE_NEVER && phase < birth)
        age--; /* this round's is not born yet */
    return age < known->ages[buffer] ? &known->lives[buffer][age] : NULL;
}

/* Who the buffers are: one that is born here, or is not who it was believed to be. */
static void learn_touches(struct known *known, const struct plan *plan, uint32_t position, uint32_t phase)
{
    const struct cycle_op *op = op_at(known, phase);

    for (uint32_t k = 0; k < op->count; k++) {
        const struct cycle_touch *name = &known->cycle->touches[op->first + k];
        struct segment *segment = plan->segments[plan->touch[plan->touch_first[position] + k]].segment;
        struct known_life *lives = known->lives[name->buffer], *life;

        if (name->age == 0 && known->cycle->buffers[name->buffer].birth == phase) {
            memmove(lives + 1, lives, (known->ages[name->buffer] - 1) * sizeof *lives);
            lives[0] = (struct known_life){segment, segment->life};
            home_set(known, segment, name->buffer, known->round, true);
            continue;
        }
        life = resolve(known, phase, name->buffer, name->age);
        if (life && life->life != segment->life) {
            *life = (struct known_life){segment, segment->life};
            home_set(known, segment, name->buffer, known->round - name->age, false);
        }
    }
}

static uint32_t later(uint32_t position, uint32_t distance)
{
    return distance == CYCLE_NEVER ? PLAN_NEVER : position + distance;
}

static int actions_at(struct known *known, struct plan *plan, uint32_t position, uint32_t phase)
{
    for (uint32_t a = known->head[phase]; a < known->head[phase + 1]; a++) {
        const struct schedule_action *scheduled = &known->schedule->actions[a];
        const struct known_life *life = resolve(known, phase, scheduled->buffer, scheduled->age);
        struct plan_action *action;
        int error;

        if (!life || !life->segment || life->segment->life != life->life || !plan_enter(plan, life->segment))
            continue;
        error = plan_add(plan, scheduled->kind == SCHEDULE_OUT ? PLAN_EVICT : PLAN_FETCH,
                         life->segment->plan_index, position, later(position, known->action_use[a]));
        if (error)
            return error;
        action = &plan->actions[plan->action_count - 1];
        action->first = scheduled->first;
        action->count = scheduled->count;
        action->scheduled = a + known_turn(known, known->round) * known->schedule->count;
        action->leaves = later(position, known->action_until[a]);
    }
    return 0;
}

/* What the window itself says to be dead is dropped after its last use. */
static int drops(const struct cache *cache, struct plan *plan)
{
    const struct known *known = plan->known;

    for (uint32_t i = 0; i < plan->segment_count; i++) {
        struct plan_segment *entry = &plan->segments[i];
        uint32_t last = entry->uses ? plan->position[entry->first_use + entry->uses - 1] : 0, phase, birth;
        int error;

        if (entry->dies == PLAN_NEVER)
            continue;
        error = plan_add(plan, PLAN_DROP, i, entry->uses ? last + 1 : 0, PLAN_NEVER);
        if (error)
            return error;
        if (!entry->uses)
            continue;
        phase = (uint32_t)((plan->phase + last) % known->cycle->length);
        for (uint32_t k = plan->touch_first[last]; k < plan->touch_first[last + 1]; k++)
            if (plan->touch[k] == i) {
                birth = known->cycle
                            ->buffers[known->cycle
                                          ->touches[op_at(known, phase)->first + k - plan->touch_first[last]]
                                          .buffer]
                            .birth;
                entry->reborn = birth == CYCLE_NEVER
                                    ? UINT64_MAX
                                    : cache->plan_base + last + 1 +
                                          (birth + known->cycle->length - phase - 1) % known->cycle->length;
            }
    }
    return 0;
}

/*
 * At the beginning of a round, whether it gets another schedule: the one that the planner has made, or one
 * more is tried. All at once would keep the job waiting for longer; in large rounds each takes long.
 */
static bool next_schedule(struct cache *cache, struct known *known)
{
    struct schedule *schedule = known->next;
    uint64_t pieces = 0;

    if (schedule) {
        known->next = NULL;
        known->tried = SCHEDULE_TRIES;
        cache->statistics.plans_taken_up++;
    } else if (known->tried < SCHEDULE_TRIES && known->worth.time > 0) {
        for (uint32_t i = 0; i < known->schedule->count; i++)
            pieces += known->schedule->actions[i].count;
        if (pieces > MOST_PIECES || known->cycle->length > MOST_OPERATIONS)
            known->tried = SCHEDULE_TRIES;
        else if (schedule_try(known->cycle, known->tried++, &known->worth, &schedule))
            schedule = NULL;
    }
    if (!schedule)
        return false;
    known_schedule(known, schedule);
    known->at_home = false;
    return true;
}

int plan_known(struct cache *cache, struct plan *plan)
{
    struct known *known;
    int error = 0;

    if (!plan->length || !cache->history.ops || !find(cache, plan) || !cache->following->schedule)
        return -ENOENT;
    known = plan->known = cache->following;
    plan->phase = cache->phase;
    plan->round = known->round;
    known->followed = cache->window;
    for (uint32_t i = 0; i < plan->length && !error; i++) {
        if (cache->phase == 0 && next_schedule(cache, known))
            plan->replaced = plan->action_count;
        if (cache->at_home != known || !known->at_home)
            homes_make(cache, known);
        learn_touches(known, plan, i, cache->phase);
        error = actions_at(known, plan, i, cache->phase);
        /* Nothing is measured while a round is followed, and another one may be found in what is. */
        history_at(&cache->history, cache->plan_base + i)->duration =
            (float)op_at(known, cache->phase)->duration;
        cache->phase = (cache->phase + 1) % known->cycle->length;
        known->round += cache->phase == 0;
    }
    cache->statistics.planned_operations += plan->length;
    return error ? error : drops(cache, plan);
}

void plan_touch(const struct cache *cache, const struct plan *plan, uint32_t position, uint32_t touch)
{
    const struct known *known = plan->known;
    uint32_t phase = (uint32_t)(((uint64_t)plan->phase + position) % known->cycle->length);
    uint32_t index = op_at(known, phase)->first + touch - plan->touch_first[position];
    struct segment *segment = plan->segments[plan->touch[touch]].segment;
    uint64_t now = cache->plan_base + position;

    segment->next_use = segment->claim =
        known->touch_next[index] == CYCLE_NEVER ? UINT64_MAX : now + known->touch_next[index];
    segment->leaves = known->touch_until[index] == CYCLE_NEVER ? UINT64_MAX : now + known->touch_until[index];
}

static void known_replace(struct cache *cache, struct known **place, struct known *known)
{
    if (*place) {
        if (cache->at_home == *place || cache->left_home == *place)
            homes_forget(cache);
        known_free(*place);
    }
    *place = known;
}

static void known_add(struct cache *cache, struct known *known)
{
    struct known **place = &cache->known[0];

    for (unsigned i = 0; i < CACHE_KNOWN; i++) {
        if (!cache->known[i]) {
            place = &cache->known[i];
            break;
        }
        if (cache->known[i]->followed < (*place)->followed)
            place = &cache->known[i];
    }
    known_replace(cache, place, known);
}

static void describe_machine(const struct cache *cache, struct cycle *cycle)
{
    cycle->capacity = cache_plannable(cache) / cycle->frame_size * cycle->frame_size;
    cycle->in = cache->link.in;
    cycle->out = cache->link.out;
    cycle->in_both = cache->link.in_both;
    cycle->out_both = cache->link.out_both;
}

/* What a round needs to be followed, beginning with the next operation. */
static int make_ready(struct cache *cache, struct known *known)
{
    struct schedule *schedule;
    int error;

    describe_machine(cache, known->cycle);
    known->hash = cycle_hash(known->cycle);
    known->followed = cache->window;
    error = schedule_try(known->cycle, known->tried++, NULL, &schedule);
    if (!error)
        known_schedule(known, schedule);
    return error;
}

/*
 * Deaths that come a round or more after the birth have not been seen when a round is found, and contents
 * without one are kept for ever: it is made again where more are known.
 */
static void learn_deaths(struct cache *cache)
{
    struct known *known = cache->following, *again = NULL;
    const struct history *history = &cache->history;
    unsigned place = 0;

    if (!known_waits(known) ||
        history->count < known->made + ((uint64_t)known->cycle->length << known->remade) ||
        history_run(history, known->cycle->length) < known->cycle->length)
        return;
    known->made = history->count;
    timing_collect(&cache->timing, &cache->history);
    if (known_remake(history, known, &again) || again->undying >= known->undying ||
        make_ready(cache, again)) {
        known->remade++;
        if (again)
            known_free(again);
        return;
    }
    while (cache->known[place] != known)
        place++;
    known_replace(cache, &cache->known[place], again);
    cache->following = again;
    cache->phase = 0;
}

/* Whether rounds of `period' operations say more of the history than those followed: a part of a round where
 * it has held for as long as the round once, others where they have held for longer. */
static bool explains_more(const struct history *history, uint64_t period, uint32_t followed)
{
    if (followed % period == 0)
        return period < followed && history_run(history, period) >= followed;
    return history_run(history, period) > history_run(history, followed);
}

void plan_learn(struct cache *cache)
{
    const struct history *history = &cache->history;
    uint64_t period = history->ops ? history_period(history) : 0;
    struct known *known = NULL;

    if (cache->following)
        learn_deaths(cache);
    if (!period || cache->looked_at + period > history->count ||
        (cache->following && !explains_more(history, period, cache->following->cycle->length)))
        return;
    cache->looked_at = history->count;
    timing_collect(&cache->timing, &cache->history);
    if (known_make(history, period, cache->frames.size, &known))
        return;
    if (make_ready(cache, known)) {
        known_free(known);
        return;
    }
    known_add(cache, known);
    cache->following = known;
    cache->phase = 0;
    cache->statistics.rounds_found++;
}

void plan_forget(struct cache *cache)
{
    for (unsigned i = 0; i < CACHE_KNOWN; i++) {
        if (cache->known[i])
            known_free(cache->known[i]);
        cache->known[i] = NULL;
    }
    cache->following = cache->at_home = cache->left_home = NULL;
}
