/* Optimizers for single layers, as in fine-tuning: the first layer keeps its weights, the middle layers train with
 * small steps of SGD, and the last layer with Adam. All have the same schedule.
 *
 *     cc train_optimizers.c -o train_optimizers $(pkg-config --cflags --libs clique) -lm
 *     ./train_optimizers [DEVICES [DATA [STEPS [WEIGHTS]]]]        e.g. ./train_optimizers auto fashion-mnist 500 */
#include <clique/clique.h>

#include <math.h>
#include <stdlib.h>

/* Reads all variables of the model, one after the other. */
static int read_variables(clq_trainer *trainer, const clq_model *model, float *at) {
    for (size_t i = 0; i < clq_model_variable_count(model); i++) {
        clq_variable_info variable;
        CLQ_CHECK(clq_model_variable(model, i, &variable));
        CLQ_CHECK(clq_trainer_get_variable(trainer, i, at));
        at += variable.elements;
    }
    return 0;
}

static int tell_moves(const clq_model *model, const float *before, const float *after) {
    for (size_t i = 0, at = 0; i < clq_model_variable_count(model); i++) {
        clq_variable_info variable;
        double squares = 0;
        CLQ_CHECK(clq_model_variable(model, i, &variable));
        for (size_t end = at + variable.elements; at < end; at++) squares += pow((double)(after[at] - before[at]), 2);
        printf("%s moved by %.6f\n", variable.name, sqrt(squares));
    }
    return 0;
}

int main(int argc, char **argv) {
    const char *spec = argc > 1 ? argv[1] : "auto", *name = argc > 2 ? argv[2] : "fashion-mnist";
    unsigned long long steps = argc > 3 ? strtoull(argv[3], NULL, 10) : 500;

    clq_system *system;
    clq_devices devices;
    CLQ_CHECK(clq_system_open(NULL, &system));
    CLQ_CHECK(clq_devices_select(system, spec, &devices));

    clq_model *model;
    CLQ_CHECK(clq_model_builtin("cnn", &model)); /* conv2d, conv2d_1, dense */

    clq_dataset *train;
    CLQ_CHECK(clq_dataset_open(name, "train", &train));
    CLQ_CHECK(clq_dataset_shuffle(train, 60000, 0));
    CLQ_CHECK(clq_dataset_batch(train, 64, false));

    /* The first entry that matches a variable's name applies. '*' stands for any characters. */
    clq_optimizer_config optimizers[2] = {{.variables = "conv2d"}, {.variables = "conv*"}};
    CLQ_CHECK(clq_optimizer_parse("sgd:lr=0", &optimizers[0].optimizer));
    CLQ_CHECK(clq_optimizer_parse("sgd:lr=0.001,momentum=0.9", &optimizers[1].optimizer));
    clq_trainer *trainer;
    clq_trainer_config config = clq_trainer_config_default();
    CLQ_CHECK(clq_optimizer_parse("adam:lr=0.002", &config.optimizer));
    config.optimizers = optimizers;
    config.optimizer_count = sizeof optimizers / sizeof *optimizers;
    CLQ_CHECK(clq_lr_schedule_parse("cosine:decay_steps=500,alpha=0.1", &config.schedule));
    CLQ_CHECK(clq_trainer_create(model, &devices, &config, &trainer));
    if (argc > 4) CLQ_CHECK(clq_trainer_load(trainer, argv[4])); /* weights from an earlier training */

    const size_t elements = clq_model_parameter_count(model);
    float *before = malloc(elements * sizeof *before), *after = malloc(elements * sizeof *after);
    if (!before || !after) return 1;
    if (read_variables(trainer, model, before) != 0) return 1;
    CLQ_CHECK(clq_fit(trainer, train, &(clq_fit_config){.steps = steps}));
    if (read_variables(trainer, model, after) != 0 || tell_moves(model, before, after) != 0) return 1;

    free(before);
    free(after);
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(train);
    clq_model_destroy(model);
    clq_system_close(system);
    return 0;
}
