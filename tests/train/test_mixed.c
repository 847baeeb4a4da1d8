/* Mixed precision. Losses are near those of float32, with every strategy as with one device. The loss scale: a step
 * whose gradient is not finite is skipped on all replicas and halves the scale, which doubles after finite steps. */
#include "support/runs.h"
#include "support/ways.h"

#include <math.h>

static const way *under;
static clq_precision precision;

static clq_trainer_config configure(clq_trainer_config config) {
    way_configure(under, &config);
    config.precision = precision;
    return config;
}

/* Ways that compress the gradient of a scaled loss. */
static const way compressed[] = {
    {"halves",
     "pocl:0,pocl:1",
     CLQ_STRATEGY_MIRRORED,
     {.compression = {.kind = CLQ_COMPRESSION_F16, .fraction = 0}},
     APART,
     0},
    {"largest",
     "pocl:0,pocl:1",
     CLQ_STRATEGY_MIRRORED,
     {.compression = {.kind = CLQ_COMPRESSION_TOP_K, .fraction = 1}},
     APART,
     0},
};

/* Whether a strategy is refused, since its replicas cannot agree on a scale. */
static bool is_refused(const way *w) {
    clq_trainer_config config = clq_trainer_config_default();
    way_configure(w, &config);
    return config.strategy == CLQ_STRATEGY_CENTRAL || config.strategy == CLQ_STRATEGY_PS ||
           config.strategy_options.local_steps > 0;
}

static run train(const char *model, clq_precision how, const way *w) {
    precision = how;
    under = w;
    run r = {.model = model, .optimizer = "adam", .spec = w->spec, .configure = configure};
    run_train(&r);
    return r;
}

static void check_losses(const char *what, const run *got, const run *want, double least, double most) {
    double apart = 0;
    for (size_t i = 0; i < RUN_STEPS; i++) apart = fmax(apart, fabs(got->losses[i] / want->losses[i] - 1));
    if (!(apart >= least && apart <= most)) fail_msg("%s: losses are up to %g apart", what, apart);
}

/* With 11 bits and with 8 bits. The losses are not exactly those of float32, as values are rounded. */
static void losses_are_near_those_of_float32(void **state) {
    (void)state;
    static const char *const models[] = {"mlp", "cnn"};
    for (size_t m = 0; m < CLQ_COUNT_OF(models); m++) {
        run plain = train(models[m], CLQ_PRECISION_F32, &way_single);
        run half = train(models[m], CLQ_PRECISION_MIXED, &way_single);
        run bfloat = train(models[m], CLQ_PRECISION_MIXED_BF16, &way_single);
        check_losses(models[m], &half, &plain, 1e-9, 4e-3);
        check_losses(models[m], &bfloat, &plain, 1e-7, 3e-2);
        run_release(&plain);
        run_release(&half);
        run_release(&bfloat);
    }
}

/* (train/features compares every strategy without compression.) */
static void compressed_as_by_one(void **state) {
    (void)state;
    run half = train("mlp", CLQ_PRECISION_MIXED, &way_single);
    for (size_t w = 0; w < CLQ_COUNT_OF(compressed); w++) {
        run other = train("mlp", CLQ_PRECISION_MIXED, &compressed[w]);
        check_losses(compressed[w].name, &other, &half, 0, 2e-3);
        run_release(&other);
    }
    run_release(&half);
}

enum { INPUTS = 784, CLASSES = 10, INTERVAL = 3 };

static _Alignas(64) float samples[RUN_BATCH][INPUTS];
static int32_t labels[RUN_BATCH];

static void make_batch(uint64_t seed, bool spoilt, clq_batch *out) {
    clq_random random = clq_random_start(71, seed);
    for (size_t i = 0; i < RUN_BATCH; i++) {
        labels[i] = (int32_t)clq_random_below(&random, CLASSES);
        for (size_t k = 0; k < INPUTS; k++) samples[i][k] = (float)clq_random_unit(&random);
    }
    if (spoilt) samples[0][5] = INFINITY;
    *out = (clq_batch){
        .count = RUN_BATCH, .samples = samples, .sample_elements = INPUTS, .sample_dtype = CLQ_F32, .labels = labels};
}

static clq_clip clip;
static const char *optimizer = "adam:weight_decay=0.1";

static clq_trainer_config scaled(clq_trainer_config config) {
    config = configure(config);
    config.sample_dtype = CLQ_F32;
    config.loss_scale = 1024;
    config.loss_scale_interval = INTERVAL;
    config.clip = clip;
    config.average = 0.9;
    config.measure_gradient = true;
    return config;
}

