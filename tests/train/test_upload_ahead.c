/* Batches that travel on a queue of their own, to devices that behave like strict discrete GPUs: whatever the drivers
 * hold back, delay and reorder, launches see their own batch, and steps overlap with the next batch's transfer. With
 * CLQ_TEST_WHOLE=1 in the environment, more allocations fail. */
#include "support/check.h"
#include "support/files.h"
#include "support/strict_case.h"
#include "support/system.h"
#include "train/trainer.h"
#include <clique/distribute.h>

#include <limits.h>
#include <math.h>
#include <unistd.h>

enum { SIDE = 8, CLASSES = 3, SAMPLES = 29, BATCH = 8, EPOCH = (SAMPLES + BATCH - 1) / BATCH, STEPS = 3 * EPOCH - 2 };
enum { FLOATS_MOST = 1 << 13, SECONDS_MOST = 240 };
static const char own_way[] = "upload ahead";

static strict layer;
static uint8_t samples[SAMPLES][SIDE][SIDE];
static int32_t labels[SAMPLES];

typedef struct rig {
    clq_model *model;
    clq_dataset *data;
    clq_trainer *trainer;
} rig;

/* A convolution: backward reads the samples, too. */
static clq_model *make_model(void) {
    clq_model *model;
    assert_ok(clq_model_create("small", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(SIDE, SIDE, 1));
    x = clq_conv2d(model, x, &(clq_conv2d_config){.filters = 4, .kernel = {3, 3}, .activation = CLQ_ACTIVATION_TANH});
    x = clq_dense(model, clq_flatten(model, x, NULL),
                  &(clq_dense_config){.units = CLASSES, .activation = CLQ_ACTIVATION_SOFTMAX});
    assert_ok(clq_model_finish(model, x));
    return model;
}

static clq_dataset *make_data(void) {
    clq_dataset *data;
    const size_t shape[] = {SIDE, SIDE, 1};
    assert_ok(clq_dataset_arrays(samples, CLQ_U8, SAMPLES, 3, shape, labels, CLQ_I32, 0, &data));
    assert_ok(clq_dataset_shuffle(data, SAMPLES, 3));
    assert_ok(clq_dataset_batch(data, BATCH, false)); /* the last has five */
    return data;
}

static clq_status open_trainer(rig *r, const char *spec, const char *disabled, const clq_trainer_config *more) {
    clq_devices devices;
    clq_trainer_config config = clq_trainer_config_default();
    config.global_batch = BATCH;
    config.disabled_paths = disabled;
    config.trace_steps = more->trace_steps;
    config.bucket_bytes = more->bucket_bytes;
    config.group.algorithm = more->group.algorithm;
    assert_ok(clq_devices_select(sys, spec, &devices));
    return clq_trainer_create(r->model, &devices, &config, &r->trainer);
}

static rig open_rig(const char *spec, const char *disabled, const clq_trainer_config *more) {
    rig r = {.model = make_model(), .data = make_data()};
    (void)alarm(SECONDS_MOST); /* for what hangs */
    assert_ok(open_trainer(&r, spec, disabled, more));
    return r;
}

static void close_rig(rig *r) {
    clq_trainer_destroy(r->trainer);
    clq_dataset_destroy(r->data);
    clq_model_destroy(r->model);
    (void)alarm(0);
}

static bool is_ahead(const clq_trainer *trainer, const char **reason) {
    clq_path_info path = {.name = ""};
    for (size_t i = 0; strcmp(path.name, own_way) != 0; i++)
        assert_true(clq_strategy_path(clq_trainer_strategy(trainer), i, &path));
    assert_string_equal(path.stage, "input");
    *reason = path.reason;
    return path.on;
}

/* ---- the same bits ---- */

typedef struct result {
    double losses[STEPS], evaluated;
    float weights[FLOATS_MOST], outputs[SAMPLES * CLASSES];
} result;

static clq_status note_loss(void *context, const clq_step_info *info) {
    result *out = context;
    out->losses[info->step - 1] = info->loss;
    return CLQ_OK;
}

static clq_status leave_batch(clq_replica_context *replica, void *context) {
    (void)context;
    return replica->batch ? CLQ_OK : CLQ_ERROR_INTERNAL;
}
static clq_status make_gradients(clq_replica_context *replica, void *context) {
    (void)context;
    return clq_replica_gradients(replica, 1.0 / (double)replica->global_count);
}

/* A run that leaves another batch unused, and one of this batch. */
static void run_by_hand(rig *r, const clq_batch *batch) {
    clq_batch unused[CLQ_REPLICAS_MAX], parts[CLQ_REPLICAS_MAX];
    size_t offsets[CLQ_REPLICAS_MAX], counts[CLQ_REPLICAS_MAX];
    const unsigned replicas = clq_trainer_replicas(r->trainer);
    clq_strategy_share_out(r->trainer->strategy, batch->count, offsets, counts);
    for (unsigned k = 0; k < replicas; k++) {
        unused[k] = parts[k] = *batch;
        unused[k].count = 1;
        unused[k].samples = samples[k];
        parts[k].count = counts[k];
        parts[k].samples = (const uint8_t *)batch->samples + offsets[k] * sizeof samples[0];
        parts[k].labels = (const int32_t *)batch->labels + offsets[k];
    }
    assert_ok(clq_run(r->trainer, &(clq_distributed_batch){replicas, unused, replicas}, leave_batch, NULL));
    assert_ok(clq_run(r->trainer, &(clq_distributed_batch){replicas, parts, batch->count}, make_gradients, NULL));
}

static void step_by_hand(rig *r, size_t index) {
    clq_batch batch;
    bool more;
    assert_ok(clq_dataset_next(r->data, &batch, &more));
    if (!more) assert_ok(clq_dataset_next(r->data, &batch, &more)); /* of the next epoch */
    assert_true(more);
    if (index % 3) {
        assert_ok(clq_step(r->trainer, &batch));
        return;
    }
    if (index % 2)
        run_by_hand(r, &batch);
    else
        assert_ok(clq_step_gradients(r->trainer, &batch));
    assert_ok(clq_step_reduce(r->trainer));
    assert_ok(clq_step_apply(r->trainer));
}

/* A fit, which runs ahead of the devices; then steps by hand, an evaluation and a prediction, and an epoch of steps by
 * hand, whose last batch is not full. */
static void train(const char *spec, const char *disabled, const clq_trainer_config *more, result *out) {
    enum { STEPS_BEFORE = 2 }; /* the evaluation */
    rig r = open_rig(spec, disabled, more);
    size_t floats = 0;
    memset(out, 0, sizeof *out);
    assert_ok(clq_fit(r.trainer, r.data, &(clq_fit_config){.steps = STEPS, .context = out, .on_log = note_loss}));
    assert_ok(clq_dataset_seek(r.data, 0, 0));
    for (size_t i = 0; i < STEPS_BEFORE + EPOCH; i++) {
        clq_totals totals;
        step_by_hand(&r, i);
        if (i + 1 != STEPS_BEFORE) continue;
        assert_ok(clq_dataset_seek(r.data, 0, 0));
        assert_ok(clq_evaluate(r.trainer, r.data, &totals));
        out->evaluated += totals.loss;
        assert_ok(clq_dataset_seek(r.data, 0, 0));
        assert_ok(clq_predict(r.trainer, r.data, out->outputs));
        assert_ok(clq_dataset_seek(r.data, 0, 0));
    }
    for (size_t v = 0; v < clq_model_variable_count(r.model); v++) {
        assert_true(floats + r.model->variables[v].elements <= FLOATS_MOST);
        assert_ok(clq_trainer_get_variable(r.trainer, v, out->weights + floats));
        floats += r.model->variables[v].elements;
    }
    close_rig(&r);
}

static const struct {
    const char *spec;
    clq_algorithm algorithm;
    size_t bucket_bytes;
} places[] = {{"nvidia:0", CLQ_ALGORITHM_AUTO, 0},
              {"nvidia:0,nvidia:1", CLQ_ALGORITHM_RING, 0},
              {"amd:0,nvidia:1", CLQ_ALGORITHM_RING, 1},
              {"pocl:0,amd:1,nvidia:0", CLQ_ALGORITHM_AUTO, 0}};

static void launches_see_their_own_batch(void **state) {
    (void)state;
    static result wanted, got;
    for (size_t p = 0; p < CLQ_COUNT_OF(places); p++) {
        const clq_trainer_config more = {.group.algorithm = places[p].algorithm,
                                         .bucket_bytes = places[p].bucket_bytes};
        strict_disguise(&layer, 0, "");
        train(places[p].spec, own_way, &more, &wanted);
        assert_true(isfinite(wanted.evaluated) && wanted.losses[STEPS - 1] < wanted.losses[0]);
        for (unsigned seed = 1; seed <= STRICT_SEEDS; seed++) {
            char where[128], words[128];
            (void)snprintf(where, sizeof where, "%s, seed %u", places[p].spec, seed);
            (void)snprintf(words, sizeof words, "hold order nan migrate delay_us=%u callback_us=500 slow=%u:4",
                           seed % 2 ? 400u : 100u, seed % 2);
            strict_disguise(&layer, seed, words);
            layer.reset();
            train(places[p].spec, NULL, &more, &got);
            strict_expect_no_violation(&layer, where);
            for (size_t s = 0; s < STEPS; s++)
                if (memcmp(&got.losses[s], &wanted.losses[s], sizeof(double)) != 0)
                    fail_msg("%s: loss %zu is %.17g, not %.17g", where, s + 1, got.losses[s], wanted.losses[s]);
            if (memcmp(&got, &wanted, sizeof got) != 0) fail_msg("%s: other weights or outputs", where);
        }
    }
}

/* ---- what overlaps ---- */

/* An update and the next batch's transfer are each held until both are under way. On one queue they never would be. */
static void a_transfer_overlaps_a_step(void **state) {
    (void)state;
    clq_batch batch;
    bool more;
    clq_step_info info;
    strict_disguise(&layer, 1, "hold");
    rig r = open_rig("nvidia:0", NULL, &(clq_trainer_config){0});
    for (unsigned i = 0; i < 4; i++) {
        assert_ok(clq_dataset_next(r.data, &batch, &more));
        assert_ok(clq_step_gradients(r.trainer, &batch));
        assert_ok(clq_step_reduce(r.trainer));
        assert_ok(clq_trainer_wait(r.trainer));
        layer.meet(2);
        assert_ok(clq_step_apply(r.trainer));
        assert_ok(clq_dataset_next(r.data, &batch, &more));
        assert_ok(clq_step(r.trainer, &batch));
        assert_ok(clq_step_read(r.trainer, &info));
    }
    assert_true(isfinite(info.loss));
    close_rig(&r);
}

typedef struct events {
    double begin[2 * STEPS], end[2 * STEPS];
    size_t count;
} events;

/* Replica 0's events with this name. */
static void find_events(const json_t *trace, const char *name, events *out) {
    const json_t *all = json_object_get(trace, "traceEvents");
    out->count = 0;
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *event = json_array_get(all, i), *ts = json_object_get(event, "ts");
        if (!ts || json_integer_value(json_object_get(event, "pid")) != 1) continue;
        if (strcmp(json_string_value(json_object_get(event, "name")), name) != 0) continue;
        assert_true(out->count < CLQ_COUNT_OF(out->begin));
        out->begin[out->count] = json_number_value(ts);
        out->end[out->count++] = json_number_value(ts) + json_number_value(json_object_get(event, "dur"));
    }
}

