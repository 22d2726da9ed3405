#include "shim/options.h"
#include "tool/doctor.h"
#include "tool/tool.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of the Python that a job would be started with: names and versions, a line each; nothing for what is not
 * there. */
static const char ask_versions[] =
    "python3 -c 'import importlib.metadata as m\n"
    "for n in \"jax\", \"jaxlib\", \"jax-cuda13-plugin\", \"jax-cuda12-plugin\":\n"
    "  try: print(n, m.version(n))\n"
    "  except m.PackageNotFoundError: pass' 2>/dev/null";

static void look_at_jax(void)
{
    char name[64], version[64], jax[64] = "", jaxlib[64] = "", plugin[130] = "";
    FILE *output;

    unsetenv("LD_PRELOAD"); /* looked at before */
    output = popen(ask_versions, "re");
    while (output && fscanf(output, "%63s %63s", name, version) == 2)
        if (!strcmp(name, "jax"))
            memcpy(jax, version, sizeof jax);
        else if (!strcmp(name, "jaxlib"))
            memcpy(jaxlib, version, sizeof jaxlib);
        else
            snprintf(plugin, sizeof plugin, "%s %s", name, version);
    if (output)
        pclose(output);
    if (!jax[0] || !jaxlib[0])
        doctor_find(FINDING_WARNING, "jax", "start it from the environment that the job is started from",
                    "python3 has no jax");
    else if (!plugin[0])
        doctor_find(FINDING_WARNING, "jax", "pip install 'jax[cuda13]'", "jax %s without a CUDA plugin", jax);
    else
        doctor_find(FINDING_GOOD, "jax", NULL, "jax %s, jaxlib %s, %s", jax, jaxlib, plugin);
}

/* "" where it is not set: the same, to those that read these. */
static const char *value_of(const char *name)
{
    const char *value = getenv(name);

    return value ? value : "";
}

static void look_at_variables(void)
{
    const char *allocator = value_of("XLA_PYTHON_CLIENT_ALLOCATOR"), *flags = value_of("XLA_FLAGS");
    const char *platforms = value_of("JAX_PLATFORMS"), *unified = value_of("TF_FORCE_UNIFIED_MEMORY");
    bool good = true;

    if (allocator[0] && strcmp(allocator, "cuda_async") != 0) {
        doctor_find(FINDING_WARNING, "variables", "unset XLA_PYTHON_CLIENT_ALLOCATOR",
                    "XLA_PYTHON_CLIENT_ALLOCATOR=%s hides tensors: memory is spilled by region or not at all",
                    allocator);
        good = false;
    }
    if (unified[0] && strcmp(unified, "0") != 0 && strcmp(unified, "false") != 0) {
        doctor_find(FINDING_WARNING, "variables", "unset TF_FORCE_UNIFIED_MEMORY",
                    "TF_FORCE_UNIFIED_MEMORY=%s: memory is the driver's to move, and slow", unified);
        good = false;
    }
    if (flags[0] && flags[strspn(flags, " \t")] != '-') {
        doctor_find(FINDING_WARNING, "variables", "put --xla_multiheap_size_constraint_per_heap=1 into it",
                    "XLA_FLAGS names a file, %s: nothing can be added", flags);
        good = false;
    }
    if (platforms[0] && !strstr(platforms, "cuda") && !strstr(platforms, "gpu")) {
        doctor_find(FINDING_WARNING, "variables", "unset JAX_PLATFORMS", "JAX_PLATFORMS=%s: no GPU is used",
                    platforms);
        good = false;
    }
    if (good)
        doctor_find(FINDING_GOOD, "variables", NULL, "none hides tensors from hbmspill");
}

static void look_at_preloads(void)
{
    const char *value = getenv("LD_PRELOAD");
    char others[512] = "";
    bool before = false, ours = false;
    size_t length, used = 0;

    for (const char *word = value; word && *word; word += length) {
        word += strspn(word, " :");
        length = strcspn(word, " :");
        if (!length)
            break;
        if (memmem(word, length, "libhbmspill.so", sizeof "libhbmspill.so" - 1)) {
            ours = true;
            continue;
        }
        before |= !ours;
        if (used < sizeof others)
            used += (size_t)snprintf(others + used, sizeof others - used, "%s%.*s", used ? " " : "",
                                     (int)length, word);
    }
    if (others[0] && ours && before)
        doctor_find(FINDING_WARNING, "preloads",
                    "hbmspill belongs first, unless they are a sanitizer or an allocator",
                    "before hbmspill in LD_PRELOAD: %s", others);
    else
        doctor_find(FINDING_GOOD, "preloads", NULL, "%s%s", others[0] ? "beside hbmspill: " : "no others",
                    others);
}

