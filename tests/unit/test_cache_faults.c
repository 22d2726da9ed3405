/*
 * Every call of struct device_ops fails once: at every occurrence in a job, with every error the interface
 * has. Whatever the job is told, what it reads is right, nothing is lost - the cache finds all that the
 * device has given it, and its records agree - and with everything freed nothing is in use.
 *
 * FAULT_EVERY=1: all occurrences. Else the first ones of every call, and of the others as many as there is
 * time for, spread evenly. FAULT_PART=K/N: of these, from K (0 to N - 1) on each N-th, others of each call,
 * so that N of them are the whole. One of them alone:
 * FAULT=CALL:OCCURRENCE:ERRNO[:strict|:verify|:unlinked|:larger] CK_FORK=no tests/unit/test_cache_faults
 */
#include "cache/borrow.h"
#include "tests/unit/fake_cache.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES = 16, LAYERS = 6, ROUNDS = 9, MOST = 4 * LAYERS, FIRST = 12, SPREAD = 24 };
#define FRAME ((uint64_t)FAKE_GRANULE)

/* UNLINKED: host memory is no handles; LARGER: frames become larger. */
enum { PLAIN, STRICT, VERIFY, UNLINKED, LARGER, MODES };
static const char *const modes[] = {"", ":strict", ":verify", ":unlinked", ":larger"};

static const char *const names[] = {
#define NAME(name) #name,
    FAKE_CALLS(NAME)
#undef NAME
};
_Static_assert(
    sizeof(struct device_ops) == sizeof(void *) * (2 + FAKE_CALL_COUNT),
    "FAKE_CALLS has every call of struct device_ops, which has nothing else but a context and host_room, "
    "which does not fail");

static struct fake_device fake;
static struct cache *cache;
static uint64_t stream, other, value;
static unsigned refused; /* operations that the job could not have */

struct array {
    uint64_t address, bytes, value; /* bytes 0: not allocated; value 0: nothing known of its contents */
};

static char doing[80]; /* the fault of this run */

static void make(struct array *array, uint64_t bytes)
{
    struct cache_failure failure;

    array->value = 0;
    array->bytes = cache_alloc(cache, bytes, &array->address, &failure) ? 0 : bytes;
    refused += !array->bytes;
}

/* A free that fails has not happened: it can be tried again. */
static void drop(struct array *array)
{
    if (array->bytes && cache_free(cache, array->address, &(struct stream_key){stream, 0})) {
        refused++;
        ck_assert_int_eq(cache_free(cache, array->address, &(struct stream_key){stream, 0}), 0);
    }
    array->bytes = 0;
}

/* Reads `from', where it is allocated, and writes `to'. */
static void operate(struct array *to, struct array *from)
{
    struct array *set[] = {to, from};
    struct cache_touch touches[2];
    struct fake_op kernel = {.count = 0};
    struct cache_op op;

    for (unsigned i = 0; i < 2; i++) {
        if (!set[i]->bytes)
            return;
        if (i && to == from)
            break;
        touches[i] = (struct cache_touch){set[i]->address, CACHE_READ | (i ? 0u : CACHE_WRITE)};
        kernel.buffers[i] = set[i]->address;
        kernel.bytes[i] = set[i]->bytes;
        kernel.expect[i] = set[i]->value;
        kernel.count++;
    }
    if (cache_op_begin(cache, &op, (struct stream_key){stream, 0}, touches, kernel.count)) {
        refused++;
        return;
    }
    kernel.value[0] = to->value = ++value;
    fake_kernel(&fake, stream, &kernel);
    cache_op_end(cache, &op, true);
    fake_run(&fake, (unsigned)(fake_random(&fake) % 12));
    ck_assert_msg(!fake.faults && !fake.mismatches, "FAULT=%s", doing);
}

/*
 * By addresses that it finds in memory: it names nothing, reads all that is known, writes one. Where it
 * cannot be reached over the link, all of it does not fit.
 */
static void operate_open(struct array *arrays, unsigned count, unsigned to)
{
    struct fake_op kernel = {.count = 0};
    struct cache_op op;

    if (fake.no_handles || !arrays[to].bytes)
        return;
    for (unsigned i = 0; i < count; i++) {
        if (!arrays[i].bytes)
            continue;
        kernel.buffers[kernel.count] = arrays[i].address;
        kernel.bytes[kernel.count] = arrays[i].bytes;
        kernel.expect[kernel.count] = arrays[i].value;
        kernel.value[kernel.count++] = i == to ? value + 1 : 0;
    }
    if (cache_op_begin_all(cache, &op, (struct stream_key){stream, 0})) {
        refused++;
        return;
    }
    arrays[to].value = ++value;
    fake_kernel(&fake, stream, &kernel);
    cache_op_end(cache, &op, true);
    fake_run(&fake, (unsigned)(fake_random(&fake) % 12));
    ck_assert_msg(!fake.faults && !fake.mismatches, "FAULT=%s", doing);
}

