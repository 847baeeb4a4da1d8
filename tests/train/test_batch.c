/* Custom loops: what a step refuses, and that categorical and sparse losses agree on the same labels. */
#include "graph/plan.h"
#include "launch/list.h"
#include "support/apart.h"
#include "support/check.h"
#include "support/system.h"
#include "train/train.h"

#include <math.h>

enum { INPUTS = 4, CLASSES = 3, BATCH = 6 };

static const float samples[BATCH][INPUTS] = {{1, 2, 3, 4}, {0, 1, 0, 1}, {2, 0, 0, 1},
                                             {3, 1, 2, 0}, {1, 1, 1, 1}, {0, 0, 2, 2}};
static const int32_t labels[BATCH] = {0, 2, 1, 1, 0, 2};

static clq_batch good_batch(void) {
    return (clq_batch){
        .count = BATCH, .samples = samples, .sample_elements = INPUTS, .sample_dtype = CLQ_F32, .labels = labels};
}

static void open_trainer(clq_loss_kind loss, clq_model **model, clq_trainer **trainer) {
    clq_devices devices;
    assert_ok(clq_devices_select(sys, "pocl:0,pocl:1", &devices));
    assert_ok(clq_model_create("small", model));
    clq_tensor x = clq_input(*model, CLQ_SHAPE(INPUTS));
    assert_ok(clq_model_finish(
        *model, clq_dense(*model, x, &(clq_dense_config){.units = CLASSES, .activation = CLQ_ACTIVATION_SOFTMAX})));
    clq_trainer_config config = apart_config();
    config.global_batch = BATCH;
    config.sample_dtype = CLQ_F32;
    config.loss.kind = loss;
    assert_ok(clq_trainer_create(*model, &devices, &config, trainer));
}

