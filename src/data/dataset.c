/* A dataset: arrays that were checked, and their description. If a check fails, its message names the file. */
#include "data/dataset.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DESCRIPTION = 160 };

/* Converts f64 to f32. Values beyond float32 become infinite, and the checks after this refuse them. */
static clq_status narrow(clq_array *array) {
    clq_array f32 = {0};
    CLQ_TRY(clq_array_create(CLQ_F32, array->rank, array->dims, &f32));
    const double *from = array->data;
    float *to = f32.data;
    for (size_t i = 0; i < array->count; i++) to[i] = (float)from[i];
    clq_array_release(array);
    *array = f32;
    return CLQ_OK;
}

/* Sets *out to an element of an array of integers or bools. False if the element does not fit an int64_t. */
static bool integer_at(const clq_array *array, size_t i, int64_t *out) {
    switch (array->dtype) {
    case CLQ_I8: *out = ((const int8_t *)array->data)[i]; return true;
    case CLQ_I16: *out = ((const int16_t *)array->data)[i]; return true;
    case CLQ_I32: *out = ((const int32_t *)array->data)[i]; return true;
    case CLQ_I64: *out = ((const int64_t *)array->data)[i]; return true;
    case CLQ_U16: *out = ((const uint16_t *)array->data)[i]; return true;
    case CLQ_U32: *out = ((const uint32_t *)array->data)[i]; return true;
    case CLQ_U64: {
        uint64_t value = ((const uint64_t *)array->data)[i];
        *out = (int64_t)(value & INT64_MAX);
        return value <= INT64_MAX;
    }
    default: *out = ((const uint8_t *)array->data)[i]; return true; /* u8, bool */
    }
}

/* Whether the elements are integers or bools. */
static bool are_integers(const clq_array *array) {
    return array->dtype != CLQ_F16 && array->dtype != CLQ_BF16 && array->dtype != CLQ_F32 && array->dtype != CLQ_F64;
}

/* ---- samples ---- */

/* Converts integers to floats of the same values. */
static clq_status integers_to_floats(const char *where, clq_array *samples) {
    enum { MOST = 1 << 24 }; /* up to here, float32 has all integers */
    const size_t elements = samples->count / samples->dims[0];
    clq_array f32 = {0};
    CLQ_TRY(clq_array_create(CLQ_F32, samples->rank, samples->dims, &f32));
    for (size_t i = 0; i < samples->count; i++) {
        int64_t value;
        if (!integer_at(samples, i, &value) || value < -MOST || value > MOST) {
            clq_array_release(&f32);
            return clq_fail(CLQ_ERROR_FORMAT,
                            "%s: value %zu of sample %zu is beyond %d, up to which float32 has all integers: give "
                            "floats",
                            where, i % elements, i / elements, MOST);
        }
        ((float *)f32.data)[i] = (float)value;
    }
    clq_array_release(samples);
    *samples = f32;
    return CLQ_OK;
}

/* Converts f64, bools and all integers except u8 to f32. Afterwards `samples` is u8 or finite f32, with at least one
 * sample of at least one value. Refuses all other samples. */
static clq_status check_samples(const char *where, clq_array *samples) {
    char text[DESCRIPTION];
    clq_array_describe(samples, text, sizeof text);
    if (samples->rank == 0 || samples->rank > CLQ_SHAPE_MAX + 1)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s: %s: samples are (n, ...) with 1 to %d dimensions in all", where,
                        text, CLQ_SHAPE_MAX + 1);
    if (samples->dims[0] == 0) return clq_fail(CLQ_ERROR_FORMAT, "%s: %s: there are no samples", where, text);
    if (samples->count == 0) return clq_fail(CLQ_ERROR_FORMAT, "%s: %s: a sample has no values", where, text);
    if (samples->dtype == CLQ_U8) return CLQ_OK;
    if (are_integers(samples)) return integers_to_floats(where, samples);
    if (samples->dtype == CLQ_F64) CLQ_TRY(narrow(samples));
    if (samples->dtype != CLQ_F32)
        return clq_fail(CLQ_ERROR_UNSUPPORTED,
                        "%s: samples are %s: convert them to u8 (scaled by 1/255 later), f32, f64 or integers", where,
                        text);
    const float *values = samples->data;
    const size_t elements = samples->count / samples->dims[0];
    for (size_t i = 0; i < samples->count; i++)
        if (!isfinite(values[i]))
            return clq_fail(CLQ_ERROR_FORMAT,
                            "%s: value %zu of sample %zu is %g as float32: samples must be finite; remove or "
                            "replace it",
                            where, i % elements, i / elements, (double)values[i]);
    return CLQ_OK;
}

