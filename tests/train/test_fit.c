/* clq_fit against the steps by hand: the same batches, and the same bits. What replicas copy from the dataset
 * themselves may be given back once clq_fit has returned, with an error too. */
#include "support/check.h"
#include "train/trainer.h"

#include <string.h>

enum { SAMPLES = 53, BATCH = 8, INPUTS = 7, CLASSES = 3, EPOCHS = 3, UNITS = 5 };
enum { WEIGHTS = INPUTS * UNITS };

static clq_system *sys;
static uint8_t samples[SAMPLES][INPUTS];
static int32_t labels[SAMPLES];
static float probabilities[SAMPLES][CLASSES];

typedef struct variant {
    const char *spec;
    clq_loss_kind loss;
    bool soft;     /* labels are rows of probabilities */
    size_t buffer; /* of the shuffle */
    bool drop;
    size_t stop_after; /* steps, at which the caller stops the training; 0: never */
} variant;

typedef struct result {
    double losses[EPOCHS * SAMPLES];
    size_t steps, stop_after;
    float weights[WEIGHTS];
} result;

static clq_dataset *open_data(const variant *v) {
    clq_dataset *data;
    size_t shape[] = {INPUTS};
    if (v->soft)
        assert_ok(clq_dataset_arrays(samples, CLQ_U8, SAMPLES, 1, shape, probabilities, CLQ_F32, CLASSES, &data));
    else
        assert_ok(clq_dataset_arrays(samples, CLQ_U8, SAMPLES, 1, shape, labels, CLQ_I32, 0, &data));
    assert_ok(clq_dataset_shuffle(data, v->buffer, 11));
    assert_ok(clq_dataset_batch(data, BATCH, v->drop));
    assert_ok(clq_dataset_prefetch(data, CLQ_AUTO));
    return data;
}

