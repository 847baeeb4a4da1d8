/* clique/data.h: datasets and their pipeline.
 *
 * A dataset is samples (n, …) of u8 or f32 and labels (n, …): integers, or f32 of any sign. What they mean, class
 * numbers, probabilities or values, is the loss's to say. For a model of several outputs a sample has labels for each,
 * in the order of the model's outputs.
 * Stages are set before the first batch is taken: take, shuffle, batch, prefetch. They apply in that
 * order, whichever was set first; one that is set later starts over at the first batch of epoch 0.
 * Thread rules: one thread at a time calls into a dataset. A dataset must outlive the clq_fit, clq_evaluate
 * or clq_predict that walks over it. */
#ifndef CLIQUE_DATA_H
#define CLIQUE_DATA_H

#include <clique/types.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CLQ_AUTO = -1 };

typedef struct clq_dataset clq_dataset;

/* The labels for one output, of the whole set. */
typedef struct clq_labels_info {
    bool is_float;   /* f32; else integers */
    size_t elements; /* of one label: 1 for class numbers */
    size_t classes;  /* integers: the largest + 1 */
    double least;    /* the smallest label */
    size_t least_at; /* index of the first sample that has it */
} clq_labels_info;

typedef struct clq_dataset_info {
    size_t samples;              /* after take; of a text windows, of which a shuffled one has one less */
    unsigned rank;               /* of one sample */
    size_t shape[CLQ_SHAPE_MAX]; /* of one sample: (28, 28) */
    size_t sample_elements;      /* product of shape */
    clq_dtype sample_dtype;      /* CLQ_U8 (divided by 255 on the device, or not: clq_rescaling) or CLQ_F32 */
    bool float_labels;           /* f32; else integers */
    size_t label_elements;       /* of one label: 1 for class numbers */
    size_t classes;              /* integers: the whole set's largest + 1, so fewer than the model's outputs where the
                                    last classes do not occur */
    char name[64];
    double label_least;    /* the smallest label */
    size_t label_least_at; /* index of the first sample that has it */
    size_t labels_count;   /* arrays of labels: one, and those that clq_dataset_add_labels added */
    clq_labels_info labels[CLQ_MODEL_OUTPUTS_MAX]; /* the first says what the members above do */
    bool weighted;                                 /* samples have weights: clq_dataset_set_weights */
    bool labels_are_samples;                       /* clq_dataset_label_by_samples */
} clq_dataset_info;

/* part: "train" or "test". name_or_folder:
 * "fashion-mnist", from Debian's package dataset-fashion-mnist;
 * "synthetic" or "synthetic:SHAPExSHAPE…/CLASSES/COUNT/PLACES", which may end early and is 28x28/10/60000/1
 * where it does: made up, learnable, always the same; the test part has a sixth of COUNT; a sample has PLACES labels, which
 * are alike;
 * "text:FILE", the bytes of a file, also of a .gz, as tokens: a sample is a window of them, its labels are the bytes
 * behind each. "test" is the last tenth of the file, "train" what is in front of it. Windows lie side by side; if the set
 * is shuffled they begin elsewhere in each epoch;
 * a folder of IDX pairs, .npy pairs or CIFAR-10 binary: the first of these that it has for the part. Beside
 * y_train.npy, y_train_1.npy is the labels for the model's second output, and so on.
 * f64 becomes f32.
 * Errors name the file: NOT_FOUND, READ, FORMAT (also an integer label that does not fit an int32_t, or a sample or a
 * label that is not finite), MISMATCH (counts differ), UNSUPPORTED (a dtype), ARGUMENT (part, what follows
 * "synthetic:", or no FILE), MEMORY. */
CLQ_API clq_status clq_dataset_open(const char *name_or_folder, const char *part, clq_dataset **out);
CLQ_API clq_status clq_dataset_idx(const char *folder, const char *part, clq_dataset **out);
CLQ_API clq_status clq_dataset_npy(const char *folder, const char *part, clq_dataset **out);
CLQ_API clq_status clq_dataset_cifar10(const char *folder, const char *part, clq_dataset **out);
/* From the caller's memory, copied. samples: CLQ_U8 or CLQ_F32 (n, shape…). labels: CLQ_I32 or CLQ_F32
 * (n, label_elements); 0 of CLQ_I32 is 1. The same checks, but a wrong value is ARGUMENT. */
CLQ_API clq_status clq_dataset_arrays(const void *samples, clq_dtype sample_dtype, size_t n, unsigned rank,
                                      const size_t *shape, const void *labels, clq_dtype label_dtype,
                                      size_t label_elements, clq_dataset **out);
/* Samples for the next input of a model: their values come behind those of the samples that are there. For all samples of
 * the whole set, of the same type as those of clq_dataset_arrays, `elements` values each; copied. A sample's shape is
 * then the number of all its values. The dataset then starts over at the first batch of epoch 0. Errors: ARGUMENT (a
 * wrong value, another type, too many values), MEMORY; they leave the dataset as it was. */
CLQ_API clq_status clq_dataset_add_samples(clq_dataset *dataset, const void *samples, clq_dtype sample_dtype,
                                           size_t elements);
/* Labels for the next output of a model, for all samples of the whole set, as those of clq_dataset_arrays; copied. The
 * dataset then starts over at the first batch of epoch 0. Errors: ARGUMENT (a wrong value; labels for more than
 * CLQ_MODEL_OUTPUTS_MAX outputs), MEMORY; they leave the dataset as it was. */
