/* The importer against tests/golden/layers.json, branched.json and normalised.json, made by Keras: what must be read,
 * with the shapes and variables that Keras has, and what must be refused, with the words the message must hold; and
 * against thousands of damaged files. */
#include "interop/interop.h"
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

static json_t *entries;
static char file[64];
static int handle;

/* In place. Some file systems write a file that was emptied to the disk as soon as it is closed, in case the machine
 * fails, and there are tens of thousands of these. */
static void put(const char *text, size_t length) {
    for (size_t done = 0; done < length;) {
        const ssize_t part = pwrite(handle, text + done, length - done, (off_t)done);
        assert_true(part > 0);
        done += (size_t)part;
    }
    assert_int_equal(ftruncate(handle, (off_t)length), 0);
}

static clq_status read_json(json_t *json, clq_model **model) {
    char *text = json_dumps(json, 0);
    assert_non_null(text);
    put(text, strlen(text));
    free(text);
    return clq_model_read_keras_json(file, model);
}

static bool same_shape(clq_shape shape, json_t *want) {
    if (shape.rank != json_array_size(want)) return false;
    for (unsigned d = 0; d < shape.rank; d++)
        if ((json_int_t)shape.dims[d] != json_integer_value(json_array_get(want, d))) return false;
    return true;
}

static void check_read(const char *name, json_t *entry) {
    clq_model *model;
    clq_status status = read_json(json_object_get(entry, "model"), &model);
    if (status != CLQ_OK) fail_msg("%s: %s", name, clq_error_detail());
    if (!same_shape(clq_model_input_shape(model), json_object_get(entry, "input_shape")))
        fail_msg("%s: input shape", name);
    if (!same_shape(clq_model_output_shape(model, 0), json_object_get(entry, "output_shape")))
        fail_msg("%s: output shape", name);
    size_t output;
    json_t *shape;
    json_array_foreach(json_object_get(entry, "output_shapes"), output,
                       shape) if (!same_shape(clq_model_output_shape(model, output), shape))
        fail_msg("%s: shape of output %zu", name, output);
    json_t *variables = json_object_get(entry, "variables");
    assert_int_equal(clq_model_variable_count(model), json_object_size(variables));
    for (size_t i = 0; i < clq_model_variable_count(model); i++) {
        clq_variable_info v;
        assert_int_equal(clq_model_variable(model, i, &v), CLQ_OK);
        if (!same_shape(v.shape, json_object_get(variables, v.name))) fail_msg("%s: variable %s", name, v.name);
    }
    clq_model_destroy(model);
}

static void check_refused(const char *name, json_t *entry) {
    clq_model *model;
    clq_status status = read_json(json_object_get(entry, "model"), &model);
    if (status == CLQ_OK) fail_msg("%s was read", name);
    assert_true(status == CLQ_FORMAT || status == CLQ_UNSUPPORTED);
    size_t index;
    json_t *word;
    json_array_foreach(json_object_get(entry, "message_has"), index,
                       word) if (!strstr(clq_error_detail(), json_string_value(word)))
        fail_msg("%s: no '%s' in: %s", name, json_string_value(word), clq_error_detail());
}

/* What the files say may be refused, because an engine may not have it, and Keras reads: so do we. */
static bool is_read_now(const char *name) {
    static const char *const read[] = {"branch",
                                       "two_outputs",
                                       "two_inputs",
                                       "three_inputs",
                                       "shared_layer",
                                       "multiply_broadcast",
                                       "add_broadcast",
                                       "dead_end",
                                       "shared_conv2d_two_sizes",
                                       "dense_gelu",
                                       "activation_selu",
                                       "conv2d_groups",
                                       "softmax_axis",
                                       "nested_model",
                                       "dropout_noise_shape",
                                       "spatial_dropout2d",
                                       "gaussian_dropout",
                                       "layer_normalization",
                                       "batch_normalization_frozen",
                                       "minimum",
                                       "dense_frozen",
                                       "lstm",
                                       "dense_regularizer",
                                       "dense_constraint",
                                       "batch_normalization_constraint",
                                       "dot",
                                       "batch_normalization_regularizer",
                                       "input_is_an_output"};
    for (size_t i = 0; i < CLQ_COUNT_OF(read); i++)
        if (strcmp(read[i], name) == 0) return true;
    return false;
}

static void check_is_read(const char *name, json_t *entry) {
    clq_model *model;
    assert_true(json_is_true(json_object_get(entry, "keras_reads")));
    if (read_json(json_object_get(entry, "model"), &model) != CLQ_OK) fail_msg("%s: %s", name, clq_error_detail());
    clq_model_destroy(model);
}

static void layers_of_keras(void **state) {
    (void)state;
    size_t index, read = 0, refused = 0;
    json_t *entry;
    json_array_foreach(entries, index, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        bool wanted = strcmp(json_string_value(json_object_get(entry, "expect")), "read") == 0;
        if (wanted) {
            check_read(name, entry);
            read++;
        } else if (is_read_now(name)) {
            check_is_read(name, entry);
            read++;
        } else {
            check_refused(name, entry);
            refused++;
        }
    }
    assert_true(read >= 110 && refused >= 80);
}

/* What a value is called below the nearest object of a class; of a list, its first element, and all others alike. */
static char *place_of(json_t *parent, const char *place, const char *key, size_t i) {
    const char *class_name = json_string_value(json_object_get(parent, "class_name"));
    if (class_name) return clq_strprintf("%s/%s", class_name, key);
    return clq_strprintf("%s/%s", place, key ? key : i == 0 ? "first" : "other");
}

/* Every value of a good file replaced by other ones, one at a time: read or refused with a message, never worse. once:
 * the first value of each place alone (seen). */
