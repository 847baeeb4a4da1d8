/* Probes under way. Private to probe.c (devices, one by one) and groups.c (several at once). */
#ifndef CLQ_WHY_PROBE_H
#define CLQ_WHY_PROBE_H

#include "why/rig.h"

enum { CLQ_PROBING_LOOKS = 9 };

/* Operations and bytes of a step's launches, what they add up between devices, and the memory that a step touches. */
typedef struct clq_probed_work {
    double flops, traffic;
    size_t memory_bytes, gradient_bytes;
    size_t sums[CLQ_RIG_MEETINGS_MAX]; /* bytes of the first of them */
    unsigned sum_count;
} clq_probed_work;

typedef struct clq_probing {
    const clq_why_task *task;
    clq_probes *out;
    unsigned alike[CLQ_REPLICAS_MAX];             /* the first device like this one */
    clq_probed_work work;                         /* on one device */
    clq_probed_work sliced[CLQ_GROUP_PROBES_MAX]; /* of a group's first device, where layers are split */
    clq_rig rig;
} clq_probing;

/* A trainer by `strategy` on `count` devices from `first` on, with none of the settings that the training has of its
 * strategy but micro-batches. */
clq_status clq_probing_open(const clq_probing *probing, unsigned first, unsigned count, size_t batch,
                            clq_strategy_kind strategy, clq_trainer **out);
/* The task's data in batches of so many, as the trainer takes them. */
clq_status clq_probing_set_batch(const clq_probing *probing, const clq_trainer *trainer, size_t batch);
bool clq_probing_path(const clq_trainer *trainer, const char *name); /* whether it is on */
clq_probed_work clq_probed_work_of(const clq_trainer *trainer);
double clq_probed_step(const clq_device_probe *device, size_t batch); /* seconds, at a batch that was probed */

/* Notes what does not fit the memory, and makes DEVICE_MEMORY OK; other statuses stay. */
clq_status clq_probing_lacks(clq_probing *probing, clq_status status);

/* Which plans a group's strategies make. No step is made. */
clq_status clq_ask_group(clq_probing *probing, unsigned group);
bool clq_group_has_collectives(const clq_group_probe *group); /* whether a row of it has collectives */
size_t clq_exchanged_bytes(const clq_probing *probing); /* the most, of what was asked for */
/* What the group's devices cost one another. Behind the probes of each of them. */
clq_status clq_probe_group(clq_probing *probing, unsigned group);

#endif
