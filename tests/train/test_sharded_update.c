/* Replicas on the same memory shard a step's update. The results do not show it, and steps by hand go on from there. */
#include "strategy/strategy.h"
#include "support/apart.h"
#include "support/check.h"
#include "support/system.h"
#include "train/trainer.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 8, BATCH = 48, SECONDS_MOST = 240 };

typedef struct run {
    const char *spec;
    clq_optimizer optimizer;
    const char *steps; /* s: a whole step, h: by hand */
    size_t trace_steps;
    bool measures;
    clq_group_config group;
    size_t bucket_bytes;
    bool apart; /* steps are several launches, see support/apart.h */
    /* out */
    size_t floats; /* in an arena */
    bool sharded;
    float *gradient, *parameters;
} run;

static void release(run *r) {
    clq_free(r->gradient);
    clq_free(r->parameters);
}

/* Reads replica 0's arenas. Those of the other replicas must have the same bits. */
static void read_arenas(clq_trainer *trainer, run *r) {
    size_t bytes = clq_plan_arena_bytes(clq_strategy_plan(clq_trainer_strategy(trainer), 0));
    r->floats = bytes / sizeof(float);
    r->gradient = clq_alloc(bytes, 1);
    r->parameters = clq_alloc(bytes, 1);
    float *other = clq_alloc(bytes, 1);
    assert_true(r->gradient && r->parameters && other);
    assert_ok(clq_strategy_read(trainer->strategy, 0, CLQ_ARENA_GRADIENT, 0, r->gradient, bytes));
    assert_ok(clq_strategy_read(trainer->strategy, 0, CLQ_ARENA_PARAMETERS, 0, r->parameters, bytes));
    for (unsigned i = 1; i < clq_trainer_replicas(trainer); i++) {
        assert_ok(clq_strategy_read(trainer->strategy, i, CLQ_ARENA_GRADIENT, 0, other, bytes));
        assert_memory_equal(other, r->gradient, bytes);
        assert_ok(clq_strategy_read(trainer->strategy, i, CLQ_ARENA_PARAMETERS, 0, other, bytes));
        assert_memory_equal(other, r->parameters, bytes);
    }
    clq_free(other);
}

static void make_step(clq_trainer *trainer, clq_dataset *data, bool by_hand) {
    clq_batch batch;
    bool more;
    assert_ok(clq_dataset_next(data, &batch, &more));
    if (!more) assert_ok(clq_dataset_next(data, &batch, &more)); /* first of the next epoch */
    assert_true(more);
    if (!by_hand) {
        assert_ok(clq_step(trainer, &batch));
        return;
    }
    assert_ok(clq_step_gradients(trainer, &batch));
    assert_ok(clq_step_reduce(trainer));
    assert_ok(clq_step_apply(trainer));
}

static void train(run *r) {
    clq_devices devices;
    clq_model *model;
    clq_trainer *trainer;
    clq_dataset *data;
    clq_trainer_config config = clq_trainer_config_default();
    config.global_batch = BATCH;
    config.optimizer = r->optimizer;
    config.trace_steps = r->trace_steps;
    config.measure_gradient = r->measures;
    config.group = r->group;
    config.bucket_bytes = r->bucket_bytes;
    if (r->apart) config.disabled_paths = APART;
    (void)alarm(SECONDS_MOST);
    assert_ok(clq_devices_select(sys, r->spec, &devices));
    assert_ok(clq_model_builtin("mlp", &model));
    assert_ok(clq_dataset_open("synthetic:28x28x1/10/128", "train", &data));
    assert_ok(clq_dataset_batch(data, BATCH, false)); /* an epoch's last batch is smaller */
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    for (const char *step = r->steps; *step; step++) make_step(trainer, data, *step == 'h');
    read_arenas(trainer, r);
    r->sharded = clq_strategy_shards_updates(trainer->strategy);
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
    (void)alarm(0);
}

static clq_optimizer sgd(double momentum, bool nesterov) {
    clq_optimizer optimizer = clq_optimizer_default(CLQ_OPTIMIZER_SGD);
    assert_ok(clq_optimizer_set(&optimizer, "momentum", momentum));
    assert_ok(clq_optimizer_set(&optimizer, "nesterov", nesterov));
    return optimizer;
}

static void check_same(const run *a, const run *b) {
    assert_int_equal(a->floats, b->floats);
    assert_memory_equal(a->gradient, b->gradient, a->floats * sizeof(float));
    assert_memory_equal(a->parameters, b->parameters, a->floats * sizeof(float));
}

