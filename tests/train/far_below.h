/* A model whose gradient does not depend on its weights: a dense layer far below its targets, with the mean absolute
 * error. The gradient of a batch is the mean of the gradients of its samples. Samples are small whole numbers and rates
 * are powers of two, so float sums are exact in every order. The weights show an update that is lost, made twice, or
 * made from wrong samples or with a wrong rate. */
#ifndef CLQ_TEST_FAR_BELOW_H
#define CLQ_TEST_FAR_BELOW_H

#include "support/apart.h"
#include "support/check.h"
#include "train/trainer.h"

#include <math.h>

enum { FEATURES = 3, BATCH = 16, BATCHES = 40, SAMPLES = BATCH * BATCHES };

static inline float sample_at(size_t i, size_t feature) { return (float)((i * 7 + i / 16 + feature * 3) % 8); }

/* For batches of BATCH samples, with the learning rates that rate_of gives. */
static inline clq_status far_below_config(clq_trainer_config *out) {
    *out = apart_config();
    CLQ_TRY(clq_optimizer_parse("sgd:lr=0.125", &out->optimizer));
    CLQ_TRY(clq_lr_schedule_parse("exponential:decay_steps=10,decay_rate=0.5,staircase=1", &out->schedule));
    CLQ_TRY(clq_loss_parse("mae", &out->loss));
    out->global_batch = BATCH;
    out->sample_dtype = CLQ_F32;
    out->measure_gradient = true;
    return CLQ_OK;
}

static inline clq_status far_below_model(clq_model **out) {
    CLQ_TRY(clq_model_create("far below", out));
    return clq_model_finish(*out,
                            clq_dense(*out, clq_input(*out, CLQ_SHAPE(FEATURES)), &(clq_dense_config){.units = 1}));
}

/* Fills the caller's samples (SAMPLES * FEATURES) and labels (SAMPLES). Both must live as long as the data. */
static inline clq_status far_below_data(float *samples, float *labels, clq_dataset **out) {
    const size_t shape[] = {FEATURES};
    for (size_t i = 0; i < SAMPLES; i++) {
        labels[i] = 65536.0f;
        for (size_t f = 0; f < FEATURES; f++) samples[i * FEATURES + f] = sample_at(i, f);
    }
    CLQ_TRY(clq_dataset_arrays(samples, CLQ_F32, SAMPLES, 1, shape, labels, CLQ_F32, 1, out));
    return clq_dataset_batch(*out, BATCH, false);
}

static inline clq_status zero_weights_of(clq_trainer *trainer) {
    static const float zeros[FEATURES];
    for (size_t i = 0; i < 2; i++) CLQ_TRY(clq_trainer_set_variable(trainer, i, zeros));
    return CLQ_OK;
}

/* ---- expected values ---- */

static inline double rate_of(size_t update) { return 0.125 * pow(0.5, (double)(update / 10)); }

/* Adds update number `update` to the expected weights: from samples [first, end) of batch `batch`, each of which counts
 * rate / (BATCH * part). */
static inline void add_update(double want[FEATURES + 1], size_t update, size_t batch, size_t first, size_t end,
                              double part) {
    for (size_t i = first; i < end; i++) {
        const double weight = rate_of(update) / (BATCH * part);
        for (size_t f = 0; f < FEATURES; f++) want[f] += weight * (double)sample_at(batch * BATCH + i, f);
        want[FEATURES] += weight;
    }
}

static inline double norm_of_batch(size_t batch) {
    double squares = 1.0; /* the bias's gradient is 1 */
    for (size_t f = 0; f < FEATURES; f++) {
        double sum = 0;
        for (size_t i = 0; i < BATCH; i++) sum += (double)sample_at(batch * BATCH + i, f);
        squares += sum * sum / (BATCH * BATCH);
    }
    return sqrt(squares);
}

/* The mean loss over all samples with weights `want`. */
static inline double loss_of(const double want[FEATURES + 1]) {
    double sum = 0;
    for (size_t i = 0; i < SAMPLES; i++) {
        double value = want[FEATURES];
        for (size_t f = 0; f < FEATURES; f++) value += want[f] * (double)sample_at(i, f);
        sum += 65536.0 - value;
    }
    return sum / SAMPLES;
}

#endif
