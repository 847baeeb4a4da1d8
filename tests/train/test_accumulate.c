/* Updates that accumulate several batches. They equal updates of one batch with the same samples, on any devices, by
 * clq_fit or by hand. Replicas exchange once for each update. */
#include "strategy/module.h"
#include "support/apart.h"
#include "support/check.h"
#include "support/system.h"
#include "train/trainer.h"

#include <math.h>
#include <unistd.h>

/* An epoch has ten batches, the last of one sample. They make three updates of 4, 4 and 2 batches. */
enum { SAMPLES = 46, BATCH = 5, BATCHES = 10, ACCUMULATE = 4, UPDATES = 3, INPUTS = 24, UNITS = 32, CLASSES = 3 };
enum { STEPS = 3 * UPDATES + 2, FLOATS_MOST = 2048, SECONDS_MOST = 600 };

static float samples[SAMPLES][INPUTS];
static int32_t labels[SAMPLES];

typedef struct figures {
    double loss, norm, accuracy;
    size_t samples;
} figures;

/* A training with its own trainer. All trainings begin with the same weights. */
typedef struct training {
    clq_model *model;
    clq_dataset *data;
    clq_trainer *trainer;
    figures steps[STEPS];
    size_t made, batches, stop_at; /* batches: told by on_progress; stop_at: the batch that ends the fit; 0: none */
    float weights[FLOATS_MOST];
} training;

static clq_model *make_model(bool dropout, bool statistics) {
    clq_model *m;
    assert_ok(clq_model_create("small", &m));
    clq_tensor x = clq_input(m, CLQ_SHAPE(INPUTS));
    x = clq_dense(m, x, &(clq_dense_config){.units = UNITS, .activation = CLQ_ACTIVATION_TANH});
    if (statistics) x = clq_batch_norm(m, x, NULL);
    if (dropout) x = clq_dropout(m, x, &(clq_dropout_config){.rate = 0.25});
    assert_ok(clq_model_finish(
        m, clq_dense(m, x, &(clq_dense_config){.units = CLASSES, .activation = CLQ_ACTIVATION_SOFTMAX})));
    return m;
}

static clq_dataset *open_data(size_t batch) {
    const size_t shape[] = {INPUTS};
    clq_dataset *data;
    assert_ok(clq_dataset_arrays(samples, CLQ_F32, SAMPLES, 1, shape, labels, CLQ_I32, 0, &data));
    assert_ok(clq_dataset_batch(data, batch, false));
    return data;
}

static clq_trainer_config config_of(size_t batch, uint64_t accumulate) {
    clq_trainer_config config = apart_config();
    config.global_batch = batch;
    config.sample_dtype = CLQ_F32;
    config.measure_gradient = true;
    config.strategy_options.accumulate = accumulate;
    return config;
}

static void open_training(training *t, const char *spec, const clq_trainer_config *config, clq_model *model) {
    clq_devices devices;
    *t = (training){.model = model, .data = open_data(config->global_batch)};
    assert_ok(clq_devices_select(sys, spec, &devices));
    assert_ok(clq_trainer_create(model, &devices, config, &t->trainer));
}

static void close_training(training *t) {
    clq_trainer_destroy(t->trainer);
    clq_dataset_destroy(t->data);
    clq_model_destroy(t->model);
}

static void read_weights(training *t) {
    size_t at = 0;
    for (size_t v = 0; v < t->model->variable_count; at += t->model->variables[v++].elements) {
        assert_true(at + t->model->variables[v].elements <= FLOATS_MOST);
        assert_ok(clq_trainer_get_variable(t->trainer, v, t->weights + at));
    }
}

static clq_status on_log(void *context, const clq_step_info *info) {
    training *t = context;
    assert_int_equal(info->step, t->made + 1);
    assert_true(t->made < STEPS);
    t->steps[t->made++] =
        (figures){info->loss, info->grad_norm, clq_metric_value(&info->metrics, "accuracy"), info->samples};
    return CLQ_OK;
}

static clq_status fit(training *t, uint64_t steps) {
    return clq_fit(t->trainer, t->data, &(clq_fit_config){.steps = steps, .context = t, .on_log = on_log});
}

static void check_near(const char *what, size_t step, double got, double want, double tolerance) {
    if (!(fabs(got - want) <= tolerance * fabs(want)))
        fail_msg("%s of step %zu is %.10g and not %.10g", what, step + 1, got, want);
}

static void check_steps(const training *got, const training *want, size_t steps) {
    for (size_t s = 0; s < steps; s++) {
        assert_int_equal(got->steps[s].samples, want->steps[s].samples);
        check_near("the loss", s, got->steps[s].loss, want->steps[s].loss, 1e-5);
        check_near("the norm", s, got->steps[s].norm, want->steps[s].norm, 1e-5);
        assert_true(got->steps[s].accuracy == want->steps[s].accuracy);
    }
}

