#include "hooks/plan_cache.h"
#include "shim/log.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PLANS_MAX = 64, SCANNED_MAX = 4096, ABANDONED_SECONDS = 3600 };

#define PLANS_BYTES_MAX ((off_t)64 << 20)
#define PLAN_BYTES_MAX ((off_t)16 << 20)
#define SUFFIX ".plan"

/* All components that are not there yet, for the user alone. */
static int make_directories(char *path)
{
    for (char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash)
            *slash = '\0';
        if (mkdir(path, 0700) && errno != EEXIST) {
            int error = -errno;

            if (access(path, F_OK)) { /* what is there may be on a file system that cannot be written */
                if (slash)
                    *slash = '/';
                return error;
            }
        }
        if (!slash)
            return 0;
        *slash = '/';
    }
}

static int choose_directory(char directory[PATH_MAX])
{
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length;

    /* The XDG Base Directory Specification: paths that are not absolute are to be ignored. */
    if (base && base[0] == '/')
        length = snprintf(directory, PATH_MAX, "%s/hbmspill", base);
    else if (home && home[0] == '/')
        length = snprintf(directory, PATH_MAX, "%s/.cache/hbmspill", home);
    else
        return -ENOENT;
    return length < PATH_MAX - 128 ? 0 : -ENAMETOOLONG; /* names of files follow */
}

static int check_directory(const char *directory, const char **why)
{
    struct stat status;

    if (stat(directory, &status) || !S_ISDIR(status.st_mode)) {
        *why = "it is no directory";
        return -ENOTDIR;
    }
    if (status.st_uid != geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH))) {
        *why = "others may write it";
        return -EPERM;
    }
    if (access(directory, R_OK | W_OK | X_OK)) {
        *why = strerror(errno);
        return -errno;
    }
    return 0;
}

static int open_temporary(struct plan_cache *cache)
{
    const char *base = getenv("TMPDIR");

    if (snprintf(cache->directory, sizeof cache->directory, "%s/hbmspill-XXXXXX",
                 base && base[0] == '/' ? base : "/tmp") >= PATH_MAX - 128)
        return -ENAMETOOLONG;
    if (!mkdtemp(cache->directory))
        return -errno;
    cache->temporary = true;
    return 0;
}

int plan_cache_open(struct plan_cache *cache)
{
    const char *why = NULL;
    int error = choose_directory(cache->directory);

    cache->temporary = false;
    if (error) {
        log_once(LOG_WARN, LOG_IN_PLANS,
                 "neither XDG_CACHE_HOME nor HOME names a directory: plans are not kept");
        return open_temporary(cache);
    }
    error = make_directories(cache->directory);
    if (error)
        why = strerror(-error);
    else
        error = check_directory(cache->directory, &why);
    if (!error)
        return 0;
    log_once(LOG_WARN, LOG_IN_PLANS, "%s: %s: plans are not kept", cache->directory, why);
    return open_temporary(cache);
}

/* Calls visit for every file whose name begins with prefix, until it returns true. */
static void visit_files(const char *directory, const char *prefix,
                        bool (*visit)(void *context, const char *directory, const char *name), void *context)
{
    DIR *stream = opendir(directory);
    struct dirent *entry;

    if (!stream)
        return;
    for (unsigned i = 0; i < SCANNED_MAX && (entry = readdir(stream)); i++)
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 && strstr(entry->d_name, SUFFIX) &&
            visit(context, directory, entry->d_name))
            break;
    closedir(stream);
}

static bool remove_file(void *context, const char *directory, const char *name)
{
    char path[PATH_MAX];

    (void)context;
    if (snprintf(path, sizeof path, "%s/%s", directory, name) < PATH_MAX)
        unlink(path);
    return false;
}

void plan_cache_close(struct plan_cache *cache)
{
    if (!cache->temporary)
        return;
    visit_files(cache->directory, "", remove_file, NULL);
    rmdir(cache->directory);
    cache->temporary = false;
}

/*
 * What a plan was better for, besides what its round's hash says: the link's rates, and how long the round
 * computes. What is measured again is not quite the same, and a plan for about as much is still good; beyond
 * that it may be worse than the schedule made at once. The time of a round varies less than a link does.
 */
enum { IN, OUT, COMPUTE, MEASURES };

static const double tolerance[MEASURES] = {1.25, 1.25, 1.1};

/* The plan for what is nearest to these measures. */
struct wanted {
    double measure[MEASURES];
    double off; /* of the one found: by what factor a measure differs, the largest one; 0: none is found */
    char prefix[64], found[NAME_MAX + 1];
};

static double deviation(double a, double b)
{
    return a > b ? a / b : b / a;
}

static bool fits(void *context, const char *directory, const char *name)
{
    struct wanted *wanted = context;
    const char *text = name + strlen(wanted->prefix);
    double off = 0;

    (void)directory;
    for (unsigned i = 0; i < MEASURES; i++) {
        char *end;
        double measure = strtod(text, &end), by;

        if (end == text || !(measure > 0) || (i + 1 < MEASURES ? *end != '-' : strcmp(end, SUFFIX) != 0))
            return false;
        by = deviation(measure, wanted->measure[i]);
        if (by > tolerance[i])
            return false;
        if (by > off)
            off = by;
        text = end + 1;
    }
    if (wanted->off <= 0 || off < wanted->off) {
        wanted->off = off;
        snprintf(wanted->found, sizeof wanted->found, "%s", name);
    }
    return false;
}

