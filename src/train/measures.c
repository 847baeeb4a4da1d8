/* What a trainer measures: the losses of the model's outputs, and metrics, whose names are resolved as in Keras. */
#include "train/words.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Names of metrics: 0 is "accuracy", i is row i - 1 of the table. */
static const char *metric_name(size_t i) {
    return i == 0 ? "accuracy" : clq_metric_row_of((clq_metric_kind)(i - 1))->name;
}
static const char *metric_alias(size_t i) {
    return i == 0 ? "acc" : clq_metric_row_of((clq_metric_kind)(i - 1))->alias;
}

static const char *listed_metric(size_t i) { return i <= clq_metric_count() ? metric_name(i) : NULL; }

static void list_metric(size_t i, clq_option keys[CLQ_LISTED_KEYS_MAX]) {
    keys[0] = (clq_option){0};
    if (i > 0)
        memcpy(keys, clq_metric_row_of((clq_metric_kind)(i - 1))->options,
               sizeof clq_metric_row_of((clq_metric_kind)(i - 1))->options);
}

const clq_listing clq_listed_metrics = {.name = listed_metric, .alias = metric_alias, .keys = list_metric};

static const clq_option no_keys[] = {{0}}; /* "accuracy" takes none */

/* Finds a metric by its text. As in Keras, "accuracy" depends on shapes: it is binary if the output's last axis has one
 * value, unless targets are class numbers. The same holds for a confusion matrix. */
static clq_status find_metric(const char *text, const clq_loss_row *loss, size_t last, clq_metric_kind *out,
                              float *number) {
    const bool index = loss->target == CLQ_TARGET_INDEX;
    clq_words words;
    CLQ_TRY(clq_parse_words("metric", text, 1 + clq_metric_count(), metric_name, metric_alias, &words));
    const bool accuracy = words.kind == 0, binary = !index && last == 1;
    clq_metric_kind kind = accuracy ? CLQ_METRIC_CATEGORICAL_ACCURACY : (clq_metric_kind)(words.kind - 1);
    if (binary && accuracy) kind = CLQ_METRIC_BINARY_ACCURACY;
    if (binary && kind == CLQ_METRIC_CONFUSION) kind = CLQ_METRIC_BINARY_CONFUSION;
    const clq_metric_row *row = clq_metric_row_of(kind);
    double value = row->options[0].value;
    CLQ_TRY(clq_set_values("metric", text, &words, accuracy ? no_keys : row->options, &value));
    if (row->values && index)
        return clq_fail(CLQ_ERROR_ARGUMENT, "metric %s compares values and the targets of %s are class numbers", text,
                        loss->name);
    if (row->classes && loss->target == CLQ_TARGET_VALUES)
        return clq_fail(CLQ_ERROR_ARGUMENT, "metric %s is of classes and the targets of %s are values", text,
                        loss->name);
    *out = kind;
    *number = (float)value;
    return CLQ_OK;
}

/* Adds the name of the next value or matrix. With several outputs, it begins with the output's name. */
static clq_status add_name(const clq_trainer *trainer, size_t output, const char *name,
                           char names[][CLQ_VALUE_NAME_MAX], unsigned *count) {
    char *to = names[*count];
    if (*count == CLQ_METRIC_VALUES_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT, "more than %d losses and metrics of all outputs", CLQ_METRIC_VALUES_MAX);
    const bool several = trainer->model->output_count > 1;
    (void)snprintf(to, CLQ_VALUE_NAME_MAX, "%s%s%s", several ? clq_model_output_name(trainer->model, output) : "",
                   several ? "_" : "", name);
    for (unsigned i = 0; i < *count; i++)
        if (strcmp(names[i], to) == 0) return clq_fail(CLQ_ERROR_ARGUMENT, "metric %s is given twice", to);
    (*count)++;
    return CLQ_OK;
}

static clq_status add_value_name(clq_trainer *trainer, size_t output, const char *name) {
    return add_name(trainer, output, name, trainer->metric_names, &trainer->metric_count);
}

static clq_status add_metric(clq_trainer *trainer, size_t output, const char *at, size_t length, size_t last) {
    clq_loss_problem *loss = &trainer->losses[output];
    char name[CLQ_WORD_MAX];
    if (loss->metric_count == CLQ_METRICS_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT, "metrics: more than %d are named for an output", (int)CLQ_METRICS_MAX);
    if (length == 0 || length >= sizeof name)
        return clq_fail(CLQ_ERROR_ARGUMENT, "metrics '%s': expected NAME,NAME,…, or none", at);
    memcpy(name, at, length);
    name[length] = '\0';
    clq_metric_kind *kind = &loss->metrics[loss->metric_count];
    CLQ_TRY(find_metric(name, clq_loss_row_of(loss->kind), last, kind, &loss->metric_values[loss->metric_count]));
    loss->metric_count++;
    if (clq_metric_is_matrix(*kind))
        return add_name(trainer, output, name, trainer->matrix_names, &trainer->matrix_count);
    return add_value_name(trainer, output, name);
}

