/* Devices that say that their memory is the host's, but whose caches are not coherent with it. They are used as if they
 * had memory of their own. */
#include "fixture.h"
#include "support/disguise.h"

static char warning[1024];

static void keep_warning(void *context, clq_log_level level, const char *line) {
    (void)context;
    if (level == CLQ_LOG_WARNING) (void)snprintf(warning, sizeof warning, "%s", line);
}

/* A kernel adds to words that only transfers write and read. */
static void check_transfers(clq_device *device) {
    enum { COUNT = 512 };
    const uint32_t add = 77;
    const size_t items = COUNT;
    uint32_t words[COUNT], got[COUNT];
    clq_queue *queue;
    clq_buffer *buffer, *pinned;
    clq_kernel *kernel;
    CHECK_OK(clq_queue_create(device, 0, &queue));
    CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, sizeof words, "words", &buffer));
    CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_PINNED, sizeof words, "words", &pinned));
    assert_null(clq_buffer_host(buffer));
    assert_non_null(clq_buffer_host(pinned));
    CHECK_OK(clq_kernel_create(device, "selftest", "", "add_words", &kernel));
    CHECK_OK(clq_kernel_set_buffer(kernel, 0, buffer));
    CHECK_OK(clq_kernel_set_bytes(kernel, 1, &add, sizeof add));
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < COUNT; i++) words[i] = i * i + round;
        memcpy(clq_buffer_host(pinned), words, sizeof words);
        CHECK_OK(clq_queue_write(queue, buffer, 0, clq_buffer_host(pinned), sizeof words, false));
        CHECK_OK(clq_queue_launch(queue, kernel, 1, &items, NULL));
        CHECK_OK(clq_queue_read(queue, buffer, 0, got, sizeof got, true));
        for (uint32_t i = 0; i < COUNT; i++) assert_int_equal(got[i], words[i] + add);
    }
    clq_kernel_destroy(kernel);
    clq_buffer_destroy(pinned);
    clq_buffer_destroy(buffer);
    clq_queue_destroy(queue);
}

/* No row of `clique doctor` fails. The row of the host's memory says why it is not used, unless the device is
 * coherent. */
static void check_rows(clq_device *device, bool coherent) {
    clq_check rows[32];
    size_t count;
    bool found = false;
    CHECK_OK(clq_device_checks(device, rows, CLQ_COUNT_OF(rows), &count));
    for (size_t i = 0; i < count; i++) {
        if (!rows[i].ok) fail_msg("%s: %s", rows[i].name, rows[i].detail);
        if (strcmp(rows[i].name, "host memory") != 0) continue;
        found = true;
        assert_int_equal(rows[i].detail[0] == '\0', coherent);
    }
    assert_true(found);
}

/* stale: the layer's mode; NULL turns it off. */
static void check_devices(const char *stale) {
    clq_system *system;
    assert_int_equal(stale ? setenv("CLQ_TEST_STALE", stale, 1) : unsetenv("CLQ_TEST_STALE"), 0);
    CHECK_OK(clq_system_open(NULL, &system));
    uint32_t indices[TEST_DEVICES];
    size_t count = find_devices(system, indices);
    for (size_t k = 0; k < count; k++) {
        char spec[16];
        clq_devices chosen;
        clq_device *device, *untested;
        const clq_device_info *info = clq_system_device_info(system, indices[k]);
        assert_true(info->host_unified && info->fine_grain_svm); /* the driver says so */
        CHECK_OK(clq_device_open(system, (clq_device_choice){indices[k], 0, 1}, &untested));
        warning[0] = '\0';
        (void)snprintf(spec, sizeof spec, "%u", (unsigned)indices[k]);
        CHECK_OK(clq_devices_select(system, spec, &chosen));
        assert_true(info->usable);
        assert_int_equal(info->host_unified, !stale);
        assert_int_equal(info->fine_grain_svm, !stale);
        if (stale && !strstr(warning, "is not coherent")) fail_msg("it says \"%s\"", warning);
        if (!stale) assert_string_equal(warning, "");
        CHECK_OK(clq_device_open(system, chosen.items[0], &device));
        assert_int_equal(clq_device_get_info(device)->host_unified, !stale);
        if (stale) check_transfers(device);
        clq_device_close(device);
        check_rows(untested, !stale);
        clq_device_close(untested);
    }
    clq_system_close(system);
}

static void test_coherent(void **state) {
    (void)state;
    check_devices(NULL);
}

static void test_never(void **state) {
    (void)state;
    check_devices("never");
}

static void test_host_unseen(void **state) {
    (void)state;
    check_devices("out");
}

static void test_kernel_unseen(void **state) {
    (void)state;
    check_devices("in");
}

/* A GPU in a caller's context. */
static void test_wrapped(void **state) {
    (void)state;
    clq_system *system;
    clq_device *device, *wrapped;
    assert_int_equal(disguise_as_gpus("basic"), 0);
    for (int stale = 0; stale < 2; stale++) {
        assert_int_equal(stale ? setenv("CLQ_TEST_STALE", "never", 1) : unsetenv("CLQ_TEST_STALE"), 0);
        CHECK_OK(clq_system_open(NULL, &system));
        CHECK_OK(clq_device_open(system, (clq_device_choice){0, 0, 1}, &device));
        const clq_build_limit limit = clq_device_build_limit(device);
        CHECK_OK(clq_device_wrap(clq_device_context(device), clq_device_id(device), &limit, &wrapped));
        assert_int_equal(clq_device_get_info(wrapped)->type, CLQ_DEVICE_GPU);
        assert_int_equal(clq_device_get_info(wrapped)->host_unified, !stale);
        if (stale) check_transfers(wrapped);
        clq_device_close(wrapped);
        clq_device_close(device);
        clq_system_close(system);
    }
    assert_int_equal(disguise_as_gpus(NULL), 0);
}

static int begin(void **state) {
    (void)state;
    const char *binary = clq_environment("CLQ_TEST_BINARY");
    char layers[1024];
    if (!binary) return -1;
    (void)snprintf(layers, sizeof layers, "%s/tests/clq_stale_layer.so:%s/tests/clq_gpu_layer.so", binary, binary);
    clq_log_set_sink(keep_warning, NULL, CLQ_LOG_WARNING);
    return setenv("OPENCL_LAYERS", layers, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_coherent), cmocka_unit_test(test_never),
                                       cmocka_unit_test(test_host_unseen), cmocka_unit_test(test_kernel_unseen),
                                       cmocka_unit_test(test_wrapped)};
    return cmocka_run_group_tests_name("coherence", tests, begin, NULL);
}