static const char *const places[] = {"pocl:0", "pocl:0,pocl:1", "pocl:0,pocl:1,pocl:2"};

/* The updates are compared with whole batches on one device, with dropout, whose mask depends on the sample's place in
 * the update. The last batch has fewer samples than there are replicas. Two runs have the same bits. */
static void updates_are_those_of_whole_batches(void **state) {
    (void)state;
    static training whole, cut, again;
    const clq_trainer_config config = config_of(BATCH, ACCUMULATE), large = config_of(BATCH * ACCUMULATE, 0);
    open_training(&whole, places[0], &large, make_model(true, false));
    assert_ok(fit(&whole, STEPS));
    assert_int_equal(whole.steps[UPDATES - 1].samples, SAMPLES - 2 * BATCH * ACCUMULATE);
    for (size_t i = 0; i < CLQ_COUNT_OF(places); i++) {
        open_training(&cut, places[i], &config, make_model(true, false));
        open_training(&again, places[i], &config, make_model(true, false));
        assert_ok(fit(&cut, STEPS));
        assert_ok(fit(&again, STEPS));
        assert_int_equal(cut.made, STEPS);
        check_steps(&cut, &whole, STEPS);
        assert_memory_equal(cut.steps, again.steps, sizeof cut.steps);
        read_weights(&cut);
        read_weights(&again);
        assert_memory_equal(cut.weights, again.weights, sizeof cut.weights);
        close_training(&cut);
        close_training(&again);
    }
    close_training(&whole);
}

/* Batches more than an update may have, or less; and a set that is one update of many batches. */
static void any_number_of_batches(void **state) {
    (void)state;
    static training whole, cut;
    const clq_trainer_config large = config_of(SAMPLES, 0), config = config_of(BATCH, 256);
    open_training(&whole, places[0], &large, make_model(false, false));
    open_training(&cut, places[1], &config, make_model(false, false));
    assert_ok(fit(&whole, 3));
    assert_ok(fit(&cut, 3));
    check_steps(&cut, &whole, 3);
    close_training(&whole);
    close_training(&cut);
}

static size_t count_exchanges(clq_trainer *trainer, unsigned replica) {
    clq_replica_trace trace;
    assert_ok(clq_strategy_trace(trainer->strategy, replica, &trace));
    size_t count = 0;
    for (size_t i = 0; i < trace.exchange->count; i++)
        count += strcmp(trace.exchange->spans[i].name, "all-reduce") == 0;
    clq_free(trace.queue);
    clq_free(trace.uploads);
    return count;
}

static void replicas_meet_once_for_each_update(void **state) {
    (void)state;
    static training t;
    for (uint64_t accumulate = 1; accumulate <= ACCUMULATE; accumulate += ACCUMULATE - 1) {
        clq_trainer_config config = config_of(BATCH, accumulate);
        config.trace_steps = 4 * BATCHES;
        open_training(&t, places[2], &config, make_model(false, false));
        const size_t updates = accumulate > 1 ? UPDATES : BATCHES;
        assert_ok(clq_fit(t.trainer, t.data, &(clq_fit_config){.epochs = 2}));
        assert_int_equal(t.trainer->step, 2 * updates);
        for (unsigned r = 0; r < 3; r++) assert_int_equal(count_exchanges(t.trainer, r), 2 * updates);
        close_training(&t);
    }
}

/* ---- by hand ---- */

static void take(training *t, clq_batch *batch) {
    bool more;
    assert_ok(clq_dataset_next(t->data, batch, &more));
    if (!more) assert_ok(clq_dataset_next(t->data, batch, &more));
    assert_true(more);
}

/* Makes the same updates by hand. Each ends with a whole step (s) or a step in parts (h). */
static void step_by_hand(training *t, char how) {
    clq_step_info info;
    for (size_t i = 1;; i++) {
        clq_batch batch;
        take(t, &batch);
        if (i < ACCUMULATE && batch.index + 1 < BATCHES) {
            assert_ok(clq_step_accumulate(t->trainer, &batch));
            continue;
        }
        if (how == 's') {
            assert_ok(clq_step(t->trainer, &batch));
            break;
        }
        assert_ok(clq_step_gradients(t->trainer, &batch));
        assert_ok(clq_step_reduce(t->trainer));
        assert_ok(clq_step_apply(t->trainer));
        break;
    }
    assert_ok(clq_step_read(t->trainer, &info));
    assert_ok(on_log(t, &info));
}

