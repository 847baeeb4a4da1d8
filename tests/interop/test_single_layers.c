/* Kinds of layers and their attributes alone, against Keras in float64 (tests/golden/single_layers.json): outputs,
 * loss, and gradients, those of a layer's input by the Dense layer in front of it. Attention and embeddings also with
 * weights that replicas split. */
#include "graph/graph.h"
#include "interop/interop.h"
#include "support/apart.h"
#include "support/check.h"
#include "support/files.h"
#include "support/system.h"
#include <clique/clique.h>

#include <jansson.h>
#include <math.h>

enum { COUNT = 2 };

/* Layers expand into the same operations for every driver, and tests/ops tests the kernels of most of these on all
 * drivers. Intel's compiler takes half of PoCL's time for the thousand programs of these layers. PoCL has the layers
 * whose weights are split, and those in `of_pocl`. */
#if defined(__x86_64__)
#define ONE "intel"
#else
#define ONE "pocl:0"
#endif

static json_t *entries;

/* The numbers of an array; clq_free. */
static float *floats_of(const json_t *array, size_t *count) {
    *count = json_array_size(array);
    float *floats = clq_alloc(CLQ_MAX(*count, (size_t)1), sizeof *floats);
    assert_non_null(floats);
    for (size_t i = 0; i < *count; i++) floats[i] = (float)json_number_value(json_array_get(array, i));
    return floats;
}

/* Relative to the largest number, which rounding errors of sums are of, and to a hundredth: terms of about 1 may cancel
 * each other, as those of the gradient of an attention's key biases do. */
static void check_near(const char *model, const char *what, const float *got, const json_t *want, double tolerance) {
    double most = 1e-2;
    for (size_t i = 0; i < json_array_size(want); i++)
        most = fmax(most, fabs(json_number_value(json_array_get(want, i))));
    for (size_t i = 0; i < json_array_size(want); i++) {
        const double number = json_number_value(json_array_get(want, i));
        if (!(fabs((double)got[i] - number) <= tolerance * most))
            fail_msg("%s: %s[%zu of %zu] is %.9g, and Keras has %.9g", model, what, i, json_array_size(want),
                     (double)got[i], number);
    }
}

/* Read, written, and read again. */
static clq_model *read_model(json_t *entry) {
    clq_model *model;
    const char *path = files_path("model.json");
    assert_int_equal(json_dump_file(json_object_get(entry, "model"), path, 0), 0);
    assert_ok(clq_model_read_keras_json(path, &model));
    const char *name = json_string_value(json_object_get(entry, "name"));
    const clq_status status = clq_model_write_keras_json(model, path);
    const bool has_parts = strncmp(name, "hub_", 4) == 0 || strcmp(name, "tokens_of_siglip") == 0 ||
                           strcmp(name, "tokens_in_hub_blocks") == 0;
    if (status == CLQ_ERROR_UNSUPPORTED && has_parts) return model; /* Keras has no layer for a part */
    if (status != CLQ_OK) fail_msg("%s: %s", name, clq_error_detail());
    clq_model_destroy(model);
    assert_ok(clq_model_read_keras_json(path, &model));
    return model;
}

static void set_variables(clq_trainer *trainer, const clq_model *model, json_t *variables) {
    assert_int_equal(clq_model_variable_count(model), json_object_size(variables));
    for (size_t i = 0; i < clq_model_variable_count(model); i++) {
        clq_variable_info info;
        size_t count;
        assert_ok(clq_model_variable(model, i, &info));
        float *values = floats_of(json_object_get(variables, info.name), &count);
        if (count != info.elements) fail_msg("Keras has %zu values of %s, not %zu", count, info.name, info.elements);
        assert_ok(clq_trainer_set_variable(trainer, i, values));
        clq_free(values);
    }
}

