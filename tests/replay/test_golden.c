/*
 * What each policy moves on tapes that can be read at a glance, to the frame and to the driver call: whoever
 * changes the meaning of one sees it here.
 *
 * A tape is a round, repeated. Words, by a blank each: `A2' an array of two frames that lives for ever,
 * before the round; in it, `x=1' an array of one frame is born, `-x' is freed, `AxB' an operation reads and
 * writes A, x and B, `A?' only reads A, `.' the job waits. An operation takes as long as a frame's way over
 * the link, either way.
 */
#include "cache/tools/replay.h"
#include <check.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FRAME (UINT64_C(2) << 20)

enum { ROUNDS = 56, BEFORE = 16 }; /* those before are not counted */

/* --- Tapes -------------------------------------------------------------------------------------------------
 */

struct writing {
    struct tape_writer writer;
    uint32_t births, names, birth_of[128], rounds;
};

static void born(struct writing *writing, const char *word)
{
    writing->birth_of[(unsigned char)*word] = writing->births;
    tape_write_alloc(&writing->writer, writing->births++,
                     strtoul(word + 1 + (word[1] == '='), NULL, 10) * FRAME);
}

static void operation(struct writing *writing, const char *word, uint32_t name)
{
    struct tape_touch touches[8];
    unsigned count = 0;

    for (; isalpha((unsigned char)*word); word++) {
        unsigned access = word[1] == '?' ? TAPE_READ : TAPE_READ | TAPE_WRITE;

        touches[count++] = (struct tape_touch){writing->birth_of[(unsigned char)*word], access};
        word += word[1] == '?';
    }
    tape_write_launch(&writing->writer, TAPE_LAUNCH, 0, name, 1000000, touches, count);
}

static void words(struct writing *writing, const char *text, bool first)
{
    char copy[256], *next, *word;
    uint32_t name = 0;

    snprintf(copy, sizeof copy, "%s", text);
    for (word = strtok_r(copy, " ", &next); word; word = strtok_r(NULL, " ", &next)) {
        if (*word == '.') {
            tape_write_submit(&writing->writer, 0);
        } else if (*word == '-') {
            tape_write_free(&writing->writer, writing->birth_of[(unsigned char)word[1]], 0);
        } else if (isdigit((unsigned char)word[1]) || word[1] == '=') {
            born(writing, word);
        } else {
            if (first)
                tape_write_name(&writing->writer, name, word);
            operation(writing, word, name++);
        }
    }
}

static struct tape *make_tape(const char *arrays, const char *round)
{
    char path[] = "golden.XXXXXX", why[200] = "";
    static struct writing writing;
    int fd = mkstemp(path);
    struct tape *tape;
    uint64_t line;

    ck_assert_int_ge(fd, 0);
    memset(&writing, 0, sizeof writing);
    tape_write_begin(&writing.writer, fd);
    words(&writing, arrays, true);
    for (unsigned i = 0; i < ROUNDS; i++)
        words(&writing, round, i == 0);
    ck_assert_int_eq(tape_write_end(&writing.writer), 0);
    close(fd);
    ck_assert_msg(tape_read(path, &tape, &line, why, sizeof why) == 0, "%s", why);
    unlink(path);
    return tape;
}

/* --- What is moved
 * ------------------------------------------------------------------------------------------
 */

enum how { LRU, BIP, NEXTUSE, GREEDY, ALONE };

static const char *const names[] = {"lru", "bip", "nextuse", "greedy", "alone"};

/* Frames and calls in all the rounds that count. */
struct moved {
    double in, out, bindings;
};

static struct moved replay(const struct tape *tape, enum how how, unsigned frames)
{
    struct replay_config config = {.link = {FRAME * 1e3, FRAME * 1e3, FRAME * 1e3, FRAME * 1e3},
                                   .hbm = frames * FRAME,
                                   .host = 1024 * FRAME,
                                   .frame_size = FRAME,
                                   .policy = how == LRU   ? CACHE_POLICY_LRU
                                             : how == BIP ? CACHE_POLICY_BIP
                                                          : CACHE_POLICY_NEXTUSE,
                                   .prefetch = true,
                                   .follow = how == GREEDY || how == ALONE,
                                   .window = how == NEXTUSE || how == GREEDY ? 1024 : 0,
                                   .steady = BEFORE,
                                   .rate = 1e12,
                                   .size_scale = 1,
                                   .driver_scale = 1};
    struct replay_result result;
    struct replay_tape about;
    double rounds;

