/* Functions that rows of the table of settings point to (setting_members.c). Private to settings.c. */
#ifndef CLQ_TRAIN_SETTING_MEMBERS_H
#define CLQ_TRAIN_SETTING_MEMBERS_H

#include "train/settings.h"

/* Set a member of the config from a text. Errors: ARGUMENT. */
clq_status clq_parse_setting_optimizer(const char *text, clq_made_config *to);
clq_status clq_parse_setting_optimizer_of(const char *text, clq_made_config *to);
clq_status clq_parse_setting_learning_rate(const char *text, clq_made_config *to);
clq_status clq_parse_setting_class_weights(const char *text, clq_made_config *to);
clq_status clq_parse_setting_staleness(const char *text, clq_made_config *to);
clq_status clq_parse_setting_shares(const char *text, clq_made_config *to);
clq_status clq_parse_setting_clip(const char *text, clq_made_config *to);
clq_status clq_parse_setting_no_decay(const char *text, clq_made_config *to);
clq_status clq_parse_setting_average(const char *text, clq_made_config *to);
clq_status clq_parse_setting_schedule(const char *text, clq_made_config *to);
clq_status clq_parse_setting_compression(const char *text, clq_made_config *to);
clq_status clq_parse_setting_loss_scale(const char *text, clq_made_config *to);
clq_status clq_parse_setting_disable_paths(const char *text, clq_made_config *to);

/* Check a value, as far as that is possible without a model. Errors: ARGUMENT. */
clq_status clq_check_setting_strategy(const char *text);
clq_status clq_check_setting_loss(const char *text); /* this and the next two: setting_outputs.c */
clq_status clq_check_setting_loss_weight(const char *text);
clq_status clq_check_setting_metrics(const char *text);
clq_status clq_check_setting_early_stopping(const char *text);
clq_status clq_check_setting_reduce_lr(const char *text);

/* Changes a trainer that already exists. */
clq_status clq_change_setting_learning_rate(clq_trainer *trainer, const char *text);

/* Write a member as a text, which is the same for values with the same meaning. If the setting is off, write
 * nothing. */
void clq_write_setting_optimizer(const clq_trainer_config *config, clq_text *to);
void clq_write_setting_nothing(const clq_trainer_config *config, clq_text *to);
void clq_write_setting_optimizers(const clq_trainer_config *config, clq_text *to);
void clq_write_setting_clip(const clq_trainer_config *config, clq_text *to);
void clq_write_setting_no_decay(const clq_trainer_config *config, clq_text *to);
void clq_write_setting_average(const clq_trainer_config *config, clq_text *to);
void clq_write_setting_schedule(const clq_trainer_config *config, clq_text *to);
void clq_write_setting_losses(const clq_trainer_config *config, clq_text *to);
void clq_write_setting_metrics(const clq_trainer_config *config, clq_text *to);
void clq_write_setting_class_weights(const clq_trainer_config *config, clq_text *to);
void clq_write_setting_accumulate(const clq_trainer_config *config, clq_text *to);
void clq_write_setting_staleness(const clq_trainer_config *config, clq_text *to);
void clq_write_setting_shares(const clq_trainer_config *config, clq_text *to);
void clq_write_setting_shard(const clq_trainer_config *config, clq_text *to);
void clq_write_setting_compression(const clq_trainer_config *config, clq_text *to);
void clq_write_setting_loss_scale(const clq_trainer_config *config, clq_text *to);
void clq_write_setting_disable_paths(const clq_trainer_config *config, clq_text *to);

/* Names of enumerations. */
const char *clq_setting_dtype_name(size_t i);
const char *clq_setting_precision_name(size_t i);
const char *clq_setting_transport_name(size_t i);
const char *clq_setting_algorithm_name(size_t i);

#endif
