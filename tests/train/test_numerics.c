/* Numbers that are not finite. A fit warns once of a loss that diverges, and names its step. The check of numerics
 * names the first place with such a number. */
#include "support/apart.h"
#include "support/check.h"
#include "support/system.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>

static char said[512];
static unsigned warnings;

static void keep_warning(void *context, clq_log_level level, const char *line) {
    (void)context;
    if (level != CLQ_LOG_WARNING) return;
    snprintf(said, sizeof said, "%s", line);
    warnings++;
}

/* ---- a loss that diverges ---- */

/* A bias alone, which learns 1 from two samples. At a rate of r each update multiplies its distance by 1 - 2r. */
static const float zeros[2] = {0}, ones[2] = {1, 1};

static clq_trainer *open_bias(const clq_model *model, const char *spec, clq_strategy_options options) {
    clq_trainer *trainer;
    clq_devices devices;
    clq_trainer_config config = apart_config();
    config.loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    config.sample_dtype = CLQ_F32;
    config.global_batch = 2;
    config.strategy_options = options;
    assert_ok(clq_optimizer_parse("sgd:lr=1000", &config.optimizer));
    assert_ok(clq_devices_select(sys, spec, &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    return trainer;
}

/* The losses are 1999^(2n - 2), so that of step 7 is above what float32 holds, also with two batches in an update. */
static void a_diverged_loss_is_said_once(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        clq_strategy_options options;
        size_t batch;
    } cases[] = {{"pocl:0", {0}, 2}, {"pocl:0,pocl:1", {0}, 2}, {"pocl:0", {.accumulate = 2}, 1}};
    const size_t shape[] = {1};
    const float zero = 0;
    clq_model *model;
    assert_ok(clq_model_create("bias", &model));
    assert_ok(
        clq_model_finish(model, clq_dense(model, clq_input(model, CLQ_SHAPE(1)), &(clq_dense_config){.units = 1})));
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        clq_dataset *data;
        clq_trainer *trainer = open_bias(model, cases[i].spec, cases[i].options);
        assert_ok(clq_dataset_arrays(zeros, CLQ_F32, 2, 1, shape, ones, CLQ_F32, 1, &data));
        assert_ok(clq_dataset_batch(data, cases[i].batch, false));
        warnings = 0;
        assert_ok(clq_fit(trainer, data, &(clq_fit_config){.steps = 6}));
        assert_int_equal(clq_trainer_diverged(trainer), 0);
        assert_int_equal(warnings, 0);
        assert_ok(clq_fit(trainer, data, &(clq_fit_config){.steps = 5, .validation = data}));
        assert_int_equal(clq_trainer_diverged(trainer), 7);
        assert_int_equal(warnings, 1);
        expect_text(said, "the loss of step 7 is not finite; training goes on");
        assert_ok(clq_trainer_set_variable(trainer, 1, &zero));
        assert_ok(clq_fit(trainer, data, &(clq_fit_config){.steps = 2}));
        assert_int_equal(clq_trainer_diverged(trainer), 0);
        assert_int_equal(warnings, 1);
        clq_trainer_destroy(trainer);
        clq_dataset_destroy(data);
    }
    clq_model_destroy(model);
}

/* ---- the first place ---- */

enum { INPUTS = 6, BATCH = 8, KERNEL_1 = 2, KERNEL_2 = 4, BIAS_2 = 5, NUMBERS_MOST = 100 };
static float samples[BATCH][INPUTS], targets[BATCH];

