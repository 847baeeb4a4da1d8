/* Training loops written by hand over the replicas: functions that run on each replica, their results compared with the
 * library's own steps, and how they fail. */
#include "support/apart.h"
#include "support/check.h"
#include "support/faults.h"
#include "support/system.h"
#include "train/trainer.h"
#include <clique/distribute.h>

#include <math.h>

enum { SAMPLES = 29, BATCH = 12, INPUTS = 5, CLASSES = 3, FLOATS_MOST = 256 };

static faults layer;
static float samples[SAMPLES][INPUTS];
static int32_t labels[SAMPLES];
static clq_model *plain, *modal; /* modal: dropout and synchronized statistics */
static const char *const specs[] = {"pocl:0", "pocl:0,pocl:1", "pocl:0,pocl:1,pocl:2"};

/* ---- training ---- */

static clq_model *build(bool modes) {
    clq_model *model;
    assert_ok(clq_model_create("loops", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(INPUTS));
    x = clq_dense(model, x, &(clq_dense_config){.units = 7, .activation = CLQ_ACTIVATION_TANH});
    if (modes)
        x = clq_batch_norm(model, x, &(clq_batch_norm_config){.momentum = 0.9, .epsilon = 1e-3, .synchronized = true});
    if (modes) x = clq_dropout(model, x, &(clq_dropout_config){.rate = 0.3});
    x = clq_dense(model, x, &(clq_dense_config){.units = CLASSES, .activation = CLQ_ACTIVATION_SOFTMAX});
    assert_ok(clq_model_finish(model, x));
    return model;
}

static clq_strategy_kind strategy; /* of all trainers here */

static clq_trainer_config config_of(void) {
    clq_trainer_config config = apart_config();
    config.strategy = strategy;
    config.global_batch = BATCH;
    config.sample_dtype = CLQ_F32;
    config.seed = 5;
    config.metrics = "accuracy";
    return config;
}

static clq_status open_trainer(const clq_model *model, const char *spec, const clq_trainer_config *config,
                               clq_trainer **out) {
    clq_devices devices;
    CLQ_TRY(clq_devices_select(sys, spec, &devices));
    return clq_trainer_create(model, &devices, config, out);
}

static clq_trainer *trainer_of(const clq_model *model, const char *spec) {
    const clq_trainer_config config = config_of();
    clq_trainer *trainer;
    assert_ok(open_trainer(model, spec, &config, &trainer));
    return trainer;
}

/* 29 samples in batches of 12. The last batch has 5 samples; with three replicas the third replica gets 1 of them. */
static clq_status open_data(size_t batch, clq_dataset **out) {
    clq_dataset *data;
    CLQ_TRY(clq_dataset_arrays(samples, CLQ_F32, SAMPLES, 1, (size_t[]){INPUTS}, labels, CLQ_I32, 1, &data));
    clq_status status = clq_dataset_batch(data, batch, false);
    if (status == CLQ_OK) status = clq_dataset_shuffle(data, SAMPLES, 3);
    if (status != CLQ_OK)
        clq_dataset_destroy(data);
    else
        *out = data;
    return status;
}
static clq_dataset *data_of(size_t batch) {
    clq_dataset *data;
    assert_ok(open_data(batch, &data));
    return data;
}

typedef struct weights {
    float values[FLOATS_MOST];
    size_t count;
} weights;

static weights weights_of(clq_trainer *trainer) {
    weights w = {.count = 0};
    for (size_t v = 0; v < clq_model_variable_count(trainer->model); v++) {
        assert_true(w.count + trainer->model->variables[v].elements <= FLOATS_MOST);
        assert_ok(clq_trainer_get_variable(trainer, v, w.values + w.count));
        w.count += trainer->model->variables[v].elements;
    }
    return w;
}

static void assert_same_weights(const weights *a, const weights *b) {
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->values, b->values, a->count * sizeof *a->values);
}

/* The context of a loop's function. */
typedef struct loop {
    double scale; /* multiplied by 1 / global batch; 0: the function computes nothing */
    clq_per_replica *losses;
    clq_metric_sums *sums;
    clq_mean *mean;
} loop;

