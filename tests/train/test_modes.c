/* What training and inference do differently: batch statistics, which replicas keep each by itself or together, and
 * dropout, whose masks do not depend on how a batch is split. */
#include "graph/graph.h"
#include "strategy/module.h"
#include "support/apart.h"
#include "support/check.h"
#include "support/system.h"
#include "train/trainer.h"

#include <math.h>

enum { SAMPLES = 30, FEATURES = 4, CLASSES = 3, STEPS = 5 };

static float samples[SAMPLES * FEATURES];
static int32_t labels[SAMPLES];

static void make_data(void) {
    clq_random random = clq_random_start(3, 0);
    for (size_t i = 0; i < CLQ_COUNT_OF(samples); i++)
        samples[i] = (float)(clq_random_unit(&random) * 4 + (double)(i % FEATURES));
    for (size_t i = 0; i < SAMPLES; i++) labels[i] = (int32_t)clq_random_below(&random, CLASSES);
}

static clq_batch batch_of_all(void) {
    return (clq_batch){
        .count = SAMPLES, .samples = samples, .sample_elements = FEATURES, .sample_dtype = CLQ_F32, .labels = labels};
}

typedef clq_tensor (*builder)(clq_model *model, clq_tensor x);
static clq_tensor normalised(clq_model *m, clq_tensor x) {
    return clq_batch_norm(m, x, &(clq_batch_norm_config){.momentum = 0.75, .epsilon = 1e-3, .name = "norm"});
}
static clq_tensor synchronised(clq_model *m, clq_tensor x) {
    return clq_batch_norm(
        m, x, &(clq_batch_norm_config){.momentum = 0.75, .epsilon = 1e-3, .synchronized = true, .name = "norm"});
}
/* Batch normalization before and after layers with weights, so that backward goes through it; statistics over one place
 * and over several; with gamma and beta, and with neither. The layer before the third one has no bias: the statistics
 * would remove it, and its gradient would be nothing but rounding. */
static clq_tensor deep(clq_model *m, clq_tensor x, bool first, bool second) {
    x = clq_batch_norm(
        m, x, &(clq_batch_norm_config){.momentum = 0.75, .epsilon = 1e-3, .synchronized = first, .name = "norm"});
    x = clq_dense(m, x, &(clq_dense_config){.units = 6, .activation = CLQ_ACTIVATION_TANH});
    x = clq_batch_norm(
        m, x, &(clq_batch_norm_config){.momentum = 0.9, .epsilon = 1e-3, .synchronized = second, .name = "second"});
    x = clq_dense(m, clq_reshape(m, x, CLQ_SHAPE(3, 2), NULL), &(clq_dense_config){.units = 5, .no_bias = true});
    x = clq_batch_norm(m, x,
                       &(clq_batch_norm_config){.momentum = 0.6,
                                                .epsilon = 0.1,
                                                .no_center = true,
                                                .no_scale = true,
                                                .synchronized = first,
                                                .name = "third"});
    return clq_flatten(m, clq_activate(m, x, CLQ_ACTIVATION_SIGMOID, NULL), NULL);
}
static clq_tensor all_synchronised(clq_model *m, clq_tensor x) { return deep(m, x, true, true); }
static clq_tensor none_synchronised(clq_model *m, clq_tensor x) { return deep(m, x, false, false); }
static clq_tensor some_synchronised(clq_model *m, clq_tensor x) { return deep(m, x, true, false); }
static clq_tensor dropped(clq_model *m, clq_tensor x) {
    x = clq_dropout(m, x, &(clq_dropout_config){.rate = 0.4});
    x = clq_dense(m, x, &(clq_dense_config){.units = 17, .activation = CLQ_ACTIVATION_TANH});
    return clq_dropout(m, x, &(clq_dropout_config){.rate = 0.5});
}

static clq_model *build(builder middle) {
    clq_model *model;
    assert_ok(clq_model_create("modes", &model));
    clq_tensor x = middle(model, clq_input(model, CLQ_SHAPE(FEATURES)));
    assert_ok(clq_model_finish(
        model, clq_dense(model, x, &(clq_dense_config){.units = CLASSES, .activation = CLQ_ACTIVATION_SOFTMAX})));
    return model;
}

