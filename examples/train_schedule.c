/* Trains with a learning rate that the program computes, a triangle that rises and falls (Smith, "Cyclical learning
 * rates for training neural networks", 2017). Also averages the weights over the updates; the averages then make the
 * predictions.
 *
 *     cc train_schedule.c -o train_schedule $(pkg-config --cflags --libs clique)
 *     ./train_schedule [DEVICES [DATA [STEPS]]]        e.g. ./train_schedule auto fashion-mnist 2000 */
#include <clique/clique.h>

#include <stdlib.h>

typedef struct triangle {
    double least, most;
    uint64_t half; /* steps from least to most */
} triangle;

/* The rate of update `step`, counted from 0. */
static double rate_of(void *context, uint64_t step) {
    const triangle *t = context;
    uint64_t at = step % (2 * t->half), from_least = at < t->half ? at : 2 * t->half - at;
    return t->least + (t->most - t->least) * (double)from_least / (double)t->half;
}

static clq_status tell(void *context, const clq_step_info *info) {
    (void)context;
    if (info->step % 25 == 0)
        printf("step %llu  lr %.5f  loss %.4f\n", (unsigned long long)info->step, info->lr, info->loss);
    return CLQ_OK;
}

int main(int argc, char **argv) {
    const char *spec = argc > 1 ? argv[1] : "auto", *name = argc > 2 ? argv[2] : "fashion-mnist";
    unsigned long long steps = argc > 3 ? strtoull(argv[3], NULL, 10) : 2000;

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

    triangle rates = {.least = 0.001, .most = 0.005, .half = 50};
    clq_trainer *trainer;
    clq_trainer_config config = clq_trainer_config_default();
    CLQ_CHECK(clq_optimizer_parse("adamw:weight_decay=0.01", &config.optimizer));
    config.no_decay = "bias";
    config.clip = (clq_clip){.kind = CLQ_CLIP_GLOBAL_NORM, .limit = 1};
    config.learning_rate = rate_of;
    config.learning_rate_context = &rates;
    config.average = 0.99;
    CLQ_CHECK(clq_trainer_create(model, &devices, &config, &trainer));
    CLQ_CHECK(clq_fit(trainer, train, &(clq_fit_config){.steps = steps, .on_log = tell}));

    clq_totals last, averaged;
    CLQ_CHECK(clq_evaluate(trainer, test, &last));
    CLQ_CHECK(clq_trainer_swap_average(trainer)); /* a second call would bring the last weights back */
    CLQ_CHECK(clq_evaluate(trainer, test, &averaged));
    printf("test loss by the last weights %.4f, by their averages %.4f\n", last.loss, averaged.loss);

    clq_trainer_destroy(trainer);
    clq_dataset_destroy(train);
    clq_dataset_destroy(test);
    clq_model_destroy(model);
    clq_system_close(system);
    return 0;
}