static clq_status train_step(clq_replica_context *replica, void *context) {
    const loop *l = context;
    clq_totals totals;
    if (l->scale == 0) return CLQ_OK;
    CLQ_TRY(clq_replica_gradients(replica, l->scale / (double)replica->global_count));
    CLQ_TRY(clq_replica_read(replica, &totals));
    *clq_per_replica_of(l->losses, replica->index) =
        totals.loss * (double)totals.samples / (double)replica->global_count;
    return CLQ_OK;
}

static double train_batch(clq_trainer *trainer, const clq_distributed_batch *batch, loop *l) {
    double loss;
    assert_ok(clq_run(trainer, batch, train_step, l));
    assert_ok(clq_step_reduce(trainer));
    assert_ok(clq_step_apply(trainer));
    assert_ok(clq_per_replica_reduce(l->losses, CLQ_REDUCE_SUM, CLQ_NO_AXIS, &loss, 1));
    return loss;
}

static bool next_parts(clq_distributed_dataset *data, clq_distributed_batch *batch) {
    bool more;
    assert_ok(clq_distributed_next(data, batch, &more));
    return more;
}

static bool next_batch(clq_dataset *data, clq_batch *batch) {
    bool more;
    assert_ok(clq_dataset_next(data, batch, &more));
    return more;
}

static weights train_by_loop(const clq_model *model, const char *spec, unsigned epochs, size_t batch_size) {
    clq_trainer *trainer = trainer_of(model, spec);
    clq_dataset *data = data_of(batch_size);
    clq_distributed_dataset *parts;
    loop l = {.scale = 1};
    assert_ok(clq_per_replica_create(clq_trainer_replicas(trainer), 0, NULL, &l.losses));
    assert_ok(clq_distribute_dataset(trainer, data, &parts));
    for (unsigned epoch = 0; epoch < epochs; epoch++) {
        clq_distributed_batch batch;
        clq_step_info info;
        while (next_parts(parts, &batch)) {
            const double loss = train_batch(trainer, &batch, &l);
            assert_ok(clq_step_read(trainer, &info));
            assert_int_equal(info.samples, batch.count);
            if (!(fabs(loss / info.loss - 1) < 1e-12)) fail_msg("loss %.17g, not %.17g", loss, info.loss);
        }
    }
    const weights w = weights_of(trainer);
    clq_distributed_destroy(parts);
    clq_dataset_destroy(data);
    clq_per_replica_destroy(l.losses);
    clq_trainer_destroy(trainer);
    return w;
}

/* Trains with the library's own calls: clq_fit, or (by_hand) the parts of a step. */
static weights train_by_steps(const clq_model *model, const char *spec, unsigned epochs, size_t batch_size,
                              bool by_hand) {
    clq_trainer *trainer = trainer_of(model, spec);
    clq_dataset *data = data_of(batch_size);
    if (!by_hand) assert_ok(clq_fit(trainer, data, &(clq_fit_config){.epochs = epochs}));
    for (unsigned epoch = 0; epoch < epochs && by_hand; epoch++) {
        clq_batch batch;
        while (next_batch(data, &batch)) {
            assert_ok(clq_step_gradients(trainer, &batch));
            assert_ok(clq_step_reduce(trainer));
            assert_ok(clq_step_apply(trainer));
        }
    }
    const weights w = weights_of(trainer);
    clq_dataset_destroy(data);
    clq_trainer_destroy(trainer);
    return w;
}

/* The weights are equal bit for bit. Batches of 2 leave a third replica without samples in every step. */
static void loops_train_as_the_library(void **state) {
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(specs); i++)
        for (size_t m = 0; m < 2; m++)
            for (size_t size = 2; size <= BATCH; size += BATCH - 2) {
                const clq_model *model = m ? modal : plain;
                const weights got = train_by_loop(model, specs[i], 2, size);
                const weights parts = train_by_steps(model, specs[i], 2, size, true);
                const weights fit = train_by_steps(model, specs[i], 2, size, false);
                assert_same_weights(&got, &parts);
                assert_same_weights(&got, &fit);
            }
}

