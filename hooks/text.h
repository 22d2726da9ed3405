/*
 * text.h - a text that is put together piece by piece, for the statistics file.
 *
 * Bounded: a piece that does not fit whole is left out, and `cut' tells. Numbers have a point, whatever the
 * job has set. Threads: the caller's to keep apart.
 */
#ifndef HBMSPILL_HOOKS_TEXT_H
#define HBMSPILL_HOOKS_TEXT_H

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>

struct text {
    char bytes[48 << 10];
    size_t length;
    bool cut;
};

/* This thread writes and reads numbers as they are in files, until it has its own locale back. */
locale_t text_plain_begin(void);
void text_plain_end(locale_t before);

void text_put(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* As a string of JSON, in quotes; what is no printable ASCII becomes a question mark. */
void text_put_string(struct text *text, const char *string);

#endif
