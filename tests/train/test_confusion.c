/* Confusion matrices, compared with pairs counted here from a model that is computed in double. */
#include "support/apart.h"
#include "support/check.h"
#include "support/system.h"
#include "support/ways.h"
#include <clique/callbacks.h>
#include <clique/distribute.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

/* BATCH does not split evenly over 3 replicas, and neither does the last batch, of 5 samples. */
enum { SAMPLES = 29, SOME = 11, BATCH = 8, IN = 3, HIDDEN = 4, CLASSES = 4, MOST = 101 };

static float inputs[SAMPLES * IN];
static float weights_of_samples[SAMPLES];
static int32_t classes[SAMPLES];
static float one_hot[SAMPLES * CLASSES];
static float answers[SAMPLES]; /* 0 or 1 */

static int make_data(void **state) {
    for (size_t i = 0; i < CLQ_COUNT_OF(inputs); i++) inputs[i] = (float)sin(1.3 * (double)(i * i) + 0.4);
    for (size_t n = 0; n < SAMPLES; n++) {
        classes[n] = (int32_t)((n * n / 3 + n) % CLASSES);
        one_hot[n * CLASSES + (size_t)classes[n]] = 1;
        answers[n] = (float)(n * 7 % 5 < 2);
        weights_of_samples[n] = 0.5f * (float)(n % 4);
    }
    return open_system(state);
}

/* ---- a model in double ---- */

static double weight_of(size_t variable, size_t i) { return 1.5 * sin(1.7 * (double)i + 2.9 * (double)variable); }

static void set_weights(clq_trainer *trainer, const clq_model *model) {
    for (size_t v = 0; v < clq_model_variable_count(model); v++) {
        clq_variable_info info;
        float values[CLASSES * HIDDEN + MOST * IN];
        assert_ok(clq_model_variable(model, v, &info));
        assert_true(info.elements <= CLQ_COUNT_OF(values));
        for (size_t i = 0; i < info.elements; i++) values[i] = (float)weight_of(v, i);
        assert_ok(clq_trainer_set_variable(trainer, v, values));
    }
}

/* y (out) = x (in) * variable `kernel` + the next one */
static void dense(size_t kernel, size_t in, size_t out, const double *x, double *y) {
    for (size_t o = 0; o < out; o++) {
        y[o] = weight_of(kernel + 1, o);
        for (size_t i = 0; i < in; i++) y[o] += x[i] * weight_of(kernel, i * out + o);
    }
}

static size_t largest(size_t count, const double *x) {
    size_t best = 0;
    for (size_t i = 1; i < count; i++) best = x[i] > x[best] ? i : best;
    return best;
}

/* Counts pairs of classes over the first `samples` samples, for a model from IN numbers over HIDDEN to CLASSES. */
static void count_classes(size_t samples, uint64_t counts[CLASSES * CLASSES]) {
    memset(counts, 0, CLASSES * CLASSES * sizeof *counts);
    for (size_t n = 0; n < samples; n++) {
        double x[IN], hidden[HIDDEN], y[CLASSES];
        for (size_t i = 0; i < IN; i++) x[i] = (double)inputs[n * IN + i];
        dense(0, IN, HIDDEN, x, hidden);
        dense(2, HIDDEN, CLASSES, hidden, y);
        counts[(size_t)classes[n] * CLASSES + largest(CLASSES, y)]++;
    }
}

/* Counts pairs for a model from IN numbers to one number, whose sigmoid is the probability of a 1. */
static void count_answers(size_t kernel, double threshold, uint64_t counts[4]) {
    memset(counts, 0, 4 * sizeof *counts);
    for (size_t n = 0; n < SAMPLES; n++) {
        double x[IN], y;
        for (size_t i = 0; i < IN; i++) x[i] = (double)inputs[n * IN + i];
        dense(kernel, IN, 1, x, &y);
        counts[2 * (answers[n] != 0) + (1 / (1 + exp(-y)) > threshold)]++;
    }
}

