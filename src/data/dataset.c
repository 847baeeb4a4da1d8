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

static clq_status describe(const clq_data_origin *origin, clq_dataset *d) {
    clq_dataset_info *info = &d->info;
    CLQ_TRY(clq_check_samples(origin->samples, &d->samples));
    if (d->labels.rank == 0 || d->labels.dims[0] != d->samples.dims[0])
        return clq_fail(CLQ_MISMATCH, "%s has %zu labels and %s has %zu samples: each sample needs one label",
                        origin->labels, d->labels.rank ? d->labels.dims[0] : 1, origin->samples, d->samples.dims[0]);
    CLQ_TRY(clq_check_labels(origin->labels, &d->labels, info));

    set_name(info, origin->name);
    info->samples = d->samples.dims[0];
    info->sample_dtype = d->samples.dtype;
    info->sample_elements = d->samples.count / d->samples.dims[0];
    info->rank = CLQ_MAX(d->samples.rank - 1, 1u); /* (n) is (n, 1) */
    info->shape[0] = 1;
    for (unsigned i = 1; i < d->samples.rank; i++) info->shape[i - 1] = d->samples.dims[i];
    d->sample_bytes = info->sample_elements * clq_dtype_bytes(info->sample_dtype);
    d->label_bytes = info->label_elements * clq_dtype_bytes(d->labels.dtype);
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
    dataset->labels = *labels;
    *samples = *labels = (clq_array){0};
    clq_status status = describe(origin, dataset);
    if (status != CLQ_OK) {
        clq_dataset_destroy(dataset);
        return status;
    }
    *out = dataset;
    return CLQ_OK;
}

static clq_status copy_in(clq_dtype dtype, unsigned rank, const size_t *dims, const void *from, clq_array *out) {
    CLQ_TRY(clq_array_create(dtype, rank, dims, out));
    if (out->count > 0) memcpy(out->data, from, out->count * clq_dtype_bytes(dtype));
    return CLQ_OK;
}

clq_status clq_dataset_arrays(const void *samples, clq_dtype sample_dtype, size_t n, unsigned rank, const size_t *shape,
                              const void *labels, clq_dtype label_dtype, size_t label_elements, clq_dataset **out) {
    if (sample_dtype != CLQ_U8 && sample_dtype != CLQ_F32)
        return clq_fail(CLQ_ARGUMENT, "samples in memory must be u8 or f32");
    if (label_dtype != CLQ_I32 && label_dtype != CLQ_F32)
        return clq_fail(CLQ_ARGUMENT, "labels in memory must be i32 or f32");
    if (rank > CLQ_SHAPE_MAX) return clq_fail(CLQ_ARGUMENT, "a sample of rank %u: at most %d", rank, CLQ_SHAPE_MAX);
    size_t sample_dims[CLQ_SHAPE_MAX + 1] = {n}, label_dims[2] = {n, label_elements};
    for (unsigned i = 0; i < rank; i++) sample_dims[i + 1] = shape[i];
    if (label_dtype == CLQ_I32 && label_elements == 0) label_dims[1] = 1;

    clq_array copies[2] = {{0}};
    clq_status status = copy_in(sample_dtype, rank + 1, sample_dims, samples, &copies[0]);
    if (status == CLQ_OK) status = copy_in(label_dtype, 2, label_dims, labels, &copies[1]);
    if (status != CLQ_OK) {
        clq_array_release(&copies[0]);
        return status;
    }
    const clq_data_origin origin = {.name = "arrays", .samples = "samples in memory", .labels = "labels in memory"};
    status = clq_dataset_adopt(&origin, &copies[0], &copies[1], out);
    return status == CLQ_FORMAT ? CLQ_ARGUMENT : status; /* there is no file: the caller chose these values */
}

void clq_dataset_destroy(clq_dataset *dataset) {
    if (!dataset) return;
    clq_pipeline_stop(dataset);
    clq_array_release(&dataset->samples);
    clq_array_release(&dataset->labels);
    clq_free(dataset);
}

const clq_dataset_info *clq_dataset_get_info(const clq_dataset *dataset) { return &dataset->info; }
