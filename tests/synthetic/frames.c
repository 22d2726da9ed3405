/*
 * frames.c - physical pages: one sparse memfd per device, PAGE bytes a frame, and one for host memory given
 * out as handles and by pools. Capacity is a hard limit.
 *
 * A frame that changes hands is filled with POISON, so that nobody lives on another's bytes or on zeros.
 * Frames never used before are filled only in small requests: filling a whole pool of gigabytes would make
 * them real.
 */
#include "defined.h"
#include "touches.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FILL_FRESH_MAX 32 /* frames of a request up to which untouched frames are filled too */

enum { FRAME_FRESH, FRAME_FREE, FRAME_USED };

static struct frames *spaces[MAX_DEVICES + 1];

static unsigned space_slot(uint8_t space)
{
    return space == SPACE_HOST ? MAX_DEVICES : space;
}

struct frames *frames_of(uint8_t space)
{
    struct frames *frames = spaces[space_slot(space)];
    if (!frames && space == SPACE_HOST)
        frames = frames_new(SPACE_HOST, 1ull << 40);
    return frames;
}

void *sparse_new(uint64_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

struct frames *frames_new(uint8_t space, size_t bytes)
{
    struct frames *frames = calloc(1, sizeof(*frames));
    if (!frames)
        return NULL;
    frames->space = space;
    frames->count = (uint32_t)(bytes / PAGE);
    frames->state = calloc(frames->count, 1);
    frames->real = calloc(frames->count, 1);
    frames->fd = memfd_create(space == SPACE_HOST ? "synthetic-gpu-host" : "synthetic-gpu", MFD_CLOEXEC);
    if (!frames->state || !frames->real || frames->fd < 0 ||
        ftruncate(frames->fd, (off_t)(frames->count * PAGE)) != 0)
        goto fail;
    frames->touches = sparse_new(pieces_of(0, frames->count * PAGE) * sizeof(*frames->touches));
    frames->defined = sparse_new(pieces_of(0, frames->count * PAGE) * sizeof(*frames->defined));
    if (!frames->touches || !frames->defined)
        goto fail;
    spaces[space_slot(space)] = frames;
    return frames;
fail:
    if (frames->fd >= 0)
        close(frames->fd);
    free(frames->state);
    free(frames->real);
    free(frames);
    return NULL;
}

/* First run of n free frames at or after from, or count. */
static uint32_t find_run(const struct frames *frames, uint32_t from, uint32_t n)
{
    uint32_t run = 0;
    for (uint32_t i = from; i < frames->count; i++) {
        run = frames->state[i] == FRAME_USED ? 0 : run + 1;
        if (run == n)
            return i + 1 - n;
    }
    return frames->count;
}

/*
 * Fills a frame with POISON: written to the file, since pages that come into being there need not be cleared
 * first, as they are where a store through a mapping makes them. False: the machine is short of memory.
 */
static bool fill(struct frames *frames, uint32_t frame)
{
    static uint8_t poison[PAGE];
    size_t done = 0;
    if (!poison[0])
        memset(poison, POISON, sizeof(poison));
    while (done < PAGE) {
        ssize_t n = pwrite(frames->fd, poison, PAGE - done, (off_t)(frame * PAGE + done));
        if (n < 0 && errno != EINTR)
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    frames->real[frame] = 1;
    return true;
}

bool frames_take_locked(struct frames *frames, uint32_t n, uint32_t *out)
{
    if (n > frames->count - frames->used)
        return false;
    uint32_t i = frames->search, start = n ? find_run(frames, i, n) : frames->count;
    if (start < frames->count)
        i = start;
    for (uint32_t k = 0; k < n; i++) {
        if (frames->state[i] == FRAME_USED)
            continue;
        if ((frames->state[i] == FRAME_FREE || n <= FILL_FRESH_MAX) && !fill(frames, i)) {
            driver_log("the machine has no memory for a page of the device");
            while (k > 0)
                frames->state[out[--k]] = FRAME_FREE;
            return false;
        }
        if (frames->state[i] == FRAME_FREE || frames->space == SPACE_HOST) {
            touches_forget_frames_locked(frames, 1, &i);
            defined_handed_out_locked(frames, i);
        }
        frames->state[i] = FRAME_USED;
        out[k++] = i;
    }
    while (frames->search < frames->count && frames->state[frames->search] == FRAME_USED)
        frames->search++;
    frames->used += n;
    if (frames->used > frames->peak)
        frames->peak = frames->used;
    return true;
}

void frames_give_locked(struct frames *frames, uint32_t n, const uint32_t *list)
{
    for (uint32_t k = 0; k < n; k++) {
        frames->state[list[k]] = FRAME_FREE;
        if (list[k] < frames->search)
            frames->search = list[k];
        /* Host memory goes back to the machine; a device's frames stay, its capacity bounds them. */
        if (frames->space == SPACE_HOST) {
            fallocate(frames->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(list[k] * PAGE),
                      (off_t)PAGE);
            frames->state[list[k]] = FRAME_FRESH;
            frames->real[list[k]] = 0;
        }
    }
    frames->used -= n;
}

void frames_forget_touches_locked(void)
{
    for (unsigned i = 0; i < ARRAY_SIZE(spaces); i++)
        if (spaces[i])
            madvise(spaces[i]->touches, pieces_of(0, spaces[i]->count * PAGE) * sizeof(uint32_t),
                    MADV_DONTNEED);
}
