/* The check of replicas' weights. With every strategy it is silent if nothing is wrong. If memory was changed behind
 * its back, it names the variable and the replica. */
#include "strategy/module.h"
#include "support/apart.h"
#include "support/check.h"
#include "support/system.h"
#include "train/trainer.h"

#include <stdio.h>

/* The shares of three replicas and micro-batches have no fewer than the 8 rows of a tile, so all use the same
 * kernels. */
enum { INPUTS = 6, CLASSES = 3, BATCH = 31 };
static float samples[BATCH][INPUTS];
static int32_t labels[BATCH];
static const clq_batch batch = {
    .count = BATCH, .samples = samples, .sample_elements = INPUTS, .sample_dtype = CLQ_F32, .labels = labels};

typedef struct setting {
    const char *name, *spec;
    clq_strategy_kind strategy;
    clq_strategy_options options;
    const char *disabled;
    bool synchronized;
    unsigned spoilt;      /* the replica whose memory is changed */
    const char *variable; /* the variable that is changed; NULL: the strategy has no replicas to compare */
    const char *other;    /* the replica that the message names as right; without a variable: what the refusal says */
} setting;

/* Replicas that shard the update do so in one launch. For all else here the way of launching does not matter. */
static const setting settings[] = {
    {"mirrored",
     "pocl:0,pocl:1",
     CLQ_STRATEGY_MIRRORED,
     {0},
     APART ",overlap,sharded update",
     false,
     1,
     "dense/kernel",
     "0 ("},
    {"majority", "pocl:0,pocl:1,pocl:2", CLQ_STRATEGY_MIRRORED, {0}, NULL, false, 0, "dense_1/bias", "1 ("},
    {"synchronized state",
     "pocl:0,pocl:1",
     CLQ_STRATEGY_MIRRORED,
     {0},
     APART,
     true,
     1,
     "batch_normalization/moving_variance",
     "0 ("},
    {"sharded optimizer",
     "pocl:0,pocl:1,pocl:2",
     CLQ_STRATEGY_MIRRORED,
     {.shard_optimizer = 1},
     NULL,
     false,
     2,
     "dense_2/kernel",
     "0 ("},
    {"local steps", "pocl:0,pocl:1", CLQ_STRATEGY_MIRRORED, {.local_steps = 3}, APART, false, 1, "dense/kernel", "0 ("},
    {"topk",
     "pocl:0,pocl:1",
     CLQ_STRATEGY_MIRRORED,
     {.compression = {.kind = CLQ_COMPRESSION_TOP_K, .fraction = 0.1}},
     APART,
     false,
     1,
     "dense/bias",
     "0 ("},
    {"two pipelines",
     "pocl:0,pocl:1,pocl:2,pocl:3",
     CLQ_STRATEGY_PIPELINE,
     {.stages = 2, .micro_batches = 2},
     APART,
     false,
     3,
     "dense_2/kernel",
     "1 ("},
    {"tensor", "pocl:0,pocl:1", CLQ_STRATEGY_TENSOR, {0}, APART, false, 1, "batch_normalization/gamma", "0 ("},
    {"single", "pocl:0", CLQ_STRATEGY_SINGLE, {0}, APART, false, 0, NULL, "no two replicas with the same weights"},
    {"one pipeline", "pocl:0,pocl:1", CLQ_STRATEGY_PIPELINE, {0}, APART, false, 0, NULL, "no two replicas"},
    {"central", "pocl:0,pocl:1", CLQ_STRATEGY_CENTRAL, {0}, APART, false, 0, NULL, "in the host's memory"},
    {"ps", "pocl:0,pocl:1", CLQ_STRATEGY_PS, {0}, APART, false, 0, NULL, "in the host's memory"},
#if defined(__x86_64__)
    {"unlike devices", "pocl:0,intel", CLQ_STRATEGY_MIRRORED, {0}, APART, false, 0, NULL, "devices that round alike"},
    {"two alike of three", "pocl:0,intel,pocl:1", CLQ_STRATEGY_MIRRORED, {0}, APART, false, 2, "dense_1/kernel", "0 ("},
#endif
};