/* As a hook does it: the copy may be served in the host tier. */
static void download(struct array *array)
{
    static unsigned char bytes[8 * FAKE_GRANULE];
    uint64_t dst = (uint64_t)(uintptr_t)bytes, src = array->address, first;
    bool in_slot;
    int error;

    if (!array->bytes || !array->value)
        return;
    error = fake_cache_copy(&fake, cache, stream, dst, src, array->bytes, &in_slot);
    refused += error != 0;
    ck_assert(fake_drain(&fake));
    memcpy(&first, bytes, sizeof first);
    if (!error)
        ck_assert_uint_eq(first, array->value);
}

/* A round of a model in one window: layers forward, temporaries that die in it, layers backward. */
static void model_round(struct array *weights, struct array *temporary)
{
    struct cache_planned_op ops[MOST];
    struct cache_touch touches[MOST][2];
    struct {
        struct array *to, *from; /* from NULL: to is freed */
    } step[MOST];
    unsigned count = 0;

    for (unsigned i = 0; i < LAYERS; i++)
        make(&temporary[i], 2 * FRAME);
    for (unsigned i = 0; i < LAYERS; i++) {
        step[count].to = &temporary[i];
        step[count++].from = &weights[i];
    }
    for (unsigned i = LAYERS; i-- > 0;) {
        step[count].to = &weights[i];
        step[count++].from = &temporary[i];
        step[count].to = &temporary[i];
        step[count++].from = NULL;
    }
    for (unsigned i = 0; i < count; i++) {
        ops[i] = (struct cache_planned_op){.touches = touches[i], .kind = i + 1};
        if (step[i].from) {
            touches[i][ops[i].count++] = (struct cache_touch){step[i].to->address, CACHE_READ | CACHE_WRITE};
            touches[i][ops[i].count++] = (struct cache_touch){step[i].from->address, CACHE_READ};
        } else {
            ops[i].free_address = step[i].to->bytes ? step[i].to->address : 0;
        }
    }
    cache_window_begin(cache, ops, count);
    for (unsigned i = 0; i < count; i++) {
        cache_window_step(cache, i);
        if (step[i].from)
            operate(step[i].to, step[i].from);
        else
            drop(step[i].to);
    }
    cache_window_end(cache);
}

static void measure(void)
{
    struct cache_loan loan;
    uint64_t wait;

    for (unsigned tries = 0; tries < 3; tries++) {
        int error = cache_borrow(cache, &loan, LOAN_EVICT | LOAN_BUSY, &wait);

        (void)fake_drain(&fake);
        if (error)
            continue;
        error = fake.ops.copy(&fake, other, loan.device, (uint64_t)(uintptr_t)loan.host, loan.size);
        ck_assert(fake_drain(&fake));
        cache_return(cache, &loan, true);
        refused += error != 0;
        return;
    }
}

static void job(void)
{
    struct array weights[LAYERS], temporary[LAYERS], wide[5];

    for (unsigned i = 0; i < LAYERS; i++) {
        make(&weights[i], 2 * FRAME);
        operate(&weights[i], &weights[i]);
    }
    measure();
    for (unsigned i = 0; i < ROUNDS; i++)
        model_round(weights, temporary);
    for (unsigned i = 0; i < LAYERS; i++)
        download(&weights[i]);
    (void)cache_release(cache, 4 * FRAME);
    (void)cache_stream_hold(cache, (struct stream_key){other, 0});
    cache_stream_held(cache, (struct stream_key){other, 0});
    for (unsigned i = 0; i < LAYERS; i++)
        drop(&weights[i]);
    for (unsigned i = 0; i < 5; i++) { /* another size: the slots that are pooled are in its way */
        make(&wide[i], 5 * FRAME);
        operate(&wide[i], &wide[i]);
    }
    for (unsigned i = 0; i < 5; i++) {
        operate(&wide[i], &wide[(i + 1) % 5]);
        operate_open(wide, 5, i);
    }
    (void)cache_stream_retire(cache, (struct stream_key){other, 0});
    for (unsigned i = 0; i < 5; i++)
        drop(&wide[i]);
    ck_assert(fake_drain(&fake));
}

static void mismatch(void *unused, const struct cache_mismatch *found)
{
    (void)unused;
    ck_abort_msg("0x%llx is not what was moved out", (unsigned long long)found->piece);
}

