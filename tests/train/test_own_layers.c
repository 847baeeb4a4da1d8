/* A program's own layers, an expression and an operation with kernels, over whole trainings. Losses and weights are
 * those of a training by hand in double, with each strategy, with recomputation, and in mixed precision. */
#include "support/by_hand.h"
#include "support/own_operation.h"

enum { K = 0, B = K + INPUTS * UNITS, W = B + UNITS, S = W + UNITS, WEIGHTS = S + 1 };

static const size_t places_of[] = {K, B, W, S, WEIGHTS};
static float first[WEIGHTS];

/* ---- by hand ---- */

typedef struct training {
    hand_log log;
    double weights[WEIGHTS], outputs[SAMPLES][UNITS]; /* outputs: with the final weights */
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

/* batch: the samples of each update. */
static void train_by_hand(training *t, size_t batch) {
    double dp[WEIGHTS];
    size_t begin = 0;
    for (size_t i = 0; i < WEIGHTS; i++) t->weights[i] = (double)first[i];
    for (size_t step = 0; step < STEPS; step++, begin = hand_next(begin, batch)) {
        t->log.losses[step] = loss_of(t->weights, begin, CLQ_MIN(begin + batch, (size_t)SAMPLES), dp);
        for (size_t i = 0; i < WEIGHTS; i++) t->weights[i] -= lr * dp[i];
    }
    for (size_t i = 0; i < SAMPLES * UNITS; i++)
        t->outputs[i / UNITS][i % UNITS] =
            output_of(t->weights, i % UNITS, hidden_of(t->weights, i / UNITS, i % UNITS));
}

/* ---- by a trainer ---- */

/* kernels: makes an operation with kernels. Otherwise makes an expression. */
static clq_model *make_model(bool kernels) {
    const clq_custom_operation operation = own_operation();
    clq_model *m;
    assert_ok(clq_model_create("own", &m));
    clq_tensor x = clq_dense(m, clq_input(m, CLQ_SHAPE(INPUTS)), &(clq_dense_config){.units = UNITS});
    if (kernels)
        x = clq_custom(m, &operation, &x, 1, NULL);
    else
        x = clq_expression(m, "w * x^2 + s * x", &x, 1,
                           &(clq_expression_config){.variables = {{.name = "w", .by_channel = true}, {.name = "s"}}});
    assert_ok(clq_model_finish(m, x));
    return m;
}

static void check_way(const hand_way *how, bool kernels) {
    const char *of = kernels ? "kernels" : "expression";
    const double tolerance = how->precision == CLQ_PRECISION_F32 ? 1e-5 : 1e-2;
    clq_model *model = make_model(kernels);
    clq_trainer *trainer = hand_open(how, model, first, places_of);
    training got, want;
    float outputs[SAMPLES][UNITS];
    clq_dataset *data = hand_fit(trainer, clq_model_variable_count(model), places_of, &got.log, got.weights);
    assert_ok(clq_predict(trainer, data, &outputs[0][0]));
    train_by_hand(&want, hand_batch(how));
    for (size_t s = 0; s < STEPS; s++)
        hand_check(how, of, "the loss of step", s + 1, got.log.losses[s], want.log.losses[s],
                   tolerance * want.log.losses[s]);
    for (size_t i = 0; i < WEIGHTS; i++) hand_check(how, of, "weight", i, got.weights[i], want.weights[i], tolerance);
    for (size_t i = 0; i < SAMPLES * UNITS; i++)
        hand_check(how, of, "output", i, (double)outputs[i / UNITS][i % UNITS], want.outputs[i / UNITS][i % UNITS],
                   4 * tolerance);
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

static void each_strategy_trains_as_by_hand(void **state) {
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(hand_ways); i++) {
        check_way(&hand_ways[i], false);
        check_way(&hand_ways[i], true);
    }
}

/* x^0 is 1 everywhere and its derivative is 0, also at 0: all weights are 0 at first, and so is x. */
static void to_the_power_of_zero(void **state) {
    static const char *const texts[] = {"x + x^0", "x + 1"};
    static const float zeros[WEIGHTS];
    training got[CLQ_COUNT_OF(texts)];
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(texts); i++) {
        clq_model *m;
        assert_ok(clq_model_create("power", &m));
        clq_tensor x = clq_dense(m, clq_input(m, CLQ_SHAPE(INPUTS)), &(clq_dense_config){.units = UNITS});
        assert_ok(clq_model_finish(m, clq_expression(m, texts[i], &x, 1, NULL)));
        clq_trainer *trainer = hand_open(&hand_ways[0], m, zeros, places_of);
        clq_dataset_destroy(hand_fit(trainer, clq_model_variable_count(m), places_of, &got[i].log, got[i].weights));
        clq_trainer_destroy(trainer);
        clq_model_destroy(m);
    }
    for (size_t s = 0; s < STEPS; s++)
        hand_check(&hand_ways[0], texts[0], "the loss of step", s + 1, got[0].log.losses[s], got[1].log.losses[s],
                   1e-6 * got[1].log.losses[s]);
    for (size_t i = 0; i < W; i++)
        hand_check(&hand_ways[0], texts[0], "weight", i, got[0].weights[i], got[1].weights[i], 1e-6);
}

/* If a kernel does not compile, making the trainer fails and says so. */
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
    assert_fails(CLQ_ERROR_BUILD, "mine, forward: parabola.cl does not build on ",
                 clq_trainer_create(m, &devices, &config, &trainer));
    assert_non_null(strstr(clq_error_detail(), "nonsense"));
    assert_null(strchr(clq_error_detail(), '\n'));
    assert_null(trainer);
    clq_model_destroy(m);
}

static int start(void **state) {
    hand_draw(first, WEIGHTS);
    return open_system(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_strategy_trains_as_by_hand),
                                       cmocka_unit_test(to_the_power_of_zero),
                                       cmocka_unit_test(what_does_not_compile_is_told_at_once)};
    return cmocka_run_group_tests_name("train/own_layers", tests, start, close_system);
}
