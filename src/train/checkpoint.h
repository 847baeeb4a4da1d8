/* Checkpoints: the files of one (checkpoint_file.c), what is in it beside tensors (checkpoint_state.c), which there are
 * in a folder (checkpoint_folder.c), the thread that writes them, and going on from one (checkpoints.c). Private to
 * train. */
#ifndef CLQ_TRAIN_CHECKPOINT_H
#define CLQ_TRAIN_CHECKPOINT_H

#include "train/trainer.h"
#include <clique/checkpoint.h>

enum { CLQ_CHECKPOINTS_KEPT = 3 }; /* of a folder, if nobody says how many */

/* All variables as a callback keeps them, in the order of the model; name: of the callback's state. */
typedef struct clq_kept_weights {
    char *name;
    float *values;
} clq_kept_weights;

/* What a checkpoint holds, in memory. Start with {0}, release in any case. */
typedef struct clq_checkpoint {
    const clq_model *model;
    uint64_t step;
    json_t *values; /* texts by name: whoever has something to keep gives it a name of its own, "fit/epoch" */
    clq_snapshot snapshot;
    clq_kept_weights *kept;
    size_t kept_count;
} clq_checkpoint;
void clq_checkpoint_release(clq_checkpoint *checkpoint);
/* A copy of all variables' values. Errors: MEMORY. */
clq_status clq_checkpoint_keep_weights(clq_checkpoint *checkpoint, const char *name, const float *values);
/* Room for all variables' values by this name, for the caller to fill. Errors: MEMORY. */
clq_status clq_checkpoint_add_kept(clq_checkpoint *checkpoint, const char *name, float **values);
/* Room for an entry's values likewise. Errors: MEMORY. */
clq_status clq_checkpoint_add_entry(clq_checkpoint *checkpoint, clq_snapshot_entry entry, float **values);
/* Those that were kept by this name; NULL: none. */
const float *clq_kept_weights_find(const clq_kept_weights *kept, size_t count, const char *name);
void clq_kept_weights_release(clq_kept_weights *kept, size_t count);
/* Numbers keep all their bits. Errors: MEMORY. */
clq_status clq_checkpoint_put_text(clq_checkpoint *checkpoint, const char *name, const char *text);
clq_status clq_checkpoint_put_number(clq_checkpoint *checkpoint, const char *name, double value);
clq_status clq_checkpoint_put_count(clq_checkpoint *checkpoint, const char *name, uint64_t value);
const char *clq_checkpoint_text(const clq_checkpoint *checkpoint, const char *name); /* NULL: there is none */
bool clq_checkpoint_number(const clq_checkpoint *checkpoint, const char *name, double *out);
bool clq_checkpoint_count(const clq_checkpoint *checkpoint, const char *name, uint64_t *out);

/* Into a folder that exists; the manifest comes last. Errors: WRITE, MEMORY. */
clq_status clq_checkpoint_write(const clq_checkpoint *checkpoint, const char *folder);
/* Reads and checks. model, slots: what is wanted. Errors: FORMAT, UNSUPPORTED, MISMATCH (*out has the values then,
 * which may tell more), NOT_FOUND, READ, MEMORY. Release *out in any case. */
clq_status clq_checkpoint_read(const char *folder, const clq_model *model, unsigned slots, clq_checkpoint *out);

/* values: (all variables) in the order of the model. Errors: as of clq_checkpoint_read. */
clq_status clq_checkpoint_read_weights(const char *folder, const clq_model *model, float *values);

/* (checkpoint_share.c) Rank 0's, in memory, becomes that of all processes; *has: whether rank 0 has one. All call it.
 * Errors: MEMORY, and those of the world, which ends. */
clq_status clq_checkpoint_share(clq_world *world, const clq_model *model, clq_checkpoint *checkpoint, bool *has);

/* ---- a folder of checkpoints ---- */

char *clq_checkpoint_folder(const char *folder, uint64_t step); /* of one; clq_free */
/* Whether what has this name in the folder is written by who keeps the checkpoints. */
bool clq_checkpoint_is_name(const char *name);
/* Whether it has a manifest. Errors: MEMORY, READ: it cannot be told, and the checkpoint is not to be removed. */
clq_status clq_checkpoint_look(const char *folder, uint64_t step, bool *whole);
void clq_checkpoint_remove(const char *folder, uint64_t step);
/* Steps of all, whole or not, newest first. Caller frees. Errors: READ, MEMORY. */
clq_status clq_checkpoint_list(const char *folder, uint64_t **out, size_t *count);
/* Renames one: steps behind the one that a training goes on from are of another training from now on. Errors: WRITE,
 * MEMORY. */
