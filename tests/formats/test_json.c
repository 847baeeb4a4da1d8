#include "formats/formats.h"
#include "support/files.h"

#include <locale.h>

static void reads(void **state) {
    (void)state;
    static const char text[] = "{\"a\": [1, 2.5, \"x\\u00e9\"], \"b\": {\"c\": null}}";
    json_t *json;
    assert_ok(clq_json_read(files_put("good.json", text, sizeof(text) - 1), 100, 2, &json));
    assert_int_equal(json_integer_value(json_array_get(json_object_get(json, "a"), 0)), 1);
    assert_string_equal(json_string_value(json_array_get(json_object_get(json, "a"), 2)), "x\xc3\xa9");
    json_decref(json);
    static const char brackets[] = "[\"[[[[{{{{\\\"[[[[\", \"\\\\\"]"; /* in strings, behind escapes */
    assert_ok(clq_json_parse(brackets, sizeof(brackets) - 1, 1, "here", &json));
    assert_int_equal(json_array_size(json), 2);
    json_decref(json);
}

static void refuses(void **state) {
    (void)state;
    static const struct {
        const char *text;
        const char *says;
    } bad[] = {
        {"", "f.json: line 1"},
        {"7", "f.json: line 1"},
        {"{\"a\": 1,\n \"a\": 2}", "line 2"},
        {"{\"a\": 1} x", "end of file expected"},
        {"[1, 2", "f.json: line 1, column 5"},
        {"[\"\xff\"]", "f.json"},
        {"[\"\\u0000\"]", "f.json"},
        {"[1e999]", "overflow"},
        {"[99999999999999999999]", "too big integer"},
        {"{\"a\": NaN}", "f.json"},
        {"[[[[]]]]", "more than 3 nested objects and arrays, at offset 3"},
        {"[[],[],[[{}]]]", "at offset 9"},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(bad); i++) {
        json_t *json = NULL;
        assert_fails(CLQ_ERROR_FORMAT, bad[i].says,
                     clq_json_parse(bad[i].text, strlen(bad[i].text), 3, "f.json", &json));
        assert_null(json);
    }
    json_t *json = NULL;
    assert_fails(CLQ_ERROR_FORMAT, "the most that is read here is 3",
                 clq_json_read(files_put("long.json", "[   ]", 5), 3, 3, &json));
    assert_fails(CLQ_ERROR_NOT_FOUND, "missing.json", clq_json_read(files_path("missing.json"), 3, 3, &json));
}

static void deep(void **state) {
    (void)state;
    enum { DEEP = 2000000 };
    char *text = clq_alloc(DEEP, 1);
    memset(text, '[', DEEP);
    json_t *json = NULL;
    assert_fails(CLQ_ERROR_FORMAT, "more than 64 nested", clq_json_parse(text, DEEP, 64, "deep.json", &json));
    clq_free(text);
}

/* Numbers have decimal points in any locale of the thread, and the thread keeps its locale. */
static void threads_keep_their_locale(void **state) {
    (void)state;
    const locale_t own = duplocale(LC_GLOBAL_LOCALE), before = uselocale(own);
    clq_text text = {0};
    json_t *json = NULL;
    assert_true(own && own != before);
    assert_ok(clq_json_parse("[0.5]", 5, 1, "here", &json));
    assert_ptr_equal(uselocale((locale_t)0), own);
    clq_json_dump(json, 0, &text);
    assert_ptr_equal(uselocale((locale_t)0), own);
    char *dumped = clq_json_dumps(json, 0);
    assert_ptr_equal(uselocale((locale_t)0), own);
    assert_string_equal(text.data, "[0.5]");
    assert_string_equal(dumped, "[0.5]");
    clq_free(dumped);
    clq_free(text.data);
    json_decref(json);
    json = NULL;
    assert_fails(CLQ_ERROR_FORMAT, "overflow", clq_json_parse("[1e999]", 7, 1, "here", &json));
    assert_ptr_equal(uselocale((locale_t)0), own);
    uselocale(before);
    freelocale(own);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(reads), cmocka_unit_test(refuses), cmocka_unit_test(deep),
                                       cmocka_unit_test(threads_keep_their_locale)};
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
