/* The optimizer sharded over replicas, each of which has a part of the state. If sums have one order, the bits are
 * those of a whole optimizer on each replica, in whole steps and by hand. test_strategies.c tests that they equal one
 * replica. */
#include "support/runs.h"

#include <math.h>

/* ---- ways ---- */

static clq_trainer_config whole(clq_trainer_config config) { return config; }
static clq_trainer_config whole_plain(clq_trainer_config config) {
    config.disabled_paths = "sharded update";
    return config;
}
static clq_trainer_config sharded(clq_trainer_config config) {
    config.strategy_options.shard_optimizer = 1;
    return config;
}
/* The form for any device: scatter, update, gather. */
static clq_trainer_config sharded_plain(clq_trainer_config config) { return sharded(whole_plain(config)); }
static clq_trainer_config measured(clq_trainer_config config) {
    config.measure_gradient = true;
    return config;
}
static clq_trainer_config sharded_measured(clq_trainer_config config) { return sharded(measured(config)); }
static clq_algorithm algorithm;
static clq_trainer_config by_algorithm(clq_trainer_config config) {
    config.group.algorithm = algorithm;
    config.group.chunk_bytes = 1 << 14;
    return config;
}
static clq_trainer_config sharded_by_algorithm(clq_trainer_config config) { return sharded(by_algorithm(config)); }

static void same_bits(const char *optimizer, const char *spec, const char *steps,
                      clq_trainer_config (*a)(clq_trainer_config), clq_trainer_config (*b)(clq_trainer_config)) {
    run one = {.model = "mlp", .optimizer = optimizer, .spec = spec, .steps = steps, .configure = a}, other = one;
    other.configure = b;
    run_train(&one);
    run_train(&other);
    run_check_identical(&one, &other);
    run_release(&one);
    run_release(&other);
}

/* ---- bits ---- */

static void bits_are_those_of_the_whole(void **state) {
    (void)state;
    same_bits("adam", "pocl:0,pocl:1", NULL, whole, sharded);
    same_bits("adam", "pocl:0,pocl:1,pocl:2", NULL, whole, sharded);
    same_bits("sgd:momentum=0.9,nesterov=1", "pocl:0,pocl:1", NULL, whole, sharded_plain);
    same_bits("adagrad", "pocl:0,pocl:1,pocl:2,pocl:3,pocl:4", NULL, whole, sharded_plain);
    same_bits("sgd", "pocl:0,pocl:1", NULL, whole, sharded_plain); /* no state */
    same_bits("adam", "pocl:0", NULL, whole, sharded);             /* no other replica to share with */
}

/* After an odd number of whole steps, weights and gradient have changed places. */
static void steps_by_hand_go_on(void **state) {
    (void)state;
    static const char *const orders[] = {"h", "sh", "ssh", "hhs"};
    for (size_t i = 0; i < CLQ_COUNT_OF(orders); i++) {
        same_bits("adam", "pocl:0,pocl:1,pocl:2", orders[i], whole, sharded);
        same_bits("adam", "pocl:0,pocl:1", orders[i], whole, sharded_plain);
    }
}

static void norms_are_of_the_whole_gradient(void **state) {
    (void)state;
    same_bits("adam", "pocl:0,pocl:1,pocl:2", NULL, measured, sharded_measured);
    clq_step_info info[2];
    for (int k = 0; k < 2; k++) {
        const run r = {
            .model = "mlp", .optimizer = "adam", .spec = "pocl:0,pocl:1", .configure = k ? sharded_measured : measured};
        clq_model *model = run_model(r.model);
        clq_dataset *data = run_data();
        clq_trainer *trainer = run_trainer(&r, model);
        run_step(trainer, data, false);
        assert_ok(clq_step_read(trainer, &info[k]));
        clq_trainer_destroy(trainer);
        clq_dataset_destroy(data);
        clq_model_destroy(model);
    }
    assert_true(info[0].grad_norm > 0.0);
    /* The norm is added up part by part. */
    assert_true(fabs(info[0].grad_norm / info[1].grad_norm - 1) < 1e-6);
}

