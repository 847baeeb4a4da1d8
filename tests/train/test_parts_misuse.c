/* Wrong calls for models in parts: each is refused in one line, and changes nothing. */
#include "train/parts.h"

static void orders_are_kept(void **state) {
    (void)state;
    chain c;
    const clq_batch batch = batch_for(modal, 0, BATCH), next = batch_for(modal, BATCH, BATCH);
    float gradient[2][INPUTS * 7];
    clq_step_info info;
    clq_totals totals;
    assert_ok(open_chain(modal, false, &c));
    clq_trainer *front = c.trainers[0];
    assert_fails(CLQ_ERROR_STATE, "after clq_part_forward", clq_part_backward(front, c.gradients[0], NULL));
    assert_fails(CLQ_ERROR_STATE, "after the clq_part_backward", clq_step_apply(front));
    assert_fails(CLQ_ERROR_STATE, "no step", clq_step_read(front, &info));
    assert_ok(make_gradients(&c, &batch));
    assert_fails(CLQ_ERROR_STATE, "after clq_part_forward", clq_part_backward(front, c.gradients[0], NULL));
    assert_fails(CLQ_ERROR_STATE, "nothing is reduced", clq_step_reduce(front));
    assert_ok(apply(&c));
    assert_fails(CLQ_ERROR_STATE, "after the clq_part_backward", clq_step_apply(front));
    /* Inference drops what a forward pass has kept, and so does another forward pass. */
    assert_ok(clq_part_forward(front, &batch, NULL, c.values[0]));
    assert_ok(clq_part_evaluate(front, &batch, NULL, c.values[0], &totals));
    assert_fails(CLQ_ERROR_STATE, "after clq_part_forward", clq_part_backward(front, c.gradients[0], NULL));
    for (unsigned twice = 0; twice < 2; twice++) {
        if (twice) assert_ok(clq_part_forward(front, &batch, NULL, c.values[0]));
        assert_ok(clq_part_forward(front, &next, NULL, c.values[0]));
        assert_ok(clq_part_backward(front, c.gradients[0], NULL));
        assert_ok(clq_trainer_get_gradient(front, 0, 0, gradient[twice]));
    }
    assert_memory_equal(gradient[0], gradient[1], sizeof gradient[0]);
    /* A gradient without an update is dropped, too. */
    assert_ok(clq_part_forward(front, &batch, NULL, c.values[0]));
    assert_fails(CLQ_ERROR_STATE, "after the clq_part_backward", clq_step_apply(front));
    close_chain(&c);
}

static void whole_steps_are_refused(void **state) {
    (void)state;
    chain c, whole;
    clq_dataset *data = first_samples(modal);
    clq_distributed_dataset *distributed;
    clq_part_values *values;
    clq_totals totals;
    float out[BATCH * CLASSES];
    const clq_batch batch = batch_for(modal, 0, BATCH);
    assert_ok(open_chain(modal, false, &c));
    assert_ok(open_chain(modal, true, &whole));
    clq_trainer *front = c.trainers[0];
    assert_fails(CLQ_ERROR_STATE, "part 0 of 2", clq_step(front, &batch));
    assert_fails(CLQ_ERROR_STATE, "part 0 of 2", clq_step_gradients(front, &batch));
    assert_fails(CLQ_ERROR_STATE, "part 0 of 2", clq_step_accumulate(front, &batch));
    assert_fails(CLQ_ERROR_STATE, "part 0 of 2", clq_fit(front, data, &(clq_fit_config){.epochs = 1}));
    assert_fails(CLQ_ERROR_STATE, "part 0 of 2", clq_evaluate(front, data, &totals));
    assert_fails(CLQ_ERROR_STATE, "part 0 of 2", clq_predict(front, data, out));
    assert_fails(CLQ_ERROR_STATE, "part 0 of 2", clq_run(front, NULL, NULL, NULL));
    assert_fails(CLQ_ERROR_STATE, "part 0 of 2", clq_run_evaluation(front, NULL, NULL, NULL));
    assert_fails(CLQ_ERROR_STATE, "part 0 of 2", clq_distribute_dataset(front, data, &distributed));
    front = whole.trainers[0];
    assert_fails(CLQ_ERROR_STATE, "all of modal", clq_part_values_create(front, CLQ_PART_OUTPUT, &values));
    assert_fails(CLQ_ERROR_STATE, "clq_part_forward", clq_part_forward(front, &batch, NULL, NULL));
    assert_fails(CLQ_ERROR_STATE, "clq_part_backward", clq_part_backward(front, NULL, NULL));
    assert_fails(CLQ_ERROR_STATE, "clq_part_evaluate", clq_part_evaluate(front, &batch, NULL, NULL, &totals));
    assert_fails(CLQ_ERROR_STATE, "clq_part_predict", clq_part_predict(front, &batch, NULL, NULL, NULL));
    assert_ok(make_gradients(&c, &batch)); /* no refusal has harmed it */
    assert_ok(apply(&c));
    clq_dataset_destroy(data);
    close_chain(&c);
    close_chain(&whole);
}

