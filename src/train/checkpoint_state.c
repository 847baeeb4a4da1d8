/* What a checkpoint has of its trainer and its fit besides tensors: how it is saved, and how it is restored. */
#include "train/checkpoint.h"
#include "train/sharding.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the trainer ---- */

/* "mirrored with local steps on pocl:0, pocl:1": everything that decides which values each replica has of its own.
 * Replicas take such values back only if this text is the same. The caller frees it; NULL: no memory. */
static char *describe_replicas(const clq_trainer *trainer) {
    clq_text text = {0};
    clq_strategy_kind kind;
    clq_strategy_options options;
    clq_pipeline_info pipelines;
    clq_stage_info stage;
    bool synchronized = false;
    clq_strategy_settings(trainer->strategy, &kind, &options);
    for (uint32_t v = 0; v < trainer->model->variable_count; v++)
        synchronized = synchronized || trainer->model->variables[v].synchronized;
    clq_text_add(&text, "%s", clq_strategy_own_name(trainer->strategy));
    if (clq_strategy_pipelines(trainer->strategy, &pipelines)) clq_text_add(&text, " of %u stages", pipelines.stages);
    for (size_t s = 1; clq_strategy_stage(trainer->strategy, s, &stage); s++)
        clq_text_add(&text, "%s%u", s > 1 ? ", " : " cut in front of tensors ", (unsigned)stage.stage->before.at);
    if (options.local_steps > 0) clq_text_add(&text, " with local steps");
    if (synchronized) clq_text_add(&text, " with synchronized statistics");
    const clq_everyone all = clq_strategy_everyone(trainer->strategy);
    if (all.processes > 1)
        clq_text_add(&text, " on %u replicas of %u processes, of devices %016" PRIx64, all.replicas, all.processes,
                     all.devices);
    for (unsigned r = 0; r < clq_trainer_replicas(trainer) && all.processes == 1; r++) {
        const char *label = clq_device_label(clq_strategy_device(trainer->strategy, r));
        const char *end = strstr(label, " ("); /* as in "pocl:0 part 1 of 2 (its name)" */
        clq_text_add(&text, "%s%.*s", r ? ", " : " on ", (int)(end ? (size_t)(end - label) : strlen(label)), label);
    }
    if (!text.failed) return text.data;
    clq_free(text.data);
    return NULL;
}

static clq_status put_counts(clq_checkpoint *to, const clq_trainer *trainer) {
    const clq_snapshot *s = &to->snapshot;
    char name[48];
    CLQ_TRY(clq_checkpoint_put_count(to, "strategy/computed", s->computed));
    CLQ_TRY(clq_checkpoint_put_count(to, "strategy/state_apart", s->state_apart));
    CLQ_TRY(clq_checkpoint_put_count(to, "strategy/local_steps", s->local_steps));
    if (s->scales)
        CLQ_TRY(
            clq_checkpoint_put_number(to, "loss_scale/initial", (double)clq_mixed_scaling(&trainer->config).initial));
    for (unsigned i = 0; i < CLQ_SCALING_INTS && s->scales; i++) { /* as unsigned numbers */
        snprintf(name, sizeof name, "loss_scale/%u", i);
        CLQ_TRY(clq_checkpoint_put_count(to, name, (uint32_t)s->scaling[i]));
    }
    for (unsigned r = 0; r < s->replicas; r++) {
        snprintf(name, sizeof name, "strategy/local_samples/%u", r);
        CLQ_TRY(clq_checkpoint_put_count(to, name, s->local_samples[r]));
        snprintf(name, sizeof name, "strategy/shares/%u", r);
        CLQ_TRY(clq_checkpoint_put_count(to, name, s->shares[r]));
    }
    return CLQ_OK;
}

