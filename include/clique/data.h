/* clique/data.h: datasets and their pipeline.
 *
 * A dataset has samples (n, …) in u8 or f32, and labels (n, …): integers, or f32 with any sign. The loss decides what
 * labels mean: class numbers, probabilities or values. If a model has several outputs, each sample has labels for each
 * output, in the order in which the model has its outputs.
 *
 * The stages apply in this order, whichever was set first: take, shuffle, batch, prefetch. Set them before the first
 * batch is taken: a stage that is set later starts over at epoch 0's first batch.
 *
 * Thread rules: one thread at a time calls into a dataset. A dataset must outlive the clq_fit, clq_evaluate or
 * clq_predict that reads it. */
#ifndef CLIQUE_DATA_H
#define CLIQUE_DATA_H

#include <clique/types.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The library chooses: of clq_dataset_prefetch. */
enum { CLQ_PREFETCH_AUTO = -1 };

/* Samples and labels in the host's memory, with the stages of a pipeline. From one of the functions that open one to
 * clq_dataset_destroy. */
typedef struct clq_dataset clq_dataset;

/* The complete set's labels for one output. */
typedef struct clq_labels_info {
    bool is_float;   /* true: f32; false: integers */
    size_t elements; /* values in one label: 1 for class numbers */
    size_t classes;  /* integers: the largest label + 1 */
    double least;    /* the smallest label */
    size_t least_at; /* index of the first sample that has it */
} clq_labels_info;

/* A dataset, as clq_dataset_get_info tells it. */
typedef struct clq_dataset_info {
    /* Samples after clq_dataset_take. In a text: windows; a shuffled text has one window less. */
    size_t samples;
    unsigned rank;               /* axes of one sample */
    size_t shape[CLQ_SHAPE_MAX]; /* one sample's, as (28, 28) */
    size_t sample_elements;      /* product of shape */
    /* CLQ_U8 or CLQ_F32. The device divides bytes by 255, with exceptions: see clq_rescaling. */
    clq_dtype sample_dtype;
    bool float_labels;     /* true: f32; false: integers */
    size_t label_elements; /* values in one label: 1 for class numbers */
    /* Integers: the complete set's largest label + 1. If the last classes do not occur, the model has more outputs. */
    size_t classes;
    char name[64];
    double label_least;                            /* the smallest label */
    size_t label_least_at;                         /* index of the first sample that has it */
    size_t labels_count;                           /* label arrays: 1, and one for each clq_dataset_add_labels */
    clq_labels_info labels[CLQ_MODEL_OUTPUTS_MAX]; /* labels[0] repeats what the members above say */
    bool weighted;                                 /* samples have weights: clq_dataset_set_weights */
    bool labels_are_samples;                       /* clq_dataset_label_by_samples was called */
} clq_dataset_info;

/* Opens a dataset by its name or folder. part: "train" or "test". name_or_folder is one of these:
 *
 * - "fashion-mnist": from Debian's package dataset-fashion-mnist.
 * - "synthetic" or "synthetic:SHAPExSHAPE…/CLASSES/COUNT/PLACES": computed, learnable, always the same. The text may
 *   end early; what is missing is 28x28/10/60000/1. A sample has PLACES labels, which are all alike. The test part has
 *   a sixth as many samples as COUNT says.
 * - "text:FILE": the bytes in a file are tokens; a .gz is unpacked. A sample is a window of tokens, and its labels are
 *   the bytes that follow each token. "test" is the file's last tenth, "train" everything before it. Windows lie side
 *   by side; if the set is shuffled, they begin at other bytes in each epoch.
 * - A folder with IDX pairs, .npy pairs or CIFAR-10 binary files: the first of these three that it has for the part.
 *   Next to y_train.npy, the file y_train_1.npy has the labels for the model's second output, and so on.
 *
 * f64 becomes f32. The caller destroys *out. Errors name the file: NOT_FOUND, READ, FORMAT (malformed; an integer label
 * that does not fit an int32_t; a sample or label that is not finite), MISMATCH (counts differ), UNSUPPORTED (a dtype),
 * ARGUMENT (part; the text after "synthetic:"; no FILE), MEMORY. */
