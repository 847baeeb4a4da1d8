/* Copies against plain memory, order and events, and what happens when a command fails. */
#include "device/internal.h"
#include "fixture.h"

enum { BYTES = 20000 };

/* Random reads, writes, copies and clears at any offset, mirrored in plain memory. */
static void copies(clq_device *device, clq_queue *queue) {
    static unsigned char model[2][BYTES], chunk[BYTES];
    clq_buffer *buffers[2];
    clq_random random = clq_random_start(7, 1);
    memset(model, 0, sizeof model);
    CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, BYTES, "a", &buffers[0]));
    CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_PINNED, BYTES, "b", &buffers[1]));
    for (int round = 0; round < 300; round++) {
        size_t to = clq_random_below(&random, 2);
        size_t bytes = clq_random_below(&random, BYTES / 2 + 1);
        size_t at = clq_random_below(&random, BYTES / 2), from = clq_random_below(&random, BYTES / 2);
        if (round % 3 == 0) bytes = bytes / 64 * 64, at = at / 64 * 64;
        switch (clq_random_below(&random, 4)) {
        case 0:
            for (size_t i = 0; i < bytes; i++) chunk[i] = (unsigned char)clq_random_u32(&random);
            CHECK_OK(clq_queue_write(queue, buffers[to], at, chunk, bytes, true));
            memcpy(model[to] + at, chunk, bytes);
            break;
        case 1:
            CHECK_OK(clq_queue_copy(queue, buffers[1 - to], from, buffers[to], at, bytes));
            memcpy(model[to] + at, model[1 - to] + from, bytes);
            break;
        case 2:
            CHECK_OK(clq_queue_fill_zero(queue, buffers[to], at, bytes));
            memset(model[to] + at, 0, bytes);
            break;
        default:
            CHECK_OK(clq_queue_read(queue, buffers[to], at, chunk, bytes, round % 2 == 0));
            CHECK_OK(clq_queue_finish(queue));
            assert_memory_equal(chunk, model[to] + at, bytes);
        }
    }
    for (size_t k = 0; k < 2; k++) {
        CHECK_OK(clq_queue_read(queue, buffers[k], 0, chunk, BYTES, true));
        assert_memory_equal(chunk, model[k], BYTES);
        clq_buffer_destroy(buffers[k]);
    }
}

static void ranges(clq_device *device, clq_queue *queue) {
    unsigned char bytes[64] = {0};
    clq_buffer *a;
    CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, 64, "a", &a));
    CHECK_FAILS(CLQ_ERROR_INTERNAL, clq_queue_write(queue, a, 1, bytes, 64, true));
    CHECK_FAILS(CLQ_ERROR_INTERNAL, clq_queue_read(queue, a, 65, bytes, 0, true));
    CHECK_FAILS(CLQ_ERROR_INTERNAL, clq_queue_read(queue, a, SIZE_MAX, bytes, 2, true));
    CHECK_FAILS(CLQ_ERROR_INTERNAL, clq_queue_copy(queue, a, 0, a, 40, 32));
    CHECK_FAILS(CLQ_ERROR_INTERNAL, clq_queue_fill_zero(queue, a, 0, SIZE_MAX));
    CHECK_DETAIL("of a buffer of 64");
    CHECK_OK(clq_queue_write(queue, a, 64, bytes, 0, true));
    CHECK_OK(clq_queue_read(queue, a, 0, bytes, 0, false));
    CHECK_OK(clq_queue_copy(queue, a, 0, a, 0, 0));
    CHECK_OK(clq_queue_fill_zero(queue, a, 64, 0));
    CHECK_OK(clq_queue_finish(queue));
    clq_buffer_destroy(a);
}

/* Two queues of one device: when a blocking write returns, it is done for both queues. The standard only promises that
 * the host may use its memory again: Intel's CPU runtime has most of these writes still to make. */
static void blocking_writes(clq_device *device, clq_queue *first) {
    enum { PIECE = 256 << 10, ALL = 2500001, ROUNDS = 12 };
    static unsigned char in[ALL], out[ALL];
    for (size_t round = 1; round <= ROUNDS; round++) {
        clq_queue *second;
        clq_buffer *a;
        CHECK_OK(clq_queue_create(device, 0, &second));
        CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, ALL, "a", &a));
        for (size_t i = 0; i < ALL; i++) in[i] = (unsigned char)(1 + (i + 37 * round) % 251);
        for (size_t at = 0; at < ALL; at += PIECE)
            CHECK_OK(clq_queue_write(first, a, at, in + at, CLQ_MIN((size_t)PIECE, ALL - at), true));
        CHECK_OK(clq_queue_read(second, a, 0, out, ALL, true));
        assert_memory_equal(in, out, ALL);
        clq_buffer_destroy(a);
        clq_queue_destroy(second);
    }
}

