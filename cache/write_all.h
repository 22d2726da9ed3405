/*
 * write_all.h - bytes to a descriptor, all of them, whatever signals come in between.
 */
#ifndef HBMSPILL_CACHE_WRITE_ALL_H
#define HBMSPILL_CACHE_WRITE_ALL_H

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

/* 0 or -errno, -EIO where nothing more was taken: some may have been written then. */
static inline int write_all(int fd, const void *bytes, size_t size)
{
    const char *at = bytes;

    while (size) {
        ssize_t n = write(fd, at, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n ? -errno : -EIO;
        at += n;
        size -= (size_t)n;
    }
    return 0;
}

#endif
