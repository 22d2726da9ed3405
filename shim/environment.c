/*
 * environment.c - setting and watching XLA's variables.
 */
#include "shim/environment.h"

#include "shim/log.h"
#include "shim/options.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALLOCATOR "XLA_PYTHON_CLIENT_ALLOCATOR"
#define FLAGS "XLA_FLAGS"
#define INHERITED "HBMSPILL_INHERITED"
#define HEAP_FLAG "--xla_multiheap_size_constraint_per_heap"
#define ADDED_ALLOCATOR "cuda_async"
#define PREALLOCATE "XLA_PYTHON_CLIENT_PREALLOCATE"
#define FRACTION "XLA_CLIENT_MEM_FRACTION"
#define FRACTION_OLD "XLA_PYTHON_CLIENT_MEM_FRACTION"
#define UNIFIED "TF_FORCE_UNIFIED_MEMORY"
#define LEVEL "TF_CPP_MIN_LOG_LEVEL"
#define ADDED_LEVEL "2" /* errors */

enum { FLAGS_ADDED_MAX = 80 };

static char added_flags[FLAGS_ADDED_MAX]; /* "" where none was added */
static bool added_allocator, added_level;
static bool flags_in_file;
static atomic_bool overwritten_said;
static enum shim_allocator allocator_kind; /* as of cuInit */
static bool allocator_chosen;
static double memory_fraction = 1; /* as of cuInit */

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static const char *environment_get(const char *name)
{
    const size_t length = strlen(name);
    for (char **variable = environ; variable && *variable; variable++)
        if (!strncmp(*variable, name, length) && (*variable)[length] == '=')
            return *variable + length + 1;
    return NULL;
}

/* Where `word` stands in `text` between white space, followed by white space, the end or `also`; or NULL. */
static const char *find_word(const char *text, const char *word, char also)
{
    const size_t length = strlen(word);
    for (const char *c = text; (c = strstr(c, word)); c++)
        if ((c == text || is_space(c[-1])) && (!c[length] || is_space(c[length]) || c[length] == also))
            return c;
    return NULL;
}

static bool has_flag(const char *flags, const char *name)
{
    return flags && find_word(flags, name, '=');
}

/* XLA takes a value that does not start with a flag for the name of a file of flags. */
static bool names_file(const char *flags)
{
    while (is_space(*flags))
        flags++;
    return *flags && *flags != '-';
}

/*
 * A new environ of its own pages: `names` (count of them) are left out and `values` put in, NULL for none.
 * The pages are never given back, since anybody may keep pointers to the strings.
 */
static void environment_replace(const char *const *names, const char *const *values, size_t count)
{
    size_t variables = 0, bytes = 0;
    for (char **variable = environ; variable && *variable; variable++)
        variables++;
    for (size_t i = 0; i < count; i++)
        if (values[i])
            bytes += strlen(names[i]) + strlen(values[i]) + 2;
    bytes += (variables + count + 1) * sizeof(char *);
    char **list = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (list == MAP_FAILED)
        return;

    char *text = (char *)(list + variables + count + 1);
    size_t used = 0;
    for (char **variable = environ; variable && *variable; variable++) {
        bool dropped = false;
        for (size_t i = 0; i < count; i++) {
            const size_t length = strlen(names[i]);
            dropped |= !strncmp(*variable, names[i], length) && (*variable)[length] == '=';
        }
        if (!dropped)
            list[used++] = *variable;
    }
    for (size_t i = 0; i < count; i++)
        if (values[i]) {
            list[used++] = text;
            text += sprintf(text, "%s=%s", names[i], values[i]) + 1;
        }
    list[used] = NULL;
    environ = list;
}

/* The flag to add to the user's. */
static void choose_flags(const char *users)
{
    const unsigned int slice = options_get()->slice;
    if (slice && !has_flag(users, HEAP_FLAG))
        sprintf(added_flags, "%s=%u", HEAP_FLAG, slice);
}

/* Whether a parent has set a variable: it is among the words, with commas, ahead of the semicolon. */
static bool is_inherited(const char *inherited, const char *name)
{
    const size_t length = strlen(name);
    const char *end = strchr(inherited, ';'), *word = inherited;

    while (end && word < end) {
        const size_t next = strcspn(word, ",;");
        if (next == length && !memcmp(word, name, length))
            return true;
        word += next + 1;
    }
    return false;
}