/* Also if the host makes the updates. */
static void loops_train_in_central_storage(void **state) {
    (void)state;
    strategy = CLQ_STRATEGY_CENTRAL;
    const weights got = train_by_loop(modal, specs[1], 2, BATCH);
    const weights parts = train_by_steps(modal, specs[1], 2, BATCH, true);
    const weights fit = train_by_steps(modal, specs[1], 2, BATCH, false);
    strategy = CLQ_STRATEGY_AUTO;
    assert_same_weights(&got, &parts);
    assert_same_weights(&got, &fit);
}

/* Scales the loss by a power of two, which each replica has for itself. */
static clq_status scale_by_replica(clq_replica_context *replica, void *context) {
    const double *factors = context;
    return clq_replica_gradients(replica, factors[replica->index] / (double)replica->global_count);
}

static void losses_are_scaled(void **state) {
    (void)state;
    clq_trainer *trainer = trainer_of(plain, specs[1]);
    const double factors[2][2] = {{1, 1}, {0.25, 4}};
    float gradients[2][2][INPUTS * 7];
    clq_batch batches[2];
    for (unsigned r = 0; r < 2; r++)
        batches[r] = (clq_batch){.count = 3 + r,
                                 .samples = samples[r * 3],
                                 .sample_elements = INPUTS,
                                 .sample_dtype = CLQ_F32,
                                 .labels = labels + r * 3};
    const clq_distributed_batch batch = {.replicas = 2, .parts = batches};
    for (unsigned k = 0; k < 2; k++) {
        assert_ok(clq_run(trainer, &batch, scale_by_replica, (void *)factors[k]));
        for (unsigned r = 0; r < 2; r++) assert_ok(clq_trainer_get_gradient(trainer, r, 0, gradients[k][r]));
    }
    for (unsigned r = 0; r < 2; r++)
        for (size_t i = 0; i < CLQ_COUNT_OF(gradients[0][r]); i++)
            assert_true(gradients[1][r][i] == (float)factors[1][r] * gradients[0][r][i]);
    clq_step_info info;
    assert_ok(clq_step_read(trainer, &info)); /* the loss and count of the samples, whatever the scale */
    assert_int_equal(info.samples, 7);
    clq_trainer_destroy(trainer);
}

/* ---- evaluation ---- */

static clq_status evaluate_part(clq_replica_context *replica, void *context) {
    const loop *l = context;
    clq_totals totals;
    CLQ_TRY(clq_replica_evaluate(replica));
    CLQ_TRY(clq_metric_sums_add(l->sums, replica));
    CLQ_TRY(clq_replica_read(replica, &totals));
    if (replica->batch->count == 0 && !(totals.samples == 0 && totals.loss == 0)) return CLQ_ERROR_INTERNAL;
    return clq_mean_add(l->mean, replica->index, totals.loss * (double)totals.samples, (double)totals.samples);
}

static void evaluate_by_loop(clq_trainer *trainer, clq_dataset *data, loop *l) {
    clq_distributed_dataset *parts;
    clq_distributed_batch batch;
    assert_ok(clq_distribute_dataset(trainer, data, &parts));
    while (next_parts(parts, &batch)) assert_ok(clq_run_evaluation(trainer, &batch, evaluate_part, l));
    clq_distributed_destroy(parts);
}

