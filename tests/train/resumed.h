/* For tests of trainings that resume from a checkpoint: a small model, its data, and a trainer for every strategy.
 * Together they have all the state that a checkpoint must keep. */
#ifndef CLQ_TEST_RESUMED_H
#define CLQ_TEST_RESUMED_H

#include "support/apart.h"
#include "support/files.h"
#include "support/system.h"
#include "train/trainer.h"
#include <clique/checkpoint.h>

#include <stdio.h>
#include <string.h>

/* Epochs have five batches, and the last batch is ragged. The shares of three replicas and micro-batches have no fewer
 * than the 8 rows of a tile, so all use the same kernels. */
enum { BATCH = 32, SAMPLES = 4 * BATCH + 5, INPUTS = 6, CLASSES = 3, WEIGHTS_MOST = 4096 };

static float samples[SAMPLES][INPUTS];
static int32_t labels[SAMPLES];

typedef struct setting {
    const char *name, *spec;
    clq_strategy_kind strategy;
    clq_strategy_options options;
    const char *disabled;
    size_t bucket_bytes;
    bool synchronized;
} setting;

/* What a checkpoint keeps does not depend on how kernels are launched, so most settings launch them one by one (APART).
 * Replicas that shard the update do so in one launch. */
static const setting settings[] = {
    {"single", "pocl:0", CLQ_STRATEGY_SINGLE, {0}, APART, 0, false},
    {"single, accumulated", "pocl:0", CLQ_STRATEGY_SINGLE, {.accumulate = 2}, APART, 0, false},
    {"mirrored", "pocl:0,pocl:1", CLQ_STRATEGY_MIRRORED, {0}, APART ",overlap,sharded update", 0, false},
    {"mirrored, accumulated", "pocl:0,pocl:1", CLQ_STRATEGY_MIRRORED, {.accumulate = 2}, APART, 0, false},
    {"sharded update", "pocl:0,pocl:1,pocl:2", CLQ_STRATEGY_MIRRORED, {0}, NULL, 0, false},
    {"buckets", "pocl:0,pocl:1", CLQ_STRATEGY_MIRRORED, {0}, APART, 64, false},
    {"synchronized", "pocl:0,pocl:1", CLQ_STRATEGY_MIRRORED, {0}, APART, 0, true},
    {"sharded optimizer", "pocl:0,pocl:1,pocl:2", CLQ_STRATEGY_MIRRORED, {.shard_optimizer = 1}, NULL, 0, false},
    {"f16",
     "pocl:0,pocl:1",
     CLQ_STRATEGY_MIRRORED,
     {.compression = {.kind = CLQ_COMPRESSION_F16, .fraction = 0}},
     APART,
     0,
     false},
    {"topk",
     "pocl:0,pocl:1",
     CLQ_STRATEGY_MIRRORED,
     {.compression = {.kind = CLQ_COMPRESSION_TOP_K, .fraction = 0.1}},
     APART,
     0,
     false},
    {"local steps", "pocl:0,pocl:1", CLQ_STRATEGY_MIRRORED, {.local_steps = 4}, APART, 0, false},
    {"central", "pocl:0,pocl:1", CLQ_STRATEGY_CENTRAL, {0}, APART, 0, false},
    {"ps", "pocl:0,pocl:1", CLQ_STRATEGY_PS, {.staleness = 0}, APART, 0, false},
    {"asynchronous ps, alone", "pocl:0", CLQ_STRATEGY_PS, {.staleness = 4}, APART, 0, false}, /* its order is certain */
    {"pipeline", "pocl:0,pocl:1", CLQ_STRATEGY_PIPELINE, {.micro_batches = 3}, APART, 0, false},
    {"two pipelines",
     "pocl:0,pocl:1,pocl:2,pocl:3",
     CLQ_STRATEGY_PIPELINE,
     {.stages = 2, .micro_batches = 2},
     APART,
     0,
     false},
    {"tensor", "pocl:0,pocl:1", CLQ_STRATEGY_TENSOR, {0}, APART, 0, false},
#if defined(__x86_64__)
    {"unlike devices", "pocl:0,intel", CLQ_STRATEGY_MIRRORED, {0}, APART, 0, false},
    {"unlike devices, tensor", "pocl:0,intel", CLQ_STRATEGY_TENSOR, {0}, APART, 0, false},
#endif
};

