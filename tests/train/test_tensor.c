/* Replicas that split the weights. What they hold whole has the same bits on all replicas, even if their compilers
 * differ. What is read, written and saved is the whole model's. test_strategies.c tests that they equal one replica. */
#include "graph/graph.h"
#include "strategy/module.h"
#include "support/apart.h"
#include "support/check.h"
#include "support/system.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

enum { SAMPLES = 12, FEATURES = 7, HIDDEN = 9, CLASSES = 3, STEPS = 6, ELEMENTS_MOST = FEATURES * HIDDEN };

static float samples[SAMPLES * FEATURES];
static int32_t labels[SAMPLES];

static void make_data(void) {
    clq_random random = clq_random_start(5, 0);
    for (size_t i = 0; i < CLQ_COUNT_OF(samples); i++) samples[i] = (float)(clq_random_unit(&random) * 2 - 1);
    for (size_t i = 0; i < SAMPLES; i++) labels[i] = (int32_t)clq_random_below(&random, CLASSES);
}

/* A normalization and a layer that stay whole, and a split pair of layers with dropout in between. */
static clq_model *build(void) {
    clq_model *m;
    assert_ok(clq_model_create("split", &m));
    clq_tensor x = clq_input(m, CLQ_SHAPE(FEATURES));
    x = clq_batch_norm(m, x, NULL);
    x = clq_dense(m, x, &(clq_dense_config){.units = HIDDEN, .activation = CLQ_ACTIVATION_TANH});
    x = clq_dropout(m, x, &(clq_dropout_config){.rate = 0.3});
    x = clq_dense(m, x, &(clq_dense_config){.units = 5, .activation = CLQ_ACTIVATION_SIGMOID});
    assert_ok(clq_model_finish(
        m, clq_dense(m, x, &(clq_dense_config){.units = CLASSES, .activation = CLQ_ACTIVATION_SOFTMAX})));
    return m;
}

