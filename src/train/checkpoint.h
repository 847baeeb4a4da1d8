/* Checkpoints: the files of a checkpoint (checkpoint_file.c), its contents besides tensors (checkpoint_state.c),
 * sending it to other processes (checkpoint_share.c), the checkpoints in a folder (checkpoint_folder.c), the thread
 * that writes them, and resuming from one (checkpoints.c). Private to train. */
#ifndef CLQ_TRAIN_CHECKPOINT_H
#define CLQ_TRAIN_CHECKPOINT_H

#include "train/trainer.h"
#include <clique/checkpoint.h>

enum { CLQ_CHECKPOINTS_KEPT = 3 }; /* in a folder, if the config does not say how many */

/* A copy of all variables that a callback keeps, in the model's order. name: of the callback's state. Owns both
 * members. */
typedef struct clq_kept_weights {
    char *name;
    float *values;
} clq_kept_weights;

/* What a checkpoint holds, in memory. Start with {0}, release in any case. */
typedef struct clq_checkpoint {
    const clq_model *model;
    uint64_t step;
    json_t *values; /* texts by name; who stores a text chooses its name, such as "fit/epoch"; NULL: none yet */
    clq_snapshot snapshot;
    clq_kept_weights *kept;
    size_t kept_count;
} clq_checkpoint;
void clq_checkpoint_release(clq_checkpoint *checkpoint);
/* Adds a copy of all variables' values under this name. Errors: MEMORY. */
clq_status clq_checkpoint_keep_weights(clq_checkpoint *checkpoint, const char *name, const float *values);
/* Adds room for all variables' values under this name, for the caller to fill. Errors: MEMORY. */
clq_status clq_checkpoint_add_kept(clq_checkpoint *checkpoint, const char *name, float **values);
/* Adds a snapshot entry, with room for its values, for the caller to fill. Errors: MEMORY. */
clq_status clq_checkpoint_add_entry(clq_checkpoint *checkpoint, clq_snapshot_entry entry, float **values);
/* The weights that were kept under this name; NULL: none. */
const float *clq_kept_weights_find(const clq_kept_weights *kept, size_t count, const char *name);
void clq_kept_weights_release(clq_kept_weights *kept, size_t count);
/* Set a value by its name. Numbers keep all their bits. Errors: MEMORY. */
clq_status clq_checkpoint_put_text(clq_checkpoint *checkpoint, const char *name, const char *text);
clq_status clq_checkpoint_put_number(clq_checkpoint *checkpoint, const char *name, double value);
clq_status clq_checkpoint_put_count(clq_checkpoint *checkpoint, const char *name, uint64_t value);
const char *clq_checkpoint_text(const clq_checkpoint *checkpoint, const char *name); /* NULL: there is none */
bool clq_checkpoint_number(const clq_checkpoint *checkpoint, const char *name, double *out);
bool clq_checkpoint_count(const clq_checkpoint *checkpoint, const char *name, uint64_t *out);

/* Writes the checkpoint into a folder, which must exist; the manifest is written last. Errors: WRITE, MEMORY. */
clq_status clq_checkpoint_write(const clq_checkpoint *checkpoint, const char *folder);
/* Reads and checks a checkpoint. model, slots: the training's model and number of optimizer slots. Errors: FORMAT,
 * UNSUPPORTED, MISMATCH (*out then has the values, in which the caller may find a clearer reason), NOT_FOUND, READ,
 * MEMORY. Release *out in any case. */
clq_status clq_checkpoint_read(const char *folder, const clq_model *model, unsigned slots, clq_checkpoint *out);

/* Reads the weights alone. values: (all variables), in the model's order. Errors: those of clq_checkpoint_read. */
clq_status clq_checkpoint_read_weights(const char *folder, const clq_model *model, float *values);

/* Sends rank 0's checkpoint to all other processes (checkpoint_share.c). *has: whether rank 0 has one; rank 0 sets it
 * before the call. All processes call this. Errors: MEMORY, and those of the world, which ends. */
clq_status clq_checkpoint_share(clq_world *world, const clq_model *model, clq_checkpoint *checkpoint, bool *has);

/* ---- a folder of checkpoints ---- */

char *clq_checkpoint_folder(const char *folder, uint64_t step); /* a checkpoint's path; the caller calls clq_free */
/* Whether an entry of this name in a folder of checkpoints is ours: a checkpoint, or one that was set aside. */
bool clq_checkpoint_is_name(const char *name);
/* *whole: whether the checkpoint has a manifest, and so is complete. Errors: MEMORY, READ. After an error *whole is not
 * known, and the checkpoint must not be removed. */
clq_status clq_checkpoint_look(const char *folder, uint64_t step, bool *whole);
void clq_checkpoint_remove(const char *folder, uint64_t step);
/* The steps of all checkpoints, complete or not, newest first. The caller frees *out. Errors: READ, MEMORY. */
clq_status clq_checkpoint_list(const char *folder, uint64_t **out, size_t *count);
/* Renames a checkpoint that is newer than the one that a training resumes from: from now on it belongs to another
 * training. Errors: WRITE, MEMORY. */
