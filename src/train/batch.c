/* Checks that a batch fits the trainer, and makes its labels what the loss takes. */
#include "train/trainer.h"

#include <math.h>
#include <string.h>

clq_status clq_trainer_check_size(const clq_trainer *trainer, size_t samples) {
    const size_t most = trainer->config.global_batch;
    if (samples == 0) return clq_fail(CLQ_ERROR_ARGUMENT, "the batch has no samples: expected 1 to %zu", most);
    if (samples <= most) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT,
                    "a batch of %zu sample%s is larger than the global batch of %zu that the trainer was made for",
                    samples, clq_plural(samples), most);
}

/* Checks `count` samples: values that a layer takes as numbers of rows (tokens) must be rows that the layer has. whose:
 * as of choose_conversion. */
static clq_status check_tokens(const clq_trainer *trainer, const char *whose, const void *samples, size_t count) {
    const clq_model *model = trainer->model;
    const bool bytes = trainer->config.sample_dtype == CLQ_U8;
    const size_t elements = clq_model_input(model)->elements;
    clq_tokens tokens;
    for (uint32_t t = 0; t < model->tensor_count; t++) {
        if (!clq_model_tokens(model, t, &tokens)) continue;
        for (size_t i = 0; i < count * tokens.count; i++) {
            const size_t sample = i / tokens.count, at = tokens.first + i % tokens.count;
            const size_t place = sample * elements + at;
            const double token = bytes ? ((const uint8_t *)samples)[place] : (double)((const float *)samples)[place];
            if (!(token >= 0 && token < (double)tokens.rows))
                return clq_fail(CLQ_ERROR_MISMATCH,
                                "%s: value %zu of sample %zu is %g, and layer '%s' has rows 0 to %zu", whose, at,
                                sample, token, model->layers[tokens.layer].name, tokens.rows - 1);
        }
    }
    return CLQ_OK;
}

static clq_status check_samples(const clq_trainer *trainer, const clq_batch *batch) {
    size_t elements = clq_model_input(trainer->model)->elements;
    CLQ_TRY(clq_trainer_check_size(trainer, batch->count));
    if (!batch->samples || batch->sample_elements != elements)
        return clq_fail(CLQ_ERROR_MISMATCH, "a sample of the batch has %zu value%s and model %s takes %zu",
                        batch->samples ? batch->sample_elements : 0,
                        clq_plural(batch->samples ? batch->sample_elements : 0), clq_model_name(trainer->model),
                        elements);
    if (batch->sample_dtype != trainer->config.sample_dtype)
        return clq_fail(CLQ_ERROR_MISMATCH, "the samples of the batch are %s and the trainer was made for %s",
                        clq_dtype_name(batch->sample_dtype), clq_dtype_name(trainer->config.sample_dtype));
    return check_tokens(trainer, "the batch", batch->samples, batch->count);
}

/* ---- labels ---- */

/* How labels are converted for the loss. */
typedef enum conversion { AS_THEY_ARE, AS_VALUES, AS_ONE_HOT } conversion;

/* whose: "the batch", or the dataset's name, for messages. */
static clq_status choose_conversion(const clq_trainer *trainer, size_t output, const char *whose, bool floats,
                                    size_t elements, conversion *out) {
    const clq_loss_problem *loss = &trainer->losses[output];
    const clq_loss_row *row = clq_loss_row_of(loss->kind);
    size_t wanted = clq_loss_label_elements(loss);
    bool index = row->target == CLQ_TARGET_INDEX;
    if (index && floats)
        return clq_fail(
            CLQ_ERROR_MISMATCH,
            "%s: labels are f32 and %s takes class numbers: use categorical_crossentropy for probabilities, "
            "or a loss of values",
            whose, row->name);
    /* With a single class an integer label is a value, unless the loss takes a distribution, which then has one
     * entry. */
    bool one_hot = row->one_hot && !floats && elements * loss->classes == wanted &&
                   (loss->classes > 1 || row->target == CLQ_TARGET_DISTRIBUTION);
    if (!one_hot && elements != wanted)
        return clq_fail(CLQ_ERROR_MISMATCH, "%s: a label has %zu value%s, and %s with model %s takes %zu", whose,
                        elements, clq_plural(elements), row->name, clq_model_name(trainer->model), wanted);
    *out = index || floats ? AS_THEY_ARE : one_hot ? AS_ONE_HOT : AS_VALUES;
    return CLQ_OK;
}