static void check_outputs(clq_trainer *trainer, const clq_model *model, json_t *entry, const float *samples) {
    const char *name = json_string_value(json_object_get(entry, "name"));
    json_t *outputs = json_object_get(entry, "outputs");
    float *got[CLQ_MODEL_OUTPUTS_MAX] = {NULL};
    clq_dataset *data;
    const clq_shape shape = clq_model_input_shape(model);
    const int32_t labels[COUNT] = {0};
    assert_ok(clq_dataset_arrays(samples, CLQ_F32, COUNT, shape.rank, shape.dims, labels, CLQ_I32, 1, &data));
    assert_ok(clq_dataset_batch(data, COUNT, false));
    assert_int_equal(clq_model_output_count(model), json_array_size(outputs));
    for (size_t i = 0; i < json_array_size(outputs); i++)
        got[i] = clq_alloc(json_array_size(json_array_get(outputs, i)), sizeof(float));
    assert_ok(clq_predict_outputs(trainer, data, got));
    for (size_t i = 0; i < json_array_size(outputs); i++) {
        check_near(name, clq_model_output_name(model, i), got[i], json_array_get(outputs, i), 2e-6);
        clq_free(got[i]);
    }
    clq_dataset_destroy(data);
}

static void check_gradients(clq_trainer *trainer, const clq_model *model, json_t *entry, const float *samples) {
    const char *name = json_string_value(json_object_get(entry, "name"));
    json_t *targets = json_object_get(entry, "targets"), *gradients = json_object_get(entry, "gradients");
    float *labels[CLQ_MODEL_OUTPUTS_MAX];
    clq_labels more[CLQ_MODEL_OUTPUTS_MAX] = {{0}};
    size_t counts[CLQ_MODEL_OUTPUTS_MAX], outputs = json_array_size(targets), trained = 0;
    for (size_t i = 0; i < outputs; i++) {
        labels[i] = floats_of(json_array_get(targets, i), &counts[i]);
        if (i > 0) more[i - 1] = (clq_labels){.values = labels[i], .is_float = true, .elements = counts[i] / COUNT};
    }
    const clq_batch batch = {.count = COUNT,
                             .samples = samples,
                             .sample_elements = json_array_size(json_object_get(entry, "samples")) / COUNT,
                             .sample_dtype = CLQ_F32,
                             .labels = labels[0],
                             .float_labels = true,
                             .label_elements = counts[0] / COUNT,
                             .more_labels = more,
                             .more_count = outputs - 1};
    clq_step_info info;
    assert_ok(clq_step_gradients(trainer, &batch));
    assert_ok(clq_step_reduce(trainer));
    for (size_t i = 0; i < clq_model_variable_count(model); i++) {
        clq_variable_info variable;
        assert_ok(clq_model_variable(model, i, &variable));
        json_t *want = json_object_get(gradients, variable.name);
        assert_int_equal(variable.trainable, want != NULL);
        if (!want) continue;
        float *got = clq_alloc(variable.elements, sizeof *got);
        assert_ok(clq_trainer_get_gradient(trainer, 0, i, got));
        check_near(name, variable.name, got, want, 1e-5);
        clq_free(got);
        trained++;
    }
    assert_int_equal(trained, json_object_size(gradients));
    assert_ok(clq_step_apply(trainer));
    assert_ok(clq_step_read(trainer, &info));
    const double loss = json_number_value(json_object_get(entry, "loss"));
    if (!(fabs(info.loss - loss) <= 2e-6 * fabs(loss)))
        fail_msg("%s: loss %.9g, and Keras has %.9g", name, info.loss, loss);
    for (size_t i = 0; i < outputs; i++) clq_free(labels[i]);
}

static void check(json_t *entry, clq_strategy_kind strategy, const char *spec) {
    clq_model *model = read_model(entry);
    clq_trainer_config config = apart_config();
    clq_devices devices;
    clq_trainer *trainer;
    size_t count;
    float *samples = floats_of(json_object_get(entry, "samples"), &count);
    config.loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    config.metrics = "none";
    config.sample_dtype = CLQ_F32;
    config.strategy = strategy;
    assert_ok(clq_devices_select(sys, spec, &devices));
    config.global_batch = CLQ_MAX((size_t)COUNT, devices.count); /* a larger one than any that comes */
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    set_variables(trainer, model, json_object_get(entry, "variables"));
    check_outputs(trainer, model, entry, samples);
    check_gradients(trainer, model, entry, samples);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
    clq_free(samples);
}