static clq_model *make_model(bool synchronized) {
    clq_model *model;
    assert_ok(clq_model_create("small", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(INPUTS));
    x = clq_dense(model, x, &(clq_dense_config){.units = 8, .activation = CLQ_ACTIVATION_TANH});
    x = clq_batch_norm(model, x,
                       &(clq_batch_norm_config){.momentum = 0.9, .epsilon = 1e-3, .synchronized = synchronized});
    x = clq_dense(model, x, &(clq_dense_config){.units = 150, .activation = CLQ_ACTIVATION_TANH});
    x = clq_dense(model, x, &(clq_dense_config){.units = CLASSES, .activation = CLQ_ACTIVATION_SOFTMAX});
    assert_ok(clq_model_finish(model, x));
    return model;
}

static clq_status open_trainer(const clq_model *model, const setting *s, uint64_t every, clq_trainer **out) {
    clq_devices devices;
    clq_trainer_config config = clq_trainer_config_default();
    config.global_batch = BATCH;
    config.sample_dtype = CLQ_F32;
    config.strategy = s->strategy;
    config.strategy_options = s->options;
    config.disabled_paths = s->disabled;
    config.check_replicas = every;
    assert_ok(clq_devices_select(sys, s->spec, &devices));
    return clq_trainer_create(model, &devices, &config, out);
}

static size_t index_of(const clq_model *model, const char *name) {
    for (size_t v = 0; v < clq_model_variable_count(model); v++) {
        clq_variable_info info;
        assert_ok(clq_model_variable(model, v, &info));
        if (strcmp(info.name, name) == 0) return v;
    }
    fail_msg("no variable '%s'", name);
    return 0;
}

/* ---- memory that is changed ---- */

/* Flips one bit of the variable's last number. */
static clq_status spoil(clq_worker *worker, const clq_command *command) {
    const clq_weights *weights = clq_replica_of(worker)->weights;
    const clq_arena arena = command->memory;
    const size_t at = clq_weights_offset(weights, command->variable) +
                      clq_weights_variable_bytes(weights, command->variable) - sizeof(uint32_t);
    uint32_t word;
    CLQ_TRY(clq_queue_read(worker->queue, clq_weights_arena(weights, arena), at, &word, sizeof word, true));
    word ^= 0x80000000u;
    return clq_queue_write(worker->queue, clq_weights_arena(weights, arena), at, &word, sizeof word, true);
}

static void spoil_replica(clq_trainer *trainer, unsigned replica, size_t variable) {
    static const clq_command_kind kind = {.name = "spoil", .run = spoil};
    const clq_command command = {
        .kind = &kind, .variable = variable, .memory = clq_variable_arena(&trainer->model->variables[variable])};
    assert_ok(clq_worker_call(&trainer->strategy->replicas[replica].worker, &command));
}

static void expect_named(const setting *s, clq_status status) {
    char replica[48];
    const char *others = strstr(clq_error_detail(), ", and ");
    snprintf(replica, sizeof replica, " on replica %u (", s->spoilt);
    if (status != CLQ_ERROR_REPLICAS_DIFFER) fail_msg("%s: %s", s->name, clq_status_text(status));
    expect_text(clq_error_detail(), s->variable);
    expect_text(clq_error_detail(), "clique doctor");
    if (!others) fail_msg("%s: %s", s->name, clq_error_detail());
    expect_text(others, replica);
    if (strstr(strstr(others, replica) + 1, " on replica "))
        fail_msg("%s: another is named: %s", s->name, clq_error_detail());
    snprintf(replica, sizeof replica, " on replica %s", s->other);
    const char *right = strstr(clq_error_detail(), replica);
    if (!right || right > others) fail_msg("%s: another is taken for right: %s", s->name, clq_error_detail());
}

static void a_changed_bit_is_named(void **state) {
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(settings); i++) {
        const setting *s = &settings[i];
        clq_model *model = make_model(s->synchronized);
        clq_trainer *trainer = NULL;
        bool checked;
        printf("%s\n", s->name);
        if (!s->variable) {
            assert_fails(CLQ_ERROR_ARGUMENT, s->other, open_trainer(model, s, 1, &trainer));
            clq_model_destroy(model);
            continue;
        }
        assert_ok(open_trainer(model, s, 1, &trainer));
        for (unsigned step = 1; step <= 3; step++) assert_ok(clq_step(trainer, &batch));
        assert_ok(clq_strategy_check_replicas(trainer->strategy, 3, &checked));
        assert_true(checked);
        spoil_replica(trainer, s->spoilt, index_of(model, s->variable));
        expect_named(s, clq_strategy_check_replicas(trainer->strategy, 3, &checked));
        spoil_replica(trainer, s->spoilt, index_of(model, s->variable));
        assert_ok(clq_strategy_check_replicas(trainer->strategy, 3, &checked));
        clq_trainer_destroy(trainer);
        clq_model_destroy(model);
    }
}