CLQ_API clq_status clq_dataset_add_labels(clq_dataset *dataset, const void *labels, clq_dtype label_dtype,
                                          size_t label_elements);
/* Labels are the samples, for models that give back what they are given, as Keras's fit(x, x) has it: each sample's values
 * times `factor`, f32, in place of all labels that there are, for one output. `factor` is 1, or 1.0 / 255 of bytes that
 * the device divides by 255 (docs/data.md). Samples of further inputs are added first. The dataset then starts over at
 * the first batch of epoch 0. Errors: ARGUMENT (a label would not be finite), UNSUPPORTED (a text), MEMORY; they leave
 * the dataset as it was. */
CLQ_API clq_status clq_dataset_label_by_samples(clq_dataset *dataset, double factor);
/* How often each sample's loss counts, for all samples of the whole set: f32 (n), finite and at least 0; copied. The
 * trainer is made for it (clq_trainer_config.sample_weights). NULL: once again. The dataset then starts over at the
 * first batch of epoch 0. Errors: ARGUMENT (a wrong value), MEMORY; they leave the dataset as it was. */
CLQ_API clq_status clq_dataset_set_weights(clq_dataset *dataset, const float *weights);
/* The same from a .npy file of f32 or f64 (n). Errors: those of clq_dataset_open for a file of labels. */
CLQ_API clq_status clq_dataset_read_weights(clq_dataset *dataset, const char *path);
CLQ_API void clq_dataset_destroy(clq_dataset *dataset); /* takes NULL */
/* Valid until the dataset is destroyed; `samples` follows clq_dataset_take. */
CLQ_API const clq_dataset_info *clq_dataset_get_info(const clq_dataset *dataset);

/* Stages. Errors of each: ARGUMENT, which leaves the dataset as it was. */

/* Of a text: the length of a window, in tokens. 128 unless set. */
CLQ_API clq_status clq_dataset_window(clq_dataset *dataset, size_t tokens);

/* The first `samples` of the whole set, at least 1; more than there are: all. `classes` of the info stays that of the
 * whole set. */
CLQ_API clq_status clq_dataset_take(clq_dataset *dataset, size_t samples);
/* Each epoch in a new order, from `seed` and the epoch's number alone. buffer >= the samples, such as SIZE_MAX: a
 * uniform permutation; a smaller buffer works as tf.data's does. 0: off. */
CLQ_API clq_status clq_dataset_shuffle(clq_dataset *dataset, size_t buffer, uint64_t seed);
/* batch: at least 1; 1 unless set. */
CLQ_API clq_status clq_dataset_batch(clq_dataset *dataset, size_t batch, bool drop_remainder);
/* A thread assembles up to `batches` ahead of the caller, into the next epoch too, and begins anew when half of them
 * are taken. 0 (unless set): none; CLQ_AUTO: what 1 MiB holds, 4 to 16. The batches are the same. For loops by hand:
 * clq_fit takes rows from the set itself, where the labels are as the loss wants them. */
CLQ_API clq_status clq_dataset_prefetch(clq_dataset *dataset, int batches);

/* Labels of a batch's samples for one output. */
typedef struct clq_labels {
    const void *values; /* (count, elements) int32, or f32 */
    bool is_float;      /* the latter */
    size_t elements;    /* of one label; 0 is 1 */
} clq_labels;

/* A batch is borrowed until the next call of clq_dataset_next or clq_dataset_seek, or until a stage
 * is set. In a batch of your own, set these members; its samples need no alignment. */
typedef struct clq_batch {
    size_t count;                  /* samples; only an epoch's last may be smaller than the batch */
    const void *samples;           /* (count, shape…), 64-byte aligned */
    size_t sample_elements;        /* product of shape */
    clq_dtype sample_dtype;        /* CLQ_U8 or CLQ_F32 */
    const void *labels;            /* (count, label_elements) int32, or f32 */
    bool float_labels;             /* the latter */
    size_t label_elements;         /* of one label; 0 is 1 */
    uint64_t epoch, index;         /* from 0; batch within the epoch */
    const clq_labels *more_labels; /* (more_count) for the outputs behind the first, in the model's order */
    size_t more_count;
    const float *weights; /* (count) how often each sample's loss counts; NULL: once */
    const void *reserved[4]; /* 0 */
} clq_batch;
/* *more is false at the end of the epoch (batch untouched); the call after that begins the next
 * epoch. Errors: MEMORY, SYSTEM (no thread), only where the pipeline starts: at the first batch,
 * after a seek or a stage. The call may be repeated. */
CLQ_API clq_status clq_dataset_next(clq_dataset *dataset, clq_batch *batch, bool *more);
/* The next call gives batch `index` of `epoch`, or for index == batches the end of `epoch`: for
 * resuming and for evaluation. Errors: ARGUMENT (an index above clq_dataset_batches). */
CLQ_API clq_status clq_dataset_seek(clq_dataset *dataset, uint64_t epoch, uint64_t index);
CLQ_API size_t clq_dataset_batches(const clq_dataset *dataset);    /* per epoch */
CLQ_API size_t clq_dataset_batch_size(const clq_dataset *dataset); /* of a full batch */

#ifdef __cplusplus
}
#endif
#endif
