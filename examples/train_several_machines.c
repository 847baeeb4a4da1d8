/* Trains a CNN on the devices of several machines as one mirrored training. Without a launcher, it trains on this
 * machine alone.
 *
 *     cc train_several_machines.c -o train $(pkg-config --cflags --libs clique)
 *     mpirun -n 2 --host n1,n2 ./train [DEVICES [DATA [EPOCHS]]]       e.g. auto fashion-mnist 5 */
#include <clique/clique.h>

#include <stdlib.h>

static clq_world *world;

/* Tells the other processes why this one ends, so that they fail at once. */
static void check(clq_status status) {
    if (status == CLQ_OK) return;
    fprintf(stderr, "%s: %s\n", clq_world_name(world, clq_world_rank(world)), clq_error_detail());
    clq_world_abort(world, clq_error_detail());
    clq_world_close(world);
    exit(1);
}

/* The totals cover all processes and are the same in each. */
static clq_status tell_epoch(void *context, const clq_epoch_info *info) {
    (void)context;
    if (clq_world_rank(world) > 0) return CLQ_OK;
    printf("epoch %llu  loss %.4f  accuracy %.4f  test accuracy %.4f\n", (unsigned long long)info->epoch + 1,
           info->train.loss, clq_metric_value(&info->train.metrics, "accuracy"),
           clq_metric_value(&info->validation.metrics, "accuracy"));
    return CLQ_OK;
}

int main(int argc, char **argv) {
    const char *spec = argc > 1 ? argv[1] : "auto", *data = argc > 2 ? argv[2] : "fashion-mnist";
    const uint64_t epochs = argc > 3 ? strtoull(argv[3], NULL, 10) : 5;
    check(clq_world_open(NULL, &world));

    clq_system *system;
    clq_devices devices;
    clq_model *model;
    check(clq_system_open(NULL, &system));
    check(clq_devices_select(system, spec, &devices)); /* on this process's machine */
    check(clq_model_builtin("cnn", &model));

    /* Each process reads the whole set in the same order and takes its own rows from each batch. */
    clq_dataset *train, *test;
    check(clq_dataset_open(data, "train", &train));
    check(clq_dataset_open(data, "test", &test));
    check(clq_dataset_shuffle(train, 60000, 0));
    check(clq_dataset_batch(train, 64, false));
    check(clq_dataset_batch(test, 64, false));

    clq_trainer_config config = clq_trainer_config_default();
    clq_trainer *trainer;
    config.global_batch = 64; /* for all processes together */
    config.world = world;
    check(clq_trainer_create(model, &devices, &config, &trainer));
    check(clq_fit(trainer, train, &(clq_fit_config){.epochs = epochs, .validation = test, .on_epoch = tell_epoch}));

    clq_trainer_destroy(trainer);
    clq_dataset_destroy(train);
    clq_dataset_destroy(test);
    clq_model_destroy(model);
    clq_system_close(system);
    clq_world_close(world);
    return 0;
}
