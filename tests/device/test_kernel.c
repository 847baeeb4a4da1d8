#include "device/internal.h"
#include "fixture.h"

static void arguments_are_own(clq_device *device, clq_queue *queue) {
    clq_buffer *a, *b;
    clq_kernel *first, *second;
    CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, 64, "a", &a));
    CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, 64, "b", &b));
    CHECK_OK(clq_kernel_create(device, "selftest", "", "add_words", &first));
    CHECK_OK(clq_kernel_create(device, "selftest", "", "add_words", &second));
    assert_string_equal(first->name, "add_words");
    const uint32_t one = 1, ten = 10;
    CHECK_OK(clq_kernel_set_buffer(first, 0, a));
    CHECK_OK(clq_kernel_set_bytes(first, 1, &one, sizeof one));
    CHECK_OK(clq_kernel_set_buffer(second, 0, b));
    CHECK_OK(clq_kernel_set_bytes(second, 1, &ten, sizeof ten));
    const size_t words = 16, none = 0, sides[2] = {16, 0};
    for (int i = 0; i < 3; i++) {
        CHECK_OK(clq_queue_launch(queue, first, 1, &words, NULL));
        CHECK_OK(clq_queue_launch(queue, second, 1, &words, &words));
        CHECK_OK(clq_queue_launch(queue, first, 1, &none, NULL)); /* nothing */
        CHECK_OK(clq_queue_launch(queue, first, 2, sides, NULL)); /* nothing */
    }
    uint32_t out[16];
    CHECK_OK(clq_queue_read(queue, a, 0, out, sizeof out, true));
    for (int i = 0; i < 16; i++) assert_int_equal(out[i], 3);
    CHECK_OK(clq_queue_read(queue, b, 0, out, sizeof out, true));
    for (int i = 0; i < 16; i++) assert_int_equal(out[i], 30);
    size_t most = 0;
    CHECK_OK(clq_kernel_max_group(first, &most));
    assert_true(most >= 16 && most <= clq_device_get_info(device)->max_work_group);
    clq_kernel_destroy(first);
    clq_kernel_destroy(second);
    clq_kernel_destroy(NULL);
    clq_buffer_destroy(a);
    clq_buffer_destroy(b);
}

static void wrong_use(clq_device *device, clq_queue *queue) {
    clq_kernel *kernel = NULL;
    CHECK_FAILS(CLQ_ERROR_INTERNAL, clq_kernel_create(device, "no_such_file", "", "f", &kernel));
    CHECK_DETAIL("no_such_file.cl");
    CHECK_FAILS(CLQ_ERROR_BUILD, clq_kernel_create(device, "selftest", "", "no_such_kernel", &kernel));
    CHECK_DETAIL("no_such_kernel");
    assert_null(kernel);
    CHECK_OK(clq_kernel_create(device, "selftest", "", "add_words", &kernel));
    const uint32_t add = 1;
    const size_t words = 16, too_large = 1 << 20;
    assert_int_not_equal(clq_queue_launch(queue, kernel, 1, &words, NULL), CLQ_OK); /* no arguments yet */
    CHECK_DETAIL("add_words");
    assert_int_not_equal(clq_kernel_set_bytes(kernel, 7, &add, sizeof add), CLQ_OK);
    CHECK_DETAIL("argument 7 of add_words");
    CHECK_DETAIL(clq_device_label(device));
    clq_buffer *buffer;
    CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, 64, "a", &buffer));
    CHECK_OK(clq_kernel_set_buffer(kernel, 0, buffer));
    CHECK_OK(clq_kernel_set_bytes(kernel, 1, &add, sizeof add));
    assert_int_not_equal(clq_queue_launch(queue, kernel, 1, &too_large, &too_large), CLQ_OK);
    CHECK_DETAIL("CL_INVALID_WORK_GROUP_SIZE (-54)");
    assert_false(clq_device_lost(device));
    CHECK_OK(clq_queue_launch(queue, kernel, 1, &words, NULL)); /* and it still works */
    CHECK_OK(clq_queue_finish(queue));
    clq_kernel_destroy(kernel);
    clq_buffer_destroy(buffer);
}

