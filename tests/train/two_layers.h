/* For tests of what replicas exchange: a model of two layers, and made-up samples of three classes. */
#ifndef CLQ_TEST_TWO_LAYERS_H
#define CLQ_TEST_TWO_LAYERS_H

#include "support/apart.h"
#include "support/check.h"
#include "support/system.h"
#include "train/trainer.h"

/* Batches do not split evenly, and the last batch has two samples. The largest of five shares has the 8 rows of a tile,
 * so all use the same kernels. */
enum { INPUTS = 6, UNITS = 40, CLASSES = 3, BATCH = 37, SAMPLES = 5 * BATCH + 2 };

static float samples[SAMPLES][INPUTS];
static int32_t labels[SAMPLES];
static clq_model *model;
static clq_dataset *data;

/* Batch `index`; after the last batch the first follows again. */
static clq_batch batch_of(size_t index) {
    const size_t first = index % (SAMPLES / BATCH + 1) * BATCH;
    return (clq_batch){.count = CLQ_MIN((size_t)BATCH, SAMPLES - first),
                       .samples = samples[first],
                       .sample_elements = INPUTS,
                       .sample_dtype = CLQ_F32,
                       .labels = labels + first};
}

static const char *disabled_paths = APART; /* of the trainers that open_trainer creates */

static clq_trainer *open_trainer(const char *spec, const char *optimizer, const clq_strategy_options *options,
                                 size_t bucket_bytes) {
    clq_trainer *trainer;
    clq_devices devices;
    clq_trainer_config config = clq_trainer_config_default();
    config.global_batch = BATCH;
    config.sample_dtype = CLQ_F32;
    config.seed = 5;
    config.measure_gradient = true;
    config.bucket_bytes = bucket_bytes;
    config.disabled_paths = disabled_paths;
    config.strategy_options = *options;
    assert_ok(clq_optimizer_parse(optimizer, &config.optimizer));
    assert_ok(clq_devices_select(sys, spec, &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    return trainer;
}

static int start(void **state) {
    size_t shape[] = {INPUTS};
    for (int i = 0; i < SAMPLES; i++) {
        labels[i] = i % CLASSES;
        for (int k = 0; k < INPUTS; k++)
            samples[i][k] = (float)((i * 7 + k * 3) % 11) / 11.0f + (k == i % CLASSES ? 1.0f : 0.0f);
    }
    if (open_system(state) != 0) return -1;
    assert_ok(clq_model_create("small", &model));
    clq_tensor x = clq_dense(model, clq_input(model, CLQ_SHAPE(INPUTS)),
                             &(clq_dense_config){.units = UNITS, .activation = CLQ_ACTIVATION_TANH});
    assert_ok(clq_model_finish(
        model, clq_dense(model, x, &(clq_dense_config){.units = CLASSES, .activation = CLQ_ACTIVATION_SOFTMAX})));
    assert_ok(clq_dataset_arrays(samples, CLQ_F32, SAMPLES, 1, shape, labels, CLQ_I32, 1, &data));
    assert_ok(clq_dataset_batch(data, BATCH, false));
    return 0;
}

static int finish(void **state) {
    clq_dataset_destroy(data);
    clq_model_destroy(model);
    return close_system(state);
}

#endif