CLQ_API clq_status clq_dataset_open(const char *name_or_folder, const char *part, clq_dataset **out);
/* A folder with IDX pairs. Errors: those of clq_dataset_open. */
CLQ_API clq_status clq_dataset_idx(const char *folder, const char *part, clq_dataset **out);
/* A folder with x_PART.npy and y_PART.npy. Errors: those of clq_dataset_open. */
CLQ_API clq_status clq_dataset_npy(const char *folder, const char *part, clq_dataset **out);
/* A folder with CIFAR-10's binary files. Errors: those of clq_dataset_open. */
CLQ_API clq_status clq_dataset_cifar10(const char *folder, const char *part, clq_dataset **out);
/* Makes a dataset from the caller's memory, which is copied. samples: CLQ_U8 or CLQ_F32 (n, shape…). labels: CLQ_I32 or
 * CLQ_F32 (n, label_elements); for CLQ_I32, label_elements 0 means 1. The caller destroys *out. Checks are those of
 * clq_dataset_open. Errors: ARGUMENT (a wrong value), MEMORY. */
CLQ_API clq_status clq_dataset_arrays(const void *samples, clq_dtype sample_dtype, size_t n, unsigned rank,
                                      const size_t *shape, const void *labels, clq_dtype label_dtype,
                                      size_t label_elements, clq_dataset **out);
/* Adds samples for the model's next input: the new values follow those that each sample has. samples: `elements` values
 * for each sample of the complete set, with the type that clq_dataset_arrays got; copied. A sample's shape is then the
 * number of all its values. The dataset then starts over at epoch 0's first batch. Errors: ARGUMENT (a wrong value,
 * another type, too many values), MEMORY; the dataset is then unchanged. */
CLQ_API clq_status clq_dataset_add_samples(clq_dataset *dataset, const void *samples, clq_dtype sample_dtype,
                                           size_t elements);
/* Adds labels for the model's next output. labels: as for clq_dataset_arrays, for all samples of the complete set;
 * copied. The dataset then starts over at epoch 0's first batch. Errors: ARGUMENT (a wrong value; labels for more than
 * CLQ_MODEL_OUTPUTS_MAX outputs), MEMORY; the dataset is then unchanged. */
CLQ_API clq_status clq_dataset_add_labels(clq_dataset *dataset, const void *labels, clq_dtype label_dtype,
                                          size_t label_elements);
/* Makes the samples the labels, for models that reproduce their input, as Keras's fit(x, x): the labels for one output
 * are each sample's values times `factor`, as f32, and replace all other labels. `factor` is 1; it is 1.0 / 255 if the
 * samples are bytes that the device divides by 255 (docs/data.md). Add samples for further inputs first. The dataset
 * then starts over at epoch 0's first batch. Errors: ARGUMENT (a label would not be finite), UNSUPPORTED (a text),
 * MEMORY; the dataset is then unchanged. */
CLQ_API clq_status clq_dataset_label_by_samples(clq_dataset *dataset, double factor);
/* Sets how often each sample's loss counts. weights: f32 (n), one for each sample of the complete set, finite and at
 * least 0; copied. NULL: every sample counts once again. The trainer must be made for weights
 * (clq_trainer_config.sample_weights). The dataset then starts over at epoch 0's first batch. Errors: ARGUMENT (a wrong
 * value), MEMORY; the dataset is then unchanged. */
CLQ_API clq_status clq_dataset_set_weights(clq_dataset *dataset, const float *weights);
/* The same from a .npy file with f32 or f64 (n). Errors: those that clq_dataset_open has for a file with labels. */
CLQ_API clq_status clq_dataset_read_weights(clq_dataset *dataset, const char *path);
CLQ_API void clq_dataset_destroy(clq_dataset *dataset); /* takes NULL */
/* The dataset's description, which belongs to the dataset and lives as long. `samples` changes with
 * clq_dataset_take. */
