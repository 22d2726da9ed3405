#include "hooks/trace.h"
#include "cache/lock_in_time.h"
#include "hooks/capture.h"
#include "shim/log.h"
#include "shim/options.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>
#include <uthash.h>

struct birth {
    uint64_t address;
    uint32_t id;
    UT_hash_handle hh;
};

struct stream_number {
    struct stream_key key;
    uint32_t number;
    UT_hash_handle hh;
};

struct recording {
    CUevent event;
    uint32_t number; /* of the last time it was recorded */
    UT_hash_handle hh;
};

struct name {
    uint32_t number;
    UT_hash_handle hh;
    char text[];
};

atomic_bool trace_on;

/* Protects everything below. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tape_writer writer;
static struct birth *live; /* by address */
static struct stream_number *streams;
static struct name *names;
static struct recording *recordings; /* by event */
static uint32_t births, stream_count, name_count, recording_count;
static bool submitted; /* the last line says so: a second of the same stream says nothing new */
static uint32_t submitted_stream;

static void complain(int error)
{
    log_warn(LOG_IN_TRACE, "%s cannot be written: %s; it ends here (HBMSPILL_TRACE)",
             options_get()->trace.text, strerror(-error));
}

/* With the lock: recording ends, once. */
static void stop(int error)
{
    if (atomic_exchange(&trace_on, false))
        complain(error);
}

/* With the lock where it is true: recording had not ended meanwhile. */
static bool enter(void)
{
    pthread_mutex_lock(&lock);
    if (atomic_load_explicit(&trace_on, memory_order_relaxed))
        return true;
    pthread_mutex_unlock(&lock);
    return false;
}

static void check(void)
{
    if (writer.error)
        stop(writer.error);
}

/* After an event was written. */
static void leave(void)
{
    submitted = false;
    check();
    pthread_mutex_unlock(&lock);
}

void trace_begin(void)
{
    const char *pattern = options_get()->trace.text;
    char path[1100];
    int fd;

    if (!pattern[0] || shim_mode() != SHIM_ON)
        return;
    if (options_expand_path(pattern, path, sizeof path)) {
        log_warn(LOG_IN_TRACE, "HBMSPILL_TRACE is too long a path");
        return;
    }
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        log_warn(LOG_IN_TRACE, "%s cannot be written: %s (HBMSPILL_TRACE)", path, strerror(errno));
        return;
    }
    tape_write_begin(&writer, fd);
    atomic_store(&trace_on, true);
}

void trace_end(void)
{
    int error;

    if (!atomic_load(&trace_on))
        return;
    if (!lock_in_time(&lock, EXIT_PATIENCE_MS)) {
        log_warn(LOG_IN_TRACE, "%s is not whole: whoever writes it has stopped (HBMSPILL_TRACE)",
                 options_get()->trace.text);
        return;
    }
    if (!atomic_exchange(&trace_on, false)) {
        pthread_mutex_unlock(&lock);
        return;
    }
    error = tape_write_end(&writer);
    if (close(writer.fd) && !error)
        error = -errno;
    if (error)
        complain(error);
    pthread_mutex_unlock(&lock);
}

/* With the lock. Recording ends where its own records cannot be kept. */
static uint32_t stream_of(struct stream_key key)
{
    struct stream_number *entry;

    /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): two numbers without a gap */
    HASH_FIND(hh, streams, &key, sizeof key, entry);
    if (!entry && (entry = malloc(sizeof *entry))) {
        entry->key = key;
        entry->number = stream_count++;
        HASH_ADD(hh, streams, key, sizeof key, entry);
    }
    if (!entry)
        stop(-ENOMEM);
    return entry ? entry->number : 0;
}

static uint32_t name_of(const char *text)
{
    size_t length = strlen(text);
    struct name *entry;

    HASH_FIND(hh, names, text, length, entry);
    if (!entry && (entry = malloc(sizeof *entry + length + 1))) {
        memcpy(entry->text, text, length + 1);
        entry->number = name_count++;
        HASH_ADD_KEYPTR(hh, names, entry->text, length, entry);
        tape_write_name(&writer, entry->number, text);
    }
    if (!entry)
        stop(-ENOMEM);
    return entry ? entry->number : 0;
}

/* The allocation an address lies in, as the tape calls it; false for one that is not in it. */
static bool birth_of(uint64_t address, uint32_t *id)
{
    struct gpu *gpu = gpu_of_address(address);
    uint64_t base, size;
    struct birth *birth;

    if (!gpu || !cache_find(gpu->cache, address, &base, &size))
        return false;
    HASH_FIND(hh, live, &base, sizeof base, birth);
    if (birth)
        *id = birth->id;
    return birth != NULL;
}

void trace_alloc(uint64_t address, uint64_t size)
{
    struct birth *birth, *before;

    if (!enter())
        return;
    HASH_FIND(hh, live, &address, sizeof address, before);
    if (before) { /* freed in a way that was not seen here */
        tape_write_free(&writer, before->id, TAPE_NO_STREAM);
        HASH_DEL(live, before);
        free(before);
    }
    birth = malloc(sizeof *birth);
    if (birth) {
        birth->address = address;
        birth->id = births++;
        HASH_ADD(hh, live, address, sizeof address, birth);
        tape_write_alloc(&writer, birth->id, size);
    } else {
        stop(-ENOMEM);
    }
    leave();
}

void trace_free(uint64_t address, const struct stream_key *stream)
{
    struct birth *birth;

    if (!enter())
        return;
    HASH_FIND(hh, live, &address, sizeof address, birth);
    if (birth) {
        HASH_DEL(live, birth);
        tape_write_free(&writer, birth->id, stream ? stream_of(*stream) : TAPE_NO_STREAM);
        free(birth);
    }
    leave();
}

