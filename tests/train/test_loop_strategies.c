/* The calls that loops by hand make, with each strategy: it trains as one replica does, or is refused in one line.
 * Losses are compared within 1e-5; the first step's gradient and the last weights within 1e-5 of their size. */
#include "support/apart.h"
#include "support/check.h"
#include "support/system.h"
#include "train/trainer.h"
#include <clique/distribute.h>

#include <math.h>

enum { SAMPLES = 29, BATCH = 12, INPUTS = 5, CLASSES = 3, FLOATS_MOST = 256, STEPS = 6 };

static float samples[SAMPLES][INPUTS];
static int32_t labels[SAMPLES];
static clq_model *plain, *dropped;

static clq_model *build(bool dropout) {
    clq_model *model;
    assert_ok(clq_model_create("loops", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(INPUTS));
    x = clq_dense(model, x, &(clq_dense_config){.units = 7, .activation = CLQ_ACTIVATION_TANH});
    if (dropout) x = clq_dropout(model, x, &(clq_dropout_config){.rate = 0.3});
    x = clq_dense(model, x, &(clq_dense_config){.units = CLASSES, .activation = CLQ_ACTIVATION_SOFTMAX});
    assert_ok(clq_model_finish(model, x));
    return model;
}

/* ---- the strategies ---- */

static void sharded(clq_strategy_options *options) { options->shard_optimizer = 1; }
static void unequal(clq_strategy_options *options) {
    static const double weights[] = {3, 1};
    options->shares = CLQ_SHARES_WEIGHTS;
    options->share_weights = weights;
    options->share_count = 2;
}
static void compressed(clq_strategy_options *options) {
    options->compression = (clq_compression){.kind = CLQ_COMPRESSION_TOP_K, .fraction = 1};
}
static void local(clq_strategy_options *options) { options->local_steps = 2; }
static void synchronous(clq_strategy_options *options) { options->staleness = 0; }
static void backed(clq_strategy_options *options) {
    options->staleness = 0;
    options->backup = 1;
}

typedef struct way {
    const char *name, *strategy, *spec;
    void (*set)(clq_strategy_options *options); /* NULL: sets nothing */
    /* What the refusal says. NULL: the way is not refused, and trains as one replica does. */
    const char *by_hand, *functions, *accumulated;
    bool one_launch; /* in trainings: replicas shard the update, as a part of the one launch */
} way;

static const way ways[] = {
    {"single", "single", "pocl:0", NULL, NULL, NULL, NULL, false},
    {"mirrored", "mirrored", "pocl:0,pocl:1", NULL, NULL, NULL, NULL, true},
    {"sharded optimizer", "mirrored", "pocl:0,pocl:1", sharded, NULL, NULL, NULL, true},
    {"unequal shares", "mirrored", "pocl:0,pocl:1", unequal, NULL, NULL, NULL, false},
    {"pairs of all", "mirrored", "pocl:0,pocl:1", compressed, NULL, NULL, NULL, false},
    {"local steps", "mirrored", "pocl:0,pocl:1", local, "local steps", "local steps", "local steps", false},
    {"central", "central", "pocl:0,pocl:1", NULL, NULL, NULL, NULL, false},
    {"synchronous ps", "ps", "pocl:0,pocl:1", synchronous, NULL, NULL, NULL, false},
    {"asynchronous ps", "ps", "pocl:0,pocl:1", NULL, NULL, NULL, "staleness", false},
    {"backup replicas", "ps", "pocl:0,pocl:1", backed, NULL, NULL, "backup", false},
    {"pipeline", "pipeline", "pocl:0,pocl:1", NULL, NULL, "strategy pipeline runs no functions", NULL, false},
    {"tensor", "tensor", "pocl:0,pocl:1", NULL, NULL, "strategy tensor runs no functions", NULL, false},
};

static clq_trainer *open_trainer(const clq_model *model, const way *w) {
    clq_trainer_config config = clq_trainer_config_default();
    clq_devices devices;
    clq_trainer *trainer;
    config.global_batch = BATCH;
    config.sample_dtype = CLQ_F32;
    config.seed = 5;
    assert_ok(clq_strategy_parse(w->strategy, &config.strategy, &config.strategy_options));
    if (w->set) w->set(&config.strategy_options);
    if (model == plain || !w->one_launch) config.disabled_paths = APART;
    assert_ok(clq_devices_select(sys, w->spec, &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    return trainer;
}

/* 29 samples in batches of 12: the last batch has 5. */
static clq_dataset *open_data(void) {
    clq_dataset *data;
    assert_ok(clq_dataset_arrays(samples, CLQ_F32, SAMPLES, 1, (size_t[]){INPUTS}, labels, CLQ_I32, 1, &data));
    assert_ok(clq_dataset_batch(data, BATCH, false));
    return data;
}

/* ---- ways to make a step ---- */

typedef struct numbers {
    float gradient[FLOATS_MOST], weights[FLOATS_MOST];
    double losses[STEPS];
    size_t count;
} numbers;

static void read_all(clq_trainer *trainer, bool gradient, numbers *out) {
    float *to = gradient ? out->gradient : out->weights;
    out->count = 0;
    for (size_t v = 0; v < trainer->model->variable_count; v++) {
        const size_t elements = trainer->model->variables[v].elements;
        assert_true(out->count + elements <= FLOATS_MOST);
        assert_ok(gradient ? clq_trainer_get_gradient(trainer, 0, v, to + out->count)
                           : clq_trainer_get_variable(trainer, v, to + out->count));
        out->count += elements;
    }
}

static clq_status compute(clq_replica_context *replica, void *context) {
    (void)context;
    return clq_replica_gradients(replica, 1.0 / (double)replica->global_count);
}

typedef enum call { WHOLE, BY_HAND, FUNCTIONS, ACCUMULATED, CALLS } call;

static clq_batch part_of(const clq_batch *batch, size_t first, size_t count) {
    clq_batch part = *batch;
    part.samples = (const float *)batch->samples + first * INPUTS;
    part.labels = (const int32_t *)batch->labels + first;
    part.count = count;
    return part;
}

static clq_status evaluate(clq_replica_context *replica, void *context) {
    CLQ_TRY(clq_replica_evaluate(replica));
    return clq_metric_sums_add(context, replica);
}

/* sums: for an evaluation; NULL: computes gradients. */
static clq_status run_functions(clq_trainer *trainer, const clq_batch *batch, clq_metric_sums *sums) {
    size_t first[CLQ_REPLICAS_MAX], count[CLQ_REPLICAS_MAX];
    clq_batch parts[CLQ_REPLICAS_MAX];
    const unsigned replicas = clq_trainer_replicas(trainer);
    clq_strategy_share_out(trainer->strategy, batch->count, first, count);
    for (unsigned r = 0; r < replicas; r++) parts[r] = part_of(batch, first[r], count[r]);
    const clq_distributed_batch distributed = {.replicas = replicas, .parts = parts};
    return sums ? clq_run_evaluation(trainer, &distributed, evaluate, sums)
                : clq_run(trainer, &distributed, compute, NULL);
}

/* Makes the gradient and reduces it. */
static clq_status make_gradient(clq_trainer *trainer, call how, const clq_batch *batch) {
    const size_t half = batch->count / 2;
    const clq_batch begin = part_of(batch, 0, half), end = part_of(batch, half, batch->count - half);
    if (how == ACCUMULATED) CLQ_TRY(clq_step_accumulate(trainer, &begin));
    CLQ_TRY(how == FUNCTIONS ? run_functions(trainer, batch, NULL)
                             : clq_step_gradients(trainer, how == ACCUMULATED ? &end : batch));
    return clq_step_reduce(trainer);
}

static clq_batch next_batch(clq_dataset *data) {
    clq_batch batch;
    bool more;
    assert_ok(clq_dataset_next(data, &batch, &more));
    if (!more) assert_ok(clq_dataset_next(data, &batch, &more));
    return batch;
}

static numbers train(const way *w, call how) {
    numbers n = {.count = 0};
    clq_trainer *trainer = open_trainer(dropped, w);
    clq_dataset *data = open_data();
    for (unsigned step = 0; step < STEPS; step++) {
        const clq_batch batch = next_batch(data);
        clq_step_info info;
        if (how == WHOLE) {
            assert_ok(clq_step(trainer, &batch));
        } else {
            assert_ok(make_gradient(trainer, how, &batch));
            if (step == 0) read_all(trainer, true, &n);
            assert_ok(clq_step_apply(trainer));
        }
        if (step == 0 && how == WHOLE) read_all(trainer, true, &n);
        assert_ok(clq_step_read(trainer, &info));
        assert_int_equal(info.samples, batch.count);
        assert_int_equal(info.step, step + 1);
        n.losses[step] = info.loss;
    }
    read_all(trainer, false, &n);
    clq_dataset_destroy(data);
    clq_trainer_destroy(trainer);
    return n;
}

/* ---- as one replica ---- */

static void compare(const char *name, const char *what, const float *got, const float *want, size_t count,
                    double relative) {
    double error = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        error += pow((double)got[i] - (double)want[i], 2);
        size += pow((double)want[i], 2);
    }
    if (!(error <= relative * relative * size))
        fail_msg("%s: %s: differs by %.3g of %.3g", name, what, sqrt(error), sqrt(size));
}

static void each_trains_as_one_replica(void **state) {
    (void)state;
    const numbers one = train(&ways[0], WHOLE);
    for (size_t i = 0; i < CLQ_COUNT_OF(ways); i++)
        for (call how = BY_HAND; how < CALLS; how++) {
            const way *w = &ways[i];
            if (how == BY_HAND ? w->by_hand : how == FUNCTIONS ? w->functions : w->accumulated) continue;
            const numbers many = train(w, how);
            assert_int_equal(many.count, one.count);
            compare(w->name, "gradient", many.gradient, one.gradient, one.count, 1e-5);
            compare(w->name, "weights", many.weights, one.weights, one.count, 1e-5);
            for (unsigned step = 0; step < STEPS; step++)
                if (!(fabs(many.losses[step] / one.losses[step] - 1) < 1e-5))
                    fail_msg("%s: step %u: loss %.9g, not %.9g", w->name, step, many.losses[step], one.losses[step]);
        }
}

static void others_are_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(ways); i++) {
        const way *w = &ways[i];
        clq_trainer *trainer = open_trainer(plain, w);
        clq_dataset *data = open_data();
        const clq_batch batch = next_batch(data);
        clq_step_info info;
        const char *const said[CALLS] = {NULL, w->by_hand, w->functions, w->accumulated};
        for (call how = BY_HAND; how < CALLS; how++) {
            if (!said[how]) continue;
            const clq_status status = make_gradient(trainer, how, &batch);
            assert_true(status == CLQ_ERROR_STATE || status == CLQ_ERROR_UNSUPPORTED || status == CLQ_ERROR_ARGUMENT);
            assert_fails(status, said[how], status);
            assert_null(strchr(clq_error_detail(), '\n'));
        }
        assert_ok(clq_step(trainer, &batch)); /* no refusal has harmed the trainer */
        assert_ok(clq_step_read(trainer, &info));
        assert_int_equal(info.step, 1);
        clq_dataset_destroy(data);
        clq_trainer_destroy(trainer);
    }
}