int plan_cache_path(const struct plan_cache *cache, const struct cycle *cycle, uint64_t hash,
                    char path[PATH_MAX])
{
    struct wanted wanted = {.measure = {cycle->in, cycle->out, 1}}; /* of nothing there is no tenth */

    for (uint32_t i = 0; i < cycle->length; i++)
        wanted.measure[COMPUTE] += cycle->ops[i].duration;
    snprintf(wanted.prefix, sizeof wanted.prefix, "%016" PRIx64 "-%.1e-", hash, (double)cycle->capacity);
    snprintf(wanted.found, sizeof wanted.found, "%s%.1e-%.1e-%.2e" SUFFIX, wanted.prefix, cycle->in,
             cycle->out, wanted.measure[COMPUTE]);
    visit_files(cache->directory, wanted.prefix, fits, &wanted);
    if (snprintf(path, PATH_MAX, "%s/%s", cache->directory, wanted.found) >= PATH_MAX)
        return -ENAMETOOLONG;
    return 0;
}

static int wrong(int error, char *why, size_t why_size, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static int wrong(int error, char *why, size_t why_size, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(why, why_size, format, arguments);
    va_end(arguments);
    return error;
}

/* Opened without waiting for whoever may be at the other end, and without following a link if private. */
static int open_plan(const char *path, bool private, char *why, size_t why_size)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (private ? O_NOFOLLOW : 0));
    int error = 0;

    if (fd < 0)
        return errno == ENOENT ? -ENOENT : wrong(-errno, why, why_size, "%s", strerror(errno));
    if (fstat(fd, &status))
        error = wrong(-errno, why, why_size, "%s", strerror(errno));
    else if (!S_ISREG(status.st_mode))
        error = wrong(-EINVAL, why, why_size, "it is no file");
    else if (private && status.st_uid != geteuid())
        error = wrong(-EPERM, why, why_size, "it is another user's");
    else if (private && (status.st_mode & (S_IWGRP | S_IWOTH)))
        error = wrong(-EPERM, why, why_size, "others may write it");
    else if (status.st_size > PLAN_BYTES_MAX)
        error = wrong(-EFBIG, why, why_size, "it is larger than any plan");
    if (!error)
        return fd;
    close(fd);
    return error;
}

int plan_read(const char *path, uint64_t hash, bool private, struct schedule **out, char *why,
              size_t why_size)
{
    struct schedule *schedule = NULL;
    int error, fd = open_plan(path, private, why, why_size);
    FILE *file;

    if (fd < 0)
        return fd;
    file = fdopen(fd, "r");
    if (!file) {
        close(fd);
        return wrong(-ENOMEM, why, why_size, "out of memory");
    }
    error = schedule_read(file, &schedule, why, why_size);
    if (!error && schedule->cycle_hash != hash)
        error = wrong(-ESTALE, why, why_size, "it is for another round");
    if (!error && private)
        (void)futimens(fileno(file), NULL); /* used now: it goes last (plan_cache_trim) */
    fclose(file);
    if (error)
        schedule_free(schedule);
    else
        *out = schedule;
    return error;
}

struct kept {
    char name[NAME_MAX + 1];
    time_t used;
    off_t size;
};

struct listing {
    struct kept *files;
    size_t count, capacity;
};

static bool list_file(void *context, const char *directory, const char *name)
{
    struct listing *listing = context;
    const char *suffix = strstr(name, SUFFIX);
    char path[PATH_MAX];
    struct stat status;

    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= PATH_MAX || lstat(path, &status))
        return false;
    if (suffix[sizeof SUFFIX - 1]) { /* one that is being written, or was */
        if (status.st_mtime < time(NULL) - ABANDONED_SECONDS)
            unlink(path);
        return false;
    }
    if (listing->count == listing->capacity) {
        size_t capacity = listing->capacity ? 2 * listing->capacity : PLANS_MAX;
        struct kept *files = realloc(listing->files, capacity * sizeof *files);

        if (!files)
            return true;
        listing->files = files;
        listing->capacity = capacity;
    }
    listing->files[listing->count] = (struct kept){.used = status.st_mtime, .size = status.st_size};
    snprintf(listing->files[listing->count++].name, NAME_MAX + 1, "%s", name);
    return false;
}

static int newest_first(const void *a, const void *b)
{
    const struct kept *x = a, *y = b;

    return x->used > y->used ? -1 : x->used < y->used;
}

void plan_cache_trim(const struct plan_cache *cache)
{
    struct listing listing = {.files = NULL};
    off_t bytes = PLAN_BYTES_MAX; /* for the one to come */

    visit_files(cache->directory, "", list_file, &listing);
    if (listing.count)
        qsort(listing.files, listing.count, sizeof *listing.files, newest_first);
    for (size_t i = 0; i < listing.count; i++) {
        bytes += listing.files[i].size;
        if (i >= PLANS_MAX - 1 || bytes > PLANS_BYTES_MAX)
            remove_file(NULL, cache->directory, listing.files[i].name);
    }
    free(listing.files);
}
