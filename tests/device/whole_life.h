/* A caller's whole use of this layer, from the first call to the last. For tests that let each of its calls fail in
 * turn. */
#ifndef CLQ_TEST_DEVICE_WHOLE_LIFE_H
#define CLQ_TEST_DEVICE_WHOLE_LIFE_H

#include "fixture.h"

/* After a success *answer is 5. */
static inline clq_status whole_life(const char *spec, uint32_t *answer) {
    clq_system *system = NULL;
    clq_device *device = NULL;
    clq_queue *queue = NULL, *traced = NULL;
    clq_span *spans = NULL;
    size_t span_count;
    double clock_error;
    clq_buffer *buffer = NULL, *staging = NULL, *view = NULL;
    clq_kernel *kernel = NULL;
    clq_event *event = NULL;
    clq_devices chosen;
    const uint32_t add = 5;
    const size_t count = 16;
    clq_status status;
    CLQ_TRY_OR(done, status, clq_system_open(NULL, &system));
    CLQ_TRY_OR(done, status, clq_devices_select(system, spec, &chosen));
    CLQ_TRY_OR(done, status, clq_device_open(system, chosen.items[0], &device));
    CLQ_TRY_OR(done, status, clq_queue_create(device, 0, &queue));
    CLQ_TRY_OR(done, status, clq_buffer_create(device, CLQ_MEMORY_DEVICE, 4096, "words", &buffer));
    CLQ_TRY_OR(done, status, clq_buffer_create(device, CLQ_MEMORY_PINNED, 64, "staging", &staging));
    CLQ_TRY_OR(done, status, clq_buffer_view(buffer, 1024, 64, &view));
    const clq_program_wish wishes[] = {{"selftest", "", "add_words", NULL, false}, {"selftest", "", "random_words", NULL, false}};
    size_t failed;
    CLQ_TRY_OR(done, status, clq_device_load_programs(device, wishes, CLQ_COUNT_OF(wishes), &failed));
    CLQ_TRY_OR(done, status, clq_kernel_create_among(device, &wishes[0], "add_words", &kernel));
    CLQ_TRY_OR(done, status, clq_kernel_set_buffer(kernel, 0, view));
    CLQ_TRY_OR(done, status, clq_kernel_set_bytes(kernel, 1, &add, sizeof add));
    CLQ_TRY_OR(done, status, clq_queue_launch(queue, kernel, 1, &count, NULL));
    CLQ_TRY_OR(done, status, clq_queue_mark(queue, &event));
    CLQ_TRY_OR(done, status, clq_event_wait(event));
    CLQ_TRY_OR(done, status, clq_queue_copy(queue, buffer, 1024, staging, 0, 64));
    CLQ_TRY_OR(done, status, clq_queue_read(queue, staging, 60, answer, 4, true));
    CLQ_TRY_OR(done, status, clq_queue_finish(queue));
    CLQ_TRY_OR(done, status, clq_queue_create(device, CLQ_QUEUE_TRACE, &traced));
    clq_queue_name(traced, "life", "clear");
    CLQ_TRY_OR(done, status, clq_queue_fill_zero(traced, staging, 0, 64));
    CLQ_TRY_OR(done, status, clq_queue_spans(traced, &spans, &span_count, &clock_error));
    assert_int_equal(span_count, 1);
done:
    clq_free(spans);
    clq_queue_destroy(traced);
    clq_event_destroy(event);
    clq_kernel_destroy(kernel);
    clq_buffer_destroy(view);
    clq_buffer_destroy(staging);
    clq_buffer_destroy(buffer);
    clq_queue_destroy(queue);
    clq_device_close(device);
    clq_system_close(system);
    return status;
}

#endif
