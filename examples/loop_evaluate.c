/* Evaluates while it trains: after every few steps, each replica evaluates its part of the test set, and adds loss and
 * metrics to its own sums. Reading the sums adds up those of all replicas. Each replica has a pipeline of its own for
 * the training data, which a function makes.
 *
 *     cc loop_evaluate.c -o loop_evaluate $(pkg-config --cflags --libs clique)
 *     ./loop_evaluate [DEVICES [DATA [STEPS]]]        e.g. ./loop_evaluate auto fashion-mnist 900 */
#include <clique/clique.h>

#include <stdlib.h>

enum { EVERY = 10, BATCH = 64 };

static clq_status train_step(clq_replica_context *replica, void *context) {
    (void)context;
    return clq_replica_gradients(replica, 1.0 / (double)replica->global_count);
}

static clq_status evaluate_step(clq_replica_context *replica, void *sums) {
    clq_status status = clq_replica_evaluate(replica);
    return status == CLQ_OK ? clq_metric_sums_add(sums, replica) : status;
}

/* Each replica shuffles all samples in an order of its own, so the replicas need not wait for one common pipeline. */
static clq_status make_pipeline(void *name, const clq_input_context *input, clq_dataset **out) {
    size_t batch;
    clq_status status = clq_input_batch_per_replica(input, BATCH, &batch);
    if (status == CLQ_OK) status = clq_dataset_open(name, "train", out);
    if (status == CLQ_OK) status = clq_dataset_shuffle(*out, 60000, input->index);
    return status == CLQ_OK ? clq_dataset_batch(*out, batch, true) : status;
}

/* Evaluates the whole test set. */
static clq_status evaluate(clq_trainer *trainer, clq_distributed_dataset *test, clq_metric_sums *sums) {
    clq_distributed_batch batch;
    bool more = true;
    clq_status status = CLQ_OK;
    clq_metric_sums_reset(sums);
    while (status == CLQ_OK && more) {
        status = clq_distributed_next(test, &batch, &more);
        if (status == CLQ_OK && more) status = clq_run_evaluation(trainer, &batch, evaluate_step, sums);
    }
    return status;
}

int main(int argc, char **argv) {
    char *spec = argc > 1 ? argv[1] : "auto", *name = argc > 2 ? argv[2] : "fashion-mnist";
    unsigned long steps = argc > 3 ? strtoul(argv[3], NULL, 10) : 900;

    clq_system *system;
    clq_devices devices;
    CLQ_CHECK(clq_system_open(NULL, &system));
    CLQ_CHECK(clq_devices_select(system, spec, &devices));

    clq_model *model;
    CLQ_CHECK(clq_model_builtin("mlp", &model));
    clq_trainer_config config = clq_trainer_config_default();
    config.global_batch = BATCH;
    clq_trainer *trainer;
    CLQ_CHECK(clq_trainer_create(model, &devices, &config, &trainer));

    clq_distributed_dataset *train, *test_parts;
    clq_dataset *test;
    CLQ_CHECK(clq_distribute_function(trainer, CLQ_INPUT_PER_REPLICA, make_pipeline, name, &train));
    CLQ_CHECK(clq_dataset_open(name, "test", &test));
    CLQ_CHECK(clq_dataset_batch(test, BATCH, false));
    CLQ_CHECK(clq_distribute_dataset(trainer, test, &test_parts));

    clq_metric_sums *sums;
    CLQ_CHECK(clq_metric_sums_create(trainer, &sums));
    for (unsigned long step = 1; step <= steps; step++) {
        clq_distributed_batch batch;
        bool more;
        CLQ_CHECK(clq_distributed_next(train, &batch, &more));
        if (!more) CLQ_CHECK(clq_distributed_next(train, &batch, &more)); /* the next epoch */
        CLQ_CHECK(clq_run(trainer, &batch, train_step, NULL));
        CLQ_CHECK(clq_step_reduce(trainer));
        CLQ_CHECK(clq_step_apply(trainer));
        if (step % EVERY != 0) continue;
        clq_totals totals;
        CLQ_CHECK(evaluate(trainer, test_parts, sums));
        clq_metric_sums_read(sums, &totals);
        printf("step %lu  test loss %.4f  accuracy %.4f of %zu\n", step, totals.loss,
               clq_metric_value(&totals.metrics, "accuracy"), totals.samples);
    }

    clq_metric_sums_destroy(sums);
    clq_distributed_destroy(train);
    clq_distributed_destroy(test_parts);
    clq_dataset_destroy(test);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
    clq_system_close(system);
    return 0;
}
