/* Targets of any shape and sign: regression compared with a closed form, outputs of several rows, the conversion of
 * integer labels, and what is refused. */
#include "support/apart.h"
#include "support/check.h"
#include "support/system.h"
#include "train/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 10, IN = 3, OUT = 2, BATCH = 4, EPOCHS = 2, WEIGHTS = IN * OUT + OUT };

static const float inputs[N * IN] = {1, -2, 0.5f, 0,  1, 1,     2, 0, -1, 0.25f, -1, 3, -1, -1, 0,
                                     1, 1,  1,    -2, 2, 0.75f, 0, 0, 1,  1.5f,  -1, 0, 0,  2,  -2};
static const float outputs[N * OUT] = {-3, 1, 0.5f, 2, -1, -4, 5, 0, 0, 0, 1, 1, -2, 3, 0.25f, -1, 4, -5, 1, 2};

static const float sample_weights[N] = {1, 0, 2.5f, 0.5f, 3, 1, 0, 4, 1.5f, 2};

/* ---- mean squared error of a linear model, in double ---- */

typedef struct closed_form {
    double w[WEIGHTS]; /* kernel (IN, OUT), bias */
    bool weighted;     /* by sample_weights */
    double loss[EPOCHS], error[EPOCHS];
} closed_form;

static double predict(const closed_form *c, size_t n, size_t o) {
    double y = c->w[IN * OUT + o];
    for (size_t i = 0; i < IN; i++) y += (double)inputs[n * IN + i] * c->w[i * OUT + o];
    return y;
}

/* d/dw of the mean over a batch of the mean over the outputs of (y - t)^2. */
static void step(closed_form *c, size_t first, size_t count, double lr, size_t epoch) {
    double gradient[WEIGHTS] = {0};
    for (size_t n = first; n < first + count; n++)
        for (size_t o = 0; o < OUT; o++) {
            double error = predict(c, n, o) - (double)outputs[n * OUT + o];
            const double counts = c->weighted ? (double)sample_weights[n] : 1;
            for (size_t i = 0; i < IN; i++)
                gradient[i * OUT + o] += counts * 2 * error * (double)inputs[n * IN + i] / (double)(count * OUT);
            gradient[IN * OUT + o] += counts * 2 * error / (double)(count * OUT);
            c->loss[epoch] += counts * error * error / (N * OUT);
            c->error[epoch] += fabs(error) / (N * OUT);
        }
    for (size_t i = 0; i < WEIGHTS; i++) c->w[i] -= lr * gradient[i];
}

