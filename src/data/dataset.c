/* A dataset: two checked arrays and their description. */
#include "data/checks.h"
#include "data/dataset.h"

#include <stdio.h>
#include <string.h>

/* A path may be longer than a name: its end says most. */
static void set_name(clq_dataset_info *info, const char *name) {
    size_t length = strlen(name), room = sizeof info->name - 1;
    if (length <= room)
        snprintf(info->name, sizeof info->name, "%s", name);
    else
        snprintf(info->name, sizeof info->name, "...%s", name + length - (room - 3));
}

/* samples: what messages call those. */
static clq_status check_labels(const clq_dataset *d, const char *samples, const char *where, clq_array *labels,
                               clq_labels_info *info) {
    if (labels->rank == 0 || labels->dims[0] != d->samples.dims[0])
        return clq_fail(CLQ_MISMATCH, "%s has %zu labels and %s has %zu samples: each sample needs one label", where,
                        labels->rank ? labels->dims[0] : 1, samples, d->samples.dims[0]);
    return clq_check_labels(where, labels, info);
}

/* Takes the labels over in any case. What is refused leaves the dataset, and a batch that was borrowed, as it was. */
static clq_status add_labels(clq_dataset *d, const char *samples, const char *where, clq_array *labels) {
    clq_labels_info described = {0};
    clq_status status = check_labels(d, samples, where, labels, &described);
    if (status != CLQ_OK) {
        clq_array_release(labels);
        return status;
    }
    clq_pipeline_stop(d); /* it reads what is added to */
    const size_t at = d->info.labels_count++;
    d->labels[at] = *labels;
    d->label_rows[at] =
        (clq_label_rows){.data = labels->data, .bytes = described.elements * clq_dtype_bytes(labels->dtype)};
    d->info.labels[at] = described;
    *labels = (clq_array){0};
    return CLQ_OK;
}

static clq_status describe(const clq_data_origin *origin, clq_dataset *d, clq_array *labels) {
    clq_dataset_info *info = &d->info;
    clq_status status = clq_check_samples(origin->samples, &d->samples);
    if (status != CLQ_OK) {
        clq_array_release(labels);
        return status;
    }
    CLQ_TRY(add_labels(d, origin->samples, origin->labels, labels));

    set_name(info, origin->name);
    info->float_labels = info->labels[0].is_float;
    info->label_elements = info->labels[0].elements;
    info->classes = info->labels[0].classes;
    info->label_least = info->labels[0].least;
    info->label_least_at = info->labels[0].least_at;
    info->samples = d->samples.dims[0];
    info->sample_dtype = d->samples.dtype;
    info->sample_elements = d->samples.count / d->samples.dims[0];
    info->rank = CLQ_MAX(d->samples.rank - 1, 1u); /* (n) is (n, 1) */
    info->shape[0] = 1;
    for (unsigned i = 1; i < d->samples.rank; i++) info->shape[i - 1] = d->samples.dims[i];
    d->sample_bytes = info->sample_elements * clq_dtype_bytes(info->sample_dtype);
    d->batch = 1;
    return CLQ_OK;
}

clq_status clq_dataset_adopt(const clq_data_origin *origin, clq_array *samples, clq_array *labels, clq_dataset **out) {
    clq_dataset *dataset = clq_alloc(1, sizeof *dataset);
    if (!dataset) {
        clq_array_release(samples);
        clq_array_release(labels);
        return CLQ_MEMORY;
    }
    dataset->samples = *samples;
    *samples = (clq_array){0};
    clq_status status = describe(origin, dataset, labels);
    if (status != CLQ_OK) {
        clq_dataset_destroy(dataset);
        return status;
    }
    *out = dataset;
    return CLQ_OK;
}

clq_status clq_dataset_adopt_labels(clq_dataset *dataset, const char *where, clq_array *labels) {
    clq_dataset_info *info = &dataset->info;
    if (info->labels_count == CLQ_MODEL_OUTPUTS_MAX) {
        clq_array_release(labels);
        return clq_fail(CLQ_UNSUPPORTED, "%s: it has labels for %d outputs, which is the most", info->name,
                        CLQ_MODEL_OUTPUTS_MAX);
    }
    CLQ_TRY(add_labels(dataset, info->name, where, labels));
    dataset->next = (clq_place){0};
    return CLQ_OK;
}

static clq_status copy_in(clq_dtype dtype, unsigned rank, const size_t *dims, const void *from, clq_array *out) {
    CLQ_TRY(clq_array_create(dtype, rank, dims, out));
    if (out->count > 0) memcpy(out->data, from, out->count * clq_dtype_bytes(dtype));
    return CLQ_OK;
}

static clq_status copy_labels_in(size_t n, const void *labels, clq_dtype dtype, size_t elements, clq_array *out) {
    if (dtype != CLQ_I32 && dtype != CLQ_F32) return clq_fail(CLQ_ARGUMENT, "labels in memory must be i32 or f32");
    return copy_in(dtype, 2, (const size_t[]){n, dtype == CLQ_I32 && elements == 0 ? 1 : elements}, labels, out);
}

/* There is no file: the caller chose these values. */
static clq_status as_argument(clq_status status) {
    return status == CLQ_FORMAT || status == CLQ_UNSUPPORTED ? CLQ_ARGUMENT : status;
}

clq_status clq_dataset_arrays(const void *samples, clq_dtype sample_dtype, size_t n, unsigned rank, const size_t *shape,
                              const void *labels, clq_dtype label_dtype, size_t label_elements, clq_dataset **out) {
    if (sample_dtype != CLQ_U8 && sample_dtype != CLQ_F32)
        return clq_fail(CLQ_ARGUMENT, "samples in memory must be u8 or f32");
    if (rank > CLQ_SHAPE_MAX) return clq_fail(CLQ_ARGUMENT, "a sample of rank %u: at most %d", rank, CLQ_SHAPE_MAX);
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
    CLQ_TRY(copy_labels_in(dataset->samples.dims[0], labels, label_dtype, label_elements, &copy));
    return as_argument(clq_dataset_adopt_labels(dataset, "labels in memory", &copy));
}

void clq_dataset_destroy(clq_dataset *dataset) {
    if (!dataset) return;
    clq_pipeline_stop(dataset);
    clq_array_release(&dataset->samples);
    for (size_t i = 0; i < dataset->info.labels_count; i++) clq_array_release(&dataset->labels[i]);
    clq_free(dataset);
}

clq_labels clq_batch_labels(const clq_batch *batch, size_t output) {
    if (output > 0) return batch->more_labels[output - 1];
    return (clq_labels){.values = batch->labels, .is_float = batch->float_labels, .elements = batch->label_elements};
}

const clq_dataset_info *clq_dataset_get_info(const clq_dataset *dataset) { return &dataset->info; }
