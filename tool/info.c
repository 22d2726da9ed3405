/*
 * info.c - hbmspill info: the variables, from the table that the library reads them with.
 */
#include "shim/options_file.h"
#include "tool/tool.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

struct listing {
    const char *only; /* NULL: all */
    bool names, found;
    const struct option_file *files;
};

/* Where the value that counts is from. */
static const char *value_of(const struct listing *listing, const char *name, const char *fallback,
                            const char **from)
{
    const char *value = options_value_in(environ, name);

    *from = "environment";
    for (unsigned i = 0; !value && i < OPTION_FILES; i++) {
        value = options_value_in(listing->files[i].variable, name);
        *from = listing->files[i].path;
    }
    if (value)
        return value;
    *from = "default";
    return fallback[0] ? fallback : "unset";
}

/* NAME_0 and so on, where they are set. */
static void print_devices(const struct listing *listing, const char *name)
{
    char form[128];
    const char *from, *value;

    for (unsigned device = 0; device < OPTION_DEVICES; device++) {
        snprintf(form, sizeof form, "%s_%u", name, device);
        value = value_of(listing, form, "", &from);
        if (strcmp(from, "default") != 0)
            printf("%s = %s   (%s)\n", form, value, from);
    }
}

static void print_option(void *context, const char *name, const char *fallback, const char *form,
                         const char *text)
{
    struct listing *listing = context;
    const char *from, *value;

    if (listing->only && strcmp(listing->only, name) != 0)
        return;
    listing->found = true;
    if (listing->names) {
        puts(name);
        return;
    }
    value = value_of(listing, name, fallback, &from);
    printf("%s = %s   (%s)\n", name, value, from);
    print_devices(listing, name);
    printf("    %s\n    takes %s; default %s\n", text, form, fallback[0] ? fallback : "as said");
}

int tool_info(int argc, char **argv)
{
    static struct option_file files[OPTION_FILES];
    static struct option_warnings warnings;
    static struct options options;
    struct listing listing = {.files = files};

    if (argc > 1 && !strcmp(argv[1], "--help")) {
        puts("usage: hbmspill info [--names | VARIABLE]\n\n"
             "Lists the variables: value, where that is from (environment, a file, default), meaning, what "
             "they "
             "take.\nComplaints about what is set go to standard error, and the exit status is 1 then.");
        return 0;
    }
    if (argc == 2 && !strcmp(argv[1], "--names"))
        listing.names = true;
    else if (argc == 2 && argv[1][0] != '-')
        listing.only = argv[1];
    else if (argc > 1) {
        tool_say("info takes --names or a variable; `hbmspill info --help' says more");
        return EXIT_WRONG_USAGE;
    }
    options_parse(NULL, &options, &warnings);
    options_files_read(environ, files, &warnings);
    for (unsigned i = OPTION_FILES; i-- > 0;)
        options_apply(files[i].variable, files[i].path, &options, &warnings);
    options_apply(environ, NULL, &options, &warnings);
    options_describe(print_option, &listing);
    if (!listing.found) {
        tool_say("there is no variable `%s'; `hbmspill info' lists them", listing.only);
        return EXIT_WRONG_USAGE;
    }
    for (unsigned i = 0; i < warnings.count; i++)
        tool_say("%s", warnings.text[i]);
    return warnings.count ? 1 : 0;
}