static clq_status add_metrics(clq_trainer *trainer, size_t output, const char *names, size_t last) {
    if (names[0] == '\0' || strcmp(names, "none") == 0) return CLQ_OK;
    for (const char *at = names;; at++) {
        size_t length = strcspn(at, ",");
        CLQ_TRY(add_metric(trainer, output, at, length, last));
        at += length;
        if (!*at) return CLQ_OK;
    }
}

/* Checks a metric by its text alone. Which metric it is for an output with one value is decided later. */
static clq_status check_metric(const char *text) {
    clq_words words;
    double value;
    CLQ_TRY(clq_parse_words("metric", text, 1 + clq_metric_count(), metric_name, metric_alias, &words));
    clq_metric_kind kind = words.kind == 0 ? CLQ_METRIC_CATEGORICAL_ACCURACY : (clq_metric_kind)(words.kind - 1);
    if (kind == CLQ_METRIC_CONFUSION) kind = CLQ_METRIC_BINARY_CONFUSION; /* it takes the keys of both */
    return clq_set_values("metric", text, &words, words.kind == 0 ? no_keys : clq_metric_row_of(kind)->options, &value);
}

clq_status clq_metrics_check_names(const char *names) {
    if (names[0] == '\0' || strcmp(names, "none") == 0) return CLQ_OK;
    for (const char *at = names;; at++) {
        const size_t length = strcspn(at, ",");
        char name[CLQ_WORD_MAX];
        if (!clq_copy_word(name, at, length))
            return clq_fail(CLQ_ERROR_ARGUMENT, "metrics '%s': expected NAME,NAME,…, or none", at);
        CLQ_TRY(check_metric(name));
        at += length;
        if (!*at) return CLQ_OK;
    }
}

static bool goes_by_rows(const clq_loss_problem *loss) {
    bool any = clq_loss_row_of(loss->kind)->by_row;
    for (unsigned i = 0; i < loss->metric_count; i++) any = any || clq_metric_row_of(loss->metrics[i])->by_row;
    return any;
}

/* Limits the width of a row, as each device keeps the rows of many steps. */
static clq_status check_width(const clq_trainer *trainer) {
    size_t width = 0; /* classes * classes may overflow an unsigned, the type of clq_trainer_width */
    for (uint32_t i = 0; i < trainer->model->output_count; i++) {
        const clq_loss_problem *loss = &trainer->losses[i];
        width += clq_loss_sums(loss);
        for (unsigned k = 0; k < loss->metric_count; k++) width += clq_metric_bins(loss, k);
    }
    if (width <= CLQ_METRICS_ROW_MAX) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT,
                    "the metrics count %zu numbers in a step, and there is room for %d: ask for fewer%s", width,
                    CLQ_METRICS_ROW_MAX, trainer->matrix_count ? " (a confusion matrix has room for 101 classes)" : "");
}

static clq_status set_output(clq_trainer *trainer, size_t output, const clq_output_config *config) {
    const clq_shape shape = clq_model_output_shape(trainer->model, output);
    const clq_loss *given = &config->loss;
    clq_loss_problem *loss = &trainer->losses[output];
    size_t last = shape.dims[shape.rank - 1], elements = clq_model_output(trainer->model, output)->elements;
    CLQ_TRY(clq_loss_check(given));
    if (!(fabs(config->weight) <= (double)FLT_MAX) || (fabs(config->weight) < (double)FLT_MIN && config->weight != 0))
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "the weight of %g of the loss is out of range: expected 0 or what float32 can hold",
                        config->weight);
    *loss = (clq_loss_problem){.kind = given->kind,
                               .from_logits = given->from_logits,
                               .label_smoothing = (float)given->label_smoothing,
                               .delta = (float)given->delta,
                               .alpha = (float)given->alpha,
                               .gamma = (float)given->gamma,
                               .balanced = given->apply_class_balancing,
                               .weight = (float)config->weight,
                               .weighted = trainer->config.sample_weights || trainer->class_weights};
    const clq_loss_row *row = clq_loss_row_of(given->kind);
    if (!(row->takes & CLQ_TAKES_FROM_LOGITS)) loss->from_logits = false;
    if (!(row->takes & CLQ_TAKES_LABEL_SMOOTHING)) loss->label_smoothing = 0;
    if (trainer->model->output_count > 1) CLQ_TRY(add_value_name(trainer, output, "loss"));
    CLQ_TRY(add_metrics(trainer, output, config->metrics ? config->metrics : row->metrics, last));
    bool rows = goes_by_rows(loss);
    const uint32_t mask = clq_model_output(trainer->model, output)->mask;
    loss->classes = rows ? last : elements;
    loss->rows = rows ? elements / last : 1;
    if (!mask) return CLQ_OK;
    loss->mask_steps = trainer->model->tensors[mask - 1].elements;
    if (rows) return CLQ_OK;
    loss->rows = loss->mask_steps; /* a mean over values may be computed step by step */
    loss->classes = elements / loss->mask_steps;
    return CLQ_OK;
}

