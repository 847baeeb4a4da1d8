/* The kernel with which a rank adds what it received, alone, on every device (also on oclgrind's). */
#include "device/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { GUARD = 5, ROOM = 1200 }; /* floats */

static void must(clq_status status) {
    if (status != CLQ_OK) fail_msg("%s: %s", clq_status_text(status), clq_error_detail());
}

typedef struct adder {
    clq_device *device;
    clq_queue *queue;
    clq_kernel *kernel;
    clq_buffer *to, *from, *received;
} adder;

static float value_at(unsigned stream, size_t i) {
    return (float)clq_philox4x32(stream, i, 0).word[0] / 4294967296.0f - 0.5f;
}

static void fill(adder *a, clq_buffer *buffer, unsigned stream) {
    float values[ROOM];
    for (size_t i = 0; i < ROOM; i++) values[i] = value_at(stream, i);
    must(clq_queue_write(a->queue, buffer, 0, values, sizeof values, true));
}

static void set_place(adder *a, uint32_t index, const clq_buffer *buffer, uint64_t at) {
    must(clq_kernel_set_buffer(a->kernel, index, buffer));
    must(clq_kernel_set_bytes(a->kernel, index + 1, &at, sizeof at));
}

/* Offsets and lengths that no vector divides; every other float stays what it was. */
static void check(adder *a, uint64_t count, uint64_t to_at, uint64_t from_at, uint64_t received_at, bool in_place,
                  size_t items) {
    clq_buffer *to = in_place ? a->from : a->to;
    if (in_place) to_at = from_at;
    fill(a, a->to, 1);
    fill(a, a->from, 2);
    fill(a, a->received, 3);
    set_place(a, 0, to, to_at);
    set_place(a, 2, a->from, from_at);
    set_place(a, 4, a->received, received_at);
    must(clq_kernel_set_bytes(a->kernel, 6, &count, sizeof count));
    must(clq_queue_launch(a->queue, a->kernel, 1, &items, NULL));
    float got[ROOM];
    must(clq_queue_read(a->queue, to, 0, got, sizeof got, true));
    for (size_t i = 0; i < ROOM; i++) {
        float want = value_at(in_place ? 2 : 1, i);
        if (i >= to_at && i < to_at + count)
            want = value_at(2, i - to_at + from_at) + value_at(3, i - to_at + received_at);
        if (memcmp(&want, &got[i], sizeof want) != 0)
            fail_msg("%s: float %zu is %.9g, should be %.9g (%zu from %zu on)", clq_device_label(a->device), i,
                     (double)got[i], (double)want, (size_t)count, (size_t)to_at);
    }
}

static void check_options(clq_device *device, const char *options) {
    adder a = {.device = device};
    must(clq_queue_create(device, 0, &a.queue));
    must(clq_kernel_create(device, "comm", options, "comm_add", &a.kernel));
    must(clq_buffer_create(device, CLQ_MEMORY_DEVICE, ROOM * sizeof(float), "to", &a.to));
    must(clq_buffer_create(device, CLQ_MEMORY_DEVICE, ROOM * sizeof(float), "from", &a.from));
    must(clq_buffer_create(device, CLQ_MEMORY_DEVICE, ROOM * sizeof(float), "received", &a.received));
    const uint64_t counts[] = {0, 1, 3, 16, 17, 255, 1009};
    const size_t items[] = {1, 2, 7, 64};
    for (size_t c = 0; c < CLQ_COUNT_OF(counts); c++)
        for (size_t i = 0; i < CLQ_COUNT_OF(items); i++)
            check(&a, counts[c], GUARD + c, GUARD + 2 * i, c % 3, (c + i) % 2 != 0, items[i]);
    clq_buffer_destroy(a.received);
    clq_buffer_destroy(a.from);
    clq_buffer_destroy(a.to);
    clq_kernel_destroy(a.kernel);
    clq_queue_destroy(a.queue);
}

static void test_every_device(void **state) {
    (void)state;
    clq_system *system;
    must(clq_system_open(NULL, &system));
    assert_true(clq_system_device_count(system) > 0);
    for (uint32_t i = 0; i < clq_system_device_count(system); i++) {
        clq_device *device;
        must(clq_device_open(system, (clq_device_choice){.index = i, .parts = 1}, &device));
        check_options(device, "");
        check_options(device, "-DTILE");
        clq_device_close(device);
    }
    clq_system_close(system);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_device)};
    return cmocka_run_group_tests_name("comm/add", tests, NULL, NULL);
}
