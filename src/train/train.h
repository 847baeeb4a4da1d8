/* train: losses, optimizers, metrics, the step, fit, evaluate, predict, weights in files. See <clique/train.h> for what
 * users see; below is what the command line and the importers use besides. */
#ifndef CLQ_TRAIN_INTERNAL_H
#define CLQ_TRAIN_INTERNAL_H

#include "formats/formats.h"
#include "strategy/strategy.h"
#include "train/settings.h"
#include <clique/generate.h>

/* As clq_trainer_create, with its plans' own selections, which it borrows for its life: tests force each. */
clq_status clq_trainer_create_with_selections(const clq_model *model, const clq_devices *devices,
                                              const clq_trainer_config *config, const clq_selections *selections,
                                              clq_trainer **out);
/* The model of a name, with options, for the shape and the classes of the data's training part, or of its test part if
 * that alone is there. Data that cannot be looked at are no failure: these are told of when they are opened. Errors: as
 * of clq_model_builtin_for. (fitted.c) */
clq_status clq_model_for_data(const char *name, const char *data, clq_model **out);
/* Of a text, by the name of the data: windows as long as the model's input. Errors: MISMATCH (it has no two of them),
 * MEMORY. */
clq_status clq_dataset_cut_for(clq_dataset *data, const char *name, const clq_model *model);
/* Bytes in a second that the device of a generator reads and writes, of as many as it reads for a token when the window
 * is full: what limits it. Measured, for some 50 ms. Errors: BUILD, DEVICE_MEMORY, MEMORY, … (generator.c) */
clq_status clq_generator_measure_limit(clq_generator *generator, double *out);
clq_strategy *clq_trainer_strategy(const clq_trainer *trainer);
uint64_t clq_trainer_step(const clq_trainer *trainer); /* updates so far */
/* Whether a training of this machine writes its checkpoints into the folder. (checkpoints.c) */
bool clq_checkpoints_are_written(const char *folder);
/* What moving in step costs: the rate of the replicas' steps together over the sum of their rates where each trains
 * alone, in two runs of `steps` steps, one behind the other. 0 where these are too few to tell. Afterwards the
 * trainer is of no more use but for this: its replicas were trained apart. */
clq_status clq_trainer_compare_apart(clq_trainer *trainer, clq_dataset *data, uint64_t steps, double *share);

/* For help: what options name, beside its tables (options.c, measures.c, schedule_text.c). */
extern const clq_listing clq_listed_optimizers, clq_listed_losses, clq_listed_metrics, clq_listed_schedules,
    clq_listed_strategies;
/* What values it has: "a whole number from 0 to 5", "0 or 1". (words.c) */
void clq_option_range(const clq_option *option, char text[80]);

#endif
