/* Several devices at work at the same time, each driven by its own thread. */
#include "fixture.h"

enum { ROUNDS = 40, WIDEST = 64, STEP = 3, ADDED = 3 };

typedef struct worker {
    clq_device *device;
    clq_queue *queue;
    clq_buffer *words;
    clq_kernel *kernel;
    bool widest_first;
    uint32_t launches, wrong; /* wrong: words that differ from what the launches must make */
    clq_status status;
    char detail[CLQ_DETAIL_MAX];
} worker;

static size_t width_of(const worker *w, size_t step) {
    size_t width = 1 + step * STEP;
    return w->widest_first ? WIDEST + 1 - width : width;
}

/* Launches the same kernel with one global size after the other. A driver may load it again for each size. */
static clq_status work(worker *w) {
    uint32_t out[WIDEST], wanted[WIDEST] = {0};
    for (uint32_t round = 0; round < ROUNDS; round++)
        for (size_t step = 0; step * STEP < WIDEST; step++) {
            size_t width = width_of(w, step), one = 1;
            CLQ_TRY(clq_queue_launch(w->queue, w->kernel, 1, &width, &one));
            CLQ_TRY(clq_queue_flush(w->queue));
            for (size_t i = 0; i < width; i++) wanted[i] += ADDED;
            w->launches++;
        }
    CLQ_TRY(clq_queue_read(w->queue, w->words, 0, out, sizeof out, true));
    for (size_t i = 0; i < WIDEST; i++) w->wrong += out[i] != wanted[i];
    return CLQ_OK;
}

static void run(void *context) {
    worker *w = context;
    w->status = work(w);
    if (w->status != CLQ_OK) (void)snprintf(w->detail, sizeof w->detail, "%s", clq_error_detail());
}

static void worker_open(worker *w, clq_system *system, uint32_t index, bool widest_first) {
    const uint32_t added = ADDED, zeros[WIDEST] = {0};
    *w = (worker){.widest_first = widest_first};
    CHECK_OK(clq_device_open(system, (clq_device_choice){index, 0, 1}, &w->device));
    CHECK_OK(clq_queue_create(w->device, 0, &w->queue));
    CHECK_OK(clq_buffer_create(w->device, CLQ_MEMORY_DEVICE, sizeof zeros, "words", &w->words));
    CHECK_OK(clq_queue_write(w->queue, w->words, 0, zeros, sizeof zeros, true));
    CHECK_OK(clq_kernel_create(w->device, "selftest", "", "add_words", &w->kernel));
    CHECK_OK(clq_kernel_set_buffer(w->kernel, 0, w->words));
    CHECK_OK(clq_kernel_set_bytes(w->kernel, 1, &added, sizeof added));
}

static void worker_close(worker *w) {
    clq_kernel_destroy(w->kernel);
    clq_buffer_destroy(w->words);
    clq_queue_destroy(w->queue);
    clq_device_close(w->device);
}

static void check_together(clq_system *system, const uint32_t *indices, size_t count) {
    worker workers[4];
    clq_thread *threads[4];
    assert_true(count <= CLQ_COUNT_OF(workers));
    for (size_t i = 0; i < count; i++) worker_open(&workers[i], system, indices[i], i % 2);
    for (size_t i = 0; i < count; i++) CHECK_OK(clq_thread_start("worker", run, &workers[i], &threads[i]));
    for (size_t i = 0; i < count; i++) clq_thread_join(threads[i]);
    for (size_t i = 0; i < count; i++) {
        if (workers[i].status != CLQ_OK) fail_msg("worker %zu: %s", i, workers[i].detail);
        assert_int_equal(workers[i].launches, ROUNDS * ((WIDEST + STEP - 1) / STEP));
        assert_int_equal(workers[i].wrong, 0);
        worker_close(&workers[i]);
    }
}

/* PoCL before 7.0 ended the process here: see src/device/program/twin.c. */
static void several_of_one_driver(void **state) {
    (void)state;
    clq_system *system;
    CHECK_OK(clq_system_open(NULL, &system));
    uint32_t found[TEST_DEVICES];
    size_t count = find_devices(system, found);
    check_together(system, (uint32_t[]){found[0], found[0], found[0]}, 3);
    check_together(system, (uint32_t[]){found[1], found[1], found[1]}, 3);
    check_together(system, (uint32_t[]){found[0], found[1], found[count - 1], found[count - 1]}, 4);
    clq_system_close(system);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(several_of_one_driver)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