static void functions_evaluate_or_are_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(ways); i++) {
        const bool refused = ways[i].functions && strstr(ways[i].functions, "runs no functions");
        clq_trainer *trainer = open_trainer(plain, &ways[i]);
        clq_dataset *data = open_data();
        clq_metric_sums *sums;
        clq_totals got, want;
        clq_batch batch = next_batch(data);
        assert_ok(clq_metric_sums_create(trainer, &sums));
        assert_ok(clq_step(trainer, &batch));
        assert_ok(clq_dataset_seek(data, 0, 0));
        for (unsigned k = 0; k < (SAMPLES + BATCH - 1) / BATCH; k++) {
            batch = next_batch(data);
            if (refused)
                assert_fails(CLQ_ERROR_UNSUPPORTED, ways[i].functions, run_functions(trainer, &batch, sums));
            else
                assert_ok(run_functions(trainer, &batch, sums));
        }
        clq_metric_sums_read(sums, &got);
        assert_ok(clq_evaluate(trainer, data, &want));
        assert_int_equal(got.samples, refused ? 0 : want.samples);
        if (!refused && !(fabs(got.loss / want.loss - 1) < 1e-6))
            fail_msg("%s: loss %.9g, not %.9g", ways[i].name, got.loss, want.loss);
        clq_metric_sums_destroy(sums);
        clq_dataset_destroy(data);
        clq_trainer_destroy(trainer);
    }
}