/* ---- labels ---- */

static void note_label(clq_labels_info *info, size_t sample, double value) {
    if (value >= info->least) return;
    info->least = value;
    info->least_at = sample;
}

static clq_status check_integers(const char *where, clq_array *labels, clq_labels_info *info) {
    clq_array i32 = {0};
    CLQ_TRY(clq_array_create(CLQ_I32, labels->rank, labels->dims, &i32));
    int32_t *to = i32.data, largest = -1;
    for (size_t i = 0; i < labels->count; i++) {
        const size_t sample = i / info->elements;
        int64_t value;
        bool fits = integer_at(labels, i, &value);
        if (!fits || value < INT32_MIN || value >= INT32_MAX) {
            clq_array_release(&i32);
            if (!fits)
                return clq_fail(CLQ_ERROR_FORMAT, "%s: label %zu is beyond 2^63: class numbers go from 0", where,
                                sample);
            return clq_fail(CLQ_ERROR_FORMAT,
                            "%s: label %zu is %lld: integer labels are at most %d, and class numbers go from 0", where,
                            sample, (long long)value, INT32_MAX - 1);
        }
        to[i] = (int32_t)value;
        largest = CLQ_MAX(largest, to[i]);
        note_label(info, sample, (double)value);
    }
    clq_array_release(labels);
    *labels = i32;
    info->classes = (size_t)largest + 1;
    return CLQ_OK;
}

clq_status clq_labels_look(const clq_array *labels, size_t *classes) {
    int64_t largest = -1, value;
    if (labels->rank == 0 || labels->count == 0) return clq_fail(CLQ_ERROR_FORMAT, "there are no labels");
    for (size_t i = 0; i < labels->count && are_integers(labels); i++)
        if (integer_at(labels, i, &value)) largest = CLQ_MAX(largest, value);
    *classes = labels->count / labels->dims[0];
    if (are_integers(labels)) *classes = largest > 0 && largest < INT32_MAX ? (size_t)largest + 1 : 0;
    return CLQ_OK;
}

static clq_status check_floats(const char *where, clq_array *labels, clq_labels_info *info) {
    if (labels->dtype == CLQ_F64) CLQ_TRY(narrow(labels));
    const float *values = labels->data;
    for (size_t i = 0; i < labels->count; i++) {
        const size_t sample = i / info->elements;
        if (!isfinite(values[i]))
            return clq_fail(CLQ_ERROR_FORMAT, "%s: value %zu of label %zu is %g as float32: labels must be finite",
                            where, i % info->elements, sample, (double)values[i]);
        note_label(info, sample, (double)values[i]);
    }
    return CLQ_OK;
}

/* Converts `labels` (n, …) to int32 or f32, and describes them. samples: what messages call the samples. */
static clq_status check_labels(const clq_dataset *d, const char *samples, const char *where, clq_array *labels,
                               clq_labels_info *info) {
    char text[DESCRIPTION];
    if (labels->rank == 0 || labels->dims[0] != d->whole)
        return clq_fail(CLQ_ERROR_MISMATCH, "%s has %zu label%s and %s has %zu sample%s: each sample needs one label",
                        where, labels->rank ? labels->dims[0] : 1, clq_plural(labels->rank ? labels->dims[0] : 1),
                        samples, d->whole, clq_plural(d->whole));
    clq_array_describe(labels, text, sizeof text);
    if (labels->count == 0) return clq_fail(CLQ_ERROR_FORMAT, "%s: %s: there are no labels", where, text);
    info->elements = labels->count / labels->dims[0];
    info->least = (double)INFINITY;
    info->is_float = labels->dtype == CLQ_F32 || labels->dtype == CLQ_F64;
    if (info->is_float) return check_floats(where, labels, info);
    if (are_integers(labels)) return check_integers(where, labels, info);
    return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s: labels are %s: they must be integers, f32 or f64", where, text);
}

