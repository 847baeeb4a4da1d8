/* A plan keeps its programs for plans on other devices of the same kind. The programs are compiled once and kept
 * complete, and afterwards the plan is like new: its buffers are zeros. */
#include "support/files.h"
#include "two_models.h"

enum { COUNT = 5 };

static int entries(void) {
    const char *programs = files_path("programs");
    return access(programs, F_OK) == 0 ? files_count(programs) : 0;
}

static void assert_zero(const bench *b, const clq_buffer *buffer) {
    size_t bytes = clq_buffer_bytes(buffer);
    unsigned char *content = clq_alloc(bytes, 1);
    assert_non_null(content);
    CHECK_OK(clq_queue_read(b->queue, buffer, 0, content, bytes, true));
    for (size_t i = 0; i < bytes; i++)
        if (content[i]) fail_msg("%s: byte %zu of a new plan is %d", clq_device_label(b->device), i, content[i]);
    clq_free(content);
}

static void gradient_of(const bench *b, const data *d, float *out) {
    put_weights(b, d);
    put_batch(b, d, COUNT);
    run_segments(b, COUNT, 1.0f, 0);
    read_arena(b, clq_plan_gradient(b->plan), out);
}

static void kept_once(clq_system *system, uint32_t index, const subject *s) {
    clq_device *devices[2];
    clq_queue *queues[2];
    bench b[2];
    float gradients[2][WEIGHTS_MOST];
    data d = make_data(s);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(clq_device_open(system, (clq_device_choice){index, 0, 1}, &devices[i]));
        CHECK_OK(clq_queue_create(devices[i], 0, &queues[i]));
    }
    const int before = entries();
    b[0] = open_bench(devices[0], queues[0], s, training_of(s, COUNT + 2));
    assert_true(clq_device_has_unkept(devices[0]));
    assert_int_equal(entries(), before);
    CHECK_OK(clq_plan_keep_programs(b[0].plan));
    assert_false(clq_device_has_unkept(devices[0]));
    const int kept = entries();
    assert_true(kept > before + 3);
    const clq_plan *plan = b[0].plan;
    clq_buffer *const all[] = {plan->weights->parameters, plan->weights->gradient, clq_plan_samples(plan),
                               clq_plan_labels(plan, 0), plan->metrics};
    for (size_t i = 0; i < CLQ_COUNT_OF(all); i++) assert_zero(&b[0], all[i]);
    b[1] = open_bench(devices[1], queues[1], s, training_of(s, COUNT + 2));
    assert_false(clq_device_has_unkept(devices[1])); /* nothing was compiled */
    for (int i = 0; i < 2; i++) gradient_of(&b[i], &d, gradients[i]);
    assert_memory_equal(gradients[0], gradients[1], s->weights * sizeof(float));
    for (int i = 0; i < 2; i++) {
        close_bench(&b[i]);
        clq_queue_destroy(queues[i]);
        clq_device_close(devices[i]);
    }
    assert_int_equal(entries(), kept);
}

static void programs_are_compiled_once(void **state) {
    (void)state;
    clq_system *system;
    CHECK_OK(clq_system_open(&(clq_system_config){.cache_dir = files_folder}, &system));
    const char *const specs[] = {
        "pocl:0",
#if defined(__x86_64__)
        "intel:0"
#endif
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(specs); i++) {
        clq_devices chosen;
        CHECK_OK(clq_devices_select(system, specs[i], &chosen));
        kept_once(system, chosen.items[0].index, &mlp_subject);
    }
    clq_system_close(system);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(programs_are_compiled_once)};
    return cmocka_run_group_tests_name("keep", tests, files_begin, files_end);
}
