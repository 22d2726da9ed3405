/*
 * A job whose rounds repeat, and the plans that a process beside it makes for them: they are taken up and
 * kept, whatever is wrong with them changes no result, and the job notices nothing of the process.
 *
 * Called with --seconds first, this program is a planner: it notes what is wrong with the surroundings it was
 * started in, and then does what PLANNER_DOES says.
 */
#include "cache/cycle.h"
#include "tests/integration/job.h"
#include "tests/integration/scenario.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BUFFERS = 12, TOUCHED = 1024, FEW = 8, MORE = 5, PATIENCE_MS = 5000 };

/* ---- the job ---- */

static uint32_t expected[BUFFERS][TOUCHED];

/* Not all alike: rounds are told by the sizes of what they touch. */
static size_t words_of(uint32_t buffer)
{
    return (buffer == 0 ? 6 : buffer == 5 ? 2 : 4) * MIB / sizeof(uint32_t);
}

/* Every buffer but for its first words keeps what it was filled with. */
static void check_buffer(CUdeviceptr at, uint32_t buffer)
{
    size_t count = words_of(buffer);
    uint32_t *words = malloc(count * sizeof *words);

    REQUIRE(words);
    CU(cuMemcpyDtoH(words, at, count * sizeof *words));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t right = i < TOUCHED ? expected[buffer][i] : job_word(buffer, i);

        REQUIRE(words[i] == right, "buffer %u, word %u: %08x instead of %08x", buffer, i, words[i], right);
    }
    free(words);
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);

    return length >= end_length && !strcmp(text + length - end_length, end);
}

/* Files that were there before the job began, damaged ones perhaps, are not what it waits for. */
static struct timespec job_began;

static bool is_new(const char *path)
{
    struct stat status;

    return !lstat(path, &status) && S_ISREG(status.st_mode) &&
           (status.st_mtim.tv_sec > job_began.tv_sec ||
            (status.st_mtim.tv_sec == job_began.tv_sec && status.st_mtim.tv_nsec >= job_began.tv_nsec));
}

/* The new plans in a directory; the path of one of them. */
static unsigned plans_in(const char *directory, char path[PATH_MAX])
{
    DIR *stream = opendir(directory);
    unsigned count = 0;
    struct dirent *entry;

    while (stream && (entry = readdir(stream))) {
        char below[PATH_MAX];

        if (snprintf(below, sizeof below, "%s/%s", directory, entry->d_name) >= PATH_MAX)
            continue;
        if (ends_with(entry->d_name, ".plan") && is_new(below)) {
            count++;
            if (path)
                strcpy(path, below);
        } else if (!strncmp(entry->d_name, "hbmspill-", 9)) { /* a temporary one */
            count += plans_in(below, path);
        }
    }
    if (stream)
        closedir(stream);
    return count;
}

/* FEW rounds, slowly if SLOW is set; or, where UNTIL names a directory, until there is a plan in it, and
 * MORE. */
static void rounds(void (*each)(void))
{
    const char *until = getenv("UNTIL");
    unsigned left = FEW, waited = 0;
    CUdeviceptr at[BUFFERS];
    CUstream stream;

    clock_gettime(CLOCK_REALTIME, &job_began);
    cuda_start();
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (uint32_t i = 0; i < BUFFERS; i++) {
        CU(cuMemAllocAsync(&at[i], words_of(i) * sizeof(uint32_t), stream));
        job_fill(at[i], words_of(i), i, stream);
        for (uint32_t k = 0; k < TOUCHED; k++)
            expected[i][k] = job_word(i, k);
    }
    while (left) {
        for (uint32_t i = 0; i < BUFFERS; i++) {
            job_add(at[i], at[(i + 1) % BUFFERS], TOUCHED, stream);
            for (uint32_t k = 0; k < TOUCHED; k++)
                expected[i][k] += expected[(i + 1) % BUFFERS][k];
        }
        CU(cuStreamSynchronize(stream));
        if (each)
            each();
        if (getenv("SLOW"))
            usleep(60000);
        left--;
        if (!left && until && waited < PATIENCE_MS) {
            usleep(20000);
            waited += 20;
            left = 1;
        }
        if (until && plans_in(until, NULL)) {
            usleep(100000); /* longer than a poll is apart from the next */
            until = NULL;
            left = MORE;
        }
    }
    for (uint32_t i = 0; i < BUFFERS; i++)
        check_buffer(at[i], i);
}

