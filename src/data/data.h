/* data: datasets and their pipeline, and how a batch is shared out. include/clique/data.h is what users
 * call; this page tells how it works.
 *
 * A dataset owns arrays, just as a reader gave them: samples (n, …) u8 or f32; labels (n, …), int32 or f32, for each
 * output of a model; and weights (n). Its feed lists them. The values never change again, so any thread may read them;
 * samples of a further input come to lie in a new array with those that were there. A source (open.c, synthetic.c,
 * text.c) is a name or a folder that becomes such arrays; clq_dataset_adopt, _adopt_labels and _adopt_weights
 * (dataset.c) check them, convert labels to int32 and f64 to f32, and keep the arrays themselves: there is no second
 * copy of the samples.
 *
 * The pipeline (pipeline.c) is a walk over places. A place is (epoch, batch within the epoch), and what
 * lies there follows from the stages and the place alone: the order of an epoch is drawn from (seed,
 * epoch), a batch is a run of that order. Hence a seek is an assignment, and prefetching changes nothing
 * but the time. A batch is assembled with one memcpy per sample and array into a slot of a ring, those to come fetched
 * ahead. With prefetch a thread fills the ring ahead of the caller, also over the end of an epoch; without it the ring
 * has one slot, filled when the batch is asked for. All memory is there before the thread starts and copying cannot
 * fail: what can fail does so in clq_dataset_next. Setting a stage or seeking ends the thread; the next
 * clq_dataset_next starts it again. */
#ifndef CLQ_DATA_H
#define CLQ_DATA_H

#include "formats/formats.h"
#include <clique/data.h>

/* What messages and clq_dataset_info.name call the arrays. */
typedef struct clq_data_origin {
    const char *name;    /* "fashion-mnist (train)" */
    const char *samples; /* the samples' file */
    const char *labels;  /* the labels' file */
} clq_data_origin;

/* A dataset of two arrays, which it takes over: they are {0} afterwards, also on failure. Samples (n, …): u8;
 * f32 or f64, finite; or other integers and bools, which become f32 and are at most 2^24 in size; n >= 1. Labels (n,
 * …): any integers that fit an int32_t, or f32 or f64, finite. Errors: FORMAT, MISMATCH (counts differ), UNSUPPORTED
 * (dtype, rank), MEMORY. */
clq_status clq_dataset_adopt(const clq_data_origin *origin, clq_array *samples, clq_array *labels, clq_dataset **out);

/* Samples for the next input, which it takes over likewise: their values come behind those that are there. where: what
 * messages call them. Errors: as of clq_dataset_adopt, and MISMATCH (another type than the first input's). */
clq_status clq_dataset_adopt_samples(clq_dataset *dataset, const char *where, clq_array *samples);
/* The samples that epochs take, as they lie: *count of them. A shuffled text has one more window: they begin elsewhere.
 */
const void *clq_dataset_samples(const clq_dataset *dataset, size_t *count);

/* The labels for an output, of the whole set, as they lie: int32 or f32. *count: of all their numbers. */
const void *clq_dataset_labels(const clq_dataset *dataset, size_t output, size_t *count);

/* Labels for the next output, which it takes over likewise. where: what messages call them. Errors: the same, and
 * UNSUPPORTED (labels for more than CLQ_MODEL_OUTPUTS_MAX outputs). */
clq_status clq_dataset_adopt_labels(clq_dataset *dataset, const char *where, clq_array *labels);

/* Weights of the samples, which it takes over likewise; f32 or f64 (n), finite and at least 0. Errors: FORMAT,
 * MISMATCH, UNSUPPORTED (a dtype), MEMORY. */
clq_status clq_dataset_adopt_weights(clq_dataset *dataset, const char *where, clq_array *weights);

/* Cuts `count` samples into one run per replica: run r is [offsets[r], offsets[r] + counts[r]). The counts add up to
 * `count`. weights NULL, or all equal: as tf.distribute does, ceil(count / replicas) each until none are left, so the
 * last shares may be short or empty: 8 samples over 3 are 3, 3, 2; 4 over 3 are 2, 2, 0; share 0 is the largest. Else
 * share r is weights[r] / sum(weights) of the count, rounded up or down (count below 2^52); weights (replicas), finite,
 * at least 0, with a finite sum above 0. A weight of 0 gets nothing, and whole weights that add up to `count` are the
 * shares. */