/* Models with kernels that no other test launches on PoCL. */
static bool is_of_pocl(const json_t *entry) {
    static const char *const of_pocl[] = {"both_ways",          "norms",        "other_axes",       "recurrent",
                                          "recurrent_in_steps", "reset_before", "recurrent_wrapped"};
    size_t i = 0;
    while (i < CLQ_COUNT_OF(of_pocl) && strcmp(of_pocl[i], json_string_value(json_object_get(entry, "name"))) != 0) i++;
    return i < CLQ_COUNT_OF(of_pocl);
}

/* Sanitizers see the code that reads and writes every model, and then every fourth one's training: what runs after a
 * model is read is the same code for most layers. With CLQ_TEST_WHOLE=1 they see every model's training. */
static bool only_reads(size_t index) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return index % 4 && !getenv("CLQ_TEST_WHOLE");
#else
    (void)index;
    return false;
#endif
}

static void layers_compute_what_keras_does(void **state) {
    size_t index;
    json_t *entry;
    (void)state;
    json_array_foreach(entries, index, entry) {
        if (only_reads(index))
            clq_model_destroy(read_model(entry));
        else
            check(entry, CLQ_STRATEGY_SINGLE, is_of_pocl(entry) ? "pocl:0" : ONE);
    }
    assert_true(index > 10);
}

/* ---- weights that replicas split ---- */

/* Of a model for so many replicas, variables that are split along their axis of this number, one behind the other: c by
 * units, r by inputs; '-': whole ones. */
static const struct split_row {
    const char *model;
    unsigned replicas;
    const char *variables;
} splits[] = {
    {"attention", 2,
     "c1 self/query/kernel c0 self/query/bias r0 self/attention_output/kernel - self/attention_output/bias"},
    {"attention_of_images", 2, "c1 rows/value/kernel c1 places/key/kernel"},
    {"grouped_attention", 2, "c1 self/query/kernel c1 self/key/kernel r0 self/attention_output/kernel"},
    {"grouped_attention", 3, "- self/query/kernel"},
    {"gated_attention", 2, "c1 front/kernel r0 gated/query/kernel"},
    {"tokens_masked", 2, "c1 attention/query/kernel c1 for_attention/embeddings c1 for_gru/embeddings - gru/kernel"},
    {"hub_blocks", 2, "c1 decoder_crossed.cross_attention/key/kernel r0 encoder.feedforward_output_dense/kernel"},
    {"hub_decoders", 2,
     "c1 llama.self_attention.key/kernel c1 qwen.self_attention.query/kernel c0 qwen.self_attention.key/bias "
     "c1 neox.self_attention.query_key_value/kernel r0 phi.attention.attention_output/kernel"},
    {"hub_gemma", 2,
     "c0 third.attention.query/kernel r0 third.attention.attention_output/kernel - third.attention.query_norm/scale"},
    {"hub_gemma", 3, "- third.attention.query/kernel c1 third.ffw_gating/kernel"},
    {"hub_slopes", 2, "c1 bloom.self_attention.query_dense/kernel c1 falcon.attention.key_dense/kernel"},
    {"hub_slopes", 3, "c1 bloom.self_attention.query_dense/kernel - masked.attention.key_dense/kernel"},
    {"kernels_turned", 2, "c1 front/kernel r1 heads/kernel r2 mixed/kernel"},
    {"tokens_reversed", 2, "- tied/embeddings c1 wide/embeddings c1 rows/embeddings c1 there_alone/embeddings"},
    {"tokens_reversed", 3, "- tied/embeddings c1 wide/embeddings c1 rows/embeddings - back_alone/embeddings"},
    {"tokens_of_hub", 3, "c1 both.token_embedding/embeddings"},
};

static void check_split_of(const clq_model *model, const clq_slicing *slicing, const char *name, const char *how) {
    size_t v = 0;
    while (v < model->variable_count && strcmp(model->variables[v].name, name) != 0) v++;
    if (v == model->variable_count) fail_msg("%s: no variable %s", clq_model_name(model), name);
    const clq_weight_slice slice = clq_slicing_of(slicing, 0, v);
    const bool split = clq_weight_slice_is_part(&slice, &model->variables[v]);
    char got[8] = "-";
    if (split) (void)snprintf(got, sizeof got, "%c%u", slice.rows ? 'r' : 'c', slice.axis);
    if (strcmp(got, how) != 0) fail_msg("%s of %s is %s, not %s", name, clq_model_name(model), got, how);
}