    ck_assert(replay_examine(tape, &config, &about));
    ck_assert_uint_eq(about.rounds, ROUNDS);
    ck_assert_int_eq(replay_run(tape, &about, &config, &result), 0);
    ck_assert_msg(result.complete, "%s", result.why);
    rounds = ROUNDS - BEFORE;
    return (struct moved){result.in * rounds / FRAME, result.out * rounds / FRAME,
                          result.binding_calls * rounds};
}

/* --- What is right
 * ------------------------------------------------------------------------------------------
 */

/* Six in turn. */
static const char loop_arrays[] = "A1 B1 C1 D1 E1 F1", loop[] = "A B C D E F .";
static const char read_loop[] = "A? B? C? D? E? F? .";
/* There and back. */
static const char mirror_arrays[] = "A1 B1 C1 D1 E1 F1 G1 H1", mirror[] = "A B C D E F G H H G F E D C B A .";
/* One that is larger than what is too little. */
static const char parts_arrays[] = "A3 B1 C1", parts[] = "A B C .";
/* Each temporary is used by two operations, and freed at the end. */
static const char chain_arrays[] = "A1 B1 C1 D1", chain[] = "w=1 Aw x=1 Bwx y=1 Cxy z=1 Dyz -z -y -x -w .";
/* Activations, made on the way there and used on the way back. */
static const char step_arrays[] = "A1 B1 C1 D1", step[] = "w=1 x=1 y=1 Aw Bwx Cxy D Dy Cyx Bxw Aw -w -x -y .";

/*
 * Of 40 rounds. Greedy: with windows; alone: without. Binding: an address that goes from one frame to another
 * is unmapped, mapped and given access.
 */
