/* The dataset as its files see it: open.c, synthetic.c and text.c find its arrays, dataset.c makes it, stages.c sets
 * it, rows.c and pipeline.c walk it. */
#ifndef CLQ_DATASET_H
#define CLQ_DATASET_H

#include "data/data.h"

typedef struct clq_place {
    uint64_t epoch, index; /* batch within the epoch */
} clq_place;

typedef struct clq_data_ring clq_data_ring; /* pipeline.c */

/* The order of an epoch, drawn as far as it was asked for (rows.c). */
typedef struct clq_order {
    size_t *places;                   /* (samples); NULL where there is no shuffle */
    const char *values[CLQ_FEED_MAX]; /* of each array the first row of the epoch */
    uint64_t epoch;
    size_t drawn;
    clq_random random;
    bool begun;
} clq_order;

struct clq_dataset {
    clq_dataset_info info;
    /* Samples first; labels for outputs, and weights, in the order in which they came. */
    clq_feed feed;
    clq_array arrays[CLQ_FEED_MAX];   /* checked and converted; never written again */
    const char *values[CLQ_FEED_MAX]; /* where their values lie */
    size_t whole;                     /* samples of the whole set */
    size_t window;                    /* of a text: tokens of a sample; 0: it is none */
    size_t least_byte;                /* of a text: where its smallest label lies first */

    size_t most;   /* samples that are taken of the whole; 0: all */
    size_t buffer; /* of the shuffle; 0: off */
    uint64_t seed;
    size_t batch;
    bool drop_remainder;
    clq_data_part part;
    int ahead; /* batches to prefetch, or CLQ_PREFETCH_AUTO */

    clq_place next;      /* what clq_dataset_next gives next; index == batches: the end of the epoch */
    clq_data_ring *ring; /* NULL: to be started at `next` */
    clq_order orders[2]; /* of clq_dataset_next_rows: of even and odd epochs */
};

/* "train" or "test"; anything else is ARGUMENT. */
clq_status clq_part_parse(const char *part, bool *test);
/* From the first of `count` folders that exists. NOT_FOUND says how to install it. */
clq_status clq_source_fashion_mnist(const char *const *folders, size_t count, const char *part, clq_dataset **out);
/* description: "" or "28x28/10/60000", as far as wanted: shape, classes, training samples. */
clq_status clq_source_synthetic(const char *description, const char *part, clq_dataset **out);
clq_status clq_source_synthetic_look(const char *description, clq_dataset_sight *out);

/* The file of a name of which clq_dataset_is_text holds. */
const char *clq_dataset_text_file(const char *name);
clq_status clq_source_of_text_look(clq_dataset_sight *out);
/* As clq_dataset_sight.classes. */
clq_status clq_labels_look(const clq_array *labels, size_t *classes);
/* From a file of text. */
clq_status clq_source_of_text(const char *path, const char *part, clq_dataset **out);
/* How many windows of a text an epoch has. */
size_t clq_windows(const clq_dataset *dataset);

/* Behind a stage: starts over at the first batch of epoch 0, and counts the samples. */
void clq_dataset_start_over(clq_dataset *dataset);
void clq_dataset_count(clq_dataset *dataset);

clq_status clq_order_allocate(clq_order *order, const clq_dataset *dataset); /* once */
void clq_orders_free(clq_dataset *dataset);
/* Samples of a full batch that the set gives. */
size_t clq_dataset_rows(const clq_dataset *dataset);
/* The rows of the batch at `place`, in the order that is drawn as far as that. */
clq_rows clq_rows_at(const clq_dataset *dataset, clq_order *order, clq_place place);

/* Ends the pipeline; the next clq_dataset_next starts it anew from dataset->next. */
void clq_pipeline_stop(clq_dataset *dataset);

#endif
