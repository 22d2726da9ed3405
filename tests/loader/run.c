/*
 * run.c - posix_spawn with its output in temporary files.
 */
#include "tests/loader/run.h"

#include <check.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct run_outcome outcome;

static int output_file(void)
{
    char path[] = "/tmp/hbmspill-test-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    unlink(path);
    return fd;
}

static void read_output(int fd, char *text)
{
    ssize_t length = pread(fd, text, RUN_OUTPUT_MAX - 1, 0);
    ck_assert_int_ge(length, 0);
    text[length] = '\0';
    close(fd);
}

const struct run_outcome *run_program(const char *const *arguments, const char *const *variables)
{
    char path[4096], home[4096];
    char *environment[RUN_LIST_MAX + 3] = {path, home};
    size_t count = 2;
    snprintf(path, sizeof path, "PATH=%s", getenv("PATH"));
    snprintf(home, sizeof home, "HOME=%s", getenv("HOME") ? getenv("HOME") : "/");
    for (; variables && *variables && count < RUN_LIST_MAX + 2; variables++)
        environment[count++] = (char *)*variables;
    environment[count] = NULL;

    const int out = output_file(), err = output_file();
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
    pid_t pid;
    int error = posix_spawnp(&pid, arguments[0], &actions, NULL, (char *const *)arguments, environment);
    ck_assert_msg(!error, "%s: %s", arguments[0], strerror(error));
    posix_spawn_file_actions_destroy(&actions);
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    read_output(out, outcome.out);
    read_output(err, outcome.err);
    return &outcome;
}

unsigned int run_count_lines(const char *text, const char *part)
{
    unsigned int count = 0;
    while (*text) {
        const char *end = strchrnul(text, '\n');
        const char *found = strstr(text, part);
        count += found && found < end;
        text = *end ? end + 1 : end;
    }
    return count;
}
