/*
 * Lines are written in order; one whose duration is not known yet holds up those behind it, in memory.
 */
#include "record.h"
#include "launch.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NO_BIRTH UINT64_MAX

struct record_line {
    struct record_line *next;
    char *text; /* the whole of it, or what is before the duration */
    char *rest; /* what is behind it, or NULL */
    bool known;
};

struct text {
    char *bytes;
    size_t length;
};

static FILE *file;
static struct record_line *first, **end = &first;
static uint64_t births, events, recordings;
static uint64_t waits_at = UINT64_MAX; /* events there were behind the last line that says the host waits */
static char **names;
static size_t name_count;
static uint64_t *streams; /* ids, in the order they first occur */
static size_t stream_count;

static void *grown(void *array, size_t count, size_t size)
{
    void *more = count & (count - 1) ? array : realloc(array, (count ? 2 * count : 1) * size);
    if (!more) {
        driver_log("out of memory for the record");
        abort(); /* a record that lacks something is worse than none */
    }
    return more;
}

static void add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *text, const char *format, ...)
{
    char piece[64];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(piece, sizeof(piece), format, args);
    va_end(args);
    text->bytes = realloc(text->bytes, text->length + (size_t)n + 1);
    if (!text->bytes)
        abort();
    memcpy(text->bytes + text->length, piece, (size_t)n + 1);
    text->length += (size_t)n;
}

static void write_known(void)
{
    while (first && first->known) {
        struct record_line *line = first;
        fprintf(file, "%s%s\n", line->text, line->rest ? line->rest : "");
        first = line->next;
        if (!first)
            end = &first;
        free(line->text);
        free(line->rest);
        free(line);
    }
}

static struct record_line *push(struct text *text, struct text *rest)
{
    struct record_line *line = calloc(1, sizeof(*line));
    if (!line)
        abort();
    line->text = text->bytes;
    line->rest = rest ? rest->bytes : NULL;
    line->known = !rest;
    *end = line;
    end = &line->next;
    if (!rest)
        write_known();
    return line;
}

static size_t number_of_stream(uint64_t id)
{
    for (size_t i = 0; i < stream_count; i++)
        if (streams[i] == id)
            return i;
    streams = grown(streams, stream_count, sizeof(*streams));
    streams[stream_count] = id;
    return stream_count++;
}