/* ---- datasets ---- */

/* If a path is longer than the name's room, the name is its end, which says most. */
static void set_name(clq_dataset_info *info, const char *name) {
    size_t length = strlen(name), room = sizeof info->name - 1;
    if (length <= room)
        snprintf(info->name, sizeof info->name, "%s", name);
    else
        snprintf(info->name, sizeof info->name, "...%s", name + length - (room - 3));
}

/* Takes the array over. */
static void add_array(clq_dataset *d, clq_feed_role role, unsigned index, clq_array *array) {
    const unsigned at = d->feed.count;
    clq_feed_add(&d->feed, role, index, array->dtype, array->count / array->dims[0]);
    d->arrays[at] = *array;
    d->values[at] = array->data;
    *array = (clq_array){0};
}

/* Removes an array. at: its position; feed.count if there is no such array. */
static void remove_array(clq_dataset *d, unsigned at) {
    if (at == d->feed.count) return;
    clq_array_release(&d->arrays[at]);
    d->feed.count--;
    for (unsigned i = at; i < d->feed.count; i++) {
        d->feed.arrays[i] = d->feed.arrays[i + 1];
        d->arrays[i] = d->arrays[i + 1];
        d->values[i] = d->values[i + 1];
    }
}

/* Takes the labels over. If they are refused, the dataset and a borrowed batch stay as they were. */
static clq_status add_labels(clq_dataset *d, const char *samples, const char *where, clq_array *labels) {
    clq_labels_info described = {0};
    CLQ_TRY(check_labels(d, samples, where, labels, &described));
    clq_pipeline_stop(d); /* its thread reads the arrays */
    add_array(d, CLQ_FEED_LABELS, (unsigned)d->info.labels_count, labels);
    d->info.labels[d->info.labels_count++] = described;
    return CLQ_OK;
}

/* Copies labels[0] into the info's members that describe the first output's labels. */
static void note_first_labels(clq_dataset_info *info) {
    info->float_labels = info->labels[0].is_float;
    info->label_elements = info->labels[0].elements;
    info->classes = info->labels[0].classes;
    info->label_least = info->labels[0].least;
    info->label_least_at = info->labels[0].least_at;
}

static clq_status describe(const clq_data_origin *origin, clq_dataset *d, clq_array *samples, clq_array *labels) {
    clq_dataset_info *info = &d->info;
    CLQ_TRY(check_samples(origin->samples, samples));
    d->whole = info->samples = samples->dims[0];
    info->sample_dtype = samples->dtype;
    info->sample_elements = samples->count / samples->dims[0];
    info->rank = CLQ_MAX(samples->rank - 1, 1u); /* (n) is (n, 1) */
    info->shape[0] = 1;
    for (unsigned i = 1; i < samples->rank; i++) info->shape[i - 1] = samples->dims[i];
    add_array(d, CLQ_FEED_SAMPLES, 0, samples);
    CLQ_TRY(add_labels(d, origin->samples, origin->labels, labels));

    set_name(info, origin->name);
    note_first_labels(info);
    d->batch = 1;
    return CLQ_OK;
}

clq_status clq_dataset_adopt(const clq_data_origin *origin, clq_array *samples, clq_array *labels, clq_dataset **out) {
    clq_status status = CLQ_ERROR_MEMORY;
    clq_dataset *dataset = clq_alloc(1, sizeof *dataset);
    if (!dataset) goto fail;
    CLQ_TRY_OR(fail, status, describe(origin, dataset, samples, labels));
    *out = dataset;
    return CLQ_OK;
fail:
    clq_array_release(samples);
    clq_array_release(labels);
    clq_dataset_destroy(dataset);
    return status;
}