clq_status clq_checkpoint_set_aside(const char *folder, uint64_t step);
/* Removes checkpoints that were set aside, except the `keep` that were written last. */
void clq_checkpoint_remove_aside(const char *folder, size_t keep);

/* How far a fit has come. */
typedef struct clq_fit_place {
    uint64_t epoch, batch, first_step; /* the step at which the fit began */
    uint64_t data_epoch, data_index;   /* the dataset's place after the last update */
    double totals[CLQ_METRICS_ROW_MAX];
    size_t samples;
    double seconds, input_s;
    const clq_fit_config *config; /* of a fit under way, for its callbacks' states; NULL: read from a checkpoint */
    json_t *before;               /* these states, as clq_checkpoints_note saved them; NULL: as they are now */
} clq_fit_place;

/* ---- what a checkpoint has of its trainer and its fit (checkpoint_state.c) ---- */

/* Adds the trainer's values. The checkpoint must have the trainer's snapshot already. Errors: MEMORY. */
clq_status clq_checkpoint_put_trainer(clq_checkpoint *to, const clq_trainer *trainer);
/* Puts the checkpoint's state into the trainer. folder: where it was read from, for messages. Errors: those of
 * clq_strategy_put_snapshot. */
clq_status clq_checkpoint_apply(clq_checkpoint *from, const char *folder, clq_trainer *trainer);
/* Errors: MISMATCH (the checkpoint is of another optimizer, or its optimizer state has another meaning). */
clq_status clq_checkpoint_check_optimizer(const clq_checkpoint *from, const clq_trainer *trainer, const char *folder);
/* Adds how the dataset is cut and shuffled. Errors: MEMORY. */
clq_status clq_checkpoint_put_data(clq_checkpoint *to, const clq_trainer *trainer, const clq_dataset *data);
/* Moves the dataset to the checkpoint's place, or, if epochs have another number of batches now, to the same part of
 * the epoch. */
clq_status clq_checkpoint_seek(const clq_checkpoint *from, const char *folder, const clq_trainer *trainer,
                               clq_dataset *data);
clq_status clq_checkpoint_put_place(clq_checkpoint *to, const clq_trainer *trainer,
                                    const clq_fit_place *place); /* Errors: MEMORY */
/* Reads where the checkpoint's fit was. *has: whether the checkpoint is of a fit. data: the training set as it is cut
 * now, or NULL. Totals of other losses or metrics are left out, with a warning. Errors: MEMORY. */
clq_status clq_checkpoint_get_place(const clq_checkpoint *from, const char *folder, const clq_trainer *trainer,
                                    const clq_dataset *data, clq_fit_place *place, bool *has);

/* ---- taking them, and going on (checkpoints.c) ---- */

/* Saves the states of a fit's callbacks, and what they may change, before the callbacks are told of an epoch. If the
 * fit ends there, its checkpoint gets these states: the fit that resumes from it tells the callbacks of the epoch
 * again. The caller calls json_decref. Errors: those of the callbacks, MEMORY. */
clq_status clq_checkpoints_note(const clq_trainer *trainer, const clq_fit_config *config, json_t **out);
/* *out: whether a checkpoint of this step is to be taken now: none was taken yet, and the writer is free. waits: wait
 * for the writer, and take a checkpoint again if it was not written. Without `waits`, a checkpoint counts as skipped
 * while the writer is busy. Rank 0 decides for all processes. Errors: those of the world. */
clq_status clq_checkpoints_want(clq_checkpoints *checkpoints, uint64_t step, bool waits, bool *out);
/* Takes a checkpoint that clq_checkpoints_want asked for. place NULL: it is of no fit, and `data` says where the
 * dataset is. */
clq_status clq_checkpoints_take(clq_checkpoints *checkpoints, clq_trainer *trainer, const clq_dataset *data,
                                const clq_fit_place *place);
/* If memory for a fit's checkpoint ran out: logs that as a warning, and counts it. Call it directly after the failure,
 * whose detail it logs. Errors: that of the strategy. */
clq_status clq_checkpoints_go_without(clq_checkpoints *checkpoints, const clq_trainer *trainer);
/* Checks that a training may write into the folder. Errors: STATE (the folder has checkpoints, and the training does
 * not resume from them), ARGUMENT (the checkpoints were opened with another world than the trainer's). */
clq_status clq_checkpoints_check(const clq_checkpoints *checkpoints, const clq_trainer *trainer);
bool clq_checkpoints_are_due(const clq_checkpoints *checkpoints, uint64_t step);
/* Where the next fit goes on: the place of the restored checkpoint's fit, until a fit has begun there. False:
 * nowhere. */
bool clq_checkpoints_place(const clq_checkpoints *checkpoints, clq_fit_place *out);
void clq_checkpoints_leave_place(clq_checkpoints *checkpoints);
/* Called when a fit resumes, before it begins: gives its callbacks their states from the checkpoint, by name, and
 * callbacks of the same name in their order. A callback without a state there begins anew, with a warning. Errors: what
 * a callback's restore or restore_weights returned, MEMORY. */
clq_status clq_checkpoints_restore_callbacks(const clq_checkpoints *checkpoints, const clq_fit_config *config);

#endif
