/* Layers that stop or scale the gradient, over whole trainings. Losses and weights are those of a training by hand in
 * double, with each strategy. Weights that no gradient reaches stay as they are. */
#include "support/by_hand.h"

enum { W = 0, B = W + INPUTS * UNITS, V = B + UNITS, C = V + UNITS * UNITS, WEIGHTS = C + UNITS };

static const size_t places_of[] = {W, B, V, C, WEIGHTS};
static float first[WEIGHTS];

/* ---- by hand ---- */

typedef struct training {
    hand_log log;
    double weights[WEIGHTS];
} training;

/* Gives the mean squared error of (x W + b) V + c over samples [begin, end). `factor` times the gradient reaches W and
 * b. */
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

/* batch: the samples of each update. */
static void train_by_hand(training *t, double factor, size_t batch) {
    double dw[WEIGHTS];
    size_t begin = 0;
    for (size_t i = 0; i < WEIGHTS; i++) t->weights[i] = (double)first[i];
    for (size_t step = 0; step < STEPS; step++, begin = hand_next(begin, batch)) {
        t->log.losses[step] = loss_of(t->weights, factor, begin, CLQ_MIN(begin + batch, (size_t)SAMPLES), dw);
        for (size_t i = 0; i < WEIGHTS; i++) t->weights[i] -= lr * dw[i];
    }
}

/* ---- by a trainer ---- */

static clq_model *make_model(double factor) {
    clq_model *m;
    assert_ok(clq_model_create("flow", &m));
    clq_tensor x = clq_dense(m, clq_input(m, CLQ_SHAPE(INPUTS)), &(clq_dense_config){.units = UNITS});
    clq_tensor y = factor == 0 ? clq_stop_gradient(m, x, NULL) : clq_gradient_scale(m, x, factor, NULL);
    assert_ok(clq_model_finish(m, clq_dense(m, y, &(clq_dense_config){.units = UNITS})));
    return m;
}

/* factor 0: the gradient is stopped. */
static void check_way(const hand_way *how, double factor) {
    const char *of = factor == 0 ? "stopped" : "scaled";
    clq_model *model = make_model(factor);
    clq_trainer *trainer = hand_open(how, model, first, places_of);
    training got, want;
    clq_dataset *data = hand_fit(trainer, clq_model_variable_count(model), places_of, &got.log, got.weights);
    train_by_hand(&want, factor, hand_batch(how));
    for (size_t s = 0; s < STEPS; s++)
        hand_check(how, of, "the loss of step", s + 1, got.log.losses[s], want.log.losses[s],
                   1e-5 * want.log.losses[s]);
    for (size_t i = 0; i < WEIGHTS; i++) hand_check(how, of, "weight", i, got.weights[i], want.weights[i], 1e-5);
    for (size_t i = 0; i < V && factor == 0; i++) hand_check(how, of, "weight", i, got.weights[i], (double)first[i], 0);
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

static void each_strategy_trains_as_by_hand(void **state) {
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(hand_ways); i++) {
        if (hand_ways[i].precision != CLQ_PRECISION_F32) continue; /* train/own_layers has mixed precision */
        check_way(&hand_ways[i], 0);
        check_way(&hand_ways[i], -0.5);
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
        assert_fails(CLQ_ERROR_ARGUMENT, "layer 'gradient_scale': factor ",
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
    hand_draw(first, WEIGHTS);
    return open_system(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_strategy_trains_as_by_hand),
                                       cmocka_unit_test(nonsense_is_refused),
                                       cmocka_unit_test(models_run_out_of_memory)};
    return cmocka_run_group_tests_name("train/gradient_flow", tests, start, close_system);
}