/* Nothing in this model leaves float32 unless a test makes it. Every output of the second layer is above 0. */
static clq_model *make_layers(void) {
    clq_model *model;
    assert_ok(clq_model_create("layers", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(INPUTS));
    x = clq_dense(model, x, &(clq_dense_config){.units = 8, .activation = CLQ_ACTIVATION_SIGMOID});
    x = clq_dense(model, x, &(clq_dense_config){.units = 10, .activation = CLQ_ACTIVATION_RELU});
    assert_ok(clq_model_finish(model, clq_dense(model, x, &(clq_dense_config){.units = 1})));
    return model;
}

static clq_status open_layers(const clq_model *model, const char *spec, clq_strategy_kind strategy,
                              const clq_strategy_options *options, const char *optimizer, clq_trainer **out) {
    clq_devices devices;
    clq_trainer_config config = apart_config();
    config.loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    config.sample_dtype = CLQ_F32;
    config.global_batch = BATCH;
    config.strategy = strategy;
    config.strategy_options = *options;
    config.check_numerics = true;
    assert_ok(clq_optimizer_parse(optimizer, &config.optimizer));
    assert_ok(clq_devices_select(sys, spec, &devices));
    return clq_trainer_create(model, &devices, &config, out);
}

static void set_all(clq_trainer *trainer, size_t variable, float value) {
    float values[NUMBERS_MOST];
    for (size_t i = 0; i < NUMBERS_MOST; i++) values[i] = value;
    assert_ok(clq_trainer_set_variable(trainer, variable, values));
}

static clq_status step(clq_trainer *trainer) {
    const clq_batch batch = {.count = BATCH,
                             .samples = samples,
                             .sample_elements = INPUTS,
                             .sample_dtype = CLQ_F32,
                             .labels = targets,
                             .float_labels = true,
                             .label_elements = 1};
    CLQ_TRY(clq_step(trainer, &batch));
    return clq_trainer_wait(trainer);
}

static void fill_samples(float value) {
    for (size_t i = 0; i < BATCH * INPUTS; i++) samples[i / INPUTS][i % INPUTS] = value * (float)(i % 7);
}

static const struct {
    const char *spec;
    clq_strategy_kind strategy;
    clq_strategy_options options;
} strategies[] = {{"pocl:0", CLQ_STRATEGY_SINGLE, {0}},
                  {"pocl:5", CLQ_STRATEGY_SINGLE, {.accumulate = 2}},
                  {"pocl:0,pocl:1", CLQ_STRATEGY_MIRRORED, {0}},
                  {"pocl:0,pocl:1", CLQ_STRATEGY_MIRRORED, {.shard_optimizer = 1}},
                  {"pocl:0,pocl:1", CLQ_STRATEGY_MIRRORED, {.local_steps = 2}},
                  {"pocl:0,pocl:1", CLQ_STRATEGY_CENTRAL, {0}},
                  {"pocl:0,pocl:1", CLQ_STRATEGY_PS, {.staleness = 4}},
                  {"pocl:0,pocl:1", CLQ_STRATEGY_PIPELINE, {0}},
                  {"pocl:0,pocl:1", CLQ_STRATEGY_TENSOR, {0}}};

/* The second layer's weights are so large that its outputs are infinite. The layers may be on different replicas. */
static void every_strategy_names_the_layer(void **state) {
    (void)state;
    clq_model *model = make_layers();
    fill_samples(0.1f);
    for (size_t i = 0; i < CLQ_COUNT_OF(strategies); i++) {
        clq_trainer *trainer;
        printf("%s, %s\n", clq_strategy_name(strategies[i].strategy), strategies[i].spec);
        assert_ok(open_layers(model, strategies[i].spec, strategies[i].strategy, &strategies[i].options, "sgd:lr=0.001",
                              &trainer));
        for (int k = 0; k < 2; k++) assert_ok(step(trainer));
        set_all(trainer, KERNEL_1, 3e38f);
        assert_fails(CLQ_ERROR_NOT_FINITE, "step 3 on pocl:", step(trainer));
        expect_text(clq_error_detail(),
                    "the first number that is not finite is in 'dense_1', forward of layer 'dense_1'");
        clq_trainer_destroy(trainer);
    }
    clq_model_destroy(model);
}

/* Each kind of place is named. */
static void every_place_is_named(void **state) {
    (void)state;
    static const struct {
        const char *where;
        float sample, hidden, last, bias; /* values of all samples, dense_1/kernel, dense_2/kernel, dense_2/bias */
    } cases[] = {{"in the samples", INFINITY, 0, 0, 0},
                 {"in variable 'dense_2/kernel', as the updates before left it", 0.1f, 0, NAN, 0},
                 {"in variable 'dense_2/bias', as the updates before left it", 0.1f, 0, 0, NAN},
                 {"in variable 'dense_2/kernel', as the updates before left it", 0.1f, 0, NAN, NAN},
                 /* 1e30 squared */
                 {"the loss of output 'dense_2'", 0.1f, 0, 0, 1e30f},
                 /* 0 in forward; 1e15 times 1e30 in backward */
                 {"in the gradient of what layer 'dense_2' reads, backward", 0.1f, 0, 1e30f, 1e15f}};
    const clq_strategy_options options = {0};
    clq_model *model = make_layers();
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        clq_trainer *trainer;
        assert_ok(open_layers(model, "pocl:0", CLQ_STRATEGY_SINGLE, &options, "sgd:lr=0", &trainer));
        fill_samples(0.1f);
        set_all(trainer, KERNEL_1, 0);
        assert_ok(step(trainer));
        fill_samples(cases[i].sample);
        set_all(trainer, KERNEL_1, cases[i].hidden);
        set_all(trainer, KERNEL_2, cases[i].last);
        set_all(trainer, BIAS_2, cases[i].bias);
        assert_fails(CLQ_ERROR_NOT_FINITE, cases[i].where, step(trainer));
        expect_text(clq_error_detail(), "step 2 on pocl:0");
        clq_trainer_destroy(trainer);
    }
    clq_model_destroy(model);
}

