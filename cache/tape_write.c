/*
 * Writing a tape: lines are put together in the buffer, which goes out when the next might not fit. No
 * allocation and no stdio, so that it can be done inside a job's driver calls and at its exit.
 */
#include "cache/tape.h"
#include "cache/write_all.h"
#include <string.h>

enum { NUMBER_MAX = 21, NAME_MAX_BYTES = 512 };

static void flush(struct tape_writer *writer)
{
    if (!writer->error)
        writer->error = write_all(writer->fd, writer->buffer, writer->used);
    writer->used = 0;
}

static void put_char(struct tape_writer *writer, char c)
{
    if (writer->used == TAPE_BUFFER)
        flush(writer);
    writer->buffer[writer->used++] = c;
}

static void put_text(struct tape_writer *writer, const char *text)
{
    while (*text)
        put_char(writer, *text++);
}

/* A blank and the number. */
static void put_number(struct tape_writer *writer, uint64_t value)
{
    char digits[NUMBER_MAX];
    unsigned count = 0;

    do
        digits[count++] = (char)('0' + value % 10);
    while (value /= 10);
    put_char(writer, ' ');
    while (count)
        put_char(writer, digits[--count]);
}

static void put_stream(struct tape_writer *writer, uint32_t stream)
{
    if (stream == TAPE_NO_STREAM)
        put_text(writer, " -");
    else
        put_number(writer, stream);
}

static void put_touches(struct tape_writer *writer, const struct tape_touch *touches, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        put_number(writer, touches[i].id);
        if (touches[i].access == TAPE_READ)
            put_char(writer, 'r');
        else if (touches[i].access == TAPE_WRITE)
            put_char(writer, 'w');
    }
}

static void end_event(struct tape_writer *writer)
{
    put_char(writer, '\n');
    writer->events++;
}

void tape_write_begin(struct tape_writer *writer, int fd)
{
    writer->fd = fd;
    writer->error = 0;
    writer->events = 0;
    writer->used = 0;
    put_text(writer, TAPE_MAGIC);
}

void tape_write_name(struct tape_writer *writer, uint32_t name, const char *text)
{
    put_char(writer, 'n');
    put_number(writer, name);
    put_char(writer, ' ');
    for (unsigned i = 0; text[i] && i < NAME_MAX_BYTES; i++)
        put_char(writer, (unsigned char)text[i] < ' ' ? '?' : text[i]); /* a line stays a line */
    put_char(writer, '\n');
}

static void write_numbers(struct tape_writer *writer, enum tape_kind kind, uint64_t one, uint64_t other)
{
    put_char(writer, (char)kind);
    put_number(writer, one);
    put_number(writer, other);
    end_event(writer);
}

static void write_stream(struct tape_writer *writer, enum tape_kind kind, uint32_t stream)
{
    put_char(writer, (char)kind);
    put_stream(writer, stream);
    end_event(writer);
}

void tape_write_alloc(struct tape_writer *writer, uint32_t id, uint64_t size)
{
    write_numbers(writer, TAPE_ALLOC, id, size);
}

void tape_write_free(struct tape_writer *writer, uint32_t id, uint32_t stream)
{
    put_char(writer, TAPE_FREE);
    put_number(writer, id);
    put_stream(writer, stream);
    end_event(writer);
}

void tape_write_launch(struct tape_writer *writer, enum tape_kind kind, uint32_t stream, uint32_t name,
                       int64_t duration, const struct tape_touch *touches, unsigned count)
{
    put_char(writer, (char)kind);
    put_number(writer, stream);
    put_number(writer, name);
    if (duration < 0)
        put_text(writer, " -");
    else
        put_number(writer, (uint64_t)duration);
    put_touches(writer, touches, count);
    end_event(writer);
}

void tape_write_copy(struct tape_writer *writer, uint32_t stream, enum tape_copy form, bool blocking,
                     uint64_t size, const struct tape_touch *touches, unsigned count)
{
    put_char(writer, TAPE_COPY);
    put_number(writer, stream);
    put_char(writer, ' ');
    put_char(writer, (char)(blocking ? form - 'a' + 'A' : form));
    put_number(writer, size);
    put_touches(writer, touches, count);
    end_event(writer);
}

void tape_write_memset(struct tape_writer *writer, uint32_t stream, const struct tape_touch *touches,
                       unsigned count)
{
    put_char(writer, TAPE_MEMSET);
    put_number(writer, stream);
    put_touches(writer, touches, count);
    end_event(writer);
}

void tape_write_host_function(struct tape_writer *writer, uint32_t stream)
{
    write_stream(writer, TAPE_HOST_FUNCTION, stream);
}

void tape_write_record(struct tape_writer *writer, uint32_t stream, uint32_t recording)
{
    write_numbers(writer, TAPE_RECORD, stream, recording);
}

void tape_write_after(struct tape_writer *writer, uint32_t stream, uint32_t recording)
{
    write_numbers(writer, TAPE_AFTER, stream, recording);
}

void tape_write_mark(struct tape_writer *writer, uint32_t stream)
{
    write_stream(writer, TAPE_MARK, stream);
}

void tape_write_submit(struct tape_writer *writer, uint32_t stream)
{
    write_stream(writer, TAPE_SUBMIT, stream);
}

void tape_write_wait(struct tape_writer *writer, uint32_t stream)
{
    write_stream(writer, TAPE_WAIT, stream);
}

int tape_write_end(struct tape_writer *writer)
{
    put_char(writer, 'e');
    put_number(writer, writer->events);
    put_char(writer, '\n');
    flush(writer);
    return writer->error;
}