CLQ_API const clq_dataset_info *clq_dataset_get_info(const clq_dataset *dataset);

/* Stages. Each may fail with ARGUMENT; the dataset is then unchanged. */

/* For a text: the window's length in tokens, 128 unless set. */
CLQ_API clq_status clq_dataset_window(clq_dataset *dataset, size_t tokens);

/* Takes the first `samples` of the complete set, at least 1; all, if there are fewer. `classes` in the info stays the
 * complete set's. */
CLQ_API clq_status clq_dataset_take(clq_dataset *dataset, size_t samples);
/* Gives each epoch a new order, which depends on `seed` and the epoch's number alone. If buffer is at least the
 * number of samples, such as SIZE_MAX, the order is a uniform permutation; a smaller buffer works as tf.data's does.
 * 0: off. */
CLQ_API clq_status clq_dataset_shuffle(clq_dataset *dataset, size_t buffer, uint64_t seed);
/* batch: samples in a batch, at least 1; 1 unless set. drop_remainder: the epoch's last batch is dropped if it is
 * smaller. */
CLQ_API clq_status clq_dataset_batch(clq_dataset *dataset, size_t batch, bool drop_remainder);
/* A thread assembles up to `batches` batches ahead, into the next epoch too, and resumes when half of them are taken.
 * 0: none, the default. CLQ_PREFETCH_AUTO: as many as 1 MiB holds, 4 to 16. The batches themselves are the same.
 * Prefetching serves hand-written loops: clq_fit reads the set itself if the labels already have the form that the loss
 * needs. */
CLQ_API clq_status clq_dataset_prefetch(clq_dataset *dataset, int batches);

/* A batch's labels for one output. */
typedef struct clq_labels {
    const void *values; /* (count, elements) int32, or f32 */
    bool is_float;      /* true: f32 */
    size_t elements;    /* values in one label; 0 means 1 */
} clq_labels;

/* A batch from clq_dataset_next is borrowed: it is valid until the next clq_dataset_next or clq_dataset_seek, or until
 * a stage is set. In your own batch, set these members; its samples need no alignment. */
typedef struct clq_batch {
    size_t count;           /* samples; only an epoch's last batch may be smaller */
    const void *samples;    /* (count, shape…), 64-byte aligned */
    size_t sample_elements; /* product of shape */
    clq_dtype sample_dtype; /* CLQ_U8 or CLQ_F32 */
    const void *labels;     /* (count, label_elements) int32, or f32 */
    bool float_labels;      /* true: f32 */
    size_t label_elements;  /* values in one label; 0 means 1 */
    uint64_t epoch, index;  /* from 0: the epoch; the batch within it */
    /* (more_count) labels for the outputs after the first, in the model's order. */
    const clq_labels *more_labels;
    size_t more_count;
    const float *weights;    /* (count) how often each sample's loss counts; NULL: once */
    const void *reserved[4]; /* 0 */
} clq_batch;
/* Gives the next batch. *more is false at the epoch's end, and *batch is then unchanged; the call after that begins the
 * next epoch. Errors: MEMORY, SYSTEM (no thread). Both occur only when the pipeline starts: at the first batch, and
 * after a seek or a stage. The call may be repeated. */
CLQ_API clq_status clq_dataset_next(clq_dataset *dataset, clq_batch *batch, bool *more);
/* Makes batch `index` of `epoch` the next one, for resuming and for evaluation; index == batches: the end of `epoch`.
 * Errors: ARGUMENT (an index above clq_dataset_batches). */
CLQ_API clq_status clq_dataset_seek(clq_dataset *dataset, uint64_t epoch, uint64_t index);
CLQ_API size_t clq_dataset_batches(const clq_dataset *dataset);    /* in an epoch */
CLQ_API size_t clq_dataset_batch_size(const clq_dataset *dataset); /* in a full batch */

#ifdef __cplusplus
}
#endif
#endif
