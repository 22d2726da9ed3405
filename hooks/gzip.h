/*
 * gzip.h - a file that is compressed while it is written, with the machine's own zlib, which is loaded when
 * it is first wanted. After every piece what was written so far can be read, whatever becomes of the process.
 *
 * Threads: the caller's to keep apart. Errors: -errno.
 */
#ifndef HBMSPILL_HOOKS_GZIP_H
#define HBMSPILL_HOOKS_GZIP_H

#include <stdbool.h>
#include <stddef.h>

/* Whether a path is that of a compressed file: .gz. */
bool gzip_is_wanted(const char *path);
/* Calls the dynamic linker: no lock may be held. False, with a line in the log, where there is no zlib. Once.
 */
bool gzip_load(void);
/* The descriptor stays the caller's. Behind gzip_load. */
int gzip_begin(int fd);
int gzip_write(const char *bytes, size_t size);
int gzip_end(void);

#endif
