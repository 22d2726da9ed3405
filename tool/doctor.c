#include "tool/doctor.h"
#include "tool/tool.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool json, coloured;
static unsigned found[3]; /* by enum finding */

static void put_json(const char *text)
{
    putchar('"');
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if ((unsigned char)*text < ' ')
            printf("\\u%04x", (unsigned)*text);
        else
            putchar(*text);
    putchar('"');
}

void doctor_find(enum finding finding, const char *subject, const char *remedy, const char *format, ...)
{
    static const char *const names[] = {"good", "warning", "fault"};
    static const char *const colours[] = {"\033[32m", "\033[33m", "\033[31m"};
    bool first = !(found[0] + found[1] + found[2]);
    char text[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    found[finding]++;
    if (json) {
        printf("%s\n  {\"subject\": ", first ? "" : ",");
        put_json(subject);
        printf(", \"finding\": \"%s\", \"text\": ", names[finding]);
        put_json(text);
        if (remedy) {
            fputs(", \"remedy\": ", stdout);
            put_json(remedy);
        }
        putchar('}');
    } else {
        printf("%s%-8s%s %-9s %s%s%s\n", coloured ? colours[finding] : "", names[finding],
               coloured ? "\033[0m" : "", subject, text, remedy ? ": " : "", remedy ? remedy : "");
    }
    fflush(stdout); /* what comes next may take a second, or end the process */
}

int tool_doctor(int argc, char **argv)
{
    const char *root = getenv("HBMSPILL_TEST_ROOT"), *no_colour = getenv("NO_COLOR");

    if (argc == 2 && !strcmp(argv[1], "--help")) {
        puts("usage: hbmspill doctor [--json]\n\n"
             "Looks at the driver, the GPUs, the machine's memory, JAX and the settings: a line for each, "
             "good, a "
             "warning\nwith what to do, or a fault, which keeps hbmspill from working. The exit status is 1 "
             "where "
             "there is a fault.");
        return 0;
    }
    json = argc == 2 && !strcmp(argv[1], "--json");
    if (argc > 2 || (argc == 2 && !json)) {
        tool_say("doctor takes --json alone; `hbmspill doctor --help' says more");
        return EXIT_WRONG_USAGE;
    }
    coloured = isatty(STDOUT_FILENO) && !(no_colour && no_colour[0]);
    if (json)
        putchar('[');
    doctor_gpu();
    doctor_host(root ? root : "");
    doctor_job();
    if (json)
        puts("\n]");
    return found[FINDING_FAULT] ? 1 : 0;
}
