/* Constraints on weights over whole trainings. The weights are those of a training by hand in double, with any number
 * of devices and of batches in an update. What constraints do not go together with is refused. Keras's traces are in
 * tests/golden. */
#include "support/apart.h"
#include "support/check.h"
#include "support/system.h"
#include "train/train.h"

#include <math.h>

/* Seven batches make an epoch. The last has two samples, so one of three replicas gets none. Or updates take three
 * batches each, and the last update has one. */
enum { SAMPLES = 32, BATCH = 5, ACCUMULATE = 3, INPUTS = 6, UNITS = 4, STEPS = 10 };
enum { KERNEL = INPUTS * UNITS, WEIGHTS = KERNEL + UNITS };

static const double lr = 0.1, most = 0.7;

static float samples[SAMPLES][INPUTS], targets[SAMPLES][UNITS], first[WEIGHTS];

/* ---- by hand ---- */

/* Gives the gradient of a dense layer's mean squared error over samples [begin, end). */
static void differentiate(const double *w, size_t begin, size_t end, double *dw) {
    const double each = 1.0 / (double)((end - begin) * UNITS);
    for (size_t i = 0; i < WEIGHTS; i++) dw[i] = 0;
    for (size_t n = begin; n < end; n++)
        for (size_t u = 0; u < UNITS; u++) {
            double off = w[KERNEL + u] - (double)targets[n][u];
            for (size_t i = 0; i < INPUTS; i++) off += w[i * UNITS + u] * (double)samples[n][i];
            for (size_t i = 0; i < INPUTS; i++) dw[i * UNITS + u] += 2 * each * off * (double)samples[n][i];
            dw[KERNEL + u] += 2 * each * off;
        }
}

/* Makes the kernel's columns no longer than `most`, and the bias no less than 0. */
static void constrain(double *w) {
    for (size_t u = 0; u < UNITS; u++) {
        double squares = 0;
        for (size_t i = 0; i < INPUTS; i++) squares += w[i * UNITS + u] * w[i * UNITS + u];
        const double norm = sqrt(squares), factor = (norm < most ? norm : most) / (1e-7 + norm);
        for (size_t i = 0; i < INPUTS; i++) w[i * UNITS + u] *= factor;
        if (w[KERNEL + u] < 0) w[KERNEL + u] = 0;
    }
}

/* batch: the samples of each update. */
static void train_by_hand(double *w, size_t batch) {
    double dw[WEIGHTS];
    size_t begin = 0;
    for (size_t i = 0; i < WEIGHTS; i++) w[i] = (double)first[i];
    for (size_t step = 0; step < STEPS; step++, begin = begin + batch < SAMPLES ? begin + batch : 0) {
        differentiate(w, begin, CLQ_MIN(begin + batch, (size_t)SAMPLES), dw);
        for (size_t i = 0; i < WEIGHTS; i++) w[i] -= lr * dw[i];
        constrain(w);
    }
}

/* ---- by a trainer ---- */

static clq_model *make_model(void) {
    clq_model *m;
    assert_ok(clq_model_create("held", &m));
    clq_tensor x = clq_dense(m, clq_input(m, CLQ_SHAPE(INPUTS)), &(clq_dense_config){.units = UNITS});
    x = clq_constrain(m, x, "kernel", &(clq_constraint){.kind = CLQ_CONSTRAINT_UNIT_NORM});
    x = clq_constrain(m, x, "kernel", &(clq_constraint){.kind = CLQ_CONSTRAINT_MAX_NORM, .most = most});
    x = clq_constrain(m, x, "bias", &(clq_constraint){.kind = CLQ_CONSTRAINT_NON_NEGATIVE});
    assert_ok(clq_model_finish(m, x));
    return m;
}

static clq_dataset *open_data(void) {
    const size_t shape[] = {INPUTS};
    clq_dataset *data;
    assert_ok(clq_dataset_arrays(samples, CLQ_F32, SAMPLES, 1, shape, targets, CLQ_F32, UNITS, &data));
    assert_ok(clq_dataset_batch(data, BATCH, false));
    return data;
}

