/*
 * cycle_file.c - cycles and schedules as text: a line that says what it is, a line of figures, a line for
 * each thing, and a last line with their number, by which a file that was cut off is known.
 */
#include "cache/cycle.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define CYCLE_MAGIC "hbmspill-cycle 2\n"
#define SCHEDULE_MAGIC "hbmspill-plan 2\n"

/* More than any round has; a damaged number must not become an allocation. */
enum { MOST = 1 << 26 };

static int wrong(char *why, size_t why_size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int wrong(char *why, size_t why_size, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(why, why_size, format, arguments);
    va_end(arguments);
    return -EINVAL;
}

static bool magic(FILE *file, const char *expected)
{
    char line[32];

    return fgets(line, sizeof line, file) && !strcmp(line, expected);
}

/* A time or a rate: what compares with nothing, or has no end, must not reach the evaluator. */
static bool measure(double value)
{
    return isfinite(value) && value >= 0;
}

/* False: no position. */
static bool number_or_never(int64_t value, uint32_t *out)
{
    *out = value < 0 ? CYCLE_NEVER : (uint32_t)value;
    return value >= -1 && value < CYCLE_NEVER;
}

static int64_t never_as(uint32_t value)
{
    return value == CYCLE_NEVER ? -1 : (int64_t)value;
}

int cycle_write(const struct cycle *cycle, FILE *file)
{
    fprintf(file, CYCLE_MAGIC);
    fprintf(file, "%" PRIu64 " %" PRIu64 " %.17g %.17g %.17g %.17g %u %u %u\n", cycle->frame_size,
            cycle->capacity, cycle->in, cycle->out, cycle->in_both, cycle->out_both, cycle->length,
            cycle->buffer_count, cycle->touch_count);
    for (uint32_t i = 0; i < cycle->buffer_count; i++)
        fprintf(file, "b %" PRIu64 " %" PRId64 " %" PRId64 " %u\n", cycle->buffers[i].size,
                never_as(cycle->buffers[i].birth), never_as(cycle->buffers[i].death),
                cycle->buffers[i].address);
    for (uint32_t i = 0; i < cycle->length; i++) {
        const struct cycle_op *op = &cycle->ops[i];

        fprintf(file, "o %.17g %u", op->duration, op->count);
        for (uint32_t k = op->first; k < op->first + op->count; k++)
            fprintf(file, " %u %u", cycle->touches[k].buffer, cycle->touches[k].age);
        fputc('\n', file);
    }
    fprintf(file, "e %u\n", cycle->buffer_count + cycle->length);
    return ferror(file) ? -EIO : 0;
}

static int read_ops(struct cycle *cycle, FILE *file, char *why, size_t why_size)
{
    uint32_t touches = 0;

    for (uint32_t i = 0; i < cycle->length; i++) {
        struct cycle_op *op = &cycle->ops[i];

        op->first = touches;
        if (fscanf(file, " o %lf %" SCNu32, &op->duration, &op->count) != 2 || !measure(op->duration) ||
            op->count > cycle->touch_count - touches)
            return wrong(why, why_size, "operation %u is damaged", i);
        for (uint32_t k = 0; k < op->count; k++, touches++)
            if (fscanf(file, " %" SCNu32 " %" SCNu32, &cycle->touches[touches].buffer,
                       &cycle->touches[touches].age) != 2)
                return wrong(why, why_size, "operation %u is damaged", i);
    }
    return 0;
}

static int cycle_parse(struct cycle *cycle, FILE *file, char *why, size_t why_size)
{
    uint32_t count;
    int error;

    if (!magic(file, CYCLE_MAGIC))
        return wrong(why, why_size, "it is no cycle of a version that can be read");
    if (fscanf(file, " %" SCNu64 " %" SCNu64 " %lf %lf %lf %lf %" SCNu32 " %" SCNu32 " %" SCNu32,
               &cycle->frame_size, &cycle->capacity, &cycle->in, &cycle->out, &cycle->in_both,
               &cycle->out_both, &cycle->length, &cycle->buffer_count, &cycle->touch_count) != 9 ||
        !measure(cycle->in) || !measure(cycle->out) || !measure(cycle->in_both) ||
        !measure(cycle->out_both) || cycle->length > MOST || cycle->buffer_count > MOST ||
        cycle->touch_count > MOST)
        return wrong(why, why_size, "its second line is damaged");
    cycle->ops = calloc(cycle->length + 1, sizeof *cycle->ops);
    cycle->buffers = calloc(cycle->buffer_count + 1, sizeof *cycle->buffers);
    cycle->touches = calloc(cycle->touch_count + 1, sizeof *cycle->touches);
    if (!cycle->ops || !cycle->buffers || !cycle->touches)
        return -ENOMEM;
    for (uint32_t i = 0; i < cycle->buffer_count; i++) {
        int64_t birth, death;

        if (fscanf(file, " b %" SCNu64 " %" SCNd64 " %" SCNd64 " %" SCNu32, &cycle->buffers[i].size, &birth,
                   &death, &cycle->buffers[i].address) != 4 ||
            !number_or_never(birth, &cycle->buffers[i].birth) ||
            !number_or_never(death, &cycle->buffers[i].death))
            return wrong(why, why_size, "buffer %u is damaged", i);
    }
    error = read_ops(cycle, file, why, why_size);
    if (error)
        return error;
    if (fscanf(file, " e %" SCNu32, &count) != 1 || count != cycle->buffer_count + cycle->length)
        return wrong(why, why_size, "it is cut off");
    error = cycle_index(cycle);
    return error == -EINVAL ? wrong(why, why_size, "it contradicts itself") : error;
}

int cycle_read(FILE *file, struct cycle **out, char *why, size_t why_size)
{
    struct cycle *cycle = calloc(1, sizeof *cycle);
    int error;

    if (!cycle)
        return -ENOMEM;
    error = cycle_parse(cycle, file, why, why_size);
    if (error)
        cycle_free(cycle);
    else
        *out = cycle;
    return error;
}

int schedule_write(const struct schedule *schedule, FILE *file)
{
    fprintf(file, SCHEDULE_MAGIC);
    fprintf(file, "%016" PRIx64 " %.17g %d %u\n", schedule->cycle_hash, schedule->predicted, schedule->paced,
            schedule->count);
    for (uint32_t i = 0; i < schedule->count; i++) {
        const struct schedule_action *action = &schedule->actions[i];

        fprintf(file, "%c %u %u %u %u %u\n", action->kind == SCHEDULE_OUT ? 'o' : 'i', action->at,
                action->buffer, action->age, action->first, action->count);
    }
    fprintf(file, "e %u\n", schedule->count);
    return ferror(file) ? -EIO : 0;
}

static int schedule_parse(struct schedule *schedule, FILE *file, char *why, size_t why_size)
{
    uint32_t count, end, at = 0, paced;

    if (!magic(file, SCHEDULE_MAGIC))
        return wrong(why, why_size, "it is no plan of a version that can be read");
    if (fscanf(file, " %" SCNx64 " %lf %" SCNu32 " %" SCNu32, &schedule->cycle_hash, &schedule->predicted,
               &paced, &count) != 4 ||
        !measure(schedule->predicted) || paced > 1 || count > MOST)
        return wrong(why, why_size, "its second line is damaged");
    schedule->paced = paced;
    for (uint32_t i = 0; i < count; i++) {
        struct schedule_action action;
        char kind;
        int error;

        if (fscanf(file, " %c %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32, &kind, &action.at,
                   &action.buffer, &action.age, &action.first, &action.count) != 6 ||
            (kind != 'o' && kind != 'i') || action.at < at)
            return wrong(why, why_size, "action %u is damaged", i);
        action.kind = kind == 'o' ? SCHEDULE_OUT : SCHEDULE_IN;
        at = action.at;
        error = schedule_add(schedule, &action);
        if (error)
            return error;
    }
    if (fscanf(file, " e %" SCNu32, &end) != 1 || end != count)
        return wrong(why, why_size, "it is cut off");
    return 0;
}

int schedule_read(FILE *file, struct schedule **out, char *why, size_t why_size)
{
    struct schedule *schedule = calloc(1, sizeof *schedule);
    int error;

    if (!schedule)
        return -ENOMEM;
    error = schedule_parse(schedule, file, why, why_size);
    if (error)
        schedule_free(schedule);
    else
        *out = schedule;
    return error;
}