/* ---- statistics of a batch, and a residual connection ---- */

enum { WIDTH = 8, STEM = 0, LEFT = 2, GAMMA = 4, HEAD = 8, HEAD_BIAS = 9 };

/* sum = stem + left; head of (sum + norm of sum). */
static clq_model *make_residual(bool synchronized) {
    clq_model *model;
    assert_ok(clq_model_create("residual", &model));
    const clq_tensor samples_of = clq_input(model, CLQ_SHAPE(INPUTS));
    clq_tensor stem = clq_dense(model, samples_of, &(clq_dense_config){.units = WIDTH, .name = "stem"});
    clq_tensor left = clq_dense(model, samples_of, &(clq_dense_config){.units = WIDTH, .name = "left"});
    clq_tensor sum = clq_add(model, CLQ_TENSORS(stem, left), "sum");
    clq_tensor norm = clq_batch_norm(
        model, sum,
        &(clq_batch_norm_config){.momentum = 0.9, .epsilon = 1e-3, .synchronized = synchronized, .name = "norm"});
    clq_tensor both = clq_add(model, CLQ_TENSORS(sum, norm), "residual");
    assert_ok(clq_model_finish(model, clq_dense(model, both, &(clq_dense_config){.units = 1, .name = "head"})));
    return model;
}

/* What is changed before a step, and where it shows first. */
static const struct fault {
    const char *where;
    float sample; /* the last sample's last value */
    float stem, left, gamma, head, head_bias;
} faults[] = {
    {"in the samples", NAN, 0, 0, 1, 0, 0},
    {"in variable 'norm/gamma', as the updates before left it", 0, 0, 0, INFINITY, 0, 0},
    /* Each row of samples adds up to 2.1 at most. */
    {"in 'sum', forward of layer 'sum'", 0, 1.6e38f, 1.6e38f, 1, 0, 0},
    {"in 'moments', forward of layer 'norm'", 0, 1e25f, 0, 1, 0, 0},    /* squared */
    {"in 'statistics', forward of layer 'norm'", 0, 0, 0, 3e38f, 0, 0}, /* divided by the root of epsilon */
    /* The loss is 1e10. The gradient of the sum is 1e20, times gamma. */
    {"in the gradient of what layer 'norm' reads, backward", 0, 0, 0, 1e25f, 1e15f, 1e5f},
};

static void make_fault(clq_trainer *trainer, const struct fault *f) {
    set_all(trainer, STEM, f->stem);
    set_all(trainer, LEFT, f->left);
    set_all(trainer, GAMMA, f->gamma);
    set_all(trainer, HEAD, f->head);
    set_all(trainer, HEAD_BIAS, f->head_bias);
    samples[BATCH - 1][INPUTS - 1] = f->sample;
}

static void each_fault_is_named(const clq_model *model, size_t s) {
    for (size_t k = 0; k < CLQ_COUNT_OF(faults); k++) {
        clq_trainer *trainer;
        fill_samples(0.1f);
        assert_ok(open_layers(model, strategies[s].spec, strategies[s].strategy, &strategies[s].options, "sgd:lr=0",
                              &trainer));
        assert_ok(step(trainer));
        make_fault(trainer, &faults[k]);
        assert_fails(CLQ_ERROR_NOT_FINITE, faults[k].where, step(trainer));
        expect_text(clq_error_detail(), "step 2 on pocl:");
        if (k == 0 && strategies[s].strategy == CLQ_STRATEGY_MIRRORED) expect_text(clq_error_detail(), "replica 1: ");
        clq_trainer_destroy(trainer);
    }
}