static inline clq_model *make_model(bool synchronized, size_t units) {
    clq_model *model;
    assert_ok(clq_model_create("small", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(INPUTS));
    x = clq_dense(model, x, &(clq_dense_config){.units = units, .activation = CLQ_ACTIVATION_TANH});
    x = clq_batch_norm(model, x,
                       &(clq_batch_norm_config){.momentum = 0.9, .epsilon = 1e-3, .synchronized = synchronized});
    x = clq_dropout(model, x, &(clq_dropout_config){.rate = 0.3});
    x = clq_dense(model, x, &(clq_dense_config){.units = 10, .activation = CLQ_ACTIVATION_TANH});
    x = clq_dense(model, x, &(clq_dense_config){.units = CLASSES, .activation = CLQ_ACTIVATION_SOFTMAX});
    assert_ok(clq_model_finish(model, x));
    return model;
}

static clq_precision precision; /* of the trainers that make_trainer creates */
static double loss_scale;       /* likewise; 0: the default scale */
static const char *metrics;     /* likewise */
static double (*learning_rate)(void *context, uint64_t step);

static inline clq_dataset *make_data(void) {
    clq_dataset *data;
    const size_t shape[] = {INPUTS};
    assert_ok(clq_dataset_arrays(samples, CLQ_F32, SAMPLES, 1, shape, labels, CLQ_I32, 1, &data));
    assert_ok(clq_dataset_shuffle(data, SAMPLES, 7));
    assert_ok(clq_dataset_batch(data, BATCH, false));
    return data;
}

static inline clq_trainer *make_trainer(const clq_model *model, const setting *s, const char *optimizer) {
    clq_trainer *trainer;
    clq_devices devices;
    clq_trainer_config config = clq_trainer_config_default();
    config.global_batch = BATCH;
    config.sample_dtype = CLQ_F32;
    config.seed = 5;
    config.strategy = s->strategy;
    config.strategy_options = s->options;
    config.disabled_paths = s->disabled;
    config.bucket_bytes = s->bucket_bytes;
    config.precision = precision;
    config.loss_scale = loss_scale;
    config.metrics = metrics;
    config.learning_rate = learning_rate;
    if (precision == CLQ_PRECISION_MIXED) config.loss_scale_interval = 4; /* the scale changes before and after STOP */
    assert_ok(clq_optimizer_parse(optimizer, &config.optimizer));
    assert_ok(clq_devices_select(sys, s->spec, &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    return trainer;
}

static inline void read_weights(clq_trainer *trainer, const clq_model *model, float *out) {
    for (size_t v = 0; v < clq_model_variable_count(model); v++) {
        clq_variable_info info;
        assert_ok(clq_model_variable(model, v, &info));
        assert_ok(clq_trainer_get_variable(trainer, v, out));
        out += info.elements;
    }
}

static inline void make_steps(clq_trainer *trainer, clq_dataset *data, unsigned count) {
    clq_batch batch;
    bool more;
    for (unsigned i = 0; i < count; i++) {
        assert_ok(clq_dataset_next(data, &batch, &more));
        assert_ok(clq_step(trainer, &batch));
    }
}

static inline clq_checkpoints *open_checkpoints(const char *folder) {
    clq_checkpoints *checkpoints;
    assert_ok(clq_checkpoints_open(&(clq_checkpoints_config){.folder = folder, .resume = true}, &checkpoints));
    return checkpoints;
}

/* Warnings, one a line, if a test sets keep_warning as the sink of the log. */
static char warned[4000];

static inline void keep_warning(void *context, clq_log_level level, const char *line) {
    (void)context;
    if (level == CLQ_LOG_WARNING) snprintf(warned + strlen(warned), sizeof warned - strlen(warned), "%s\n", line);
}

/* Saves a checkpoint after two steps. */
static inline clq_checkpoints *save_two(const clq_model *model, clq_dataset *data, const setting *s,
                                        const char *optimizer, const char *name) {
    clq_checkpoints *checkpoints = open_checkpoints(files_path(name));
    clq_trainer *trainer = make_trainer(model, s, optimizer);
    make_steps(trainer, data, 2);
    assert_ok(clq_checkpoints_save(checkpoints, trainer, data));
    clq_checkpoints_wait(checkpoints);
    clq_trainer_destroy(trainer);
    return checkpoints;
}

static inline int start(void **state) {
    for (int i = 0; i < SAMPLES; i++) {
        labels[i] = i % CLASSES;
        for (int k = 0; k < INPUTS; k++)
            samples[i][k] = (float)((i * 7 + k * 3) % 11) / 11.0f + (k == i % CLASSES ? 1.0f : 0.0f);
    }
    return open_system(state) || files_begin(state) ? -1 : 0;
}
static inline int end(void **state) { return close_system(state) || files_end(state) ? -1 : 0; }

#endif
