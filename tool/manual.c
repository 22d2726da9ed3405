/*
 * manual.c - makes the manual pages: copies a page from standard input to standard output, and puts the
 * tables where it says so, in lines of their own: @FLAGS@ (of hbmspill run), @VARIABLES@, @COUNTERS@.
 * @VERSION@ is replaced anywhere. Part of the build; not installed.
 */
#include "cache/statistics.h"
#include "shim/options.h"
#include "tool/tool.h"

#include <stdio.h>
#include <string.h>

/* As text of roff: a backslash, a hyphen that is one, no control line. */
static void put(const char *text)
{
    if (*text == '.' || *text == '\'')
        fputs("\\&", stdout);
    for (; *text; text++)
        fputs(*text == '\\' ? "\\e" : *text == '-' ? "\\-" : (char[]){*text, '\0'}, stdout);
}

static void put_variable(void *context, const char *name, const char *fallback, const char *form,
                         const char *text)
{
    const char *only = context;

    if (only && strcmp(only, name) != 0)
        return;
    if (!only)
        printf(".TP\n.B %s\n", name);
    put(text);
    if (only) {
        printf("\n.RB ( %s )\n", name);
        return;
    }
    fputs("\n.br\nTakes ", stdout);
    put(form);
    if (fallback[0]) {
        fputs("; default ", stdout);
        put(fallback);
    }
    puts(".");
}

static void put_flags(void)
{
    for (unsigned i = 0; i < tool_flag_count; i++) {
        printf(".TP\n.BI \\-\\-%s \\~", tool_flags[i].name);
        put(tool_flags[i].argument);
        putchar('\n');
        options_describe(put_variable, (void *)(uintptr_t)tool_flags[i].variable);
    }
}

static void put_counters(void)
{
    static const struct {
        const char *name, *unit, *text;
    } counters[] = {
#define ROW(name, unit, text) {#name, unit, text},
        HBMSPILL_COUNTERS(ROW)
#undef ROW
    };

    for (unsigned i = 0; i < sizeof counters / sizeof *counters; i++) {
        printf(".TP\n.BR %s \" (%s)\"\n", counters[i].name, counters[i].unit);
        put(counters[i].text);
        putchar('\n');
    }
}

int main(void)
{
    static const char version[] = "@VERSION@";
    char line[4096];

    while (fgets(line, sizeof line, stdin)) {
        char *at = strstr(line, version);

        if (!strcmp(line, "@FLAGS@\n"))
            put_flags();
        else if (!strcmp(line, "@VARIABLES@\n"))
            options_describe(put_variable, NULL);
        else if (!strcmp(line, "@COUNTERS@\n"))
            put_counters();
        else if (at)
            printf("%.*s%s%s", (int)(at - line), line, HBMSPILL_VERSION, at + sizeof version - 1);
        else
            fputs(line, stdout);
    }
    return ferror(stdin) || fflush(stdout) ? 1 : 0;
}
