/* Which samples each process of a training brings to its batches (clq_trainer_config.shard). With FILE and OFF a
 * process has a dataset of its own, and takes from it what its replicas take of a full batch, in an order from the seed
 * and its rank. An epoch has as many batches as the process whose set ends first. All of that follows from how many
 * samples each set has, which processes tell one another at the beginning of each epoch. Private to train. */
#ifndef CLQ_TRAIN_SHARDING_H
#define CLQ_TRAIN_SHARDING_H

#include "train/trainer.h"

struct clq_checkpoint;

/* Errors: UNSUPPORTED: what does not go with parts. */
clq_status clq_sharding_check(const clq_trainer_config *config);
/* Behind the strategy; all processes call it. trainer->sharding stays NULL where every process has the whole batch.
 * Errors: ARGUMENT (a process without a share), MEMORY, those of the world. */
clq_status clq_sharding_create(clq_trainer *trainer);
void clq_sharding_destroy(struct clq_sharding *sharding); /* takes NULL */

/* Makes `dataset` this process's part of each batch: before each epoch, since callbacks may have cut the set into other
 * batches, and before a place in an epoch is looked for, since places are counted in parts. All processes call it;
 * nothing may be under way. Rank 0 says what an epoch leaves out, once for each length of it. Errors: ARGUMENT (a
 * process with too few samples for a batch), those of the world. */
clq_status clq_sharding_open(clq_trainer *trainer, clq_dataset *dataset);
/* Behind it, whatever it returned: the caller has the set as it was cut `before`. One that is opened again goes on
 * where it is now, unless somebody moved it meanwhile. Returns `status`, or why steps under way failed. */
clq_status clq_sharding_close(clq_trainer *trainer, clq_dataset *dataset, const clq_data_part *before,
                              clq_status status);
/* Where a fit would go on with the set, and how many batches its epochs have. */
uint64_t clq_sharding_tell(const clq_trainer *trainer, const clq_dataset *dataset, uint64_t *epoch, uint64_t *index);
/* Tells the strategy what all processes bring to the batch that `dataset` gave last; behind what uses it, _done. */
void clq_sharding_bring(clq_trainer *trainer, const clq_dataset *dataset);
void clq_sharding_done(clq_trainer *trainer);

/* Whether a set that is evaluated is this process's own, of which each batch goes to its replicas alone. */
bool clq_sharding_evaluates_own(const clq_trainer *trainer);
/* What `dataset` gives then; batches of it have so many rows. */
clq_data_part clq_sharding_part_to_evaluate(const clq_trainer *trainer);
void clq_sharding_bring_own(clq_trainer *trainer, size_t rows);

/* Of all processes, as checkpoints tell. */
size_t clq_sharding_samples(const clq_trainer *trainer, const clq_dataset *dataset);
/* What a checkpoint has of it, and whether a training may go on from it. Errors: MEMORY; MISMATCH: each of so many
 * other processes had files of its own. */
clq_status clq_sharding_put(struct clq_checkpoint *to, const clq_trainer *trainer);
clq_status clq_sharding_check_resumed(const struct clq_checkpoint *from, const char *folder,
                                      const clq_trainer *trainer);

#endif
