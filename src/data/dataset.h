/* The dataset as its files see it: dataset.c makes it, stages.c sets it, pipeline.c walks it. */
#ifndef CLQ_DATASET_H
#define CLQ_DATASET_H

#include "data/data.h"

typedef struct clq_place {
    uint64_t epoch, index; /* batch within the epoch */
} clq_place;

typedef struct clq_data_ring clq_data_ring; /* pipeline.c */

struct clq_dataset {
    clq_dataset_info info;
    clq_array samples, labels;        /* checked and converted; never written again */
    size_t sample_bytes, label_bytes; /* of one sample */

    size_t buffer; /* of the shuffle; 0: off */
    uint64_t seed;
    size_t batch;
    bool drop_remainder;
    int ahead; /* batches to prefetch, or CLQ_AUTO */

    clq_place next;      /* what clq_dataset_next gives next; index == batches: the end of the epoch */
    clq_data_ring *ring; /* NULL: to be started at `next` */
};

/* Ends the pipeline; the next clq_dataset_next starts it anew from dataset->next. */
void clq_pipeline_stop(clq_dataset *dataset);

#endif
