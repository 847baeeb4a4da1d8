/* Schedules against their closed forms, and that an update gets its own rate. */
#include "support/check.h"
#include "support/system.h"
#include "train/trainer.h"

#include <math.h>

static double rate(const char *text, uint64_t step) {
    clq_lr_schedule schedule;
    assert_ok(clq_lr_schedule_parse(text, &schedule));
    return clq_lr_schedule_rate(&schedule, 0.5, step);
}

static void same(double found, double wanted) { assert_true(fabs(found - wanted) <= 1e-15); }

static void closed_forms(void **state) {
    (void)state;
    same(rate("constant", 0), 0.5);
    same(rate("constant", 1000000), 0.5);
    same(rate("exponential:decay_steps=4,decay_rate=0.25", 0), 0.5);
    same(rate("exponential:decay_steps=4,decay_rate=0.25", 2), 0.25);
    same(rate("exponential:decay_steps=4,decay_rate=0.25", 8), 0.03125);
    same(rate("exponential:decay_steps=4,decay_rate=0.25,staircase=1", 3), 0.5);
    same(rate("exponential:decay_steps=4,decay_rate=0.25,staircase=1", 4), 0.125);
    same(rate("cosine:decay_steps=6", 0), 0.5);
    same(rate("cosine:decay_steps=6", 2), 0.375); /* cos(60 degrees) is a half */
    same(rate("cosine:decay_steps=6", 6), 0);
    same(rate("cosine:decay_steps=6,alpha=0.5", 4), 0.3125);
    same(rate("cosine:decay_steps=6,alpha=0.5", 60), 0.25);
}

static void refused(void **state) {
    (void)state;
    clq_lr_schedule schedule;
    assert_fails(CLQ_ARGUMENT, "there are constant, exponential and cosine",
                 clq_lr_schedule_parse("linear", &schedule));
    assert_fails(CLQ_ARGUMENT, "decay_steps=0", clq_lr_schedule_parse("cosine", &schedule));
    assert_fails(CLQ_ARGUMENT, "takes: decay_steps alpha", clq_lr_schedule_parse("cosine:decay_rate=2", &schedule));
    assert_fails(CLQ_ARGUMENT, "constant takes no keys", clq_lr_schedule_parse("constant:alpha=2", &schedule));
    assert_fails(CLQ_ARGUMENT, "did you mean 'cosine'?", clq_lr_schedule_parse("cosin", &schedule));
    assert_fails(CLQ_ARGUMENT, "did you mean 'decay_rate'?",
                 clq_lr_schedule_parse("exponential:decay_rat=1", &schedule));
    clq_strategy_kind strategy;
    clq_strategy_options options = {.stages = 0};
    assert_fails(CLQ_ARGUMENT, "auto, single, mirrored, central, ps, pipeline and tensor",
                 clq_strategy_parse("telepathy", &strategy, &options));
    assert_fails(CLQ_ARGUMENT, "mirrored takes no keys", clq_strategy_parse("mirrored:speed=2", &strategy, &options));
}

/* A bias alone, which starts at 0, and a target of 1: an update by SGD takes lr times twice the distance away. */
static void updates_go_by_it(void **state) {
    (void)state;
    static const float sample[1] = {0}, target[1] = {1};
    clq_devices devices;
    clq_trainer *trainer;
    clq_model *model;
    assert_ok(clq_model_create("bias", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(1));
    assert_ok(clq_model_finish(model, clq_dense(model, x, &(clq_dense_config){.units = 1})));
    clq_trainer_config config = clq_trainer_config_default();
    config.loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    config.sample_dtype = CLQ_F32;
    config.optimizer = clq_optimizer_default(CLQ_OPTIMIZER_SGD);
    assert_ok(clq_optimizer_set(&config.optimizer, "lr", 0.25));
    assert_ok(clq_lr_schedule_parse("exponential:decay_steps=1,decay_rate=0.5", &config.schedule));
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    const clq_batch batch = {.count = 1,
                             .samples = sample,
                             .sample_elements = 1,
                             .sample_dtype = CLQ_F32,
                             .labels = target,
                             .float_labels = true,
                             .label_elements = 1};
    double distance = 1, lr = 0.25;
    for (int step = 0; step < 4; step++, lr /= 2) {
        clq_step_info info;
        float bias;
        assert_ok(clq_step(trainer, &batch));
        assert_ok(clq_step_read(trainer, &info));
        assert_true(info.lr == lr);
        distance *= 1 - 2 * lr;
        assert_ok(clq_trainer_get_variable(trainer, 1, &bias));
        assert_true(fabs(1 - (double)bias - distance) < 1e-6);
    }
    clq_trainer_destroy(trainer);
    config.schedule.values[0] = 0;
    assert_fails(CLQ_ARGUMENT, "decay_steps=0", clq_trainer_create(model, &devices, &config, &trainer));
    clq_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(closed_forms), cmocka_unit_test(refused),
                                       cmocka_unit_test(updates_go_by_it)};
    return cmocka_run_group_tests(tests, open_system, close_system);
}
