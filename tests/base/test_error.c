#include "support/check.h"

#include <errno.h>

static void status_texts(void **state) {
    (void)state;
    assert_string_equal(clq_status_text(CLQ_OK), "success");
    assert_string_equal(clq_status_text(CLQ_ERROR_STATE), "called in the wrong state");
    for (int i = 0; i < CLQ_STATUS_COUNT; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(clq_status_text((clq_status)i), clq_status_text((clq_status)j));
    assert_string_equal(clq_status_text(CLQ_STATUS_COUNT), "unknown status");
    assert_string_equal(clq_status_text((clq_status)-5), "unknown status");
}

static void detail_and_context(void **state) {
    (void)state;
    assert_int_equal(clq_fail(CLQ_ERROR_FORMAT, "%s: offset %d", "a.npy", 7), CLQ_ERROR_FORMAT);
    assert_string_equal(clq_error_detail(), "a.npy: offset 7");
    assert_int_equal(clq_fail_within(CLQ_ERROR_READ, "layer %s", "dense"), CLQ_ERROR_READ);
    assert_string_equal(clq_error_detail(), "layer dense: a.npy: offset 7");
    clq_fail(CLQ_ERROR_FORMAT, "again <%s>", clq_error_detail()); /* the old detail as an argument */
    assert_string_equal(clq_error_detail(), "again <layer dense: a.npy: offset 7>");
}

/* The detail of an internal error begins by saying so. Common failures have one wording each. */
static void common_failures(void **state) {
    (void)state;
    assert_string_equal(clq_status_text(CLQ_ERROR_INTERNAL), "internal error");
    assert_int_equal(clq_fail(CLQ_ERROR_INTERNAL, "%d of %d", 3, 2), CLQ_ERROR_INTERNAL);
    assert_string_equal(clq_error_detail(), "internal error: 3 of 2");
    clq_fail(CLQ_ERROR_STATE, "%d of %d", 3, 2);
    assert_string_equal(clq_error_detail(), "3 of 2");
    assert_int_equal(clq_fail_memory("building a table"), CLQ_ERROR_MEMORY);
    assert_string_equal(clq_error_detail(), "out of host memory while building a table");
    assert_int_equal(clq_fail_lock("a barrier", EAGAIN), CLQ_ERROR_SYSTEM);
    assert_string_equal(clq_error_detail(), "cannot create the locks of a barrier: Resource temporarily unavailable");
}

static void one_line_always(void **state) {
    (void)state;
    clq_fail(CLQ_ERROR_BUILD, "a\nb\tc\r\x7f"
                              "d \xc3\xa9");
    assert_string_equal(clq_error_detail(), "a b c ?d \xc3\xa9");
    clq_fail(CLQ_ERROR_READ, "\x1b[2J: %s", "f\xffle\xc2\x9b.npy"); /* a driver's or a file's name may hold anything */
    clq_fail_within(CLQ_ERROR_READ, "\x1b]0;owned\x07");
    assert_string_equal(clq_error_detail(), "?]0;owned?: ?[2J: f?le?.npy");
    char longer[3 * CLQ_DETAIL_MAX];
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    clq_fail(CLQ_ERROR_BUILD, "%s", longer);
    assert_int_equal(strlen(clq_error_detail()), CLQ_DETAIL_MAX - 1);
    clq_fail_within(CLQ_ERROR_BUILD, "%s", longer);
    assert_int_equal(strlen(clq_error_detail()), CLQ_DETAIL_MAX - 1);
    clq_fail(CLQ_ERROR_BUILD, "inner");
    clq_fail_within(CLQ_ERROR_BUILD, "%.1000s", longer);
    assert_string_equal(clq_error_detail() + 1000, ": inner");
}

typedef struct other {
    char at_start[CLQ_DETAIL_MAX];
    clq_error error;
} other;

static void other_thread(void *context) {
    other *seen = context;
    strcpy(seen->at_start, clq_error_detail());
    clq_error_take(clq_fail(CLQ_ERROR_DEVICE, "elsewhere"), &seen->error);
}

static void details_belong_to_threads(void **state) {
    (void)state;
    other seen = {.at_start = "unset"};
    clq_fail(CLQ_ERROR_ARGUMENT, "here");
    clq_thread *thread;
    assert_ok(clq_thread_start("other", other_thread, &seen, &thread));
    clq_thread_join(thread);
    assert_string_equal(seen.at_start, "");
    assert_string_equal(clq_error_detail(), "here");
    assert_int_equal(clq_error_raise(&seen.error), CLQ_ERROR_DEVICE);
    assert_string_equal(clq_error_detail(), "elsewhere");
    assert_int_equal(clq_error_raise(&(clq_error){.status = CLQ_OK}), CLQ_OK);
    assert_string_equal(clq_error_detail(), "elsewhere");
}

static clq_status count_calls(int *calls, clq_status status) {
    ++*calls;
    return status;
}

static clq_status tries(int *calls, clq_status first, clq_status second) {
    clq_status status;
    CLQ_TRY(count_calls(calls, first));
    CLQ_TRY_OR(undo, status, count_calls(calls, second));
    return CLQ_OK;
undo:
    *calls += 100;
    return status;
}

static void try_hands_up(void **state) {
    (void)state;
    int calls = 0;
    assert_int_equal(tries(&calls, CLQ_OK, CLQ_OK), CLQ_OK);
    assert_int_equal(calls, 2);
    assert_int_equal(tries(&calls, CLQ_ERROR_READ, CLQ_OK), CLQ_ERROR_READ);
    assert_int_equal(calls, 3);
    assert_int_equal(tries(&calls, CLQ_OK, CLQ_ERROR_WRITE), CLQ_ERROR_WRITE);
    assert_int_equal(calls, 105);
}

static void types_and_version(void **state) {
    (void)state;
    static const struct {
        clq_dtype dtype;
        const char *name;
        size_t bytes;
    } types[] = {{CLQ_F32, "f32", 4},  {CLQ_F64, "f64", 8}, {CLQ_F16, "f16", 2}, {CLQ_BF16, "bf16", 2},
                 {CLQ_I8, "i8", 1},    {CLQ_I16, "i16", 2}, {CLQ_I32, "i32", 4}, {CLQ_I64, "i64", 8},
                 {CLQ_U8, "u8", 1},    {CLQ_U16, "u16", 2}, {CLQ_U32, "u32", 4}, {CLQ_U64, "u64", 8},
                 {CLQ_BOOL, "bool", 1}};
    assert_int_equal(CLQ_COUNT_OF(types), CLQ_DTYPE_COUNT);
    for (size_t i = 0; i < CLQ_COUNT_OF(types); i++) {
        assert_string_equal(clq_dtype_name(types[i].dtype), types[i].name);
        assert_int_equal(clq_dtype_bytes(types[i].dtype), types[i].bytes);
        assert_int_equal(clq_values_bytes(types[i].dtype, 7), 7 * types[i].bytes);
        assert_int_equal(clq_values_count(types[i].dtype, 7 * types[i].bytes), 7);
        assert_int_equal(clq_values_count(types[i].dtype, 8 * types[i].bytes - 1), 7);
    }
    assert_int_equal(clq_dtype_bytes(CLQ_DTYPE_COUNT), 0);
    assert_non_null(clq_dtype_name((clq_dtype)-1));
}

/* The library's version equals that of the headers, and that of CMake's project. */
static void versions_agree(void **state) {
    (void)state;
    char text[32];
    (void)snprintf(text, sizeof text, "%d.%d.%d", CLQ_VERSION_MAJOR, CLQ_VERSION_MINOR, CLQ_VERSION_PATCH);
    assert_string_equal(clq_version(), text);
    assert_string_equal(clq_version(), CLQ_TEST_RELEASE);
    assert_int_equal(clq_version_number(), CLQ_VERSION);
    assert_int_equal(clq_version_number(), 10000 * CLQ_VERSION_MAJOR + 100 * CLQ_VERSION_MINOR + CLQ_VERSION_PATCH);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_texts),       cmocka_unit_test(versions_agree),
        cmocka_unit_test(detail_and_context), cmocka_unit_test(common_failures),
        cmocka_unit_test(one_line_always),    cmocka_unit_test(details_belong_to_threads),
        cmocka_unit_test(try_hands_up),       cmocka_unit_test(types_and_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
