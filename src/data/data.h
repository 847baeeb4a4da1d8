/* data: datasets and their pipeline, and how a batch is split into shares for replicas. include/clique/data.h is what
 * users call; this header tells how it works.
 *
 * A dataset owns arrays, as a reader gave them: samples (n, …), u8 or f32; labels (n, …), int32 or f32, for each
 * output of a model; and weights (n). The dataset's feed lists the arrays. Their values never change again, so any
 * thread may read them. If samples of a further input are added, old and new samples are copied into a new array. A
 * source (open.c, synthetic.c, text.c) turns a name or a folder into such arrays. clq_dataset_adopt, _adopt_labels and
 * _adopt_weights (dataset.c) check the arrays and convert labels to int32 and f64 to f32. They keep the arrays
 * themselves: there is no second copy of the samples.
 *
 * The pipeline (pipeline.c) is a walk over places. A place is (epoch, batch within the epoch). The stages and the place
 * alone determine the batch at the place: the order of an epoch is drawn from (seed, epoch), and a batch is a run of
 * this order. So a seek is an assignment, and prefetching changes nothing but the time. To assemble a batch, the
 * pipeline copies each sample of each array by one memcpy into a slot of a ring; samples to come are prefetched into
 * the processor's cache. If batches are prefetched, a thread fills the ring ahead of the caller, also over the end of
 * an epoch. Otherwise the ring has one slot, which is filled when the batch is asked for. All memory is allocated
 * before the thread starts, and copying cannot fail: so each failure comes from clq_dataset_next. Setting a stage or
 * seeking ends the thread, and the next clq_dataset_next starts it again. */
#ifndef CLQ_DATA_H
#define CLQ_DATA_H

#include "formats/formats.h"
#include <clique/data.h>

/* The names of a dataset and its arrays in messages; `name` is also clq_dataset_info.name. */
typedef struct clq_data_origin {
    const char *name;    /* "fashion-mnist (train)" */
    const char *samples; /* the samples' file */
    const char *labels;  /* the labels' file */
} clq_data_origin;

/* Makes a dataset from two arrays and takes them over: they are {0} afterwards, also on failure. Samples (n, …), n >=
 * 1: u8; f32 or f64, finite; or bools and other integers of at most 2^24 in absolute value, which become f32. Labels
 * (n, …): any integers that fit an int32_t, or f32 or f64, finite. Errors: FORMAT, MISMATCH (counts differ),
 * UNSUPPORTED (dtype, rank), MEMORY. */
clq_status clq_dataset_adopt(const clq_data_origin *origin, clq_array *samples, clq_array *labels, clq_dataset **out);

/* Adds samples for the next input and takes their array over likewise: each sample's new values follow its present
 * ones. where: what messages call the array. Errors: those of clq_dataset_adopt, and MISMATCH (another type than the
 * first input's). */
clq_status clq_dataset_adopt_samples(clq_dataset *dataset, const char *where, clq_array *samples);
/* The samples that epochs take, in the order in which they lie in memory; *count: how many. A shuffled text has one
 * window more, because its windows begin at other places in each epoch. */
const void *clq_dataset_samples(const clq_dataset *dataset, size_t *count);

/* The complete set's labels for an output, as they lie in memory: int32 or f32. *count: the values of all labels. */
const void *clq_dataset_labels(const clq_dataset *dataset, size_t output, size_t *count);

/* Adds labels for the next output and takes their array over likewise. where: what messages call the array. Errors: the
 * same, and UNSUPPORTED (labels for more than CLQ_MODEL_OUTPUTS_MAX outputs). */
clq_status clq_dataset_adopt_labels(clq_dataset *dataset, const char *where, clq_array *labels);

/* Sets the samples' weights and takes their array over: f32 or f64 (n), finite and at least 0. Errors: FORMAT,
 * MISMATCH, UNSUPPORTED (a dtype), MEMORY. */
clq_status clq_dataset_adopt_weights(clq_dataset *dataset, const char *where, clq_array *weights);

/* Splits `count` samples into one run per replica: run r is [offsets[r], offsets[r] + counts[r]). The counts add up to
 * `count`. If weights is NULL, or all weights are equal, the split is that of tf.distribute: ceil(count / replicas)
 * each until none are left. The last shares may then be short or empty: 8 samples over 3 replicas are 3, 3, 2; 4 over 3
 * are 2, 2, 0; share 0 is the largest. Otherwise share r is weights[r] / sum(weights) of the count, rounded up or down
 * (count below 2^52). weights (replicas): finite, at least 0, with a finite sum above 0. A replica of weight 0 gets
 * nothing. Whole weights that add up to `count` are the shares. */
