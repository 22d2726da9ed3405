#include "hooks/kernels_table.h"
#include "shim/log.h"
#include "shim/memory.h"
#include "shim/options.h"
#include <fnmatch.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char built_in[] =
#include "hooks/kernels_table_text.h"
    ;

struct row {
    enum kernels_verdict verdict;
    char *hash, *kernel, *why;
    struct row *next;
};

static struct row *rows, **last = &rows;
static bool hashes;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static char *word(char **rest)
{
    char *start = *rest + strspn(*rest, " \t"), *end = start + strcspn(start, " \t");

    *rest = *end ? end + 1 : end;
    *end = '\0';
    return start;
}

static bool is_hash(const char *text)
{
    return strlen(text) == 32 && strspn(text, "0123456789abcdef") == 32;
}

/* NULL: it is no row. The line is cut up, and kept as long as the row. */
static struct row *read_row(char *line)
{
    struct row row = {.next = NULL}, *kept;
    char *rest = line, *verdict = word(&rest);

    row.verdict = !strcmp(verdict, "closed") ? KERNELS_CLOSED : KERNELS_OPEN;
    if (row.verdict == KERNELS_OPEN && strcmp(verdict, "open") != 0)
        return NULL;
    row.hash = word(&rest);
    row.kernel = word(&rest);
    row.why = rest + strspn(rest, " \t");
    if (!*row.kernel || !*row.why ||
        !(is_hash(row.hash) || (row.verdict == KERNELS_OPEN && !strcmp(row.hash, "*"))))
        return NULL;
    kept = malloc(sizeof *kept);
    if (kept)
        *kept = row;
    return kept;
}

static void read_line(char *line, const char *name, unsigned number)
{
    struct row *row = NULL;
    char first = line[strspn(line, " \t")];

    if (first && first != '#' && !(row = read_row(line)))
        log_warn(LOG_IN_KERNELS,
                 "%s, line %u is no row (closed HASH KERNEL EVIDENCE, open HASH KERNEL REASON): ignored",
                 name, number);
    if (!row) {
        free(line);
        return;
    }
    hashes |= is_hash(row->hash);
    *last = row;
    last = &row->next;
}

static void read_text(const char *text, const char *name)
{
    for (unsigned number = 1; *text; number++) {
        size_t length = strcspn(text, "\n");
        char *line = strndup(text, length);

        text += length + (text[length] == '\n');
        if (line)
            read_line(line, name, number);
    }
}

static void read_file(const char *path)
{
    FILE *file = fopen(path, "re");
    size_t size = 0;
    char *text = NULL;

    if (!file || getdelim(&text, &size, '\0', file) < 0)
        log_warn(LOG_IN_KERNELS, "HBMSPILL_ADMITTED=%s: it cannot be read: ignored", path);
    else
        read_text(text, path);
    memory_free_foreign(text); /* getdelim's */
    if (file)
        fclose(file);
}

static void read_all(void)
{
    const char *path = options_get()->admitted.text;

    if (*path)
        read_file(path);
    read_text(built_in, "the built-in table");
}

bool kernels_need_hashes(void)
{
    pthread_once(&once, read_all);
    return hashes;
}

enum kernels_verdict kernels_look_up(const char *hash, const char *kernel, const char **why)
{
    pthread_once(&once, read_all);
    for (const struct row *row = rows; row; row = row->next) {
        if (strcmp(row->hash, "*") != 0 && (!hash || strcmp(row->hash, hash) != 0))
            continue;
        /* Some names of kernels have what a pattern would read as a set. */
        if (strcmp(row->kernel, kernel) != 0 && fnmatch(row->kernel, kernel, 0) != 0)
            continue;
        *why = row->why;
        return row->verdict;
    }
    return KERNELS_UNKNOWN;
}