void environment_prepare(bool add)
{
    const char *flags = environment_get(FLAGS), *allocator = environment_get(ALLOCATOR),
               *level = environment_get(LEVEL);
    const char *inherited = environment_get(INHERITED);
    if (!add && !inherited)
        return;

    /* Without what a parent added: a copy of XLA_FLAGS with the words cut out. */
    const size_t room = (flags ? strlen(flags) : 0) + FLAGS_ADDED_MAX + sizeof(struct option_text);
    char *text = mmap(NULL, 2 * room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (text == MAP_FAILED)
        return;
    char *own = text, *marker = text + room;
    snprintf(own, room, "%s", flags ? flags : "");
    if (inherited) {
        const char *words = strchr(inherited, ';');
        if (words && words[1]) {
            char *cut = (char *)find_word(own, words + 1, '\0');
            if (cut) {
                size_t length = strlen(words + 1);
                if (cut > own) { /* with the space that was put before it */
                    cut--;
                    length++;
                }
                memmove(cut, cut + length, strlen(cut + length) + 1);
                if (!own[0])
                    flags = NULL;
            }
        }
        if (is_inherited(inherited, ALLOCATOR) && allocator && !strcmp(allocator, ADDED_ALLOCATOR))
            allocator = NULL;
        if (is_inherited(inherited, LEVEL) && level && !strcmp(level, ADDED_LEVEL))
            level = NULL;
    }

    if (add && !allocator) {
        allocator = ADDED_ALLOCATOR;
        added_allocator = true;
    }
    flags_in_file = names_file(own);
    if (add && !flags_in_file) {
        choose_flags(own);
        if (added_flags[0]) {
            sprintf(own + strlen(own), "%s%s", own[0] ? " " : "", added_flags);
            flags = own;
        }
    }
    /* XLA warns of every temporary that has an allocation of its own: a thousand lines a program. */
    if (added_flags[0] && !level) {
        level = ADDED_LEVEL;
        added_level = true;
    }
    if (flags)
        flags = own;
    snprintf(marker, room, "%s%s;%s", added_allocator ? ALLOCATOR : "", added_level ? "," LEVEL : "",
             added_flags);

    const char *const names[] = {FLAGS, ALLOCATOR, LEVEL, INHERITED};
    const char *const values[] = {flags, allocator, level, added_allocator || added_flags[0] ? marker : NULL};
    environment_replace(names, values, 4);
    munmap(text, 2 * room);
}

/* What of ours the environment lacks now, as words in `missing`. */
static bool find_overwritten(char *missing, size_t size)
{
    const char *flags = environment_get(FLAGS), *allocator = environment_get(ALLOCATOR);
    int used = 0;
    missing[0] = '\0';
    if (added_allocator && !allocator)
        used = snprintf(missing, size, "%s=%s", ALLOCATOR, ADDED_ALLOCATOR);
    if (added_flags[0] && !has_flag(flags, HEAP_FLAG))
        used += snprintf(missing + used, size - (size_t)used, "%s%s", used ? " " : "", added_flags);
    return used > 0;
}

static void warn_overwritten(void)
{
    char missing[256];
    if (find_overwritten(missing, sizeof missing) && !atomic_exchange(&overwritten_said, true))
        log_warn(LOG_IN_ENVIRONMENT,
                 "the job overwrote what hbmspill had set: missing %s; append to XLA_FLAGS instead of "
                 "assigning it",
                 missing);
}

/* As XLA takes it. */
static bool is_true(const char *text)
{
    return text && (!strcasecmp(text, "1") || !strcasecmp(text, "true"));
}

/* What jaxlib takes for no (xla_client.py); anything else is yes. */
static bool is_no(const char *text)
{
    return text && (!strcmp(text, "0") || !strcmp(text, "false") || !strcmp(text, "False"));
}

static enum shim_allocator find_allocator(void)
{
    const char *name = environment_get(ALLOCATOR);

    allocator_chosen = name && name[0];
    if (!allocator_chosen)
        name = "default";
    if (!strcasecmp(name, ADDED_ALLOCATOR))
        return SHIM_ALLOCATOR_TENSORS;
    if (!strcasecmp(name, "vmm") || !strcasecmp(name, "platform"))
        return SHIM_ALLOCATOR_REGIONS;
    return is_no(environment_get(PREALLOCATE)) && !is_true(environment_get(UNIFIED)) ? SHIM_ALLOCATOR_REGIONS
                                                                                     : SHIM_ALLOCATOR_SLAB;
}

/* What is no number, or none below 1, jaxlib refuses or it is no restriction. */
static double find_fraction(void)
{
    const char *text = environment_get(FRACTION);
    char *end;
    double fraction;

    if (!text || !text[0])
        text = environment_get(FRACTION_OLD);
    fraction = text ? strtod(text, &end) : 1;
    return text && end != text && !*end && fraction > 0 && fraction < 1 ? fraction : 1;
}

void environment_report(void)
{
    allocator_kind = find_allocator();
    memory_fraction = find_fraction();
    if (added_allocator)
        log_info(LOG_IN_ENVIRONMENT, "set %s=%s", ALLOCATOR, ADDED_ALLOCATOR);
    if (added_flags[0])
        log_info(LOG_IN_ENVIRONMENT, "added to %s: %s", FLAGS, added_flags);
    if (added_level)
        log_info(LOG_IN_ENVIRONMENT, "set %s=%s: XLA's warnings, one for each temporary now, are not shown",
                 LEVEL, ADDED_LEVEL);
    if (flags_in_file)
        log_warn(LOG_IN_ENVIRONMENT, "%s names a file, nothing was added; put there: %s=1", FLAGS, HEAP_FLAG);
    warn_overwritten();
}

void environment_recheck(void)
{
    warn_overwritten();
}

enum shim_allocator environment_allocator(void)
{
    return allocator_kind;
}

double environment_memory_fraction(void)
{
    return memory_fraction;
}

void environment_warn_hidden(void)
{
    /* In observe mode nothing is set for the job, so an unset variable is no choice of its user. */
    const enum log_level level =
        allocator_chosen || options_get()->mode == OPTION_MODE_ON ? LOG_WARN : LOG_INFO;
    if (allocator_kind == SHIM_ALLOCATOR_SLAB)
        log_at(
            level, LOG_IN_ENVIRONMENT,
            "the job's allocator asks for all its memory at once, nothing of which can be spilled; set %s=%s "
            "(or leave it unset)",
            ALLOCATOR, ADDED_ALLOCATOR);
    else if (allocator_kind == SHIM_ALLOCATOR_REGIONS)
        log_at(level, LOG_IN_ENVIRONMENT,
               "the job's allocator asks for memory in regions, which are spilled as a whole; with %s=%s (or "
               "unset) tensors are, one by one",
               ALLOCATOR, ADDED_ALLOCATOR);
}
