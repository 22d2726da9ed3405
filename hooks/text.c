#include "hooks/text.h"
#include <stdarg.h>
#include <stdio.h>

/* The C library has that one ready: nothing is allocated, and nothing to be freed. */
locale_t text_plain_begin(void)
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", NULL);

    return plain ? uselocale(plain) : NULL;
}

void text_plain_end(locale_t before)
{
    if (before)
        uselocale(before);
}

void text_put(struct text *text, const char *format, ...)
{
    size_t room = sizeof text->bytes - text->length;
    locale_t before = text_plain_begin();
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(text->bytes + text->length, room, format, arguments);
    va_end(arguments);
    text_plain_end(before);
    if (length >= 0 && (size_t)length < room)
        text->length += (size_t)length;
    else
        text->cut = true;
}

void text_put_string(struct text *text, const char *string)
{
    char escaped[1024];
    size_t length = 0;

    for (const char *c = string; *c && length + 2 < sizeof escaped; c++) {
        if (*c == '"' || *c == '\\')
            escaped[length++] = '\\';
        escaped[length++] = *c;
        if (*c < ' ' || *c > '~')
            escaped[length - 1] = '?';
    }
    escaped[length] = '\0';
    text_put(text, "\"%s\"", escaped);
}