/* Also with buckets, which an update of one batch exchanges during backward. */
static void steps_by_hand_are_those_of_a_fit(void **state) {
    (void)state;
    static training fitted, by_hand;
    for (size_t i = 0; i < CLQ_COUNT_OF(places); i++) {
        const clq_trainer_config config = config_of(BATCH, ACCUMULATE);
        clq_trainer_config hand = config_of(BATCH, 0);
        hand.bucket_bytes = 1;
        open_training(&fitted, places[i], &config, make_model(false, false));
        open_training(&by_hand, places[i], &hand, make_model(false, false));
        assert_ok(fit(&fitted, 2 * UPDATES));
        for (const char *how = "shhssh"; *how; how++) step_by_hand(&by_hand, *how);
        check_steps(&by_hand, &fitted, 2 * UPDATES);
        close_training(&fitted);
        close_training(&by_hand);
    }
}

/* Loss and metrics are those of all batches so far, whatever is evaluated in between, also for more batches than there
 * are rows of metrics. Only an update has a norm. */
static void what_is_read_is_of_all_batches(void **state) {
    (void)state;
    static training t;
    const clq_trainer_config config = config_of(BATCH, 0);
    clq_totals totals;
    clq_step_info info;
    clq_batch batch;
    const size_t epochs = CLQ_METRIC_SLOTS / BATCHES + 2;
    open_training(&t, places[1], &config, make_model(false, false));
    assert_ok(clq_evaluate(t.trainer, t.data, &totals)); /* the weights stay as they are until the step */
    for (size_t i = 0; i < epochs * BATCHES - 1; i++) {
        take(&t, &batch);
        assert_ok(clq_step_accumulate(t.trainer, &batch));
        if (i == 2 || i == 7) assert_ok(clq_evaluate(t.trainer, t.data, &totals));
        if (i % BATCHES != BATCHES - 1) continue;
        assert_ok(clq_step_read(t.trainer, &info));
        check_near("the loss", i, info.loss, totals.loss, 1e-6);
        check_near("accuracy", i, clq_metric_value(&info.metrics, "accuracy"),
                   clq_metric_value(&totals.metrics, "accuracy"), 1e-12);
        assert_true(info.step == 0 && isnan(info.grad_norm) && info.samples == (i / BATCHES + 1) * SAMPLES);
    }
    take(&t, &batch);
    assert_ok(clq_step(t.trainer, &batch));
    assert_ok(clq_step_read(t.trainer, &info));
    check_near("the loss", 0, info.loss, totals.loss, 1e-6);
    assert_true(info.step == 1 && info.grad_norm > 0 && info.samples == epochs * SAMPLES);
    close_training(&t);
}

/* Each batch has its own statistics, and adds them to the moving ones. */
static void statistics_are_of_each_batch(void **state) {
    (void)state;
    static training one, other;
    const clq_trainer_config config = config_of(BATCH, 0);
    open_training(&one, places[0], &config, make_model(false, true));
    open_training(&other, places[0], &config, make_model(false, true));
    read_weights(&one);
    const float before = one.weights[INPUTS * UNITS + 3 * UNITS]; /* a moving mean */
    for (size_t i = 0; i < 3; i++) {
        clq_batch batch;
        take(&one, &batch);
        assert_ok(clq_step_accumulate(one.trainer, &batch));
        take(&other, &batch);
        assert_ok(clq_step_gradients(other.trainer, &batch));
    }
    read_weights(&one);
    read_weights(&other);
    assert_memory_equal(one.weights, other.weights, sizeof one.weights);
    assert_true(before != one.weights[INPUTS * UNITS + 3 * UNITS]);
    close_training(&one);
    close_training(&other);
}

/* ---- updates that are not made ---- */

static clq_status on_progress(void *context, const clq_progress *progress) {
    training *t = context;
    clq_totals totals;
    assert_int_equal(progress->batches, BATCHES);
    assert_int_equal(progress->step, progress->batch / ACCUMULATE + (progress->batch == BATCHES));
    t->batches = progress->batch;
    assert_ok(clq_evaluate(t->trainer, t->data, &totals)); /* also in the middle of an update; and time goes by */
    usleep(260000);
    return t->batches >= t->stop_at ? clq_fail(CLQ_ERROR_INTERRUPTED, "stopped") : CLQ_OK;
}

/* Progress is told after any batch, for the batches so far. A fit that is stopped there leaves no trace of the update
 * that it had begun. */
