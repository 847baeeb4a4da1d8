/* Backbones of keras_hub, read by class name and hyper-parameters as keras_hub saves them, against Keras
 * (tests/golden/backbones.json): outputs, from Keras's weights, of texts of which one ends in padding. */
#include "interop/keras_files.h"

#include <jansson.h>
#include <math.h>

enum { TOKENS = 5 };

static float *floats_of(const json_t *array, size_t *count) {
    *count = json_array_size(array);
    float *floats = clq_alloc(CLQ_MAX(*count, (size_t)1), sizeof *floats);
    assert_non_null(floats);
    for (size_t i = 0; i < *count; i++) floats[i] = (float)json_number_value(json_array_get(array, i));
    return floats;
}

static void set_variables(clq_trainer *trainer, const clq_model *model, const char *name, json_t *variables) {
    for (size_t i = 0; i < clq_model_variable_count(model); i++) {
        clq_variable_info info;
        size_t count;
        assert_ok(clq_model_variable(model, i, &info));
        float *values = floats_of(json_object_get(variables, info.name), &count);
        if (count != info.elements)
            fail_msg("%s: Keras has %zu values of %s, not %zu", name, count, info.name, info.elements);
        assert_ok(clq_trainer_set_variable(trainer, i, values));
        clq_free(values);
    }
    assert_int_equal(clq_model_variable_count(model), json_object_size(variables));
}

static void check_outputs(clq_trainer *trainer, const clq_model *model, const char *name, json_t *entry) {
    json_t *outputs = json_object_get(entry, "outputs");
    float *got[CLQ_MODEL_OUTPUTS_MAX] = {NULL};
    size_t count;
    clq_dataset *data;
    float *samples = floats_of(json_object_get(entry, "samples"), &count);
    const clq_shape shape = clq_model_input_shape(model);
    const int32_t labels[SAMPLES] = {0};
    assert_ok(clq_dataset_arrays(samples, CLQ_F32, SAMPLES, shape.rank, shape.dims, labels, CLQ_I32, 1, &data));
    assert_ok(clq_dataset_batch(data, SAMPLES, false));
    assert_int_equal(clq_model_output_count(model), json_array_size(outputs));
    for (size_t k = 0; k < json_array_size(outputs); k++)
        got[k] = clq_alloc(json_array_size(json_array_get(outputs, k)), sizeof(float));
    assert_ok(clq_predict_outputs(trainer, data, got));
    for (size_t k = 0; k < json_array_size(outputs); k++) {
        json_t *wanted = json_array_get(outputs, k);
        double most = 1; /* which rounding errors of sums are of */
        for (size_t i = 0; i < json_array_size(wanted); i++)
            most = fmax(most, fabs(json_number_value(json_array_get(wanted, i))));
        for (size_t i = 0; i < json_array_size(wanted); i++) {
            const double want = json_number_value(json_array_get(wanted, i));
            if (!(fabs((double)got[k][i] - want) <= 2e-6 * most))
                fail_msg("%s: output %zu, number %zu of %zu is %.9g, and Keras has %.9g", name, k, i,
                         json_array_size(wanted), (double)got[k][i], want);
        }
        clq_free(got[k]);
    }
    clq_dataset_destroy(data);
    clq_free(samples);
}

static void check_one(json_t *entry) {
    const clq_keras_sizes tokens = {.open = TOKENS};
    const char *name = json_string_value(json_object_get(entry, "name")), *path = files_path("backbone.json");
    clq_model *model;
    assert_int_equal(json_dump_file(json_object_get(entry, "model"), path, 0), 0);
    if (clq_model_read_keras_json_sized(path, &tokens, &model) != CLQ_OK) fail_msg("%s: %s", name, clq_error_detail());
    clq_trainer *trainer = open_trainer(model);
    set_variables(trainer, model, name, json_object_get(entry, "variables"));
    check_outputs(trainer, model, name, entry);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

static void backbones_compute_what_keras_s_do(void **state) {
    char *path = clq_strprintf("%s/tests/golden/backbones.json", getenv("CLQ_TEST_SOURCE"));
    json_t *root, *entry;
    size_t index;
    (void)state;
    assert_ok(clq_json_read(path, 1 << 24, 16, &root));
    json_array_foreach(json_object_get(root, "models"), index, entry) check_one(entry);
    assert_true(index >= 18); /* every class */
    json_decref(root);
    clq_free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(backbones_compute_what_keras_s_do)};
    return cmocka_run_group_tests_name("interop/backbones", tests, begin, end);
}