typedef struct way {
    const char *devices, *strategy;
    uint64_t accumulate;
    clq_precision precision;
    bool one_launch; /* a step is one launch if possible (support/apart.h) */
    uint64_t local_steps;
    uint32_t shard_optimizer;
} way;

static clq_status open_trainer(const way *how, clq_model *model, clq_trainer **out) {
    clq_trainer_config config = apart_config();
    clq_devices devices;
    config.loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    if (how->one_launch) config.disabled_paths = NULL;
    config.metrics = "none";
    config.global_batch = BATCH;
    config.sample_dtype = CLQ_F32;
    config.precision = how->precision;
    assert_ok(clq_strategy_parse(how->strategy, &config.strategy, &config.strategy_options));
    config.strategy_options.accumulate = how->accumulate;
    config.strategy_options.local_steps = how->local_steps;
    config.strategy_options.shard_optimizer = how->shard_optimizer;
    config.strategy_options.staleness = 0; /* synchronous */
    assert_ok(clq_optimizer_parse("sgd:lr=0.1", &config.optimizer));
    assert_ok(clq_devices_select(sys, how->devices, &devices));
    return clq_trainer_create(model, &devices, &config, out);
}

static void check_way(const way *how, double tolerance) {
    clq_model *model = make_model();
    clq_dataset *data = open_data();
    clq_trainer *trainer;
    float found[WEIGHTS];
    double want[WEIGHTS];
    size_t zeros = 0;
    assert_ok(open_trainer(how, model, &trainer));
    assert_ok(clq_trainer_set_variable(trainer, 0, first));
    assert_ok(clq_trainer_set_variable(trainer, 1, first + KERNEL));
    assert_ok(clq_fit(trainer, data, &(clq_fit_config){.steps = STEPS}));
    assert_ok(clq_trainer_get_variable(trainer, 0, found));
    assert_ok(clq_trainer_get_variable(trainer, 1, found + KERNEL));
    train_by_hand(want, BATCH * CLQ_MAX(how->accumulate, (uint64_t)1));
    for (size_t i = 0; i < WEIGHTS; i++) {
        zeros += i >= KERNEL && want[i] == 0 && found[i] == 0;
        if (!(fabs((double)found[i] - want[i]) <= tolerance))
            fail_msg("%s, %s: weight %zu is %.9g and not %.9g", how->devices, how->strategy, i, (double)found[i],
                     want[i]);
    }
    assert_true(zeros > 0);
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

static const char *const places[] = {"pocl:0", "pocl:0,pocl:1", "pocl:0,pocl:1,pocl:2"};

static void they_hold_whatever_trains(void **state) {
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(places); i++) {
        check_way(&(way){.devices = places[i], .strategy = "auto"}, 1e-6);
        check_way(&(way){.devices = places[i], .strategy = "auto", .one_launch = true}, 1e-6);
    }
    check_way(&(way){.devices = places[0], .strategy = "auto", .accumulate = ACCUMULATE}, 1e-6);
    check_way(&(way){.devices = places[1], .strategy = "auto", .accumulate = ACCUMULATE}, 1e-6);
    check_way(&(way){.devices = places[1], .strategy = "central"}, 1e-6);
    check_way(&(way){.devices = places[2], .strategy = "ps"}, 1e-6);
    check_way(&(way){.devices = places[0], .strategy = "auto", .shard_optimizer = 1}, 1e-6); /* nothing to shard */
}

/* Weights of 16 bits are copies. Constraints hold for the weights that they are copied from. */
static void weights_of_mixed_precision_are_held(void **state) {
    (void)state;
    check_way(&(way){.devices = places[0], .strategy = "auto", .precision = CLQ_PRECISION_MIXED}, 2e-3);
    check_way(&(way){.devices = places[1], .strategy = "auto", .precision = CLQ_PRECISION_MIXED}, 2e-3);
}

/* ---- refusals ---- */

