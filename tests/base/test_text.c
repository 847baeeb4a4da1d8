#include "support/check.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

static void grows(void **state) {
    (void)state;
    clq_text text = {0};
    char expected[20000] = "";
    size_t length = 0;
    for (int i = 0; i < 2000; i++) {
        clq_text_add(&text, "%d,", i);
        length += (size_t)sprintf(expected + length, "%d,", i);
    }
    assert_false(text.failed);
    assert_int_equal(text.length, length);
    assert_string_equal(text.data, expected);
    clq_text_add(&text, "%-3000s|", "wide"); /* longer than any first guess */
    assert_int_equal(text.length, length + 3001);
    assert_int_equal(strlen(text.data), text.length);
    clq_text_add_bytes(&text, "a\0b", 3);
    assert_memory_equal(text.data + length + 3001, "a\0b", 4);
    clq_free(text.data);
    clq_text empty = {0};
    clq_text_add_bytes(&empty, NULL, 0);
    assert_string_equal(empty.data, "");
    clq_free(empty.data);
}

static clq_status build(void *context) {
    (void)context;
    clq_text text = {0};
    for (int i = 0; i < 100; i++) clq_text_add(&text, "some line %d\n", i);
    char *printed = clq_strprintf("%0*d", 500, 1);
    clq_status status = text.failed || !printed ? CLQ_ERROR_MEMORY : CLQ_OK;
    if (!text.failed) assert_int_equal(text.length, 10 * 12 + 90 * 13);
    if (printed) assert_int_equal(strlen(printed), 500);
    clq_free(printed);
    clq_free(text.data);
    return status;
}

static void without_memory(void **state) {
    (void)state;
    assert_true(walk_allocations(build, NULL) > 3);
    clq_text text = {0};
    clq_memory_fail_at(1, false);
    clq_text_add(&text, "lost");
    clq_memory_fail_at(0, false);
    clq_text_add(&text, "after");
    assert_true(text.failed); /* latched: a text with a hole is no text */
    assert_int_equal(text.length, 0);
    clq_free(text.data);
}

static void whole_numbers(void **state) {
    (void)state;
    uint64_t value = 99;
    static const char *const bad[] = {"", " 1", "1 ", "-1", "+1", "0x10", "1.0", "1e3", "18446744073709551616", "12a"};
    for (size_t i = 0; i < CLQ_COUNT_OF(bad); i++) assert_false(clq_parse_u64(bad[i], 0, UINT64_MAX, &value));
    assert_false(clq_parse_u64("4", 5, 10, &value));
    assert_false(clq_parse_u64("11", 5, 10, &value));
    assert_int_equal(value, 99);
    assert_true(clq_parse_u64("5", 5, 10, &value));
    assert_int_equal(value, 5);
    assert_true(clq_parse_u64("0010", 5, 10, &value));
    assert_int_equal(value, 10);
    assert_true(clq_parse_u64("18446744073709551615", 0, UINT64_MAX, &value));
    assert_true(value == UINT64_MAX);
}

static void sizes(void **state) {
    (void)state;
    static const char *const bad[] = {"",    "x",    "3x", "x3",         "0",       "3x0",
                                      "3X4", "3 x4", "-3", "2147483648", "1x2x3x4", "a"};
    size_t got[3];
    unsigned count;
    for (size_t i = 0; i < CLQ_COUNT_OF(bad); i++)
        if (clq_parse_sizes(bad[i], 3, got, &count)) fail_msg("'%s' is taken", bad[i]);
    assert_true(clq_parse_sizes("28x3x2147483647", 3, got, &count));
    assert_true(count == 3 && got[0] == 28 && got[1] == 3 && got[2] == INT32_MAX);
    assert_true(clq_parse_sizes("7", 1, got, &count));
    assert_true(count == 1 && got[0] == 7);
}

static void decimal_numbers(void **state) {
    (void)state;
    double value = 99;
    static const char *const bad[] = {"",    " 1",   "1 ", "inf", "nan", "0x1p3", "1e999", "-1e999",
                                      "1,5", "1.5f", ".",  "1e",  "--1", "1e5.5", "-",     "infinity"};
    for (size_t i = 0; i < CLQ_COUNT_OF(bad); i++) {
        if (clq_parse_double(bad[i], -DBL_MAX, DBL_MAX, &value)) fail_msg("\"%s\" was taken", bad[i]);
    }
    assert_false(clq_parse_double("1.5", 2, 3, &value));
    assert_false(clq_parse_double("1.5", 0, 1, &value));
    assert_false(clq_parse_double("1e999", 0, INFINITY, &value));
    assert_true(value == 99);
    assert_true(clq_parse_double("1.5", 1.5, 1.5, &value));
    assert_true(value == 1.5);
    assert_true(clq_parse_double("-2.5e-3", -1, 1, &value));
    assert_true(value == -2.5e-3);
    assert_true(clq_parse_double("1e-400", 0, 1, &value)); /* smaller than any double: 0 or nearly */
    assert_true(value >= 0 && value < 1e-300);
    assert_true(clq_parse_double("+.5", 0, 1, &value));
    assert_true(value == 0.5);
}