/* Whether integer labels are class numbers. */
static bool are_classes(const clq_loss_problem *loss, conversion how) {
    return how == AS_ONE_HOT || clq_loss_has_index(loss);
}

/* Finds the first of labels[numbers] that is no class number. False: all are class numbers. */
static bool find_no_class(const clq_loss_problem *loss, const int32_t *labels, size_t numbers, size_t *at) {
    for (*at = 0; *at < numbers; ++*at)
        if (labels[*at] < 0 || (size_t)labels[*at] >= loss->classes) return true;
    return false;
}

/* at: the place of the wrong number among labels with `elements` numbers each. */
static clq_status refuse_class(const clq_trainer *trainer, size_t output, const char *whose, const int32_t *labels,
                               size_t elements, size_t at) {
    const size_t classes = trainer->losses[output].classes;
    char place[48] = "";
    if (elements > 1) (void)snprintf(place, sizeof place, "value %zu of ", at % elements);
    return clq_fail(CLQ_ERROR_MISMATCH, "%s: %slabel %zu is %d and model %s has %zu class%s: labels are 0 to %zu",
                    whose, place, at / elements, (int)labels[at], clq_model_name(trainer->model), classes,
                    classes == 1 ? "" : "es", classes - 1);
}

/* With several outputs, adds the name of this one to a failure. */
static clq_status within_output(const clq_trainer *trainer, size_t output, clq_status status) {
    if (status == CLQ_OK || trainer->model->output_count == 1) return status;
    return clq_fail_within(status, "output '%s'", clq_model_output_name(trainer->model, output));
}

/* count: how many outputs there are labels for. */
static clq_status check_count(const clq_trainer *trainer, const char *whose, size_t count) {
    const clq_model *model = trainer->model;
    const size_t outputs = model->output_count;
    if (count == outputs) return CLQ_OK;
    if (count < outputs)
        return clq_fail(CLQ_ERROR_MISMATCH, "%s has labels for %zu output%s and model %s has %zu: none for '%s'", whose,
                        count, count == 1 ? "" : "s", clq_model_name(model), outputs,
                        clq_model_output_name(model, count));
    return clq_fail(CLQ_ERROR_MISMATCH, "%s has labels for %zu outputs and model %s has %zu, of which '%s' is the last",
                    whose, count, clq_model_name(model), outputs, clq_model_output_name(model, outputs - 1));
}

static clq_status check_labels_of(const clq_trainer *trainer, size_t output, const clq_dataset *dataset) {
    const char *name = clq_dataset_get_info(dataset)->name;
    const clq_labels_info *info = &clq_dataset_get_info(dataset)->labels[output];
    const clq_loss_problem *loss = &trainer->losses[output];
    conversion how;
    CLQ_TRY(choose_conversion(trainer, output, name, info->is_float, info->elements, &how));
    if (are_classes(loss, how) && (info->least < 0 || info->classes > loss->classes)) {
        size_t numbers, at;
        const int32_t *labels = clq_dataset_labels(dataset, output, &numbers);
        if (find_no_class(loss, labels, numbers, &at))
            return refuse_class(trainer, output, name, labels, info->elements, at);
    }
    if (clq_loss_row_of(loss->kind)->target == CLQ_TARGET_DISTRIBUTION && info->least < 0)
        return clq_fail(CLQ_ERROR_MISMATCH, "%s: label %zu has %g: probabilities are not negative", name,
                        info->least_at, info->least);
    return CLQ_OK;
}

