/* Short trainings on the same samples, and their results, to compare one way to train with another. */
#ifndef CLQ_TEST_RUNS_H
#define CLQ_TEST_RUNS_H

#include "support/check.h"
#include "support/synthetic.h"
#include "support/system.h"
#include "train/trainer.h"

/* RUN_BATCH divides evenly by none of 2, 3 and 5 replicas. Each fourth batch has RUN_LAST samples, which divide evenly
 * by neither 2 nor 3. */
enum { RUN_STEPS = 10, RUN_BATCH = 37, RUN_LAST = 5, RUN_SAMPLES = 3 * RUN_BATCH + RUN_LAST };

typedef struct run {
    /* in */
    const char *model, *optimizer, *spec; /* model: built in */
    const char *steps;     /* one letter per step, repeated: s: a whole step, h: by hand; NULL: all whole */
    const double *weights; /* shares of the batch per device; NULL: even ones */
    clq_trainer_config (*configure)(clq_trainer_config config);
    void (*look)(clq_trainer *trainer); /* called at the end; NULL: nothing */
    /* out */
    double losses[RUN_STEPS];
    float *gradient, *weights_at_end; /* gradient: of the first step. Both: all variables */
    size_t elements;
} run;

static inline void run_release(run *r) {
    clq_free(r->gradient);
    clq_free(r->weights_at_end);
}

static inline clq_model *run_model(const char *name) {
    clq_model *model;
    assert_ok(clq_model_builtin(name, &model));
    return model;
}

static inline clq_dataset *run_data(void) {
    clq_dataset *data;
    assert_ok(open_synthetic("train", RUN_SAMPLES, &data));
    assert_ok(clq_dataset_shuffle(data, RUN_SAMPLES, 3));
    assert_ok(clq_dataset_batch(data, RUN_BATCH, false));
    return data;
}

/* Reads all variables, or their gradients, and checks that every replica has the same bits. */
static inline void run_read(clq_trainer *trainer, const clq_model *model, bool gradient, float *out) {
    for (size_t i = 0; i < clq_model_variable_count(model); i++) {
        clq_variable_info v;
        assert_ok(clq_model_variable(model, i, &v));
        float *other = clq_alloc(v.elements, sizeof *other);
        for (unsigned r = 0; r < clq_trainer_replicas(trainer); r++) {
            assert_ok(clq_strategy_read_variable(trainer->strategy, r, i, gradient, r ? other : out));
            if (r) assert_memory_equal(other, out, v.elements * sizeof *out);
        }
        clq_free(other);
        out += v.elements;
    }
}

/* Returns the values of all variables. clq_free. */
static inline float *run_weights(clq_trainer *trainer, const clq_model *model) {
    float *weights = clq_alloc(clq_model_parameter_count(model), sizeof *weights), *out = weights;
    assert_non_null(weights);
    for (size_t i = 0; i < clq_model_variable_count(model); i++) {
        clq_variable_info v;
        assert_ok(clq_model_variable(model, i, &v));
        assert_ok(clq_trainer_get_variable(trainer, i, out));
        out += v.elements;
    }
    return weights;
}

static inline void run_step(clq_trainer *trainer, clq_dataset *data, bool by_hand) {
    clq_batch batch;
    bool more;
    assert_ok(clq_dataset_next(data, &batch, &more));
    if (!more) assert_ok(clq_dataset_next(data, &batch, &more)); /* of the next epoch */
    assert_true(more);
    if (!by_hand) {
        assert_ok(clq_step(trainer, &batch));
        return;
    }
    assert_ok(clq_step_gradients(trainer, &batch));
    assert_ok(clq_step_reduce(trainer));
    assert_ok(clq_step_apply(trainer));
}

static inline clq_trainer *run_trainer(const run *r, const clq_model *model) {
    clq_devices devices;
    clq_trainer *trainer;
    clq_trainer_config config = clq_trainer_config_default();
    config.global_batch = RUN_BATCH;
    config.seed = 7;
    if (r->configure) config = r->configure(config);
    assert_ok(clq_optimizer_parse(r->optimizer, &config.optimizer));
    assert_ok(clq_devices_select(sys, r->spec, &devices));
    if (r->weights) {
        config.strategy_options.shares = CLQ_SHARES_WEIGHTS;
        config.strategy_options.share_weights = r->weights;
        config.strategy_options.share_count = devices.count;
    }
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    return trainer;
}

static inline void run_train(run *r) {
    clq_model *model = run_model(r->model);
    clq_dataset *data = run_data();
    clq_trainer *trainer = run_trainer(r, model);
    r->elements = clq_model_parameter_count(model);
    r->gradient = clq_alloc(r->elements, sizeof *r->gradient);
    r->weights_at_end = clq_alloc(r->elements, sizeof *r->weights_at_end);
    assert_true(r->gradient && r->weights_at_end);
    for (size_t i = 0; i < RUN_STEPS; i++) {
        clq_step_info info;
        run_step(trainer, data, r->steps && r->steps[i % strlen(r->steps)] == 'h');
        if (i == 0) run_read(trainer, model, true, r->gradient);
        assert_ok(clq_step_read(trainer, &info));
        r->losses[i] = info.loss;
    }
    run_read(trainer, model, false, r->weights_at_end);
    if (r->look) r->look(trainer);
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

static inline void run_check_identical(const run *a, const run *b) {
    assert_memory_equal(a->losses, b->losses, sizeof a->losses);
    assert_memory_equal(a->gradient, b->gradient, a->elements * sizeof *a->gradient);
    assert_memory_equal(a->weights_at_end, b->weights_at_end, a->elements * sizeof *a->weights_at_end);
}

#endif