/* Refuses further arrays for a text: a text's samples and labels follow from its bytes. */
static clq_status check_arrays(const clq_dataset *d, const char *what) {
    if (!d->window) return CLQ_OK;
    return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s is a text: it takes no further %s", d->info.name, what);
}

clq_status clq_dataset_adopt_labels(clq_dataset *dataset, const char *where, clq_array *labels) {
    clq_dataset_info *info = &dataset->info;
    clq_status status = check_arrays(dataset, "labels");
    if (status == CLQ_OK && info->labels_count == CLQ_MODEL_OUTPUTS_MAX)
        status = clq_fail(CLQ_ERROR_UNSUPPORTED, "%s: it has labels for %d outputs, which is the most", info->name,
                          CLQ_MODEL_OUTPUTS_MAX);
    if (status == CLQ_OK) status = add_labels(dataset, info->name, where, labels);
    if (status == CLQ_OK)
        dataset->next = (clq_place){0};
    else
        clq_array_release(labels);
    return status;
}

/* ---- samples of further inputs ---- */

static clq_status check_more_samples(const clq_dataset *d, const char *where, clq_array *samples) {
    const clq_dataset_info *info = &d->info;
    CLQ_TRY(check_samples(where, samples));
    if (samples->dims[0] != d->whole)
        return clq_fail(CLQ_ERROR_MISMATCH, "%s has %zu samples, and the first input of %s has %zu", where,
                        samples->dims[0], info->name, d->whole);
    if (samples->dtype != info->sample_dtype)
        return clq_fail(CLQ_ERROR_MISMATCH,
                        "%s: samples are %s, and those of the first input of %s are %s: convert one", where,
                        clq_dtype_name(samples->dtype), info->name, clq_dtype_name(info->sample_dtype));
    if (samples->count / d->whole + info->sample_elements <= INT32_MAX) return CLQ_OK;
    return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s: a sample of %s then has more than %d values", where, info->name,
                    INT32_MAX);
}

/* Appends to each sample's row the row that `more` has for the sample. */
static clq_status lengthen_rows(clq_dataset *d, const clq_array *more) {
    clq_dataset_info *info = &d->info;
    const size_t size = clq_dtype_bytes(info->sample_dtype), first = info->sample_elements * size,
                 second = more->count / d->whole * size;
    clq_array joined = {0};
    CLQ_TRY(clq_array_create(info->sample_dtype, 2, (const size_t[]){d->whole, (first + second) / size}, &joined));
    for (size_t i = 0; i < d->whole; i++) {
        char *row = (char *)joined.data + i * (first + second);
        memcpy(row, d->values[0] + i * first, first);
        memcpy(row + first, (const char *)more->data + i * second, second);
    }
    clq_pipeline_stop(d); /* its thread reads the samples */
    clq_array_release(&d->arrays[0]);
    d->arrays[0] = joined;
    d->values[0] = joined.data;
    d->feed.arrays[0].bytes = first + second;
    info->rank = 1;
    info->shape[0] = info->sample_elements = (first + second) / size;
    d->next = (clq_place){0};
    return CLQ_OK;
}

clq_status clq_dataset_adopt_samples(clq_dataset *dataset, const char *where, clq_array *samples) {
    clq_status status = check_arrays(dataset, "samples");
    if (status == CLQ_OK) status = check_more_samples(dataset, where, samples);
    if (status == CLQ_OK) status = lengthen_rows(dataset, samples);
    clq_array_release(samples);
    return status;
}

const void *clq_dataset_samples(const clq_dataset *dataset, size_t *count) {
    *count = dataset->info.samples + (dataset->window && dataset->buffer > 0);
    return dataset->values[0];
}

const void *clq_dataset_labels(const clq_dataset *dataset, size_t output, size_t *count) {
    const unsigned at = clq_feed_find(&dataset->feed, CLQ_FEED_LABELS, (unsigned)output);
    *count = dataset->arrays[at].count;
    return dataset->values[at];
}

/* ---- weights of samples ---- */

