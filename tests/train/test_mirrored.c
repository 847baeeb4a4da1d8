/* n replicas equal one: the first step's reduced gradient within 1e-6 relative (L2), the losses of 20 steps within 1e-5
 * (mlp, Adam) and 1e-4 (cnn, SGD 0.01), replicas bit-identical, and the same run twice bit-identical. */
#include "support/apart.h"
#include "support/check.h"
#include "support/synthetic.h"
#include "support/system.h"
#include "train/train.h"

#include <math.h>
#include <stdlib.h>

enum { STEPS = 20, BATCH = 37 }; /* 37 over 2, 3 and 5 replicas is ragged; 5 samples over 3 leave one empty */

typedef struct trace {
    double losses[STEPS];
    float *gradient; /* of the first step, all variables */
    size_t elements;
    float *weights;   /* at the end */
    bool one_context; /* the first two replicas share a context */
} trace;

static void release(trace *t) {
    clq_free(t->gradient);
    clq_free(t->weights);
}

/* All replicas must have the same bits of the gradient. */
static void read_gradient(clq_trainer *trainer, const clq_model *model, float *out) {
    for (size_t i = 0; i < clq_model_variable_count(model); i++) {
        clq_variable_info v;
        assert_ok(clq_model_variable(model, i, &v));
        float *other = clq_alloc(v.elements, sizeof *other);
        assert_ok(clq_trainer_get_gradient(trainer, 0, i, out));
        for (unsigned r = 1; r < clq_trainer_replicas(trainer); r++) {
            assert_ok(clq_trainer_get_gradient(trainer, r, i, other));
            assert_memory_equal(other, out, v.elements * sizeof *other);
        }
        clq_free(other);
        out += v.elements;
    }
}

/* bucket_bytes 0: makes steps by their parts. Otherwise makes whole steps, in buckets. */
static trace run_with(const char *model_name, const char *optimizer, const char *spec, clq_group_config group,
                      size_t bucket_bytes) {
    trace t = {0};
    clq_devices devices;
    clq_model *model;
    clq_dataset *data;
    clq_trainer *trainer;
    clq_trainer_config config = apart_config();
    config.global_batch = BATCH;
    config.seed = 7;
    config.group = group;
    config.bucket_bytes = bucket_bytes;
    assert_ok(clq_optimizer_parse(optimizer, &config.optimizer));
    assert_ok(clq_devices_select(sys, spec, &devices));
    assert_ok(clq_model_builtin(model_name, &model));
    assert_ok(open_synthetic("train", BATCH * 6 + 5, &data)); /* every seventh batch has 5 samples */
    assert_ok(clq_dataset_shuffle(data, 1000, 3));
    assert_ok(clq_dataset_batch(data, BATCH, false));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    const clq_strategy *strategy = clq_trainer_strategy(trainer);
    t.one_context = devices.count > 1 &&
                    clq_device_same_context(clq_strategy_device(strategy, 0), clq_strategy_device(strategy, 1));
    t.elements = clq_model_parameter_count(model);
    t.gradient = clq_alloc(t.elements, sizeof *t.gradient);
    t.weights = clq_alloc(t.elements, sizeof *t.weights);
    for (size_t step = 0; step < STEPS;) {
        clq_batch batch;
        bool more;
        assert_ok(clq_dataset_next(data, &batch, &more));
        if (!more) continue;
        if (bucket_bytes) {
            assert_ok(clq_step(trainer, &batch));
            if (step == 0) read_gradient(trainer, model, t.gradient);
        } else {
            assert_ok(clq_step_gradients(trainer, &batch));
            assert_ok(clq_step_reduce(trainer));
            if (step == 0) read_gradient(trainer, model, t.gradient);
            assert_ok(clq_step_apply(trainer));
        }
        clq_step_info info;
        assert_ok(clq_step_read(trainer, &info));
        t.losses[step++] = info.loss;
    }
    float *at = t.weights;
    for (size_t i = 0; i < clq_model_variable_count(model); i++) {
        clq_variable_info v;
        assert_ok(clq_model_variable(model, i, &v));
        assert_ok(clq_trainer_get_variable(trainer, i, at));
        at += v.elements;
    }
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
    return t;
}

static trace run(const char *model_name, const char *optimizer, const char *spec) {
    return run_with(model_name, optimizer, spec, (clq_group_config){0}, 0);
}

static void check_equal(const trace *one, const trace *many, const char *spec, double tolerance) {
    double difference = 0.0, norm = 0.0;
    for (size_t i = 0; i < one->elements; i++) {
        difference += pow((double)many->gradient[i] - (double)one->gradient[i], 2);
        norm += pow((double)one->gradient[i], 2);
    }
    assert_true(norm > 0.0);
    if (!(sqrt(difference / norm) <= 1e-6))
        fail_msg("%s: the reduced gradient differs by %.2g", spec, sqrt(difference / norm));
    for (size_t s = 0; s < STEPS; s++)
        if (!(fabs(many->losses[s] - one->losses[s]) <= tolerance * fabs(one->losses[s])))
            fail_msg("%s: loss of step %zu is %.9g and one replica's is %.9g", spec, s + 1, many->losses[s],
                     one->losses[s]);
}