static void check_splits(json_t *entry, const struct split_row *row) {
    clq_model *model = read_model(entry);
    clq_slicing *slicing;
    assert_ok(clq_slicing_create(model, row->replicas, &slicing));
    for (const char *at = row->variables; *at;) {
        char how[4], name[128];
        int used = 0;
        assert_int_equal(sscanf(at, " %3s %127s%n", how, name, &used), 2);
        check_split_of(model, slicing, name, how);
        at += used;
    }
    clq_slicing_destroy(slicing);
    clq_model_destroy(model);
}

static void split_layers_compute_what_keras_does(void **state) {
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(splits); i++) {
        size_t index;
        json_t *entry;
        bool found = false;
        json_array_foreach(entries, index, entry) {
            if (strcmp(json_string_value(json_object_get(entry, "name")), splits[i].model) != 0) continue;
            found = true;
            check_splits(entry, &splits[i]);
            check(entry, CLQ_STRATEGY_TENSOR, splits[i].replicas == 2 ? "pocl:0,pocl:1" : "pocl:0,pocl:1,pocl:2");
        }
        assert_true(found);
    }
}

/* A model of one layer y behind an input x, and of what is behind y. */
#define ARGUMENT(layer)                                                                                                \
    "\"inbound_nodes\": [{\"args\": [{\"class_name\": \"__keras_tensor__\", \"config\": {\"keras_history\": [\"" layer \
    "\", 0, 0]}}], \"kwargs\": {}}]}"
static const char *write_model_of(const char *shape, const char *layer, const char *behind, const char *output) {
    char *text = clq_strprintf(
        "{\"module\": \"keras.src.models.functional\", \"class_name\": \"Functional\", \"config\": {\"name\": \"m\", "
        "\"layers\": [{\"module\": \"keras.layers\", \"class_name\": \"InputLayer\", \"name\": \"x\", \"config\": {"
        "\"name\": \"x\", \"batch_shape\": %s}, \"inbound_nodes\": []}, {%s, \"name\": \"y\", " ARGUMENT(
            "x") "%s], "
                 "\"input_layers\": [[\"x\", 0, 0]], \"output_layers\": [[\"%s\", 0, 0]]}}",
        shape, layer, behind, output);
    assert_non_null(text);
    const char *path = files_put("m.json", text, strlen(text));
    clq_free(text);
    return path;
}

static clq_model *model_of(const char *shape, const char *layer, const char *behind, const char *output) {
    clq_model *model;
    const clq_status status = clq_model_read_keras_json(write_model_of(shape, layer, behind, output), &model);
    if (status != CLQ_OK) fail_msg("%s: %s", layer, clq_error_detail());
    return model;
}

static clq_trainer *trainer_of(clq_model *model, clq_dtype samples) {
    clq_trainer_config config = apart_config();
    clq_trainer *trainer;
    clq_devices devices;
    config.loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    config.metrics = "none";
    config.global_batch = COUNT;
    config.inference_only = true;
    config.sample_dtype = samples;
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    return trainer;
}

static clq_dataset *data_of(const void *samples, clq_dtype dtype, unsigned rank, const size_t *shape) {
    static const int32_t labels[COUNT];
    clq_dataset *data;
    assert_ok(clq_dataset_arrays(samples, dtype, COUNT, rank, shape, labels, CLQ_I32, 1, &data));
    assert_ok(clq_dataset_batch(data, COUNT, false));
    return data;
}