static void loops_evaluate_as_the_library(void **state) {
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(specs); i++) {
        clq_trainer *trainer = trainer_of(modal, specs[i]);
        clq_dataset *data = data_of(BATCH);
        clq_step_info before, after;
        clq_totals expected, got;
        loop l;
        assert_ok(clq_metric_sums_create(trainer, &l.sums));
        assert_ok(clq_mean_create(clq_trainer_replicas(trainer), &l.mean));
        assert_ok(clq_fit(trainer, data, &(clq_fit_config){.epochs = 1}));
        assert_ok(clq_step_read(trainer, &before));
        assert_ok(clq_dataset_seek(data, 0, 0)); /* clq_evaluate begins there too */
        evaluate_by_loop(trainer, data, &l);
        assert_ok(clq_step_read(trainer, &after));
        assert_true(before.loss == after.loss && before.samples == after.samples);
        clq_metric_sums_read(l.sums, &got);
        assert_ok(clq_evaluate(trainer, data, &expected));
        assert_int_equal(got.samples, SAMPLES);
        assert_true(fabs(got.loss / expected.loss - 1) < 1e-12);
        assert_true(fabs(clq_mean_read(l.mean) / expected.loss - 1) < 1e-12);
        assert_true(got.metrics.values[0] == expected.metrics.values[0]);
        assert_string_equal(got.metrics.names[0], "accuracy");
        clq_metric_sums_reset(l.sums);
        clq_metric_sums_read(l.sums, &got);
        assert_true(got.samples == 0 && got.loss == 0);
        clq_metric_sums_destroy(l.sums);
        clq_mean_destroy(l.mean);
        clq_dataset_destroy(data);
        clq_trainer_destroy(trainer);
    }
}

/* ---- the run ---- */

typedef struct visits {
    unsigned count[3];
    pthread_t threads[3];
} visits;

static clq_status visit(clq_replica_context *replica, void *context) {
    visits *v = context;
    if (replica->replicas != 3 || replica->batch || replica->global_count || !strstr(replica->device->driver, "pocl"))
        return CLQ_ERROR_ARGUMENT;
    v->count[replica->index]++;
    v->threads[replica->index] = pthread_self();
    return CLQ_OK;
}

static clq_distributed_batch batch_of(unsigned replicas, size_t each) {
    static clq_batch parts[CLQ_REPLICAS_MAX];
    for (unsigned r = 0; r < replicas; r++)
        parts[r] = (clq_batch){.count = each,
                               .samples = samples[r * each],
                               .sample_elements = INPUTS,
                               .sample_dtype = CLQ_F32,
                               .labels = labels + r * each};
    return (clq_distributed_batch){.replicas = replicas, .parts = parts};
}

static void every_replica_is_visited_once(void **state) {
    (void)state;
    clq_trainer *trainer = trainer_of(plain, specs[2]);
    const weights before = weights_of(trainer);
    visits v = {.count = {0}};
    assert_ok(clq_run(trainer, NULL, visit, &v));
    assert_ok(clq_run_evaluation(trainer, NULL, visit, &v));
    for (unsigned r = 0; r < 3; r++) {
        assert_int_equal(v.count[r], 2);
        for (unsigned k = 0; k < r; k++) assert_false(pthread_equal(v.threads[r], v.threads[k]));
    }
    /* Nothing was computed. Then come more unused batches than may be under way at once. */
    assert_fails(CLQ_ERROR_STATE, "clq_step_gradients", clq_step_reduce(trainer));
    const clq_distributed_batch batch = batch_of(3, 4);
    loop l = {.scale = 0};
    for (unsigned i = 0; i < 40; i++) assert_ok(clq_run(trainer, &batch, train_step, &l));
    assert_fails(CLQ_ERROR_STATE, "clq_step_gradients", clq_step_reduce(trainer));
    const weights after = weights_of(trainer);
    assert_same_weights(&before, &after);
    clq_trainer_destroy(trainer);
}

/* If only some replicas compute gradients, these are dropped, and the next step is as if they had never existed. */
static clq_status first_computes(clq_replica_context *replica, void *context) {
    (void)context;
    return replica->index == 0 ? clq_replica_gradients(replica, 1) : CLQ_OK;
}