/* With the lock; NULL where there is no memory for more than inline_touched. */
static struct tape_touch *births_touched(const struct touches *touches, struct tape_touch *inline_touched,
                                         unsigned *count)
{
    struct tape_touch *touched = inline_touched;

    if (touches->count > TOUCHES_INLINE && !(touched = malloc(touches->count * sizeof *touched)))
        return NULL;
    *count = 0;
    for (unsigned i = 0; i < touches->count; i++)
        if (birth_of(touches->touch[i].address, &touched[*count].id))
            touched[(*count)++].access = touches->touch[i].access;
    return touched;
}

void trace_launch(enum tape_kind kind, const char *name, const struct touches *touches, CUstream stream,
                  bool per_thread)
{
    struct tape_touch inline_touched[TOUCHES_INLINE], *touched;
    unsigned count;

    if (capture_graph(stream, per_thread) || !enter())
        return;
    touched = births_touched(touches, inline_touched, &count);
    if (touched) {
        uint32_t number = name_of(name);

        tape_write_launch(&writer, kind, stream_of(stream_key_of(stream, per_thread)), number, -1, touched,
                          count);
    } else {
        stop(-ENOMEM);
    }
    leave();
    if (touched != inline_touched)
        free(touched);
}

void trace_copy(uint64_t dst, uint64_t src, uint64_t size, CUstream stream, bool per_thread, bool blocking,
                enum tape_copy form)
{
    struct tape_touch touches[2];
    unsigned count = 0;
    uint32_t id;

    if (capture_graph(stream, per_thread) || !enter())
        return;
    if (birth_of(dst, &id))
        touches[count++] = (struct tape_touch){id, CACHE_READ | CACHE_WRITE};
    if (birth_of(src, &id))
        touches[count++] = (struct tape_touch){id, CACHE_READ};
    if (form == TAPE_INSIDE && count < 2)
        form = TAPE_ACROSS;
    tape_write_copy(&writer, stream_of(stream_key_of(stream, per_thread)), form, blocking, size, touches,
                    count);
    leave();
}

void trace_memset(uint64_t dst, CUstream stream)
{
    struct tape_touch touch = {.access = CACHE_READ | CACHE_WRITE};

    if (!enter())
        return;
    if (birth_of(dst, &touch.id))
        tape_write_memset(&writer, stream_of(stream_key_of(stream, false)), &touch, 1);
    leave();
}

/* A memset that could be held under pressure: asynchronous, of one dimension, by name. */
static bool may_be_held(const char *symbol)
{
    return !strcmp(symbol, "cuMemsetD8Async") || !strcmp(symbol, "cuMemsetD16Async") ||
           !strcmp(symbol, "cuMemsetD32Async");
}

void trace_other(const char *symbol, const struct touches *touches, CUstream stream, bool per_thread)
{
    if (!touches->gpu)
        return;
    if (!per_thread && may_be_held(symbol) && !capture_graph(stream, false))
        trace_memset(touches->touch[0].address, stream);
    else
        trace_launch(TAPE_OTHER, symbol, touches, stream, per_thread);
}

void trace_submit(const CUstream *stream, bool per_thread)
{
    uint32_t number;

    if (!enter())
        return;
    number = stream ? stream_of(stream_key_of(*stream, per_thread)) : TAPE_NO_STREAM;
    if (births && !(submitted && submitted_stream == number)) {
        tape_write_submit(&writer, number);
        submitted = true;
        submitted_stream = number;
        check();
    }
    pthread_mutex_unlock(&lock);
}

/* With the lock. */
static struct recording *recording_of(CUevent event)
{
    struct recording *entry;

    HASH_FIND_PTR(recordings, &event, entry);
    return entry;
}

void trace_record(CUevent event, CUstream stream, bool per_thread)
{
    struct recording *entry;

    if (capture_graph(stream, per_thread) || !enter())
        return;
    entry = recording_of(event);
    if (!entry && (entry = malloc(sizeof *entry))) {
        entry->event = event;
        HASH_ADD_PTR(recordings, event, entry);
    }
    if (entry) {
        entry->number = recording_count++;
        tape_write_record(&writer, stream_of(stream_key_of(stream, per_thread)), entry->number);
    } else {
        stop(-ENOMEM);
    }
    leave();
}

void trace_after(CUevent event, CUstream stream, bool per_thread)
{
    struct recording *entry;
    uint32_t number;

    if (capture_graph(stream, per_thread) || !enter())
        return;
    number = stream_of(stream_key_of(stream, per_thread));
    entry = recording_of(event);
    if (entry)
        tape_write_after(&writer, number, entry->number);
    else if (births)
        tape_write_mark(&writer, number);
    leave();
}

void trace_event_gone(CUevent event)
{
    struct recording *entry;

    if (!enter())
        return;
    entry = recording_of(event);
    if (entry) {
        HASH_DEL(recordings, entry);
        free(entry);
    }
    pthread_mutex_unlock(&lock);
}

void trace_host_function(CUstream stream, bool per_thread)
{
    if (capture_graph(stream, per_thread) || !enter())
        return;
    if (births)
        tape_write_host_function(&writer, stream_of(stream_key_of(stream, per_thread)));
    leave();
}

void trace_wait(const CUstream *stream, bool per_thread)
{
    if (!enter())
        return;
    if (births)
        tape_write_wait(&writer, stream ? stream_of(stream_key_of(*stream, per_thread)) : TAPE_NO_STREAM);
    leave();
}
