/* Settings that are more than a number or a name: reading them from texts into a trainer's config, and writing them. */
#include "train/setting_members.h"
#include "train/trainer.h"
#include "train/words.h"
#include <clique/callbacks.h>

#include <string.h>

clq_status clq_parse_setting_optimizer(const char *text, clq_made_config *to) {
    return clq_optimizer_parse(text, &to->config.optimizer);
}

/* Writes the update rule alone: how long an update takes depends on it, and so does whether a checkpoint fits. */
void clq_write_setting_optimizer(const clq_trainer_config *config, clq_text *to) {
    clq_text_add(to, "%s", clq_optimizer_rule(&config->optimizer)->name);
}

clq_status clq_parse_setting_optimizer_of(const char *text, clq_made_config *to) {
    const char *equals = strchr(text, '=');
    const size_t length = equals ? (size_t)(equals - text) : 0, count = to->config.optimizer_count;
    if (length == 0 || length >= sizeof to->optimizer_names[count])
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "optimizer-of '%.80s': expected names of layers or variables, '=', and an optimizer, as "
                        "in 'dense*=sgd:lr=0.1'",
                        text);
    memcpy(to->optimizer_names[count], text, length);
    to->optimizer_names[count][length] = '\0';
    to->optimizers[count] = (clq_optimizer_config){.variables = to->optimizer_names[count]};
    CLQ_TRY(clq_optimizer_parse(equals + 1, &to->optimizers[count].optimizer));
    to->config.optimizers = to->optimizers;
    to->config.optimizer_count = count + 1;
    return CLQ_OK;
}

void clq_write_setting_optimizers(const clq_trainer_config *config, clq_text *to) {
    for (size_t i = 0; i < config->optimizer_count; i++)
        clq_text_add(to, "%s%s=%s", i ? "; " : "", config->optimizers[i].variables,
                     clq_optimizer_rule(&config->optimizers[i].optimizer)->name);
}

clq_status clq_parse_setting_clip(const char *text, clq_made_config *to) {
    return clq_clip_parse(text, &to->config.clip);
}

void clq_write_setting_clip(const clq_trainer_config *config, clq_text *to) {
    static const char *const names[] = {
        [CLQ_CLIP_VALUE] = "value", [CLQ_CLIP_NORM] = "norm", [CLQ_CLIP_GLOBAL_NORM] = "global_norm"};
    if (config->clip.kind != CLQ_CLIP_OFF) clq_text_add(to, "%s=%.9g", names[config->clip.kind], config->clip.limit);
}

clq_status clq_parse_setting_no_decay(const char *text, clq_made_config *to) {
    to->config.no_decay = text;
    return CLQ_OK;
}

void clq_write_setting_no_decay(const clq_trainer_config *config, clq_text *to) {
    if (config->no_decay) clq_text_add(to, "%s", config->no_decay);
}

/* The strategy refuses unknown names when it opens. */
clq_status clq_parse_setting_disable_paths(const char *text, clq_made_config *to) {
    to->config.disabled_paths = text;
    return CLQ_OK;
}

void clq_write_setting_disable_paths(const clq_trainer_config *config, clq_text *to) {
    clq_write_disabled_paths(config->disabled_paths, to);
}

clq_status clq_parse_setting_average(const char *text, clq_made_config *to) {
    if (clq_parse_double(text, 0.0, 1.0, &to->config.average) && to->config.average < 1.0) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "ema '%s': expected a momentum from 0 up to 1, as 0.99", text);
}

void clq_write_setting_average(const clq_trainer_config *config, clq_text *to) {
    if (config->average > 0.0) clq_text_add(to, "%.9g", config->average);
}

clq_status clq_parse_setting_schedule(const char *text, clq_made_config *to) {
    return clq_lr_schedule_parse(text, &to->config.schedule);
}