static clq_status check_weights(const clq_dataset *d, const char *where, clq_array *weights) {
    char text[DESCRIPTION];
    const size_t samples = d->whole;
    clq_array_describe(weights, text, sizeof text);
    if (weights->dtype == CLQ_F64) CLQ_TRY(narrow(weights));
    if (weights->dtype != CLQ_F32)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s: %s: weights of samples must be f32 or f64", where, text);
    if (weights->rank == 0 || weights->dims[0] != samples || weights->count != samples)
        return clq_fail(CLQ_ERROR_MISMATCH, "%s: %s: expected one weight for each of the %zu samples of %s", where,
                        text, samples, d->info.name);
    const float *values = weights->data;
    for (size_t i = 0; i < samples; i++)
        if (!(values[i] >= 0.0f) || !isfinite(values[i]))
            return clq_fail(CLQ_ERROR_FORMAT,
                            "%s: the weight of sample %zu is %g as float32: expected a finite number of at least 0",
                            where, i, (double)values[i]);
    return CLQ_OK;
}

/* Removes the weights, if any. The dataset starts over at the first batch of epoch 0. */
static void forget_weights(clq_dataset *d) {
    clq_pipeline_stop(d); /* its thread reads the weights */
    remove_array(d, clq_feed_find(&d->feed, CLQ_FEED_WEIGHTS, 0));
    d->info.weighted = false;
    d->next = (clq_place){0};
}

clq_status clq_dataset_adopt_weights(clq_dataset *dataset, const char *where, clq_array *weights) {
    clq_status status = check_arrays(dataset, "weights");
    if (status == CLQ_OK) status = check_weights(dataset, where, weights);
    if (status == CLQ_OK) {
        forget_weights(dataset);
        add_array(dataset, CLQ_FEED_WEIGHTS, 0, weights);
        dataset->info.weighted = true;
    }
    clq_array_release(weights);
    return status;
}

clq_status clq_dataset_read_weights(clq_dataset *dataset, const char *path) {
    clq_array weights = {0};
    CLQ_TRY(clq_npy_read(path, &weights));
    return clq_dataset_adopt_weights(dataset, path, &weights);
}

static clq_status copy_in(clq_dtype dtype, unsigned rank, const size_t *dims, const void *from, clq_array *out) {
    CLQ_TRY(clq_array_create(dtype, rank, dims, out));
    if (out->count > 0) memcpy(out->data, from, out->count * clq_dtype_bytes(dtype));
    return CLQ_OK;
}

static clq_status copy_labels_in(size_t n, const void *labels, clq_dtype dtype, size_t elements, clq_array *out) {
    if (dtype != CLQ_I32 && dtype != CLQ_F32)
        return clq_fail(CLQ_ERROR_ARGUMENT, "labels in memory must be i32 or f32");
    return copy_in(dtype, 2, (const size_t[]){n, dtype == CLQ_I32 && elements == 0 ? 1 : elements}, labels, out);
}

/* Turns errors about files into ARGUMENT: these values came from the caller and not from a file. */
static clq_status as_argument(clq_status status) {
    return status == CLQ_ERROR_FORMAT || status == CLQ_ERROR_UNSUPPORTED ? CLQ_ERROR_ARGUMENT : status;
}

clq_status clq_dataset_arrays(const void *samples, clq_dtype sample_dtype, size_t n, unsigned rank, const size_t *shape,
                              const void *labels, clq_dtype label_dtype, size_t label_elements, clq_dataset **out) {
    if (sample_dtype != CLQ_U8 && sample_dtype != CLQ_F32)
        return clq_fail(CLQ_ERROR_ARGUMENT, "samples in memory must be u8 or f32");
    if (rank > CLQ_SHAPE_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT, "a sample of rank %u: at most %d", rank, CLQ_SHAPE_MAX);
    size_t sample_dims[CLQ_SHAPE_MAX + 1] = {n};
    for (unsigned i = 0; i < rank; i++) sample_dims[i + 1] = shape[i];

    clq_array copies[2] = {{0}};
    clq_status status = copy_in(sample_dtype, rank + 1, sample_dims, samples, &copies[0]);
    if (status == CLQ_OK) status = copy_labels_in(n, labels, label_dtype, label_elements, &copies[1]);
    if (status != CLQ_OK) {
        clq_array_release(&copies[0]);
        return status;
    }
    const clq_data_origin origin = {.name = "arrays", .samples = "samples in memory", .labels = "labels in memory"};
    return as_argument(clq_dataset_adopt(&origin, &copies[0], &copies[1], out));
}