static void a_stopped_update_is_forgotten(void **state) {
    (void)state;
    static training stopped, whole;
    for (size_t i = 0; i < 2; i++) {
        const clq_trainer_config config = config_of(BATCH, ACCUMULATE);
        open_training(&stopped, places[i], &config, make_model(false, false));
        open_training(&whole, places[i], &config, make_model(false, false));
        stopped.stop_at = ACCUMULATE + 2;
        const clq_fit_config how = {.epochs = 1, .context = &stopped, .on_progress = on_progress, .on_log = on_log};
        assert_fails(CLQ_ERROR_INTERRUPTED, "stopped", clq_fit(stopped.trainer, stopped.data, &how));
        assert_int_equal(stopped.batches, ACCUMULATE + 2);
        assert_int_equal(stopped.made, 1);
        assert_ok(fit(&whole, 1));
        assert_ok(clq_dataset_seek(stopped.data, 0, 0));
        assert_ok(clq_dataset_seek(whole.data, 0, 0));
        assert_ok(fit(&stopped, UPDATES));
        assert_ok(fit(&whole, UPDATES));
        assert_memory_equal(stopped.steps, whole.steps, sizeof whole.steps);
        close_training(&stopped);
        close_training(&whole);
    }
}

static void nonsense_is_refused(void **state) {
    (void)state;
    static training t;
    clq_devices devices;
    clq_trainer *none = NULL;
    clq_batch batch;
    clq_trainer_config config = config_of(BATCH, CLQ_ACCUMULATE_MAX + 1);
    clq_model *model = make_model(false, false);
    assert_ok(clq_devices_select(sys, places[0], &devices));
    assert_fails(CLQ_ERROR_ARGUMENT, "65537 batches to accumulate are too many: an update takes up to 65536",
                 clq_trainer_create(model, &devices, &config, &none));
    config = config_of((size_t)1 << 20, 4096);
    assert_fails(CLQ_ERROR_ARGUMENT, "4096 batches of 1048576 are too large for an update",
                 clq_trainer_create(model, &devices, &config, &none));
    config = config_of(BATCH, 2);
    config.inference_only = true;
    assert_fails(CLQ_ERROR_ARGUMENT, "a trainer for inference makes none",
                 clq_trainer_create(model, &devices, &config, &none));
    assert_null(none);
    config = config_of(BATCH, 0);
    open_training(&t, places[0], &config, model);
    take(&t, &batch);
    assert_ok(clq_step_accumulate(t.trainer, &batch));
    assert_fails(CLQ_ERROR_STATE, "comes after clq_step_gradients", clq_step_reduce(t.trainer));
    assert_fails(CLQ_ERROR_STATE, "clq_step_accumulate began an update", fit(&t, 1));
    assert_ok(clq_step_gradients(t.trainer, &batch));
    assert_fails(CLQ_ERROR_STATE, "clq_step_accumulate comes before", clq_step_accumulate(t.trainer, &batch));
    assert_ok(clq_step_reduce(t.trainer));
    assert_ok(clq_step_apply(t.trainer));
    assert_ok(clq_step_accumulate(t.trainer, &batch));
    close_training(&t);
}

/* A module that does not declare that it can accumulate. */
static void modules_may_refuse(void **state) {
    (void)state;
    static training t;
    clq_batch batch;
    const clq_trainer_config config = config_of(BATCH, 0);
    open_training(&t, places[1], &config, make_model(false, false));
    const clq_strategy_module *module = t.trainer->strategy->module;
    clq_strategy_module other = *module;
    other.name = "other";
    other.accumulates = false;
    take(&t, &batch);
    t.trainer->strategy->module = &other;
    assert_fails(CLQ_ERROR_ARGUMENT, "strategy other makes an update of each batch: use single or mirrored",
                 clq_step_accumulate(t.trainer, &batch));
    assert_ok(clq_step(t.trainer, &batch));
    assert_ok(clq_trainer_wait(t.trainer));
    t.trainer->strategy->module = module;
    assert_ok(clq_step_accumulate(t.trainer, &batch));
    close_training(&t);
}

static int start(void **state) {
    for (int i = 0; i < SAMPLES; i++) {
        labels[i] = i * 5 % 7 % CLASSES;
        for (int k = 0; k < INPUTS; k++)
            samples[i][k] = (float)((i * 7 + k * 3) % 11) / 11.0f + (float)(k == labels[i]);
    }
    (void)alarm(SECONDS_MOST);
    return open_system(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_are_those_of_whole_batches),
        cmocka_unit_test(any_number_of_batches),
        cmocka_unit_test(replicas_meet_once_for_each_update),
        cmocka_unit_test(steps_by_hand_are_those_of_a_fit),
        cmocka_unit_test(what_is_read_is_of_all_batches),
        cmocka_unit_test(statistics_are_of_each_batch),
        cmocka_unit_test(a_stopped_update_is_forgotten),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(modules_may_refuse),
    };
    return cmocka_run_group_tests_name("train/accumulate", tests, start, close_system);
}
