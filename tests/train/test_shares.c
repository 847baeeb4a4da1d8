/* Unequal shares: the same shares give the same bits, measured shares follow the speed, and wrong ones are refused. */
#include "support/apart.h"
#include "support/runs.h"
#include "support/slow.h"
#include "support/world_fabric.h"

#include <math.h>

enum { STEPS_MOST = 600, SLOW = 10 };

static slow layer;

#define WEIGHTS(...) ((const double[]){__VA_ARGS__})

/* Most trainings here launch kernels one by one (APART): shares do not depend on it. */
static clq_trainer_config apart(clq_trainer_config config) {
    config.disabled_paths = APART;
    return config;
}

/* ---- fixed shares ---- */

/* test_strategies.c tests that they equal one replica. */
static void steps_by_hand_have_the_same_bits(void **state) {
    (void)state;
    run in_one = {.model = "mlp", .optimizer = "adam", .spec = "pocl:0,pocl:1,pocl:2", .weights = WEIGHTS(3, 0, 1)};
    run by_hand = in_one;
    by_hand.steps = "sh";
    run_train(&in_one);
    run_train(&by_hand);
    run_check_identical(&in_one, &by_hand);
    run_release(&in_one);
    run_release(&by_hand);
}

/* Equal weights, whatever they are, are as good as no weights. */
static void equal_weights_have_the_bits_of_none(void **state) {
    (void)state;
    run none = {.model = "mlp", .optimizer = "adam", .spec = "pocl:0,pocl:1,pocl:2", .configure = apart};
    run equal = none;
    equal.weights = WEIGHTS(0.1, 0.1, 0.1);
    run_train(&none);
    run_train(&equal);
    run_check_identical(&none, &equal);
    run_release(&none);
    run_release(&equal);
}

/* ---- shares by speed ---- */

static clq_trainer_config by_speed(clq_trainer_config config) {
    config.strategy_options.shares = CLQ_SHARES_AUTO;
    return apart(config);
}

static size_t share_of(clq_trainer *trainer, unsigned replica) {
    clq_device_info info;
    size_t share;
    assert_ok(clq_trainer_replica(trainer, replica, &info, &share));
    return share;
}

/* Trains until the replica has less than half of the other's share. */
static void train_until_small(clq_trainer *trainer, clq_dataset *data, unsigned replica) {
    for (int i = 0; share_of(trainer, replica) * 2 >= share_of(trainer, 1 - replica); i++) {
        if (i == STEPS_MOST) fail_msg("replica %u still has %zu samples", replica, share_of(trainer, replica));
        run_step(trainer, data, false);
    }
}

/* Each change is told, in the order of the steps. */
static void check_changes(clq_trainer *trainer) {
    const size_t changes = clq_trainer_share_changes(trainer);
    uint64_t step, before = 0;
    size_t shares[CLQ_REPLICAS_MAX];
    assert_true(changes >= 3);
    for (size_t i = 0; i < changes; i++) {
        assert_ok(clq_trainer_share_change(trainer, i, &step, shares));
        assert_int_equal(shares[0] + shares[1], RUN_BATCH);
        assert_true(i > 0 ? step > before : step == 1 && shares[0] == 19);
        before = step;
    }
    assert_int_equal(shares[1], share_of(trainer, 1));
    assert_fails(CLQ_ERROR_ARGUMENT, "there are", clq_trainer_share_change(trainer, changes, &step, shares));
}

/* A device that becomes slow gets a smaller share, and then another device does. Whatever the shares are, both replicas
 * have the same gradient. */
static void shares_follow_the_speed(void **state) {
    (void)state;
    static const char *const specs[] = {
        "pocl:0,pocl:1",
#if defined(__x86_64__)
        "pocl:0,intel",
#endif
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(specs); i++) {
        const run r = {.model = "cnn", .optimizer = "sgd:lr=0.01", .spec = specs[i], .configure = by_speed};
        clq_model *model = run_model(r.model);
        clq_dataset *data = run_data();
        clq_trainer *trainer = run_trainer(&r, model);
        float *gradient = clq_alloc(clq_model_parameter_count(model), sizeof *gradient);
        assert_non_null(gradient);
        clq_device_info info[2];
        size_t share;
        for (unsigned k = 0; k < 2; k++) assert_ok(clq_trainer_replica(trainer, k, &info[k], &share));
        layer.pace(info[1].index, SLOW);
        train_until_small(trainer, data, 1);
        layer.pace(info[1].index, 1);
        layer.pace(info[0].index, SLOW * SLOW);
        train_until_small(trainer, data, 0);
        layer.pace(info[0].index, 1);
        run_read(trainer, model, true, gradient); /* the same on both */
        check_changes(trainer);
        clq_free(gradient);
        clq_trainer_destroy(trainer);
        clq_dataset_destroy(data);
        clq_model_destroy(model);
    }
}