static void all_compute_or_none(void **state) {
    (void)state;
    clq_trainer *trainer = trainer_of(plain, specs[1]), *other = trainer_of(plain, specs[1]);
    const clq_distributed_batch batch = batch_of(2, 6);
    loop l = {.scale = 1};
    assert_ok(clq_per_replica_create(2, 0, NULL, &l.losses));
    assert_fails(CLQ_ERROR_STATE, "1 of the 2 replicas", clq_run(trainer, &batch, first_computes, NULL));
    assert_fails(CLQ_ERROR_STATE, "clq_step_gradients", clq_step_reduce(trainer));
    assert_true(train_batch(trainer, &batch, &l) == train_batch(other, &batch, &l));
    const weights a = weights_of(trainer), b = weights_of(other);
    assert_same_weights(&a, &b);
    clq_per_replica_destroy(l.losses);
    clq_trainer_destroy(trainer);
    clq_trainer_destroy(other);
}

static clq_status misuse(clq_replica_context *replica, void *context) {
    clq_totals totals;
    const bool evaluation = *(bool *)context;
    clq_status status = CLQ_OK;
    if (clq_replica_read(replica, &totals) != CLQ_ERROR_STATE) status = CLQ_ERROR_INTERNAL;
    if (evaluation && clq_replica_gradients(replica, 1) != CLQ_ERROR_STATE) status = CLQ_ERROR_INTERNAL;
    if (!evaluation && clq_replica_evaluate(replica) != CLQ_ERROR_STATE) status = CLQ_ERROR_INTERNAL;
    if (clq_replica_gradients(replica, (double)NAN) != CLQ_ERROR_ARGUMENT) status = CLQ_ERROR_INTERNAL;
    if (clq_replica_gradients(replica, 1e39) != CLQ_ERROR_ARGUMENT) status = CLQ_ERROR_INTERNAL;
    if (!replica->batch) return clq_replica_gradients(replica, 1) == CLQ_ERROR_STATE ? status : CLQ_ERROR_INTERNAL;
    CLQ_TRY(evaluation ? clq_replica_evaluate(replica) : clq_replica_gradients(replica, 1));
    if ((evaluation ? clq_replica_evaluate(replica) : clq_replica_gradients(replica, 1)) != CLQ_ERROR_STATE)
        status = CLQ_ERROR_INTERNAL;
    return status;
}

static clq_status step_within(clq_replica_context *replica, void *context) {
    (void)replica;
    const clq_status status = clq_step(context, &replica->batch[0]);
    if (status != CLQ_ERROR_STATE || !strstr(clq_error_detail(), "clq_step")) return CLQ_ERROR_INTERNAL;
    return CLQ_OK;
}

static clq_status run_within_fit(void *context, const clq_step_info *info) {
    (void)info;
    clq_status status = clq_run(context, NULL, visit, NULL);
    return status == CLQ_ERROR_STATE && strstr(clq_error_detail(), "clq_run was called") ? CLQ_ERROR_INTERRUPTED
                                                                                         : CLQ_ERROR_INTERNAL;
}

