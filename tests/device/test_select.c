/* The device SPEC. The environment of the tests gives PoCL six devices (five that run in their callers, one pool). */
#include "fixture.h"
#include "support/system.h"

static uint32_t index_of(const char *driver, uint32_t ordinal) {
    for (size_t i = 0; i < clq_system_device_count(sys); i++)
        if (strcmp(clq_system_device_info(sys, i)->driver, driver) == 0 && ordinal-- == 0) return (uint32_t)i;
    fail_msg("there is no %s device", driver);
    return 0;
}

static void expect(const char *spec, uint32_t count, const clq_device_choice *items) {
    clq_devices got;
    CHECK_OK(clq_devices_select(sys, spec, &got));
    assert_int_equal(got.count, count);
    assert_ptr_equal(got.system, sys);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(got.items[i].index, items[i].index);
        assert_int_equal(got.items[i].part, items[i].part);
        assert_int_equal(got.items[i].parts, items[i].parts);
    }
}
#define EXPECT(spec, ...)                                                                                              \
    expect(spec, (uint32_t)(sizeof((clq_device_choice[]){__VA_ARGS__}) / sizeof(clq_device_choice)),                   \
           (clq_device_choice[]){__VA_ARGS__})

static void test_table(void **state) {
    (void)state;
    uint32_t count = (uint32_t)clq_system_device_count(sys);
    assert_true(count >= 6);
    for (uint32_t i = 0; i < count; i++) assert_int_equal(clq_system_device_info(sys, i)->index, i);
    assert_null(clq_system_device_info(sys, count));
    const clq_device_info *pool = clq_system_device_info(sys, index_of("pocl", 5));
    assert_string_equal(pool->platform, "Portable Computing Language");
    assert_true(pocl_name_is(pool->name, POCL_POOL));
    assert_int_equal(pool->type, CLQ_DEVICE_CPU);
    assert_true(pool->global_mem_bytes > 0 && pool->max_alloc_bytes > 0 && pool->local_mem_bytes > 0);
    assert_true(pool->host_unified && pool->compute_units >= 1 && pool->max_work_group >= 64 &&
                pool->vector_width >= 4);
    assert_int_equal(strncmp(pool->opencl_version, "OpenCL ", 7), 0);
    assert_true(pool->vendor[0] && pool->driver_version[0]);
}

static void test_indices(void **state) {
    (void)state;
    EXPECT("0", {0, 0, 1});
    EXPECT("2,0", {2, 0, 1}, {0, 0, 1});
    EXPECT(" 1 , 3 ", {1, 0, 1}, {3, 0, 1});
    EXPECT("0*2,1", {0, 0, 1}, {0, 0, 1}, {1, 0, 1});
    EXPECT("1*1", {1, 0, 1});
    EXPECT("1/1", {1, 0, 1});
    EXPECT("0,0", {0, 0, 1}, {0, 0, 1});
}

static void test_tags(void **state) {
    (void)state;
    uint32_t p[6];
    for (uint32_t i = 0; i < 6; i++) p[i] = index_of("pocl", i);
    EXPECT("pocl", {p[0], 0, 1}, {p[1], 0, 1}, {p[2], 0, 1}, {p[3], 0, 1}, {p[4], 0, 1}, {p[5], 0, 1});
    EXPECT("pocl:1", {p[1], 0, 1});
    EXPECT("PoCL:5*3", {p[5], 0, 1}, {p[5], 0, 1}, {p[5], 0, 1});
    EXPECT("cpu:0", {0, 0, 1});
    clq_devices all, cpus;
    CHECK_OK(clq_devices_select(sys, "all", &all));
    CHECK_OK(clq_devices_select(sys, "cpu", &cpus));
    assert_int_equal(all.count, clq_system_device_count(sys));
    assert_int_equal(cpus.count, all.count);
#if defined(__x86_64__)
    EXPECT("intel,pocl:0", {index_of("intel", 0), 0, 1}, {p[0], 0, 1});
#endif
}