static void plain_rounds(void)
{
    rounds(NULL);
}

static atomic_uint children_reported;

static void on_child(int signal)
{
    (void)signal;
    atomic_fetch_add(&children_reported, 1);
}

static void no_child(void)
{
    int status;

    REQUIRE(atomic_load(&children_reported) == 0);
    errno = 0;
    REQUIRE(waitpid(-1, &status, WNOHANG) == -1 && errno == ECHILD);
    REQUIRE(waitpid(-1, &status, WNOHANG | __WALL) == -1 && errno == ECHILD);
}

static void watching(void)
{
    struct sigaction action = {.sa_handler = on_child};

    signal(SIGPIPE, SIG_IGN); /* as Python does; not to be inherited */
    signal(SIGUSR1, SIG_IGN);
    REQUIRE(!sigaction(SIGCHLD, &action, NULL));
    rounds(no_child);
}

/* The blocking form: what wait() returns is the job's own child and nothing else. */
static void *wait_for_own(void *pid)
{
    int status;

    REQUIRE(wait(&status) == (pid_t)(intptr_t)pid);
    REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    return NULL;
}

static void waiting(void)
{
    int pipes[2];
    pthread_t thread;
    pid_t own;
    char byte;

    REQUIRE(!pipe2(pipes, O_CLOEXEC));
    own = fork();
    REQUIRE(own >= 0);
    if (!own) {
        close(pipes[1]);
        (void)!read(pipes[0], &byte, 1); /* until the job closes its end */
        _exit(7);
    }
    close(pipes[0]);
    REQUIRE(!pthread_create(&thread, NULL, wait_for_own, (void *)(intptr_t)own));
    rounds(NULL);
    close(pipes[1]);
    pthread_join(thread, NULL);
}

static void fork_one(void)
{
    static unsigned count;
    int status;
    pid_t pid;

    if (++count > 20)
        return;
    pid = fork();
    REQUIRE(pid >= 0);
    if (!pid) {
        free(malloc(100000));
        exit(5); /* with all handlers */
    }
    REQUIRE(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 5);
}

static void forking(void)
{
    rounds(fork_one);
}

static void adopting(void)
{
    REQUIRE(!prctl(PR_SET_CHILD_SUBREAPER, 1));
    rounds(no_child);
}

/* ---- the planner ---- */

static FILE *note;

static void wish(bool granted, const char *what)
{
    if (!granted)
        fprintf(note, "%s\n", what);
}

static void look_around(void)
{
    struct stat in, out, err, null;
    sigset_t mask;

    sigprocmask(SIG_SETMASK, NULL, &mask);
    for (int i = 1; i <= 64; i++) {
        struct sigaction action;
        char text[64];

        snprintf(text, sizeof text, "signal %d is not as at the start of a program", i);
        if (i != 32 && i != 33) /* libc's own */
            wish(!sigismember(&mask, i) && !sigaction(i, NULL, &action) && action.sa_handler == SIG_DFL,
                 text);
    }
    for (int fd = 3; fd < 1024; fd++)
        if (fd != fileno(note) && fcntl(fd, F_GETFD) >= 0)
            fprintf(note, "descriptor %d is open\n", fd);
    wish(!fstat(0, &in) && S_ISREG(in.st_mode) && in.st_size > 0, "standard input is no file");
    wish(!stat("/dev/null", &null) && !fstat(1, &out) && !fstat(2, &err) && out.st_rdev == null.st_rdev &&
             err.st_rdev == null.st_rdev,
         "standard output is not /dev/null");
    wish(getsid(0) == getpid(), "it is in a session of somebody's");
    wish(getpriority(PRIO_PROCESS, 0) == 19, "it is not nice");
    wish(!getenv("LD_PRELOAD") || !strcmp(getenv("LD_PRELOAD"), "/none.so"), "LD_PRELOAD is left");
    for (char **variable = environ; *variable; variable++)
        wish(strncmp(*variable, "HBMSPILL", 8) != 0, *variable);
    wish(getenv("PLANNER_DOES") && getenv("PATH"), "the environment is not the job's");
}

