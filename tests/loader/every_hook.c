/*
 * every_hook.c - every hook of the list, in a process that is not active, hands its arguments to the real
 * function and returns what that returned. Run under LD_PRELOAD with fake_every.c as the driver; the argument
 * is a text of the typedefs of cudaTypedefs.h, from which the number of parameters is counted.
 *
 * cuInit fails in that driver, so the process never becomes active.
 */
#include "shim/functions.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARGUMENTS_MAX = 18, RESULT_FIRST = 1000 };

typedef CUresult any_function(unsigned long, unsigned long, unsigned long, unsigned long, unsigned long,
                              unsigned long, unsigned long, unsigned long, unsigned long, unsigned long,
                              unsigned long, unsigned long, unsigned long, unsigned long, unsigned long,
                              unsigned long, unsigned long, unsigned long);

static const struct {
    const char *name, *type;
} list[] = {
#define LINE(symbol, type) {#symbol, #type},
    HBMSPILL_HOOKED(LINE)
#undef LINE
};

/* The text between the parentheses of a typedef's parameters; exits if there is none. */
static void parameters_of(const char *typedefs, const char *type, char *buffer, size_t size)
{
    char head[128];
    snprintf(head, sizeof head, "*%s)(", type);
    const char *start = strstr(typedefs, head);
    const char *end = start ? strstr(start, ");") : NULL;
    if (!end || (size_t)(end - start) >= size) {
        printf("no typedef %s\n", type);
        exit(1);
    }
    start += strlen(head);
    snprintf(buffer, size, "%.*s", (int)(end - start), start);
}

/* Parameters that go by value and are not in one of the integers' places. */
static int has_other_value(const char *parameters)
{
    return strstr(parameters, "CUipcMemHandle handle") || strstr(parameters, "CUipcEventHandle handle") ||
           strstr(parameters, "float bias") || strstr(parameters, "float minMipmapLevelClamp");
}

int main(int argc, char **argv)
{
    static char typedefs[4 << 20];
    int failures = 0;
    if (argc != 2)
        return 2;
    FILE *file = fopen(argv[1], "r");
    if (!file)
        return 2;
    typedefs[fread(typedefs, 1, sizeof typedefs - 1, file)] = '\0';
    fclose(file);

    void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
    const unsigned long *arguments = driver ? dlsym(driver, "fake_arguments") : NULL;
    if (!arguments) {
        printf("%s\n", dlerror());
        return 1;
    }
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        char parameters[2048];
        parameters_of(typedefs, list[i].type, parameters, sizeof parameters);
        size_t count = strcmp(parameters, "void") != 0;
        for (const char *c = parameters; count && *c; c++)
            count += *c == ',';

        any_function *function = (any_function *)dlsym(driver, list[i].name);
        Dl_info info;
        if (!function || !dladdr((void *)function, &info) || !strstr(info.dli_fname, "libhbmspill")) {
            printf("%s is not a hook\n", list[i].name);
            failures++;
            continue;
        }
        memset((void *)arguments, 0, ARGUMENTS_MAX * sizeof *arguments);
        /* Small numbers: an int parameter keeps them, and a hook that used one as a pointer would crash. */
        CUresult result = function(101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113, 114, 115,
                                   116, 117, 118);
        if ((int)result != RESULT_FIRST + (int)i) {
            printf("%s returned %d\n", list[i].name, (int)result);
            failures++;
        }
        for (size_t k = 0; k < count && !has_other_value(parameters); k++)
            if ((unsigned int)arguments[k] != 101 + k) {
                printf("%s: argument %zu of %zu arrived as %lu\n", list[i].name, k, count, arguments[k]);
                failures++;
            }
    }
    return failures != 0;
}
