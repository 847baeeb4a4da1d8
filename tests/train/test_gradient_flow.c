/* Layers that stop or scale the gradient, over whole trainings: losses and weights are those of a training by hand in
 * double, with each strategy; and what no gradient comes to stays as it is. */
#include "support/apart.h"
#include "support/check.h"
#include "support/system.h"
#include "train/train.h"

#include <math.h>

enum { SAMPLES = 32, BATCH = 5, BATCHES = 7, ACCUMULATE = 3, INPUTS = 6, UNITS = 4, STEPS = 10 };
enum { W = 0, B = W + INPUTS * UNITS, V = B + UNITS, C = V + UNITS * UNITS, WEIGHTS = C + UNITS };

static const double lr = 0.1;
static const size_t places_of[] = {W, B, V, C, WEIGHTS};
static float samples[SAMPLES][INPUTS], targets[SAMPLES][UNITS], first[WEIGHTS];

/* ---- by hand ---- */

typedef struct training {
    double losses[STEPS], weights[WEIGHTS];
    size_t made;
} training;

/* The mean squared error of samples [begin, end) of (x W + b) V + c, where `factor` times the gradient reaches W and b.
 */
static double loss_of(const double *w, double factor, size_t begin, size_t end, double *dw) {
    const double each = 1 / (double)((end - begin) * UNITS);
    double sum = 0;
    for (size_t i = 0; i < WEIGHTS; i++) dw[i] = 0;
    for (size_t n = begin; n < end; n++) {
        double h[UNITS], dh[UNITS] = {0};
        for (size_t k = 0; k < UNITS; k++) {
            h[k] = w[B + k];
            for (size_t i = 0; i < INPUTS; i++) h[k] += w[W + i * UNITS + k] * (double)samples[n][i];
        }
        for (size_t u = 0; u < UNITS; u++) {
            double off = w[C + u] - (double)targets[n][u];
            for (size_t k = 0; k < UNITS; k++) off += w[V + k * UNITS + u] * h[k];
            sum += each * off * off;
            dw[C + u] += 2 * each * off;
            for (size_t k = 0; k < UNITS; k++) dw[V + k * UNITS + u] += 2 * each * off * h[k];
            for (size_t k = 0; k < UNITS; k++) dh[k] += 2 * each * off * w[V + k * UNITS + u] * factor;
        }
        for (size_t k = 0; k < UNITS; k++) dw[B + k] += dh[k];
        for (size_t i = 0; i < INPUTS * UNITS; i++) dw[W + i] += dh[i % UNITS] * (double)samples[n][i / UNITS];
    }
    return sum;
}

/* batch: samples of an update. */
static void train_by_hand(training *t, double factor, size_t batch) {
    double dw[WEIGHTS];
    size_t begin = 0;
    for (size_t i = 0; i < WEIGHTS; i++) t->weights[i] = (double)first[i];
    for (size_t step = 0; step < STEPS; step++, begin = begin + batch < SAMPLES ? begin + batch : 0) {
        t->losses[step] = loss_of(t->weights, factor, begin, CLQ_MIN(begin + batch, (size_t)SAMPLES), dw);
        for (size_t i = 0; i < WEIGHTS; i++) t->weights[i] -= lr * dw[i];
    }
}

/* ---- by a trainer ---- */

typedef struct way {
    const char *devices, *strategy;
    double factor; /* 0: stopped */
    uint64_t accumulate;
    clq_recompute_kind recompute;
    bool one_launch; /* steps are one, where they can be (support/apart.h) */
} way;

static clq_model *make_model(const way *how) {
    clq_model *m;
    assert_ok(clq_model_create("flow", &m));
    clq_tensor x = clq_dense(m, clq_input(m, CLQ_SHAPE(INPUTS)), &(clq_dense_config){.units = UNITS});
    clq_tensor y = how->factor == 0 ? clq_stop_gradient(m, x, NULL) : clq_gradient_scale(m, x, how->factor, NULL);
    assert_ok(clq_model_finish(m, clq_dense(m, y, &(clq_dense_config){.units = UNITS})));
    return m;
}

static clq_status on_log(void *context, const clq_step_info *info) {
    training *t = context;
    assert_true(t->made < STEPS);
    t->losses[t->made++] = info->loss;
    return CLQ_OK;
}

