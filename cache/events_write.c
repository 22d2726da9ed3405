#include "cache/events.h"
#include "cache/write_all.h"
#include <string.h>

enum { DIGITS_MAX = 21, TEXT_MAX = 600, SECOND = 1000000000 };

void events_flush(struct events_writer *writer)
{
    if (!writer->error && writer->used)
        writer->error = writer->sink ? writer->sink(writer->buffer, writer->used)
                                     : write_all(writer->fd, writer->buffer, writer->used);
    writer->used = 0;
}

/* Texts are cut so that an event fits; what has room for none is a mistake of ours and loses its end. */
static void put_char(struct events_writer *writer, char c)
{
    if (writer->used == EVENTS_BUFFER)
        return;
    writer->buffer[writer->used++] = c;
    writer->written++;
}

static void put(struct events_writer *writer, const char *text)
{
    while (*text)
        put_char(writer, *text++);
}

static void put_number(struct events_writer *writer, uint64_t value)
{
    char digits[DIGITS_MAX];
    unsigned count = 0;

    do
        digits[count++] = (char)('0' + value % 10);
    while (value /= 10);
    while (count)
        put_char(writer, digits[--count]);
}

/* Microseconds, as the format has them. */
static void put_time(struct events_writer *writer, uint64_t nanoseconds)
{
    uint64_t rest = nanoseconds % 1000;

    put_number(writer, nanoseconds / 1000);
    if (!rest)
        return;
    put_char(writer, '.');
    put_char(writer, (char)('0' + rest / 100));
    put_char(writer, (char)('0' + rest / 10 % 10));
    put_char(writer, (char)('0' + rest % 10));
}

/* A string; what is no printable ASCII becomes a question mark. */
static void put_string(struct events_writer *writer, const char *text)
{
    put_char(writer, '"');
    for (unsigned i = 0; text[i] && i < TEXT_MAX; i++) {
        if (text[i] == '"' || text[i] == '\\')
            put_char(writer, '\\');
        put_char(writer, text[i] < ' ' || text[i] > '~' ? '?' : text[i]);
    }
    put_char(writer, '"');
}

static void put_args(struct events_writer *writer, const struct events_arg *args, unsigned count)
{
    put(writer, ",\"args\":{");
    for (unsigned i = 0; i < count; i++) {
        if (i)
            put_char(writer, ',');
        put_string(writer, args[i].key);
        put_char(writer, ':');
        if (args[i].text)
            put_string(writer, args[i].text);
        else
            put_number(writer, args[i].number);
    }
    put_char(writer, '}');
}

/* False where nothing is written any more. */
static bool begin(struct events_writer *writer, const char *phase, const char *name, uint32_t lane)
{
    if (writer->error || writer->cut)
        return false;
    if (writer->used > EVENTS_BUFFER - EVENTS_EVENT_MAX)
        events_flush(writer);
    put(writer, writer->any ? ",\n{\"ph\":\"" : "[\n{\"ph\":\"");
    writer->any = true;
    put(writer, phase);
    put(writer, "\",\"pid\":");
    put_number(writer, writer->process);
    put(writer, ",\"tid\":");
    put_number(writer, lane);
    put(writer, ",\"name\":");
    put_string(writer, name);
    return true;
}

/* time: the event's, 0 where it has none. */
static void end(struct events_writer *writer, uint64_t time)
{
    put_char(writer, '}');
    if (time > writer->flushed + SECOND) { /* a process that is killed has written what is older */
        writer->flushed = time;
        events_flush(writer);
    }
    if (!writer->limit || writer->written < writer->limit || writer->cut)
        return;
    if (begin(writer, "i", "hbmspill: the file is full, nothing is written from here on", 0)) {
        put(writer, ",\"s\":\"g\",\"ts\":");
        put_time(writer, time ? time : writer->flushed);
        put_char(writer, '}');
        writer->cut = true;
        events_flush(writer);
    }
}

void events_begin(struct events_writer *writer, int fd, uint32_t process, uint64_t limit)
{
    *writer = (struct events_writer){.fd = fd, .process = process, .limit = limit};
}

void events_process(struct events_writer *writer, const char *name, const struct events_arg *args,
                    unsigned count)
{
    const struct events_arg named = {"name", name, 0};

    if (name && begin(writer, "M", "process_name", 0)) {
        put_args(writer, &named, 1);
        end(writer, 0);
    }
    if (count && begin(writer, "M", "hbmspill", 0)) {
        put_args(writer, args, count);
        end(writer, 0);
    }
}

void events_lane(struct events_writer *writer, uint32_t lane, const char *name)
{
    const struct events_arg named = {"name", name, 0}, sorted = {"sort_index", NULL, lane};

    if (begin(writer, "M", "thread_name", lane)) {
        put_args(writer, &named, 1);
        end(writer, 0);
    }
    if (begin(writer, "M", "thread_sort_index", lane)) {
        put_args(writer, &sorted, 1);
        end(writer, 0);
    }
}

void events_span(struct events_writer *writer, uint32_t lane, const char *name, uint64_t begun,
                 uint64_t ended, const struct events_arg *args, unsigned count)
{
    if (!begin(writer, "X", name, lane))
        return;
    put(writer, ",\"ts\":");
    put_time(writer, begun);
    put(writer, ",\"dur\":");
    put_time(writer, ended > begun ? ended - begun : 0);
    put_args(writer, args, count);
    end(writer, ended > begun ? ended : begun);
}

void events_counter(struct events_writer *writer, const char *name, uint64_t time,
                    const struct events_arg *values, unsigned count)
{
    if (!begin(writer, "C", name, 0))
        return;
    put(writer, ",\"ts\":");
    put_time(writer, time);
    put_args(writer, values, count);
    end(writer, time);
}

int events_end(struct events_writer *writer)
{
    put(writer, writer->any ? "\n]\n" : "[]\n");
    events_flush(writer);
    return writer->error;
}
