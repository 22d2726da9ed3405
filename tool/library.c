#include "tool/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool tool_library(char path[PATH_MAX])
{
    /* Beside it in an unpacked package, installed under any prefix, in a build directory (libtool). */
    static const char *const places[] = {"", "../lib/", "../.libs/"};
    char program[PATH_MAX], candidate[PATH_MAX + 64];
    char *slash;

    if (!realpath("/proc/self/exe", program) || !(slash = strrchr(program, '/')))
        program[0] = '\0';
    else
        slash[1] = '\0';
    for (unsigned i = 0; program[0] && i < sizeof places / sizeof *places; i++) {
        snprintf(candidate, sizeof candidate, "%s%slibhbmspill.so", program, places[i]);
        if (!access(candidate, R_OK) && realpath(candidate, path))
            return true;
    }
    return !access(HBMSPILL_LIBDIR "/libhbmspill.so", R_OK) &&
           realpath(HBMSPILL_LIBDIR "/libhbmspill.so", path);
}
