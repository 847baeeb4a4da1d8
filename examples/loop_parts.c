/* Trains a model on two devices by hand: the front half on the first device, the back half on the second. The loop
 * carries values forward and gradients back. In PyTorch: y = a(x); loss = b(y); loss.backward().
 *
 *     cc loop_parts.c -o loop_parts $(pkg-config --cflags --libs clique)
 *     ./loop_parts [DEVICES [DATA [EPOCHS]]]        e.g. ./loop_parts pocl:0,pocl:1 fashion-mnist 2
 *
 * With one device, both halves are on it. Strategy pipeline does all this by itself, and keeps both devices busy. */
#include <clique/clique.h>

#include <stdlib.h>

enum { BATCH = 64 };

typedef struct halves {
    clq_trainer *front, *back;
    clq_part_values *y, *dy; /* the front's output, and the loss's gradient for it */
} halves;

static clq_status train_step(halves *h, const clq_batch *batch, double *loss) {
    clq_step_info info;
    clq_status status = clq_part_forward(h->front, batch, NULL, h->y);           /* reads the batch's samples */
    if (status == CLQ_OK) status = clq_part_forward(h->back, batch, h->y, NULL); /* reads its labels */
    if (status == CLQ_OK) status = clq_part_backward(h->back, NULL, h->dy);
    if (status == CLQ_OK) status = clq_part_backward(h->front, h->dy, NULL);
    if (status == CLQ_OK) status = clq_step_apply(h->front);
    if (status == CLQ_OK) status = clq_step_apply(h->back);
    if (status == CLQ_OK) status = clq_step_read(h->back, &info);
    if (status == CLQ_OK) *loss = info.loss;
    return status;
}

/* *mean: the epoch's mean loss over the batches. */
static clq_status train_epoch(halves *h, clq_dataset *data, double *mean) {
    clq_batch batch;
    bool more;
    double sum = 0, loss = 0;
    size_t batches = 0;
    for (;;) {
        clq_status status = clq_dataset_next(data, &batch, &more);
        if (status == CLQ_OK && !more) break;
        if (status == CLQ_OK) status = train_step(h, &batch, &loss);
        if (status != CLQ_OK) return status;
        sum += loss;
        batches++;
    }
    *mean = batches ? sum / (double)batches : 0;
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
    CLQ_CHECK(clq_model_create("mlp", &model));
    clq_tensor x = clq_flatten(model, clq_input(model, CLQ_SHAPE(28, 28)), NULL);
    x = clq_dense(model, x, &(clq_dense_config){.units = 128, .activation = CLQ_ACTIVATION_RELU});
    x = clq_pipeline_cut(model, x);
    x = clq_dense(model, x, &(clq_dense_config){.units = 10, .activation = CLQ_ACTIVATION_SOFTMAX});
    CLQ_CHECK(clq_model_finish(model, x));

    clq_trainer_config config = clq_trainer_config_default(); /* Adam, sparse cross-entropy, u8 samples */
    config.global_batch = BATCH;
    config.parts = 2;
    halves h;
    clq_devices own = {.system = system, .count = 1, .items = {devices.items[0]}};
    CLQ_CHECK(clq_trainer_create(model, &own, &config, &h.front));
    own.items[0] = devices.items[devices.count - 1];
    config.part = 1;
    CLQ_CHECK(clq_trainer_create(model, &own, &config, &h.back));
    CLQ_CHECK(clq_part_values_create(h.front, CLQ_PART_OUTPUT, &h.y));
    CLQ_CHECK(clq_part_values_create(h.front, CLQ_PART_OUTPUT, &h.dy));

    clq_dataset *data;
    CLQ_CHECK(clq_dataset_open(name, "train", &data));
    CLQ_CHECK(clq_dataset_shuffle(data, 60000, 0));
    CLQ_CHECK(clq_dataset_batch(data, BATCH, false));
    for (unsigned long epoch = 1; epoch <= epochs; epoch++) {
        double loss;
        CLQ_CHECK(train_epoch(&h, data, &loss));
        printf("epoch %lu  loss %.4f\n", epoch, loss);
    }

    clq_dataset_destroy(data);
    clq_part_values_destroy(h.y);
    clq_part_values_destroy(h.dy);
    clq_trainer_destroy(h.back);
    clq_trainer_destroy(h.front);
    clq_model_destroy(model);
    clq_system_close(system);
    return 0;
}
