/* A generative adversarial network (Goodfellow et al., 2014). The model has two parts, generator and discriminator, and
 * each part has a trainer. The loop decides what each part learns from.
 *
 *     cc loop_gan.c -o loop_gan $(pkg-config --cflags --libs clique)
 *     ./loop_gan [DEVICES [STEPS]]        e.g. ./loop_gan cpu 2000; both parts are on the first device */
#include <clique/clique.h>

#include <stdlib.h>

enum { BATCH = 64, NOISE = 4 };
static float noise[BATCH][NOISE], real[BATCH], fake[BATCH]; /* labels of real and generated samples */
static clq_trainer *generator, *discriminator;
static clq_part_values *points, *gradient; /* samples, points in the plane; and the loss's gradient for them */

static float uniform(void) { return (float)rand() / (float)RAND_MAX * 2 - 1; }

/* A batch of new noise with these labels. */
static const clq_batch *batch_of(const float *labels) {
    static clq_batch batch = {.count = BATCH, .samples = noise, .sample_elements = NOISE, .sample_dtype = CLQ_F32};
    for (int i = 0; i < BATCH * NOISE; i++) noise[i / NOISE][i % NOISE] = uniform();
    batch.labels = labels;
    batch.float_labels = true;
    return &batch;
}

/* The real samples: points around (2, -1). */
static clq_status make_real(void) {
    float *to = clq_part_values_of(points, 0);
    for (int i = 0; i < 2 * BATCH; i++) to[i] = (i % 2 ? -1.0f : 2.0f) + 0.5f * uniform();
    return clq_part_values_set_rows(points, BATCH);
}

static clq_status train_discriminator(const float *labels) {
    clq_status status = labels == real ? make_real() : clq_part_forward(generator, batch_of(labels), NULL, points);
    if (status == CLQ_OK) status = clq_part_forward(discriminator, batch_of(labels), points, NULL);
    if (status == CLQ_OK) status = clq_part_backward(discriminator, NULL, NULL);
    return status == CLQ_OK ? clq_step_apply(discriminator) : status;
}

/* The generator learns what makes the discriminator answer "real". The discriminator's own gradient is not used: its
 * next forward pass drops it. */
static clq_status train_generator(void) {
    clq_status status = clq_part_forward(generator, batch_of(real), NULL, points);
    if (status == CLQ_OK) status = clq_part_forward(discriminator, batch_of(real), points, NULL);
    if (status == CLQ_OK) status = clq_part_backward(discriminator, NULL, gradient);
    if (status == CLQ_OK) status = clq_part_backward(generator, gradient, NULL);
    return status == CLQ_OK ? clq_step_apply(generator) : status;
}

static clq_status network(clq_model *model) {
    const clq_dense_config hidden = {.units = 16, .activation = CLQ_ACTIVATION_TANH};
    clq_tensor x = clq_dense(model, clq_input(model, CLQ_SHAPE(NOISE)), &hidden);
    x = clq_pipeline_cut(model, clq_dense(model, x, &(clq_dense_config){.units = 2}));
    x = clq_dense(model, x, &hidden);
    return clq_model_finish(model,
                            clq_dense(model, x, &(clq_dense_config){.units = 1, .activation = CLQ_ACTIVATION_SIGMOID}));
}

int main(int argc, char **argv) {
    const char *spec = argc > 1 ? argv[1] : "auto";
    unsigned long steps = argc > 2 ? strtoul(argv[2], NULL, 10) : 2000;
    clq_system *system;
    clq_devices devices;
    clq_model *model;
    CLQ_CHECK(clq_system_open(NULL, &system));
    CLQ_CHECK(clq_devices_select(system, spec, &devices));
    devices.count = 1;
    CLQ_CHECK(clq_model_create("gan", &model));
    CLQ_CHECK(network(model));

    clq_trainer_config config = clq_trainer_config_default();
    config.loss = clq_loss_default(CLQ_LOSS_BINARY);
    config.sample_dtype = CLQ_F32;
    config.parts = 2;
    CLQ_CHECK(clq_optimizer_parse("adam:lr=0.005,beta1=0.5", &config.optimizer));
    CLQ_CHECK(clq_trainer_create(model, &devices, &config, &generator));
    config.part = 1;
    CLQ_CHECK(clq_trainer_create(model, &devices, &config, &discriminator));
    CLQ_CHECK(clq_part_values_create(generator, CLQ_PART_OUTPUT, &points));
    CLQ_CHECK(clq_part_values_create(generator, CLQ_PART_OUTPUT, &gradient));
    for (int i = 0; i < BATCH; i++) real[i] = 1;
    for (unsigned long step = 0; step < steps; step++) {
        CLQ_CHECK(train_discriminator(real));
        CLQ_CHECK(train_discriminator(fake));
        CLQ_CHECK(train_generator());
    }
    float mean[2] = {0};
    for (int i = 0; i < 2 * BATCH; i++) mean[i % 2] += clq_part_values_of(points, 0)[i] / BATCH;
    printf("generated points lie about (%.2f, %.2f)\n", (double)mean[0], (double)mean[1]);

    clq_part_values_destroy(points);
    clq_part_values_destroy(gradient);
    clq_trainer_destroy(discriminator);
    clq_trainer_destroy(generator);
    clq_model_destroy(model);
    clq_system_close(system);
    return 0;
}
