/* What a tracing queue records of its commands: every launch and every named transfer, in order, in the host's time. */
#include "fixture.h"
#include "support/check.h"

enum { LAUNCHES = 1300, WORDS = 4096 }; /* more commands than may wait at once for their times to be read */

typedef struct rig {
    clq_queue *queue;
    clq_buffer *words;
    clq_kernel *kernel;
} rig;

static const size_t count = WORDS;

static rig make(clq_device *device) {
    rig r = {0};
    const uint32_t one = 1;
    CHECK_OK(clq_queue_create(device, CLQ_QUEUE_TRACE, &r.queue));
    CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, WORDS * sizeof(uint32_t), "words", &r.words));
    CHECK_OK(clq_kernel_create(device, "selftest", "", "add_words", &r.kernel));
    CHECK_OK(clq_kernel_set_buffer(r.kernel, 0, r.words));
    CHECK_OK(clq_kernel_set_bytes(r.kernel, 1, &one, sizeof one));
    return r;
}

static void drop(rig *r) {
    clq_kernel_destroy(r->kernel);
    clq_buffer_destroy(r->words);
    clq_queue_destroy(r->queue);
}

static void every_launch(clq_device *device, clq_queue *plain) {
    (void)plain;
    static const char *const names[] = {"a", "b", "c"};
    static const uint32_t zero = 0, seven = 7;
    rig r = make(device);
    clq_span *spans, *again;
    size_t found, found_again;
    double error, error_again;
    uint32_t words[WORDS];
    double before = clq_now();
    CHECK_OK(clq_queue_write(r.queue, r.words, 0, &zero, sizeof zero, true)); /* not named: not recorded */
    for (int i = 0; i < LAUNCHES; i++) {
        if (i % 4 != 3) clq_queue_name(r.queue, "layer", names[i % 4]);
        CHECK_OK(clq_queue_launch(r.queue, r.kernel, 1, &count, NULL));
    }
    clq_queue_name(r.queue, NULL, "upload");
    CHECK_OK(clq_queue_write(r.queue, r.words, 0, &seven, sizeof seven, false));
    CHECK_OK(clq_queue_read(r.queue, r.words, 0, words, sizeof words, false)); /* not named */
    clq_queue_name(r.queue, NULL, "download");
    CHECK_OK(clq_queue_read(r.queue, r.words, 0, words, sizeof words, false));
    CHECK_OK(clq_queue_finish(r.queue));
    double after = clq_now();
    CHECK_OK(clq_queue_spans(r.queue, &spans, &found, &error));
    assert_int_equal(found, LAUNCHES + 2);
    assert_true(error >= 0.0);
    for (size_t i = 0; i < found; i++) {
        const clq_span *s = &spans[i];
        const char *name = i > LAUNCHES    ? "download"
                           : i == LAUNCHES ? "upload"
                           : i % 4 == 3    ? "add_words"
                                           : names[i % 4];
        assert_string_equal(s->name, name);
        assert_true(i < LAUNCHES && i % 4 != 3 ? strcmp(s->scope, "layer") == 0 : s->scope == NULL);
        assert_true(s->begin <= s->end);
        if (i > 0) assert_true(spans[i - 1].end <= s->begin);
    }
    if (spans[0].begin < before - error || spans[found - 1].end > after + error)
        fail_msg("%s: from %.9f to %.9f and the host says %.9f to %.9f, within %.9f", clq_device_label(device),
                 spans[0].begin, spans[found - 1].end, before, after, error);
    CHECK_OK(clq_queue_spans(r.queue, &again, &found_again, &error_again)); /* a call does not remove the spans */
    assert_int_equal(found_again, found);
    assert_string_equal(again[LAUNCHES].name, "upload");
    CHECK_OK(clq_queue_read(r.queue, r.words, 0, words, sizeof words, true));
    assert_int_equal(words[0], 7);
    assert_int_equal(words[1], LAUNCHES);
    clq_free(spans);
    clq_free(again);
    drop(&r);
}

