/* train: losses, optimizers, metrics, the step, fit, evaluate, predict, weights in files. Users see <clique/train.h>;
 * the command line and the importers also use the functions below. */
#ifndef CLQ_TRAIN_INTERNAL_H
#define CLQ_TRAIN_INTERNAL_H

#include "formats/formats.h"
#include "strategy/strategy.h"
#include "train/settings.h"
#include <clique/generate.h>

/* clq_trainer_create with these selections for its plans, by which tests force each choice. The trainer borrows them
 * for its life. */
clq_status clq_trainer_create_with_selections(const clq_model *model, const clq_devices *devices,
                                              const clq_trainer_config *config, const clq_selections *selections,
                                              clq_trainer **out);
/* Makes the model of a name, with options, for the samples' shape and the number of classes in the data's training
 * part. If there is only a test part, it gives the shape alone. If the data cannot be looked at, that is no failure
 * here: it becomes one when they are opened. Errors: those of clq_model_builtin_for. (fitted.c) */
clq_status clq_model_for_data(const char *name, const char *data, clq_model **out);
/* If the data's name says that it is a text: cuts it into windows as long as the model's input. Errors: MISMATCH (the
 * text is too short). */
clq_status clq_dataset_cut_for(clq_dataset *data, const char *name, const clq_model *model);
/* Measures, in some 50 ms, how many bytes per second a generator's device reads and writes, which limits the generator.
 * The measured load has as many bytes as the generator reads for a token when the window is full. Errors: BUILD,
 * DEVICE_MEMORY, MEMORY, … (generator.c) */
clq_status clq_generator_measure_limit(clq_generator *generator, double *out);
clq_strategy *clq_trainer_strategy(const clq_trainer *trainer);
uint64_t clq_trainer_step(const clq_trainer *trainer); /* updates so far */
/* Whether a training on this machine is writing its checkpoints into the folder. (checkpoints.c) */
bool clq_checkpoints_are_written(const char *folder);
/* Measures what training in step costs. *share: the samples per second that the replicas train together, over the sum
 * of what each trains alone; 0: too few steps to tell. Takes two runs of `steps` steps. Afterwards the trainer is of
 * use for this function only, as its replicas' weights have drifted apart. */
clq_status clq_trainer_compare_apart(clq_trainer *trainer, clq_dataset *data, uint64_t steps, double *share);

/* For help: the names and keys that options take (options.c, measures.c, schedule_text.c). */
extern const clq_listing clq_listed_optimizers, clq_listed_losses, clq_listed_metrics, clq_listed_schedules,
    clq_listed_strategies;
/* Writes which values an option takes: "a whole number from 0 to 5", "0 or 1". (words.c) */
void clq_option_range(const clq_option *option, char text[80]);

#endif
