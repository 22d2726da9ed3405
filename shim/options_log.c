/*
 * options_log.c - the value of HBMSPILL_LOG: `info,evict=debug,^plans'.
 */
#include "shim/options_value.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* As enum log_level has them. */
#define LOG_LEVELS "error|warn|info|debug|trace"

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
    if (silent ? equals != NULL : option_parse_choice(LOG_LEVELS, equals ? equals + 1 : item, &level) != 0)
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
int option_parse_log(const char *text, struct option_log *log)
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