void clq_shares_split(size_t count, unsigned replicas, const double *weights, size_t *offsets, size_t *counts);
/* The largest share that a replica gets of any count up to `count`. */
size_t clq_shares_most(size_t count, unsigned replicas, const double *weights, unsigned replica);

bool clq_dataset_drops_remainder(const clq_dataset *dataset);

/* Which part of each global batch this set brings, if other sets bring the rest. */
typedef struct clq_data_part {
    size_t batch;     /* this set's samples in a full batch; 0: it brings the whole batch */
    uint64_t batches; /* the most batches in an epoch; 0: as many as the samples give */
    uint64_t seed;    /* added to the shuffle's seed */
} clq_data_part;
/* From now on the set gives the parts that `part` describes, and counts its batches by them. Setting a stage ends this.
 * The next place stays the same if the epoch has it; otherwise it becomes the epoch's end. No rows may be in use by
 * unfinished steps, unless the part is the same as before. */
void clq_dataset_set_part(clq_dataset *dataset, const clq_data_part *part);
clq_data_part clq_dataset_part(const clq_dataset *dataset);
/* The names of the built-in sets, with NULL at the end. */
extern const char *const clq_dataset_names[];
/* Whether clq_dataset_open takes the name for a folder. Other names are those of built-in sets or of texts. */
bool clq_dataset_is_folder(const char *name);
bool clq_dataset_is_text(const char *name);
/* The folder, or the text's file, that a name stands for; NULL: the set is built in. */
const char *clq_dataset_path(const char *name);

/* What a set's samples and labels are like, found without reading the samples. */
typedef struct clq_dataset_sight {
    unsigned rank; /* of a sample; 0: the set is a text, whose windows may have any length */
    size_t shape[CLQ_SHAPE_MAX];
    /* Integer labels: the largest label + 1; 0: not known, because no label is above 0 or a label is too large. Other
     * labels: the values of one label. */
    size_t classes;
} clq_dataset_sight;
/* Errors: those of clq_dataset_open, except those about the samples' values. */
clq_status clq_dataset_look(const char *name_or_folder, const char *part, clq_dataset_sight *out);
/* Whether a dataset may read a file of this name in a folder of data. */
bool clq_dataset_reads(const char *name);
/* The position of the next batch, for clq_dataset_seek. */
void clq_dataset_tell(const clq_dataset *dataset, uint64_t *epoch, uint64_t *index);

/* A hash by which processes that train together compare their sets. values true: covers all values that the set gives,
 * and how they are cut and shuffled; reads all samples. values false: covers only what a sample consists of, and how
 * the set is cut and shuffled, for sets that may have different lengths. */
clq_hash128 clq_dataset_fingerprint(const clq_dataset *dataset, bool values);

/* ---- rows (rows.c) ---- */

/* The rows of a batch or of a part of one: those of a dataset, which stay where they lie, or those of a caller's
 * batch. */
typedef struct clq_rows {
    const clq_feed *feed;      /* what a row consists of */
    const char *const *arrays; /* (feed->count) each array's first row; NULL: a caller's batch lacks the array */
    const size_t *places;      /* (count) indices of the rows in the arrays; NULL: the rows from `first` on */
    size_t first, count;
    /* true: all that the rows point to stays unchanged until the receiver has been waited for; false: only until the
     * call that takes the rows returns. */
    bool stay;
} clq_rows;
/* The batch size and the shuffle's buffer, as the caller set them; buffer 0: no shuffle. */
void clq_dataset_stages(const clq_dataset *dataset, size_t *batch, size_t *buffer);
/* As clq_dataset_next, for callers that copy the rows themselves, in any thread. What the rows point to is valid until
 * one of these happens: the epoch after the next begins; a stage, samples, labels or weights are set; clq_dataset_seek
 * or clq_dataset_next is called; the dataset is destroyed. No thread works ahead, because nothing is assembled. Errors:
 * MEMORY. */
clq_status clq_dataset_next_rows(clq_dataset *dataset, clq_rows *rows, bool *more);
clq_rows clq_rows_part(const clq_rows *rows, size_t begin, size_t count);
/* Copies the rows of one array, which the rows must have, one after the other. Rows that lie far apart are
 * prefetched. */
void clq_rows_copy(const clq_rows *rows, unsigned array, void *to);

/* A batch's labels for an output; output: at most batch->more_count. */
clq_labels clq_batch_labels(const clq_batch *batch, size_t output);

#endif