/* ---- which output gets what ---- */

clq_output_config clq_output_config_default(const char *name) {
    return (clq_output_config){.name = name, .loss = clq_loss_default(CLQ_LOSS_SPARSE_CATEGORICAL), .weight = 1};
}

/* Whether values of this output could be mistaken for a validation's, which begin with "val_": val_loss,
 * val_OUTPUT_loss. */
static bool is_like_a_validation(const clq_model *model, const char *name) {
    bool like = strcmp(name, "val") == 0;
    for (size_t i = 0; i < model->output_count && strncmp(name, "val_", 4) == 0; i++)
        like = like || strcmp(name + 4, clq_model_output_name(model, i)) == 0;
    return like;
}

static clq_status check_names(const clq_model *model) {
    for (size_t i = 0; i < model->output_count; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(clq_model_output_name(model, i), clq_model_output_name(model, k)) == 0)
                return clq_fail(CLQ_ERROR_UNSUPPORTED,
                                "outputs %zu and %zu of model %s are both of layer '%s': put a layer behind one of "
                                "them, such as a linear activation",
                                k, i, model->name, clq_model_output_name(model, i));
    for (size_t i = 0; i < model->output_count && model->output_count > 1; i++)
        if (is_like_a_validation(model, clq_model_output_name(model, i)))
            return clq_fail(
                CLQ_ERROR_UNSUPPORTED,
                "output '%s' of model %s: its values would have the names of validation's: rename the layer",
                clq_model_output_name(model, i), model->name);
    return CLQ_OK;
}

static clq_status refuse_output(const clq_model *model, const char *name) {
    clq_text known = {0};
    for (size_t i = 0; i < model->output_count; i++)
        clq_text_add(&known, "%s'%s'", i ? ", " : "", clq_model_output_name(model, i));
    clq_status status =
        clq_fail(CLQ_ERROR_ARGUMENT, "a loss is given for '%s', which is no output of model %s: it has %s", name,
                 model->name, known.data ? known.data : "others");
    clq_free(known.data);
    return status;
}

/* Sorts the configs by output. */
static clq_status assign(const clq_model *model, const clq_trainer_config *config,
                         const clq_output_config *of[CLQ_MODEL_OUTPUTS_MAX]) {
    for (size_t k = 0; k < config->output_count; k++) {
        const clq_output_config *given = &config->outputs[k];
        size_t i = 0;
        if (!given->name) return clq_fail(CLQ_ERROR_ARGUMENT, "outputs[%zu] of the trainer's config has no name", k);
        while (i < model->output_count && strcmp(clq_model_output_name(model, i), given->name) != 0) i++;
        if (i == model->output_count) return refuse_output(model, given->name);
        if (of[i]) return clq_fail(CLQ_ERROR_ARGUMENT, "output '%s': two losses are given for it", given->name);
        of[i] = given;
    }
    for (size_t i = 0; i < model->output_count; i++)
        if (!of[i])
            return clq_fail(CLQ_ERROR_ARGUMENT, "output '%s' of model %s has no loss", clq_model_output_name(model, i),
                            model->name);
    return CLQ_OK;
}

