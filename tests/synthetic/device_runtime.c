/*
 * device_runtime.c - the one function of the device runtime that kernels call here: cudaGraphSetConditional.
 *
 * A conditional handle of this driver is the device address of its value, so the call is a store: the
 * sequence { .param .b64 p0; st.param.b64 [p0+0], HANDLE; .param .b32 p1; st.param.b32 [p1+0], VALUE;
 *       call.uni cudaGraphSetConditional, (p0, p1); }
 * is replaced by st.global.u32 [HANDLE], VALUE. Line numbers stay.
 */
#include "launch.h"

#include <stdlib.h>
#include <string.h>

#define NAME "cudaGraphSetConditional"

static void blank(char *from, char *to)
{
    for (; from < to; from++)
        if (*from != '\n')
            *from = ' ';
}

/* The text between the comma and the semicolon of the first `what' in [from, to), or NULL. */
static char *operand(char *from, char *to, const char *what, size_t *length)
{
    char *at = memmem(from, (size_t)(to - from), what, strlen(what));
    char *comma = at ? memchr(at, ',', (size_t)(to - at)) : NULL;
    char *end = comma ? memchr(comma, ';', (size_t)(to - comma)) : NULL;
    if (!end)
        return NULL;
    do
        comma++;
    while (*comma == ' ' || *comma == '\t');
    *length = (size_t)(end - comma);
    return comma;
}

/* Replaces the call whose name is at `name'; false when it does not look as it should. */
static bool replace_call(char *text, char *name)
{
    char *open = name, *close = strchr(name, '}'), store[160];
    while (open > text && *open != '{')
        open--;
    if (!close || *open != '{')
        return false;
    size_t handle_length, value_length;
    char *handle = operand(open, close, "st.param.b64", &handle_length);
    char *value = operand(open, close, "st.param.b32", &value_length);
    if (!handle || !value || handle_length + value_length > 100)
        return false;
    strcpy(store, "st.global.u32 [");
    strncat(store, handle, handle_length);
    strcat(store, "], ");
    strncat(store, value, value_length);
    strcat(store, ";");
    blank(open, close + 1);
    /* The first line that is long enough for it: the blanked ones are longer together than the store. */
    size_t need = strlen(store);
    for (char *line = open; line < close; line++) {
        size_t room = strcspn(line, "\n");
        if (room >= need && line + room <= close + 1) {
            memcpy(line, store, need); /* NOLINT(bugprone-not-null-terminated-result): into a longer text */
            return true;
        }
        line += room;
    }
    return false;
}

char *device_runtime_link(const char *text, size_t length)
{
    if (!memmem(text, length, NAME, strlen(NAME)))
        return NULL;
    char *copy = malloc(length + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, length);
    copy[length] = 0;
    for (char *at = strstr(copy, NAME); at; at = strstr(at, NAME)) {
        char *line = at;
        while (line > copy && line[-1] != '\n')
            line--;
        if (strncmp(line, ".extern", 7) == 0) {
            /* The declaration ends with its parameter list; a semicolon may follow. */
            char *end = strchr(at, ')');
            end = end ? end + 1 : at + strlen(NAME);
            char *semicolon = end + strspn(end, " \t\r\n");
            blank(line, *semicolon == ';' ? semicolon + 1 : end);
        } else if (!replace_call(copy, at)) {
            at += strlen(NAME); /* the parser will name it */
        }
    }
    return copy;
}
