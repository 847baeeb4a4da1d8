/* A training step allocates nothing after the first steps. (What drivers allocate by themselves does not count. Among
 * devices of several drivers an exchange waits by a driver's callback, which may come after the wait was given up: this
 * takes a block of memory.) */
#include "support/check.h"
#include "support/system.h"
#include "train/train.h"

#include <string.h>

enum { BATCH = 12, SIDE = 28, FIRST = 8, STEPS = 6 };

static void check_steps(const char *spec, const char *model_name) {
    static unsigned char samples[BATCH * SIDE * SIDE];
    int32_t labels[BATCH];
    for (size_t i = 0; i < sizeof samples; i++) samples[i] = (unsigned char)(i * 7);
    for (int i = 0; i < BATCH; i++) labels[i] = i % 10;
    clq_devices devices;
    clq_model *model;
    clq_trainer *trainer;
    clq_trainer_config config = clq_trainer_config_default();
    config.global_batch = BATCH;
    assert_ok(clq_devices_select(sys, spec, &devices));
    assert_ok(clq_model_builtin(model_name, &model));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    clq_batch batch = {.samples = samples, .labels = labels, .sample_dtype = CLQ_U8, .sample_elements = SIDE * SIDE};
    for (int i = 0; i < FIRST + STEPS; i++) {
        if (i == FIRST) {
            assert_ok(clq_trainer_wait(trainer));
            assert_true(clq_memory_fail_at(0, false) > 0); /* allocations are counted */
        }
        batch.count = (size_t)(BATCH - i % 3);
        assert_ok(clq_step(trainer, &batch));
    }
    assert_ok(clq_trainer_wait(trainer));
    uint64_t made = clq_memory_fail_at(0, false);
    if (made) fail_msg("%s on %s: %d steps made %d allocations", model_name, spec, STEPS, (int)made);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

static void steps_allocate_nothing(void **state) {
    (void)state;
    check_steps("pocl:0", "mlp");
    check_steps("pocl:0", "cnn");
    check_steps("pocl:0,pocl:1", "cnn");
    check_steps("pocl:5", "mlp");
#if defined(__x86_64__)
    check_steps("intel", "mlp");
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps_allocate_nothing)};
    return cmocka_run_group_tests(tests, open_system, close_system);
}