static clq_trainer_config config_of(void) {
    clq_trainer_config config = apart_config();
    config.global_batch = SAMPLES;
    config.sample_dtype = CLQ_F32;
    config.measure_gradient = true;
    config.seed = 11;
    return config;
}

static clq_trainer *open_trainer_of(const clq_model *model, const char *spec, const clq_trainer_config *config) {
    clq_devices devices;
    clq_trainer *trainer;
    assert_ok(clq_devices_select(sys, spec, &devices));
    assert_ok(clq_trainer_create(model, &devices, config, &trainer));
    return trainer;
}

static clq_trainer *open_trainer(const clq_model *model, const char *spec) {
    const clq_trainer_config config = config_of();
    return open_trainer_of(model, spec, &config);
}

static size_t find(const clq_model *model, const char *name) {
    for (size_t i = 0; i < clq_model_variable_count(model); i++) {
        clq_variable_info info;
        assert_ok(clq_model_variable(model, i, &info));
        if (strcmp(info.name, name) == 0) return i;
    }
    fail_msg("no variable %s", name);
    return 0;
}

static void step(clq_trainer *trainer) {
    const clq_batch batch = batch_of_all();
    assert_ok(clq_step(trainer, &batch));
}

/* ---- statistics ---- */

/* The expected moving statistics after `steps` steps on the same samples: the mean over `replicas` replicas, among
 * which the samples are split as the strategy does. */
static void moving_of(unsigned replicas, unsigned steps, double mean[FEATURES], double variance[FEATURES]) {
    size_t offsets[8], counts[8];
    clq_shares_split(SAMPLES, replicas, NULL, offsets, counts);
    for (size_t c = 0; c < FEATURES; c++) {
        const double kept = pow(0.75, steps);
        mean[c] = 0;
        variance[c] = kept;
        for (unsigned r = 0; r < replicas; r++) {
            double sum = 0, squares = 0, n = (double)counts[r];
            for (size_t i = offsets[r]; i < offsets[r] + counts[r]; i++) sum += (double)samples[i * FEATURES + c] / n;
            for (size_t i = offsets[r]; i < offsets[r] + counts[r]; i++)
                squares += pow((double)samples[i * FEATURES + c] - sum, 2) / n;
            mean[c] += (1 - kept) * sum / replicas;
            variance[c] += (1 - kept) * squares / replicas;
        }
    }
}

static void check_moving(clq_trainer *trainer, const clq_model *model, unsigned replicas, unsigned steps) {
    double mean[FEATURES], variance[FEATURES];
    float got[2][FEATURES];
    moving_of(replicas, steps, mean, variance);
    assert_ok(clq_trainer_get_variable(trainer, find(model, "norm/moving_mean"), got[0]));
    assert_ok(clq_trainer_get_variable(trainer, find(model, "norm/moving_variance"), got[1]));
    for (size_t c = 0; c < FEATURES; c++)
        if (!(fabs((double)got[0][c] - mean[c]) <= 2e-6 * fabs(mean[c]) &&
              fabs((double)got[1][c] - variance[c]) <= 2e-6 * variance[c]))
            fail_msg("%u replicas, %u steps: channel %zu is %.9g, %.9g, should be %.9g, %.9g", replicas, steps, c,
                     (double)got[0][c], (double)got[1][c], mean[c], variance[c]);
}

