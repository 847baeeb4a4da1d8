/* Probes under way. Private to probe.c (devices, one by one), groups.c (several at once) and machine_probe.c
 * (processes). */
#ifndef CLQ_WHY_PROBE_H
#define CLQ_WHY_PROBE_H

#include "why/rig.h"

enum { CLQ_PROBING_LOOKS = 9 };

/* What a step's launches do: operations, bytes read and written (traffic), sums over devices, and the memory that they
 * touch. */
typedef struct clq_probed_work {
    double flops, traffic;
    size_t memory_bytes, gradient_bytes;
    size_t sums[CLQ_RIG_MEETINGS_MAX]; /* bytes of each of the first sums */
    unsigned sum_count;
} clq_probed_work;

typedef struct clq_probing {
    const clq_why_task *task;
    clq_probes *out;
    unsigned alike[CLQ_REPLICAS_MAX];             /* [r]: the first device like device r */
    clq_probed_work work;                         /* on one device */
    clq_probed_work sliced[CLQ_GROUP_PROBES_MAX]; /* of each group's first device, if layers are split */
    clq_rig rig;
} clq_probing;

/* Creates a trainer by `strategy` on `count` devices from `first` on. Of the options that the training has for its
 * strategy, only micro-batches are kept. */
clq_status clq_probing_open(const clq_probing *probing, unsigned first, unsigned count, size_t batch,
                            clq_strategy_kind strategy, clq_trainer **out);
/* Sets the task's data to batches of `batch` samples, as the trainer takes them. */
clq_status clq_probing_set_batch(const clq_probing *probing, const clq_trainer *trainer, size_t batch);
bool clq_probing_path(const clq_trainer *trainer, const char *name); /* whether this path is on */
clq_probed_work clq_probed_work_of(const clq_trainer *trainer);
double clq_probed_step(const clq_device_probe *device, size_t batch); /* seconds, at a batch that was probed */

/* Notes a failure because of DEVICE_MEMORY and turns it into OK. Returns any other status as it is. */
clq_status clq_probing_lacks(clq_probing *probing, clq_status status);

/* Makes the plans of a group's strategies, and notes their fast paths, stages and all-reduces. Trains no step. */
clq_status clq_ask_group(clq_probing *probing, unsigned group);
bool clq_group_has_collectives(const clq_group_probe *group); /* whether any of its rows has collectives */
size_t clq_exchanged_bytes(const clq_probing *probing);       /* of the largest exchange, once all groups were asked */
/* Measures what the group's devices cost one another. Call it after the probes of each device. */
clq_status clq_probe_group(clq_probing *probing, unsigned group);

#endif
