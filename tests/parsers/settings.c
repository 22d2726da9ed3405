/*
 * settings.c - any bytes as a file of settings: what is taken is a list of NAME=VALUE, every line that is not
 * is one complaint, and a file that is written again from what was taken is taken again, as the same list.
 */
#include "shim/options_file.h"
#include "tests/parsers/target.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct option_file files[OPTION_FILES];
static struct option_warnings warnings;
static struct options options;

static void read_bytes(const void *data, size_t size)
{
    char variable[64];
    char *const environment[] = {variable, NULL};
    int fd = memfd_create("settings", MFD_CLOEXEC);

    EXPECT(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(variable, sizeof variable, "HBMSPILL_CONFIG=/proc/self/fd/%d", fd);
    memset(files, 0xa5, sizeof files);
    warnings.count = warnings.dropped = 0;
    options_files_read(environment, files, &warnings);
    close(fd);
}

static unsigned check_list(char *const *list)
{
    unsigned count = 0;

    for (; list[count]; count++) {
        const char *equals = strchr(list[count], '=');

        EXPECT(count < OPTION_FILE_LINES && equals && !strncmp(list[count], "HBMSPILL", 8));
        EXPECT(!strpbrk(list[count], "\n") && !strchr(" \t\r", equals[-1]) &&
               !(equals[1] && strchr(" \t\r", equals[1])));
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char again[OPTION_FILE_BYTES], before[OPTION_FILE_BYTES];
    size_t length = 0;
    unsigned count;

    read_bytes(data, size);
    judged(!warnings.count && files[0].variable[0]);
    EXPECT(!files[1].variable[0]);
    count = check_list(files[0].variable);
    options_parse(files[0].variable, &options, &warnings); /* forgets the complaints of reading */
    for (unsigned i = 0; i < count; i++)                   /* no longer than what was read */
        length += (size_t)snprintf(again + length, sizeof again - length, "%s\n", files[0].variable[i]);
    if (length >= sizeof again - 1)
        return 0;
    memcpy(before, again, length + 1);
    read_bytes(again, length);
    EXPECT(!warnings.count && check_list(files[0].variable) == count);
    for (unsigned i = 0, at = 0; i < count; at += (unsigned)strlen(files[0].variable[i++]) + 1)
        EXPECT(!strncmp(before + at, files[0].variable[i], strlen(files[0].variable[i])));
    return 0;
}
