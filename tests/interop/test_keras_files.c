/* Keras's .keras and .weights.h5 files against those that Keras saved (tests/golden/keras_files.py): predictions are
 * Keras's, and what is saved has the same members with the same bytes. Loading in part, and by name maps, too. */
#include "interop/keras_files.h"

#include <math.h>

/* The last ones have layers of keras_hub. */
static const char *const goldens[] = {"images", "nested", "sequences", "heads", "block", "blocks", "backbone", "table"};
enum { OF_HUB = 4 };

/* All variables, one behind the other; clq_free. */
static float *values_of(const clq_model *model, clq_trainer *trainer, size_t *count) {
    *count = clq_model_parameter_count(model);
    float *values = clq_alloc(*count, sizeof *values), *at = values;
    for (size_t i = 0; i < clq_model_variable_count(model); i++) {
        clq_variable_info info;
        assert_ok(clq_model_variable(model, i, &info));
        assert_ok(clq_trainer_get_variable(trainer, i, at));
        at += info.elements;
    }
    return values;
}

/* ---- against Keras ---- */

static void check_predictions(const char *name) {
    char *path = golden_path(name, ".safetensors");
    clq_model *model = read_model(name);
    clq_trainer *trainer = open_trainer(model);
    clq_safetensors *wanted;
    clq_dataset *data;
    const int32_t labels[SAMPLES] = {0};
    load_golden(trainer, name);
    assert_ok(clq_safetensors_open(path, &wanted));
    const clq_safetensors_entry *x = clq_safetensors_find(wanted, "x"), *y = clq_safetensors_find(wanted, "y");
    const clq_shape shape = clq_model_input_shape(model);
    assert_ok(clq_dataset_arrays(x->data, CLQ_F32, SAMPLES, shape.rank, shape.dims, labels, CLQ_I32, 1, &data));
    assert_ok(clq_dataset_batch(data, SAMPLES, false));
    float *got = clq_alloc(y->count, sizeof *got);
    assert_ok(clq_predict(trainer, data, got));
    for (size_t i = 0; i < y->count; i++) {
        float want;
        memcpy(&want, (const char *)y->data + i * sizeof want, sizeof want);
        if (!(fabsf(got[i] - want) <= 2e-6f * fmaxf(1, fabsf(want))))
            fail_msg("%s: output %zu is %.9g, and Keras has %.9g", name, i, (double)got[i], (double)want);
    }
    clq_free(got);
    clq_dataset_destroy(data);
    clq_safetensors_close(wanted);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
    clq_free(path);
}

static void predictions_are_keras_s(void **state) {
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(goldens); i++) check_predictions(goldens[i]);
}

/* What has no use for predictions: the optimizer's state, and an integer that counts. */
static bool is_beside(const clq_safetensors_entry *tensor) {
    return strncmp(tensor->name, "optimizer/", 10) == 0 || tensor->dtype == CLQ_I64;
}

static size_t compare_files(const clq_safetensors *keras, const clq_safetensors *ours, const char *name) {
    size_t same = 0;
    for (size_t i = 0; i < clq_safetensors_count(keras); i++) {
        const clq_safetensors_entry *want = clq_safetensors_at(keras, i);
        const clq_safetensors_entry *got = clq_safetensors_find(ours, want->name);
        if (strncmp(want->name, "optimizer/", 10) == 0) continue;
        if (!got) fail_msg("%s: no %s", name, want->name);
        assert_int_equal(got->dtype, want->dtype);
        assert_int_equal(got->rank, want->rank);
        assert_memory_equal(got->dims, want->dims, want->rank * sizeof *want->dims);
        if (!is_beside(want)) assert_memory_equal(got->data, want->data, want->bytes);
        same++;
    }
    return same;
}

