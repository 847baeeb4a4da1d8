/* Models of several outputs: a model of two linear outputs compared with a closed form, labels and predictions of each
 * kind, the names of losses and metrics, and what is refused. */
#include "support/apart.h"
#include "support/check.h"
#include "support/disguise.h"
#include "support/system.h"
#include "train/train.h"

#include <math.h>
#include <unistd.h>

enum { N = 10, IN = 3, OUT = 2, BATCH = 4, EPOCHS = 2, CLASSES = 3 };

static const float inputs[N * IN] = {1, -2, 0.5f, 0,  1, 1,     2, 0, -1, 0.25f, -1, 3, -1, -1, 0,
                                     1, 1,  1,    -2, 2, 0.75f, 0, 0, 1,  1.5f,  -1, 0, 0,  2,  -2};
static const float places[N * OUT] = {-3, 1, 0.5f, 2, -1, -4, 5, 0, 0, 0, 1, 1, -2, 3, 0.25f, -1, 4, -5, 1, 2};
static const float sizes[N] = {1, 0, -2, 3, 0.5f, -1, 2, 4, -3, 1};
static const int32_t kinds[N] = {0, 2, 1, 1, 0, 2, 2, 0, 1, 0};
static const float lr = 0.0625f;
static const double weights[2] = {0.5, 2}; /* weights of the two losses */

/* ---- the model: place = x a + p, size = place b + q, so a layer reads an output ---- */

typedef struct closed_form {
    double a[IN * OUT], p[OUT], b[OUT], q;
    double losses[EPOCHS][2], error[EPOCHS]; /* mean squared errors of both outputs; mean absolute error of sizes */
} closed_form;

typedef struct gradients {
    double a[IN * OUT], p[OUT], b[OUT], q;
} gradients;

static void add_sample(closed_form *c, size_t n, size_t count, gradients *g, size_t epoch) {
    double place[OUT], size = c->q, d_place[OUT];
    for (size_t o = 0; o < OUT; o++) {
        place[o] = c->p[o];
        for (size_t i = 0; i < IN; i++) place[o] += (double)inputs[n * IN + i] * c->a[i * OUT + o];
        size += place[o] * c->b[o];
    }
    const double miss = size - (double)sizes[n], d_size = weights[1] * 2 * miss / (double)count;
    c->losses[epoch][1] += miss * miss / N;
    c->error[epoch] += fabs(miss) / N;
    g->q += d_size;
    for (size_t o = 0; o < OUT; o++) {
        const double error = place[o] - (double)places[n * OUT + o];
        c->losses[epoch][0] += error * error / (N * OUT);
        d_place[o] = weights[0] * 2 * error / (double)(count * OUT) + d_size * c->b[o];
        g->b[o] += d_size * place[o];
        g->p[o] += d_place[o];
        for (size_t i = 0; i < IN; i++) g->a[i * OUT + o] += d_place[o] * (double)inputs[n * IN + i];
    }
}

static void step(closed_form *c, size_t first, size_t count, size_t epoch) {
    gradients g = {.q = 0};
    for (size_t n = first; n < first + count; n++) add_sample(c, n, count, &g, epoch);
    for (size_t i = 0; i < IN * OUT; i++) c->a[i] -= (double)lr * g.a[i];
    for (size_t o = 0; o < OUT; o++) {
        c->p[o] -= (double)lr * g.p[o];
        c->b[o] -= (double)lr * g.b[o];
    }
    c->q -= (double)lr * g.q;
}