/* One run with a fault. How often each call was made goes to `called' where that is wanted. */
static void run(unsigned mode, enum fake_call call, uint64_t occurrence, int error, uint64_t *called)
{
    struct cache_config config = {.frame_size = FRAME,
                                  .hbm_limit = FRAMES * FRAME,
                                  .host_limit = 26 * FRAME,
                                  .policy = CACHE_POLICY_NEXTUSE,
                                  .prefetch = true,
                                  .strict = mode == STRICT,
                                  .verify = mode == VERIFY,
                                  .mismatch = mismatch,
                                  .reframe = mode == LARGER ? 2 : 0,
                                  .follow = true};
    struct cache_audit audit;

    refused = 0;
    value = 0;
    fake_init(&fake, FRAMES * FRAME, 26 * FRAME, 1);
    fake.no_handles = mode == UNLINKED;
    fake.fault.call = call;
    fake.fault.occurrence = occurrence;
    fake.fault.error = error;
    if (cache_create(&fake.ops, &config, &cache)) {
        ck_assert(fake.fault.happened);
        ck_assert_uint_eq(
            fake.slots_live + fake.streams_live + fake.reserved + fake.frames_live + fake.events_live, 0);
        fake_fini(&fake);
        return;
    }
    stream = fake_stream(&fake);
    other = fake_stream(&fake);
    job();
    if (called)
        memcpy(called, fake.called, sizeof fake.called);
    ck_assert_msg(fake.fault.happened || !refused, "without a fault everything can be had");
    ck_assert(fake.fault.happened || cache_statistics(cache)->reframed == (mode == LARGER));
    fake.fault.occurrence = 0;
    cache_audit(cache, &audit);
    ck_assert_uint_eq(audit.allocations, 0);
    ck_assert_uint_eq(audit.frames_in_use, 0);
    ck_assert_uint_eq(audit.slots_in_use, 0);
    fake_cache_stop(&fake, cache);
}

static void name_of(char name[80], unsigned mode, enum fake_call call, uint64_t occurrence, int error)
{
    snprintf(name, 80, "%s:%llu:%d%s", names[call], (unsigned long long)occurrence, -error, modes[mode]);
}

static bool in_part(uint64_t number)
{
    const char *part = getenv("FAULT_PART"), *slash = part ? strchr(part, '/') : NULL;
    uint64_t of = slash ? strtoull(slash + 1, NULL, 10) : 1;

    ck_assert_msg(of > 0, "FAULT_PART=%s is not K/N", part ? part : "");
    return number % of == (slash ? strtoull(part, NULL, 10) % of : 0);
}

/* All, or those that the environment asks for; said beforehand, for the one that ends the test. */
static bool wanted(unsigned mode, enum fake_call call, uint64_t occurrence, int error)
{
    const char *only = getenv("FAULT");
    char name[80];
    FILE *file;

    name_of(name, mode, call, occurrence, error);
    if (only ? strcmp(only, name) != 0 : !in_part(occurrence * 2 + (error == -ENOMEM) + call * MODES + mode))
        return false;
    snprintf(doing, sizeof doing, "%s", name);
    file = fopen("test_cache_faults.fault", "w");
    if (file) {
        fprintf(file, "to repeat: FAULT=%s CK_FORK=no tests/unit/test_cache_faults\n", name);
        fclose(file);
    }
    return true;
}

START_TEST(a_call_fails_once)
{
    static const int errors[] = {-EIO, -ENOMEM};
    enum fake_call call = (enum fake_call)(_i / MODES);
    uint64_t called[FAKE_CALL_COUNT] = {0}, step;
    unsigned mode = (unsigned)_i % MODES;

    run(mode, call, 0, 0, called);
    step = called[call] > SPREAD ? called[call] / SPREAD : 1;
    if (getenv("FAULT_EVERY") || getenv("FAULT"))
        step = 1;
    for (uint64_t n = 1; n <= called[call]; n += n < FIRST ? 1 : step)
        for (unsigned i = 0; i < 2; i++)
            if (wanted(mode, call, n, errors[i]))
                run(mode, call, n, errors[i], NULL);
}
END_TEST

/* What is made and given back only with the cache itself is not in the job. */
START_TEST(every_call_is_made)
{
    uint64_t called[FAKE_CALL_COUNT] = {0}, unlinked[FAKE_CALL_COUNT] = {0};

    run(VERIFY, FAKE_reserve, 0, 0, called);
    run(UNLINKED, FAKE_reserve, 0, 0, unlinked);
    for (unsigned i = 0; i < FAKE_CALL_COUNT; i++)
        if (i != FAKE_stream_destroy && i != FAKE_event_destroy)
            ck_assert_msg(called[i] + unlinked[i] > 0, "%s", names[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cache_faults");
    TCase *one = tcase_create("faults");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_set_timeout(one, 1800);
    tcase_add_test(one, every_call_is_made);
    tcase_add_loop_test(one, a_call_fails_once, 0, MODES * FAKE_CALL_COUNT);
    suite_add_tcase(suite, one);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