static clq_status check_labels(const clq_trainer *trainer, const clq_dataset *dataset) {
    const clq_dataset_info *info = clq_dataset_get_info(dataset);
    CLQ_TRY(check_count(trainer, info->name, info->labels_count));
    for (size_t i = 0; i < info->labels_count; i++)
        CLQ_TRY(within_output(trainer, i, check_labels_of(trainer, i, dataset)));
    return CLQ_OK;
}

clq_status clq_trainer_check_dataset(const clq_trainer *trainer, const clq_dataset *dataset, bool labels) {
    if (trainer->config.parts > 0) return clq_trainer_refuse_call(trainer, "what walks over a dataset");
    const clq_dataset_info *info = clq_dataset_get_info(dataset);
    size_t elements = clq_model_input(trainer->model)->elements;
    size_t batch = clq_dataset_batch_size(dataset), most = trainer->config.global_batch;
    if (info->sample_elements != elements)
        return clq_fail(CLQ_ERROR_MISMATCH, "%s: a sample has %zu value%s and model %s takes %zu", info->name,
                        info->sample_elements, clq_plural(info->sample_elements), clq_model_name(trainer->model),
                        elements);
    if (info->sample_dtype != trainer->config.sample_dtype)
        return clq_fail(CLQ_ERROR_MISMATCH, "%s: samples are %s and the trainer was made for %s", info->name,
                        clq_dtype_name(info->sample_dtype), clq_dtype_name(trainer->config.sample_dtype));
    size_t samples;
    const void *values = clq_dataset_samples(dataset, &samples);
    CLQ_TRY(check_tokens(trainer, info->name, values, samples));
    if (labels) CLQ_TRY(check_labels(trainer, dataset));
    if (labels && info->weighted && !trainer->config.sample_weights)
        return clq_fail(CLQ_ERROR_MISMATCH,
                        "%s: samples have weights and the trainer was made without: set sample_weights", info->name);
    if (batch > most)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "%s is cut into batches of %zu and the trainer was made for a global batch of %zu", info->name,
                        batch, most);
    return CLQ_OK;
}

bool clq_trainer_takes_rows(const clq_trainer *trainer, const clq_dataset *dataset) {
    const clq_dataset_info *info = clq_dataset_get_info(dataset);
    bool ready = true; /* labels are as the losses take them */
    for (size_t i = 0; i < info->labels_count; i++)
        ready = ready && !trainer->losses[i].weighted &&
                (info->labels[i].is_float || clq_loss_has_index(&trainer->losses[i]));
    return clq_strategy_takes_rows(trainer->strategy, ready);
}

static clq_status check_classes(const clq_trainer *trainer, size_t output, size_t count, size_t elements,
                                const int32_t *labels) {
    size_t at;
    if (!find_no_class(&trainer->losses[output], labels, count * elements, &at)) return CLQ_OK;
    return refuse_class(trainer, output, "the batch", labels, elements, at);
}

/* ---- weights ---- */

static clq_status check_weights(const clq_trainer *trainer, const clq_batch *batch) {
    if (!batch->weights) return CLQ_OK;
    if (!trainer->config.sample_weights)
        return clq_fail(CLQ_ERROR_MISMATCH,
                        "the batch has weights and the trainer was made without: set sample_weights");
    for (size_t i = 0; i < batch->count; i++)
        if (!(batch->weights[i] >= 0.0f) || !isfinite(batch->weights[i]))
            return clq_fail(CLQ_ERROR_MISMATCH,
                            "the batch: the weight of sample %zu is %g: expected a finite number of at least 0", i,
                            (double)batch->weights[i]);
    return CLQ_OK;
}

/* A sample's class, as Keras takes it from the loss's target: the label, the place of the largest value, or a single
 * value, rounded. Negative: no class. */
static double class_of(const clq_loss_problem *loss, const void *target) {
    const float *values = target;
    size_t best = 0;
    if (clq_loss_has_index(loss)) return *(const int32_t *)target;
    const size_t count = clq_loss_label_elements(loss);
    for (size_t i = 1; i < count; i++)
        if (values[i] > values[best]) best = i;
    return count == 1 ? rint((double)values[0]) : (double)best;
}