static void check_round_trip(const char *name, const char *ending) {
    char *path = golden_path(name, ".keras");
    const char *saved = files_path(ending);
    clq_model *model = read_model(name);
    clq_trainer *trainer = open_trainer(model);
    clq_safetensors *keras, *ours;
    load_golden(trainer, name);
    assert_ok(clq_trainer_save(trainer, saved));
    assert_ok(clq_keras_file_open(path, &keras));
    assert_ok(clq_keras_file_open(saved, &ours));
    assert_int_equal(compare_files(keras, ours, name), clq_safetensors_count(ours));
    const char *config = clq_safetensors_metadata(ours, "keras_config");
    if (clq_keras_file_is_archive(saved))
        assert_string_equal(config, clq_safetensors_metadata(keras, "keras_config"));
    else
        assert_null(config);
    /* What was saved is loaded again, into other values. */
    size_t count;
    float *before = values_of(model, trainer, &count), *zeros = clq_alloc(count, sizeof *zeros);
    for (size_t i = 0; i < clq_model_variable_count(model); i++) assert_ok(clq_trainer_set_variable(trainer, i, zeros));
    assert_ok(clq_trainer_load(trainer, saved));
    float *after = values_of(model, trainer, &count);
    assert_memory_equal(before, after, count * sizeof *before);
    clq_free(before);
    clq_free(after);
    clq_free(zeros);
    clq_safetensors_close(keras);
    clq_safetensors_close(ours);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
    clq_free(path);
}

static void saved_files_have_what_keras_s_have(void **state) {
    (void)state;
    for (size_t i = 0; i + OF_HUB < CLQ_COUNT_OF(goldens); i++) check_round_trip(goldens[i], "again.keras");
    check_round_trip("sequences", "again.weights.h5");
    clq_model *block = read_model("block");
    clq_trainer *trainer = open_trainer(block);
    assert_fails(CLQ_ERROR_UNSUPPORTED, "of a layer within a layer is not known",
                 clq_trainer_save(trainer, files_path("block.keras")));
    clq_trainer_destroy(trainer);
    clq_model_destroy(block);
}

/* ---- models that are from elsewhere ---- */

/* By Keras's to_snake_case. */
static void classes_have_keras_s_names(void **state) {
    static const char *const names[][2] = {{"Dense", "dense"},
                                           {"LSTM", "lstm"},
                                           {"PReLU", "p_re_lu"},
                                           {"SimpleRNN", "simple_rnn"},
                                           {"Conv2DTranspose", "conv2d_transpose"},
                                           {"GlobalAveragePooling2D", "global_average_pooling2d"},
                                           {"GPTNeoXDecoder", "gpt_neo_x_decoder"},
                                           {"RMSNormalization", "rms_normalization"}};
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(names); i++) {
        clq_text text = {0};
        clq_store_name(names[i][0], &text);
        assert_string_equal(text.data, names[i][1]);
        clq_free(text.data);
    }
}

