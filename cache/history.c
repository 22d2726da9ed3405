#include "cache/history.h"
#include "cache/segment.h"
#include <stdlib.h>
#include <string.h>

enum { GRAMS = 1 << 16, MULTIPLES = 8 };

bool history_start(struct history *history, uint64_t lives)
{
    if (history->ops)
        return true;
    memset(history, 0, sizeof *history);
    history->ops = malloc(HISTORY_OPS * sizeof *history->ops);
    history->touches = malloc(HISTORY_TOUCHES * sizeof *history->touches);
    history->frees = malloc(HISTORY_FREES * sizeof *history->frees);
    history->grams = calloc(GRAMS, sizeof *history->grams);
    history->twice = calloc(GRAMS, sizeof *history->twice);
    history->old = lives;
    if (history->ops && history->touches && history->frees && history->grams && history->twice)
        return true;
    history_end(history);
    return false;
}

void history_end(struct history *history)
{
    free(history->ops);
    free(history->touches);
    free(history->frees);
    free(history->grams);
    free(history->twice);
    memset(history, 0, sizeof *history);
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

struct history_op *history_at(const struct history *history, uint64_t position)
{
    struct history_op *op;

    if (position >= history->count || history->count - position > HISTORY_OPS)
        return NULL;
    op = &history->ops[position % HISTORY_OPS];
    return history->touched - op->first > HISTORY_TOUCHES ? NULL : op;
}

const struct history_touch *history_touch_at(const struct history *history, const struct history_op *op,
                                             uint32_t index)
{
    return &history->touches[(op->first + index) % HISTORY_TOUCHES];
}

void history_op(struct history *history, uint32_t window, uint64_t kind)
{
    history->ops[history->count % HISTORY_OPS] =
        (struct history_op){.signature = mix(UINT64_C(0x452821e638d01377), kind),
                            .first = history->touched,
                            .window = window,
                            .duration = -1};
}

void history_touch(struct history *history, struct segment *segment)
{
    struct history_op *op = &history->ops[history->count % HISTORY_OPS];
    struct history_mark *mark = &segment->seen;
    uint64_t since;

    if (mark->life != segment->life)
        *mark = (struct history_mark){segment->life, history->count, history->count, op->count};
    mark->last = history->count;
    since = history->count - mark->first;
    history->touches[history->touched++ % HISTORY_TOUCHES] =
        (struct history_touch){.segment = segment,
                               .life = segment->life,
                               .since = since < HISTORY_LONG ? (uint32_t)since : HISTORY_LONG,
                               .place = mark->place};
    op->count++;
    op->signature = mix(op->signature, segment->size);
}

static uint64_t signature_at(const struct history *history, uint64_t position)
{
    const struct history_op *op = history_at(history, position);

    return op ? op->signature : 0;
}

static struct history_lag *lag_find(struct history *history, uint64_t lag)
{
    for (unsigned i = 0; i < history->lag_count; i++)
        if (history->lags[i].lag == lag)
            return &history->lags[i];
    return NULL;
}

/* A place for another candidate: where all are taken, that of the one that has held for least. */
static struct history_lag *lag_place(struct history *history)
{
    struct history_lag *least = &history->lags[0];

    if (history->lag_count < HISTORY_LAGS)
        return &history->lags[history->lag_count++];
    for (unsigned i = 1; i < HISTORY_LAGS; i++)
        if (history->lags[i].run < least->run)
            least = &history->lags[i];
    return least;
}

/* Whether a touch is of what the one `lag' operations earlier was of. */
static bool same_touch(const struct history *history, uint64_t position, uint64_t lag,
                       const struct history_touch *now, const struct history_touch *then)
{
    if (now->life == then->life)
        return true;
    if (now->since == then->since && now->place == then->place)
        return now->since < HISTORY_LONG;
    /* One that is older than the history began before it. */
    return history_old(history, then) && !history_old(history, now) && now->since > position - lag;
}

static bool repeats(const struct history *history, uint64_t position, uint64_t lag)
{
    const struct history_op *now = history_at(history, position), *then;

    if (lag > position)
        return false;
    then = history_at(history, position - lag);
    if (!now || !then || now->signature != then->signature || now->count != then->count)
        return false;
    for (uint32_t k = 0; k < now->count; k++)
        if (!same_touch(history, position, lag, history_touch_at(history, now, k),
                        history_touch_at(history, then, k)))
            return false;
    return true;
}

/* Candidates go on or fail by the operation at `position'. */
static void lags_follow(struct history *history, uint64_t position)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < history->lag_count; i++) {
        struct history_lag lag = history->lags[i];

        if (!repeats(history, position, lag.lag))
            continue;
        lag.run++;
        history->lags[kept++] = lag;
    }
    history->lag_count = kept;
}