/* How many transfers begin before what closed the step before has ended. */
static size_t count_early(const events *uploads, const events *closing) {
    size_t early = 0;
    assert_int_equal(closing->count, STEPS);
    for (size_t s = 1; s < STEPS; s++) early += uploads->begin[s] < closing->end[s - 1];
    return early;
}

/* One transfer per batch. Some come before the update of the step before, or with several replicas its exchange, is
 * over. */
static void traces_show_transfers(void **state) {
    (void)state;
    static const char *const specs[] = {"nvidia:0", "nvidia:0,nvidia:1"};
    static events uploads, parts, closing;
    strict_disguise(&layer, 1, "hold delay_us=100");
    for (size_t d = 0; d < CLQ_COUNT_OF(specs); d++) {
        json_t *trace;
        const char *path = files_path("trace.json");
        rig r = open_rig(specs[d], NULL, &(clq_trainer_config){.trace_steps = STEPS});
        assert_ok(clq_fit(r.trainer, r.data, &(clq_fit_config){.steps = STEPS}));
        assert_ok(clq_trainer_write_trace(r.trainer, path));
        close_rig(&r);
        assert_ok(clq_json_read(path, 64 << 20, 8, &trace));
        find_events(trace, "upload/batch", &uploads);
        find_events(trace, "upload/samples", &parts);
        find_events(trace, d ? "all-reduce" : "update/update", &closing);
        assert_int_equal(uploads.count, STEPS);
        assert_int_equal(parts.count, 0);
        assert_true(count_early(&uploads, &closing) > 0);
        json_decref(trace);
    }
}

