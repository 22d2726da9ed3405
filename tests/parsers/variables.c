/*
 * variables.c - any bytes as an environment, a variable a line: every option ends up with a value that its
 * type and its accepted form allow, and complaints are lines of text.
 *
 * A line without HBMSPILL in front is given to each option in turn, so that values need not find a name
 * first.
 */
#include "shim/options.h"
#include "tests/parsers/target.h"

#include <errno.h>
#include <string.h>

enum { VARIABLES = 32, LENGTH = 2048 };

static const char *const names[] = {
#define NAME(field, kind, name, fallback, form, hidden, text) name,
    HBMSPILL_OPTIONS(NAME)
#undef NAME
};
enum { NAMES = sizeof names / sizeof *names };

static unsigned choices(const char *form)
{
    unsigned count = 1;

    for (; *form; form++)
        count += *form == '|';
    return count;
}

static void check_choice(const int *value, const char *name, const char *form)
{
    (void)name;
    EXPECT(*value >= 0 && (unsigned)*value < choices(form));
}

static void check_amount(const struct option_amount *value, const char *name, const char *form)
{
    (void)form;
    EXPECT(value->kind == AMOUNT_UNSET || value->kind == AMOUNT_BYTES || value->kind == AMOUNT_PERCENT);
    if (value->kind == AMOUNT_PERCENT)
        EXPECT(value->percent >= 0 && value->percent <= 100);
    if (!strcmp(name, "HBMSPILL_HBM_LIMIT") && value->kind != AMOUNT_UNSET)
        EXPECT(value->bytes || value->percent > 0);
    EXPECT(options_amount(value, UINT64_C(1) << 40, 7) <= UINT64_C(1) << 40 || value->kind == AMOUNT_BYTES);
}

static void check_size(const uint64_t *value, const char *name, const char *form)
{
    (void)value, (void)name, (void)form;
}

static void check_count(const unsigned *value, const char *name, const char *form)
{
    (void)name, (void)form;
    EXPECT(*value <= INT32_MAX);
}

static void check_report(const struct option_report *value, const char *name, const char *form)
{
    (void)name, (void)form;
    EXPECT(value->kind == REPORT_VIRTUAL || value->kind == REPORT_PHYSICAL ||
           (value->kind == REPORT_BYTES && value->bytes));
}

static void check_window(const unsigned *value, const char *name, const char *form)
{
    (void)name, (void)form;
    EXPECT(*value <= WINDOW_AUTO);
}

static void check_plan(const struct option_plan *value, const char *name, const char *form)
{
    (void)name, (void)form;
    EXPECT(memchr(value->path, '\0', sizeof value->path));
    EXPECT((value->kind == PLAN_FILE) == (value->path[0] != '\0') && value->kind >= PLAN_AUTO &&
           value->kind <= PLAN_FILE);
}

static void check_numa(const int *value, const char *name, const char *form)
{
    (void)name, (void)form;
    EXPECT(*value == NUMA_AUTO || *value == NUMA_OFF || (*value >= 0 && *value <= INT16_MAX));
}

static void check_log(const struct option_log *value, const char *name, const char *form)
{
    (void)name, (void)form;
    for (unsigned i = 0; i < LOG_SUBSYSTEMS; i++)
        EXPECT(value->level[i] >= LOG_SILENT && value->level[i] <= LOG_TRACE);
}

static void check_text(const struct option_text *value, const char *name, const char *form)
{
    (void)name, (void)form;
    EXPECT(memchr(value->text, '\0', sizeof value->text));
    for (size_t room = 1; room <= 4096; room *= 4) {
        char *path = malloc(room); /* its end is one that AddressSanitizer watches */

        EXPECT(path);
        if (!options_expand_path(value->text, path, room))
            EXPECT(memchr(path, '\0', room));
        free(path);
    }
}

static bool check(char *const *environment)
{
    static struct options options;
    static struct option_warnings warnings;

    memset(&options, 0xa5, sizeof options);
    memset(&warnings, 0xa5, sizeof warnings);
    options_parse(environment, &options, &warnings);
#define CHECK(field, kind, name, fallback, form, hidden, text) check_##kind(&options.field, name, form);
    HBMSPILL_OPTIONS(CHECK)
#undef CHECK
    EXPECT(warnings.count <= OPTION_WARNINGS_MAX &&
           (!warnings.dropped || warnings.count == OPTION_WARNINGS_MAX));
    for (unsigned i = 0; i < warnings.count; i++)
        EXPECT(memchr(warnings.text[i], '\0', sizeof warnings.text[i]));
    return !warnings.count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *environment[VARIABLES * NAMES + 1];
    size_t count = 0;

    for (unsigned lines = 0; size && lines < VARIABLES; lines++) {
        const uint8_t *end = memchr(data, '\n', size);
        const size_t length = end ? (size_t)(end - data) : size;
        const bool named = length > 8 && !memcmp(data, "HBMSPILL", 8);

        for (size_t i = 0; i < (named ? 1 : NAMES); i++) {
            const size_t room = length + strlen(names[i]) + 2;
            char *variable = malloc(room);

            EXPECT(variable);
            snprintf(variable, room, "%s%s%.*s", named ? "" : names[i], named ? "" : "=", (int)length,
                     (const char *)data);
            environment[count++] = variable;
        }
        size -= length + (end != NULL);
        data += length + (end != NULL);
    }
    environment[count] = NULL;
    judged(check(environment));
    while (count)
        free(environment[--count]);
    return 0;
}
