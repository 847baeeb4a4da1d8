/* Layers of a program's own, an expression and an operation with kernels, over whole trainings: losses and weights are
 * those of a training by hand in double, with each strategy, with recomputation, and in mixed precision. */
#include "support/apart.h"
#include "support/check.h"
#include "support/own_operation.h"
#include "support/system.h"
#include "train/train.h"

#include <math.h>

/* As of train/penalty and train/gradient_flow, whose kernels these are. */
enum { SAMPLES = 32, BATCH = 5, BATCHES = 7, ACCUMULATE = 3, INPUTS = 6, UNITS = 4, STEPS = 10 };
enum { K = 0, B = K + INPUTS * UNITS, W = B + UNITS, S = W + UNITS, WEIGHTS = S + 1 };

static const double lr = 0.1;
static const size_t places_of[] = {K, B, W, S, WEIGHTS};
static float samples[SAMPLES][INPUTS], targets[SAMPLES][UNITS], first[WEIGHTS];

/* ---- by hand ---- */

typedef struct training {
    double losses[STEPS], weights[WEIGHTS], outputs[SAMPLES][UNITS]; /* outputs: at the end */
    size_t made;
} training;

static double hidden_of(const double *p, size_t n, size_t u) {
    double h = p[B + u];
    for (size_t i = 0; i < INPUTS; i++) h += p[K + i * UNITS + u] * (double)samples[n][i];
    return h;
}
static double output_of(const double *p, size_t u, double h) { return p[W + u] * h * h + p[S] * h; }

/* The mean squared error of samples [begin, end) of w h^2 + s h, where h = x K + b. */
static double loss_of(const double *p, size_t begin, size_t end, double *dp) {
    const double each = 1 / (double)((end - begin) * UNITS);
    double sum = 0;
    for (size_t i = 0; i < WEIGHTS; i++) dp[i] = 0;
    for (size_t n = begin; n < end; n++)
        for (size_t u = 0; u < UNITS; u++) {
            const double h = hidden_of(p, n, u);
            const double off = output_of(p, u, h) - (double)targets[n][u], dy = 2 * each * off;
            const double dh = dy * (2 * p[W + u] * h + p[S]);
            sum += each * off * off;
            dp[W + u] += dy * h * h;
            dp[S] += dy * h;
            dp[B + u] += dh;
            for (size_t i = 0; i < INPUTS; i++) dp[K + i * UNITS + u] += dh * (double)samples[n][i];
        }
    return sum;
}

/* batch: samples of an update. */
static void train_by_hand(training *t, size_t batch) {
    double dp[WEIGHTS];
    size_t begin = 0;
    for (size_t i = 0; i < WEIGHTS; i++) t->weights[i] = (double)first[i];
    for (size_t step = 0; step < STEPS; step++, begin = begin + batch < SAMPLES ? begin + batch : 0) {
        t->losses[step] = loss_of(t->weights, begin, CLQ_MIN(begin + batch, (size_t)SAMPLES), dp);
        for (size_t i = 0; i < WEIGHTS; i++) t->weights[i] -= lr * dp[i];
    }
    for (size_t i = 0; i < SAMPLES * UNITS; i++)
        t->outputs[i / UNITS][i % UNITS] =
            output_of(t->weights, i % UNITS, hidden_of(t->weights, i / UNITS, i % UNITS));
}

/* ---- by a trainer ---- */

typedef struct way {
    const char *devices, *strategy;
    bool kernels; /* else an expression */
    uint64_t accumulate;
    clq_recompute_kind recompute;
    clq_precision precision;
    bool one_launch; /* steps are one, where they can be (support/apart.h) */
} way;