static clq_trainer *open_trainer(const clq_model *model, clq_strategy_kind kind, const char *spec) {
    clq_devices devices;
    clq_trainer *trainer;
    clq_trainer_config config = apart_config();
    config.strategy = kind;
    config.global_batch = SAMPLES;
    config.sample_dtype = CLQ_F32;
    config.measure_gradient = true;
    config.seed = 3;
    assert_ok(clq_devices_select(sys, spec, &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    return trainer;
}

static clq_step_info step(clq_trainer *trainer, size_t count, bool by_hand) {
    const clq_batch batch = {
        .count = count, .samples = samples, .sample_elements = FEATURES, .sample_dtype = CLQ_F32, .labels = labels};
    clq_step_info info;
    if (by_hand) {
        assert_ok(clq_step_gradients(trainer, &batch));
        assert_ok(clq_step_reduce(trainer));
        assert_ok(clq_step_apply(trainer));
    } else {
        assert_ok(clq_step(trainer, &batch));
    }
    assert_ok(clq_step_read(trainer, &info));
    return info;
}

/* Accumulates a batch before a step, whose update is then made by both batches. */
static void accumulate(clq_trainer *trainer) {
    const clq_batch batch = {.count = 7,
                             .samples = samples + 5 * FEATURES,
                             .sample_elements = FEATURES,
                             .sample_dtype = CLQ_F32,
                             .labels = labels + 5};
    assert_ok(clq_step_accumulate(trainer, &batch));
}

/* ---- what is whole ---- */

static void check_arena(clq_trainer *trainer, clq_arena arena, size_t bytes) {
    float *first = clq_alloc(2 * bytes, 1), *other = first + clq_values_count(CLQ_F32, bytes);
    assert_non_null(first);
    assert_ok(clq_strategy_read(trainer->strategy, 0, arena, 0, first, bytes));
    for (unsigned r = 1; r < clq_trainer_replicas(trainer); r++) {
        assert_ok(clq_strategy_read(trainer->strategy, r, arena, 0, other, bytes));
        assert_memory_equal(other, first, bytes);
    }
    clq_free(first);
}

static void what_is_whole_stays_alike(void **state) {
    (void)state;
    static const char *const specs[] = {
        "pocl:0,pocl:1,pocl:2",
        "pocl:0,pocl:5",
#if defined(__x86_64__)
        "intel,pocl:0,pocl:1"
#endif
    };
    clq_model *model = build();
    for (size_t i = 0; i < CLQ_COUNT_OF(specs); i++) {
        clq_trainer *trainer = open_trainer(model, CLQ_STRATEGY_TENSOR, specs[i]);
        const clq_weights *weights = trainer->strategy->replicas[0].weights;
        const size_t whole = clq_weights_whole_bytes(weights);
        for (size_t s = 0; s < STEPS; s++) (void)step(trainer, SAMPLES - s, s % 2);
        assert_true(whole > 0 && whole < clq_weights_arena_bytes(weights, CLQ_ARENA_PARAMETERS));
        check_arena(trainer, CLQ_ARENA_PARAMETERS, whole);
        check_arena(trainer, CLQ_ARENA_STATE, clq_weights_arena_bytes(weights, CLQ_ARENA_STATE));
        clq_trainer_destroy(trainer);
    }
    clq_model_destroy(model);
}

/* ---- against one replica ---- */

static void get_all(clq_trainer *trainer, const clq_model *model, float values[][ELEMENTS_MOST]) {
    for (uint32_t v = 0; v < model->variable_count; v++) assert_ok(clq_trainer_get_variable(trainer, v, values[v]));
}

static void assert_near(double got, double want, const char *what) {
    if (!(fabs(got - want) <= 2e-6 * fabs(want))) fail_msg("%s is %.9g, and of one replica %.9g", what, got, want);
}

/* Also with batches of fewer samples than replicas, with an update of two batches, and with steps in parts. */
static void losses_and_norms_are_those_of_one(void **state) {
    (void)state;
    clq_model *model = build();
    clq_trainer *one = open_trainer(model, CLQ_STRATEGY_SINGLE, "pocl:0"),
                *alone = open_trainer(model, CLQ_STRATEGY_TENSOR, "pocl:0"),
                *two = open_trainer(model, CLQ_STRATEGY_TENSOR, "pocl:0,pocl:1"),
                *parts = open_trainer(model, CLQ_STRATEGY_TENSOR, "pocl:0,pocl:1");
    static const size_t counts[] = {SAMPLES, 5, 1, SAMPLES};
    clq_trainer *const all[] = {one, alone, two, parts};
    for (size_t s = 0; s < CLQ_COUNT_OF(counts); s++) {
        for (size_t i = 0; i < CLQ_COUNT_OF(all) && s == 1; i++) accumulate(all[i]);
        const clq_step_info w = step(one, counts[s], false), a = step(alone, counts[s], false),
                            t = step(two, counts[s], false), p = step(parts, counts[s], true);
        assert_true(a.loss == w.loss && a.grad_norm == w.grad_norm);
        assert_true(p.loss == t.loss && p.grad_norm == t.grad_norm);
        assert_near(t.loss, w.loss, "the loss");
        assert_near(t.grad_norm, w.grad_norm, "the gradient's norm");
    }
    clq_trainer_destroy(one);
    clq_trainer_destroy(alone);
    clq_trainer_destroy(two);
    clq_trainer_destroy(parts);
    clq_model_destroy(model);
}

/* ---- variables and files ---- */

static void variables_are_whole(void **state) {
    (void)state;
    enum { VARIABLES = 10 };
    static float first[VARIABLES][ELEMENTS_MOST], got[VARIABLES][ELEMENTS_MOST], other[VARIABLES][ELEMENTS_MOST];
    char path[128];
    clq_model *model = build();
    assert_int_equal(model->variable_count, VARIABLES);
    clq_trainer *two = open_trainer(model, CLQ_STRATEGY_TENSOR, "pocl:0,pocl:1"),
                *one = open_trainer(model, CLQ_STRATEGY_SINGLE, "pocl:0");
    get_all(two, model, got);
    get_all(one, model, first);
    assert_memory_equal(got, first, sizeof got); /* initial values */
    for (uint32_t v = 0; v < VARIABLES; v++) {
        for (size_t i = 0; i < model->variables[v].elements; i++) first[v][i] = (float)(i + 1) / (float)(v + 40);
        assert_ok(clq_trainer_set_variable(two, v, first[v]));
    }
    get_all(two, model, got);
    assert_memory_equal(got, first, sizeof got);
    (void)step(two, SAMPLES, false);
    get_all(two, model, got);
    assert_int_not_equal(memcmp(got, first, sizeof got), 0);
    (void)snprintf(path, sizeof path, "%s/tensor_%d.safetensors", getenv("CLQ_TEST_BINARY"), (int)getpid());
    assert_ok(clq_trainer_save(two, path));
    assert_ok(clq_trainer_load(one, path)); /* a file of the whole model, for any strategy */
    get_all(one, model, other);
    assert_memory_equal(other, got, sizeof got);
    (void)step(two, SAMPLES, false);
    assert_ok(clq_trainer_load(two, path));
    get_all(two, model, other);
    assert_memory_equal(other, got, sizeof got);
    assert_int_equal(unlink(path), 0);
    clq_trainer_destroy(two);
    clq_trainer_destroy(one);
    clq_model_destroy(model);
}

/* The first step's gradient is that of one replica within rounding, whichever replica is asked. */
static void gradients_are_whole(void **state) {
    (void)state;
    clq_model *model = build();
    clq_trainer *two = open_trainer(model, CLQ_STRATEGY_TENSOR, "pocl:0,pocl:1"),
                *one = open_trainer(model, CLQ_STRATEGY_SINGLE, "pocl:0");
    (void)step(two, SAMPLES, false);
    (void)step(one, SAMPLES, false);
    for (uint32_t v = 0; v < model->variable_count; v++) {
        float want[ELEMENTS_MOST], got[ELEMENTS_MOST];
        double apart = 0, size = 0;
        if (model->variables[v].role == CLQ_ROLE_STATE) continue;
        assert_ok(clq_trainer_get_gradient(one, 0, v, want));
        for (unsigned r = 0; r < 2; r++) {
            assert_ok(clq_trainer_get_gradient(two, r, v, got));
            for (size_t i = 0; i < model->variables[v].elements; i++) {
                apart += pow((double)got[i] - (double)want[i], 2);
                size += pow((double)want[i], 2);
            }
        }
        assert_true(size > 0 && sqrt(apart / size) <= 2e-6);
    }
    clq_trainer_destroy(two);
    clq_trainer_destroy(one);
    clq_model_destroy(model);
}

static int start(void **state) {
    make_data();
    return open_system(state);
}

/* ---- statistics ---- */

/* All replicas compute statistics of the whole batch. So a snapshot has none of a single replica's own, and no mean is
 * taken, which could change the bits of three equal values. */
static void statistics_are_those_of_all(void **state) {
    (void)state;
    clq_model *model = build();
    clq_trainer *looked_at = open_trainer(model, CLQ_STRATEGY_TENSOR, "pocl:0,pocl:1,pocl:2");
    clq_trainer *left_alone = open_trainer(model, CLQ_STRATEGY_TENSOR, "pocl:0,pocl:1,pocl:2");
    float values[2][FEATURES];
    for (size_t i = 0; i < STEPS; i++) {
        clq_snapshot snapshot;
        (void)step(looked_at, SAMPLES, false);
        (void)step(left_alone, SAMPLES, false);
        assert_ok(clq_strategy_take_snapshot(looked_at->strategy, false, &snapshot));
        assert_false(snapshot.state_apart);
        for (size_t e = 0; e < snapshot.count; e++)
            if (model->variables[snapshot.entries[e].variable].role == CLQ_ROLE_STATE)
                assert_int_equal(snapshot.entries[e].replica, -1);
        clq_snapshot_release(&snapshot);
    }
    for (size_t v = 0; v < model->variable_count; v++) {
        if (model->variables[v].role != CLQ_ROLE_STATE) continue;
        assert_ok(clq_strategy_read_variable(looked_at->strategy, 2, v, false, values[0]));
        assert_ok(clq_strategy_read_variable(left_alone->strategy, 2, v, false, values[1]));
        assert_memory_equal(values[0], values[1], sizeof values[0]);
    }
    clq_trainer_destroy(looked_at);
    clq_trainer_destroy(left_alone);
    clq_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_whole_stays_alike),
                                       cmocka_unit_test(losses_and_norms_are_those_of_one),
                                       cmocka_unit_test(variables_are_whole), cmocka_unit_test(gradients_are_whole),
                                       cmocka_unit_test(statistics_are_those_of_all)};
    return cmocka_run_group_tests_name("train/tensor", tests, start, close_system);
}