/* It starts: what it is linked with is there. */
static bool planner_starts(const char *path)
{
    char command[2 * PATH_MAX + 64];

    snprintf(command, sizeof command, "'%s' --version >/dev/null 2>&1", path);
    return strchr(path, '\'') || !system(command);
}

/* As the library looks for it, with the library's own place. */
static bool has_planner(const char *library, char path[2 * PATH_MAX])
{
    static const char *const beside[] = {"../bin/", "../cache/tools/"};
    const char *search = getenv("PATH");

    for (unsigned i = 0; i < sizeof beside / sizeof *beside; i++) {
        snprintf(path, 2 * PATH_MAX, "%.*s%shbmspill-plan", (int)(strrchr(library, '/') + 1 - library),
                 library, beside[i]);
        if (!access(path, X_OK))
            return true;
    }
    for (size_t length; search && *search; search += length + (search[length] == ':')) {
        length = strcspn(search, ":");
        snprintf(path, 2 * PATH_MAX, "%.*s/hbmspill-plan", (int)length, search);
        if (search[0] == '/' && !access(path, X_OK))
            return true;
    }
    return false;
}

static bool can_read(const char *variable, const char *path)
{
    if (!path[0] || !access(path, R_OK))
        return true;
    doctor_find(FINDING_WARNING, "settings", "is the path right?", "%s=%s: %s", variable, path,
                strerror(errno));
    return false;
}

/* A new file beside others, or one that is there. */
static bool can_write(const char *variable, const char *pattern)
{
    char path[PATH_MAX], directory[PATH_MAX];
    const char *slash;

    if (!pattern[0] || options_expand_path(pattern, path, sizeof path) || !access(path, W_OK))
        return true;
    slash = strrchr(path, '/');
    snprintf(directory, sizeof directory, "%.*s", slash ? (int)(slash - path + 1) : 1, slash ? path : ".");
    if (errno == ENOENT && !access(directory, W_OK))
        return true;
    doctor_find(FINDING_WARNING, "settings", "is there such a directory, and may you write there?",
                "%s=%s: %s", variable, pattern, strerror(errno));
    return false;
}

/* What the library would say when it needs them, which may be late. */
static bool files_are_there(void)
{
    const struct options *options = options_get();
    bool good = can_read("HBMSPILL_ADMITTED", options->admitted.text);

    good &= can_read("HBMSPILL_PLAN", options->plan.path);
    good &= can_write("HBMSPILL_LOG_FILE", options->log_file.text);
    good &= can_write("HBMSPILL_STATS", options->stats.text);
    good &= can_write("HBMSPILL_TRACE", options->trace.text);
    good &= can_write("HBMSPILL_TRACE_EVENTS", options->trace_events.text);
    return good;
}

static void look_at_parts(void)
{
    const struct option_warnings *warnings = options_warnings();
    const bool there = files_are_there();
    char library[PATH_MAX], planner[2 * PATH_MAX];

    if (!tool_library(library))
        doctor_find(FINDING_FAULT, "hbmspill", "make install", "libhbmspill.so is not there");
    else if (!has_planner(library, planner))
        doctor_find(FINDING_WARNING, "hbmspill", "make install",
                    "hbmspill-plan is neither beside %s nor on the PATH: plans are greedy ones", library);
    else if (!planner_starts(planner))
        doctor_find(FINDING_WARNING, "hbmspill", "install Clp (coinor-libclp1); ldd says what it lacks",
                    "%s does not start: plans are greedy ones", planner);
    else
        doctor_find(FINDING_GOOD, "hbmspill", NULL, HBMSPILL_VERSION ", %s", library);
    for (unsigned i = 0; i < warnings->count; i++)
        doctor_find(FINDING_WARNING, "settings", "hbmspill info lists them", "%s", warnings->text[i]);
    if (!warnings->count && there)
        doctor_find(FINDING_GOOD, "settings", NULL, "all are understood, and their files can be opened");
}

void doctor_job(void)
{
    look_at_variables();
    look_at_preloads();
    look_at_parts();
    look_at_jax();
}