static void check_scale(clq_trainer *trainer, double scale, uint64_t skipped) {
    double got = 0;
    uint64_t got_skipped = 99;
    assert_ok(clq_trainer_loss_scale(trainer, &got, &got_skipped));
    assert_true(got == scale);
    assert_int_equal(got_skipped, skipped);
}

/* Makes an update by one batch, or by two batches, the first of which may be spoilt. */
static void step(clq_trainer *trainer, uint64_t seed, bool spoilt, bool two) {
    clq_batch batch;
    make_batch(seed, spoilt, &batch);
    if (!two) {
        assert_ok(clq_step(trainer, &batch));
        assert_ok(clq_strategy_wait(trainer->strategy));
        return;
    }
    assert_ok(clq_step_accumulate(trainer, &batch));
    assert_ok(clq_strategy_wait(trainer->strategy));
    make_batch(seed + 1, false, &batch);
    assert_ok(clq_step(trainer, &batch));
    assert_ok(clq_strategy_wait(trainer->strategy));
}

/* Compares all that a skipped step leaves as it is: weights, optimizer state and average. */
static void assert_same_values(clq_trainer *trainer, const clq_snapshot *before, bool same) {
    clq_snapshot after;
    bool equal = true;
    assert_ok(clq_strategy_take_snapshot(trainer->strategy, false, &after));
    assert_int_equal(after.count, before->count);
    for (size_t i = 0; i < after.count; i++) {
        const clq_variable *v = &trainer->model->variables[after.entries[i].variable];
        equal = equal && memcmp(after.entries[i].values, before->entries[i].values, clq_variable_bytes(v)) == 0;
    }
    assert_int_equal(equal, same);
    clq_snapshot_release(&after);
}

