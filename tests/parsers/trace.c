/*
 * trace.c - any bytes as a trace: refused with a line and a reason, or read into a tape in which every index
 * is in range, and which can be searched for rounds and made longer.
 */
#include "cache/tape.h"
#include "tests/parsers/target.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void check_tape(const struct tape *tape)
{
    uint32_t births = 0, launches = 0;

    for (uint32_t i = 0; i < tape->event_count; i++) {
        const struct tape_event *event = &tape->events[i];

        EXPECT(event->stream < tape->streams || event->stream == TAPE_NO_STREAM || event->kind == TAPE_ALLOC);
        EXPECT(event->first <= tape->touch_count && event->count <= tape->touch_count - event->first);
        if (event->kind == TAPE_ALLOC)
            EXPECT(event->id == births && event->size == tape->sizes[births++]);
        if (event->kind == TAPE_FREE)
            EXPECT(event->id < births);
        if (tape_is_launch(event->kind))
            EXPECT(++launches && event->name < tape->name_count && event->duration >= -1);
        for (uint32_t k = event->first; k < event->first + event->count; k++)
            EXPECT(tape->touches[k].id < births && tape->touches[k].access >= TAPE_READ &&
                   tape->touches[k].access <= (TAPE_READ | TAPE_WRITE));
    }
    EXPECT(births == tape->births && launches == tape->launches);
}

static void repeat_rounds(struct tape *tape)
{
    const uint32_t launches = tape->launches;
    uint32_t period = 0, rounds = 0;
    int error;

    if (!tape_find_rounds(tape, &period, &rounds))
        return;
    EXPECT(period && rounds >= 3 && rounds <= launches / period);
    error = tape_repeat(tape, period, 2);
    if (!error) {
        check_tape(tape);
        EXPECT(tape->launches == launches + 2 * period);
    }
    EXPECT(!error || error == -EINVAL || error == -ENOMEM);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int fd = memfd_create("trace", MFD_CLOEXEC);
    struct tape *tape = NULL;
    char path[64], why[160];
    uint64_t line = 0;
    int error;

    EXPECT(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    memset(why, 'x', sizeof why);
    error = tape_read(path, &tape, &line, why, sizeof why);
    close(fd);
    judged(!error);
    if (error) {
        EXPECT(error == -EINVAL && line && !tape && memchr(why, '\0', sizeof why) && why[0]);
        return 0;
    }
    check_tape(tape);
    repeat_rounds(tape);
    tape_free(tape);
    return 0;
}