static size_t number_of_name(const char *name)
{
    for (size_t i = 0; i < name_count; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    names = grown(names, name_count, sizeof(*names));
    if (!(names[name_count] = strdup(name)))
        abort();
    struct text text = {0};
    add(&text, "n %zu ", name_count);
    text.bytes = realloc(text.bytes, text.length + strlen(name) + 1);
    if (!text.bytes)
        abort();
    strcpy(text.bytes + text.length, name);
    push(&text, NULL);
    return name_count++;
}

/* ---- allocations ---- */

static bool is_device_memory(const struct range *range)
{
    return !range_is_host(range) && range->device != CU_DEVICE_INVALID;
}

void record_range_new_locked(struct range *range)
{
    struct text text = {0};
    range->birth = NO_BIRTH;
    range->freed_in = 0;
    if (!file || !is_device_memory(range))
        return;
    range->birth = births++;
    events++;
    add(&text, "a %llu %llu", (unsigned long long)range->birth, (unsigned long long)range->size);
    push(&text, NULL);
}

void record_range_gone_locked(const struct range *range)
{
    struct text text = {0};
    if (!file || range->birth == NO_BIRTH)
        return;
    events++;
    add(&text, "f %llu ", (unsigned long long)range->birth);
    if (range->freed_in)
        add(&text, "%zu", number_of_stream(range->freed_in));
    else
        add(&text, "-");
    push(&text, NULL);
}

/* Several waits in a row say no more than one. */
void record_host_waits_locked(void)
{
    struct text text = {0};
    if (!file || events == waits_at)
        return;
    waits_at = ++events;
    add(&text, "s -");
    push(&text, NULL);
}

/* ---- operations ---- */

struct touches {
    uint64_t *births;
    size_t count;
};

static void touch(struct touches *touches, uint64_t address)
{
    const struct range *range = window_has(address) ? range_find_locked(address) : NULL;
    if (!range || range->birth == NO_BIRTH)
        return;
    for (size_t i = 0; i < touches->count; i++)
        if (touches->births[i] == range->birth)
            return;
    touches->births = grown(touches->births, touches->count, sizeof(*touches->births));
    touches->births[touches->count++] = range->birth;
}

static void touch_parameters(struct touches *touches, const struct kernel_work *work)
{
    uint32_t bytes = work->function->kernel->param_bytes;
    for (uint32_t at = 0; at + 8 <= bytes; at += 8) {
        uint64_t p;
        memcpy(&p, (const char *)work->params + at, 8);
        touch(touches, p);
    }
}

/* Of a copy or memset, whose mappings may be several in a row. */
static void touch_box(struct touches *touches, uint64_t address, uint64_t size)
{
    for (uint64_t at = address; at < address + size;) {
        const struct range *range = window_has(at) ? range_find_locked(at) : NULL;
        touch(touches, at);
        if (!range)
            break;
        at = range->base + range->size;
    }
}

static void add_touches(struct text *text, struct touches *touches, const char *how)
{
    for (size_t i = 0; i < touches->count; i++)
        add(text, " %llu%s", (unsigned long long)touches->births[i], how);
    free(touches->births);
    *touches = (struct touches){0};
}

static void record_copy(struct text *text, const struct copy_work *copy, size_t stream)
{
    struct touches touches = {0};
    uint64_t rows = copy->depth - 1, slice = copy->height - 1;
    bool to = copy->dst_place == PLACE_DEVICE, from = copy->src_place == PLACE_DEVICE;
    char form = to && from ? 'd' : to ? 'i' : from ? 'o' : 0;
    if (!form) /* between two places of the host */
        return;
    if (copy->returns_late)
        form = (char)(form - 'a' + 'A');
    events++;
    add(text, "c %zu %c %llu", stream, form, (unsigned long long)copy->width * copy->height * copy->depth);
    touch_box(&touches, copy->dst, rows * copy->dst_slice + slice * copy->dst_pitch + copy->width);
    add_touches(text, &touches, "w");
    touch_box(&touches, copy->src, rows * copy->src_slice + slice * copy->src_pitch + copy->width);
    add_touches(text, &touches, "r");
}

struct record_line *record_work_locked(const struct work *work, uint64_t stream_id)
{
    struct text text = {0}, rest = {0};
    struct touches touches = {0};
    const struct memset_work *m = &work->memset;
    size_t stream, name;
    if (!file)
        return NULL;
    switch (work->kind) {
    case WORK_KERNEL:
        stream = number_of_stream(stream_id);
        name = number_of_name(kernel_name(&work->kernel));
        events++;
        add(&text, "l %zu %zu ", stream, name);
        touch_parameters(&touches, &work->kernel);
        add(&rest, "%s", "");
        add_touches(&rest, &touches, "");
        return push(&text, &rest);
    case WORK_COPY:
        record_copy(&text, &work->copy, number_of_stream(stream_id));
        break;
    case WORK_MEMSET:
        touch_box(&touches, m->dst, (m->height - 1) * m->pitch + m->width * m->element);
        if (touches.count) {
            events++;
            add(&text, "m %zu", number_of_stream(stream_id));
            add_touches(&text, &touches, "w");
        }
        break;
    case WORK_HOST:
    case WORK_CALLBACK:
        events++;
        add(&text, "h %zu", number_of_stream(stream_id));
        break;
    default:
        break;
    }
    if (text.bytes)
        push(&text, NULL);
    return NULL;
}

struct record_line *record_nodes_locked(const struct work *const *works, size_t count, uint64_t stream_id)
{
    struct text text = {0}, rest = {0};
    struct touches touches = {0};
    if (!file)
        return NULL;
    size_t stream = number_of_stream(stream_id), name = number_of_name("graph");
    events++;
    add(&text, "t %zu %zu ", stream, name);
    for (size_t i = 0; i < count; i++) {
        const struct work *work = works[i];
        if (work->kind == WORK_KERNEL) {
            touch_parameters(&touches, &work->kernel);
        } else if (work->kind == WORK_COPY) {
            touch(&touches, work->copy.dst);
            touch(&touches, work->copy.src);
        } else if (work->kind == WORK_MEMSET) {
            touch(&touches, work->memset.dst);
        }
    }
    add(&rest, "%s", "");
    add_touches(&rest, &touches, "");
    return push(&text, &rest);
}

void record_done_locked(struct record_line *line, double ns)
{
    struct text text;
    if (!line || line->known)
        return;
    text = (struct text){.bytes = line->text, .length = strlen(line->text)};
    add(&text, "%.0f", ns);
    line->text = text.bytes;
    line->known = true;
    write_known();
}

/* ---- events ---- */

uint64_t record_recorded_locked(uint64_t stream_id)
{
    struct text text = {0};
    if (!file)
        return 0;
    events++;
    add(&text, "r %zu %llu", number_of_stream(stream_id), (unsigned long long)recordings);
    push(&text, NULL);
    return ++recordings;
}

void record_after_locked(uint64_t stream_id, uint64_t recording)
{
    struct text text = {0};
    if (!file || !recording)
        return;
    events++;
    add(&text, "q %zu %llu", number_of_stream(stream_id), (unsigned long long)recording - 1);
    push(&text, NULL);
}

/* ---- begin and end ---- */

void record_start(void)
{
    char path[4096];
    if (!options.record)
        return;
    options_path(options.record, path, sizeof(path));
    file = fopen(path, "we");
    if (!file) {
        driver_log("cannot write the record %s: %s", path, strerror(errno));
        return;
    }
    fprintf(file, "device-record 1\n");
}

/* What has not run by now is said to be unknown. */
void record_finish_locked(void)
{
    if (!file)
        return;
    for (struct record_line *line = first; line; line = line->next) {
        if (!line->known) {
            struct text text = {.bytes = line->text, .length = strlen(line->text)};
            add(&text, "-");
            line->text = text.bytes;
            line->known = true;
        }
    }
    write_known();
    fprintf(file, "e %llu\n", (unsigned long long)events);
    if (fclose(file) != 0)
        driver_log("the record could not be written: %s", strerror(errno));
    file = NULL;
}