/* What the optimizers' slots mean: "amsgrad", "adam, momentum and averages". */
enum { SLOTS_TEXT = 160 };
static void describe_slots(const clq_trainer *trainer, char text[SLOTS_TEXT]) {
    size_t length = (size_t)snprintf(text, SLOTS_TEXT, "%s", clq_optimizer_rule(&trainer->config.optimizer)->name);
    for (unsigned i = 0; i < trainer->other_count; i++)
        length +=
            (size_t)snprintf(text + length, SLOTS_TEXT - length, ", %s", clq_optimizer_rule(&trainer->others[i])->name);
    snprintf(text + length, SLOTS_TEXT - length, "%s", trainer->config.average > 0.0 ? " and averages" : "");
}

clq_status clq_checkpoint_put_trainer(clq_checkpoint *to, const clq_trainer *trainer) {
    char slots[SLOTS_TEXT];
    describe_slots(trainer, slots);
    char *replicas = describe_replicas(trainer);
    const clq_status status = replicas ? clq_checkpoint_put_text(to, "strategy", replicas) : CLQ_ERROR_MEMORY;
    clq_free(replicas);
    CLQ_TRY(status);
    CLQ_TRY(put_counts(to, trainer));
    CLQ_TRY(clq_checkpoint_put_text(to, "optimizer/slots", slots));
    if (json_object_update(to->values, trainer->settings) != 0) return clq_fail_memory("making a checkpoint");
    CLQ_TRY(clq_checkpoint_put_number(to, "optimizer/rate", trainer->main_rate));
    CLQ_TRY(clq_checkpoint_put_text(to, "optimizer", trainer->optimizer_text));
    return clq_checkpoint_put_number(to, "last_rate", trainer->last_rate);
}

static clq_status get_counts(clq_checkpoint *from) {
    clq_snapshot *s = &from->snapshot;
    CLQ_TRY(clq_snapshot_open_counts(s));
    uint64_t value = 0;
    char name[48];
    (void)clq_checkpoint_count(from, "strategy/computed", &s->computed);
    if (clq_checkpoint_count(from, "strategy/state_apart", &value)) s->state_apart = value != 0;
    (void)clq_checkpoint_count(from, "strategy/local_steps", &s->local_steps);
    for (unsigned i = 0; i < CLQ_SCALING_INTS; i++) {
        snprintf(name, sizeof name, "loss_scale/%u", i);
        s->scales = clq_checkpoint_count(from, name, &value);
        if (s->scales) s->scaling[i] = (int32_t)(uint32_t)value;
    }
    for (unsigned r = 0; r < s->replicas; r++) {
        snprintf(name, sizeof name, "strategy/local_samples/%u", r);
        (void)clq_checkpoint_count(from, name, &s->local_samples[r]);
        snprintf(name, sizeof name, "strategy/shares/%u", r);
        if (clq_checkpoint_count(from, name, &value)) s->shares[r] = (size_t)value;
    }
    return CLQ_OK;
}

clq_status clq_checkpoint_check_optimizer(const clq_checkpoint *from, const clq_trainer *trainer, const char *folder) {
    const char *wanted = trainer->optimizer_text;
    const char *optimizer = clq_checkpoint_text(from, "optimizer");
    const char *slots = clq_checkpoint_text(from, "optimizer/slots");
    char own[SLOTS_TEXT];
    describe_slots(trainer, own);
    if (!optimizer || strcmp(optimizer, wanted) != 0)
        return clq_fail(CLQ_ERROR_MISMATCH, "%s: it is of optimizer %s, and the training has %s", folder,
                        optimizer ? optimizer : "unknown", wanted);
    if (slots && strcmp(slots, own) != 0)
        return clq_fail(CLQ_ERROR_MISMATCH, "%s: the state of its optimizer is that of %s, and the training's of %s",
                        folder, slots, own);
    return CLQ_OK;
}

/* The saved exponent counts from the initial scale of its time. If the initial scale is another one now, the exponent
 * is changed, so that the loss scale stays as near as powers of two allow. */