clq_status clq_checkpoint_set_aside(const char *folder, uint64_t step);
/* Of those that were set aside, the `keep` that were written last stay. */
void clq_checkpoint_remove_aside(const char *folder, size_t keep);

/* How far a fit is. */
typedef struct clq_fit_place {
    uint64_t epoch, batch, first_step; /* the step at which the fit began */
    uint64_t data_epoch, data_index;   /* where the dataset goes on */
    double totals[CLQ_METRICS_ROW_MAX];
    size_t samples;
    double seconds, input_s;
    const clq_fit_config *config; /* of a fit under way, whose callbacks' states are kept; NULL: of one that goes on */
    json_t *before;               /* these states as clq_checkpoints_note found them; NULL: as they are now */
} clq_fit_place;

/* ---- what one has of its trainer and its fit (checkpoint_state.c) ---- */

/* Of a trainer whose snapshot it has. Errors: MEMORY. */
clq_status clq_checkpoint_put_trainer(clq_checkpoint *to, const clq_trainer *trainer);
/* The trainer goes on from it; `folder`, which it was read from, is for messages. Errors: as of
 * clq_strategy_put_snapshot. */
clq_status clq_checkpoint_apply(clq_checkpoint *from, const char *folder, clq_trainer *trainer);
/* Errors: MISMATCH: of another optimizer, or one whose state means something else. */
clq_status clq_checkpoint_check_optimizer(const clq_checkpoint *from, const clq_trainer *trainer, const char *folder);
/* Errors: MEMORY. */
clq_status clq_checkpoint_put_data(clq_checkpoint *to, const clq_trainer *trainer, const clq_dataset *data);
/* The dataset goes on where the checkpoint has it, or at the same part of the epoch. */
clq_status clq_checkpoint_seek(const clq_checkpoint *from, const char *folder, const clq_trainer *trainer,
                               clq_dataset *data);
clq_status clq_checkpoint_put_place(clq_checkpoint *to, const clq_trainer *trainer,
                                    const clq_fit_place *place); /* Errors: MEMORY */
/* *has: whether it is of a fit; where that fit was. data: the training set as it is cut by now, or NULL. An epoch's
 * totals that are of other losses or metrics are left out, with a warning. Errors: MEMORY. */
clq_status clq_checkpoint_get_place(const clq_checkpoint *from, const char *folder, const clq_trainer *trainer,
                                    const clq_dataset *data, clq_fit_place *place, bool *has);

/* ---- taking them, and going on (checkpoints.c) ---- */

/* What the callbacks of a fit know and may change, before they are told of an epoch: a checkpoint that is taken behind
 * that, of a fit that ends there, goes on with the epoch still to be told. Caller: json_decref. Errors: theirs, MEMORY.
 */
clq_status clq_checkpoints_note(const clq_trainer *trainer, const clq_fit_config *config, json_t **out);
/* Whether one of that step is to be taken now: there is none yet, and the writer is free. waits: for the writer, and
 * one that it could not write is to be taken again; else the checkpoint counts as left out while the writer is busy.
 * The writer decides for all processes. Errors: those of the world. */
clq_status clq_checkpoints_want(clq_checkpoints *checkpoints, uint64_t step, bool waits, bool *out);
/* Takes one that is wanted. place NULL: of no fit, whose dataset is at `data`. */
clq_status clq_checkpoints_take(clq_checkpoints *checkpoints, clq_trainer *trainer, const clq_dataset *data,
                                const clq_fit_place *place);
/* Directly after the failure: memory that cannot be had for a fit's checkpoint is a warning, and counted. Errors: that
 * of the strategy. */
clq_status clq_checkpoints_go_without(clq_checkpoints *checkpoints, const clq_trainer *trainer);
/* Before a training has its first one. Errors: STATE: the folder has some, from which it does not go on;
 * ARGUMENT: they are of other processes than the trainer. */
clq_status clq_checkpoints_check(const clq_checkpoints *checkpoints, const clq_trainer *trainer);
bool clq_checkpoints_are_due(const clq_checkpoints *checkpoints, uint64_t step);
/* Where the fit that a restored checkpoint is of goes on, until one has begun there. False: nowhere. */
bool clq_checkpoints_place(const clq_checkpoints *checkpoints, clq_fit_place *out);
void clq_checkpoints_leave_place(clq_checkpoints *checkpoints);
/* Then, before the fit begins: gives its callbacks the states that the checkpoint has of them, each by its name, and
 * of several of one name in their order. One that it has none of begins anew, with a warning. Errors: what a callback's
 * restore returned. */
clq_status clq_checkpoints_restore_callbacks(const clq_checkpoints *checkpoints, const clq_fit_config *config);

#endif
