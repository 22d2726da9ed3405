/*
 * options.c - parsing of the option table.
 *
 * Nothing here allocates or takes part in stdio: it runs in the constructor of a library that is preloaded
 * into every process of a job. Numbers are read without strtod, which would depend on the job's locale.
 */
#include "shim/options.h"
#include "shim/options_file.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define LOG_LEVELS "error|warn|info|debug|trace"

enum option_kind {
    KIND_choice,
    KIND_amount,
    KIND_size,
    KIND_count,
    KIND_report,
    KIND_window,
    KIND_plan,
    KIND_numa,
    KIND_log,
    KIND_text
};

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

/* A decimal number "12", "1.5", ".5" as an integer part and billionths; 0, -EINVAL or -ERANGE. */
static int parse_decimal(const char **cursor, uint64_t *whole, uint64_t *billionths)
{
    const char *c = *cursor;
    uint64_t integer = 0, fraction = 0, scale = 1000000000;
    bool any = false;

    for (; is_digit(*c); c++, any = true)
        if (__builtin_mul_overflow(integer, 10, &integer) ||
            __builtin_add_overflow(integer, (uint64_t)(*c - '0'), &integer))
            return -ERANGE;
    if (*c == '.')
        for (c++; is_digit(*c); c++, any = true) {
            scale /= 10; /* digits beyond the ninth count as nothing */
            fraction += scale * (uint64_t)(*c - '0');
        }
    if (!any)
        return -EINVAL;
    *cursor = c;
    *whole = integer;
    *billionths = fraction;
    return 0;
}

/* The factor that a unit stands for; 0 where it is none. */
static uint64_t unit_factor(const char *unit)
{
    static const char letters[] = "kmgt";
    if (!unit[0] || !strcasecmp(unit, "b"))
        return 1;
    const char *letter = strchr(letters, unit[0] | 0x20);
    if (!letter)
        return 0;
    const bool binary = !unit[1] || !strcasecmp(unit + 1, "ib");
    if (!binary && strcasecmp(unit + 1, "b") != 0)
        return 0;
    uint64_t factor = 1;
    for (long power = letter - letters; power >= 0; power--)
        factor *= binary ? 1024 : 1000;
    return factor;
}

int options_parse_size(const char *text, uint64_t *bytes)
{
    uint64_t whole, billionths;
    int error = parse_decimal(&text, &whole, &billionths);
    if (error)
        return error;
    while (*text == ' ')
        text++;
    const uint64_t factor = unit_factor(text);
    if (!factor)
        return -EINVAL;
    const unsigned __int128 total =
        (unsigned __int128)whole * factor + (unsigned __int128)billionths * factor / 1000000000;
    if (total > UINT64_MAX)
        return -ERANGE;
    *bytes = (uint64_t)total;
    return 0;
}

static int parse_percent(const char *text, double *percent)
{
    uint64_t whole, billionths;
    int error = parse_decimal(&text, &whole, &billionths);
    if (error)
        return error;
    if (strcmp(text, "%") != 0)
        return -EINVAL;
    const double value = (double)whole + (double)billionths / 1e9;
    if (value > 100)
        return -ERANGE;
    *percent = value;
    return 0;
}

static int parse_choice(const char *form, const char *text, int *choice)
{
    const size_t length = strlen(text);
    int index = 0;
    for (const char *item = form; item; index++) {
        const char *end = strchr(item, '|');
        const size_t item_length = end ? (size_t)(end - item) : strlen(item);
        if (item_length == length && !strncasecmp(item, text, length)) {
            *choice = index;
            return 0;
        }
        item = end ? end + 1 : NULL;
    }
    return -EINVAL;
}

static int parse_amount(const char *text, struct option_amount *amount)
{
    *amount = (struct option_amount){.kind = AMOUNT_UNSET};
    if (!text[0])
        return 0;
    if (!parse_percent(text, &amount->percent)) {
        amount->kind = AMOUNT_PERCENT;
        return 0;
    }
    int error = options_parse_size(text, &amount->bytes);
    if (!error)
        amount->kind = AMOUNT_BYTES;
    return error;
}

static int parse_report(const char *text, struct option_report *report)
{
    int choice;
    if (!parse_choice("virtual|physical", text, &choice)) {
        *report = (struct option_report){.kind = choice ? REPORT_PHYSICAL : REPORT_VIRTUAL};
        return 0;
    }
    uint64_t bytes;
    int error = options_parse_size(text, &bytes);
    if (!error && !bytes)
        error = -EINVAL;
    if (!error)
        *report = (struct option_report){.kind = REPORT_BYTES, .bytes = bytes};
    return error;
}

static int parse_window(const char *text, unsigned int *window)
{
    int choice;
    uint64_t count;
    if (!parse_choice("off|auto", text, &choice)) {
        *window = choice ? WINDOW_AUTO : WINDOW_OFF;
        return 0;
    }
    int error = options_parse_size(text, &count);
    if (!error && (count == 0 || count > WINDOW_AUTO || text[strspn(text, "0123456789")]))
        error = -EINVAL;
    if (!error)
        *window = (unsigned int)count;
    return error;
}

/* A path is told from a mistyped word by a slash or a dot. */
static int parse_plan(const char *text, struct option_plan *plan)
{
    int choice = PLAN_FILE;
    if (parse_choice("auto|greedy|off", text, &choice) && !strpbrk(text, "/."))
        return -EINVAL;
    if (strlen(text) >= sizeof plan->path)
        return -ENAMETOOLONG;
    *plan = (struct option_plan){.kind = choice};
    snprintf(plan->path, sizeof plan->path, "%s", choice == PLAN_FILE ? text : "");
    return 0;
}