static void wrong_shapes_are_refused(void **state) {
    (void)state;
    chain c, other;
    clq_part_values *values;
    assert_ok(open_chain(modal, false, &c));
    assert_ok(open_chain(branched, false, &other));
    clq_trainer *front = c.trainers[0], *back = c.trainers[1];
    clq_batch batch = batch_for(modal, 0, 4);
    assert_fails(CLQ_ERROR_ARGUMENT, "the model begins", clq_part_values_create(front, CLQ_PART_INPUT, &values));
    assert_fails(CLQ_ERROR_ARGUMENT, "the model ends", clq_part_values_create(back, CLQ_PART_OUTPUT, &values));
    assert_fails(CLQ_ERROR_ARGUMENT, "side 2", clq_part_values_create(back, (clq_part_side)2, &values));
    assert_fails(CLQ_ERROR_ARGUMENT, "its input is NULL", clq_part_forward(front, &batch, c.values[0], c.values[0]));
    assert_fails(CLQ_ERROR_ARGUMENT, "NULL was given", clq_part_forward(front, &batch, NULL, NULL));
    assert_fails(CLQ_ERROR_MISMATCH, "2 tensors from 'scaled'", clq_part_forward(front, &batch, NULL, other.values[0]));
    assert_ok(clq_part_forward(front, &batch, NULL, c.values[0]));
    assert_fails(CLQ_ERROR_ARGUMENT, "NULL was given", clq_part_backward(front, NULL, NULL));
    assert_fails(CLQ_ERROR_MISMATCH, "0 rows", clq_part_backward(front, c.gradients[0], NULL));
    assert_ok(clq_part_values_set_rows(c.gradients[0], 4));
    assert_fails(CLQ_ERROR_ARGUMENT, "its input is NULL", clq_part_backward(front, c.gradients[0], c.gradients[0]));
    assert_fails(CLQ_ERROR_MISMATCH, "'scaled'", clq_part_backward(front, other.gradients[1], NULL));
    assert_ok(clq_part_backward(front, c.gradients[0], NULL)); /* the refused calls dropped nothing */

    assert_fails(CLQ_ERROR_ARGUMENT, "NULL was given", clq_part_forward(back, &batch, NULL, NULL));
    assert_fails(CLQ_ERROR_ARGUMENT, "its output is NULL", clq_part_forward(back, &batch, c.values[0], c.values[0]));
    batch.count = 3;
    assert_fails(CLQ_ERROR_MISMATCH, "4 rows and the batch has 3", clq_part_forward(back, &batch, c.values[0], NULL));
    batch.count = 4;
    batch.labels = (int32_t[]){0, 1, CLASSES, 0};
    assert_fails(CLQ_ERROR_MISMATCH, "label 2 is 3", clq_part_forward(back, &batch, c.values[0], NULL));
    batch.labels = NULL;
    assert_fails(CLQ_ERROR_MISMATCH, "no labels", clq_part_forward(back, &batch, c.values[0], NULL));
    assert_ok(clq_part_forward(front, &batch, NULL, c.values[0])); /* part 0 has no output, and needs no labels */
    batch.sample_elements = INPUTS + 1;
    assert_fails(CLQ_ERROR_MISMATCH, "6 values", clq_part_forward(front, &batch, NULL, c.values[0]));
    batch.count = 0;
    assert_fails(CLQ_ERROR_ARGUMENT, "no samples", clq_part_forward(back, &batch, c.values[0], NULL));
    batch.count = BATCH + 1;
    assert_fails(CLQ_ERROR_ARGUMENT, "11 samples", clq_part_forward(back, &batch, c.values[0], NULL));
    close_chain(&c);
    close_chain(&other);
}

