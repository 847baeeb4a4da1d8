/* Which samples each process of a training brings to its batches (clq_trainer_config.shard). With FILE and OFF, each
 * process has its own dataset. From it the process takes as many samples as its replicas need for a full batch, in an
 * order that depends on the seed and its rank. An epoch ends when the first process runs out of samples. All of this
 * follows from the number of samples in each process's dataset, which the processes exchange before each epoch. Private
 * to train. */
#ifndef CLQ_TRAIN_SHARDING_H
#define CLQ_TRAIN_SHARDING_H

#include "train/trainer.h"

struct clq_checkpoint;

/* Errors: UNSUPPORTED (another setting does not allow processes to bring parts). */
clq_status clq_sharding_check(const clq_trainer_config *config);
/* Called by all processes, after the strategy was created. trainer->sharding stays NULL if every process has the whole
 * batch. Errors: ARGUMENT (a process without a share), MEMORY, those of the world. */
clq_status clq_sharding_create(clq_trainer *trainer);
void clq_sharding_destroy(struct clq_sharding *sharding); /* takes NULL */

/* Makes `dataset` give this process's part of each batch. Called by all processes before each epoch, as callbacks may
 * have cut the dataset into other batches, and before the dataset is moved, as its places are counted in parts. No
 * steps may be under way. If epochs have another length than before, rank 0 logs what each leaves out. Errors: ARGUMENT
 * (a process with too few samples for a batch), those of the world. */
clq_status clq_sharding_open(clq_trainer *trainer, clq_dataset *dataset);
/* Called after clq_sharding_open, whatever that returned: waits for steps under way, and cuts the dataset as it was
 * `before`. If the dataset is opened again, it goes on from the place where it was closed, unless somebody has moved it
 * meanwhile. Returns `status`, or, if that is OK, the failure of the steps. */
clq_status clq_sharding_close(clq_trainer *trainer, clq_dataset *dataset, const clq_data_part *before,
                              clq_status status);
/* The place where a fit would go on with the dataset. Returns how many batches its epochs have. */
uint64_t clq_sharding_tell(const clq_trainer *trainer, const clq_dataset *dataset, uint64_t *epoch, uint64_t *index);
/* Tells the strategy how many samples each process brings to the batch that `dataset` gave last. Call clq_sharding_done
 * after the batch was used. */
void clq_sharding_bring(clq_trainer *trainer, const clq_dataset *dataset);
void clq_sharding_done(clq_trainer *trainer);

/* Whether this process evaluates its own dataset, so that each batch goes to this process's replicas alone. */
bool clq_sharding_evaluates_own(const clq_trainer *trainer);
/* Only if clq_sharding_evaluates_own. The first gives how a dataset is cut while it is evaluated. The second tells the
 * strategy that the next batch has `rows` samples, all of this process. */
clq_data_part clq_sharding_part_to_evaluate(const clq_trainer *trainer);
void clq_sharding_bring_own(clq_trainer *trainer, size_t rows);

/* The samples in the datasets of all processes, which checkpoints record. */
size_t clq_sharding_samples(const clq_trainer *trainer, const clq_dataset *dataset);
/* Records the sharding in a checkpoint, and checks whether a training may resume from it. Errors: MEMORY; MISMATCH
 * (another number of processes had files of their own). */
clq_status clq_sharding_put(struct clq_checkpoint *to, const clq_trainer *trainer);
clq_status clq_sharding_check_resumed(const struct clq_checkpoint *from, const char *folder,
                                      const clq_trainer *trainer);

#endif
