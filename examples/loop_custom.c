/* A custom training loop, as in tf.distribute: each replica computes the gradient of its part of the batch, with the
 * loss scaled by one over the global batch, and writes its part of the mean loss to a value per replica.
 *
 *     cc loop_custom.c -o loop_custom $(pkg-config --cflags --libs clique)
 *     ./loop_custom [DEVICES [DATA [EPOCHS]]]        e.g. ./loop_custom auto fashion-mnist 2 */
#include <clique/clique.h>

#include <stdlib.h>

enum { BATCH = 64 };

/* Runs in the thread of each replica, at the same time. A replica whose part is empty runs it, too. */
static clq_status train_step(clq_replica_context *replica, void *context) {
    clq_per_replica *losses = context;
    clq_totals totals; /* for the replica's part: the mean loss over its samples */
    const double scale = 1.0 / (double)replica->global_count;
    clq_status status = clq_replica_gradients(replica, scale);
    if (status == CLQ_OK) status = clq_replica_read(replica, &totals);
    if (status == CLQ_OK) *clq_per_replica_of(losses, replica->index) = totals.loss * (double)totals.samples * scale;
    return status;
}

/* *mean: the epoch's mean loss over the batches. */
static clq_status train_epoch(clq_trainer *trainer, clq_distributed_dataset *data, clq_per_replica *losses,
                              double *mean) {
    clq_distributed_batch batch;
    bool more;
    double sum = 0, loss;
    size_t batches = 0;
    for (;;) {
        clq_status status = clq_distributed_next(data, &batch, &more);
        if (status == CLQ_OK && !more) break;
        if (status == CLQ_OK) status = clq_run(trainer, &batch, train_step, losses);
        if (status == CLQ_OK) status = clq_step_reduce(trainer); /* sums the gradients over the replicas */
        if (status == CLQ_OK) status = clq_step_apply(trainer);
        if (status == CLQ_OK) status = clq_per_replica_reduce(losses, CLQ_REDUCE_SUM, CLQ_NO_AXIS, &loss, 1);
        if (status != CLQ_OK) return status;
        sum += loss; /* the mean over the global batch */
        batches++;
    }
    *mean = batches ? sum / (double)batches : 0;
    return CLQ_OK;
}

int main(int argc, char **argv) {
    const char *spec = argc > 1 ? argv[1] : "auto", *name = argc > 2 ? argv[2] : "fashion-mnist";
    unsigned long epochs = argc > 3 ? strtoul(argv[3], NULL, 10) : 2;

    clq_system *system;
    clq_devices devices;
    CLQ_CHECK(clq_system_open(NULL, &system));
    CLQ_CHECK(clq_devices_select(system, spec, &devices));

    clq_model *model;
    CLQ_CHECK(clq_model_create("mlp", &model));
    clq_tensor x = clq_flatten(model, clq_input(model, CLQ_SHAPE(28, 28)), NULL);
    x = clq_dense(model, x, &(clq_dense_config){.units = 128, .activation = CLQ_ACTIVATION_RELU});
    x = clq_dense(model, x, &(clq_dense_config){.units = 10, .activation = CLQ_ACTIVATION_SOFTMAX});
    CLQ_CHECK(clq_model_finish(model, x));

    clq_trainer_config config = clq_trainer_config_default(); /* Adam, sparse cross-entropy, u8 samples */
    config.global_batch = BATCH;
    clq_trainer *trainer;
    CLQ_CHECK(clq_trainer_create(model, &devices, &config, &trainer));

    clq_dataset *train; /* a pipeline of global batches */
    CLQ_CHECK(clq_dataset_open(name, "train", &train));
    CLQ_CHECK(clq_dataset_shuffle(train, 60000, 0));
    CLQ_CHECK(clq_dataset_batch(train, BATCH, false));
    CLQ_CHECK(clq_dataset_prefetch(train, CLQ_PREFETCH_AUTO));
    clq_distributed_dataset *data; /* the same batches, with a part for each replica */
    CLQ_CHECK(clq_distribute_dataset(trainer, train, &data));

    clq_per_replica *losses; /* a number for each replica */
    CLQ_CHECK(clq_per_replica_create(clq_trainer_replicas(trainer), 0, NULL, &losses));
    for (unsigned long epoch = 1; epoch <= epochs; epoch++) {
        double loss;
        CLQ_CHECK(train_epoch(trainer, data, losses, &loss));
        printf("epoch %lu  loss %.4f\n", epoch, loss);
    }

    clq_per_replica_destroy(losses);
    clq_distributed_destroy(data);
    clq_dataset_destroy(train);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
    clq_system_close(system);
    return 0;
}