static void wrong_configs_are_refused(void **state) {
    (void)state;
    clq_trainer *trainer;
    clq_part_values *small, *large;
    clq_trainer_config config = config_of();
    config.part = 1;
    assert_fails(CLQ_ERROR_ARGUMENT, "parts is 0", open_on(modal, "pocl:0", &config, &trainer));
    config.parts = 1;
    assert_fails(CLQ_ERROR_ARGUMENT, "part 1 of 1", open_on(modal, "pocl:0", &config, &trainer));
    config.parts = 3;
    assert_fails(CLQ_ERROR_ARGUMENT, "marked for 2", open_on(modal, "pocl:0", &config, &trainer));
    config.parts = CLQ_REPLICAS_MAX + 1;
    assert_fails(CLQ_ERROR_ARGUMENT, "at most", open_on(modal, "pocl:0", &config, &trainer));
    config.parts = 2;
    assert_fails(CLQ_ERROR_ARGUMENT, "one device", open_on(modal, "pocl:0,pocl:1", &config, &trainer));
    config.strategy = CLQ_STRATEGY_PIPELINE;
    assert_fails(CLQ_ERROR_ARGUMENT, "without a strategy", open_on(modal, "pocl:0", &config, &trainer));
    config.strategy = CLQ_STRATEGY_SINGLE;
    config.strategy_options.accumulate = 2;
    assert_fails(CLQ_ERROR_ARGUMENT, "accumulate", open_on(modal, "pocl:0", &config, &trainer));
    config.strategy_options.accumulate = 0;

    /* A trainer for inference alone, and values of a trainer with smaller batches. */
    config.inference_only = true;
    config.part = 0;
    assert_ok(open_on(modal, "pocl:0", &config, &trainer));
    assert_ok(clq_part_values_create(trainer, CLQ_PART_OUTPUT, &large));
    const clq_batch batch = batch_for(modal, 0, BATCH);
    clq_totals totals;
    assert_fails(CLQ_ERROR_STATE, "inference-only", clq_part_forward(trainer, &batch, NULL, large));
    assert_ok(clq_part_evaluate(trainer, &batch, NULL, large, &totals));
    clq_trainer *other;
    config.global_batch = 4;
    assert_ok(open_on(modal, "pocl:0", &config, &other));
    assert_ok(clq_part_values_create(other, CLQ_PART_OUTPUT, &small));
    assert_fails(CLQ_ERROR_MISMATCH, "room for 4", clq_part_evaluate(trainer, &batch, NULL, small, &totals));
    clq_part_values_destroy(small);
    clq_part_values_destroy(large);
    clq_part_values_destroy(NULL);
    clq_trainer_destroy(trainer);
    clq_trainer_destroy(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(orders_are_kept), cmocka_unit_test(whole_steps_are_refused),
                                       cmocka_unit_test(wrong_shapes_are_refused),
                                       cmocka_unit_test(wrong_configs_are_refused)};
    return cmocka_run_group_tests_name("train/parts_misuse", tests, open_models, close_models);
}