static void misuse_is_refused(void **state) {
    (void)state;
    clq_trainer *trainer = trainer_of(plain, specs[1]);
    clq_dataset *data = data_of(BATCH);
    clq_distributed_batch batch = batch_of(2, 6);
    bool evaluation = false;
    assert_ok(clq_run(trainer, NULL, misuse, &evaluation));
    assert_ok(clq_run(trainer, &batch, misuse, &evaluation));
    evaluation = true;
    assert_ok(clq_run_evaluation(trainer, &batch, misuse, &evaluation));
    assert_ok(clq_run(trainer, &batch, step_within, trainer));
    batch = batch_of(2, 7);
    assert_fails(CLQ_ERROR_ARGUMENT, "replica 0: 7 samples", clq_run(trainer, &batch, misuse, &evaluation));
    batch = batch_of(2, 0);
    assert_fails(CLQ_ERROR_ARGUMENT, "no samples", clq_run(trainer, &batch, misuse, &evaluation));
    batch = batch_of(3, 1);
    assert_fails(CLQ_ERROR_ARGUMENT, "3 replicas", clq_run(trainer, &batch, misuse, &evaluation));
    batch = batch_of(2, 2);
    ((clq_batch *)batch.parts)[1].sample_elements++;
    assert_fails(CLQ_ERROR_MISMATCH, "replica 1", clq_run(trainer, &batch, misuse, &evaluation));
    batch = batch_of(2, 2);
    ((clq_batch *)batch.parts)[1].labels = (int32_t[]){0, CLASSES};
    assert_fails(CLQ_ERROR_MISMATCH, "replica 1", clq_run(trainer, &batch, misuse, &evaluation));
    batch = batch_of(2, 6);
    assert_ok(clq_step_reduce(trainer)); /* of the clq_run before the refused ones */
    assert_ok(clq_step_apply(trainer));
    assert_ok(clq_step_accumulate(trainer, &batch.parts[0]));
    assert_fails(CLQ_ERROR_STATE, "clq_step_accumulate", clq_run(trainer, &batch, misuse, &evaluation));
    assert_ok(clq_run_evaluation(trainer, &batch, misuse, &evaluation));
    assert_ok(clq_step(trainer, &batch.parts[1]));
    const clq_fit_config fit = {.epochs = 1, .context = trainer, .on_step = run_within_fit};
    assert_int_equal(clq_fit(trainer, data, &fit), CLQ_ERROR_INTERRUPTED);
    assert_ok(clq_trainer_wait(trainer));
    clq_dataset_destroy(data);
    clq_trainer_destroy(trainer);
    clq_trainer_config config = config_of();
    config.inference_only = true;
    assert_ok(open_trainer(plain, specs[0], &config, &trainer));
    batch = batch_of(1, 6);
    assert_fails(CLQ_ERROR_STATE, "inference-only", clq_run(trainer, &batch, first_computes, NULL));
    clq_trainer_destroy(trainer);
}

/* ---- failures ---- */

/* The other replica waits in the middle of its forward pass for this replica's batch statistics. */
static clq_status last_gives_up(clq_replica_context *replica, void *context) {
    if (replica->index + 1 == replica->replicas) return *(clq_status *)context;
    return clq_replica_gradients(replica, 1);
}

static void failures_of_functions_end_all(void **state) {
    (void)state;
    const struct {
        clq_status returned, told;
    } cases[] = {{CLQ_ERROR_INTERRUPTED, CLQ_ERROR_INTERRUPTED},
                 {CLQ_ERROR_ABORTED, CLQ_ERROR_INTERRUPTED},
                 {CLQ_ERROR_READ, CLQ_ERROR_READ}};
    const clq_distributed_batch batch = batch_of(2, 6);
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        clq_trainer *trainer = trainer_of(modal, specs[1]);
        clq_status returned = cases[i].returned;
        assert_fails(cases[i].told, "replica 1", clq_run(trainer, &batch, last_gives_up, &returned));
        expect_text(clq_error_detail(), clq_status_text(returned));
        assert_fails(cases[i].told, "replica 1", clq_run(trainer, &batch, train_step, NULL));
        assert_fails(cases[i].told, "replica 1", clq_step_apply(trainer));
        clq_trainer_destroy(trainer);
    }
}

/* A whole loop, beginning with its trainer. Its function returns the status of its calls, or ignores the status. */
static clq_status careless_step(clq_replica_context *replica, void *context) {
    (void)train_step(replica, context);
    return CLQ_OK;
}

typedef struct whole_loop {
    clq_replica_function function;
    unsigned fail_at; /* which call of replica 1's thread fails; 0: none */
    unsigned calls;   /* out */
    double loss;      /* out */
} whole_loop;

static clq_status make_pipeline(void *context, const clq_input_context *input, clq_dataset **out) {
    size_t batch;
    (void)context;
    CLQ_TRY(clq_input_batch_per_replica(input, BATCH, &batch));
    return open_data(batch, out);
}