static void refuse(const way *how, clq_status status, const char *text) {
    clq_model *model = make_model();
    clq_trainer *trainer = NULL;
    assert_fails(status, text, open_trainer(how, model, &trainer));
    assert_null(trainer);
    clq_model_destroy(model);
}

static void what_cuts_variables_is_refused(void **state) {
    (void)state;
    refuse(&(way){.devices = places[1], .strategy = "mirrored", .local_steps = 2}, CLQ_ERROR_UNSUPPORTED,
           "model held has constraints on its weights: leave out these, or local steps");
    refuse(&(way){.devices = places[1], .strategy = "mirrored", .shard_optimizer = 1}, CLQ_ERROR_UNSUPPORTED,
           "model held has constraints on its weights: leave out these, or the sharded optimizer");
    refuse(&(way){.devices = places[1], .strategy = "tensor"}, CLQ_ERROR_ARGUMENT,
           "nothing without a constraint that 2 devices could split: no Dense layer of at least 2 units");
}

static void nonsense_is_refused(void **state) {
    const clq_axes beyond = {.count = 1, .axes = {2}}, before = {.count = 2, .axes = {0, -3}};
    const struct {
        const char *variable, *text;
        clq_constraint constraint;
    } rows[] = {
        {"kernels", "it has no variable 'kernels'", {.kind = CLQ_CONSTRAINT_NON_NEGATIVE}},
        {"kernel", "there is no such constraint", {.kind = (clq_constraint_kind)9}},
        {"kernel", "norms from 0 to -1", {.kind = CLQ_CONSTRAINT_MAX_NORM, .most = -1}},
        {"kernel", "norms from 0 to inf", {.kind = CLQ_CONSTRAINT_MAX_NORM, .most = INFINITY}},
        {"kernel", "norms from 2 to 1", {.kind = CLQ_CONSTRAINT_MIN_MAX_NORM, .least = 2, .most = 1, .rate = 1}},
        {"kernel", "rate 1.5 should be from 0 to 1", {.kind = CLQ_CONSTRAINT_MIN_MAX_NORM, .most = 1, .rate = 1.5}},
        {"kernel", "rate nan should be from 0 to 1", {.kind = CLQ_CONSTRAINT_MIN_MAX_NORM, .most = 1, .rate = NAN}},
        {"kernel", "axis 2 is none of the variable's 2", {.kind = CLQ_CONSTRAINT_UNIT_NORM, .axes = beyond}},
        {"kernel", "axis -3 is none of the variable's 2", {.kind = CLQ_CONSTRAINT_UNIT_NORM, .axes = before}},
    };
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(rows); i++) {
        clq_model *m;
        assert_ok(clq_model_create("held", &m));
        const clq_tensor x = clq_dense(m, clq_input(m, CLQ_SHAPE(INPUTS)), &(clq_dense_config){.units = UNITS});
        (void)clq_constrain(m, x, rows[i].variable, &rows[i].constraint);
        assert_fails(CLQ_ERROR_ARGUMENT, rows[i].text, clq_model_finish(m, x));
        clq_model_destroy(m);
    }
}

static int begin(void **state) {
    clq_random random = clq_random_start(31, 7);
    for (size_t n = 0; n < SAMPLES; n++) {
        for (size_t i = 0; i < INPUTS; i++) samples[n][i] = (float)(2 * clq_random_unit(&random) - 1);
        for (size_t u = 0; u < UNITS; u++) targets[n][u] = (float)(3 * clq_random_unit(&random) - (u % 2 ? 2 : 1));
    }
    for (size_t i = 0; i < WEIGHTS; i++) first[i] = (float)(2 * clq_random_unit(&random) - 1);
    return open_system(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_hold_whatever_trains), cmocka_unit_test(weights_of_mixed_precision_are_held),
        cmocka_unit_test(what_cuts_variables_is_refused), cmocka_unit_test(nonsense_is_refused)};
    return cmocka_run_group_tests_name("train/constraints", tests, begin, close_system);
}
