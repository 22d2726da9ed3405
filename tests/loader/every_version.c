/*
 * every_version.c - cuGetProcAddress for every name of the list in every version and with every flag: through
 * the library as through the driver alone, but that what has a wrapper is the wrapper. (Report: abi.)
 *
 * Run under LD_PRELOAD on a driver that knows versions. That driver alone is reached past the library by
 * dlvsym: the C library's own dlsym has a version, ours has none.
 */
#include "shim/functions.h"
#include "tests/synthetic/versions.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_MAX = 2048, VERSIONS_MAX = 256, NAME_MAX_ = 80 };

typedef CUresult get_v2_function(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
typedef CUresult get_v1_function(const char *, void **, int, cuuint64_t);
typedef void *dlsym_function(void *, const char *);

static const struct {
    const char *name, *type;
} list[] = {
#define LINE(symbol, type) {#symbol, #type},
    HBMSPILL_HOOKED(LINE)
#undef LINE
};
enum { LISTED = sizeof list / sizeof *list };

static const char *const known[] = {
#define V(name, version, exported) #name, #exported,
    FUNCTION_VERSIONS(V)
#undef V
};

static void *driver;
static void *driver_functions[LISTED], *hooks[LISTED];
static char names[NAMES_MAX][NAME_MAX_];
static int versions[VERSIONS_MAX];
static unsigned name_count, version_count, failures;
static unsigned long asked, wrapped;

static void add_name(const char *name, size_t length)
{
    if (length >= NAME_MAX_ || name_count == NAMES_MAX) {
        printf("too many names\n");
        exit(1);
    }
    for (unsigned i = 0; i < name_count; i++)
        if (strlen(names[i]) == length && !strncmp(names[i], name, length))
            return;
    memcpy(names[name_count++], name, length);
}

static void add_version(int version)
{
    for (unsigned i = 0; i < version_count; i++)
        if (versions[i] == version)
            return;
    if (version_count < VERSIONS_MAX)
        versions[version_count++] = version;
}

/* The names as they are exported, and without their suffixes as cuGetProcAddress wants them. */
static void collect(void)
{
    static const int others[] = {-1, 0, 1, 1999, 12060, 13010, 13050, 14000, 99999, 2147483647};

    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        add_name(known[i], strlen(known[i]));
    for (unsigned i = 0; i < LISTED; i++) {
        const char *end = list[i].name + strlen(list[i].name), *version = strstr(list[i].type, "_v");

        add_name(list[i].name, strlen(list[i].name));
        if (end - list[i].name > 5 && (!strcmp(end - 5, "_ptsz") || !strcmp(end - 5, "_ptds")))
            end -= 5;
        add_name(list[i].name, (size_t)(end - list[i].name));
        if (end[-3] == '_' && end[-2] == 'v')
            add_name(list[i].name, (size_t)(end - 3 - list[i].name));
        if (version) {
            add_version(atoi(version + 2) - 1);
            add_version(atoi(version + 2));
        }
    }
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++)
        add_version(others[i]);
    add_name("", 0);
    add_name("cu", 2);
    add_name("cuMem", 5);
    add_name("cudaMalloc", 10);
    add_name("hbmspill", 8);
}

static bool in_library(void *pointer)
{
    Dl_info info;

    return dladdr(pointer, &info) && strstr(info.dli_fname, "libhbmspill");
}

/* What the job is to get where the driver says this. */
static void *expected(void *answer)
{
    for (unsigned i = 0; answer && i < LISTED; i++)
        if (driver_functions[i] == answer)
            return hooks[i];
    return answer;
}

static void compare(const char *how, const char *name, int version, unsigned flags, CUresult of_driver,
                    CUresult result, void *driver_pointer, void *pointer, bool same_status)
{
    asked++;
    wrapped += in_library(pointer);
    if (of_driver == result && pointer == expected(driver_pointer) && same_status)
        return;
    if (failures++ < 20)
        printf("%s(%s, %d, %u): %d instead of %d, %p for the driver's %p%s\n", how, name, version, flags,
               result, of_driver, pointer, driver_pointer, same_status ? "" : ", another status");
}

