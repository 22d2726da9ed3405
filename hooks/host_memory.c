#include "hooks/host_memory.h"
#include "shim/log.h"
#include "shim/options.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

/* The file's first bytes as a string; false where it cannot be read. */
static bool read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length;

    if (fd < 0)
        return false;
    length = read(fd, text, size - 1);
    close(fd);
    if (length <= 0)
        return false;
    text[length] = '\0';
    return true;
}

static bool read_number(const char *path, uint64_t *value)
{
    char text[64], *end;

    if (!read_text(path, text, sizeof text))
        return false;
    *value = strtoull(text, &end, 10); /* "max" is no number: no limit */
    return end != text;
}

static uint64_t meminfo_available(void)
{
    char text[4096];
    const char *line;

    if (!read_text("/proc/meminfo", text, sizeof text) || !(line = strstr(text, "MemAvailable:")))
        return 0;
    return strtoull(line + strlen("MemAvailable:"), NULL, 10) * 1024;
}

static void cgroup_clamp(const char *limit_path, const char *usage_path, uint64_t *available)
{
    uint64_t limit, usage;

    if (!read_number(limit_path, &limit))
        return;
    if (!read_number(usage_path, &usage))
        usage = 0;
    limit = limit > usage ? limit - usage : 0;
    if (limit < *available)
        *available = limit;
}

/* The process's own group first, as /proc/self/cgroup names it, then the root a container sees. */
static void cgroups_clamp(uint64_t *available)
{
    char text[4096], path[1200], usage[1200];
    char *line, *rest = NULL;

    if (read_text("/proc/self/cgroup", text, sizeof text)) {
        for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
            if (!strncmp(line, "0::", 3)) {
                snprintf(path, sizeof path, "/sys/fs/cgroup%.1000s/memory.max", line + 3);
                snprintf(usage, sizeof usage, "/sys/fs/cgroup%.1000s/memory.current", line + 3);
                cgroup_clamp(path, usage, available);
            } else if (strstr(line, ":memory:")) {
                const char *group = strstr(line, ":memory:") + strlen(":memory:");

                snprintf(path, sizeof path, "/sys/fs/cgroup/memory%.1000s/memory.limit_in_bytes", group);
                snprintf(usage, sizeof usage, "/sys/fs/cgroup/memory%.1000s/memory.usage_in_bytes", group);
                cgroup_clamp(path, usage, available);
            }
        }
    }
    cgroup_clamp("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", available);
    cgroup_clamp("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes",
                 available);
}

static uint64_t limit_bytes;

static void work_out(void)
{
    const struct options *options = options_get();
    uint64_t available = meminfo_available(), wanted;

    cgroups_clamp(&available);
    wanted = options_amount(&options->host_limit, available, available / 2);
    if (wanted > available) {
        log_warn("host", "HBMSPILL_HOST_LIMIT asks for %llu MiB, %llu MiB are available: using that",
                 (unsigned long long)(wanted / MIB), (unsigned long long)(available / MIB));
        wanted = available;
    }
    limit_bytes = wanted;
}

uint64_t host_memory_limit(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, work_out);
    return limit_bytes;
}