static void keep_scale(clq_checkpoint *from, const clq_trainer *trainer) {
    int32_t *exponent = &from->snapshot.scaling[CLQ_SCALING_EXPONENT];
    const double now = (double)clq_mixed_scaling(&trainer->config).initial;
    double before;
    if (!from->snapshot.scales || now == 0.0 || !clq_checkpoint_number(from, "loss_scale/initial", &before) ||
        before == now)
        return;
    const double scale = fmin(fmax(ldexp(before, *exponent), 1.0), CLQ_LOSS_SCALE_MOST);
    *exponent = (int32_t)lround(log2(scale / now));
    if (ldexp(now, *exponent) < 1.0) ++*exponent;
    if (ldexp(now, *exponent) > CLQ_LOSS_SCALE_MOST) --*exponent;
}

static bool has_own_values(const clq_snapshot *s) {
    for (size_t i = 0; i < s->count; i++)
        if (s->entries[i].replica >= 0) return true;
    return false;
}

/* Restores a learning rate that was set by hand, unless the trainer has a schedule now. */
static clq_status set_rate(const clq_checkpoint *from, const char *folder, clq_trainer *trainer) {
    double rate, configured = trainer->main_rate;
    if (!clq_checkpoint_number(from, "learning_rate", &rate)) return CLQ_OK;
    (void)clq_checkpoint_number(from, "optimizer/rate", &configured);
    if (configured != trainer->main_rate && !clq_trainer_has_schedule(trainer))
        clq_log(CLQ_LOG_WARNING,
                "%s: its learning rate, %g, was set in the course of the training and stays: that of the optimizer, "
                "%g, is left out",
                folder, rate, trainer->main_rate);
    if (!clq_trainer_has_schedule(trainer)) return clq_trainer_set_learning_rate(trainer, rate);
    clq_log(CLQ_LOG_WARNING, "%s: its learning rate, %g, was set by hand and is left out: the training has a schedule",
            folder, rate);
    return CLQ_OK;
}

/* *own: whether each replica takes its own values back. Only the same replicas can do that. */
static clq_status compare_replicas(const clq_checkpoint *from, const clq_trainer *trainer, const char *folder,
                                   bool *own) {
    const char *before = clq_checkpoint_text(from, "strategy");
    char *now = describe_replicas(trainer);
    if (!now) return CLQ_ERROR_MEMORY;
    *own = before && strcmp(before, now) == 0 &&
           from->snapshot.replicas == clq_strategy_everyone(trainer->strategy).replicas;
    if (!*own && has_own_values(&from->snapshot))
        clq_log(CLQ_LOG_WARNING,
                "%s: its replicas are %s, and the training's are %s: values that each replica had of its own are "
                "replaced by their mean, and compression errors by zero",
                folder, before ? before : "unknown", now);
    clq_free(now);
    return CLQ_OK;
}

clq_status clq_checkpoint_apply(clq_checkpoint *from, const char *folder, clq_trainer *trainer) {
    bool own;
    CLQ_TRY(get_counts(from));
    keep_scale(from, trainer);
    CLQ_TRY(compare_replicas(from, trainer, folder, &own));
    CLQ_TRY(clq_strategy_put_snapshot(trainer->strategy, &from->snapshot, own, from->step));
    trainer->step = from->step;
    trainer->last_count = trainer->last_rows = 0;
    (void)clq_checkpoint_number(from, "last_rate", &trainer->last_rate);
    return set_rate(from, folder, trainer);
}

/* ---- the dataset and the fit ---- */

/* The batch; or, if epochs had another number of batches before, the batch at the same part of an epoch. */
static uint64_t among(uint64_t batch, uint64_t before, uint64_t now) {
    if (before == 0 || before == now) return batch;
    return (uint64_t)(fmin((double)batch / (double)before, 1.0) * (double)now + 0.5);
}

/* "60000 samples in batches of 64, shuffled among 60000": all that the order of an epoch depends on, except its
 * seed. */