static clq_status run_loop(whole_loop *w, clq_trainer *trainer, clq_distributed_dataset *data, loop *l) {
    clq_distributed_batch batch;
    bool more = true;
    clq_status status = CLQ_OK;
    layer.only(w->fail_at ? "replica 1" : NULL);
    (void)layer.arm(w->fail_at, CL_OUT_OF_RESOURCES, w->fail_at % 2);
    for (unsigned i = 0; i < 3 && status == CLQ_OK; i++) {
        status = clq_distributed_next(data, &batch, &more);
        if (status == CLQ_OK) status = clq_run(trainer, &batch, w->function, l);
        if (status == CLQ_OK) status = clq_step_reduce(trainer);
        if (status == CLQ_OK) status = clq_step_apply(trainer);
        if (status == CLQ_OK) status = clq_run_evaluation(trainer, &batch, evaluate_part, l);
    }
    if (status == CLQ_OK) status = clq_trainer_wait(trainer);
    w->calls = layer.arm(0, 0, false);
    layer.only(NULL);
    clq_totals totals;
    clq_metric_sums_read(l->sums, &totals);
    w->loss = totals.loss;
    return status;
}

static clq_status whole(void *context) {
    whole_loop *w = context;
    const clq_trainer_config config = config_of();
    clq_trainer *trainer = NULL;
    clq_distributed_dataset *data = NULL;
    loop l = {.scale = 1};
    clq_status status = open_trainer(modal, specs[1], &config, &trainer);
    if (status == CLQ_OK) status = clq_per_replica_create(2, 0, NULL, &l.losses);
    if (status == CLQ_OK) status = clq_metric_sums_create(trainer, &l.sums);
    if (status == CLQ_OK) status = clq_mean_create(2, &l.mean);
    if (status == CLQ_OK) status = clq_distribute_function(trainer, CLQ_INPUT_PER_REPLICA, make_pipeline, NULL, &data);
    if (status == CLQ_OK) status = run_loop(w, trainer, data, &l);
    clq_distributed_destroy(data);
    clq_mean_destroy(l.mean);
    clq_metric_sums_destroy(l.sums);
    clq_per_replica_destroy(l.losses);
    clq_trainer_destroy(trainer);
    return status;
}

static void calls_of_devices_fail(void **state) {
    (void)state;
    for (unsigned careless = 0; careless < 2; careless++) {
        whole_loop w = {.function = careless ? careless_step : train_step};
        unsigned failures = 0;
        assert_ok(whole(&w));
        const double clean = w.loss;
        w.fail_at = 1000000;
        assert_ok(whole(&w));
        const unsigned calls = w.calls;
        assert_true(calls > 12);
        for (unsigned n = 1 + careless; n <= calls; n += 7) {
            w.fail_at = n;
            clq_status status = whole(&w);
            if (status == CLQ_OK && w.loss == clean) continue; /* a wait polls a varying number of times */
            failures++;
            if (status != CLQ_ERROR_DEVICE && status != CLQ_ERROR_DEVICE_MEMORY)
                fail_msg("call %u of %u: %s: %s", n, calls, clq_status_text(status), clq_error_detail());
            expect_text(clq_error_detail(), "replica 1");
        }
        assert_true(failures >= 4);
    }
}

static void allocations_fail(void **state) {
    (void)state;
    whole_loop w = {.function = train_step};
    assert_ok(whole(&w));
    const double clean = w.loss;
    (void)clq_memory_fail_at(0, false);
    assert_ok(whole(&w));
    const uint64_t made = clq_memory_fail_at(0, false);
    uint64_t failures = 0;
    for (uint64_t n = 1; n <= made; n += n + 120 < made ? 53 : 2) { /* the loop's own allocations come last */
        (void)clq_memory_fail_at(n, n % 2);
        clq_status status = whole(&w);
        (void)clq_memory_fail_at(0, false);
        if (status != CLQ_OK && (status != CLQ_ERROR_MEMORY || !strstr(clq_error_detail(), "memory")))
            fail_msg("allocation %d: %s: %s", (int)n, clq_status_text(status), clq_error_detail());
        if (status == CLQ_OK && w.loss != clean) fail_msg("allocation %d: another loss", (int)n);
        failures += status != CLQ_OK;
    }
    assert_true(failures > 30);
}

/* ---- the learning rate ---- */