/* One function, all forms of the question. */
static void ask(get_v2_function *real_v2, get_v2_function *v2, get_v1_function *real_v1, get_v1_function *v1,
                const char *name, int version, unsigned flags)
{
    CUdriverProcAddressQueryResult status = 99, real_status = 99;
    void *garbage = &garbage, *pointer = garbage, *real = garbage;
    CUresult of_driver = real_v2(name, &real, version, flags, &real_status);
    CUresult result = v2(name, &pointer, version, flags, &status);

    compare("v2", name, version, flags, of_driver, result, real, pointer, status == real_status);
    real = pointer = garbage;
    of_driver = real_v2(name, &real, version, flags, NULL);
    result = v2(name, &pointer, version, flags, NULL);
    compare("v2 without status", name, version, flags, of_driver, result, real, pointer, true);
    real = pointer = garbage;
    of_driver = real_v1(name, &real, version, flags);
    result = v1(name, &pointer, version, flags);
    compare("v1", name, version, flags, of_driver, result, real, pointer, true);
}

int main(void)
{
    dlsym_function *real_dlsym = (dlsym_function *)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    get_v2_function *real_v2, *v2, *ptsz;
    get_v1_function *real_v1, *v1;
    unsigned exported = 0;

    if (!real_dlsym) /* before glibc 2.34 */
        real_dlsym = (dlsym_function *)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!real_dlsym || !driver) {
        printf("no driver, or no dlsym of a version\n");
        return 1;
    }
    for (unsigned i = 0; i < LISTED; i++) {
        driver_functions[i] = real_dlsym(driver, list[i].name);
        hooks[i] = dlsym(driver, list[i].name);
        exported += driver_functions[i] != NULL;
        if (!driver_functions[i] != !hooks[i] || in_library(driver_functions[i]) ||
            (hooks[i] && !in_library(hooks[i]))) {
            printf("%s: %p by dlsym for the driver's %p\n", list[i].name, hooks[i], driver_functions[i]);
            failures++;
        }
        for (unsigned k = 0; k < i; k++)
            if (hooks[i] && hooks[i] == hooks[k]) {
                printf("%s and %s have one wrapper\n", list[i].name, list[k].name);
                failures++;
            }
    }
    collect();
    real_v2 = (get_v2_function *)real_dlsym(driver, "cuGetProcAddress_v2");
    v2 = (get_v2_function *)dlsym(driver, "cuGetProcAddress_v2");
    real_v1 = (get_v1_function *)real_dlsym(driver, "cuGetProcAddress");
    v1 = (get_v1_function *)dlsym(driver, "cuGetProcAddress");
    ptsz = (get_v2_function *)dlsym(driver, "cuGetProcAddress_v2_ptsz");
    if (!real_v2 || !real_v1 || real_v2 == v2 || real_v1 == v1)
        return printf("cuGetProcAddress has no wrapper\n"), 1;
    for (unsigned n = 0; n < name_count; n++)
        for (unsigned v = 0; v < version_count; v++)
            for (unsigned flags = 0; flags < 5; flags++) {
                ask(real_v2, v2, real_v1, v1, names[n], versions[v], flags);
                if (ptsz)
                    ask((get_v2_function *)real_dlsym(driver, "cuGetProcAddress_v2_ptsz"), ptsz, real_v1, v1,
                        names[n], versions[v], flags);
            }
    printf("%u of %d functions exported; %u names, %u versions: %lu questions, %lu wrappers\n", exported,
           LISTED, name_count, version_count, asked, wrapped);
    /* Enough to mean something, whatever became of the lists. */
    return failures || exported < LISTED || asked < 100000 || wrapped < asked / 10;
}
