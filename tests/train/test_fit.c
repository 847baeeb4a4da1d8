/* clq_fit makes the same batches and the same bits as steps by hand. Once clq_fit has returned, also with an error, the
 * dataset that replicas copy rows from may be destroyed. */
#include "support/apart.h"
#include "support/check.h"
#include "support/system.h"
#include "train/trainer.h"

#include <math.h>
#include <string.h>

enum { SAMPLES = 53, BATCH = 8, INPUTS = 7, CLASSES = 3, EPOCHS = 3, UNITS = 5 };
enum { WEIGHTS = INPUTS * UNITS };

static uint8_t samples[SAMPLES][INPUTS];
static int32_t labels[SAMPLES];
static float probabilities[SAMPLES][CLASSES];

typedef struct variant {
    const char *spec;
    clq_loss_kind loss;
    bool soft;     /* labels are rows of probabilities */
    size_t buffer; /* of the shuffle */
    bool drop;
    size_t stop_after; /* the caller stops the training after these steps; 0: never */
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
    assert_ok(clq_dataset_prefetch(data, CLQ_PREFETCH_AUTO));
    return data;
}

static clq_model *make_model(void) {
    clq_model *model;
    assert_ok(clq_model_create("small", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(INPUTS));
    x = clq_dense(model, x, &(clq_dense_config){.units = UNITS, .activation = CLQ_ACTIVATION_TANH});
    x = clq_dense(model, x, &(clq_dense_config){.units = CLASSES, .activation = CLQ_ACTIVATION_SOFTMAX});
    assert_ok(clq_model_finish(model, x));
    return model;
}

static clq_trainer *make_trainer(const variant *v, const clq_model *model) {
    clq_devices devices;
    clq_trainer *trainer;
    clq_trainer_config config = apart_config();
    config.global_batch = BATCH;
    config.loss.kind = v->loss;
    assert_ok(clq_devices_select(sys, v->spec, &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    return trainer;
}

static clq_status note(void *context, const clq_step_info *info) {
    result *r = context;
    r->losses[r->steps++] = info->loss;
    return r->stop_after && r->steps == r->stop_after ? clq_fail(CLQ_ERROR_ABORTED, "enough") : CLQ_OK;
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
        assert_fails(CLQ_ERROR_ABORTED, "enough", status);
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
                                    "pocl:0,pocl:1,pocl:2"}; /* with three, the last batch leaves one idle */

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

/* A step that directly follows a step is timed, whether made by one call or by hand. The first step, and a step after
 * something was read, are not timed. The times add up to no more than the whole took. */
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
    assert_int_equal(count, EPOCHS * (an_epoch - 1)); /* metrics are read after each epoch */
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

/* Replicas that are set apart get different weights: each sees only its own samples. */
static void apart_is_apart(void **state) {
    (void)state;
    variant v = {"pocl:0,pocl:1", CLQ_LOSS_SPARSE_CATEGORICAL, false, 0, false, 0};
    clq_model *model = make_model();
    clq_trainer *trainer = make_trainer(&v, model);
    clq_dataset *data = open_data(&v);
    const size_t bytes = clq_plan_arena_bytes(clq_strategy_plan(clq_trainer_strategy(trainer), 0));
    float *weights[2];
    double share;
    for (unsigned r = 0; r < 2; r++) assert_non_null(weights[r] = clq_alloc(bytes, 1));
    assert_ok(clq_strategy_set_apart(trainer->strategy, true));
    assert_ok(clq_fit(trainer, data, &(clq_fit_config){.steps = 4}));
    for (unsigned r = 0; r < 2; r++)
        assert_ok(clq_strategy_read(trainer->strategy, r, CLQ_ARENA_PARAMETERS, 0, weights[r], bytes));
    assert_memory_not_equal(weights[0], weights[1], bytes);
    assert_ok(clq_trainer_compare_apart(trainer, data, 4 * SAMPLES / BATCH, &share));
    assert_true(share > 0);
    assert_ok(clq_trainer_compare_apart(trainer, data, 2, &share)); /* too few: first steps of epochs are not timed */
    assert_true(share == 0);
    for (unsigned r = 0; r < 2; r++) clq_free(weights[r]);
    clq_dataset_destroy(data);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

/* ---- what callbacks may do, and how a fit ends ---- */

/* A fit whose callbacks evaluate two sets: `own`, on which the fit trains, and `other`, whose batches over all steps
 * are more than the trainer has rows of metrics for. */
typedef struct guest {
    clq_trainer *trainer;
    clq_dataset *own, *other;
    bool evaluates, validates;
    double losses[EPOCHS * SAMPLES], told[EPOCHS]; /* of the steps; of the epochs, as on_epoch tells them */
    double accuracy[EPOCHS];
    size_t steps, epochs;
    clq_totals validation[EPOCHS];
    float weights[WEIGHTS];
} guest;

static clq_status evaluate_in_step(void *context, const clq_step_info *info) {
    guest *g = context;
    g->losses[g->steps++] = info->loss;
    if (!g->evaluates) return CLQ_OK;
    clq_totals totals[2];
    clq_step_info again;
    float outputs[SAMPLES * CLASSES];
    for (int i = 0; i < 2; i++) {
        assert_ok(clq_evaluate(g->trainer, i == 0 ? g->own : g->other, &totals[i]));
        assert_int_equal(totals[i].samples, SAMPLES);
        assert_true(clq_metric_value(&totals[i].metrics, "accuracy") >= 0 && totals[i].metrics.values[0] <= 1);
    }
    assert_true(fabs(totals[0].loss - totals[1].loss) < 1e-6); /* both have the same samples */
    assert_ok(clq_predict(g->trainer, g->own, outputs));
    assert_ok(clq_step_read(g->trainer, &again)); /* still the step's figures, not those of the evaluations since */
    assert_int_equal(again.samples, info->samples);
    assert_true(again.loss == info->loss && again.metrics.values[0] == info->metrics.values[0]);
    return CLQ_OK;
}

static clq_status note_epoch(void *context, const clq_epoch_info *info) {
    guest *g = context;
    g->told[g->epochs] = info->train.loss;
    g->accuracy[g->epochs] = clq_metric_value(&info->train.metrics, "accuracy");
    g->validation[g->epochs++] = info->validation;
    assert_int_equal(info->train.samples, SAMPLES);
    if (!g->evaluates) return CLQ_OK;
    clq_totals totals;
    assert_ok(clq_evaluate(g->trainer, g->own, &totals));
    if (g->validates) assert_true(totals.loss == info->validation.loss);
    return CLQ_OK;
}

static void fit_with_guest(const variant *v, guest *g) {
    clq_model *model = make_model();
    g->trainer = make_trainer(v, model);
    g->own = open_data(v);
    g->other = open_data(v);
    assert_ok(clq_dataset_batch(g->other, 1, false)); /* all steps together need more rows than there are slots */
    assert_true(EPOCHS * (SAMPLES / BATCH + 1) * SAMPLES > CLQ_METRIC_SLOTS);
    clq_fit_config fit = {.epochs = EPOCHS, .context = g, .on_step = evaluate_in_step, .on_epoch = note_epoch};
    if (g->validates) fit.validation = g->own;
    assert_ok(clq_fit(g->trainer, g->own, &fit));
    assert_ok(clq_trainer_get_variable(g->trainer, 0, g->weights));
    clq_dataset_destroy(g->own);
    clq_dataset_destroy(g->other);
    clq_trainer_destroy(g->trainer);
    clq_model_destroy(model);
}

/* The numbers are those of a fit without evaluations, and an epoch's loss is the mean of its steps' losses. */
static void check_guest(variant v, bool evaluates, bool validates) {
    for (size_t i = 0; i < CLQ_COUNT_OF(specs); i++) {
        static guest alone, with;
        v.spec = specs[i];
        alone = (guest){0};
        with = (guest){.evaluates = evaluates, .validates = validates};
        fit_with_guest(&v, &alone);
        fit_with_guest(&v, &with);
        assert_int_equal(with.steps, alone.steps);
        assert_int_equal(with.epochs, EPOCHS);
        assert_memory_equal(with.losses, alone.losses, alone.steps * sizeof alone.losses[0]);
        assert_memory_equal(with.weights, alone.weights, sizeof alone.weights);
        assert_memory_equal(with.told, alone.told, sizeof alone.told);
        assert_memory_equal(with.accuracy, alone.accuracy, sizeof alone.accuracy);
        for (size_t epoch = 0, step = 0; epoch < EPOCHS; epoch++) {
            double sum = 0;
            for (size_t left = SAMPLES; left > 0; step++) {
                size_t count = CLQ_MIN(left, (size_t)BATCH);
                sum += alone.losses[step] * (double)count;
                left -= count;
            }
            assert_true(fabs(with.told[epoch] - sum / SAMPLES) < 1e-9);
            assert_int_equal(with.validation[epoch].samples, validates ? SAMPLES : 0);
        }
    }
}

static void callbacks_may_evaluate(void **state) {
    (void)state;
    check_guest((variant){.loss = CLQ_LOSS_SPARSE_CATEGORICAL, .buffer = SAMPLES}, true, false);
    check_guest((variant){.loss = CLQ_LOSS_CATEGORICAL, .buffer = 9}, true, false); /* batches made by the pipeline */
}

static void validation_may_be_the_training_set(void **state) {
    (void)state;
    check_guest((variant){.loss = CLQ_LOSS_SPARSE_CATEGORICAL, .buffer = SAMPLES}, false, true);
    check_guest((variant){.loss = CLQ_LOSS_CATEGORICAL, .buffer = SAMPLES}, true, true);
}

/* An evaluation leaves the dataset at its place. */
static void evaluation_leaves_the_dataset(void **state) {
    (void)state;
    const variant v = {"pocl:0", CLQ_LOSS_SPARSE_CATEGORICAL, false, SAMPLES, false, 0};
    clq_model *model = make_model();
    clq_trainer *trainer = make_trainer(&v, model);
    clq_dataset *data = open_data(&v), *untouched = open_data(&v);
    for (int i = 0; i < 2 * (SAMPLES / BATCH + 2); i++) {
        clq_batch got, wanted;
        bool more[2];
        clq_totals totals;
        assert_ok(clq_evaluate(trainer, data, &totals));
        assert_ok(clq_dataset_next(data, &got, &more[0]));
        assert_ok(clq_dataset_next(untouched, &wanted, &more[1]));
        assert_int_equal(more[0], more[1]);
        if (!more[0]) continue;
        assert_true(got.epoch == wanted.epoch && got.index == wanted.index && got.count == wanted.count);
        assert_memory_equal(got.samples, wanted.samples, got.count * INPUTS);
    }
    clq_dataset_destroy(data);
    clq_dataset_destroy(untouched);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

static clq_status step_in_callback(void *context, const clq_step_info *info) {
    guest *g = context;
    (void)info;
    g->steps++;
    clq_batch batch = {
        .count = 1, .samples = samples, .sample_elements = INPUTS, .sample_dtype = CLQ_U8, .labels = labels};
    assert_fails(CLQ_ERROR_STATE, "clq_step was called by on_step", clq_step(g->trainer, &batch));
    assert_fails(CLQ_ERROR_STATE, "clq_step_gradients was called by", clq_step_gradients(g->trainer, &batch));
    assert_fails(CLQ_ERROR_STATE, "clq_fit was called by",
                 clq_fit(g->trainer, g->own, &(clq_fit_config){.epochs = 1, .context = g}));
    return CLQ_OK;
}

static void callbacks_may_not_train(void **state) {
    (void)state;
    const variant v = {"pocl:0", CLQ_LOSS_SPARSE_CATEGORICAL, false, 0, false, 0};
    clq_model *model = make_model();
    guest g = {.trainer = make_trainer(&v, model), .own = open_data(&v)};
    assert_ok(clq_fit(g.trainer, g.own, &(clq_fit_config){.steps = 3, .context = &g, .on_step = step_in_callback}));
    assert_int_equal(g.steps, 3);
    clq_batch batch = {
        .count = 1, .samples = samples, .sample_elements = INPUTS, .sample_dtype = CLQ_U8, .labels = labels};
    assert_ok(clq_step(g.trainer, &batch)); /* after the fit it is allowed */
    clq_dataset_destroy(g.own);
    clq_trainer_destroy(g.trainer);
    clq_model_destroy(model);
}

/* A fit may be asked for any number of steps. It makes steps until a callback stops it. */
static void any_number_of_steps(void **state) {
    (void)state;
    const uint64_t many[] = {UINT64_MAX, UINT64_MAX - 1, UINT64_MAX - 6, UINT64_MAX / 2 + 1};
    const variant v = {"pocl:0", CLQ_LOSS_SPARSE_CATEGORICAL, false, SAMPLES, false, 0};
    clq_model *model = make_model();
    clq_trainer *trainer = make_trainer(&v, model);
    clq_dataset *data = open_data(&v);
    for (size_t i = 0; i < CLQ_COUNT_OF(many); i++) {
        result r = {.stop_after = 17}; /* two epochs and part of a third */
        assert_fails(CLQ_ERROR_ABORTED, "enough",
                     clq_fit(trainer, data, &(clq_fit_config){.steps = many[i], .context = &r, .on_step = note}));
        assert_int_equal(r.steps, r.stop_after);
    }
    assert_fails(CLQ_ERROR_ARGUMENT, "both 0", clq_fit(trainer, data, &(clq_fit_config){.on_step = note}));
    clq_dataset_destroy(data);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

typedef struct validating {
    uint64_t calls, batch, batches;
} validating;

static clq_status stop_validation(void *context, const clq_progress *p) {
    validating *seen = context;
    if (p->validation_batches == 0) return CLQ_OK;
    seen->calls++;
    seen->batch = p->validation_batch;
    seen->batches = p->validation_batches;
    assert_int_equal(p->batch, p->batches);
    assert_int_equal(p->totals.samples, SAMPLES);
    return clq_fail(CLQ_ERROR_INTERRUPTED, "stopped in the validation");
}

/* Progress is told during the validation too, so that a callback can stop it. */
static void validation_can_be_stopped(void **state) {
    (void)state;
    const variant v = {"pocl:0", CLQ_LOSS_SPARSE_CATEGORICAL, false, SAMPLES, false, 0};
    clq_model *model = make_model();
    clq_trainer *trainer = make_trainer(&v, model);
    clq_dataset *data = open_data(&v), *large;
    const uint64_t batches = 1000000; /* so many that some are left when progress is first told */
    assert_ok(clq_dataset_open("synthetic:7/3/1000000", "train", &large));
    validating seen = {0};
    const clq_fit_config fit = {.epochs = 2, .validation = large, .context = &seen, .on_progress = stop_validation};
    assert_fails(CLQ_ERROR_INTERRUPTED, "stopped in the validation", clq_fit(trainer, data, &fit));
    assert_int_equal(seen.calls, 1);
    assert_int_equal(seen.batches, batches);
    assert_true(seen.batch > 0 && seen.batch < batches);
    clq_dataset_destroy(data);
    clq_dataset_destroy(large);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

static clq_status cut_larger(void *context, const clq_epoch_info *info) {
    (void)info;
    return clq_dataset_batch(context, BATCH + 1, false);
}

/* A callback may change the dataset's batch size. A batch for which replicas have no room is refused, whoever copies
 * its rows. */
static void larger_batches_are_refused(void **state) {
    (void)state;
    const variant variants[] = {
        {"pocl:0,pocl:1", CLQ_LOSS_SPARSE_CATEGORICAL, false, 0, false, 0},
        {"pocl:0,pocl:1", CLQ_LOSS_CATEGORICAL, false, 0, false, 0}, /* labels are converted */
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(variants); i++) {
        clq_model *model = make_model();
        clq_trainer *trainer = make_trainer(&variants[i], model);
        clq_dataset *data = open_data(&variants[i]);
        const clq_fit_config fit = {.epochs = 2, .context = data, .on_epoch = cut_larger};
        assert_int_equal(clq_trainer_takes_rows(trainer, data), i == 0);
        assert_fails(CLQ_ERROR_ARGUMENT, "a batch of 9 samples is larger than the global batch of 8",
                     clq_fit(trainer, data, &fit));
        assert_int_equal(trainer->step, SAMPLES / BATCH + 1); /* and the trainer is as it was */
        assert_ok(clq_dataset_batch(data, BATCH, false));
        assert_ok(clq_fit(trainer, data, &(clq_fit_config){.epochs = 1}));
        clq_dataset_destroy(data);
        clq_trainer_destroy(trainer);
        clq_model_destroy(model);
    }
}

static int start(void **state) {
    for (int i = 0; i < SAMPLES; i++) {
        labels[i] = i * 5 % CLASSES;
        for (int k = 0; k < INPUTS; k++) samples[i][k] = (uint8_t)(i * 37 + k * 11);
        for (int c = 0; c < CLASSES; c++) probabilities[i][c] = c == labels[i] ? 0.5f : 0.25f;
    }
    return open_system(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integer_labels),
        cmocka_unit_test(integer_labels_as_rows),
        cmocka_unit_test(probabilities_as_labels),
        cmocka_unit_test(stopped_in_the_middle),
        cmocka_unit_test(steps_are_timed),
        cmocka_unit_test(apart_is_apart),
        cmocka_unit_test(callbacks_may_evaluate),
        cmocka_unit_test(validation_may_be_the_training_set),
        cmocka_unit_test(callbacks_may_not_train),
        cmocka_unit_test(evaluation_leaves_the_dataset),
        cmocka_unit_test(any_number_of_steps),
        cmocka_unit_test(validation_can_be_stopped),
        cmocka_unit_test(larger_batches_are_refused),
    };
    return cmocka_run_group_tests(tests, start, close_system);
}
