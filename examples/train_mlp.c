/* Trains an MLP on Fashion-MNIST on every GPU of the machine, or on its CPU if there is no GPU.
 *
 *     cc train_mlp.c -o train_mlp $(pkg-config --cflags --libs clique)
 *     ./train_mlp [DEVICES [DATA [STEPS]]]        e.g. ./train_mlp auto fashion-mnist 900 */
#include <clique/clique.h>

#include <stdlib.h>

static clq_status tell(void *context, const clq_progress *p) {
    (void)context;
    printf("step %llu  loss %.4f  accuracy %.4f\n", (unsigned long long)p->step, p->totals.loss,
           clq_metric_value(&p->totals.metrics, "accuracy"));
    return CLQ_OK;
}

int main(int argc, char **argv) {
    const char *spec = argc > 1 ? argv[1] : "auto", *data = argc > 2 ? argv[2] : "fashion-mnist";
    unsigned long long steps = argc > 3 ? strtoull(argv[3], NULL, 10) : 900;

    clq_system *system;
    clq_devices devices;
    CLQ_CHECK(clq_system_open(NULL, &system));
    CLQ_CHECK(clq_devices_select(system, spec, &devices));

    clq_model *model;
    CLQ_CHECK(clq_model_create("mlp", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(28, 28));
    x = clq_flatten(model, x, NULL);                                                                 /* (784) */
    x = clq_dense(model, x, &(clq_dense_config){.units = 128, .activation = CLQ_ACTIVATION_RELU});   /* (128) */
    x = clq_dense(model, x, &(clq_dense_config){.units = 10, .activation = CLQ_ACTIVATION_SOFTMAX}); /* (10) */
    CLQ_CHECK(clq_model_finish(model, x)); /* reports the first error in any line above */

    clq_dataset *train, *test;
    CLQ_CHECK(clq_dataset_open(data, "train", &train));
    CLQ_CHECK(clq_dataset_open(data, "test", &test));
    CLQ_CHECK(clq_dataset_shuffle(train, 60000, 0));
    CLQ_CHECK(clq_dataset_batch(train, 64, false));
    CLQ_CHECK(clq_dataset_prefetch(train, CLQ_PREFETCH_AUTO));
    CLQ_CHECK(clq_dataset_batch(test, 64, false));

    clq_trainer_config config = clq_trainer_config_default(); /* Adam, sparse cross-entropy, batch 64 */
    clq_trainer *trainer;
    CLQ_CHECK(clq_trainer_create(model, &devices, &config, &trainer));
    CLQ_CHECK(clq_fit(trainer, train, &(clq_fit_config){.steps = steps, .on_progress = tell}));

    clq_totals totals;
    CLQ_CHECK(clq_evaluate(trainer, test, &totals));
    printf("test accuracy %.4f on %zu samples, %u replicas\n", clq_metric_value(&totals.metrics, "accuracy"),
           totals.samples, clq_trainer_replicas(trainer));

    clq_trainer_destroy(trainer);
    clq_dataset_destroy(train);
    clq_dataset_destroy(test);
    clq_model_destroy(model);
    clq_system_close(system);
    return 0;
}
