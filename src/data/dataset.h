/* The dataset as the files of this folder see it: open.c, synthetic.c and text.c find its arrays, dataset.c makes it,
 * stages.c sets its stages, rows.c and pipeline.c walk it. */
#ifndef CLQ_DATASET_H
#define CLQ_DATASET_H

#include "data/data.h"

typedef struct clq_place {
    uint64_t epoch, index; /* batch within the epoch */
} clq_place;

typedef struct clq_data_ring clq_data_ring; /* pipeline.c */

/* The order of an epoch, drawn only as far as it was needed (rows.c). */
typedef struct clq_order {
    size_t *places;                   /* (samples); NULL if there is no shuffle */
    const char *values[CLQ_FEED_MAX]; /* each array's first row in the epoch */
    uint64_t epoch;
    size_t drawn;
    clq_random random;
    bool begun;
} clq_order;

struct clq_dataset {
    clq_dataset_info info;
    /* Samples first, then labels for outputs, and weights, in the order in which they were added. */
    clq_feed feed;
    clq_array arrays[CLQ_FEED_MAX];   /* checked and converted; never written again */
    const char *values[CLQ_FEED_MAX]; /* where their values lie */
    size_t whole;                     /* samples of the complete set */
    size_t window;                    /* in a text: tokens of a sample; 0: the set is no text */
    size_t least_byte;                /* in a text: the first byte that has the smallest label */

    size_t most;   /* the most samples that are taken of the complete set; 0: all */
    size_t buffer; /* of the shuffle; 0: off */
    uint64_t seed;
    size_t batch;
    bool drop_remainder;
    clq_data_part part;
    int ahead; /* batches to prefetch, or CLQ_PREFETCH_AUTO */

    clq_place next;      /* what clq_dataset_next gives next; index == batches: the end of the epoch */
    clq_data_ring *ring; /* NULL: not running; it starts at `next` */
    clq_order orders[2]; /* for clq_dataset_next_rows: of even and odd epochs */
};

/* "train" or "test"; anything else is ARGUMENT. */
clq_status clq_part_parse(const char *part, bool *test);
/* Reads the first of `count` folders that exists. NOT_FOUND if none does, with how to install the data. */
clq_status clq_source_fashion_mnist(const char *const *folders, size_t count, const char *part, clq_dataset **out);
/* description: shape, classes, training samples and labels of a sample, as "28x28/10/60000/1"; it may end early. */
clq_status clq_source_synthetic(const char *description, const char *part, clq_dataset **out);
clq_status clq_source_synthetic_look(const char *description, clq_dataset_sight *out);

/* The file that a name stands for, if clq_dataset_is_text holds for the name. */
const char *clq_dataset_text_file(const char *name);
clq_status clq_source_of_text_look(clq_dataset_sight *out);
/* Sets *classes as clq_dataset_sight.classes says. */
clq_status clq_labels_look(const clq_array *labels, size_t *classes);
/* Makes a dataset of a text from its file. */
clq_status clq_source_of_text(const char *path, const char *part, clq_dataset **out);
/* How many windows of a text an epoch has. */
size_t clq_windows(const clq_dataset *dataset);

/* After a stage was set: clq_dataset_start_over goes to the first batch of epoch 0, clq_dataset_count counts the
 * samples. */
void clq_dataset_start_over(clq_dataset *dataset);
void clq_dataset_count(clq_dataset *dataset);

clq_status clq_order_allocate(clq_order *order, const clq_dataset *dataset); /* once */
void clq_orders_free(clq_dataset *dataset);
/* The samples that this set brings to a full batch. */
size_t clq_dataset_rows(const clq_dataset *dataset);
/* The rows of the batch at `place`. Draws `order` as far as the batch's end. */
clq_rows clq_rows_at(const clq_dataset *dataset, clq_order *order, clq_place place);

/* Ends the pipeline; the next clq_dataset_next starts it anew from dataset->next. */
void clq_pipeline_stop(clq_dataset *dataset);

#endif