static clq_model *linear_model(void) {
    clq_model *model;
    assert_ok(clq_model_create("line", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(IN));
    assert_ok(clq_model_finish(model, clq_dense(model, x, &(clq_dense_config){.units = OUT})));
    return model;
}

static clq_status note_epoch(void *context, const clq_epoch_info *info) {
    closed_form *found = context;
    found->loss[info->epoch] = info->train.loss;
    found->error[info->epoch] = clq_metric_value(&info->train.metrics, "mae");
    assert_int_equal(info->train.metrics.count, 1);
    assert_true(isnan(clq_metric_value(&info->train.metrics, "accuracy")));
    return CLQ_OK;
}

static void check_regression(const char *spec, clq_dataset *data) {
    clq_devices devices;
    clq_trainer *trainer;
    clq_model *model = linear_model();
    closed_form want = {.weighted = clq_dataset_get_info(data)->weighted}, found = {.w = {0}};
    float kernel[IN * OUT], bias[OUT];
    clq_trainer_config config = apart_config();
    config.loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    config.metrics = "mae";
    config.sample_weights = want.weighted;
    config.global_batch = BATCH;
    config.sample_dtype = CLQ_F32;
    config.optimizer = clq_optimizer_default(CLQ_OPTIMIZER_SGD);
    assert_ok(clq_optimizer_set(&config.optimizer, "lr", 0.0625));
    assert_ok(clq_devices_select(sys, spec, &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    assert_ok(clq_trainer_get_variable(trainer, 0, kernel));
    for (size_t i = 0; i < IN * OUT; i++) want.w[i] = (double)kernel[i];
    assert_ok(clq_dataset_batch(data, BATCH, false));
    assert_ok(clq_fit(trainer, data, &(clq_fit_config){.epochs = EPOCHS, .context = &found, .on_epoch = note_epoch}));
    for (size_t epoch = 0; epoch < EPOCHS; epoch++) {
        for (size_t first = 0; first < N; first += BATCH)
            step(&want, first, CLQ_MIN((size_t)BATCH, N - first), 0.0625, epoch);
        assert_true(fabs(found.loss[epoch] - want.loss[epoch]) < 1e-5 * want.loss[epoch]);
        assert_true(fabs(found.error[epoch] - want.error[epoch]) < 1e-5 * want.error[epoch]);
    }
    assert_ok(clq_trainer_get_variable(trainer, 0, kernel));
    assert_ok(clq_trainer_get_variable(trainer, 1, bias));
    for (size_t i = 0; i < IN * OUT; i++) assert_true(fabs((double)kernel[i] - want.w[i]) < 1e-5);
    for (size_t i = 0; i < OUT; i++) assert_true(fabs((double)bias[i] - want.w[IN * OUT + i]) < 1e-5);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

static clq_dataset *from_npy(void) {
    char folder[] = "/tmp/clique-targets-XXXXXX", path[64];
    const size_t x_dims[] = {N, IN}, y_dims[] = {N, OUT};
    clq_array x, y;
    clq_dataset *data;
    assert_non_null(mkdtemp(folder));
    assert_ok(clq_array_create(CLQ_F32, 2, x_dims, &x));
    assert_ok(clq_array_create(CLQ_F32, 2, y_dims, &y));
    memcpy(x.data, inputs, sizeof inputs);
    memcpy(y.data, outputs, sizeof outputs);
    (void)snprintf(path, sizeof path, "%s/x_train.npy", folder);
    assert_ok(clq_npy_write(path, &x));
    (void)snprintf(path, sizeof path, "%s/y_train.npy", folder);
    assert_ok(clq_npy_write(path, &y));
    assert_ok(clq_dataset_open(folder, "train", &data));
    (void)unlink(path);
    (void)snprintf(path, sizeof path, "%s/x_train.npy", folder);
    (void)unlink(path);
    (void)rmdir(folder);
    clq_array_release(&x);
    clq_array_release(&y);
    return data;
}

static void regression_follows_the_closed_form(void **state) {
    (void)state;
    static const char *const specs[] = {"pocl:0", "pocl:0,pocl:1,pocl:2", "intel:0"};
    for (size_t i = 0; i < CLQ_COUNT_OF(specs); i++) {
#if !defined(__x86_64__)
        if (strncmp(specs[i], "intel", 5) == 0) continue;
#endif
        clq_dataset *data = from_npy();
        check_regression(specs[i], data);
        assert_ok(clq_dataset_set_weights(data, sample_weights));
        check_regression(specs[i], data);
        clq_dataset_destroy(data);
    }
}

/* ---- outputs of several rows ---- */

enum { ROWS = 2 };

/* A trainer of a model from (ROWS, IN) to (ROWS, OUT), with the weights below. */
static clq_trainer *open_rows(clq_loss loss, const char *metrics, clq_model **model) {
    static const float kernel[IN * OUT] = {0.5f, -1, 0.25f, 2, -0.75f, 1}, bias[OUT] = {0.125f, -0.5f};
    clq_devices devices;
    clq_trainer *trainer;
    assert_ok(clq_model_create("rows", model));
    clq_tensor x = clq_input(*model, CLQ_SHAPE(ROWS, IN));
    assert_ok(clq_model_finish(*model, clq_dense(*model, x, &(clq_dense_config){.units = OUT})));
    clq_trainer_config config = apart_config();
    config.loss = loss;
    config.metrics = metrics;
    config.global_batch = N / ROWS;
    config.sample_dtype = CLQ_F32;
    assert_ok(clq_devices_select(sys, "pocl:0,pocl:1", &devices));
    assert_ok(clq_trainer_create(*model, &devices, &config, &trainer));
    assert_ok(clq_trainer_set_variable(trainer, 0, kernel));
    assert_ok(clq_trainer_set_variable(trainer, 1, bias));
    return trainer;
}

static void evaluate_rows(clq_trainer *trainer, const void *labels, clq_dtype dtype, size_t elements,
                          double *y /* (N, OUT) */, clq_totals *totals) {
    clq_dataset *data;
    float predicted[N * OUT];
    assert_ok(
        clq_dataset_arrays(inputs, CLQ_F32, N / ROWS, 2, (const size_t[]){ROWS, IN}, labels, dtype, elements, &data));
    assert_ok(clq_evaluate(trainer, data, totals));
    assert_ok(clq_predict(trainer, data, predicted));
    for (size_t i = 0; i < N * OUT; i++) y[i] = (double)predicted[i];
    clq_dataset_destroy(data);
}

static void outputs_may_have_rows(void **state) {
    (void)state;
    static const int32_t classes[N] = {0, 1, 1, 0, 0, 1, 0, 1, 1, 1};
    clq_model *model;
    clq_totals totals;
    double y[N * OUT], loss = 0, right = 0, squares = 0;
    clq_loss sparse = clq_loss_default(CLQ_LOSS_SPARSE_CATEGORICAL);
    sparse.from_logits = true;
    clq_trainer *trainer = open_rows(sparse, "accuracy,sparse_categorical_crossentropy,perplexity", &model);
    evaluate_rows(trainer, classes, CLQ_I32, ROWS, y, &totals);
    for (size_t r = 0; r < N; r++) {
        loss += log(exp(y[r * OUT]) + exp(y[r * OUT + 1])) - y[r * OUT + (size_t)classes[r]];
        right += (y[r * OUT + 1] > y[r * OUT]) == classes[r];
    }
    assert_int_equal(totals.samples, N / ROWS);
    assert_true(fabs(totals.loss - loss / N) < 1e-6);
    assert_true(fabs(clq_metric_value(&totals.metrics, "accuracy") - right / N) < 1e-7);
    assert_true(fabs(clq_metric_value(&totals.metrics, "sparse_categorical_crossentropy") - loss / N) < 1e-6);
    assert_true(fabs(clq_metric_value(&totals.metrics, "perplexity") - exp(loss / N)) < 1e-6 * exp(loss / N));
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
    trainer = open_rows(clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR), "root_mean_squared_error", &model);
    evaluate_rows(trainer, outputs, CLQ_F32, ROWS * OUT, y, &totals);
    for (size_t i = 0; i < N * OUT; i++) squares += pow(y[i] - (double)outputs[i], 2) / (N * OUT);
    assert_true(fabs(totals.loss - squares) < 1e-5);
    assert_true(fabs(totals.metrics.values[0] - sqrt(squares)) < 1e-5);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

/* If the loss compares values, integer labels are taken as values. */
static void integers_become_values(void **state) {
    (void)state;
    clq_model *model;
    int32_t numbers[N * OUT];
    float floats[N * OUT];
    double y[N * OUT];
    clq_totals a, b;
    clq_trainer *trainer = open_rows(clq_loss_default(CLQ_LOSS_MEAN_ABSOLUTE_ERROR), NULL, &model);
    for (size_t i = 0; i < N * OUT; i++) floats[i] = (float)(numbers[i] = (int32_t)(3 * i % 11) - 5);
    evaluate_rows(trainer, numbers, CLQ_I32, ROWS * OUT, y, &a);
    evaluate_rows(trainer, floats, CLQ_F32, ROWS * OUT, y, &b);
    assert_true(a.loss == b.loss && a.loss > 0);
    assert_int_equal(a.metrics.count, 0);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

/* ---- sigmoid ---- */

/* If a model ends in sigmoid, the loss is computed from the logits. Metrics compare the model's output. */
static void sigmoid_is_left_out(void **state) {
    (void)state;
    static const float kernel[IN] = {40, -1.5f, 0.5f};
    static const int32_t labels[N] = {1, 0, 0, 1, 0, 1, 1, 0, 1, 0};
    clq_model *model;
    clq_devices devices;
    clq_trainer *trainer;
    clq_dataset *data;
    clq_totals totals;
    double loss = 0, right = 0, error = 0;
    assert_ok(clq_model_create("yes or no", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(IN));
    assert_ok(clq_model_finish(
        model, clq_dense(model, x, &(clq_dense_config){.units = 1, .activation = CLQ_ACTIVATION_SIGMOID})));
    clq_trainer_config config = apart_config();
    config.loss = clq_loss_default(CLQ_LOSS_BINARY);
    config.metrics = "accuracy,mae";
    config.sample_dtype = CLQ_F32;
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    assert_ok(clq_trainer_set_variable(trainer, 0, kernel));
    assert_ok(clq_dataset_arrays(inputs, CLQ_F32, N, 1, (const size_t[]){IN}, labels, CLQ_I32, 1, &data));
    assert_ok(clq_evaluate(trainer, data, &totals));
    for (size_t n = 0; n < N; n++) {
        double z = 0, t = labels[n];
        for (size_t i = 0; i < IN; i++) z += (double)inputs[n * IN + i] * (double)kernel[i];
        loss +=
            (t != 0 ? log1p(exp(-z)) : log1p(exp(z))) / N; /* up to 80; a clipped probability would give at most 16 */
        right += (z > 0) == (t != 0) ? 1.0 / N : 0;
        error += fabs(1 / (1 + exp(-z)) - t) / N;
    }
    assert_true(fabs(totals.loss - loss) < 1e-6 * loss);
    assert_true(fabs(clq_metric_value(&totals.metrics, "accuracy") - right) < 1e-6);
    assert_true(fabs(clq_metric_value(&totals.metrics, "mae") - error) < 1e-6);
    clq_dataset_destroy(data);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

/* ---- areas under curves ---- */

enum { JUDGED = 40 };

/* The chance that a sample with target 1 has a larger value than a sample with target 0. If no bin has samples of both
 * targets, it is the area under the ROC curve. */
static double chance_of_right_order(const float *x, const float *labels) {
    double right = 0, pairs = 0;
    for (size_t i = 0; i < JUDGED; i++)
        for (size_t k = 0; k < JUDGED; k++) {
            if (labels[i] == 0 || labels[k] != 0) continue;
            right += x[i] > x[k];
            pairs++;
        }
    return right / pairs;
}

/* With a weight of one and no bias, the model gives sigmoid(x). All values lie in bins of their own, with one replica
 * or two. */
static void areas_are_those_of_pairs(void **state) {
    (void)state;
    static const char *const where[] = {"pocl:0", "pocl:0,pocl:1"};
    static const float one[1] = {1};
    float x[JUDGED], labels[JUDGED];
    double pr[2];
    for (size_t i = 0; i < JUDGED; i++) {
        const double p = ((double)i + 0.5) / JUDGED; /* each value has its own bin */
        x[i] = (float)log(p / (1 - p));
        labels[i] = (i * 7 % 11 + i / 4) % 3 == 0 ? 0.0f : (float)(i % 5 != 0);
    }
    for (size_t w = 0; w < 2; w++) {
        clq_model *model;
        clq_devices devices;
        clq_trainer *trainer;
        clq_dataset *data;
        clq_totals totals;
        assert_ok(clq_model_create("judge", &model));
        clq_tensor in = clq_input(model, CLQ_SHAPE(1));
        const clq_dense_config dense = {.units = 1, .activation = CLQ_ACTIVATION_SIGMOID};
        assert_ok(clq_model_finish(model, clq_dense(model, in, &dense)));
        clq_trainer_config config = apart_config();
        config.loss = clq_loss_default(CLQ_LOSS_BINARY);
        config.metrics = "auc,accuracy,pr_auc:num_thresholds=50";
        config.sample_dtype = CLQ_F32;
        config.global_batch = 12;
        assert_ok(clq_devices_select(sys, where[w], &devices));
        assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
        assert_ok(clq_trainer_set_variable(trainer, 0, one));
        assert_ok(clq_dataset_arrays(x, CLQ_F32, JUDGED, 1, (const size_t[]){1}, labels, CLQ_F32, 1, &data));
        assert_ok(clq_dataset_batch(data, 12, false));
        assert_ok(clq_evaluate(trainer, data, &totals));
        const double area = clq_metric_value(&totals.metrics, "auc");
        assert_true(fabs(area - chance_of_right_order(x, labels)) < 1e-9);
        pr[w] = clq_metric_value(&totals.metrics, "pr_auc:num_thresholds=50");
        assert_true(pr[w] > 0 && pr[w] < 1 && pr[w] == pr[0]);
        clq_dataset_destroy(data);
        clq_trainer_destroy(trainer);
        clq_model_destroy(model);
    }
}

/* ---- what is refused ---- */

static void refuse_config(clq_loss loss, const char *metrics, clq_status status, const char *words) {
    clq_devices devices;
    clq_trainer *trainer = NULL;
    clq_model *model = linear_model();
    clq_trainer_config config = apart_config();
    config.loss = loss;
    config.metrics = metrics;
    config.sample_dtype = CLQ_F32;
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_fails(status, words, clq_trainer_create(model, &devices, &config, &trainer));
    assert_null(trainer);
    clq_model_destroy(model);
}

static void wrong_choices(void **state) {
    (void)state;
    clq_loss squares = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR), huber = clq_loss_default(CLQ_LOSS_HUBER),
             sparse = clq_loss_default(CLQ_LOSS_SPARSE_CATEGORICAL);
    refuse_config(squares, "nothing", CLQ_ERROR_ARGUMENT, "metric 'nothing' is unknown: expected accuracy");
    refuse_config(squares, "mae,mse,mae", CLQ_ERROR_ARGUMENT, "mae is given twice");
    refuse_config(squares, "mae,", CLQ_ERROR_ARGUMENT, "expected NAME,NAME");
    refuse_config(sparse, "accuracy,mae", CLQ_ERROR_ARGUMENT, "mae compares values");
    refuse_config(squares, "perplexity", CLQ_ERROR_ARGUMENT, "perplexity is of classes");
    refuse_config(sparse, "auc", CLQ_ERROR_ARGUMENT, "auc compares values");
    refuse_config(squares, "auc:num_thresholds=2.5", CLQ_ERROR_ARGUMENT, "num_thresholds=2.5");
    refuse_config(squares, "auc:num_thresholds=5.5", CLQ_ERROR_ARGUMENT,
                  "num_thresholds=5.5 is not a whole number from 3 to 1000");
    refuse_config(sparse, "perplexty", CLQ_ERROR_ARGUMENT, "'perplexity'");
    refuse_config(squares, "precison", CLQ_ERROR_ARGUMENT, "precision");
    refuse_config(squares, "precision:threshold=a", CLQ_ERROR_ARGUMENT, "threshold=a is not a number");
    refuse_config(squares, "precision:k=2", CLQ_ERROR_ARGUMENT, "unknown key 'k'");
    refuse_config(squares, "mae:k=2", CLQ_ERROR_ARGUMENT, "mae takes no keys");
    refuse_config(squares, "accuracy:k=2", CLQ_ERROR_ARGUMENT, "accuracy takes no keys");
    refuse_config(squares, "top_k_categorical_accuracy:k=2.5", CLQ_ERROR_ARGUMENT,
                  "k=2.5 is not a whole number from 1 to");
    refuse_config(squares, "top_k_categorical_accuracy:k=0", CLQ_ERROR_ARGUMENT, "k=0 is not a whole number from 1");
    huber.delta = 0;
    refuse_config(huber, NULL, CLQ_ERROR_ARGUMENT, "delta=0");
    refuse_config((clq_loss){.kind = (clq_loss_kind)99}, NULL, CLQ_ERROR_ARGUMENT, "loss 99");
}

/* A model whose output has `rows` rows of OUT values. */
static clq_model *model_of_rows(size_t rows) {
    clq_model *model;
    assert_ok(clq_model_create("rows", &model));
    clq_tensor x =
        clq_dense(model, clq_input(model, CLQ_SHAPE(IN)), &(clq_dense_config){.units = (unsigned)rows * OUT});
    assert_ok(clq_model_finish(model, clq_reshape(model, x, CLQ_SHAPE(rows, OUT), NULL)));
    return model;
}

/* rows 0: a model with one row. */
static void refuse_labels_of(size_t rows, clq_loss_kind kind, const void *labels, clq_dtype dtype, size_t elements,
                             const char *words) {
    clq_devices devices;
    clq_trainer *trainer;
    clq_dataset *data;
    clq_model *model = rows ? model_of_rows(rows) : linear_model();
    clq_trainer_config config = apart_config();
    clq_totals totals;
    config.loss = clq_loss_default(kind);
    config.sample_dtype = CLQ_F32;
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    assert_ok(clq_dataset_arrays(inputs, CLQ_F32, N, 1, (const size_t[]){IN}, labels, dtype, elements, &data));
    assert_fails(CLQ_ERROR_MISMATCH, words, clq_evaluate(trainer, data, &totals));
    assert_fails(CLQ_ERROR_MISMATCH, words, clq_fit(trainer, data, &(clq_fit_config){.epochs = 1}));
    clq_dataset_destroy(data);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

static void refuse_labels(clq_loss_kind kind, const void *labels, clq_dtype dtype, size_t elements, const char *words) {
    refuse_labels_of(0, kind, labels, dtype, elements, words);
}

/* If a label has several numbers, the error names the place of the first that is no class. */
static void wrong_labels_of_rows(void **state) {
    enum { EACH = 2 };
    static const int32_t negative[N * EACH] = {0, 1, 1, 0, 0, -4, -5}, large[N * EACH] = {0, 1, 0, 1, OUT, 9};
    (void)state;
    refuse_labels_of(EACH, CLQ_LOSS_SPARSE_CATEGORICAL, negative, CLQ_I32, EACH, "value 1 of label 2 is -4");
    refuse_labels_of(EACH, CLQ_LOSS_SPARSE_CATEGORICAL, large, CLQ_I32, EACH,
                     "value 0 of label 2 is 2 and model rows has 2 classes");
}

static void wrong_labels(void **state) {
    (void)state;
    static const int32_t negative[N * OUT] = {0, 1, 1, -4}, large[N * OUT] = {0, 2};
    refuse_labels(CLQ_LOSS_SPARSE_CATEGORICAL, negative, CLQ_I32, 1, "label 3 is -4");
    refuse_labels(CLQ_LOSS_CATEGORICAL, negative, CLQ_I32, 1, "label 3 is -4");
    refuse_labels(CLQ_LOSS_SPARSE_CATEGORICAL, large, CLQ_I32, 1, "label 1 is 2");
    refuse_labels(CLQ_LOSS_SPARSE_CATEGORICAL, outputs, CLQ_F32, 1, "categorical_crossentropy");
    refuse_labels(CLQ_LOSS_CATEGORICAL, outputs, CLQ_F32, OUT, "probabilities are not negative");
    refuse_labels(CLQ_LOSS_MEAN_SQUARED_ERROR, outputs, CLQ_F32, 1, "a label has 1 value");
    refuse_labels(CLQ_LOSS_MEAN_SQUARED_ERROR, large, CLQ_I32, 1, "a label has 1 value");
}

/* ---- weights ---- */

/* An evaluation's loss uses the weights of the samples alone: class weights are for training. */
static void evaluations_are_weighted(void **state) {
    (void)state;
    static const double by_class[] = {100, 100};
    static const int32_t labels[N] = {0, 1, 1, 0, 1, 0, 0, 1, 1, 0};
    clq_devices devices;
    clq_trainer *trainer;
    clq_dataset *data;
    clq_totals plain, weighted;
    clq_model *model = linear_model();
    clq_trainer_config config = apart_config();
    config.loss.from_logits = true;
    config.sample_dtype = CLQ_F32;
    config.sample_weights = true;
    config.class_weights = by_class;
    config.class_weight_count = 2;
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    assert_ok(clq_dataset_arrays(inputs, CLQ_F32, N, 1, (const size_t[]){IN}, labels, CLQ_I32, 1, &data));
    assert_ok(clq_dataset_batch(data, BATCH, false));
    assert_ok(clq_evaluate(trainer, data, &plain));
    double want = 0;
    for (size_t n = 0; n < N; n++) { /* one sample at a time, by the plain evaluation */
        clq_dataset *one;
        clq_totals own;
        assert_ok(
            clq_dataset_arrays(inputs + n * IN, CLQ_F32, 1, 1, (const size_t[]){IN}, labels + n, CLQ_I32, 1, &one));
        assert_ok(clq_evaluate(trainer, one, &own));
        want += own.loss * (double)sample_weights[n] / N;
        clq_dataset_destroy(one);
    }
    assert_ok(clq_dataset_set_weights(data, sample_weights));
    assert_ok(clq_evaluate(trainer, data, &weighted));
    assert_true(fabs(weighted.loss - want) < 1e-6 * want && fabs(plain.loss - want) > 1e-3);
    assert_true(clq_metric_value(&weighted.metrics, "accuracy") == clq_metric_value(&plain.metrics, "accuracy"));
    clq_dataset_destroy(data);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

static void wrong_weights(void **state) {
    (void)state;
    static const double negative[] = {1, -2}, by_two[] = {1, 2}, many[OUT + 1] = {1, 1, 1};
    static const float wrong[] = {1, NAN};
    clq_devices devices;
    clq_trainer *trainer = NULL;
    clq_dataset *data;
    clq_totals totals;
    clq_batch batch = {.count = 2,
                       .samples = inputs,
                       .sample_elements = IN,
                       .sample_dtype = CLQ_F32,
                       .labels = outputs,
                       .float_labels = true,
                       .label_elements = OUT,
                       .weights = wrong};
    clq_model *model = linear_model();
    clq_trainer_config config = apart_config();
    config.loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    config.sample_dtype = CLQ_F32;
    config.class_weights = negative;
    config.class_weight_count = 2;
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_fails(CLQ_ERROR_ARGUMENT, "the weight of class 1 is -2",
                 clq_trainer_create(model, &devices, &config, &trainer));
    config.class_weights = many;
    config.class_weight_count = OUT + 1;
    assert_fails(CLQ_ERROR_ARGUMENT, "a weight of class 2 is given and model",
                 clq_trainer_create(model, &devices, &config, &trainer));
    config.class_weights = NULL;
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    assert_fails(CLQ_ERROR_MISMATCH, "the batch has weights", clq_step(trainer, &batch));
    assert_ok(clq_dataset_arrays(inputs, CLQ_F32, N, 1, (const size_t[]){IN}, outputs, CLQ_F32, OUT, &data));
    assert_ok(clq_dataset_set_weights(data, sample_weights));
    assert_fails(CLQ_ERROR_MISMATCH, "set sample_weights", clq_evaluate(trainer, data, &totals));
    assert_fails(CLQ_ERROR_MISMATCH, "set sample_weights", clq_fit(trainer, data, &(clq_fit_config){.epochs = 1}));
    clq_dataset_destroy(data);
    clq_trainer_destroy(trainer);
    config.sample_weights = true;
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    assert_fails(CLQ_ERROR_MISMATCH, "the weight of sample 1 is nan", clq_step(trainer, &batch));
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
    model = NULL;
    trainer = NULL;
    assert_ok(clq_model_create("rows", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(ROWS, IN));
    assert_ok(clq_model_finish(model, x));
    config.class_weights = by_two;
    config.class_weight_count = 2;
    assert_fails(CLQ_ERROR_ARGUMENT, "class weights need one output",
                 clq_trainer_create(model, &devices, &config, &trainer));
    clq_model_destroy(model);
}

static void class_weights_as_text(void **state) {
    (void)state;
    static const char *const wrong[] = {"", "1", "1=", "=2", "a=2", "-1=2", "0=-1", "0=1,", "0=1;1=2", "0=nan"};
    double weights[4];
    size_t count;
    assert_ok(clq_class_weights_parse("3=0.5,1=2", NULL, &count));
    assert_int_equal(count, 4);
    assert_ok(clq_class_weights_parse("3=0.5,1=2", weights, &count));
    assert_int_equal(count, 4);
    assert_true(weights[0] == 1 && weights[1] == 2 && weights[2] == 1 && weights[3] == 0.5);
    assert_fails(CLQ_ERROR_ARGUMENT, "class 0 is given twice", clq_class_weights_parse("0=1,3=2,0=5", weights, &count));
    for (size_t i = 0; i < CLQ_COUNT_OF(wrong); i++)
        assert_fails(CLQ_ERROR_ARGUMENT, "expected CLASS=WEIGHT", clq_class_weights_parse(wrong[i], NULL, &count));
}

/* ---- structs of other versions ---- */

static void other_versions(void **state) {
    (void)state;
    struct {
        clq_trainer_config config;
        uint64_t more;
    } newer = {.config = clq_trainer_config_default()};
    clq_devices devices;
    clq_trainer *trainer = NULL;
    clq_model *model = linear_model();
    clq_step_info info;
    newer.config.loss = clq_loss_default(CLQ_LOSS_HUBER);
    newer.config.sample_dtype = CLQ_F32;
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    newer.more = 1;
    assert_fails(CLQ_ERROR_ARGUMENT, "newer header",
                 clq_trainer_create_sized(model, &devices, &newer.config, sizeof newer, &trainer));
    newer.more = 0;
    newer.config.metrics = "mae";
    assert_ok(
        clq_trainer_create_sized(model, &devices, &newer.config, offsetof(clq_trainer_config, metrics), &trainer));
    const clq_batch batch = {.count = N,
                             .samples = inputs,
                             .sample_elements = IN,
                             .sample_dtype = CLQ_F32,
                             .labels = outputs,
                             .float_labels = true,
                             .label_elements = OUT};
    assert_ok(clq_step(trainer, &batch));
    memset(&info, 0xFF, sizeof info);
    assert_ok(clq_step_read_sized(trainer, &info, offsetof(clq_step_info, metrics)));
    assert_true(info.step == 1 && info.samples == N &&
                info.metrics.count == UINT32_MAX); /* members after the given size stay untouched */
    assert_ok(clq_step_read(trainer, &info));
    assert_int_equal(info.metrics.count, 0); /* `metrics` lies after the end of the older struct */
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regression_follows_the_closed_form),
        cmocka_unit_test(outputs_may_have_rows),
        cmocka_unit_test(integers_become_values),
        cmocka_unit_test(sigmoid_is_left_out),
        cmocka_unit_test(areas_are_those_of_pairs),
        cmocka_unit_test(wrong_choices),
        cmocka_unit_test(wrong_labels),
        cmocka_unit_test(wrong_labels_of_rows),
        cmocka_unit_test(evaluations_are_weighted),
        cmocka_unit_test(wrong_weights),
        cmocka_unit_test(class_weights_as_text),
        cmocka_unit_test(other_versions),
    };
    return cmocka_run_group_tests(tests, open_system, close_system);
}