enum { ORDER_TEXT = 120 };
static void describe_order(const clq_trainer *trainer, const clq_dataset *data, char text[ORDER_TEXT]) {
    size_t batch, buffer, samples;
    clq_dataset_stages(data, &batch, &buffer);
    samples = clq_sharding_samples(trainer, data);
    (void)snprintf(text, ORDER_TEXT, "%zu samples in batches of %zu, shuffled among %zu", samples, batch,
                   buffer == SIZE_MAX ? samples : buffer);
}

clq_status clq_checkpoint_put_data(clq_checkpoint *to, const clq_trainer *trainer, const clq_dataset *data) {
    char order[ORDER_TEXT];
    uint64_t epoch, index;
    describe_order(trainer, data, order);
    CLQ_TRY(clq_sharding_put(to, trainer));
    CLQ_TRY(clq_checkpoint_put_count(to, "data/batches", clq_sharding_tell(trainer, data, &epoch, &index)));
    return clq_checkpoint_put_text(to, "data/order", order);
}

clq_status clq_checkpoint_seek(const clq_checkpoint *from, const char *folder, const clq_trainer *trainer,
                               clq_dataset *data) {
    const uint64_t now = clq_dataset_batches(data);
    uint64_t epoch, index, before = now;
    if (!clq_checkpoint_count(from, "data/epoch", &epoch) || !clq_checkpoint_count(from, "data/index", &index))
        return CLQ_OK;
    char order[ORDER_TEXT];
    const char *order_before = clq_checkpoint_text(from, "data/order");
    (void)clq_checkpoint_count(from, "data/batches", &before);
    describe_order(trainer, data, order);
    if (before == now && order_before && strcmp(order_before, order) != 0)
        clq_log(CLQ_LOG_WARNING,
                "%s: its data were %s, and now are %s: the training goes on at the same part of the epoch, and samples "
                "may be left out of it or come twice",
                folder, order_before, order);
    if (before != now)
        clq_log(CLQ_LOG_WARNING,
                "%s: its epochs had %" PRIu64 " batches, and now have %" PRIu64
                ": the training goes on at the same part of the epoch",
                folder, before, now);
    const clq_status status = clq_dataset_seek(data, epoch, among(index, before, now));
    return status == CLQ_OK ? CLQ_OK : clq_fail_within(status, "%s: the data were cut into other batches", folder);
}

bool clq_trainer_labels_are_samples(const clq_trainer *trainer, const clq_dataset *validation) {
    return validation ? clq_dataset_get_info(validation)->labels_are_samples : trainer->labels_are_samples;
}

/* In a validation, class weights do not count, and sample weights count if the validation set has them. */
void clq_trainer_describe_losses(const clq_trainer *trainer, const clq_dataset *validation, clq_text *text) {
    const char *weights = json_string_value(json_object_get(trainer->settings, "settings/class-weights"));
    for (uint32_t i = 0; i < trainer->model->output_count; i++) {
        const clq_loss_problem *p = &trainer->losses[i];
        clq_text_add(text, "%s%s: %s %d %g %g %g %g %d %d", i ? "; " : "", clq_model_output_name(trainer->model, i),
                     clq_loss_row_of(p->kind)->name, p->from_logits, (double)p->label_smoothing, (double)p->delta,
                     (double)p->alpha, (double)p->gamma, p->balanced,
                     validation ? clq_dataset_get_info(validation)->weighted : p->weighted);
        if (p->weight != 1.0f) clq_text_add(text, " times %.9g", (double)p->weight);
    }
    if (!validation && weights && *weights) clq_text_add(text, ", class weights %s", weights);
    if (clq_trainer_labels_are_samples(trainer, validation)) clq_text_add(text, ", of the samples");
}

/* "out: sparse_categorical_crossentropy 0 0 1 0.25 2 0 0, categorical_accuracy 0": what an epoch's totals are sums of,
 * with all numbers that the losses and metrics take. The caller frees it; NULL: no memory. */
