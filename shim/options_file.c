#include "shim/options_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *options_value_in(char *const *list, const char *name)
{
    const size_t length = strlen(name);

    for (; list && *list; list++)
        if (!strncmp(*list, name, length) && (*list)[length] == '=' && (*list)[length + 1])
            return *list + length + 1;
    return NULL;
}

/* The length read, or -errno; -EFBIG for more than there is room for. */
static ssize_t read_whole(const char *path, char text[OPTION_FILE_BYTES])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    ssize_t got = 0, used = 0;

    if (fd < 0)
        return -errno;
    while (used < OPTION_FILE_BYTES - 1 &&
           (got = read(fd, text + used, (size_t)(OPTION_FILE_BYTES - 1 - used))))
        if (got > 0)
            used += got;
        else if (errno != EINTR)
            break;
    got = got < 0 ? -errno : used == OPTION_FILE_BYTES - 1 ? -EFBIG : used;
    close(fd);
    if (got >= 0)
        text[got] = '\0';
    return got;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The line as NAME=VALUE, in place; NULL where it is neither empty nor a setting: *bad. */
static char *setting_of(char *line, bool *bad)
{
    char *end, *equals, *to;

    *bad = false;
    while (is_blank(*line))
        line++;
    if (!*line || *line == '#')
        return NULL;
    equals = strchr(line, '=');
    *bad = strncmp(line, "HBMSPILL", 8) != 0 || !equals;
    if (*bad)
        return NULL;
    for (to = equals; is_blank(to[-1]); to--)
        ;
    *to++ = '=';
    for (equals++; is_blank(*equals); equals++)
        ;
    end = equals + strlen(equals);
    while (end > equals && is_blank(end[-1]))
        end--;
    memmove(to, equals, (size_t)(end - equals));
    to[end - equals] = '\0';
    return line;
}

static void parse(struct option_file *file, struct option_warnings *warnings)
{
    unsigned count = 0, number = 1;
    char *next;

    for (char *line = file->text; line; line = next, number++) {
        char *setting;
        bool bad;

        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        setting = setting_of(line, &bad);
        if (bad || (setting && count == OPTION_FILE_LINES))
            options_warn(warnings, "%.128s:%u ignored: %s", file->path, number,
                         bad ? "a line is NAME = VALUE with the name of a variable"
                             : "there are too many lines");
        else if (setting)
            file->variable[count++] = setting;
    }
    file->variable[count] = NULL;
}

static void read_one(struct option_file *file, bool wanted, struct option_warnings *warnings)
{
    ssize_t length = read_whole(file->path, file->text);

    if (length >= 0)
        parse(file, warnings);
    else if (wanted || (length != -ENOENT && length != -ENOTDIR && length != -EACCES))
        options_warn(warnings, "%.128s is not read: %s", file->path, strerrordesc_np((int)-length));
}

void options_files_read(char *const *environment, struct option_file files[OPTION_FILES],
                        struct option_warnings *warnings)
{
    const char *named = options_value_in(environment, "HBMSPILL_CONFIG");
    const char *home = options_value_in(environment, "HOME");
    const char *root = options_value_in(environment, "HBMSPILL_TEST_ROOT");

    for (unsigned i = 0; i < OPTION_FILES; i++) {
        files[i].path[0] = files[i].text[0] = '\0';
        files[i].variable[0] = NULL;
    }
    if (named && !strcmp(named, "none"))
        return;
    if (named) {
        snprintf(files[0].path, OPTION_FILE_PATH, "%s", named);
        read_one(&files[0], true, warnings);
        return;
    }
    if (home &&
        snprintf(files[0].path, OPTION_FILE_PATH, "%s/.config/hbmspill.conf", home) < OPTION_FILE_PATH)
        read_one(&files[0], false, warnings);
    if (snprintf(files[1].path, OPTION_FILE_PATH, "%s/etc/hbmspill.conf", root ? root : "") <
        OPTION_FILE_PATH)
        read_one(&files[1], false, warnings);
}