static void models_made_here_have_keras_s_places(void **state) {
    static const char *const places[] = {"layers/conv2d/vars/0",   "layers/conv2d/vars/1", "layers/conv2d_1/vars/0",
                                         "layers/conv2d_1/vars/1", "layers/dense/vars/0",  "layers/dense/vars/1"};
    clq_model *model;
    clq_safetensors *file;
    (void)state;
    assert_ok(clq_model_builtin("cnn", &model));
    clq_trainer *trainer = open_trainer(model);
    const char *path = files_path("cnn.weights.h5");
    assert_fails(CLQ_ERROR_UNSUPPORTED, "clq_model_prepare_keras", clq_trainer_save(trainer, path));
    clq_trainer_destroy(trainer);
    assert_ok(clq_model_prepare_keras(model));
    trainer = open_trainer(model);
    assert_ok(clq_trainer_save(trainer, path));
    assert_ok(clq_keras_file_open(path, &file));
    for (size_t i = 0; i < CLQ_COUNT_OF(places); i++) assert_non_null(clq_safetensors_find(file, places[i]));
    clq_safetensors_close(file);
    assert_ok(clq_trainer_load(trainer, path));
    assert_fails(CLQ_ERROR_FORMAT, "weights alone", clq_model_read_keras(path, NULL, &model));
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

/* Of Keras 3.15: of the two LSTMs of a pair the one that goes backwards comes first, as it is farther from the output.
 */
static void layers_are_numbered_from_the_outputs(void **state) {
    static const char *const places[][2] = {{"backward_bidirectional/kernel", "layers/lstm/cell/vars/0"},
                                            {"forward_bidirectional/kernel", "layers/lstm_1/cell/vars/0"},
                                            {"forward_bidirectional_1/bias", "layers/lstm_2/cell/vars/2"},
                                            {"backward_bidirectional_1/kernel", "layers/lstm_3/cell/vars/0"},
                                            {"embedding/embeddings", "layers/embedding/vars/0"},
                                            {"dense/bias", "layers/dense/vars/1"}};
    clq_model *model;
    clq_stores stores;
    (void)state;
    assert_ok(clq_model_builtin("bilstm", &model));
    assert_ok(clq_model_prepare_keras(model));
    assert_ok(clq_model_stores(model, &stores));
    for (size_t i = 0; i < CLQ_COUNT_OF(places); i++)
        assert_string_equal(stores.paths[index_of(model, places[i][0])], places[i][1]);
    clq_stores_release(&stores);
    clq_model_destroy(model);
}

/* What is read back has the layers, the weights and the places that the model had. */
static void models_made_here_are_saved_whole(void **state) {
    clq_model *model, *again;
    size_t count, others;
    (void)state;
    assert_ok(clq_model_builtin("cnn", &model));
    assert_ok(clq_model_prepare_keras(model));
    assert_ok(clq_model_prepare_keras(model)); /* which changes nothing */
    clq_trainer *trainer = open_trainer(model);
    const char *path = files_path("cnn.keras");
    assert_ok(clq_trainer_save(trainer, path));
    assert_ok(clq_model_read_keras(path, NULL, &again));
    clq_trainer *other = open_trainer(again);
    assert_ok(clq_trainer_load(other, path));
    float *had = values_of(model, trainer, &count), *has = values_of(again, other, &others);
    assert_int_equal(count, others);
    assert_memory_equal(had, has, count * sizeof *had);
    for (size_t i = 0; i < clq_model_variable_count(model); i++) {
        clq_variable_info mine, theirs_of;
        assert_ok(clq_model_variable(model, i, &mine));
        assert_ok(clq_model_variable(again, i, &theirs_of));
        assert_string_equal(mine.name, theirs_of.name);
    }
    clq_free(had);
    clq_free(has);
    clq_trainer_destroy(other);
    clq_trainer_destroy(trainer);
    clq_model_destroy(again);
    clq_model_destroy(model);
    assert_ok(clq_model_create("open", &model));
    assert_fails(CLQ_ERROR_STATE, "not finished", clq_model_prepare_keras(model));
    clq_model_destroy(model);
}

static clq_status prepare(void *context) {
    clq_model *model;
    (void)context;
    CLQ_TRY(clq_model_builtin("cnn", &model));
    const clq_status status = clq_model_prepare_keras(model);
    clq_model_destroy(model);
    return status;
}

/* ---- in part, by a map ---- */

/* The names that PyTorch gives, and its layouts: by plain loops over what the model is to have. */
typedef struct other_names {
    float kernel[3][2][3][3], bias[3], head[3][5], spare[1];
} other_names;
static other_names theirs;

static const char *put_others(void) {
    const clq_safetensors_source sources[] = {
        {.name = "features.0.weight", .dtype = CLQ_F32, .rank = 4, .dims = {3, 2, 3, 3}, .data = theirs.kernel},
        {.name = "features.0.bias", .dtype = CLQ_F32, .rank = 1, .dims = {3}, .data = theirs.bias},
        {.name = "fc.weight", .dtype = CLQ_F32, .rank = 2, .dims = {3, 5}, .data = theirs.head},
        {.name = "fc.num_batches_tracked", .dtype = CLQ_F32, .rank = 1, .dims = {1}, .data = theirs.spare},
        {.name = "extra", .dtype = CLQ_F32, .rank = 1, .dims = {1}, .data = theirs.spare}};
    const char *path = files_path("others.safetensors");
    float *at = (float *)(void *)&theirs;
    for (size_t i = 0; i < sizeof theirs / sizeof *at; i++) at[i] = (float)i * 0.25f - 40.0f;
    assert_ok(clq_safetensors_write(path, sources, CLQ_COUNT_OF(sources), NULL, 0));
    return path;
}

static const char *put_map(const char *text) { return files_put("map", text, strlen(text)); }

static const char good_map[] = "# of PyTorch\n"
                               "features.0.weight -> yak/kernel oihw\n"
                               "\n"
                               "features.0.b* -> yak/b*   # the same letters\r\n"
                               "fc.weight -> cat/kernel transposed\n"
                               "fc.num* ->\n";

static void check_mapped(const clq_model *model, clq_trainer *trainer) {
    float kernel[3][3][2][3], bias[3], head[5][3];
    assert_ok(clq_trainer_get_variable(trainer, index_of(model, "yak/kernel"), &kernel[0][0][0][0]));
    assert_ok(clq_trainer_get_variable(trainer, index_of(model, "yak/bias"), bias));
    assert_ok(clq_trainer_get_variable(trainer, index_of(model, "cat/kernel"), &head[0][0]));
    for (size_t o = 0; o < 3; o++)
        for (size_t i = 0; i < 2; i++)
            for (size_t y = 0; y < 3; y++)
                for (size_t x = 0; x < 3; x++) assert_true(kernel[y][x][i][o] == theirs.kernel[o][i][y][x]);
    for (size_t o = 0; o < 3; o++)
        for (size_t i = 0; i < 5; i++) assert_true(head[i][o] == theirs.head[o][i]);
    assert_memory_equal(bias, theirs.bias, sizeof bias);
}

static void maps_say_which_tensor_is_which(void **state) {
    clq_model *model = read_model("images");
    clq_trainer *trainer = open_trainer(model);
    const char *others = put_others();
    clq_loaded *loaded;
    size_t count;
    (void)state;
    load_golden(trainer, "images");
    float *before = values_of(model, trainer, &count);
    assert_ok(clq_trainer_load_part(trainer, others, put_map(good_map), &loaded));
    check_mapped(model, trainer);
    assert_int_equal(clq_loaded_count(loaded, CLQ_LOADED_VARIABLES), 3);
    assert_int_equal(clq_loaded_count(loaded, CLQ_LEFT_VARIABLES), clq_model_variable_count(model) - 3);
    assert_int_equal(clq_loaded_count(loaded, CLQ_LEFT_TENSORS), 1);
    assert_string_equal(clq_loaded_name(loaded, CLQ_LEFT_TENSORS, 0), "extra");
    assert_null(clq_loaded_name(loaded, CLQ_LEFT_TENSORS, 1));
    clq_loaded_destroy(loaded);
    /* All others are as they were. */
    float *after = values_of(model, trainer, &count), *at = after, *was = before;
    for (size_t i = 0; i < clq_model_variable_count(model); i++) {
        clq_variable_info info;
        assert_ok(clq_model_variable(model, i, &info));
        const bool mapped = strncmp(info.name, "yak/", 4) == 0 || strcmp(info.name, "cat/kernel") == 0;
        assert_int_equal(memcmp(at, was, info.elements * sizeof *at) == 0, !mapped);
        at += info.elements;
        was += info.elements;
    }
    clq_free(before);
    clq_free(after);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

static void maps_that_say_nothing_are_refused(void **state) {
    static const struct {
        const char *map, *says;
        clq_status status;
    } bad[] = {
        {"", "no line names a tensor", CLQ_ERROR_FORMAT},
        {"fc.weight cat/kernel\n", "line 1: expected", CLQ_ERROR_FORMAT},
        {"\nfc.weight\n", "line 2: expected", CLQ_ERROR_FORMAT},
        {"fc.* -> *.*\n", "one '*'", CLQ_ERROR_FORMAT},
        {"fc.weight -> c*\n", "on the right", CLQ_ERROR_FORMAT},
        {"fc.weight -> cat/kernel turned\n", "'turned' is no layout", CLQ_ERROR_FORMAT},
        {"fc.weight -> cat/kernel transposed oihw\n", "line 1: axes are turned once", CLQ_ERROR_FORMAT},
        {"fc.weight -> yak/bias transposed\n", "has shape (3, 5), which 'transposed' makes (5, 3)", CLQ_ERROR_MISMATCH},
        {"\xef\xbb\xbf"
         "fc.weight -> cat/kernal\n",
         "did you mean 'cat/kernel'", CLQ_ERROR_ARGUMENT}, /* a mark of UTF-8 */
        {"fc.wait -> cat/kernel\n", "has no tensor 'fc.wait'", CLQ_ERROR_ARGUMENT},
        {"fc.weigt -> cat/kernel\n", "has no tensor 'fc.weigt'; did you mean 'fc.weight'?", CLQ_ERROR_ARGUMENT},
        {"fc.weight -> cat/kernal\n", "did you mean 'cat/kernel'", CLQ_ERROR_ARGUMENT},
        {"fc.weight -> cat/kernel\n", "has shape (3, 5)", CLQ_ERROR_MISMATCH},
        {"features.0.weight -> yak/kernel transposed\n", "a layout of 2", CLQ_ERROR_MISMATCH},
        {"features.0.bias -> yak/bias\nfc.weight -> yak/bias\n", "would both be variable yak/bias", CLQ_ERROR_MISMATCH},
        {"extra ->\n", "none of its tensors", CLQ_ERROR_MISMATCH},
        {"fc.w* ->\nfc.weight -> cat/kernel\n", "line 2: line 1 is about tensor 'fc.weight' already",
         CLQ_ERROR_ARGUMENT},
    };
    clq_model *model = read_model("images");
    clq_trainer *trainer = open_trainer(model);
    char *others = clq_strdup(put_others());
    size_t count;
    (void)state;
    float *before = values_of(model, trainer, &count);
    for (size_t i = 0; i < CLQ_COUNT_OF(bad); i++)
        assert_fails(bad[i].status, bad[i].says, clq_trainer_load_part(trainer, others, put_map(bad[i].map), NULL));
    assert_fails(CLQ_ERROR_NOT_FOUND, "nowhere", clq_trainer_load_part(trainer, others, files_path("nowhere"), NULL));
    float *after = values_of(model, trainer, &count);
    assert_memory_equal(before, after, count * sizeof *before);
    clq_free(others);
    clq_free(before);
    clq_free(after);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

/* Keras keeps them as opaque numbers, with a word beside them. */
static void weights_of_16_bits_are_read(void **state) {
    static const float kernel[] = {-0.5f, -0.25f, 0, 0.25f, 0.5f, 0.75f}, bias[] = {1, -2.5f};
    static const char text[] =
        "{\"module\": \"keras\", \"class_name\": \"Sequential\", \"config\": {\"name\": \"bfloat\", \"layers\": ["
        "{\"module\": \"keras.layers\", \"class_name\": \"InputLayer\", \"config\": {\"batch_shape\": [null, 3], "
        "\"name\": \"x\"}}, {\"module\": \"keras.layers\", \"class_name\": \"Dense\", \"config\": {\"name\": "
        "\"yak\", \"units\": 2}}]}}";
    char *path = golden_path("bfloat", ".weights.h5");
    float got[6];
    clq_model *model;
    (void)state;
    assert_ok(clq_model_read_keras_json(files_put("bfloat.json", text, sizeof text - 1), &model));
    clq_trainer *trainer = open_trainer(model);
    assert_ok(clq_trainer_load(trainer, path));
    assert_ok(clq_trainer_get_variable(trainer, index_of(model, "yak/kernel"), got));
    assert_memory_equal(got, kernel, sizeof kernel);
    assert_ok(clq_trainer_get_variable(trainer, index_of(model, "yak/bias"), got));
    assert_memory_equal(got, bias, sizeof bias);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
    clq_free(path);
}

/* What has its name, or its place, and its shape is taken. */
static void partly_loaded_files_leave_the_rest(void **state) {
    clq_model *model = read_model("images");
    clq_trainer *trainer = open_trainer(model);
    char *other = golden_path("sequences", ".keras");
    const char *few = files_path("few.safetensors");
    float head[15], got[15];
    clq_loaded *loaded;
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(head); i++) head[i] = (float)i;
    const clq_safetensors_source sources[] = {
        {.name = "cat/bias", .dtype = CLQ_F32, .rank = 1, .dims = {4}, .data = head},
        {.name = "cat/kernel", .dtype = CLQ_F32, .rank = 2, .dims = {5, 3}, .data = head}};
    assert_ok(clq_safetensors_write(few, sources, CLQ_COUNT_OF(sources), NULL, 0));
    assert_ok(clq_trainer_load_part(trainer, few, NULL, &loaded));
    assert_int_equal(clq_loaded_count(loaded, CLQ_LOADED_VARIABLES), 1);
    assert_string_equal(clq_loaded_name(loaded, CLQ_LEFT_TENSORS, 0), "cat/bias");
    clq_loaded_destroy(loaded);
    assert_ok(clq_trainer_get_variable(trainer, index_of(model, "cat/kernel"), got));
    assert_memory_equal(got, head, sizeof head);
    /* Of a Keras file whose one Dense has other shapes nothing fits, until a map says what does. */
    assert_fails(CLQ_ERROR_MISMATCH, "is not part of model", clq_trainer_load(trainer, other));
    assert_fails(CLQ_ERROR_MISMATCH, "none of its tensors", clq_trainer_load_part(trainer, other, NULL, NULL));
    const char *map = put_map("layers/gru/cell/vars/0 -> newt/bias reshaped\n");
    assert_fails(CLQ_ERROR_MISMATCH, "has shape (4, 9)", clq_trainer_load_part(trainer, other, map, NULL));
    map = put_map("layers/layer_normalization/vars/0 -> ape/gamma\n"
                  "layers/multi_head_attention/query_dense/vars/1 -> ape/beta reshaped\n");
    assert_fails(CLQ_ERROR_MISMATCH, "'layers/layer_normalization/vars/0' has shape (4)",
                 clq_trainer_load_part(trainer, other, map, NULL));
    clq_free(other);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

/* ---- out of memory ---- */

typedef struct part_call {
    clq_trainer *trainer;
    const char *file, *map;
} part_call;

static clq_status load_part(void *context) {
    const part_call *c = context;
    clq_loaded *loaded = NULL;
    const clq_status status = clq_trainer_load_part(c->trainer, c->file, c->map, &loaded);
    clq_loaded_destroy(loaded);
    return status;
}

static clq_status save_weights(void *context) {
    const part_call *c = context;
    return clq_trainer_save(c->trainer, c->file);
}

static clq_status load_weights(void *context) {
    const part_call *c = context;
    return clq_trainer_load(c->trainer, c->file);
}

static void memory_may_run_out(void **state) {
    clq_model *model = read_model("images");
    clq_trainer *trainer = open_trainer(model);
    part_call call = {.trainer = trainer, .file = put_others(), .map = put_map(good_map)};
    (void)state;
    assert_true(walk_allocations(load_part, &call) > 20);
    call.file = files_path("few.weights.h5");
    assert_true(walk_allocations(save_weights, &call) > 20);
    assert_true(walk_allocations(load_weights, &call) > 20);
    assert_true(walk_allocations(prepare, NULL) > 20);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predictions_are_keras_s),
        cmocka_unit_test(saved_files_have_what_keras_s_have),
        cmocka_unit_test(classes_have_keras_s_names),
        cmocka_unit_test(models_made_here_have_keras_s_places),
        cmocka_unit_test(layers_are_numbered_from_the_outputs),
        cmocka_unit_test(models_made_here_are_saved_whole),
        cmocka_unit_test(maps_say_which_tensor_is_which),
        cmocka_unit_test(maps_that_say_nothing_are_refused),
        cmocka_unit_test(weights_of_16_bits_are_read),
        cmocka_unit_test(partly_loaded_files_leave_the_rest),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests_name("interop/keras_files", tests, begin, end);
}