void clq_shares_split(size_t count, unsigned replicas, const double *weights, size_t *offsets, size_t *counts);
/* The most that a replica gets of any count up to `count`. */
size_t clq_shares_most(size_t count, unsigned replicas, const double *weights, unsigned replica);

bool clq_dataset_drops_remainder(const clq_dataset *dataset);

/* Of a set whose samples are a part of each global batch: others bring the rest. */
typedef struct clq_data_part {
    size_t batch;     /* samples of a full batch; 0: the set has the whole batch */
    uint64_t batches; /* the most of an epoch; 0: as many as there are */
    uint64_t seed;    /* added to that of the shuffle */
} clq_data_part;
/* From now on the set gives these parts, and counts its batches by them; setting a stage ends it. The place stays if
 * the epoch has it, else it is the epoch's end. No rows may be under way unless the part is the same as before. */
void clq_dataset_set_part(clq_dataset *dataset, const clq_data_part *part);
clq_data_part clq_dataset_part(const clq_dataset *dataset);
/* The names of sets that are built in; NULL behind the last. */
extern const char *const clq_dataset_names[];
/* Whether clq_dataset_open takes the name for a folder: others are built in, or texts. */
bool clq_dataset_is_folder(const char *name);
bool clq_dataset_is_text(const char *name);
/* The folder, or the text's file, that a name is of; NULL: it is built in. */
const char *clq_dataset_path(const char *name);

/* What samples and labels of a set are like, without reading the samples. */
typedef struct clq_dataset_sight {
    unsigned rank; /* of a sample; 0: of a text, whose windows may have any length */
    size_t shape[CLQ_SHAPE_MAX];
    /* One more than the largest label; 0: not known, as all are 0, or one is too large. Of labels that are no integers:
     * the values of one. */
    size_t classes;
} clq_dataset_sight;
/* As clq_dataset_open: the same errors, but for those of samples. */
clq_status clq_dataset_look(const char *name_or_folder, const char *part, clq_dataset_sight *out);
/* Whether a file of this name in a folder of data may be read as a part of it. */
bool clq_dataset_reads(const char *name);
/* The position of the next batch, as clq_dataset_seek takes it. */
void clq_dataset_tell(const clq_dataset *dataset, uint64_t *epoch, uint64_t *index);

/* A hash of all values that it gives, and of how it is cut and shuffled: what processes compare that train on it
 * together. Reads all samples. Without values: of what a sample is, and how such sets are told to be cut and shuffled,
 * whatever their lengths are. */
clq_hash128 clq_dataset_fingerprint(const clq_dataset *dataset, bool values);

/* ---- rows (rows.c) ---- */

/* The rows of a batch, or of a part of one: of a dataset, left where they lie, or of a caller's batch. */
typedef struct clq_rows {
    const clq_feed *feed;      /* what a row consists of */
    const char *const *arrays; /* (feed->count) each array's first row; NULL: a caller's batch has none */
    const size_t *places;      /* (count) which rows of the arrays; NULL: `first` and those behind it */
    size_t first, count;
    /* true: all that the rows point to is unchanged until the receiver has been waited for; false: until the call that
     * takes the rows returns. */
    bool stay;
} clq_rows;
/* How it is cut and shuffled, as it was told; buffer 0: not at all. */
void clq_dataset_stages(const clq_dataset *dataset, size_t *batch, size_t *buffer);
/* As clq_dataset_next, for callers that copy the rows themselves, in any thread. The rows stay: what they point to is
 * valid until the epoch after the next begins, a stage, samples, labels or weights are set, clq_dataset_seek or
 * clq_dataset_next is called, or the dataset is destroyed. No thread runs ahead, because nothing is assembled. Errors:
 * MEMORY. */
clq_status clq_dataset_next_rows(clq_dataset *dataset, clq_rows *rows, bool *more);
clq_rows clq_rows_part(const clq_rows *rows, size_t begin, size_t count);
/* Copies the rows of an array of the feed, which the rows have, one behind the other; rows that lie far apart are
 * prefetched. */
void clq_rows_copy(const clq_rows *rows, unsigned array, void *to);

/* Of a batch: labels for an output, below 1 + more_count. */
clq_labels clq_batch_labels(const clq_batch *batch, size_t output);

#endif