static int parse_numa(const char *text, int *node)
{
    int choice;
    uint64_t number;

    if (!parse_choice("auto|off", text, &choice)) {
        *node = choice ? NUMA_OFF : NUMA_AUTO;
        return 0;
    }
    if (!text[0] || text[strspn(text, "0123456789")] || options_parse_size(text, &number) ||
        number > INT16_MAX)
        return -EINVAL;
    *node = (int)number;
    return 0;
}

/* A subsystem's number; -EINVAL. */
static int parse_subsystem(const char *name)
{
    static const char *const names[] = {
#define WORD(subsystem, word) word,
        HBMSPILL_SUBSYSTEMS(WORD)
#undef WORD
    };

    for (int i = 0; i < LOG_SUBSYSTEMS; i++)
        if (!strcasecmp(name, names[i]))
            return i;
    return -EINVAL;
}

/* One word of a list: a level for all, or one subsystem's. */
static int parse_log_item(char *item, int *all, struct option_log *own)
{
    const bool silent = item[0] == '^';
    char *equals = strchr(item, '=');
    int level = LOG_SILENT, subsystem;

    if (equals)
        *equals = '\0';
    if (silent ? equals != NULL : parse_choice(LOG_LEVELS, equals ? equals + 1 : item, &level) != 0)
        return -EINVAL;
    if (!silent && !equals) {
        *all = level;
        return 0;
    }
    subsystem = parse_subsystem(item + silent);
    if (subsystem < 0)
        return subsystem;
    own->level[subsystem] = (signed char)level;
    return 0;
}

/* In any order: `evict=debug,info' is `info,evict=debug'. */
static int parse_log(const char *text, struct option_log *log)
{
    enum { NOT_GIVEN = LOG_SILENT - 1 };
    struct option_log own;
    char list[512], *rest = list, *item;
    int all = LOG_WARN;

    if (strlen(text) >= sizeof list)
        return -ENAMETOOLONG;
    snprintf(list, sizeof list, "%s", text);
    memset(own.level, NOT_GIVEN, sizeof own.level);
    while ((item = strsep(&rest, ",")))
        if (parse_log_item(item, &all, &own))
            return -EINVAL;
    for (unsigned i = 0; i < LOG_SUBSYSTEMS; i++)
        log->level[i] = own.level[i] == NOT_GIVEN ? (signed char)all : own.level[i];
    return 0;
}

static int parse_value(const struct option *option, const char *text, struct options *options)
{
    void *field = (char *)options + option->offset;
    uint64_t bytes;
    int error;

    switch (option->kind) {
    case KIND_choice:
        return parse_choice(option->form, text, field);
    case KIND_size:
        return options_parse_size(text, field);
    case KIND_count:
        for (const char *c = text; *c; c++)
            if (!is_digit(*c))
                return -EINVAL;
        error = options_parse_size(text, &bytes);
        if (error || bytes > INT32_MAX)
            return error ? error : -ERANGE;
        *(unsigned int *)field = (unsigned int)bytes;
        return 0;
    case KIND_report:
        return parse_report(text, field);
    case KIND_window:
        return parse_window(text, field);
    case KIND_plan:
        return parse_plan(text, field);
    case KIND_numa:
        return parse_numa(text, field);
    case KIND_log:
        return parse_log(text, field);
    case KIND_amount: {
        struct option_amount amount;
        error = parse_amount(text, &amount);
        /* No device memory at all cannot be meant; no host memory can. */
        if (!error && field == &options->hbm_limit && amount.kind != AMOUNT_UNSET && !amount.bytes &&
            amount.percent <= 0)
            error = -EINVAL;
        if (!error)
            *(struct option_amount *)field = amount;
        return error;
    }
    case KIND_text:
        if (strlen(text) >= sizeof(struct option_text))
            return -ENAMETOOLONG;
        snprintf(((struct option_text *)field)->text, sizeof(struct option_text), "%s", text);
        return 0;
    }
    return -EINVAL;
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

uint64_t options_amount(const struct option_amount *amount, uint64_t whole, uint64_t fallback)
{
    switch (amount->kind) {
    case AMOUNT_BYTES:
        return amount->bytes;
    case AMOUNT_PERCENT:
        return (uint64_t)((double)whole * (amount->percent / 100));
    case AMOUNT_UNSET:
        break;
    }
    return fallback;
}

int options_expand_path(const char *path, char *buffer, size_t size)
{
    size_t used = 0;
    for (; *path; path++) {
        int length;
        if (path[0] == '%' && path[1] == 'p') {
            length = snprintf(buffer + used, size - used, "%ld", (long)getpid());
            path++;
        } else if (path[0] == '%' && path[1] == 'h') {
            struct utsname name;
            length = snprintf(buffer + used, size - used, "%s", uname(&name) ? "unknown" : name.nodename);
            path++;
        } else {
            length = snprintf(buffer + used, size - used, "%c", *path);
            if (path[0] == '%' && path[1] == '%')
                path++;
        }
        if (length < 0 || (size_t)length >= size - used)
            return -ENAMETOOLONG;
        used += (size_t)length;
    }
    if (used == size)
        return -ENAMETOOLONG;
    buffer[used] = '\0';
    return 0;
}

void options_describe(void (*visit)(void *context, const char *name, const char *fallback, const char *form,
                                    const char *text),
                      void *context)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (!table[i].hidden)
            visit(context, table[i].name, table[i].fallback, table[i].form, table[i].text);
}