static void damage(json_t *root, json_t *parent, const char *place, bool once, json_t *seen, size_t *made) {
    json_t *const wrong[] = {json_null(),    json_integer(-1), json_integer(0), json_integer(INT64_MAX),
                             json_real(2.5), json_string("x"), json_array(),    json_object(),
                             json_true()};
    void *iterator = json_is_object(parent) ? json_object_iter(parent) : NULL;
    size_t count = json_is_array(parent) ? json_array_size(parent) : json_object_size(parent);
    for (size_t i = 0; i < count; i++) {
        const char *key = iterator ? json_object_iter_key(iterator) : NULL;
        json_t *good = json_incref(key ? json_object_get(parent, key) : json_array_get(parent, i));
        char *below = place_of(parent, place, key, i);
        assert_non_null(below);
        const bool is_new = !once || !json_object_get(seen, below);
        assert_int_equal(json_object_set_new(seen, below, json_true()), 0);
        for (size_t w = 0; is_new && w < CLQ_COUNT_OF(wrong); w++) {
            clq_model *model;
            if (key)
                json_object_set(parent, key, wrong[w]);
            else
                json_array_set(parent, i, wrong[w]);
            clq_status status = read_json(root, &model);
            if (status == CLQ_OK)
                clq_model_destroy(model);
            else
                assert_true(*clq_error_detail() && strstr(clq_error_detail(), file));
            ++*made;
        }
        if (key)
            json_object_set(parent, key, good);
        else
            json_array_set(parent, i, good);
        if (json_is_object(good) || json_is_array(good)) damage(root, good, below, once, seen, made);
        clq_free(below);
        json_decref(good);
        if (iterator) iterator = json_object_iter_next(parent, json_object_key_to_iter(key));
    }
    for (size_t w = 0; w < CLQ_COUNT_OF(wrong); w++) json_decref(wrong[w]);
}

static void damaged_values(void **state) {
    (void)state;
    const char *const files[] = {"cnn_sgd_nesterov_ragged", "functional_chain",       "conv_variants",
                                 "outputs/two_outputs",     "branched/branch_concat", "branched/shared_layer",
                                 "normalised/dropout_eval"};
    json_t *seen = json_object(), *root, *entry;
    size_t made = 0, index;
    for (size_t i = 0; i < CLQ_COUNT_OF(files); i++) {
        char *path = clq_strprintf("%s/tests/golden/%s/model.json", getenv("CLQ_TEST_SOURCE"), files[i]);
        assert_int_equal(clq_json_read(path, 1 << 24, 64, &root), CLQ_OK);
        damage(root, root, "file", IS_WATCHED, seen, &made); /* under sanitizers three times as slow */
        json_decref(root);
        clq_free(path);
    }
    char *path = clq_strprintf("%s/tests/golden/single_layers.json", getenv("CLQ_TEST_SOURCE"));
    assert_int_equal(clq_json_read(path, 1 << 24, 64, &root), CLQ_OK);
    clq_free(path);
    json_array_foreach(json_object_get(root, "models"), index, entry) {
        json_t *model = json_object_get(entry, "model");
        damage(model, model, "file", true, seen, &made);
    }
    json_decref(root);
    json_decref(seen);
    assert_true(made > (IS_WATCHED ? 3000 : 30000));
}

/* Every prefix of a good file, and no allocation that may fail quietly. */
static void cut_short_and_out_of_memory(void **state) {
    (void)state;
    char *path = clq_strprintf("%s/tests/golden/mlp_adam_probs/model.json", getenv("CLQ_TEST_SOURCE"));
    void *text;
    size_t bytes;
    clq_model *model;
    assert_int_equal(clq_file_read(path, 1 << 20, &text, &bytes), CLQ_OK);
    while (bytes > 0 && ((char *)text)[bytes - 1] != '}') bytes--; /* a missing newline at the end is no damage */
    for (size_t length = 0; length < bytes; length += 7) {
        put(text, length);
        assert_int_not_equal(clq_model_read_keras_json(file, &model), CLQ_OK);
    }
    put(text, bytes);
    for (uint64_t nth = 1;; nth++) {
        clq_memory_fail_at(nth, false);
        clq_status status = clq_model_read_keras_json(file, &model);
        uint64_t allocations = clq_memory_fail_at(0, false);
        if (status == CLQ_OK) {
            clq_model_destroy(model);
            assert_true(nth > 3 && allocations < nth); /* the failing one was never reached */
            break;
        }
        assert_int_equal(status, CLQ_MEMORY);
    }
    clq_free(text);
    clq_free(path);
}

/* The most layers that are read, the last one first. Well below a second of the processor's time; where each layer is
 * looked for among all, a minute, and SIGVTALRM ends the program. */
static void long_chains(void **state) {
    (void)state;
    enum { LAYERS = 10000 };
    clq_text text = {0};
    clq_text_add(&text, "{\"class_name\": \"Functional\", \"config\": {\"name\": \"long\", \"layers\": [");
    for (int i = LAYERS - 1; i > 0; i--)
        clq_text_add(
            &text,
            "{\"class_name\": \"Activation\", \"name\": \"a%d\", \"config\": {\"name\": \"a%d\", \"activation\": "
            "\"relu\"}, \"inbound_nodes\": [{\"args\": [{\"config\": {\"keras_history\": [\"a%d\", 0, 0]}}]}]}, ",
            i, i, i - 1);
    clq_text_add(&text,
                 "{\"class_name\": \"InputLayer\", \"name\": \"a0\", \"config\": {\"name\": \"a0\", \"batch_shape\": "
                 "[null, 3]}}], \"input_layers\": [\"a0\", 0, 0], \"output_layers\": [\"a9999\", 0, 0]}}");
    assert_false(text.failed);
    put(text.data, text.length);
    clq_free(text.data);
    clq_model *model;
    const struct itimerval limit = {.it_value = {.tv_sec = 20}}, none = {0};
    assert_int_equal(setitimer(ITIMER_VIRTUAL, &limit, NULL), 0);
    clq_status status = clq_model_read_keras_json(file, &model);
    assert_int_equal(setitimer(ITIMER_VIRTUAL, &none, NULL), 0);
    if (status != CLQ_OK) fail_msg("%s", clq_error_detail());
    assert_int_equal(model->layer_count, LAYERS);
    clq_model_destroy(model);
}

/* ---- initialisers ---- */

