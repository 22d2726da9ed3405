/*
 * What reports are written with: the text that is put together, and names for addresses.
 */
#include "hooks/symbol.h"
#include "hooks/text.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct text text;

static void setup(void)
{
    memset(&text, 0, sizeof text);
}

START_TEST(pieces_follow_each_other)
{
    text_put(&text, "%d, ", 7);
    text_put(&text, "%s", "eight");
    ck_assert_str_eq(text.bytes, "7, eight");
    ck_assert_uint_eq(text.length, strlen("7, eight"));
    ck_assert(!text.cut);
}
END_TEST

START_TEST(strings_are_json)
{
    text_put_string(&text, "a \"quoted\" back\\slash\n\x1b\xc3\xa4");
    ck_assert_str_eq(text.bytes, "\"a \\\"quoted\\\" back\\\\slash????\"");
}
END_TEST

/* A string that is too long is cut, not its quotes and not in the middle of an escape. */
START_TEST(long_strings_are_cut)
{
    char string[5000];
    size_t length;

    for (unsigned first = 0; first < 2; first++) {
        memset(string, '\\', sizeof string);
        string[0] = first ? 'x' : '\\';
        string[sizeof string - 1] = '\0';
        setup();
        text_put_string(&text, string);
        length = text.length;
        ck_assert_uint_lt(length, 1100);
        ck_assert_int_eq(text.bytes[0], '"');
        ck_assert_int_eq(text.bytes[length - 1], '"');
        ck_assert_uint_eq(length % 2, first); /* quotes, pairs, and the one that is no pair */
    }
}
END_TEST

START_TEST(what_does_not_fit_is_left_out)
{
    char *piece = malloc(sizeof text.bytes);

    memset(piece, 'p', sizeof text.bytes);
    piece[sizeof text.bytes - 100] = '\0';
    text_put(&text, "%s", piece);
    ck_assert(!text.cut);
    piece[200] = '\0';
    text_put(&text, "%s", piece);
    ck_assert(text.cut);
    ck_assert_uint_eq(text.length, sizeof text.bytes - 100);
    text_put(&text, "end");
    ck_assert_str_eq(text.bytes + sizeof text.bytes - 100, "end");
    free(piece);
}
END_TEST

/* Of no use to anybody else, so that it is in the program's own table of symbols alone. */
__attribute__((noipa)) static int not_exported(int value)
{
    return value * 3 + 1;
}

static const char *name_of(const void *address)
{
    static char name[300];

    symbol_text(address, name, sizeof name);
    return name;
}

START_TEST(functions_have_names)
{
    const char *inside = (const char *)(uintptr_t)not_exported + 3, *name;

    ck_assert_int_eq(not_exported(2), 7);
    name = name_of(inside);
    ck_assert_msg(strstr(name, "test_report_text!not_exported+0x3") != NULL, "%s", name);
    name = name_of((const char *)(uintptr_t)qsort + 1);
    ck_assert_msg(!strncmp(name, "libc.so.6!qsort", strlen("libc.so.6!qsort")), "%s", name);
    symbols_done();
    name = name_of(inside);
    ck_assert_msg(strstr(name, "!not_exported+0x3") != NULL, "%s", name);
    symbols_done();
}
END_TEST

START_TEST(other_addresses_are_numbers)
{
    int local = 0;
    void *memory = malloc(100);

    ck_assert_ptr_nonnull(strstr(name_of(&local), "0x"));
    ck_assert_ptr_null(strchr(name_of(&local), '!'));
    ck_assert_ptr_nonnull(strstr(name_of(memory), "0x"));
    ck_assert_ptr_null(strchr(name_of((const void *)(uintptr_t)8), '!'));
    free(memory);
    symbols_done();
}
END_TEST

START_TEST(names_are_cut)
{
    char name[8];

    memset(name, 0x55, sizeof name);
    symbol_text((const char *)(uintptr_t)not_exported + 3, name, sizeof name);
    ck_assert_uint_eq(strlen(name), sizeof name - 1);
    symbols_done();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("report");
    TCase *texts = tcase_create("text"), *symbols = tcase_create("symbol");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(texts, setup, NULL);
    tcase_add_test(texts, pieces_follow_each_other);
    tcase_add_test(texts, strings_are_json);
    tcase_add_test(texts, long_strings_are_cut);
    tcase_add_test(texts, what_does_not_fit_is_left_out);
    tcase_add_test(symbols, functions_have_names);
    tcase_add_test(symbols, other_addresses_are_numbers);
    tcase_add_test(symbols, names_are_cut);
    suite_add_tcase(suite, texts);
    suite_add_tcase(suite, symbols);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
