/* Stops a training that no longer improves on the test set, and keeps the weights of its best epoch.
 *
 *     cc train_early_stopping.c -o train_early_stopping $(pkg-config --cflags --libs clique)
 *     ./train_early_stopping [DEVICES [DATA [EPOCHS]]]        e.g. ./train_early_stopping auto fashion-mnist 50 */
#include <clique/clique.h>

#include <stdlib.h>

static clq_status tell(void *context, const clq_epoch_info *epoch) {
    (void)context;
    printf("epoch %llu  loss %.4f  test loss %.4f\n", (unsigned long long)epoch->epoch + 1, epoch->train.loss,
           epoch->validation.loss);
    return CLQ_OK;
}

int main(int argc, char **argv) {
    const char *spec = argc > 1 ? argv[1] : "auto", *name = argc > 2 ? argv[2] : "fashion-mnist";
    unsigned long long epochs = argc > 3 ? strtoull(argv[3], NULL, 10) : 50;

    clq_system *system;
    clq_devices devices;
    CLQ_CHECK(clq_system_open(NULL, &system));
    CLQ_CHECK(clq_devices_select(system, spec, &devices));

    clq_model *model;
    CLQ_CHECK(clq_model_builtin("mlp", &model));

    clq_dataset *train, *test;
    CLQ_CHECK(clq_dataset_open(name, "train", &train));
    CLQ_CHECK(clq_dataset_open(name, "test", &test));
    CLQ_CHECK(clq_dataset_shuffle(train, 60000, 0));
    CLQ_CHECK(clq_dataset_batch(train, 64, false));
    CLQ_CHECK(clq_dataset_batch(test, 64, false));

    clq_trainer *trainer;
    clq_trainer_config config = clq_trainer_config_default(); /* Adam, batch 64 */
    CLQ_CHECK(clq_trainer_create(model, &devices, &config, &trainer));

    /* Training ends after two epochs in a row whose test loss is not at least 0.001 below the best one. After one such
     * epoch, the learning rate is halved. */
    clq_callback callbacks[2];
    const clq_early_stopping stopping = {.monitor = {.min_delta = 0.001}, .patience = 2, .restore_best_weights = true};
    clq_reduce_lr reduce = clq_reduce_lr_default();
    reduce.monitor.min_delta = 0.001;
    reduce.factor = 0.5;
    reduce.patience = 1;
    CLQ_CHECK(clq_callback_reduce_lr(&reduce, &callbacks[0]));
    CLQ_CHECK(clq_callback_early_stopping(&stopping, &callbacks[1]));
    CLQ_CHECK(clq_fit(
        trainer, train,
        &(clq_fit_config){
            .epochs = epochs, .validation = test, .on_epoch = tell, .callbacks = callbacks, .callback_count = 2}));

    clq_totals best;
    CLQ_CHECK(clq_evaluate(trainer, test, &best));
    clq_early_stopping_result found;
    CLQ_CHECK(clq_early_stopping_read(&callbacks[1], &found));
    printf("the weights of epoch %llu, the best: test loss %.4f\n", (unsigned long long)found.best_epoch + 1, best.loss);

    for (int i = 0; i < 2; i++) clq_callback_destroy(&callbacks[i]);
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(train);
    clq_dataset_destroy(test);
    clq_model_destroy(model);
    clq_system_close(system);
    return 0;
}