#define DENSE_WITH(initializer)                                                                                        \
    "{\"class_name\": \"Sequential\", \"config\": {\"name\": \"s\", \"layers\": [{\"class_name\": \"Dense\", "         \
    "\"config\": {\"name\": \"d\", \"units\": 3, \"kernel_initializer\": " initializer "}}], "                         \
    "\"build_input_shape\": [null, 4]}}"
#define OF_CLASS(name, config) "{\"class_name\": \"" name "\", \"config\": {" config "}}"

static bool same_initialiser(const clq_initialiser *a, const clq_initialiser *b) {
    return a->kind == b->kind && a->value == b->value && a->low == b->low && a->high == b->high && a->mean == b->mean &&
           a->deviation == b->deviation && a->scale == b->scale && a->fan == b->fan &&
           a->distribution == b->distribution && a->gain == b->gain;
}

/* By name and as objects, with the defaults and formulas of Keras's documentation. */
static void initialisers_of_keras(void **state) {
    (void)state;
    const clq_initialiser he = {.kind = CLQ_INITIALISER_VARIANCE_SCALING, .scale = 2, .fan = CLQ_FAN_IN};
    const struct {
        const char *text;
        clq_initialiser is;
    } read[] = {
        {DENSE_WITH("\"zeros\""), {.kind = CLQ_INITIALISER_CONSTANT}},
        {DENSE_WITH(OF_CLASS("Constant", "\"value\": 0.25")), {.kind = CLQ_INITIALISER_CONSTANT, .value = 0.25}},
        {DENSE_WITH("\"uniform\""), {.kind = CLQ_INITIALISER_UNIFORM, .low = -0.05, .high = 0.05}},
        {DENSE_WITH(OF_CLASS("RandomUniform", "\"minval\": -1, \"maxval\": 0.5, \"seed\": 3")),
         {.kind = CLQ_INITIALISER_UNIFORM, .low = -1, .high = 0.5}},
        {DENSE_WITH(OF_CLASS("RandomNormal", "\"mean\": 1.5, \"stddev\": 0.02, \"seed\": null")),
         {.kind = CLQ_INITIALISER_NORMAL, .mean = 1.5, .deviation = 0.02}},
        {DENSE_WITH("\"truncated_normal\""), {.kind = CLQ_INITIALISER_TRUNCATED_NORMAL, .deviation = 0.05}},
        {DENSE_WITH("\"he_normal\""), he},
        {DENSE_WITH(OF_CLASS("HeNormal", "\"seed\": null, \"input_axes\": null, \"output_axes\": null")), he},
        {DENSE_WITH(OF_CLASS("VarianceScaling", "\"scale\": 2.0")), he},
        {DENSE_WITH(
             OF_CLASS("VarianceScaling", "\"scale\": 0.5, \"mode\": \"fan_out\", \"distribution\": \"uniform\"")),
         {.kind = CLQ_INITIALISER_VARIANCE_SCALING,
          .scale = 0.5,
          .fan = CLQ_FAN_OUT,
          .distribution = CLQ_DISTRIBUTION_UNIFORM}},
        {DENSE_WITH(OF_CLASS("VarianceScaling", "\"scale\": 2.0, \"distribution\": \"normal\"")), he}, /* Keras 2 */
        {DENSE_WITH(OF_CLASS("VarianceScaling", "\"mode\": \"fan_avg\", \"distribution\": \"untruncated_normal\"")),
         {.kind = CLQ_INITIALISER_VARIANCE_SCALING,
          .scale = 1,
          .fan = CLQ_FAN_MEAN,
          .distribution = CLQ_DISTRIBUTION_NORMAL}},
        {DENSE_WITH("\"lecun_uniform\""),
         {.kind = CLQ_INITIALISER_VARIANCE_SCALING, .scale = 1, .distribution = CLQ_DISTRIBUTION_UNIFORM}},
        {DENSE_WITH("\"glorot_normal\""), {.kind = CLQ_INITIALISER_VARIANCE_SCALING, .scale = 1, .fan = CLQ_FAN_MEAN}},
        {DENSE_WITH(OF_CLASS("Orthogonal", "\"gain\": 0.5, \"seed\": null")),
         {.kind = CLQ_INITIALISER_ORTHOGONAL, .gain = 0.5}},
        {DENSE_WITH("\"identity\""), {.kind = CLQ_INITIALISER_IDENTITY, .gain = 1}},
        {DENSE_WITH("null"),
         {.kind = CLQ_INITIALISER_VARIANCE_SCALING,
          .scale = 1,
          .fan = CLQ_FAN_MEAN,
          .distribution = CLQ_DISTRIBUTION_UNIFORM}},
    };
    static const char *const refused[][2] = {
        {DENSE_WITH("\"magic\""), "kernel_initializer: 'magic' is not supported; expected zeros, ones, constant"},
        {DENSE_WITH("3"), "kernel_initializer: should name an initializer"},
        {DENSE_WITH("{\"class_name\": \"Zeros\", \"config\": 3}"), "Zeros: its config should be an object"},
        {DENSE_WITH(OF_CLASS("HeNormal", "\"input_axes\": [0]")), "HeNormal: input_axes is not supported"},
        {DENSE_WITH(OF_CLASS("Constant", "\"value\": [1, 2]")),
         "Constant: value has a value that is not one of its own"},
        {DENSE_WITH(OF_CLASS("VarianceScaling", "\"mode\": \"fan\"")), "mode has a value that is not one of its own"},
        {DENSE_WITH(OF_CLASS("VarianceScaling", "\"scale\": -1")), "kernel_initializer: scale -1 should be above 0"},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(read); i++) {
        clq_model *model;
        put(read[i].text, strlen(read[i].text));
        if (clq_model_read_keras_json(file, &model) != CLQ_OK) fail_msg("model %zu: %s", i, clq_error_detail());
        if (!same_initialiser(&model->variables[0].initialiser, &read[i].is)) fail_msg("model %zu", i);
        clq_model_destroy(model);
    }
    for (size_t i = 0; i < CLQ_COUNT_OF(refused); i++) {
        clq_model *model;
        put(refused[i][0], strlen(refused[i][0]));
        assert_true(clq_model_read_keras_json(file, &model) != CLQ_OK);
        expect_text(clq_error_detail(), refused[i][1]);
    }
}

