#include "support/files.h"

#include <sys/stat.h>

static void clear(void) {
    unsetenv("CLIQUE_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
}

static void expect_cache(const char *expected) {
    char *folder = NULL;
    assert_ok(clq_cache_dir(&folder));
    assert_string_equal(folder, expected);
    struct stat info;
    assert_int_equal(stat(folder, &info), 0);
    assert_true(S_ISDIR(info.st_mode));
    clq_free(folder);
}

static void where_caches_go(void **state) {
    (void)state;
    clear();
    char *folder = NULL;
    assert_fails(CLQ_ERROR_NOT_FOUND, "CLIQUE_CACHE_DIR", clq_cache_dir(&folder));
    assert_null(folder);
    setenv("HOME", files_path("home"), 1);
    expect_cache(files_path("home/.cache/clique"));
    setenv("XDG_CACHE_HOME", "relative", 1); /* the specification says to ignore it */
    expect_cache(files_path("home/.cache/clique"));
    setenv("XDG_CACHE_HOME", files_path("xdg"), 1);
    expect_cache(files_path("xdg/clique"));
    setenv("CLIQUE_CACHE_DIR", files_path("own/deep/er"), 1);
    expect_cache(files_path("own/deep/er"));
    setenv("CLIQUE_CACHE_DIR", "", 1); /* empty is unset */
    expect_cache(files_path("xdg/clique"));
}

static void where_none_can_be(void **state) {
    (void)state;
    clear();
    files_put("file", "x", 1);
    setenv("CLIQUE_CACHE_DIR", files_path("file/under"), 1);
    char *folder = NULL;
    assert_fails(CLQ_ERROR_WRITE, "CLIQUE_CACHE_DIR", clq_cache_dir(&folder));
    assert_null(folder);
}

static clq_status ask(void *context) {
    (void)context;
    char *folder = NULL;
    clq_status status = clq_cache_dir(&folder);
    assert_int_equal(folder != NULL, status == CLQ_OK);
    clq_free(folder);
    return status;
}

static void without_memory(void **state) {
    (void)state;
    clear();
    setenv("HOME", files_path("home"), 1);
    assert_int_equal(walk_allocations(ask, NULL), 2);
}

static void variables_and_time(void **state) {
    (void)state;
    setenv("CLQ_TEST_SOMETHING", "7", 1);
    assert_string_equal(clq_environment("CLQ_TEST_SOMETHING"), "7");
    setenv("CLQ_TEST_SOMETHING", "", 1);
    assert_null(clq_environment("CLQ_TEST_SOMETHING"));
    unsetenv("CLQ_TEST_SOMETHING");
    assert_null(clq_environment("CLQ_TEST_SOMETHING"));
    double before = clq_now();
    usleep(2000);
    assert_true(clq_now() - before >= 0.002);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_caches_go),
        cmocka_unit_test(where_none_can_be),
        cmocka_unit_test(without_memory),
        cmocka_unit_test(variables_and_time),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
