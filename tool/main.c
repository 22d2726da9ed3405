/*
 * main.c - hbmspill(1): chooses the command.
 */
#include "tool/tool.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *text;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"run", "run a program with the library preloaded", tool_run},
    {"doctor", "look at the driver, the machine and the settings, and say what to do", tool_doctor},
    {"top", "show running jobs: what is where, what moves, what waits", tool_top},
    {"report", "make a page of what a job has written: what moved when, what it cost, what to do",
     tool_report},
    {"plot", "say which size of HBM would be enough for a trace, and draw it", tool_plot},
    {"info", "list the variables: what they take, what they are, where that is from", tool_info},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

void tool_say(const char *format, ...)
{
    va_list arguments;

    fputs("hbmspill: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

static void usage(FILE *to)
{
    fputs("usage: hbmspill COMMAND [ARGUMENT...]\n\n"
          "Lets an unmodified JAX job use more GPU memory than the card has.\n\n",
          to);
    for (unsigned i = 0; i < COMMANDS; i++)
        fprintf(to, "  %-8s %s\n", commands[i].name, commands[i].text);
    fputs("\n`hbmspill COMMAND --help' says more, and `hbmspill --version' which one this is.\n", to);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        usage(stderr);
        return EXIT_WRONG_USAGE;
    }
    for (unsigned i = 0; i < COMMANDS; i++)
        if (!strcmp(argv[1], commands[i].name))
            return commands[i].run(argc - 1, argv + 1);
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        usage(stdout);
        return 0;
    }
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
        puts("hbmspill " HBMSPILL_VERSION);
        return 0;
    }
    tool_say("there is no command `%s'; `hbmspill --help' lists them", argv[1]);
    return EXIT_WRONG_USAGE;
}