static void replicas_report_the_mean_of_their_statistics(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        unsigned replicas;
    } cases[] = {{"pocl:0", 1}, {"pocl:0,pocl:1", 2}, {"pocl:0,pocl:1,pocl:2", 3}};
    clq_model *model = build(normalised);
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        clq_trainer *often = open_trainer(model, cases[i].spec), *once = open_trainer(model, cases[i].spec);
        for (unsigned s = 1; s <= STEPS; s++) {
            step(often);
            step(once);
            check_moving(often, model, cases[i].replicas, s);
            check_moving(often, model, cases[i].replicas, s); /* reading changes nothing */
        }
        check_moving(once, model, cases[i].replicas, STEPS);
        float weights[2][FEATURES * CLASSES];
        assert_ok(clq_trainer_get_variable(often, find(model, "dense/kernel"), weights[0]));
        assert_ok(clq_trainer_get_variable(once, find(model, "dense/kernel"), weights[1]));
        assert_memory_equal(weights[0], weights[1], sizeof weights[0]);
        clq_trainer_destroy(often);
        clq_trainer_destroy(once);
    }
    clq_model_destroy(model);
}

/* A replica without samples since the last mean knows less than the others, or nothing, so the mean leaves it out. */
static void replicas_without_samples_have_no_part(void **state) {
    (void)state;
    static const double second_alone[] = {0, 1, 0};
    static const struct {
        const char *strategy, *spec;
        clq_strategy_options options;
        size_t samples; /* of a batch; one replica gets all of them */
    } cases[] = {{"mirrored",
                  "pocl:0,pocl:1,pocl:2",
                  {.shares = CLQ_SHARES_WEIGHTS, .share_count = 3, .share_weights = second_alone},
                  SAMPLES},
                 {"mirrored", "pocl:0,pocl:1,pocl:2", {.accumulate = 1}, 1},
                 {"central", "pocl:0,pocl:1", {.accumulate = 1}, 1},
                 {"ps", "pocl:0,pocl:1", {.staleness = 4}, SAMPLES},
                 {"pipeline:stages=2", "pocl:0,pocl:1,pocl:2,pocl:3", {.micro_batches = 1}, 1}};
    clq_model *model = build(normalised);
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        clq_trainer_config config = config_of();
        config.strategy_options = cases[i].options;
        assert_ok(clq_strategy_parse(cases[i].strategy, &config.strategy, &config.strategy_options));
        clq_trainer *trainer = open_trainer_of(model, cases[i].spec, &config);
        clq_batch batch = batch_of_all();
        batch.count = cases[i].samples;
        for (unsigned s = 1; s <= 2; s++) {
            float got[FEATURES];
            assert_ok(clq_step(trainer, &batch));
            assert_ok(clq_trainer_get_variable(trainer, find(model, "norm/moving_mean"), got));
            for (size_t c = 0; c < FEATURES; c++) {
                double want = 0;
                for (size_t k = 0; k < batch.count; k++)
                    want += (1 - pow(0.75, s)) * (double)samples[k * FEATURES + c] / (double)batch.count;
                if (!(fabs((double)got[c] - want) <= 2e-6 * fabs(want)))
                    fail_msg("%s %zu, step %u: channel %zu is %.9g, should be %.9g", cases[i].strategy, i, s, c,
                             (double)got[c], want);
            }
        }
        clq_trainer_destroy(trainer);
    }
    clq_model_destroy(model);
}