/* If most pairs never occurred, a comparison of matrices would show little. */
static void check_spread(const uint64_t *counts, size_t count) {
    size_t some = 0;
    for (size_t i = 0; i < count; i++) some += counts[i] > 0;
    assert_true(2 * some > count);
}

/* ---- trainers ---- */

static clq_model *two_layers(size_t rows) {
    clq_model *model;
    assert_ok(clq_model_create("classes", &model));
    clq_tensor x = clq_input(model, rows > 1 ? CLQ_SHAPE(rows, IN) : CLQ_SHAPE(IN));
    x = clq_dense(model, x, &(clq_dense_config){.units = HIDDEN});
    const clq_dense_config last = {.units = CLASSES, .activation = CLQ_ACTIVATION_SOFTMAX};
    assert_ok(clq_model_finish(model, clq_dense(model, x, &last)));
    return model;
}

static clq_model *one_value(clq_activation activation) {
    clq_model *model;
    assert_ok(clq_model_create("answer", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(IN));
    assert_ok(clq_model_finish(model, clq_dense(model, x, &(clq_dense_config){.units = 1, .activation = activation})));
    return model;
}

static clq_trainer_config config_of(clq_loss_kind loss, const char *metrics) {
    clq_trainer_config config = apart_config();
    config.loss = clq_loss_default(loss);
    config.metrics = metrics;
    config.global_batch = BATCH;
    config.sample_dtype = CLQ_F32;
    config.optimizer = clq_optimizer_default(CLQ_OPTIMIZER_SGD);
    assert_ok(clq_optimizer_set(&config.optimizer, "lr", 0)); /* an epoch leaves the weights as they were set */
    return config;
}

static clq_trainer *open_trainer(const clq_model *model, const char *spec, const clq_trainer_config *config) {
    clq_devices devices;
    clq_trainer *trainer;
    assert_ok(clq_devices_select(sys, spec, &devices));
    assert_ok(clq_trainer_create(model, &devices, config, &trainer));
    set_weights(trainer, model);
    return trainer;
}

static clq_dataset *data_of(size_t rows, const void *labels, clq_dtype dtype, size_t elements) {
    clq_dataset *data;
    const size_t dims[] = {rows, IN};
    assert_ok(clq_dataset_arrays(inputs, CLQ_F32, SAMPLES / rows, rows > 1 ? 2 : 1, rows > 1 ? dims : dims + 1, labels,
                                 dtype, rows * elements, &data));
    assert_ok(clq_dataset_batch(data, BATCH, false));
    return data;
}

static void check_matrix(const clq_trainer *trainer, size_t index, clq_matrix_source source, const char *name,
                         size_t of, const uint64_t *want) {
    uint64_t counts[MOST * MOST];
    const char *called;
    size_t found;
    assert_ok(clq_trainer_matrix(trainer, index, &called, &found));
    assert_string_equal(called, name);
    assert_int_equal(found, of);
    assert_ok(clq_trainer_read_matrix(trainer, index, source, counts));
    for (size_t i = 0; i < of * of; i++)
        if (counts[i] != want[i])
            fail_msg("%s: class %zu as class %zu: %llu times, not %llu", name, i / of, i % of,
                     (unsigned long long)counts[i], (unsigned long long)want[i]);
}

/* ---- by every strategy, in evaluation, training and validation ---- */

static void check_way(const way *w, const clq_model *model, const uint64_t *want, const uint64_t *want_of_some) {
    const char name[] = "confusion_matrix";
    clq_trainer_config config = config_of(CLQ_LOSS_SPARSE_CATEGORICAL, "accuracy,confusion_matrix");
    clq_totals totals;
    uint64_t counts[CLASSES * CLASSES];
    double right = 0;
    way_configure(w, &config);
    clq_trainer *trainer = open_trainer(model, w->spec, &config);
    clq_dataset *data = data_of(1, classes, CLQ_I32, 1), *some = data_of(1, classes, CLQ_I32, 1);
    assert_ok(clq_dataset_take(some, SOME));
    assert_int_equal(clq_trainer_matrix_count(trainer), 1);
    assert_fails(CLQ_ERROR_STATE, "nothing was evaluated yet",
                 clq_trainer_read_matrix(trainer, 0, CLQ_MATRIX_OF_EVALUATION, counts));
    assert_ok(clq_evaluate(trainer, data, &totals));
    assert_int_equal(totals.metrics.count, 1); /* only the accuracy, which the diagonal gives */
    for (size_t c = 0; c < CLASSES; c++) right += (double)want[c * (CLASSES + 1)] / SAMPLES;
    assert_true(fabs(totals.metrics.values[0] - right) < 1e-7);
    check_matrix(trainer, 0, CLQ_MATRIX_OF_EVALUATION, name, CLASSES, want);
    assert_fails(CLQ_ERROR_STATE, "no epoch of clq_fit has ended",
                 clq_trainer_read_matrix(trainer, 0, CLQ_MATRIX_OF_TRAINING, counts));
    assert_ok(clq_fit(trainer, data, &(clq_fit_config){.epochs = 2, .validation = some}));
    check_matrix(trainer, 0, CLQ_MATRIX_OF_TRAINING, name, CLASSES, want);
    check_matrix(trainer, 0, CLQ_MATRIX_OF_EVALUATION, name, CLASSES, want_of_some);
    clq_dataset_destroy(some);
    clq_dataset_destroy(data);
    clq_trainer_destroy(trainer);
}

static void every_strategy_counts_alike(void **state) {
    (void)state;
    uint64_t want[CLASSES * CLASSES], some[CLASSES * CLASSES];
    clq_model *model = two_layers(1);
    count_classes(SAMPLES, want);
    count_classes(SOME, some);
    check_spread(want, CLASSES * CLASSES);
    check_way(&way_single, model, want, some);
    for (size_t i = 0; i < CLQ_COUNT_OF(ways); i++) check_way(&ways[i], model, want, some);
#if defined(__x86_64__)
    const way other = {.name = "intel", .spec = "intel:0"};
    check_way(&other, model, want, some);
#endif
    clq_model_destroy(model);
}

/* One of three replicas is a backup, so a step of 6 samples takes 4 samples, which stand for 6. Which replica is left
 * out depends on the threads' timing, so all samples are of one class, and the model takes all of them for another. */
static void backup_replicas_stand_for_others(void **state) {
    (void)state;
    enum { IS = 1, LIKE = 2 };
    static const float biases[CLASSES] = {[LIKE] = 1000};
    static int32_t same[SAMPLES];
    uint64_t want[CLASSES * CLASSES] = {[IS * CLASSES + LIKE] = SAMPLES};
    clq_model *model = two_layers(1);
    clq_trainer_config config = config_of(CLQ_LOSS_SPARSE_CATEGORICAL, "confusion_matrix");
    config.global_batch = 6;
    config.strategy = CLQ_STRATEGY_PS;
    config.strategy_options.staleness = 0;
    config.strategy_options.backup = 1;
    clq_trainer *trainer = open_trainer(model, "pocl:0,pocl:1,pocl:2", &config);
    assert_ok(clq_trainer_set_variable(trainer, 3, biases));
    for (size_t i = 0; i < SAMPLES; i++) same[i] = IS;
    clq_dataset *data = data_of(1, same, CLQ_I32, 1);
    assert_ok(clq_dataset_batch(data, 6, false));
    assert_ok(clq_fit(trainer, data, &(clq_fit_config){.epochs = 1}));
    check_matrix(trainer, 0, CLQ_MATRIX_OF_TRAINING, "confusion_matrix", CLASSES, want);
    clq_dataset_destroy(data);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

/* ---- other targets and outputs ---- */

/* One-hot rows take the place of class numbers. Sample weights change no count. */
static void targets_may_be_rows(void **state) {
    (void)state;
    uint64_t want[CLASSES * CLASSES];
    clq_totals totals;
    clq_model *model = two_layers(1);
    clq_trainer_config config = config_of(CLQ_LOSS_CATEGORICAL, "confusion_matrix");
    config.sample_weights = true;
    clq_trainer *trainer = open_trainer(model, "pocl:0,pocl:1", &config);
    clq_dataset *data = data_of(1, one_hot, CLQ_F32, CLASSES);
    assert_ok(clq_dataset_set_weights(data, weights_of_samples));
    assert_ok(clq_evaluate(trainer, data, &totals));
    count_classes(SAMPLES, want);
    check_matrix(trainer, 0, CLQ_MATRIX_OF_EVALUATION, "confusion_matrix", CLASSES, want);
    clq_dataset_destroy(data);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

/* Each row of a sample's output counts. */
static void outputs_may_have_rows(void **state) {
    (void)state;
    enum { ROWS = 4 };
    uint64_t want[CLASSES * CLASSES];
    clq_totals totals;
    clq_model *model = two_layers(ROWS);
    clq_trainer_config config = config_of(CLQ_LOSS_SPARSE_CATEGORICAL, "confusion_matrix");
    clq_trainer *trainer = open_trainer(model, "pocl:0,pocl:1,pocl:2", &config);
    clq_dataset *data = data_of(ROWS, classes, CLQ_I32, 1);
    assert_ok(clq_evaluate(trainer, data, &totals));
    assert_int_equal(totals.samples, SAMPLES / ROWS);
    count_classes(SAMPLES / ROWS * ROWS, want);
    check_matrix(trainer, 0, CLQ_MATRIX_OF_EVALUATION, "confusion_matrix", CLASSES, want);
    clq_dataset_destroy(data);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

/* A model with one value has two classes, split by a threshold of the probability, which the model gives as such or as
 * its logit. */
static void one_value_is_binary(void **state) {
    (void)state;
    static const char threshold[] = "binary_confusion_matrix:threshold=0.75";
    char metrics[64];
    uint64_t half[4], more[4];
    count_answers(0, 0.5, half);
    count_answers(0, 0.75, more);
    check_spread(half, 4);
    assert_memory_not_equal(half, more, sizeof half);
    (void)snprintf(metrics, sizeof metrics, "%s,confusion_matrix", threshold);
    for (int logits = 0; logits < 2; logits++) {
        clq_totals totals;
        clq_model *model = one_value(logits ? CLQ_ACTIVATION_LINEAR : CLQ_ACTIVATION_SIGMOID);
        clq_trainer_config config = config_of(CLQ_LOSS_BINARY, metrics);
        config.loss.from_logits = logits;
        clq_trainer *trainer = open_trainer(model, "pocl:0,pocl:1", &config);
        clq_dataset *data = data_of(1, answers, CLQ_F32, 1);
        assert_ok(clq_evaluate(trainer, data, &totals));
        assert_int_equal(totals.metrics.count, 0);
        check_matrix(trainer, 0, CLQ_MATRIX_OF_EVALUATION, threshold, 2, more);
        check_matrix(trainer, 1, CLQ_MATRIX_OF_EVALUATION, "confusion_matrix", 2, half);
        clq_dataset_destroy(data);
        clq_trainer_destroy(trainer);
        clq_model_destroy(model);
    }
}

static void each_output_has_its_own(void **state) {
    (void)state;
    uint64_t want[CLASSES * CLASSES], of_answers[4];
    clq_totals totals;
    clq_model *model;
    assert_ok(clq_model_create("both", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(IN));
    clq_tensor hidden = clq_dense(model, x, &(clq_dense_config){.units = HIDDEN});
    const clq_dense_config kind = {.units = CLASSES, .activation = CLQ_ACTIVATION_SOFTMAX, .name = "kind"},
                           answer = {.units = 1, .activation = CLQ_ACTIVATION_SIGMOID, .name = "answer"};
    clq_tensor last = clq_dense(model, hidden, &kind);
    assert_ok(clq_model_finish_outputs(model, CLQ_TENSORS(last, clq_dense(model, x, &answer))));
    clq_output_config outputs[] = {clq_output_config_default("kind"), clq_output_config_default("answer")};
    outputs[0].metrics = "confusion_matrix,accuracy";
    outputs[1].metrics = "auc,confusion_matrix";
    outputs[1].loss = clq_loss_default(CLQ_LOSS_BINARY);
    clq_trainer_config config = config_of(CLQ_LOSS_SPARSE_CATEGORICAL, NULL);
    config.outputs = outputs;
    config.output_count = 2;
    clq_trainer *trainer = open_trainer(model, "pocl:0,pocl:1", &config);
    clq_dataset *data = data_of(1, classes, CLQ_I32, 1);
    assert_ok(clq_dataset_add_labels(data, answers, CLQ_F32, 1));
    assert_ok(clq_evaluate(trainer, data, &totals));
    static const char *const names[] = {"kind_loss", "kind_accuracy", "answer_loss", "answer_auc"};
    assert_int_equal(totals.metrics.count, CLQ_COUNT_OF(names));
    for (size_t i = 0; i < CLQ_COUNT_OF(names); i++) assert_string_equal(totals.metrics.names[i], names[i]);
    count_classes(SAMPLES, want);
    count_answers(4, 0.5, of_answers);
    assert_int_equal(clq_trainer_matrix_count(trainer), 2);
    check_matrix(trainer, 0, CLQ_MATRIX_OF_EVALUATION, "kind_confusion_matrix", CLASSES, want);
    check_matrix(trainer, 1, CLQ_MATRIX_OF_EVALUATION, "answer_confusion_matrix", 2, of_answers);
    clq_dataset_destroy(data);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

/* ---- in the caller's own loops ---- */

static clq_status evaluate_part(clq_replica_context *replica, void *context) {
    CLQ_TRY(clq_replica_evaluate(replica));
    return clq_metric_sums_add(context, replica);
}

static void loops_read_matrices(void **state) {
    (void)state;
    uint64_t want[CLASSES * CLASSES], counts[CLASSES * CLASSES];
    clq_model *model = two_layers(1);
    clq_trainer_config config = config_of(CLQ_LOSS_SPARSE_CATEGORICAL, "accuracy,confusion_matrix");
    clq_trainer *trainer = open_trainer(model, "pocl:0,pocl:1", &config);
    clq_dataset *data = data_of(1, classes, CLQ_I32, 1);
    clq_metric_sums *sums;
    clq_distributed_dataset *parts;
    clq_distributed_batch batch;
    assert_ok(clq_metric_sums_create(trainer, &sums));
    assert_ok(clq_distribute_dataset(trainer, data, &parts));
    for (bool more = true; more;) {
        assert_ok(clq_distributed_next(parts, &batch, &more));
        if (more) assert_ok(clq_run_evaluation(trainer, &batch, evaluate_part, sums));
    }
    count_classes(SAMPLES, want);
    assert_ok(clq_metric_sums_read_matrix(sums, 0, counts));
    assert_memory_equal(counts, want, sizeof want);
    assert_fails(CLQ_ERROR_ARGUMENT, "matrix 1 is out of range", clq_metric_sums_read_matrix(sums, 1, counts));
    clq_distributed_destroy(parts);
    clq_metric_sums_destroy(sums);
    clq_dataset_destroy(data);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

/* ---- what is refused ---- */

static clq_model *many_classes(size_t count) {
    clq_model *model;
    assert_ok(clq_model_create("many", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(IN));
    const clq_dense_config last = {.units = count, .activation = CLQ_ACTIVATION_SOFTMAX};
    assert_ok(clq_model_finish(model, clq_dense(model, x, &last)));
    return model;
}

static void the_most_classes(void **state) {
    (void)state;
    uint64_t counts[MOST * MOST], sum = 0;
    clq_totals totals;
    clq_devices devices;
    clq_trainer_config config = config_of(CLQ_LOSS_SPARSE_CATEGORICAL, "accuracy,confusion_matrix");
    clq_model *model = many_classes(MOST + 1);
    clq_trainer *trainer = NULL;
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_fails(CLQ_ERROR_ARGUMENT, "a confusion matrix has room for 101 classes",
                 clq_trainer_create(model, &devices, &config, &trainer));
    assert_null(trainer);
    clq_model_destroy(model);
    model = many_classes(MOST);
    trainer = open_trainer(model, "pocl:0", &config);
    clq_dataset *data = data_of(1, classes, CLQ_I32, 1);
    assert_ok(clq_evaluate(trainer, data, &totals));
    assert_ok(clq_trainer_read_matrix(trainer, 0, CLQ_MATRIX_OF_EVALUATION, counts));
    for (size_t i = 0; i < MOST * MOST; i++) sum += counts[i];
    assert_int_equal(sum, SAMPLES);
    clq_dataset_destroy(data);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

static void wrong_calls(void **state) {
    (void)state;
    uint64_t counts[CLASSES * CLASSES];
    const char *name;
    size_t of;
    clq_devices devices;
    clq_callback stopping;
    clq_trainer *trainer = NULL;
    clq_model *model = two_layers(1);
    clq_trainer_config config = config_of(CLQ_LOSS_SPARSE_CATEGORICAL, "confusion_matrix,confusion_matrix");
    clq_early_stopping watch = {.patience = 1};
    clq_dataset *data = data_of(1, classes, CLQ_I32, 1);
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_fails(CLQ_ERROR_ARGUMENT, "confusion_matrix is given twice",
                 clq_trainer_create(model, &devices, &config, &trainer));
    config.metrics = "binary_confusion_matrix";
    assert_fails(CLQ_ERROR_ARGUMENT, "compares values", clq_trainer_create(model, &devices, &config, &trainer));
    config.metrics = "confusion_matrix:threshold=0.3";
    assert_fails(CLQ_ERROR_ARGUMENT, "takes no keys", clq_trainer_create(model, &devices, &config, &trainer));
    assert_null(trainer);
    config.metrics = "confusion_matrix";
    trainer = open_trainer(model, "pocl:0", &config);
    assert_fails(CLQ_ERROR_ARGUMENT, "matrix 1 is out of range: the metrics have 1",
                 clq_trainer_matrix(trainer, 1, &name, &of));
    assert_fails(CLQ_ERROR_ARGUMENT, "matrix 1 is out of range",
                 clq_trainer_read_matrix(trainer, 1, CLQ_MATRIX_OF_TRAINING, counts));
    assert_fails(CLQ_ERROR_ARGUMENT, "source 2", clq_trainer_read_matrix(trainer, 0, (clq_matrix_source)2, counts));
    memcpy(watch.monitor.name, "val_confusion_matrix", sizeof "val_confusion_matrix");
    assert_ok(clq_callback_early_stopping(&watch, &stopping));
    const clq_fit_config fit = {.epochs = 1, .validation = data, .callbacks = &stopping, .callback_count = 1};
    assert_fails(CLQ_ERROR_ARGUMENT, "which is a matrix: watch a single number, such as 'val_loss'",
                 clq_fit(trainer, data, &fit));
    clq_callback_destroy(&stopping);
    clq_dataset_destroy(data);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_strategy_counts_alike),
        cmocka_unit_test(backup_replicas_stand_for_others),
        cmocka_unit_test(targets_may_be_rows),
        cmocka_unit_test(outputs_may_have_rows),
        cmocka_unit_test(one_value_is_binary),
        cmocka_unit_test(each_output_has_its_own),
        cmocka_unit_test(loops_read_matrices),
        cmocka_unit_test(the_most_classes),
        cmocka_unit_test(wrong_calls),
    };
    return cmocka_run_group_tests(tests, make_data, close_system);
}
