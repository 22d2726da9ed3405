/*
 * options.c - the option table: which variable is which option, what is said of those that are none.
 *
 * Nothing here allocates or takes part in stdio: it runs in the constructor of a library that is preloaded
 * into every process of a job.
 */
#include "shim/options.h"
#include "shim/options_file.h"
#include "shim/options_value.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct option {
    const char *name, *fallback, *form, *text;
    size_t offset;
    enum option_kind kind;
    bool hidden;
};

static const struct option table[] = {
#define OPTION_ROW(field, kind, name, fallback, form, hidden, text)                                          \
    {name, fallback, form, text, offsetof(struct options, field), KIND_##kind, hidden},
    HBMSPILL_OPTIONS(OPTION_ROW)
#undef OPTION_ROW
};

enum { OPTION_COUNT = sizeof table / sizeof *table };

static struct options process_options;
static struct option_warnings process_warnings;
static pthread_once_t process_once = PTHREAD_ONCE_INIT;

void options_warn(struct option_warnings *warnings, const char *format, ...)
{
    if (warnings->count == OPTION_WARNINGS_MAX) {
        warnings->dropped++;
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(warnings->text[warnings->count++], sizeof warnings->text[0], format, arguments);
    va_end(arguments);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* 0, or -errno and nothing is set. */
static int parse_value(const struct option *option, const char *text, struct options *options)
{
    struct option_amount limit;
    int error;

    if (option->offset != offsetof(struct options, hbm_limit))
        return option_parse(option->kind, option->form, text, (char *)options + option->offset);
    error = option_parse(option->kind, option->form, text, &limit);
    /* No device memory at all cannot be meant; no host memory can. */
    if (!error && limit.kind != AMOUNT_UNSET && !limit.bytes && limit.percent <= 0)
        error = -EINVAL;
    if (!error)
        options->hbm_limit = limit;
    return error;
}

/* Levenshtein's distance, capped by what fits; names are short. */
static unsigned int distance(const char *a, size_t a_length, const char *b)
{
    enum { LONGEST = 64 };
    unsigned int row[LONGEST + 1];
    const size_t b_length = strlen(b);
    if (a_length > LONGEST || b_length > LONGEST)
        return LONGEST;
    for (size_t j = 0; j <= b_length; j++)
        row[j] = (unsigned int)j;
    for (size_t i = 1; i <= a_length; i++) {
        unsigned int diagonal = row[0];
        row[0] = (unsigned int)i;
        for (size_t j = 1; j <= b_length; j++) {
            unsigned int best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[b_length];
}

static const char *nearest_name(const char *name, size_t length)
{
    const char *nearest = table[0].name;
    unsigned int best = UINT32_MAX;
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (table[i].hidden)
            continue;
        const unsigned int d = distance(name, length, table[i].name);
        if (d < best) {
            best = d;
            nearest = table[i].name;
        }
    }
    return nearest;
}

static const struct option *find_option(const char *name, size_t length)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (strlen(table[i].name) == length && !memcmp(table[i].name, name, length))
            return &table[i];
    return NULL;
}

/* The same of a device: "NAME_0". -1: it is none, or there is no such device. */
static int device_of(const char *name, size_t *length)
{
    const char *digits = name + *length;
    int device = 0;

    while (digits > name && is_digit(digits[-1]))
        digits--;
    if (digits == name + *length || name + *length - digits > 2 || digits == name || digits[-1] != '_')
        return -1;
    for (const char *c = digits; c < name + *length; c++)
        device = 10 * device + (*c - '0');
    *length = (size_t)(digits - 1 - name);
    return device < OPTION_DEVICES ? device : -1;
}

/* 0, -errno for the value, or -ENOENT: it cannot be given for one device. */
static int parse_for_device(const struct option *option, const char *text, int device,
                            struct options *options)
{
    struct options one = *options;
    int error = -ENOENT;

#define PARSE(field, kind)                                                                                   \
    if (option->offset == offsetof(struct options, field)) {                                                 \
        error = parse_value(option, text, &one);                                                             \
        if (!error)                                                                                          \
            options->device[device].field = one.field;                                                       \
    }
    HBMSPILL_DEVICE_OPTIONS(PARSE)
#undef PARSE
    return error;
}

void options_apply(char *const *list, const char *from, struct options *options,
                   struct option_warnings *warnings)
{
    static const char prefix[] = "HBMSPILL";
    const char *colon = from ? ": " : "";

    from = from ? from : "";
    for (; list && *list; list++) {
        const char *variable = *list, *equals = strchr(variable, '=');
        if (!equals || strncmp(variable, prefix, sizeof prefix - 1) != 0)
            continue;
        size_t length = (size_t)(equals - variable);
        const size_t whole = length;
        const struct option *option = find_option(variable, length);
        const int device = option ? -1 : device_of(variable, &length);
        int error = 0;
        if (device >= 0)
            option = find_option(variable, length);
        if (option && equals[1])
            error = device < 0 ? parse_value(option, equals + 1, options)
                               : parse_for_device(option, equals + 1, device, options);
        if (!option || (device >= 0 && error == -ENOENT))
            options_warn(warnings, "%.128s%sunknown variable %.*s ignored; the nearest is %s", from, colon,
                         (int)(whole < 64 ? whole : 64), variable, nearest_name(variable, length));
        else if (error)
            options_warn(warnings, "%.128s%s%.*s=%.48s ignored: it takes %s; using %s", from, colon,
                         (int)whole, variable, equals + 1, option->form,
                         option->fallback[0] ? option->fallback : "the default");
    }
}

static void set_defaults(struct options *options)
{
    memset(options, 0, sizeof *options);
    for (size_t i = 0; i < OPTION_COUNT; i++)
        (void)parse_value(&table[i], table[i].fallback,
                          options); /* every default parses: the tests check it */
    for (unsigned i = 0; i < OPTION_DEVICES; i++)
        options->device[i].numa = NUMA_UNSET; /* an amount of 0 is unset */
}

void options_parse(char *const *environment, struct options *options, struct option_warnings *warnings)
{
    set_defaults(options);
    warnings->count = warnings->dropped = 0;
    options_apply(environment, NULL, options, warnings);
}

struct option_device options_of_device(const struct options *options, int device)
{
    struct option_device all = {options->hbm_limit, options->reserve, options->numa}, own;

    if (device < 0 || device >= OPTION_DEVICES)
        return all;
    own = options->device[device];
    if (own.hbm_limit.kind == AMOUNT_UNSET)
        own.hbm_limit = all.hbm_limit;
    if (own.reserve.kind == AMOUNT_UNSET)
        own.reserve = all.reserve;
    if (own.numa == NUMA_UNSET)
        own.numa = all.numa;
    return own;
}

static void parse_process_options(void)
{
    extern char **environ;
    static struct option_file files[OPTION_FILES];

    set_defaults(&process_options);
    options_files_read(environ, files, &process_warnings);
    for (unsigned i = OPTION_FILES; i-- > 0;)
        options_apply(files[i].variable, files[i].path, &process_options, &process_warnings);
    options_apply(environ, NULL, &process_options, &process_warnings);
}

const struct options *options_get(void)
{
    pthread_once(&process_once, parse_process_options);
    return &process_options;
}

const struct option_warnings *options_warnings(void)
{
    pthread_once(&process_once, parse_process_options);
    return &process_warnings;
}

void options_describe(void (*visit)(void *context, const char *name, const char *fallback, const char *form,
                                    const char *text),
                      void *context)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (!table[i].hidden)
            visit(context, table[i].name, table[i].fallback, table[i].form, table[i].text);
}