/* ---- when the check is made ---- */

static clq_status fit(clq_trainer *trainer, uint64_t steps) {
    clq_dataset *data;
    const size_t shape[] = {INPUTS};
    assert_ok(clq_dataset_arrays(samples, CLQ_F32, BATCH, 1, shape, labels, CLQ_I32, 1, &data));
    assert_ok(clq_dataset_batch(data, BATCH, false));
    const clq_status status = clq_fit(trainer, data, &(clq_fit_config){.steps = steps});
    clq_dataset_destroy(data);
    return status;
}

/* The check comes after every third update: of a fit, of steps by hand, and of steps in three parts. The trainer goes
 * on. */
static void it_is_made_behind_each_nth_update(void **state) {
    (void)state;
    clq_model *model = make_model(false);
    clq_trainer *trainer;
    assert_ok(open_trainer(model, &settings[0], 3, &trainer));
    spoil_replica(trainer, 1, 0);
    assert_ok(fit(trainer, 2));
    assert_fails(CLQ_ERROR_REPLICAS_DIFFER, "step 3: replicas have different weights in 'dense/kernel'",
                 fit(trainer, 5));
    assert_int_equal(trainer->step, 3);
    assert_ok(clq_step(trainer, &batch));
    assert_ok(clq_step(trainer, &batch));
    assert_fails(CLQ_ERROR_REPLICAS_DIFFER, "step 6: replicas have different weights in 'dense/kernel'",
                 clq_step(trainer, &batch));
    for (unsigned step = 7; step <= 9; step++) {
        assert_ok(clq_step_gradients(trainer, &batch));
        assert_ok(clq_step_reduce(trainer));
        if (step < 9) assert_ok(clq_step_apply(trainer));
    }
    assert_fails(CLQ_ERROR_REPLICAS_DIFFER, "step 9: replicas have different weights in 'dense/kernel'",
                 clq_step_apply(trainer));
    clq_trainer_destroy(trainer);
    /* Weights are averaged after every third step. A check is due after every second step, so it comes after steps 3
     * and 6. */
    const setting *local = &settings[4];
    assert_ok(open_trainer(model, local, 2, &trainer));
    for (unsigned step = 1; step <= 7; step++) {
        if (step != 3) assert_ok(clq_step(trainer, &batch));
        if (step == 3) assert_ok(fit(trainer, 1));
        assert_int_equal(trainer->check_is_due, step == 2 || step == 4 || step == 5);
    }
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

static clq_status check_once(void *context) {
    bool checked;
    return clq_strategy_check_replicas(((clq_trainer *)context)->strategy, 1, &checked);
}

static void memory_runs_out(void **state) {
    (void)state;
    clq_model *model = make_model(true);
    clq_trainer *trainer;
    assert_ok(open_trainer(model, &settings[0], 1, &trainer));
    assert_ok(clq_step(trainer, &batch));
    (void)walk_allocations(check_once, trainer); /* the first check allocated what devices need */
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

static int start(void **state) {
    for (int i = 0; i < BATCH; i++) {
        labels[i] = i % CLASSES;
        for (int k = 0; k < INPUTS; k++) samples[i][k] = (float)((i * 7 + k * 3) % 11) / 11.0f;
    }
    return open_system(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_changed_bit_is_named),
        cmocka_unit_test(it_is_made_behind_each_nth_update),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, start, close_system);
}
