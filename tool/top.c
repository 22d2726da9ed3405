/*
 * top.c - hbmspill top: looks, shows, waits half a second.
 */
#include "tool/top.h"
#include "tool/tool.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_NS = 500000000 };

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

static void help(void)
{
    puts("usage: hbmspill top [--once] [--json] [PID]\n\n"
         "Shows the jobs that run under hbmspill, twice a second, until it is interrupted: what is in HBM "
         "and in host "
         "memory,\nwhat moves, how long streams stand still, how many operations waited for no copy (hits), "
         "and the sizes of\nallocations that have most of HBM. Only your own jobs, or all as root.\n\n"
         "  --once   once, after half a second; the same where the output is no terminal\n"
         "  --json   once, as JSON\n"
         "The exit status is 1 where there is no such job.");
}

int tool_top(int argc, char **argv)
{
    static struct jobs now, before;
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    bool once = !isatty(STDOUT_FILENO), json = false;
    struct sigaction action = {.sa_handler = on_signal};
    long only = 0;
    char *end;

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help")) {
            help();
            return 0;
        }
        if (!strcmp(argv[i], "--once"))
            once = true;
        else if (!strcmp(argv[i], "--json"))
            json = once = true;
        else if ((only = strtol(argv[i], &end, 10)) <= 0 || *end) {
            tool_say("top takes --once, --json and a process's number, not `%s'", argv[i]);
            return EXIT_WRONG_USAGE;
        }
    }
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    top_look(only, &before);
    while (!stopped) {
        if (nanosleep(&pause, NULL) && stopped)
            break;
        top_look(only, &now);
        top_remember(&now, &before);
        if (!once)
            fputs("\033[H\033[J", stdout);
        (json ? top_print_json : top_print_text)(&now);
        fflush(stdout);
        if (once)
            break;
        before = now;
    }
    return once && !now.count ? 1 : 0;
}
