/* The compilers of devices that are no CPUs are not trusted: a kernel that a compiler gets wrong is not used. */
#include "ops/product/product_local.h"
#include "ops/convolution/winograd.h"
#include "support/check.h"
#include "support/disguise.h"
#include "support/files.h"
#include "support/unoptimized.h"

#include <stdio.h>
#include <stdlib.h>

/* The device's groups are small: one block of Winograd's products fits. */
enum { LAST_BLOCK = CLQ_WINOGRAD_BLOCKS - 1, SMALL_PRODUCT = 7 /* 16x16 */, LINE_MOST = 512 };

static const clq_local_terms floats = {.precision = CLQ_MATMUL_HIGHEST}; /* memory has floats, too */
static clq_system *sys;
static clq_device *device;
static char warning[LINE_MOST]; /* the last warning */

static void keep_warning(void *context, clq_log_level level, const char *line) {
    (void)context;
    if (level == CLQ_LOG_WARNING) (void)snprintf(warning, sizeof warning, "%s", line);
}

/* Opens PoCL's basic device. flaw: the text that its compiler leaves out of programs, or NULL. cache_dir: "" keeps
 * nothing on disk. */
static void open_keeping(const char *flaw, const char *cache_dir) {
    if (flaw)
        assert_int_equal(setenv("CLQ_TEST_FLAW", flaw, 1), 0);
    else
        assert_int_equal(unsetenv("CLQ_TEST_FLAW"), 0);
    warning[0] = '\0';
    clq_log_set_sink(keep_warning, NULL, CLQ_LOG_WARNING);
    assert_ok(clq_system_open(&(clq_system_config){.cache_dir = cache_dir}, &sys));
    assert_ok(clq_device_open(sys, (clq_device_choice){.index = 0, .parts = 1}, &device));
    assert_int_equal(clq_device_get_info(device)->type, CLQ_DEVICE_GPU);
    assert_int_equal(clq_device_get_info(device)->max_work_group, 64);
}

static void open_flawed(const char *flaw) { open_keeping(flaw, ""); }

static void close_flawed(void) {
    clq_device_close(device);
    clq_system_close(sys);
    clq_log_set_sink(NULL, NULL, CLQ_LOG_WARNING);
}

/* Checks which kernel file makes a convolution that is large enough for Winograd's products to pay. */
static void check_made_by(bool forced, const char *file) {
    static const clq_selection winograd = {"conv *", "winograd"};
    const clq_selections selections = {.entries = &winograd, .count = forced};
    const clq_conv2d_problem p = {30, 30, 64, 28, 28, 64, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_RELU, false};
    clq_list *list;
    clq_launch_info info;
    clq_value values[3];
    assert_ok(clq_list_create(device, 64, &list));
    clq_list_set_selections(list, &selections);
    for (size_t i = 0; i < 3; i++) values[i] = clq_list_value(list, CLQ_VALUE_EXTERNAL, "array", 4, 0);
    clq_conv2d_forward(list, &p, values[0], values[1], CLQ_NO_VALUE, values[2]);
    assert_ok(clq_list_status(list));
    clq_list_launch_info(list, clq_list_launch_count(list) - 1, &info);
    assert_string_equal(info.file, file);
    clq_list_destroy(list);
}

/* The kernels are unrolled, as GPUs get them. Blocks that are too large for the device to choose work, too. */
static void what_works_is_used(void **state) {
    (void)state;
    open_flawed(NULL);
    for (size_t i = 0; i < CLQ_WINOGRAD_BLOCKS; i++) assert_true(clq_winograd_block_works(device, i, NULL));
    assert_true(clq_local_block_works(device, SMALL_PRODUCT, &floats));
    check_made_by(false, "winograd_local");
    check_made_by(true, "winograd_local");
    assert_string_equal(warning, "");
    close_flawed();
}

/* The flaws: winograd_local.cl lacks a step of a transform, or does not compile. */
static void what_is_wrong_is_not_used(void **state) {
    (void)state;
    static const char *const flaws[][2] = {{"d[2 * step] = c - b;", "its answers are wrong"},
                                           {"int item = (int)get_local_id(0);", "winograd_local"}};
    for (size_t i = 0; i < CLQ_COUNT_OF(flaws); i++) {
        open_flawed(flaws[i][0]);
        check_made_by(true, "product_local");
        assert_false(clq_winograd_block_works(device, LAST_BLOCK, NULL));
        assert_non_null(strstr(warning, "winograd 8x8"));
        if (!strstr(warning, flaws[i][1])) fail_msg("warned: %s", warning);
        warning[0] = '\0'; /* the block is tried, and warned of, once */
        assert_false(clq_winograd_block_works(device, LAST_BLOCK, NULL));
        assert_string_equal(warning, "");
        close_flawed();
    }
}

/* Without this text product_local.cl lacks the terms of a row. */
static const char product_flaw[] = "acc[4 * r + 2][q] = add_product(av[r].z, bv[q], acc[4 * r + 2][q]);";

static void products_that_are_wrong_are_not_used(void **state) {
    (void)state;
    open_flawed(product_flaw);
    assert_false(clq_local_block_works(device, SMALL_PRODUCT, &floats));
    assert_non_null(strstr(warning, "its answers are wrong"));
    close_flawed();
}

/* Opens a system of its own, which builds its programs anew: a trial would find the flaw. */
static bool works_with(const char *flaw, const char *driver_version) {
    char programs[256];
    (void)snprintf(programs, sizeof programs, "%s/programs", files_folder);
    (void)files_remove(programs);
    assert_int_equal(
        driver_version ? setenv("CLQ_TEST_DRIVER_VERSION", driver_version, 1) : unsetenv("CLQ_TEST_DRIVER_VERSION"), 0);
    open_keeping(flaw, files_folder);
    bool works = clq_local_block_works(device, SMALL_PRODUCT, &floats);
    close_flawed();
    assert_int_equal(unsetenv("CLQ_TEST_DRIVER_VERSION"), 0);
    return works;
}

/* Good and bad results are kept. Another version of the driver is tried anew. */
static void results_of_trials_are_kept(void **state) {
    (void)state;
    assert_true(works_with(NULL, NULL));
    assert_true(works_with(product_flaw, NULL));
    assert_string_equal(warning, "");
    assert_false(works_with(product_flaw, "99.1"));
    assert_non_null(strstr(warning, "its answers are wrong"));
    assert_false(works_with(NULL, "99.1"));
    assert_string_equal(warning, "");
}

/* A compiler may have failed because memory or disk was full, so its failure is not kept. */
static void failures_of_trials_are_not_kept(void **state) {
    (void)state;
    assert_false(works_with("int item = (int)get_local_id(1) * GN", "99.2"));
    assert_non_null(strstr(warning, "product_local"));
    assert_true(works_with(NULL, "99.2"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_works_is_used), cmocka_unit_test(what_is_wrong_is_not_used),
        cmocka_unit_test(products_that_are_wrong_are_not_used), cmocka_unit_test(results_of_trials_are_kept),
        cmocka_unit_test(failures_of_trials_are_not_kept)};
    compile_unoptimized(true); /* all are kernels for GPUs */
    compile_on_simple_devices(true);
    if (disguise_load_gpus() != 0 || disguise_as_gpus("basic") != 0) return 1;
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
