/* Penalties on weights over whole trainings. Losses and weights are those of a training by hand in double, with any
 * number of devices and of batches in an update, and with any loss weight or loss scale. */
#include "support/by_hand.h"

/* Seven batches make an epoch. The last has two samples, so one of three replicas gets none. Or updates take three
 * batches each, and the last update has one. */
enum { KERNEL = INPUTS * UNITS, WEIGHTS = KERNEL + UNITS };

static const double kernel_l1 = 0.03, kernel_l2 = 0.2, bias_l1 = 0.04;
static const size_t places[] = {0, KERNEL, WEIGHTS};

static float first[WEIGHTS];

/* ---- by hand ---- */

typedef struct training {
    hand_log log;
    double weights[WEIGHTS], evaluated; /* evaluated: the final loss of all samples */
} training;

static double penalty_of(const double *w, double *dw) {
    double sum = 0;
    for (size_t i = 0; i < WEIGHTS; i++) {
        const double l1 = i < KERNEL ? kernel_l1 : bias_l1, l2 = i < KERNEL ? kernel_l2 : 0;
        sum += l1 * fabs(w[i]) + l2 * w[i] * w[i];
        dw[i] = (w[i] > 0 ? l1 : w[i] < 0 ? -l1 : 0) + 2 * l2 * w[i];
    }
    return sum;
}

/* Gives `weight` times a dense layer's mean squared error over samples [begin, end), plus the penalty once. */
static double loss_of(const double *w, double weight, size_t begin, size_t end, double *dw) {
    double sum = penalty_of(w, dw);
    const double each = weight / (double)((end - begin) * UNITS);
    for (size_t n = begin; n < end; n++)
        for (size_t u = 0; u < UNITS; u++) {
            double off = w[KERNEL + u] - (double)targets[n][u];
            for (size_t i = 0; i < INPUTS; i++) off += w[i * UNITS + u] * (double)samples[n][i];
            sum += each * off * off;
            for (size_t i = 0; i < INPUTS; i++) dw[i * UNITS + u] += 2 * each * off * (double)samples[n][i];
            dw[KERNEL + u] += 2 * each * off;
        }
    return sum;
}

/* batch: the samples of each update. */
static void train_by_hand(training *t, double weight, size_t batch) {
    double dw[WEIGHTS];
    size_t begin = 0;
    for (size_t i = 0; i < WEIGHTS; i++) t->weights[i] = (double)first[i];
    for (size_t step = 0; step < STEPS; step++, begin = hand_next(begin, batch)) {
        t->log.losses[step] = loss_of(t->weights, weight, begin, CLQ_MIN(begin + batch, (size_t)SAMPLES), dw);
        for (size_t i = 0; i < WEIGHTS; i++) t->weights[i] -= lr * dw[i];
    }
    t->evaluated = loss_of(t->weights, weight, 0, SAMPLES, dw);
}

/* ---- by a trainer ---- */

static clq_model *make_model(bool frozen) {
    clq_model *m;
    assert_ok(clq_model_create("small", &m));
    clq_tensor x = clq_dense(m, clq_input(m, CLQ_SHAPE(INPUTS)), &(clq_dense_config){.units = UNITS});
    x = clq_regularise(m, clq_regularise(m, x, "kernel", kernel_l1, kernel_l2), "bias", bias_l1, 0);
    assert_ok(clq_model_finish(m, frozen ? clq_freeze(m, x) : x));
    return m;
}

/* weight: that of the loss. */
static clq_trainer *open_trainer(const hand_way *how, double weight, const clq_model *model) {
    clq_output_config output = clq_output_config_default(clq_model_output_name(model, 0));
    output.loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    output.weight = weight;
    return hand_open_outputs(how, model, &output, 1, first, places);
}

static void train(const hand_way *how, double weight, training *t) {
    clq_model *model = make_model(false);
    clq_trainer *trainer = open_trainer(how, weight, model);
    clq_totals totals;
    clq_dataset *data = hand_fit(trainer, 2, places, &t->log, t->weights);
    assert_ok(clq_evaluate(trainer, data, &totals));
    t->evaluated = totals.loss;
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

/* The gradient of a weight near 0 depends on the weight's sign. No weight here comes near 0. */
static void check_way(const hand_way *how, double weight, double tolerance) {
    const char *of = how->accumulate ? "in several batches" : "in one batch";
    training got, want;
    train(how, weight, &got);
    train_by_hand(&want, weight, hand_batch(how));
    for (size_t s = 0; s < STEPS; s++)
        hand_check(how, of, "the loss of step", s + 1, got.log.losses[s], want.log.losses[s],
                   tolerance * want.log.losses[s]);
    for (size_t i = 0; i < WEIGHTS; i++) hand_check(how, of, "weight", i, got.weights[i], want.weights[i], tolerance);
    hand_check(how, of, "the loss of all, times", 1, got.evaluated, want.evaluated, tolerance * want.evaluated);
}

static const char *const devices_of[] = {"pocl:0", "pocl:0,pocl:1", "pocl:0,pocl:1,pocl:2"};

static void replicas_have_it_once(void **state) {
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(devices_of); i++) {
        check_way(&(hand_way){.devices = devices_of[i], .strategy = "auto"}, 1, 1e-5);
        check_way(&(hand_way){.devices = devices_of[i], .strategy = "auto", .accumulate = ACCUMULATE}, 1, 1e-5);
    }
    check_way(&(hand_way){.devices = devices_of[0], .strategy = "auto", .one_launch = true}, 1, 1e-5);
    check_way(&(hand_way){.devices = devices_of[1], .strategy = "central"}, 1, 1e-5);
    check_way(&(hand_way){.devices = devices_of[2], .strategy = "ps"}, 1, 1e-5);
}

