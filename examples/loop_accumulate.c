/* Accumulates gradients by hand: four batches make one update, which equals that of one batch four times as large. The
 * replicas exchange gradients once for each update. The last update of an epoch may have fewer batches.
 *
 *     cc loop_accumulate.c -o loop_accumulate $(pkg-config --cflags --libs clique)
 *     ./loop_accumulate [DEVICES [DATA [EPOCHS]]]        e.g. ./loop_accumulate auto fashion-mnist 2 */
#include <clique/clique.h>

#include <stdlib.h>

enum { BATCH = 64, BATCHES = 4 };

/* Each update uses the mean gradient over all samples in its batches, also if the last batch is smaller. */
static clq_status train_epoch(clq_trainer *trainer, clq_dataset *data, double *loss, size_t *samples) {
    const size_t batches = clq_dataset_batches(data);
    double sum = 0;
    *samples = 0;
    for (;;) {
        clq_batch batch;
        clq_step_info info;
        bool more;
        clq_status status = clq_dataset_next(data, &batch, &more);
        if (status == CLQ_OK && !more) break;
        const bool ends = (batch.index + 1) % BATCHES == 0 || batch.index + 1 == batches;
        if (status == CLQ_OK) status = ends ? clq_step(trainer, &batch) : clq_step_accumulate(trainer, &batch);
        if (status == CLQ_OK && ends) status = clq_step_read(trainer, &info); /* for all batches of the update */
        if (status != CLQ_OK) return status;
        if (!ends) continue;
        sum += info.loss * (double)info.samples;
        *samples += info.samples;
    }
    *loss = sum / (double)*samples;
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
    CLQ_CHECK(clq_model_builtin("mlp", &model));
    clq_dataset *data;
    CLQ_CHECK(clq_dataset_open(name, "train", &data));
    CLQ_CHECK(clq_dataset_shuffle(data, 60000, 0));
    CLQ_CHECK(clq_dataset_batch(data, BATCH, false));
    CLQ_CHECK(clq_dataset_prefetch(data, CLQ_PREFETCH_AUTO));

    clq_trainer_config config = clq_trainer_config_default();
    config.global_batch = BATCH; /* the size of one batch: accumulating takes no more memory */
    clq_trainer *trainer;
    CLQ_CHECK(clq_trainer_create(model, &devices, &config, &trainer));

    for (unsigned long epoch = 1; epoch <= epochs; epoch++) {
        clq_step_info info;
        double loss;
        size_t samples;
        CLQ_CHECK(train_epoch(trainer, data, &loss, &samples));
        CLQ_CHECK(clq_step_read(trainer, &info));
        printf("epoch %lu  updates %llu  samples %zu  loss %.4f\n", epoch, (unsigned long long)info.step, samples,
               loss);
    }

    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
    clq_system_close(system);
    return 0;
}