static void refused(void **state) {
    (void)state;
    clq_model *model;
    clq_trainer *trainer;
    clq_step_info info;
    const int32_t too_large[BATCH] = {0, 1, 2, 3, 0, 0}, negative[BATCH] = {0, 1, 2, 0, 0, -1};
    float rows[BATCH][CLASSES + 1] = {{0}};
    open_trainer(CLQ_LOSS_SPARSE_CATEGORICAL, &model, &trainer);
    assert_fails(CLQ_ERROR_STATE, "after clq_step_gradients", clq_step_reduce(trainer));
    assert_fails(CLQ_ERROR_STATE, "after clq_step_gradients", clq_step_apply(trainer));
    assert_fails(CLQ_ERROR_STATE, "no step", clq_step_read(trainer, &info));
    clq_batch b = good_batch();
    b.count = 0;
    assert_fails(CLQ_ERROR_ARGUMENT, "no samples", clq_step_gradients(trainer, &b));
    b.count = BATCH + 1;
    assert_fails(CLQ_ERROR_ARGUMENT, "larger than the global batch of 6", clq_step_gradients(trainer, &b));
    b = good_batch();
    b.sample_elements = INPUTS + 1;
    assert_fails(CLQ_ERROR_MISMATCH, "5 values and model small takes 4", clq_step_gradients(trainer, &b));
    b = good_batch();
    b.sample_dtype = CLQ_U8;
    assert_fails(CLQ_ERROR_MISMATCH, "u8 and the trainer was made for f32", clq_step_gradients(trainer, &b));
    b = good_batch();
    b.labels = NULL;
    assert_fails(CLQ_ERROR_MISMATCH, "no labels", clq_step_gradients(trainer, &b));
    b.labels = too_large;
    assert_fails(CLQ_ERROR_MISMATCH, "the batch: label 3 is 3", clq_step_gradients(trainer, &b));
    b.labels = negative;
    assert_fails(CLQ_ERROR_MISMATCH, "the batch: label 5 is -1", clq_step_gradients(trainer, &b));
    b.labels = rows;
    b.float_labels = true;
    assert_fails(CLQ_ERROR_MISMATCH, "categorical_crossentropy", clq_step_gradients(trainer, &b));
    b = good_batch(); /* no refusal has done harm */
    assert_ok(clq_step_gradients(trainer, &b));
    assert_ok(clq_step_reduce(trainer));
    assert_ok(clq_step_apply(trainer));
    assert_ok(clq_step_read(trainer, &info));
    assert_true(info.step == 1 && info.samples == BATCH && isfinite(info.loss));
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
    open_trainer(CLQ_LOSS_CATEGORICAL, &model, &trainer);
    b.labels = rows;
    b.float_labels = true;
    b.label_elements = CLASSES + 1;
    assert_fails(CLQ_ERROR_MISMATCH, "a label has 4 values, and categorical_crossentropy with model small takes 3",
                 clq_step_gradients(trainer, &b));
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

/* Parts of a step in a wrong order are refused, and the gradient that all replicas have stays as it is. */
static void order_of_parts(void **state) {
    (void)state;
    clq_model *model;
    clq_trainer *trainer;
    float sum[2][INPUTS * CLASSES], again[INPUTS * CLASSES];
    clq_batch b = good_batch();
    open_trainer(CLQ_LOSS_SPARSE_CATEGORICAL, &model, &trainer);
    for (int step = 0; step < 2; step++) {
        assert_ok(clq_step_gradients(trainer, &b));
        assert_fails(CLQ_ERROR_STATE, "clq_step_reduce was not called", clq_step_apply(trainer));
        assert_ok(clq_step_reduce(trainer));
        for (unsigned r = 0; r < 2; r++) assert_ok(clq_trainer_get_gradient(trainer, r, 0, sum[r]));
        assert_memory_equal(sum[0], sum[1], sizeof sum[0]);
        assert_fails(CLQ_ERROR_STATE, "called already", clq_step_reduce(trainer));
        for (unsigned r = 0; r < 2; r++) {
            assert_ok(clq_trainer_get_gradient(trainer, r, 0, again));
            assert_memory_equal(again, sum[0], sizeof again);
        }
        assert_ok(clq_step_apply(trainer));
        assert_fails(CLQ_ERROR_STATE, "after clq_step_gradients", clq_step_apply(trainer));
        assert_fails(CLQ_ERROR_STATE, "after clq_step_gradients", clq_step_reduce(trainer));
        assert_ok(clq_step_gradients(trainer, &b)); /* a gradient made anew must be reduced anew */
        assert_ok(clq_step_reduce(trainer));
        assert_ok(clq_step_gradients(trainer, &b));
        assert_ok(clq_step_reduce(trainer));
        assert_ok(clq_step_apply(trainer));
    }
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

static double loss_of(clq_loss_kind kind, bool soft) {
    clq_model *model;
    clq_trainer *trainer;
    clq_step_info info = {0};
    float rows[BATCH][CLASSES] = {{0}};
    for (int i = 0; i < BATCH; i++) rows[i][labels[i]] = 1.0f;
    clq_batch b = good_batch();
    if (soft) b.labels = rows, b.float_labels = true, b.label_elements = CLASSES;
    open_trainer(kind, &model, &trainer);
    for (int step = 0; step < 3; step++) {
        assert_ok(clq_step_gradients(trainer, &b));
        assert_ok(clq_step_reduce(trainer));
        assert_ok(clq_step_apply(trainer));
    }
    assert_ok(clq_step_read(trainer, &info));
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
    return info.loss;
}

/* Integer labels become rows if the loss takes rows. */
static void losses_agree(void **state) {
    (void)state;
    double sparse = loss_of(CLQ_LOSS_SPARSE_CATEGORICAL, false);
    assert_true(fabs(loss_of(CLQ_LOSS_CATEGORICAL, false) - sparse) <= 1e-6 * sparse);
    assert_true(fabs(loss_of(CLQ_LOSS_CATEGORICAL, true) - sparse) <= 1e-6 * sparse);
}

static const clq_step_params *params_of(const clq_trainer *trainer, unsigned replica) {
    return &clq_strategy_plan(clq_trainer_strategy(trainer), replica)->list->params;
}

/* The first replica has 3 of 5 rows, and the second has 2. */
static void check_params(clq_trainer *trainer, uint32_t step) {
    assert_ok(clq_trainer_wait(trainer));
    for (unsigned r = 0; r < 2; r++) {
        const clq_step_params *params = params_of(trainer, r);
        assert_int_equal(params->count, r ? 2 : 3);
        assert_int_equal(params->first_row, r ? 3 : 0);
        assert_int_equal(params->step, step);
        assert_int_equal(params->slot, step - 1);
        assert_true(params->scale == 0.2f);
    }
}

static void each_replica_knows_its_rows(void **state) {
    (void)state;
    clq_model *model;
    clq_trainer *trainer;
    clq_batch b = good_batch();
    b.count = 5;
    open_trainer(CLQ_LOSS_SPARSE_CATEGORICAL, &model, &trainer);
    for (uint32_t step = 1; step <= 2; step++) {
        assert_ok(clq_step(trainer, &b));
        check_params(trainer, step);
    }
    assert_ok(clq_step_gradients(trainer, &b));
    check_params(trainer, 3);
    assert_ok(clq_step_reduce(trainer));
    assert_ok(clq_step_apply(trainer));
    assert_ok(clq_trainer_wait(trainer));
    assert_int_equal(params_of(trainer, 1)->step, 3);
    assert_true(params_of(trainer, 1)->rate > 0);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(refused), cmocka_unit_test(order_of_parts),
                                       cmocka_unit_test(losses_agree), cmocka_unit_test(each_replica_knows_its_rows)};
    return cmocka_run_group_tests(tests, open_system, close_system);
}
