/*
 * tool.h - what the commands of hbmspill(1) share.
 *
 * A command gets its own arguments (argv[0] is its name) and returns the exit status: 0 done, 1 it failed or
 * found a fault, 2 wrong usage, which it has said on standard error. 126 and 127 as a shell has them: a
 * command that cannot be run, and one that is not there.
 */
#ifndef HBMSPILL_TOOL_TOOL_H
#define HBMSPILL_TOOL_TOOL_H

#include <limits.h>
#include <stdbool.h>

enum { EXIT_WRONG_USAGE = 2, EXIT_CANNOT_RUN = 126, EXIT_NOT_FOUND = 127 };

int tool_run(int argc, char **argv);
int tool_doctor(int argc, char **argv);
int tool_info(int argc, char **argv);
int tool_top(int argc, char **argv);
int tool_report(int argc, char **argv);
int tool_plot(int argc, char **argv);

/* The options of `hbmspill run' that stand for a variable. What they take and mean is in the variables'
 * table. */
struct tool_flag {
    const char *name;     /* "hbm" of --hbm */
    const char *argument; /* "SIZE" */
    const char *variable;
};
extern const struct tool_flag tool_flags[];
extern const unsigned tool_flag_count;

/*
 * The library that belongs to this program: beside it, in ../lib, in a build directory, or where it was to be
 * installed. False: there is none.
 */
bool tool_library(char path[PATH_MAX]);

/* One message on standard error, with the program's name. */
__attribute__((format(printf, 1, 2))) void tool_say(const char *format, ...);

#endif
