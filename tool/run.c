/*
 * run.c - hbmspill run: sets variables, puts the library first in LD_PRELOAD, and becomes the command: same
 * process, same descriptors and signals, its exit status. Nothing that variables alone would not do.
 */
#include "shim/options.h"
#include "tool/tool.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPTION_DRY_RUN = 256, OPTION_HELP, OPTION_FLAG, LONG_OPTIONS = 32 };

static void print_flag(void *context, const char *name, const char *fallback, const char *form,
                       const char *text)
{
    const struct tool_flag *flag = context;
    char left[64];

    (void)fallback;
    if (strcmp(name, flag->variable) != 0)
        return;
    snprintf(left, sizeof left, "--%s %s", flag->name, flag->argument);
    printf("  %-22s %s\n%25s%s, %s\n", left, text, "", name, form);
}

static void help(void)
{
    puts("usage: hbmspill run [OPTION...] [--] COMMAND [ARGUMENT...]\n\n"
         "Runs COMMAND with libhbmspill.so preloaded, as LD_PRELOAD and the variables would.\n");
    for (unsigned i = 0; i < tool_flag_count; i++)
        options_describe(print_flag, (void *)(uintptr_t)&tool_flags[i]);
    puts("  -v, --verbose          says what happens: HBMSPILL_LOG=info\n"
         "  --dry-run              prints what would be run, for a shell, and runs nothing\n"
         "  --help                 this text\n\n"
         "The exit status is COMMAND's; 126: it cannot be run, 127: it is not there, 2: wrong usage.");
}

struct complaint {
    const struct tool_flag *flag;
    const char *value;
};

static void complain(void *context, const char *name, const char *fallback, const char *form,
                     const char *text)
{
    const struct complaint *complaint = context;

    (void)fallback, (void)text;
    if (!strcmp(name, complaint->flag->variable))
        tool_say("--%s %s: it takes %s", complaint->flag->name, complaint->value, form);
}

/* The value is one that the library will take; else says what it takes. */
static bool is_accepted(const struct tool_flag *flag, const char *value)
{
    static struct option_warnings warnings;
    static struct options options;
    struct complaint complaint = {flag, value};
    char text[4096];
    char *const environment[] = {text, NULL};
    bool fits = snprintf(text, sizeof text, "%s=%s", flag->variable, value) < (int)sizeof text;

    if (fits)
        options_parse(environment, &options, &warnings);
    if (!fits || warnings.count)
        options_describe(complain, &complaint);
    return fits && !warnings.count;
}

static bool is_same_file(const char *word, size_t length, const char *library)
{
    struct stat one, other;
    char path[PATH_MAX];

    if (!length || length >= sizeof path)
        return false;
    memcpy(path, word, length);
    path[length] = '\0';
    return !stat(path, &one) && !stat(library, &other) && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

/* LD_PRELOAD with the library first, or as it is where that has it already. NULL: no memory. */
static char *preload_with(const char *library)
{
    const char *before = getenv("LD_PRELOAD");
    size_t size = strlen(library) + (before ? strlen(before) : 0) + 2, length;
    char *value;

    for (const char *word = before; word && *word; word += length) {
        word += strspn(word, " :");
        length = strcspn(word, " :");
        if (is_same_file(word, length, library))
            return strdup(before);
    }
    value = malloc(size);
    if (value)
        snprintf(value, size, "%s%s%s", library, before && before[0] ? ":" : "", before ? before : "");
    return value;
}

/* For a shell; as it is where that is plain. */
static void print_quoted(const char *text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=./:,@%";

    if (text[0] && !text[strspn(text, plain)]) {
        fputs(text, stdout);
        return;
    }
    putchar('\'');
    for (; *text; text++)
        fputs(*text == '\'' ? "'\\''" : (char[]){*text, '\0'}, stdout);
    putchar('\'');
}

static void print_setting(const char *variable)
{
    const char *value = getenv(variable);

    printf(" %s=", variable);
    if (value)
        print_quoted(value);
}

static int become(char **command)
{
    int error;

    fflush(NULL);
    execvp(command[0], command);
    error = errno;
    tool_say("%s: %s", command[0], strerror(error));
    return error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

int tool_run(int argc, char **argv)
{
    struct option options[LONG_OPTIONS] = {{"verbose", no_argument, NULL, 'v'},
                                           {"dry-run", no_argument, NULL, OPTION_DRY_RUN},
                                           {"help", no_argument, NULL, OPTION_HELP}};
    bool set[LONG_OPTIONS] = {false}, verbose = false, dry = false;
    char library[PATH_MAX], *preload;
    int given;

    for (unsigned i = 0; i < tool_flag_count; i++)
        options[3 + i] = (struct option){tool_flags[i].name, required_argument, NULL, OPTION_FLAG + (int)i};
    while ((given = getopt_long(argc, argv, "+v", options, NULL)) != -1) {
        if (given == 'v') {
            verbose = true;
        } else if (given == OPTION_DRY_RUN) {
            dry = true;
        } else if (given == OPTION_HELP) {
            help();
            return 0;
        } else if (given >= OPTION_FLAG) {
            const struct tool_flag *flag = &tool_flags[given - OPTION_FLAG];

            if (!is_accepted(flag, optarg))
                return EXIT_WRONG_USAGE;
            setenv(flag->variable, optarg, 1);
            set[given - OPTION_FLAG] = true;
        } else {
            return EXIT_WRONG_USAGE; /* getopt has said why */
        }
    }
    if (optind == argc) {
        tool_say("there is no command to run; `hbmspill run --help' says more");
        return EXIT_WRONG_USAGE;
    }
    for (unsigned i = 0; i < tool_flag_count; i++)
        verbose &= !(set[i] && !strcmp(tool_flags[i].variable, "HBMSPILL_LOG"));
    if (verbose)
        setenv("HBMSPILL_LOG", "info", 1);
    if (!tool_library(library)) {
        tool_say("libhbmspill.so is neither beside this program nor in " HBMSPILL_LIBDIR);
        return EXIT_CANNOT_RUN;
    }
    if (library[strcspn(library, " :")]) {
        tool_say("%s: LD_PRELOAD takes no path with a space or a colon", library);
        return EXIT_CANNOT_RUN;
    }
    preload = preload_with(library);
    if (!preload || setenv("LD_PRELOAD", preload, 1)) {
        tool_say("%s", strerror(ENOMEM));
        return EXIT_CANNOT_RUN;
    }
    free(preload);
    if (!dry)
        return become(argv + optind);
    fputs("env", stdout);
    for (unsigned i = 0; i < tool_flag_count; i++)
        if (set[i] || (verbose && !strcmp(tool_flags[i].variable, "HBMSPILL_LOG")))
            print_setting(tool_flags[i].variable);
    print_setting("LD_PRELOAD");
    for (char **word = argv + optind; *word; word++) {
        putchar(' ');
        print_quoted(*word);
    }
    putchar('\n');
    return 0;
}