/* Waves times windows, as keras.initializers.STFT has them: of 4 places and 3 waves. */
static void kernels_of_spectrograms_are_waves_at_first(void **state) {
    enum { NUMBERS = 12 };
    static const struct {
        const char *keys;
        float kernels[2][NUMBERS]; /* real_kernel, imag_kernel */
    } rows[] = {
        {"",
         {{0, 0, 0, 0.70710683f, 0, -0.70710683f, 0.70710683f, -0.70710683f, 0.70710683f, 0, 0, 0},
          {0, 0, 0, 0, -0.70710683f, 0, 0, 0, 0, 0, 0, 0}}},
        {", \"window\": \"hamming\", \"scaling\": \"spectrum\", \"periodic\": true",
         {{0.03703704f, 0.03703704f, 0.03703704f, 0.25f, 0, -0.25f, 0.46296296f, -0.46296296f, 0.46296296f, 0.25f, 0,
           -0.25f},
          {0, 0, 0, 0, -0.25f, 0, 0, 0, 0, 0, 0.25f, 0}}},
    };
    (void)state;
    for (size_t k = 0; k < CLQ_COUNT_OF(rows); k++) {
        char *layer = clq_strprintf(
            "\"class_name\": \"STFTSpectrogram\", \"config\": {\"name\": \"y\", \"frame_length\": 4%s}", rows[k].keys);
        clq_model *model = model_of("[null, 9, 2]", layer, "", "y");
        clq_trainer *trainer = trainer_of(model, CLQ_F32);
        assert_int_equal(clq_model_variable_count(model), 2);
        for (size_t v = 0; v < 2; v++) {
            float got[NUMBERS];
            assert_ok(clq_trainer_get_variable(trainer, v, got));
            for (size_t i = 0; i < NUMBERS; i++)
                if (!(fabsf(got[i] - rows[k].kernels[v][i]) <= 2e-7f))
                    fail_msg("%s: [%zu] of kernel %zu is %g, not %g", layer, i, v, (double)got[i],
                             (double)rows[k].kernels[v][i]);
        }
        clq_trainer_destroy(trainer);
        clq_model_destroy(model);
        clq_free(layer);
    }
}

/* As they are: no byte is divided by 255 on its way to a layer that takes numbers of rows. */
static void bytes_are_numbers_of_one_hot(void **state) {
    enum { WIDTH = 3, CLASSES = 4 };
    static const uint8_t samples[COUNT * WIDTH] = {0, 3, 1, 2, 2, 0}, beyond[COUNT * WIDTH] = {0, 3, 1, 2, 4, 0};
    static const size_t shape[] = {WIDTH};
    float got[COUNT * WIDTH * CLASSES];
    clq_model *model = model_of("[null, 3]",
                                "\"module\": \"keras.src.ops.nn\", \"class_name\": \"OneHot\", \"config\": {"
                                "\"name\": \"y\", \"num_classes\": 4, \"axis\": -1}",
                                "", "y");
    clq_trainer *trainer = trainer_of(model, CLQ_U8);
    clq_dataset *data = data_of(samples, CLQ_U8, 1, shape);
    (void)state;
    assert_ok(clq_predict(trainer, data, got));
    for (size_t i = 0; i < COUNT * WIDTH; i++)
        for (size_t c = 0; c < CLASSES; c++) assert_true(got[i * CLASSES + c] == (samples[i] == c ? 1.0f : 0.0f));
    clq_dataset_destroy(data);
    data = data_of(beyond, CLQ_U8, 1, shape);
    assert_fails(CLQ_ERROR_MISMATCH, "value 1 of sample 1 is 4, and layer 'y' has rows 0 to 3",
                 clq_predict(trainer, data, got));
    clq_dataset_destroy(data);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

/* Bytes that Rescaling divides by 255 are divided once, whatever moves them before. */
static void bytes_are_scaled_once(void **state) {
    static const char *const layers[] = {
        "\"class_name\": \"Resizing\", \"config\": {\"name\": \"y\", \"height\": 3, \"width\": 2}",
        "\"class_name\": \"CenterCrop\", \"config\": {\"name\": \"y\", \"height\": 2, \"width\": 2}",
        "\"module\": \"keras.src.ops.image\", \"class_name\": \"Resize\", \"config\": {\"name\": \"y\", \"size\": [3, "
        "2]}",
        "\"module\": \"keras.src.ops.image\", \"class_name\": \"ExtractPatches\", \"config\": {\"name\": \"y\", "
        "\"size\": [2, 2], \"strides\": [2, 2], \"dilation_rate\": 1, \"padding\": \"valid\", \"data_format\": "
        "\"channels_last\"}",
        "\"module\": \"keras.src.ops.numpy\", \"class_name\": \"Roll\", \"config\": {\"name\": \"y\", \"shift\": 1, "
        "\"axis\": 1}",
        "\"module\": \"keras.src.ops.numpy\", \"class_name\": \"Repeat\", \"config\": {\"name\": \"y\", \"repeats\": "
        "2, "
        "\"axis\": 1}",
        "\"module\": \"keras.src.ops.nn\", \"class_name\": \"SpaceToDepth\", \"config\": {\"name\": \"y\", "
        "\"block_size\": 2}",
    };
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(layers); i++) {
        float factor;
        clq_model *model = model_of("[null, 4, 4, 4]", layers[i],
                                    ", {\"class_name\": \"Rescaling\", \"name\": \"z\", \"config\": {\"name\": \"z\", "
                                    "\"scale\": 0.00392156862745098}, " ARGUMENT("y"),
                                    "z");
        assert_ok(clq_model_byte_factor(model, &factor));
        if (factor != 1.0f) fail_msg("%s: bytes are divided in front of it", layers[i]);
        clq_model_destroy(model);
    }
}