static const struct golden {
    const char *arrays, *round;
    unsigned frames;
    enum how how;
    unsigned in, out, bindings;
} golden[] = {
    /* It fits: nothing is moved or bound. */
    {loop_arrays, loop, 6, LRU, 0, 0, 0},
    {loop_arrays, loop, 6, BIP, 0, 0, 0},
    {loop_arrays, loop, 6, NEXTUSE, 0, 0, 0},
    {loop_arrays, loop, 6, GREEDY, 0, 0, 0},
    {step_arrays, step, 7, GREEDY, 0, 0, 0},
    {step_arrays, step, 7, ALONE, 0, 0, 0},
    /*
     * LRU misses always: 6 a round. A, then E, has the frame of the one four earlier, so it is another one
     * than the last time (3 calls each); with three frames six are twice around, and it is the same.
     */
    {loop_arrays, loop, 4, LRU, 6 * 40, 6 * 40, 3 * 6 * 40},
    {loop_arrays, loop, 3, LRU, 6 * 40, 6 * 40, 0},
    /* What is only read is not written back. */
    {loop_arrays, read_loop, 4, LRU, 6 * 40, 0, 3 * 6 * 40},
    /* BIP: three stay, the other three take turns in one frame, each bound to it for good. One newcomer in 32
     * stays in the place of another, which costs a little more and binds some anew (as counted). */
    {loop_arrays, loop, 4, BIP, 3 * 40 + 2, 3 * 40 + 2, 24},
    {loop_arrays, loop, 5, BIP, 2 * 40, 2 * 40, 0},
    /*
     * Belady's rule with windows of a round. With four frames it should be 6 * 2 / 5; those idle for an
     * operation only are spared, which takes turns of 4 and 5 (the calls are as counted). With three, all
     * that is not spared leaves.
     */
    {loop_arrays, loop, 4, NEXTUSE, 9 * 20, 9 * 20, 15 * 20},
    {loop_arrays, loop, 3, NEXTUSE, 6 * 40, 6 * 40, 0},
    /*
     * A schedule: two of six have to be away at every time, 12 in a round. Of the five operations between its
     * uses an array spends one on each way, so that four have to leave for three each.
     */
    {loop_arrays, loop, 4, GREEDY, 4 * 40, 4 * 40, 0},
    {loop_arrays, loop, 4, ALONE, 4 * 40, 4 * 40, 0},
    {loop_arrays, read_loop, 4, GREEDY, 4 * 40, 0, 0},
    {loop_arrays, loop, 5, GREEDY, 2 * 40, 2 * 40, 0},
    /* Three frames are too few for it: Belady's rule at the need, 6 * 3 / 5 of 6 (115 = 3.6 * 40), each into
     * the frame that another has just left. */
    {loop_arrays, loop, 3, GREEDY, 36 * 4, 36 * 4, 3 * 36 * 4},
    /* There and back LRU is Belady's rule: of eight, four are still there when it turns, at either end. */
    {mirror_arrays, mirror, 4, LRU, 8 * 40, 8 * 40, 0},
    {mirror_arrays, mirror, 4, NEXTUSE, 10 * 40, 10 * 40, 0},
    {mirror_arrays, mirror, 4, GREEDY, 8 * 40, 8 * 40, 0},
    {mirror_arrays, mirror, 6, LRU, 4 * 40, 4 * 40, 0},
    {mirror_arrays, mirror, 6, GREEDY, 4 * 40, 4 * 40, 0},
    /* One frame too few. LRU: of A one piece, B and C leave in turn, each when it is the next to be used. */
    {parts_arrays, parts, 4, LRU, 3 * 40, 3 * 40, 3 * 3 * 40},
    /* A window takes whole arrays: each time all of A, and B and C. */
    {parts_arrays, parts, 4, NEXTUSE, 5 * 40, 5 * 40, 0},
    /* At the need, Belady: B leaves for A's piece, that for B; every other time it is C that is not there. */
    {parts_arrays, parts, 4, GREEDY, 3 * 20, 3 * 20, 3 * 3 * 20},
    /*
     * A, B, C, D are never there again when they are used. Without windows w and x are written back, too,
     * when room is made for y and z, and with five frames one of them.
     */
    {chain_arrays, chain, 4, LRU, 4 * 40, 6 * 40, 3 * 6 * 40},
    {chain_arrays, chain, 5, LRU, 4 * 40, 5 * 40, 3 * 7 * 40},
    /* A window knows them to be dead: what is written back is what comes in. */
    {chain_arrays, chain, 4, NEXTUSE, 4 * 40, 4 * 40, 3 * 8 * 40},
    {chain_arrays, chain, 3, NEXTUSE, 4 * 40, 4 * 40, 0},
    {chain_arrays, chain, 4, GREEDY, 4 * 40, 4 * 40, 0},
    /* Seven are alive, and no more than three in use: with five frames two of A, B, C, D stay, as Belady
     * would. Alone, the two dead ones are copied out in the schedule, too. */
    {chain_arrays, chain, 5, GREEDY, 2 * 40, 2 * 40, 0},
    {chain_arrays, chain, 5, ALONE, 2 * 40, 4 * 40, 0},
    /* At the peak A, B, C, D, w, x, y: with six frames one has to be away, with five two. */
    {step_arrays, step, 6, GREEDY, 1 * 40, 1 * 40, 0},
    {step_arrays, step, 5, GREEDY, 2 * 40, 2 * 40, 0},
    {step_arrays, step, 6, LRU, 2 * 40, 2 * 40, 0},
    {step_arrays, step, 5, LRU, 4 * 40, 4 * 40, 0},
    /* Alone, one that is dead but not seen to be freed is copied out, too. */
    {step_arrays, step, 6, ALONE, 1 * 40, 2 * 40, 0},
};

START_TEST(test_golden)
{
    const struct golden *row = &golden[_i];
    struct tape *tape = make_tape(row->arrays, row->round);
    struct moved moved = replay(tape, row->how, row->frames);

    ck_assert_msg(moved.in == row->in && moved.out == row->out && moved.bindings == row->bindings,
                  "%s: %s with %u frames, %s: in %g, out %g, bindings %g instead of %u, %u, %u", row->arrays,
                  row->round, row->frames, names[row->how], moved.in, moved.out, moved.bindings, row->in,
                  row->out, row->bindings);
    tape_free(tape);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("golden traffic");
    TCase *all = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_loop_test(all, test_golden, 0, sizeof golden / sizeof *golden);
    suite_add_tcase(suite, all);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