/* ---- Keras 2 ---- */

#define OLD_DENSE(name, more)                                                                                          \
    "{\"class_name\": \"Dense\", \"name\": \"" name "\", \"config\": {\"name\": \"" name                               \
    "\", \"trainable\": true, \"dtype\": \"float32\", \"units\": 3, \"activation\": \"linear\", \"use_bias\": true, "  \
    "\"kernel_initializer\": {\"class_name\": \"VarianceScaling\", \"config\": {\"scale\": 1.0, \"mode\": "            \
    "\"fan_avg\", "                                                                                                    \
    "\"distribution\": \"uniform\", \"seed\": null}}, \"bias_initializer\": {\"class_name\": \"Zeros\", \"config\": "  \
    "{}}" more
#define OLD_INPUT                                                                                                      \
    "{\"class_name\": \"InputLayer\", \"name\": \"i\", \"config\": {\"batch_input_shape\": [null, 4], \"dtype\": "     \
    "\"float32\", \"sparse\": false, \"ragged\": false, \"name\": \"i\"}, \"inbound_nodes\": []}, "
#define OLD_FUNCTIONAL(class, layers)                                                                                  \
    "{\"class_name\": \"" class "\", \"config\": {\"name\": \"m\", \"trainable\": true, \"layers\": [" OLD_INPUT       \
        layers "], \"input_layers\": [[\"i\", 0, 0]], \"output_layers\": [[\"last\", 0, 0]]}, \"keras_version\": "     \
                                "\"2.11.0\", "                                                                         \
                                "\"backend\": \"tensorflow\"}"

/* What it wrote, by hand after its get_config: nodes as [[layer, node, tensor, keywords]], an input's shape in any
 * first layer, axes as lists. */
static void models_of_keras_2(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t variables;
    } read[] = {
        {OLD_FUNCTIONAL("Functional", OLD_DENSE("last", "}, \"inbound_nodes\": [[[\"i\", 0, 0, {}]]]}")), 2},
        {OLD_FUNCTIONAL("Model", OLD_DENSE("last", "}, \"inbound_nodes\": [[\"i\", 0, 0, {\"training\": false}]]}")),
         2},
        {OLD_FUNCTIONAL(
             "Functional",
             OLD_DENSE("a", "}, \"inbound_nodes\": [[[\"i\", 0, 0, {}]]]}, ") OLD_DENSE(
                 "b", "}, \"inbound_nodes\": [[[\"i\", 0, 0]]]}, ") "{\"class_name\": \"Add\", \"name\": \"last\", "
                                                                    "\"config\": {\"name\": \"last\", "
                                                                    "\"trainable\": true, \"dtype\": \"float32\"}, "
                                                                    "\"inbound_nodes\": [[[\"a\", 0, 0, {}], "
                                                                    "[\"b\", 0, 0, {}]]]}"),
         4},
        {"{\"class_name\": \"Sequential\", \"config\": {\"name\": \"s\", \"layers\": [" OLD_DENSE(
             "last", ", \"batch_input_shape\": [null, 4]}}") "]}, \"keras_version\": \"2.4.0\"}",
         2},
        {"{\"class_name\": \"Sequential\", \"config\": [" OLD_DENSE(
             "last", ", \"batch_input_shape\": [null, 4]}}") ", "
                                                             "{\"class_name\": \"BatchNormalization\", \"config\": "
                                                             "{\"name\": \"n\", \"axis\": [1]}}]}",
         6},
    };
    static const char *const refused[][2] = {
        {OLD_FUNCTIONAL("Functional", OLD_DENSE("last", "}, \"inbound_nodes\": [[]]}")), "reads 1 to"},
        {OLD_FUNCTIONAL("Functional", OLD_DENSE("last", "}, \"inbound_nodes\": [[[\"i\", 0]]]}")),
         "as Keras 2 writes it"},
        {OLD_FUNCTIONAL("Functional", OLD_DENSE("last", "}, \"inbound_nodes\": [[[\"x\", 0, 0, {}]]]}")),
         "no layer of the file is named 'x'"},
        {OLD_FUNCTIONAL("Functional", OLD_DENSE("last", "}, \"inbound_nodes\": [[[\"i\", 0, 0, {\"mask\": 1}]]]}")),
         "kwargs.mask is not supported"},
        {OLD_FUNCTIONAL("Functional", OLD_DENSE("last", "}, \"inbound_nodes\": [[7]]}")), "as Keras 2 writes it"},
        {"{\"class_name\": \"Sequential\", \"config\": [" OLD_DENSE("last", "}}") "]}", "say the input's shape"},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(read); i++) {
        clq_model *model;
        put(read[i].text, strlen(read[i].text));
        if (clq_model_read_keras_json(file, &model) != CLQ_OK) fail_msg("model %zu: %s", i, clq_error_detail());
        assert_int_equal(clq_model_variable_count(model), read[i].variables);
        assert_int_equal(clq_model_input_shape(model).dims[0], 4);
        assert_int_equal(clq_model_output_shape(model, 0).dims[0], 3);
        clq_model_destroy(model);
    }
    for (size_t i = 0; i < CLQ_COUNT_OF(refused); i++) {
        clq_model *model;
        put(refused[i][0], strlen(refused[i][0]));
        assert_true(clq_model_read_keras_json(file, &model) != CLQ_OK);
        expect_text(clq_error_detail(), refused[i][1]);
    }
}

