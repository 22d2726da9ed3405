/*
 * image.h - what identifies the code of a module: a hash of the image it was loaded from.
 */
#ifndef HBMSPILL_HOOKS_IMAGE_H
#define HBMSPILL_HOOKS_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

enum { IMAGE_HASH = 33 }; /* 32 digits and an end */

/*
 * Of a cubin, a fat binary (or the wrapper around one) or PTX text, whose sizes are not told but follow from
 * their headers. False: it is none of these. most: bytes that are certainly there, SIZE_MAX where that is not
 * known.
 */
bool image_hash(const void *image, size_t most, char hash[IMAGE_HASH]);
/* The same of a file's contents. */
bool image_hash_file(const char *path, char hash[IMAGE_HASH]);

#endif