/* The same under any locale: comma/test_base_text runs it under one with a comma. */
static void numbers_have_points(void **state) {
    (void)state;
    char text[64];
    double value = 0;
    clq_text grown = {0};
    assert_int_equal(clq_format(text, sizeof text, "%.2f %g %a", 1.5, 0.25, 0.75), 18);
    assert_string_equal(text, "1.50 0.25 0x1.8p-1");
    clq_text_add(&grown, "%.17g", 0.1);
    assert_string_equal(grown.data, "0.10000000000000001");
    clq_free(grown.data);
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(clq_fprintf(file, "%.1f", 2.5), 3);
    rewind(file);
    assert_non_null(fgets(text, sizeof text, file));
    assert_string_equal(text, "2.5");
    fclose(file);
    assert_true(clq_parse_number("0x1.8p-1", &value) && value == 0.75);
    assert_true(clq_parse_number("-2.5e3", &value) && value == -2500);
    assert_true(clq_parse_number("inf", &value) && isinf(value));
    static const char *const wrong[] = {"", " 1", "1 ", "1,5", "1.5x"};
    value = 7;
    for (size_t i = 0; i < CLQ_COUNT_OF(wrong); i++) assert_false(clq_parse_number(wrong[i], &value));
    assert_true(value == 7);
    assert_int_equal(clq_fail(CLQ_ERROR_ARGUMENT, "%g", 0.5), CLQ_ERROR_ARGUMENT);
    assert_string_equal(clq_error_detail(), "0.5");
}

static void threads_keep_their_locale(void **state) {
    (void)state;
    const locale_t own = duplocale(LC_GLOBAL_LOCALE), before = uselocale(own);
    char text[8];
    double value;
    FILE *file = tmpfile();
    assert_true(own && own != before && file);
    clq_format(text, sizeof text, "%g", 0.5);
    assert_ptr_equal(uselocale((locale_t)0), own);
    clq_fprintf(file, "%g", 0.5);
    assert_ptr_equal(uselocale((locale_t)0), own);
    assert_true(clq_parse_number("0.5", &value));
    assert_ptr_equal(uselocale((locale_t)0), own);
    fclose(file);
    uselocale(before);
    freelocale(own);
}

static void sizes_have_units(void **state) {
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {{0, "0 bytes"},
                 {1, "1 byte"},
                 {1023, "1023 bytes"},
                 {1024, "1.00 KiB"},
                 {10229, "9.99 KiB"},
                 {10239, "10.0 KiB"},
                 {102400, "100 KiB"},
                 {1048063, "1023 KiB"},
                 {1048064, "1.00 MiB"},
                 {430000, "420 KiB"},
                 {(uint64_t)5 << 30, "5.00 GiB"},
                 {UINT64_MAX, "16.0 EiB"}};
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) assert_string_equal(clq_bytes(cases[i].bytes).text, cases[i].text);
    clq_bytes_text a, b;
    clq_bytes_apart(1 << 20, (1 << 20) + 1, &a, &b);
    assert_string_equal(a.text, "1048576 bytes");
    assert_string_equal(b.text, "1048577 bytes");
    clq_bytes_apart(1 << 20, 2 << 20, &a, &b);
    assert_string_equal(a.text, "1.00 MiB");
    clq_bytes_apart(5, 5, &a, &b);
    assert_string_equal(b.text, "5 bytes");
    assert_string_equal(clq_plural(1), "");
    assert_string_equal(clq_plural(0), "s");
}

/* Texts, and what may be written of them to a terminal and to a reader of UTF-8. */
static void cleaned(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"", ""},
        {"plain", "plain"},
        {"\x1b[2J\x07\x7f", "?[2J??"},
        {"a\tb\nc\rd\ve\f", "a b c d e "},
        {"Gr\xc3\xbc\xc3\x9f e\xcc\x81 \xe2\x82\xac \xf0\x9f\x98\x80",
         "Gr\xc3\xbc\xc3\x9f e\xcc\x81 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0", "???\xc2\xa0"}, /* C1 */
        {"Gr\xfc\xdf", "Gr??"},                              /* Latin-1 */
        {"\x9b", "?"},
        {"cut \xe2\x82", "cut ??"},
        {"\xc0\xaf \xe0\x80\xaf \xf0\x80\x80\xaf", "?? ??? ????"}, /* overlong */
        {"\xed\xa0\x80 \xed\x9f\xbf", "??? \xed\x9f\xbf"},         /* a surrogate, and what is below */
        {"\xf4\x90\x80\x80 \xf4\x8f\xbf\xbf", "???? \xf4\x8f\xbf\xbf"},
        {"\xc3\x1b\xe2\x82\x1b", "?????"},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        char text[64];
        strcpy(text, cases[i][0]);
        clq_clean(text);
        assert_string_equal(text, cases[i][1]);
        clq_text added = {0};
        clq_text_add(&added, "\x1b ");
        clq_text_add_clean(&added, cases[i][0]);
        clq_text_add(&added, "!");
        assert_memory_equal(added.data, "\x1b ", 2); /* what stood there before stays */
        assert_int_equal(added.length, strlen(cases[i][1]) + 3);
        assert_memory_equal(added.data + 2, cases[i][1], strlen(cases[i][1]));
        clq_free(added.data);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows),
        cmocka_unit_test(without_memory),
        cmocka_unit_test(whole_numbers),
        cmocka_unit_test(sizes),
        cmocka_unit_test(decimal_numbers),
        cmocka_unit_test(numbers_have_points),
        cmocka_unit_test(threads_keep_their_locale),
        cmocka_unit_test(sizes_have_units),
        cmocka_unit_test(cleaned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