/* A model that applies one within it a hundred times, in a chain, which does the same: few bytes, and many layers. */
static json_t *model_within(unsigned levels) {
    enum { CALLS = 100 };
    json_t *nodes = json_array(), *layers = json_array(), *arguments;
    const char *inner = levels > 0 ? "inner" : "act";
    for (int i = 0; i < CALLS; i++) {
        arguments = json_pack("[{s:s, s:{s:[s, i, i]}}]", "class_name", "__keras_tensor__", "config", "keras_history",
                              i == 0 ? "x" : inner, i == 0 ? 0 : i - 1, 0);
        json_array_append_new(nodes, json_pack("{s:o, s:{}}", "args", arguments, "kwargs"));
    }
    json_t *layer = levels > 0 ? model_within(levels - 1)
                               : json_pack("{s:s, s:{s:s, s:s}}", "class_name", "Activation", "config", "name", "act",
                                           "activation", "relu");
    json_object_set_new(layer, "name", json_string(inner));
    json_object_set_new(layer, "inbound_nodes", nodes);
    json_array_append_new(layers, json_pack("{s:s, s:s, s:{s:s, s:[n, i]}, s:[]}", "class_name", "InputLayer", "name",
                                            "x", "config", "name", "x", "batch_shape", 2, "inbound_nodes"));
    json_array_append_new(layers, layer);
    return json_pack("{s:s, s:{s:s, s:o, s:[[s, i, i]], s:[[s, i, i]]}}", "class_name", "Functional", "config", "name",
                     "model", "layers", layers, "input_layers", "x", 0, 0, "output_layers", inner, CALLS - 1, 0);
}

static void models_that_multiply(void **state) {
    (void)state;
    clq_model *model;
    json_t *few = model_within(1), *many = model_within(4);
    if (read_json(few, &model) != CLQ_OK) fail_msg("%s", clq_error_detail());
    clq_model_destroy(model);
    assert_int_equal(read_json(many, &model), CLQ_UNSUPPORTED);
    expect_text(clq_error_detail(), "calls of layers are not supported");
    json_decref(few);
    json_decref(many);
}

/* A Functional model of one input, `x`, whose shape is given, and these layers, of which the last is the output. */
static clq_status read_layers(const char *shape, const char *layers, const char *last, clq_model **model) {
    char *text = clq_strprintf("{\"class_name\": \"Functional\", \"config\": {\"name\": \"m\", \"layers\": ["
                               "{\"class_name\": \"InputLayer\", \"name\": \"x\", \"config\": {\"name\": \"x\", "
                               "\"batch_shape\": %s}, \"inbound_nodes\": []}, %s], \"input_layers\": [[\"x\", 0, 0]], "
                               "\"output_layers\": [[\"%s\", 0, 0]]}}",
                               shape, layers, last);
    put(text, strlen(text));
    clq_free(text);
    return clq_model_read_keras_json(file, model);
}

#define TENSOR(layer, node)                                                                                            \
    "{\"class_name\": \"__keras_tensor__\", \"config\": {\"keras_history\": [\"" layer "\", " #node ", 0]}}"

/* What calls say beside tensors: the same in each, and within the ranges of what follows. */
static void calls_of_layers(void **state) {
    (void)state;
    clq_model *model;
    const char *item =
        "{\"class_name\": \"GetItem\", \"module\": \"keras.src.ops.numpy\", \"name\": \"y\", "
        "\"config\": {\"name\": \"y\"}, \"inbound_nodes\": [{\"args\": [" TENSOR(
            "x", 0) ", [{\"class_name\": \"__slice__\", \"config\": {\"start\": null, \"stop\": null, \"step\": "
                    "null}}, %s]], \"kwargs\": {}}]}";
    const char *attention =
        "{\"class_name\": \"MultiHeadAttention\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"num_heads\": 1, "
        "\"key_dim\": 2}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) ", " TENSOR(
            "x", 0) "], \"kwargs\": {%s}}, "
                    "{\"args\": [" TENSOR("y", 0) ", " TENSOR("y", 0) "], \"kwargs\": {%s}}]}";
    const struct {
        const char *shape, *layer, *parts[2], *says; /* NULL: it is read */
    } cases[] = {
        {"[null, 2, 2, 2, 2, 2, 2]", item, {"null", ""}, "too many axes"},
        {"[null, 2, 2, 2, 2, 2]", item, {"null, null", ""}, "too many axes"},
        {"[null, 2, 2, 2, 2, 2]", item, {"null", ""}, NULL},
        {"[null, 1, 3]", item, {"-9223372036854775808", ""}, "args"},
        {"[null, 3, 4]", attention, {"\"use_causal_mask\": true", "\"use_causal_mask\": true"}, NULL},
        {"[null, 3, 4]", attention, {"\"use_causal_mask\": false", ""}, NULL},
        {"[null, 3, 4]", attention, {"\"use_causal_mask\": true", ""}, "other keywords than the first"},
        {"[null, 3, 4]", attention, {"", "\"use_causal_mask\": true"}, "other keywords than the first"},
        {"[null, 2, 3, 4]",
         attention,
         {"\"use_causal_mask\": true", "\"use_causal_mask\": true"},
         "(tokens, channels)"},
        {"[null, 70000, 4]", attention, {"", ""}, "its pairs of tokens"},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        char *layer = clq_strprintf(cases[i].layer, cases[i].parts[0], cases[i].parts[1]);
        const clq_status status = read_layers(cases[i].shape, layer, "y", &model);
        clq_free(layer);
        if (cases[i].says && status == CLQ_OK) fail_msg("case %zu was read", i);
        if (cases[i].says) expect_text(clq_error_detail(), cases[i].says);
        if (!cases[i].says && status != CLQ_OK) fail_msg("case %zu: %s", i, clq_error_detail());
        if (status == CLQ_OK) clq_model_destroy(model);
    }
}