static void test_parts(void **state) {
    (void)state;
    uint32_t pool = index_of("pocl", 5);
    const clq_device_info *info = clq_system_device_info(sys, pool);
    const bool splits = info->compute_units >= 2 && driver_splits(sys, pool);
    if (splits) EXPECT("pocl:5/2", {pool, 0, 2}, {pool, 1, 2});
    if (splits) EXPECT("pocl:5/2:1,pocl:0", {pool, 1, 2}, {index_of("pocl", 0), 0, 1});
    clq_devices got = {.count = 77};
    if (!splits) CHECK_FAILS(CLQ_ERROR_NO_DEVICE, clq_devices_select(sys, "pocl:5/2", &got));
    CHECK_FAILS(CLQ_ERROR_NO_DEVICE, clq_devices_select(sys, "pocl:0/2", &got)); /* one compute unit */
    CHECK_DETAIL("split into 1 part");
    char spec[32];
    (void)snprintf(spec, sizeof spec, "pocl:5/%u", (unsigned)CLQ_MIN(info->compute_units + 1, 64u));
    if (info->compute_units < 64) CHECK_FAILS(CLQ_ERROR_NO_DEVICE, clq_devices_select(sys, spec, &got));
    assert_int_equal(got.count, 77);
}

static void test_auto(void **state) {
    (void)state;
    clq_devices got, unset;
    CHECK_OK(clq_devices_select(sys, "auto", &got));
    CHECK_OK(clq_devices_select(sys, NULL, &unset));
    assert_int_equal(got.count, 1);
    assert_memory_equal(got.items, unset.items, sizeof got.items[0]);
    uint64_t best = 0;
    for (size_t i = 0; i < clq_system_device_count(sys); i++) {
        const clq_device_info *info = clq_system_device_info(sys, i);
        best = CLQ_MAX(best, (uint64_t)info->compute_units * info->vector_width);
    }
    const clq_device_info *chosen = clq_system_device_info(sys, got.items[0].index);
    assert_int_equal((uint64_t)chosen->compute_units * chosen->vector_width, best);
    assert_true(chosen->usable);
    EXPECT("auto*2", {chosen->index, 0, 1}, {chosen->index, 0, 1});
}

static void test_syntax(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "",         ",",           "0,",
        ",0",       "0,,1",        "0*",
        "0*0",      "0/0",         "0*65",
        "0*2/2",    "0/2*2",       "0*x",
        "pocl:",    "pocl:x",      "pocl:-1",
        "po cl",    "0 1",         "0x1",
        "1.5",      "-1",          "gpu=1",
        "*2",       "auto:0",      "0*2*2",
        "pocl::1",  "99999999999", "0*99999999999999999999",
        "pocl:0:0", "0;1",         "0*33,0*32",
        "0/2:2",    "0/2:",        "0*2:1",
        "\xff",     "[0]",         "averyveryveryverylongworddoesnotmatchanydriveratallandgoesonandon",
    };
    clq_devices got = {.count = 77};
    for (size_t i = 0; i < CLQ_COUNT_OF(wrong); i++) {
        clq_status status = clq_devices_select(sys, wrong[i], &got);
        if (status != CLQ_ERROR_ARGUMENT) fail_msg("\"%s\": %s", wrong[i], clq_status_text(status));
        assert_true(strlen(clq_error_detail()) > 10 && !strchr(clq_error_detail(), '\n'));
        assert_int_equal(got.count, 77);
    }
    CHECK_FAILS(CLQ_ERROR_ARGUMENT, clq_devices_select(sys, "0*2/2", &got));
    CHECK_DETAIL("0 = pocl:0"); /* what exists is listed */
}

static void test_no_match(void **state) {
    (void)state;
    static const char *const none[] = {"gpu", "nvidia", "accelerator", "99", "pocl:6", "pocl:4000000000",
                                       "foo", "0,gpu",  "gpu*2"};
    clq_devices got = {.count = 77};
    for (size_t i = 0; i < CLQ_COUNT_OF(none); i++) {
        clq_status status = clq_devices_select(sys, none[i], &got);
        if (status != CLQ_ERROR_NO_DEVICE) fail_msg("\"%s\": %s", none[i], clq_status_text(status));
        CHECK_DETAIL("pocl:0");
        assert_int_equal(got.count, 77);
    }
}

static void test_limits(void **state) {
    (void)state;
    clq_devices got;
    CHECK_OK(clq_devices_select(sys, "0*64", &got));
    assert_int_equal(got.count, CLQ_REPLICAS_MAX);
    CHECK_FAILS(CLQ_ERROR_ARGUMENT, clq_devices_select(sys, "0*64,1", &got));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),    cmocka_unit_test(test_indices), cmocka_unit_test(test_tags),
        cmocka_unit_test(test_parts),    cmocka_unit_test(test_auto),    cmocka_unit_test(test_syntax),
        cmocka_unit_test(test_no_match), cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests_name("select", tests, open_system, close_system);
}