/* The weight of a sample's loss. own: the sample's weight; NULL: 1. In training it is multiplied by the class's
 * weight. */
static float weight_of(const clq_trainer *trainer, const clq_loss_problem *loss, clq_batch_use use, const void *target,
                       const float *own) {
    const double weight = own ? (double)*own : 1.0;
    if (use != CLQ_TO_TRAIN || !trainer->class_weights) return (float)weight;
    const double class = class_of(loss, target);
    if (!(class >= 0.0 && class < (double)trainer->config.class_weight_count)) return (float)weight;
    return (float)(weight * trainer->class_weights[(size_t) class]);
}

/* ---- labels as the loss takes them ---- */

/* Converts one sample's labels. All numbers have 4 bytes. */
static void convert_one(const clq_loss_problem *loss, conversion how, const void *from, size_t elements, float *to) {
    const int32_t *integers = from;
    if (how == AS_THEY_ARE) memcpy(to, from, elements * sizeof *to);
    if (how == AS_ONE_HOT) memset(to, 0, elements * loss->classes * sizeof *to);
    for (size_t i = 0; i < elements && how != AS_THEY_ARE; i++)
        if (how == AS_ONE_HOT)
            to[i * loss->classes + (size_t)integers[i]] = 1.0f;
        else
            to[i] = (float)integers[i];
}

/* Converts the batch's labels for an output into the trainer's own memory, from the place of sample `first` on. */
static clq_status convert(clq_trainer *trainer, size_t output, conversion how, clq_batch_use use, size_t first,
                          const clq_batch *batch, const void **out) {
    const clq_loss_problem *loss = &trainer->losses[output];
    const clq_labels labels = clq_batch_labels(batch, output);
    const size_t each = clq_loss_target_elements(loss), elements = CLQ_MAX(labels.elements, (size_t)1);
    if (!trainer->targets[output])
        trainer->targets[output] = clq_alloc(trainer->config.global_batch, clq_loss_target_bytes(loss));
    if (!trainer->targets[output]) return CLQ_ERROR_MEMORY;
    float *to = trainer->targets[output] + first * each;
    *out = to;
    for (size_t i = 0; i < batch->count; i++, to += each) {
        convert_one(loss, how, (const int32_t *)labels.values + i * elements, elements, to);
        if (loss->weighted)
            to[each - 1] = weight_of(trainer, loss, use, to, batch->weights ? batch->weights + i : NULL);
    }
    return CLQ_OK;
}

static clq_status take_labels_of(clq_trainer *trainer, size_t output, clq_batch_use use, size_t first,
                                 const clq_batch *batch, const void **out) {
    const clq_loss_problem *loss = &trainer->losses[output];
    const clq_labels labels = clq_batch_labels(batch, output);
    const size_t elements = CLQ_MAX(labels.elements, (size_t)1);
    conversion how;
    if (!labels.values) return clq_fail(CLQ_ERROR_MISMATCH, "the batch has no labels");
    CLQ_TRY(choose_conversion(trainer, output, "the batch", labels.is_float, elements, &how));
    if (are_classes(loss, how)) CLQ_TRY(check_classes(trainer, output, batch->count, elements, labels.values));
    *out = labels.values;
    return how == AS_THEY_ARE && !loss->weighted ? CLQ_OK : convert(trainer, output, how, use, first, batch, out);
}

/* Puts the labels into `arrays`, which has an entry for each array of the strategy's feed. */
static clq_status take_labels(clq_trainer *trainer, clq_batch_use use, size_t first, const clq_batch *batch,
                              const char **arrays) {
    const clq_feed *feed = clq_strategy_feed(trainer->strategy);
    const size_t count = batch->more_labels ? 1 + batch->more_count : 1;
    CLQ_TRY(CLQ_RESERVE_CHECK(clq_batch, batch));
    CLQ_TRY(check_count(trainer, "the batch", count));
    CLQ_TRY(check_weights(trainer, batch));
    for (unsigned i = 0; i < count; i++) {
        const void *labels = NULL;
        CLQ_TRY(within_output(trainer, i, take_labels_of(trainer, i, use, first, batch, &labels)));
        arrays[clq_feed_find(feed, CLQ_FEED_LABELS, i)] = labels;
    }
    return CLQ_OK;
}

