/* Layers that are frozen by their names, in models of Keras's files (tests/golden/keras_files.py), and what files say
 * that are saved then. */
#include "interop/keras_files.h"

static size_t trained(const clq_model *model) {
    size_t count = 0;
    for (size_t i = 0; i < clq_model_variable_count(model); i++) {
        clq_variable_info info;
        assert_ok(clq_model_variable(model, i, &info));
        count += info.trainable;
    }
    return count;
}

static void layers_are_frozen_by_name(void **state) {
    clq_model *model = read_model("nested");
    clq_variable_info info;
    (void)state;
    assert_int_equal(trained(model), clq_model_variable_count(model));
    const size_t all = trained(model);
    assert_fails(CLQ_ERROR_ARGUMENT, "did you mean 'shared'", clq_model_freeze(model, "top,shard"));
    assert_fails(CLQ_ERROR_ARGUMENT, "expected names", clq_model_freeze(model, "top,"));
    assert_fails(CLQ_ERROR_ARGUMENT, "would be left", clq_model_freeze(model, "*"));
    assert_int_equal(trained(model), all); /* nothing was frozen by these */
    assert_ok(clq_model_freeze(model, "tower,sh*"));
    assert_int_equal(trained(model), all - 6); /* two layers of the tower, and `shared` */
    assert_ok(clq_model_variable(model, index_of(model, "inner.first/kernel"), &info));
    assert_true(info.trainable);
    assert_ok(clq_model_variable(model, index_of(model, "shared/bias"), &info));
    assert_false(info.trainable);
    clq_model_destroy(model);
}

/* The configuration of a layer of a saved file, by numbers of config.layers; and of the layer that it wraps. */
static bool is_trainable(json_t *root, int outer, int inner, const char *wrapped) {
    json_t *config = json_object_get(
        json_array_get(json_object_get(json_object_get(root, "config"), "layers"), (size_t)outer), "config");
    if (inner >= 0)
        config = json_object_get(json_array_get(json_object_get(config, "layers"), (size_t)inner), "config");
    if (wrapped) config = json_object_get(json_object_get(config, wrapped), "config");
    assert_non_null(json_object_get(config, "trainable"));
    return !json_is_false(json_object_get(config, "trainable"));
}

/* Freezes layers, saves, and reads back: the same variables are trained. The text of what was saved; json_decref. */
static json_t *save_frozen(const char *name, const char *layers, const char *as) {
    clq_model *model = read_model(name), *again;
    clq_safetensors *file;
    assert_ok(clq_model_freeze(model, layers));
    clq_trainer *trainer = open_trainer(model);
    const char *saved = files_path(as);
    load_golden(trainer, name);
    assert_ok(clq_trainer_save(trainer, saved));
    assert_ok(clq_model_read_keras(saved, NULL, &again));
    assert_int_equal(clq_model_variable_count(again), clq_model_variable_count(model));
    for (size_t i = 0; i < clq_model_variable_count(model); i++) {
        clq_variable_info mine, theirs_of;
        assert_ok(clq_model_variable(model, i, &mine));
        assert_ok(clq_model_variable(again, index_of(again, mine.name), &theirs_of));
        if (mine.trainable != theirs_of.trainable) fail_msg("%s: %s: trainable", name, mine.name);
    }
    assert_ok(clq_keras_file_open(saved, &file));
    json_t *root = json_loads(clq_safetensors_metadata(file, "keras_config"), 0, NULL);
    assert_non_null(root);
    clq_safetensors_close(file);
    clq_trainer_destroy(trainer);
    clq_model_destroy(again);
    clq_model_destroy(model);
    return root;
}

/* The configuration of number `index` of the layers that a configuration has. */
static json_t *config_of(json_t *config, size_t index) {
    return json_object_get(json_array_get(json_object_get(config, "layers"), index), "config");
}

