/* What a trainer measures: its loss over the model's output, and metrics by name, as Keras resolves them. */
#include "train/trainer.h"

#include <math.h>
#include <string.h>

static const char *metric_name(size_t i) { return clq_metric_row_of((clq_metric_kind)i)->name; }

/* Keras's "accuracy" goes by shapes: binary where the output's last axis has one value. */
static clq_status find_metric(const char *name, const clq_loss_row *loss, size_t last, clq_metric_kind *out) {
    bool index = loss->target == CLQ_TARGET_INDEX;
    if (strcmp(name, "accuracy") == 0 || strcmp(name, "acc") == 0) {
        *out = index || last > 1 ? CLQ_METRIC_CATEGORICAL_ACCURACY : CLQ_METRIC_BINARY_ACCURACY;
        return CLQ_OK;
    }
    clq_text known = {0};
    for (size_t i = 0; i < clq_metric_count(); i++) {
        const clq_metric_row *row = clq_metric_row_of((clq_metric_kind)i);
        clq_text_add(&known, " %s", metric_name(i));
        if (strcmp(name, row->name) != 0 && (!row->alias || strcmp(name, row->alias) != 0)) continue;
        clq_free(known.data);
        if (row->values && index)
            return clq_fail(CLQ_ARGUMENT, "metric %s compares values and the targets of %s are class numbers", name,
                            loss->name);
        *out = (clq_metric_kind)i;
        return CLQ_OK;
    }
    clq_status status =
        clq_fail(CLQ_ARGUMENT, "metric '%s' is unknown: there are accuracy%s", name, known.data ? known.data : "");
    clq_free(known.data);
    return status;
}

static clq_status add_metric(clq_trainer *trainer, const char *at, size_t length, size_t last) {
    clq_loss_problem *loss = &trainer->loss;
    char *name = trainer->metric_names[loss->metric_count];
    if (loss->metric_count == CLQ_METRICS_MAX)
        return clq_fail(CLQ_ARGUMENT, "more than %d metrics", (int)CLQ_METRICS_MAX);
    if (length == 0 || length >= CLQ_WORD_MAX)
        return clq_fail(CLQ_ARGUMENT, "metrics '%s': expected NAME,NAME,…, or none", at);
    memcpy(name, at, length);
    name[length] = '\0';
    for (unsigned i = 0; i < loss->metric_count; i++)
        if (strcmp(trainer->metric_names[i], name) == 0)
            return clq_fail(CLQ_ARGUMENT, "metric %s is given twice", name);
    CLQ_TRY(find_metric(name, clq_loss_row_of(loss->kind), last, &loss->metrics[loss->metric_count]));
    loss->metric_count++;
    return CLQ_OK;
}

static clq_status add_metrics(clq_trainer *trainer, const char *names, size_t last) {
    if (names[0] == '\0' || strcmp(names, "none") == 0) return CLQ_OK;
    for (const char *at = names;; at++) {
        size_t length = strcspn(at, ",");
        CLQ_TRY(add_metric(trainer, at, length, last));
        at += length;
        if (!*at) return CLQ_OK;
    }
}

static bool goes_by_rows(const clq_loss_problem *loss) {
    bool any = clq_loss_row_of(loss->kind)->by_row;
    for (unsigned i = 0; i < loss->metric_count; i++) any = any || clq_metric_row_of(loss->metrics[i])->by_row;
    return any;
}

clq_status clq_trainer_set_measures(clq_trainer *trainer, const clq_loss *loss, const char *metrics) {
    const clq_shape shape = clq_model_output_shape(trainer->model, 0);
    size_t last = shape.dims[shape.rank - 1], elements = clq_model_output(trainer->model, 0)->elements;
    CLQ_TRY(clq_loss_check(loss));
    trainer->loss = (clq_loss_problem){.kind = loss->kind,
                                       .from_logits = loss->from_logits,
                                       .label_smoothing = (float)loss->label_smoothing,
                                       .delta = (float)loss->delta,
                                       .weight = 1};
    if (!(clq_loss_row_of(loss->kind)->takes & CLQ_TAKES_FROM_LOGITS)) trainer->loss.from_logits = false;
    if (!(clq_loss_row_of(loss->kind)->takes & CLQ_TAKES_LABEL_SMOOTHING)) trainer->loss.label_smoothing = 0;
    CLQ_TRY(add_metrics(trainer, metrics ? metrics : clq_loss_row_of(loss->kind)->metrics, last));
    bool rows = goes_by_rows(&trainer->loss);
    trainer->loss.classes = rows ? last : elements;
    trainer->loss.rows = rows ? elements / last : 1;
    return CLQ_OK;
}

void clq_trainer_tell(const clq_trainer *trainer, const double *totals, size_t samples, double *loss,
                      clq_metric_values *metrics) {
    double count = samples ? (double)samples : 1.0;
    *metrics = (clq_metric_values){.count = trainer->loss.metric_count};
    *loss = *totals++ / count;
    for (unsigned i = 0; i < trainer->loss.metric_count; i++) {
        metrics->names[i] = trainer->metric_names[i];
        metrics->values[i] = clq_metric_result(trainer->loss.metrics[i], totals, count);
        totals += clq_metric_row_of(trainer->loss.metrics[i])->totals;
    }
}

double clq_metric_value(const clq_metric_values *metrics, const char *name) {
    for (unsigned i = 0; i < metrics->count; i++)
        if (strcmp(metrics->names[i], name) == 0) return metrics->values[i];
    return (double)NAN;
}
