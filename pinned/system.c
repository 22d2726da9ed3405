#include "pinned/system.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PATH_BYTES = 1400 };

/* The file's first bytes as a string: 0, -ENOENT, another error. */
static int read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), error;
    ssize_t length;

    memset(text, 0, size);
    if (fd < 0)
        return errno == ENOTDIR ? -ENOENT : -errno;
    length = read(fd, text, size - 1);
    error = length < 0 ? -errno : 0;
    close(fd);
    return error;
}

/* The number behind a name at the beginning of a line. */
static bool find_line(const char *text, const char *name, uint64_t *value)
{
    size_t length = strlen(name);

    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!strncmp(line, name, length) && (isblank((unsigned char)line[length]) || line[length] == ':')) {
            *value = strtoull(line + length + 1, NULL, 10);
            return true;
        }
    }
    return false;
}

static uint64_t meminfo_available(const char *root)
{
    char path[PATH_BYTES], text[8192];
    uint64_t kib;

    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    return !read_text(path, text, sizeof text) && find_line(text, "MemAvailable", &kib) ? kib * 1024 : 0;
}

/* The names of one version of control groups. */
struct cgroup_version {
    const char *mount, *limit, *usage, *reclaimable;
};
static const struct cgroup_version v1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                         "memory.usage_in_bytes", "total_inactive_file"};
static const struct cgroup_version v2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};
/* Where both are mounted. */
static const struct cgroup_version hybrid = {"/sys/fs/cgroup/unified", "memory.max", "memory.current",
                                             "inactive_file"};

/* A number, "max" for none; 0, -ENOENT where there is no such file, -EIO where it is not understood. */
static int read_limit(const char *path, uint64_t *value)
{
    char text[64], *end;
    int error = read_text(path, text, sizeof text);

    if (error)
        return error;
    if (!strncmp(text, "max", 3)) {
        *value = UINT64_MAX;
        return 0;
    }
    errno = 0;
    *value = strtoull(text, &end, 10);
    return end == text || errno || text[0] == '-' ? -EIO : 0;
}

/* What one group leaves; UINT64_MAX where it has no limit. */
static uint64_t group_left(const char *root, const struct cgroup_version *version, const char *group,
                           struct system_memory *out)
{
    char path[PATH_BYTES], text[8192];
    uint64_t limit, usage = 0, dropped = 0;
    int error;

    snprintf(path, sizeof path, "%s%s%s/%s", root, version->mount, group, version->limit);
    error = read_limit(path, &limit);
    if (error) {
        if (error != -ENOENT && !out->trouble[0])
            snprintf(out->trouble, sizeof out->trouble, "%.200s: %s", path,
                     error == -EIO ? "not a limit" : strerror(-error));
        return UINT64_MAX;
    }
    if (limit >= UINT64_MAX / 2) /* v1 says no limit by a large number */
        return UINT64_MAX;
    snprintf(path, sizeof path, "%s%s%s/%s", root, version->mount, group, version->usage);
    (void)read_limit(path, &usage);
    snprintf(path, sizeof path, "%s%s%s/memory.stat", root, version->mount, group);
    if (!read_text(path, text, sizeof text) && find_line(text, version->reclaimable, &dropped))
        usage = usage > dropped ? usage - dropped : 0;
    return limit > usage ? limit - usage : 0;
}

/* The group and all above it: each may have a limit. A container sees its own as the root. */
static void groups_left(const char *root, const struct cgroup_version *version, char *group,
                        struct system_memory *out)
{
    for (;;) {
        uint64_t left;
        char *slash;

        if (!strcmp(group, "/"))
            group[0] = '\0';
        left = group_left(root, version, group, out);
        if (left < out->cgroup)
            out->cgroup = left;
        slash = strrchr(group, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
}

/* Calls for each hierarchy that has to do with memory; group may be written to. */
static void each_group(const char *root,
                       void (*visit)(const char *root, const struct cgroup_version *version, char *group,
                                     void *context),
                       void *context)
{
    char path[PATH_BYTES], text[4096], group[1024], *rest = NULL;

    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (read_text(path, text, sizeof text))
        text[0] = '\0';
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *names = strchr(line, ':'), *of = names ? strchr(names + 1, ':') : NULL;

        if (!of)
            continue;
        *of = '\0';
        snprintf(group, sizeof group, "%s", of + 1);
        if (!strcmp(names, ":")) {
            visit(root, &v2, group, context);
            snprintf(group, sizeof group, "%s", of + 1);
            visit(root, &hybrid, group, context);
        } else if (strstr(names, "memory")) {
            visit(root, &v1, group, context);
        }
    }
}

static void visit_limit(const char *root, const struct cgroup_version *version, char *group, void *context)
{
    groups_left(root, version, group, context);
}

void system_memory_read(const char *root, struct system_memory *out)
{
    struct rlimit memlock;
    char none[] = "";

    *out = (struct system_memory){.available = meminfo_available(root), .cgroup = UINT64_MAX};
    each_group(root, visit_limit, out);
    /* Where /proc does not tell, or names a group outside of the container: the roots. */
    groups_left(root, &v2, none, out);
    groups_left(root, &v1, none, out);
    out->memlock = getrlimit(RLIMIT_MEMLOCK, &memlock) || memlock.rlim_cur == RLIM_INFINITY
                       ? UINT64_MAX
                       : (uint64_t)memlock.rlim_cur;
}

static void read_pressure(const char *path, double *pressure)
{
    static const char begins[] = "some avg10=";
    char text[256], *end;
    double percent;

    if (read_text(path, text, sizeof text) || strncmp(text, begins, sizeof begins - 1) != 0)
        return;
    /* Two digits behind a point, whatever the job's locale has strtod think of it. */
    percent = (double)strtoul(text + sizeof begins - 1, &end, 10);
    if (*end == '.')
        percent += (double)strtoul(end + 1, NULL, 10) / 100;
    if (percent > *pressure)
        *pressure = percent;
}

static void visit_pressure(const char *root, const struct cgroup_version *version, char *group, void *context)
{
    char path[PATH_BYTES];

    snprintf(path, sizeof path, "%s%s%s/memory.pressure", root, version->mount, group);
    read_pressure(path, context);
}

double system_pressure(const char *root)
{
    char path[PATH_BYTES];
    double pressure = -1;

    snprintf(path, sizeof path, "%s/proc/pressure/memory", root);
    read_pressure(path, &pressure);
    each_group(root, visit_pressure, &pressure);
    return pressure;
}

int system_device_node(const char *root, const char *pci)
{
    char path[PATH_BYTES], text[32], *end, name[32];
    long node;
    size_t i;

    for (i = 0; pci[i] && i + 1 < sizeof name; i++)
        name[i] = (char)tolower((unsigned char)pci[i]); /* as sysfs has them */
    name[i] = '\0';
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/numa_node", root, name);
    if (read_text(path, text, sizeof text))
        return -1;
    node = strtol(text, &end, 10);
    return end == text || node < 0 || node > INT16_MAX ? -1 : (int)node;
}

bool system_node_listed(const char *root, const char *name, int node)
{
    char path[PATH_BYTES], text[4096];
    const char *at = text;

    snprintf(path, sizeof path, "%s/sys/devices/system/node/%s", root, name);
    if (read_text(path, text, sizeof text))
        return false;
    while (isdigit((unsigned char)*at)) {
        char *end;
        long first = strtol(at, &end, 10), last = first;

        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        if (node >= first && node <= last)
            return true;
        at = *end == ',' ? end + 1 : end;
        if (at == end)
            break;
    }
    return false;
}
