/*
 * Reading a tape. Everything is checked as it is read: births in order, nothing used before its birth or
 * after its death, every name told before it is used, and a last line that counts the events, so that a tape
 * whose job was killed is told from a whole one.
 */
#include "cache/tape.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STREAMS_MAX = 65536 };

struct reader {
    const char *at, *end; /* of the text; at is in the current line */
    uint64_t line;
    char *why;
    size_t why_size;
    bool *dead;      /* by birth */
    uint32_t *stamp; /* by birth: 1 + the event that touched it last */
    struct tape *tape;
};

static int refuse(struct reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int refuse(struct reader *reader, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(reader->why, reader->why_size, format, arguments);
    va_end(arguments);
    return -EINVAL;
}

/* Room for one more entry. */
static bool grow(void **array, uint32_t count, uint32_t *capacity, size_t size)
{
    uint32_t more = *capacity ? 2 * *capacity : 1024;
    void *grown;

    if (count < *capacity)
        return true;
    if (count >= UINT32_MAX / 2)
        return false;
    grown = realloc(*array, more * size);
    if (!grown)
        return false;
    *array = grown;
    *capacity = more;
    return true;
}

static bool more_on_line(const struct reader *reader)
{
    return reader->at < reader->end && *reader->at != '\n';
}

static bool take_blank(struct reader *reader)
{
    if (reader->at == reader->end || *reader->at != ' ')
        return false;
    reader->at++;
    return true;
}

/* Digits at the cursor, as a number below the limit. */
static bool take_digits(struct reader *reader, uint64_t limit, uint64_t *value)
{
    const char *start = reader->at;
    uint64_t sum = 0;

    for (; reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9'; reader->at++) {
        if (sum > (UINT64_MAX - 9) / 10)
            return false;
        sum = 10 * sum + (uint64_t)(*reader->at - '0');
    }
    *value = sum;
    return reader->at > start && sum < limit;
}

static bool take_number(struct reader *reader, uint64_t limit, uint64_t *value)
{
    return take_blank(reader) && take_digits(reader, limit, value);
}

static bool take_dash(struct reader *reader)
{
    if (reader->end - reader->at < 2 || reader->at[0] != ' ' || reader->at[1] != '-')
        return false;
    reader->at += 2;
    return true;
}

static int take_stream(struct reader *reader, struct tape_event *event)
{
    uint64_t stream;

    if (!take_number(reader, STREAMS_MAX, &stream))
        return refuse(reader, "a stream's number is missing");
    event->stream = (uint32_t)stream;
    if (stream >= reader->tape->streams)
        reader->tape->streams = (uint32_t)stream + 1;
    return 0;
}

static int take_stream_or_none(struct reader *reader, struct tape_event *event)
{
    event->stream = TAPE_NO_STREAM;
    return take_dash(reader) ? 0 : take_stream(reader, event);
}

static int take_live(struct reader *reader, uint64_t *id)
{
    if (!take_digits(reader, UINT32_MAX, id))
        return refuse(reader, "the number of an allocation is missing");
    if (*id >= reader->tape->births)
        return refuse(reader, "allocation %llu is used before it is born", (unsigned long long)*id);
    if (reader->dead[*id])
        return refuse(reader, "allocation %llu is used after it was freed", (unsigned long long)*id);
    return 0;
}

static int take_touches(struct reader *reader, struct tape_event *event)
{
    struct tape *tape = reader->tape;

    event->first = tape->touch_count;
    while (more_on_line(reader)) {
        struct tape_touch *touch;
        uint32_t access = TAPE_READ | TAPE_WRITE;
        uint64_t id = 0;
        int error = take_blank(reader) ? take_live(reader, &id) : refuse(reader, "the line goes on oddly");

        if (error)
            return error;
        if (more_on_line(reader) && (*reader->at == 'r' || *reader->at == 'w'))
            access = *reader->at++ == 'r' ? TAPE_READ : TAPE_WRITE;
        if (reader->stamp[id] == tape->event_count + 1) { /* named twice */
            for (uint32_t i = event->first; i < tape->touch_count; i++)
                if (tape->touches[i].id == id)
                    tape->touches[i].access |= access;
            continue;
        }
        reader->stamp[id] = tape->event_count + 1;
        if (!grow((void **)&tape->touches, tape->touch_count, &tape->touch_capacity, sizeof *touch))
            return -ENOMEM;
        touch = &tape->touches[tape->touch_count++];
        *touch = (struct tape_touch){(uint32_t)id, access};
    }
    event->count = tape->touch_count - event->first;
    return 0;
}

static int read_alloc(struct reader *reader, struct tape_event *event)
{
    struct tape *tape = reader->tape;
    uint64_t id, size;
    uint32_t capacity = tape->birth_capacity;

    if (!take_number(reader, UINT32_MAX, &id) || !take_number(reader, UINT64_C(1) << 50, &size) || !size)
        return refuse(reader, "an allocation's number or size is missing or out of range");
    if (id != tape->births)
        return refuse(reader, "allocation %llu is born out of order", (unsigned long long)id);
    if (!grow((void **)&tape->sizes, tape->births, &tape->birth_capacity, sizeof *tape->sizes))
        return -ENOMEM;
    if (capacity != tape->birth_capacity) {
        bool *dead = realloc(reader->dead, tape->birth_capacity * sizeof *dead);
        uint32_t *stamp = realloc(reader->stamp, tape->birth_capacity * sizeof *stamp);

        reader->dead = dead ? dead : reader->dead;
        reader->stamp = stamp ? stamp : reader->stamp;
        if (!dead || !stamp)
            return -ENOMEM;
    }
    reader->dead[id] = false;
    reader->stamp[id] = 0;
    event->id = tape->births++;
    event->size = tape->sizes[id] = size;
    return 0;
}

static int read_free(struct reader *reader, struct tape_event *event)
{
    uint64_t id = 0;
    int error = take_blank(reader) ? take_live(reader, &id) : refuse(reader, "what is freed is missing");

    if (error)
        return error;
    event->id = (uint32_t)id;
    reader->dead[id] = true;
    return take_stream_or_none(reader, event);
}

static int read_launch(struct reader *reader, struct tape_event *event)
{
    uint64_t name, duration;
    int error = take_stream(reader, event);

    if (error)
        return error;
    if (!take_number(reader, reader->tape->name_count, &name))
        return refuse(reader, "a launch has a name that was not told before");
    event->name = (uint32_t)name;
    if (!take_dash(reader)) {
        if (!take_number(reader, (uint64_t)INT64_MAX, &duration))
            return refuse(reader, "a launch has neither a duration nor -");
        event->duration = (int64_t)duration;
    }
    reader->tape->launches++;
    return take_touches(reader, event);
}

static int read_copy(struct reader *reader, struct tape_event *event)
{
    int error = take_stream(reader, event);
    char form;

    if (error)
        return error;
    if (!take_blank(reader) || !more_on_line(reader))
        return refuse(reader, "a copy's form is missing");
    form = *reader->at++;
    event->blocking = form >= 'A' && form <= 'Z';
    if (event->blocking)
        form = (char)(form - 'A' + 'a');
    if (!strchr("dxio", form))
        return refuse(reader, "a copy's form is none of d, x, i, o");
    event->form = (enum tape_copy)form;
    if (!take_number(reader, UINT64_C(1) << 50, &event->size))
        return refuse(reader, "a copy's size is missing");
    return take_touches(reader, event);
}

static int read_recording(struct reader *reader, struct tape_event *event)
{
    struct tape *tape = reader->tape;
    int error = take_stream(reader, event);
    uint64_t number;

    if (error)
        return error;
    if (!take_number(reader, UINT32_MAX, &number))
        return refuse(reader, "a recording's number is missing");
    if (event->kind == TAPE_AFTER) {
        if (number >= tape->recordings)
            return refuse(reader, "recording %llu is waited for before it is made",
                          (unsigned long long)number);
        event->back = tape->recordings - (uint32_t)number;
        return 0;
    }
    if (number != tape->recordings)
        return refuse(reader, "recording %llu is out of order", (unsigned long long)number);
    tape->recordings++;
    return 0;
}

static int read_event(struct reader *reader, char kind)
{
    struct tape *tape = reader->tape;
    struct tape_event event = {.kind = (enum tape_kind)kind, .duration = -1};
    int error = 0;

    switch (kind) {
    case TAPE_ALLOC:
        error = read_alloc(reader, &event);
        break;
    case TAPE_FREE:
        error = read_free(reader, &event);
        break;
    case TAPE_LAUNCH:
    case TAPE_OPEN:
    case TAPE_OTHER:
        error = read_launch(reader, &event);
        break;
    case TAPE_COPY:
        error = read_copy(reader, &event);
        break;
    case TAPE_MEMSET:
        error = take_stream(reader, &event);
        if (!error)
            error = take_touches(reader, &event);
        break;
    case TAPE_RECORD:
    case TAPE_AFTER:
        error = read_recording(reader, &event);
        break;
    case TAPE_HOST_FUNCTION:
    case TAPE_MARK:
        error = take_stream(reader, &event);
        break;
    case TAPE_SUBMIT:
    case TAPE_WAIT:
        error = take_stream_or_none(reader, &event);
        break;
    default:
        return refuse(reader, "a line of a kind that is not known");
    }
    if (error)
        return error;
    if (!grow((void **)&tape->events, tape->event_count, &tape->event_capacity, sizeof event))
        return -ENOMEM;
    tape->events[tape->event_count++] = event;
    return 0;
}

static int read_name(struct reader *reader)
{
    struct tape *tape = reader->tape;
    const char *start;
    uint64_t name;

    if (!take_number(reader, UINT32_MAX, &name) || name != tape->name_count || !take_blank(reader))
        return refuse(reader, "a name out of order");
    start = reader->at;
    while (more_on_line(reader))
        reader->at++;
    if (!grow((void **)&tape->names, tape->name_count, &tape->name_capacity, sizeof *tape->names))
        return -ENOMEM;
    tape->names[tape->name_count] = strndup(start, (size_t)(reader->at - start));
    if (!tape->names[tape->name_count])
        return -ENOMEM;
    tape->name_count++;
    return 0;
}

/* *whole: it was the last line, and it counts right. */
static int read_line(struct reader *reader, bool *whole)
{
    char kind = *reader->at++;
    uint64_t events;
    int error = 0;

    if (kind == 'n') {
        error = read_name(reader);
    } else if (kind == 'e') {
        if (!take_number(reader, UINT64_MAX, &events) || events != reader->tape->event_count)
            return refuse(reader, "the tape ends after %u events, which is not what its last line says",
                          reader->tape->event_count);
        *whole = true;
    } else {
        error = read_event(reader, kind);
    }
    if (error)
        return error;
    if (reader->at == reader->end)
        return refuse(reader, "cut off: the line has no end");
    if (*reader->at++ != '\n')
        return refuse(reader, "the line goes on oddly");
    if (*whole && reader->at != reader->end)
        return refuse(reader, "more text after the last line");
    return 0;
}

static int read_text(struct reader *reader)
{
    const size_t magic = sizeof TAPE_MAGIC - 1;
    bool whole = false;
    int error = 0;

    reader->line = 1;
    if ((size_t)(reader->end - reader->at) < magic || memcmp(reader->at, TAPE_MAGIC, magic) != 0)
        return refuse(reader, "no trace of a version that can be read (it begins with \"%.*s\")",
                      (int)magic - 1, TAPE_MAGIC);
    reader->at += magic;
    while (!error && !whole) {
        reader->line++;
        if (reader->at == reader->end)
            return refuse(reader, "cut off: there is no last line (was the job killed?)");
        error = read_line(reader, &whole);
    }
    return error;
}

int tape_read(const char *path, struct tape **out, uint64_t *line, char *why, size_t why_size)
{
    struct reader reader = {.why = why, .why_size = why_size};
    int fd = open(path, O_RDONLY | O_CLOEXEC), error = 0;
    void *text = MAP_FAILED;
    struct stat status = {0};

    *line = 0;
    if (fd < 0 || fstat(fd, &status))
        error = -errno;
    if (!error && status.st_size == 0) {
        *line = 1;
        error = refuse(&reader, "the file is empty");
    }
    if (!error) {
        text = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        error = text == MAP_FAILED ? -errno : 0;
    }
    if (!error) {
        reader.tape = calloc(1, sizeof *reader.tape);
        error = reader.tape ? 0 : -ENOMEM;
    }
    if (!error) {
        reader.at = text;
        reader.end = reader.at + status.st_size;
        error = read_text(&reader);
        *line = reader.line;
    }
    if (error && error != -EINVAL)
        snprintf(why, why_size, "%s", strerror(-error));
    free(reader.dead);
    free(reader.stamp);
    if (text != MAP_FAILED)
        munmap(text, (size_t)status.st_size);
    if (fd >= 0)
        close(fd);
    if (error)
        tape_free(reader.tape);
    else
        *out = reader.tape;
    return error;
}

void tape_free(struct tape *tape)
{
    if (!tape)
        return;
    for (uint32_t i = 0; i < tape->name_count; i++)
        free(tape->names[i]);
    free(tape->names);
    free(tape->events);
    free(tape->touches);
    free(tape->sizes);
    free(tape);
}
