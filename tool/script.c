/*
 * script.c - hbmspill report and hbmspill plot, which are programs in Python: finds them and becomes them.
 */
#include "tool/tool.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char report_usage[] =
    "usage: hbmspill report [-o FILE] [--hbm SIZE] [--link LINK] [--help] FILE...\n\n"
    "Makes a page (HTML, all in one file) of what a job has written: its statistics (HBMSPILL_STATS), a "
    "trace\n"
    "(HBMSPILL_TRACE), which is replayed, its events (HBMSPILL_TRACE_EVENTS); one of each at most.\n\n"
    "  -o, --output FILE   where to (default: report.html)\n"
    "  --hbm SIZE          replay with so much HBM (default: what the job had, by its statistics)\n"
    "  --link LINK         pcie4, pcie5, c2c, or IN,OUT in GB/s (default: as measured in the job, else "
    "pcie5)\n"
    "  --help              this text\n\n"
    "It draws with plotly (python3 -m pip install plotly). The exit status is 1 where a file cannot be "
    "used.\n";

static const char plot_usage[] =
    "usage: hbmspill plot [-o FILE] [--link LINK] [--help] TRACE\n\n"
    "Says what size of HBM would be enough for a trace (HBMSPILL_TRACE), and draws reuse distances and "
    "misses\n"
    "against the size of HBM.\n\n"
    "  -o, --output FILE   .svg, .png (matplotlib) or .html (plotly); without it nothing is drawn\n"
    "  --link LINK         also replay with this link: pcie4, pcie5, c2c, or IN,OUT in GB/s\n"
    "  --help              this text\n";

/* A file that belongs to this program: installed under any prefix, or in a build directory. */
static bool find(const char *const *places, const char *name, char path[PATH_MAX])
{
    char program[PATH_MAX], *slash;

    if (!realpath("/proc/self/exe", program) || !(slash = strrchr(program, '/')))
        return false;
    slash[1] = '\0';
    for (; *places; places++) {
        char candidate[PATH_MAX + 128];

        snprintf(candidate, sizeof candidate, "%s%s%s", program, *places, name);
        if (!access(candidate, R_OK) && realpath(candidate, path))
            return true;
    }
    return false;
}

static int become(const char *name, const char *usage, int argc, char **argv)
{
    static const char *const scripts[] = {"../libexec/hbmspill/", NULL};
    static const char *const programs[] = {"", "../cache/tools/", NULL};
    char script[PATH_MAX], replay[PATH_MAX], **command;
    int error;

    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (!strcmp(argv[i], "--help")) {
            fputs(usage, stdout);
            return 0;
        }
    if (argc < 2) {
        fputs(usage, stderr);
        return EXIT_WRONG_USAGE;
    }
    if (!find(scripts, name, script) || !find(programs, "hbmspill-replay", replay)) {
        tool_say("%s or hbmspill-replay is not where it belongs: hbmspill is not installed as a whole", name);
        return EXIT_CANNOT_RUN;
    }
    command = calloc((size_t)argc + 5, sizeof *command);
    if (!command) {
        tool_say("%s", strerror(ENOMEM));
        return EXIT_CANNOT_RUN;
    }
    command[0] = (char[]){"python3"};
    command[1] = script;
    command[2] = (char[]){"--replay"};
    command[3] = replay;
    memcpy(command + 4, argv + 1, (size_t)argc * sizeof *command); /* with the NULL at the end */
    fflush(NULL);
    execvp(command[0], command);
    error = errno;
    tool_say("python3: %s", strerror(error));
    free(command);
    return error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

int tool_report(int argc, char **argv)
{
    return become("report.py", report_usage, argc, argv);
}

int tool_plot(int argc, char **argv)
{
    return become("plot.py", plot_usage, argc, argv);
}
