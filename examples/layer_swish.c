/* Swish with a trained beta, x sigmoid(beta x) (Ramachandran, Zoph and Le, 2017), as a layer made from an expression.
 * Clique derives the gradient from the expression, and runs both in the kernels of the neighboring layers.
 *
 *     cc layer_swish.c -o layer_swish $(pkg-config --cflags --libs clique)
 *     ./layer_swish [DEVICES [DATA [STEPS]]]        e.g. ./layer_swish auto fashion-mnist 900 */
#include <clique/clique.h>

#include <stdlib.h>
#include <string.h>

static clq_tensor swish(clq_model *model, clq_tensor x, const char *name) {
    const clq_expression_config config = {.variables = {{.name = "beta", .value = 1}}, .name = name};
    return clq_expression(model, "x * sigmoid(beta * x)", &x, 1, &config);
}

static clq_status network(clq_model *model) {
    clq_tensor x = clq_flatten(model, clq_input(model, CLQ_SHAPE(28, 28)), NULL);
    x = swish(model, clq_dense(model, x, &(clq_dense_config){.units = 64}), "swish");
    x = swish(model, clq_dense(model, x, &(clq_dense_config){.units = 64}), "swish_1");
    return clq_model_finish(
        model, clq_dense(model, x, &(clq_dense_config){.units = 10, .activation = CLQ_ACTIVATION_SOFTMAX}));
}

static clq_status tell_betas(clq_trainer *trainer, const clq_model *model) {
    for (size_t i = 0; i < clq_model_variable_count(model); i++) {
        clq_variable_info info;
        float beta;
        clq_status status = clq_model_variable(model, i, &info);
        if (status != CLQ_OK) return status;
        if (!strstr(info.name, "/beta")) continue;
        status = clq_trainer_get_variable(trainer, i, &beta);
        if (status != CLQ_OK) return status;
        printf("%s is %.4f\n", info.name, (double)beta);
    }
    return CLQ_OK;
}

int main(int argc, char **argv) {
    const char *spec = argc > 1 ? argv[1] : "auto", *name = argc > 2 ? argv[2] : "fashion-mnist";
    unsigned long long steps = argc > 3 ? strtoull(argv[3], NULL, 10) : 900;

    clq_system *system;
    clq_devices devices;
    CLQ_CHECK(clq_system_open(NULL, &system));
    CLQ_CHECK(clq_devices_select(system, spec, &devices));

    clq_model *model;
    CLQ_CHECK(clq_model_create("swish", &model));
    CLQ_CHECK(network(model)); /* reports an expression that is not valid */

    clq_dataset *train;
    CLQ_CHECK(clq_dataset_open(name, "train", &train));
    CLQ_CHECK(clq_dataset_shuffle(train, 60000, 0));
    CLQ_CHECK(clq_dataset_batch(train, 64, false));

    clq_trainer_config config = clq_trainer_config_default(); /* Adam, sparse cross-entropy, batch 64 */
    clq_trainer *trainer;
    clq_totals totals;
    CLQ_CHECK(clq_trainer_create(model, &devices, &config, &trainer));
    CLQ_CHECK(clq_fit(trainer, train, &(clq_fit_config){.steps = steps}));
    CLQ_CHECK(clq_evaluate(trainer, train, &totals));
    printf("loss %.4f  accuracy %.4f\n", totals.loss, clq_metric_value(&totals.metrics, "accuracy"));
    CLQ_CHECK(tell_betas(trainer, model));

    clq_trainer_destroy(trainer);
    clq_dataset_destroy(train);
    clq_model_destroy(model);
    clq_system_close(system);
    return 0;
}