/* first: how many samples of the batch are in parts before this one. A prediction does not read labels, which may then
 * have any shape. */
static clq_status take(clq_trainer *trainer, const clq_batch *batch, clq_batch_use use, size_t first, clq_rows *rows,
                       const char **arrays) {
    const clq_feed *feed = clq_strategy_feed(trainer->strategy);
    for (unsigned i = 0; i < feed->count; i++) arrays[i] = NULL;
    arrays[clq_feed_find(feed, CLQ_FEED_SAMPLES, 0)] = batch->samples;
    if (use != CLQ_TO_PREDICT) CLQ_TRY(take_labels(trainer, use, first, batch, arrays));
    *rows = (clq_rows){.feed = feed, .arrays = arrays, .count = batch->count};
    return CLQ_OK;
}

clq_status clq_trainer_take_batch(clq_trainer *trainer, const clq_batch *batch, clq_batch_use use,
                                  clq_checked_batch *out) {
    CLQ_TRY(check_samples(trainer, batch));
    return take(trainer, batch, use, 0, &out->rows, out->arrays);
}

static bool has_output(const clq_trainer *trainer) {
    for (uint32_t i = 0; i < trainer->model->output_count; i++)
        if (clq_stage_has_tensor(clq_strategy_part_stage(trainer->strategy), trainer->model->outputs[i])) return true;
    return false;
}

clq_status clq_trainer_take_part_batch(clq_trainer *trainer, const clq_batch *batch, clq_batch_use use,
                                       clq_checked_batch *out) {
    const bool samples = clq_stage_has_tensor(clq_strategy_part_stage(trainer->strategy), trainer->model->input);
    CLQ_TRY(samples ? check_samples(trainer, batch) : clq_trainer_check_size(trainer, batch->count));
    return take(trainer, batch, has_output(trainer) ? use : CLQ_TO_PREDICT, 0, &out->rows, out->arrays);
}

/* ---- a batch in parts ---- */

/* With several replicas, adds the number of this one to a failure of its part. */
static clq_status within_replica(const clq_trainer *trainer, unsigned replica, clq_status status) {
    if (status == CLQ_OK || clq_trainer_replicas(trainer) == 1) return status;
    return clq_fail_within(status, "the part of replica %u", replica);
}

/* before: how many samples the replicas before this one have. */
static clq_status check_part(const clq_trainer *trainer, unsigned replica, const clq_batch *part, size_t before) {
    const size_t most = clq_strategy_capacity(trainer->strategy, replica);
    CLQ_TRY(check_samples(trainer, part));
    if (part->count > most)
        return clq_fail(
            CLQ_ERROR_ARGUMENT,
            "%zu samples, and by the global batch of %zu that the trainer was made for it takes at most %zu",
            part->count, trainer->config.global_batch, most);
    return clq_trainer_check_size(trainer, before + part->count);
}

static clq_status take_part(clq_trainer *trainer, unsigned replica, const clq_batch *part, clq_batch_use use,
                            clq_parts *out) {
    CLQ_TRY(check_part(trainer, replica, part, out->total));
    return take(trainer, part, use, out->total, &out->rows[replica], out->arrays[replica]);
}

clq_status clq_trainer_take_parts(clq_trainer *trainer, const clq_batch *parts, clq_batch_use use, clq_parts *out) {
    out->total = 0;
    for (unsigned r = 0; r < clq_trainer_replicas(trainer); r++) {
        out->rows[r] = (clq_rows){.count = 0};
        if (parts[r].count == 0) continue;
        CLQ_TRY(within_replica(trainer, r, take_part(trainer, r, &parts[r], use, out)));
        out->total += parts[r].count;
    }
    return out->total > 0 ? CLQ_OK : clq_fail(CLQ_ERROR_ARGUMENT, "a batch of no samples");
}