/* On devices of one kind, kernels that update alone and kernels that update together round alike. */
static void check_all_ways(const char *spec, clq_optimizer optimizer) {
    static const char *const others[] = {"ssssssss", "shsshhsh", "hhhsssss", "ssssssh", "h"};
    run by_hand = {.spec = NULL};
    for (size_t i = 0; i < CLQ_COUNT_OF(others); i++) {
        char hands[STEPS + 1] = "hhhhhhhh";
        hands[strlen(others[i])] = '\0';
        run other = {.spec = spec, .optimizer = optimizer, .steps = others[i]};
        if (i == 0 || strlen(others[i]) != strlen(others[i - 1])) {
            release(&by_hand);
            by_hand = (run){.spec = spec, .optimizer = optimizer, .steps = hands};
            train(&by_hand);
        }
        train(&other);
        check_same(&by_hand, &other);
        assert_true(other.sharded);
        release(&other);
    }
    release(&by_hand);
}

static void nobody_can_tell(void **state) {
    (void)state;
    const clq_optimizer optimizers[] = {sgd(0, false), sgd(0.9, false), sgd(0.9, true),
                                        clq_optimizer_default(CLQ_OPTIMIZER_ADAM)};
    for (size_t i = 0; i < CLQ_COUNT_OF(optimizers); i++) check_all_ways("pocl:0,pocl:1", optimizers[i]);
    check_all_ways("pocl:0,pocl:1,pocl:2", optimizers[3]);
#if defined(__x86_64__)
    check_all_ways("intel/2", optimizers[3]);
#endif
}

/* With several drivers, each part of the update is rounded by one of them. Replicas keep the same bits, and agree with
 * one device within what the order of sums leaves. Also tested: as many replicas as can share an update, and LAMB,
 * whose update has two passes. */
static void drivers_agree(void **state) {
    (void)state;
    const struct {
        const char *spec;
        clq_optimizer optimizer;
    } rows[] = {
        {"pocl:0,pocl:1,pocl:2,pocl:3,pocl:4", sgd(0.9, true)},
        {"pocl:0*8", clq_optimizer_default(CLQ_OPTIMIZER_LAMB)},
#if defined(__x86_64__)
        {"pocl:0,intel/2", sgd(0.9, true)},
#endif
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(rows); i++) {
        run one = {.spec = "pocl:0", .optimizer = rows[i].optimizer, .steps = "ssssssss"};
        run many = one;
        one.apart = true;
        many.spec = rows[i].spec;
        train(&one);
        train(&many);
        assert_true(many.sharded);
        double error = 0, size = 0;
        for (size_t k = 0; k < one.floats; k++) {
            double apart = (double)many.parameters[k] - (double)one.parameters[k];
            error += apart * apart;
            size += (double)one.parameters[k] * (double)one.parameters[k];
        }
        if (!(sqrt(error) <= 1e-6 * sqrt(size))) fail_msg("%s: %g of %g", many.spec, sqrt(error), sqrt(size));
        release(&one);
        release(&many);
    }
}

/* If the gradient goes over links or in buckets, each replica updates alone. */
static void others_update_alone(void **state) {
    (void)state;
    const clq_optimizer adam = clq_optimizer_default(CLQ_OPTIMIZER_ADAM);
    const run base = {.spec = "pocl:0,pocl:1", .optimizer = adam, .steps = "ssssssss"};
    run alone[4] = {base, base, base, base}, sharded = base, measured = base;
    alone[0].group.algorithm = CLQ_ALGORITHM_RING;
    alone[1].bucket_bytes = 4096;
    alone[2].trace_steps = STEPS;
    alone[3].spec = "pocl:0";
    train(&sharded);
    assert_true(sharded.sharded);
    measured.measures = true;
    train(&measured);
    assert_true(measured.sharded);
    check_same(&measured, &sharded);
    release(&measured);
    for (size_t i = 0; i < CLQ_COUNT_OF(alone); i++) {
        train(&alone[i]);
        assert_false(alone[i].sharded);
        if (i < 3) check_same(&alone[i], &sharded);
        release(&alone[i]);
    }
    release(&sharded);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nobody_can_tell), cmocka_unit_test(drivers_agree),
                                       cmocka_unit_test(others_update_alone)};
    return cmocka_run_group_tests(tests, open_system, close_system);
}