void clq_write_setting_schedule(const clq_trainer_config *config, clq_text *to) {
    const clq_lr_schedule *schedule = &config->schedule;
    size_t last = CLQ_HYPERPARAMETERS_MAX;
    while (last > 0 && schedule->values[last - 1] == 0.0) last--;
    if (schedule->kind == CLQ_LR_SCHEDULE_CONSTANT && last == 0) return;
    clq_text_add(to, "%s", clq_lr_schedule_row_of(schedule->kind)->name);
    for (size_t i = 0; i < last; i++) clq_text_add(to, " %.9g", schedule->values[i]);
}

static void write_loss(const clq_loss *loss, clq_text *to) {
    clq_text_add(to, "%s", clq_loss_row_of(loss->kind)->name);
    if (loss->from_logits) clq_text_add(to, " from_logits");
    if (loss->label_smoothing > 0.0) clq_text_add(to, " label_smoothing=%.9g", loss->label_smoothing);
    clq_text_add(to, " %.9g %.9g %.9g %d", loss->delta, loss->alpha, loss->gamma, (int)loss->apply_class_balancing);
}

void clq_write_setting_losses(const clq_trainer_config *config, clq_text *to) {
    if (!config->outputs) write_loss(&config->loss, to);
    for (size_t i = 0; config->outputs && i < config->output_count; i++) {
        if (i) clq_text_add(to, "; ");
        write_loss(&config->outputs[i].loss, to);
    }
}

/* Writes the metrics of each output, since the same name may be another metric for another output. */
void clq_write_setting_metrics(const clq_trainer_config *config, clq_text *to) {
    if (!config->outputs && config->metrics) clq_text_add(to, "%s", config->metrics);
    for (size_t i = 0; config->outputs && i < config->output_count; i++)
        clq_text_add(to, "%s%s", i ? "; " : "", config->outputs[i].metrics ? config->outputs[i].metrics : "");
}

clq_status clq_parse_setting_class_weights(const char *text, clq_made_config *to) {
    size_t count;
    CLQ_TRY(clq_class_weights_parse(text, NULL, &count));
    double *weights = clq_alloc(count, sizeof *weights);
    if (!weights) return CLQ_ERROR_MEMORY;
    clq_free(to->class_weights);
    to->config.class_weights = to->class_weights = weights;
    to->config.class_weight_count = count;
    return clq_class_weights_parse(text, weights, &count);
}

/* A step's time depends on whether there are weights, and results depend on all of them. */
void clq_write_setting_class_weights(const clq_trainer_config *config, clq_text *to) {
    const size_t count = config->class_weights ? config->class_weight_count : 0;
    if (count > 0)
        clq_text_add(to, "%zu of hash %016llx", count,
                     (unsigned long long)clq_hash128_of(config->class_weights, count * sizeof(double), 0).low);
}

/* Writes 1 for 0, which means the same. */
void clq_write_setting_accumulate(const clq_trainer_config *config, clq_text *to) {
    clq_text_add(to, "%llu", (unsigned long long)CLQ_MAX(config->strategy_options.accumulate, (uint64_t)1));
}

clq_status clq_parse_setting_staleness(const char *text, clq_made_config *to) {
    uint64_t staleness;
    if (!clq_parse_u64(text, 0, CLQ_STALENESS_MAX, &staleness))
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "staleness '%s': expected a whole number from 0, which is synchronous, to %d", text,
                        (int)CLQ_STALENESS_MAX);
    to->config.strategy_options.staleness = (int32_t)staleness;
    return CLQ_OK;
}

void clq_write_setting_staleness(const clq_trainer_config *config, clq_text *to) {
    clq_text_add(to, "%d", (int)config->strategy_options.staleness);
}

clq_status clq_parse_setting_shares(const char *text, clq_made_config *to) {
    return clq_shares_parse(text, to->shares, &to->config.strategy_options);
}