static void rates_are_set_between_steps(void **state) {
    (void)state;
    clq_trainer_config config = config_of();
    config.optimizer = clq_optimizer_default(CLQ_OPTIMIZER_SGD);
    clq_trainer *trainer, *other;
    const clq_batch batch = {
        .count = BATCH, .samples = samples, .sample_elements = INPUTS, .sample_dtype = CLQ_F32, .labels = labels};
    clq_step_info info;
    assert_ok(open_trainer(plain, specs[1], &config, &trainer));
    config.optimizer.values[0] = 0.5;
    assert_ok(open_trainer(plain, specs[1], &config, &other));
    assert_true(clq_trainer_next_learning_rate(other) == 0.5);
    assert_ok(clq_trainer_set_learning_rate(trainer, 0.5)); /* before the first */
    assert_ok(clq_step(trainer, &batch));
    assert_ok(clq_step(other, &batch));
    const weights a = weights_of(trainer), b = weights_of(other);
    assert_same_weights(&a, &b);
    assert_fails(CLQ_ERROR_ARGUMENT, "lr", clq_trainer_set_learning_rate(trainer, -1));
    assert_ok(clq_trainer_set_learning_rate(trainer, 0.125));
    assert_ok(clq_step_read(trainer, &info));
    assert_true(info.lr == 0.5); /* the rate of the update that was made */
    assert_true(clq_trainer_next_learning_rate(trainer) == 0.125);
    assert_ok(clq_step(trainer, &batch));
    assert_ok(clq_step_read(trainer, &info));
    assert_true(info.lr == 0.125);
    /* From the same weights, a fourth of the rate gives a fourth of the update: sgd adds -lr * gradient. */
    assert_ok(clq_step(other, &batch));
    const weights c = weights_of(trainer), d = weights_of(other);
    for (size_t i = 0; i < a.count; i++)
        assert_true(fabs((double)(c.values[i] - a.values[i]) - 0.25 * (double)(d.values[i] - a.values[i])) < 1e-7);
    assert_true(memcmp(c.values, d.values, c.count * sizeof *c.values) != 0);
    clq_trainer_destroy(trainer);
    clq_trainer_destroy(other);
    assert_ok(clq_lr_schedule_parse("cosine:decay_steps=10", &config.schedule));
    assert_ok(open_trainer(plain, specs[0], &config, &trainer));
    assert_fails(CLQ_ERROR_STATE, "schedule", clq_trainer_set_learning_rate(trainer, 0.1));
    assert_true(clq_trainer_next_learning_rate(trainer) == 0.5);
    for (int i = 0; i < 5; i++) assert_ok(clq_step(trainer, &batch));
    assert_true(fabs(clq_trainer_next_learning_rate(trainer) - 0.25) < 1e-12); /* half-way through the cosine */
    clq_trainer_destroy(trainer);
}

static int start(void **state) {
    for (int i = 0; i < SAMPLES; i++) {
        labels[i] = (i * 5 + i / 7) % CLASSES;
        for (int k = 0; k < INPUTS; k++) samples[i][k] = (float)((i * 7 + k * 3 + labels[i] * 5) % 11) / 5.0f - 1.0f;
    }
    if (faults_load(&layer) != 0 || open_system(state) != 0) return -1;
    plain = build(false);
    modal = build(true);
    return 0;
}

static int stop(void **state) {
    clq_model_destroy(plain);
    clq_model_destroy(modal);
    return close_system(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(loops_train_in_central_storage),
                                       cmocka_unit_test(loops_train_as_the_library),
                                       cmocka_unit_test(losses_are_scaled),
                                       cmocka_unit_test(loops_evaluate_as_the_library),
                                       cmocka_unit_test(every_replica_is_visited_once),
                                       cmocka_unit_test(all_compute_or_none),
                                       cmocka_unit_test(misuse_is_refused),
                                       cmocka_unit_test(rates_are_set_between_steps),
                                       cmocka_unit_test(failures_of_functions_end_all),
                                       cmocka_unit_test(calls_of_devices_fail),
                                       cmocka_unit_test(allocations_fail)};
    return cmocka_run_group_tests_name("train/loops", tests, start, stop);
}
