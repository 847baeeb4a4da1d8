/* Datasets whose batches come in parts, one for each replica. */
#include "train/distribute.h"

/* How far a replica's pipeline is in the turn under way. The next call continues a turn that failed. */
typedef enum place { WAITS, HAS_BATCH, ENDED } place;

struct clq_distributed_dataset {
    clq_trainer *trainer;
    unsigned replicas, pipelines;
    bool owned; /* clq_distributed_destroy destroys the pipelines, too */
    /* With one pipeline: how many samples each replica's part of a batch has; 0: as the strategy shares them out. */
    size_t part;
    bool all_or_none; /* with several: an epoch ends before a turn in which a replica gets nothing */
    place places[CLQ_REPLICAS_MAX];
    clq_dataset *datasets[CLQ_REPLICAS_MAX];
    /* What the caller gets. */
    clq_batch parts[CLQ_REPLICAS_MAX];
    clq_labels more_labels[CLQ_REPLICAS_MAX][CLQ_MODEL_OUTPUTS_MAX - 1];
    size_t total; /* samples */
};

/* ---- one pipeline ---- */

/* Makes `count` rows of a batch, from row `first` on, the replica's part of it. */
static void cut_part(clq_distributed_dataset *data, unsigned replica, const clq_batch *batch, size_t first,
                     size_t count) {
    clq_batch *part = &data->parts[replica];
    clq_labels *more = data->more_labels[replica];
    *part = *batch;
    part->count = count;
    part->samples =
        (const char *)batch->samples + first * clq_values_bytes(batch->sample_dtype, batch->sample_elements);
    for (size_t i = 0; i <= batch->more_count; i++) {
        clq_labels labels = clq_batch_labels(batch, i);
        const size_t bytes = clq_values_bytes(labels.is_float ? CLQ_F32 : CLQ_I32, labels.elements);
        labels.values = (const char *)labels.values + first * bytes;
        if (i > 0)
            more[i - 1] = labels;
        else
            part->labels = labels.values;
    }
    part->more_labels = more;
    if (batch->weights) part->weights = batch->weights + first;
}

static clq_status next_of_one(clq_distributed_dataset *data, bool *more) {
    size_t offsets[CLQ_REPLICAS_MAX], counts[CLQ_REPLICAS_MAX];
    clq_batch batch;
    CLQ_TRY(clq_dataset_next(data->datasets[0], &batch, more));
    if (!*more) return CLQ_OK;
    if (data->part == 0) clq_strategy_share_out(data->trainer->strategy, batch.count, offsets, counts);
    for (unsigned r = 0; r < data->replicas; r++) {
        if (data->part > 0) {
            offsets[r] = CLQ_MIN(r * data->part, batch.count);
            counts[r] = CLQ_MIN(data->part, batch.count - offsets[r]);
        }
        cut_part(data, r, &batch, offsets[r], counts[r]);
    }
    data->total = batch.count;
    return CLQ_OK;
}

/* ---- a pipeline for each replica ---- */

/* Moves every pipeline to the first batch of its next epoch. */
static clq_status end_epoch(clq_distributed_dataset *data) {
    for (unsigned r = 0; r < data->replicas; r++) {
        uint64_t epoch, index;
        clq_dataset_tell(data->datasets[r], &epoch, &index);
        if (data->places[r] != ENDED) CLQ_TRY(clq_dataset_seek(data->datasets[r], epoch + 1, 0));
        data->places[r] = ENDED;
    }
    for (unsigned r = 0; r < data->replicas; r++) data->places[r] = WAITS;
    return CLQ_OK;
}

static clq_status next_of_each(clq_distributed_dataset *data, bool *more) {
    unsigned got = 0;
    data->total = 0;
    for (unsigned r = 0; r < data->replicas; r++) {
        clq_batch *part = &data->parts[r];
        bool any = true;
        if (data->places[r] == WAITS) {
            CLQ_TRY(clq_dataset_next(data->datasets[r], part, &any));
            data->places[r] = any ? HAS_BATCH : ENDED;
        }
        if (data->places[r] == ENDED) *part = (clq_batch){.count = 0};
        data->total += part->count;
        got += data->places[r] == HAS_BATCH;
    }
    *more = data->all_or_none ? got == data->replicas : got > 0;
    if (!*more) return end_epoch(data);
    for (unsigned r = 0; r < data->replicas; r++)
        if (data->places[r] == HAS_BATCH) data->places[r] = WAITS;
    return CLQ_OK;
}

clq_status clq_distributed_next(clq_distributed_dataset *data, clq_distributed_batch *batch, bool *more) {
    bool any;
    CLQ_TRY(data->pipelines == 1 ? next_of_one(data, &any) : next_of_each(data, &any));
    if (any) *batch = (clq_distributed_batch){.replicas = data->replicas, .parts = data->parts, .count = data->total};
    *more = any;
    return CLQ_OK;
}

/* ---- life ---- */

