/* What the tests of model parts (<clique/distribute.h>) share: models that are cut into parts, and their trainers. */
#ifndef CLQ_TEST_TRAIN_PARTS_H
#define CLQ_TEST_TRAIN_PARTS_H

#include "support/apart.h"
#include "support/check.h"
#include "support/system.h"
#include "train/trainer.h"
#include <clique/distribute.h>

#include <math.h>

enum { SAMPLES = 26, BATCH = 10, INPUTS = 5, CLASSES = 3, PARTS_MOST = 3, STEPS = 6 };

static float samples[SAMPLES][INPUTS];
static int32_t labels[2][SAMPLES];
static clq_model *modal, *branched;

/* ---- models ---- */

/* Two parts. Each has layers that training and inference compute differently: batch normalization and dropout. */
static inline clq_model *build_modal(void) {
    clq_model *m;
    assert_ok(clq_model_create("modal", &m));
    clq_tensor x = clq_input(m, CLQ_SHAPE(INPUTS));
    for (unsigned part = 0; part < 2; part++) {
        x = clq_dense(m, x, &(clq_dense_config){.units = 7 - part, .activation = CLQ_ACTIVATION_TANH});
        x = clq_batch_norm(m, x, NULL);
        x = clq_dropout(m, x, &(clq_dropout_config){.rate = 0.25});
        if (part == 0) x = clq_pipeline_cut(m, x);
    }
    assert_ok(clq_model_finish(
        m, clq_dense(m, x, &(clq_dense_config){.units = CLASSES, .activation = CLQ_ACTIVATION_SOFTMAX})));
    return m;
}

/* Three parts. The third part reads tensors of the first, which pass through the second; one of these tensors has no
 * gradient. One of the model's outputs is in the first part. */
static inline clq_model *build_branched(void) {
    clq_model *m;
    assert_ok(clq_model_create("branched", &m));
    clq_tensor scaled = clq_activate(m, clq_input(m, CLQ_SHAPE(INPUTS)), CLQ_ACTIVATION_TANH, "scaled");
    clq_tensor x =
        clq_dense(m, scaled, &(clq_dense_config){.units = 7, .activation = CLQ_ACTIVATION_TANH, .name = "x"});
    clq_tensor early =
        clq_dense(m, x, &(clq_dense_config){.units = CLASSES, .activation = CLQ_ACTIVATION_SOFTMAX, .name = "early"});
    (void)clq_pipeline_cut(m, early);
    clq_tensor y = clq_dense(m, x, &(clq_dense_config){.units = 6, .activation = CLQ_ACTIVATION_RELU, .name = "y"});
    y = clq_pipeline_cut(m, clq_dropout(m, y, NULL));
    clq_tensor all = clq_concatenate(m, CLQ_TENSORS(scaled, x, y), -1, NULL);
    clq_tensor late =
        clq_dense(m, all, &(clq_dense_config){.units = CLASSES, .activation = CLQ_ACTIVATION_SOFTMAX, .name = "late"});
    assert_ok(clq_model_finish_outputs(m, CLQ_TENSORS(early, late)));
    return m;
}

static inline unsigned parts_of(const clq_model *model) { return CLQ_MAX(model->mark_count, 1u) + 1; }

/* ---- trainers ---- */

static inline clq_trainer_config config_of(void) {
    clq_trainer_config config = apart_config();
    config.global_batch = BATCH;
    config.sample_dtype = CLQ_F32;
    config.seed = 5;
    config.metrics = "accuracy,confusion_matrix";
    config.measure_gradient = true;
    return config;
}

static inline clq_status open_on(const clq_model *model, const char *spec, const clq_trainer_config *config,
                                 clq_trainer **out) {
    clq_devices devices;
    CLQ_TRY(clq_devices_select(sys, spec, &devices));
    return clq_trainer_create(model, &devices, config, out);
}

/* A model's trainers: one for each part, or one for the whole model. */
typedef struct chain {
    unsigned count;
    clq_trainer *trainers[PARTS_MOST];
    clq_part_values *values[PARTS_MOST], *gradients[PARTS_MOST]; /* of the tensors between part i and part i + 1 */
} chain;

static inline void close_chain(const chain *c) {
    for (unsigned p = 0; p < c->count; p++) {
        clq_part_values_destroy(c->values[p]);
        clq_part_values_destroy(c->gradients[p]);
        clq_trainer_destroy(c->trainers[p]);
    }
}

