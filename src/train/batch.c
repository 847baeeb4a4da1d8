/* What a step takes: a batch that fits the trainer, with labels as the loss wants them. */
#include "train/trainer.h"

#include <string.h>

static clq_status check_samples(const clq_trainer *trainer, const clq_batch *batch) {
    size_t elements = trainer->model->layers[trainer->model->input - 1].elements, most = trainer->config.global_batch;
    if (batch->count == 0) return clq_fail(CLQ_ARGUMENT, "a batch of no samples");
    if (batch->count > most)
        return clq_fail(CLQ_ARGUMENT,
                        "a batch of %zu samples is larger than the global batch of %zu that the trainer was made for",
                        batch->count, most);
    if (!batch->samples || batch->sample_elements != elements)
        return clq_fail(CLQ_MISMATCH, "a sample of the batch has %zu values and model %s takes %zu",
                        batch->samples ? batch->sample_elements : 0, clq_model_name(trainer->model), elements);
    if (batch->sample_dtype != trainer->config.sample_dtype)
        return clq_fail(CLQ_MISMATCH, "the samples of the batch are %s and the trainer was made for %s",
                        clq_dtype_name(batch->sample_dtype), clq_dtype_name(trainer->config.sample_dtype));
    return CLQ_OK;
}

static clq_status check_labels(const clq_trainer *trainer, const clq_batch *batch) {
    size_t classes = trainer->loss.classes;
    if (!batch->labels) return clq_fail(CLQ_MISMATCH, "the batch has no labels");
    if (batch->soft_labels) {
        if (trainer->loss.kind == CLQ_LOSS_SPARSE_CATEGORICAL)
            return clq_fail(CLQ_MISMATCH,
                            "the labels of the batch are rows of probabilities: use the loss categorical_crossentropy");
        if (batch->classes != classes)
            return clq_fail(CLQ_MISMATCH, "label rows of the batch have %zu classes and model %s has %zu outputs",
                            batch->classes, clq_model_name(trainer->model), classes);
        return CLQ_OK;
    }
    const int32_t *labels = batch->labels;
    for (size_t i = 0; i < batch->count; i++)
        if (labels[i] < 0 || (size_t)labels[i] >= classes)
            return clq_fail(CLQ_MISMATCH,
                            "label %zu of the batch is %d and model %s has %zu outputs: labels are 0 to %zu", i,
                            labels[i], clq_model_name(trainer->model), classes, classes - 1);
    return CLQ_OK;
}

/* Integer labels as rows with a single 1, in the trainer's own memory. */
static clq_status one_hot(clq_trainer *trainer, clq_batch *batch) {
    size_t classes = trainer->loss.classes, row_bytes = classes * sizeof(float);
    const int32_t *labels = batch->labels;
    if (!trainer->one_hot) trainer->one_hot = clq_alloc(trainer->config.global_batch, row_bytes);
    if (!trainer->one_hot) return CLQ_MEMORY;
    memset(trainer->one_hot, 0, batch->count * row_bytes);
    for (size_t i = 0; i < batch->count; i++) trainer->one_hot[i * classes + (size_t)labels[i]] = 1.0f;
    batch->labels = trainer->one_hot;
    batch->soft_labels = true;
    batch->classes = classes;
    return CLQ_OK;
}

clq_status clq_trainer_take_batch(clq_trainer *trainer, const clq_batch *batch, bool labels, clq_batch *out) {
    CLQ_TRY(check_samples(trainer, batch));
    if (labels) CLQ_TRY(check_labels(trainer, batch));
    clq_batch taken = *batch;
    if (labels && !taken.soft_labels && trainer->loss.kind == CLQ_LOSS_CATEGORICAL) CLQ_TRY(one_hot(trainer, &taken));
    *out = taken;
    return CLQ_OK;
}
