#include "cache/history.h"
#include <stdlib.h>
#include <string.h>

enum { GRAMS = 1 << 16 };

bool history_start(struct history *history)
{
    if (history->ops)
        return true;
    memset(history, 0, sizeof *history);
    history->ops = malloc(HISTORY_OPS * sizeof *history->ops);
    history->touches = malloc(HISTORY_TOUCHES * sizeof *history->touches);
    history->frees = malloc(HISTORY_FREES * sizeof *history->frees);
    history->grams = calloc(GRAMS, sizeof *history->grams);
    if (history->ops && history->touches && history->frees && history->grams)
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

void history_op(struct history *history, uint32_t window, uint64_t lives)
{
    history->ops[history->count % HISTORY_OPS] =
        (struct history_op){.signature = UINT64_C(0x452821e638d01377),
                            .first = history->touched,
                            .lives = lives,
                            .window = window,
                            .duration = -1};
}

void history_touch(struct history *history, struct segment *segment, uint64_t life, uint64_t size)
{
    struct history_op *op = &history->ops[history->count % HISTORY_OPS];

    history->touches[history->touched++ % HISTORY_TOUCHES] = (struct history_touch){segment, life};
    op->count++;
    op->signature = mix(op->signature, size);
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

/* Candidates go on or fail by the operation at `position'. */
static void lags_follow(struct history *history, uint64_t position)
{
    uint64_t signature = signature_at(history, position);
    unsigned kept = 0;

    for (unsigned i = 0; i < history->lag_count; i++) {
        struct history_lag lag = history->lags[i];

        if (signature != signature_at(history, position - lag.lag))
            continue;
        lag.run++;
        history->lags[kept++] = lag;
    }
    history->lag_count = kept;
}

static void lags_look(struct history *history, uint64_t position)
{
    uint64_t gram = 0, before, lag, length = 0;

    if (position + 1 < HISTORY_GRAM)
        return;
    for (unsigned i = 0; i < HISTORY_GRAM; i++)
        gram = mix(gram, signature_at(history, position - i));
    before = history->grams[gram % GRAMS];
    history->grams[gram % GRAMS] = position + 1;
    if (!before)
        return;
    lag = position + 1 - before;
    if (lag > HISTORY_OPS / 2 - HISTORY_GRAM || lag_find(history, lag))
        return;
    while (length < HISTORY_GRAM && position >= lag + length &&
           signature_at(history, position - length) == signature_at(history, position - lag - length))
        length++;
    if (length == HISTORY_GRAM) /* else only the hashes met */
        *lag_place(history) = (struct history_lag){lag, length};
}

void history_op_end(struct history *history)
{
    uint64_t position = history->count++;

    lags_follow(history, position);
    lags_look(history, position);
}

void history_freed(struct history *history, uint64_t life, uint64_t position, uint32_t window)
{
    history->frees[history->freed++ % HISTORY_FREES] = (struct history_free){life, position, window};
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