/* With two ranks a sum has one order, whichever rank adds. */
static void two_replicas_have_one_order(void **state) {
    (void)state;
    for (unsigned a = CLQ_ALGORITHM_RING; a < CLQ_ALGORITHM_COUNT; a++) {
        algorithm = (clq_algorithm)a;
        same_bits("adam", "pocl:0,pocl:1", "ssh", by_algorithm, sharded_by_algorithm);
    }
}

/* ---- memory ---- */

static size_t state_bytes[CLQ_REPLICAS_MAX];

static void look_at_state(clq_trainer *trainer) {
    for (unsigned r = 0; r < clq_trainer_replicas(trainer); r++) {
        clq_plan_memory memory;
        clq_plan_get_memory(clq_strategy_plan(trainer->strategy, r), &memory);
        state_bytes[r] = memory.optimizer_bytes;
    }
}

static void each_replica_has_its_part_of_the_state(void **state) {
    (void)state;
    static const char *const specs[] = {"pocl:0,pocl:1", "pocl:0,pocl:1,pocl:2", "pocl:0,pocl:1,pocl:2,pocl:3,pocl:4"};
    static const unsigned counts[] = {2, 3, 5};
    run r = {.model = "mlp", .optimizer = "adam", .spec = "pocl:0", .look = look_at_state};
    run_train(&r);
    run_release(&r);
    const double all = (double)state_bytes[0];
    assert_true(all >= 2.0 * 4 * (double)r.elements); /* Adam's two moments */
    for (size_t i = 0; i < CLQ_COUNT_OF(specs); i++) {
        run part = {.model = "mlp",
                    .optimizer = "adam",
                    .spec = specs[i],
                    .configure = i % 2 ? sharded : sharded_plain,
                    .look = look_at_state};
        double sum = 0.0;
        run_train(&part);
        for (unsigned k = 0; k < counts[i]; k++) {
            assert_true((double)state_bytes[k] <= all / counts[i] * 1.05);
            sum += (double)state_bytes[k];
        }
        assert_true(sum >= all);
        run_release(&part);
    }
}

/* What the device really holds, not what was computed in advance. */
static void devices_hold_less(void **state) {
    (void)state;
    uint64_t bytes[2];
    const size_t moments = 2 * 4 * (784 * 128 + 128 + 128 * 10 + 10);
    for (int k = 0; k < 2; k++) {
        const run r = {.model = "mlp", .optimizer = "adam", .spec = "pocl:0,pocl:1", .configure = k ? sharded : whole};
        clq_model *model = run_model(r.model);
        clq_trainer *trainer = run_trainer(&r, model);
        bytes[k] = clq_trainer_device_bytes(trainer);
        clq_trainer_destroy(trainer);
        clq_model_destroy(model);
    }
    assert_true(bytes[0] - bytes[1] >= moments * 95 / 100); /* each replica lacks half of the moments */
}

/* ---- what goes on beside it ---- */

static void paths_know(void **state) {
    (void)state;
    const run r = {.model = "mlp", .optimizer = "adam", .spec = "pocl:0,pocl:1", .configure = sharded_by_algorithm};
    algorithm = CLQ_ALGORITHM_RING;
    clq_model *model = run_model(r.model);
    clq_trainer *trainer = run_trainer(&r, model);
    clq_path_info path;
    bool found = false;
    for (size_t i = 0; clq_strategy_path(trainer->strategy, i, &path); i++)
        if (strcmp(path.name, "overlap") == 0) {
            found = true;
            assert_false(path.on);
        }
    assert_true(found);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bits_are_those_of_the_whole),
                                       cmocka_unit_test(steps_by_hand_go_on),
                                       cmocka_unit_test(norms_are_of_the_whole_gradient),
                                       cmocka_unit_test(two_replicas_have_one_order),
                                       cmocka_unit_test(each_replica_has_its_part_of_the_state),
                                       cmocka_unit_test(devices_hold_less),
                                       cmocka_unit_test(paths_know)};
    return cmocka_run_group_tests(tests, open_system, close_system);
}
