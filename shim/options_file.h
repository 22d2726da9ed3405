/*
 * options_file.h - settings from a file: ~/.config/hbmspill.conf, then /etc/hbmspill.conf, or what
 * HBMSPILL_CONFIG names. The environment wins over both, the user's over the machine's.
 *
 * A line is NAME = VALUE with the name of a variable, empty, or a comment behind #. Blanks around both are
 * left out; the value goes to the end of the line. A line that is neither is a warning, as a file that cannot
 * be read is; one that is not there is not.
 *
 * Like the variables, the files are read in every process that the library is preloaded into: without
 * allocation and stdio, at the cost of two calls of open(2).
 */
#ifndef HBMSPILL_SHIM_OPTIONS_FILE_H
#define HBMSPILL_SHIM_OPTIONS_FILE_H

#include "shim/options.h"

enum { OPTION_FILES = 2, OPTION_FILE_BYTES = 16384, OPTION_FILE_LINES = 128, OPTION_FILE_PATH = 512 };

struct option_file {
    char path[OPTION_FILE_PATH];
    char text[OPTION_FILE_BYTES];
    char *variable[OPTION_FILE_LINES + 1]; /* NAME=VALUE, as environ(7) */
};

/* The files in the order in which they count, the first one wins. variable[0] is NULL where there is none. */
void options_files_read(char *const *environment, struct option_file files[OPTION_FILES],
                        struct option_warnings *warnings);

/* The value of a variable in a list like environ(7); NULL: it is not in it, or empty. */
const char *options_value_in(char *const *list, const char *name);

#endif