static clq_trainer *open_trainer(const way *how, const clq_model *model) {
    clq_trainer_config config = apart_config();
    clq_trainer *trainer;
    clq_devices devices;
    if (how->one_launch) config.disabled_paths = NULL;
    config.loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    config.global_batch = BATCH;
    config.sample_dtype = CLQ_F32;
    config.recompute = how->recompute;
    config.strategy_options.accumulate = how->accumulate;
    config.strategy_options.staleness = 0; /* synchronous */
    assert_ok(clq_strategy_parse(how->strategy, &config.strategy, &config.strategy_options));
    assert_ok(clq_optimizer_parse("sgd:lr=0.1", &config.optimizer));
    assert_ok(clq_devices_select(sys, how->devices, &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    for (size_t v = 0; v + 1 < CLQ_COUNT_OF(places_of); v++)
        assert_ok(clq_trainer_set_variable(trainer, v, first + places_of[v]));
    return trainer;
}

static void train(const way *how, training *t) {
    const size_t shape[] = {INPUTS};
    clq_model *model = make_model(how);
    clq_dataset *data;
    clq_trainer *trainer = open_trainer(how, model);
    float weights[WEIGHTS];
    *t = (training){.made = 0};
    assert_ok(clq_dataset_arrays(samples, CLQ_F32, SAMPLES, 1, shape, targets, CLQ_F32, UNITS, &data));
    assert_ok(clq_dataset_batch(data, BATCH, false));
    assert_ok(clq_fit(trainer, data, &(clq_fit_config){.steps = STEPS, .context = t, .on_log = on_log}));
    assert_int_equal(t->made, STEPS);
    for (size_t v = 0; v + 1 < CLQ_COUNT_OF(places_of); v++)
        assert_ok(clq_trainer_get_variable(trainer, v, weights + places_of[v]));
    for (size_t i = 0; i < WEIGHTS; i++) t->weights[i] = (double)weights[i];
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

static void check_near(const way *how, const char *what, size_t i, double got, double want, double tolerance) {
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%s, %s, factor %g: %s %zu is %.9g and not %.9g", how->devices, how->strategy, how->factor, what, i,
                 got, want);
}

static void check_way(const way *how) {
    training got, want;
    train(how, &got);
    train_by_hand(&want, how->factor, BATCH * (how->accumulate ? how->accumulate : 1));
    for (size_t s = 0; s < STEPS; s++)
        check_near(how, "the loss of step", s + 1, got.losses[s], want.losses[s], 1e-5 * want.losses[s]);
    for (size_t i = 0; i < WEIGHTS; i++) check_near(how, "weight", i, got.weights[i], want.weights[i], 1e-5);
    for (size_t i = 0; i < V && how->factor == 0; i++) check_near(how, "weight", i, got.weights[i], first[i], 0);
}

static void each_strategy_trains_as_by_hand(void **state) {
    static const way ways[] = {
        {.devices = "pocl:0", .strategy = "auto"},
        {.devices = "pocl:0", .strategy = "auto", .one_launch = true},
        {.devices = "pocl:0", .strategy = "auto", .accumulate = ACCUMULATE},
        {.devices = "pocl:0", .strategy = "auto", .recompute = CLQ_RECOMPUTE_ALL},
        {.devices = "pocl:0,pocl:1", .strategy = "auto", .one_launch = true}, /* weights and gradients change places */
        {.devices = "pocl:0,pocl:1", .strategy = "auto"},
        {.devices = "pocl:0,pocl:1", .strategy = "central"},
        {.devices = "pocl:0,pocl:1", .strategy = "ps"},
        {.devices = "pocl:0,pocl:1", .strategy = "pipeline"},
        {.devices = "pocl:0,pocl:1", .strategy = "tensor"},
    };
    (void)state;
    for (size_t i = 0; i < 2 * CLQ_COUNT_OF(ways); i++) {
        way how = ways[i / 2];
        how.factor = i % 2 ? -0.5 : 0;
        check_way(&how);
    }
}

/* ---- what is refused, and memory ---- */

static void nonsense_is_refused(void **state) {
    (void)state;
    const double bad[] = {INFINITY, NAN};
    for (size_t i = 0; i < CLQ_COUNT_OF(bad); i++) {
        clq_model *m;
        assert_ok(clq_model_create("flow", &m));
        clq_tensor x = clq_input(m, CLQ_SHAPE(INPUTS));
        assert_fails(CLQ_ARGUMENT, "layer 'gradient_scale': factor ",
                     clq_model_finish(m, clq_gradient_scale(m, x, bad[i], NULL)));
        clq_model_destroy(m);
    }
}

static clq_status build(void *context) {
    clq_model *m;
    (void)context;
    CLQ_TRY(clq_model_create("flow", &m));
    clq_tensor x = clq_input(m, CLQ_SHAPE(INPUTS));
    x = clq_stop_gradient(m, clq_gradient_scale(m, x, 2, "turned"), "stopped");
    const clq_status status = clq_model_finish(m, x);
    clq_model_destroy(m);
    return status;
}

static void models_run_out_of_memory(void **state) {
    (void)state;
    assert_true(walk_allocations(build, NULL) >= 5);
}

static int start(void **state) {
    clq_random random = clq_random_start(5, 0);
    for (size_t n = 0; n < SAMPLES; n++) {
        for (size_t i = 0; i < INPUTS; i++) samples[n][i] = (float)(clq_random_unit(&random) * 2 - 1);
        for (size_t u = 0; u < UNITS; u++) targets[n][u] = (float)(clq_random_unit(&random) * 4 - 1);
    }
    for (size_t i = 0; i < WEIGHTS; i++) first[i] = (float)(clq_random_unit(&random) - 0.5);
    return open_system(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_strategy_trains_as_by_hand),
                                       cmocka_unit_test(nonsense_is_refused),
                                       cmocka_unit_test(models_run_out_of_memory)};
    return cmocka_run_group_tests_name("train/gradient_flow", tests, start, close_system);
}
