/* clique/checkpoint.h: checkpoints, from which a training goes on bit for bit.
 *
 * Files. A folder of checkpoints has a folder for each, `step-000000000120`, with `tensors.safetensors` (variables, the
 * optimizer's slots, and the replicas' own values) and `manifest.json`. The manifest is written last and makes the
 * checkpoint complete. It has a hash (XXH3-128) for each tensor and for itself: hashes show damage by disks, transfers
 * and editors, and do not protect against someone who means to deceive. A thread writes a checkpoint while training
 * goes on; files appear by rename, and are synced.
 *
 * Changes. The training that goes on may have another number of replicas or stages, other devices or another strategy,
 * and may start or stop using local steps or synchronized statistics. Values that each replica had for itself are then
 * replaced, with a warning: compression errors by zero, weights between two averages of local steps, and statistics, by
 * their mean.
 *
 * Several processes. All of them call the same functions in the same order. A failure in one ends the world; a
 * checkpoint that rank 0 cannot write is a warning. Before a checkpoint is taken, replicas' own statistics become their
 * mean, as before an evaluation. A training with another number of processes or replicas can go on from it.
 *
 * Thread rules: as for the trainer, one thread at a time. The writer's thread reads the model, which must live until
 * clq_checkpoints_close, or until clq_checkpoints_wait after the last checkpoint. */
#ifndef CLIQUE_CHECKPOINT_H
#define CLIQUE_CHECKPOINT_H

#include <clique/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where checkpoints lie, when they are made, and which are kept. folder is needed; of all others 0 is the default. */
typedef struct clq_checkpoints_config {
    const char *folder; /* made on demand; one training at a time uses it */
    /* clq_fit makes a checkpoint after each update whose number is a multiple of this. 0: at its end only. */
    uint64_t every;
    /* How many checkpoints stay. Older ones are removed once a newer one is complete. 0: 3. */
    uint32_t keep;
    bool resume; /* the folder may have checkpoints, from which clq_checkpoints_restore goes on */
    /* The trainer's world; borrowed until clq_checkpoints_close. All its processes open the checkpoints. Only rank 0
     * uses the folder, and sends to the others what it reads. NULL: one process. */
    clq_world *world;
} clq_checkpoints_config;

/* Opens a folder of checkpoints. The caller closes *out. Errors: ARGUMENT (the folder has checkpoints and resume is
 * false; another training, in this process or another, uses it), WRITE, MEMORY, SYSTEM. */
CLQ_API clq_status clq_checkpoints_open_sized(const clq_checkpoints_config *config, size_t config_bytes,
                                              clq_checkpoints **out);
/* clq_checkpoints_open_sized with the size that the caller's config has. */
static inline clq_status clq_checkpoints_open(const clq_checkpoints_config *config, clq_checkpoints **out) {
    return clq_checkpoints_open_sized(config, sizeof *config, out);
}
CLQ_API void clq_checkpoints_close(clq_checkpoints *checkpoints); /* takes NULL; waits for the writer */

/* Restores the trainer, and the dataset unless NULL, from the newest complete checkpoint. The next clq_fit with these
 * checkpoints continues that checkpoint's epoch.
 *
 * - *step: the update after which the checkpoint was taken. 0: the folder has none, and the trainer is unchanged.
 * - A dataset with another batch size, other samples or another shuffle goes on at the same part of the epoch, with a
 *   warning.
 * - If the loss, the metrics or the class weights changed, the epoch's totals restart, with a warning. If the value
 *   that a callback watches changed, the callback looks for the best anew, with a warning.
 * - A changed seed, compression or sample type is used, with a warning; other changed settings are used without one.
 * - A learning rate that was set by hand stays, with a warning if the optimizer's own rate differs from before. If the
 *   trainer has a schedule, that rate is ignored.
 * - A checkpoint that cannot be taken is skipped, with a warning that says why. Skipped ones that are newer than the
 *   one taken are renamed to `skipped-…`; the `keep` that were written last stay.
 * - If the folder has checkpoints, clq_fit and clq_checkpoints_save are refused with STATE until one is restored: they
 *   belong to another training.
 * - On an error the dataset is unchanged.
 *
 * Errors: if no checkpoint can be taken, the newest one's (FORMAT: truncated or damaged; MISMATCH: another model's, or
 * with another kind of optimizer state); STATE (in the middle of an update; a part of a model; inference only), DEVICE
 * (the trainer has failed; a new one can go on from the folder), and the device errors in <clique/train.h>. */
CLQ_API clq_status clq_checkpoints_restore(clq_checkpoints *checkpoints, clq_trainer *trainer, clq_dataset *dataset,
                                           uint64_t *step);
/* Where the next clq_fit with these checkpoints goes on: *epoch of the fit that was cut, *batch in it, both from 0. An
 * epoch that was finished but not told yet has as many batches as an epoch has. Returns false, and leaves both, if it
 * begins an epoch anew: nothing was restored, or the checkpoint was taken outside of a clq_fit. */
CLQ_API bool clq_checkpoints_continue_at(const clq_checkpoints *checkpoints, uint64_t *epoch, uint64_t *batch);
/* Takes a checkpoint between two updates: waits for an earlier write, copies, and returns; a thread writes the copy.
 * For clq_fit set `checkpoints` in its config instead. A failed write is no error: it is logged as a warning and
 * counted in `failed`. In clq_fit the same holds if memory for the copy runs out. Errors: STATE, MEMORY, DEVICE, and
 * the other device errors in <clique/train.h>. */
CLQ_API clq_status clq_checkpoints_save(clq_checkpoints *checkpoints, clq_trainer *trainer, const clq_dataset *dataset);
/* Waits for the writer; on ranks other than 0 it returns at once. */
CLQ_API void clq_checkpoints_wait(clq_checkpoints *checkpoints);

/* Counts since the checkpoints were opened. All 0 on ranks other than 0. */
typedef struct clq_checkpoint_counts {
    uint64_t written, failed;
    /* Checkpoints that clq_fit did not make, because the one before was still being written. */
    uint64_t skipped;
    uint64_t last_step;   /* the newest complete one's; 0: none */
    uint64_t reserved[4]; /* 0 */
} clq_checkpoint_counts;
CLQ_API clq_checkpoint_counts clq_checkpoints_counts(clq_checkpoints *checkpoints); /* waits for the writer */

/* ---- weights alone, without training ---- */

/* The newest complete checkpoint in a folder to which a training, in this process or another, may be writing. *step 0:
 * there is none, or no folder. Errors: READ, MEMORY. */
CLQ_API clq_status clq_checkpoints_newest(const char *folder, uint64_t *step);
/* Loads a checkpoint's weights and moving statistics into the trainer, as clq_trainer_load does; reads nothing else,
 * and the trainer may be inference-only. If the training had `average`, these are its weights, not their averages. A
 * training removes old checkpoints: one that is gone, or disappears meanwhile, gives an error. Errors leave the trainer
 * unchanged: NOT_FOUND, READ, FORMAT (damaged, or a value that is not finite), MISMATCH (another model's), MEMORY, and
 * those of clq_trainer_load. */
CLQ_API clq_status clq_trainer_load_checkpoint(clq_trainer *trainer, const char *folder, uint64_t step);

#ifdef __cplusplus
}
#endif
#endif
