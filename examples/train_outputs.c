/* Trains a model with two outputs for a point in the plane: whether the point is in a circle, and its distance from the
 * circle's centre. Each output has its own loss, weight and labels.
 *
 *     cc train_outputs.c -o train_outputs $(pkg-config --cflags --libs clique) -lm
 *     ./train_outputs [DEVICES [EPOCHS]]        e.g. ./train_outputs auto 20 */
#include <clique/clique.h>

#include <math.h>
#include <stdlib.h>

enum { POINTS = 4096 };

static clq_status two_outputs(clq_model *model) {
    const clq_dense_config hidden = {.units = 32, .activation = CLQ_ACTIVATION_TANH};
    clq_tensor x = clq_dense(model, clq_dense(model, clq_input(model, CLQ_SHAPE(2)), &hidden), &hidden);
    clq_tensor inside = clq_dense(
        model, x, &(clq_dense_config){.units = 2, .activation = CLQ_ACTIVATION_SOFTMAX, .name = "inside"}); /* (2) */
    clq_tensor radius = clq_dense(model, x, &(clq_dense_config){.units = 1, .name = "radius"});             /* (1) */
    return clq_model_finish_outputs(model, CLQ_TENSORS(inside, radius));
}

static clq_status make_points(clq_dataset **out) {
    static float points[POINTS][2], radius[POINTS];
    static int32_t inside[POINTS];
    for (size_t i = 0; i < POINTS; i++) {
        points[i][0] = (float)(i % 64) / 32 - 1;
        points[i][1] = (float)(i / 64) / 32 - 1;
        radius[i] = hypotf(points[i][0], points[i][1]);
        inside[i] = radius[i] < 0.75f;
    }
    clq_status status = clq_dataset_arrays(points, CLQ_F32, POINTS, 1, (size_t[]){2}, inside, CLQ_I32, 1, out);
    return status == CLQ_OK ? clq_dataset_add_labels(*out, radius, CLQ_F32, 1) : status;
}

static clq_status tell(void *context, const clq_epoch_info *epoch) {
    const clq_metric_values *values = &epoch->train.metrics;
    (void)context;
    printf("epoch %llu  loss %.4f", (unsigned long long)epoch->epoch + 1, epoch->train.loss);
    for (unsigned i = 0; i < values->count; i++) printf("  %s %.4f", values->names[i], values->values[i]);
    printf("\n");
    return CLQ_OK;
}

int main(int argc, char **argv) {
    const char *spec = argc > 1 ? argv[1] : "auto";
    unsigned long long epochs = argc > 2 ? strtoull(argv[2], NULL, 10) : 20;

    clq_system *system;
    clq_devices devices;
    CLQ_CHECK(clq_system_open(NULL, &system));
    CLQ_CHECK(clq_devices_select(system, spec, &devices));

    clq_model *model;
    CLQ_CHECK(clq_model_create("circle", &model));
    CLQ_CHECK(two_outputs(model));

    clq_dataset *data;
    CLQ_CHECK(make_points(&data));
    CLQ_CHECK(clq_dataset_shuffle(data, POINTS, 0));
    CLQ_CHECK(clq_dataset_batch(data, 64, false));

    /* The model's loss is that of `inside` plus five times that of `radius`. */
    clq_output_config outputs[] = {clq_output_config_default("inside"), clq_output_config_default("radius")};
    outputs[1].loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    outputs[1].weight = 5;
    outputs[1].metrics = "mae";
    clq_trainer_config config = clq_trainer_config_default(); /* Adam, batch 64 */
    config.sample_dtype = CLQ_F32;
    config.outputs = outputs;
    config.output_count = 2;

    clq_trainer *trainer;
    CLQ_CHECK(clq_trainer_create(model, &devices, &config, &trainer));
    CLQ_CHECK(clq_fit(trainer, data, &(clq_fit_config){.epochs = epochs, .on_epoch = tell}));

    static float inside[POINTS][2], radius[POINTS]; /* in the samples' order in epoch 0 */
    CLQ_CHECK(clq_predict_outputs(trainer, data, (float *const[]){&inside[0][0], radius}));
    printf("the first of them lies inside with %.2f, %.2f from the centre\n", (double)inside[0][1], (double)radius[0]);

    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
    clq_system_close(system);
    return 0;
}
