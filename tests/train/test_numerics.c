/* Numbers that are not finite: a loss that diverges is said once in a fit, with its step. */
#include "support/check.h"
#include "support/system.h"
#include "train/trainer.h"

#include <stdio.h>

static char said[512];
static unsigned warnings;

static void keep_warning(void *context, clq_log_level level, const char *line) {
    (void)context;
    if (level != CLQ_LOG_WARNING) return;
    snprintf(said, sizeof said, "%s", line);
    warnings++;
}

/* ---- a loss that diverges ---- */

/* A bias alone, which learns 1 from two samples: with a rate of r each update multiplies its distance by 1 - 2r. */
static const float zeros[2] = {0}, ones[2] = {1, 1};

static clq_trainer *open_bias(const clq_model *model, const char *spec, clq_strategy_options options) {
    clq_trainer *trainer;
    clq_devices devices;
    clq_trainer_config config = clq_trainer_config_default();
    config.loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    config.sample_dtype = CLQ_F32;
    config.global_batch = 2;
    config.strategy_options = options;
    assert_ok(clq_optimizer_parse("sgd:lr=1000", &config.optimizer));
    assert_ok(clq_devices_select(sys, spec, &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    return trainer;
}

/* The losses are 1999^(2n - 2): that of step 7 is above what float32 holds. With two batches in an update, too. */
static void a_diverged_loss_is_said_once(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        clq_strategy_options options;
        size_t batch;
    } cases[] = {{"pocl:0", {0}, 2}, {"pocl:0,pocl:1", {0}, 2}, {"pocl:0", {.accumulate = 2}, 1}};
    const size_t shape[] = {1};
    const float zero = 0;
    clq_model *model;
    assert_ok(clq_model_create("bias", &model));
    assert_ok(
        clq_model_finish(model, clq_dense(model, clq_input(model, CLQ_SHAPE(1)), &(clq_dense_config){.units = 1})));
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        clq_dataset *data;
        clq_trainer *trainer = open_bias(model, cases[i].spec, cases[i].options);
        assert_ok(clq_dataset_arrays(zeros, CLQ_F32, 2, 1, shape, ones, CLQ_F32, 1, &data));
        assert_ok(clq_dataset_batch(data, cases[i].batch, false));
        warnings = 0;
        assert_ok(clq_fit(trainer, data, &(clq_fit_config){.steps = 6}));
        assert_int_equal(clq_trainer_diverged(trainer), 0);
        assert_int_equal(warnings, 0);
        assert_ok(clq_fit(trainer, data, &(clq_fit_config){.steps = 5, .validation = data}));
        assert_int_equal(clq_trainer_diverged(trainer), 7);
        assert_int_equal(warnings, 1);
        expect_text(said, "the loss of step 7 is not finite; training goes on");
        assert_ok(clq_trainer_set_variable(trainer, 1, &zero));
        assert_ok(clq_fit(trainer, data, &(clq_fit_config){.steps = 2}));
        assert_int_equal(clq_trainer_diverged(trainer), 0);
        assert_int_equal(warnings, 1);
        clq_trainer_destroy(trainer);
        clq_dataset_destroy(data);
    }
    clq_model_destroy(model);
}

static int start(void **state) {
    clq_log_set_sink(keep_warning, NULL, CLQ_LOG_WARNING);
    return open_system(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_diverged_loss_is_said_once),
    };
    return cmocka_run_group_tests(tests, start, close_system);
}