static clq_status create(clq_trainer *trainer, unsigned pipelines, bool owned, clq_distributed_dataset **out) {
    clq_distributed_dataset *data = clq_alloc(1, sizeof *data);
    if (!data) return CLQ_ERROR_MEMORY;
    data->trainer = trainer;
    data->replicas = clq_trainer_replicas(trainer);
    data->pipelines = pipelines;
    data->owned = owned;
    *out = data;
    return CLQ_OK;
}

void clq_distributed_destroy(clq_distributed_dataset *data) {
    if (!data) return;
    for (unsigned p = 0; p < data->pipelines && data->owned; p++) clq_dataset_destroy(data->datasets[p]);
    clq_free(data);
}

clq_status clq_distribute_dataset(clq_trainer *trainer, clq_dataset *dataset, clq_distributed_dataset **out) {
    CLQ_TRY(clq_trainer_check_dataset(trainer, dataset, true));
    CLQ_TRY(create(trainer, 1, false, out));
    (*out)->datasets[0] = dataset;
    return CLQ_OK;
}

clq_status clq_input_batch_per_replica(const clq_input_context *input, size_t global_batch, size_t *out) {
    if (input->replicas < 1 || input->replicas > CLQ_REPLICAS_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT, "an input for %u replicas: expected 1 to %d", input->replicas,
                        CLQ_REPLICAS_MAX);
    if (global_batch == 0 || global_batch % input->replicas != 0)
        return clq_fail(CLQ_ERROR_ARGUMENT, "a global batch of %zu cannot be divided evenly by %u replicas",
                        global_batch, input->replicas);
    *out = global_batch / input->replicas;
    return CLQ_OK;
}

/* Checks that each replica has room for a batch of its pipeline, and that all batches of a turn fit into the global
 * batch. */
static clq_status check_pipelines(const clq_distributed_dataset *data) {
    const size_t most = data->trainer->config.global_batch;
    size_t total = 0;
    for (unsigned r = 0; r < data->replicas; r++) {
        const clq_dataset *dataset = data->datasets[data->pipelines == 1 ? 0 : r];
        const size_t batch = clq_dataset_batch_size(dataset), room = clq_strategy_capacity(data->trainer->strategy, r);
        const char *name = clq_dataset_get_info(dataset)->name;
        CLQ_TRY(clq_trainer_check_dataset(data->trainer, dataset, true));
        if (batch > room)
            return clq_fail(CLQ_ERROR_ARGUMENT,
                            "%s: replica %u takes at most %zu sample%s at once, and the batch is %zu", name, r, room,
                            clq_plural(room), batch);
        total += batch;
    }
    if (total <= most) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "the batches of %u replicas have %zu samples, and the global batch is %zu",
                    data->replicas, total, most);
}

/* With one pipeline: multiplies its batch by the number of replicas, each of which gets a part of the former size, so
 * that one batch serves a turn. An incomplete turn is the remainder, which the pipeline may drop. */
static clq_status take_turns(clq_distributed_dataset *data) {
    clq_dataset *dataset = data->datasets[0];
    data->part = clq_dataset_batch_size(dataset);
    return clq_dataset_batch(dataset, data->part * data->replicas, clq_dataset_drops_remainder(dataset));
}

/* Checks the dataset that the function made for pipeline p. */
static clq_status check_made(clq_distributed_dataset *data, unsigned p) {
    bool again = false;
    if (!data->datasets[p]) return clq_fail(CLQ_ERROR_ARGUMENT, "the function made no dataset for pipeline %u", p);
    for (unsigned i = 0; i < p; i++) again = again || data->datasets[i] == data->datasets[p];
    if (!again) return CLQ_OK;
    data->datasets[p] = NULL; /* so that it is destroyed only once */
    return clq_fail(CLQ_ERROR_ARGUMENT, "pipeline %u got the dataset of another pipeline: make one for each", p);
}

static clq_status make_pipelines(clq_distributed_dataset *data, clq_dataset_function function, void *context) {
    data->all_or_none = true;
    for (unsigned p = 0; p < data->pipelines; p++) {
        const clq_input_context input = {.index = p, .pipelines = data->pipelines, .replicas = data->replicas};
        CLQ_TRY(CLQ_ASK(function(context, &input, &data->datasets[p]), "the function that makes pipeline %u", p));
        CLQ_TRY(check_made(data, p));
        data->all_or_none = data->all_or_none && clq_dataset_drops_remainder(data->datasets[p]);
    }
    CLQ_TRY(check_pipelines(data));
    return data->pipelines == 1 ? take_turns(data) : CLQ_OK;
}

clq_status clq_distribute_function(clq_trainer *trainer, clq_input_replication replication,
                                   clq_dataset_function function, void *context, clq_distributed_dataset **out) {
    clq_distributed_dataset *data;
    if (replication != CLQ_INPUT_PER_WORKER && replication != CLQ_INPUT_PER_REPLICA)
        return clq_fail(CLQ_ERROR_ARGUMENT, "replication %d is none of clq_input_replication", (int)replication);
    CLQ_TRY(create(trainer, replication == CLQ_INPUT_PER_WORKER ? 1 : clq_trainer_replicas(trainer), true, &data));
    clq_status status = make_pipelines(data, function, context);
    if (status != CLQ_OK)
        clq_distributed_destroy(data);
    else
        *out = data;
    return status;
}