/* Of a wrapper around a model: the wrapper, and the model's layers. */
static void frozen_models_in_wrappers(void **state) {
    (void)state;
    static const char text[] =
        "{\"module\": \"keras\", \"class_name\": \"Sequential\", \"config\": {\"name\": \"s\", \"layers\": ["
        "{\"module\": \"keras.layers\", \"class_name\": \"InputLayer\", \"config\": {\"name\": \"i\", "
        "\"batch_shape\": [null, 5, 4]}}, "
        "{\"module\": \"keras.layers\", \"class_name\": \"TimeDistributed\", \"config\": {\"name\": \"each\", "
        "\"layer\": {\"module\": \"keras\", \"class_name\": \"Sequential\", \"config\": {\"name\": \"in\", \"layers\": "
        "["
        "{\"module\": \"keras.layers\", \"class_name\": \"InputLayer\", \"config\": {\"name\": \"j\", "
        "\"batch_shape\": [null, 4]}}, "
        "{\"module\": \"keras.layers\", \"class_name\": \"Dense\", \"config\": {\"name\": \"a\", \"units\": 3}}, "
        "{\"module\": \"keras.layers\", \"class_name\": \"Dense\", \"config\": {\"name\": \"b\", \"units\": 2}}]}}}}, "
        "{\"module\": \"keras.layers\", \"class_name\": \"Flatten\", \"config\": {\"name\": \"f\"}}, "
        "{\"module\": \"keras.layers\", \"class_name\": \"Dense\", \"config\": {\"name\": \"out\", \"units\": 3}}]}}";
    clq_model *model;
    clq_safetensors *file;
    assert_ok(clq_model_read_keras_json(files_put("wrapped.json", text, strlen(text)), &model));
    assert_ok(clq_model_freeze(model, "each"));
    clq_trainer *trainer = open_trainer(model);
    const char *saved = files_path("wrapped.keras");
    assert_ok(clq_trainer_save(trainer, saved));
    assert_ok(clq_keras_file_open(saved, &file));
    json_t *root = json_loads(clq_safetensors_metadata(file, "keras_config"), 0, NULL);
    clq_safetensors_close(file);
    json_t *wrapper = config_of(json_object_get(root, "config"), 1);
    json_t *within = json_object_get(json_object_get(wrapper, "layer"), "config");
    assert_true(json_is_false(json_object_get(wrapper, "trainable")));
    for (size_t i = 1; i <= 2; i++) assert_true(json_is_false(json_object_get(config_of(within, i), "trainable")));
    assert_null(json_object_get(config_of(json_object_get(root, "config"), 3), "trainable"));
    json_decref(root);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

/* As Keras writes it: by layer, within a model within the model, too, and for what a wrapper has inside. */
static void saved_files_say_what_is_frozen(void **state) {
    (void)state;
    json_t *root = save_frozen("nested", "tower.dense,sh*,inner.last", "frozen.keras");
    assert_false(is_trainable(root, 2, -1, NULL));
    assert_false(is_trainable(root, 3, 1, NULL));
    assert_true(is_trainable(root, 3, 2, NULL));
    assert_true(is_trainable(root, 3, -1, NULL));
    assert_true(is_trainable(root, 5, 1, NULL));
    assert_false(is_trainable(root, 5, 2, NULL));
    assert_true(is_trainable(root, 6, -1, NULL));
    json_decref(root);
    root = save_frozen("sequences", "both,each,look", "frozen.keras");
    assert_false(is_trainable(root, 2, -1, NULL));
    assert_false(is_trainable(root, 3, -1, NULL));
    assert_false(is_trainable(root, 3, -1, "layer"));
    assert_false(is_trainable(root, 4, -1, "layer"));
    assert_true(is_trainable(root, 5, -1, NULL));
    json_decref(root);
    clq_model *model = read_model("sequences");
    assert_ok(clq_model_freeze(model, "both.forward*"));
    clq_trainer *trainer = open_trainer(model);
    assert_fails(CLQ_ERROR_UNSUPPORTED, "'both.forward_memory' is frozen and 'both.backward_memory' is not",
                 clq_trainer_save(trainer, files_path("half.keras")));
    assert_ok(clq_trainer_save(trainer, files_path("half.weights.h5")));
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

/* ---- out of memory ---- */

static clq_status save_frozen_weights(void *context) { return clq_trainer_save(context, files_path("frozen.keras")); }
static clq_status freeze_layers(void *context) { return clq_model_freeze(context, "tower,sh*"); }

static void memory_may_run_out(void **state) {
    clq_model *nested = read_model("nested");
    (void)state;
    assert_ok(clq_model_freeze(nested, "tower,sh*"));
    clq_trainer *frozen = open_trainer(nested);
    assert_true(walk_allocations(save_frozen_weights, frozen) > 20);
    clq_trainer_destroy(frozen);
    assert_true(walk_allocations(freeze_layers, nested) >= 1);
    clq_model_destroy(nested);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_frozen_by_name), cmocka_unit_test(saved_files_say_what_is_frozen),
        cmocka_unit_test(frozen_models_in_wrappers), cmocka_unit_test(memory_may_run_out)};
    return cmocka_run_group_tests_name("interop/keras_frozen", tests, begin, end);
}