static void nothing_once_stopped(clq_device *device, clq_queue *plain) {
    (void)plain;
    rig r = make(device);
    clq_span *spans = NULL;
    size_t found = 9;
    double error;
    CHECK_OK(clq_queue_spans(r.queue, &spans, &found, &error));
    assert_int_equal(found, 0);
    clq_free(spans);
    CHECK_OK(clq_queue_launch(r.queue, r.kernel, 1, &count, NULL));
    clq_queue_stop_trace(r.queue);
    clq_queue_name(r.queue, NULL, "late");
    CHECK_OK(clq_queue_launch(r.queue, r.kernel, 1, &count, NULL));
    CHECK_OK(clq_queue_fill_zero(r.queue, r.words, 0, 64));
    CHECK_OK(clq_queue_spans(r.queue, &spans, &found, &error));
    assert_int_equal(found, 1);
    clq_free(spans);
    drop(&r);
}

static void plain_queues_record_nothing(clq_device *device, clq_queue *plain) {
    clq_span *spans = NULL;
    size_t found;
    double error;
    cl_event event;
    clq_queue_name(plain, "a", "b");
    clq_queue_stop_trace(plain);
    assert_null(clq_queue_wants_event(plain, &event));
    CHECK_FAILS(CLQ_ERROR_INTERNAL, clq_queue_spans(plain, &spans, &found, &error));
    CHECK_DETAIL(clq_device_label(device));
    assert_null(spans);
}

static clq_device *failing_device;
static clq_status record(void *context) {
    const rig *made = context;
    clq_queue *queue;
    clq_span *spans = NULL;
    size_t found;
    double error;
    CLQ_TRY(clq_queue_create(failing_device, CLQ_QUEUE_TRACE, &queue));
    clq_status status = CLQ_OK;
    for (int i = 0; i < LAUNCHES && status == CLQ_OK; i++)
        status = clq_queue_launch(queue, made->kernel, 1, &count, NULL);
    if (status == CLQ_OK) status = clq_queue_spans(queue, &spans, &found, &error);
    clq_queue_destroy(queue);
    clq_free(spans);
    return status;
}

/* A name is for one command only, even if this command could not be recorded. */
static void names_are_not_left(clq_device *device, clq_queue *plain) {
    (void)plain;
    rig r = make(device);
    clq_span *spans;
    size_t found;
    double error;
    clq_queue_name(r.queue, "layer", "lost");
    (void)clq_memory_fail_at(1, false);
    CHECK_FAILS(CLQ_ERROR_MEMORY, clq_queue_launch(r.queue, r.kernel, 1, &count, NULL));
    assert_int_equal(clq_memory_fail_at(0, false), 1);
    CHECK_OK(clq_queue_launch(r.queue, r.kernel, 1, &count, NULL));
    CHECK_OK(clq_queue_spans(r.queue, &spans, &found, &error));
    assert_int_equal(found, 1);
    assert_string_equal(spans[0].name, "add_words");
    assert_null(spans[0].scope);
    clq_free(spans);
    drop(&r);
}

static void allocations_fail(clq_device *device, clq_queue *plain) {
    (void)plain;
    rig r = make(device);
    failing_device = device;
    assert_true(walk_allocations(record, &r) >= 4);
    drop(&r);
}

static void test_every_launch(void **state) {
    (void)state;
    on_each_device(every_launch);
}
static void test_stopped(void **state) {
    (void)state;
    on_each_device(nothing_once_stopped);
}
static void test_plain(void **state) {
    (void)state;
    on_each_device(plain_queues_record_nothing);
}
static void test_allocations(void **state) {
    (void)state;
    on_each_device(names_are_not_left);
    on_each_device(allocations_fail);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_launch), cmocka_unit_test(test_stopped),
                                       cmocka_unit_test(test_plain), cmocka_unit_test(test_allocations)};
    return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}