/* Two queues of one device: the second queue reads what the first one wrote before its mark. */
static void events(clq_device *device, clq_queue *first) {
    clq_queue *second;
    clq_buffer *a;
    clq_event *point, *again, *shared[2], *unset = NULL;
    uint32_t in[16], out[16];
    CHECK_OK(clq_queue_create(device, 0, &second));
    CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, sizeof in, "a", &a));
    for (uint32_t round = 0; round < 50; round++) {
        for (uint32_t i = 0; i < 16; i++) in[i] = i + round;
        CHECK_OK(clq_queue_write(first, a, 0, in, sizeof in, false));
        CHECK_OK(clq_queue_mark(first, &point));
        CHECK_OK(clq_queue_wait(second, point));
        CHECK_OK(clq_queue_read(second, a, 0, out, sizeof out, false));
        CHECK_OK(clq_queue_finish(second));
        assert_memory_equal(in, out, sizeof in);
        clq_event_destroy(point);
    }
    CHECK_OK(clq_queue_mark(first, &point));
    CHECK_OK(clq_event_wrap(device, clq_event_handle(point), &again));
    /* Only a wrapped event's queue may be unflushed. A shared event is wrapped if the event that it was made of is. */
    CHECK_OK(clq_event_share(point, &shared[0]));
    CHECK_OK(clq_event_share(again, &shared[1]));
    clq_event_destroy(point);
    for (int i = 0; i < 2; i++) {
        assert_ptr_equal(clq_event_handle(shared[i]), clq_event_handle(again));
        assert_int_equal(shared[i]->wrapped, i == 1);
        CHECK_OK(clq_event_wait(shared[i]));
        clq_event_destroy(shared[i]);
    }
    CHECK_OK(clq_event_wait(again));
    CHECK_FAILS(CLQ_ERROR_ARGUMENT, clq_event_wrap(device, NULL, &unset));
    assert_null(unset);
    clq_event_destroy(again);
    clq_event_destroy(NULL);
    clq_queue_destroy(second);
    clq_buffer_destroy(a);
}

/* No command of a queue runs while the event that the queue waits for is not complete. */
static void gates(clq_device *device, clq_queue *queue) {
    clq_buffer *a;
    clq_event *gate, *point;
    uint32_t out[4] = {9, 9, 9, 9};
    CHECK_OK(clq_event_create(device, &gate));
    if (clq_device_runs_in_caller(device)) { /* on this device the thread would wait for itself */
        CHECK_OK(clq_event_complete(gate, true));
        CHECK_OK(clq_queue_wait(queue, gate));
        clq_event_destroy(gate);
        return;
    }
    CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, sizeof out, "a", &a));
    CHECK_OK(clq_queue_wait(queue, gate));
    CHECK_OK(clq_queue_read(queue, a, 0, out, sizeof out, false));
    CHECK_OK(clq_queue_mark(queue, &point));
    cl_int state = CL_COMPLETE;
    assert_int_equal(
        clGetEventInfo(clq_event_handle(point), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL), 0);
    assert_true(state > CL_COMPLETE);
    assert_int_equal(out[3], 9);
    CHECK_OK(clq_event_complete(gate, true));
    CHECK_OK(clq_event_wait(point));
    assert_int_equal(out[3], 0);
    clq_event_destroy(point);
    clq_event_destroy(gate);
    clq_buffer_destroy(a);
}

static void wraps(clq_device *device, clq_queue *queue) {
    clq_queue *wrapped = NULL;
    CHECK_OK(clq_queue_wrap(device, clq_queue_handle(queue), &wrapped));
    assert_ptr_equal(clq_queue_handle(wrapped), clq_queue_handle(queue));
    assert_ptr_equal(clq_queue_device(wrapped), device);
    CHECK_OK(clq_queue_finish(wrapped));
    clq_queue_destroy(wrapped);
    CHECK_OK(clq_queue_finish(queue));
    wrapped = NULL;
    CHECK_FAILS(CLQ_ERROR_ARGUMENT, clq_queue_wrap(device, NULL, &wrapped));
    cl_int error;
    cl_command_queue loose = clCreateCommandQueue(clq_device_context(device), clq_device_id(device),
                                                  CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &error);
    if (loose) {
        CHECK_FAILS(CLQ_ERROR_ARGUMENT, clq_queue_wrap(device, loose, &wrapped));
        CHECK_DETAIL("out-of-order");
        assert_int_equal(clReleaseCommandQueue(loose), CL_SUCCESS);
    }
    assert_null(wrapped);
    clq_queue_destroy(NULL);
}

