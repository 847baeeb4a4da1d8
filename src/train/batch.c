/* What a step takes: a batch that fits the trainer, with labels as the loss wants them. */
#include "train/trainer.h"

#include <string.h>

static clq_status check_samples(const clq_trainer *trainer, const clq_batch *batch) {
    size_t elements = clq_model_input(trainer->model)->elements, most = trainer->config.global_batch;
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

/* ---- labels ---- */

/* What becomes of labels before the loss gets them. */
typedef enum conversion { AS_THEY_ARE, AS_VALUES, AS_ONE_HOT } conversion;

/* whose: "the batch", or the dataset's name. */
static clq_status choose_conversion(const clq_trainer *trainer, const char *whose, bool floats, size_t elements,
                                    conversion *out) {
    const clq_loss_problem *loss = &trainer->loss;
    const clq_loss_row *row = clq_loss_row_of(loss->kind);
    size_t wanted = clq_loss_target_elements(loss);
    bool index = row->target == CLQ_TARGET_INDEX;
    if (index && floats)
        return clq_fail(
            CLQ_MISMATCH,
            "%s: labels are f32 and %s takes class numbers: use categorical_crossentropy for probabilities, "
            "or a loss of values",
            whose, row->name);
    /* Of one class a label is a number, unless it is the only entry of a distribution. */
    bool one_hot = row->one_hot && !floats && elements * loss->classes == wanted &&
                   (loss->classes > 1 || row->target == CLQ_TARGET_DISTRIBUTION);
    if (!one_hot && elements != wanted)
        return clq_fail(CLQ_MISMATCH, "%s: a label has %zu values, and %s with model %s takes %zu", whose, elements,
                        row->name, clq_model_name(trainer->model), wanted);
    *out = index || floats ? AS_THEY_ARE : one_hot ? AS_ONE_HOT : AS_VALUES;
    return CLQ_OK;
}

/* Whether integer labels are class numbers. */
static bool are_classes(const clq_trainer *trainer, conversion how) {
    return how == AS_ONE_HOT || clq_loss_row_of(trainer->loss.kind)->target == CLQ_TARGET_INDEX;
}

static clq_status refuse_class(const clq_trainer *trainer, const char *whose, size_t sample, long long label) {
    size_t classes = trainer->loss.classes;
    return clq_fail(CLQ_MISMATCH, "%s: label %zu is %lld and model %s has %zu outputs: labels are 0 to %zu", whose,
                    sample, label, clq_model_name(trainer->model), classes, classes - 1);
}

clq_status clq_trainer_check_labels(const clq_trainer *trainer, const clq_dataset_info *info) {
    size_t classes = trainer->loss.classes;
    conversion how;
    CLQ_TRY(choose_conversion(trainer, info->name, info->float_labels, info->label_elements, &how));
    if (are_classes(trainer, how) && info->label_least < 0)
        return refuse_class(trainer, info->name, info->label_least_at, (long long)info->label_least);
    if (are_classes(trainer, how) && info->classes > classes)
        return clq_fail(CLQ_MISMATCH, "%s: a label is %zu and model %s has %zu outputs: labels are 0 to %zu",
                        info->name, info->classes - 1, clq_model_name(trainer->model), classes, classes - 1);
    if (clq_loss_row_of(trainer->loss.kind)->target == CLQ_TARGET_DISTRIBUTION && info->label_least < 0)
        return clq_fail(CLQ_MISMATCH, "%s: label %zu has %g: probabilities are not negative", info->name,
                        info->label_least_at, info->label_least);
    return CLQ_OK;
}

bool clq_trainer_takes_rows(const clq_trainer *trainer, const clq_dataset *dataset) {
    const clq_dataset_info *info = clq_dataset_get_info(dataset);
    return clq_strategy_takes_rows(trainer->strategy, info->float_labels || clq_loss_has_index(&trainer->loss));
}

static clq_status check_classes(const clq_trainer *trainer, const clq_batch *batch, size_t elements) {
    const int32_t *labels = batch->labels;
    for (size_t i = 0; i < batch->count * elements; i++)
        if (labels[i] < 0 || (size_t)labels[i] >= trainer->loss.classes)
            return refuse_class(trainer, "the batch", i / elements, labels[i]);
    return CLQ_OK;
}

/* Integers as the loss's floats, in the trainer's own memory. */
static clq_status convert(clq_trainer *trainer, conversion how, size_t elements, clq_batch *batch) {
    const clq_loss_problem *loss = &trainer->loss;
    size_t floats = clq_loss_target_elements(loss), count = batch->count * elements;
    const int32_t *labels = batch->labels;
    if (!trainer->targets) trainer->targets = clq_alloc(trainer->config.global_batch, floats * sizeof(float));
    if (!trainer->targets) return CLQ_MEMORY;
    if (how == AS_ONE_HOT) memset(trainer->targets, 0, batch->count * floats * sizeof(float));
    for (size_t i = 0; i < count; i++)
        if (how == AS_ONE_HOT)
            trainer->targets[i * loss->classes + (size_t)labels[i]] = 1.0f;
        else
            trainer->targets[i] = (float)labels[i];
    batch->labels = trainer->targets;
    batch->float_labels = true;
    batch->label_elements = floats;
    return CLQ_OK;
}

static clq_status take_labels(clq_trainer *trainer, clq_batch *batch) {
    size_t elements = CLQ_MAX(batch->label_elements, (size_t)1);
    conversion how;
    if (!batch->labels) return clq_fail(CLQ_MISMATCH, "the batch has no labels");
    CLQ_TRY(choose_conversion(trainer, "the batch", batch->float_labels, elements, &how));
    if (are_classes(trainer, how)) CLQ_TRY(check_classes(trainer, batch, elements));
    return how == AS_THEY_ARE ? CLQ_OK : convert(trainer, how, elements, batch);
}

clq_status clq_trainer_take_batch(clq_trainer *trainer, const clq_batch *batch, bool labels, clq_batch *out) {
    CLQ_TRY(check_samples(trainer, batch));
    clq_batch taken = *batch;
    if (labels) CLQ_TRY(take_labels(trainer, &taken));
    *out = taken;
    return CLQ_OK;
}