/* The error of a program that does not compile says in one line which file and device it is about, and what the
 * compiler said. */
static void failing_build(clq_device *device, clq_queue *queue) {
    (void)queue;
    clq_kernel *kernel = NULL;
    for (int i = 0; i < 2; i++) { /* also the second time */
        CHECK_FAILS(CLQ_ERROR_BUILD,
                    clq_kernel_create(device, "selftest", "-Dkernel=neither_is_this", "arithmetic", &kernel));
        CHECK_DETAIL("selftest.cl");
        CHECK_DETAIL(clq_device_label(device));
        CHECK_DETAIL(clq_device_get_info(device)->driver_version);
        CHECK_DETAIL("neither_is_this");
        CHECK_DETAIL("CL_BUILD_PROGRAM_FAILURE (-11)");
        assert_null(strchr(clq_error_detail(), '\n'));
        assert_null(kernel);
    }
    CHECK_OK(clq_kernel_create(device, "selftest", "", "arithmetic", &kernel));
    clq_kernel_destroy(kernel);
}

/* The device's generator gives the numbers of Random123's known-answer file. */
static void philox_answers(clq_device *device, clq_queue *queue) {
    static const struct {
        uint64_t key, high;
        uint32_t word[4]; /* for the counter's low half 0 */
    } known[] = {
        {0, 0, {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}},
    };
    clq_kernel *kernel;
    clq_buffer *buffer;
    CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, 1 << 14, "words", &buffer));
    CHECK_OK(clq_kernel_create(device, "selftest", "", "random_words", &kernel));
    CHECK_OK(clq_kernel_set_buffer(kernel, 0, buffer));
    uint32_t out[1 << 12];
    const size_t one = 1, many = 1 << 10;
    for (size_t i = 0; i < CLQ_COUNT_OF(known); i++) {
        CHECK_OK(clq_kernel_set_bytes(kernel, 1, &known[i].key, 8));
        CHECK_OK(clq_kernel_set_bytes(kernel, 2, &known[i].high, 8));
        CHECK_OK(clq_queue_launch(queue, kernel, 1, &one, NULL));
        CHECK_OK(clq_queue_read(queue, buffer, 0, out, 16, true));
        assert_memory_equal(out, known[i].word, 16);
    }
    /* The same numbers as the host's for many counters. */
    const uint64_t key = 0x299f31d0a4093822u, high = 0x0370734413198a2eu;
    CHECK_OK(clq_kernel_set_bytes(kernel, 1, &key, 8));
    CHECK_OK(clq_kernel_set_bytes(kernel, 2, &high, 8));
    CHECK_OK(clq_queue_launch(queue, kernel, 1, &many, NULL));
    CHECK_OK(clq_queue_read(queue, buffer, 0, out, sizeof out, true));
    for (uint64_t i = 0; i < many; i++) {
        clq_philox answer = clq_philox4x32(key, i * 0x100000001u, high);
        assert_memory_equal(out + 4 * i, answer.word, 16);
    }
    clq_kernel_destroy(kernel);
    clq_buffer_destroy(buffer);
}

static void test_arguments(void **state) {
    (void)state;
    on_each_device(arguments_are_own);
}
static void test_wrong_use(void **state) {
    (void)state;
    on_each_device(wrong_use);
}
static void test_failing_build(void **state) {
    (void)state;
    on_each_device(failing_build);
}
static void test_philox(void **state) {
    (void)state;
    on_each_device(philox_answers);
}

static void test_sources(void **state) {
    (void)state;
    assert_null(clq_source_text("no_such_file"));
    assert_non_null(strstr(clq_source_text("prelude"), "philox4x32"));
    assert_non_null(strstr(clq_source_text("selftest"), "kernel void add_words"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sources),       cmocka_unit_test(test_arguments), cmocka_unit_test(test_wrong_use),
        cmocka_unit_test(test_failing_build), cmocka_unit_test(test_philox),
    };
    return cmocka_run_group_tests_name("kernel", tests, NULL, NULL);
}
