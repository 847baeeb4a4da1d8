/* Changes the learning rate in a loop: the rate rises over the first steps, and is halved after each epoch, as with
 * tf.keras's callback LearningRateScheduler.
 *
 *     cc loop_rate.c -o loop_rate $(pkg-config --cflags --libs clique)
 *     ./loop_rate [DEVICES [DATA [EPOCHS]]]        e.g. ./loop_rate auto fashion-mnist 5 */
#include <clique/clique.h>

#include <math.h>
#include <stdlib.h>

enum { BATCH = 64, WARMUP = 20 };

/* The learning rate in a step and an epoch, both counted from 0. */
static double rate_of(unsigned long step, unsigned long epoch) {
    const double highest = 0.004;
    return step < WARMUP ? highest * (double)(step + 1) / WARMUP : ldexp(highest, -(int)epoch);
}

/* The host sets each step's rate and hands over one step after the other. It does not wait for the devices. */
static clq_status train_epoch(clq_trainer *trainer, clq_dataset *data, unsigned long epoch, unsigned long *step) {
    for (;;) {
        clq_batch batch;
        bool more;
        clq_status status = clq_dataset_next(data, &batch, &more);
        if (status == CLQ_OK && !more) return CLQ_OK;
        if (status == CLQ_OK) status = clq_trainer_set_learning_rate(trainer, rate_of((*step)++, epoch));
        if (status == CLQ_OK) status = clq_step(trainer, &batch);
        if (status != CLQ_OK) return status;
    }
}

int main(int argc, char **argv) {
    const char *spec = argc > 1 ? argv[1] : "auto", *name = argc > 2 ? argv[2] : "fashion-mnist";
    unsigned long epochs = argc > 3 ? strtoul(argv[3], NULL, 10) : 5, step = 0;

    clq_system *system;
    clq_devices devices;
    CLQ_CHECK(clq_system_open(NULL, &system));
    CLQ_CHECK(clq_devices_select(system, spec, &devices));

    clq_model *model;
    CLQ_CHECK(clq_model_builtin("mlp", &model));
    clq_dataset *data;
    CLQ_CHECK(clq_dataset_open(name, "train", &data));
    CLQ_CHECK(clq_dataset_shuffle(data, 60000, 0));
    CLQ_CHECK(clq_dataset_batch(data, BATCH, false));
    CLQ_CHECK(clq_dataset_prefetch(data, CLQ_PREFETCH_AUTO));

    clq_trainer_config config = clq_trainer_config_default(); /* Adam, without a schedule */
    config.global_batch = BATCH;
    clq_trainer *trainer;
    CLQ_CHECK(clq_trainer_create(model, &devices, &config, &trainer));

    for (unsigned long epoch = 0; epoch < epochs; epoch++) {
        clq_step_info info; /* for the epoch's last step */
        CLQ_CHECK(train_epoch(trainer, data, epoch, &step));
        CLQ_CHECK(clq_step_read(trainer, &info));
        printf("epoch %lu  step %llu  lr %g  loss %.4f\n", epoch + 1, (unsigned long long)info.step, info.lr,
               info.loss);
    }

    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
    clq_system_close(system);
    return 0;
}
