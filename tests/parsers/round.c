/*
 * round.c - any bytes as what the library and the planner send each other: a cycle, or a schedule. Refused
 * with a reason, or read into one that is the same when it is written and read again. A cycle that is read
 * can be planned for, and its plan fits it.
 */
#include "cache/cycle.h"
#include "tests/parsers/target.h"

#include <errno.h>
#include <string.h>

/* Beyond this the planning of a round takes longer than it is worth here. */
enum { SMALL = 256, PIECES = 4096 };

static FILE *as_file(const void *data, size_t size)
{
    FILE *file = fmemopen((void *)data, size, "r");

    EXPECT(file);
    return file;
}

static void check_refusal(int error, const void *out, const char *why, size_t why_size)
{
    EXPECT((error == -EINVAL || error == -ENOMEM) && !out);
    EXPECT(error == -ENOMEM || (memchr(why, '\0', why_size) && why[0]));
}

static bool is_small(const struct cycle *cycle)
{
    uint64_t pieces = 0;

    for (uint32_t i = 0; i < cycle->buffer_count; i++)
        pieces += cycle_pieces(cycle, i);
    return cycle->length <= SMALL && cycle->buffer_count <= SMALL && cycle->touch_count <= 16 * SMALL &&
           pieces <= PIECES;
}

static void plan(const struct cycle *cycle)
{
    struct schedule *schedule = NULL;

    if (!is_small(cycle) || schedule_greedy(cycle, &schedule))
        return;
    EXPECT(schedule_fits(schedule, cycle));
    schedule_free(schedule);
}

static bool check_cycle(const uint8_t *data, size_t size)
{
    struct cycle *cycle = NULL, *again = NULL;
    char why[160], *text = NULL;
    size_t length = 0;
    FILE *file = as_file(data, size);
    int error;

    memset(why, 'x', sizeof why);
    error = cycle_read(file, &cycle, why, sizeof why);
    fclose(file);
    if (error) {
        check_refusal(error, cycle, why, sizeof why);
        return false;
    }
    file = open_memstream(&text, &length);
    EXPECT(file && !cycle_write(cycle, file) && !fclose(file));
    file = as_file(text, length);
    EXPECT(!cycle_read(file, &again, why, sizeof why) && cycle_hash(again) == cycle_hash(cycle));
    fclose(file);
    free(text);
    plan(cycle);
    cycle_free(cycle);
    cycle_free(again);
    return true;
}

static bool check_schedule(const uint8_t *data, size_t size)
{
    struct schedule *schedule = NULL, *again = NULL;
    char why[160], *text = NULL;
    size_t length = 0;
    FILE *file = as_file(data, size);
    int error;

    memset(why, 'x', sizeof why);
    error = schedule_read(file, &schedule, why, sizeof why);
    fclose(file);
    if (error) {
        check_refusal(error, schedule, why, sizeof why);
        return false;
    }
    file = open_memstream(&text, &length);
    EXPECT(file && !schedule_write(schedule, file) && !fclose(file));
    file = as_file(text, length);
    EXPECT(!schedule_read(file, &again, why, sizeof why) && again->count == schedule->count &&
           again->cycle_hash == schedule->cycle_hash);
    EXPECT(!schedule->count ||
           !memcmp(again->actions, schedule->actions, schedule->count * sizeof *schedule->actions));
    fclose(file);
    free(text);
    schedule_free(schedule);
    schedule_free(again);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    judged(check_cycle(data, size) || check_schedule(data, size));
    return 0;
}