/* The penalty belongs to the model's loss, so an output's weight does not scale it. */
static void weights_of_losses_are_not_its(void **state) {
    (void)state;
    check_way(&(hand_way){.devices = devices_of[0], .strategy = "auto"}, 0.25, 1e-5);
    check_way(&(hand_way){.devices = devices_of[1], .strategy = "auto"}, 3, 1e-5);
}

/* With 16 bits and a loss scale, which is taken off all gradients. bfloat16 has 8 bits. */
static void loss_scales_are_its_too(void **state) {
    (void)state;
    check_way(&(hand_way){.devices = devices_of[0], .strategy = "auto", .precision = CLQ_PRECISION_MIXED}, 1, 4e-3);
    check_way(&(hand_way){.devices = devices_of[1], .strategy = "auto", .precision = CLQ_PRECISION_MIXED}, 0.5, 4e-3);
    check_way(&(hand_way){.devices = devices_of[0], .strategy = "auto", .precision = CLQ_PRECISION_MIXED_BF16}, 1,
              2e-2);
}

/* As in Keras, frozen weights have no penalty. */
static void frozen_weights_have_none(void **state) {
    (void)state;
    const hand_way how = {.devices = devices_of[0], .strategy = "auto"};
    clq_model *model = make_model(true);
    clq_dataset *data = hand_data();
    clq_trainer *trainer = open_trainer(&how, 1, model);
    clq_totals totals;
    double w[WEIGHTS], dw[WEIGHTS];
    for (size_t i = 0; i < WEIGHTS; i++) w[i] = (double)first[i];
    const double want = loss_of(w, 1, 0, SAMPLES, dw) - penalty_of(w, dw);
    assert_ok(clq_evaluate(trainer, data, &totals));
    hand_check(&how, "frozen", "the loss of all, times", 1, totals.loss, want, 1e-5 * want);
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

static void nonsense_is_refused(void **state) {
    (void)state;
    const double bad[] = {-1, INFINITY, NAN};
    clq_devices devices;
    clq_trainer *trainer = NULL;
    clq_trainer_config config = apart_config();
    clq_output_config output;
    for (size_t i = 0; i <= 2 * CLQ_COUNT_OF(bad); i++) {
        clq_model *m;
        const double wrong = i ? bad[(i - 1) / 2] : 0.1;
        assert_ok(clq_model_create("small", &m));
        clq_tensor x = clq_dense(m, clq_input(m, CLQ_SHAPE(INPUTS)), &(clq_dense_config){.units = UNITS});
        x = clq_regularise(m, x, i ? "kernel" : "kernels", i % 2 ? wrong : 0.1, i % 2 ? 0.1 : wrong);
        assert_fails(CLQ_ERROR_ARGUMENT, i ? "should be finite and at least 0" : "it has no variable 'kernels'",
                     clq_model_finish(m, x));
        clq_model_destroy(m);
    }
    clq_model *model = make_model(false);
    output = clq_output_config_default(clq_model_output_name(model, 0));
    output.loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    output.weight = 0;
    config.outputs = &output;
    config.output_count = 1;
    config.global_batch = BATCH;
    assert_ok(clq_devices_select(sys, devices_of[0], &devices));
    assert_fails(CLQ_ERROR_UNSUPPORTED, "has a regulariser, which a loss of weight 0 does not support: leave it out",
                 clq_trainer_create(model, &devices, &config, &trainer));
    output.weight = 1;
    config.strategy = CLQ_STRATEGY_TENSOR;
    assert_ok(clq_devices_select(sys, devices_of[1], &devices));
    assert_fails(CLQ_ERROR_UNSUPPORTED, "has a regulariser, which this strategy does not support: leave it out",
                 clq_trainer_create(model, &devices, &config, &trainer));
    assert_null(trainer);
    clq_model_destroy(model);
}

static int start(void **state) {
    hand_draw(first, WEIGHTS);
    for (size_t i = 0; i < WEIGHTS; i++) first[i] = (1 + first[i]) * (i % 3 ? 1 : -1); /* 0.5 to 1.5, of both signs */
    return open_system(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_have_it_once),   cmocka_unit_test(weights_of_losses_are_not_its),
        cmocka_unit_test(loss_scales_are_its_too), cmocka_unit_test(frozen_weights_have_none),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests_name("train/penalty", tests, start, close_system);
}