/* Whether it was told which process it is to end with: one that runs this program. */
static bool knows_the_job(int argc, char **argv)
{
    char link[64], own[PATH_MAX] = "", of_job[PATH_MAX] = "-";

    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "--with") != 0)
            continue;
        snprintf(link, sizeof link, "/proc/%.20s/exe", argv[i + 1]);
        return readlink("/proc/self/exe", own, sizeof own - 1) > 0 &&
               readlink(link, of_job, sizeof of_job - 1) > 0 && !strcmp(own, of_job);
    }
    return false;
}

static unsigned draw(uint64_t *state, unsigned below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return below ? (unsigned)(*state >> 33) % below : 0;
}

/* As the planner puts a plan in place: whole or not at all, however long the writing takes. */
static FILE *open_beside(const char *path, char *beside)
{
    snprintf(beside, PATH_MAX, "%s.part", path);
    return fopen(beside, "we");
}

static int put_in_place(FILE *file, const char *beside, const char *path)
{
    return fclose(file) || rename(beside, path);
}

static int junk(const char *path)
{
    char beside[PATH_MAX];
    FILE *file = open_beside(path, beside);

    return !file || fputs("hbmspill-plan 2\njunk\n", file) < 0 || put_in_place(file, beside, path);
}

/* A plan with the right hash whose moves make no sense. */
static int plan_by_chance(const char *path, uint64_t seed)
{
    struct schedule schedule = {.predicted = 1};
    struct cycle *cycle;
    char why[160], beside[PATH_MAX];
    FILE *file = fopen("/dev/stdin", "re");

    if (!file || cycle_read(file, &cycle, why, sizeof why))
        return 1;
    schedule.cycle_hash = cycle_hash(cycle);
    for (unsigned i = 0; i < 200; i++) {
        struct schedule_action action = {.kind = draw(&seed, 2) ? SCHEDULE_IN : SCHEDULE_OUT,
                                         .buffer = draw(&seed, cycle->buffer_count),
                                         .at = draw(&seed, cycle->length)};
        uint32_t pieces = cycle_pieces(cycle, action.buffer);

        action.first = draw(&seed, pieces);
        action.count = 1 + draw(&seed, pieces - action.first);
        if (schedule_add(&schedule, &action))
            return 1;
    }
    schedule_sort(&schedule);
    file = open_beside(path, beside);
    return !file || schedule_write(&schedule, file) || put_in_place(file, beside, path);
}

static int planner(int argc, char **argv)
{
    const char *does = getenv("PLANNER_DOES"), *path = argv[argc - 1];

    if (!does || !getenv("PLANNER_NOTE"))
        return 1;
    note = fopen(getenv("PLANNER_NOTE"), "ae");
    if (!note)
        return 1;
    fprintf(note, "started\n");
    look_around();
    wish(knows_the_job(argc, argv), "it was not told which process it is to end with");
    fclose(note);
    alarm(20);
    if (!strcmp(does, "hang"))
        return sleep(4) ? 1 : 0;
    if (!strcmp(does, "crash"))
        raise(SIGKILL);
    if (!strcmp(does, "junk"))
        return junk(path);
    if (!strncmp(does, "chance", 6))
        return plan_by_chance(path, strtoull(does + 6, NULL, 10));
    execv(PLANNER, argv);
    return 1;
}

/* ---- the tests ---- */

static const struct scenario jobs[] = {
    {.name = "rounds", .job = plain_rounds}, {.name = "watching", .job = watching},
    {.name = "waiting", .job = waiting},     {.name = "forking", .job = forking},
    {.name = "adopting", .job = adopting},
};
enum job_name { ROUNDS, WATCHING, WAITING, FORKING, ADOPTING, JOBS };
_Static_assert(sizeof jobs / sizeof *jobs == JOBS, "a name for each job");