/* One more candidate, if the operations up to `position' bear it out. True: it is one, or was already. */
static bool lag_try(struct history *history, uint64_t position, uint64_t lag)
{
    uint64_t run = 0;

    if (!lag || lag > HISTORY_OPS / 2 - HISTORY_GRAM)
        return false;
    if (lag_find(history, lag))
        return true;
    /* It may have held for longer than it was followed: a whole round is all there is to know. */
    while ((run < HISTORY_GRAM || run < lag) && run <= position && repeats(history, position - run, lag))
        run++;
    if (run < HISTORY_GRAM)
        return false;
    *lag_place(history) = (struct history_lag){lag, run};
    return true;
}

uint64_t history_gram(const struct history *history, uint64_t position)
{
    uint64_t gram = 0;

    for (unsigned i = 0; i < HISTORY_GRAM && position + 1 >= HISTORY_GRAM; i++)
        gram = mix(gram, signature_at(history, position - i));
    return gram;
}

/* Of all that the operation touches, by what was touched longest ago: the rest is touched more often. */
static void lags_again(struct history *history, uint64_t position)
{
    const struct history_op *op = history_at(history, position);
    struct history_twice longest = {0, 0};

    for (uint32_t k = 0; op && k < op->count; k++) {
        const struct history_touch *touch = history_touch_at(history, op, k);
        struct history_twice *twice = &history->twice[mix(mix(op->signature, touch->life), k) % GRAMS];

        if (twice->last && (!longest.last || twice->last < longest.last))
            longest = *twice;
        *twice = (struct history_twice){position + 1, twice->last};
    }
    if (longest.last)
        (void)lag_try(history, position, position + 1 - longest.last);
    if (longest.before)
        (void)lag_try(history, position, position + 1 - longest.before);
}

static void lags_look(struct history *history, uint64_t position)
{
    uint64_t gram = history_gram(history, position), before;

    lags_again(history, position);
    if (!gram)
        return;
    before = history->grams[gram % GRAMS];
    history->grams[gram % GRAMS] = position + 1;
    for (uint64_t i = 1; before && i <= MULTIPLES; i++)
        if (lag_try(history, position, i * (position + 1 - before)))
            return;
}

void history_op_end(struct history *history)
{
    uint64_t position = history->count++;

    lags_follow(history, position);
    lags_look(history, position);
}

void history_freed(struct history *history, const struct segment *segment, uint64_t position, uint32_t window)
{
    const struct history_mark *mark = &segment->seen;

    if (mark->life == segment->life) /* else nothing knows of it */
        history->frees[history->freed++ % HISTORY_FREES] = (struct history_free){.position = position,
                                                                                 .first = mark->first,
                                                                                 .last = mark->last,
                                                                                 .place = mark->place,
                                                                                 .window = window};
}

uint64_t history_run(const struct history *history, uint64_t lag)
{
    for (unsigned i = 0; i < history->lag_count; i++)
        if (history->lags[i].lag == lag)
            return history->lags[i].run;
    return 0;
}

uint64_t history_period(const struct history *history)
{
    struct history_lag best = {0, 0};

    for (unsigned i = 0; i < history->lag_count; i++) {
        struct history_lag lag = history->lags[i];

        if (lag.run > best.run || (lag.run == best.run && lag.lag < best.lag))
            best = lag;
    }
    return best.lag && best.run >= best.lag ? best.lag : 0;
}
