/* Forms that Keras's files have: initialisers by name and as objects, and what Keras 2 wrote. */
#include "interop/keras_text.h"

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

/* Of a Sequential file without any shape. */
static void shapes_of_none(void **state) {
    (void)state;
    clq_model *model;
    const clq_shape shape = {1, {4}};
    const clq_keras_sizes sizes = {.shapes = &shape, .count = 1};
    const char *text = "{\"class_name\": \"Sequential\", \"config\": [" OLD_DENSE("last", "}}") "]}";
    put(text, strlen(text));
    assert_int_equal(clq_model_read_keras_json_sized(file, NULL, &model), CLQ_ERROR_FORMAT);
    assert_int_equal(clq_model_read_keras_json_sized(file, &sizes, &model), CLQ_OK);
    assert_int_equal(clq_model_input_shape(model).dims[0], 4);
    clq_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(initialisers_of_keras), cmocka_unit_test(models_of_keras_2),
                                       cmocka_unit_test(shapes_of_none)};
    return cmocka_run_group_tests_name("interop/keras_forms", tests, open_file, close_file);
}