/* The caller closes *out, also after a failure. */
static inline clq_status open_chain(const clq_model *model, bool whole, chain *out) {
    clq_trainer_config config = config_of();
    *out = (chain){.count = whole ? 1 : parts_of(model)};
    if (!whole) config.parts = out->count;
    for (unsigned p = 0; p < out->count; p++) {
        config.part = p;
        CLQ_TRY(open_on(model, p % 2 ? "pocl:1" : "pocl:0", &config, &out->trainers[p]));
        if (p + 1 == out->count) break;
        CLQ_TRY(clq_part_values_create(out->trainers[p], CLQ_PART_OUTPUT, &out->values[p]));
        CLQ_TRY(clq_part_values_create(out->trainers[p], CLQ_PART_OUTPUT, &out->gradients[p]));
    }
    return CLQ_OK;
}

static inline clq_batch batch_at(size_t first, size_t count) {
    static clq_labels more;
    more = (clq_labels){.values = labels[1] + first};
    return (clq_batch){.count = count,
                       .samples = samples[first],
                       .sample_elements = INPUTS,
                       .sample_dtype = CLQ_F32,
                       .labels = labels[0] + first,
                       .more_labels = &more};
}

static inline clq_batch batch_for(const clq_model *model, size_t first, size_t count) {
    clq_batch batch = batch_at(first, count);
    batch.more_count = model->output_count - 1;
    return batch;
}

/* The last batch of an epoch has 6 samples. */
static inline clq_batch batch_of_step(const clq_model *model, unsigned step) {
    const size_t first = step * BATCH % (3 * BATCH);
    return batch_for(model, first, CLQ_MIN((size_t)BATCH, SAMPLES - first));
}

/* ---- steps ---- */

static inline clq_status make_gradients(const chain *c, const clq_batch *batch) {
    const unsigned last = c->count - 1;
    for (unsigned p = 0; p <= last; p++)
        CLQ_TRY(clq_part_forward(c->trainers[p], batch, p ? c->values[p - 1] : NULL, p < last ? c->values[p] : NULL));
    for (unsigned p = last + 1; p-- > 0;)
        CLQ_TRY(clq_part_backward(c->trainers[p], p < last ? c->gradients[p] : NULL, p ? c->gradients[p - 1] : NULL));
    return CLQ_OK;
}

static inline clq_status apply(const chain *c) {
    for (unsigned p = 0; p < c->count; p++) CLQ_TRY(clq_step_apply(c->trainers[p]));
    return CLQ_OK;
}

/* What a step tells. The losses of the parts are added up, and so are the squares of their norms. */
static inline clq_status read_step(const chain *c, double *loss, double *norm) {
    *loss = *norm = 0;
    for (unsigned p = 0; p < c->count; p++) {
        clq_step_info info;
        CLQ_TRY(clq_step_read(c->trainers[p], &info));
        *loss += info.loss;
        *norm += info.grad_norm * info.grad_norm;
    }
    *norm = sqrt(*norm);
    return CLQ_OK;
}

static inline clq_dataset *first_samples(const clq_model *model) {
    clq_dataset *data;
    assert_ok(clq_dataset_arrays(samples, CLQ_F32, BATCH, 1, (size_t[]){INPUTS}, labels[0], CLQ_I32, 1, &data));
    if (model->output_count > 1) assert_ok(clq_dataset_add_labels(data, labels[1], CLQ_I32, 1));
    assert_ok(clq_dataset_batch(data, BATCH, false));
    return data;
}

static inline int open_models(void **state) {
    for (int i = 0; i < SAMPLES; i++) {
        labels[0][i] = (i * 5 + i / 7) % CLASSES;
        labels[1][i] = (i * 7 + i / 5) % CLASSES;
        for (int k = 0; k < INPUTS; k++) samples[i][k] = (float)((i * 7 + k * 3 + labels[0][i] * 5) % 11) / 5.0f - 1.0f;
    }
    if (open_system(state) != 0) return -1;
    modal = build_modal();
    branched = build_branched();
    return 0;
}

static inline int close_models(void **state) {
    clq_model_destroy(modal);
    clq_model_destroy(branched);
    return close_system(state);
}

#endif