/* What a layer may be given beside tensors, and layers within layers. */
static void layers_within_and_beside(void **state) {
    (void)state;
    static const struct {
        const char *shape, *layer, *says; /* NULL: it is read */
    } cases[] = {
        {"[null, 3, 4]",
         "{\"class_name\": \"MultiHeadAttention\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"num_heads\": 1, "
         "\"key_dim\": 2}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) ", " TENSOR(
             "x", 0) "]}, {\"args\": [" TENSOR("y", 0) ", " TENSOR("y", 0) ", " TENSOR("y", 0) "]}]}",
         "more or fewer tensors"},
        {"[null, 100000000, 2, 2]",
         "{\"class_name\": \"TimeDistributed\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"layer\": "
         "{\"class_name\": \"GlobalAveragePooling1D\", \"config\": {\"name\": \"g\"}}}, \"inbound_nodes\": "
         "[{\"args\": [" TENSOR("x", 0) "]}]}",
         "more than 1024 steps"},
        {"[null, 3, 4]",
         "{\"class_name\": \"Bidirectional\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"merge_mode\": \"sum\", "
         "\"layer\": {\"class_name\": \"LSTM\", \"config\": {\"name\": \"l\", \"units\": 2}}}, \"inbound_nodes\": "
         "[{\"args\": [" TENSOR("x", 0) ", " TENSOR("x", 0) "]}]}",
         "by their names alone"},
        {"[null, 3, 4]",
         "{\"class_name\": \"Bidirectional\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"merge_mode\": \"sum\", "
         "\"layer\": {\"class_name\": \"LSTM\", \"config\": {\"name\": \"l\", \"units\": 2}}}, \"inbound_nodes\": "
         "[[[\"x\", 0, 0, {}]]]}",
         NULL},
        {"[null, 3, 4]",
         "{\"class_name\": \"Bidirectional\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"merge_mode\": \"sum\", "
         "\"layer\": {\"class_name\": \"LSTM\", \"config\": {\"name\": \"output\", \"units\": 2, \"return_sequences\": "
         "true}}}, "
         "\"inbound_nodes\": [[[\"x\", 0, 0, {}]]]}",
         NULL},
        {"[null, 3, 4]",
         "{\"class_name\": \"Bidirectional\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"merge_mode\": \"sum\", "
         "\"layer\": {\"class_name\": \"LSTM\", \"config\": {\"name\": \"turned\", \"units\": 2, \"return_sequences\": "
         "true}}}, "
         "\"inbound_nodes\": [[[\"x\", 0, 0, {}]]]}",
         NULL},
        {"[null, 3, 4]",
         "{\"class_name\": \"Bidirectional\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"merge_mode\": \"sum\", "
         "\"layer\": {\"class_name\": \"LSTM\", \"config\": {\"name\": \"sequences\", \"units\": 2, "
         "\"return_sequences\": true}}, \"backward_layer\": {\"class_name\": \"LSTM\", \"config\": {\"name\": "
         "\"same\", \"units\": 2, \"return_sequences\": true, \"go_backwards\": true}}}, "
         "\"inbound_nodes\": [[[\"x\", 0, 0, {}]]]}",
         NULL},
        {"[null, 3, 4]",
         "{\"class_name\": \"Bidirectional\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"merge_mode\": \"sum\", "
         "\"layer\": {\"class_name\": \"LSTM\", \"config\": {\"name\": \"same\", \"units\": 2, \"return_sequences\": "
         "true}}, \"backward_layer\": {\"class_name\": \"LSTM\", \"config\": {\"name\": \"same\", \"units\": 2, "
         "\"return_sequences\": true, \"go_backwards\": true}}}, "
         "\"inbound_nodes\": [[[\"x\", 0, 0, {}]]]}",
         NULL},
        {"[null, 3, 4]",
         "{\"class_name\": \"Bidirectional\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"merge_mode\": \"sum\", "
         "\"layer\": {\"class_name\": \"LSTM\", \"config\": {\"name\": \"aéééééééééééééééééééééééééééééé\", \"units\": "
         "2, \"return_sequences\": true}}}, "
         "\"inbound_nodes\": [[[\"x\", 0, 0, {}]]]}",
         NULL},
        {"[null, 3, 4, 4]",
         "{\"class_name\": \"TimeDistributed\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"layer\": "
         "{\"class_name\": \"Dense\", \"config\": {\"name\": \"output\", \"units\": 2}}}, \"inbound_nodes\": "
         "[{\"args\": [" TENSOR("x", 0) "]}]}",
         NULL},
        {"[null, 3, 4, 4]",
         "{\"class_name\": \"TimeDistributed\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"layer\": "
         "{\"class_name\": \"Dense\", \"config\": {\"name\": \"inputs\", \"units\": 2}}}, \"inbound_nodes\": "
         "[{\"args\": [" TENSOR("x", 0) "]}]}",
         NULL},
        {"[null, 3, 4, 4]",
         "{\"class_name\": \"TimeDistributed\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"layer\": "
         "{\"class_name\": \"Conv1D\", \"config\": {\"name\": \"output\", \"filters\": 2, \"kernel_size\": [2]}}}, "
         "\"inbound_nodes\": "
         "[{\"args\": [" TENSOR("x", 0) "]}]}",
         NULL},
        {"[null, 3, 4, 4]",
         "{\"class_name\": \"TimeDistributed\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"layer\": "
         "{\"class_name\": \"Conv1D\", \"config\": {\"name\": \"step_0\", \"filters\": 2, \"kernel_size\": [2]}}}, "
         "\"inbound_nodes\": "
         "[{\"args\": [" TENSOR("x", 0) "]}]}",
         NULL},
        {"[null, 3, 4, 4]",
         "{\"class_name\": \"TimeDistributed\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"layer\": "
         "{\"class_name\": \"Conv1D\", \"config\": {\"name\": \"inputs\", \"filters\": 2, \"kernel_size\": [2]}}}, "
         "\"inbound_nodes\": "
         "[{\"args\": [" TENSOR("x", 0) "]}]}",
         NULL},
        {"[null, 3, 4]",
         "{\"class_name\": \"Bidirectional\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"merge_mode\": \"sum\", "
         "\"layer\": {\"class_name\": \"LSTM\", \"config\": {\"name\": \"l\", \"units\": 2}}, \"backward_layer\": "
         "{\"class_name\": \"LSTM\", \"config\": {\"name\": \"m\", \"units\": 2}}}, \"inbound_nodes\": "
         "[{\"args\": [" TENSOR("x", 0) "]}]}",
         "backward_layer: it goes the same way"},
        {"[null, 3, 4]",
         "{\"module\": \"keras_hub.src.models.gpt_neo_x.gpt_neo_x_decoder\", \"class_name\": \"GPTNeoXDecoder\", "
         "\"name\": \"y\", \"config\": {\"name\": \"y\", \"intermediate_dim\": 4, \"num_heads\": 1, "
         "\"rotary_percentage\": -0.5}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "rotary_percentage: should be above 0"},
        {"[null, 3, 4]",
         "{\"class_name\": \"Masking\", \"name\": \"m\", \"config\": {\"name\": \"m\"}, \"inbound_nodes\": "
         "[{\"args\": [" TENSOR("x",
                                0) "]}]}, "
                                   "{\"module\": \"keras_hub.src.models.gpt_neo_x.gpt_neo_x_decoder\", \"class_name\": "
                                   "\"GPTNeoXDecoder\", "
                                   "\"name\": \"y\", \"config\": {\"name\": \"y\", \"intermediate_dim\": 4, "
                                   "\"num_heads\": 1, \"rotary_percentage\": 0.5}, "
                                   "\"inbound_nodes\": [{\"args\": [" TENSOR("m", 0) "]}]}",
         "drop mask_zero and give decoder_padding_mask"},
        {"[null, 1, 8192]",
         "{\"module\": \"keras_hub.src.models.bloom.bloom_decoder\", \"class_name\": \"BloomDecoder\", \"name\": "
         "\"y\", \"config\": {\"name\": \"y\", \"intermediate_dim\": 4, \"num_heads\": 8192}, \"inbound_nodes\": "
         "[{\"args\": [" TENSOR("x", 0) "]}]}",
         "num_heads: more than 4096"},
        {"[null, 3, 4]",
         "{\"module\": \"keras_hub.src.models.mistral.mistral_transformer_decoder\", \"class_name\": "
         "\"MistralTransformerDecoder\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"intermediate_dim\": 4, "
         "\"num_query_heads\": 2, \"num_key_value_heads\": 1, \"sliding_window\": 0}, \"inbound_nodes\": "
         "[{\"args\": [" TENSOR("x", 0) "]}]}",
         "sliding_window: should be above 0"},
        {"[null, 65, 4, 4, 1]",
         "{\"class_name\": \"ConvLSTM2D\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"filters\": 1, "
         "\"kernel_size\": [1, 1]}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "more than 64 steps"},
        {"[null, 1, 1, 2, 1]",
         "{\"class_name\": \"Conv3D\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"filters\": 1, \"padding\": "
         "\"same\", \"kernel_size\": [1, 1, 257]}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "more than 256 places"},
        {"[null, 4]",
         "{\"class_name\": \"Dense\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"units\": 2, "
         "\"kernel_constraint\": {\"module\": \"keras.constraints\", \"class_name\": \"MaxNorm\", \"config\": 7}}, "
         "\"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "kernel_constraint"},
        {"[null, 3, 4]",
         "{\"class_name\": \"ReversibleEmbedding\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"input_dim\": 7, "
         "\"output_dim\": 5}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "], \"kwargs\": {\"reverse\": true}}]}",
         "rows of 5 channels, not (3, 4)"},
        {"[null, 4]",
         "{\"class_name\": \"Dense\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"units\": 2, "
         "\"kernel_regularizer\": {\"module\": \"my.package\", \"class_name\": \"L2\", \"config\": {\"l2\": 1}}}, "
         "\"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "kernel_regularizer: L2 is not supported"},
        {"[null, 4]",
         "{\"class_name\": \"Dense\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"units\": 2, \"use_bias\": "
         "false, "
         "\"bias_regularizer\": \"l2\"}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         NULL},
        {"[null, 4]",
         "{\"class_name\": \"Dense\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"units\": 2, "
         "\"kernel_constraint\": {\"module\": \"my.package\", \"class_name\": \"NonNeg\", \"config\": {}}}, "
         "\"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "kernel_constraint: NonNeg is not supported"},
        {"[null, 4]",
         "{\"class_name\": \"Dense\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"units\": 2, "
         "\"kernel_constraint\": {\"class_name\": \"MaxNorm\", \"config\": {\"max_value\": 1, \"min_value\": 0}}}, "
         "\"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "kernel_constraint: MaxNorm is not supported"},
        {"[null, 4]",
         "{\"class_name\": \"Dense\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"units\": 2, "
         "\"kernel_constraint\": {\"class_name\": \"UnitNorm\", \"config\": {\"axis\": []}}}, "
         "\"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "kernel_constraint: UnitNorm is not supported"},
        {"[null, 4]",
         "{\"class_name\": \"Dense\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"units\": 2, "
         "\"kernel_constraint\": {\"class_name\": \"UnitNorm\", \"config\": {\"axis\": [1, 2]}}}, "
         "\"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "axis 2 is none of the variable's 2"},
        {"[null, 3, 4, 4, 2]",
         "{\"class_name\": \"ConvLSTM2D\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"filters\": 2, "
         "\"kernel_size\": [2, 2], \"dropout\": 0.5}, "
         "\"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "dropout"},
        {"[null, 3, 4, 4, 2]",
         "{\"class_name\": \"ConvLSTM2D\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"filters\": 2, "
         "\"kernel_size\": [2, 2], \"return_state\": true}, "
         "\"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "return_state"},
        {"[null, 3, 4, 4, 2]",
         "{\"class_name\": \"ConvLSTM2D\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"filters\": 2, "
         "\"kernel_size\": [2, 2], \"activation\": \"softmax\"}, "
         "\"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         "activation 'softmax' is not supported"},
        {"[null, 3, 4, 4, 2]",
         "{\"class_name\": \"ConvLSTM2D\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"filters\": 2, "
         "\"kernel_size\": [2, 2]}, "
         "\"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         NULL},
        {"[null, 4]",
         "{\"class_name\": \"Dense\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"units\": 2, "
         "\"use_bias\": false, \"bias_constraint\": \"non_neg\", \"kernel_constraint\": \"MaxNorm\"}, "
         "\"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "]}]}",
         NULL},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        clq_model *model;
        const clq_status status = read_layers(cases[i].shape, cases[i].layer, "y", &model);
        if (cases[i].says && status == CLQ_OK) fail_msg("case %zu was read", i);
        if (cases[i].says) expect_text(clq_error_detail(), cases[i].says);
        if (!cases[i].says && status != CLQ_OK) fail_msg("case %zu: %s", i, clq_error_detail());
        if (status == CLQ_OK) clq_model_destroy(model);
    }
}

/* Sizes that a file leaves open, and what says them. */
static void open_sizes(void **state) {
    (void)state;
    const clq_shape images = {3, {20, 30, 3}}, partly = {3, {0, 30, 0}}, wide = {3, {20, 30, 4}}, flat = {1, {7}};
    const clq_shape two[] = {images, flat};
    const struct {
        const char *shape;
        clq_keras_sizes sizes;
        clq_status status;
        const char *says;
        size_t dims[2];
    } cases[] = {
        {"[null, null, null, 3]", {.open = 9}, CLQ_OK, NULL, {9, 9}},
        {"[null, 5, null, 3]", {.open = 9}, CLQ_OK, NULL, {5, 9}},
        {"[null, null, null, 3]", {.shapes = &images, .count = 1}, CLQ_OK, NULL, {20, 30}},
        {"[null, 20, 30, 3]", {.shapes = &images, .count = 1}, CLQ_OK, NULL, {20, 30}},
        {"[null, null, null, 3]", {.open = 9, .shapes = &partly, .count = 1}, CLQ_OK, NULL, {9, 30}},
        {"[null, null, null, 3]", {.open = 0}, CLQ_UNSUPPORTED, "batch_shape[1] is open", {0}},
        {"[null, null, null, 3]", {.shapes = &partly, .count = 1}, CLQ_UNSUPPORTED, "batch_shape[1] is open", {0}},
        {"[null, null, null, 3]", {.shapes = &wide, .count = 1}, CLQ_MISMATCH, "batch_shape[3] is 3", {0}},
        {"[null, null, null, 3]", {.shapes = &flat, .count = 1}, CLQ_MISMATCH, "3 axes behind the batch", {0}},
        {"[null, null, null, 3]", {.shapes = two, .count = 2}, CLQ_MISMATCH, "shapes of 2 inputs", {0}},
    };
    const char *layer =
        "{\"class_name\": \"Activation\", \"name\": \"y\", \"config\": {\"name\": \"y\", "
        "\"activation\": \"relu\"}, \"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "], \"kwargs\": {}}]}";
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        clq_model *model;
        /* This puts the file there, whatever becomes of it. */
        if (read_layers(cases[i].shape, layer, "y", &model) == CLQ_OK) clq_model_destroy(model);
        const clq_status status = clq_model_read_keras_json_sized(file, &cases[i].sizes, &model);
        if (status != cases[i].status) fail_msg("case %zu: %s", i, clq_error_detail());
        if (status != CLQ_OK) {
            expect_text(clq_error_detail(), cases[i].says);
            continue;
        }
        assert_int_equal(clq_model_output_shape(model, 0).dims[0], cases[i].dims[0]);
        assert_int_equal(clq_model_output_shape(model, 0).dims[1], cases[i].dims[1]);
        clq_model_destroy(model);
    }
}

/* Of a Sequential file without any shape. */
static void shapes_of_none(void **state) {
    (void)state;
    clq_model *model;
    const clq_shape shape = {1, {4}};
    const clq_keras_sizes sizes = {.shapes = &shape, .count = 1};
    const char *text = "{\"class_name\": \"Sequential\", \"config\": [" OLD_DENSE("last", "}}") "]}";
    put(text, strlen(text));
    assert_int_equal(clq_model_read_keras_json_sized(file, NULL, &model), CLQ_FORMAT);
    assert_int_equal(clq_model_read_keras_json_sized(file, &sizes, &model), CLQ_OK);
    assert_int_equal(clq_model_input_shape(model).dims[0], 4);
    clq_model_destroy(model);
}

/* A layer within a frozen model is not trained, whatever it says itself. */
static void frozen_models_within(void **state) {
    (void)state;
    clq_model *model;
    clq_variable_info info;
    const char *inner =
        "{\"class_name\": \"Sequential\", \"name\": \"y\", \"config\": {\"name\": \"y\", \"trainable\": false, "
        "\"layers\": [{\"class_name\": \"Dense\", \"config\": {\"name\": \"d\", \"units\": 2, \"trainable\": true}}]}, "
        "\"inbound_nodes\": [{\"args\": [" TENSOR("x", 0) "], \"kwargs\": {}}]}";
    if (read_layers("[null, 3]", inner, "y", &model) != CLQ_OK) fail_msg("%s", clq_error_detail());
    assert_int_equal(clq_model_variable(model, 0, &info), CLQ_OK);
    assert_string_equal(info.name, "y.d/kernel");
    assert_false(info.trainable);
    clq_model_destroy(model);
}

static int start(void **state) {
    (void)state;
    static const char *const names[] = {"layers", "branched", "normalised"};
    entries = json_array();
    for (size_t i = 0; i < CLQ_COUNT_OF(names); i++) {
        char *path = clq_strprintf("%s/tests/golden/%s.json", getenv("CLQ_TEST_SOURCE"), names[i]);
        json_t *root;
        if (clq_json_read(path, 1 << 24, 64, &root) != CLQ_OK) return -1;
        clq_free(path);
        if (json_array_extend(entries, json_object_get(root, "models")) != 0) return -1;
        json_decref(root);
    }
    strcpy(file, "/tmp/clique-keras-json-XXXXXX");
    handle = mkstemp(file);
    return handle < 0 ? -1 : 0;
}

static int end(void **state) {
    (void)state;
    json_decref(entries);
    return close(handle) + unlink(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(layers_of_keras),
                                       cmocka_unit_test(damaged_values),
                                       cmocka_unit_test(cut_short_and_out_of_memory),
                                       cmocka_unit_test(long_chains),
                                       cmocka_unit_test(initialisers_of_keras),
                                       cmocka_unit_test(models_of_keras_2),
                                       cmocka_unit_test(models_that_multiply),
                                       cmocka_unit_test(calls_of_layers),
                                       cmocka_unit_test(layers_within_and_beside),
                                       cmocka_unit_test(open_sizes),
                                       cmocka_unit_test(shapes_of_none),
                                       cmocka_unit_test(frozen_models_within)};
    return cmocka_run_group_tests(tests, start, end);
}