clq_status clq_dataset_add_labels(clq_dataset *dataset, const void *labels, clq_dtype label_dtype,
                                  size_t label_elements) {
    clq_array copy = {0};
    CLQ_TRY(copy_labels_in(dataset->whole, labels, label_dtype, label_elements, &copy));
    return as_argument(clq_dataset_adopt_labels(dataset, "labels in memory", &copy));
}

clq_status clq_dataset_label_by_samples(clq_dataset *dataset, double factor) {
    clq_dataset_info *info = &dataset->info;
    clq_labels_info described = {.elements = info->sample_elements, .least = (double)INFINITY, .is_float = true};
    clq_array labels = {0};
    if (!(fabs(factor) <= FLT_MAX)) return clq_fail(CLQ_ERROR_ARGUMENT, "samples times %g are no labels", factor);
    CLQ_TRY(check_arrays(dataset, "labels"));
    CLQ_TRY(clq_array_create(CLQ_F32, 2, (const size_t[]){dataset->whole, info->sample_elements}, &labels));
    float *to = labels.data;
    for (size_t i = 0; i < labels.count; i++) {
        const float value = info->sample_dtype == CLQ_U8 ? (float)((const uint8_t *)(const void *)dataset->values[0])[i]
                                                         : ((const float *)(const void *)dataset->values[0])[i];
        to[i] = value * (float)factor;
    }
    const clq_status status = check_floats(info->name, &labels, &described);
    if (status != CLQ_OK) {
        clq_array_release(&labels);
        return as_argument(status);
    }
    clq_pipeline_stop(dataset); /* its thread reads the labels that are removed */
    for (unsigned i = 0; i < info->labels_count; i++)
        remove_array(dataset, clq_feed_find(&dataset->feed, CLQ_FEED_LABELS, i));
    add_array(dataset, CLQ_FEED_LABELS, 0, &labels);
    info->labels[0] = described;
    info->labels_count = 1;
    info->labels_are_samples = true;
    note_first_labels(info);
    dataset->next = (clq_place){0};
    return CLQ_OK;
}

clq_status clq_dataset_add_samples(clq_dataset *dataset, const void *samples, clq_dtype sample_dtype, size_t elements) {
    clq_array copy = {0};
    if (sample_dtype != CLQ_U8 && sample_dtype != CLQ_F32)
        return clq_fail(CLQ_ERROR_ARGUMENT, "samples in memory must be u8 or f32");
    CLQ_TRY(copy_in(sample_dtype, 2, (const size_t[]){dataset->whole, elements}, samples, &copy));
    const clq_status status = as_argument(clq_dataset_adopt_samples(dataset, "samples in memory", &copy));
    return status == CLQ_ERROR_MISMATCH ? CLQ_ERROR_ARGUMENT : status;
}

clq_status clq_dataset_set_weights(clq_dataset *dataset, const float *weights) {
    clq_array copy = {0};
    if (!weights) {
        forget_weights(dataset);
        return CLQ_OK;
    }
    CLQ_TRY(copy_in(CLQ_F32, 1, &dataset->whole, weights, &copy));
    return as_argument(clq_dataset_adopt_weights(dataset, "weights in memory", &copy));
}

void clq_dataset_destroy(clq_dataset *dataset) {
    if (!dataset) return;
    clq_pipeline_stop(dataset);
    for (unsigned i = 0; i < dataset->feed.count; i++) clq_array_release(&dataset->arrays[i]);
    clq_free(dataset);
}

clq_labels clq_batch_labels(const clq_batch *batch, size_t output) {
    if (output > 0) return batch->more_labels[output - 1];
    return (clq_labels){.values = batch->labels, .is_float = batch->float_labels, .elements = batch->label_elements};
}

const clq_dataset_info *clq_dataset_get_info(const clq_dataset *dataset) { return &dataset->info; }