static void check_identical(const trace *a, const trace *b) {
    assert_memory_equal(a->losses, b->losses, sizeof a->losses);
    assert_memory_equal(a->gradient, b->gradient, a->elements * sizeof *a->gradient);
    assert_memory_equal(a->weights, b->weights, a->elements * sizeof *a->weights);
}

static const char *const specs[] = {
    "pocl:0,pocl:1", "pocl:0,pocl:1,pocl:2", "pocl:0,pocl:1,pocl:2,pocl:3,pocl:4", "pocl:5*2",
#if defined(__x86_64__)
    "pocl:0,intel",  "intel,pocl:5,pocl:0",
#endif
};

/* Tests every stride-th of the specs. test_strategies has all of them, for fewer steps. */
static void check_model(const char *model, const char *optimizer, double tolerance, size_t stride) {
    trace one = run(model, optimizer, "pocl:0");
    assert_true(one.losses[STEPS - 1] < one.losses[0]);
    for (size_t i = 0; i < CLQ_COUNT_OF(specs); i += stride) {
        trace many = run(model, optimizer, specs[i]), again = run(model, optimizer, specs[i]);
        check_equal(&one, &many, specs[i], tolerance);
        check_identical(&many, &again);
        release(&many);
        release(&again);
    }
    release(&one);
}

static void mlp_with_adam(void **state) {
    (void)state;
    check_model("mlp", "adam", 1e-5, 1);
}
static void cnn_with_sgd(void **state) {
    (void)state;
    check_model("cnn", "sgd:lr=0.01", 1e-4, 3);
}

/* The ring, which devices without shared memory use. Replicas have contexts of their own, and share one only if peer
 * copies are asked for. */
static void over_a_ring(void **state) {
    (void)state;
    const char *const ring_specs[] = {
        "pocl:0,pocl:1,pocl:2",
        "pocl:5*2",
#if defined(__x86_64__)
        "pocl:0,intel,pocl:1",
#endif
    };
    const clq_group_config ring = {.algorithm = CLQ_ALGORITHM_RING, .chunk_bytes = 1 << 14};
    trace one = run("mlp", "adam", "pocl:0");
    for (size_t i = 0; i < CLQ_COUNT_OF(ring_specs); i++) {
        trace many = run_with("mlp", "adam", ring_specs[i], ring, 0),
              again = run_with("mlp", "adam", ring_specs[i], ring, 0);
        check_equal(&one, &many, ring_specs[i], 1e-5);
        check_identical(&many, &again);
        assert_false(many.one_context);
        release(&many);
        release(&again);
    }
    clq_group_config peer = ring;
    peer.transport = CLQ_TRANSPORT_PEER;
    trace direct = run_with("mlp", "adam", ring_specs[0], peer, 0);
    check_equal(&one, &direct, "peer copies", 1e-5);
    assert_true(direct.one_context);
    release(&direct);
    for (unsigned algorithm = CLQ_ALGORITHM_RING + 1; algorithm < CLQ_ALGORITHM_COUNT; algorithm++) {
        const clq_group_config group = {.algorithm = (clq_algorithm)algorithm, .chunk_bytes = 1 << 14};
        trace many = run_with("mlp", "adam", ring_specs[0], group, 0);
        check_equal(&one, &many, clq_algorithm_name(group.algorithm), 1e-5);
        release(&many);
    }
    release(&one);
}

/* Whole steps, whose all-reduce runs bucket by bucket during backward: with both algorithms, in many and in few
 * buckets. */
static void in_buckets(void **state) {
    (void)state;
    const size_t sizes[] = {1, 50000, SIZE_MAX / 2, SIZE_MAX};
    const clq_group_config ring = {.algorithm = CLQ_ALGORITHM_RING, .chunk_bytes = 1 << 14}, direct = {0};
    const char *const places[CLQ_COUNT_OF(sizes)] = {specs[1], "pocl:5*2", specs[0], specs[CLQ_COUNT_OF(specs) - 1]};
    trace one = run("cnn", "sgd:lr=0.01", "pocl:0");
    for (size_t i = 0; i < CLQ_COUNT_OF(sizes); i++) {
        const size_t bytes = sizes[i];
        clq_group_config group = i % 2 ? direct : ring;
        trace many = run_with("cnn", "sgd:lr=0.01", places[i], group, bytes),
              again = run_with("cnn", "sgd:lr=0.01", places[i], group, bytes);
        check_equal(&one, &many, places[i], 1e-4);
        check_identical(&many, &again);
        release(&many);
        release(&again);
    }
    release(&one);
}

static void a_batch_smaller_than_the_replicas_is_refused(void **state) {
    (void)state;
    clq_devices devices;
    clq_model *model;
    clq_trainer *trainer;
    clq_trainer_config config = clq_trainer_config_default();
    config.global_batch = 2;
    assert_ok(clq_devices_select(sys, "pocl:0*3", &devices));
    assert_ok(clq_model_builtin("mlp", &model));
    assert_int_equal(clq_trainer_create(model, &devices, &config, &trainer), CLQ_ERROR_ARGUMENT);
    assert_non_null(strstr(clq_error_detail(), "3 replicas"));
    clq_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mlp_with_adam),
        cmocka_unit_test(cnn_with_sgd),
        cmocka_unit_test(over_a_ring),
        cmocka_unit_test(in_buckets),
        cmocka_unit_test(a_batch_smaller_than_the_replicas_is_refused),
    };
    return cmocka_run_group_tests(tests, open_system, close_system);
}