static clq_model *two_lines(void) {
    clq_model *model;
    assert_ok(clq_model_create("lines", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(IN));
    clq_tensor place = clq_dense(model, x, &(clq_dense_config){.units = OUT, .name = "place"});
    clq_tensor size = clq_dense(model, place, &(clq_dense_config){.units = 1, .name = "size"});
    assert_ok(clq_model_finish_outputs(model, CLQ_TENSORS(place, size)));
    return model;
}

static clq_dataset *samples_and_places(void) {
    clq_dataset *data;
    assert_ok(clq_dataset_arrays(inputs, CLQ_F32, N, 1, (const size_t[]){IN}, places, CLQ_F32, OUT, &data));
    return data;
}
static clq_dataset *both(void) {
    clq_dataset *data = samples_and_places();
    assert_ok(clq_dataset_add_labels(data, sizes, CLQ_F32, 1));
    assert_ok(clq_dataset_batch(data, BATCH, false));
    return data;
}

/* `outputs` has room for two, and the caller keeps it until the trainer is made. Names the outputs in reverse order. */
static clq_trainer_config config_of(clq_output_config *outputs) {
    outputs[1] = clq_output_config_default("place");
    outputs[0] = clq_output_config_default("size");
    for (size_t i = 0; i < 2; i++) outputs[i].loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    outputs[0].metrics = "mae";
    outputs[1].weight = weights[0];
    outputs[0].weight = weights[1];
    clq_trainer_config config = apart_config();
    config.global_batch = BATCH;
    config.sample_dtype = CLQ_F32;
    config.optimizer = clq_optimizer_default(CLQ_OPTIMIZER_SGD);
    assert_ok(clq_optimizer_set(&config.optimizer, "lr", (double)lr));
    config.outputs = outputs;
    config.output_count = 2;
    return config;
}

static clq_trainer *trainer_of(const clq_model *model, const char *spec, const clq_trainer_config *config) {
    clq_devices devices;
    clq_trainer *trainer;
    assert_ok(clq_devices_select(sys, spec, &devices));
    assert_ok(clq_trainer_create(model, &devices, config, &trainer));
    return trainer;
}

static void get(clq_trainer *trainer, size_t index, double *to, size_t count) {
    float values[IN * OUT];
    assert_ok(clq_trainer_get_variable(trainer, index, values));
    for (size_t i = 0; i < count; i++) to[i] = (double)values[i];
}
static void get_all(clq_trainer *trainer, closed_form *c) {
    get(trainer, 0, c->a, IN * OUT);
    get(trainer, 1, c->p, OUT);
    get(trainer, 2, c->b, OUT);
    get(trainer, 3, &c->q, 1);
}

typedef struct told {
    clq_totals of[EPOCHS];
} told;
static clq_status note_epoch(void *context, const clq_epoch_info *info) {
    ((told *)context)->of[info->epoch] = info->train;
    return CLQ_OK;
}

static void near(const char *spec, const char *what, double got, double want) {
    if (!(fabs(got - want) <= 2e-5 * fmax(1, fabs(want)))) fail_msg("%s: %s is %.9g, not %.9g", spec, what, got, want);
}

static void check_totals(const char *spec, const clq_totals *totals, const closed_form *want, size_t epoch) {
    static const char *const names[] = {"place_loss", "size_loss", "size_mae"};
    const double *losses = want->losses[epoch];
    near(spec, "the loss", totals->loss, weights[0] * losses[0] + weights[1] * losses[1]);
    assert_int_equal(totals->metrics.count, 3);
    for (size_t i = 0; i < 3; i++) assert_string_equal(totals->metrics.names[i], names[i]);
    near(spec, names[0], totals->metrics.values[0], losses[0]);
    near(spec, names[1], totals->metrics.values[1], losses[1]);
    near(spec, names[2], totals->metrics.values[2], want->error[epoch]);
}

static void check_weights(const char *spec, clq_trainer *trainer, const closed_form *want) {
    closed_form got;
    get_all(trainer, &got);
    for (size_t i = 0; i < IN * OUT; i++) near(spec, "a", got.a[i], want->a[i]);
    for (size_t o = 0; o < OUT; o++) near(spec, "p", got.p[o], want->p[o]);
    for (size_t o = 0; o < OUT; o++) near(spec, "b", got.b[o], want->b[o]);
    near(spec, "q", got.q, want->q);
}

static void check_predictions(const char *spec, clq_trainer *trainer, clq_dataset *data, const closed_form *c) {
    float place[N * OUT], size[N], again[N];
    float *const all[] = {place, size}, *const last[] = {NULL, again};
    assert_ok(clq_predict_outputs(trainer, data, all));
    assert_ok(clq_predict_outputs(trainer, data, last));
    assert_memory_equal(size, again, sizeof size);
    for (size_t n = 0; n < N; n++) {
        double wanted = c->q;
        for (size_t o = 0; o < OUT; o++) {
            double y = c->p[o];
            for (size_t i = 0; i < IN; i++) y += (double)inputs[n * IN + i] * c->a[i * OUT + o];
            near(spec, "a place", (double)place[n * OUT + o], y);
            wanted += y * c->b[o];
        }
        near(spec, "a size", (double)size[n], wanted);
    }
}

static void check_lines(const char *spec) {
    clq_output_config outputs[2];
    const clq_trainer_config config = config_of(outputs);
    clq_model *model = two_lines();
    clq_dataset *data = both(), *unlabelled = samples_and_places();
    clq_trainer *trainer = trainer_of(model, spec, &config);
    closed_form want = {.q = 0}, trained;
    told found;
    clq_totals totals;
    get_all(trainer, &want);
    assert_ok(clq_fit(trainer, data, &(clq_fit_config){.epochs = EPOCHS, .context = &found, .on_epoch = note_epoch}));
    for (size_t epoch = 0; epoch < EPOCHS; epoch++) {
        for (size_t first = 0; first < N; first += BATCH) step(&want, first, CLQ_MIN((size_t)BATCH, N - first), epoch);
        check_totals(spec, &found.of[epoch], &want, epoch);
    }
    check_weights(spec, trainer, &want);
    assert_ok(clq_dataset_batch(unlabelled, BATCH, false));
    check_predictions(spec, trainer, unlabelled, &want); /* this set has labels for one output only */
    trained = want;
    memset(trained.losses, 0, sizeof trained.losses);
    memset(trained.error, 0, sizeof trained.error);
    gradients nobodys = {.q = 0};
    for (size_t n = 0; n < N; n++) add_sample(&trained, n, N, &nobodys, 0);
    assert_ok(clq_evaluate(trainer, data, &totals));
    check_totals(spec, &totals, &trained, 0);
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_dataset_destroy(unlabelled);
    clq_model_destroy(model);
}

static void two_lines_follow_the_closed_form(void **state) {
    (void)state;
    check_lines("pocl:0");
    check_lines("pocl:0,pocl:1,pocl:2");
#if defined(__x86_64__)
    check_lines("intel:0");
    check_lines("pocl:0,intel");
#endif
}

/* ---- labels of each kind ---- */

static clq_model *two_kinds(void) {
    clq_model *model;
    assert_ok(clq_model_create("kinds", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(IN));
    const clq_dense_config one = {.units = CLASSES, .activation = CLQ_ACTIVATION_SOFTMAX, .name = "one"},
                           two = {.units = CLASSES, .activation = CLQ_ACTIVATION_SOFTMAX, .name = "two"};
    clq_tensor first = clq_dense(model, x, &one), second = clq_dense(model, x, &two);
    assert_ok(clq_model_finish_outputs(model, CLQ_TENSORS(first, second)));
    return model;
}

/* Makes three steps on the same rows. Their classes differ between the two outputs. soft: labels are rows of floats. */
static void train_kinds(bool soft, float kernel[2][IN * CLASSES], clq_step_info *info) {
    static const char *const names[] = {"one_loss", "one_accuracy", "two_loss", "two_accuracy"};
    float rows[2][BATCH * CLASSES] = {{0}};
    clq_labels labels[2];
    for (size_t i = 0; i < 2; i++) {
        for (size_t n = 0; n < BATCH; n++) rows[i][n * CLASSES + (size_t)kinds[i + n]] = 1;
        labels[i] = soft ? (clq_labels){.values = rows[i], .is_float = true, .elements = CLASSES}
                         : (clq_labels){.values = kinds + i};
    }
    const clq_batch batch = {.count = BATCH,
                             .samples = inputs,
                             .sample_elements = IN,
                             .sample_dtype = CLQ_F32,
                             .labels = labels[0].values,
                             .float_labels = soft,
                             .label_elements = labels[0].elements,
                             .more_labels = &labels[1],
                             .more_count = 1};
    clq_output_config outputs[] = {clq_output_config_default("one"), clq_output_config_default("two")};
    clq_trainer_config config = apart_config();
    for (size_t i = 0; i < 2; i++) outputs[i].loss = clq_loss_default(CLQ_LOSS_CATEGORICAL);
    config.sample_dtype = CLQ_F32;
    config.global_batch = BATCH;
    config.outputs = outputs;
    config.output_count = 2;
    config.measure_gradient = true;
    clq_model *model = two_kinds();
    clq_trainer *trainer = trainer_of(model, "pocl:0,pocl:1", &config);
    for (int i = 0; i < 3; i++) assert_ok(clq_step(trainer, &batch));
    assert_ok(clq_step_read(trainer, info));
    assert_int_equal(info->metrics.count, 4);
    for (size_t i = 0; i < 4; i++) assert_string_equal(info->metrics.names[i], names[i]);
    for (size_t i = 0; i < 2; i++) assert_ok(clq_trainer_get_variable(trainer, 2 * i, kernel[i]));
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

static void class_numbers_of_any_output_are_converted(void **state) {
    (void)state;
    float numbers[2][IN * CLASSES], rows[2][IN * CLASSES];
    clq_step_info by_number, by_row;
    train_kinds(false, numbers, &by_number);
    train_kinds(true, rows, &by_row);
    assert_memory_equal(numbers, rows, sizeof rows);
    assert_true(by_number.loss == by_row.loss && by_number.grad_norm == by_row.grad_norm);
    /* the outputs have other kernels and other targets */
    assert_true(by_number.metrics.values[0] != by_number.metrics.values[2]);
}

/* Both outputs end in softmax. The cross-entropy of one is computed from the logits of its own softmax. The squared
 * error of the other compares probabilities. Both must agree with the predictions. */
static void check_own_losses(size_t squared) {
    static const char *const names[] = {"one", "two"};
    float rows[N * CLASSES] = {0}, predicted[2][N * CLASSES];
    float *const out[] = {predicted[0], predicted[1]};
    for (size_t n = 0; n < N; n++) rows[n * CLASSES + (size_t)kinds[n]] = 1;
    const void *const labels[] = {squared == 0 ? (const void *)rows : kinds, squared == 1 ? (const void *)rows : kinds};
    const clq_dtype types[] = {squared == 0 ? CLQ_F32 : CLQ_I32, squared == 1 ? CLQ_F32 : CLQ_I32};
    const size_t elements[] = {squared == 0 ? CLASSES : 1, squared == 1 ? CLASSES : 1};
    clq_output_config outputs[] = {clq_output_config_default("one"), clq_output_config_default("two")};
    clq_trainer_config config = config_of((clq_output_config[2]){{0}});
    clq_dataset *data;
    clq_totals totals;
    outputs[squared].loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    config.outputs = outputs;
    assert_ok(clq_dataset_arrays(inputs, CLQ_F32, N, 1, (const size_t[]){IN}, labels[0], types[0], elements[0], &data));
    assert_ok(clq_dataset_add_labels(data, labels[1], types[1], elements[1]));
    assert_ok(clq_dataset_batch(data, BATCH, false));
    clq_model *model = two_kinds();
    clq_trainer *trainer = trainer_of(model, "pocl:0", &config);
    assert_ok(clq_predict_outputs(trainer, data, out));
    assert_ok(clq_evaluate(trainer, data, &totals));
    for (size_t i = 0; i < 2; i++) {
        double wanted = 0;
        for (size_t k = 0; k < N * CLASSES; k++) {
            const double p = (double)predicted[i][k], target = (double)rows[k];
            wanted += i == squared ? (p - target) * (p - target) / (N * CLASSES) : -target * log(p) / N;
        }
        char name[16];
        (void)snprintf(name, sizeof name, "%s_loss", names[i]);
        near("pocl:0", name, clq_metric_value(&totals.metrics, name), wanted);
    }
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

static void each_loss_takes_its_own_output(void **state) {
    (void)state;
    for (size_t squared = 0; squared < 2; squared++) check_own_losses(squared);
}

/* ---- what is refused ---- */

static void refuse_trainer(const clq_model *model, clq_status status, const char *words,
                           const clq_trainer_config *config) {
    clq_devices devices;
    clq_trainer *trainer = NULL;
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_fails(status, words, clq_trainer_create(model, &devices, config, &trainer));
    assert_null(trainer);
}

static void wrong_losses(void **state) {
    (void)state;
    clq_output_config outputs[3];
    clq_trainer_config config = config_of(outputs);
    clq_model *model = two_lines();
    config.output_count = 1; /* the loss of size alone */
    refuse_trainer(model, CLQ_ERROR_ARGUMENT, "output 'place' of model lines has no loss", &config);
    config.output_count = 2;
    outputs[1].name = "size";
    refuse_trainer(model, CLQ_ERROR_ARGUMENT, "output 'size': two losses are given for it", &config);
    outputs[1].name = "weight";
    refuse_trainer(model, CLQ_ERROR_ARGUMENT, "'weight', which is no output of model lines: it has 'place', 'size'",
                   &config);
    outputs[1].name = NULL;
    refuse_trainer(model, CLQ_ERROR_ARGUMENT, "outputs[1] of the trainer's config has no name", &config);
    config = config_of(outputs);
    outputs[2] = clq_output_config_default("place");
    config.output_count = 3;
    refuse_trainer(model, CLQ_ERROR_ARGUMENT, "output 'place': two losses are given for it", &config);
    config = config_of(outputs);
    outputs[1].weight = (double)INFINITY;
    refuse_trainer(model, CLQ_ERROR_ARGUMENT, "output 'place': the weight of inf of the loss is out of range", &config);
    outputs[1].weight = 1e-50;
    refuse_trainer(model, CLQ_ERROR_ARGUMENT, "output 'place': the weight of 1e-50 of the loss is out of range",
                   &config);
    config = config_of(outputs);
    outputs[0].metrics = "magic";
    refuse_trainer(model, CLQ_ERROR_ARGUMENT, "output 'size': metric 'magic' is unknown", &config);
    outputs[0].metrics = "mae,mae";
    refuse_trainer(model, CLQ_ERROR_ARGUMENT, "metric size_mae is given twice", &config);
    outputs[0].metrics = NULL;
    outputs[0].loss.delta = -1;
    outputs[0].loss.kind = CLQ_LOSS_HUBER;
    refuse_trainer(model, CLQ_ERROR_ARGUMENT, "output 'size': loss huber: delta=-1", &config);
    clq_model_destroy(model);
}

static void more_values_than_there_is_room_for(void **state) {
    (void)state;
    enum { MANY = CLQ_MODEL_OUTPUTS_MAX };
    clq_model *model;
    clq_tensor outputs[MANY];
    clq_trainer_config config = apart_config();
    assert_ok(clq_model_create("many", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(IN));
    for (size_t i = 0; i < MANY; i++) outputs[i] = clq_dense(model, x, &(clq_dense_config){.units = 1});
    assert_ok(clq_model_finish_outputs(model, outputs, MANY));
    config.loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    config.sample_dtype = CLQ_F32;
    config.metrics = "mse,mae,root_mean_squared_error"; /* 8 * 4 values fill all the room */
    clq_trainer_destroy(trainer_of(model, "pocl:0", &config));
    config.metrics = "mse,mae,root_mean_squared_error,accuracy";
    refuse_trainer(model, CLQ_ERROR_ARGUMENT, "more than 32 losses and metrics", &config);
    clq_model_destroy(model);
}

static void outputs_named_as_validations(void **state) {
    (void)state;
    static const char *const pairs[][2] = {{"size", "val"}, {"size", "val_size"}, {"val_value", "size"}};
    for (size_t i = 0; i < CLQ_COUNT_OF(pairs); i++) {
        clq_model *model;
        clq_trainer_config config = apart_config();
        config.sample_dtype = CLQ_F32;
        config.loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
        assert_ok(clq_model_create("named", &model));
        clq_tensor x = clq_input(model, CLQ_SHAPE(IN)), y[2];
        for (size_t k = 0; k < 2; k++) y[k] = clq_dense(model, x, &(clq_dense_config){.units = 1, .name = pairs[i][k]});
        assert_ok(clq_model_finish_outputs(model, y, 2));
        if (i < 2)
            refuse_trainer(model, CLQ_ERROR_UNSUPPORTED, "would have the names of validation's", &config);
        else
            clq_trainer_destroy(trainer_of(model, "pocl:0", &config));
        clq_model_destroy(model);
    }
}

static void outputs_of_one_layer(void **state) {
    (void)state;
    clq_model *model;
    const clq_trainer_config config = apart_config();
    assert_ok(clq_model_create("shared", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(IN));
    clq_tensor a = clq_dense(model, x, &(clq_dense_config){.units = IN, .name = "twice"}), b = clq_share(model, a, a);
    assert_ok(clq_model_finish_outputs(model, CLQ_TENSORS(a, b)));
    refuse_trainer(model, CLQ_ERROR_UNSUPPORTED, "outputs 0 and 1 of model shared are both of layer 'twice'", &config);
    clq_model_destroy(model);
}

/* The trainer of two_lines refuses a set with these labels for the second output (elements 0: without labels for
 * it). */
static void refuse_set(clq_trainer *trainer, const void *labels, clq_dtype dtype, size_t elements, const char *words) {
    clq_dataset *data = samples_and_places();
    clq_totals totals;
    if (elements > 0) assert_ok(clq_dataset_add_labels(data, labels, dtype, elements));
    assert_fails(CLQ_ERROR_MISMATCH, words, clq_fit(trainer, data, &(clq_fit_config){.epochs = 1}));
    assert_fails(CLQ_ERROR_MISMATCH, words, clq_evaluate(trainer, data, &totals));
    clq_dataset_destroy(data);
}

static void refuse_batch(clq_trainer *trainer, const clq_labels *more, size_t count, const char *words) {
    const clq_batch batch = {.count = BATCH,
                             .samples = inputs,
                             .sample_elements = IN,
                             .sample_dtype = CLQ_F32,
                             .labels = places,
                             .float_labels = true,
                             .label_elements = OUT,
                             .more_labels = more,
                             .more_count = count};
    assert_fails(CLQ_ERROR_MISMATCH, words, clq_step(trainer, &batch));
}

static void wrong_targets(void **state) {
    (void)state;
    clq_output_config outputs[2];
    clq_trainer_config config = config_of(outputs);
    clq_model *model = two_lines();
    clq_trainer *trainer = trainer_of(model, "pocl:0", &config);
    const clq_labels pair[] = {{.values = sizes, .is_float = true, .elements = 1},
                               {.values = sizes, .is_float = true, .elements = 1}},
                     wide = {.values = places, .is_float = true, .elements = OUT},
                     none = {.is_float = true, .elements = 1};
    const char missing[] = "has labels for 1 output and model lines has 2: none for 'size'",
               shape[] = ": a label has 2 values, and mean_squared_error with model lines takes 1";
    refuse_set(trainer, NULL, CLQ_F32, 0, missing);
    refuse_set(trainer, places, CLQ_F32, OUT, shape);
    refuse_batch(trainer, NULL, 0, missing);
    refuse_batch(trainer, NULL, 1, missing);
    refuse_batch(trainer, &wide, 1, shape);
    refuse_batch(trainer, &none, 1, "output 'size': the batch has no labels");
    refuse_batch(trainer, pair, 2, "has labels for 3 outputs and model lines has 2, of which 'size' is the last");
    clq_trainer_destroy(trainer);

    outputs[0].loss = clq_loss_default(CLQ_LOSS_SPARSE_CATEGORICAL); /* for size, which has one class */
    outputs[0].metrics = NULL;
    trainer = trainer_of(model, "pocl:0", &config);
    refuse_set(trainer, sizes, CLQ_F32, 1, "output 'size': arrays: labels are f32");
    refuse_set(trainer, kinds, CLQ_I32, 1,
               "output 'size': arrays: label 1 is 2 and model lines has 1 class: labels are 0 to 0");
    refuse_batch(trainer, &(clq_labels){.values = kinds}, 1, "output 'size': the batch: label 1 is 2");
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

static void a_model_of_one_output_refuses_more_labels(void **state) {
    (void)state;
    clq_model *model;
    clq_trainer_config config = apart_config();
    clq_dataset *data = both();
    float out[N * OUT];
    assert_ok(clq_model_create("line", &model));
    assert_ok(
        clq_model_finish(model, clq_dense(model, clq_input(model, CLQ_SHAPE(IN)), &(clq_dense_config){.units = OUT})));
    config.loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    config.sample_dtype = CLQ_F32;
    clq_trainer *trainer = trainer_of(model, "pocl:0", &config);
    assert_fails(CLQ_ERROR_MISMATCH,
                 "arrays has labels for 2 outputs and model line has 1, of which 'dense' is the last",
                 clq_fit(trainer, data, &(clq_fit_config){.epochs = 1}));
    assert_ok(clq_predict(trainer, data, out));
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

/* The config of an older caller ends before `outputs`. Its loss is for every output, as in Keras. */
static void one_loss_is_of_every_output(void **state) {
    (void)state;
    clq_devices devices;
    clq_model *model = two_lines();
    clq_dataset *data = both();
    clq_trainer_config config = apart_config();
    clq_trainer *trainer;
    clq_totals totals;
    float out[N * OUT];
    config.loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    config.sample_dtype = CLQ_F32;
    config.output_count = 77; /* after the end of the config: ignored */
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_ok(clq_trainer_create_sized(model, &devices, &config, offsetof(clq_trainer_config, outputs), &trainer));
    assert_ok(clq_evaluate(trainer, data, &totals));
    assert_int_equal(totals.metrics.count, 2);
    near("pocl:0", "the sum", totals.loss, totals.metrics.values[0] + totals.metrics.values[1]);
    assert_fails(CLQ_ERROR_ARGUMENT, "model lines has 2 outputs: clq_predict_outputs", clq_predict(trainer, data, out));
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

/* The labels for each output are uploaded to a device whose memory is not the host's. */
static void the_disguise_is_on(void **state) {
    (void)state;
    clq_devices devices;
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_false(clq_system_device_info(sys, devices.items[0].index)->host_unified);
}

static int run_as_discrete(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_disguise_is_on),
                                       cmocka_unit_test(two_lines_follow_the_closed_form),
                                       cmocka_unit_test(class_numbers_of_any_output_are_converted)};
    if (disguise_load("basic") != 0) return 1;
    return cmocka_run_group_tests_name("train/outputs_discrete", tests, open_system, close_system);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "discrete") == 0) return run_as_discrete();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_lines_follow_the_closed_form),
        cmocka_unit_test(class_numbers_of_any_output_are_converted),
        cmocka_unit_test(each_loss_takes_its_own_output),
        cmocka_unit_test(wrong_losses),
        cmocka_unit_test(more_values_than_there_is_room_for),
        cmocka_unit_test(outputs_named_as_validations),
        cmocka_unit_test(outputs_of_one_layer),
        cmocka_unit_test(wrong_targets),
        cmocka_unit_test(a_model_of_one_output_refuses_more_labels),
        cmocka_unit_test(one_loss_is_of_every_output),
    };
    return cmocka_run_group_tests(tests, open_system, close_system);
}
