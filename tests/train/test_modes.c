/* What training and use of a model do differently: statistics of batches, which replicas keep up each by itself, and
 * dropout, which no split of a batch changes. */
#include "graph/graph.h"
#include "support/check.h"
#include "support/system.h"
#include "train/train.h"

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
    return clq_batch_norm(m, x, &(clq_batch_norm_config){.momentum = 0.75, .synchronized = true, .name = "norm"});
}
static clq_tensor dropped(clq_model *m, clq_tensor x) {
    x = clq_dropout(m, x, &(clq_dropout_config){.rate = 0.4});
    x = clq_dense(m, x, &(clq_dense_config){.units = 17, .activation = CLQ_TANH});
    return clq_dropout(m, x, &(clq_dropout_config){.rate = 0.5});
}

static clq_model *build(builder middle) {
    clq_model *model;
    assert_ok(clq_model_create("modes", &model));
    clq_tensor x = middle(model, clq_input(model, CLQ_SHAPE(FEATURES)));
    assert_ok(
        clq_model_finish(model, clq_dense(model, x, &(clq_dense_config){.units = CLASSES, .activation = CLQ_SOFTMAX})));
    return model;
}

static clq_trainer *open_trainer(const clq_model *model, const char *spec) {
    clq_devices devices;
    clq_trainer *trainer;
    assert_ok(clq_devices_select(sys, spec, &devices));
    clq_trainer_config config = clq_trainer_config_default();
    config.global_batch = SAMPLES;
    config.sample_dtype = CLQ_F32;
    config.measure_gradient = true;
    config.seed = 11;
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    return trainer;
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

/* After so many steps over the same samples: the mean over `replicas`, whose parts are as the strategy splits them. */
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

/* Behind a step, too: what was written is not averaged again. */
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

/* Several replicas evaluate as one does with what they report. */
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

static void synchronised_statistics_need_one_replica(void **state) {
    (void)state;
    clq_model *model = build(synchronised);
    clq_trainer_destroy(open_trainer(model, "pocl:0"));
    clq_devices devices;
    clq_trainer *trainer;
    clq_trainer_config config = clq_trainer_config_default();
    config.sample_dtype = CLQ_F32;
    assert_ok(clq_devices_select(sys, "pocl:0,pocl:1", &devices));
    assert_fails(CLQ_UNSUPPORTED, "layer 'norm': synchronized statistics on several replicas",
                 clq_trainer_create(model, &devices, &config, &trainer));
    clq_model_destroy(model);
}

/* ---- dropout ---- */

/* Losses and gradients of the same global batch, however many replicas share it. Another mask in one place would change
 * them by a hundredth. */
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_report_the_mean_of_their_statistics), cmocka_unit_test(evaluation_goes_by_the_mean),
        cmocka_unit_test(synchronised_statistics_need_one_replica), cmocka_unit_test(masks_do_not_depend_on_the_split),
        cmocka_unit_test(state_that_is_set_is_read)};
    make_data();
    return cmocka_run_group_tests_name("train/modes", tests, open_system, close_system);
}