/* Of logarithms of 0 alone, and beside others: the logarithm of what they are logarithms of. */
static void logarithms_of_sums_of_nothing(void **state) {
    static const float samples[COUNT * 3] = {0, 0, 0, 1, 3, 0};
    static const size_t shape[] = {3, 1};
    float got[COUNT];
    clq_model *model = model_of(
        "[null, 3, 1]", "\"module\": \"keras.src.ops.numpy\", \"class_name\": \"Log\", \"config\": {\"name\": \"y\"}",
        ", {\"module\": \"keras.src.ops.math\", \"class_name\": \"Logsumexp\", \"name\": \"z\", \"config\": {"
        "\"name\": \"z\", \"axis\": 1, \"keepdims\": false}, " ARGUMENT("y"),
        "z");
    clq_trainer *trainer = trainer_of(model, CLQ_F32);
    clq_dataset *data = data_of(samples, CLQ_F32, 2, shape);
    (void)state;
    assert_ok(clq_predict(trainer, data, got));
    assert_true(got[0] == -INFINITY && fabsf(got[1] - logf(4)) <= 1e-6f);
    clq_dataset_destroy(data);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

/* A place comes once, also among numbers that are as low as numbers can be: of (0, 1, 0, 0, 2, 0) and (0, 0, 0, 0, 0,
 * 0.5), as Keras has them. */
static void largest_of_logarithms_of_nothing(void **state) {
    enum { WIDTH = 6, FOUND = 4 };
    static const float samples[COUNT * WIDTH] = {0, 1, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0.5f};
    static const float places[COUNT * FOUND] = {4, 1, 0, 2, 5, 0, 1, 2};
    static const size_t shape[] = {WIDTH};
    (void)state;
    for (unsigned part = 0; part < 2; part++) {
        float got[COUNT * FOUND];
        char *behind = clq_strprintf(
            ", {\"module\": \"keras.src.ops.math\", \"class_name\": \"TopK\", \"name\": \"t\", \"config\": {"
            "\"name\": \"t\", \"k\": 4, \"sorted\": true}, " ARGUMENT(
                "y") ", {\"module\": \"keras.src.ops.core\", \"class_name\": \"Cast\", \"name\": \"z\", \"config\": {"
                     "\"name\": \"z\", \"dtype\": \"float32\"}, \"inbound_nodes\": [{\"args\": [{\"class_name\": "
                     "\"__keras_tensor__\", \"config\": {\"keras_history\": [\"t\", 0, %u]}}], \"kwargs\": {}}]}",
            part);
        clq_model *model = model_of("[null, 6]",
                                    "\"module\": \"keras.src.ops.numpy\", \"class_name\": \"Log\", \"config\": {"
                                    "\"name\": \"y\"}",
                                    behind, "z");
        clq_trainer *trainer = trainer_of(model, CLQ_F32);
        clq_dataset *data = data_of(samples, CLQ_F32, 1, shape);
        assert_ok(clq_predict(trainer, data, got));
        for (size_t i = 0; i < COUNT * FOUND; i++) {
            const float number = samples[i / FOUND * WIDTH + (size_t)places[i]];
            const float want = part == 1 ? places[i] : number > 0 ? logf(number) : -INFINITY;
            if (!(got[i] == want || fabsf(got[i] - want) <= 1e-6f))
                fail_msg("part %u: [%zu] is %g, not %g", part, i, (double)got[i], (double)want);
        }
        clq_dataset_destroy(data);
        clq_trainer_destroy(trainer);
        clq_model_destroy(model);
        clq_free(behind);
    }
}

/* The path of a model that casts 64 doublings of a number times a sign. */
static const char *write_doublings(const char *number) {
    enum { DEPTH = 64 };
    char *behind = clq_strprintf(
        ", {\"module\": \"keras.src.ops.numpy\", \"class_name\": \"Multiply\", \"name\": \"s0\", \"config\": {"
        "\"name\": \"s0\"}, \"inbound_nodes\": [{\"args\": [{\"class_name\": \"__keras_tensor__\", \"config\": "
        "{\"keras_history\": [\"y\", 0, 0]}}, %s], \"kwargs\": {}}]}",
        number);
    for (unsigned i = 1; i <= DEPTH + 1; i++) {
        char *more =
            i > DEPTH
                ? clq_strprintf("%s, {\"module\": \"keras.src.ops.core\", \"class_name\": \"Cast\", \"name\": \"z\", "
                                "\"config\": {\"name\": \"z\", \"dtype\": \"int32\"}, " ARGUMENT("s64"),
                                behind)
                : clq_strprintf(
                      "%s, {\"module\": \"keras.src.ops.numpy\", \"class_name\": \"Add\", \"name\": \"s%u\", "
                      "\"config\": {\"name\": \"s%u\"}, \"inbound_nodes\": [{\"args\": [{\"class_name\": "
                      "\"__keras_tensor__\", \"config\": {\"keras_history\": [\"s%u\", 0, 0]}}, {\"class_name\": "
                      "\"__keras_tensor__\", \"config\": {\"keras_history\": [\"s%u\", 0, 0]}}], \"kwargs\": {}}]}",
                      behind, i, i, i - 1, i - 1);
        assert_non_null(more);
        clq_free(behind);
        behind = more;
    }
    const char *path = write_model_of(
        "[null, 2]", "\"module\": \"keras.src.ops.numpy\", \"class_name\": \"Sign\", \"config\": {\"name\": \"y\"}",
        behind, "z");
    clq_free(behind);
    return path;
}

/* Each doubling adds a tensor to itself: there are 2^64 ways back from the last to what tells whether it is whole. */
static void sums_of_whole_numbers_are_cast(void **state) {
    clq_model *model;
    (void)state;
    assert_ok(clq_model_read_keras_json(write_doublings("3"), &model));
    clq_model_destroy(model);
    assert_fails(CLQ_ERROR_UNSUPPORTED, "numbers that may have fractions are cast to 'int32'",
                 clq_model_read_keras_json(write_doublings("0.25"), &model));
}

static int begin(void **state) {
    char *path = clq_strprintf("%s/tests/golden/single_layers.json", getenv("CLQ_TEST_SOURCE"));
    json_t *file = path ? json_load_file(path, 0, NULL) : NULL;
    clq_free(path);
    if (!file) return -1;
    entries = json_incref(json_object_get(file, "models"));
    json_decref(file);
    return files_begin(state) == 0 ? open_system(state) : -1;
}
static int end(void **state) {
    json_decref(entries);
    return close_system(state) == 0 ? files_end(state) : -1;
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]); /* a test's name: that one alone */
    const struct CMUnitTest tests[] = {cmocka_unit_test(layers_compute_what_keras_does),
                                       cmocka_unit_test(split_layers_compute_what_keras_does),
                                       cmocka_unit_test(kernels_of_spectrograms_are_waves_at_first),
                                       cmocka_unit_test(bytes_are_numbers_of_one_hot),
                                       cmocka_unit_test(bytes_are_scaled_once),
                                       cmocka_unit_test(logarithms_of_sums_of_nothing),
                                       cmocka_unit_test(largest_of_logarithms_of_nothing),
                                       cmocka_unit_test(sums_of_whole_numbers_are_cast)};
    return cmocka_run_group_tests_name("interop/single_layers", tests, begin, end);
}