static clq_model *make_model(void) {
    clq_model *model;
    assert_ok(clq_model_create("small", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(INPUTS));
    x = clq_dense(model, x, &(clq_dense_config){.units = UNITS, .activation = CLQ_TANH});
    x = clq_dense(model, x, &(clq_dense_config){.units = CLASSES, .activation = CLQ_SOFTMAX});
    assert_ok(clq_model_finish(model, x));
    return model;
}

static clq_trainer *make_trainer(const variant *v, const clq_model *model) {
    clq_devices devices;
    clq_trainer *trainer;
    clq_trainer_config config = clq_trainer_config_default();
    config.global_batch = BATCH;
    config.loss.kind = v->loss;
    assert_ok(clq_devices_select(sys, v->spec, &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    return trainer;
}

static clq_status note(void *context, const clq_step_info *info) {
    result *r = context;
    r->losses[r->steps++] = info->loss;
    return r->stop_after && r->steps == r->stop_after ? clq_fail(CLQ_ABORTED, "enough") : CLQ_OK;
}

static void by_fit(const variant *v, result *r) {
    clq_model *model = make_model();
    clq_trainer *trainer = make_trainer(v, model);
    clq_dataset *data = open_data(v);
    *r = (result){.stop_after = v->stop_after};
    const clq_fit_config fit = {.epochs = EPOCHS, .context = r, .on_step = note};
    clq_status status = clq_fit(trainer, data, &fit);
    clq_dataset_destroy(data);
    if (v->stop_after)
        assert_fails(CLQ_ABORTED, "enough", status);
    else
        assert_ok(status);
    assert_ok(clq_trainer_get_variable(trainer, 0, r->weights));
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

static void by_steps(const variant *v, result *r) {
    clq_model *model = make_model();
    clq_trainer *trainer = make_trainer(v, model);
    clq_dataset *data = open_data(v);
    *r = (result){0};
    for (int epoch = 0; epoch < EPOCHS; epoch++)
        for (;;) {
            clq_batch batch;
            clq_step_info info;
            bool more;
            assert_ok(clq_dataset_next(data, &batch, &more));
            if (!more) break;
            assert_ok(clq_step(trainer, &batch));
            assert_ok(clq_step_read(trainer, &info));
            r->losses[r->steps++] = info.loss;
        }
    assert_ok(clq_trainer_get_variable(trainer, 0, r->weights));
    clq_dataset_destroy(data);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

static const char *const specs[] = {"pocl:0", "pocl:5",
                                    "pocl:0,pocl:1,pocl:2"}; /* of three the last batch leaves one idle */

static void check_same(variant v) {
    for (size_t i = 0; i < CLQ_COUNT_OF(specs); i++) {
        result fit, steps;
        v.spec = specs[i];
        by_fit(&v, &fit);
        by_steps(&v, &steps);
        assert_int_equal(fit.steps, EPOCHS * (v.drop ? SAMPLES / BATCH : SAMPLES / BATCH + 1));
        assert_int_equal(fit.steps, steps.steps);
        assert_memory_equal(fit.losses, steps.losses, fit.steps * sizeof fit.losses[0]);
        assert_memory_equal(fit.weights, steps.weights, sizeof fit.weights);
    }
}

static void integer_labels(void **state) {
    (void)state;
    check_same((variant){.loss = CLQ_LOSS_SPARSE_CATEGORICAL, .buffer = SAMPLES});
    check_same((variant){.loss = CLQ_LOSS_SPARSE_CATEGORICAL, .buffer = 9, .drop = true});
    check_same((variant){.loss = CLQ_LOSS_SPARSE_CATEGORICAL});
}
static void integer_labels_as_rows(void **state) {
    (void)state;
    check_same((variant){.loss = CLQ_LOSS_CATEGORICAL, .buffer = SAMPLES});
}
static void probabilities_as_labels(void **state) {
    (void)state;
    check_same((variant){.loss = CLQ_LOSS_CATEGORICAL, .soft = true, .buffer = SAMPLES});
}

static void stopped_in_the_middle(void **state) {
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(specs); i++)
        for (size_t stop = 1; stop < 12; stop += 5) {
            result r;
            by_fit(
                &(variant){
                    .spec = specs[i], .loss = CLQ_LOSS_SPARSE_CATEGORICAL, .buffer = SAMPLES, .stop_after = stop},
                &r);
            assert_int_equal(r.steps, stop);
        }
}

/* Each step right behind a step is timed, in one or by hand, and nothing else: neither the first, nor one behind
 * something read. The times of all are no longer than all took. */
static void steps_are_timed(void **state) {
    (void)state;
    variant v = {"pocl:0,pocl:1", CLQ_LOSS_SPARSE_CATEGORICAL, false, 0, true, 0};
    clq_model *model = make_model();
    clq_trainer *trainer = make_trainer(&v, model);
    clq_dataset *data = open_data(&v);
    float seconds[EPOCHS * SAMPLES];
    size_t count;
    const size_t an_epoch = SAMPLES / BATCH;
    assert_ok(clq_trainer_step_times(trainer, CLQ_COUNT_OF(seconds), seconds, &count));
    assert_int_equal(count, 0);
    double began = clq_now();
    assert_ok(clq_fit(trainer, data, &(clq_fit_config){.epochs = EPOCHS}));
    double took = clq_now() - began, sum = 0;
    assert_ok(clq_trainer_step_times(trainer, CLQ_COUNT_OF(seconds), seconds, &count));
    assert_int_equal(count, EPOCHS * (an_epoch - 1)); /* metrics are read behind each epoch */
    for (size_t i = 0; i < count; i++) {
        assert_true(seconds[i] > 0);
        sum += (double)seconds[i];
    }
    assert_true(sum <= took);
    assert_ok(clq_dataset_seek(data, 0, 0));
    for (int i = 0; i < 3; i++) {
        clq_batch batch;
        bool more;
        assert_ok(clq_dataset_next(data, &batch, &more));
        assert_true(more);
        assert_ok(clq_step_gradients(trainer, &batch));
        assert_ok(clq_step_reduce(trainer));
        assert_ok(clq_step_apply(trainer));
    }
    float last[2];
    assert_ok(clq_trainer_step_times(trainer, CLQ_COUNT_OF(seconds), seconds, &count));
    assert_int_equal(count, EPOCHS * (an_epoch - 1) + 2);
    assert_ok(clq_trainer_step_times(trainer, CLQ_COUNT_OF(last), last, &count));
    assert_int_equal(count, 2);
    assert_memory_equal(last, seconds + EPOCHS * (an_epoch - 1), sizeof last);
    clq_dataset_destroy(data);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

/* Apart, replicas' weights go their ways: each has seen its samples only. */
static void apart_is_apart(void **state) {
    (void)state;
    variant v = {"pocl:0,pocl:1", CLQ_LOSS_SPARSE_CATEGORICAL, false, 0, false, 0};
    clq_model *model = make_model();
    clq_trainer *trainer = make_trainer(&v, model);
    clq_dataset *data = open_data(&v);
    const size_t bytes = clq_plan_arena_bytes(clq_trainer_plan(trainer, 0));
    float *weights[2];
    double share;
    for (unsigned r = 0; r < 2; r++) assert_non_null(weights[r] = clq_alloc(bytes, 1));
    assert_ok(clq_strategy_set_apart(trainer->strategy, true));
    assert_ok(clq_fit(trainer, data, &(clq_fit_config){.steps = 4}));
    for (unsigned r = 0; r < 2; r++)
        assert_ok(clq_strategy_read_parameters(trainer->strategy, r, 0, weights[r], bytes));
    assert_memory_not_equal(weights[0], weights[1], bytes);
    assert_ok(clq_trainer_compare_apart(trainer, data, 4 * SAMPLES / BATCH, &share));
    assert_true(share > 0);
    assert_ok(clq_trainer_compare_apart(trainer, data, 2, &share)); /* one right behind another, or an epoch's end */
    assert_true(share == 0);
    for (unsigned r = 0; r < 2; r++) clq_free(weights[r]);
    clq_dataset_destroy(data);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

static int start(void **state) {
    (void)state;
    for (int i = 0; i < SAMPLES; i++) {
        labels[i] = i * 5 % CLASSES;
        for (int k = 0; k < INPUTS; k++) samples[i][k] = (uint8_t)(i * 37 + k * 11);
        for (int c = 0; c < CLASSES; c++) probabilities[i][c] = c == labels[i] ? 0.5f : 0.25f;
    }
    return clq_system_open(NULL, &sys) == CLQ_OK ? 0 : -1;
}
static int stop(void **state) {
    (void)state;
    clq_system_close(sys);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integer_labels),          cmocka_unit_test(integer_labels_as_rows),
        cmocka_unit_test(probabilities_as_labels), cmocka_unit_test(stopped_in_the_middle),
        cmocka_unit_test(steps_are_timed),         cmocka_unit_test(apart_is_apart),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
