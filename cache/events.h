/*
 * events.h - what happened when, as a file for viewers of traces: the array of Chrome's "Trace Event Format",
 * which Perfetto, chrome://tracing and `hbmspill report' read.
 *
 * An event a line; a lane is a number and is told its name once. A file that ends behind any line is one that
 * viewers take, with or without the bracket at its end: what a killed process leaves is of use. It goes out
 * at the end of an event, never within one. From `limit' bytes on events are left out, and a last one says
 * so.
 *
 * Times are nanoseconds since 1970 (a replay: since its beginning). No allocation and no stdio, so that it
 * can be done inside a job's driver calls and at its exit. A writer belongs to one thread at a time.
 */
#ifndef HBMSPILL_CACHE_EVENTS_H
#define HBMSPILL_CACHE_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EVENTS_BUFFER = 65536,
    EVENTS_EVENT_MAX = 4096, /* bytes of one; texts are cut to fit */
};

struct events_arg {
    const char *key;
    const char *text; /* NULL: a number */
    uint64_t number;
};

struct events_writer {
    int fd, error; /* error: -errno of the first write that failed; nothing is written any more then */
    int (*sink)(const char *bytes, size_t size); /* instead of the descriptor, or NULL: 0 or -errno */
    uint32_t process;
    bool any, cut;
    uint64_t written, limit; /* bytes; limit 0: none */
    uint64_t flushed;        /* the time of the event at which the buffer last went out */
    size_t used;
    char buffer[EVENTS_BUFFER];
};

void events_begin(struct events_writer *writer, int fd, uint32_t process, uint64_t limit);
/* The process's name (NULL: told already), with what is to be said of it; a lane's name. */
void events_process(struct events_writer *writer, const char *name, const struct events_arg *args,
                    unsigned count);
void events_lane(struct events_writer *writer, uint32_t lane, const char *name);
void events_span(struct events_writer *writer, uint32_t lane, const char *name, uint64_t begin, uint64_t end,
                 const struct events_arg *args, unsigned count);
/* Values that hold from then on; one track each. */
void events_counter(struct events_writer *writer, const char *name, uint64_t time,
                    const struct events_arg *values, unsigned count);
void events_flush(struct events_writer *writer);
/* The bracket at the end. The descriptor stays the caller's. 0 or -errno. */
int events_end(struct events_writer *writer);

#endif