static void test_copies(void **state) {
    (void)state;
    on_each_device(copies);
}
static void test_ranges(void **state) {
    (void)state;
    on_each_device(ranges);
}
static void keep_a_core(void *ends) {
    while (!atomic_load((atomic_bool *)ends)) {
    }
}

/* Other threads keep the cores busy, so that a driver's own threads do their work late. */
static void test_blocking_writes(void **state) {
    enum { MOST = 8 };
    (void)state;
    static atomic_bool ends;
    clq_thread *busy[MOST];
    const unsigned count = CLQ_MIN(2 * clq_cpu_count(), (unsigned)MOST);
    for (unsigned i = 0; i < count; i++) CHECK_OK(clq_thread_start("busy", keep_a_core, &ends, &busy[i]));
    on_each_device(blocking_writes);
    atomic_store(&ends, true);
    for (unsigned i = 0; i < count; i++) clq_thread_join(busy[i]);
}
static void test_events(void **state) {
    (void)state;
    on_each_device(events);
}
static void test_wraps(void **state) {
    (void)state;
    on_each_device(wraps);
}

static void test_gates(void **state) {
    (void)state;
    on_each_device(gates);
}

/* A wait for the queue reports a command that failed, even if the driver's own clFinish returns success, as PoCL's
 * does. (Intel's runtime runs a command that waits for a failed event as if nothing had happened.) The device is not
 * lost by such a failure. */
static void failed_dependency(clq_device *device, clq_queue *queue) {
    clq_event *gate;
    clq_buffer *a;
    uint32_t in[4] = {1, 2, 3, 4};
    CHECK_OK(clq_event_create(device, &gate));
    if (clq_device_runs_in_caller(device)) {
        CHECK_OK(clq_event_complete(gate, false));
        CHECK_FAILS(CLQ_ERROR_DEVICE, clq_queue_wait(queue, gate));
    } else if (strcmp(clq_device_get_info(device)->driver, "pocl") == 0) {
        clq_queue *other;
        CHECK_OK(clq_queue_create(device, 0, &other));
        CHECK_OK(clq_queue_wait(other, gate));
        CHECK_OK(clq_event_complete(gate, false));
        CHECK_FAILS(CLQ_ERROR_DEVICE, clq_queue_finish(other));
        CHECK_DETAIL("what the queue waited for");
        CHECK_OK(clq_queue_finish(other)); /* reported once */
        clq_queue_destroy(other);
    } else {
        CHECK_OK(clq_event_complete(gate, false));
    }
    CHECK_FAILS(CLQ_ERROR_DEVICE, clq_event_wait(gate));
    CHECK_DETAIL("CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST (-14)");
    clq_event_destroy(gate);
    assert_false(clq_device_lost(device));
    CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, sizeof in, "a", &a));
    CHECK_OK(clq_queue_write(queue, a, 0, in, sizeof in, true));
    CHECK_OK(clq_queue_finish(queue));
    clq_buffer_destroy(a);
}

static void test_failed_dependency(void **state) {
    (void)state;
    on_each_device(failed_dependency);
}

/* A device is lost if a command on it ends with `error`. Every call after that fails at once with a named error, and
 * nothing hangs. */