/* ---- where it is off ---- */

static void it_is_off_where_it_costs(void **state) {
    (void)state;
    static const struct {
        const char *spec, *disabled, *reason;
    } all[] = {{"nvidia:0", NULL, NULL},
               {"nvidia:0,pocl:0", NULL, NULL},
               {"nvidia:0", own_way, "switched off"},
               {"pocl:0", NULL, "the device's memory is the host's"},
               {"pocl:0,nvidia:0", NULL, "the device's memory is the host's"},
               {"pocl:0", "input in place", "the device's memory is the host's"}};
    strict_disguise(&layer, 1, "");
    for (size_t i = 0; i < CLQ_COUNT_OF(all); i++) {
        const char *reason;
        rig r = open_rig(all[i].spec, all[i].disabled, &(clq_trainer_config){0});
        assert_true(is_ahead(r.trainer, &reason) == !all[i].reason);
        if (all[i].reason) assert_string_equal(reason, all[i].reason);
        close_rig(&r);
    }
}

/* ---- memory ---- */

static uint64_t allocations_of(rig *r, size_t steps) {
    assert_ok(clq_dataset_seek(r->data, 0, 0));
    (void)clq_memory_fail_at(UINT64_MAX, false);
    assert_ok(clq_fit(r->trainer, r->data, &(clq_fit_config){.steps = steps}));
    return clq_memory_fail_at(0, false);
}