/* After steps in which replicas had parameters of several versions, or dropped gradients, all replicas compute with the
 * last version. A row of metrics that was such a step's tells nothing more of it. */
static void functions_follow_asynchronous_steps(void **state) {
    (void)state;
    const way *const after[] = {&ways[8], &ways[9]};
    for (size_t i = 0; i < CLQ_COUNT_OF(after); i++) {
        clq_trainer *many = open_trainer(plain, after[i]), *one = open_trainer(plain, &ways[0]);
        clq_dataset *data = open_data();
        numbers got, want;
        clq_step_info info;
        for (unsigned step = 0; step < CLQ_METRIC_SLOTS; step++) {
            const clq_batch batch = next_batch(data);
            assert_ok(clq_step(many, &batch));
        }
        const clq_batch batch = next_batch(data);
        assert_ok(run_functions(many, &batch, NULL));
        assert_ok(clq_step_reduce(many));
        assert_ok(clq_step_read(many, &info));
        assert_int_equal(info.samples, batch.count);
        assert_int_equal(info.replica, -1);
        assert_int_equal(info.staleness, 0);
        read_all(many, true, &got);
        read_all(many, false, &got);
        for (size_t v = 0, at = 0; v < plain->variable_count; at += plain->variables[v++].elements)
            assert_ok(clq_trainer_set_variable(one, v, got.weights + at));
        assert_ok(clq_step_gradients(one, &batch));
        read_all(one, true, &want);
        compare(after[i]->name, "gradient", got.gradient, want.gradient, want.count, 1e-5);
        clq_dataset_destroy(data);
        clq_trainer_destroy(many);
        clq_trainer_destroy(one);
    }
}

static int start(void **state) {
    for (int i = 0; i < SAMPLES; i++) {
        labels[i] = (i * 5 + i / 7) % CLASSES;
        for (int k = 0; k < INPUTS; k++) samples[i][k] = (float)((i * 7 + k * 3 + labels[i] * 5) % 11) / 5.0f - 1.0f;
    }
    if (open_system(state) != 0) return -1;
    plain = build(false);
    dropped = build(true);
    return 0;
}

static int stop(void **state) {
    clq_model_destroy(plain);
    clq_model_destroy(dropped);
    return close_system(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_trains_as_one_replica), cmocka_unit_test(others_are_refused),
        cmocka_unit_test(functions_evaluate_or_are_refused), cmocka_unit_test(functions_follow_asynchronous_steps)};
    return cmocka_run_group_tests_name("train/loop_strategies", tests, start, stop);
}
