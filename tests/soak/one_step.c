/* Reads a model of Keras and trains it on COUNT samples: one_step MODEL OPEN LOSS SAMPLES [DEVICE]. One step, and up to
 * STEPS while a variable has not changed: stochastic depth leaves a block out of a step that drops it for all samples,
 * and a layer of zeros passes no gradient before its first update. OPEN: the size of axes that the file leaves open.
 * LOSS: as of --loss; "" and what the outputs do not fit: mean squared error to TARGET. SAMPLES: float32, COUNT samples
 * with the values of all inputs one behind the other. Exits with 0 if the loss is finite and every trainable variable
 * has changed; with 3 if the model is refused; with 4 if a variable has not changed. */
#include <clique/clique.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 3, STEPS = 8 }; /* of two samples batch normalisation leaves signs alone */
#define TARGET 0.25F           /* not 0: a last layer may begin with zeros, which would be no error */

static int fail(const char *what) {
    printf("%s: %s\n", what, clq_error_detail());
    return 1;
}

static float *read_samples(const char *path, size_t count) {
    FILE *file = fopen(path, "rb");
    float *samples = calloc(count, sizeof *samples);
    if (file && samples && fread(samples, sizeof *samples, count, file) == count && fgetc(file) == EOF) {
        fclose(file);
        return samples;
    }
    printf("%s should have %zu numbers\n", path, count);
    exit(1);
}

static size_t elements_of(clq_shape shape) {
    size_t elements = 1;
    for (unsigned d = 0; d < shape.rank; d++) elements *= shape.dims[d];
    return elements;
}

static float **values_of(clq_trainer *trainer, const clq_model *model) {
    float **values = calloc(clq_model_variable_count(model), sizeof *values);
    for (size_t i = 0; i < clq_model_variable_count(model); i++) {
        clq_variable_info info;
        (void)clq_model_variable(model, i, &info);
        values[i] = calloc(info.elements, sizeof(float));
        if (clq_trainer_get_variable(trainer, i, values[i]) != CLQ_OK) exit(fail(info.name));
    }
    return values;
}

/* The first that is not finite, or none; then the first trainable one that has not changed, or none. */
static const char *not_finite(const clq_model *model, float *const *values) {
    for (size_t i = 0; i < clq_model_variable_count(model); i++) {
        clq_variable_info info;
        (void)clq_model_variable(model, i, &info);
        for (size_t k = 0; k < info.elements; k++)
            if (!isfinite(values[i][k])) return info.name;
    }
    return NULL;
}

static const char *not_changed(const clq_model *model, float *const *before, float *const *after) {
    for (size_t i = 0; i < clq_model_variable_count(model); i++) {
        clq_variable_info info;
        (void)clq_model_variable(model, i, &info);
        if (info.trainable && memcmp(before[i], after[i], info.elements * sizeof(float)) == 0) return info.name;
    }
    return NULL;
}

static void free_values(float **values, const clq_model *model) {
    for (size_t i = 0; i < clq_model_variable_count(model); i++) free(values[i]);
    free(values);
}

int main(int count, char **arguments) {
    if (count < 5 || count > 6) return fprintf(stderr, "usage: one_step MODEL OPEN LOSS SAMPLES [DEVICE]\n"), 2;
    const char *device = count > 5 ? arguments[5] : "pocl:0";
    const clq_keras_sizes sizes = {.open = strtoul(arguments[2], NULL, 10)};
    clq_model *model;
    clq_system *system;
    clq_devices devices;
    clq_trainer *trainer;
    clq_trainer_config config = clq_trainer_config_default();
    const clq_status read = clq_model_read_keras_json_sized(arguments[1], &sizes, &model);
    if (read != CLQ_OK) return fail("refused"), read == CLQ_ERROR_UNSUPPORTED || read == CLQ_ERROR_FORMAT ? 3 : 1;
    if (clq_system_open(NULL, &system) != CLQ_OK || clq_devices_select(system, device, &devices) != CLQ_OK)
        return fail("device");
    config.metrics = "none";
    config.global_batch = COUNT;
    config.sample_dtype = CLQ_F32;
    bool own = *arguments[3] && clq_loss_parse(arguments[3], &config.loss) == CLQ_OK &&
               clq_trainer_create(model, &devices, &config, &trainer) == CLQ_OK;
    if (!own) {
        config.loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
        if (clq_trainer_create(model, &devices, &config, &trainer) != CLQ_OK) return fail("trainer");
    }
    const size_t elements = elements_of(clq_model_input_shape(model)), outputs = clq_model_output_count(model);
    float *samples = read_samples(arguments[4], COUNT * elements);
    clq_labels *labels = calloc(outputs, sizeof *labels);
    for (size_t i = 0; i < outputs; i++) {
        const clq_shape shape = clq_model_output_shape(model, i);
        const bool classes = own && config.loss.kind == CLQ_LOSS_SPARSE_CATEGORICAL;
        labels[i] = (clq_labels){.is_float = !classes,
                                 .elements = elements_of(shape) / (classes ? shape.dims[shape.rank - 1] : 1)};
        float *values = calloc(COUNT * labels[i].elements, sizeof *values);
        const size_t last = shape.dims[shape.rank - 1];
        const bool rows = own && config.loss.kind == CLQ_LOSS_CATEGORICAL; /* of the first class */
        for (size_t k = 0; !classes && k < COUNT * labels[i].elements; k++)
            values[k] = !rows ? TARGET : k % last == 0 ? 1 : 0;
        labels[i].values = values;
    }
    const clq_batch batch = {.count = COUNT,
                             .samples = samples,
                             .sample_elements = elements,
                             .sample_dtype = CLQ_F32,
                             .labels = labels[0].values,
                             .float_labels = labels[0].is_float,
                             .label_elements = labels[0].elements,
                             .more_labels = labels + 1,
                             .more_count = outputs - 1};
    float **before = values_of(trainer, model);
    const char *left = "";
    bool good = true;
    for (int step = 0; good && left && step < STEPS; step++) {
        clq_step_info info;
        if (clq_step_gradients(trainer, &batch) != CLQ_OK || clq_step_reduce(trainer) != CLQ_OK ||
            clq_step_apply(trainer) != CLQ_OK || clq_step_read(trainer, &info) != CLQ_OK)
            return fail("step");
        float **after = values_of(trainer, model);
        if (step == 0) printf("loss %g (%s)\n", info.loss, own ? arguments[3] : "mse");
        const char *bad = isfinite(info.loss) ? not_finite(model, after) : "the loss";
        if (bad) printf("%s is not finite\n", bad);
        good = !bad;
        left = not_changed(model, before, after);
        free_values(after, model);
    }
    if (left) printf("%s has not changed\n", left);
    free_values(before, model);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
    clq_system_close(system);
    return !good ? 1 : left ? 4 : 0;
}
