/* The stages of a pipeline, which are set before it runs. Setting a stage starts over at the first batch of epoch 0. */
#include "data/dataset.h"

void clq_dataset_start_over(clq_dataset *dataset) {
    clq_pipeline_stop(dataset);
    dataset->part = (clq_data_part){0};
    dataset->next = (clq_place){0};
}

void clq_dataset_count(clq_dataset *dataset) {
    if (dataset->window) dataset->whole = clq_windows(dataset);
    dataset->info.samples = dataset->most ? CLQ_MIN(dataset->most, dataset->whole) : dataset->whole;
}

clq_status clq_dataset_take(clq_dataset *dataset, size_t samples) {
    if (samples == 0) return clq_fail(CLQ_ERROR_ARGUMENT, "%s: take at least 1 sample", dataset->info.name);
    clq_dataset_start_over(dataset);
    dataset->most = samples;
    clq_dataset_count(dataset);
    return CLQ_OK;
}

void clq_dataset_stages(const clq_dataset *dataset, size_t *batch, size_t *buffer) {
    *batch = dataset->batch;
    *buffer = dataset->buffer;
}

/* Adds data to a hash. The lower 64 of the 128 bits so far are the seed of the data's hash. */
static void add_hash(clq_hash128 *hash, const void *data, size_t bytes) {
    const clq_hash128 one = clq_hash128_of(data, bytes, hash->low);
    *hash = (clq_hash128){.low = one.low, .high = hash->high ^ one.high};
}

clq_hash128 clq_dataset_fingerprint(const clq_dataset *d, bool values) {
    size_t rows;
    (void)clq_dataset_samples(d, &rows); /* a shuffled text has one window more */
    const size_t samples = values ? d->info.samples : 0;
    const uint64_t stages[] = {samples, d->batch, d->buffer, d->buffer ? d->seed : 0, d->drop_remainder};
    clq_hash128 hash = {0};
    add_hash(&hash, stages, sizeof stages);
    for (unsigned i = 0; i < d->feed.count; i++) {
        const clq_feed_array *array = &d->feed.arrays[i];
        const uint64_t kind[] = {array->role, array->index, array->dtype, array->bytes};
        add_hash(&hash, kind, sizeof kind);
        if (values) add_hash(&hash, d->values[i], rows * array->bytes);
    }
    return hash;
}

clq_status clq_dataset_shuffle(clq_dataset *dataset, size_t buffer, uint64_t seed) {
    clq_dataset_start_over(dataset);
    dataset->buffer = buffer;
    dataset->seed = seed;
    clq_dataset_count(dataset);
    return CLQ_OK;
}

clq_status clq_dataset_batch(clq_dataset *dataset, size_t batch, bool drop_remainder) {
    if (batch == 0) return clq_fail(CLQ_ERROR_ARGUMENT, "%s: a batch has at least 1 sample", dataset->info.name);
    clq_dataset_start_over(dataset);
    dataset->batch = batch;
    dataset->drop_remainder = drop_remainder;
    return CLQ_OK;
}

clq_status clq_dataset_prefetch(clq_dataset *dataset, int batches) {
    if (batches < 0 && batches != CLQ_PREFETCH_AUTO)
        return clq_fail(CLQ_ERROR_ARGUMENT, "%s: %d batches ahead: 0 is none, CLQ_PREFETCH_AUTO chooses",
                        dataset->info.name, batches);
    clq_dataset_start_over(dataset);
    dataset->ahead = batches;
    return CLQ_OK;
}

clq_status clq_dataset_seek(clq_dataset *dataset, uint64_t epoch, uint64_t index) {
    size_t batches = clq_dataset_batches(dataset);
    if (index > batches)
        return clq_fail(CLQ_ERROR_ARGUMENT, "%s: batch %llu is out of range: an epoch has %zu", dataset->info.name,
                        (unsigned long long)index, batches);
    clq_pipeline_stop(dataset);
    dataset->next = (clq_place){epoch, index};
    return CLQ_OK;
}

void clq_dataset_tell(const clq_dataset *dataset, uint64_t *epoch, uint64_t *index) {
    *epoch = dataset->next.epoch;
    *index = dataset->next.index;
}

size_t clq_dataset_rows(const clq_dataset *dataset) {
    return dataset->part.batch > 0 ? dataset->part.batch : dataset->batch;
}

size_t clq_dataset_batches(const clq_dataset *dataset) {
    const size_t samples = dataset->info.samples, rows = clq_dataset_rows(dataset);
    const size_t batches = dataset->drop_remainder ? samples / rows : clq_ceil_div(samples, rows);
    return dataset->part.batches > 0 ? CLQ_MIN(batches, (size_t)dataset->part.batches) : batches;
}

clq_data_part clq_dataset_part(const clq_dataset *dataset) { return dataset->part; }

void clq_dataset_set_part(clq_dataset *dataset, const clq_data_part *part) {
    const clq_data_part *now = &dataset->part;
    if (now->batch == part->batch && now->batches == part->batches && now->seed == part->seed) return;
    clq_pipeline_stop(dataset);
    dataset->part = *part;
    dataset->next.index = CLQ_MIN(dataset->next.index, (uint64_t)clq_dataset_batches(dataset));
}

size_t clq_dataset_batch_size(const clq_dataset *dataset) { return dataset->batch; }

bool clq_dataset_drops_remainder(const clq_dataset *dataset) { return dataset->drop_remainder; }