/* After the first steps; a fit takes some memory, whatever its steps. */
static void steps_allocate_nothing(void **state) {
    (void)state;
    strict_disguise(&layer, 1, "hold");
    rig r = open_rig("nvidia:0", NULL, &(clq_trainer_config){0});
    (void)allocations_of(&r, EPOCH);
    assert_int_equal(allocations_of(&r, EPOCH), allocations_of(&r, 1));
    close_rig(&r);
}

/* ---- failures ---- */

/* 0: of none. *made: allocations, from opening the trainer to the last step. */
static clq_status train_with_failure_at(uint64_t n, uint64_t *made) {
    rig r = {.model = make_model(), .data = make_data()};
    (void)alarm(SECONDS_MOST);
    (void)clq_memory_fail_at(n, n % 2);
    clq_status status = open_trainer(&r, "nvidia:0", NULL, &(clq_trainer_config){0});
    if (status == CLQ_OK) status = clq_fit(r.trainer, r.data, &(clq_fit_config){.steps = 4});
    *made = clq_memory_fail_at(0, false);
    close_rig(&r);
    return status;
}

static void any_allocation_fails(void **state) {
    (void)state;
    const uint64_t stride = clq_environment("CLQ_TEST_WHOLE") ? 7 : 13;
    uint64_t all, made, failures = 0;
    strict_disguise(&layer, 1, "hold");
    assert_ok(train_with_failure_at(0, &all));
    for (uint64_t n = 1; n <= all; n += stride) {
        clq_status status = train_with_failure_at(n, &made);
        if (status != CLQ_OK && status != CLQ_ERROR_MEMORY)
            fail_msg("allocation %d: %s: %s", (int)n, clq_status_text(status), clq_error_detail());
        failures += status != CLQ_OK;
    }
    assert_true(failures > all / stride / 2);
}

/* From one call or another on, all of the device's calls fail, with batches under way. */
static void a_lost_device_is_named(void **state) {
    (void)state;
    unsigned failures = 0;
    strict_disguise(&layer, 1, "hold delay_us=100");
    for (unsigned long calls = 0;; calls += 7) {
        rig r = open_rig("nvidia:0", NULL, &(clq_trainer_config){0});
        layer.lose(0, calls);
        clq_status status = clq_fit(r.trainer, r.data, &(clq_fit_config){.steps = 5});
        const bool named = strstr(clq_error_detail(), "-9999") != NULL;
        close_rig(&r);
        layer.lose(0, ULONG_MAX);
        if (status == CLQ_OK) break;
        assert_int_equal(status, CLQ_ERROR_DEVICE);
        assert_true(named);
        failures++;
    }
    assert_true(failures >= 10);
}

static int start(void **state) {
    clq_random random = clq_random_start(8, 0);
    for (size_t i = 0; i < SAMPLES; i++) {
        labels[i] = (int32_t)(i % CLASSES);
        for (size_t k = 0; k < SIDE * SIDE; k++)
            samples[i][k / SIDE][k % SIDE] =
                (uint8_t)(clq_random_below(&random, 128) + (k % CLASSES == i % CLASSES ? 100 : 0));
    }
    if (files_begin(state) != 0) return -1;
    return open_system(state);
}
static int stop(void **state) {
    clq_system_close(sys);
    return files_end(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches_see_their_own_batch), cmocka_unit_test(a_transfer_overlaps_a_step),
        cmocka_unit_test(traces_show_transfers),        cmocka_unit_test(it_is_off_where_it_costs),
        cmocka_unit_test(steps_allocate_nothing),       cmocka_unit_test(any_allocation_fails),
        cmocka_unit_test(a_lost_device_is_named)};
    if (strict_load(&layer, STRICT_DISGUISE) != 0) return 1;
    return cmocka_run_group_tests_name("train/upload_ahead", tests, start, stop);
}