/* On a device with its own threads every fourth of its short steps is measured. Here every fourth batch is an epoch's
 * last, smaller one, which does not count: then the next step is measured. */
static void smaller_batches_hide_no_others(void **state) {
    (void)state;
    const run r = {.model = "cnn", .optimizer = "sgd:lr=0.01", .spec = "pocl:0,pocl:5", .configure = by_speed};
    clq_model *model = run_model(r.model);
    clq_dataset *data = run_data();
    clq_trainer *trainer = run_trainer(&r, model);
    clq_device_info info;
    size_t share;
    assert_int_equal((RUN_SAMPLES + RUN_BATCH - 1) / RUN_BATCH, 4);
    assert_ok(clq_trainer_replica(trainer, 0, &info, &share));
    layer.pace(info.index, SLOW * SLOW);
    train_until_small(trainer, data, 0);
    layer.pace(info.index, 1);
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

/* ---- several processes ---- */

static const clq_world_config patient = {.silence_s = 60, .deadline_s = 60};

/* What one process was told: its last shares, and how often shares were set. */
typedef struct told {
    size_t shares[CLQ_REPLICAS_MAX], changes;
} told;

/* All processes have the same shares at each step, so they leave the loop at the same step. */
static clq_status train_until_smaller(clq_trainer *trainer, clq_dataset *data, told *out) {
    for (int i = 0; i < STEPS_MOST && out->shares[0] * 2 >= out->shares[1]; i++) {
        clq_batch batch;
        bool more;
        uint64_t step;
        CLQ_TRY(clq_dataset_next(data, &batch, &more));
        CLQ_TRY(clq_step(trainer, &batch));
        out->changes = clq_trainer_share_changes(trainer);
        CLQ_TRY(clq_trainer_share_change(trainer, out->changes - 1, &step, out->shares));
    }
    return clq_trainer_wait(trainer);
}

static void train_process(fabric_rank *rank) {
    told *all = rank->context;
    clq_devices devices;
    clq_trainer *trainer = NULL;
    clq_model *model = run_model("cnn");
    clq_dataset *data = run_data();
    clq_trainer_config config = by_speed(clq_trainer_config_default());
    config.global_batch = RUN_BATCH;
    config.world = rank->world;
    clq_status status = clq_devices_select(sys, rank->rank ? "pocl:1" : "pocl:0", &devices);
    if (status == CLQ_OK) status = clq_trainer_create(model, &devices, &config, &trainer);
    if (status == CLQ_OK) status = train_until_smaller(trainer, data, &all[rank->rank]);
    fabric_note(rank, status);
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

/* The slow process gets a smaller share, and all processes come to the same shares. */
static void processes_share_by_speed(void **state) {
    (void)state;
    told all[2] = {{.changes = 0}};
    fabric_rank ranks[2];
    clq_devices slow_one;
    fabric *network = fabric_open(2, 0, 0);
    assert_ok(clq_devices_select(sys, "pocl:0", &slow_one));
    layer.pace(slow_one.items[0].index, SLOW);
    fabric_run(network, 2, &patient, train_process, all, ranks);
    layer.pace(slow_one.items[0].index, 1);
    fabric_close(network);
    for (unsigned r = 0; r < 2; r++)
        if (ranks[r].ended != CLQ_OK) fail_msg("process %u: %s", r, ranks[r].detail);
    assert_int_equal(all[0].changes, all[1].changes);
    assert_memory_equal(all[0].shares, all[1].shares, sizeof all[0].shares);
    assert_int_equal(all[0].shares[0] + all[0].shares[1], RUN_BATCH);
    assert_true(all[0].shares[0] * 2 < all[0].shares[1]);
}

/* Shares are even before anything is measured, and stay even if that is best. The run equals one with even shares. */
static void one_replica_has_all(void **state) {
    (void)state;
    run r = {.model = "mlp", .optimizer = "adam", .spec = "pocl:0", .configure = by_speed}, even = r;
    even.configure = apart;
    run_train(&r);
    run_train(&even);
    run_check_identical(&r, &even);
    run_release(&r);
    run_release(&even);
}

/* ---- bad input ---- */

static clq_status create(const char *spec, clq_strategy_options options) {
    clq_devices devices;
    clq_trainer *trainer;
    clq_model *model = run_model("mlp");
    clq_trainer_config config = clq_trainer_config_default();
    config.strategy_options = options;
    assert_ok(clq_devices_select(sys, spec, &devices));
    const clq_status status = clq_trainer_create(model, &devices, &config, &trainer);
    if (status == CLQ_OK) clq_trainer_destroy(trainer);
    clq_model_destroy(model);
    return status;
}

static clq_strategy_options weighted(const double *weights, uint32_t count) {
    return (clq_strategy_options){.shares = CLQ_SHARES_WEIGHTS, .share_weights = weights, .share_count = count};
}

static void wrong_weights_are_refused(void **state) {
    (void)state;
    const char *two = "pocl:0,pocl:1";
    assert_fails(CLQ_ERROR_ARGUMENT, "3 weights are given for 2 replicas", create(two, weighted(WEIGHTS(1, 2, 3), 3)));
    assert_fails(CLQ_ERROR_ARGUMENT, "1 weight is given for 2 replicas", create(two, weighted(WEIGHTS(1), 1)));
    assert_fails(CLQ_ERROR_ARGUMENT,
                 "2 weights are given for 1 replica:", create("pocl:0", weighted(WEIGHTS(1, 1), 2)));
    assert_fails(CLQ_ERROR_ARGUMENT, "replica 1 is -1", create(two, weighted(WEIGHTS(3, -1), 2)));
    assert_fails(CLQ_ERROR_ARGUMENT, "replica 0 is nan", create(two, weighted(WEIGHTS((double)NAN, 1), 2)));
    assert_fails(CLQ_ERROR_ARGUMENT, "replica 1 is inf", create(two, weighted(WEIGHTS(1, (double)INFINITY), 2)));
    assert_fails(CLQ_ERROR_ARGUMENT, "sum to 0", create(two, weighted(WEIGHTS(0, 0), 2)));
    assert_fails(CLQ_ERROR_ARGUMENT, "sum to inf", create(two, weighted(WEIGHTS(1e308, 1e308), 2)));
    assert_fails(CLQ_ERROR_ARGUMENT, "none of clq_shares_kind",
                 create(two, (clq_strategy_options){.shares = (clq_shares_kind)7}));
}

static void texts_are_parsed(void **state) {
    (void)state;
    double weights[CLQ_REPLICAS_MAX];
    clq_strategy_options o = {.shares = CLQ_SHARES_EQUAL};
    assert_ok(clq_shares_parse("3,0.5,1e1", weights, &o));
    assert_int_equal(o.shares, CLQ_SHARES_WEIGHTS);
    assert_int_equal(o.share_count, 3);
    assert_ptr_equal(o.share_weights, weights);
    assert_true(fabs(weights[0] - 3) + fabs(weights[1] - 0.5) + fabs(weights[2] - 10) < 1e-12);
    assert_ok(clq_shares_parse("auto", weights, &o));
    assert_int_equal(o.shares, CLQ_SHARES_AUTO);
    assert_int_equal(o.share_count, 0);
    assert_ok(clq_shares_parse("equal", weights, &o));
    assert_int_equal(o.shares, CLQ_SHARES_EQUAL);
    static const char *const wrong[] = {"", "3,", ",3", "-1,2", "nan,1", "inf", "even", "3;1", "1,,2", "1e999"};
    for (size_t i = 0; i < CLQ_COUNT_OF(wrong); i++)
        assert_fails(CLQ_ERROR_ARGUMENT, wrong[i], clq_shares_parse(wrong[i], weights, &o));
    char many[2 * CLQ_REPLICAS_MAX + 2] = "1";
    for (int i = 0; i < CLQ_REPLICAS_MAX; i++) strcat(many, ",1");
    assert_fails(CLQ_ERROR_ARGUMENT, "more than 64 weights", clq_shares_parse(many, weights, &o));
}

static int load(void **state) { return slow_load(&layer, "") == 0 ? open_system(state) : -1; }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_by_hand_have_the_same_bits), cmocka_unit_test(equal_weights_have_the_bits_of_none),
        cmocka_unit_test(shares_follow_the_speed),          cmocka_unit_test(smaller_batches_hide_no_others),
        cmocka_unit_test(processes_share_by_speed),         cmocka_unit_test(one_replica_has_all),
        cmocka_unit_test(wrong_weights_are_refused),        cmocka_unit_test(texts_are_parsed)};
    return cmocka_run_group_tests(tests, load, close_system);
}
