/* clique/checkpoint.h: checkpoints of a training, from which it goes on bit for bit.
 *
 * A folder of checkpoints has a folder for each, `step-000000000120`: `tensors.safetensors` (variables, slots of the
 * optimizer, and what replicas have of their own) and `manifest.json`, which is written last and makes the checkpoint
 * whole. The manifest has a hash (XXH3-128) of each tensor and of itself: they show damage by disks, transfers and
 * editors, and are no protection against someone who means to deceive. A checkpoint is written by a thread while
 * training goes on; files appear by rename, and are synced.
 *
 * Another number of replicas or of stages, other devices or another strategy may go on from a checkpoint, and local
 * steps or synchronized statistics may come or go: then values that replicas had of their own (compression errors,
 * weights between two averages of local steps, statistics) are replaced by zero, or their mean, and a warning says so.
 *
 * In a training over several processes all of them call the same functions in the same order. What fails on one of them
 * ends the world; a checkpoint that rank 0 cannot write is a warning. Before a checkpoint is taken, replicas' own
 * statistics become their mean, as before an evaluation. A training with another number of processes or replicas can go
 * on from it.
 *
 * Thread rules: as the trainer's, one thread at a time. The writer's thread reads the model: it has to live until
 * clq_checkpoints_close, or a clq_checkpoints_wait behind the last checkpoint. */
#ifndef CLIQUE_CHECKPOINT_H
#define CLIQUE_CHECKPOINT_H

#include <clique/train.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct clq_checkpoints_config {
    const char *folder; /* made on demand; one training at a time uses it */
    uint64_t every; /* clq_fit makes a checkpoint behind each update whose number is a multiple; 0: at its end only */
    uint32_t keep;  /* the newest so many stay, older ones are removed once a newer one is whole; 0: 3 */
    bool resume;    /* the folder may have checkpoints, from which clq_checkpoints_restore goes on */
    /* The trainer's world; borrowed until clq_checkpoints_close. All its processes open the checkpoints. Only rank 0 uses
     * the folder; it sends to the others what it reads. NULL: one process. */
    clq_world *world;
} clq_checkpoints_config;

/* Errors: ARGUMENT (the folder has checkpoints and resume is false; a training of this process or another uses it),
 * WRITE, MEMORY, SYSTEM. */
CLQ_API clq_status clq_checkpoints_open_sized(const clq_checkpoints_config *config, size_t config_bytes,
                                              clq_checkpoints **out);
static inline clq_status clq_checkpoints_open(const clq_checkpoints_config *config, clq_checkpoints **out) {
    return clq_checkpoints_open_sized(config, sizeof *config, out);
}
CLQ_API void clq_checkpoints_close(clq_checkpoints *checkpoints); /* takes NULL; waits for the writer */

/* Restores the trainer, and the dataset unless NULL, from the newest whole checkpoint. The next clq_fit with these
 * checkpoints continues that checkpoint's epoch.
 * - *step: the update that the checkpoint was taken behind. 0: the folder has none, and the trainer stays as it was.
 * - A dataset that is cut into other batches, or has other samples or another shuffle, goes on at the same part of the
 *   epoch, with a warning.
 * - If the loss, the metrics or the class weights changed, the epoch's totals restart, with a warning. If the value
 *   that a callback watches changed, the callback looks for the best anew, with a warning.
 * - A changed seed, compression or sample type is used, with a warning; other changed settings are used without one.
 * - A learning rate set by hand is left out where the trainer has a schedule; else it stays, with a warning where the
 *   optimizer's own is another one than before.
 * - Checkpoints that cannot be taken are left out, each with a warning that says why. Those newer than the one taken
 *   are renamed to `skipped-…`, of which the `keep` that were written last stay.
 * - Where the folder has checkpoints, clq_fit and clq_checkpoints_save are refused with STATE until one is restored:
 *   they are of another training.
 * - On an error the dataset stays where it was.
 * Errors: where none can be taken the newest one's (FORMAT: truncated or damaged; MISMATCH: of another model, or with
 * another kind of optimizer state), STATE (in the middle of an update; a part of a model; inference only), DEVICE (that
 * trainer has failed; a new one can go on from the folder), … */
CLQ_API clq_status clq_checkpoints_restore(clq_checkpoints *checkpoints, clq_trainer *trainer, clq_dataset *dataset,
                                           uint64_t *step);
/* Takes a checkpoint between two updates: waits for an earlier write, copies, and returns; a thread writes the copy. In
 * a clq_fit its config asks for checkpoints instead. A failed write is no error: it is logged as a warning and counted
 * in `failed`. In clq_fit the same holds where memory for the copy runs out. Errors: STATE, MEMORY, DEVICE, … */
CLQ_API clq_status clq_checkpoints_save(clq_checkpoints *checkpoints, clq_trainer *trainer, const clq_dataset *dataset);
CLQ_API void clq_checkpoints_wait(clq_checkpoints *checkpoints); /* for the writer; on ranks other than 0 it returns at once */

typedef struct clq_checkpoint_counts {
    uint64_t written, failed;
    uint64_t skipped;   /* that clq_fit did not make, because the one before was still being written */
    uint64_t last_step; /* of the newest that is whole; 0: none */
    uint64_t reserved[4]; /* 0 */
} clq_checkpoint_counts; /* all 0 on other ranks than 0 */
CLQ_API clq_checkpoint_counts clq_checkpoints_counts(clq_checkpoints *checkpoints); /* waits for the writer */

/* ---- weights alone, by who does not train ---- */

/* The newest whole checkpoint in a folder to which a training, of this process or another, may be writing. *step 0:
 * there is none, or no folder. Errors: READ, MEMORY. */
CLQ_API clq_status clq_checkpoints_newest(const char *folder, uint64_t *step);
/* The weights and moving statistics of a checkpoint become the trainer's, as with clq_trainer_load; nothing else of it
 * is looked at, and the trainer may be inference-only. Of a training with `average` these are its weights, not their
 * averages. A training removes old checkpoints: one that is gone, or goes meanwhile, fails. Errors leave the trainer as
 * it was: NOT_FOUND, READ, FORMAT (damaged, or a value that is not finite), MISMATCH (of another model), MEMORY, and
 * those of clq_trainer_load. */
CLQ_API clq_status clq_trainer_load_checkpoint(clq_trainer *trainer, const char *folder, uint64_t step);

#ifdef __cplusplus
}
#endif
#endif
