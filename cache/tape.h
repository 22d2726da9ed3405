/*
 * tape.h - what a job did with its memory, as a file: allocations, operations with what they touch, frees.
 *
 * doc/TRACE.md describes the format, a text of one event a line. Allocations are named by their order of
 * birth; there are sizes and touches in it, no addresses and no data. tape_write.c writes it (the hooks, a
 * test), tape.c reads it (replay), scripts/bound reads it by itself.
 *
 * Sizes are bytes, durations nanoseconds. Errors: 0 or -errno. A writer and a tape belong to one thread at a
 * time.
 */
#ifndef HBMSPILL_CACHE_TAPE_H
#define HBMSPILL_CACHE_TAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TAPE_MAGIC "hbmspill-trace 1\n"

enum { TAPE_NO_STREAM = UINT32_MAX, TAPE_BUFFER = 65536 };

enum tape_kind {
    TAPE_ALLOC = 'a',
    TAPE_FREE = 'f',
    TAPE_LAUNCH = 'l', /* of a closed kernel */
    TAPE_OPEN = 'o',   /* an operation that may touch every live allocation */
    TAPE_OTHER = 't',  /* any other operation that cannot be held: a graph, a copy in two dimensions */
    TAPE_COPY = 'c',
    TAPE_MEMSET = 'm',
    TAPE_HOST_FUNCTION = 'h',
    TAPE_RECORD = 'r', /* an event is recorded in the stream */
    TAPE_AFTER = 'q',  /* the stream waits for what was recorded */
    TAPE_MARK = 'v',   /* the stream waits for an event, it is not known for what of it */
    TAPE_SUBMIT =
        's', /* a call by which the job could notice that operations of a stream are held, or of any */
    TAPE_WAIT = 'w', /* the same, and the host waits for the stream, or all */
};

enum tape_copy { /* what a copy's ends are; an upper case letter in the file: the host waits for it */
                 TAPE_INSIDE = 'd', /* both in allocations of the tape */
                 TAPE_ACROSS = 'x', /* both on the device, one of them not in the tape */
                 TAPE_TO_DEVICE = 'i',
                 TAPE_TO_HOST = 'o',
};

enum { TAPE_READ = 1, TAPE_WRITE = 2 }; /* as cache.h's */

struct tape_touch {
    uint32_t id; /* birth */
    uint32_t access;
};

/* Writes to a file descriptor through a buffer. After an error nothing is written any more. */
struct tape_writer {
    int fd, error; /* error: -errno of the first write that failed */
    uint64_t events;
    size_t used;
    char buffer[TAPE_BUFFER];
};

void tape_write_begin(struct tape_writer *writer, int fd);
void tape_write_name(struct tape_writer *writer, uint32_t name, const char *text);
void tape_write_alloc(struct tape_writer *writer, uint32_t id, uint64_t size);
void tape_write_free(struct tape_writer *writer, uint32_t id, uint32_t stream);
/* kind: TAPE_LAUNCH, TAPE_OPEN, TAPE_OTHER. duration: in nanoseconds, negative where it is not known. */
void tape_write_launch(struct tape_writer *writer, enum tape_kind kind, uint32_t stream, uint32_t name,
                       int64_t duration, const struct tape_touch *touches, unsigned count);
void tape_write_copy(struct tape_writer *writer, uint32_t stream, enum tape_copy form, bool blocking,
                     uint64_t size, const struct tape_touch *touches, unsigned count);
void tape_write_memset(struct tape_writer *writer, uint32_t stream, const struct tape_touch *touches,
                       unsigned count);
void tape_write_host_function(struct tape_writer *writer, uint32_t stream);
/* recording: numbered from 0, in the order they are written. */
void tape_write_record(struct tape_writer *writer, uint32_t stream, uint32_t recording);
void tape_write_after(struct tape_writer *writer, uint32_t stream, uint32_t recording);
void tape_write_mark(struct tape_writer *writer, uint32_t stream);
void tape_write_submit(struct tape_writer *writer, uint32_t stream);
void tape_write_wait(struct tape_writer *writer, uint32_t stream);
/* The line that says the tape is whole, and all that is buffered. The descriptor stays the caller's. */
int tape_write_end(struct tape_writer *writer);

struct tape_event {
    enum tape_kind kind;
    uint32_t stream;
    union {
        uint32_t id;   /* alloc, free */
        uint32_t name; /* launch, open, other */
        uint32_t back; /* after: the last recording ahead of it is 1, the one before 2, and so on */
    };
    enum tape_copy form;
    bool blocking;
    uint32_t first, count; /* in the tape's touches, each allocation once */
    uint64_t size;         /* alloc, copy */
    int64_t duration;      /* negative: not known */
};

struct tape {
    struct tape_event *events;
    uint32_t event_count, event_capacity;
    struct tape_touch *touches;
    uint32_t touch_count, touch_capacity;
    uint64_t *sizes; /* by birth */
    uint32_t births, birth_capacity;
    char **names;
    uint32_t name_count, name_capacity;
    uint32_t streams, launches; /* launches: events of the kinds launch, open and other */
    uint32_t recordings;
};

/*
 * Reads a whole file. -EINVAL: it is damaged, cut off, or of another version; *line says in which line
 * (from 1) and `why' (of at least 160 bytes) what is wrong. Any other error: of reading it, why says so too.
 */
int tape_read(const char *path, struct tape **out, uint64_t *line, char *why, size_t why_size);
void tape_free(struct tape *tape);

/*
 * The rounds at the tape's end: the sequence of launches (names and sizes touched) that is repeated there at
 * least three times in a row. *period: launches a round, *rounds: how many. False where there are none; both
 * are then left alone. -ENOMEM is false, too.
 */
bool tape_find_rounds(const struct tape *tape, uint32_t *period, uint32_t *rounds);

/*
 * Appends the last round of `period' launches `times' more; behind them comes what came behind it, as far as
 * it is alike. -EINVAL: it and the round before it are not alike, and the tape is of no use any more;
 * -ENOMEM.
 */
int tape_repeat(struct tape *tape, uint32_t period, uint32_t times);

static inline bool tape_is_launch(enum tape_kind kind)
{
    return kind == TAPE_LAUNCH || kind == TAPE_OPEN || kind == TAPE_OTHER;
}

#endif