static char *describe_measures(const clq_trainer *trainer) {
    clq_text text = {0};
    clq_trainer_describe_losses(trainer, NULL, &text);
    for (uint32_t i = 0; i < trainer->model->output_count; i++) {
        const clq_loss_problem *p = &trainer->losses[i];
        for (unsigned k = 0; k < p->metric_count; k++)
            clq_text_add(&text, ", %s %g", clq_metric_row_of(p->metrics[k])->name, (double)p->metric_values[k]);
    }
    if (!text.failed) return text.data;
    clq_free(text.data);
    return NULL;
}

static clq_status put_totals(clq_checkpoint *to, const clq_trainer *trainer, const clq_fit_place *place) {
    char name[48], *measures = describe_measures(trainer);
    const clq_status status = measures ? clq_checkpoint_put_text(to, "fit/measures", measures) : CLQ_ERROR_MEMORY;
    clq_free(measures);
    CLQ_TRY(status);
    CLQ_TRY(clq_checkpoint_put_count(to, "fit/samples", place->samples));
    CLQ_TRY(clq_checkpoint_put_number(to, "fit/seconds", place->seconds));
    CLQ_TRY(clq_checkpoint_put_number(to, "fit/input_s", place->input_s));
    for (unsigned k = 0; k < CLQ_METRICS_ROW_MAX; k++) {
        snprintf(name, sizeof name, "fit/totals/%u", k);
        if (place->totals[k] != 0.0) CLQ_TRY(clq_checkpoint_put_number(to, name, place->totals[k]));
    }
    return CLQ_OK;
}

/* If the checkpoint's totals are of other losses or metrics, they are of no use, and the epoch's totals begin anew. */
static clq_status get_totals(const clq_checkpoint *from, const clq_trainer *trainer, const char *folder,
                             clq_fit_place *place) {
    const char *before = clq_checkpoint_text(from, "fit/measures");
    char name[48], *now = describe_measures(trainer);
    uint64_t samples = 0;
    if (!now) return CLQ_ERROR_MEMORY;
    const bool same = before && strcmp(before, now) == 0;
    clq_free(now);
    if (!clq_checkpoint_count(from, "fit/samples", &samples) || samples == 0) return CLQ_OK;
    if (!same) {
        clq_log(CLQ_LOG_WARNING,
                "%s: its loss or metrics are others than the training's: those of this epoch are of its batches from "
                "here on",
                folder);
        return CLQ_OK;
    }
    place->samples = (size_t)samples;
    (void)clq_checkpoint_number(from, "fit/seconds", &place->seconds);
    (void)clq_checkpoint_number(from, "fit/input_s", &place->input_s);
    for (unsigned k = 0; k < CLQ_METRICS_ROW_MAX; k++) {
        snprintf(name, sizeof name, "fit/totals/%u", k);
        (void)clq_checkpoint_number(from, name, &place->totals[k]);
    }
    return CLQ_OK;
}

clq_status clq_checkpoint_put_place(clq_checkpoint *to, const clq_trainer *trainer, const clq_fit_place *place) {
    CLQ_TRY(clq_checkpoint_put_count(to, "fit/epoch", place->epoch));
    CLQ_TRY(clq_checkpoint_put_count(to, "fit/batch", place->batch));
    CLQ_TRY(clq_checkpoint_put_count(to, "fit/first_step", place->first_step));
    return put_totals(to, trainer, place);
}

clq_status clq_checkpoint_get_place(const clq_checkpoint *from, const char *folder, const clq_trainer *trainer,
                                    const clq_dataset *data, clq_fit_place *place, bool *has) {
    uint64_t batches = 0;
    *place = (clq_fit_place){0};
    *has = clq_checkpoint_count(from, "fit/epoch", &place->epoch) &&
           clq_checkpoint_count(from, "fit/batch", &place->batch) &&
           clq_checkpoint_count(from, "fit/first_step", &place->first_step) && place->first_step <= from->step;
    if (data && clq_checkpoint_count(from, "data/batches", &batches))
        place->batch = among(place->batch, batches, clq_dataset_batches(data));
    return *has ? get_totals(from, trainer, folder, place) : CLQ_OK;
}
