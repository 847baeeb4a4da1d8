/* Trains a model with named settings, like the command line's options. Each argument is KEY=VALUE.
 *
 *     ./train_settings batch=32 optimizer=sgd:lr=0.1,momentum=0.9 epochs=2 devices=0
 *
 * Without arguments, it lists the settings. Settings are texts and need no structs, so a program in another language
 * makes the same calls. */
#include <clique/clique.h>

#include <stdlib.h>
#include <string.h>

static void list(void) {
    for (size_t i = 0; i < clq_setting_count(); i++) {
        const clq_setting *setting = clq_setting_at(i);
        const char *initial = clq_setting_default(setting);
        printf("%-20s %-24s %s\n", clq_setting_key(setting), clq_setting_placeholder(setting), initial ? initial : "");
    }
}

/* Two classes of points, on the two sides of a line. */
enum { SAMPLES = 256 };
static float points[SAMPLES][2];
static int32_t sides[SAMPLES];
static clq_status make_data(clq_dataset **out) {
    static const size_t shape[] = {2};
    for (size_t i = 0; i < SAMPLES; i++) {
        points[i][0] = (float)(i * 37 % SAMPLES) / SAMPLES - 0.5f;
        points[i][1] = (float)(i * 101 % SAMPLES) / SAMPLES - 0.5f;
        sides[i] = points[i][0] + 2 * points[i][1] > 0.2f;
    }
    return clq_dataset_arrays(points, CLQ_F32, SAMPLES, 1, shape, sides, CLQ_I32, 1, out);
}

int main(int argc, char **argv) {
    if (argc < 2) return list(), 0;
    clq_settings *settings;
    CLQ_CHECK(clq_settings_create(&settings));
    CLQ_CHECK(clq_settings_set(settings, "sample-dtype", "f32"));
    CLQ_CHECK(clq_settings_set(settings, "batch", "32"));
    for (int i = 1; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (!value) return fprintf(stderr, "'%s': expected KEY=VALUE\n", argv[i]), 2;
        *value++ = '\0';
        CLQ_CHECK(clq_settings_set(settings, argv[i], value));
    }

    clq_model *model;
    CLQ_CHECK(clq_model_create("sides", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(2));
    x = clq_dense(model, x, &(clq_dense_config){.units = 16, .activation = CLQ_ACTIVATION_RELU});
    x = clq_dense(model, x, &(clq_dense_config){.units = 2, .activation = CLQ_ACTIVATION_SOFTMAX});
    CLQ_CHECK(clq_model_finish(model, x));

    clq_dataset *data;
    const char *batch;
    CLQ_CHECK(clq_settings_get(settings, "batch", 0, &batch));
    CLQ_CHECK(make_data(&data));
    CLQ_CHECK(clq_dataset_batch(data, strtoul(batch, NULL, 10), false));

    clq_system *system;
    clq_trainer *trainer;
    CLQ_CHECK(clq_settings_open_system(settings, &system));
    CLQ_CHECK(clq_settings_create_trainer(settings, system, model, &trainer));
    CLQ_CHECK(clq_settings_fit(settings, trainer, data, NULL, NULL, 0));

    clq_totals totals;
    CLQ_CHECK(clq_evaluate(trainer, data, &totals));
    printf("loss %.4f, accuracy %.4f\n", totals.loss, clq_metric_value(&totals.metrics, "accuracy"));
    clq_trainer_destroy(trainer);
    clq_system_close(system);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
    clq_settings_destroy(settings);
    return totals.loss < 0.6 ? 0 : 1;
}