static char top[64], self[PATH_MAX];

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *ftw)
{
    (void)status;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static const char *in_top(const char *name)
{
    static char path[4][PATH_MAX];
    static unsigned next;

    next = (next + 1) % 4;
    snprintf(path[next], PATH_MAX, "%s/%s", top, name);
    return path[next];
}

static void set_up(void)
{
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

    ck_assert_int_gt(length, 0);
    self[length] = '\0';
    snprintf(top, sizeof top, "/tmp/hbmspill-planner-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(top));
    ck_assert_int_eq(mkdir(in_top("temporary"), 0700), 0);
}

static void clean_up(void)
{
    ck_assert_int_eq(nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* A run that may plan. Variables: more of them, and UNTIL where a plan is expected. */
static const struct outcome *run(enum job_name job, const char *schedule, const char *does,
                                 const char *variables)
{
    char text[3 * PATH_MAX];
    const struct outcome *outcome;

    snprintf(text, sizeof text,
             "SYNTHETIC_GPU_CLOCK=1 HBMSPILL_PLAN=auto HBMSPILL_LOG=info XDG_CACHE_HOME=%s TMPDIR=%s "
             "HBMSPILL_PLANNER=%s PLANNER_DOES=%s PLANNER_NOTE=%s %s",
             in_top("cache"), in_top("temporary"), self, does, in_top("note"), variables);
    outcome = scenario_run(&jobs[job], schedule, text);
    ck_assert_msg(outcome->status == 0, "status %d\n%s", outcome->status, outcome->err);
    ck_assert_msg(strstr(outcome->report, "\"hazards\": []") != NULL, "%s", outcome->report);
    ck_assert_uint_gt(outcome_number(outcome->statistics, "evictions"), 0);
    return outcome;
}

static const char *until(void)
{
    static char text[PATH_MAX + 8];

    snprintf(text, sizeof text, "UNTIL=%s", in_top("cache/hbmspill"));
    return text;
}

static uint64_t taken_up(const struct outcome *outcome)
{
    return outcome_number(outcome->statistics, "plans_taken_up");
}

static unsigned lines_with(const struct outcome *outcome, const char *text)
{
    unsigned count = 0;

    for (const char *at = outcome->err; (at = strstr(at, text)); at++)
        count++;
    return count;
}

/* What planners noted: each that it was started, and nothing else. */
static void check_note(unsigned starts)
{
    char text[4096] = "", *at = text;
    FILE *file = fopen(in_top("note"), "re");

    if (file) {
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
    }
    for (unsigned i = 0; i < starts; i++, at += strlen("started\n"))
        ck_assert_msg(!strncmp(at, "started\n", strlen("started\n")), "%u starts expected: %.800s", starts,
                      text);
    ck_assert_msg(!*at, "%.800s", text);
}

static void the_plan(char path[PATH_MAX])
{
    ck_assert_uint_eq(plans_in(in_top("cache/hbmspill"), path), 1);
}

/* Taken up, seen by none of the job's waits; private; nothing else is left behind. */
static void taken_up_unnoticed(void)
{
    enum job_name names[] = {WATCHING, WAITING};
    struct stat status;
    char path[PATH_MAX];

    for (unsigned i = 0; i < 2; i++) {
        const struct outcome *outcome;
        char variables[2 * PATH_MAX];

        /* The clock does not go on while a child of the job runs. */
        snprintf(variables, sizeof variables, "%s %s", until(),
                 names[i] == WAITING ? "SYNTHETIC_GPU_CLOCK=0" : "");
        outcome = run(names[i], "eager", "plan", variables);

        ck_assert_msg(taken_up(outcome) > 0, "%s", outcome->err);
        ck_assert_uint_eq(lines_with(outcome, "found round"), 1);
        ck_assert_uint_eq(lines_with(outcome, "is taken up when it begins next"), 1);
        the_plan(path);
        ck_assert_int_eq(stat(path, &status), 0);
        ck_assert_uint_eq(status.st_mode & 0777, 0600);
        ck_assert_int_eq(stat(in_top("cache/hbmspill"), &status), 0);
        ck_assert_uint_eq(status.st_mode & 0777, 0700);
        ck_assert_uint_eq(status.st_nlink, 2);
        ck_assert_int_eq(unlink(path), 0);
    }
    check_note(2);
}

/* The plan in the cache as if it were for these measures; `compute' times as long a round. */
static void rename_plan(const char *rates, double compute)
{
    static char made_for[32]; /* the plan is made once, and renamed then */
    char path[PATH_MAX], renamed[PATH_MAX + 64], name[64];
    unsigned dashes = 0;
    char *at;

    the_plan(path);
    if (!made_for[0]) {
        char *end = strstr(path, ".plan");

        for (at = end; at[-1] != '-'; at--)
            ;
        snprintf(made_for, sizeof made_for, "%.*s", (int)(end - at), at);
    }
    for (at = strrchr(path, '/'); dashes < 2;) /* HASH-HBM-IN-OUT-COMPUTE.plan */
        dashes += *++at == '-';
    snprintf(name, sizeof name, "%s-%.3e.plan", rates, compute * strtod(made_for, NULL));
    snprintf(renamed, sizeof renamed, "%.*s%s", (int)(at + 1 - path), path, name);
    ck_assert_int_eq(rename(path, renamed), 0);
}

/*
 * A second start begins planned, without a process; so does one whose link, or whose operations, are a little
 * faster or slower. A plan for others may be worse than none.
 */
static void begins_planned(void)
{
    static const struct {
        const char *rates;
        double compute;
        bool fits;
    } measures[] = {{"2.6e+10-2.4e+10", 1, true},  {"3.1e+10-2.1e+10", 1, true},
                    {"3.3e+10-2.5e+10", 1, false}, {"2.5e+10-1.9e+10", 1, false},
                    {"2.5e+10-", 1, false},        {"2.5e+10-2.5e+10", 1.07, true},
                    {"2.5e+10-2.5e+10", 2, false}, {"2.5e+10-2.5e+10", 1 / 1.2, false},
                    {"2.5e+10-2.5e+10", 1, true}};
    const struct outcome *outcome;

    run(ROUNDS, "eager", "plan", until());
    outcome = run(ROUNDS, "lazy", "plan", "HBMSPILL_PLANNER=/none");
    ck_assert_msg(taken_up(outcome) > 0, "%s", outcome->err);
    ck_assert_uint_eq(lines_with(outcome, "begins with the plan in"), 1);
    for (unsigned i = 0; i < sizeof measures / sizeof *measures; i++) {
        rename_plan(measures[i].rates, measures[i].compute);
        outcome = run(ROUNDS, "eager", "plan", "HBMSPILL_PLANNER=/none");
        ck_assert_msg((taken_up(outcome) > 0) == measures[i].fits, "%u: %s", i, outcome->err);
    }
    check_note(1);
}

static void truncate_file(const char *path)
{
    struct stat status;

    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_int_eq(truncate(path, status.st_size - 4), 0);
}

static void make_huge(const char *path)
{
    ck_assert_int_eq(truncate(path, 17 << 20), 0);
}

/* Another round's hash in it. */
static void make_stale(const char *path)
{
    FILE *file = fopen(path, "r+e");
    char first[64];

    ck_assert_ptr_nonnull(file);
    ck_assert_ptr_nonnull(fgets(first, sizeof first, file));
    fseek(file, 0, SEEK_CUR);
    ck_assert_int_ge(fputs("0000000000000000", file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

static void make_writable(const char *path)
{
    ck_assert_int_eq(chmod(path, 0666), 0);
}

/* Only root can give files away; for others a link, which is not followed, is what is not theirs. */
static void make_foreign(const char *path)
{
    if (geteuid() == 0) {
        ck_assert_int_eq(chown(path, 1, 1), 0);
        return;
    }
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(symlink("/etc/passwd", path), 0);
}

static void make_link(const char *path)
{
    ck_assert_int_eq(rename(path, in_top("elsewhere")), 0);
    ck_assert_int_eq(symlink(in_top("elsewhere"), path), 0);
}

/* Ignored with one line, and replaced. */
static void spoiled(void)
{
    static const struct {
        void (*spoil)(const char *path);
        const char *line;
    } ways[] = {
        {truncate_file, "ignored: it is cut off"},
        {make_huge, "ignored: it is larger than any plan"},
        {make_stale, "ignored: it is for another round"},
        {make_writable, "ignored: others may write it"},
        {make_foreign, "ignored:"},
        {make_link, "ignored:"},
    };
    const struct outcome *outcome;
    char path[PATH_MAX];

    run(ROUNDS, "eager", "plan", until());
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++) {
        the_plan(path);
        ways[i].spoil(path);
        outcome = run(ROUNDS, "eager", "plan", until());
        ck_assert_msg(lines_with(outcome, ways[i].line) == 1, "%s", outcome->err);
        ck_assert_msg(lines_with(outcome, "ignored") == 1, "%s", outcome->err);
        ck_assert_msg(taken_up(outcome) > 0, "%s", outcome->err);
    }
    check_note(1 + sizeof ways / sizeof *ways);
}

/* What is in the way and cannot be removed: no plan, no process. */
static void in_the_way(void)
{
    const struct outcome *outcome;
    char path[PATH_MAX];

    run(ROUNDS, "eager", "plan", until());
    the_plan(path);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    outcome = run(ROUNDS, "eager", "plan", "");
    ck_assert_uint_eq(lines_with(outcome, "ignored: it is no file"), 1);
    ck_assert_uint_eq(taken_up(outcome), 0);
    check_note(1);
}

static unsigned entries_in(const char *directory)
{
    DIR *stream = opendir(directory);
    unsigned count = 0;
    struct dirent *entry;

    ck_assert_ptr_nonnull(stream);
    while ((entry = readdir(stream)))
        count += entry->d_name[0] != '.';
    closedir(stream);
    return count;
}

/* Without a directory plans are made all the same, and nothing stays. */
static void no_directory(void)
{
    char variables[4 * PATH_MAX];
    const struct outcome *outcome;

    /* One that cannot be made, one that others may write, none named. FEW rounds are not enough: wait. */
    ck_assert_int_eq(mkdir(in_top("cache"), 0700), 0);
    ck_assert_int_eq(mkdir(in_top("cache/hbmspill"), 0700), 0);
    ck_assert_int_eq(chmod(in_top("cache/hbmspill"), 0777), 0);
    for (unsigned i = 0; i < 3; i++) {
        static const char *const settings[] = {"XDG_CACHE_HOME=/dev/null/none", "",
                                               "XDG_CACHE_HOME=relative HOME="};

        snprintf(variables, sizeof variables, "%s UNTIL=%s", settings[i], in_top("temporary"));
        outcome = run(ROUNDS, "eager", "plan", variables);
        ck_assert_msg(lines_with(outcome, "plans are not kept") == 1, "%s", outcome->err);
        ck_assert_msg(taken_up(outcome) > 0, "%s", outcome->err);
        ck_assert_uint_eq(entries_in(in_top("temporary")), 0);
        ck_assert_uint_eq(entries_in(in_top("cache/hbmspill")), 0);
    }
    check_note(3);
}

/* Whatever becomes of the process, the job ends as it should, with one line, and without waiting for it. */
static void failing(void)
{
    static const struct {
        const char *does, *variables, *line;
        enum job_name job;
        unsigned starts;
    } ways[] = {
        {"plan", "HBMSPILL_PLANNER=/none", "no program hbmspill-plan was found", WATCHING, 0},
        {"plan", "HBMSPILL_PLANNER=/etc/passwd", "no program hbmspill-plan was found", WATCHING, 0},
        {"crash", "SLOW=1", "that is better came of hbmspill-plan", WATCHING, 1},
        {"junk", "", "ignored: its second line is damaged", WATCHING, 1},
        {"hang", "", NULL, WATCHING, 1},
        {"hang", "", NULL, FORKING, 1},
        {"plan", "", "the job adopts orphans", ADOPTING, 0},
    };
    const struct outcome *outcome;
    struct timespec begin, end;

    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++) {
        char path[PATH_MAX];

        unlink(in_top("note"));
        clock_gettime(CLOCK_MONOTONIC, &begin);
        outcome = run(ways[i].job, "eager", ways[i].does,
                      !strcmp(ways[i].does, "junk") ? until() : ways[i].variables);
        clock_gettime(CLOCK_MONOTONIC, &end);
        ck_assert_msg(!ways[i].line || lines_with(outcome, ways[i].line) == 1, "%u: %s", i, outcome->err);
        ck_assert_uint_eq(taken_up(outcome), 0);
        check_note(ways[i].starts);
        if (plans_in(in_top("cache/hbmspill"), path))
            unlink(path);
    }
}

/* A plan file by name: taken up without a process, read only for the round it is for. */
static void named_file(void)
{
    char path[PATH_MAX], kept[PATH_MAX], variables[2 * PATH_MAX];
    const struct outcome *outcome;

    run(ROUNDS, "eager", "plan", until());
    the_plan(path);
    snprintf(kept, sizeof kept, "%s", in_top("kept.plan"));
    ck_assert_int_eq(rename(path, kept), 0);
    snprintf(variables, sizeof variables, "HBMSPILL_PLAN=%s", kept);
    outcome = run(ROUNDS, "eager", "plan", variables);
    ck_assert_msg(taken_up(outcome) > 0, "%s", outcome->err);
    make_stale(kept);
    outcome = run(ROUNDS, "eager", "plan", variables);
    ck_assert_uint_eq(taken_up(outcome), 0);
    ck_assert_uint_eq(lines_with(outcome, "is for another round than"), 1);
    truncate_file(kept);
    outcome = run(ROUNDS, "eager", "plan", variables);
    ck_assert_uint_eq(taken_up(outcome), 0);
    ck_assert_uint_eq(lines_with(outcome, "ignored: it is cut off"), 1);
    ck_assert_int_eq(unlink(kept), 0);
    outcome = run(ROUNDS, "eager", "plan", variables);
    ck_assert_uint_eq(lines_with(outcome, "ignored: it is not there"), 1);
    ck_assert_uint_eq(plans_in(in_top("cache/hbmspill"), NULL), 0);
    check_note(1);
}

/* Moves that make no sense, under a hash that is right: the job checks every word itself. */
static void by_chance(void)
{
    static const char *const schedules[] = {"eager", "lazy", "random:1"};

    for (unsigned i = 0; i < 6; i++) {
        const struct outcome *outcome;
        char does[32], path[PATH_MAX];

        snprintf(does, sizeof does, "chance%u", i);
        outcome = run(ROUNDS, schedules[i % 3], does, until());
        ck_assert_msg(taken_up(outcome) > 0, "%s", outcome->err);
        the_plan(path);
        ck_assert_int_eq(unlink(path), 0);
    }
    check_note(6);
}

static void switched_off(void)
{
    const struct outcome *outcome = run(ROUNDS, "eager", "plan", "HBMSPILL_PLAN=off");

    ck_assert_uint_eq(outcome_number(outcome->statistics, "rounds_found"), 0);
    ck_assert_uint_eq(outcome_number(outcome->statistics, "planned_operations"), 0);
    outcome = run(ROUNDS, "eager", "plan", "HBMSPILL_PLAN=greedy");
    ck_assert_uint_gt(outcome_number(outcome->statistics, "rounds_found"), 0);
    ck_assert_uint_gt(outcome_number(outcome->statistics, "planned_operations"), 0);
    ck_assert_uint_eq(taken_up(outcome), 0);
    ck_assert_int_eq(access(in_top("cache"), F_OK), -1);
    check_note(0);
}

/* 64 plans are kept; those not used for longest go, and what a planner left half written. */
static void trimmed(void)
{
    enum { BEFORE = 70 };
    char path[PATH_MAX];

    ck_assert_int_eq(mkdir(in_top("cache"), 0700), 0);
    ck_assert_int_eq(mkdir(in_top("cache/hbmspill"), 0700), 0);
    for (unsigned i = 0; i <= BEFORE; i++) {
        struct timespec times[2] = {{.tv_sec = 1000000 + i}, {.tv_sec = 1000000 + i}};
        int fd;

        snprintf(path, sizeof path, "%s/%016x-1.0e+00-1.0e+00-1.0e+00.plan%s", in_top("cache/hbmspill"), i,
                 i == BEFORE ? ".XXXXXX" : "");
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(futimens(fd, times), 0);
        close(fd);
    }
    run(ROUNDS, "eager", "hang", "");
    ck_assert_int_eq(access(path, F_OK), -1);
    ck_assert_uint_eq(plans_in(in_top("cache/hbmspill"), NULL), 63);
    snprintf(path, sizeof path, "%s/%016x-1.0e+00-1.0e+00-1.0e+00.plan", in_top("cache/hbmspill"), 6);
    ck_assert_int_eq(access(path, F_OK), -1);
    snprintf(path, sizeof path, "%s/%016x-1.0e+00-1.0e+00-1.0e+00.plan", in_top("cache/hbmspill"), 7);
    ck_assert_int_eq(access(path, F_OK), 0);
}

static void (*const tests[])(void) = {taken_up_unnoticed, begins_planned, spoiled,    in_the_way,
                                      no_directory,       failing,        named_file, by_chance,
                                      switched_off,       trimmed};

START_TEST(planning)
{
    set_up();
    tests[_i]();
    clean_up();
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--seconds"))
        return planner(argc, argv);
    return scenarios_main_with(argc, argv, "planner", jobs, JOBS, 30, planning,
                               (int)(sizeof tests / sizeof *tests));
}