/* With synchronized statistics, one replica's numbers do not reach another before the first place is reported. */
static void statistics_and_branches_are_named(void **state) {
    (void)state;
    clq_model *models[] = {make_residual(false), make_residual(true)};
    for (int i = 0; i < BATCH; i++) targets[i] = (float)(i % 3) * 1e5f;
    for (size_t s = 0; s < CLQ_COUNT_OF(strategies); s++) {
        each_fault_is_named(models[0], s);
        if (strategies[s].strategy == CLQ_STRATEGY_MIRRORED && strategies[s].options.local_steps == 0)
            each_fault_is_named(models[1], s);
    }
    for (size_t i = 0; i < CLQ_COUNT_OF(models); i++) clq_model_destroy(models[i]);
    for (int i = 0; i < BATCH; i++) targets[i] = 0;
}

/* In a fit, the last sample of the third batch is wrong: a weight of 100 multiplies it. */
static void a_wrong_sample_is_found(void **state) {
    (void)state;
    static float many[3 * BATCH][INPUTS], wanted[3 * BATCH];
    const size_t shape[] = {INPUTS};
    clq_model *model = make_residual(false);
    clq_dataset *data;
    many[3 * BATCH - 1][0] = 3e38f;
    for (size_t s = 0; s < CLQ_COUNT_OF(strategies); s++) {
        const bool two = strategies[s].options.accumulate == 2;
        clq_trainer *trainer;
        assert_ok(open_layers(model, strategies[s].spec, strategies[s].strategy, &strategies[s].options, "sgd:lr=0",
                              &trainer));
        set_all(trainer, LEFT, 100);
        assert_ok(clq_dataset_arrays(many, CLQ_F32, 3 * BATCH, 1, shape, wanted, CLQ_F32, 1, &data));
        assert_ok(clq_dataset_batch(data, BATCH, false));
        assert_fails(CLQ_ERROR_NOT_FINITE, "in 'left', forward of layer 'left'",
                     clq_fit(trainer, data, &(clq_fit_config){.epochs = 1}));
        expect_text(clq_error_detail(), two ? "step 2 on pocl:" : "step 3 on pocl:");
        clq_trainer_destroy(trainer);
        clq_dataset_destroy(data);
    }
    clq_model_destroy(model);
}

/* The bias whose losses are known: infinite in step 7, when its squared distance leaves float32. */
static void divergence_is_found(void **state) {
    (void)state;
    const size_t shape[] = {1};
    clq_model *model;
    clq_trainer *trainer;
    clq_dataset *data;
    const clq_strategy_options options = {0};
    assert_ok(clq_model_create("bias", &model));
    assert_ok(
        clq_model_finish(model, clq_dense(model, clq_input(model, CLQ_SHAPE(1)), &(clq_dense_config){.units = 1})));
    assert_ok(open_layers(model, "pocl:0,pocl:1", CLQ_STRATEGY_MIRRORED, &options, "sgd:lr=1000", &trainer));
    assert_ok(clq_dataset_arrays(zeros, CLQ_F32, 2, 1, shape, ones, CLQ_F32, 1, &data));
    assert_ok(clq_dataset_batch(data, 2, false));
    assert_fails(CLQ_ERROR_NOT_FINITE, "step 7 on pocl:", clq_fit(trainer, data, &(clq_fit_config){.steps = 20}));
    expect_text(clq_error_detail(), "is the loss of output 'dense'");
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

static clq_status make_one(void *context) {
    const clq_strategy_options options = {0};
    clq_trainer *trainer = NULL;
    const clq_status status = open_layers(context, "pocl:0", CLQ_STRATEGY_SINGLE, &options, "sgd", &trainer);
    clq_trainer_destroy(trainer);
    return status;
}

static void memory_runs_out(void **state) {
    (void)state;
    clq_model *model = make_layers();
    clq_memory_fail_at(0, false);
    assert_ok(make_one(model));
    for (uint64_t nth = 1; nth < 2000; nth += IS_WATCHED ? 3 : 11) {
        clq_memory_fail_at(nth, false);
        const clq_status status = make_one(model);
        const bool reached = clq_memory_fail_at(0, false) >= nth;
        if (status != CLQ_OK && status != CLQ_ERROR_MEMORY && status != CLQ_ERROR_BUILD)
            fail_msg("%s", clq_error_detail());
        if (!reached) break;
    }
    clq_model_destroy(model);
}

static int start(void **state) {
    clq_log_set_sink(keep_warning, NULL, CLQ_LOG_WARNING);
    return open_system(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_diverged_loss_is_said_once),
        cmocka_unit_test(every_strategy_names_the_layer),
        cmocka_unit_test(every_place_is_named),
        cmocka_unit_test(statistics_and_branches_are_named),
        cmocka_unit_test(a_wrong_sample_is_found),
        cmocka_unit_test(divergence_is_found),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, start, close_system);
}
