/*
 * options_value.c - what a value of each kind may be. Numbers are read without strtod, which would depend on
 * the job's locale.
 */
#include "shim/options_value.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

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

int option_parse_choice(const char *form, const char *text, int *choice)
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
    struct option_amount parsed = {.kind = AMOUNT_UNSET};
    int error = 0;

    if (text[0] && !parse_percent(text, &parsed.percent)) {
        parsed.kind = AMOUNT_PERCENT;
    } else if (text[0]) {
        error = options_parse_size(text, &parsed.bytes);
        parsed.kind = AMOUNT_BYTES;
    }
    if (!error)
        *amount = parsed;
    return error;
}

static int parse_report(const char *text, struct option_report *report)
{
    int choice;
    if (!option_parse_choice("virtual|physical", text, &choice)) {
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
    if (!option_parse_choice("off|auto", text, &choice)) {
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
    if (option_parse_choice("auto|greedy|off", text, &choice) && !strpbrk(text, "/."))
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

    if (!option_parse_choice("auto|off", text, &choice)) {
        *node = choice ? NUMA_OFF : NUMA_AUTO;
        return 0;
    }
    if (!text[0] || text[strspn(text, "0123456789")] || options_parse_size(text, &number) ||
        number > INT16_MAX)
        return -EINVAL;
    *node = (int)number;
    return 0;
}

int option_parse(enum option_kind kind, const char *form, const char *text, void *field)
{
    uint64_t bytes;
    int error;

    switch (kind) {
    case KIND_choice:
        return option_parse_choice(form, text, field);
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
        return option_parse_log(text, field);
    case KIND_amount:
        return parse_amount(text, field);
    case KIND_text:
        if (strlen(text) >= sizeof(struct option_text))
            return -ENAMETOOLONG;
        snprintf(((struct option_text *)field)->text, sizeof(struct option_text), "%s", text);
        return 0;
    }
    return -EINVAL;
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
