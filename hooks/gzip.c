#include "hooks/gzip.h"
#include "cache/write_all.h"
#include "shim/log.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum {
    LEVEL = 1,        /* a tenth of the size; more takes twice the time for a fifth of that */
    WINDOW = 15 + 16, /* + 16: with the head and the end of gzip (zlib.h, deflateInit2) */
    MEMORY = 8,       /* zlib's default */
    OUT_BYTES = 1 << 14,
};

static struct {
    int (*init)(z_stream *, int, int, int, int, int, const char *, int);
    int (*deflate)(z_stream *, int);
    int (*end)(z_stream *);
} zlib;

static z_stream stream;
static int descriptor;

bool gzip_is_wanted(const char *path)
{
    size_t length = strlen(path);

    return length > 3 && !strcmp(path + length - 3, ".gz");
}

bool gzip_load(void)
{
    void *library = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);

    if (library) {
        *(void **)&zlib.init = dlsym(library, "deflateInit2_");
        *(void **)&zlib.deflate = dlsym(library, "deflate");
        *(void **)&zlib.end = dlsym(library, "deflateEnd");
    }
    if (zlib.init && zlib.deflate && zlib.end)
        return true;
    log_warn(LOG_IN_GZIP,
             "nothing can be compressed: libz.so.1 cannot be loaded"); /* dlerror would allocate */
    return false;
}

static void *allocate(void *unused, unsigned items, unsigned size)
{
    (void)unused;
    return calloc(items, size);
}

static void give_back(void *unused, void *memory)
{
    (void)unused;
    free(memory);
}

int gzip_begin(int fd)
{
    stream = (z_stream){.zalloc = allocate, .zfree = give_back};
    descriptor = fd;
    return zlib.init(&stream, LEVEL, Z_DEFLATED, WINDOW, MEMORY, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
                     (int)sizeof stream) == Z_OK
               ? 0
               : -ENOMEM;
}

static int compress_all(const char *bytes, size_t size, int flush)
{
    unsigned char out[OUT_BYTES];
    int error = 0;

    stream.next_in = (z_const unsigned char *)(uintptr_t)bytes;
    stream.avail_in = (unsigned)size;
    do {
        stream.next_out = out;
        stream.avail_out = sizeof out;
        (void)zlib.deflate(&stream, flush); /* cannot fail but for lack of room, which is made */
        error = write_all(descriptor, out, sizeof out - stream.avail_out);
    } while (!error && !stream.avail_out);
    return error;
}

int gzip_write(const char *bytes, size_t size)
{
    return compress_all(bytes, size, Z_SYNC_FLUSH);
}

int gzip_end(void)
{
    int error = compress_all("", 0, Z_FINISH);

    (void)zlib.end(&stream);
    return error;
}