static void lose_by(cl_int error, const char *told) {
    clq_system *system;
    clq_device *device;
    clq_queue *queue, *unset = NULL;
    clq_event *gate, *point;
    clq_buffer *a, *b = NULL;
    clq_kernel *kernel = NULL;
    uint32_t word = 1;
    CHECK_OK(clq_system_open(NULL, &system));
    CHECK_OK(clq_device_open(system, (clq_device_choice){0, 0, 1}, &device));
    CHECK_OK(clq_queue_create(device, 0, &queue));
    CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, 64, "a", &a));
    CHECK_OK(clq_event_create(device, &gate));
    CHECK_OK(clq_queue_mark(queue, &point));
    assert_int_equal(clSetUserEventStatus(clq_event_handle(gate), error), CL_SUCCESS);
    CHECK_FAILS(CLQ_ERROR_DEVICE, clq_event_wait(gate));
    CHECK_DETAIL(told);
    CHECK_DETAIL("pocl:0");
    assert_true(clq_device_lost(device));
    CHECK_FAILS(CLQ_ERROR_DEVICE, clq_queue_finish(queue));
    CHECK_DETAIL(told); /* later calls report the first failure */
    CHECK_FAILS(CLQ_ERROR_DEVICE, clq_queue_flush(queue));
    CHECK_FAILS(CLQ_ERROR_DEVICE, clq_queue_create(device, 0, &unset));
    CHECK_FAILS(CLQ_ERROR_DEVICE, clq_buffer_create(device, CLQ_MEMORY_DEVICE, 64, "b", &b));
    CHECK_FAILS(CLQ_ERROR_DEVICE, clq_queue_write(queue, a, 0, &word, 4, true));
    CHECK_FAILS(CLQ_ERROR_DEVICE, clq_queue_read(queue, a, 0, &word, 4, true));
    CHECK_FAILS(CLQ_ERROR_DEVICE, clq_kernel_create(device, "selftest", "", "add_words", &kernel));
    CHECK_FAILS(CLQ_ERROR_DEVICE, clq_event_wait(point));
    assert_true(!unset && !b && !kernel);
    clq_event_destroy(gate);
    clq_event_destroy(point);
    clq_buffer_destroy(a);
    clq_queue_destroy(queue);
    clq_device_close(device);
    clq_system_close(system);
}

static void test_lost(void **state) {
    (void)state;
    lose_by(CL_OUT_OF_RESOURCES, "CL_OUT_OF_RESOURCES (-5)");
    lose_by(CL_DEVICE_NOT_AVAILABLE, "CL_DEVICE_NOT_AVAILABLE (-2)");
    lose_by(-1121, "CL_CONTEXT_TERMINATED_KHR (-1121)");
    lose_by(-9999, "NVIDIA's error for a kernel that failed, mostly by an illegal access to memory (-9999)");
}

/* A device on which a command merely failed is not lost. */
static void test_failed(void **state) {
    (void)state;
    clq_system *system;
    clq_device *device;
    clq_event *gate;
    CHECK_OK(clq_system_open(NULL, &system));
    CHECK_OK(clq_device_open(system, (clq_device_choice){0, 0, 1}, &device));
    CHECK_OK(clq_event_create(device, &gate));
    assert_int_equal(clSetUserEventStatus(clq_event_handle(gate), -1108), CL_SUCCESS);
    CHECK_FAILS(CLQ_ERROR_DEVICE, clq_event_wait(gate));
    CHECK_DETAIL("CL_COMMAND_TERMINATED_ITSELF_WITH_FAILURE_ARM (-1108)");
    assert_false(clq_device_lost(device));
    clq_event_destroy(gate);
    clq_device_close(device);
    clq_system_close(system);
}

/* clq_queue_settle, for use after a failure: it waits for commands that end, and gives up a device whose commands do
 * not end. */
static void test_settle(void **state) {
    (void)state;
    clq_system *system;
    clq_device *device;
    clq_queue *queue;
    clq_event *gate;
    clq_buffer *a;
    uint32_t indices[TEST_DEVICES], out[4] = {9, 9, 9, 9};
    CHECK_OK(clq_system_open(NULL, &system));
    find_devices(system, indices);
    CHECK_OK(clq_device_open(system, (clq_device_choice){indices[1], 0, 1}, &device));
    CHECK_OK(clq_queue_create(device, 0, &queue));
    CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, sizeof out, "a", &a));
    CHECK_OK(clq_queue_read(queue, a, 0, out, sizeof out, false));
    clq_queue_settle(queue, clq_now_running() + 60.0);
    assert_int_equal(out[3], 0);
    assert_false(clq_device_lost(device));
    CHECK_OK(clq_event_create(device, &gate));
    CHECK_OK(clq_queue_wait(queue, gate));
    clq_queue_settle(queue, clq_now_running() + 0.02);
    assert_true(clq_device_lost(device));
    CHECK_FAILS(CLQ_ERROR_DEVICE, clq_queue_finish(queue));
    CHECK_DETAIL("its commands do not end");
    CHECK_OK(clq_event_complete(gate, true));
    clq_event_destroy(gate);
    clq_buffer_destroy(a);
    clq_queue_destroy(queue);
    clq_device_close(device);
    clq_system_close(system);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies), cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_events), cmocka_unit_test(test_wraps),
        cmocka_unit_test(test_gates),  cmocka_unit_test(test_failed_dependency),
        cmocka_unit_test(test_lost),   cmocka_unit_test(test_failed),
        cmocka_unit_test(test_settle), cmocka_unit_test(test_blocking_writes),
    };
    return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