static void skip_one(const way *w, bool two) {
    under = w;
    precision = CLQ_PRECISION_MIXED;
    const run r = {.optimizer = optimizer, .spec = w->spec, .configure = scaled};
    clq_model *model = run_model("mlp");
    clq_trainer *trainer = run_trainer(&r, model);
    float *weights = clq_alloc(clq_model_parameter_count(model), sizeof *weights);
    clq_snapshot before;
    clq_step_info info;
    assert_non_null(weights);
    for (uint64_t i = 0; i < INTERVAL; i++) step(trainer, i, false, two);
    check_scale(trainer, 2048, 0);
    assert_ok(clq_step_read(trainer, &info));
    assert_true(info.grad_norm > 0.01 && info.grad_norm < 100); /* the norm of the unscaled gradient */
    assert_ok(clq_strategy_take_snapshot(trainer->strategy, false, &before));
    step(trainer, 10, true, two);
    check_scale(trainer, 1024, 1);
    assert_same_values(trainer, &before, true);
    run_read(trainer, model, false, weights); /* the same on all replicas */
    for (uint64_t i = 0; i < INTERVAL - 1; i++) step(trainer, 20 + i, false, two);
    check_scale(trainer, 1024, 1);
    assert_same_values(trainer, &before, false);
    step(trainer, 30, false, two);
    check_scale(trainer, 2048, 1);
    run_read(trainer, model, false, weights);
    for (size_t i = 0; i < clq_model_parameter_count(model); i++) assert_true(isfinite(weights[i]));
    clq_snapshot_release(&before);
    clq_free(weights);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

static void infinite_gradients_are_skipped_on_all_replicas(void **state) {
    (void)state;
    clip = (clq_clip){.kind = CLQ_CLIP_OFF, .limit = 0};
    skip_one(&way_single, false);
    skip_one(&way_single, true);
    for (size_t w = 0; w < CLQ_COUNT_OF(ways); w++)
        if (!is_refused(&ways[w])) skip_one(&ways[w], false);
}

static void clipped_gradients_are_skipped_too(void **state) {
    (void)state;
    static const clq_clip clips[] = {{.kind = CLQ_CLIP_VALUE, .limit = 0.01},
                                     {.kind = CLQ_CLIP_NORM, .limit = 0.1},
                                     {.kind = CLQ_CLIP_GLOBAL_NORM, .limit = 0.1}};
    for (size_t i = 0; i < CLQ_COUNT_OF(clips); i++) {
        clip = clips[i];
        skip_one(&way_single, false);
        skip_one(&ways[0], i % 2);
    }
    clip = (clq_clip){.kind = CLQ_CLIP_OFF, .limit = 0};
}

/* LAMB computes a rate for each variable from the gradient. */
static void steps_of_lamb_are_skipped_too(void **state) {
    (void)state;
    const char *const other = optimizer;
    optimizer = "lamb:lr=0.01,weight_decay=0.1";
    skip_one(&way_single, false);
    for (size_t w = 0; w < CLQ_COUNT_OF(ways); w++)
        if (!is_refused(&ways[w])) skip_one(&ways[w], w == 0);
    clip = (clq_clip){.kind = CLQ_CLIP_NORM, .limit = 0.1};
    skip_one(&ways[0], false);
    clip = (clq_clip){.kind = CLQ_CLIP_OFF, .limit = 0};
    optimizer = other;
}

/* The average begins with the weights, even if the first step is skipped. */
static void a_first_step_may_be_skipped(void **state) {
    (void)state;
    under = &way_single;
    precision = CLQ_PRECISION_MIXED;
    const run r = {.optimizer = "sgd:lr=0.01", .spec = under->spec, .configure = scaled};
    clq_model *model = run_model("mlp");
    clq_trainer *trainer = run_trainer(&r, model);
    const size_t elements = clq_model_parameter_count(model);
    float *weights = clq_alloc(elements, sizeof *weights), *average = clq_alloc(elements, sizeof *average);
    assert_true(weights && average);
    step(trainer, 1, true, false);
    check_scale(trainer, 512, 1);
    run_read(trainer, model, false, weights);
    assert_ok(clq_trainer_swap_average(trainer));
    run_read(trainer, model, false, average);
    assert_memory_equal(weights, average, elements * sizeof *weights);
    clq_free(weights);
    clq_free(average);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

/* ---- settings ---- */

static void refuse(clq_status status, const char *why, void (*set)(clq_trainer_config *config)) {
    clq_trainer *trainer = NULL;
    clq_devices devices;
    clq_model *model = run_model("mlp");
    clq_trainer_config config = clq_trainer_config_default();
    config.precision = CLQ_PRECISION_MIXED;
    set(&config);
    assert_ok(clq_devices_select(sys, "pocl:0,pocl:1", &devices));
    assert_fails(status, why, clq_trainer_create(model, &devices, &config, &trainer));
    clq_model_destroy(model);
}

static void by_central(clq_trainer_config *config) { config->strategy = CLQ_STRATEGY_CENTRAL; }
static void by_ps(clq_trainer_config *config) { config->strategy = CLQ_STRATEGY_PS; }
static void by_local_steps(clq_trainer_config *config) { config->strategy_options.local_steps = 2; }
static void by_no_precision(clq_trainer_config *config) { config->precision = (clq_precision)3; }
static void by_scale_of_bfloats(clq_trainer_config *config) {
    config->precision = CLQ_PRECISION_MIXED_BF16;
    config->loss_scale = 8;
}
static void by_small_scale(clq_trainer_config *config) { config->loss_scale = 0.5; }
static void by_nan(clq_trainer_config *config) { config->loss_scale = (double)NAN; }
static void by_large_interval(clq_trainer_config *config) { config->loss_scale_interval = UINT32_MAX; }

static void what_does_not_go_together_is_refused(void **state) {
    (void)state;
    refuse(CLQ_ERROR_ARGUMENT, "central cannot agree on the scale: use precision mixed-bf16", by_central);
    refuse(CLQ_ERROR_ARGUMENT, "ps cannot agree on the scale", by_ps);
    refuse(CLQ_ERROR_ARGUMENT, "local steps cannot agree on the scale", by_local_steps);
    refuse(CLQ_ERROR_ARGUMENT, "precision 3 is none of clq_precision", by_no_precision);
    refuse(CLQ_ERROR_ARGUMENT, "the precision is mixed-bf16: leave it out", by_scale_of_bfloats);
    refuse(CLQ_ERROR_ARGUMENT, "expected a number from 1 to 2^126", by_small_scale);
    refuse(CLQ_ERROR_ARGUMENT, "expected a number from 1 to 2^126", by_nan);
    refuse(CLQ_ERROR_ARGUMENT, "cannot double after", by_large_interval);
    clq_precision parsed = CLQ_PRECISION_F32;
    assert_ok(clq_precision_parse("mixed-bf16", &parsed));
    assert_int_equal(parsed, CLQ_PRECISION_MIXED_BF16);
    assert_fails(CLQ_ERROR_ARGUMENT, "expected f32, mixed or mixed-bf16", clq_precision_parse("half", &parsed));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(losses_are_near_those_of_float32),
                                       cmocka_unit_test(compressed_as_by_one),
                                       cmocka_unit_test(infinite_gradients_are_skipped_on_all_replicas),
                                       cmocka_unit_test(clipped_gradients_are_skipped_too),
                                       cmocka_unit_test(steps_of_lamb_are_skipped_too),
                                       cmocka_unit_test(a_first_step_may_be_skipped),
                                       cmocka_unit_test(what_does_not_go_together_is_refused)};
    return cmocka_run_group_tests(tests, open_system, close_system);
}