static clq_status set_class_weights(clq_trainer *trainer, const clq_trainer_config *config) {
    const clq_model *model = trainer->model;
    const size_t count = config->class_weight_count;
    if (!config->class_weights) return CLQ_OK;
    if (model->output_count > 1 || clq_model_output_shape(model, 0).rank > 1)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "class weights need one output with one row of values for each sample, and model %s has "
                        "others: give weights of samples",
                        clq_model_name(model));
    for (size_t i = 0; i < count; i++)
        if (!(config->class_weights[i] >= 0.0 && config->class_weights[i] <= (double)FLT_MAX))
            return clq_fail(CLQ_ERROR_ARGUMENT, "the weight of class %zu is %g: expected a number of at least 0", i,
                            config->class_weights[i]);
    trainer->class_weights = clq_alloc(CLQ_MAX(count, (size_t)1), sizeof *trainer->class_weights);
    if (!trainer->class_weights) return CLQ_ERROR_MEMORY;
    memcpy(trainer->class_weights, config->class_weights, count * sizeof *trainer->class_weights);
    return CLQ_OK;
}

/* How many classes the model's single output distinguishes; 0: any number, as its loss compares values. */
static size_t classes_of(const clq_trainer *trainer) {
    const clq_loss_problem *loss = &trainer->losses[0];
    const size_t values = clq_model_output(trainer->model, 0)->elements;
    if (values > 1 || clq_loss_row_of(loss->kind)->target != CLQ_TARGET_VALUES) return values;
    return clq_loss_row_of(loss->kind)->activation == CLQ_ACTIVATION_SIGMOID ? 2 : 0;
}

static clq_status check_class_weights(const clq_trainer *trainer, size_t count) {
    const size_t classes = classes_of(trainer);
    if (!trainer->class_weights || classes == 0 || count <= classes) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT,
                    "a weight of class %zu is given and model %s has %zu class%s: classes are 0 to %zu", count - 1,
                    clq_model_name(trainer->model), classes, classes == 1 ? "" : "es", classes - 1);
}

clq_status clq_trainer_set_measures(clq_trainer *trainer, const clq_trainer_config *config) {
    const clq_model *model = trainer->model;
    const clq_output_config common = {.loss = config->loss, .weight = 1, .metrics = config->metrics};
    const clq_output_config *of[CLQ_MODEL_OUTPUTS_MAX] = {NULL};
    CLQ_TRY(check_names(model));
    CLQ_TRY(set_class_weights(trainer, config));
    if (config->outputs) CLQ_TRY(assign(model, config, of));
    for (size_t i = 0; i < model->output_count; i++) {
        clq_status status = set_output(trainer, i, of[i] ? of[i] : &common);
        if (status != CLQ_OK && model->output_count > 1)
            return clq_fail_within(status, "output '%s'", clq_model_output_name(model, i));
        CLQ_TRY(status);
    }
    CLQ_TRY(check_class_weights(trainer, config->class_weight_count));
    CLQ_TRY(check_width(trainer));
    return clq_trainer_set_matrices(trainer);
}

/* ---- loss and metrics from totals ---- */

void clq_trainer_tell(const clq_trainer *trainer, const double *totals, size_t samples, double *loss,
                      clq_metric_values *metrics) {
    const uint32_t outputs = trainer->model->output_count;
    double count = samples ? (double)samples : 1.0, sum = 0;
    *metrics = (clq_metric_values){.count = 0};
    for (uint32_t i = 0; i < outputs; i++) {
        const clq_loss_problem *p = &trainer->losses[i];
        const double mean = *totals++ / count;
        sum += (double)p->weight * mean;
        if (outputs > 1) metrics->values[metrics->count++] = mean;
        const double *bins = totals + clq_loss_sums(p) - 1, counting = bins[-1]; /* with a mask: the last sum */
        for (unsigned k = 0; k < p->metric_count; k++) {
            const clq_metric_row *row = clq_metric_row_of(p->metrics[k]);
            const size_t bin_count = clq_metric_bins(p, k);
            const double steps = p->mask_steps > 0 && clq_metric_is_masked(p->metrics[k]) ? counting : count;
            if (!clq_metric_is_matrix(p->metrics[k]))
                metrics->values[metrics->count++] =
                    row->of_bins ? row->of_bins(bins, bin_count) : clq_metric_result(p->metrics[k], totals, steps);
            totals += row->totals;
            bins += bin_count;
        }
        totals = bins;
    }
    for (unsigned i = 0; i < metrics->count; i++) metrics->names[i] = trainer->metric_names[i];
    *loss = sum;
}

double clq_metric_value(const clq_metric_values *metrics, const char *name) {
    const unsigned count = CLQ_MIN(metrics->count, (unsigned)CLQ_METRIC_VALUES_MAX); /* a caller may have made it */
    for (unsigned i = 0; i < count; i++)
        if (strcmp(metrics->names[i], name) == 0) return metrics->values[i];
    return (double)NAN;
}
