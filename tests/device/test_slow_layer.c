/* The layer of slow devices (tests/support/slow_layer.c): devices rest for as long as they must, and compute the same
 * results as without the layer. */
#include "fixture.h"
#include "support/slow.h"

enum { WORDS = 4096, KERNELS = 10, LATE = 4 };

static slow layer;

/* Launches `kernels` kernels that add 1, and checks what they made. */
static void launch(clq_device *device, clq_queue *queue, uint32_t kernels) {
    static uint32_t words[WORDS];
    const uint32_t one = 1;
    clq_buffer *buffer;
    clq_kernel *kernel;
    memset(words, 0, sizeof words);
    CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, sizeof words, "words", &buffer));
    CHECK_OK(clq_kernel_create(device, "selftest", "", "add_words", &kernel));
    CHECK_OK(clq_kernel_set_buffer(kernel, 0, buffer));
    CHECK_OK(clq_kernel_set_bytes(kernel, 1, &one, sizeof one));
    CHECK_OK(clq_queue_write(queue, buffer, 0, words, sizeof words, true));
    for (uint32_t i = 0; i < kernels; i++) CHECK_OK(clq_queue_launch(queue, kernel, 1, &(size_t){WORDS}, NULL));
    CHECK_OK(clq_queue_read(queue, buffer, 0, words, sizeof words, true));
    for (size_t i = 0; i < WORDS; i++) assert_int_equal(words[i], kernels);
    clq_kernel_destroy(kernel);
    clq_buffer_destroy(buffer);
}

/* Since the last call, the device at `place` rested `times` as long as it computed. *busy_s and *rest_s hold both
 * times, in seconds, until the next call. */
static void rests(unsigned place, double times, double *busy_s, double *rest_s) {
    double busy, rest;
    layer.times(place, &busy, &rest);
    const double off = (rest - *rest_s) - times * (busy - *busy_s);
    assert_true(times == 0.0 ? busy == *busy_s : busy > *busy_s);
    assert_true(off < 1e-6 && off > -1e-6);
    *busy_s = busy;
    *rest_s = rest;
}

static unsigned place;

static void changes_its_pace(clq_device *device, clq_queue *queue) {
    double busy_s, rest_s;
    layer.times(place, &busy_s, &rest_s);
    layer.pace(place, 1.0);
    launch(device, queue, KERNELS);
    rests(place, 0.0, &busy_s, &rest_s);
    layer.pace(place, 3.0);
    launch(device, queue, KERNELS);
    rests(place, 2.0, &busy_s, &rest_s);
    layer.pace(place, 1.5);
    launch(device, queue, KERNELS);
    rests(place, 0.5, &busy_s, &rest_s);
    layer.pace(place, 1.0);
}

static void on_device(clq_system *system, clq_device_choice choice, void (*body)(clq_device *, clq_queue *)) {
    clq_device *device;
    clq_queue *queue;
    CHECK_OK(clq_device_open(system, choice, &device));
    CHECK_OK(clq_queue_create(device, 0, &queue));
    body(device, queue);
    clq_queue_destroy(queue);
    clq_device_close(device);
}

static void devices_change_their_pace(void **state) {
    (void)state;
    clq_system *system;
    uint32_t indices[TEST_DEVICES];
    CHECK_OK(clq_system_open(NULL, &system));
    const size_t count = find_devices(system, indices);
    for (size_t i = 0; i < count; i++) {
        place = indices[i];
        on_device(system, (clq_device_choice){indices[i], 0, 1}, changes_its_pace);
    }
    clq_system_close(system);
}

static void launches(clq_device *device, clq_queue *queue) { launch(device, queue, KERNELS); }

/* The second device rests from its first kernel on, the third after some kernels, and the fourth after more kernels
 * than it gets. */
static void words_set_the_pace(void **state) {
    (void)state;
    clq_system *system;
    double busy_s[4] = {0}, rest_s[4] = {0};
    CHECK_OK(clq_system_open(NULL, &system));
    for (uint32_t i = 0; i < 4; i++) on_device(system, (clq_device_choice){i, 0, 1}, launches);
    rests(0, 0.0, &busy_s[0], &rest_s[0]);
    rests(1, 1.5, &busy_s[1], &rest_s[1]);
    rests(2, 1.0, &busy_s[2], &rest_s[2]);
    rests(3, 0.0, &busy_s[3], &rest_s[3]);
    clq_system_close(system);
}

static void parts_go_as_the_whole(void **state) {
    (void)state;
    clq_system *system;
    uint32_t indices[TEST_DEVICES];
    CHECK_OK(clq_system_open(NULL, &system));
    if (find_devices(system, indices) <= TEST_INTEL) skip();
    const unsigned devices = (unsigned)clq_system_device_count(system);
    double busy_s[2] = {0}, rest_s[2] = {0};
    layer.pace(indices[TEST_INTEL], 2.0);
    on_device(system, (clq_device_choice){indices[TEST_INTEL], 1, 2}, launches);
    rests(devices, 0.0, &busy_s[0], &rest_s[0]); /* the other half did nothing */
    rests(devices + 1, 1.0, &busy_s[1], &rest_s[1]);
    clq_system_close(system);
}

static int load(void **state) {
    (void)state;
    char words[64];
    (void)snprintf(words, sizeof words, "- 2.5 2@%d 2@%d", LATE, 10 * KERNELS);
    return slow_load(&layer, words);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(words_set_the_pace),
                                       cmocka_unit_test(devices_change_their_pace),
                                       cmocka_unit_test(parts_go_as_the_whole)};
    return cmocka_run_group_tests(tests, load, NULL);
}
