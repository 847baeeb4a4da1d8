/* Trains a small residual network on Fashion-MNIST: branches, BatchNormalization, GlobalAveragePooling2D and Dropout.
 *
 *     cc train_residual.c -o train_residual $(pkg-config --cflags --libs clique)
 *     ./train_residual [DEVICES [DATA [STEPS]]]        e.g. ./train_residual auto fashion-mnist 900 */
#include <clique/clique.h>

#include <stdlib.h>

/* relu(x + f(x)); f keeps x's shape. */
static clq_tensor residual_block(clq_model *model, clq_tensor x, size_t channels) {
    const clq_conv2d_config conv = {
        .filters = channels, .kernel = {3, 3}, .padding = CLQ_PADDING_SAME, .no_bias = true};
    clq_tensor y = clq_batch_norm(model, clq_conv2d(model, x, &conv), NULL);
    y = clq_conv2d(model, clq_activate(model, y, CLQ_ACTIVATION_RELU, NULL), &conv);
    y = clq_add(model, CLQ_TENSORS(x, clq_batch_norm(model, y, NULL)), NULL);
    return clq_activate(model, y, CLQ_ACTIVATION_RELU, NULL);
}

static clq_tensor residual_network(clq_model *model) {
    clq_tensor x = clq_reshape(model, clq_input(model, CLQ_SHAPE(28, 28)), CLQ_SHAPE(28, 28, 1), NULL);
    x = clq_conv2d(model, x,
                   &(clq_conv2d_config){.filters = 16, .kernel = {3, 3}, .strides = {2, 2}}); /* (13, 13, 16) */
    x = residual_block(model, residual_block(model, x, 16), 16);
    x = clq_global_average_pool2d(model, x, false, NULL); /* (16) */
    x = clq_dropout(model, x, &(clq_dropout_config){.rate = 0.1});
    return clq_dense(model, x, &(clq_dense_config){.units = 10, .activation = CLQ_ACTIVATION_SOFTMAX}); /* (10) */
}

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
    CLQ_CHECK(clq_model_create("residual", &model));
    CLQ_CHECK(clq_model_finish(model, residual_network(model))); /* reports the first error in any line above */

    clq_dataset *train, *test;
    CLQ_CHECK(clq_dataset_open(data, "train", &train));
    CLQ_CHECK(clq_dataset_open(data, "test", &test));
    CLQ_CHECK(clq_dataset_shuffle(train, 60000, 0));
    CLQ_CHECK(clq_dataset_batch(train, 64, false));
    CLQ_CHECK(clq_dataset_batch(test, 64, false));

    clq_trainer_config config = clq_trainer_config_default(); /* Adam, sparse cross-entropy, batch 64 */
    clq_trainer *trainer;
    CLQ_CHECK(clq_trainer_create(model, &devices, &config, &trainer));
    CLQ_CHECK(clq_fit(trainer, train, &(clq_fit_config){.steps = steps, .on_progress = tell}));

    clq_totals totals; /* with the moving statistics and without dropout */
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
