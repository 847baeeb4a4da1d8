/* Trainings of small models whose results a test also computes by hand in double: the data, the ways to train, and the
 * results of a training. A test has its weights in one array; `places` holds the index at which each variable begins,
 * and then the end of the last one. */
#ifndef CLQ_TEST_BY_HAND_H
#define CLQ_TEST_BY_HAND_H

#include "support/apart.h"
#include "support/check.h"
#include "support/system.h"
#include "train/train.h"

#include <math.h>

enum { SAMPLES = 32, BATCH = 5, BATCHES = 7, ACCUMULATE = 3, INPUTS = 6, UNITS = 4, STEPS = 10 };

static const double lr = 0.1;
static float samples[SAMPLES][INPUTS], targets[SAMPLES][UNITS];

typedef struct hand_way {
    const char *devices, *strategy;
    uint64_t accumulate;
    clq_recompute_kind recompute;
    clq_precision precision;
    bool one_launch; /* each step is one launch if it can be (support/apart.h) */
} hand_way;

static const hand_way hand_ways[] = {
    {.devices = "pocl:0", .strategy = "auto"},
    {.devices = "pocl:0", .strategy = "auto", .one_launch = true},
    {.devices = "pocl:0", .strategy = "auto", .accumulate = ACCUMULATE},
    {.devices = "pocl:0", .strategy = "auto", .recompute = CLQ_RECOMPUTE_ALL},
    {.devices = "pocl:0", .strategy = "auto", .precision = CLQ_PRECISION_MIXED},
    {.devices = "pocl:0,pocl:1", .strategy = "auto", .one_launch = true}, /* weights and gradients change places */
    {.devices = "pocl:0,pocl:1", .strategy = "auto"},
    {.devices = "pocl:0,pocl:1", .strategy = "central"},
    {.devices = "pocl:0,pocl:1", .strategy = "ps"},
    {.devices = "pocl:0,pocl:1", .strategy = "pipeline"},
    {.devices = "pocl:0,pocl:1", .strategy = "tensor"},
};

/* How many samples one update takes. */
static inline size_t hand_batch(const hand_way *how) { return BATCH * (how->accumulate ? how->accumulate : 1); }

/* Where the batch after the one at `begin` begins. */
static inline size_t hand_next(size_t begin, size_t batch) { return begin + batch < SAMPLES ? begin + batch : 0; }

typedef struct hand_log {
    double losses[STEPS];
    size_t made;
} hand_log;

static inline clq_status hand_on_log(void *context, const clq_step_info *info) {
    hand_log *log = context;
    assert_true(log->made < STEPS);
    log->losses[log->made++] = info->loss;
    return CLQ_OK;
}

/* outputs: the model's outputs with their losses, `count` of them. If count is 0, the loss is the mean squared
 * error. */
static inline clq_trainer *hand_open_outputs(const hand_way *how, const clq_model *model,
                                             const clq_output_config *outputs, size_t count, const float *first,
                                             const size_t *places) {
    clq_trainer_config config = apart_config();
    clq_trainer *trainer;
    clq_devices devices;
    if (how->one_launch) config.disabled_paths = NULL;
    config.loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    config.outputs = outputs;
    config.output_count = count;
    config.global_batch = BATCH;
    config.sample_dtype = CLQ_F32;
    config.recompute = how->recompute;
    config.precision = how->precision;
    config.strategy_options.accumulate = how->accumulate;
    config.strategy_options.staleness = 0; /* synchronous */
    assert_ok(clq_strategy_parse(how->strategy, &config.strategy, &config.strategy_options));
    assert_ok(clq_optimizer_parse("sgd:lr=0.1", &config.optimizer));
    assert_ok(clq_devices_select(sys, how->devices, &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    for (size_t v = 0; v < clq_model_variable_count(model); v++)
        assert_ok(clq_trainer_set_variable(trainer, v, first + places[v]));
    return trainer;
}

static inline clq_trainer *hand_open(const hand_way *how, const clq_model *model, const float *first,
                                     const size_t *places) {
    return hand_open_outputs(how, model, NULL, 0, first, places);
}

static inline clq_dataset *hand_data(void) {
    const size_t shape[] = {INPUTS};
    clq_dataset *data;
    assert_ok(clq_dataset_arrays(samples, CLQ_F32, SAMPLES, 1, shape, targets, CLQ_F32, UNITS, &data));
    assert_ok(clq_dataset_batch(data, BATCH, false));
    return data;
}

/* Trains STEPS updates and writes the final weights to `weights`. Returns the data. */
static inline clq_dataset *hand_fit(clq_trainer *trainer, size_t variables, const size_t *places, hand_log *log,
                                    double *weights) {
    clq_dataset *data = hand_data();
    *log = (hand_log){.made = 0};
    assert_ok(clq_fit(trainer, data, &(clq_fit_config){.steps = STEPS, .context = log, .on_log = hand_on_log}));
    assert_int_equal(log->made, STEPS);
    for (size_t v = 0; v < variables; v++) {
        float values[INPUTS * UNITS]; /* the largest variable */
        assert_true(places[v + 1] - places[v] <= CLQ_COUNT_OF(values));
        assert_ok(clq_trainer_get_variable(trainer, v, values));
        for (size_t i = places[v]; i < places[v + 1]; i++) weights[i] = (double)values[i - places[v]];
    }
    return data;
}

/* of: what else distinguishes this training in the message. */
static inline void hand_check(const hand_way *how, const char *of, const char *what, size_t i, double got, double want,
                              double tolerance) {
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%s, %s, %s: %s %zu is %.9g and not %.9g", how->devices, how->strategy, of, what, i, got, want);
}

static inline void hand_draw(float *first, size_t weights) {
    clq_random random = clq_random_start(5, 0);
    for (size_t n = 0; n < SAMPLES; n++) {
        for (size_t i = 0; i < INPUTS; i++) samples[n][i] = (float)(clq_random_unit(&random) * 2 - 1);
        for (size_t u = 0; u < UNITS; u++) targets[n][u] = (float)(clq_random_unit(&random) * 4 - 1);
    }
    for (size_t i = 0; i < weights; i++) first[i] = (float)(clq_random_unit(&random) - 0.5);
}

#endif