static clq_model *make_model(const way *how) {
    const clq_custom_operation operation = own_operation();
    clq_model *m;
    assert_ok(clq_model_create("own", &m));
    clq_tensor x = clq_dense(m, clq_input(m, CLQ_SHAPE(INPUTS)), &(clq_dense_config){.units = UNITS});
    if (how->kernels)
        x = clq_custom(m, &operation, &x, 1, NULL);
    else
        x = clq_expression(m, "w * x^2 + s * x", &x, 1,
                           &(clq_expression_config){.variables = {{.name = "w", .by_channel = true}, {.name = "s"}}});
    assert_ok(clq_model_finish(m, x));
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
    config.precision = how->precision;
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
    float weights[WEIGHTS], outputs[SAMPLES][UNITS];
    *t = (training){.made = 0};
    assert_ok(clq_dataset_arrays(samples, CLQ_F32, SAMPLES, 1, shape, targets, CLQ_F32, UNITS, &data));
    assert_ok(clq_dataset_batch(data, BATCH, false));
    assert_ok(clq_fit(trainer, data, &(clq_fit_config){.steps = STEPS, .context = t, .on_log = on_log}));
    assert_int_equal(t->made, STEPS);
    for (size_t v = 0; v + 1 < CLQ_COUNT_OF(places_of); v++)
        assert_ok(clq_trainer_get_variable(trainer, v, weights + places_of[v]));
    for (size_t i = 0; i < WEIGHTS; i++) t->weights[i] = (double)weights[i];
    assert_ok(clq_predict(trainer, data, &outputs[0][0]));
    for (size_t i = 0; i < SAMPLES * UNITS; i++)
        t->outputs[i / UNITS][i % UNITS] = (double)outputs[i / UNITS][i % UNITS];
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

static void check_near(const way *how, const char *what, size_t i, double got, double want, double tolerance) {
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%s, %s, %s: %s %zu is %.9g and not %.9g", how->devices, how->strategy,
                 how->kernels ? "kernels" : "expression", what, i, got, want);
}

static void check_way(const way *how) {
    const double tolerance = how->precision == CLQ_PRECISION_F32 ? 1e-5 : 1e-2;
    training got, want;
    train(how, &got);
    train_by_hand(&want, BATCH * (how->accumulate ? how->accumulate : 1));
    for (size_t s = 0; s < STEPS; s++)
        check_near(how, "the loss of step", s + 1, got.losses[s], want.losses[s], tolerance * want.losses[s]);
    for (size_t i = 0; i < WEIGHTS; i++) check_near(how, "weight", i, got.weights[i], want.weights[i], tolerance);
    for (size_t i = 0; i < SAMPLES * UNITS; i++)
        check_near(how, "output", i, got.outputs[i / UNITS][i % UNITS], want.outputs[i / UNITS][i % UNITS],
                   4 * tolerance);
}

static void each_strategy_trains_as_by_hand(void **state) {
    static const way ways[] = {
        {.devices = "pocl:0", .strategy = "auto"},
        {.devices = "pocl:0", .strategy = "auto", .one_launch = true},
        {.devices = "pocl:0", .strategy = "auto", .accumulate = ACCUMULATE},
        {.devices = "pocl:0", .strategy = "auto", .recompute = CLQ_RECOMPUTE_ALL},
        {.devices = "pocl:0", .strategy = "auto", .precision = CLQ_PRECISION_MIXED},
        {.devices = "pocl:0,pocl:1", .strategy = "auto", .one_launch = true},
        {.devices = "pocl:0,pocl:1", .strategy = "auto"},
        {.devices = "pocl:0,pocl:1", .strategy = "central"},
        {.devices = "pocl:0,pocl:1", .strategy = "ps"},
        {.devices = "pocl:0,pocl:1", .strategy = "pipeline"},
        {.devices = "pocl:0,pocl:1", .strategy = "tensor"},
    };
    (void)state;
    for (size_t i = 0; i < 2 * CLQ_COUNT_OF(ways); i++) {
        way how = ways[i / 2];
        how.kernels = i % 2;
        check_way(&how);
    }
}

/* A kernel that does not compile is told of when the trainer is made. */
static void what_does_not_compile_is_told_at_once(void **state) {
    clq_custom_operation operation = own_operation();
    clq_trainer_config config = apart_config();
    clq_trainer *trainer = NULL;
    clq_devices devices;
    clq_model *m;
    (void)state;
    operation.source = "kernel void parabola(int count) { nonsense; }\n";
    assert_ok(clq_model_create("own", &m));
    clq_tensor x = clq_input(m, CLQ_SHAPE(INPUTS));
    assert_ok(clq_model_finish(m, clq_custom(m, &operation, &x, 1, "mine")));
    config.loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    config.global_batch = BATCH;
    config.sample_dtype = CLQ_F32;
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_fails(CLQ_BUILD, "mine, forward: parabola.cl does not build on ",
                 clq_trainer_create(m, &devices, &config, &trainer));
    assert_non_null(strstr(clq_error_detail(), "nonsense"));
    assert_null(strchr(clq_error_detail(), '\n'));
    assert_null(trainer);
    clq_model_destroy(m);
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
                                       cmocka_unit_test(what_does_not_compile_is_told_at_once)};
    return cmocka_run_group_tests_name("train/own_layers", tests, start, close_system);
}