void clq_write_setting_shares(const clq_trainer_config *config, clq_text *to) {
    const clq_strategy_options *options = &config->strategy_options;
    if (options->shares == CLQ_SHARES_AUTO) clq_text_add(to, "auto");
    for (uint32_t i = 0; options->shares == CLQ_SHARES_WEIGHTS && options->share_weights && i < options->share_count;
         i++)
        clq_text_add(to, "%s%.9g", i ? "," : "", options->share_weights[i]);
}

clq_status clq_parse_setting_compression(const char *text, clq_made_config *to) {
    return clq_compression_parse(text, &to->config.strategy_options.compression);
}

void clq_write_setting_compression(const clq_trainer_config *config, clq_text *to) {
    const clq_compression *c = &config->strategy_options.compression;
    if (c->kind == CLQ_COMPRESSION_F16) clq_text_add(to, "f16");
    if (c->kind == CLQ_COMPRESSION_F16_BETWEEN) clq_text_add(to, "f16:between");
    if (c->kind == CLQ_COMPRESSION_TOP_K) clq_text_add(to, "topk=%.9g", c->fraction);
}

clq_status clq_parse_setting_loss_scale(const char *text, clq_made_config *to) {
    if (clq_parse_double(text, 1.0, CLQ_LOSS_SCALE_MOST, &to->config.loss_scale)) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "loss-scale '%s': expected a number from 1 to 2^126", text);
}

void clq_write_setting_loss_scale(const clq_trainer_config *config, clq_text *to) {
    if (config->loss_scale > 0.0) clq_text_add(to, "%.9g", config->loss_scale);
}

/* Writes what is in effect: a single process always has its whole dataset. */
void clq_write_setting_shard(const clq_trainer_config *config, clq_text *to) {
    clq_text_add(to, "%s", clq_shard_name(clq_world_size(config->world) > 1 ? config->shard : CLQ_SHARD_DATA));
}

/* ---- the learning rate ---- */

/* The optimizer is set already, as its row comes before this one in the table. */
clq_status clq_parse_setting_learning_rate(const char *text, clq_made_config *to) {
    double rate;
    if (!clq_parse_number(text, &rate))
        return clq_fail(CLQ_ERROR_ARGUMENT, "learning-rate '%s': expected a number, as 0.01", text);
    return clq_optimizer_set(&to->config.optimizer, "lr", rate);
}

clq_status clq_change_setting_learning_rate(clq_trainer *trainer, const char *text) {
    double rate;
    if (clq_parse_number(text, &rate)) return clq_trainer_set_learning_rate(trainer, rate);
    return clq_fail(CLQ_ERROR_ARGUMENT, "learning-rate '%s': expected a number, as 0.01", text);
}

/* The learning rate changes no checkpoint and no key, since neither has the optimizer's rates. */
void clq_write_setting_nothing(const clq_trainer_config *config, clq_text *to) {
    (void)config;
    (void)to;
}

/* ---- settings that only a model or a fit uses ---- */

clq_status clq_check_setting_strategy(const char *text) {
    clq_strategy_kind kind;
    clq_strategy_options options = {0};
    return clq_strategy_parse(text, &kind, &options);
}

clq_status clq_check_setting_early_stopping(const char *text) {
    clq_early_stopping config = {.patience = 0};
    return clq_early_stopping_parse(text, &config);
}

clq_status clq_check_setting_reduce_lr(const char *text) {
    clq_reduce_lr config = clq_reduce_lr_default();
    return clq_reduce_lr_parse(text, &config);
}

/* ---- names ---- */

const char *clq_setting_dtype_name(size_t i) { return clq_dtype_name((clq_dtype)i); }
const char *clq_setting_precision_name(size_t i) { return clq_precision_name((clq_precision)i); }
const char *clq_setting_transport_name(size_t i) { return clq_transport_name((clq_transport)i); }

const char *clq_setting_algorithm_name(size_t i) { return clq_algorithm_name((clq_algorithm)i); }
