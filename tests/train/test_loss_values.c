/* Losses and their slopes after each last activation of a model, compared with Keras on TensorFlow value by value
 * (tests/golden/loss_values.json), also for outputs that are no probabilities. No value is NaN. Losses are the same
 * functions in every launch, and all models have kernels of the same shapes. */
#include "support/apart.h"
#include "support/check.h"
#include "train/trainer.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { ROWS_MOST = 16, CLASSES_MOST = 8 };
static clq_system *sys;
static json_t *document;
static size_t rows, classes;
static float z[ROWS_MOST * CLASSES_MOST];

static clq_model *make_model(const char *end) {
    clq_model *model;
    clq_activation activation;
    assert_true(clq_activation_named(end, &activation));
    assert_ok(clq_model_create("ends", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(rows));
    x = clq_dense(model, x, &(clq_dense_config){.units = classes, .activation = activation, .no_bias = true});
    assert_ok(clq_model_finish(model, x));
    return model;
}

/* A sample that is 1 at place `row` and 0 elsewhere makes that row of the kernel the activation's input. */
static clq_dataset *make_data(size_t row, const char *kind) {
    json_t *all = json_object_get(json_object_get(document, "targets"), kind), *own = json_array_get(all, row);
    float x[ROWS_MOST] = {0}, target[CLASSES_MOST];
    clq_dataset *data;
    x[row] = 1;
    if (json_is_integer(own)) {
        const int32_t label = (int32_t)json_integer_value(own);
        assert_ok(clq_dataset_arrays(x, CLQ_F32, 1, 1, &rows, &label, CLQ_I32, 1, &data));
    } else {
        assert_int_equal(json_array_size(own), classes);
        for (size_t i = 0; i < classes; i++) target[i] = (float)json_number_value(json_array_get(own, i));
        assert_ok(clq_dataset_arrays(x, CLQ_F32, 1, 1, &rows, target, CLQ_F32, classes, &data));
    }
    assert_ok(clq_dataset_batch(data, 1, false));
    return data;
}

static void compare(const char *what, const char *name, const char *end, size_t row, double got, json_t *want) {
    if (!isfinite(got)) fail_msg("%s behind %s, row %zu: the %s is %g", name, end, row, what, got);
    if (json_is_null(want)) return; /* Keras has no value */
    const double value = json_number_value(want);
    if (fabs(got - value) > 2e-5 * (fabs(value) + 0.1))
        fail_msg("%s behind %s, row %zu: the %s is %.9g, and Keras's is %.9g", name, end, row, what, got, value);
}

static void check_row(clq_trainer *trainer, json_t *one, size_t row) {
    const char *name = json_string_value(json_object_get(one, "loss_spec")),
               *end = json_string_value(json_object_get(one, "end"));
    clq_dataset *data = make_data(row, json_string_value(json_object_get(one, "targets")));
    float slopes[ROWS_MOST * CLASSES_MOST];
    clq_batch batch;
    bool more;
    clq_step_info info;
    assert_ok(clq_dataset_next(data, &batch, &more));
    assert_ok(clq_step_gradients(trainer, &batch));
    assert_ok(clq_step_read(trainer, &info));
    compare("loss", name, end, row, info.loss, json_array_get(json_object_get(one, "loss"), row));
    assert_ok(clq_trainer_get_gradient(trainer, 0, 0, slopes));
    json_t *want = json_object_get(one, "slope");
    for (size_t i = row * classes; i < (row + 1) * classes; i++)
        compare("slope", name, end, row, (double)slopes[i], json_array_get(want, i));
    assert_ok(clq_step_reduce(trainer));
    assert_ok(clq_step_apply(trainer)); /* with a rate of 0 */
    clq_dataset_destroy(data);
}

static void as_keras(void **state) {
    (void)state;
    size_t index;
    json_t *one;
    json_array_foreach(json_object_get(document, "cases"), index, one) {
        clq_model *model = make_model(json_string_value(json_object_get(one, "end")));
        clq_trainer_config config = apart_config();
        clq_devices devices;
        clq_trainer *trainer;
        config.sample_dtype = CLQ_F32;
        config.global_batch = 1;
        config.metrics = "none";
        assert_ok(clq_loss_parse(json_string_value(json_object_get(one, "loss_spec")), &config.loss));
        assert_ok(clq_optimizer_parse("sgd:lr=0", &config.optimizer));
        assert_ok(clq_devices_select(sys, "pocl:0", &devices));
        assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
        assert_ok(clq_trainer_set_variable(trainer, 0, z));
        for (size_t row = 0; row < rows; row++) check_row(trainer, one, row);
        clq_trainer_destroy(trainer);
        clq_model_destroy(model);
    }
    assert_true(index > 50);
}

static int start(void **state) {
    (void)state;
    char *path = clq_strprintf("%s/tests/golden/loss_values.json", getenv("CLQ_TEST_SOURCE"));
    if (clq_json_read(path, 1 << 22, 8, &document) != CLQ_OK) return -1;
    clq_free(path);
    json_t *all = json_object_get(document, "z");
    rows = json_array_size(all);
    classes = json_array_size(json_array_get(all, 0));
    if (rows > ROWS_MOST || classes > CLASSES_MOST) return -1;
    for (size_t i = 0; i < rows * classes; i++)
        z[i] = (float)json_number_value(json_array_get(json_array_get(all, i / classes), i % classes));
    return clq_system_open(NULL, &sys) == CLQ_OK ? 0 : -1;
}

static int end(void **state) {
    (void)state;
    json_decref(document);
    clq_system_close(sys);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_keras)};
    return cmocka_run_group_tests(tests, start, end);
}