/* Also after a step: a value that was set is not averaged again. */
static void state_that_is_set_is_read(void **state) {
    (void)state;
    clq_model *model = build(normalised);
    clq_trainer *trainer = open_trainer(model, "pocl:0,pocl:1,pocl:2");
    const float set[FEATURES] = {0.1f, 1.7f, 3.3f, 5.9f};
    float got[FEATURES];
    step(trainer);
    assert_ok(clq_trainer_set_variable(trainer, find(model, "norm/moving_mean"), set));
    assert_ok(clq_trainer_get_variable(trainer, find(model, "norm/moving_mean"), got));
    assert_memory_equal(set, got, sizeof set);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

/* Several replicas evaluate as one replica does with the statistics that they report. */
static void evaluation_goes_by_the_mean(void **state) {
    (void)state;
    clq_model *model = build(normalised);
    clq_trainer *two = open_trainer(model, "pocl:0,pocl:1"), *one = open_trainer(model, "pocl:0");
    clq_dataset *data;
    clq_totals totals[2];
    assert_ok(clq_dataset_arrays(samples, CLQ_F32, SAMPLES, 1, (size_t[]){FEATURES}, labels, CLQ_I32, 1, &data));
    assert_ok(clq_dataset_batch(data, SAMPLES, false));
    for (unsigned s = 0; s < STEPS; s++) step(two);
    assert_ok(clq_evaluate(two, data, &totals[0]));
    for (size_t i = 0; i < clq_model_variable_count(model); i++) {
        clq_variable_info info;
        assert_ok(clq_model_variable(model, i, &info));
        float *values = clq_alloc(info.elements, sizeof *values);
        assert_ok(clq_trainer_get_variable(two, i, values));
        assert_ok(clq_trainer_set_variable(one, i, values));
        clq_free(values);
    }
    assert_ok(clq_evaluate(one, data, &totals[1]));
    assert_true(fabs(totals[0].loss / totals[1].loss - 1) < 1e-6);
    clq_dataset_destroy(data);
    clq_trainer_destroy(two);
    clq_trainer_destroy(one);
    clq_model_destroy(model);
}

/* ---- synchronized statistics ---- */

static const char *const several[] = {
    "pocl:0,pocl:1",
    "pocl:0,pocl:1,pocl:2",
    "pocl:5*2",
#if defined(__x86_64__)
    "pocl:0,intel,pocl:1",
#endif
};

/* They are those of the global batch. */
static void synchronised_statistics_are_of_the_global_batch(void **state) {
    (void)state;
    clq_model *model = build(synchronised);
    for (size_t i = 0; i < CLQ_COUNT_OF(several); i++) {
        clq_trainer *trainer = open_trainer(model, several[i]);
        for (unsigned s = 1; s <= STEPS; s++) {
            step(trainer);
            check_moving(trainer, model, 1, s);
        }
        clq_trainer_destroy(trainer);
    }
    clq_model_destroy(model);
}

enum { FLOATS_MOST = 1024, TRAINED = 20 };
typedef struct run {
    double losses[TRAINED], norms[TRAINED];
    float state[CLQ_REPLICAS_MAX][FLOATS_MOST];
    float gradient[FLOATS_MOST], weights[FLOATS_MOST]; /* after the first step; at the end, with moving statistics */
    size_t state_bytes, gradient_floats, floats;
} run;

/* Batches whose shares are unequal, and some of whose shares are empty. */
static clq_batch ragged(unsigned s) {
    static const size_t counts[] = {SAMPLES, 7, 2, 1, 23};
    clq_batch batch = batch_of_all();
    batch.count = counts[s % CLQ_COUNT_OF(counts)];
    return batch;
}

static void keep_gradient(clq_trainer *trainer, const clq_model *model, run *r) {
    for (size_t v = 0; v < clq_model_variable_count(model); v++) {
        if (model->variables[v].role == CLQ_ROLE_STATE) continue;
        assert_true(r->gradient_floats + model->variables[v].elements <= FLOATS_MOST);
        assert_ok(clq_trainer_get_gradient(trainer, 0, v, r->gradient + r->gradient_floats));
        r->gradient_floats += model->variables[v].elements;
    }
}

/* by_hand: makes the step in its parts. often: reads the state after each step. */
static void train(const clq_model *model, const char *spec, bool by_hand, bool often, run *r) {
    clq_trainer *trainer = open_trainer(model, spec);
    *r = (run){.state_bytes = clq_weights_arena_bytes(trainer->strategy->replicas[0].weights, CLQ_ARENA_STATE)};
    assert_true(r->state_bytes <= sizeof r->state[0]);
    for (unsigned s = 0; s < TRAINED; s++) {
        const clq_batch batch = ragged(s);
        clq_step_info info;
        if (by_hand) {
            assert_ok(clq_step_gradients(trainer, &batch));
            assert_ok(clq_step_reduce(trainer));
            assert_ok(clq_step_apply(trainer));
        } else {
            assert_ok(clq_step(trainer, &batch));
        }
        assert_ok(clq_step_read(trainer, &info));
        r->losses[s] = info.loss;
        r->norms[s] = info.grad_norm;
        if (s == 0) keep_gradient(trainer, model, r);
        for (unsigned k = 0; k < clq_trainer_replicas(trainer) && (often || s + 1 == TRAINED); k++)
            assert_ok(clq_strategy_read(trainer->strategy, k, CLQ_ARENA_STATE, 0, r->state[k], r->state_bytes));
    }
    for (size_t v = 0; v < clq_model_variable_count(model); v++) {
        assert_true(r->floats + model->variables[v].elements <= FLOATS_MOST);
        assert_ok(clq_trainer_get_variable(trainer, v, r->weights + r->floats));
        r->floats += model->variables[v].elements;
    }
    for (unsigned k = 1; k < clq_trainer_replicas(trainer); k++)
        assert_memory_equal(r->state[k], r->state[0], r->state_bytes);
    clq_trainer_destroy(trainer);
}

static void assert_same_run(const run *a, const run *b) {
    assert_memory_equal(a->losses, b->losses, sizeof a->losses);
    assert_memory_equal(a->norms, b->norms, sizeof a->norms);
    assert_int_equal(a->floats, b->floats);
    assert_memory_equal(a->weights, b->weights, a->floats * sizeof *a->weights);
}

static double distance(const float *a, const float *b, size_t count) {
    double apart = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        apart += pow((double)a[i] - (double)b[i], 2);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(apart / size);
}

/* Decision 044. (train has checked that the statistics of all replicas are the same bits.) */
static void assert_equal_to_one(const char *spec, const clq_model *model, const run *got, const run *one) {
    for (unsigned s = 0; s < TRAINED; s++)
        if (!(fabs(got->losses[s] / one->losses[s] - 1) <= 1e-5))
            fail_msg("%s, step %u: loss %.9g, on one device %.9g", spec, s, got->losses[s], one->losses[s]);
    if (!(distance(got->gradient, one->gradient, one->gradient_floats) <= 1e-6))
        fail_msg("%s: the first gradient is %.2g away", spec,
                 distance(got->gradient, one->gradient, one->gradient_floats));
    for (size_t v = 0, at = 0; v < clq_model_variable_count(model); at += model->variables[v++].elements) {
        const double apart = distance(got->weights + at, one->weights + at, model->variables[v].elements);
        if (!(apart <= 2e-5)) fail_msg("%s: %s is %.2g away", spec, model->variables[v].name, apart);
    }
}

static void synchronised_replicas_train_as_one(void **state) {
    (void)state;
    static run one, got, again;
    clq_model *model = build(all_synchronised);
    train(model, "pocl:0", false, false, &one);
    for (size_t i = 0; i < CLQ_COUNT_OF(several); i++) {
        train(model, several[i], false, false, &got);
        assert_equal_to_one(several[i], model, &got, &one);
        train(model, several[i], true, false, &again);
        assert_same_run(&again, &got);
    }
    clq_model_destroy(model);
}

/* If each replica uses its own statistics, the training is a different one. */
static void statistics_of_each_replica_are_others(void **state) {
    (void)state;
    static run together, each, one, alone;
    clq_model *models[] = {build(all_synchronised), build(none_synchronised)};
    train(models[0], "pocl:0,pocl:1", false, false, &together);
    train(models[1], "pocl:0,pocl:1", false, false, &each);
    assert_true(fabs(together.losses[0] / each.losses[0] - 1) > 1e-4);
    /* With one replica there is no difference. */
    train(models[0], "pocl:0", false, false, &one);
    train(models[1], "pocl:0", false, false, &alone);
    assert_same_run(&one, &alone);
    for (size_t i = 0; i < CLQ_COUNT_OF(models); i++) clq_model_destroy(models[i]);
}

/* Reading averages unsynchronized statistics, and must leave synchronized ones alone: three times a float, divided by
 * three, is not always that float. */
static void reading_leaves_synchronised_statistics(void **state) {
    (void)state;
    static run often, once;
    clq_model *model = build(some_synchronised);
    train(model, "pocl:0,pocl:1,pocl:2", false, true, &often);
    train(model, "pocl:0,pocl:1,pocl:2", false, false, &once);
    size_t at = 0, compared = 0;
    for (size_t v = 0; v < clq_model_variable_count(model); at += model->variables[v++].elements) {
        const clq_variable *variable = &model->variables[v];
        if (variable->role == CLQ_ROLE_STATE && !variable->synchronized) continue;
        assert_memory_equal(often.weights + at, once.weights + at, variable->elements * sizeof(float));
        compared += variable->role == CLQ_ROLE_STATE;
    }
    assert_int_equal(compared, 4);
    clq_model_destroy(model);
}

/* For benchmarks: replicas that are set apart do not wait for each other, and each has its own statistics. */
static void apart_replicas_do_not_exchange(void **state) {
    (void)state;
    clq_model *model = build(synchronised);
    clq_trainer *trainer = open_trainer(model, "pocl:0,pocl:1");
    float means[2][FEATURES];
    assert_ok(clq_strategy_set_apart(trainer->strategy, true));
    step(trainer);
    for (unsigned r = 0; r < 2; r++)
        assert_ok(clq_strategy_read(
            trainer->strategy, r, CLQ_ARENA_STATE,
            clq_weights_offset(trainer->strategy->replicas[r].weights, find(model, "norm/moving_mean")), means[r],
            sizeof means[r]));
    for (unsigned r = 0; r < 2; r++)
        for (size_t c = 0; c < FEATURES; c++) {
            double mean = 0;
            for (size_t i = 0; i < SAMPLES / 2; i++)
                mean += (double)samples[(i + r * SAMPLES / 2) * FEATURES + c] / (SAMPLES / 2);
            assert_true(fabs((double)means[r][c] - 0.25 * mean) < 1e-6 * mean);
        }
    assert_ok(clq_strategy_set_apart(trainer->strategy, false));
    step(trainer);
    assert_ok(clq_trainer_wait(trainer));
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

/* ---- dropout ---- */

/* Losses and gradients of a global batch do not depend on how many replicas share it. A different mask in one place
 * would change them by a hundredth. */
static void masks_do_not_depend_on_the_split(void **state) {
    (void)state;
    static const char *const specs[] = {"pocl:0", "pocl:0,pocl:1", "pocl:0,pocl:1,intel",
                                        "pocl:0,pocl:1,pocl:2,pocl:3,pocl:4"};
    clq_model *model = build(dropped);
    clq_step_info first[STEPS];
    for (size_t i = 0; i < CLQ_COUNT_OF(specs); i++) {
        clq_trainer *trainer = open_trainer(model, specs[i]);
        for (unsigned s = 0; s < STEPS; s++) {
            clq_step_info info;
            step(trainer);
            assert_ok(clq_step_read(trainer, &info));
            if (i == 0) first[s] = info;
            if (!(fabs(info.loss / first[s].loss - 1) < 1e-5 && fabs(info.grad_norm / first[s].grad_norm - 1) < 1e-4))
                fail_msg("%s, step %u: loss %.9g and gradient %.9g, on one device %.9g and %.9g", specs[i], s,
                         info.loss, info.grad_norm, first[s].loss, first[s].grad_norm);
        }
        clq_trainer_destroy(trainer);
    }
    assert_true(fabs(first[0].loss / first[1].loss - 1) > 1e-3); /* other steps have other masks */
    clq_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(replicas_report_the_mean_of_their_statistics),
                                       cmocka_unit_test(evaluation_goes_by_the_mean),
                                       cmocka_unit_test(masks_do_not_depend_on_the_split),
                                       cmocka_unit_test(replicas_without_samples_have_no_part),
                                       cmocka_unit_test(state_that_is_set_is_read),
                                       cmocka_unit_test(synchronised_statistics_are_of_the_global_batch),
                                       cmocka_unit_test(synchronised_replicas_train_as_one),
                                       cmocka_unit_test(statistics_of_each_replica_are_others),
                                       cmocka_unit_test(reading_leaves_synchronised_statistics),
                                       cmocka_unit_test(apart_replicas_do_not_exchange)};
    make_data();
    return cmocka_run_group_tests_name("train/modes", tests, open_system, close_system);
}
